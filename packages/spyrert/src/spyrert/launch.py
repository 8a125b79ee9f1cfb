"""From checked arguments to enqueued operations (runtime spec 3.13)."""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from spyrert import arguments
from spyrert import binding as checks
from spyrert.binding import Binding
from spyrert.config import Overlap
from spyrert.constants import DYN_SEGMENT, PROG_SEGMENT, align_up
from spyrert.context import FIRST_HOST_STREAM, DeviceContext
from spyrert.copies import rearrange
from spyrert.device.protocol import MemoryType, Piece, SegmentEntry
from spyrert.errors import (
    DeviceMismatch,
    GraphError,
    LayoutMismatch,
    ShapeMismatch,
    SpyreError,
    StreamDestroyed,
    SymbolBindingError,
    UnsupportedFeature,
)
from spyrert.execution import (
    Access,
    EventGeneration,
    Fill,
    Operation,
    OpState,
    Signal,
    Stream,
    StreamState,
    Wait,
)
from spyrert.memory import EMPTY, AllocationDirective, CompositeAddress
from spyrert.plan import HostBuffer, HostComputeStep, JobPlan, LaunchContext, StepRole
from spyrert.spyrecode import Addressing, ArgumentInputs, Hcm, HostInputs, symbol_values
from spyrert.tensor import DeviceTensor, Storage

UNMAPPED = SegmentEntry()


class SymbolicKind(enum.IntEnum):
    """Kinds of :class:`SymbolicArg`."""

    ADDRESS = 0
    DIMENSION = 1


@attrs.frozen(eq=False)
class Launch:
    """The arguments of one launch, for :meth:`spyrert.Runtime.launch_group`."""

    plan: JobPlan
    tensors: Sequence[DeviceTensor]
    bindings: Mapping[str, Any] | None = None
    symbolic_args: Sequence[SymbolicArg] | None = None


class LaunchTicket:
    """One launch that was enqueued. Dropping it has no effect.

    Attributes:
        launch_seq: number of the launch (of its first tile).
        tiles: number of tiles.
    """

    def __init__(self, context: DeviceContext, name: str, launch_seq: int, tiles: int) -> None:
        self.name = name
        self.launch_seq = launch_seq
        self.tiles = tiles
        self._context = context
        self._operations: list[Operation] = []
        self._buffers: dict[str, HostBuffer] = {}
        self._left = 0
        self._lock = threading.Lock()

    def _attach(self, operations: Sequence[Operation], buffers: Mapping[str, HostBuffer]) -> None:
        self._operations = list(operations)
        self._buffers = dict(buffers)
        self._left = len(operations)
        for operation in operations:
            operation.callbacks.append(self._ended)

    def _begin(self) -> None:
        """The launch is about to be submitted."""
        if self._operations:
            self._context.launch_begun()

    def _abandon(self) -> None:
        """It was not submitted."""
        if self._operations:
            self._context.launch_ended()

    def _ended(self, _: Operation) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._context.launch_ended()

    def done(self) -> bool:
        """Whether every operation is over, well or not."""
        return self._left == 0

    @property
    def error(self) -> SpyreError | None:
        """The first error of the launch, ``None`` as long as there is none."""
        failed = next((o.error for o in self._operations if o.state is OpState.FAILED), None)
        if failed is not None:
            return failed
        cancelled = next((o for o in self._operations if o.state is OpState.CANCELLED), None)
        if cancelled is None:
            return None
        return cancelled.error or StreamDestroyed(f"launch of '{self.name}' was cancelled")

    @property
    def failed_tile(self) -> int | None:
        """Number of the tile that failed, ``None`` if none did."""
        return next((o.tile for o in self._operations if o.state is OpState.FAILED), None)

    def wait(self, timeout: float | None = None) -> None:
        """Block until the launch is over; raises its error or ``SynchronizeTimeout``."""
        self._context.scheduler.wait_for(self.done, timeout, f"launch of '{self.name}'")
        error = self.error
        if error is not None:
            raise error.with_traceback(None)

    def host_buffer(self, name: str) -> bytes:
        """Bytes of a transfer from the device, after completion. ``KeyError`` if the plan has none of that
        name."""
        if not self.done():
            self.wait()
        return bytes(self._buffers[name].view)

    @property
    def times(self) -> tuple[int, int]:
        """Virtual start of the first and end of the last operation (ns)."""
        return min(o.start for o in self._operations), max(o.end for o in self._operations)

    @property
    def extra_copies(self) -> int:
        """Copies of tiles to packed blocks and back that the launch needed."""
        return sum(operation.kind == "D2D" for operation in self._operations)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(self._operations)


class RecordedLaunch(LaunchTicket):
    """Stands for a launch that was recorded into a graph: there is nothing to wait for."""

    def done(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> None:
        raise GraphError(f"the launch of '{self.name}' was recorded, not enqueued; replay the graph")


@attrs.frozen
class TileFill:
    """The start value of an accumulator: every element of an output tile becomes ``bits`` before its first
    step."""

    allocation: CompositeAddress
    pieces: tuple[Piece, ...]
    bits: int
    elem_bytes: int

    def operation(self, name: str, launch_seq: int, tile: int | None) -> Fill:
        return Fill(
            name,
            (Access(self.allocation, self.pieces, True),),
            launch_seq=launch_seq,
            tile=tile,
            pieces=self.pieces,
            value_bits=self.bits,
            elem_bytes=self.elem_bytes,
        )


@attrs.frozen
class TileLaunch:
    """One walk over the plan's steps: the argument views of a tile, and its index by dimension name."""

    tensors: tuple[DeviceTensor, ...]
    binding: Binding
    index: Mapping[str, int] = attrs.field(factory=dict)
    fills: tuple[TileFill, ...] = ()
    staged: tuple[int, ...] = ()
    """Arguments that are copied to a packed block before the steps, and back if they are written."""


@attrs.frozen
class Request:
    """A launch whose arguments are checked, not yet enqueued."""

    plan: JobPlan
    tensors: tuple[DeviceTensor, ...]
    tiles: tuple[TileLaunch, ...]
    overrides: tuple[int | None, ...] = ()


def check(
    plan: JobPlan,
    tensors: Sequence[object],
    stream: Stream | None,
    bindings: Mapping[str, Any] | None,
    symbolic_args: Sequence[Any] | None,
    allow_tiled: bool,
    allow_staging: bool = False,
) -> Request:
    """All of runtime spec 3.13.1: refuse, or say what to launch. Changes nothing.

    ``stream`` is ``None`` if it is not known yet.
    """
    from spyrert.tiling import plan_tiles

    plan.check_ready()
    if stream is not None:
        if stream.state.device != plan.context.index:
            raise DeviceMismatch(f"stream {stream} and plan '{plan.name}' are on different devices")
        stream.state.check()
    checked = tuple(checks.check_tensors(plan, arguments.items(tensors, "tensors")))
    if bindings is not None:
        arguments.names(bindings, "bindings")
    binding = checks.bind(plan, checked, bindings, allow_tiled)
    if plan.launch is not None:
        exact = checks.check_exact(plan, checked, binding)
        if exact:
            for index, (spec, tensor) in enumerate(zip(plan.args, checked, strict=True)):
                expected = tensor.shape
                checks.check_layout(index, spec, expected, tensor)
            tiles: tuple[TileLaunch, ...] = (TileLaunch(checked, binding),)
        elif not allow_tiled:
            index, spec, tensor = next(
                (i, s, t)
                for i, (s, t) in enumerate(zip(plan.args, checked, strict=True))
                if t.shape != binding.shape(s)
            )
            raise ShapeMismatch(
                f"{checks.label(index, spec)} has shape {tensor.shape}, expected {binding.shape(spec)}: "
                "tiled launch not permitted",
                index=index,
                expected=binding.shape(spec),
                actual=tensor.shape,
            )
        else:
            tiles = plan_tiles(plan, checked, binding, allow_staging)
        for tile in tiles:
            checks.check_chunks(plan, tile.tensors)
        checks.check_span(plan, tiles[0].tensors)
        checks.check_aliases(plan, checked)
    else:
        tiles = (TileLaunch(checked, binding),)
    if plan.problem is not None:
        raise plan.problem
    overrides = _overrides(symbolic_args, checked)
    return Request(plan, checked, tiles, overrides)


def _overrides(
    symbolic_args: Sequence[Any] | None, tensors: Sequence[DeviceTensor]
) -> tuple[int | None, ...]:
    """Values of explicit symbolic arguments (runtime spec 3.11.2)."""
    if symbolic_args is None:
        return ()
    values = []
    for item in arguments.items(symbolic_args, "symbolic_args"):
        arguments.expect(item, SymbolicArg, "a symbolic argument")
        if not 0 <= item.tensor_id < len(tensors):
            raise SymbolBindingError(f"{item} names a tensor that is not passed")
        tensor = tensors[item.tensor_id]
        if item.kind is SymbolicKind.ADDRESS:
            values.append(tensor.addresses()[0])
        elif item.value >= 0:
            values.append(item.value)
        elif 0 <= item.dim_index < tensor.ndim:
            values.append(tensor.shape[item.dim_index])
        else:
            raise SymbolBindingError(f"{item} names a dimension that tensor {item.tensor_id} does not have")
    return tuple(values)


@attrs.frozen
class SymbolicArg:
    """An explicit value of a symbol, for callers that drive a plan themselves.

    ``kind`` is ``SymbolicKind.ADDRESS`` or ``DIMENSION``; a dimension is ``value`` if that is not negative,
    else the size of dimension ``dim_index`` of tensor ``tensor_id``.
    """

    kind: SymbolicKind
    tensor_id: int
    dim_index: int = -1
    value: int = -1


def enqueue(requests: Sequence[tuple[Request, DeviceTensor | None]], stream: Stream) -> list[LaunchTicket]:
    """Build all operations of one or more launches, each with its pool, and submit them atomically.

    On failure nothing has changed.
    """
    with Transaction() as transaction:
        placed: list[tuple[StreamState, Operation]] = []
        tickets = []
        for request, pool in requests:
            launched, ticket = build(request, stream, pool, transaction)
            placed += launched
            tickets.append(ticket)
        submit(requests[0][0].plan.context, placed, tickets)
    return tickets


def submit(
    context: DeviceContext,
    placed: Sequence[tuple[StreamState, Operation]],
    tickets: Sequence[LaunchTicket],
) -> None:
    """Submit the operations of launches, all or nothing, and count them as in flight."""
    for ticket in tickets:
        ticket._begin()
    try:
        context.scheduler.submit(placed)
    except BaseException:
        for ticket in tickets:
            ticket._abandon()
        raise


class Transaction:
    """Allocations of a launch in the making.

    They are freed at the end in any case: after a successful submission they wait in the quarantine until the
    last operation that touches them is over.
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[DeviceContext, CompositeAddress]] = []

    def allocate(
        self, context: DeviceContext, size: int, directive: AllocationDirective | None = None
    ) -> CompositeAddress:
        address = context.allocator.allocate(size, directive)
        if address.chunks:
            self._blocks.append((context, address))
        return address

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *_: object) -> None:
        for context, address in self._blocks:
            context.allocator.free(address)


class _Staging:
    """Packed blocks for tiles that a kernel cannot walk in place: a ring of two for each such argument."""

    def __init__(self, plan: JobPlan, transaction: Transaction) -> None:
        self._plan = plan
        self._transaction = transaction
        self._blocks: dict[tuple[int, int], DeviceTensor] = {}

    def enter(self, tile: TileLaunch, number: int) -> tuple[TileLaunch, list[Operation], list[Operation]]:
        """The tile on packed blocks, the copies before its steps, and those behind."""
        if not tile.staged:
            return tile, [], []
        tensors = list(tile.tensors)
        before: list[Operation] = []
        after: list[Operation] = []
        for argument in tile.staged:
            view, block = tensors[argument], self._block(argument, number % 2, tensors[argument])
            role = self._plan.args[argument].role
            if role.reads:
                before.append(rearrange(view, block, f"{self._plan.name}.gather"))
            if role.writes:
                after.append(rearrange(block, view, f"{self._plan.name}.scatter"))
            for operation in (*before, *after):
                operation.tile = number
            tensors[argument] = block
        return attrs.evolve(tile, tensors=tuple(tensors)), before, after

    def _block(self, argument: int, slot: int, view: DeviceTensor) -> DeviceTensor:
        found = self._blocks.get((argument, slot))
        if found is None:
            context, layout = self._plan.context, self._plan.args[argument].layout
            address = self._transaction.allocate(context, layout.device_bytes(view.shape))
            storage = Storage(context, address, view.shape, view.dtype, layout)
            found = DeviceTensor(storage, view.shape, storage.strides)
            self._blocks[argument, slot] = found
        return found


def build(
    request: Request,
    stream: Stream,
    pool: DeviceTensor | None,
    transaction: Transaction,
    dynamic: CompositeAddress = EMPTY,
) -> tuple[list[tuple[StreamState, Operation]], LaunchTicket]:
    """The operations of one launch, with their streams; ``dynamic`` is a scratch block that is reserved
    already."""
    plan = request.plan
    context = plan.context
    if plan.dynamic_size and not dynamic.chunks:
        directive = context.program_directive(MemoryType.PROGRAM_DYNAMIC)
        dynamic = transaction.allocate(context, plan.dynamic_size, directive)
    placed: list[tuple[StreamState, Operation]] = []
    buffers: dict[str, HostBuffer] = {}
    first = 0
    staging = _Staging(plan, transaction)
    for number, tile in enumerate(request.tiles):
        tile, gathers, scatters = staging.enter(tile, number)
        launch = _context(request, tile, number, next(context.launch_numbers), dynamic, pool)
        first = first or launch.launch_seq
        placed += [
            (stream.state, fill.operation(f"{plan.name}.init", launch.launch_seq, number))
            for fill in tile.fills
        ]
        placed += [(stream.state, operation) for operation in gathers]
        placed += _place(plan, launch, stream, context)
        placed += [(stream.state, operation) for operation in scatters]
        buffers |= launch.buffers
    ticket = LaunchTicket(context, plan.name, first, len(request.tiles))
    operations = [operation for _, operation in placed if not isinstance(operation, (Signal, Wait))]
    ticket._attach(operations, buffers)
    return placed, ticket


def _place(
    plan: JobPlan, launch: LaunchContext, stream: Stream, context: DeviceContext
) -> list[tuple[StreamState, Operation]]:
    """Operations of one tile with the stream of each (runtime spec 3.10)."""
    overlap = context.config.overlap
    if overlap is Overlap.OFF or not any(isinstance(step, HostComputeStep) for step in plan.steps):
        return [(stream.state, o) for step in plan.steps for o in step.construct(launch)]
    host = context.stream_state(FIRST_HOST_STREAM)
    transfer = host
    if overlap is Overlap.THREE_STAGE and context.config.host_compute_streams > 1:
        transfer = context.stream_state(FIRST_HOST_STREAM + 1)
    placed: list[tuple[StreamState, Operation]] = []
    for step in plan.steps:
        operations = step.construct(launch)
        if step.role is StepRole.DEV:
            placed += [(stream.state, o) for o in operations]
        elif isinstance(step, HostComputeStep):
            placed += [(host, o) for o in operations]
            if transfer is not host:
                event = EventGeneration(context.scheduler)
                placed += [(host, Signal("host", event=event)), (transfer, Wait("host", event=event))]
        else:
            placed += [(transfer, o) for o in operations]
    return placed


def _context(
    request: Request,
    tile: TileLaunch,
    number: int,
    launch_seq: int,
    dynamic: CompositeAddress,
    pool: DeviceTensor | None,
) -> LaunchContext:
    plan = request.plan
    context = plan.context
    static = plan.static_allocations[launch_seq % len(plan.static_allocations)]
    accesses = _accesses(plan, tile, pool, dynamic)
    baked: tuple[CompositeAddress, ...] = ()
    if plan.addressing is Addressing.BAKED:
        segments, baked = _baked_segments(plan, tile, pool, static, dynamic, context)
    else:
        segments = _symbolic_segments(plan, tile, pool, static, dynamic, context)
    inputs = HostInputs(
        tuple(
            ArgumentInputs(tensor.addresses(), tensor.shape, tensor.device_strides) for tensor in tile.tensors
        )
        if plan.hcms
        else (),
        tile.binding.scalars,
        None if pool is None else pool.addresses()[0],
        context.allocator.addresses(dynamic)[0] if dynamic.chunks else None,
        tile.index,
        launch_seq,
        plan.digest64,
        request.overrides,
    )
    evaluated = []
    for hcm in plan.hcms:
        if isinstance(hcm, Hcm) and hcm.function == "program_correction":
            evaluated.append(attrs.evolve(inputs, values=symbol_values(hcm, inputs)))
        else:
            evaluated.append(inputs)
    return LaunchContext(
        plan,
        static,
        segments,
        accesses,
        tuple(evaluated),
        launch_seq,
        number,
        baked=baked,
        held=(plan, *tile.tensors),
    )


def _accesses(
    plan: JobPlan, tile: TileLaunch, pool: DeviceTensor | None, dynamic: CompositeAddress
) -> tuple[Access, ...]:
    """Footprint of the arguments (exact roles; read and write if unknown), the pool and the dynamic block."""
    accesses = []
    for index, tensor in enumerate(tile.tensors):
        storage = tensor.storage
        writes = plan.args[index].role.writes if plan.launch is not None else True
        low, high = checks.extent(tensor)
        high = min(high, storage.nbytes)
        whole = low == 0 and high == storage.nbytes
        pieces = storage.pieces if whole else storage.address.slice(low, high - low).pieces()
        accesses.append(Access(storage.root, pieces, writes))
    if pool is not None:
        accesses.append(Access(pool.storage.root, pool.storage.address.pieces(), True))
    if dynamic.chunks:
        accesses.append(Access(dynamic, dynamic.pieces(), True))
    return tuple(accesses)


def _block(address: CompositeAddress, writable: bool = True) -> SegmentEntry:
    chunk = address.chunks[0]
    return SegmentEntry(True, chunk.addr.region_id, chunk.addr.offset, chunk.size, writable)


def _symbolic_segments(
    plan: JobPlan,
    tile: TileLaunch,
    pool: DeviceTensor | None,
    static: CompositeAddress,
    dynamic: CompositeAddress,
    context: DeviceContext,
) -> tuple[SegmentEntry, ...]:
    """One entry per tensor region that the arguments use, plus dynamic and static block (runtime spec
    3.13.4)."""
    segments = [UNMAPPED] * 8
    used: dict[int, bool] = {}
    for index, tensor in enumerate(tile.tensors):
        writes = plan.args[index].role.writes if plan.launch is not None else True
        for chunk in tensor.chunks():
            used[chunk.addr.region_id] = used.get(chunk.addr.region_id, False) or writes
    if pool is not None:
        used[pool.storage.address.chunks[0].addr.region_id] = True
    for region_id, writes in used.items():
        region = context.allocator.region(region_id)
        segments[region.segment] = SegmentEntry(True, region_id, 0, region.size, writes)
    if dynamic.chunks:
        segments[DYN_SEGMENT] = _block(dynamic)
    segments[PROG_SEGMENT] = _block(static)
    return tuple(segments)


def _baked_segments(
    plan: JobPlan,
    tile: TileLaunch,
    pool: DeviceTensor | None,
    static: CompositeAddress,
    dynamic: CompositeAddress,
    context: DeviceContext,
) -> tuple[tuple[SegmentEntry, ...], tuple[CompositeAddress, ...]]:
    """Entry ``i`` is argument ``i`` with its exact extent; a pool takes entry 0 and shifts the rest."""
    segments = [UNMAPPED] * 8
    ranges = []
    if pool is not None:
        ranges.append((pool.storage.address, True))
    for index, tensor in enumerate(tile.tensors):
        if len(tensor.storage.address.chunks) != 1:
            raise LayoutMismatch(f"argument {index} is interleaved, a baked program needs one chunk")
        offset = tensor.device_offset()
        spec = plan.args[index] if plan.launch is not None else None
        size = tensor.storage.nbytes - offset
        if spec is not None:
            size = min(size, align_up(spec.layout.device_bytes(tensor.shape)))
        writes = spec.role.writes if spec is not None else True
        ranges.append((tensor.storage.address.slice(offset, size), writes))
    if len(ranges) > 7:
        raise UnsupportedFeature(f"a baked program takes at most 7 arguments, not {len(ranges)}")
    for number, (address, writes) in enumerate(ranges):
        segments[number] = _block(address, writes)
    if dynamic.chunks and len(ranges) <= DYN_SEGMENT:
        segments[DYN_SEGMENT] = _block(dynamic)
    segments[PROG_SEGMENT] = _block(static)
    return tuple(segments), tuple(address for address, _ in ranges)


__all__ = [
    "Launch",
    "LaunchTicket",
    "RecordedLaunch",
    "Request",
    "SymbolicArg",
    "SymbolicKind",
    "TileLaunch",
    "Transaction",
    "build",
    "check",
    "enqueue",
    "submit",
]
