"""One collective as the ranks share it: who has come, whose data is there, who must be told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from spyrert.errors import CommError, CommTimeout, PeerLost, SpyreError, SynchronizeTimeout
from spyrert.execution import EventGeneration, Operation, Wait

if TYPE_CHECKING:
    from spyrert.context import DeviceContext

Array = np.ndarray[Any, Any]


@attrs.frozen
class Call:
    """What must be equal on all ranks."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    root: int | None

    def __str__(self) -> str:
        where = "" if self.root is None else f" with root {self.root}"
        return f"{self.kind} of {self.dtype}{list(self.shape)}{where}"


@attrs.define(eq=False)
class Meeting:
    """One collective: what the ranks have posted, and the events by which they wait for each other."""

    number: int
    size: int
    call: Call | None = None
    posted: set[int] = attrs.field(factory=set)
    matched: EventGeneration = attrs.field(factory=lambda: EventGeneration(external=True))
    sent: list[EventGeneration] = attrs.field(factory=list)
    data: list[list[Array]] = attrs.field(factory=list)
    total: Array | None = None
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def fail(self, error: CommError) -> None:
        """Nobody will get a result."""
        for event in (self.matched, *self.sent):
            event.poison(error)
            for scheduler in list(event.waiters):
                scheduler.wake()

    def fold(self, arrays: Sequence[Array]) -> Array:
        """The sum in ascending order of ranks, computed once for all."""
        with self.lock:
            if self.total is None:
                total = arrays[0].copy()
                with np.errstate(over="ignore", invalid="ignore"):
                    for array in arrays[1:]:
                        total += array
                self.total = total
            return self.total


@attrs.define(eq=False)
class PeerWait(Wait):
    """Waits for another rank; what fails it is an error of communication."""

    def poisoned(self) -> SpyreError:
        cause = self.event.error
        if isinstance(cause, CommError):
            error: SpyreError = type(cause)(cause.message)
        else:
            error = PeerLost(f"{self.name}: a peer failed: {cause}")
        error.__cause__ = cause
        return error


class CollectiveTicket:
    """One rank's part of a collective that was posted."""

    def __init__(
        self, context: DeviceContext, meeting: Meeting, operations: Sequence[Operation], timeout: float
    ) -> None:
        self._context = context
        self._meeting = meeting
        self._operations = tuple(operations)
        self._timeout = timeout

    def done(self) -> bool:
        return all(operation.state.over for operation in self._operations)

    def wait(self, timeout: float | None = None) -> None:
        """Block until this rank's part is over.

        Raises ``CommError`` (the ranks do not agree), ``PeerLost``, ``CommTimeout`` after ``timeout`` seconds
        (default: the communicator's), or the error of this rank's device; then the stream is in ERROR.
        """
        limit = self._timeout if timeout is None else timeout
        what = str(self._meeting.call)
        try:
            self._context.scheduler.wait_for(self.done, limit, what)
        except SynchronizeTimeout:
            missing = sorted(set(range(self._meeting.size)) - self._meeting.posted)
            self._meeting.fail(
                CommTimeout(f"{what} did not finish in {limit} s; ranks that have not come: {missing}")
            )
            self._context.scheduler.wait_for(self.done, limit, what)
        for operation in self._operations:
            if operation.error is not None:
                raise operation.error.with_traceback(None)


__all__ = ["Call", "CollectiveTicket", "Meeting", "PeerWait"]
