"""What a unit that copies does at every moment: its process and its copies overlap.

A unit is busy while its process executes an instruction or one of its copies moves.  Where neither is so, it
waits: for its share of a port (``bandwidth``) if a copy is under way, otherwise for what the process waits
for.  So the times of a unit add up, whatever runs beside what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import attrs
import numpy as np

from spyresim.engine.values import Ticks

BANDWIDTH = "bandwidth"

EXECUTING = ""
MOVING = "moving"

Rows = np.typing.NDArray[np.intp]


@attrs.frozen(eq=False)
class Span:
    """From when to when something went on, in ticks, one entry a row."""

    kind: str
    start: Ticks
    end: Ticks

    def select(self, rows: Rows) -> Span:
        return Span(self.kind, self.start[rows], self.end[rows])

    def shifted(self, ticks: int) -> Span:
        return Span(self.kind, self.start + ticks, self.end + ticks)


@attrs.define(eq=False)
class Activity:
    """How long what the process did and what the copies did went on at the same time.

    The spans of a process follow one another, and so do those of copies; the two lists hold what may still
    meet something.  `together` is by kind of the process' span (a reason to wait, or executing) and of the
    copy's (moving, or waiting for bandwidth).
    """

    processed: deque[Span] = attrs.Factory(deque)
    copied: deque[Span] = attrs.Factory(deque)
    together: dict[tuple[str, str], Ticks] = attrs.Factory(dict)
    waited: Ticks = attrs.field(factory=lambda: np.zeros(0, np.int64))
    """Ticks that copies waited for bandwidth."""

    def process(self, kind: str, start: Ticks, end: Ticks, outstanding: bool) -> None:
        """The process executed or waited; `outstanding`: there are copies that are not done yet."""
        span = Span(kind, start, end)
        while self.copied and bool((self.copied[0].end <= start).all()):
            self.copied.popleft()
        for other in self.copied:
            self._meet(span, other)
        if not outstanding:
            self.processed.clear()
        else:
            self.processed.append(span)

    def copy(self, kind: str, start: Ticks, end: Ticks) -> None:
        """A copy moved bytes or waited for a port."""
        span = Span(kind, start, end)
        if kind == BANDWIDTH:
            self.waited = self.waited + (end - start)
        while self.processed and bool((self.processed[0].end <= start).all()):
            self.processed.popleft()
        for other in self.processed:
            self._meet(other, span)
        self.copied.append(span)

    def _meet(self, process: Span, copy: Span) -> None:
        shared = np.minimum(process.end, copy.end) - np.maximum(process.start, copy.start)
        np.maximum(shared, 0, out=shared)
        key = process.kind, copy.kind
        known = self.together.get(key)
        self.together[key] = shared if known is None else known + shared

    def select(self, rows: Rows) -> Activity:
        """The activity on some rows."""
        return Activity(
            deque(span.select(rows) for span in self.processed),
            deque(span.select(rows) for span in self.copied),
            {key: ticks[rows] for key, ticks in self.together.items()},
            self.waited[rows],
        )

    def _met(self, process: str, copy: str) -> Ticks | int:
        return self.together.get((process, copy), 0)

    def busy(self, executing: int, moving: Ticks) -> Ticks:
        """Ticks in which the process executed or a copy moved; given how long each did."""
        return executing + moving - self._met(EXECUTING, MOVING)

    def stalls(self, waits: Mapping[str, Ticks]) -> dict[str, Ticks]:
        """Ticks of waiting by reason, without those in which a copy was under way."""
        found = {
            reason: ticks - self._met(reason, MOVING) - self._met(reason, BANDWIDTH)
            for reason, ticks in waits.items()
        }
        found[BANDWIDTH] = found.get(BANDWIDTH, 0) + self.waited - self._met(EXECUTING, BANDWIDTH)
        return found
