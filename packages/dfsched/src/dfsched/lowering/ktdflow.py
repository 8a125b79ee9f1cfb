"""ScheduleIR to KTDFLow: pipelines become nested `execute_on`, tokens become signals."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from dfsched.architecture import Architecture
from dfsched.dialects.ktdf import Pipeline, Private, Stage
from dfsched.dialects.ktdf_lowering import ExecuteOn
from dfsched.lowering.back_edges import BackedgeGuard
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.functions import grid_size, map_functions
from dfsched.lowering.hazards import Placed, place_signals
from dfsched.lowering.stage_graph import local_edges, topological
from dfsched.lowering.stage_units import StageUnits, assign_units
from dfsched.passes.ir_tools import check_structured
from dfsched.passes.loop_nests import LOOP, OPERAND
from ktir.analysis import DefUse
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.ir import Operation, Region, Value

__all__ = ["lower_to_ktdflow"]


def lower_to_ktdflow(
    module: Module, architecture: Architecture, guard: BackedgeGuard = BackedgeGuard.LINEAR
) -> Module:
    """Every function with stages, lowered; the others as they are.  Raises `LoweringError`."""
    return map_functions(module, lambda function: _function(function, architecture, guard))


def _function(function: Func, architecture: Architecture, guard: BackedgeGuard) -> Func:
    stages = _post_order_stages(function)
    if not stages:
        return function
    check_structured(function)
    uses = DefUse(function)
    grid = grid_size(function)
    if grid > architecture.cores:
        raise LoweringError.at(
            function.location,
            f"the grid [{grid}] has {grid} compute tiles, device '{architecture.name}' has "
            f"{architecture.cores} cores",
        )
    units = assign_units(stages, uses, grid)
    if not any(units.queries.values()):
        raise LoweringError.at(function.location, "no queries wired to stages")
    pipelines = [op for op in function.walk() if isinstance(op, Pipeline)]
    signals = place_signals(pipelines, units.queries, uses, architecture, guard)
    block = function.body.block
    body = _Rewriter(units, signals).operations(block.operations)
    return function.replace(regions=(Region((block.replace(operations=(*units.prelude, *body)),)),))


def _post_order_stages(op: Operation) -> list[Stage]:
    """All stages below an operation, inner ones before those around them."""
    found: list[Stage] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += _post_order_stages(inner)
    if isinstance(op, Stage):
        found.append(op)
    return found


_MARKS = ("loop_type", LOOP, OPERAND)
"""Attributes of the schedule that nobody needs any more."""


@define
class _Rewriter:
    """Rebuilds a function body."""

    units: StageUnits
    signals: Placed
    values: dict[Value, Value] = field(factory=dict)

    def operations(self, operations: Sequence[Operation]) -> list[Operation]:
        rewritten: list[Operation] = []
        for op in operations:
            rewritten += self.signals.before.get(op, ())
            rewritten += self.operation(op)
            rewritten += self.signals.after.get(op, ())
        return rewritten

    def operation(self, op: Operation) -> list[Operation]:
        match op:
            case Pipeline():
                return [self.pipeline(op)] if op.stages else []
            case Stage():
                first, last = self.signals.first.get(op, ()), self.signals.last.get(op, ())
                body = self.operations(op.body.block.operations)
                return [ExecuteOn.of(self._units(op), [*first, *body, *last])]
            case Private():
                inner = self.operations(op.body.block.operations[:-1])
                yielded = [self.values.get(value, value) for value in op.yielded]
                self.values.update(zip(op.results, yielded, strict=True))
                return inner
            case _:
                return [self.plain(op)]

    def pipeline(self, op: Pipeline) -> Operation:
        order = topological(op, local_edges(op))
        units = dict.fromkeys(unit for stage in order for unit in self._units(stage))
        if not units:
            raise LoweringError.at(op.location, "No units found for pipeline execute_on")
        return ExecuteOn.of(tuple(units), self.operations(op.body.block.operations))

    def _units(self, stage: Stage) -> tuple[Value, ...]:
        if stage not in self.units.queries:
            raise LoweringError.at(stage.location, "No units found for stage")
        if not self.units.queries[stage]:
            raise LoweringError.at(stage.location, "Stage has empty unit list")
        return self.units.queries[stage]

    def plain(self, op: Operation) -> Operation:
        """The operation with replaced operands and rewritten regions."""
        operands = [self.values.get(value, value) for value in op.operands]
        regions = [
            Region(
                tuple(block.replace(operations=self.operations(block.operations)) for block in region.blocks)
            )
            for region in op.regions
        ]
        changed = op.replace(operands=operands, regions=regions)
        return changed.replace(attributes={name: None for name in _MARKS if name in op.attributes})
