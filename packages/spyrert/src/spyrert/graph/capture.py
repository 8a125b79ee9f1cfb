"""Recording: what a thread would enqueue becomes nodes of a graph instead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import attrs

from spyrert.copies import CopyPlan
from spyrert.errors import GraphError
from spyrert.execution import EventGeneration, Stream, StreamState
from spyrert.launch import Launch
from spyrert.spyrecode import Layout
from spyrert.tensor import DeviceTensor, Storage

if TYPE_CHECKING:
    from spyrert.context import DeviceContext
    from spyrert.graph.replay import GraphInstance
    from spyrert.runtime.kernels import Kernels

Resolve = Callable[[DeviceTensor], DeviceTensor]
"""From a tensor as it was recorded to the one that takes its place."""


@attrs.frozen(eq=False)
class Slot:
    """A storage that the graph uses: another one of this shape, dtype and layout may take its place."""

    number: int
    storage: Storage

    @property
    def shape(self) -> tuple[int, ...]:
        return self.storage.shape

    @property
    def dtype(self) -> str:
        return self.storage.dtype

    @property
    def layout(self) -> Layout:
        return self.storage.layout


@attrs.frozen(eq=False)
class LaunchNode:
    """Launches that were enqueued as one group."""

    launches: tuple[Launch, ...]
    allow_tiled: bool
    allow_staging: bool


@attrs.frozen(eq=False)
class CopyNode:
    """A copy to the device or on it."""

    make: Callable[[Resolve], CopyPlan]


@attrs.frozen(eq=False)
class SignalNode:
    event: EventGeneration


@attrs.frozen(eq=False)
class WaitNode:
    event: EventGeneration


Node = LaunchNode | CopyNode | SignalNode | WaitNode


@attrs.define(eq=False)
class _Line:
    """One recorded stream: how far it is, and how far into every other it has waited."""

    number: int
    state: StreamState
    length: int = 0
    seen: dict[int, int] = attrs.field(factory=dict)


class Capture:
    """A recording in progress, of one thread.

    A stream joins by waiting for an event of a stream that is recorded. At the end the first stream must have
    waited for everything that was recorded on the others.
    """

    def __init__(self, origin: Stream, context: DeviceContext) -> None:
        self.context = context
        self.nodes: list[tuple[int, Node]] = []
        self.slots: dict[int, Slot] = {}
        self.problem: str | None = None
        self._over = False
        self._thread = threading.get_ident()
        self._lines: dict[int, _Line] = {}
        self._recorded: dict[EventGeneration, tuple[int, dict[int, int]]] = {}
        self._begin(origin.state)

    # -- called by streams and events ----------------------------------------------------------

    def mine(self) -> bool:
        """Whether the calling thread is the one that records."""
        return threading.get_ident() == self._thread

    def going(self) -> bool:
        """Whether the recording has not ended."""
        return not self._over

    def signal(self, state: StreamState, event: EventGeneration) -> None:
        line = self._line(state)
        self._add(state, SignalNode(event))
        self._recorded[event] = (line.number, {**line.seen, line.number: line.length})

    def wait(self, state: StreamState, event: EventGeneration) -> None:
        if self._over:
            raise GraphError("the event belongs to a recorded graph; only its replays reach it")
        if event not in self._recorded:
            self.refuse("waiting for an event that was not recorded here")
        if id(state) not in self._lines:
            if state.device != self.context.index:
                self.refuse("a stream of another device")
            self._begin(state)
        line = self._line(state)
        self._add(state, WaitNode(event))
        for number, length in self._recorded[event][1].items():
            line.seen[number] = max(line.seen.get(number, 0), length)

    def refuse(self, what: str) -> NoReturn:
        """Something that a graph cannot hold: the recording ends, its streams work as before."""
        self.problem = self.problem or what
        self.end()
        raise GraphError(f"{what} is not allowed while a graph is recorded; the recording was aborted")

    # -- called by the runtime -----------------------------------------------------------------

    def launches(self, state: StreamState, node: LaunchNode) -> None:
        for launch in node.launches:
            for tensor in launch.tensors:
                self._slot(tensor)
        self._add(state, node)

    def copy(
        self, state: StreamState, make: Callable[[Resolve], CopyPlan], tensors: Sequence[DeviceTensor]
    ) -> None:
        for tensor in tensors:
            self._slot(tensor)
        self._add(state, CopyNode(make))

    def check_stream(self, state: StreamState) -> None:
        if id(state) not in self._lines:
            self.refuse(f"work on stream {state.id}, which has not waited for an event of the graph,")

    def end(self) -> None:
        """Streams work as before."""
        self._over = True
        for line in self._lines.values():
            line.state.capture = None

    def finish(self) -> None:
        """Everything must have come back to the first stream."""
        origin = next(iter(self._lines.values()))
        for line in self._lines.values():
            if line is not origin and origin.seen.get(line.number, 0) < line.length:
                self.problem = f"stream {line.state.id} was not joined: let the first stream wait for it"
                raise GraphError(self.problem)

    @property
    def states(self) -> tuple[StreamState, ...]:
        return tuple(line.state for line in self._lines.values())

    def _begin(self, state: StreamState) -> None:
        state.check()
        if state.capture is not None:
            raise GraphError(f"stream {state.id} is being recorded already")
        self._lines[id(state)] = _Line(len(self._lines), state)
        state.capture = self

    def _line(self, state: StreamState) -> _Line:
        return self._lines[id(state)]

    def _add(self, state: StreamState, node: Node) -> None:
        line = self._line(state)
        line.length += 1
        self.nodes.append((line.number, node))

    def _slot(self, tensor: DeviceTensor) -> None:
        self.slots.setdefault(id(tensor.storage), Slot(len(self.slots), tensor.storage))


class Graph:
    """A recorded sequence. It keeps its plans, and the tensors that it was recorded with, alive."""

    def __init__(self, runtime: Kernels, capture: Capture) -> None:
        self._runtime = runtime
        self._capture = capture
        self._done = False

    def _end(self, failed: bool) -> None:
        self._capture.end()
        if failed:
            self._capture.problem = self._capture.problem or "an exception ended the recording"
            return
        if self._capture.problem is not None:
            raise GraphError(f"the recording was aborted: {self._capture.problem}")
        self._capture.finish()
        self._done = True

    @property
    def context(self) -> DeviceContext:
        return self._capture.context

    @property
    def nodes(self) -> tuple[tuple[int, Node], ...]:
        """(number of the stream, node) in the order in which they were recorded."""
        return tuple(self._capture.nodes)

    @property
    def states(self) -> tuple[StreamState, ...]:
        """The recorded streams, the first one first."""
        return self._capture.states

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What may be rebound, in order of first use."""
        return tuple(self._capture.slots.values())

    def slot(self, tensor: DeviceTensor) -> Slot:
        """The slot of a tensor that was used in the recording. Raises ``GraphError`` for others."""
        found = self._capture.slots.get(id(getattr(tensor, "storage", None)))
        if found is None:
            raise GraphError(f"{tensor!r} is not used by the graph")
        return found

    def instantiate(self) -> GraphInstance:
        """Check everything once and reserve what replays need. Raises ``GraphError`` if the recording is not
        complete, ``OutOfDeviceMemory``."""
        from spyrert.graph.replay import GraphInstance

        if not self._done:
            why = self._capture.problem or "it is still going on"
            raise GraphError(f"the recording is not complete: {why}")
        return GraphInstance(self._runtime, self)

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for _, node in self.nodes:
            name = type(node).__name__.removesuffix("Node").lower()
            kinds[name] = kinds.get(name, 0) + 1
        inner = ", ".join(f"{count} {name}" for name, count in kinds.items())
        return f"<Graph {inner or 'empty'}; {len(self.slots)} slots, {len(self.states)} streams>"


def same_tensor(tensor: DeviceTensor) -> DeviceTensor:
    """The resolution of an eager call."""
    return tensor


__all__ = ["Capture", "CopyNode", "Graph", "LaunchNode", "Resolve", "SignalNode", "Slot", "WaitNode"]
