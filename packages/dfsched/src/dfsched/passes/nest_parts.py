"""Nests cut along their outermost loop, so that tiles of a plan may differ from part to part.

A part is a copy of the nest that runs some of the iterations; parts follow one another in the order of the
iterations, so that nothing changes but the nesting::

    scf.for %i = 0 to 8 { ... %x[%i, 0] ... }

becomes, for parts of 6 and 2 iterations::

    scf.for %i = 0 to 6 { ... %x[%i, 0] ... }
    scf.for %i = 0 to 2 { ... %x[%i + 6, 0] ... }
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs

from dfsched.dialects.ktdf import DataTransfer
from dfsched.passes.base import PassContext
from dfsched.passes.build import index_constant
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks
from dfsched.passes.loop_nests import is_normal, nest_loops, nest_pipelines
from dfsched.passes.normalize_scf_for_loops import with_subscripts
from dfsched.passes.subscripts import Subscripts
from dfsched.plan import NestPlan, Plan
from ktir.affine import AffineExpr, Dim
from ktir.dialects import func, scf
from ktir.ir import Operation, Value

__all__ = ["cut_in_parts"]


def cut_in_parts(function: func.Func, plan: Plan, context: PassContext) -> tuple[func.Func, Plan]:
    """The program with every nest cut as its plan says, and the plan with an entry for each part.

    A nest that cannot be cut stays whole, with a remark.
    """
    definitions = Definitions(function)
    cuts: dict[Value, NestPlan] = {}
    nests: list[NestPlan] = []
    for pipeline, nest in zip(nest_pipelines(function, definitions), plan.nests, strict=True):
        loops = nest_loops(pipeline, definitions)
        if nest.parts and loops and _can_be_cut(loops[0], definitions):
            cuts[loops[0].induction_variable] = nest
            nests += [_part(nest, number) for number in range(len(nest.parts))]
            continue
        if nest.parts:
            context.warn(pipeline.location, "the nest stays whole: copies are not all that its loop counts")
        nests.append(attrs.evolve(nest, parts=(), part_sizes=()))
    if not cuts:
        return function, attrs.evolve(plan, nests=tuple(nests))

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            cut = cuts.get(op.induction_variable) if isinstance(op, scf.For) else None
            result += [op] if cut is None or not isinstance(op, scf.For) else _cut(op, cut.parts)
        return result

    new = rewrite_blocks(function, rewrite)
    assert isinstance(new, func.Func)
    return new, attrs.evolve(plan, nests=tuple(nests))


def _can_be_cut(loop: scf.For, definitions: Definitions) -> bool:
    """Whether the loop's variable only stands in subscripts of transfers."""
    users = definitions.users(loop.induction_variable)
    return is_normal(loop, definitions) and all(isinstance(user, DataTransfer) for user in users)


def _part(nest: NestPlan, number: int) -> NestPlan:
    """The plan of one part: without a rotation where it is a single tile."""
    iterations, size = nest.parts[number], min(nest.part_sizes[number], nest.parts[number])
    depths = nest.buffer_depths if iterations > size else (1,) * len(nest.buffer_depths)
    sizes = (size, *nest.tile_sizes[1:])
    return attrs.evolve(
        nest,
        tile_sizes=sizes,
        buffer_depths=depths,
        sunk_loops=sum(s > 1 for s in sizes) if nest.sunk_loops else 0,
        parts=(),
        part_sizes=(),
    )


def _cut(loop: scf.For, parts: Sequence[int]) -> list[Operation]:
    made: list[Operation] = []
    starts = itertools.accumulate(parts, initial=0)
    for start, count in zip(starts, parts, strict=False):
        end = index_constant(count).replace(location=loop.location)
        (copy,) = clone_all([loop], {})
        assert isinstance(copy, scf.For)
        lower, _, *rest = copy.operands
        copy = copy.replace(operands=(lower, end.result, *rest))
        made += [end, _shifted(copy, copy.induction_variable, start)]
    return made


def _shifted(loop: scf.For, variable: Value, start: int) -> Operation:
    """The loop with a number added to its variable."""

    def moved(value: Value) -> tuple[AffineExpr, tuple[Value, ...]] | None:
        return (Dim(0) + start, (value,)) if value is variable else None

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [
            with_subscripts(op, lambda old: Subscripts.replaced(old, moved))
            if isinstance(op, DataTransfer)
            else op
            for op in operations
        ]

    return rewrite_blocks(loop, rewrite) if start else loop
