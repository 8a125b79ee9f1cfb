"""`select-plan`: ask the policy once per program and put its `Plan` on the program.

Takes programs with three-stage pipelines. Leaves the attribute ``ktdf.plan`` on every program function
that has pipelines; nothing else changes. Fields pinned in the options override the policy's in every
nest. A decision for which the pass that carries it out is not built is an error that names it.

After::

    func.func @local_schedule_0(...) attributes {ktdf.plan = {nests = [...], ...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from dfsched.architecture import kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import DataTransfer, FifoSlotType, LoopTypeAttr, Pipeline
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.simplify_loops import static_trips
from dfsched.plan import PLAN, NestFacts, NestPlan, OperandFacts, Plan, ProgramFacts
from ktir.dialects import func, scf
from ktir.dialects.builtin import Module
from ktir.grid import grid_of
from ktir.ir import Operation
from ktir.types import MemRefType, bit_width

__all__ = ["PASS", "plans_of", "program_facts", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Plan every program, nested modules included."""
    operations: list[Operation] = []
    for op in module.operations:
        match op:
            case Module():
                op = run(op, context)
            case func.Func() if any(isinstance(inner, Pipeline) for inner in op.walk()):
                op = op.replace(attributes={PLAN: _plan(op, context).to_attribute()})
        operations.append(op)
    return module.with_operations(tuple(operations))


PASS = Pass("select-plan", Group.FRONTEND, run, "ask the policy for the decisions of each program")


def plans_of(module: Operation) -> tuple[Plan, ...]:
    """The plans that stand on the programs of a module, in order."""
    return tuple(Plan.from_attribute(op.attributes[PLAN]) for op in module.walk() if PLAN in op.attributes)


def _plan(function: func.Func, context: PassContext) -> Plan:
    facts = program_facts(function)
    plan = context.options.policy(facts, context.architecture)
    if len(plan.nests) != len(facts.nests):
        raise ScheduleError.at(
            function.location, f"the policy planned {len(plan.nests)} nests of {len(facts.nests)}"
        )
    known = {entry.name for entry in attrs.fields(NestPlan)}
    unknown = sorted(set(context.options.pins) - known)
    if unknown:
        raise ScheduleError.at(
            function.location,
            f"a plan has no field '{unknown[0]}'; fields of a nest: {', '.join(sorted(known))}",
        )
    pins: dict[str, Any] = dict(context.options.pins)
    nests = tuple(attrs.evolve(nest, **pins) for nest in plan.nests)
    plan = attrs.evolve(plan, nests=nests)
    for nest, fact in zip(plan.nests, facts.nests, strict=True):
        _check_built(function, nest, fact)
    return plan


def _check_built(function: func.Func, nest: NestPlan, facts: NestFacts) -> None:
    loops = len(facts.trips)
    missing = [
        (nest.loop_order != tuple(range(loops)), "loop_order", "loop interchange"),
        (any(size != 1 for size in nest.tile_sizes), "tile_sizes", "tile-scf-for-loops"),
        (nest.sunk_loops != 0, "sunk_loops", "stage-coarsening"),
        (any(depth != 1 for depth in nest.buffer_depths), "buffer_depths", "double-buffering"),
        (bool(nest.hoisted), "hoisted", "broadcast-promotion"),
        (nest.instances != 1, "instances", "parallelize-loops-across-instances"),
        (nest.accumulator is not None, "accumulator", "map-reduction-partials"),
    ]
    for asked, name, needed in missing:
        if asked:
            raise UnsupportedKernel.at(
                function.location, f"plan field '{name}' needs the pass '{needed}', which is not built yet"
            )


def program_facts(function: func.Func) -> ProgramFacts:
    """What a policy is told about a program with three-stage pipelines."""
    definitions = Definitions(function)
    nests = tuple(
        _nest_facts(op, definitions)
        for op in function.walk()
        if isinstance(op, Pipeline) and not any(isinstance(a, Pipeline) for a in definitions.ancestors(op))
    )
    return ProgramFacts(function.symbol, grid_of(function) or (1,), nests)


def _nest_facts(pipeline: Pipeline, definitions: Definitions) -> NestFacts:
    loops: list[scf.For] = []
    for ancestor in definitions.ancestors(pipeline):
        if not isinstance(ancestor, scf.For) or not isinstance(
            ancestor.attributes.get("loop_type"), LoopTypeAttr
        ):
            break
        loops.append(ancestor)
    loops.reverse()
    variables = [loop.induction_variable for loop in loops]
    operands = []
    tile: tuple[int, ...] = ()
    for is_store, transfer in _memory_transfers(pipeline):
        cell = transfer.dest_cell if is_store else transfer.source_cell
        type = cell.value.type
        assert isinstance(type, MemRefType)
        assert type.memory_space is not None
        box = cell.static_sizes
        if is_store:
            tile = box
        operands.append(
            OperandFacts(
                cell.value.name or "",
                is_store,
                kind_text(kind_of(type.memory_space)),
                str(type.element),
                tuple(i for i, variable in enumerate(variables) if variable in cell.indices),
                box,
                cell.num_elements * ((bit_width(type.element) + 7) // 8),
            )
        )
    trips = tuple(static_trips(loop, definitions) or 0 for loop in loops)
    return NestFacts(trips, tile, tuple(operands))


def _memory_transfers(pipeline: Pipeline) -> Iterator[tuple[bool, DataTransfer]]:
    for stage in pipeline.stages:
        for op in stage.body.block.operations:
            if isinstance(op, DataTransfer):
                yield isinstance(op.source.type, FifoSlotType), op
