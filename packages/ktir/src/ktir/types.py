"""Builtin types.

Extents, strides and offsets that are only known at run time (``?``) are `None`.
"""

from __future__ import annotations

import enum
import math

import attrs

from ktir.attribute import Attribute
from ktir.errors import TypeQueryError


@attrs.frozen
class Type(Attribute):
    """Base of all types."""


class Signedness(enum.Enum):
    """How an integer type prints: ``i8``, ``si8`` or ``ui8``."""

    SIGNLESS = "i"
    SIGNED = "si"
    UNSIGNED = "ui"


@attrs.frozen
class IndexType(Type):
    """``index``: a 64-bit signed container for sizes and addresses."""


@attrs.frozen
class IntegerType(Type):
    """``i32``, ``si8``, ``ui16``; `width` in bits."""

    width: int
    signedness: Signedness = Signedness.SIGNLESS


@attrs.frozen
class FloatType(Type):
    """A floating-point type, by its MLIR name (one of `FLOAT_WIDTHS`)."""

    name: str

    @property
    def width(self) -> int:
        """Width in bits."""
        return FLOAT_WIDTHS[self.name]


FLOAT_WIDTHS: dict[str, int] = {
    "f16": 16,
    "bf16": 16,
    "df16": 16,
    "f32": 32,
    "f64": 64,
    "tf32": 19,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E4M3": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
    "f8E4M3B11FNUZ": 8,
    "f8E3M4": 8,
    "f8E8M0FNU": 8,
}
"""Widths in bits by MLIR name.  ``df16`` (DLFloat16) is ours: MLIR has no such builtin."""


@attrs.frozen
class NoneType(Type):
    """``none``."""


@attrs.frozen
class TupleType(Type):
    """``tuple<...>``."""

    types: tuple[Type, ...]


@attrs.frozen
class FunctionType(Type):
    """``(inputs) -> results``."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@attrs.frozen
class ShapedType(Type):
    """Base of ranked types with an element type; extents in elements, None for ``?``."""

    shape: tuple[int | None, ...]
    element: Type

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every extent is known."""
        return None not in self.shape

    def num_elements(self) -> int:
        """Product of the extents; `TypeQueryError` if one of them is dynamic."""
        extents = [extent for extent in self.shape if extent is not None]
        if len(extents) != len(self.shape):
            raise TypeQueryError(f"{self} has dynamic extents")
        return math.prod(extents)

    def static_shape(self) -> tuple[int, ...]:
        """The shape as plain integers; `TypeQueryError` if an extent is dynamic."""
        self.num_elements()
        return tuple(extent for extent in self.shape if extent is not None)


@attrs.frozen
class TensorType(ShapedType):
    """``tensor<4x?xf16, encoding>``."""

    encoding: Attribute | None = None


@attrs.frozen
class VectorType(ShapedType):
    """``vector<4x[8]xf16>``; `scalable` marks the bracketed dimensions (empty: none)."""

    scalable: tuple[bool, ...] = ()


@attrs.frozen
class MemRefType(ShapedType):
    """``memref<4x?xf16, layout, memory_space>``; an identity layout is stored as None."""

    layout: Attribute | None = None
    memory_space: Attribute | None = None


@attrs.frozen
class UnrankedTensorType(Type):
    """``tensor<*xf16>``."""

    element: Type


@attrs.frozen
class UnrankedMemRefType(Type):
    """``memref<*xf16, memory_space>``."""

    element: Type
    memory_space: Attribute | None = None


@attrs.frozen
class OpaqueType(Type):
    """A type of a dialect that the context does not know, kept verbatim: ``!dialect`` + `body`."""

    dialect: str
    body: str


INDEX = IndexType()
NONE = NoneType()
I1 = IntegerType(1)
I8 = IntegerType(8)
I16 = IntegerType(16)
I32 = IntegerType(32)
I64 = IntegerType(64)
F16 = FloatType("f16")
BF16 = FloatType("bf16")
DF16 = FloatType("df16")
F32 = FloatType("f32")
F64 = FloatType("f64")


def bit_width(scalar: Type) -> int:
    """Width in bits of a scalar type as stored in memory (index: 64); `TypeQueryError` for others."""
    match scalar:
        case IndexType():
            return 64
        case IntegerType(width=width):
            return width
        case FloatType():
            return scalar.width
        case _:
            raise TypeQueryError(f"{scalar} has no bit width")


def element_or_self(type: Type) -> Type:
    """The element type of a shaped type, otherwise the type itself."""
    match type:
        case ShapedType(element=element) | UnrankedTensorType(element=element):
            return element
        case UnrankedMemRefType(element=element):
            return element
        case _:
            return type
