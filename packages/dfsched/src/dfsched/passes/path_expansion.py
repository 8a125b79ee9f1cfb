r"""`path-expansion`: make every data movement follow the device (scheduler spec 3.5).

Takes pipelines whose compute stage names its unit; queues may join a memory and the compute unit
directly. Leaves pipelines in which every stage names one unit, every transfer moves between neighbours
of that unit and every queue joins two adjacent units: each transfer gets its own route (any number of
memories on the way), hops of one unit share a stage, buffers hold what the next hop takes. Tokens state
which stage waits for which. A pipeline that already is in that form is left alone, so a second run
changes nothing.

Before (device with DDR, MNILU, L1, L1LU, SFU, L1SU, MNISU)::

    stage { data_transfer from %p[%i, %j] size [1, 64] to %s0 size [1, 64] }           slot "DDR" -> "SFU"
    stage { read %s0; compute; write %s1 } {applicable_units = ["SFU"]}
    stage { data_transfer from %s1 size [1, 64] to %r[%i, %j] size [1, 64] }           slot "SFU" -> "DDR"

After::

    stage { from %p[%i, %j] size [1, 64] to %b0[0, 0] size [1, 64] } {applicable_units = ["MNILU"]}
    stage { from %b0[0, 0] size [1, 64] to %q0 size [64] }           {applicable_units = ["L1LU"]}
    stage { read %q0; compute; write %q1 }                           {applicable_units = ["SFU"]}
    stage { from %q1 size [64] to %b1[0, 0] size [1, 64] }           {applicable_units = ["L1SU"]}
    stage { from %b1[0, 0] size [1, 64] to %r[%i, %j] size [1, 64] } {applicable_units = ["MNISU"]}

>>> from dfsched.passes.examples import after, kernel
>>> after("path-expansion", kernel(),
... r"applicable_units|alloc\(")
%alloc = memref.alloc() : memref<1x64xf16, "L1">
%alloc_2 = memref.alloc() : memref<1x64xf16, "L1">
} {applicable_units = ["MNILU"]}
} {applicable_units = ["L1LU"]}
} {applicable_units = ["SFU"]}
} {applicable_units = ["L1SU"]}
} {applicable_units = ["MNISU"]}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from attrs import define, field, frozen

from dfsched.architecture import Architecture, Kind, RoutingNode, kind_text
from dfsched.architecture.routing import Route
from dfsched.dialects.ktdf import (
    Cell,
    CreateToken,
    DataTransfer,
    FifoAllocate,
    FifoSlotType,
    Pipeline,
    Private,
    ReadFromFifo,
    Stage,
    TokenType,
    WriteToFifo,
)
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.ir_tools import captured, rewrite_blocks, substitute
from ktir.attribute import Attribute
from ktir.attributes import StringAttr
from ktir.dialects.builtin import Module
from ktir.ir import Operation, OpResult, Value
from ktir.types import MemRefType, Type

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Expand every pipeline, inner ones first."""
    findings = Findings()

    def expanded(op: Operation) -> Operation:
        return _expand(op, context) if isinstance(op, Pipeline) and not _is_expanded(op) else op

    new = rewrite_blocks(module, lambda operations: [findings.attempt(expanded, op) for op in operations])
    findings.check()
    assert isinstance(new, Module)
    return new


PASS = Pass(
    "path-expansion", Group.SCHEDULER, run, "route every transfer through the device's units and memories"
)


def _is_expanded(pipeline: Pipeline) -> bool:
    return all(stage.units is not None for stage in pipeline.stages)


@define(eq=False)
class _Hop:
    """One movement by one unit; `after` are the stages that must come first."""

    unit: str
    operation: Operation
    reads: tuple[Value, ...] = ()
    writes: tuple[Value, ...] = ()


@define(eq=False)
class _Step:
    """A stage under construction: `origin` is the stage that it continues, if any."""

    unit: str | None
    origin: Stage | None = None
    operations: list[Operation] = field(factory=list)
    after: list[_Step] = field(factory=list)
    token: Value | None = None


@frozen
class _Leg:
    """A unit and the memory or compute node on either side of it."""

    unit: str
    source: RoutingNode
    target: RoutingNode


@define(eq=False)
class _Expansion:
    """The state of rebuilding one pipeline."""

    pipeline: Pipeline
    architecture: Architecture
    resources: list[OpResult] = field(factory=list)
    slots: dict[Value, Value] = field(factory=dict)
    yielded: dict[Value, Value] = field(factory=dict)

    def error(self, op: Operation, message: str) -> ScheduleError:
        return ScheduleError.at(op.location, f"path expansion: {message}")

    def legs(self, op: Operation, source: Kind, target: Kind) -> list[_Leg]:
        """The route between two resources as movements of units."""
        route = self.architecture.route(source, target)
        if route is None:
            raise self.error(op, f"the device has no route from {kind_text(source)} to {kind_text(target)}")
        nodes = route.nodes
        legs = []
        position = 0
        while position < len(nodes) - 1:
            if position + 2 >= len(nodes) or not nodes[position + 1].is_mover:
                found = [n for n in nodes[position + 1 : position + 2] if n.is_mover]
                if found:  # the route ends in a mover: its own queue is the last step
                    break
                raise self.error(
                    op, f"no unit moves data from {kind_text(nodes[position].kind)} along {route}"
                )
            unit, end = nodes[position + 1], nodes[position + 2]
            if end.is_mover:
                raise self.error(
                    op,
                    f"{kind_text(unit.kind)} hands data to {kind_text(end.kind)} without a memory on {route}",
                )
            legs.append(_Leg(self.unit(op, unit, route), nodes[position], end))
            position += 2
        return legs

    def unit(self, op: Operation, node: RoutingNode, route: Route) -> str:
        """The name by which a stage calls for the unit at a node of a route."""
        if not isinstance(node.kind, str) or not self.architecture.is_unit(node.kind):
            raise self.error(op, f"a unit on {route} has no kind of its own by which a stage could name it")
        return kind_text(node.kind)

    def buffer(self, kind: Kind, shape: Sequence[int], element: Type) -> OpResult:
        """A new buffer, held by the private of the pipeline."""
        space = StringAttr(kind) if isinstance(kind, str) else kind
        value = OpResult(MemRefType(tuple(shape), element, None, space))
        self.resources.append(value)
        return value

    def slot(self, source: str, target: str, old: FifoSlotType) -> OpResult:
        """A new slot between two adjacent units."""
        value = OpResult(FifoSlotType(StringAttr(source), StringAttr(target), old.capacity, old.element))
        self.resources.append(value)
        return value


def _expand(pipeline: Pipeline, context: PassContext) -> Pipeline:
    state = _Expansion(pipeline, context.architecture)
    steps = _steps(state)
    _link(state, steps)
    ordered = _ordered(state, steps)
    return _materialise(state, ordered)


def _steps(state: _Expansion) -> list[_Step]:
    """Every stage of the old pipeline, with its transfers cut into hops; new stages for new units."""
    steps: list[_Step] = []
    for stage in state.pipeline.stages:
        if stage.units is not None:
            steps.append(_Step(_only_unit(state, stage), stage, list(stage.body.block.operations)))
    by_unit: dict[tuple[str, bool], _Step] = {}
    for stage in state.pipeline.stages:
        if stage.units is not None:
            continue
        created: list[_Step] = []
        for op in stage.body.block.operations:
            if not isinstance(op, DataTransfer):
                raise state.error(
                    op, f"a stage without units may hold only transfers, but here is '{op.name}'"
                )
            for unit, hop in _hops(state, op):
                key = (unit, _feeds_compute(op))
                step = by_unit.get(key)
                if step is None:
                    step = by_unit[key] = _Step(unit)
                    created.append(step)
                step.operations.append(hop)
        steps += created
    return steps


def _feeds_compute(transfer: DataTransfer) -> bool:
    return isinstance(transfer.dest.type, FifoSlotType)


def _only_unit(state: _Expansion, stage: Stage) -> str:
    units = stage.units or ()
    if len(units) != 1:
        raise state.error(stage, f"a stage must name exactly one unit, but this one names {len(units)}")
    return units[0]


def _space(value: Value) -> Kind:
    type = value.type
    assert isinstance(type, MemRefType)
    match type.memory_space:
        case StringAttr(value=text):
            return text
        case None:
            return "(no memory space)"
        case other:
            return other


def _end(attribute: object) -> Kind:
    return attribute.value if isinstance(attribute, StringAttr) else attribute  # type: ignore[return-value]


def _hops(state: _Expansion, transfer: DataTransfer) -> list[tuple[str, DataTransfer]]:
    """A transfer as hops of units, in order; records replaced slots."""
    source, dest = transfer.source_cell, transfer.dest_cell
    match (source.value.type, dest.value.type):
        case (MemRefType(), FifoSlotType() as slot):
            return _load_hops(state, transfer, slot)
        case (FifoSlotType() as slot, MemRefType()):
            return _store_hops(state, transfer, slot)
        case (MemRefType(), MemRefType()):
            return _copy_hops(state, transfer)
        case _:
            raise state.error(transfer, "a transfer from queue to queue has no meaning")


def _boxes(state: _Expansion, transfer: DataTransfer, cell: Cell) -> tuple[int, ...]:
    if None in cell.sizes:
        raise state.error(transfer, "transfer sizes must be static")
    return cell.static_sizes


def _load_hops(
    state: _Expansion, transfer: DataTransfer, slot: FifoSlotType
) -> list[tuple[str, DataTransfer]]:
    first, last = _end(slot.source), _end(slot.target)
    here = transfer.source_cell
    if _space(here.value) != first:  # the queue already starts at a unit
        legs = state.legs(transfer, _space(here.value), first)
        return _through_memories(state, transfer, here, transfer.dest_cell, legs, str(first))
    legs = state.legs(transfer, first, last)
    queue = state_slot(state, transfer.dest, legs[-1].unit, kind_text(last), slot)
    end = Cell(queue, None, (), (slot.capacity,))
    return _through_memories(state, transfer, here, end, legs[:-1], legs[-1].unit)


def _store_hops(
    state: _Expansion, transfer: DataTransfer, slot: FifoSlotType
) -> list[tuple[str, DataTransfer]]:
    first, last = _end(slot.source), _end(slot.target)
    dest = transfer.dest_cell
    box = _boxes(state, transfer, dest)
    if _space(dest.value) != last:  # the queue already ends at a unit
        writer = kind_text(last)
        legs = state.legs(transfer, _unit_memory(state, transfer, writer), _space(dest.value))
        start = transfer.source_cell
        queue: Value = transfer.source
    else:
        route = state.architecture.route(first, last)
        if route is None:
            raise state.error(
                transfer, f"the device has no route from {kind_text(first)} to {kind_text(last)}"
            )
        if len(route.nodes) < 3 or not route.nodes[1].is_mover or not route.nodes[2].is_memory:
            raise state.error(transfer, f"no unit stores results along {route}")
        writer = state.unit(transfer, route.nodes[1], route)
        legs = state.legs(transfer, route.nodes[2].kind, last) if route.nodes[2].kind != last else []
        queue = state_slot(state, transfer.source, kind_text(first), writer, slot)
        start = Cell(queue, None, (), (slot.capacity,))
    hops = []
    here = start
    unit = writer
    for leg in legs:
        middle = Cell.whole(state.buffer(leg.source.kind, box, slot.element))
        hops.append((unit, DataTransfer.between(here, middle, transfer.discardable, transfer.location)))
        here, unit = middle, leg.unit
    hops.append((unit, DataTransfer.between(here, dest, transfer.discardable, transfer.location)))
    return hops


def _unit_memory(state: _Expansion, transfer: DataTransfer, unit: str) -> Kind:
    memories = state.architecture.writes(unit)
    if len(memories) != 1:
        raise state.error(transfer, f"{unit} writes {len(memories)} memories")
    return memories[0]


def _copy_hops(state: _Expansion, transfer: DataTransfer) -> list[tuple[str, DataTransfer]]:
    source, target = _space(transfer.source), _space(transfer.dest)
    legs = state.legs(transfer, source, target)
    return _through_memories(
        state, transfer, transfer.source_cell, transfer.dest_cell, legs[:-1], legs[-1].unit
    )


def _through_memories(
    state: _Expansion,
    transfer: DataTransfer,
    here: Cell,
    end: Cell,
    legs: Iterable[_Leg],
    last_unit: str,
) -> list[tuple[str, DataTransfer]]:
    """Hops from a memory cell over a buffer per leg; the last unit moves into `end`.

    The mode of a transfer (splat) belongs to its last hop.
    """
    hops = []
    box = _boxes(state, transfer, here)
    element = here.value.type
    assert isinstance(element, MemRefType)
    for leg in legs:
        middle = Cell.whole(state.buffer(leg.target.kind, box, element.element))
        hops.append((leg.unit, DataTransfer.between(here, middle, location=transfer.location)))
        here = middle
    hops.append((last_unit, DataTransfer.between(here, end, transfer.discardable, transfer.location)))
    return hops


def state_slot(state: _Expansion, old: Value, source: str, target: str, type: FifoSlotType) -> Value:
    """The slot that takes the place of an old one; the same for all transfers of that slot."""
    if old not in state.slots:
        state.slots[old] = state.slot(source, target, type)
    return state.slots[old]


def _link(state: _Expansion, steps: list[_Step]) -> None:
    """Who waits for whom: old tokens between kept stages, and who writes what another one reads.

    Only the pipeline's own resources count: tensors that it loads and stores (maybe the same one) come from
    outside, and an iteration loads before it stores.
    """
    outside = set(captured(state.pipeline))
    producers: dict[Value, list[_Step]] = {}
    for step in steps:
        step.operations = [substitute(op, state.slots) for op in step.operations]
        for op in step.operations:
            for value in _written(op):
                if value not in outside:
                    producers.setdefault(value, []).append(step)
    tokens: dict[Value, _Step] = {}
    for step in steps:
        if step.origin is not None:
            for token in step.origin.depends_out:
                tokens[token] = step
    for step in steps:
        before: list[_Step] = []
        for op in step.operations:
            for value in _read(op):
                before += producers.get(value, [])
        if step.origin is not None:
            before += [tokens[token] for token in step.origin.depends_in if token in tokens]
        step.after = [other for other in dict.fromkeys(before) if other is not step]


def _written(op: Operation) -> Iterable[Value]:
    for inner in op.walk():
        match inner:
            case DataTransfer():
                yield inner.dest
            case WriteToFifo():
                yield inner.slot


def _read(op: Operation) -> Iterable[Value]:
    for inner in op.walk():
        match inner:
            case DataTransfer():
                yield inner.source
            case ReadFromFifo():
                yield inner.slot


def _ordered(state: _Expansion, steps: list[_Step]) -> list[_Step]:
    position = {step: index for index, step in enumerate(steps)}
    sorter: TopologicalSorter[_Step] = TopologicalSorter({step: step.after for step in steps})
    ordered: list[_Step] = []
    try:
        sorter.prepare()
    except CycleError:
        raise state.error(state.pipeline, "the stages depend on each other in a circle") from None
    ready: list[_Step] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        ready.sort(key=lambda step: position[step])
        step = ready.pop(0)
        ordered.append(step)
        sorter.done(step)
    return ordered


def _materialise(state: _Expansion, steps: list[_Step]) -> Pipeline:
    waited_for = {other for step in steps for other in step.after}
    used = {
        value for step in steps for op in step.operations for inner in op.walk() for value in inner.operands
    }
    old = state.pipeline.private
    operations: list[Operation] = []
    yields: list[Value] = []
    results: dict[Value, Value] = {}
    if old is not None:
        kept = [
            (result, value)
            for result, value in zip(old.results, old.yielded, strict=True)
            if result in used and not isinstance(result.type, TokenType)
        ]
        operations += _needed(old, [value for _, value in kept])
        yields += [value for _, value in kept]
    new = [value for value in _in_stage_order(steps) if value in set(state.resources)]
    operations += [build.alloc(value) for value in new if isinstance(value.type, MemRefType)]
    operations += _allocations([value for value in new if isinstance(value.type, FifoSlotType)])
    for step in steps:
        if step in waited_for:
            token = CreateToken.new()
            operations.append(token)
            step.token = token.token
    ordered_new = [*new, *(step.token for step in steps if step.token is not None)]
    private = Private.of(operations, [*yields, *ordered_new])
    offset = len(yields)
    if old is not None:
        results.update(
            {result: private.results[i] for i, (result, _) in enumerate(kept)},
        )
    results.update({value: private.results[offset + i] for i, value in enumerate(ordered_new)})
    stages = [
        Stage.of(
            [results[other.token] for other in steps if other in step.after and other.token is not None],
            [] if step.token is None else [results[step.token]],
            [substitute(op, results) for op in step.operations],
            None if step.unit is None else [step.unit],
            None if step.origin is None else dict(_extra(step.origin)),
        )
        for step in steps
    ]
    return state.pipeline.replace(regions=[Pipeline.of([private, *stages]).body])


def _extra(stage: Stage) -> Iterable[tuple[str, Attribute]]:
    inherent = stage.definition.inherent
    return [(name, value) for name, value in stage.attributes.items() if name not in inherent]


def _needed(private: Private, values: Sequence[Value]) -> list[Operation]:
    """Operations of a private that the values need, in their order (scheduler spec 3.0.4)."""
    wanted = set(values)
    kept: list[Operation] = []
    for op in reversed(private.body.block.operations[:-1]):
        if not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(value for inner in op.walk() for value in inner.operands)
    return kept[::-1]


def _in_stage_order(steps: Sequence[_Step]) -> list[OpResult]:
    seen: dict[OpResult, None] = {}
    for step in steps:
        for op in step.operations:
            for inner in op.walk():
                for value in inner.operands:
                    if isinstance(value, OpResult):
                        seen.setdefault(value)
    return list(seen)


def _allocations(slots: Sequence[OpResult]) -> list[Operation]:
    """One allocation per queue, all its slots in order."""
    queues: dict[object, list[OpResult]] = {}
    for slot in slots:
        assert isinstance(slot.type, FifoSlotType)
        queues.setdefault(slot.type.ends, []).append(slot)
    return [FifoAllocate((), tuple(group)) for group in queues.values()]
