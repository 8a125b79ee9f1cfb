"""Element-wise operations of a kernel body as scalar operations of the arith and math dialects."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final

import attrs

from ktir.types import BF16, F16, F32, IntegerType, Type
from rangeify.errors import UnsupportedError
from uopgraph import DType, GroupOp, Ops, UOp, dtypes

#: What an element is in a kernel body, and what it is in device memory (bool: f16 0 and 1, reading 7).
BODY_TYPES: Final[Mapping[DType, str]] = {
    dtypes.bool: "i1",
    dtypes.int8: "i8",
    dtypes.uint8: "i8",
    dtypes.int16: "i16",
    dtypes.uint16: "i16",
    dtypes.int32: "i32",
    dtypes.uint32: "i32",
    dtypes.int64: "i64",
    dtypes.uint64: "i64",
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
}
STORAGE_TYPES: Final[Mapping[DType, Type]] = {
    dtypes.bool: F16,
    dtypes.float16: F16,
    dtypes.bfloat16: BF16,
    dtypes.float32: F32,
    dtypes.int32: IntegerType(32),
    dtypes.int16: IntegerType(16),
    dtypes.int8: IntegerType(8),
}

_UNARY: Final[Mapping[Ops, str]] = {
    Ops.EXP: "math.exp",
    Ops.EXP2: "math.exp2",
    Ops.EXPM1: "math.expm1",
    Ops.LOG: "math.log",
    Ops.LOG2: "math.log2",
    Ops.LOG1P: "math.log1p",
    Ops.SIN: "math.sin",
    Ops.COS: "math.cos",
    Ops.TAN: "math.tan",
    Ops.TANH: "math.tanh",
    Ops.ERF: "math.erf",
    Ops.SQRT: "math.sqrt",
    Ops.RSQRT: "math.rsqrt",
    Ops.FLOOR: "math.floor",
    Ops.CEIL: "math.ceil",
    Ops.TRUNC: "math.trunc",
    Ops.ROUND_EVEN: "math.roundeven",
    Ops.NEG: "arith.negf",
}
#: operation -> (floats, signed integers, unsigned integers, bools); None where there is none.
_BINARY: Final[Mapping[Ops, tuple[str | None, str | None, str | None, str | None]]] = {
    Ops.ADD: ("arith.addf", "arith.addi", "arith.addi", "arith.ori"),
    Ops.SUB: ("arith.subf", "arith.subi", "arith.subi", None),
    Ops.MUL: ("arith.mulf", "arith.muli", "arith.muli", "arith.andi"),
    Ops.MAX: ("arith.maximumf", "arith.maxsi", "arith.maxui", "arith.ori"),
    Ops.FDIV: ("arith.divf", None, None, None),
    Ops.FMOD: ("arith.remf", None, None, None),
    Ops.POW: ("math.powf", None, None, None),
    Ops.ATAN2: ("math.atan2", None, None, None),
    Ops.AND: (None, "arith.andi", "arith.andi", "arith.andi"),
    Ops.OR: (None, "arith.ori", "arith.ori", "arith.ori"),
    Ops.XOR: (None, "arith.xori", "arith.xori", "arith.xori"),
    Ops.SHL: (None, "arith.shli", "arith.shli", None),
    Ops.SHR: (None, "arith.shrsi", "arith.shrui", None),
    Ops.CMPLT: ("arith.cmpf olt,", "arith.cmpi slt,", "arith.cmpi ult,", "arith.cmpi ult,"),
    Ops.CMPNE: ("arith.cmpf une,", "arith.cmpi ne,", "arith.cmpi ne,", "arith.xori"),
    Ops.CMPEQ: ("arith.cmpf oeq,", "arith.cmpi eq,", "arith.cmpi eq,", "arith.cmpi eq,"),
}


def literal(value: object, dtype: DType) -> str:
    """A constant of `dtype` as MLIR text: ``5.0e-01 : f16``; nan and infinities by their bits."""
    kind = BODY_TYPES[dtype]
    if dtype is dtypes.bool:
        return "true" if value else "false"
    if not dtype.is_float:
        number = int(value)  # type: ignore[call-overload]
        bits = dtype.bitsize
        return f"{number - (1 << bits) if number >> (bits - 1) == 1 else number} : {kind}"
    x = float(value)  # type: ignore[arg-type]
    if math.isfinite(x):
        text = repr(x)
        mantissa, e, exponent = text.partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent} : {kind}"
    if kind == "bf16":
        return f"0x{struct.unpack('<I', struct.pack('<f', x))[0] >> 16:04X} : bf16"
    code, width = {"f16": ("e", 4), "f32": ("f", 8), "f64": ("d", 16)}[kind]
    return f"0x{int.from_bytes(struct.pack('<' + code, x), 'little'):0{width}X} : {kind}"


@attrs.define
class ScalarBody:
    """Writes the body of a ``linalg.generic`` line by line; every node is written once."""

    where: str
    lines: list[str] = attrs.field(factory=list)
    values: dict[UOp, str] = attrs.field(factory=dict)
    constants: dict[str, str] = attrs.field(factory=dict)

    def line(self, text: str) -> str:
        """Append ``%vN = text``; the name of the value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: object, dtype: DType) -> str:
        """The name of a constant; equal ones are shared."""
        text = f"arith.constant {literal(value, dtype)}"
        if text not in self.constants:
            self.constants[text] = self.line(text)
        return self.constants[text]

    def loaded(self, node: UOp, argument: str) -> None:
        """A load arrives as block argument `argument` in its storage type."""
        if node.dtype is dtypes.bool:
            zero = self.constant(0.0, dtypes.float16)
            argument = self.line(f"arith.cmpf une, {argument}, {zero} : f16")
        self.values[node] = argument

    def stored(self, node: UOp) -> str:
        """The value of `node` in its storage type."""
        name = self.values[node]
        return self.line(f"arith.uitofp {name} : i1 to f16") if node.dtype is dtypes.bool else name

    def emit(self, value: UOp) -> None:
        """Write everything that `value` needs; loads must have arrived."""
        for node in value.toposort(gate=lambda n: n not in self.values):
            self.values[node] = self._node(node)

    def _node(self, node: UOp) -> str:
        if node.dtype not in BODY_TYPES:
            raise UnsupportedError(f"{node.op.name} in dtype {node.dtype.name}", self.where)
        if node.op is Ops.CONST:
            if node.is_invalid:
                raise UnsupportedError("a value that is valid in parts only (a pad)", self.where)
            return self.constant(node.arg, node.dtype)
        if node.op not in GroupOp.Elementwise:
            raise UnsupportedError(f"lowering of {node.op.name}", self.where)
        operands = [self.values[s] for s in node.src]
        kind = BODY_TYPES[node.src[-1].dtype]
        match node.op:
            case Ops.CAST:
                return self._cast(operands[0], node.src[0].dtype, node.dtype)
            case Ops.BITCAST:
                return self.line(f"arith.bitcast {operands[0]} : {kind} to {BODY_TYPES[node.dtype]}")
            case Ops.WHERE:
                return self.line(f"arith.select {', '.join(operands)} : {kind}")
        if len(operands) == 1 and node.op in _UNARY and node.dtype.is_float:
            return self.line(f"{_UNARY[node.op]} {operands[0]} : {kind}")
        choice = _BINARY.get(node.op)
        name = None if choice is None else choice[_class(node.src[0].dtype)]
        if name is None:
            raise UnsupportedError(f"lowering of {node.op.name} on {node.src[0].dtype.name}", self.where)
        return self.line(f"{name} {operands[0]}, {operands[1]} : {kind}")

    def _cast(self, operand: str, old: DType, new: DType) -> str:
        to = f"{BODY_TYPES[old]} to {BODY_TYPES[new]}"
        if new is dtypes.bool:
            return self.line(f"{_compare_ne(old)} {operand}, {self.constant(0, old)} : {BODY_TYPES[old]}")
        if old.is_float and new.is_float:
            if old.bitsize == new.bitsize:
                raise UnsupportedError(f"a cast from {old.name} to {new.name}", self.where)
            return self.line(f"arith.{'extf' if new.bitsize > old.bitsize else 'truncf'} {operand} : {to}")
        unsigned = old.is_unsigned or old is dtypes.bool
        if new.is_float:
            return self.line(f"arith.{'uitofp' if unsigned else 'sitofp'} {operand} : {to}")
        if old.is_float:
            return self.line(f"arith.{'fptoui' if new.is_unsigned else 'fptosi'} {operand} : {to}")
        if old.bitsize == new.bitsize:
            return operand
        if new.bitsize < old.bitsize:
            return self.line(f"arith.trunci {operand} : {to}")
        return self.line(f"arith.{'extui' if unsigned else 'extsi'} {operand} : {to}")


def _compare_ne(dtype: DType) -> str:
    return "arith.cmpf une," if dtype.is_float else "arith.cmpi ne,"


def _class(dtype: DType) -> int:
    if dtype.is_float:
        return 0
    return 3 if dtype is dtypes.bool else 2 if dtype.is_unsigned else 1
