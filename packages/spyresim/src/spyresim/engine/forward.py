"""Exact fast-forward: once everything stands as it stood before, whole periods are skipped in time.

What happens next depends on where every gang stands, on the types of what registers and queues hold, and on
times relative to one another; times so early that nothing can ask for them any more count as equal.  If all
that is as it was some instructions ago, and `affine_control` shows that every gang takes the same way so many
times more, then the state after as many periods is known: every time is later by as many times the length of
the period, every count greater by as many times what the period added.  Nothing is approximated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from spyresim.engine import affine_control
from spyresim.engine.affine_control import ControlState, Repetition
from spyresim.engine.report import FastForward, cycles_of
from spyresim.engine.state import Cohort, Copy, Gang, Item, Mark, Queue
from spyresim.engine.trace import Event
from spyresim.engine.values import Ticks

if TYPE_CHECKING:
    from spyresim.engine.process import Context, Executor

KEPT = 1024
"""States that are remembered."""

TRIED = 8
"""Equal states that are tried, latest first."""

PATIENCE = 16
"""Turns of gangs after which a state is looked at even though no copy was done."""

Key = tuple[object, ...]


@attrs.frozen(eq=False)
class _GangState:
    """What of a gang is compared, or counted on."""

    control: ControlState
    time: Ticks
    copy_end: Ticks
    busy: int
    stall: dict[str, Ticks]
    moving: Ticks
    together: dict[tuple[str, str], Ticks]
    waited: Ticks | None
    spans: tuple[tuple[str, Ticks, Ticks], ...]
    copies_issued: int
    link: int

    @staticmethod
    def of(gang: Gang) -> _GangState:
        activity = gang.activity
        spans = () if activity is None else (*activity.processed, *activity.copied)
        return _GangState(
            ControlState.of(gang),
            gang.time,
            gang.copy_end,
            gang.busy,
            {reason: ticks.copy() for reason, ticks in gang.stall.items()},
            gang.moving,
            {} if activity is None else dict(activity.together),
            None if activity is None else activity.waited,
            tuple((span.kind, span.start, span.end) for span in spans),
            gang.copies_issued,
            gang.link,
        )


@attrs.frozen(eq=False)
class _State:
    """Everything at one moment; `start` is the earliest tick at which something can still happen."""

    start: int
    cohorts: tuple[Cohort, ...]
    gangs: tuple[_GangState, ...]
    sent: tuple[int, ...]
    counts: tuple[int, int, int]
    lanes: dict[object, int]
    ports: dict[tuple[str, int], Ticks]


class Forwarder:
    """Looks for states that come back, and skips what lies between them and the end of the loops."""

    def __init__(self, executor: Executor, skipped: list[FastForward]) -> None:
        self.executor = executor
        self.skipped = skipped
        self._known: dict[Key, deque[_State]] = {}
        self._count = 0
        self._turns = 0
        self._copies = 0

    def look(self, cohorts: Sequence[Cohort], ready: Sequence[tuple[Cohort, Gang]]) -> None:
        """Called between turns: nobody is in the middle of anything."""
        self._turns += 1
        copies = sum(gang.copies_done for cohort in cohorts for gang in cohort.gangs)
        if (copies == self._copies or ready) and self._turns < PATIENCE:
            return
        self._turns, self._copies = 0, copies
        earliest = [_earliest(cohort, ready) for cohort in cohorts]
        known = [times for times in earliest if times is not None]
        if not known:
            return
        start = min(int(times.min()) for times in known)
        key = self._key(cohorts, ready, earliest, start)
        now = self._state(cohorts, start)
        before = self._known.setdefault(key, deque(maxlen=TRIED))
        for earlier in reversed(before):
            if self._forward(earlier, now, cohorts):
                self._known.clear()
                self._count = 0
                return
        before.append(now)
        self._count += 1
        if self._count > KEPT:
            self._known.clear()
            self._count = 0

    # -- states

    def _key(
        self,
        cohorts: Sequence[Cohort],
        ready: Sequence[tuple[Cohort, Gang]],
        earliest: Sequence[Ticks | None],
        start: int,
    ) -> Key:
        parts: list[object] = [tuple((id(cohort), gang.index) for cohort, gang in ready)]
        free = self.executor.context.ports.free
        parts.append(tuple((name, np.maximum(free[name] - start, 0).tobytes()) for name in sorted(free)))
        for cohort, first in zip(cohorts, earliest, strict=True):
            parts.append((id(cohort), *(_shape_of(gang) for gang in cohort.gangs)))
            parts.append(tuple(_contents(queue) for queue in cohort.queues.values()))
            parts.append(tuple((key, len(s.pending)) for key, s in cohort.signals.items()))
            times = list(_times(cohort))
            if first is not None and times:
                stacked = np.stack(times)
                np.maximum(stacked, first, out=stacked)
                parts.append((stacked - start).tobytes())
        return tuple(parts)

    def _state(self, cohorts: Sequence[Cohort], start: int) -> _State:
        context = self.executor.context
        return _State(
            start,
            tuple(cohorts),
            tuple(_GangState.of(gang) for cohort in cohorts for gang in cohort.gangs),
            tuple(queue.sent_bytes for cohort in cohorts for queue in cohort.queues.values()),
            (self.executor.instructions, context.bytes_read, context.bytes_written),
            dict(context.lane_operations),
            {name: busy.copy() for name, busy in context.ports.busy.items()},
        )

    # -- skipping

    def _forward(self, before: _State, now: _State, cohorts: Sequence[Cohort]) -> bool:
        """Skip all periods that are sure to come; False if there are none."""
        length = now.start - before.start
        gangs = [gang for cohort in cohorts for gang in cohort.gangs]
        if length <= 0 or len(before.gangs) != len(gangs):
            return False
        if any(a is not b for a, b in zip(before.cohorts, now.cohorts, strict=True)):
            return False
        pairs = list(zip(gangs, before.gangs, now.gangs, strict=True))
        if not all(_as_before(a, b, length) for _, a, b in pairs):
            return False
        repeated: list[Repetition | None] = []
        periods = affine_control.MOST_PERIODS
        for gang, earlier, later in pairs:
            if later.control.executed == earlier.control.executed:
                repeated.append(None)
                continue
            found = affine_control.repetition(self.executor, gang, earlier.control)
            if found is None or found.periods < 2:
                return False
            repeated.append(found)
            periods = min(periods, found.periods - 1)
        if periods == affine_control.MOST_PERIODS:
            return False
        periods = min(periods, self._budget(before, now))
        if periods < 1:
            return False
        for (gang, earlier, later), repetition in zip(pairs, repeated, strict=True):
            self._skip_gang(gang, earlier, later, repetition, periods, length)
        sent = zip(before.sent, now.sent, strict=True)
        for cohort in cohorts:
            for queue in cohort.queues.values():
                earlier_sent, later_sent = next(sent)
                _skip_queue(queue, periods * (later_sent - earlier_sent), periods * length)
            for signals in cohort.signals.values():
                signals.pending = deque(_later(mark, periods * length) for mark in signals.pending)
        self._skip_counts(before, now, periods)
        end = now.start + periods * length
        self.skipped.append(FastForward(cycles_of(now.start), cycles_of(end), periods, length / 1024))
        return True

    def _budget(self, before: _State, now: _State) -> int:
        """Periods until the limit of instructions is passed (one more than fit, so that it is noticed)."""
        each = now.counts[0] - before.counts[0]
        return (self.executor.limit - now.counts[0]) // max(1, each) + 1

    def _skip_gang(
        self,
        gang: Gang,
        before: _GangState,
        now: _GangState,
        repeated: Repetition | None,
        periods: int,
        length: int,
    ) -> None:
        ticks = periods * length
        self._record(gang, before, now, periods, ticks)
        if repeated is not None:
            affine_control.advance(gang, repeated, periods)
            gang.time = gang.time + ticks
            gang.executed += periods * (now.control.executed - before.control.executed)
            gang.busy += periods * (now.busy - before.busy)
            gang.copies_issued += periods * (now.copies_issued - before.copies_issued)
        for reason, waited in gang.stall.items():
            gang.stall[reason] = waited + periods * (waited - before.stall.get(reason, 0))
        gang.moving = gang.moving + periods * (now.moving - before.moving)
        gang.link += periods * (now.link - before.link)
        if _moved(before, now):
            gang.copy_end = gang.copy_end + ticks
        gang.copies = deque(_copy_later(copy, ticks) for copy in gang.copies)
        gang.copy_room = deque(_later(mark, ticks) for mark in gang.copy_room)
        activity = gang.activity
        if activity is not None:
            assert now.waited is not None
            assert before.waited is not None
            activity.processed = deque(span.shifted(ticks) for span in activity.processed)
            activity.copied = deque(span.shifted(ticks) for span in activity.copied)
            activity.waited = now.waited + periods * (now.waited - before.waited)
            for key, together in now.together.items():
                activity.together[key] = together + periods * (together - before.together.get(key, 0))

    def _record(self, gang: Gang, before: _GangState, now: _GangState, periods: int, ticks: int) -> None:
        """One event on every track that went on in the period."""
        trace = self.executor.context.trace
        if trace is None:
            return
        name, units = f"{periods} more periods", tuple(gang.units.tolist())
        if now.control.executed != before.control.executed:
            trace.events.append(Event(name, "", units, gang.time, gang.time + ticks))
        if _moved(before, now):
            trace.events.append(Event(name, "copies", units, gang.copy_end, gang.copy_end + ticks))

    def _skip_counts(self, before: _State, now: _State, periods: int) -> None:
        context: Context = self.executor.context
        instructions, read, written = (
            periods * (later - earlier) for earlier, later in zip(before.counts, now.counts, strict=True)
        )
        self.executor.instructions += instructions
        context.bytes_read += read
        context.bytes_written += written
        for key, count in context.lane_operations.items():
            context.lane_operations[key] = count + periods * (count - before.lanes.get(key, 0))
        ticks = periods * (now.start - before.start)
        for name, free in context.ports.free.items():
            free += ticks
            context.ports.busy[name] += periods * (context.ports.busy[name] - before.ports[name])


def _moved(before: _GangState, now: _GangState) -> bool:
    return now.copy_end is not before.copy_end


def _as_before(before: _GangState, now: _GangState, length: int) -> bool:
    """Whether times that are counted from (and not only asked for) are all later by the period."""
    if now.control.executed != before.control.executed and not _shifted(before.time, now.time, length):
        return False
    if _moved(before, now) and not _shifted(before.copy_end, now.copy_end, length):
        return False
    if len(before.spans) != len(now.spans):
        return False
    return all(
        a[0] == b[0] and _shifted(a[1], b[1], length) and _shifted(a[2], b[2], length)
        for a, b in zip(before.spans, now.spans, strict=True)
    )


def _shifted(before: Ticks, now: Ticks, length: int) -> bool:
    return bool((now - before == length).all())


def _earliest(cohort: Cohort, ready: Sequence[tuple[Cohort, Gang]]) -> Ticks | None:
    """For every row the first tick at which anything can happen; None if nothing can."""
    times = [gang.time for owner, gang in ready if owner is cohort]
    times += [
        gang.time for gang in cohort.gangs if gang.blocked is not None and gang.blocked.reason == "port"
    ]
    times += [np.maximum(gang.copies[0].issued, gang.copy_end) for gang in cohort.gangs if gang.copies]
    return np.minimum.reduce(times) if times else None


def _times(cohort: Cohort) -> Iterator[Ticks]:
    """All times of a cohort that later ones are compared with."""
    for gang in cohort.gangs:
        if not gang.halted:
            yield gang.time
        if gang.copies or not gang.halted:
            yield gang.copy_end
        yield from (copy.issued for copy in gang.copies)
        yield from (mark.time for mark in gang.copy_room)
    for queue in cohort.queues.values():
        yield from (item.visible for item in queue.items)
        yield from (mark.time for mark in queue.room)
        yield from (mark.time for _, mark in queue.freed)
    for signals in cohort.signals.values():
        yield from (mark.time for mark in signals.pending)


def _shape_of(gang: Gang) -> Key:
    """Where a gang stands, apart from numbers and times; vectors without values are the same object."""
    blocked = None if gang.blocked is None else (gang.blocked.reason, gang.blocked.other)
    return (
        gang.pc,
        gang.halted,
        gang.turn,
        blocked,
        tuple((loop.head, loop.upper) for loop in gang.loops),
        tuple((copy.index, id(copy.source.view), id(copy.target.view)) for copy in gang.copies),
        len(gang.copy_room),
        tuple(map(id, gang.vectors)),
        tuple(None if w is None else (id(w.view), _memory(w.memory)) for w in gang.views),
    )


def _memory(memory: int | Ticks) -> object:
    return memory if isinstance(memory, int) else memory.tobytes()


def _contents(queue: Queue) -> Key:
    freed = tuple(received - queue.sent_bytes for received, _ in queue.freed)
    return (
        tuple(id(item.value) for item in queue.items),
        len(queue.room),
        queue.unused,
        queue.held_bytes,
        freed,
    )


def _later(mark: Mark, ticks: int) -> Mark:
    return Mark(mark.time + ticks, mark.clock)


def _copy_later(copy: Copy, ticks: int) -> Copy:
    return attrs.evolve(copy, issued=copy.issued + ticks, start=None)


def _skip_queue(queue: Queue, sent: int, ticks: int) -> None:
    queue.sent_bytes += sent
    queue.items = deque(Item(item.value, item.visible + ticks, item.clock) for item in queue.items)
    queue.room = deque(_later(mark, ticks) for mark in queue.room)
    queue.freed = deque((received + sent, _later(mark, ticks)) for received, mark in queue.freed)


__all__ = ["Forwarder"]
