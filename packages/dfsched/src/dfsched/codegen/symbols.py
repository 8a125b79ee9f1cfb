"""Symbols: what ``symbol.create_id`` says, as expressions of the host compute metadata."""

from __future__ import annotations

from attrs import frozen

from dfsched.codegen.errors import CodegenError
from dfsched.codegen.facts import KernelFacts, ProgramFacts
from dfsched.codegen.scalars import constant_integer
from dfsched.dialects.symbol import CreateId
from ktir.analysis import DefUse
from ktir.dialects import arith
from ktir.dialects.func import Func
from ktir.ir import BlockArgument, Operation, Value
from ktir.location import Location
from spyrert.spyrecode import Addr, Binary, BinaryOp, Const, Expr, HcmSymbol, LaunchSpec, Sym

__all__ = ["SymbolDefinition", "define_symbols"]

_OPS: dict[type[Operation], BinaryOp] = {
    arith.AddI: BinaryOp.ADD,
    arith.SubI: BinaryOp.SUB,
    arith.MulI: BinaryOp.MUL,
    arith.DivSI: BinaryOp.FLOORDIV,
    arith.DivUI: BinaryOp.FLOORDIV,
    arith.FloorDivSI: BinaryOp.FLOORDIV,
    arith.CeilDivSI: BinaryOp.CEILDIV,
    arith.CeilDivUI: BinaryOp.CEILDIV,
    arith.RemSI: BinaryOp.MOD,
    arith.RemUI: BinaryOp.MOD,
    arith.MinSI: BinaryOp.MIN,
    arith.MaxSI: BinaryOp.MAX,
}


@frozen
class SymbolDefinition:
    """Symbol `id` is ``expr / unit`` (bytes for addresses); `argument` is the kernel position of its first
    input."""

    id: int
    expr: Expr
    unit: int
    argument: int | None
    name: str

    @property
    def hcm(self) -> HcmSymbol:
        return HcmSymbol(self.id, self.expr, self.unit)


@frozen
class _Leaf:
    expr: Expr
    position: int
    name: str


def define_symbols(facts: KernelFacts, launch: LaunchSpec) -> dict[int, SymbolDefinition]:
    """All symbols that the kernel and its programs declare, by id.

    Addresses of the launch spec's arguments and its named scalars are the inputs.  `CodegenError` for an
    operation without an expression, and for one id with two meanings.
    """
    leaves = _kernel_leaves(facts, launch)
    found: dict[int, SymbolDefinition] = {}
    scopes: list[tuple[Func, DefUse, ProgramFacts | None]] = [(facts.kernel, facts.uses, None)]
    scopes += [(p.declares, p.declares_uses, p) for p in facts.programs]
    for function, uses, program in scopes:
        for op in function.walk():
            if isinstance(op, CreateId):
                definition = _definition(op, _Scope(uses, facts, program, leaves))
                known = found.setdefault(op.id, definition)
                if known.hcm != definition.hcm:
                    raise CodegenError.at(op.location, f"symbol {op.id} is declared with two meanings")
    return found


def _kernel_leaves(facts: KernelFacts, launch: LaunchSpec) -> dict[Value, _Leaf]:
    arguments = facts.kernel.arguments
    leaves: dict[Value, _Leaf] = {}
    for number, argument in enumerate(launch.args):
        if argument.kernel_position is not None:
            position = argument.kernel_position
            leaves[arguments[position]] = _Leaf(Addr(number), position, argument.name)
    for symbol in launch.symbols:
        if symbol.kernel_position is not None:
            position = symbol.kernel_position
            leaves[arguments[position]] = _Leaf(Sym(symbol.name), position, symbol.name)
    return leaves


@frozen
class _Scope:
    uses: DefUse
    facts: KernelFacts
    program: ProgramFacts | None
    leaves: dict[Value, _Leaf]


def _definition(op: CreateId, scope: _Scope) -> SymbolDefinition:
    value, unit = op.value, 1
    definer = scope.uses.definer(value)
    if isinstance(definer, arith.DivSI):
        divisor = constant_integer(scope.uses, definer.operands[1])
        if divisor is not None and divisor > 1:
            value, unit = definer.operands[0], divisor
    inputs: list[_Leaf] = []
    expr = _expression(value, op, scope, inputs)
    first = inputs[0] if inputs else None
    name = "" if first is None else first.name
    return SymbolDefinition(op.id, expr, unit, None if first is None else first.position, name)


def _expression(value: Value, op: CreateId, scope: _Scope, inputs: list[_Leaf]) -> Expr:
    if value in scope.leaves:
        leaf = scope.leaves[value]
        inputs.append(leaf)
        return leaf.expr
    if isinstance(value, BlockArgument):
        outer = _passed(value, scope)
        if outer is not None:
            kernel = _Scope(scope.facts.uses, scope.facts, None, scope.leaves)
            return _expression(outer, op, kernel, inputs)
        raise _undefined(op, op.location, "a block argument")
    number = constant_integer(scope.uses, value)
    if number is not None:
        return Const(number)
    definer = scope.uses.definer(value)
    assert definer is not None
    if isinstance(definer, arith.IndexCast | arith.IndexCastUI):
        return _expression(definer.operands[0], op, scope, inputs)
    operator = _OPS.get(type(definer))
    if operator is None:
        raise _undefined(op, definer.location, f"'{definer.name}'")
    left, right = (_expression(operand, op, scope, inputs) for operand in definer.operands)
    return Binary(operator, left, right)


def _passed(value: BlockArgument, scope: _Scope) -> Value | None:
    """What the kernel passes for an argument of the program."""
    program = scope.program
    if program is None or program.call is None or value not in program.declares.arguments:
        return None
    return program.call.arguments[program.declares.arguments.index(value)]


def _undefined(op: CreateId, place: Location, what: str) -> CodegenError:
    return CodegenError.at(place, f"symbol {op.id} is defined by unsupported op {what}")
