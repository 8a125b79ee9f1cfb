"""Creation functions of the standard. Constants and ranges have no storage: they are computed where they are
used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rangeify.array_api import dtypes
from rangeify.array_api.array import Array, is_default
from rangeify.errors import (
    ArgumentError,
    CallError,
    ConstantError,
    DTypeError,
    ShapeError,
    SharingError,
    UnsupportedError,
)
from rangeify.reduction import arange as _counter
from rangeify.signatures import checked
from rangeify.storage import as_array, dtype_of, numpy_dtype
from rangeify.tensor import Tensor
from uopgraph import DType, UOp
from uopgraph import dtypes as _d


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(s, int) for s in sizes):
        raise UnsupportedError("symbolic sizes in rangeify.array_api")
    if any(not 0 <= s < 2**63 for s in sizes):
        raise ShapeError(f"negative or too large size in {sizes}")
    return sizes


def _on(device: Any) -> None:
    if not is_default(device):
        raise UnsupportedError(f"creation on device {device!r}")


def _default(value: Any) -> DType:
    """The dtype of a Python number without one."""
    if isinstance(value, bool):
        return _d.bool
    if isinstance(value, int):
        return dtypes.DEFAULT_INT
    if isinstance(value, float):
        return dtypes.DEFAULT_FLOAT
    if isinstance(value, complex):
        raise UnsupportedError("complex numbers")
    raise DTypeError(f"no array of {type(value).__name__}")


def _python_values(obj: Any) -> list[Any]:
    """All numbers of nested sequences; arrays among them as they are."""
    if isinstance(obj, list | tuple):
        return [v for item in obj for v in _python_values(item)]
    return [obj]


@checked
def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None
) -> Array:
    """An array of an array, a Python number, nested sequences, or an object with a buffer.

    The value is copied, once one of the two is written to; with ``copy=False`` the result and the array that
    was given stay one: a write to either is a write to both, and what cannot be shared raises ValueError.
    Raises OverflowError for an integer that the dtype does not hold.
    """
    _on(device)
    wanted = None if dtype is None else dtypes.as_dtype(dtype, "asarray")
    if isinstance(obj, Array):
        if copy is False and wanted not in (None, obj.dtype):
            raise ArgumentError("a conversion needs a copy")
        if copy is False:
            return Array(obj.tensor)
        return Array.of(obj.node if wanted is None else obj.node.cast(wanted))
    if copy is False:
        raise ArgumentError("asarray of anything but an array makes a copy")
    if isinstance(obj, bool | int | float | complex) and not isinstance(obj, np.generic):
        target = _default(obj) if wanted is None else wanted
        return Array.of(_constant(obj, target))
    if isinstance(obj, list | tuple):
        return _from_sequence(obj, wanted)
    if isinstance(obj, Tensor):
        return asarray(Array(Tensor(obj)), dtype=wanted)
    array = np.asarray(obj)
    if array.dtype.kind == "c":
        raise UnsupportedError("complex numbers")
    target = dtypes.as_dtype(dtype_of(array.dtype), "asarray") if wanted is None else wanted
    return Array(Tensor(array.astype(numpy_dtype(target))))


def _constant(value: Any, dtype: DType) -> UOp:
    if isinstance(value, complex):
        raise UnsupportedError("complex numbers")
    if dtype.is_int and isinstance(value, int) and not dtype.min <= value <= dtype.max:
        raise ConstantError(f"{value} is out of range for {dtype.name}")
    return UOp.const(value, dtype)


def _from_sequence(obj: Sequence[Any], wanted: DType | None) -> Array:
    values = _python_values(obj)
    if any(isinstance(v, np.ndarray | np.generic) for v in values):
        return asarray(as_array(obj), dtype=wanted)
    arrays = [v for v in values if isinstance(v, Array)]
    if arrays and any(v.ndim for v in arrays):
        from rangeify.array_api.manipulation import stack

        return stack([asarray(item, dtype=wanted) for item in obj])
    if wanted is None:
        found = [v.dtype if isinstance(v, Array) else _default(v) for v in values]
        kinds = [d for d in (_d.bool, dtypes.DEFAULT_INT, dtypes.DEFAULT_FLOAT) if d in found]
        wanted = kinds[-1] if kinds else dtypes.DEFAULT_FLOAT
        if arrays:
            wanted = dtypes.promote(*(a.dtype for a in arrays))
    _check_range(values, wanted)
    return Array(Tensor(as_array(_plain(obj), numpy_dtype(wanted))))


def _check_range(values: Sequence[Any], dtype: DType) -> None:
    """Raise for a Python number that `dtype` does not hold."""
    whole = [v for v in values if type(v) is int]
    if whole:
        _constant(min(whole), dtype)
        _constant(max(whole), dtype)
    for v in values:
        if type(v) in (int, bool) or isinstance(v, Array):
            continue
        if type(v) is not float or (dtype.is_int and not dtype.min <= v <= dtype.max):
            _constant(v, dtype)


def _plain(obj: Any) -> Any:
    if isinstance(obj, list | tuple):
        return [_plain(item) for item in obj]
    return obj.tensor.item() if isinstance(obj, Array) else obj


@checked
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of the value of any object with ``__dlpack__``; the value is copied. With ``copy=False`` an
    array of this namespace stays one with the result, and anything else raises BufferError."""
    _on(device)
    if copy is False:
        if isinstance(x, Array):
            return Array(x.tensor)
        raise SharingError(f"from_dlpack makes a copy of what a {type(x).__name__} holds")
    if not hasattr(x, "__dlpack__"):
        raise CallError("from_dlpack", "x", "an object with __dlpack__", type(x).__name__)
    try:
        return asarray(x if isinstance(x, Array) else np.from_dlpack(x))
    except BufferError as error:
        raise UnsupportedError(f"from_dlpack: {error}") from None


@checked
def full(
    shape: int | Sequence[int], fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Array:
    """A constant of a shape."""
    _on(device)
    target = _default(fill_value) if dtype is None else dtypes.as_dtype(dtype, "full")
    node = _constant(fill_value, target)
    sizes = _shape(shape)
    return Array.of(node.expand(sizes) if sizes else node)


@checked
def zeros(shape: int | Sequence[int], *, dtype: DType | None = None, device: Any = None) -> Array:
    """Zeros of a shape."""
    return full(shape, 0, dtype=dtypes.DEFAULT_FLOAT if dtype is None else dtype, device=device)


@checked
def ones(shape: int | Sequence[int], *, dtype: DType | None = None, device: Any = None) -> Array:
    """Ones of a shape."""
    return full(shape, 1, dtype=dtypes.DEFAULT_FLOAT if dtype is None else dtype, device=device)


@checked
def empty(shape: int | Sequence[int], *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array whose values mean nothing: zeros."""
    return zeros(shape, dtype=dtype, device=device)


@checked
def full_like(x: Array, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """A constant of the shape and dtype of x."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


@checked
def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Zeros of the shape and dtype of x."""
    return full_like(x, 0, dtype=dtype, device=device)


@checked
def ones_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Ones of the shape and dtype of x."""
    return full_like(x, 1, dtype=dtype, device=device)


@checked
def empty_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Zeros of the shape and dtype of x; the values mean nothing."""
    return full_like(x, 0, dtype=dtype, device=device)


def counter(n: int, dtype: DType) -> UOp:
    """0 ... n - 1 in any numeric dtype."""
    return _counter(n).cast(dtype)


@checked
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
) -> Array:
    """The numbers from `start` up to `stop` (exclusive) in steps; ``arange(stop)`` starts at 0."""
    _on(device)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("arange with a step of 0")
    numbers = (start, stop, step)
    whole = all(isinstance(v, int) for v in numbers)
    target = (
        dtypes.as_dtype(dtype, "arange")
        if dtype is not None
        else (dtypes.DEFAULT_INT if whole else dtypes.DEFAULT_FLOAT)
    )
    dtypes.require(target, "numeric", "arange")
    if not all(map(math.isfinite, numbers)):
        raise ArgumentError(f"arange of {numbers}")
    n = int(max(-((start - stop) // step) if whole else math.ceil((stop - start) / step), 0))
    if target.is_float:
        wide = counter(n, _d.float64)
        return Array.of(
            (wide * UOp.const(float(step), wide.dtype) + UOp.const(float(start), wide.dtype)).cast(target)
        )
    if n:
        _constant(int(start), target)
        _constant(int(start + (n - 1) * step), target)
    count = counter(n, target)
    return Array.of(count * UOp.const(int(step), target) + UOp.const(int(start), target))


@checked
def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers in equal steps from `start` to `stop`, which is the last one unless `endpoint` is
    false."""
    _on(device)
    target = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype, "linspace")
    if num < 0:
        raise ArgumentError(f"linspace of {num} numbers")
    if isinstance(start, complex) or isinstance(stop, complex):
        raise UnsupportedError("complex numbers")
    steps = num - 1 if endpoint else num
    step = (float(stop) - float(start)) / steps if steps > 0 else 0.0
    wide = counter(num, _d.float64)
    values = wide * UOp.const(step, wide.dtype) + UOp.const(float(start), wide.dtype)
    if endpoint and num > 1:
        values = wide.eq(UOp.const(float(num - 1), wide.dtype)).where(
            UOp.const(float(stop), wide.dtype), values
        )
    return Array.of(values.cast(target))


@checked
def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Array:
    """Ones on diagonal `k`, zeros elsewhere."""
    _on(device)
    target = dtypes.DEFAULT_FLOAT if dtype is None else dtypes.as_dtype(dtype, "eye")
    columns = n_rows if n_cols is None else n_cols
    shape = _shape((n_rows, columns))
    if 0 in shape:
        return zeros(shape, dtype=target)
    return Array.of(_offset(*shape).eq(UOp.const(k, _d.int32)).cast(target))


def _offset(rows: int, columns: int) -> UOp:
    """The column minus the row at each place of a matrix."""
    return counter(columns, _d.int32).reshape(1, columns) + -counter(rows, _d.int32).reshape(rows, 1)


def _triangle(x: Array, k: int, lower: bool) -> Array:
    if x.ndim < 2:
        raise ShapeError(f"a triangle of an array of {x.ndim} dimensions")
    if x.size == 0:
        return Array.of(x.node)
    place = _offset(*x.shape[-2:])
    bound = UOp.const(k, _d.int32)
    keep = (bound < place).logical_not() if lower else (place < bound).logical_not()
    return Array.of(keep.where(x.node, UOp.const(0, x.dtype)))


@checked
def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles of a stack of matrices, up to diagonal `k`."""
    return _triangle(x, k, lower=True)


@checked
def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles of a stack of matrices, from diagonal `k`."""
    return _triangle(x, k, lower=False)


@checked
def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Coordinate arrays of vectors; "xy" swaps the first two axes."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing must be 'xy' or 'ij', not {indexing!r}")
    if len({a.dtype for a in arrays}) > 1:
        raise DTypeError("meshgrid needs arrays of one dtype")
    if any(a.ndim > 1 for a in arrays):
        raise ShapeError("meshgrid needs vectors")
    n = len(arrays)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    shape = [1] * n
    for a, place in zip(arrays, places, strict=True):
        shape[place] = a.size
    out = []
    for a, place in zip(arrays, places, strict=True):
        own = [1] * n
        own[place] = a.size
        out.append(Array.of(a.node.reshape(tuple(own)).expand(tuple(shape))))
    return out


__all__ = [
    *(
        "arange",
        "asarray",
        "empty",
        "empty_like",
        "eye",
        "from_dlpack",
        "full",
        "full_like",
        "linspace",
        "meshgrid",
    ),
    *("ones", "ones_like", "tril", "triu", "zeros", "zeros_like"),
]
