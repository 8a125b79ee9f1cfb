"""Walking and rebuilding the functions of a module, and facts about one function."""

from __future__ import annotations

from collections.abc import Callable

from dfsched.lowering.errors import LoweringError
from dfsched.passes.errors import Findings
from ktir.dialects.builtin import Module
from ktir.dialects.func import Call, Func
from ktir.grid import GridError, grid_of
from ktir.ir import Operation

__all__ = ["all_functions", "calls", "grid_size", "map_functions"]


def map_functions(module: Module, rewrite: Callable[[Func], Func]) -> Module:
    """The module with every function (at any level) replaced, in walk order.

    What `rewrite` raises for one function does not keep it from the others: all errors are raised at the end.
    """
    findings = Findings()
    new = _mapped(module, lambda function: findings.attempt(rewrite, function))
    findings.check()
    return new


def _mapped(module: Module, rewrite: Callable[[Func], Func]) -> Module:
    operations: list[Operation] = []
    for op in module.operations:
        match op:
            case Func():
                operations.append(rewrite(op))
            case Module():
                operations.append(_mapped(op, rewrite))
            case _:
                operations.append(op)
    if all(a is b for a, b in zip(operations, module.operations, strict=True)):
        return module
    return module.with_operations(tuple(operations))


def all_functions(module: Module) -> list[Func]:
    """Every function at any level of nested modules, in walk order."""
    found: list[Func] = []
    for op in module.operations:
        match op:
            case Func():
                found.append(op)
            case Module():
                found += all_functions(op)
            case _:
                pass
    return found


def calls(module: Module) -> list[Call]:
    """Every call in the module, in walk order."""
    return [op for op in module.walk() if isinstance(op, Call)]


def grid_size(function: Func) -> int:
    """Number of compute tiles of a function with a one-dimensional grid (dataflowir spec 2.3)."""
    try:
        grid = grid_of(function)
    except GridError as error:
        raise LoweringError.at(function.location, error.message) from None
    if grid is None:
        raise LoweringError.at(function.location, "Function missing 'grid' attribute")
    if len(grid) != 1:
        raise LoweringError.at(
            function.location, f"Only 1D grids supported in Phase 1 (got {len(grid)}D grid)"
        )
    return grid[0]
