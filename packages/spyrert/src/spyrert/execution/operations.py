"""Operations: what streams hold and the scheduler moves to the device (runtime spec 3.7).

Operations are made for one launch or copy and owned by their stream until they are over. Whatever happens to
one, its callbacks run exactly once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from spyrert.device.protocol import (
    ComputeCB,
    ControlBlock,
    Direction,
    DmaCB,
    Engine,
    FillCB,
    Nest,
    Piece,
    SegmentEntry,
)
from spyrert.errors import SpyreError
from spyrert.memory import CompositeAddress

if TYPE_CHECKING:
    from spyrert.execution.events import EventGeneration
    from spyrert.execution.streams import StreamState


class OpState(enum.Enum):
    PENDING = "pending"
    DISPATCHED = "dispatched"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        return self in (OpState.DONE, OpState.FAILED, OpState.CANCELLED)


@attrs.frozen
class Access:
    """One part of an operation's footprint: a range of device memory, read or written.

    ``allocation`` is the owning address that is kept from reuse while the operation is in flight; ``pieces``
    the exact bytes, for the hazard tracker. ``shared`` memory is ordered across streams even where the
    tracker is off: users do not see it (the static block of a plan), so they cannot order it themselves.
    """

    allocation: CompositeAddress
    pieces: tuple[Piece, ...]
    writes: bool
    shared: bool = False

    def covers(self, piece: Piece) -> bool:
        """Whether one of the pieces holds all of ``piece``."""
        end = piece.offset + piece.size
        return any(
            p.region_id == piece.region_id and p.offset <= piece.offset and end <= p.offset + p.size
            for p in self.pieces
        )

    def conflicts(self, other: Access) -> bool:
        """Whether the two touch a common byte and one of them writes."""
        if not (self.writes or other.writes):
            return False
        return any(
            a.region_id == b.region_id and a.offset < b.offset + b.size and b.offset < a.offset + a.size
            for a in self.pieces
            for b in other.pieces
        )


@attrs.define(eq=False)
class Operation:
    """Base of all operations.

    Times are virtual nanoseconds. ``held`` are strong references (host arrays, buffers) until the operation
    is over; ``callbacks`` are called with the operation once it is.
    """

    name: str = ""
    footprint: tuple[Access, ...] = ()
    held: tuple[object, ...] = ()
    callbacks: list[Callable[[Operation], None]] = attrs.field(factory=list)
    launch_seq: int | None = None
    tile: int | None = None
    op_id: int = 0
    stream: StreamState | None = None
    state: OpState = OpState.PENDING
    error: SpyreError | None = None
    after: list[Operation] = attrs.field(factory=list)
    queued: int = 0
    submitted: int = 0
    start: int = 0
    end: int = 0
    bytes: int = 0
    timeout_ns: int = 0
    """Virtual time after which the device gives up; 0 is never."""
    tags: Mapping[str, object] = attrs.field(factory=dict)
    """What else a trace shows of the operation."""

    kind = "Unknown"
    engine: ClassVar[Engine | None] = None
    host_lane = False

    def drop(self) -> None:
        """Let go of everything that was kept for the execution; the operation is over."""
        self.held = ()
        self.after = []

    def abandon(self) -> None:
        """A host function did not return: what it may still write to is not used again."""

    def rewind(self) -> None:
        """Let go of what :meth:`run` has taken; it will be called again."""

    def ready(self) -> bool:
        """Whether resources besides the engine are there; called under the scheduler's lock."""
        return True

    def block(self) -> ControlBlock:
        """The control block, made when the operation is dispatched."""
        raise NotImplementedError

    def run(self) -> int:
        """Work on the host; returns its virtual duration (ns). Only for operations of the host lane."""
        raise NotImplementedError


@attrs.define(eq=False)
class Copy(Operation):
    """A transfer between host and device, or on the device.

    ``host`` gives the host bytes when the transfer is dispatched, so that it may refer to a buffer that is
    chosen only then.
    """

    direction: Direction = Direction.TO_DEVICE
    host: Callable[[], memoryview] | None = None
    pieces: tuple[Piece, ...] = ()
    src_pieces: tuple[Piece, ...] = ()
    nests: tuple[Nest, ...] = ()
    src_format: str = "uint8"
    dst_format: str = "uint8"
    fill_padding: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        names = {Direction.TO_DEVICE: "H2D", Direction.FROM_DEVICE: "D2H", Direction.ON_DEVICE: "D2D"}
        return names[self.direction]

    @property
    def engine(self) -> Engine:  # type: ignore[override]
        return Engine.DMA_OUT if self.direction is Direction.FROM_DEVICE else Engine.DMA_IN

    def drop(self) -> None:
        super().drop()
        self.host = None

    def block(self) -> DmaCB:
        return DmaCB(
            self.direction,
            None if self.host is None else self.host(),
            self.pieces,
            self.src_pieces,
            self.nests,
            self.src_format,
            self.dst_format,
            self.fill_padding,
            self.op_id,
            0 if self.stream is None else self.stream.id,
            self.name,
            self.timeout_ns,
        )


@attrs.define(eq=False)
class Fill(Operation):
    """Set device memory to a repeated value."""

    pieces: tuple[Piece, ...] = ()
    value_bits: int = 0
    elem_bytes: int = 1

    kind = "Memset"
    engine = Engine.DMA_IN

    def block(self) -> FillCB:
        stream = 0 if self.stream is None else self.stream.id
        return FillCB(self.pieces, self.value_bits, self.elem_bytes, self.op_id, stream, self.name)


@attrs.define(eq=False)
class Compute(Operation):
    """Start a program."""

    entry_offset: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    plan_digest64: bytes = bytes(8)
    core_mask: int = 2**32 - 1

    kind = "Compute"
    engine = Engine.COMPUTE

    def block(self) -> ComputeCB:
        return ComputeCB(
            self.entry_offset,
            self.segments,
            self.launch_seq or 0,
            self.plan_digest64,
            self.name,
            self.core_mask,
            op_id=self.op_id,
            stream_id=0 if self.stream is None else self.stream.id,
            timeout_ns=self.timeout_ns,
        )


def _nothing() -> None:
    """What is left of a function that was called."""


@attrs.define(eq=False)
class HostCall(Operation):
    """Call a Python function in stream order, without any lock held."""

    function: Callable[[], Any] = _nothing
    duration_ns: int = 0

    kind = "HostCallback"
    host_lane = True

    def run(self) -> int:
        self.function()
        return self.duration_ns

    def drop(self) -> None:
        super().drop()
        self.function = _nothing


@attrs.define(eq=False)
class Signal(Operation):
    """Signals an event when all earlier operations of the stream are over."""

    event: EventGeneration = attrs.field(kw_only=True)

    kind = "EventSignal"


@attrs.define(eq=False)
class Wait(Operation):
    """Blocks the stream until an event is signalled; a poisoned one fails the stream, unless the wait is
    ``tolerant``: then it only means that what the event stands for is over."""

    event: EventGeneration = attrs.field(kw_only=True)
    tolerant: bool = attrs.field(kw_only=True, default=False)

    kind = "EventWait"

    def poisoned(self) -> SpyreError:
        """The error of the stream if the event was poisoned."""
        return self.event.poisoned()
