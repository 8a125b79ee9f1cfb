"""The event loop of one program.

A gang runs until it blocks.  Only when no gang can go on, the copy that starts first is done: whatever is
issued later starts later, so copies come to a shared port in order of time (as do single accesses, for which
a gang blocks), and everything else that gangs wait for carries its own time.  With a seed, who goes on and
how far is random instead: results must not depend on it (and times mean nothing).
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from dfsched import image as im
from spyresim.engine.instructions.copies import perform_copy
from spyresim.engine.report import cycles_of
from spyresim.engine.state import Blocked, Cohort, Diverged, Gang
from spyresim.errors import DeadlockFault, Site

if TYPE_CHECKING:
    from spyresim.engine.forward import Forwarder
    from spyresim.engine.process import Executor

TURN = 256
"""Instructions that a gang runs at most before others have their turn."""

RANDOM_TURN = 8
"""The same where the next gang is drawn."""

RANK_CHANGES = 1 / 16
"""How often a gang's rank among those that are drawn from changes."""


@attrs.frozen(eq=False)
class _Comer:
    """Who comes to a port: a copy of a gang, or its next instruction."""

    cohort: Cohort
    gang: Gang
    copying: bool

    def time(self) -> int:
        """The first tick at which it does on some row."""
        return self.gang.next_copy_start() if self.copying else int(self.gang.time.min())


class Schedule:
    """Runs the cohorts of a program until all gangs have halted; `cohorts` are those after all splits."""

    def __init__(
        self,
        executor: Executor,
        program: im.Program,
        cohorts: list[Cohort],
        draw: random.Random | None = None,
        forwarder: Forwarder | None = None,
    ) -> None:
        self.executor = executor
        self.program = program
        self.cohorts = cohorts
        self.draw = draw
        self.forwarder = forwarder
        self.ready: deque[tuple[Cohort, Gang]] = deque()
        self.ranks: dict[tuple[int, bool], float] = {}

    def run(self) -> None:
        """Run to the end; `DeadlockFault` if nothing can go on before all have halted."""
        for cohort in self.cohorts:
            self._admit(cohort)
        step = self._in_order if self.draw is None else self._drawn
        while step():
            self.executor.check_budget()
            if self.forwarder is not None:
                self.forwarder.look(self.cohorts, self.ready)
        if any(not gang.halted for cohort in self.cohorts for gang in cohort.gangs):
            self._deadlock()

    # -- who is next

    def _admit(self, cohort: Cohort) -> None:
        self.ready.extend((cohort, gang) for gang in cohort.gangs if not gang.halted and gang.blocked is None)

    def _in_order(self) -> bool:
        """Run the gang that waits longest, or whoever comes first to a port; False if there is nobody."""
        if self.ready:
            self._advance(*self.ready.popleft(), TURN)
            return True
        first: _Comer | None = None
        earliest = 0
        for comer in self._coming():
            start = comer.time()
            if first is None or start < earliest:
                first, earliest = comer, start
        if first is None:
            return False
        self._come(first, TURN)
        return True

    def _drawn(self) -> bool:
        """Run a gang for a while, or do a copy, by chance; False if there is nothing to do.

        Each has a rank that is drawn anew now and then: some are late for long, which finds more orders than
        drawing each time.
        """
        assert self.draw is not None
        coming = self._coming()
        choices = [_Comer(cohort, gang, False) for cohort, gang in self.ready] + coming
        if not choices:
            return False
        ranks = [self._rank(comer) for comer in choices]
        number = ranks.index(max(ranks))
        steps = self.draw.randint(1, RANDOM_TURN)
        if number < len(self.ready):
            self.ready.rotate(-number)
            self._advance(*self.ready.popleft(), steps)
        else:
            self._come(choices[number], steps)
        return True

    def _rank(self, comer: _Comer) -> float:
        assert self.draw is not None
        key = comer.gang.index, comer.copying
        if key not in self.ranks or self.draw.random() < RANK_CHANGES:
            self.ranks[key] = self.draw.random()
        return self.ranks[key]

    def _coming(self) -> list[_Comer]:
        """Copies that are outstanding, and gangs that wait for their turn at a port."""
        found: list[_Comer] = []
        for cohort in self.cohorts:
            for gang in cohort.gangs:
                if gang.copies:
                    found.append(_Comer(cohort, gang, True))
                if gang.blocked is not None and gang.blocked.reason == "port":
                    found.append(_Comer(cohort, gang, False))
        return found

    # -- what they do

    def _advance(self, cohort: Cohort, gang: Gang, steps: int) -> None:
        try:
            self.executor.advance(cohort, gang, steps)
        except Diverged as diverged:
            self._split(cohort, diverged.groups)
            return
        if not gang.halted and gang.blocked is None:
            self.ready.append((cohort, gang))
        self._wake(cohort, gang)

    def _come(self, comer: _Comer, steps: int) -> None:
        cohort, gang = comer.cohort, comer.gang
        if comer.copying:
            perform_copy(self.executor, cohort, gang)
            self._wake(cohort, gang)
            return
        gang.blocked, gang.turn = None, True
        self._advance(cohort, gang, steps)

    def _wake(self, cohort: Cohort, ran: Gang) -> None:
        """Gangs that waited for the one that just ran, and can go on now."""
        for gang in cohort.gangs:
            if gang.blocked is None or gang.blocked.other not in (None, ran.index):
                continue
            if self.executor.can_go_on(cohort, gang):
                gang.blocked = None
                self.ready.append((cohort, gang))

    def _split(self, cohort: Cohort, groups: list[npt.NDArray[np.intp]]) -> None:
        self.cohorts = [known for known in self.cohorts if known is not cohort]
        self.ready = deque(entry for entry in self.ready if entry[0] is not cohort)
        for rows in groups:
            part = cohort.select(rows)
            self.cohorts.append(part)
            self._admit(part)

    # -- deadlocks

    def _deadlock(self) -> None:
        waiting = [(cohort, g) for cohort in self.cohorts for g in cohort.gangs if not g.halted]
        lines = tuple(self._line(cohort, gang) for cohort, gang in waiting)
        cycle = cycles_of(max(int(gang.time.max()) for _, gang in waiting))
        circles = [found for cohort in self.cohorts if (found := self._circle(cohort)) is not None]
        closed, circle = min(circles, key=lambda found: not found[0])
        what = "cycle of waits" if closed else "waits for a unit that has ended"
        raise DeadlockFault(
            f"deadlock at cycle {cycle}: {'; '.join(lines)}; {what}: {' -> '.join(circle)}",
            site=Site(unit=self.program.name),
            waiting=lines,
            circle=circle,
        )

    def _line(self, cohort: Cohort, gang: Gang) -> str:
        """Where a gang stands, in which iteration, and what it waits for."""
        site = self.executor.site(gang)
        name = self.executor.unit_name(gang)
        others = f" and {len(gang) - 1} more" if len(gang) > 1 else ""
        place = None if site.location is None else site.location.file_line_column()
        where = "" if place is None else f" ({place[0]}:{place[1]}:{place[2]})"
        loops = f" in iteration {gang.iteration}" if gang.loops else ""
        blocked = gang.blocked or Blocked("not scheduled", "")
        queues = {queue.name: queue for queue in cohort.queues.values()}
        level = ""
        if blocked.on in queues and blocked.reason.startswith("queue"):
            queue = queues[blocked.on]
            level = f" ({len(queue.items)} of {queue.depth} items)"
        what = f"{blocked.reason} {blocked.on}".rstrip()
        at = f"{gang.program.label}[{gang.pc}] '{site.operation}'{where}{loops}"
        return f"{name}{others} at {at}: {what}{level}"

    def _circle(self, cohort: Cohort) -> tuple[bool, tuple[str, ...]] | None:
        """Whether gangs wait for one another in a circle, and who does; else a chain of waits that ends at a
        gang that has halted; None if nobody of the cohort waits."""
        gangs = {gang.index: gang for gang in cohort.gangs if not gang.halted}
        chain: tuple[int, ...] = ()
        for start in gangs:
            seen: list[int] = []
            current: int | None = start
            while current in gangs and current not in seen:
                assert current is not None
                seen.append(current)
                blocked = gangs[current].blocked
                current = None if blocked is None else blocked.other
            if current in seen:
                circle = [*seen[seen.index(current) :], current]
                return True, tuple(self.executor.unit_name(gangs[i]) for i in circle)
            chain = chain or (*seen, *(() if current is None else (current,)))
        return (False, tuple(self.executor.unit_name(cohort.gangs[i]) for i in chain)) if chain else None
