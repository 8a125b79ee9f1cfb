# ruff: noqa: RUF009  (`place` is a field specifier, as `attrs.field` is)
"""The instructions of unit programs and of the coordinator, and their 16-byte encoding.

Each process has four register files: scalars ``s`` (signed 64 bit), vectors ``v`` (typed lanes), views
``w`` (memory, start in bytes, view descriptor), and its row of the unit program's table.  Meaning of every
instruction: dataflowir spec section 5; the class docstrings say which operation each one stands for.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import attrs

from dfsched.image.elements import ElementType
from dfsched.image.fields import (
    DST,
    IMM,
    MEMORY_OR_COLUMN,
    REGISTER_OR_COLUMN_B,
    REGISTER_OR_IMMEDIATE,
    A,
    B,
    Bits,
    Choice,
    Column,
    FieldSpec,
    Immediate,
    MemoryId,
    Register,
    Role,
    flag,
    optional_register,
    place,
)

__all__ = [
    "INSTRUCTIONS",
    "BinaryOperator",
    "Branch",
    "BranchIfZero",
    "CallOpaque",
    "CompareOperator",
    "Dma",
    "EndFor",
    "For",
    "Halt",
    "Instruction",
    "Launch",
    "LoadColumn",
    "LoadImmediate",
    "MakeView",
    "Move",
    "Predicate",
    "Receive",
    "ScalarBinary",
    "ScalarCompare",
    "ScalarOp",
    "ScalarSelect",
    "Send",
    "Shuffle",
    "SyncReceive",
    "SyncSend",
    "UnaryOperator",
    "VectorBinary",
    "VectorCast",
    "VectorCompare",
    "VectorConstant",
    "VectorLoad",
    "VectorMove",
    "VectorMultiplyAdd",
    "VectorRotate",
    "VectorScan",
    "VectorSelect",
    "VectorStore",
    "VectorUnary",
    "decode_instruction",
    "encode_instruction",
]


class ScalarOp(enum.IntEnum):
    """Scalar operators; the value is the opcode.  64-bit wrap-around; `DIVU`, `REMU` are unsigned."""

    ADD = 0x08
    SUB = 0x09
    MUL = 0x0A
    DIVS = 0x0B
    DIVU = 0x0C
    REMS = 0x0D
    REMU = 0x0E
    MINS = 0x0F
    CEILDIVS = 0x10
    MAXS = 0x11
    FLOORDIVS = 0x12
    CEILDIVU = 0x13
    MINU = 0x14
    MAXU = 0x15
    AND = 0x1A
    OR = 0x1B
    XOR = 0x1C


class Predicate(enum.IntEnum):
    """Predicates of `arith.cmpi`, with MLIR's numbers."""

    EQ = 0
    NE = 1
    SLT = 2
    SLE = 3
    SGT = 4
    SGE = 5
    ULT = 6
    ULE = 7
    UGT = 8
    UGE = 9


class BinaryOperator(enum.IntEnum):
    """Lane-wise binary operators (dataflowir spec 1.2.1)."""

    AND = 0
    OR = 1
    XNOR = 2
    AND_NOT = 3
    MIN = 4
    MAX = 5
    ABS_MIN = 6
    ABS_MAX = 7
    ADD = 8
    MUL = 9
    SUB = 10
    MUL_DIV2 = 11


class CompareOperator(enum.IntEnum):
    """Lane-wise comparisons; on NaN only `NEQ` is true.  Integers compare signed."""

    EQ = 0
    NEQ = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class UnaryOperator(enum.IntEnum):
    """Lane-wise unary operators (dataflowir spec 6.3, 5.7)."""

    FAST_EXP = 0
    FLOOR = 1
    RECIPROCAL_ESTIMATE = 2
    LN_ESTIMATE = 3
    RSQRT_ESTIMATE = 4
    NEG = 5
    EXP_ESTIMATE_A = 6
    EXP_ESTIMATE_B = 7
    SIGMOID_SLOPE = 8
    SIGMOID_OFFSET = 9
    TANH_SLOPE = 10
    TANH_OFFSET = 11


@attrs.frozen
class Instruction:
    """Base of all instructions."""

    opcode: ClassVar[int]
    mnemonic: ClassVar[str]


# -- scalars and control ---------------------------------------------------------------------------


@attrs.frozen
class Halt(Instruction):
    """End of the program (``dataflow.return``)."""

    opcode, mnemonic = 0x00, "halt"


@attrs.frozen
class LoadImmediate(Instruction):
    """``s[dst] = value``."""

    opcode, mnemonic = 0x01, "li"
    dst: int = place(DST, Role.SCALAR_DEF)
    value: int = place(IMM)


@attrs.frozen
class LoadColumn(Instruction):
    """``s[dst] = row[column]``: what differs between units, or is known only at launch."""

    opcode, mnemonic = 0x02, "lu"
    dst: int = place(DST, Role.SCALAR_DEF)
    column: int = place(IMM, Role.COLUMN)


@attrs.frozen
class Move(Instruction):
    """``s[dst] = s[source]``."""

    opcode, mnemonic = 0x03, "mov"
    dst: int = place(DST, Role.SCALAR_DEF)
    source: int = place(A, Role.SCALAR)


@attrs.frozen
class ScalarBinary(Instruction):
    """``s[dst] = s[a] op b``; `b` is a register or a constant.  The opcode is the operator.

    Division or remainder by zero stops the program with an error.
    """

    opcode, mnemonic = -1, "alu"
    op: ScalarOp
    dst: int = place(DST, Role.SCALAR_DEF)
    a: int = place(A, Role.SCALAR)
    b: Register | Immediate = place(REGISTER_OR_IMMEDIATE)


@attrs.frozen
class ScalarCompare(Instruction):
    """``s[dst] = 1 if s[a] predicate s[b] else 0`` (``arith.cmpi``)."""

    opcode, mnemonic = 0x18, "cmp"
    predicate: Predicate = place(IMM, kind=Predicate)
    dst: int = place(DST, Role.SCALAR_DEF)
    a: int = place(A, Role.SCALAR)
    b: int = place(B, Role.SCALAR)


@attrs.frozen
class ScalarSelect(Instruction):
    """``s[dst] = s[a] if s[condition] else s[b]`` (``arith.select``)."""

    opcode, mnemonic = 0x19, "sel"
    dst: int = place(DST, Role.SCALAR_DEF)
    condition: int = place(Bits(64, 16), Role.SCALAR)
    a: int = place(A, Role.SCALAR)
    b: int = place(B, Role.SCALAR)


@attrs.frozen
class For(Instruction):
    """Head of a loop (``scf.for``): ``for s[iv] in range(s[lower], s[upper], step)``, all signed.

    `end` is the distance to the matching `EndFor`.  With no iteration left, go on behind that.  The bounds
    are read once, at entry; the body may overwrite their registers (but not the induction variable's).
    """

    opcode, mnemonic = 0x20, "for"
    iv: int = place(DST, Role.SCALAR_DEF)
    lower: int = place(A, Role.SCALAR)
    upper: int = place(B, Role.SCALAR)
    step: int = place(Bits(96, 32, signed=True))
    end: int = place(Bits(64, 32, signed=True), Role.TARGET)


@attrs.frozen
class EndFor(Instruction):
    """End of a loop; `head` is the (negative) distance to its `For`."""

    opcode, mnemonic = 0x21, "end"
    head: int = place(IMM, Role.TARGET)


@attrs.frozen
class BranchIfZero(Instruction):
    """Go to `target` (a distance) if ``s[condition] == 0``."""

    opcode, mnemonic = 0x22, "brz"
    condition: int = place(A, Role.SCALAR)
    target: int = place(IMM, Role.TARGET)


@attrs.frozen
class Branch(Instruction):
    """Go to `target` (a distance)."""

    opcode, mnemonic = 0x23, "br"
    target: int = place(IMM, Role.TARGET)


# -- memory ----------------------------------------------------------------------------------------


@attrs.frozen
class MakeView(Instruction):
    """``w[dst] = (memory, start * descriptor.start_unit bytes, descriptor)``.

    `memory` is a memory id or a column that holds one; `start` a scalar register or a column.
    Stands for ``dataflow.get_logical_memory_view``.
    """

    opcode, mnemonic = 0x30, "view"
    dst: int = place(DST, Role.VIEW_DEF)
    memory: MemoryId | Column = place(MEMORY_OR_COLUMN)
    start: Register | Column = place(REGISTER_OR_COLUMN_B)
    descriptor: int = place(IMM, Role.VIEW_DESCRIPTOR)


@attrs.frozen
class VectorLoad(Instruction):
    """``v[dst] =`` the lanes that the address generator names in ``w[view]`` (``agen.vector_load``)."""

    opcode, mnemonic = 0x38, "vld"
    dst: int = place(DST, Role.VECTOR_DEF)
    view: int = place(A, Role.VIEW)
    generator: int = place(IMM, Role.GENERATOR)


@attrs.frozen
class VectorStore(Instruction):
    """Store ``v[source]`` where the address generator says in ``w[view]`` (``agen.vector_store``)."""

    opcode, mnemonic = 0x39, "vst"
    source: int = place(A, Role.VECTOR)
    view: int = place(B, Role.VIEW)
    generator: int = place(IMM, Role.GENERATOR)


@attrs.frozen
class Dma(Instruction):
    """Start an asynchronous copy ``w[source] -> w[target]`` (``agen.composite_load_and_store``)."""

    opcode, mnemonic = 0x3A, "dma"
    source: int = place(A, Role.VIEW)
    target: int = place(B, Role.VIEW)
    generator: int = place(IMM, Role.GENERATOR)


# -- communication ---------------------------------------------------------------------------------


@attrs.frozen
class Send(Instruction):
    """Push ``v[source]`` into the FIFO to the unit in `unit` (a column); `direction` is 0 (none) or the
    routing direction plus one."""

    opcode, mnemonic = 0x40, "send"
    source: int = place(A, Role.VECTOR)
    unit: int = place(B, Role.UNIT_COLUMN)
    direction: int = place(IMM)


@attrs.frozen
class Receive(Instruction):
    """``v[dst] =`` head of the FIFO from the unit in `unit`; blocks; element type and lanes must match."""

    opcode, mnemonic = 0x41, "recv"
    dst: int = place(DST, Role.VECTOR_DEF)
    unit: int = place(B, Role.UNIT_COLUMN)
    element: ElementType = place(Bits(96, 32), kind=ElementType)
    lanes: int = place(Bits(64, 32), Role.LANES)


@attrs.frozen
class SyncSend(Instruction):
    """Signal the unit in `unit`; with `wait`, first wait until the own copies are done."""

    opcode, mnemonic = 0x42, "ssig"
    unit: int = place(B, Role.UNIT_COLUMN)
    wait: bool = place(flag(0), kind=bool)


@attrs.frozen
class SyncReceive(Instruction):
    """Wait for one signal from the unit in `unit` and consume it."""

    opcode, mnemonic = 0x43, "swait"
    unit: int = place(B, Role.UNIT_COLUMN)


# -- vectors ---------------------------------------------------------------------------------------

_MASK = Bits(80, 16)


@attrs.frozen
class VectorBinary(Instruction):
    """``v[dst] = v[a] op v[b]``; lanes where ``v[mask]`` is 0 keep ``v[a]``."""

    opcode, mnemonic = 0x50, "vbin"
    op: BinaryOperator = place(Bits(64, 16), kind=BinaryOperator)
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    b: int = place(B, Role.VECTOR)
    mask: int | None = optional_register(_MASK, flag(3), Role.VECTOR)


@attrs.frozen
class VectorUnary(Instruction):
    """``v[dst] = op v[a]``; lanes where ``v[mask]`` is 0 keep ``v[a]``."""

    opcode, mnemonic = 0x51, "vun"
    op: UnaryOperator = place(Bits(64, 16), kind=UnaryOperator)
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    mask: int | None = optional_register(_MASK, flag(3), Role.VECTOR)


@attrs.frozen
class VectorMultiplyAdd(Instruction):
    """``v[dst] = v[a] * v[b] + v[c]``, two roundings; lanes where ``v[mask]`` is 0 keep ``v[a]``."""

    opcode, mnemonic = 0x52, "vmac"
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    b: int = place(B, Role.VECTOR)
    c: int = place(Bits(64, 16), Role.VECTOR)
    mask: int | None = optional_register(_MASK, flag(3), Role.VECTOR)


@attrs.frozen
class VectorCompare(Instruction):
    """``v[dst] = v[a] op v[b]``, lanes of i1; lanes where ``v[mask]`` is 0 become 0."""

    opcode, mnemonic = 0x53, "vcmp"
    op: CompareOperator = place(Bits(64, 16), kind=CompareOperator)
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    b: int = place(B, Role.VECTOR)
    mask: int | None = optional_register(_MASK, flag(3), Role.VECTOR)


@attrs.frozen
class VectorSelect(Instruction):
    """``v[dst] = v[condition] ? v[a] : v[b]`` lane by lane (``element_wise_selection``)."""

    opcode, mnemonic = 0x54, "vsel"
    dst: int = place(DST, Role.VECTOR_DEF)
    condition: int = place(Bits(64, 16), Role.VECTOR)
    a: int = place(A, Role.VECTOR)
    b: int = place(B, Role.VECTOR)


@attrs.frozen
class VectorCast(Instruction):
    """``v[dst] = v[a]`` converted to `element` (``vectorchain.cast``)."""

    opcode, mnemonic = 0x55, "vcst"
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    element: ElementType = place(Bits(96, 32), kind=ElementType)
    lanes: int = place(Bits(64, 32), Role.LANES)


@attrs.frozen
class Shuffle(Instruction):
    """``v[dst] =`` lanes of ``v[a]``, scalar registers or constants, picked by the shuffle descriptor."""

    opcode, mnemonic = 0x56, "vshf"
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    descriptor: int = place(IMM, Role.SHUFFLE)


@attrs.frozen
class VectorConstant(Instruction):
    """``v[dst] =`` a constant of the pool."""

    opcode, mnemonic = 0x57, "vcon"
    dst: int = place(DST, Role.VECTOR_DEF)
    constant: int = place(IMM, Role.CONSTANT)


@attrs.frozen
class VectorRotate(Instruction):
    """``v[dst][(i + s[amount]) mod n] = v[a][i]``; with `left` the other way round."""

    opcode, mnemonic = 0x58, "vrot"
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    amount: int = place(B, Role.SCALAR)
    left: bool = place(flag(2), kind=bool)


@attrs.frozen
class VectorScan(Instruction):
    """``scan_with_gap``: running combination of every `gap`-th lane."""

    opcode, mnemonic = 0x59, "vscan"
    op: BinaryOperator = place(Bits(64, 8), kind=BinaryOperator)
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)
    gap: int = place(Bits(80, 48))
    right_to_left: bool = place(Bits(72, 8), kind=bool)


@attrs.frozen
class VectorMove(Instruction):
    """``v[dst] = v[a]``."""

    opcode, mnemonic = 0x5A, "vmov"
    dst: int = place(DST, Role.VECTOR_DEF)
    a: int = place(A, Role.VECTOR)


@attrs.frozen
class CallOpaque(Instruction):
    """The general compute instruction: a named operation on the unit's register file
    (``dataflow.opaque``); operands and name stand in the descriptor."""

    opcode, mnemonic = 0x5B, "opaque"
    descriptor: int = place(IMM, Role.OPAQUE)


# -- coordinator only ------------------------------------------------------------------------------


@attrs.frozen
class Launch(Instruction):
    """Run a program to completion; its parameters are ``s[first]``, ``s[first + 1]``, …

    Coordinator only.  In every unit of the program they arrive in ``s0``, ``s1``, …
    """

    opcode, mnemonic = 0x60, "launch"
    program: int = place(IMM, Role.PROGRAM)
    first: int = place(A, Role.SCALAR)


INSTRUCTIONS: tuple[type[Instruction], ...] = (
    Halt, LoadImmediate, LoadColumn, Move, ScalarBinary, ScalarCompare, ScalarSelect, For, EndFor,
    BranchIfZero, Branch, MakeView, VectorLoad, VectorStore, Dma, Send, Receive, SyncSend, SyncReceive,
    VectorBinary, VectorUnary, VectorMultiplyAdd, VectorCompare, VectorSelect, VectorCast, Shuffle,
    VectorConstant, VectorRotate, VectorScan, VectorMove, CallOpaque, Launch,
)  # fmt: skip
"""All instruction classes."""

_BY_OPCODE: dict[int, type[Instruction]] = {c.opcode: c for c in INSTRUCTIONS if c.opcode >= 0} | {
    int(op): ScalarBinary for op in ScalarOp
}


@attrs.frozen
class PlacedField:
    """One declared field of an instruction class."""

    name: str
    spec: FieldSpec
    present: Bits | None


def _placed_fields(cls: type[Instruction]) -> tuple[PlacedField, ...]:
    return tuple(
        PlacedField(a.name, a.metadata["place"], a.metadata.get("present"))
        for a in attrs.fields(cls)
        if "place" in a.metadata
    )


PLACED_FIELDS = {cls: _placed_fields(cls) for cls in INSTRUCTIONS}
"""The fields of every instruction class that stand in the encoding, in declaration order."""


def operands(instruction: Instruction) -> list[tuple[str, Role, int]]:
    """Name, role and number of every field, alternatives resolved, absent registers left out."""
    found: list[tuple[str, Role, int]] = []
    for item in PLACED_FIELDS[type(instruction)]:
        value = getattr(instruction, item.name)
        match item.spec.where, value:
            case _, None:
                continue
            case Choice() as choice, Immediate(value=number):
                found.append((item.name, Role.PLAIN, number))
            case Choice() as choice, _:
                second = isinstance(value, choice.second)
                found.append((item.name, choice.second_role if second else choice.first_role, value.index))
            case _:
                found.append((item.name, item.spec.role, int(value)))
    return found


def encode_instruction(instruction: Instruction) -> bytes:
    """The 16 bytes; OverflowError if a field does not fit."""
    opcode = int(instruction.op) if isinstance(instruction, ScalarBinary) else instruction.opcode
    word = opcode
    for item in PLACED_FIELDS[type(instruction)]:
        value: Any = getattr(instruction, item.name)
        if item.present is not None:
            if value is None:
                continue
            word |= item.present.mask
        match item.spec.where:
            case Choice() as choice:
                second = isinstance(value, choice.second)
                if second:
                    word |= choice.bit.mask
                number = value.value if isinstance(value, Immediate) else value.index
                word |= (choice.second_bits if second else choice.first_bits).put(number)
            case Bits() as bits:
                word |= bits.put(int(value))
    return word.to_bytes(16, "little")


def decode_instruction(data: bytes) -> Instruction:
    """The instruction in 16 bytes; ValueError for an unknown opcode, enum value or a stray bit."""
    word = int.from_bytes(data, "little")
    opcode = word & 0xFF
    cls = _BY_OPCODE.get(opcode)
    if cls is None:
        raise ValueError(f"unknown opcode {opcode:#04x}")
    known = 0xFF
    values: dict[str, Any] = {"op": ScalarOp(opcode)} if cls is ScalarBinary else {}
    for item in PLACED_FIELDS[cls]:
        if item.present is not None:
            known |= item.present.mask
            if not item.present.get(word):
                values[item.name] = None
                continue
        match item.spec.where:
            case Choice() as choice:
                known |= choice.bit.mask
                second = bool(choice.bit.get(word))
                bits = choice.second_bits if second else choice.first_bits
                kind = choice.second if second else choice.first
                values[item.name] = kind(bits.get(word))
            case Bits() as bits:
                number = bits.get(word)
                if item.spec.kind is bool and number > 1:
                    raise ValueError(f"{cls.mnemonic}: {item.name} is {number}, not 0 or 1")
                try:
                    values[item.name] = number if item.spec.kind is int else item.spec.kind(number)
                except ValueError:
                    raise ValueError(f"{cls.mnemonic}: bad {item.name} {number}") from None
        known |= bits.mask
    if word & ~known:
        raise ValueError(f"{cls.mnemonic}: bits without meaning are set")
    return cls(**values)
