"""From checked launches to operations on streams (runtime spec 3.10, 3.13.3)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from spyrert.config import Overlap
from spyrert.context import FIRST_HOST_STREAM, DeviceContext
from spyrert.copies import on_device, rearrange
from spyrert.device.protocol import MemoryType
from spyrert.execution import EventGeneration, Operation, Signal, Stream, StreamState, Wait
from spyrert.launch import Request, TileLaunch
from spyrert.memory import EMPTY, AllocationDirective, CompositeAddress
from spyrert.plan import HostBuffer, HostComputeStep, JobPlan, LaunchContext, StepRole
from spyrert.segments import accesses, baked_segments, symbolic_segments
from spyrert.spyrecode import Addressing, ArgumentInputs, Hcm, HostInputs, symbol_values
from spyrert.tensor import DeviceTensor, Storage
from spyrert.tickets import LaunchTicket


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
    for one in request.accumulators:
        if not any(tile.fills for tile in request.tiles):
            start = on_device(one.output, one.tensor, f"{plan.name}.begin").operations
            placed = [(stream.state, operation) for operation in start] + placed
        end = on_device(one.tensor, one.output, f"{plan.name}.end").operations
        placed += [(stream.state, operation) for operation in end]
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
    touched = accesses(plan, tile, pool, dynamic)
    baked: tuple[CompositeAddress, ...] = ()
    if plan.addressing is Addressing.BAKED:
        segments, baked = baked_segments(plan, tile, pool, static, dynamic, context)
    else:
        segments = symbolic_segments(plan, tile, pool, static, dynamic, context)
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
        touched,
        tuple(evaluated),
        launch_seq,
        number,
        baked=baked,
        held=(plan, *tile.tensors),
    )


__all__ = ["Transaction", "build", "enqueue", "submit"]
