"""Builtin attributes: the constants that operations carry."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from ktir.attribute import Attribute
from ktir.types import (
    I1,
    I64,
    INDEX,
    FloatType,
    IntegerType,
    Signedness,
    Type,
)

if TYPE_CHECKING:
    from ktir.affine import AffineMap, AffineSet


@attrs.frozen
class UnitAttr(Attribute):
    """``unit``; in a dictionary a name without a value."""

    example = "unit"


@attrs.frozen
class IntegerAttr(Attribute):
    """``7 : i32``, ``true``; `value` of a signless type is read as signed, except that of i1 (0 or 1)."""

    example = "an integer such as 7 : i32"

    value: int
    type: Type = I64


@attrs.frozen
class FloatAttr(Attribute):
    """``1.0 : f16``; kept as its bit pattern, so that NaNs and zeros compare by representation."""

    example = "a float such as 1.0 : f16"

    bits: int
    type: FloatType

    @classmethod
    def of(cls, value: float, type: FloatType) -> FloatAttr:
        """Round `value` (nearest even) to `type`."""
        return cls(float_to_bits(value, type), type)

    @property
    def value(self) -> float:
        """The number that the bits stand for (exact)."""
        return bits_to_float(self.bits, self.type)


@attrs.frozen
class StringAttr(Attribute):
    """``"text"``; `type` is written behind a colon when present."""

    example = "a string"

    value: str
    type: Type | None = None


@attrs.frozen
class SymbolRefAttr(Attribute):
    """``@root::@nested``."""

    example = "a symbol such as @f"

    root: str
    nested: tuple[str, ...] = ()


@attrs.frozen
class ArrayAttr(Attribute):
    """``[a, b]``."""

    example = "an array such as [1, 2]"

    elements: tuple[Attribute, ...] = ()

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, index: int) -> Attribute:
        return self.elements[index]


def _sorted_entries(
    entries: Mapping[str, Attribute] | Iterable[tuple[str, Attribute]],
) -> tuple[tuple[str, Attribute], ...]:
    pairs = entries.items() if isinstance(entries, Mapping) else entries
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


@attrs.frozen
class DictAttr(Attribute, Mapping[str, Attribute]):
    """``{a = 1, b}``: an immutable mapping, sorted by name."""

    entries: tuple[tuple[str, Attribute], ...] = attrs.field(default=(), converter=_sorted_entries)

    def __getitem__(self, name: str) -> Attribute:
        for key, value in self.entries:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self.entries)

    def updated(self, changes: Mapping[str, Attribute | None]) -> DictAttr:
        """A copy with entries replaced or added; None removes one."""
        merged: dict[str, Attribute | None] = {**dict(self.entries), **changes}
        return DictAttr({name: value for name, value in merged.items() if value is not None})


EMPTY_DICT = DictAttr()


@attrs.frozen
class TypeAttr(Attribute):
    """A type in attribute position, such as the ``function_type`` of a function."""

    example = "a type"

    type: Type


@attrs.frozen
class DenseElementsAttr(Attribute):
    """``dense<...> : tensor<...>``.

    `data` holds the elements in row-major order, little endian, each padded to whole bytes (i1: one byte
    0 or 1, index: eight bytes); a splat holds exactly one element (and `splat` is then True).
    """

    example = "dense<...> : tensor<...>"

    data: bytes
    type: Type
    splat: bool = False


@attrs.frozen
class DenseResourceAttr(Attribute):
    """``dense_resource<key> : tensor<...>``; the blob itself is opaque."""

    key: str
    type: Type


@attrs.frozen
class DenseArrayAttr(Attribute):
    """``array<i64: 1, 2>``; integers as int (i1: 0 or 1), floats as bit patterns."""

    example = "an array such as array<i64: 1, 2>"

    element: Type
    values: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


@attrs.frozen
class StridedLayoutAttr(Attribute):
    """``strided<[8, 1], offset: 4>``; None for ``?``; units are elements."""

    strides: tuple[int | None, ...]
    offset: int | None = 0


@attrs.frozen
class AffineMapAttr(Attribute):
    """``affine_map<...>``."""

    example = "affine_map<(d0) -> (...)>"

    map: AffineMap


@attrs.frozen
class AffineSetAttr(Attribute):
    """``affine_set<...>``."""

    example = "affine_set<(d0) : (...)>"

    set: AffineSet


@attrs.frozen
class OpaqueAttr(Attribute):
    """An attribute of a dialect that the context does not know, kept verbatim: ``#dialect`` + `body`."""

    dialect: str
    body: str


TRUE = IntegerAttr(1, I1)
FALSE = IntegerAttr(0, I1)
UNIT = UnitAttr()


def index_attr(value: int) -> IntegerAttr:
    """``value : index``."""
    return IntegerAttr(value, INDEX)


def int_array(values: Iterable[int], type: Type = I64) -> ArrayAttr:
    """``[1, 2]`` with elements of `type`."""
    return ArrayAttr(tuple(IntegerAttr(value, type) for value in values))


def wrap_integer(value: int, type: Type) -> int:
    """`value` modulo 2**width, in the canonical range of `IntegerAttr.value` for `type`."""
    width = type.width if isinstance(type, IntegerType) else 64
    signedness = type.signedness if isinstance(type, IntegerType) else Signedness.SIGNLESS
    value &= (1 << width) - 1
    if signedness is Signedness.UNSIGNED or (width == 1 and signedness is Signedness.SIGNLESS):
        return value
    return value - (1 << width) if value >> (width - 1) else value


_STRUCT = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def float_to_bits(value: float, type: FloatType) -> int:
    """The bit pattern of `value` rounded to nearest even in `type`."""
    formats = _STRUCT.get(type.name)
    if formats is None:
        from ktir.numbers import encode_scalar

        return encode_scalar(value, type)
    try:
        packed = struct.pack(formats[0], value)
    except OverflowError:
        packed = struct.pack(formats[0], float("inf") if value > 0 else float("-inf"))
    return int(struct.unpack(formats[1], packed)[0])


def bits_to_float(bits: int, type: FloatType) -> float:
    """The number behind a bit pattern of `type` (exact)."""
    formats = _STRUCT.get(type.name)
    if formats is None:
        from ktir.numbers import decode_scalar

        return decode_scalar(bits, type)
    return float(struct.unpack(formats[0], struct.pack(formats[1], bits))[0])
