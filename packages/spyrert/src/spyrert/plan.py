"""Job plans: what ``prepare_kernel`` makes of an artefact, and the operations of one launch (runtime spec
3.11)."""

from __future__ import annotations

import enum
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from spyrert.constants import PROG_OFFSET_BASE, SEGMENT_SHIFT, SEGMENT_SIZE
from spyrert.correction import CorrectionArena, HostFunction, Slot
from spyrert.device.protocol import Direction, Piece, SegmentEntry
from spyrert.errors import HostComputeError, PlanReleased
from spyrert.execution import (
    Access,
    Compute,
    Copy,
    EventGeneration,
    Operation,
    Signal,
    Wait,
)
from spyrert.memory import CompositeAddress
from spyrert.spyrecode import ArgSpec, ForeignHcm, Hcm, HostInputs, LaunchSpec, SpyreCode

if TYPE_CHECKING:
    from spyrert.context import DeviceContext


class StepRole(enum.Enum):
    """Which stream a step goes to when overlap is on."""

    PREP = "prep"
    DEV = "dev"


class HostBuffer:
    """A named host buffer of one launch: a correction slot, or bytes of its own."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._data: bytearray | None = None
        self._slot: Slot | None = None

    def attach(self, slot: Slot) -> None:
        self._slot = slot
        self._data = slot.data

    @property
    def view(self) -> memoryview:
        """The bytes; made on first use unless a slot is attached."""
        if self._data is None:
            self._data = bytearray(self.size)
        return memoryview(self._data)

    def discard(self) -> None:
        """Somebody may still write to the bytes: they are not used for another launch."""
        if self._slot is not None:
            self._slot.discard()

    def release(self, _: Operation | None = None) -> None:
        if self._slot is not None:
            self._slot.release()


@attrs.define(eq=False)
class LaunchContext:
    """Everything that belongs to one launch (or one tile of it)."""

    plan: JobPlan
    static: CompositeAddress
    segments: tuple[SegmentEntry, ...]
    arguments: tuple[Access, ...]
    inputs: tuple[HostInputs, ...]
    launch_seq: int
    tile: int | None = None
    buffers: dict[str, HostBuffer] = attrs.field(factory=dict)
    events: dict[int, EventGeneration] = attrs.field(factory=dict)
    baked: tuple[CompositeAddress, ...] = ()
    held: tuple[object, ...] = ()

    def buffer(self, name: str, size: int) -> HostBuffer:
        return self.buffers.setdefault(name, HostBuffer(size))

    def event(self, number: int) -> EventGeneration:
        return self.events.setdefault(number, EventGeneration(self.plan.context.scheduler))


@attrs.define(eq=False)
class HostComputeOperation(Operation):
    """Runs a host function when a correction buffer is free."""

    function: HostFunction = attrs.field(kw_only=True)
    hcm: Hcm | ForeignHcm = attrs.field(kw_only=True)
    inputs: HostInputs = attrs.field(kw_only=True)
    buffer: HostBuffer = attrs.field(kw_only=True)
    source: HostBuffer | None = attrs.field(kw_only=True, default=None)
    context: DeviceContext = attrs.field(kw_only=True)
    pooled: bool = attrs.field(kw_only=True, default=True)
    duration_ns: int = attrs.field(kw_only=True, default=0)

    kind = "HostCompute"
    host_lane = True

    def ready(self) -> bool:
        return not self.pooled or self.arena.available()

    def abandon(self) -> None:
        self.buffer.discard()

    def rewind(self) -> None:
        self.buffer.release()

    @property
    def arena(self) -> CorrectionArena:
        assert self.stream is not None
        return self.context.arena(self.stream.id)

    def run(self) -> int:
        if self.pooled:
            self.buffer.attach(self.arena.checkout(self.buffer.size))
        inputs = self.inputs
        if self.source is not None:
            inputs = attrs.evolve(inputs, handle=bytes(self.source.view))
        out = self.buffer.view
        try:
            self.function(inputs, self.hcm, out)
        except (ValueError, IndexError) as error:
            raise HostComputeError(
                f"host function wrote outside its buffer of {len(out)} bytes: {error}"
            ) from error
        return self.duration_ns


class Step:
    """One step of a plan. Immutable; :meth:`construct` makes the operations of a launch."""

    kind = "Unknown"
    role = StepRole.DEV

    def construct(self, context: LaunchContext) -> list[Operation]:
        raise NotImplementedError


@attrs.frozen
class HostComputeStep(Step):
    function: HostFunction
    hcm: Hcm | ForeignHcm
    ohandle: str
    size: int
    ihandle: str
    index: int
    """Number of this host computation among those of the plan."""
    pooled: bool
    name: str

    kind = "HostCompute"
    role = StepRole.PREP

    def construct(self, context: LaunchContext) -> list[Operation]:
        return [
            HostComputeOperation(
                self.name,
                launch_seq=context.launch_seq,
                tile=context.tile,
                function=self.function,
                hcm=self.hcm,
                inputs=context.inputs[self.index],
                buffer=context.buffer(self.ohandle, self.size),
                source=context.buffers.get(self.ihandle) if self.ihandle else None,
                context=context.plan.context,
                pooled=self.pooled,
                duration_ns=context.plan.context.config.host_ns,
            )
        ]


@attrs.frozen
class H2DStep(Step):
    host_handle: str
    offset: int
    size: int
    name: str
    prep: bool

    kind = "H2D"

    @property
    def role(self) -> StepRole:  # type: ignore[override]
        return StepRole.PREP if self.prep else StepRole.DEV

    def construct(self, context: LaunchContext) -> list[Operation]:
        buffer = context.buffer(self.host_handle, self.size)
        pieces = context.plan.pieces(context.static, self.offset, self.size)
        return [
            Copy(
                self.name,
                (Access(context.static, pieces, True, shared=True),),
                (buffer,),
                [buffer.release],
                context.launch_seq,
                context.tile,
                direction=Direction.TO_DEVICE,
                host=lambda: buffer.view,
                pieces=pieces,
            )
        ]


@attrs.frozen
class D2HStep(Step):
    host_handle: str
    dev_ptr: int
    size: int
    name: str

    kind = "D2H"

    def construct(self, context: LaunchContext) -> list[Operation]:
        buffer = context.buffer(self.host_handle, self.size)
        if self.dev_ptr >= PROG_OFFSET_BASE:
            owner = context.static
            pieces = owner.slice(self.dev_ptr - PROG_OFFSET_BASE, self.size).pieces()
            access = Access(owner, pieces, False, shared=True)
        else:
            argument = self.dev_ptr >> SEGMENT_SHIFT
            source = context.baked[argument]
            pieces = source.slice(self.dev_ptr & (SEGMENT_SIZE - 1), self.size).pieces()
            access = Access(context.arguments[argument].allocation, pieces, False)
        return [
            Copy(
                self.name,
                (access,),
                (buffer,),
                [],
                context.launch_seq,
                context.tile,
                direction=Direction.FROM_DEVICE,
                host=lambda: buffer.view,
                pieces=pieces,
            )
        ]


@attrs.frozen
class ComputeStep(Step):
    entry_offset: int
    name: str

    kind = "Compute"

    def construct(self, context: LaunchContext) -> list[Operation]:
        static = context.static
        return [
            Compute(
                self.name,
                (*context.arguments, Access(static, context.plan.pieces(static), False, shared=True)),
                context.held,
                [],
                context.launch_seq,
                context.tile,
                entry_offset=self.entry_offset,
                segments=context.segments,
                plan_digest64=context.plan.digest64,
            )
        ]


@attrs.frozen
class EventStep(Step):
    event_id: int
    signal: bool

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "EventSignal" if self.signal else "EventWait"

    def construct(self, context: LaunchContext) -> list[Operation]:
        event = context.event(self.event_id)
        kind = Signal if self.signal else Wait
        return [kind(f"event {self.event_id}", launch_seq=context.launch_seq, event=event)]


class PlanState(enum.Enum):
    READY = "ready"
    RELEASING = "releasing"
    RELEASED = "released"


class JobPlan:
    """A prepared kernel: resident on the device, ready to be launched any number of times.

    Immutable; one plan may be launched from several threads and streams. Releasing it (or dropping the last
    reference) frees its device memory after the last launch.
    """

    def __init__(
        self,
        context: DeviceContext,
        code: SpyreCode,
        steps: Sequence[Step],
        static: Sequence[CompositeAddress],
        on_release: Callable[[JobPlan], None],
        core_count: int = 1,
    ) -> None:
        self.context = context
        self.name = code.kernel_name
        self.launch: LaunchSpec | None = code.launch
        self.core_count = core_count
        """Cores that the program runs on."""
        self.args: tuple[ArgSpec, ...] = code.launch.args if code.launch else ()
        self.addressing = code.addressing
        self.digest = code.digest
        self.digest64 = code.digest64
        self.dynamic_size = code.dynamic_size
        self.static_size = code.static_size
        self.expected_input_shapes = code.expected_input_shapes
        self.version = code.version
        self.steps = tuple(steps)
        self.static_allocations = tuple(static)
        self.hcms = tuple(command.hcm for command in code.host_computes())
        self.state = PlanState.READY
        self.generation = context.generation
        self.warned = False
        self.problem: Exception | None = None
        """Why every launch is refused (foreign image or metadata), or ``None``."""
        self._on_release = on_release
        self._pieces: dict[tuple[int, int, int | None], tuple[Piece, ...]] = {}
        self.symbolic_axes = tuple(
            (index, axis, size)
            for index, spec in enumerate(self.args)
            for axis, size in enumerate(spec.shape)
            if isinstance(size, str)
        )
        """(argument, axis, symbol) of every size that is a symbol."""
        self._lock = threading.Lock()
        for address in static:
            weakref.finalize(self, context.allocator.garbage.append, address).atexit = False

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of scalars and symbolic dimensions, to be bound at launch."""
        return tuple(symbol.name for symbol in self.launch.symbols) if self.launch else ()

    def pieces(self, static: CompositeAddress, offset: int = 0, size: int | None = None) -> tuple[Piece, ...]:
        """Bytes of a static block as a device understands them; all of it without ``size``."""
        key = (static.token, offset, size)
        found = self._pieces.get(key)
        if found is None:
            part = static if size is None else static.slice(offset, size)
            found = self._pieces[key] = part.pieces()
        return found

    def num_steps(self) -> int:
        return len(self.steps)

    def get_step_type(self, index: int) -> str:
        """``H2D``, ``D2H``, ``Compute``, ``HostCompute``, ...; ``IndexError`` out of range."""
        if not 0 <= index < len(self.steps):
            raise IndexError(f"Step index out of range: {index} of {len(self.steps)}")
        return self.steps[index].kind

    def job_allocation_size(self) -> int:
        """Bytes of one static block."""
        return self.static_size

    def check_ready(self) -> None:
        if self.state is not PlanState.READY or self.generation != self.context.generation:
            raise PlanReleased(f"plan '{self.name}' was released")

    def release(self) -> None:
        """Free the plan's memory after its last launch; further launches raise ``PlanReleased``."""
        with self._lock:
            if self.state is not PlanState.READY:
                return
            self.state = PlanState.RELEASING
        self._on_release(self)
        for address in self.static_allocations:
            if self.context.allocator.is_live(address):
                self.context.allocator.free(address)
        self.state = PlanState.RELEASED

    def __repr__(self) -> str:
        return (
            f"<JobPlan steps={len(self.steps)} job_allocation_size={self.static_size} "
            f"expected_inputs={len(self.args)} pinned_buffers={len(self.hcms)}>"
        )
