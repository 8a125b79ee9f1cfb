"""Which units must meet, and where (dataflowir spec 2.9 to 2.11, 5.8; readings, item 15).

A `signal` is a rendezvous of its units.  Four rules place them; but for rule 3 all units of a program see
them in one text order, so they cannot wait for each other in a circle:

1. A stage writes a memory that a dependent stage reads: behind the writer.
2. The same buffer is written again in the next iteration: behind the reader, in every iteration.
3. A pipeline stores what its next iteration loads: a back edge (`dfsched.lowering.back_edges`).
4. Pipelines in sequence: between them, for every pair of units of which one writes what the other uses; in a
   loop also behind the last one, and behind a single one whose buffer phases start over in every iteration.
   Inside of a `parallel` only units of one instance meet: the others run other iterations, and not always as
   many.

Where three or more copies of a buffer rotate, `credits` take the place of rule 1, so that the producer runs
ahead.

Rule 2 does not guard the last iteration: both partners run the same loops, so an unconditional meeting always
pairs up, which a guarded one does not if a trip count is only known at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, field

from dfsched.architecture import Architecture
from dfsched.dialects.ktdf import BufferPhase, DataTransfer, Parallel, Pipeline, SelectMemref, Stage
from dfsched.dialects.ktdf_lowering import Signal
from dfsched.errors import ArchitectureError
from dfsched.lowering.back_edges import BackEdge, BackedgeGuard, carried, repeats
from dfsched.lowering.credits import Credit, Credits, CreditSignals
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.meetings import Accesses, Meetings, origin
from dfsched.lowering.stage_graph import global_edges, leaves, roots
from dfsched.lowering.stage_units import components, is_leaf
from ktir.analysis import DefUse
from ktir.attributes import StringAttr
from ktir.dialects import scf
from ktir.ir import Block, Operation, Value
from ktir.types import MemRefType

__all__ = ["Placed", "place_signals"]


@define
class Placed:
    """Signals (and what guards them) to insert in front of operations and behind them, in order.

    `first`, `last`: what goes to the start and to the end of a stage.
    """

    before: dict[Operation, list[Operation]] = field(factory=dict)
    after: dict[Operation, list[Operation]] = field(factory=dict)
    first: dict[Stage, list[Operation]] = field(factory=dict)
    last: dict[Stage, list[Operation]] = field(factory=dict)

    def signals(self) -> Iterator[tuple[Operation, Signal]]:
        """All meetings, guarded or not, and the operation where each stands."""
        places: list[Mapping[Stage, list[Operation]] | Mapping[Operation, list[Operation]]]
        places = [self.before, self.after, self.first, self.last]
        for place in places:
            for anchor, operations in place.items():
                for op in operations:
                    yield from ((anchor, inner) for inner in op.walk() if isinstance(inner, Signal))


@define
class _Placement(Placed):
    """Signals that are being placed."""

    units: dict[Stage, tuple[Value, ...]] = field(factory=dict)

    def meet(self, anchor: Operation, first: Stage, second: Stage, *, front: bool = False) -> None:
        units = tuple(dict.fromkeys((*self.units[first], *self.units[second])))
        signals = self.after.setdefault(anchor, [])
        signal = Signal.create(units)
        if front:
            signals.insert(0, signal)
        elif all(other.operands != units for other in signals):
            signals.append(signal)

    def trade(self, credit: Credit) -> None:
        """Credits instead of a meeting."""
        made = CreditSignals.of(credit, self.units[credit.producer], self.units[credit.consumer])
        self.before.setdefault(credit.before, []).extend(made.waiting)
        self.after.setdefault(credit.before, [])[:0] = made.full
        self.after.setdefault(credit.after, []).extend(made.free)

    def meet_again(self, edge: BackEdge, guard: BackedgeGuard, last: Stage, first: Stage) -> None:
        """A leaf of the storing stage and a root of the loading one, in consecutive iterations."""
        if not edge.loops:
            self.meet(edge.store, last, first)
            return
        units = tuple(dict.fromkeys((*self.units[last], *self.units[first])))
        self.first.setdefault(edge.load, []).extend(edge.at_load(units, guard))
        self.last.setdefault(edge.store, []).extend(edge.at_store(units, guard))

    def meet_units(self, anchor: Operation, pairs: Iterable[tuple[Value, ...]]) -> None:
        self.after.setdefault(anchor, []).extend(Signal.create(pair) for pair in pairs)


def place_signals(
    pipelines: Sequence[Pipeline],
    units: dict[Stage, tuple[Value, ...]],
    uses: DefUse,
    architecture: Architecture,
    guard: BackedgeGuard,
) -> Placed:
    """The signals of one function; `pipelines` in program order, `units` of every stage."""
    placement = _Placement(units=units)
    credits = Credits(uses, units)
    for stage in units:
        if is_leaf(stage):
            credits.note(stage, _written(stage), _read(stage))
    traded: list[Credit] = []
    for (producer, consumer), (before, after) in global_edges(pipelines):
        if not _conflict(producer, consumer, architecture):
            continue
        credit = credits.find((producer, consumer), (before, after))
        if credit is not None:
            traded.append(credit)
            continue
        placement.meet(before, producer, consumer, front=True)
        if _in_loop(before, uses) and _rewritten(before, after, uses):
            placement.meet(after, consumer, producer)
    for pipeline in pipelines:
        for edge in carried(pipeline, uses, guard):
            for last in leaves(edge.store):
                for first in roots(edge.load):
                    if _conflict(last, first, architecture):
                        placement.meet_again(edge, guard, last, first)
    root = uses.root.regions[0].blocks[0]
    _sequences(root, False, None, {}, placement, Meetings(uses, architecture))
    for credit in traded:
        if _has_a_way_of_its_own(credit, traded, placement, uses):
            placement.trade(credit)
        else:
            placement.meet(credit.before, credit.producer, credit.consumer, front=True)
    return placement


def _has_a_way_of_its_own(
    credit: Credit, traded: Sequence[Credit], placement: _Placement, uses: DefUse
) -> bool:
    """Whether nothing else in the loops of a credit signals between the units of its two stages."""
    loop = credit.loops[0]
    here, there = (set(placement.units[stage]) for stage in (credit.producer, credit.consumer))
    others = [(anchor, op.operands) for anchor, op in placement.signals()]
    others += [
        (other.before, (*placement.units[other.producer], *placement.units[other.consumer]))
        for other in traded
        if other is not credit
    ]
    return not any(
        any(outer is loop for outer in uses.ancestors(anchor))
        and not here.isdisjoint(named)
        and not there.isdisjoint(named)
        for anchor, named in others
    )


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
    return any(repeats(outer, uses) for outer in uses.ancestors(op))


# -- memory of transfers -----------------------------------------------------------------------------


def _transfers(stage: Stage) -> list[DataTransfer]:
    return [op for op in stage.walk() if isinstance(op, DataTransfer)]


def _written(stage: Stage) -> list[Value]:
    return [op.dest for op in _transfers(stage) if isinstance(op.dest.type, MemRefType)]


def _read(stage: Stage) -> list[Value]:
    return [op.source for op in _transfers(stage) if isinstance(op.source.type, MemRefType)]


def _rewritten(producer: Stage, consumer: Stage, uses: DefUse) -> bool:
    """Whether the producer writes a buffer that the consumer reads and no phase selects."""
    written = dict(origin(v, uses) for v in _written(producer))
    read = {origin for origin, _ in (origin(v, uses) for v in _read(consumer))}
    return any(value in read and not isinstance(op, SelectMemref) for value, op in written.items())


# -- pipelines in sequence ---------------------------------------------------------------------------


def _sequences(
    block: Block,
    repeated: bool,
    loop: Operation | None,
    instances: Mapping[Value, int],
    placement: _Placement,
    meetings: Meetings,
) -> None:
    """Rule 4 for a block and the blocks inside.

    `repeated`: a loop runs the block more than once. `loop`: the one whose body the block is. `instances`:
    of the units that a `parallel` around the block divides its iterations among.
    """
    seen: Accesses = {}
    previous: Operation | None = None
    count = 0
    for op in block.operations:
        here = meetings.accesses(op, placement.units)
        if not here:
            continue
        if previous is not None:
            placement.meet_units(previous, meetings.pairs(seen, here, instances))
        for query, accesses in here.items():
            seen[query] = [*seen.get(query, ()), *accesses]
        previous = op
        count += 1
        if isinstance(op, Pipeline):
            for stage in op.stages:  # pipelines in sequence inside of a stage; its own loop repeats them
                _sequences(stage.body.block, repeated, None, instances, placement, meetings)
            continue
        inside = op if isinstance(op, scf.For | Parallel | scf.While) else None
        shared = _instances(op, placement.units) if isinstance(op, Parallel) else instances
        for region in op.regions:
            for inner in region.blocks:
                _sequences(inner, repeated or inside is not None, inside, shared, placement, meetings)
    starts_over = loop is not None and previous is not None and _starts_over(previous, loop)
    if previous is not None and ((repeated and count > 1) or starts_over):
        placement.meet_units(previous, meetings.pairs(seen, seen, instances))


def _instances(parallel: Parallel, units: Mapping[Stage, Sequence[Value]]) -> dict[Value, int]:
    """The instance of every unit of the stages below a `parallel`: stages list their units in that order."""
    return {
        query: instance
        for stage in parallel.walk()
        if isinstance(stage, Stage)
        for instance, query in enumerate(units[stage])
    }


def _starts_over(op: Operation, loop: Operation) -> bool:
    """Whether a phase below an operation begins again in every iteration of a loop around it."""
    variables = [] if not isinstance(loop, scf.For) else [loop.induction_variable]
    return any(
        isinstance(inner, BufferPhase) and not any(v in inner.indices for v in variables)
        for inner in op.walk()
    )
