"""Storage nodes and the host arrays behind them.

A BUFFER node is N-dimensional: its shape is the host shape of what it stores. The bytes of a buffer that has
been filled live in a side table keyed weakly by the node (the only state of this module): when the last
expression that reads a buffer goes, its array goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rangeify.errors import (
    ConstantError,
    DeviceError,
    DTypeError,
    ShapeError,
    UnsupportedDtype,
    UnsupportedError,
)
from uopgraph import Device, DType, Ops, UOp, dtypes

Array: TypeAlias = npt.NDArray[Any]

#: The device of a Tensor that is made without one.
DEFAULT_DEVICE: Final = "cpu"

_DEVICE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(:[0-9]+)?")

_FILES: Final = ("disk", "file", "npy")

_data: Final[WeakKeyDictionary[UOp, Array]] = WeakKeyDictionary()
#: The same for a BUFFER on several devices: an array for each of them.
_parts: Final[WeakKeyDictionary[UOp, dict[int, Array]]] = WeakKeyDictionary()

_NUMPY_NAMES: Final = frozenset(
    {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}
    | {"float16", "float32", "float64"}
)
_ML_DTYPES: Final = {
    "bfloat16": "bfloat16",
    "fp8e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2",
    "fp8e4m3fnuz": "float8_e4m3fnuz",
    "fp8e5m2fnuz": "float8_e5m2fnuz",
}


def numpy_dtype(dtype: DType, tensor: str = "a tensor") -> np.dtype[Any]:
    """The NumPy dtype that stores `dtype`. bfloat16 and the 8-bit floats need the package ml_dtypes.

    Raises :class:`UnsupportedDtype` naming `tensor` for a dtype without a host form.
    """
    if dtype.name in _NUMPY_NAMES:
        return np.dtype(dtype.name)
    if dtype.name in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise UnsupportedDtype(f"{dtype.name} (install ml_dtypes)", tensor) from None
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype.name]))
        return found
    raise UnsupportedDtype(dtype.name, tensor)


def dtype_of(array_dtype: np.dtype[Any]) -> DType:
    """The dtype of the elements of a NumPy array."""
    name = array_dtype.name
    for ours, theirs in _ML_DTYPES.items():
        if theirs == name:
            name = ours
    found = getattr(dtypes, name, None) if name in _NUMPY_NAMES or name in _ML_DTYPES else None
    if not isinstance(found, DType):
        raise UnsupportedDtype(array_dtype.name, "an array")
    return found


def named_dtype(name: str) -> DType:
    """The dtype called `name`. Raises :class:`UnsupportedDtype` when there is none."""
    found = getattr(dtypes, name, None)
    if not isinstance(found, DType):
        raise UnsupportedDtype(name, "a dtype argument")
    return found


def _is_unknown(array_dtype: np.dtype[Any]) -> bool:
    """Whether no dtype here stores the elements of a NumPy array."""
    try:
        dtype_of(array_dtype)
    except UnsupportedDtype:
        return True
    return False


def as_array(value: Any, dtype: np.dtype[Any] | None = None) -> Array:
    """An array-like of numbers, of `dtype` where that is given (float64 would not hold all of uint64).

    Raises :class:`ShapeError` for ragged lists, :class:`DTypeError` for what holds no numbers,
    :class:`ConstantError` for a number that the dtype does not hold."""
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtype)
    except OverflowError:
        raise ConstantError(f"a number is out of range for {dtype}: {value!r:.60}") from None
    except (ValueError, TypeError):
        raise ShapeError(f"no array can be made of the {type(value).__name__} {value!r:.60}") from None
    if not isinstance(value, np.ndarray) and _is_unknown(array.dtype):
        raise DTypeError(f"no array of numbers: the {type(value).__name__} {value!r:.60}")
    return array


def device_name(name: object) -> str:
    """A device: a kind like ``cpu``, or one of several of a kind like ``cpu:1``. Which kinds there are is
    known where a schedule is executed; the NumPy executor runs all. Raises :class:`DeviceError`, and
    :class:`UnsupportedError` for what is a file rather than a device."""
    if isinstance(name, str) and name.lower().partition(":")[0] in _FILES:
        raise UnsupportedError(f"the disk-like device {name!r}")
    if not isinstance(name, str) or not _DEVICE.fullmatch(name):
        raise DeviceError(f"a device is named like 'cpu' or 'cpu:1', not {name!r}", ())
    return name


def new_buffer(shape: tuple[int, ...], dtype: DType, device: Device) -> UOp:
    """A fresh BUFFER of a host shape, without contents; on several devices each has one of this shape."""
    return UOp.new_buffer(device, shape, dtype)


def from_array(array: Array, device: str = DEFAULT_DEVICE) -> UOp:
    """A fresh BUFFER that holds a copy of `array` in C order."""
    buffer = new_buffer(array.shape, dtype_of(array.dtype), device)
    set_contents(buffer, np.array(array, order="C", copy=True))
    return buffer


def contents(buffer: UOp) -> Array | None:
    """The host array behind a BUFFER, or behind one device's part of it (MSELECT); None when it was never
    filled."""
    if buffer.op is Ops.MSELECT:
        return _parts.get(buffer.src[0], {}).get(buffer.arg)
    return _data.get(buffer)


def set_contents(buffer: UOp, array: Array) -> None:
    """Put `array` behind `buffer`; the array is kept, not copied, and must not be changed by the caller."""
    assert array.shape == buffer.shape
    if buffer.op is Ops.MSELECT:
        _parts.setdefault(buffer.src[0], {})[buffer.arg] = array
    else:
        _data[buffer] = array


def on_each_device(storage: UOp) -> tuple[UOp, ...]:
    """The storage of each device: the node itself, or its MSELECTs."""
    if isinstance(storage.device, tuple):
        return tuple(storage.mselect(i) for i in range(len(storage.device)))
    return (storage,)


def is_state(node: UOp) -> bool:
    """Whether a node is a state of storage: a BUFFER, whole or sharded, or an AFTER."""
    return node.op in (Ops.BUFFER, Ops.AFTER) or (node.op is Ops.UNSHARD and node.src[0].op is Ops.BUFFER)


def shown(place: UOp, shape: Sequence[Any]) -> UOp:
    """What storage of the greatest shape holds of a value of `shape`, of which symbolic sizes vary."""
    return place if tuple(shape) == tuple(place.shape) else place.shrink_to(tuple(shape))


def nbytes(node: UOp) -> int:
    """The size of a storage node in bytes, with symbolic dimensions at their maximum."""
    total = node.dtype.itemsize
    for d in node.max_shape:
        total *= d
    return total
