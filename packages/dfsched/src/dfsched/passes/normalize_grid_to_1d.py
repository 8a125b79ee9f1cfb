"""`normalize-grid-to-1d`: the hardware numbers its cores in one dimension (scheduler spec 3.21).

Takes functions with a ``grid`` attribute of any rank; programs without one get ``[1 : index]``. Leaves
one entry, the number of tiles, and `ktdp.get_compute_tile_id`s with one result; coordinates are computed
from the flat id. Which dimension runs fastest says the module attribute ``ktdp.grid_order``
(``"first_fastest"`` unless given; ``"last_fastest"`` under the v1 profile).

Before::

    func.func @k() attributes {grid = [4, 2]} { %g:2 = ktdp.get_compute_tile_id : index, index ... }

After (``ktdp.grid_order = "last_fastest"``)::

    func.func @k() attributes {grid = [8 : index]} {
      %f = ktdp.get_compute_tile_id : index
      %x = arith.divui %f, %c2 : index
      %y = arith.remui %f, %c2 : index

>>> from dfsched.passes.examples import example
>>> example("normalize-grid-to-1d", '''
... %t:2 = ktdp.get_compute_tile_id : index, index
... "use"(%t#0, %t#1) : (index, index) -> ()
... ''', attributes="grid = [2, 3]")
%0 = ktdp.get_compute_tile_id : index
%c2 = arith.constant 2 : index
%1 = arith.remui %0, %c2 : index
%c2_0 = arith.constant 2 : index
%2 = arith.divui %0, %c2_0 : index
"use"(%1, %2) : (index, index) -> ()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import index_constant
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.ir_tools import rewrite_blocks
from ktir.attributes import ArrayAttr, StringAttr, index_attr
from ktir.dialects import arith, func, ktdp
from ktir.dialects.builtin import Module
from ktir.grid import GridError, grid_of
from ktir.ir import Operation, OpResult
from ktir.transforms import dce
from ktir.types import INDEX

__all__ = ["GRID_ORDER", "PASS", "run"]

GRID_ORDER = "ktdp.grid_order"


def run(module: Module, context: PassContext) -> Module:
    """Normalise every function of the module and its nested modules."""
    default = "last_fastest" if context.options.profile is Profile.V1 else "first_fastest"
    match module.attributes.get(GRID_ORDER):
        case None:
            order = default
        case StringAttr(value="first_fastest" | "last_fastest" as order):
            pass
        case other:
            raise ScheduleError.at(
                module.location, f'\'{GRID_ORDER}\' must be "first_fastest" or "last_fastest", but is {other}'
            )
    findings = Findings()
    new = _in_module(
        module, lambda kernel: findings.attempt(lambda f: _in_function(f, order == "first_fastest"), kernel)
    )
    findings.check()
    return new


PASS = Pass("normalize-grid-to-1d", Group.SCHEDULER, run, "one grid dimension, coordinates from the flat id")


def _in_module(module: Module, rewrite: Callable[[func.Func], func.Func]) -> Module:
    operations: list[Operation] = []
    for op in module.operations:
        match op:
            case Module():
                op = _in_module(op, rewrite)
            case func.Func() if not op.is_declaration:
                op = rewrite(op)
        operations.append(op)
    return module.with_operations(tuple(operations))


def _in_function(function: func.Func, first_fastest: bool) -> func.Func:
    extents = _grid(function)
    if extents is None:
        return function.replace(attributes={"grid": ArrayAttr((index_attr(1),))})
    if len(extents) == 1:
        return function

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, ktdp.GetComputeTileId):
                result += _coordinates(op, extents, first_fastest)
            else:
                result.append(op)
        return result

    flat = ArrayAttr((index_attr(math.prod(extents)),))
    new = dce(rewrite_blocks(function, rewrite)).replace(attributes={"grid": flat})
    assert isinstance(new, func.Func)
    return new


def _grid(function: func.Func) -> tuple[int, ...] | None:
    try:
        return grid_of(function)
    except GridError as error:
        raise ScheduleError.at(function.location, error.message) from None


def _coordinates(op: ktdp.GetComputeTileId, extents: Sequence[int], first_fastest: bool) -> list[Operation]:
    if len(op.results) != len(extents):
        raise ScheduleError.at(
            op.location,
            f"get_compute_tile_id result count ({len(op.results)}) does not match grid rank ({len(extents)})",
        )
    flat = ktdp.GetComputeTileId.create((), [INDEX], location=op.location)
    operations: list[Operation] = [flat]
    for dim, result in enumerate(op.results):
        slower = extents[:dim] if first_fastest else extents[dim + 1 :]
        outermost = dim == (len(extents) - 1 if first_fastest else 0)
        steps: list[tuple[type[Operation], int]] = []
        if math.prod(slower) != 1:
            steps.append((arith.DivUI, math.prod(slower)))
        if not outermost:
            steps.append((arith.RemUI, extents[dim]))
        if not steps:
            steps.append((arith.RemUI, math.prod(extents)))
        value = flat.results[0]
        for number, (kind, divisor) in enumerate(steps):
            constant = index_constant(divisor).replace(location=op.location)
            target = result if number == len(steps) - 1 else OpResult(INDEX)
            operations += [constant, kind((value, constant.result), (target,), location=op.location)]
            value = target
    return operations
