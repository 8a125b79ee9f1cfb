"""Data types of the array API standard: the dtypes themselves, promotion, and facts about them.

A dtype object is the one of :mod:`uopgraph`; complex dtypes are out of scope.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np

from rangeify.errors import ArgumentError, ConstantError, DTypeError, PromotionError, UnsupportedError
from rangeify.storage import numpy_dtype
from uopgraph import DType, UOp, least_upper_dtype
from uopgraph import dtypes as _d

SIGNED: Final = (_d.int8, _d.int16, _d.int32, _d.int64)
UNSIGNED: Final = (_d.uint8, _d.uint16, _d.uint32, _d.uint64)
INTEGRAL: Final = SIGNED + UNSIGNED
FLOATING: Final = (_d.float32, _d.float64)
ALL: Final = (_d.bool, *INTEGRAL, *FLOATING)

#: What Python numbers become without a dtype, and what sums of narrower integers are made in.
DEFAULT_INT: Final = _d.int32
DEFAULT_FLOAT: Final = _d.float32

KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (_d.bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGRAL,
    "real floating": FLOATING,
    "complex floating": (),
    "numeric": INTEGRAL + FLOATING,
}


def require(dtype: DType, kind: str, function: str) -> None:
    """Raise TypeError unless `dtype` is of one of the kinds in `kind` ("integral or bool")."""
    if not any(dtype in KINDS[k] for k in kind.split(" or ")):
        raise DTypeError(f"{function} needs {kind} arrays, not {dtype.name}")


def promote(*ds: DType) -> DType:
    """The dtype of an operation on arrays; only dtypes of one kind mix.

    Raises :class:`PromotionError`, a TypeError, where the standard leaves the mix undefined.
    """
    first = ds[0]
    if all(d is first for d in ds):
        return first
    for kind in ("integral", "real floating"):
        if all(d in KINDS[kind] for d in ds):
            found = least_upper_dtype(*ds)
            if not found.is_weak:
                return found
    names = tuple(sorted({d.name for d in ds}))
    raise PromotionError(f"no common dtype of {' and '.join(names)}: cast one of them", names)


def scalar(value: Any, dtype: DType) -> UOp:
    """A Python number beside an array of `dtype`, in that dtype.

    Raises TypeError for a number of another kind, OverflowError for an integer that the dtype does not hold.
    """
    if isinstance(value, bool):
        fits = dtype is _d.bool
    elif isinstance(value, int):
        fits = dtype is not _d.bool
        if dtype.is_int and not dtype.min <= value <= dtype.max:
            raise ConstantError(f"{value} is out of range for {dtype.name}")
    elif isinstance(value, float):
        fits = dtype.is_float
    else:
        fits = False
    if not fits:
        raise DTypeError(f"a Python {type(value).__name__} does not mix with an array of {dtype.name}")
    return UOp.const(value, dtype)


def is_scalar(value: object) -> bool:
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def can_cast_dtype(source: DType, target: DType) -> bool:
    """Whether the promotion of both is `target`."""
    try:
        return promote(source, target) is target
    except PromotionError:
        return False


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether `dtype` is of a kind: a dtype, the name of a kind, or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if not isinstance(kind, str) or kind not in KINDS:
        raise ArgumentError(f"unknown kind {kind!r}; there are {', '.join(KINDS)}")
    return dtype in KINDS[kind]


@attrs.frozen
class FloatInfo:
    """Limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@attrs.frozen
class IntInfo:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def float_limits(dtype: DType) -> FloatInfo:
    require(dtype, "real floating", "finfo")
    info = np.finfo(numpy_dtype(dtype))
    eps, top, low, least = (float(n) for n in (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(dtype.bitsize, eps, top, low, least, dtype)


def int_limits(dtype: DType) -> IntInfo:
    require(dtype, "integral", "iinfo")
    return IntInfo(dtype.bitsize, int(dtype.max), int(dtype.min), dtype)


def as_dtype(dtype: Any, function: str) -> DType:
    """A dtype argument. Raises :class:`UnsupportedError` for one that this namespace does not have."""
    if dtype not in ALL:
        name = dtype.name if isinstance(dtype, DType) else repr(dtype)
        raise UnsupportedError(f"dtype {name}", function)
    found: DType = dtype
    return found


def accumulator(dtype: DType) -> DType:
    """The dtype of a sum or product: at least the default width for integers, the same for floats."""
    if dtype in UNSIGNED:
        return dtype if dtype.bitsize >= DEFAULT_INT.bitsize else _d.uint32
    return dtype if dtype.is_float or dtype.bitsize >= DEFAULT_INT.bitsize else DEFAULT_INT
