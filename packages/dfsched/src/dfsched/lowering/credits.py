"""Credits: one-way signals of a producer and a consumer that share three or more copies of a buffer
(readings, item 15).

With a meeting in every iteration a producer is never more than one iteration ahead, however many copies there
are. With credits it runs up to N - 1 ahead, N the number of copies:

- behind the producer, in every iteration, it posts that a copy is full, and the consumer awaits that;
- behind the consumer, in every iteration but the last N, it posts that a copy is free;
- in front of the producer, in every iteration but the first N, it awaits that.

Iterations are counted over all loops of the phase that picks the copies. The posts of free copies lag behind
those who await them by N iterations; so they can't share the way from the consumer to the producer with
another signal in these loops. Where one is, or where a buffer of the two has fewer copies, they meet. If
there are as many copies as iterations, however few, nothing is posted back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from dfsched.dialects.ktdf import BufferPhase, SelectMemref, Stage
from dfsched.dialects.ktdf_lowering import Await, Post
from dfsched.lowering.meetings import origin
from dfsched.passes.build import index_constant
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, scf
from ktir.ir import Operation, Region, Value
from ktir.types import I1, INDEX

__all__ = ["LEAST_COPIES", "Credit", "CreditSignals", "Credits"]

LEAST_COPIES = 3
"""Copies below which a meeting in every iteration costs nothing."""


@frozen(eq=False)
class Credit:
    """A producer and a consumer (leaf stages) that may trade credits.

    `before`, `after`: the direct stages of a pipeline around the two. `loops`: those of the phase, outermost
    first; only the trip count of the first may be unknown. `copies`: of the buffer with the fewest.
    """

    producer: Stage
    consumer: Stage
    before: Stage
    after: Stage
    loops: tuple[scf.For, ...]
    trips: tuple[int | None, ...]
    copies: int

    @property
    def is_enough(self) -> bool:
        """Whether there is a copy for every iteration, so that nobody waits for a free one."""
        known = [trip for trip in self.trips if trip is not None]
        return len(known) == len(self.trips) and math.prod(known) <= self.copies


@define
class Credits:
    """Finds the edges whose stages may trade credits; `units` of every stage."""

    uses: DefUse
    units: Mapping[Stage, Sequence[Value]]
    writers: dict[Value, list[Stage]] = field(factory=dict)
    readers: dict[Value, list[Stage]] = field(factory=dict)

    def note(self, stage: Stage, written: Iterable[Value], read: Iterable[Value]) -> None:
        """What a leaf stage writes and reads."""
        for values, found in ((written, self.writers), (read, self.readers)):
            for value in values:
                found.setdefault(origin(value, self.uses)[0], []).append(stage)

    def find(self, edge: tuple[Stage, Stage], anchors: tuple[Stage, Stage]) -> Credit | None:
        """The credit of an edge of leaf stages below two stages of a pipeline; None if they have to meet.

        It stands for all buffers that the first of the two stages fills for the second: pipelines in sequence
        below a stage have one edge, that of the last.
        """
        producer, consumer = edge
        if not set(self.units[producer]).isdisjoint(self.units[consumer]):
            return None
        phases: list[BufferPhase] = []
        copies = []
        for buffer, writers in self.writers.items():
            readers = self.readers.get(buffer, ())
            if not self._any_in(writers, anchors[0]) or not self._any_in(readers, anchors[1]):
                continue
            select = self.uses.definer(buffer)
            phase = self.uses.definer(select.phase) if isinstance(select, SelectMemref) else None
            if not isinstance(select, SelectMemref) or not isinstance(phase, BufferPhase):
                return None
            if not self._all_in(writers, anchors[0], producer) or not self._all_in(
                readers, anchors[1], consumer
            ):
                return None
            phases.append(phase)
            copies.append(len(select.candidates))
        variables = {_variables(phase, self.uses) for phase in phases}
        if len(variables) != 1:
            return None
        found = [_loop_of(variable, anchors[0], self.uses) for variable in variables.pop()]
        loops = tuple(loop for loop in found if loop is not None)
        trips = tuple(_trips(loop, self.uses) for loop in loops)
        if not loops or len(loops) < len(found) or None in trips[1:]:
            return None
        credit = Credit(producer, consumer, *anchors, loops, trips, min(copies))
        return credit if credit.copies >= LEAST_COPIES or credit.is_enough else None

    def _all_in(self, stages: Sequence[Stage], around: Stage, like: Stage) -> bool:
        """Whether stages are below one, and run by the units of another."""
        return all(
            self._any_in((stage,), around) and set(self.units[stage]) <= set(self.units[like])
            for stage in stages
        )

    def _any_in(self, stages: Sequence[Stage], around: Stage) -> bool:
        """Whether some stage is another one, or below it."""
        return any(
            stage is around or any(a is around for a in self.uses.ancestors(stage)) for stage in stages
        )


def _variables(phase: BufferPhase, uses: DefUse) -> tuple[Value, ...]:
    return tuple(v for v in phase.indices if not isinstance(uses.definer(v), arith.Constant))


def _loop_of(variable: Value, inside: Operation, uses: DefUse) -> scf.For | None:
    """The loop around an operation that counts by ones from zero and has this variable."""
    for outer in uses.ancestors(inside):
        if isinstance(outer, scf.For) and outer.induction_variable is variable:
            is_normal = _constant(outer.lower, uses) == 0 and _constant(outer.step, uses) == 1
            return outer if is_normal else None
    return None


def _trips(loop: scf.For, uses: DefUse) -> int | None:
    upper = _constant(loop.upper, uses)
    return None if upper is None else max(0, upper)


def _constant(value: Value, uses: DefUse) -> int | None:
    match uses.definer(value):
        case arith.Constant(value=IntegerAttr(value=number)):
            return number
        case _:
            return None


@frozen
class CreditSignals:
    """What carries a credit out: in front of the producer, behind it, behind the consumer."""

    waiting: tuple[Operation, ...]
    full: tuple[Operation, ...]
    free: tuple[Operation, ...]

    @classmethod
    def of(cls, credit: Credit, producers: Sequence[Value], consumers: Sequence[Value]) -> CreditSignals:
        """For the units of producer and consumer."""
        full = (Post.between(producers, consumers), Await.between(producers, consumers))
        if credit.is_enough:
            return cls((), full, ())
        waiting = _guarded(credit, arith.CmpIPredicate.SGE, Await.between(consumers, producers))
        free = _guarded(credit, arith.CmpIPredicate.SLT, Post.between(consumers, producers))
        return cls(waiting, full, free)


def _guarded(credit: Credit, predicate: arith.CmpIPredicate, op: Operation) -> tuple[Operation, ...]:
    """`op` in the iterations from the N-th on (SGE), or in all but the last N (SLT)."""
    made: list[Operation] = []

    def emit(new: Operation) -> Value:
        made.append(new)
        return new.results[0]

    inner = [trip for trip in credit.trips[1:] if trip is not None]
    count: Value = credit.loops[0].induction_variable
    for loop, trip in zip(credit.loops[1:], inner, strict=True):
        scaled = emit(arith.MulI.create((count, emit(index_constant(trip))), (INDEX,)))
        count = emit(arith.AddI.create((scaled, loop.induction_variable), (INDEX,)))
    limit = emit(index_constant(credit.copies))
    if predicate is arith.CmpIPredicate.SLT:
        factor = emit(index_constant(math.prod(inner)))
        total = emit(arith.MulI.create((credit.loops[0].upper, factor), (INDEX,)))
        limit = emit(arith.SubI.create((total, limit), (INDEX,)))
    flag = emit(arith.CmpI.create((count, limit), (I1,), {"predicate": IntegerAttr(predicate)}))
    region = Region.of((op, scf.Yield.create()))
    made.append(scf.If.create((flag,), regions=(region, Region())))
    return tuple(made)
