"""Collectives: what the ranks of a group of devices exchange, in stream order (runtime spec 3.20).

Every rank posts the same sequence of collectives. A collective is a handful of operations on a stream of
each rank: wait until all have posted, copy to the host, wait for the ranks whose data is needed, combine,
copy to the device. Ranks are matched by the number of the collective in their sequence; a mismatch, a failed
rank or one that never comes fails the streams of all others, so that nobody hangs.

Sums are left folds in ascending order of ranks with one rounding per addition: equal bits on every rank, in
every run.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from spyrert import arguments
from spyrert.copies import download, upload
from spyrert.dtypes import numpy_dtype
from spyrert.errors import (
    ArgumentError,
    ArgumentValueError,
    CommError,
    CommTimeout,
    NotSupportedCollective,
    PeerLost,
    SpyreError,
    SynchronizeTimeout,
)
from spyrert.execution import EventGeneration, HostCall, Operation, Signal, Stream, Wait
from spyrert.tensor import DeviceTensor

if TYPE_CHECKING:
    from spyrert.context import DeviceContext
    from spyrert.runtime import Runtime

Array = np.ndarray[Any, Any]
SUMMABLE: Final = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


@attrs.frozen
class _Call:
    """What must be equal on all ranks."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    root: int | None

    def __str__(self) -> str:
        where = "" if self.root is None else f" with root {self.root}"
        return f"{self.kind} of {self.dtype}{list(self.shape)}{where}"


@attrs.define(eq=False)
class _Meeting:
    """One collective: what the ranks have posted, and the events by which they wait for each other."""

    number: int
    size: int
    call: _Call | None = None
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
        self, context: DeviceContext, meeting: _Meeting, operations: Sequence[Operation], timeout: float
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
        self._meetings: dict[int, _Meeting] = {}
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

    def _meeting(self, number: int) -> _Meeting:
        with self._lock:
            found = self._meetings.get(number)
            if found is None:
                found = _Meeting(number, self.size)
                found.sent = [EventGeneration(context.scheduler) for context in self.contexts]
                found.data = [[] for _ in range(self.size)]
                self._meetings[number] = found
            return found

    def _join(self, meeting: _Meeting, rank: int, call: _Call) -> None:
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

    def _leave(self, meeting: _Meeting, rank: int, error: SpyreError) -> None:
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


@attrs.frozen
class _Part:
    """What one rank does: what it sends, whose data it needs, and what it makes of them.

    ``combine`` is given the meeting with everybody's data and returns one array per output.
    """

    call: _Call
    inputs: tuple[DeviceTensor, ...]
    outputs: tuple[DeviceTensor, ...]
    sources: tuple[int, ...]
    combine: Callable[[_Meeting], Sequence[Array]]


class Rank:
    """The collectives of one rank. Each takes tensors of its device, contiguous and whole.

    With ``async_op`` the call returns a ticket at once; else it waits. ``stream`` is of the rank's device
    (default: its current stream). ``ArgumentError`` and ``NotSupportedCollective`` are raised before any
    communication.
    """

    def __init__(self, communicator: Communicator, number: int) -> None:
        self.communicator = communicator
        self.number = number
        self._next = itertools.count()

    @property
    def context(self) -> DeviceContext:
        return self.communicator.contexts[self.number]

    def all_reduce(
        self, tensor: DeviceTensor, op: str = "sum", *, stream: Stream | None = None, async_op: bool = False
    ) -> CollectiveTicket:
        """The tensor becomes the sum of the tensors of all ranks."""
        return self._run(self._all_reduce(tensor, op), stream, async_op)

    def all_gather(
        self,
        outputs: Sequence[DeviceTensor],
        tensor: DeviceTensor,
        *,
        stream: Stream | None = None,
        async_op: bool = False,
    ) -> CollectiveTicket:
        """``outputs[k]`` becomes the tensor of rank ``k``."""
        return self._run(self._all_gather(outputs, tensor), stream, async_op)

    def broadcast(
        self, tensor: DeviceTensor, root: int = 0, *, stream: Stream | None = None, async_op: bool = False
    ) -> CollectiveTicket:
        """The tensor becomes that of rank ``root``."""
        return self._run(self._broadcast(tensor, root), stream, async_op)

    def reduce(
        self,
        tensor: DeviceTensor,
        root: int = 0,
        op: str = "sum",
        *,
        stream: Stream | None = None,
        async_op: bool = False,
    ) -> CollectiveTicket:
        """The tensor of rank ``root`` becomes the sum of all; the others keep theirs."""
        return self._run(self._reduce(tensor, root, op), stream, async_op)

    def gather(
        self,
        outputs: Sequence[DeviceTensor] | None,
        tensor: DeviceTensor,
        root: int = 0,
        *,
        stream: Stream | None = None,
        async_op: bool = False,
    ) -> CollectiveTicket:
        """On rank ``root`` ``outputs[k]`` becomes the tensor of rank ``k``; elsewhere it is ``None``."""
        return self._run(self._gather(outputs, tensor, root), stream, async_op)

    def scatter(
        self,
        output: DeviceTensor,
        tensors: Sequence[DeviceTensor] | None,
        root: int = 0,
        *,
        stream: Stream | None = None,
        async_op: bool = False,
    ) -> CollectiveTicket:
        """On rank ``k`` the output becomes ``tensors[k]`` of rank ``root``; others pass ``None``."""
        return self._run(self._scatter(output, tensors, root), stream, async_op)

    def reduce_scatter(
        self,
        output: DeviceTensor,
        tensors: Sequence[DeviceTensor],
        op: str = "sum",
        *,
        stream: Stream | None = None,
        async_op: bool = False,
    ) -> CollectiveTicket:
        """The output becomes the sum of ``tensors[this rank]`` over all ranks."""
        return self._run(self._reduce_scatter(output, tensors, op), stream, async_op)

    def all_to_all(
        self,
        outputs: Sequence[DeviceTensor],
        tensors: Sequence[DeviceTensor],
        *,
        stream: Stream | None = None,
        async_op: bool = False,
    ) -> CollectiveTicket:
        """``outputs[k]`` becomes ``tensors[this rank]`` of rank ``k``."""
        return self._run(self._all_to_all(outputs, tensors), stream, async_op)

    def send(
        self, tensor: DeviceTensor, to: int, *, stream: Stream | None = None, async_op: bool = False
    ) -> CollectiveTicket:
        """Refused: a send that only one other rank knows of is no collective; use ``Runtime.copy``."""
        raise NotSupportedCollective("send and recv: copy between the two tensors with Runtime.copy")

    def barrier(self, *, stream: Stream | None = None, async_op: bool = False) -> CollectiveTicket:
        """Later work of the stream waits for earlier work of all ranks."""
        return self._run(self._barrier(), stream, async_op)

    # -- the parts -----------------------------------------------------------------------------

    def _all_reduce(self, tensor: DeviceTensor, op: str = "sum") -> _Part:
        self._summable(tensor, op)
        call = self._call("all_reduce", tensor)
        return _Part(call, (tensor,), (tensor,), self._everybody(), _total)

    def _all_gather(self, outputs: Sequence[DeviceTensor], tensor: DeviceTensor) -> _Part:
        call = self._call("all_gather", tensor)
        filled = self._list(outputs, call, "outputs")
        return _Part(call, (tensor,), filled, self._everybody(), lambda m: [row[0] for row in m.data])

    def _broadcast(self, tensor: DeviceTensor, root: int = 0) -> _Part:
        call = self._call("broadcast", tensor, root)
        if self.number == root:
            return _Part(call, (tensor,), (), (), lambda m: [])
        return _Part(call, (), (tensor,), (root,), lambda m: m.data[root])

    def _reduce(self, tensor: DeviceTensor, root: int = 0, op: str = "sum") -> _Part:
        self._summable(tensor, op)
        call = self._call("reduce", tensor, root)
        if self.number == root:
            return _Part(call, (tensor,), (tensor,), self._everybody(), _total)
        return _Part(call, (tensor,), (), (), lambda m: [])

    def _gather(self, outputs: Sequence[DeviceTensor] | None, tensor: DeviceTensor, root: int = 0) -> _Part:
        call = self._call("gather", tensor, root)
        if self.number == root:
            filled = self._list(outputs, call, "outputs")
            return _Part(call, (tensor,), filled, self._everybody(), lambda m: [row[0] for row in m.data])
        self._absent(outputs, "outputs", root)
        return _Part(call, (tensor,), (), (), lambda m: [])

    def _scatter(self, output: DeviceTensor, tensors: Sequence[DeviceTensor] | None, root: int = 0) -> _Part:
        call = self._call("scatter", output, root)
        if self.number == root:
            return _Part(
                call, self._list(tensors, call, "tensors"), (output,), (), lambda m: [m.data[root][root]]
            )
        self._absent(tensors, "tensors", root)
        return _Part(call, (), (output,), (root,), lambda m: [m.data[root][self.number]])

    def _reduce_scatter(
        self, output: DeviceTensor, tensors: Sequence[DeviceTensor], op: str = "sum"
    ) -> _Part:
        self._summable(output, op)
        call = self._call("reduce_scatter", output)
        given = self._list(tensors, call, "tensors")

        def combine(meeting: _Meeting) -> list[Array]:
            rows = [row[self.number] for row in meeting.data]
            return [_Meeting(meeting.number, meeting.size).fold(rows)]

        return _Part(call, given, (output,), self._everybody(), combine)

    def _all_to_all(self, outputs: Sequence[DeviceTensor], tensors: Sequence[DeviceTensor]) -> _Part:
        given = arguments.items(tensors, "tensors")
        call = self._call("all_to_all", given[0] if given else None)
        sent, filled = self._list(tensors, call, "tensors"), self._list(outputs, call, "outputs")
        return _Part(call, sent, filled, self._everybody(), lambda m: [row[self.number] for row in m.data])

    def _barrier(self) -> _Part:
        return _Part(_Call("barrier", "", (), None), (), (), self._everybody(), lambda m: [])

    # -- checks --------------------------------------------------------------------------------

    def _everybody(self) -> tuple[int, ...]:
        return tuple(rank for rank in range(self.communicator.size) if rank != self.number)

    def _check(self, tensor: object) -> DeviceTensor:
        checked = arguments.tensor(tensor)
        if checked.storage.context is not self.context:
            raise ArgumentError(
                f"rank {self.number} takes tensors of device {self.context.index}, got one of device "
                f"{checked.device}"
            )
        checked.storage.check_alive()
        if not checked.is_whole:
            raise ArgumentError(f"a collective takes whole, contiguous tensors, not the view {checked}")
        return checked

    def _call(self, kind: str, tensor: object, root: int | None = None) -> _Call:
        checked = self._check(tensor)
        if root is not None and not 0 <= arguments.integer(root, "root") < self.communicator.size:
            raise ArgumentValueError(f"root {root} is not in 0..{self.communicator.size - 1}")
        return _Call(kind, checked.dtype, checked.shape, root)

    def _list(self, tensors: object, call: _Call, what: str) -> tuple[DeviceTensor, ...]:
        given = arguments.items(tensors, what)
        if len(given) != self.communicator.size:
            raise ArgumentError(
                f"{call.kind} takes {self.communicator.size} {what}, one for each rank, not {len(given)}"
            )
        for tensor in given:
            checked = self._check(tensor)
            if (checked.dtype, checked.shape) != (call.dtype, call.shape):
                raise ArgumentError(f"{what} of {call} must all be alike, one is {checked}")
        return tuple(given)

    def _absent(self, tensors: object, what: str, root: int) -> None:
        if tensors is not None:
            raise ArgumentError(f"only the root, rank {root}, passes {what}; rank {self.number} passes None")

    def _summable(self, tensor: object, op: str) -> None:
        if op != "sum":
            raise NotSupportedCollective(f"reduction '{op}' is not supported, only 'sum'")
        checked = self._check(tensor)
        if checked.dtype not in SUMMABLE:
            raise NotSupportedCollective(f"tensors of {checked.dtype} cannot be summed")

    # -- operations ----------------------------------------------------------------------------

    def _run(self, part: _Part, stream: Stream | None, async_op: bool) -> CollectiveTicket:
        ticket = self._post(part, stream)
        if not async_op:
            ticket.wait()
        return ticket

    def _post(self, part: _Part, stream: Stream | None) -> CollectiveTicket:
        """Enqueue this rank's part and tell the others."""
        communicator, context = self.communicator, self.context
        chosen = communicator._runtime._stream(stream, context)
        number = next(self._next)
        meeting = communicator._meeting(number)
        try:
            chosen.state.check()
        except SpyreError as error:
            communicator._leave(meeting, self.number, error)
            raise
        operations = list(self._operations(part, meeting))
        total = sum(tensor.nbytes for tensor in part.inputs)
        for step, operation in enumerate(operations):
            operation.tags = {
                "collective_type": part.call.kind,
                "algorithm": "direct",
                "total_bytes": total,
                "step": step,
                "total_steps": len(operations),
                "rank": self.number,
                "correlation_id": number,
            }
        context.scheduler.submit([(chosen.state, operation) for operation in operations])
        communicator._join(meeting, self.number, part.call)
        return CollectiveTicket(context, meeting, operations, communicator.timeout)

    def _operations(self, part: _Part, meeting: _Meeting) -> Sequence[Operation]:
        name = part.call.kind
        downloads = [download(tensor, f"{name}.out") for tensor in part.inputs]

        def deposit() -> None:
            meeting.data[self.number] = [plan.result() for plan in downloads if plan.result is not None]

        operations: list[Operation] = [PeerWait(name, event=meeting.matched)]
        operations += [operation for plan in downloads for operation in plan.operations]
        operations += [HostCall(f"{name}.deposit", function=deposit)]
        operations += [Signal(name, event=meeting.sent[self.number])]
        operations += [PeerWait(name, event=meeting.sent[source]) for source in part.sources]
        if part.outputs:
            staging = [np.empty(t.shape, numpy_dtype(t.dtype)) for t in part.outputs]

            def combine() -> None:
                for target, value in zip(staging, part.combine(meeting), strict=True):
                    target[...] = value

            operations.append(HostCall(f"{name}.combine", function=combine))
            for tensor, array in zip(part.outputs, staging, strict=True):
                operations += upload(array, tensor, f"{name}.in").operations
        return operations


def _total(meeting: _Meeting) -> list[Array]:
    return [meeting.fold([row[0] for row in meeting.data])]


__all__ = ["CollectiveTicket", "Communicator", "PeerWait", "Rank"]
