"""The operations and their groups.

The order of the members is significant: it is the first component of the order key by which commutative
operands are sorted, so that plain values come before arithmetic and constants come last.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final


class Ops(IntEnum):
    """One member per operation."""

    # storage, parameters, calls
    BUFFER = auto()
    ALLOC = auto()
    PARAM = auto()
    SPECIAL = auto()
    RANGE = auto()
    CALL = auto()
    TUPLE = auto()
    GETTUPLE = auto()
    PROGRAM = auto()
    LINEAR = auto()
    SOURCE = auto()
    BINARY = auto()
    GETADDR = auto()
    CUSTOM_FUNCTION = auto()
    # structure and ordering
    NOOP = auto()
    SINK = auto()
    GROUP = auto()
    AFTER = auto()
    END = auto()
    BARRIER = auto()
    IF = auto()
    ENDIF = auto()
    WAIT = auto()
    REWRITE_ERROR = auto()
    # tensor level
    CONTIGUOUS = auto()
    CONTIGUOUS_BACKWARD = auto()
    DETACH = auto()
    STAGE = auto()
    COPY = auto()
    MSELECT = auto()
    MSTACK = auto()
    ALLREDUCE = auto()
    UNSHARD = auto()
    RESHAPE = auto()
    EXPAND = auto()
    PERMUTE = auto()
    FLIP = auto()
    PAD = auto()
    SHRINK = auto()
    REDUCE = auto()
    # memory access
    INDEX = auto()
    LOAD = auto()
    STORE = auto()
    STACK = auto()
    WMMA = auto()
    # unary
    CAST = auto()
    BITCAST = auto()
    EXP = auto()
    EXP2 = auto()
    EXPM1 = auto()
    LOG = auto()
    LOG2 = auto()
    LOG1P = auto()
    SIN = auto()
    COS = auto()
    TAN = auto()
    ASIN = auto()
    ACOS = auto()
    ATAN = auto()
    SINH = auto()
    COSH = auto()
    TANH = auto()
    ASINH = auto()
    ACOSH = auto()
    ATANH = auto()
    ERF = auto()
    SQRT = auto()
    RSQRT = auto()
    RECIPROCAL = auto()
    NEG = auto()
    TRUNC = auto()
    FLOOR = auto()
    CEIL = auto()
    ROUND_EVEN = auto()
    # binary
    MUL = auto()
    ADD = auto()
    SUB = auto()
    SHL = auto()
    SHR = auto()
    FLOORDIV = auto()
    FLOORMOD = auto()
    CDIV = auto()
    CMOD = auto()
    FDIV = auto()
    FMOD = auto()
    POW = auto()
    ATAN2 = auto()
    MAX = auto()
    CMPLT = auto()
    CMPNE = auto()
    CMPEQ = auto()
    XOR = auto()
    OR = auto()
    AND = auto()
    THREEFRY = auto()
    # ternary
    WHERE = auto()
    MULACC = auto()
    # last: text and constants
    CUSTOM = auto()
    CUSTOMI = auto()
    INS = auto()
    CONST = auto()

    def __repr__(self) -> str:
        return f"Ops.{self.name}"

    def __str__(self) -> str:
        return f"Ops.{self.name}"


class GroupOp:
    """Sets of operations that patterns and rules use."""

    #: Unary operations that only exist for floats (an integer operand gives a float result).
    Transcendental = frozenset(
        {
            *(Ops.EXP, Ops.EXP2, Ops.EXPM1, Ops.LOG, Ops.LOG2, Ops.LOG1P, Ops.SIN, Ops.COS, Ops.TAN),
            *(Ops.ASIN, Ops.ACOS, Ops.ATAN, Ops.SINH, Ops.COSH, Ops.TANH, Ops.ASINH, Ops.ACOSH, Ops.ATANH),
            *(Ops.ERF, Ops.SQRT, Ops.RSQRT, Ops.RECIPROCAL),
        }
    )
    #: Unary operations that round to an integral value of the same dtype.
    Rounding = frozenset({Ops.TRUNC, Ops.FLOOR, Ops.CEIL, Ops.ROUND_EVEN})
    Unary = Transcendental | Rounding | {Ops.NEG}
    Comparison = frozenset({Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})
    Shift = frozenset({Ops.SHL, Ops.SHR})
    Bitwise = frozenset({Ops.XOR, Ops.OR, Ops.AND})
    IntDivision = frozenset({Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD})
    Binary = (
        frozenset({Ops.ADD, Ops.MUL, Ops.SUB, Ops.MAX, Ops.FDIV, Ops.FMOD, Ops.POW, Ops.ATAN2, Ops.THREEFRY})
        | Comparison
        | Shift
        | Bitwise
        | IntDivision
    )
    Ternary = frozenset({Ops.WHERE, Ops.MULACC})
    ALU = Unary | Binary | Ternary
    Broadcastable = Binary | Ternary
    Cast = frozenset({Ops.CAST, Ops.BITCAST})
    Elementwise = ALU | Cast
    Defines = frozenset({Ops.PARAM, Ops.BUFFER, Ops.ALLOC})
    Irreducible = frozenset({Ops.CONST, Ops.SPECIAL, Ops.RANGE, Ops.PARAM, Ops.GETADDR})
    Movement = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.PAD, Ops.SHRINK, Ops.FLIP})
    Commutative = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.XOR, Ops.AND, Ops.OR})
    Associative = frozenset({Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.MAX})
    Idempotent = frozenset({Ops.OR, Ops.AND, Ops.MAX})
    Reduce = frozenset({Ops.ADD, Ops.MUL, Ops.MAX})
    #: The only operations that an AFTER really waits for.
    Effects = frozenset(
        {Ops.STORE, Ops.CALL, Ops.BARRIER, Ops.END, Ops.LINEAR, Ops.RANGE, Ops.STAGE, Ops.AFTER}
    )
    #: Program-stage operations: named so that text can mention them, not constructible here.
    OutOfScope = frozenset(
        {
            *(Ops.SPECIAL, Ops.PROGRAM, Ops.SOURCE, Ops.BINARY, Ops.INS, Ops.WMMA, Ops.IF, Ops.ENDIF),
            *(Ops.BARRIER, Ops.WAIT),
        }
    )
    All = frozenset(Ops)


def _arities() -> dict[Ops, tuple[int, int | None]]:
    g = GroupOp
    exactly = {
        0: {Ops.CONST, Ops.REWRITE_ERROR},
        1: g.Unary
        | g.Cast
        | g.Defines
        | {Ops.PERMUTE, Ops.FLIP, Ops.COPY, Ops.ALLREDUCE, Ops.MSELECT, Ops.DETACH}
        | {Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.GETTUPLE, Ops.GETADDR},
        2: g.Binary | {Ops.RESHAPE, Ops.EXPAND},
        3: g.Ternary | {Ops.PAD, Ops.SHRINK},
    }
    found: dict[Ops, tuple[int, int | None]] = {op: (n, n) for n, ops in exactly.items() for op in ops}
    found.update({Ops.STORE: (2, 3), Ops.LOAD: (1, 3), Ops.NOOP: (0, 1)})
    leading = (Ops.REDUCE, Ops.INDEX, Ops.STAGE, Ops.UNSHARD, Ops.AFTER, Ops.END, Ops.CALL, Ops.RANGE)
    found.update(dict.fromkeys(leading, (1, None)))
    return found


#: The least and greatest number of sources (None: any) of the operations that do not take any number.
ARITY: Final = _arities()
