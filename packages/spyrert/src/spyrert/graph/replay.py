"""Replay: a recorded sequence, enqueued as one atomic group with other tensors and scalars."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from spyrert import arguments, enqueue, launch
from spyrert.config import RuntimeConfig
from spyrert.device.protocol import MemoryType
from spyrert.enqueue import Transaction
from spyrert.errors import GraphError, LaunchError, SpyreError
from spyrert.execution import EventGeneration, Operation, OpState, Signal, Stream, StreamState, Wait
from spyrert.graph.capture import CopyNode, Graph, LaunchNode, SignalNode, Slot, WaitNode
from spyrert.launch import Request
from spyrert.memory import EMPTY, CompositeAddress
from spyrert.tensor import DeviceTensor, Storage
from spyrert.tickets import LaunchTicket

if TYPE_CHECKING:
    from spyrert.context import DeviceContext
    from spyrert.runtime.kernels import Kernels


class ReplayTicket:
    """One replay that was enqueued.

    ``launches`` are the tickets of its launches in the order of the recording.
    """

    def __init__(
        self, context: DeviceContext, operations: tuple[Operation, ...], launches: tuple[LaunchTicket, ...]
    ) -> None:
        self._context = context
        self._operations = operations
        self.launches = launches

    def done(self) -> bool:
        return all(operation.state.over for operation in self._operations)

    @property
    def error(self) -> SpyreError | None:
        """The first error of the replay, ``None`` as long as there is none."""
        failed = [o.error for o in self._operations if o.state is OpState.FAILED and o.error is not None]
        cancelled = [
            o.error for o in self._operations if o.state is OpState.CANCELLED and o.error is not None
        ]
        return next(iter((*failed, *cancelled)), None)

    def wait(self, timeout: float | None = None) -> None:
        """Block until the replay is over; raises its error or ``SynchronizeTimeout``."""
        self._context.scheduler.wait_for(self.done, timeout, "replay")
        if self.error is not None:
            raise self.error.with_traceback(None)


@attrs.frozen(eq=False)
class _End:
    state: StreamState
    event: EventGeneration


class GraphInstance:
    """A graph that can be replayed: its scratch memory is reserved, its launches are checked.

    Shapes are frozen: :meth:`update` takes only tensors like the recorded ones, bindings only values that
    leave all shapes as they are. Replays of one instance run one after the other, also on different streams.
    Thread-safe. Dropping the instance frees its memory after the last replay.
    """

    def __init__(self, runtime: Kernels, graph: Graph) -> None:
        self.graph = graph
        self._runtime = runtime
        self._context = graph.context
        self._generation = self._context.generation
        self._lock = threading.Lock()
        self._bound: list[Storage] = [slot.storage for slot in graph.slots]
        self._numbers = {id(slot.storage): slot.number for slot in graph.slots}
        self._checked: tuple[Mapping[str, Any], tuple[tuple[Request, ...], ...]] | None = None
        self._ends: list[_End] = []
        self._requests({})
        self._scratch = self._reserve()

    # -- rebinding -----------------------------------------------------------------------------

    def update(self, slot: Slot | int | DeviceTensor, tensor: DeviceTensor) -> None:
        """Let a tensor take the place of a recorded one in later replays.

        ``slot`` is a slot, its number, or the tensor that the graph was recorded with. Raises ``GraphError``
        unless shape, dtype and layout are equal.
        """
        number = self._number(slot)
        wanted, storage = self.graph.slots[number], arguments.tensor(tensor).storage
        if storage.context is not self._context or not tensor.is_whole:
            raise GraphError(f"slot {number} takes a whole tensor of device {self._context.index}")
        storage.check_alive()
        for what in ("shape", "dtype", "layout"):
            have, want = getattr(storage, what), getattr(wanted, what)
            if have != want:
                raise GraphError(f"slot {number} has {what} {want}, the tensor {have}: shapes are frozen")
        with self._lock:
            self._bound[number] = storage
            self._checked = None

    def _number(self, slot: Slot | int | DeviceTensor) -> int:
        if isinstance(slot, DeviceTensor):
            return self.graph.slot(slot).number
        number = slot.number if isinstance(slot, Slot) else arguments.integer(slot, "slot")
        if not 0 <= number < len(self._bound):
            raise GraphError(f"the graph has slots 0..{len(self._bound) - 1}, not {number}")
        return number

    def _resolve(self, tensor: DeviceTensor) -> DeviceTensor:
        storage = self._bound[self._numbers[id(tensor.storage)]]
        return DeviceTensor(storage, tensor.shape, tensor.strides, tensor.offset)

    # -- checking ------------------------------------------------------------------------------

    def _requests(self, bindings: Mapping[str, Any]) -> tuple[tuple[Request, ...], ...]:
        """The checked launches, node by node; checked anew only if tensors or values have changed."""
        if self._checked is not None and self._checked[0] == bindings:
            for group in self._checked[1]:
                for request in group:
                    request.plan.check_ready()
            for storage in self._bound:
                storage.check_alive()
            return self._checked[1]
        nodes = [node for _, node in self.graph.nodes if isinstance(node, LaunchNode)]
        known = {name for node in nodes for one in node.launches for name in one.plan.symbols}
        unknown = sorted(set(bindings) - known)
        if unknown:
            raise GraphError(f"no kernel of the graph has a symbol '{unknown[0]}'")
        checked = tuple(
            tuple(self._request(node, k, bindings) for k in range(len(node.launches))) for node in nodes
        )
        self._checked = (dict(bindings), checked)
        return checked

    def _request(self, node: LaunchNode, number: int, bindings: Mapping[str, Any]) -> Request:
        one = node.launches[number]
        values = {**(one.bindings or {}), **{k: v for k, v in bindings.items() if k in one.plan.symbols}}
        try:
            return launch.check(
                one.plan,
                [self._resolve(tensor) for tensor in one.tensors],
                None,
                values if one.plan.launch is not None else one.bindings,
                one.symbolic_args,
                node.allow_tiled,
                node.allow_staging,
            )
        except LaunchError as error:
            raise GraphError(f"launch of '{one.plan.name}' in a graph: {error}") from error

    def _reserve(self) -> Mapping[tuple[int, int], CompositeAddress]:
        """A dynamic block for each recorded stream and size: the launches of a stream run in order."""
        wanted = dict.fromkeys(
            (number, one.plan.dynamic_size)
            for number, node in self.graph.nodes
            if isinstance(node, LaunchNode)
            for one in node.launches
            if one.plan.dynamic_size
        )
        directive = self._context.program_directive(MemoryType.PROGRAM_DYNAMIC)
        allocator = self._context.allocator
        blocks: dict[tuple[int, int], CompositeAddress] = {}
        try:
            for number, size in wanted:
                blocks[number, size] = allocator.allocate(size, directive)
        except SpyreError:
            for block in blocks.values():
                allocator.free(block)
            raise
        for block in blocks.values():
            weakref.finalize(self, allocator.garbage.append, block).atexit = False
        return blocks

    # -- replay --------------------------------------------------------------------------------

    def replay(self, bindings: Mapping[str, Any] | None = None, stream: Stream | None = None) -> ReplayTicket:
        """Enqueue the whole sequence atomically; returns at once.

        Args:
            bindings: values of symbols, by name, instead of those of the recording; each goes to every kernel
                that has it.
            stream: takes the place of the first recorded stream (default: the current stream). The others
                are the recorded ones, or new ones if those have failed or were destroyed.

        Raises ``GraphError`` for values or tensors that the launches refuse, and like ``launch``.
        """
        values = {} if bindings is None else dict(arguments.names(bindings, "bindings"))
        runtime, context = self._runtime, self._context
        runtime._refuse_recording("a replay")
        chosen = runtime._stream(stream, runtime._own(context))
        config: RuntimeConfig = context.config
        with self._lock:
            if self._generation != context.generation:
                raise GraphError("the device was reset: record the graph again")
            chosen.state.check()
            requests = self._requests(values)
            if context.inflight >= config.max_inflight_launches:
                context.scheduler.wait_for(
                    lambda: context.inflight < config.max_inflight_launches, None, "launches in flight"
                )
            streams = [chosen, *(self._fork(state) for state in self.graph.states[1:])]
            with Transaction() as transaction:
                placed, tickets, ends = self._build(requests, streams, transaction)
                enqueue.submit(context, placed, tickets)
            self._ends = ends
        return ReplayTicket(context, tuple(operation for _, operation in placed), tuple(tickets))

    def _fork(self, state: StreamState) -> Stream:
        runtime = self._runtime
        if state.destroyed or state.error is not None:
            return runtime.Stream(self._context.index, state.priority)
        return runtime._handle(self._context, state.id)

    def _build(
        self,
        requests: tuple[tuple[Request, ...], ...],
        streams: list[Stream],
        transaction: Transaction,
    ) -> tuple[list[tuple[StreamState, Operation]], list[LaunchTicket], list[_End]]:
        context = self._context
        placed: list[tuple[StreamState, Operation]] = []
        for end in self._ends:
            if end.state is not streams[0].state and not end.event.over:
                placed.append((streams[0].state, Wait("replay", event=end.event, tolerant=True)))
        tickets: list[LaunchTicket] = []
        events: dict[EventGeneration, EventGeneration] = {}
        groups = iter(requests)
        for number, node in self.graph.nodes:
            state = streams[number].state
            match node:
                case LaunchNode():
                    for request in next(groups):
                        pool = self._runtime._pool(request.plan, streams[number])
                        scratch = self._scratch.get((number, request.plan.dynamic_size), EMPTY)
                        launched, ticket = enqueue.build(request, streams[number], pool, transaction, scratch)
                        placed += launched
                        tickets.append(ticket)
                case CopyNode(make=make):
                    placed += [(state, operation) for operation in make(self._resolve).operations]
                case SignalNode(event=event):
                    events[event] = EventGeneration(context.scheduler)
                    placed.append((state, Signal("event", event=events[event])))
                case WaitNode(event=event):
                    placed.append((state, Wait("event", event=events[event])))
        ends = [
            _End(state, EventGeneration(context.scheduler))
            for state in dict.fromkeys(stream.state for stream in streams)
        ]
        placed += [(end.state, Signal("replay", event=end.event)) for end in ends]
        return placed, tickets, ends


__all__ = ["GraphInstance", "ReplayTicket"]
