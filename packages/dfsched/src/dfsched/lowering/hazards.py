"""Which units must meet, and where (dataflowir spec 2.9 to 2.11, 5.8; readings, item 15).

A `signal` is a rendezvous of its units.  Four rules place them; all units of a program see them in one
text order, so they cannot wait for each other in a circle:

1. A stage writes a memory that a dependent stage reads: behind the writer.
2. The same buffer is written again in the next iteration: behind the reader, in every iteration.
3. A pipeline stores to device memory that its next iteration loads: behind the storing stage.
4. Pipelines in sequence: between them, for every pair of a writing and a reading unit of one memory; in a
   loop also behind the last one, and behind a single one whose buffer phases start over in every iteration.

Rules 2 and 3 do not guard the first or last iteration: both partners run the same loops, so an
unconditional meeting always pairs up, which guards do not if a trip count is only known at run time or is
zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from dfsched.architecture import Architecture
from dfsched.dialects.ktdf import BufferPhase, DataTransfer, Parallel, Pipeline, Private, SelectMemref, Stage
from dfsched.dialects.ktdf_lowering import Signal
from dfsched.errors import ArchitectureError
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.stage_graph import global_edges, leaves, local_edges, roots
from dfsched.lowering.stage_units import components
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr, StringAttr
from ktir.dialects import arith, memref, scf
from ktir.dialects.ktdp import ConstructMemoryView
from ktir.ir import Block, BlockArgument, Operation, Value
from ktir.types import MemRefType

__all__ = ["place_signals"]


@define
class _Placement:
    """Signals to insert behind operations, in order."""

    units: dict[Stage, tuple[Value, ...]]
    after: dict[Operation, list[Signal]] = field(factory=dict)

    def meet(self, anchor: Operation, first: Stage, second: Stage, *, front: bool = False) -> None:
        units = tuple(dict.fromkeys((*self.units[first], *self.units[second])))
        signals = self.after.setdefault(anchor, [])
        signal = Signal.create(units)
        if front:
            signals.insert(0, signal)
        elif all(other.operands != units for other in signals):
            signals.append(signal)

    def meet_units(self, anchor: Operation, pairs: Iterable[tuple[Value, ...]]) -> None:
        self.after.setdefault(anchor, []).extend(Signal.create(pair) for pair in pairs)


def place_signals(
    pipelines: Sequence[Pipeline],
    units: dict[Stage, tuple[Value, ...]],
    uses: DefUse,
    architecture: Architecture,
) -> dict[Operation, list[Signal]]:
    """Signals behind operations of one function; `pipelines` in program order, `units` of every stage."""
    placement = _Placement(units)
    for (producer, consumer), (before, after) in global_edges(pipelines):
        if not _conflict(producer, consumer, architecture):
            continue
        placement.meet(before, producer, consumer, front=True)
        if _in_loop(before, uses) and _rewritten(before, after, uses):
            placement.meet(after, consumer, producer)
    for pipeline in pipelines:
        if _in_loop(pipeline, uses):
            for store, load in _carried(pipeline, uses):
                for last in leaves(store):
                    for first in roots(load):
                        placement.meet(store, last, first)
    root = uses.root.regions[0].blocks[0]
    _sequences(root, False, None, placement, architecture)
    return placement.after


def _kinds(stage: Stage) -> list[str]:
    found = []
    for component in components(stage):
        if not isinstance(component, StringAttr):
            raise LoweringError.at(stage.location, "failed to compute scratchpad conflicts")
        found.append(component.value)
    return found


def _conflict(producer: Stage, consumer: Stage, architecture: Architecture) -> bool:
    """Whether a unit of the producer writes a memory that one of the consumer reads."""
    try:
        return any(
            architecture.shared_memories(writer, reader)
            for writer in _kinds(producer)
            for reader in _kinds(consumer)
        )
    except ArchitectureError:
        raise LoweringError.at(producer.location, "failed to compute scratchpad conflicts") from None


def _in_loop(op: Operation, uses: DefUse) -> bool:
    """Whether a loop around the operation may run more than once."""
    return any(
        isinstance(outer, Parallel | scf.While) or (isinstance(outer, scf.For) and _trips(outer, uses) != 1)
        for outer in uses.ancestors(op)
    )


def _trips(loop: scf.For, uses: DefUse) -> int | None:
    """The trip count if the bounds are constants (1 stands for at most one)."""
    bounds = []
    for value in (loop.lower, loop.upper, loop.step):
        match uses.definer(value):
            case arith.Constant(value=IntegerAttr(value=number)):
                bounds.append(number)
            case _:
                return None
    lower, upper, step = bounds
    return max(1, -(-(upper - lower) // step)) if step > 0 else None


# -- memory of transfers -----------------------------------------------------------------------------


def _transfers(stage: Stage) -> list[DataTransfer]:
    return [op for op in stage.walk() if isinstance(op, DataTransfer)]


def _written(stage: Stage) -> list[Value]:
    return [op.dest for op in _transfers(stage) if isinstance(op.dest.type, MemRefType)]


def _read(stage: Stage) -> list[Value]:
    return [op.source for op in _transfers(stage) if isinstance(op.source.type, MemRefType)]


def _origin(value: Value, uses: DefUse) -> tuple[Value, Operation | None]:
    """The value behind casts and private results, and its definition."""
    while True:
        definer = uses.definer(value)
        match definer:
            case Private():
                value = definer.yielded[definer.results.index(value)]
            case memref.Cast() | memref.MemorySpaceCast() | memref.ReinterpretCast() | memref.SubView():
                value = definer.operands[0]
            case _:
                return value, definer


def _rewritten(producer: Stage, consumer: Stage, uses: DefUse) -> bool:
    """Whether the producer writes a buffer that the consumer reads and no phase selects."""
    written = dict(_origin(v, uses) for v in _written(producer))
    read = {origin for origin, _ in (_origin(v, uses) for v in _read(consumer))}
    return any(value in read and not isinstance(op, SelectMemref) for value, op in written.items())


def _carried(pipeline: Pipeline, uses: DefUse) -> list[tuple[Stage, Stage]]:
    """Pairs (store stage, load stage) of a pipeline where the store may feed a later iteration's load."""
    edges = local_edges(pipeline)
    first = [stage for stage in pipeline.stages if all(stage is not consumer for _, consumer in edges)]
    last = [stage for stage in pipeline.stages if all(stage is not producer for producer, _ in edges)]
    return [
        (store, load)
        for store in last
        for load in first
        if store is not load
        and any(_may_alias(_memory(a, uses), _memory(b, uses)) for a in _written(store) for b in _read(load))
    ]


@define(frozen=True)
class _Memory:
    """What is known of a transfer's device memory: argument or constant base, size in elements."""

    base: Value | None
    start: int | None
    elements: int | None


def _memory(value: Value, uses: DefUse) -> _Memory | None:
    """None for scratchpad buffers, which rules 1 and 2 take care of."""
    _, definer = _origin(value, uses)
    if not isinstance(definer, ConstructMemoryView):
        return None
    base, start = _base(definer.offset, uses)
    sizes, strides = definer.mixed_sizes, definer.mixed_strides
    elements: int | None = 1
    for size, stride in zip(sizes, strides, strict=True):
        if elements is not None and isinstance(size, int) and isinstance(stride, int):
            elements += (size - 1) * abs(stride)
        else:
            elements = None
    return _Memory(base, start, elements)


def _base(value: Value, uses: DefUse) -> tuple[Value | None, int | None]:
    """The argument that an address comes from, or None and the constant (None: not constant)."""
    match uses.definer(value):
        case None:
            return value if isinstance(value, BlockArgument) else None, None
        case arith.Constant(value=IntegerAttr(value=number)):
            return None, number
        case op:
            for operand in op.operands:
                base, _ = _base(operand, uses)
                if base is not None:
                    return base, None
            return None, None


def _may_alias(a: _Memory | None, b: _Memory | None) -> bool:
    if a is None or b is None:
        return False
    if a.base is not None or b.base is not None:
        return a.base is b.base
    if a.start is None or b.start is None or a.elements is None or b.elements is None:
        return True
    return a.start < b.start + b.elements and b.start < a.start + a.elements


# -- pipelines in sequence ---------------------------------------------------------------------------


def _sequences(
    block: Block,
    repeated: bool,
    loop: Operation | None,
    placement: _Placement,
    architecture: Architecture,
) -> None:
    """Rule 4 for a block and the blocks inside.

    `repeated`: a loop runs the block more than once. `loop`: the one whose body the block is.
    """
    seen: dict[Value, str] = {}
    previous: Operation | None = None
    count = 0
    for op in block.operations:
        here = _units_of(op, placement)
        if not here:
            continue
        if previous is not None:
            placement.meet_units(previous, _pairs(seen, here, architecture))
        seen.update(here)
        previous = op
        count += 1
        if isinstance(op, Pipeline):
            for stage in op.stages:  # pipelines in sequence inside of a stage; its own loop repeats them
                _sequences(stage.body.block, repeated, None, placement, architecture)
            continue
        inside = op if isinstance(op, scf.For | Parallel | scf.While) else None
        for region in op.regions:
            for inner in region.blocks:
                _sequences(inner, repeated or inside is not None, inside, placement, architecture)
    starts_over = loop is not None and previous is not None and _starts_over(previous, loop)
    if previous is not None and ((repeated and count > 1) or starts_over):
        placement.meet_units(previous, _pairs(seen, seen, architecture))


def _starts_over(op: Operation, loop: Operation) -> bool:
    """Whether a phase below an operation begins again in every iteration of a loop around it."""
    variables = [] if not isinstance(loop, scf.For) else [loop.induction_variable]
    return any(
        isinstance(inner, BufferPhase) and not any(v in inner.indices for v in variables)
        for inner in op.walk()
    )


def _units_of(op: Operation, placement: _Placement) -> dict[Value, str]:
    """Queries of all leaf stages below an operation, with their kinds."""
    found: dict[Value, str] = {}
    for stage in op.walk():
        if isinstance(stage, Stage) and not any(isinstance(o, Pipeline) for o in stage.walk()):
            kinds = _kinds(stage)
            for query in placement.units[stage]:
                found[query] = kinds[0]
    return found


def _pairs(
    before: dict[Value, str], after: dict[Value, str], architecture: Architecture
) -> list[tuple[Value, ...]]:
    """Pairs of different units of which one writes a memory that the other reads."""
    found: dict[frozenset[Value], tuple[Value, ...]] = {}
    for u, kind in before.items():
        for v, other in after.items():
            if u is v:
                continue
            if architecture.shared_memories(kind, other) or architecture.shared_memories(other, kind):
                found.setdefault(frozenset((u, v)), (u, v))
    return list(found.values())
