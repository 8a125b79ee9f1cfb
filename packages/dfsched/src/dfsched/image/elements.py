"""Element types as the image numbers them."""

from __future__ import annotations

import enum

from ktir.types import FloatType, IndexType, IntegerType, Signedness, Type

__all__ = ["ElementType"]


class ElementType(enum.IntEnum):
    """The type of one lane or one memory element; the value is its code in the image."""

    I1 = 1
    I4 = 2
    I8 = 3
    I16 = 4
    I32 = 5
    I64 = 6
    F16 = 7
    BF16 = 8
    F32 = 9
    F64 = 10
    DF16 = 11
    F8E4M3FN = 12
    F8E5M2 = 13
    MXFP4 = 16
    MXFP8 = 17
    MXINT4 = 18

    @property
    def bits(self) -> int:
        """Width in bits of the value (i1: 1)."""
        return _BITS[self]

    @property
    def storage_bits(self) -> int:
        """Bits that one element takes in memory: its width, but a whole byte for i1."""
        return 8 if self is ElementType.I1 else _BITS[self]

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def mlir(self) -> str:
        """The MLIR spelling."""
        return _MLIR[self]

    @classmethod
    def of(cls, type: Type) -> ElementType:
        """The code of a scalar type; ValueError if the image has none for it.  `index` is stored as i64."""
        match type:
            case IndexType():
                return cls.I64
            case IntegerType(width=width, signedness=Signedness.SIGNLESS):
                name = f"i{width}"
            case FloatType(name=name):
                pass
            case _:
                name = str(type)
        found = _BY_MLIR.get(name)
        if found is None:
            raise ValueError(f"element type {name} has no encoding")
        return found


_BITS = {
    ElementType.I1: 1,
    ElementType.I4: 4,
    ElementType.I8: 8,
    ElementType.I16: 16,
    ElementType.I32: 32,
    ElementType.I64: 64,
    ElementType.F16: 16,
    ElementType.BF16: 16,
    ElementType.F32: 32,
    ElementType.F64: 64,
    ElementType.DF16: 16,
    ElementType.F8E4M3FN: 8,
    ElementType.F8E5M2: 8,
    ElementType.MXFP4: 4,
    ElementType.MXFP8: 8,
    ElementType.MXINT4: 4,
}
_FLOATS = frozenset(
    {
        ElementType.F16,
        ElementType.BF16,
        ElementType.F32,
        ElementType.F64,
        ElementType.DF16,
        ElementType.F8E4M3FN,
        ElementType.F8E5M2,
    }
)
_MLIR = {
    ElementType.I1: "i1",
    ElementType.I4: "i4",
    ElementType.I8: "i8",
    ElementType.I16: "i16",
    ElementType.I32: "i32",
    ElementType.I64: "i64",
    ElementType.F16: "f16",
    ElementType.BF16: "bf16",
    ElementType.F32: "f32",
    ElementType.F64: "f64",
    ElementType.DF16: "df16",
    ElementType.F8E4M3FN: "f8E4M3FN",
    ElementType.F8E5M2: "f8E5M2",
    ElementType.MXFP4: "!dataflow.custom<mxfp4>",
    ElementType.MXFP8: "!dataflow.custom<mxfp8>",
    ElementType.MXINT4: "!dataflow.custom<mxint4>",
}
_BY_MLIR = {name: element for element, name in _MLIR.items()}
