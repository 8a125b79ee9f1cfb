"""The array object of the standard: a :class:`rangeify.Tensor` with the standard's strict typing rules.

Nothing is computed when an expression is written; ``bool``, ``int``, ``float``, ``index``, ``print``,
``np.asarray`` and ``__dlpack__`` compute.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from types import EllipsisType
from typing import Any, Final, Self

import numpy as np

from rangeify import gather
from rangeify.array_api import dtypes
from rangeify.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    ShapeError,
    SharingError,
    UnsupportedError,
)
from rangeify.operands import whole_number
from rangeify.signatures import checked_methods
from rangeify.storage import DEFAULT_DEVICE
from rangeify.tensor import Tensor
from uopgraph import DType, Ops, UOp
from uopgraph import dtypes as _d

#: Versions of the standard that ``__array_namespace__`` gives this namespace for.
VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")

#: Some functions work with twice as many axes, and NumPy, which executes, has at most 64.
MAX_DIMENSIONS: Final = 32


@checked_methods
class Array:
    """An array of the standard. Made by the functions of the namespace, not by calling the class."""

    __slots__ = ("_tensor",)
    __array_priority__ = 1001.0

    def __init__(self, tensor: Tensor) -> None:
        if tensor.dtype not in dtypes.ALL:
            raise UnsupportedError(f"dtype {tensor.dtype.name} in rangeify.array_api")
        if tensor.ndim > MAX_DIMENSIONS:
            raise ShapeError(f"an array has at most {MAX_DIMENSIONS} dimensions, not {tensor.ndim}")
        self._tensor = tensor

    @classmethod
    def of(cls, node: UOp) -> Self:
        """The array of a graph node."""
        return cls(Tensor(node))

    # attributes -----------------------------------------------------------------------------------

    @property
    def tensor(self) -> Tensor:
        """The lazy Tensor behind this array; they share their value."""
        return self._tensor

    @property
    def node(self) -> UOp:
        """The graph node of the present value."""
        return self._tensor.uop

    @property
    def dtype(self) -> DType:
        return self._tensor.dtype

    @property
    def device(self) -> Any:
        """Where the array is; constants are wherever they are used and say the default device."""
        return self._tensor.device or DEFAULT_DEVICE

    @property
    def ndim(self) -> int:
        return self._tensor.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return self._tensor.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._tensor.size

    @property
    def T(self) -> Array:
        """The transpose of a matrix; raises for another number of dimensions."""
        if self.ndim != 2:
            raise ArgumentError("x.T needs two dimensions; use x.mT or permute_dims")
        return Array(self._tensor.transpose())

    @property
    def mT(self) -> Array:
        """The transposes of a stack of matrices."""
        if self.ndim < 2:
            raise ArgumentError("x.mT needs at least two dimensions")
        return Array(self._tensor.transpose())

    def __array_namespace__(self, /, *, api_version: str | None = None) -> types.ModuleType:
        """The namespace. Raises ValueError for a version that it does not implement."""
        from rangeify import array_api

        if api_version is not None and api_version not in VERSIONS:
            raise ArgumentError(
                f"no version {api_version!r} of the array API; there are {', '.join(VERSIONS)}"
            )
        return array_api

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array on a device; a stream is not supported."""
        if stream is not None:
            raise UnsupportedError("streams in to_device")
        if type(device) is type(self.device) and device == self.device:
            return self
        return Array(Tensor(self._tensor, device=device))

    # values ---------------------------------------------------------------------------------------

    def _scalar(self, what: str) -> Any:
        if self.ndim:
            raise DTypeError(f"only a 0-dimensional array converts to {what}, not one of shape {self.shape}")
        return self._tensor.item()

    def __bool__(self) -> bool:
        return bool(self._scalar("a bool"))

    def __int__(self) -> int:
        return whole_number(self._scalar("an int"))

    def __float__(self) -> float:
        return float(self._scalar("a float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("a complex number"))

    def __index__(self) -> int:
        if not self.dtype.is_int:
            raise DTypeError(f"only an integer array is an index, not {self.dtype.name}")
        return int(self._scalar("an index"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._tensor.__array__(dtype, copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the computed value, a copy of its own. Raises BufferError for another device than the
        host."""
        if stream is not None:
            raise ArgumentError("stream must be None for an array in host memory")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise SharingError(f"no export to device {dl_device}")
        if copy is False:
            raise SharingError("a lazy array is exported as a copy of its value")
        value = self._tensor.numpy()
        try:
            return value.__dlpack__(max_version=max_version)
        except TypeError:  # a NumPy older than 2.1 knows no versions
            return value.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): host memory."""
        return (1, 0)

    def __repr__(self) -> str:
        body = np.array2string(self._tensor.numpy(), separator=", ", prefix="Array(")
        return f"Array({body}, dtype={self.dtype.name})"

    def __iter__(self) -> Iterator[Array]:
        """The slices along the first axis; raises TypeError for an array without dimensions."""
        if not self.ndim:
            raise DTypeError("iteration over an array without dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __hash__(self) -> int:
        raise DTypeError("an array is not hashable")

    # indexing -------------------------------------------------------------------------------------

    def __getitem__(self, key: Any, /) -> Array:
        """Integers, slices, None, Ellipsis; or integers and integer arrays only."""
        key = _with_integers(key)
        arrays = _array_key(key, self.ndim)
        if arrays is not None:
            return Array.of(gather.read(self.node, arrays))
        return Array(self._tensor[key])

    def __setitem__(self, key: Any, value: Any, /) -> None:
        """Write `value`, broadcast, in this array's dtype; of several writes to one place the last wins. A
        boolean mask selects elements that all get one value."""
        node = _written(value, self.dtype)
        if isinstance(key, Array) and key.dtype is _d.bool:
            self._tensor[key.tensor] = Tensor(node)
            return
        key = _with_integers(key)
        arrays = _array_key(key, self.ndim)
        if arrays is not None:
            self._tensor.assign(Tensor(gather.write(self.node, arrays, node)))
        else:
            self._tensor[key] = Tensor(node)

    # operators ------------------------------------------------------------------------------------

    def _pair(self, other: Any, kind: str, name: str, swap: bool = False) -> tuple[UOp, UOp] | None:
        """Both operands in their common dtype; None when `other` is neither an array nor a number."""
        if not _is_operand(other):
            return None
        a, b = pair(self, other, kind, name)
        return (b, a) if swap else (a, b)

    def _binary(self, op: Ops, other: Any, kind: str, name: str, swap: bool = False) -> Array:
        nodes = self._pair(other, kind, name, swap)
        return NotImplemented if nodes is None else Array.of(nodes[0].alu(op, nodes[1]))

    def _function(self, function: Any, other: Any, swap: bool = False) -> Array:
        """An operator that is a function of the namespace."""
        if not _is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        found: Array = function(other, self) if swap else function(self, other)
        return found

    def __add__(self, other: Any, /) -> Array:
        return self._binary(Ops.ADD, other, "numeric", "+")

    def __radd__(self, other: Any, /) -> Array:
        return self._binary(Ops.ADD, other, "numeric", "+", swap=True)

    def __sub__(self, other: Any, /) -> Array:
        return self._binary(Ops.SUB, other, "numeric", "-")

    def __rsub__(self, other: Any, /) -> Array:
        return self._binary(Ops.SUB, other, "numeric", "-", swap=True)

    def __mul__(self, other: Any, /) -> Array:
        return self._binary(Ops.MUL, other, "numeric", "*")

    def __rmul__(self, other: Any, /) -> Array:
        return self._binary(Ops.MUL, other, "numeric", "*", swap=True)

    def __truediv__(self, other: Any, /) -> Array:
        return self._binary(Ops.FDIV, other, "real floating", "/")

    def __rtruediv__(self, other: Any, /) -> Array:
        return self._binary(Ops.FDIV, other, "real floating", "/", swap=True)

    def __floordiv__(self, other: Any, /) -> Array:
        return self._function(_elementwise().floor_divide, other)

    def __rfloordiv__(self, other: Any, /) -> Array:
        return self._function(_elementwise().floor_divide, other, swap=True)

    def __mod__(self, other: Any, /) -> Array:
        return self._function(_elementwise().remainder, other)

    def __rmod__(self, other: Any, /) -> Array:
        return self._function(_elementwise().remainder, other, swap=True)

    def __pow__(self, other: Any, /) -> Array:
        return self._function(_elementwise().pow, other)

    def __rpow__(self, other: Any, /) -> Array:
        return self._function(_elementwise().pow, other, swap=True)

    def __and__(self, other: Any, /) -> Array:
        return self._binary(Ops.AND, other, "integral or bool", "&")

    def __rand__(self, other: Any, /) -> Array:
        return self._binary(Ops.AND, other, "integral or bool", "&", swap=True)

    def __or__(self, other: Any, /) -> Array:
        return self._binary(Ops.OR, other, "integral or bool", "|")

    def __ror__(self, other: Any, /) -> Array:
        return self._binary(Ops.OR, other, "integral or bool", "|", swap=True)

    def __xor__(self, other: Any, /) -> Array:
        return self._binary(Ops.XOR, other, "integral or bool", "^")

    def __rxor__(self, other: Any, /) -> Array:
        return self._binary(Ops.XOR, other, "integral or bool", "^", swap=True)

    def __lshift__(self, other: Any, /) -> Array:
        return self._function(_elementwise().bitwise_left_shift, other)

    def __rlshift__(self, other: Any, /) -> Array:
        return self._function(_elementwise().bitwise_left_shift, other, swap=True)

    def __rshift__(self, other: Any, /) -> Array:
        return self._function(_elementwise().bitwise_right_shift, other)

    def __rrshift__(self, other: Any, /) -> Array:
        return self._function(_elementwise().bitwise_right_shift, other, swap=True)

    def __matmul__(self, other: Any, /) -> Array:
        return self._function(_linalg().matmul, other)

    def __rmatmul__(self, other: Any, /) -> Array:
        return self._function(_linalg().matmul, other, swap=True)

    def __lt__(self, other: Any, /) -> Array:
        return self._binary(Ops.CMPLT, other, "numeric", "<")

    def __gt__(self, other: Any, /) -> Array:
        return self._binary(Ops.CMPLT, other, "numeric", ">", swap=True)

    def __le__(self, other: Any, /) -> Array:
        nodes = self._pair(other, "numeric", "<=")
        return NotImplemented if nodes is None else Array.of(nodes[0] <= nodes[1])

    def __ge__(self, other: Any, /) -> Array:
        nodes = self._pair(other, "numeric", ">=", swap=True)
        return NotImplemented if nodes is None else Array.of(nodes[0] <= nodes[1])

    def __eq__(self, other: object, /) -> Array:  # type: ignore[override]
        nodes = self._pair(other, "numeric or bool", "==")
        return NotImplemented if nodes is None else Array.of(nodes[0].eq(nodes[1]))

    def __ne__(self, other: object, /) -> Array:  # type: ignore[override]
        return self._binary(Ops.CMPNE, other, "numeric or bool", "!=")

    def __abs__(self) -> Array:
        found: Array = _elementwise().abs(self)
        return found

    def __neg__(self) -> Array:
        dtypes.require(self.dtype, "numeric", "-")
        return Array.of(-self.node)

    def __pos__(self) -> Array:
        dtypes.require(self.dtype, "numeric", "+")
        return Array.of(self.node)

    def __invert__(self) -> Array:
        dtypes.require(self.dtype, "integral or bool", "~")
        return Array.of(~self.node)

    # in place -------------------------------------------------------------------------------------

    def _inplace(self, value: Array) -> Self:
        """Rebind this array to a result, which must have its dtype and shape."""
        if value is NotImplemented:
            return NotImplemented  # type: ignore[no-any-return]
        if value.dtype is not self.dtype:
            raise DTypeError(f"an in-place operation does not turn {self.dtype.name} into {value.dtype.name}")
        if value.shape != self.shape:
            raise ShapeError(f"an in-place operation does not turn shape {self.shape} into {value.shape}")
        self._tensor.assign(value.tensor)
        return self

    def __iadd__(self, other: Any, /) -> Self:
        return self._inplace(self + other)

    def __isub__(self, other: Any, /) -> Self:
        return self._inplace(self - other)

    def __imul__(self, other: Any, /) -> Self:
        return self._inplace(self * other)

    def __itruediv__(self, other: Any, /) -> Self:
        return self._inplace(self / other)

    def __ifloordiv__(self, other: Any, /) -> Self:
        return self._inplace(self // other)

    def __imod__(self, other: Any, /) -> Self:
        return self._inplace(self % other)

    def __ipow__(self, other: Any, /) -> Self:
        return self._inplace(self**other)

    def __iand__(self, other: Any, /) -> Self:
        return self._inplace(self & other)

    def __ior__(self, other: Any, /) -> Self:
        return self._inplace(self | other)

    def __ixor__(self, other: Any, /) -> Self:
        return self._inplace(self ^ other)

    def __ilshift__(self, other: Any, /) -> Self:
        return self._inplace(self << other)

    def __irshift__(self, other: Any, /) -> Self:
        return self._inplace(self >> other)

    def __imatmul__(self, other: Any, /) -> Self:
        return self._inplace(self @ other)


def _is_operand(other: object) -> bool:
    """Whether `other` is an array or a number. Raises TypeError for what would make the result something else
    than an array of this namespace."""
    if isinstance(other, Array) or dtypes.is_scalar(other):
        return True
    if isinstance(other, complex):
        raise DTypeError("complex numbers do not mix with these arrays")
    if isinstance(other, np.ndarray | np.generic | np.dtype):
        raise DTypeError(f"{type(other).__name__} of NumPy beside an array: use asarray")
    return False


def pair(x1: Array | Any, x2: Array | Any, kind: str, name: str) -> tuple[UOp, UOp]:
    """Two operands, one of which may be a Python number, in their common dtype.

    Raises TypeError for dtypes that do not mix or are not of `kind`, naming the function.
    """
    arrays = [x for x in (x1, x2) if isinstance(x, Array)]
    if not arrays or not all(isinstance(x, Array) or dtypes.is_scalar(x) for x in (x1, x2)):
        raise DTypeError(f"{name} needs arrays, or an array and a Python number")
    for x in arrays:
        dtypes.require(x.dtype, kind, name)
    dtype = dtypes.promote(*(x.dtype for x in arrays))
    a, b = (x.node.cast(dtype) if isinstance(x, Array) else dtypes.scalar(x, dtype) for x in (x1, x2))
    return a, b


def is_default(device: Any) -> bool:
    """Whether a device argument means the default device."""
    return device is None or (isinstance(device, str) and device == DEFAULT_DEVICE)


def _written(value: Any, dtype: DType) -> UOp:
    """What set-item writes, in the dtype of the array that is written."""
    if not isinstance(value, Array):
        return dtypes.scalar(value, dtype)
    if dtypes.promote(value.dtype, dtype) is not dtype:
        raise DTypeError(f"a value of {value.dtype.name} does not go into an array of {dtype.name}")
    return value.node.cast(dtype)


def _with_integers(key: Any) -> Any:
    """Beside slices, None and Ellipsis an integer array without dimensions is computed: it is an integer."""
    if not isinstance(key, tuple) or not any(k is None or isinstance(k, slice | EllipsisType) for k in key):
        return key
    return tuple(k.__index__() if isinstance(k, Array) and not k.ndim and k.dtype.is_int else k for k in key)


def _array_key(key: Any, ndim: int) -> tuple[UOp | int, ...] | None:
    """The integers and integer arrays of an index that holds at least one array of integers, else None."""
    items = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(k, Array) for k in items):
        return None
    if any(isinstance(k, Array) and k.dtype is _d.bool for k in items):
        raise UnsupportedError("indexing by a boolean mask (the shape depends on data; use where)")
    if any(isinstance(k, Array) and not k.dtype.is_int for k in items):
        raise IndexingError("an index array must have an integer dtype")
    if not all(isinstance(k, Array | int) and not isinstance(k, bool) for k in items):
        raise UnsupportedError("index arrays beside slices, None or Ellipsis")
    if len(items) > ndim:
        raise IndexingError(f"{len(items)} indices for {ndim} dimensions")
    return tuple(k.node if isinstance(k, Array) else int(k) for k in items)


def _elementwise() -> Any:
    from rangeify.array_api import elementwise

    return elementwise


def _linalg() -> Any:
    from rangeify.array_api import linear_algebra

    return linear_algebra
