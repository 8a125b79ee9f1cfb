"""The collectives of one rank, as operations on one of its streams."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from spyrert import arguments
from spyrert.collectives.meeting import Array, Call, CollectiveTicket, Meeting, PeerWait
from spyrert.copies import download, upload
from spyrert.dtypes import numpy_dtype
from spyrert.errors import ArgumentError, ArgumentValueError, NotSupportedCollective, SpyreError
from spyrert.execution import HostCall, Operation, Signal, Stream
from spyrert.tensor import DeviceTensor

if TYPE_CHECKING:
    from spyrert.collectives.communicator import Communicator
    from spyrert.context import DeviceContext

SUMMABLE: Final = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


@attrs.frozen
class _Part:
    """What one rank does: what it sends, whose data it needs, and what it makes of them.

    ``combine`` is given the meeting with everybody's data and returns one array per output.
    """

    call: Call
    inputs: tuple[DeviceTensor, ...]
    outputs: tuple[DeviceTensor, ...]
    sources: tuple[int, ...]
    combine: Callable[[Meeting], Sequence[Array]]


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

        def combine(meeting: Meeting) -> list[Array]:
            rows = [row[self.number] for row in meeting.data]
            return [Meeting(meeting.number, meeting.size).fold(rows)]

        return _Part(call, given, (output,), self._everybody(), combine)

    def _all_to_all(self, outputs: Sequence[DeviceTensor], tensors: Sequence[DeviceTensor]) -> _Part:
        given = arguments.items(tensors, "tensors")
        call = self._call("all_to_all", given[0] if given else None)
        sent, filled = self._list(tensors, call, "tensors"), self._list(outputs, call, "outputs")
        return _Part(call, sent, filled, self._everybody(), lambda m: [row[self.number] for row in m.data])

    def _barrier(self) -> _Part:
        return _Part(Call("barrier", "", (), None), (), (), self._everybody(), lambda m: [])

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

    def _call(self, kind: str, tensor: object, root: int | None = None) -> Call:
        checked = self._check(tensor)
        if root is not None and not 0 <= arguments.integer(root, "root") < self.communicator.size:
            raise ArgumentValueError(f"root {root} is not in 0..{self.communicator.size - 1}")
        return Call(kind, checked.dtype, checked.shape, root)

    def _list(self, tensors: object, call: Call, what: str) -> tuple[DeviceTensor, ...]:
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

    def _operations(self, part: _Part, meeting: Meeting) -> Sequence[Operation]:
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


def _total(meeting: Meeting) -> list[Array]:
    return [meeting.fold([row[0] for row in meeting.data])]


__all__ = ["Rank"]
