"""Groups of devices, and collectives posted for all ranks at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spyrert import arguments
from spyrert.collectives.meeting import Call, CollectiveTicket, Meeting
from spyrert.collectives.rank import Rank
from spyrert.errors import ArgumentValueError, CommError, PeerLost, SpyreError
from spyrert.execution import EventGeneration
from spyrert.tensor import DeviceTensor

if TYPE_CHECKING:
    from spyrert.runtime import Runtime


class Communicator:
    """A group of devices of one runtime. Rank ``i`` is the i-th of ``devices``.

    :meth:`rank` gives the collectives of one rank, to be called by one thread per rank (or one after the
    other with ``async_op=True``). The methods of the communicator itself post for all ranks: they take one
    tensor (or list of tensors) per rank.

    Args:
        devices: distinct device indices; default all of the runtime.
        timeout: seconds after which a collective fails with ``CommTimeout``.
    """

    def __init__(self, runtime: Runtime, devices: Sequence[int] | None = None, timeout: float = 30.0) -> None:
        indices = list(range(runtime.device_count())) if devices is None else list(devices)
        if len(set(indices)) != len(indices) or not indices:
            raise ArgumentValueError(f"a communicator needs distinct devices, not {indices}")
        self.contexts = tuple(runtime._context(index) for index in indices)
        self.timeout = timeout
        self._runtime = runtime
        self._lock = threading.Lock()
        self._meetings: dict[int, Meeting] = {}
        self._ranks = tuple(Rank(self, number) for number in range(len(indices)))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.contexts)

    def rank(self, number: int) -> Rank:
        """The collectives of one rank."""
        if not 0 <= arguments.integer(number, "rank") < self.size:
            raise ArgumentValueError(f"rank {number} is not in 0..{self.size - 1}")
        return self._ranks[number]

    # -- all ranks at once ---------------------------------------------------------------------

    def all_reduce(
        self, tensors: Sequence[DeviceTensor], op: str = "sum", async_op: bool = False
    ) -> list[CollectiveTicket]:
        """Every tensor becomes the sum of all."""
        return self._all([(t,) for t in self._per_rank(tensors)], "all_reduce", async_op, op=op)

    def all_gather(
        self,
        outputs: Sequence[Sequence[DeviceTensor]],
        tensors: Sequence[DeviceTensor],
        async_op: bool = False,
    ) -> list[CollectiveTicket]:
        """``outputs[r][k]`` becomes ``tensors[k]`` on every rank ``r``."""
        calls = list(zip(self._per_rank(outputs), self._per_rank(tensors), strict=True))
        return self._all(calls, "all_gather", async_op)

    def broadcast(
        self, tensors: Sequence[DeviceTensor], root: int = 0, async_op: bool = False
    ) -> list[CollectiveTicket]:
        """Every tensor becomes that of ``root``."""
        return self._all([(t,) for t in self._per_rank(tensors)], "broadcast", async_op, root=root)

    def reduce(
        self, tensors: Sequence[DeviceTensor], root: int = 0, op: str = "sum", async_op: bool = False
    ) -> list[CollectiveTicket]:
        """The tensor of ``root`` becomes the sum of all."""
        return self._all([(t,) for t in self._per_rank(tensors)], "reduce", async_op, root=root, op=op)

    def reduce_scatter(
        self,
        outputs: Sequence[DeviceTensor],
        tensors: Sequence[Sequence[DeviceTensor]],
        op: str = "sum",
        async_op: bool = False,
    ) -> list[CollectiveTicket]:
        """``outputs[r]`` becomes the sum of ``tensors[k][r]`` over all ranks ``k``."""
        calls = list(zip(self._per_rank(outputs), self._per_rank(tensors), strict=True))
        return self._all(calls, "reduce_scatter", async_op, op=op)

    def all_to_all(
        self,
        outputs: Sequence[Sequence[DeviceTensor]],
        tensors: Sequence[Sequence[DeviceTensor]],
        async_op: bool = False,
    ) -> list[CollectiveTicket]:
        """``outputs[r][k]`` becomes ``tensors[k][r]``."""
        calls = list(zip(self._per_rank(outputs), self._per_rank(tensors), strict=True))
        return self._all(calls, "all_to_all", async_op)

    def barrier(self, async_op: bool = False) -> list[CollectiveTicket]:
        """Later work of every rank's current stream waits for earlier work of all."""
        return self._all([()] * self.size, "barrier", async_op)

    def _per_rank(self, values: Sequence[Any]) -> Sequence[Any]:
        if len(arguments.items(values, "tensors")) != self.size:
            raise ArgumentValueError(f"{self.size} ranks take {self.size} tensors, not {len(values)}")
        return values

    def _all(
        self, calls: Sequence[tuple[Any, ...]], kind: str, async_op: bool, **options: Any
    ) -> list[CollectiveTicket]:
        checked = [
            getattr(rank, f"_{kind}")(*call, **options) for rank, call in zip(self._ranks, calls, strict=True)
        ]
        tickets = [rank._post(part, None) for rank, part in zip(self._ranks, checked, strict=True)]
        if not async_op:
            _wait_for_all(tickets)
        return tickets

    def _meeting(self, number: int) -> Meeting:
        with self._lock:
            found = self._meetings.get(number)
            if found is None:
                found = Meeting(number, self.size)
                found.sent = [EventGeneration(context.scheduler) for context in self.contexts]
                found.data = [[] for _ in range(self.size)]
                self._meetings[number] = found
            return found

    def _join(self, meeting: Meeting, rank: int, call: Call) -> None:
        """A rank has come; the last one lets all begin."""
        with self._lock:
            meeting.posted.add(rank)
            first = meeting.call = meeting.call or call
            complete = len(meeting.posted) == self.size
            if complete:
                del self._meetings[meeting.number]
        if first != call:
            meeting.fail(CommError(f"the ranks do not agree: rank {rank} posted {call}, another {first}"))
        elif complete:
            meeting.matched.signal()
            for scheduler in list(meeting.matched.waiters):
                scheduler.wake()

    def _leave(self, meeting: Meeting, rank: int, error: SpyreError) -> None:
        """A rank cannot take part: its stream has failed before."""
        with self._lock:
            meeting.posted.add(rank)
        meeting.fail(PeerLost(f"rank {rank} cannot take part: {error}"))


def _wait_for_all(tickets: Sequence[CollectiveTicket]) -> None:
    """Wait for every rank, then raise the first error."""
    first: SpyreError | None = None
    for ticket in tickets:
        try:
            ticket.wait()
        except SpyreError as error:
            first = first or error
    if first is not None:
        raise first


__all__ = ["Communicator"]
