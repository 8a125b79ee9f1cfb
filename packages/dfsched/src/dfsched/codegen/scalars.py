"""Scalar code and control flow, the same in unit programs and in the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field

from dfsched.codegen.errors import CodegenError, unsupported
from dfsched.codegen.registers import VirtualCode, parallel_copy
from dfsched.codegen.tables import Cell, SymbolCell, Table
from dfsched.dialects.symbol import CreateSymbol
from dfsched.image import (
    Branch,
    BranchIfZero,
    EndFor,
    For,
    Halt,
    Immediate,
    Instruction,
    LoadColumn,
    LoadImmediate,
    Move,
    Predicate,
    Register,
    ScalarBinary,
    ScalarCompare,
    ScalarOp,
    ScalarSelect,
)
from ktir.affine import Add, AffineExpr, CeilDiv, Const, Dim, FloorDiv, Mod, Mul, Sym
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr
from ktir.dialects import affine, arith, scf
from ktir.ir import Block, Operation, Region, Value
from ktir.location import Location
from ktir.types import IndexType, IntegerType

__all__ = ["BINARY_OPS", "ScalarEmitter", "constant_integer"]

BINARY_OPS: dict[type[Operation], ScalarOp] = {
    arith.AddI: ScalarOp.ADD,
    arith.SubI: ScalarOp.SUB,
    arith.MulI: ScalarOp.MUL,
    arith.DivSI: ScalarOp.DIVS,
    arith.DivUI: ScalarOp.DIVU,
    arith.RemSI: ScalarOp.REMS,
    arith.RemUI: ScalarOp.REMU,
    arith.MinSI: ScalarOp.MINS,
    arith.MaxSI: ScalarOp.MAXS,
    arith.MinUI: ScalarOp.MINU,
    arith.MaxUI: ScalarOp.MAXU,
    arith.CeilDivSI: ScalarOp.CEILDIVS,
    arith.CeilDivUI: ScalarOp.CEILDIVU,
    arith.FloorDivSI: ScalarOp.FLOORDIVS,
    arith.AndI: ScalarOp.AND,
    arith.OrI: ScalarOp.OR,
    arith.XOrI: ScalarOp.XOR,
}
"""Integer operations that have an instruction of their own."""

MAX_STEP = 2**31 - 1


def constant_integer(definitions: DefUse, value: Value) -> int | None:
    """The number behind an integer or index constant, None for anything else."""
    match definitions.definer(value):
        case arith.Constant(value=IntegerAttr(value=number)):
            return number
        case _:
            return None


def is_word(value: Value) -> bool:
    """Whether the value's type has the arithmetic of scalar registers: index, i64, or a truth value."""
    return isinstance(value.type, IndexType) or (
        isinstance(value.type, IntegerType) and value.type.width in (1, 64)
    )


def uses_of(operations: Iterable[Operation]) -> set[Value]:
    """Values that operations (with what they hold) mention."""
    return {value for op in operations for inner in op.walk() for value in inner.operands}


@define
class ScalarEmitter:
    """Emits scalar code for one process.

    Constants and columns are loaded in a prologue, on first use; everything else stands where it is.
    """

    definitions: DefUse
    label: str
    table: Table
    out: VirtualCode
    scalars: dict[Value, int] = field(factory=dict)
    _prologue: list[Instruction] = field(factory=list)
    _constants: dict[int, int] = field(factory=dict)
    _columns: dict[int, int] = field(factory=dict)
    _next: dict[str, int] = field(factory=dict)

    def fresh(self, name: str = "s") -> int:
        """A new virtual register of file ``s``, ``v`` or ``w``."""
        number = self._next.get(name, self.out.fixed if name == "s" else 0)
        self._next[name] = number + 1
        return number

    def emit(self, instruction: Instruction) -> int:
        """Append an instruction; its position."""
        self.out.code.append(instruction)
        return len(self.out.code) - 1

    def early(self, instruction: Instruction) -> None:
        """Add an instruction to the prologue."""
        self._prologue.append(instruction)

    def finish(self) -> None:
        """Put the prologue in front and a halt behind (distances are relative, so nothing shifts)."""
        self.out.code[:0] = self._prologue
        self.emit(Halt())

    def unsupported(self, op: Operation, why: str = "") -> CodegenError:
        return unsupported(op, self.label, why)

    # -- values

    def rows(self, value: Value) -> tuple[Cell, ...] | None:
        """One table cell per row if the value is known before the program runs, else None."""
        if (number := constant_integer(self.definitions, value)) is not None:
            return (number,) * self.table.rows
        match self.definitions.definer(value):
            case CreateSymbol(id=int(symbol)):
                return (SymbolCell(symbol),) * self.table.rows
            case _:
                return None

    def constant(self, number: int) -> int:
        """A register that holds a constant."""
        if number not in self._constants:
            self._constants[number] = register = self.fresh()
            self.early(LoadImmediate(register, number))
        return self._constants[number]

    def column(self, number: int) -> int:
        """A register that holds a column of the table."""
        if number not in self._columns:
            self._columns[number] = register = self.fresh()
            self.early(LoadColumn(register, number))
        return self._columns[number]

    def scalar(self, value: Value) -> int:
        """The register of a scalar value."""
        known = self.scalars.get(value)
        if known is not None:
            return known
        number = constant_integer(self.definitions, value)
        if number is not None:
            return self.constant(number)
        rows = self.rows(value)
        if rows is not None:
            return self.column(self.table.column(rows))
        definer = self.definitions.definer(value)
        what = "a block argument" if definer is None else f"'{definer.name}'"
        raise CodegenError.at(self.place(value), f"{what} gives no scalar in program unit {self.label}")

    def place(self, value: Value) -> Location:
        """Where a value comes from."""
        definer = self.definitions.definer(value)
        if definer is not None:
            return definer.location
        block = self.definitions.defining_block(value)
        return (self.definitions.root if block is None else self.definitions.owner(block)).location

    # -- operations

    def block(self, block: Block) -> None:
        """All operations of a block but its terminator."""
        for op in block.operations[:-1]:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """One operation; subclasses know more of them."""
        if type(op) in BINARY_OPS:
            self._binary(op)
            return
        match op:
            case arith.Constant() | CreateSymbol():
                pass  # on first use
            case arith.CmpI():
                self._compare(op)
            case arith.Select():
                if not is_word(op.results[0]):
                    raise self.unsupported(op, f"of type {op.results[0].type}")
                condition, a, b = (self.scalar(value) for value in op.operands)
                self._define(op, lambda dst: ScalarSelect(dst, condition, a, b))
            case arith.IndexCast() | arith.IndexCastUI():
                if not all(is_word(value) for value in (*op.operands, *op.results)):
                    raise self.unsupported(op, "between index and a narrow integer")
                self.scalars[op.results[0]] = self.scalar(op.operands[0])
            case affine.Apply():
                values = [*op.dims, *op.symbols]
                shift = [Dim(len(op.dims) + i) for i in range(len(op.symbols))]
                dims = [Dim(i) for i in range(len(op.dims))]
                expr = op.map.map.results[0].replace(dims, shift)
                self.scalars[op.results[0]] = self.affine(expr, values, op)
            case scf.For():
                self.loop(op)
            case scf.If():
                self.branch(op)
            case _:
                raise self.unsupported(op)

    def _define(self, op: Operation, build: Callable[[int], Instruction]) -> None:
        register = self.fresh()
        self.emit(build(register))
        self.scalars[op.results[0]] = register

    def _binary(self, op: Operation) -> None:
        if not is_word(op.results[0]):
            raise self.unsupported(op, f"of type {op.results[0].type}")
        a, b = op.operands
        number = constant_integer(self.definitions, b)
        right: Register | Immediate = Immediate(number) if number is not None else Register(self.scalar(b))
        register = self.fresh()
        self.emit(ScalarBinary(BINARY_OPS[type(op)], register, self.scalar(a), right))
        if isinstance(op.results[0].type, IntegerType) and op.results[0].type.width == 1:
            self.emit(ScalarBinary(ScalarOp.AND, register, register, Immediate(1)))
        self.scalars[op.results[0]] = register

    def _compare(self, op: arith.CmpI) -> None:
        a, b = op.operands
        if not is_word(a):
            raise self.unsupported(op, f"of type {a.type}")
        predicate = op.attributes["predicate"]
        assert isinstance(predicate, IntegerAttr)
        left, right = self.scalar(a), self.scalar(b)
        self._define(op, lambda dst: ScalarCompare(Predicate(predicate.value), dst, left, right))

    # -- affine expressions

    def affine(self, expr: AffineExpr, values: Sequence[Value], op: Operation) -> int:
        """The register of an affine expression over scalar values (its dimensions)."""
        match expr:
            case Const(value):
                return self.constant(value)
            case Dim(position):
                return self.scalar(values[position])
            case Add(lhs, rhs):
                return self._affine_binary(ScalarOp.ADD, lhs, rhs, values, op)
            case Mul(lhs, rhs):
                return self._affine_binary(ScalarOp.MUL, lhs, rhs, values, op)
            case FloorDiv(lhs, rhs):
                return self._affine_binary(ScalarOp.FLOORDIVS, lhs, rhs, values, op)
            case CeilDiv(lhs, rhs):
                return self._affine_binary(ScalarOp.CEILDIVS, lhs, rhs, values, op)
            case Mod(lhs, rhs):  # of floors, so that the remainder is not negative
                left = self.affine(lhs, values, op)
                quotient = self._affine_binary(ScalarOp.FLOORDIVS, lhs, rhs, values, op)
                product, result = self.fresh(), self.fresh()
                self.emit(ScalarBinary(ScalarOp.MUL, product, quotient, self._right(rhs, values, op)))
                self.emit(ScalarBinary(ScalarOp.SUB, result, left, Register(product)))
                return result
            case Sym():
                raise self.unsupported(op, "affine symbols")
            case _:
                raise self.unsupported(op, f"the affine expression {expr}")

    def _right(self, expr: AffineExpr, values: Sequence[Value], op: Operation) -> Register | Immediate:
        if isinstance(expr, Const):
            return Immediate(expr.value)
        return Register(self.affine(expr, values, op))

    def _affine_binary(
        self, operator: ScalarOp, lhs: AffineExpr, rhs: AffineExpr, values: Sequence[Value], op: Operation
    ) -> int:
        left, right = self.affine(lhs, values, op), self._right(rhs, values, op)
        register = self.fresh()
        self.emit(ScalarBinary(operator, register, left, right))
        return register

    # -- control flow

    def carry(self, target: int, value: Value) -> None:
        """Put the initial value of a loop-carried value in its register (overridden for vectors)."""
        self.emit(Move(target, self.scalar(value)))

    def carried(self, value: Value) -> int:
        """A register for a loop-carried value."""
        if not is_word(value):
            raise CodegenError.at(
                self.place(value), f"a loop-carried value of type {value.type} in program unit {self.label}"
            )
        return self.fresh()

    def bind(self, value: Value, register: int) -> None:
        """Say that a value stands in a register."""
        self.scalars[value] = register

    def hand_over(self, targets: Sequence[int], values: Sequence[Value]) -> None:
        """Copy several values at once."""
        moves = [(t, self.scalar(v)) for t, v in zip(targets, values, strict=True)]
        for target, source in parallel_copy(moves, self.fresh()):
            self.emit(Move(target, source))

    def loop(self, op: scf.For) -> None:
        step = constant_integer(self.definitions, op.step)
        if step is None or not 0 < step <= MAX_STEP:
            raise self.unsupported(op, "a step that is no positive constant")
        if op.unsigned_cmp is not None:
            raise self.unsupported(op, "unsigned bounds")
        lower, upper = self.scalar(op.lower), self.scalar(op.upper)
        registers = [self.carried(value) for value in op.outputs]
        for register, value in zip(registers, op.inits, strict=True):
            self.carry(register, value)
        for register, inside, outside in zip(registers, op.carried, op.outputs, strict=True):
            self.bind(inside, register)
            self.bind(outside, register)
        iv = self.fresh()
        self.scalars[op.induction_variable] = iv
        head = self.emit(For(iv, lower, upper, step, 0))
        self.block(op.body.block)
        self.hand_over(registers, op.body.block.terminator.operands)
        end = self.emit(EndFor(0))
        self.out.code[head] = For(iv, lower, upper, step, end - head)
        self.out.code[end] = EndFor(head - end)

    def branch(self, op: scf.If) -> None:
        condition = self.scalar(op.condition)
        registers = [self.carried(value) for value in op.outputs]
        for register, value in zip(registers, op.outputs, strict=True):
            self.bind(value, register)
        head = self.emit(BranchIfZero(condition, 0))
        self._arm(op.then_region, registers)
        if op.else_region.blocks and (len(op.else_region.block.operations) > 1 or registers):
            tail = self.emit(Branch(0))
            self.out.code[head] = BranchIfZero(condition, tail + 1 - head)
            self._arm(op.else_region, registers)
            self.out.code[tail] = Branch(len(self.out.code) - tail)
        else:
            self.out.code[head] = BranchIfZero(condition, len(self.out.code) - head)

    def _arm(self, region: Region, registers: Sequence[int]) -> None:
        self.block(region.block)
        self.hand_over(registers, region.block.terminator.operands)
