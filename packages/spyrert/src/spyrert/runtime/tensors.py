"""Tensors of a runtime: allocation, and copies that are enqueued on streams (runtime spec 3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from spyrert import arguments, copies
from spyrert.constants import align_up
from spyrert.context import DeviceContext
from spyrert.copies import CopyPlan
from spyrert.dtypes import device_format, dtype_name, numpy_dtype
from spyrert.errors import ArgumentError, GraphError, LayoutMismatch, OutOfDeviceMemory
from spyrert.execution import EventGeneration, OpState, Signal, Wait
from spyrert.execution import Stream as StreamHandle
from spyrert.graph.capture import Resolve, same_tensor
from spyrert.memory import EMPTY, AllocationDirective, CompositeAddress
from spyrert.runtime.streams import Streams
from spyrert.spyrecode import Layout, StickLayout
from spyrert.spyrecode.layout import contiguous_strides
from spyrert.tensor import DeviceTensor, Storage

Array = np.ndarray[Any, Any]


class CopyTicket:
    """A copy that was enqueued; :meth:`wait` gives the host array of a copy from the device."""

    def __init__(self, context: DeviceContext | None, plan: CopyPlan, name: str) -> None:
        self._context = context
        self._plan = plan
        self._name = name

    def done(self) -> bool:
        return all(operation.state.over for operation in self._plan.operations)

    def wait(self, timeout: float | None = None) -> Array | None:
        """Block until the copy is over; raises its error or ``SynchronizeTimeout``."""
        if self._context is not None:
            self._context.scheduler.wait_for(self.done, timeout, self._name)
        for operation in self._plan.operations:
            if operation.state is not OpState.DONE and operation.error is not None:
                raise operation.error.with_traceback(None)
        return None if self._plan.result is None else self._plan.result()

    def settle(self) -> None:
        """What a blocking call does before it returns."""
        self.wait()


class RecordedCopy(CopyTicket):
    """Stands for a copy that was recorded into a graph: there is nothing to wait for."""

    def wait(self, timeout: float | None = None) -> Array | None:
        raise GraphError(f"the {self._name} was recorded, not enqueued; replay the graph")

    def settle(self) -> None:
        """A blocking copy is recorded like any other."""


class Tensors(Streams):
    """Streams, and the tensors that copies on them fill and read."""

    def empty(
        self,
        shape: Sequence[int],
        dtype: Any,
        layout: Layout | None = None,
        device: int | None = None,
        directive: AllocationDirective | None = None,
        max_shape: Sequence[int] | None = None,
    ) -> DeviceTensor:
        """A tensor with undefined contents.

        ``max_shape`` reserves storage (and fixes strides) for a symbolic tensor of at most that shape. The
        default layout is the stick layout of runtime spec 3.4.2. Raises ``UnsupportedDtype``,
        ``LayoutMismatch``, ``OutOfDeviceMemory``.
        """
        context = self._context(device)
        shape = arguments.shape(shape)
        full = shape if max_shape is None else arguments.shape(max_shape, "max_shape")
        if len(full) != len(shape) or any(a > b for a, b in zip(shape, full, strict=True)):
            raise LayoutMismatch(f"shape {shape} does not fit in max_shape {full}")
        name = dtype_name(dtype)
        if directive is not None:
            arguments.expect(directive, AllocationDirective, "directive")
        layout = arguments.layout(layout) or StickLayout.default(
            full, device_format(name, context.props.f16_format)
        )
        _check_layout(layout, full)
        host = math.prod(full) * numpy_dtype(name).itemsize
        size = max(layout.device_bytes(full), host) if host else 0
        address = EMPTY if size == 0 else self._allocate(context, size, directive, host)
        storage = Storage(context, address, full, name, layout)
        if address.chunks:
            context.storages[address.token] = storage
        return DeviceTensor(storage, shape, contiguous_strides(full))

    def _allocate(
        self, context: DeviceContext, size: int, directive: AllocationDirective | None, host: int
    ) -> CompositeAddress:
        try:
            return context.allocator.allocate(size, directive, host)
        except OutOfDeviceMemory:
            if not context.allocator.quarantined():
                raise
        context.scheduler.wait_for(context.scheduler.idle, None, "memory in flight")
        return context.allocator.allocate(size, directive, host)

    def tensor_at(
        self,
        address: int,
        shape: Sequence[int],
        dtype: Any,
        layout: Layout | None = None,
        device: int | None = None,
    ) -> DeviceTensor:
        """A tensor over a part of an existing allocation, which it keeps alive.

        ``address`` is a virtual device address on a stick. Raises ``ArgumentError`` if no live allocation
        holds all of it.
        """
        context = self._context(device)
        shape, name, address = (
            arguments.shape(shape),
            dtype_name(dtype),
            arguments.integer(address, "address"),
        )
        layout = arguments.layout(layout) or StickLayout.default(
            shape, device_format(name, context.props.f16_format)
        )
        _check_layout(layout, shape)
        size = align_up(layout.device_bytes(shape))
        found = context.allocator.find(address)
        owner = context.storages.get(found[0].token) if found is not None else None
        if found is None or owner is None:
            raise ArgumentError(f"address {address:#x} lies in no live tensor of device {context.index}")
        start = found[1]
        if start % 128 or start + size > found[0].total_size:
            raise ArgumentError(
                f"{size} bytes at {address:#x} do not lie in their allocation of {found[0].total_size} "
                "bytes on a stick"
            )
        storage = Storage(context, found[0].slice(start, size), shape, name, layout, owner)
        return DeviceTensor(storage, shape, contiguous_strides(shape))

    def to_device(
        self,
        array: Any,
        layout: Layout | None = None,
        stream: StreamHandle | None = None,
        non_blocking: bool = False,
        *,
        dtype: str | None = None,
        device: int | None = None,
        directive: AllocationDirective | None = None,
    ) -> DeviceTensor:
        """Copy a host array to a new tensor; padding becomes zero.

        With ``non_blocking`` the host array is kept alive until the copy is over and must not be changed
        meanwhile. ``dtype="df16"`` uploads raw DLFloat16 numbers held in a ``uint16`` array.
        """
        data, name = copies.as_host(array, dtype)
        if stream is not None:
            arguments.stream(stream)
        index = stream.device if device is None and stream is not None else device
        if self._capture() is not None:
            data = data.copy()
        tensor = self.empty(data.shape, name, layout, index, directive)
        ticket = self._copy(lambda r: copies.upload(data, r(tensor)), (tensor,), stream, "to_device")
        if not non_blocking:
            ticket.settle()
        return tensor

    @overload
    def to_host(
        self, tensor: DeviceTensor, stream: StreamHandle | None = None, non_blocking: Literal[False] = False
    ) -> Array: ...

    @overload
    def to_host(
        self, tensor: DeviceTensor, stream: StreamHandle | None = None, *, non_blocking: Literal[True]
    ) -> CopyTicket: ...

    def to_host(
        self, tensor: DeviceTensor, stream: StreamHandle | None = None, non_blocking: bool = False
    ) -> Array | CopyTicket:
        """Copy a tensor or view to a new host array and wait for it; with ``non_blocking`` like
        :meth:`to_host_async`."""
        ticket = self.to_host_async(tensor, stream)
        if non_blocking:
            return ticket
        result = ticket.wait()
        assert result is not None
        return result

    def to_host_async(self, tensor: DeviceTensor, stream: StreamHandle | None = None) -> CopyTicket:
        """Like :meth:`to_host` without waiting: the array comes from the ticket's ``wait()``."""
        arguments.tensor(tensor).storage.check_alive()
        self._refuse_recording("reading a tensor on the host")
        return self._copy(lambda r: copies.download(r(tensor)), (tensor,), stream, "to_host")

    def copy(
        self,
        source: Any,
        target: DeviceTensor,
        stream: StreamHandle | None = None,
        non_blocking: bool = False,
    ) -> CopyTicket:
        """Copy a host array or another tensor into a tensor or view; neighbours of a partial stick
        survive.

        Between two devices the source is read in stream order of its device and the target written in stream
        order of its own; ``stream`` may be of either, the other device uses its current stream. A failure of
        the source's stream fails the target's.
        """
        arguments.tensor(target, "target").storage.check_alive()
        context = target.storage.context
        if isinstance(source, DeviceTensor):
            source.storage.check_alive()
            if source.storage.context is not context:
                return self._copy_across(source, target, stream, non_blocking)
            ticket = self._copy(
                lambda r: copies.on_device(r(source), r(target)), (source, target), stream, "copy"
            )
        else:
            data, _ = copies.as_host(source)
            wanted = numpy_dtype(target.dtype)
            if data.dtype != wanted or self._capture() is not None:
                data = data.astype(wanted)
            ticket = self._copy(lambda r: copies.upload(data, r(target), "copy"), (target,), stream, "copy")
        if not non_blocking:
            ticket.settle()
        return ticket

    def resize_(
        self, tensor: DeviceTensor, shape: Sequence[int], stream: StreamHandle | None = None
    ) -> DeviceTensor:
        """Give a whole tensor another shape, in place: elements keep their number in row-major order, new
        ones are undefined.

        The data moves to new storage through the host, unless the shape is the same; views and launches that
        exist keep the old storage. Returns the tensor. Raises ``ArgumentError`` for a view.
        """
        wanted = arguments.shape(shape)
        arguments.tensor(tensor).storage.check_alive()
        if not tensor.is_whole:
            raise ArgumentError("only a whole tensor can be resized, not a view of one")
        if wanted == tensor.shape:
            return tensor
        fresh = self.empty(wanted, tensor.dtype, device=tensor.device)
        old = self.to_host(tensor, stream).reshape(-1)
        data: Array = np.zeros(fresh.size, old.dtype)
        data[: min(old.size, data.size)] = old[: data.size]
        self.copy(data.reshape(wanted), fresh, stream)
        tensor.storage, tensor.shape, tensor.strides = fresh.storage, fresh.shape, fresh.strides
        return tensor

    def _copy_across(
        self, source: DeviceTensor, target: DeviceTensor, stream: StreamHandle | None, non_blocking: bool
    ) -> CopyTicket:
        self._refuse_recording("a copy between devices")
        here, there = self._own(source.storage.context), self._own(target.storage.context)
        named = None if stream is None else arguments.stream(stream)
        of_source = named is not None and named.device == here.index
        reading = self._stream(named if of_source else None, here)
        writing = self._stream(None if of_source else named, there)
        plan = copies.across(source, target)
        ticket = CopyTicket(there if plan.back else None, CopyPlan((*plan.out, *plan.back)), "copy")
        if plan.back:
            reading.state.check()
            writing.state.check()
            event = EventGeneration(here.scheduler)
            here.scheduler.submit([(reading.state, o) for o in (*plan.out, Signal("copy.out", event=event))])
            there.scheduler.submit([(writing.state, o) for o in (Wait("copy.out", event=event), *plan.back)])
        if not non_blocking:
            ticket.wait()
        return ticket

    def record_stream(self, tensor: DeviceTensor, stream: StreamHandle) -> None:
        """Keep the tensor's memory from reuse until everything that is on the stream now is over.

        Launches and copies of this runtime do that by themselves; this is for uses that it does not see.
        """
        arguments.tensor(tensor).storage.check_alive()
        context = self._own(tensor.storage.context)
        mark = EventGeneration(context.scheduler)
        operation = Signal("record_stream", (copies.access(tensor, False),), event=mark)
        context.scheduler.submit([(self._stream(arguments.stream(stream), context).state, operation)])

    def _copy(
        self,
        make: Callable[[Resolve], CopyPlan],
        tensors: tuple[DeviceTensor, ...],
        stream: StreamHandle | None,
        name: str,
    ) -> CopyTicket:
        """Enqueue the copy that ``make`` gives for these tensors, or record it."""
        context = self._own(tensors[-1].storage.context)
        plan = make(same_tensor)
        if not plan.operations:
            return CopyTicket(None, plan, name)
        state = self._stream(stream, context).state
        capture = self._capture()
        if capture is not None:
            capture.check_stream(state)
            capture.copy(state, make, tensors)
            return RecordedCopy(None, plan, name)
        context.scheduler.submit([(state, operation) for operation in plan.operations])
        return CopyTicket(context, plan, name)


def _check_layout(layout: Layout, shape: tuple[int, ...]) -> None:
    """A stick layout must place every element of the shape."""
    if isinstance(layout, StickLayout) and all(shape):
        last = sum((n - 1) * s for n, s in zip(shape, contiguous_strides(shape), strict=True))
        layout.offset_bytes(last)
