"""What a set of DataflowIR modules says about its kernel, before any code is made.

The folder form is the contract: ``global.mlir`` with the kernel, one outer function per program and private
declarations, and one module per program with its body.  A program that computes with its arguments has
one level: no outer function, its body has arguments and declares its symbols itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from dfsched.codegen.errors import CodegenError
from dfsched.dialects.dataflow import ProgramUnit
from dfsched.dialects.symbol import CreateId
from ktir.analysis import DefUse
from ktir.dialects.builtin import Module
from ktir.dialects.func import Call, Func
from ktir.ir import Operation

__all__ = ["GLOBAL", "KernelFacts", "ProgramFacts", "collect_facts"]

GLOBAL = "global.mlir"


@frozen
class ProgramFacts:
    """One program: its name, the function with its symbol definitions (`declares`), and its body.

    `call` launches it in the kernel, None if nothing does.  In the one-level form `declares` is the body.
    `parameters` are the positions of arguments with which the body computes.
    """

    name: str
    declares: Func
    declares_uses: DefUse
    body: Func
    body_uses: DefUse
    call: Call | None
    parameters: tuple[int, ...]


@frozen
class KernelFacts:
    """The kernel function with its programs, in order of launch."""

    kernel: Func
    uses: DefUse
    programs: tuple[ProgramFacts, ...]


def functions(module: Operation) -> list[Func]:
    """All functions of a module, at any level, in order."""
    return [op for op in module.walk() if isinstance(op, Func)]


def collect_facts(modules: Mapping[str, Module]) -> KernelFacts:
    """Find kernel and programs; `CodegenError` naming what is missing.

    `modules` is keyed by file name, `GLOBAL` among them.
    """
    if GLOBAL not in modules:
        raise CodegenError.about(f"there is no {GLOBAL}")
    shared = modules[GLOBAL]
    defined = {f.symbol: f for f in functions(shared) if not f.is_declaration}
    called: dict[str, list[Call]] = {}
    for function in defined.values():
        for op in function.walk():
            if isinstance(op, Call):
                called.setdefault(op.callee.root, []).append(op)
    bodies: dict[str, tuple[Module, Func]] = {}
    for name in sorted(modules):
        if name == GLOBAL:
            continue
        for function in functions(modules[name]):
            if not function.is_declaration and any(isinstance(op, ProgramUnit) for op in function.walk()):
                if function.symbol in bodies:
                    raise CodegenError.at(function.location, f"two program bodies named '{function.symbol}'")
                bodies[function.symbol] = (modules[name], function)
    kernels = [f for name, f in defined.items() if name not in called and not _is_outer(f, bodies)]
    if len(kernels) != 1:
        raise CodegenError.at(
            shared.location,
            f"expected one kernel in {GLOBAL}, found {len(kernels)}: {[k.symbol for k in kernels]}",
        )
    (kernel,) = kernels
    programs = []
    for op in kernel.walk():
        if not isinstance(op, Call):
            continue
        name = op.callee.root
        if len(called[name]) > 1:
            raise CodegenError.at(op.location, f"program '{name}' is called more than once")
        outer = defined.get(name)
        inner = _inner_call(outer, bodies) if outer is not None else None
        found = bodies.get(name if inner is None else inner.callee.root)
        if found is None:
            raise CodegenError.at(op.location, f"program '{name}' has no body with dataflow.program_unit")
        module, body = found
        passed = [value.type for value in (op if inner is None else inner).arguments]
        taken = [argument.type for argument in body.arguments]
        if passed != taken:
            raise CodegenError.at(
                body.location,
                f"the body of program '{name}' takes ({', '.join(map(str, taken))}), but is called with "
                f"({', '.join(map(str, passed))})",
            )
        if inner is not None and taken:
            raise CodegenError.at(
                body.location, f"the body of program '{name}' takes arguments through a function in between"
            )
        uses = DefUse(module)
        declares, declares_uses = (body, uses) if outer is None else (outer, DefUse(shared))
        programs.append(ProgramFacts(name, declares, declares_uses, body, uses, op, _parameters(body, uses)))
    return KernelFacts(kernel, DefUse(shared), tuple(programs))


def _is_outer(function: Func, bodies: Mapping[str, object]) -> bool:
    return _inner_call(function, bodies) is not None


def _inner_call(function: Func, bodies: Mapping[str, object]) -> Call | None:
    """The call of the body in an outer function."""
    expected = f"{function.symbol}_body"
    for op in function.walk():
        if isinstance(op, Call) and op.callee.root == expected and expected in bodies:
            return op
    return None


def _parameters(body: Func, uses: DefUse) -> tuple[int, ...]:
    """Positions of arguments that program units mention, directly or through arithmetic of the function."""
    needed = {
        value
        for unit in body.walk()
        if isinstance(unit, ProgramUnit)
        for op in unit.walk()
        for value in op.operands
    }
    pending = list(needed)
    while pending:
        definer = uses.definer(pending.pop())
        if definer is not None and not isinstance(definer, CreateId):
            fresh = [value for value in definer.operands if value not in needed]
            needed.update(fresh)
            pending += fresh
    return tuple(i for i, argument in enumerate(body.arguments) if argument in needed)
