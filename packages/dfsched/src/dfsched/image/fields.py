"""How an instruction class says which bits of the 16 bytes its fields stand in.

An instruction is one little-endian 128-bit number: opcode in bits 0..7, flags in 8..15, three 16-bit
slots (dst, a, b) in 16..63, and a 64-bit immediate in 64..127.  A field is a range of bits with a role;
the role tells validation and disassembly what the number refers to.  A class declares everything once;
`encode_instruction` and `decode_instruction` (in `dfsched.image.instructions`) know no class by name.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

__all__ = ["DST", "IMM", "A", "B", "Bits", "Choice", "Column", "FieldSpec", "Immediate", "Register", "Role"]


class Role(enum.Enum):
    """What the number in a field means."""

    SCALAR = "s"
    """scalar register, read"""
    SCALAR_DEF = "=s"
    """scalar register, written"""
    VECTOR = "v"
    VECTOR_DEF = "=v"
    VIEW = "w"
    VIEW_DEF = "=w"
    COLUMN = "column"
    """column of the unit program's table"""
    UNIT_COLUMN = "unit"
    """column whose cells are unit ids"""
    VIEW_DESCRIPTOR = "view"
    GENERATOR = "agen"
    CONSTANT = "const"
    SHUFFLE = "shuffle"
    OPAQUE = "opaque"
    PROGRAM = "program"
    MEMORY = "memory"
    TARGET = "target"
    """code position, relative to the instruction"""
    LANES = "lanes"
    PLAIN = ""


@attrs.frozen
class Bits:
    """Bits `low` .. `low + width - 1` of the instruction."""

    low: int
    width: int
    signed: bool = False

    def put(self, value: int) -> int:
        """The value at its place; OverflowError if it does not fit."""
        low, high = (-(1 << (self.width - 1)), 1 << (self.width - 1)) if self.signed else (0, 1 << self.width)
        if not low <= value < high:
            raise OverflowError(f"{value} does not fit in {self.width} bits")
        return (value & ((1 << self.width) - 1)) << self.low

    def get(self, word: int) -> int:
        raw = (word >> self.low) & ((1 << self.width) - 1)
        return raw - (1 << self.width) if self.signed and raw >> (self.width - 1) else raw

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.low


DST = Bits(16, 16)
A = Bits(32, 16)
B = Bits(48, 16)
IMM = Bits(64, 64, signed=True)


def flag(index: int) -> Bits:
    """Bit `index` of the flags."""
    return Bits(8 + index, 1)


@attrs.frozen
class Register:
    """A scalar register as operand."""

    index: int

    def __str__(self) -> str:
        return f"s{self.index}"


@attrs.frozen
class Column:
    """A column of the unit program's table as operand: the value in the row of the executing unit."""

    index: int

    def __str__(self) -> str:
        return f"[{self.index}]"


@attrs.frozen
class Immediate:
    """A constant as operand."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@attrs.frozen
class MemoryId:
    """A memory by its index in the memory map."""

    index: int

    def __str__(self) -> str:
        return f"mem{self.index}"


@attrs.frozen
class Choice:
    """Two forms of an operand; `bit` of the flags set means the second."""

    bit: Bits
    first: type[Any]
    first_bits: Bits
    first_role: Role
    second: type[Any]
    second_bits: Bits
    second_role: Role


@attrs.frozen
class FieldSpec:
    """Place and meaning of one field; `kind` converts the number (int, bool or an enum class)."""

    where: Bits | Choice
    role: Role = Role.PLAIN
    kind: type[Any] = int


def place(where: Bits | Choice, role: Role = Role.PLAIN, kind: type[Any] = int, **options: Any) -> Any:
    """Declare a field (an `attrs.field` with its `FieldSpec`)."""
    return attrs.field(metadata={"place": FieldSpec(where, role, kind)}, **options)


def optional_register(where: Bits, present: Bits, role: Role) -> Any:
    """Declare an optional register: None unless the `present` flag is set."""
    return attrs.field(default=None, metadata={"place": FieldSpec(where, role), "present": present})


REGISTER_OR_IMMEDIATE = Choice(flag(2), Register, B, Role.SCALAR, Immediate, IMM, Role.PLAIN)
REGISTER_OR_COLUMN_B = Choice(flag(1), Register, B, Role.SCALAR, Column, B, Role.COLUMN)
MEMORY_OR_COLUMN = Choice(flag(0), MemoryId, A, Role.MEMORY, Column, A, Role.COLUMN)
