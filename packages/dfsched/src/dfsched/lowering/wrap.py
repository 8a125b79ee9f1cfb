"""Two-level programs: symbol definitions beside the body (dataflowir spec 3.12)."""

from __future__ import annotations

from dfsched.dialects.dataflow import ProgramUnit
from dfsched.dialects.symbol import CreateId
from dfsched.lowering.errors import LoweringError
from ktir.analysis import DefUse
from ktir.attributes import StringAttr, SymbolRefAttr, TypeAttr
from ktir.dialects.builtin import Module
from ktir.dialects.func import Call, Func, Return
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value, symbol_name
from ktir.types import FunctionType

__all__ = ["wrap_programs"]

PREFIX = "wrap-program-dfir: "


def wrap_programs(module: Module) -> Module:
    """Every named child module that holds a program, split into outer function and body module.

    A program whose arguments are used for more than symbols stays as it is, and so does what is already
    split.  Raises `LoweringError`.
    """
    return module.with_operations(
        tuple(_wrap(op) if isinstance(op, Module) else op for op in module.operations)
    )


def _wrap(module: Module) -> Module:
    name = symbol_name(module)
    if name is None or any(isinstance(op, Module) for op in module.operations):
        return module
    if not any(isinstance(op, ProgramUnit) for op in module.walk()):
        return module
    program = module.lookup(name)
    if not isinstance(program, Func) or program.is_declaration:
        raise LoweringError.at(
            module.location, f"{PREFIX}program '{name}' holds no function of its own name to compile from"
        )
    body_name = f"{name}_body"
    uses = DefUse(program)
    moved = _symbol_operations(program, uses)
    dropped = _only_for_symbols(moved, uses)
    if any(user not in dropped for argument in program.arguments for user in uses.users(argument)):
        return module
    if module.lookup(body_name) is not None:
        raise LoweringError.at(
            module.location,
            f"{PREFIX}'{name}' already holds a '{body_name}', which is the name the DataflowIR it is "
            "compiled from has to take",
        )
    empty = TypeAttr(FunctionType((), ()))
    declaration = Func.create(
        attributes={
            "sym_name": StringAttr(body_name),
            "sym_visibility": StringAttr("private"),
            "function_type": empty,
        },
        regions=(Region(),),
        location=program.location,
    )
    inner = Module.create(
        regions=(Region.of((_body(program, dropped, body_name),)),), location=program.location
    )
    others = [op for op in module.operations if op is not program]
    return module.with_operations((declaration, _outer(program, moved, body_name), inner, *others))


def _symbol_operations(program: Func, uses: DefUse) -> list[Operation]:
    """Symbol declarations of the entry block and what they depend on, in program order."""
    entry = program.body.block
    wanted: set[Operation] = set()
    for op in program.walk():
        if isinstance(op, CreateId):
            if uses.block(op) is not entry:
                raise LoweringError.at(
                    op.location,
                    f"{PREFIX}a symbol is declared outside the program's entry block, so what it is could "
                    "not be moved out of the DataflowIR",
                )
            wanted.add(op)
    pending = list(wanted)
    while pending:
        op = pending.pop()
        for operand in op.operands:
            definer = uses.definer(operand)
            if definer is not None:
                if definer not in wanted:
                    wanted.add(definer)
                    pending.append(definer)
            elif not isinstance(operand, BlockArgument) or operand not in program.arguments:
                raise LoweringError.at(
                    op.location,
                    f"{PREFIX}a symbol is said over a value that exists only inside the program's body, so "
                    "it cannot be declared beside the program",
                )
    return [op for op in entry.operations if op in wanted]


def _outer(program: Func, moved: list[Operation], body_name: str) -> Func:
    """The public function with the original signature: symbol definitions and the call of the body."""
    values: dict[Value, Value] = {}
    arguments = []
    for old in program.arguments:
        new = BlockArgument(old.type, old.name, old.location)
        values[old] = new
        arguments.append(new)
    copies: list[Operation] = []
    for op in moved:
        results = [OpResult(result.type, result.name) for result in op.results]
        values.update(zip(op.results, results, strict=True))
        copies.append(op.replace(operands=[values[v] for v in op.operands], results=results))
    call = Call.create(attributes={"callee": SymbolRefAttr(body_name)})
    kept = {"sym_name": program.sym_name, "function_type": program.function_type}
    return Func.create(
        attributes=kept,
        regions=(Region.of((*copies, call, Return.create()), arguments),),
        location=program.location,
    )


def _only_for_symbols(moved: list[Operation], uses: DefUse) -> set[Operation]:
    """Those of the moved operations that nothing else in the program needs."""
    dropped: set[Operation] = {op for op in moved if isinstance(op, CreateId)}
    for op in reversed(moved):
        users = {user for result in op.results for user in uses.users(result)}
        if users and users <= dropped:
            dropped.add(op)
    return dropped


def _body(program: Func, dropped: set[Operation], body_name: str) -> Func:
    """The program without its arguments and without what only symbols need."""
    block = program.body.block
    operations = [op for op in block.operations if op not in dropped]
    changed = program.replace(
        attributes={
            "sym_name": StringAttr(body_name),
            "sym_visibility": None,
            "function_type": TypeAttr(FunctionType((), ())),
            "arg_attrs": None,
        }
    )
    return changed.replace(regions=(Region((block.replace(arguments=(), operations=operations),)),))
