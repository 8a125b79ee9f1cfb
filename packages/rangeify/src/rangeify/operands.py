"""What people pass for values, dtypes, sizes and devices, as the graph has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from rangeify import storage
from rangeify.errors import (
    ArgumentError,
    ConstantError,
    DeviceError,
    DTypeError,
    ShapeError,
    UnsupportedDtype,
)
from rangeify.promotion import convert
from uopgraph import DType, UOp, dtypes
from uopgraph.movement_sugar import flatten_args

DTypeLike: TypeAlias = DType | str | npt.DTypeLike

_NUMBERS: Final = (bool, int, float)
#: What NumPy makes of nested lists of Python numbers, and what they are here.
_DEFAULTS: Final = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.float32)}


class Valued:
    """Something that stands for the value of a graph node: what every Tensor is."""

    __slots__ = ("_uop",)
    _uop: UOp

    @property
    def uop(self) -> UOp:
        """The graph node of the present value."""
        return self._uop


def as_dtype(dtype: DTypeLike) -> DType:
    """A dtype given as a :class:`uopgraph.DType`, by its name, or as a NumPy dtype.

    Raises :class:`DTypeError` for what is none of these."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        return storage.named_dtype(dtype)
    if not isinstance(dtype, np.dtype | type):
        raise DTypeError(f"a dtype is a uopgraph.DType, its name or a NumPy dtype, not {dtype!r}")
    try:
        return storage.dtype_of(np.dtype(dtype))
    except (TypeError, UnsupportedDtype):
        raise DTypeError(f"no dtype of numbers: {dtype!r}") from None


def as_node(value: Any, dtype: DType | None, device: str | None) -> UOp:
    """The node of a Tensor, a node, a Python number (without a committed width) or an array (copied).

    Where they are given, it has this dtype and is on this device.
    """
    if isinstance(value, Valued):
        value = value.uop
    if isinstance(value, _NUMBERS) and not isinstance(value, np.generic):
        return UOp.const(value, dtype)
    if not isinstance(value, UOp):
        array = storage.as_array(value)
        if isinstance(value, list | tuple) and array.dtype in _DEFAULTS:
            array = array.astype(_DEFAULTS[array.dtype])
        value = storage.from_array(array, device or storage.DEFAULT_DEVICE)
    elif device is not None and value.device is not None and value.device != device:
        value = value.copy_to_device(device)
    return value if dtype is None else convert(value, dtype)


def mask_of(key: Any, device: Any) -> UOp | None:
    """The node of an index that is one boolean mask."""
    if isinstance(key, Valued):
        return key.uop if key.uop.dtype is dtypes.bool else None
    array = key if isinstance(key, np.ndarray) and key.dtype == np.bool_ else None
    return None if array is None else operand(array, device)


def sizes_of(*shape: int | Sequence[int]) -> tuple[int, ...]:
    """Sizes one by one, or all in one sequence."""
    sizes = flatten_args(shape)
    for s in sizes:
        if not isinstance(s, int | UOp) or (isinstance(s, int) and not 0 <= s < 2**63):
            raise ShapeError(f"a size is an integer from 0 on below 2**63, not {s!r}")
    return sizes


def device_names(devices: Sequence[str]) -> tuple[str, ...]:
    """The names of several devices, each once."""
    names = tuple(storage.device_name(d) for d in devices)
    if not names or len(set(names)) < len(names):
        raise DeviceError(f"not the names of different devices: {list(names)!r}", names)
    return names


def whole_number(value: Any) -> int:
    """A number rounded towards 0. Raises :class:`ConstantError` for infinity, :class:`ArgumentError` for
    nan."""
    try:
        return int(value)
    except OverflowError:
        raise ConstantError(f"{value} is no integer") from None
    except ValueError:
        raise ArgumentError(f"{value} is no integer") from None


_OPERANDS: Final = (Valued, *_NUMBERS, np.ndarray, np.generic)


def is_operand(value: object) -> bool:
    """Whether a value can stand beside a Tensor in an operator."""
    return isinstance(value, _OPERANDS)


def operand(value: Any, device: Any = None) -> UOp:
    """The node of an operand; an array is put where the other operand is."""
    if isinstance(value, Valued):
        return value.uop
    if isinstance(value, np.generic):
        return UOp.const(value.item(), storage.dtype_of(value.dtype))
    if isinstance(device, tuple):
        node = as_node(value, None, device[0])
        return node if node.device is None else node.copy_to_device(device)
    return as_node(value, None, device)
