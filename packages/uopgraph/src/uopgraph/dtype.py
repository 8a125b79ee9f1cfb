"""Scalar dtypes, their promotion lattice, and exact conversion of Python values."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, final

import attrs

from uopgraph import minifloat
from uopgraph.errors import DTypeError


@final
@attrs.frozen(eq=False, repr=False)
class DType:
    """A scalar element type. There is one object per dtype; compare with ``is``.

    ``bitsize`` is in bits, ``itemsize`` in bytes, ``fmt`` is the :mod:`struct` character of the storage form
    (None for weak dtypes and void). The order is ``(priority, bitsize, name)``.
    """

    priority: int
    bitsize: int
    name: str
    fmt: str | None

    @property
    def itemsize(self) -> int:
        return (self.bitsize + 7) // 8

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __lt__(self, other: DType) -> bool:
        return (self.priority, self.bitsize, self.name) < (other.priority, other.bitsize, other.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_by_name, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DType:
        return self

    @property
    def is_float(self) -> bool:
        """True for the weak float, fp8 and IEEE-like floats."""
        return self.priority >= 9

    @property
    def is_int(self) -> bool:
        """True for strong integers and the weak integer, not for bool."""
        return 1 <= self.priority <= 8 or self is dtypes.weakint

    @property
    def is_unsigned(self) -> bool:
        return self.priority in (2, 4, 6, 8)

    @property
    def is_bool(self) -> bool:
        return self is dtypes.bool

    @property
    def is_weak(self) -> bool:
        """True for dtypes without a committed width."""
        return self is dtypes.weakint or self is dtypes.weakfloat

    @property
    def is_exact(self) -> bool:
        """True where arithmetic has no rounding and no nan: bool, strong and weak integers."""
        return 0 <= self.priority <= 8

    @functools.cached_property
    def min(self) -> Any:
        """The least value (``-inf`` for floats)."""
        if self is dtypes.bool:
            return False
        if self.is_float:
            return -math.inf
        if self is dtypes.void:
            raise DTypeError("void has no least value")
        if self.is_unsigned:
            return 0
        return -(2 ** (self.bitsize - 1))

    @functools.cached_property
    def max(self) -> Any:
        """The greatest value (``inf`` for floats; 2**799 for the weak integer, whose bounds saturate)."""
        if self is dtypes.bool:
            return True
        if self.is_float:
            return math.inf
        if self is dtypes.void:
            raise DTypeError("void has no greatest value")
        if self is dtypes.weakint:
            return 2**799
        return 2 ** (self.bitsize - (0 if self.is_unsigned else 1)) - 1


@final
class InvalidType:
    """The type of :data:`Invalid`, the value that poisons: "this element must not be read or written"."""

    _instance: InvalidType | None = None

    def __new__(cls) -> InvalidType:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "Invalid"

    def __lt__(self, other: object) -> bool:
        return not isinstance(other, InvalidType)

    def __gt__(self, other: object) -> bool:
        return False

    def __reduce__(self) -> str:
        return "Invalid"


Invalid: Final = InvalidType()


@final
class ConstFloat(float):
    """A float constant whose equality separates ``-0.0`` from ``0.0`` and makes all nans equal.

    Compared with a plain Python number it behaves like a float, so that a pattern with ``arg=0`` matches it.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ConstFloat):
            if math.isnan(self) or math.isnan(other):
                return math.isnan(self) and math.isnan(other)
            return float.__eq__(self, other) and math.copysign(1.0, self) == math.copysign(1.0, other)
        return bool(float.__eq__(self, other)) if isinstance(other, int | float) else NotImplemented

    def __ne__(self, other: object) -> bool:
        if isinstance(other, ConstFloat) and (math.isnan(self) or math.isnan(other)):
            return not (math.isnan(self) and math.isnan(other))
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self) -> int:
        return hash("nan") if math.isnan(self) else float.__hash__(self)

    def __repr__(self) -> str:
        return float.__repr__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (ConstFloat, (float(self),))


ConstValue: TypeAlias = bool | int | float | InvalidType


class dtypes:
    """All dtypes by name."""

    void: Final = DType(-1, 0, "void", None)
    bool: Final = DType(0, 1, "bool", "?")
    weakint: Final = DType(0, 800, "weakint", None)
    int8: Final = DType(1, 8, "int8", "b")
    uint8: Final = DType(2, 8, "uint8", "B")
    int16: Final = DType(3, 16, "int16", "h")
    uint16: Final = DType(4, 16, "uint16", "H")
    int32: Final = DType(5, 32, "int32", "i")
    uint32: Final = DType(6, 32, "uint32", "I")
    int64: Final = DType(7, 64, "int64", "q")
    uint64: Final = DType(8, 64, "uint64", "Q")
    weakfloat: Final = DType(9, 800, "weakfloat", None)
    fp8e4m3: Final = DType(10, 8, "fp8e4m3", "B")
    fp8e5m2: Final = DType(11, 8, "fp8e5m2", "B")
    fp8e4m3fnuz: Final = DType(10, 8, "fp8e4m3fnuz", "B")
    fp8e5m2fnuz: Final = DType(11, 8, "fp8e5m2fnuz", "B")
    float16: Final = DType(12, 16, "float16", "e")
    bfloat16: Final = DType(13, 16, "bfloat16", "H")
    float32: Final = DType(14, 32, "float32", "f")
    float64: Final = DType(15, 64, "float64", "d")

    #: Dtype of index expressions.
    index: Final = weakint
    half: Final = float16
    #: What a weak dtype becomes in storage.
    default_int: Final = int32
    default_float: Final = float32

    uints: Final = (uint8, uint16, uint32, uint64)
    sints: Final = (int8, int16, int32, int64)
    ints: Final = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
    fp8s: Final = (fp8e4m3, fp8e5m2, fp8e4m3fnuz, fp8e5m2fnuz)
    strong_floats: Final = (*fp8s, float16, bfloat16, float32, float64)
    floats: Final = (weakfloat, *strong_floats)
    #: Every dtype whose arithmetic is exact: no rounding, no nan.
    exact: Final = (bool, weakint, *ints)
    all: Final = (bool, weakint, *ints, *floats)

    @staticmethod
    def from_py(value: Any) -> DType:
        """The dtype of a Python value: bool, weakint, weakfloat; a list or tuple gives the strong maximum."""
        if isinstance(value, InvalidType):
            return dtypes.bool
        if isinstance(value, list | tuple):
            if not value:
                return dtypes.default_float
            return strong_dtype(least_upper_dtype(*(dtypes.from_py(v) for v in value)))
        if value is True or value is False:
            return dtypes.bool
        if isinstance(value, int):
            return dtypes.weakint
        if isinstance(value, float):
            return dtypes.weakfloat
        raise DTypeError(f"no dtype for a value of type {type(value).__name__}: {value!r}")


_BY_NAME: Final[dict[str, DType]] = {v.name: v for v in vars(dtypes).values() if isinstance(v, DType)}


def dtype_by_name(name: str) -> DType:
    """The dtype called `name`. Raises :class:`DTypeError` for an unknown name."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise DTypeError(f"unknown dtype {name!r}") from None


_PROMOTES: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool: (dtypes.weakint,),
    dtypes.weakint: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (dtypes.weakfloat,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: (dtypes.weakfloat,),
    dtypes.weakfloat: dtypes.fp8s,
    **dict.fromkeys(dtypes.fp8s, (dtypes.float16, dtypes.bfloat16)),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


@functools.cache
def _reachable(d: DType) -> frozenset[DType]:
    return frozenset({d}).union(*(_reachable(p) for p in _PROMOTES[d]))


@functools.cache
def least_upper_dtype(*ds: DType) -> DType:
    """The least dtype (in the total order) that every one of `ds` promotes to. Raises for void or none."""
    if not ds or dtypes.void in ds:
        raise DTypeError(f"no common dtype of {ds}")
    return min(frozenset.intersection(*(_reachable(d) for d in ds)))


@functools.cache
def least_upper_float(d: DType) -> DType:
    """`d` if it is a float, weakfloat for the weak integer, else its promotion with the default float."""
    if d is dtypes.weakint:
        return dtypes.weakfloat
    return d if d.is_float else least_upper_dtype(d, dtypes.default_float)


def strong_dtype(d: DType) -> DType:
    """The dtype that a value of `d` has in storage."""
    if d is dtypes.weakint:
        return dtypes.default_int
    return dtypes.default_float if d is dtypes.weakfloat else d


@functools.cache
def can_lossless_cast(a: DType, b: DType) -> bool:
    """True when every value of `a` is a value of `b`."""
    if a is b or a is dtypes.bool:
        return b is not dtypes.void
    if b is dtypes.weakint:
        return a.is_int
    if a.is_weak or b.is_weak or b is dtypes.bool:
        return False
    if b is dtypes.float64:
        return (a.is_float and a.bitsize <= 32) or (a.is_int and a.bitsize <= 32)
    if b is dtypes.float32:
        return (a.is_float and a.bitsize <= 16) or (a.is_int and a.bitsize <= 16)
    if b is dtypes.float16:
        # e5m2 reaches 57344 and 2**-16, both are half values; 8-bit integers are exact in 11 bits
        return a in dtypes.fp8s or (a.is_int and a.bitsize <= 8)
    if b is dtypes.bfloat16:
        return a in dtypes.fp8s or (a.is_int and a.bitsize <= 8)
    if a.is_int and b.is_int:
        return bool(b.min <= a.min and a.max <= b.max)
    return False


def sum_acc_dtype(d: DType) -> DType:
    """The dtype in which a sum over `d` is accumulated."""
    if d.is_unsigned:
        return least_upper_dtype(d, dtypes.uint32)
    if d.is_int or d is dtypes.bool:
        return d if d is dtypes.weakint else least_upper_dtype(d, dtypes.int32)
    return least_upper_dtype(d, dtypes.float32)


def _round_through(fmt: str, x: float) -> float:
    try:
        return float(struct.unpack(fmt, struct.pack(fmt, x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def _round_bfloat16(x: float) -> float:
    x = _round_through("<f", x)
    if not math.isfinite(x):
        return x
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def wrap_int(x: int, d: DType) -> int:
    """`x` modulo 2**bits, in the range of the strong integer dtype `d` (the weak integer is returned as
    is)."""
    if d is dtypes.weakint:
        return x
    x &= (1 << d.bitsize) - 1
    return x - (1 << d.bitsize) if not d.is_unsigned and x >> (d.bitsize - 1) else x


def round_float(x: float, d: DType) -> float:
    """`x` rounded to the float dtype `d` (nearest, ties to even)."""
    if d is dtypes.float32:
        return _round_through("<f", x)
    if d is dtypes.float16:
        return _round_through("<e", x)
    if d is dtypes.bfloat16:
        return _round_bfloat16(x)
    if d in dtypes.fp8s:
        form = minifloat.FORMATS[d.name]
        return minifloat.decode(minifloat.encode(x, form), form)
    return x


def truncate(x: ConstValue, d: DType) -> ConstValue:
    """`x` as a value of `d`, as a C cast of an in-range value does it: floats round, integers wrap.

    Raises :class:`DTypeError` for nan or an infinity into an integer dtype.
    """
    if isinstance(x, InvalidType):
        return x
    if d is dtypes.bool:
        return bool(x)
    if d.is_float:
        try:
            value = float(x)
        except OverflowError:
            value = math.inf if x > 0 else -math.inf
        return ConstFloat(round_float(value, d))
    if isinstance(x, float) and not math.isfinite(x):
        raise DTypeError(f"{float(x)!r} has no value in {d.name}")
    return wrap_int(int(x), d)


def as_const(x: ConstValue, d: DType) -> ConstValue:
    """The canonical constant of dtype `d` for the Python value `x`: one nan, rounded floats, wrapped
    integers."""
    if isinstance(x, InvalidType):
        return x
    if not isinstance(x, bool | int | float):
        raise DTypeError(f"not a constant: {x!r}")
    return truncate(x, d)


def min_const(d: DType) -> ConstValue:
    """The identity of MAX in `d`."""
    return ConstFloat(-math.inf) if d.is_float else d.min


def to_bytes(x: ConstValue, d: DType) -> bytes:
    """The little-endian storage bytes of the constant `x` of the strong dtype `d`."""
    if d.fmt is None or isinstance(x, InvalidType):
        raise DTypeError(f"{x!r} of dtype {d.name} has no bytes")
    if d in dtypes.fp8s:
        return bytes([minifloat.encode(float(x), minifloat.FORMATS[d.name])])
    if d is dtypes.bfloat16:
        return struct.pack("<f", _round_bfloat16(float(x)))[2:]
    return struct.pack("<" + d.fmt, truncate(x, d))


def from_bytes(data: bytes, d: DType) -> ConstValue:
    """The constant of the strong dtype `d` stored in `data`."""
    if d.fmt is None:
        raise DTypeError(f"dtype {d.name} has no bytes")
    if d in dtypes.fp8s:
        return ConstFloat(minifloat.decode(data[0], minifloat.FORMATS[d.name]))
    if d is dtypes.bfloat16:
        return ConstFloat(struct.unpack("<f", b"\0\0" + data)[0])
    value = struct.unpack("<" + d.fmt, data)[0]
    return ConstFloat(value) if isinstance(value, float) else value


def bitcast(x: ConstValue, src: DType, dst: DType) -> ConstValue:
    """Reinterpret the storage bytes of `x`. Raises when the item sizes differ."""
    if src.itemsize != dst.itemsize:
        raise DTypeError(f"bitcast of a scalar from {src.name} to {dst.name}: item sizes differ")
    return from_bytes(to_bytes(x, src), dst)


def promote_all(ds: Iterable[DType]) -> DType:
    """Like :func:`least_upper_dtype` for an iterable."""
    return least_upper_dtype(*ds)
