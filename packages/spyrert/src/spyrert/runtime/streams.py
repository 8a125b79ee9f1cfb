"""Streams of a runtime: pools, and the current stream of each thread (runtime spec 3.6)."""

from __future__ import annotations

from spyrert import arguments
from spyrert.context import DeviceContext
from spyrert.errors import DeviceMismatch
from spyrert.execution import Event as EventHandle
from spyrert.execution import Stream as StreamHandle
from spyrert.runtime.devices import Devices


class Streams(Devices):
    """Devices with their streams."""

    def Stream(self, device: int | None = None, priority: int = 0) -> StreamHandle:
        """The next stream of the pool: ids 1..32, or 33..64 for a negative (high) priority."""
        context = self._context(device)
        high = arguments.integer(priority, "priority") < 0
        return self._handle(context, context.pooled_stream(high).id)

    def Event(self, enable_timing: bool = False) -> EventHandle:
        """An event; ``record()`` and ``wait()`` without a stream mean the current stream."""
        return EventHandle(enable_timing, self.current_stream)

    def default_stream(self, device: int | None = None) -> StreamHandle:
        return self._handle(self._context(device), 0)

    def current_stream(self, device: int | None = None) -> StreamHandle:
        """The current stream of this thread, the default stream if none was set."""
        context = self._context(device)
        current = self._currents().get(context.index)
        if current is None or (current.id == 0 and current.state.destroyed):
            return self.default_stream(context.index)
        return current

    def set_current_stream(self, stream: StreamHandle) -> StreamHandle:
        """Make a stream current in this thread; returns the previous one."""
        previous = self.current_stream(arguments.stream(stream).device)
        self._currents()[stream.device] = stream
        return previous

    def reset_stream(self, device: int | None = None) -> StreamHandle:
        """Replace the default stream by a new one, e.g. after an error; tensors survive."""
        self._refuse_recording("resetting a stream")
        context = self._context(device)
        context.reset_default()
        return self.default_stream(context.index)

    def _currents(self) -> dict[int, StreamHandle]:
        table: dict[int, StreamHandle] | None = getattr(self._local, "streams", None)
        if table is None:
            table = self._local.streams = {}
        return table

    def _handle(self, context: DeviceContext, id: int) -> StreamHandle:
        return StreamHandle(context.stream_state(id), context.scheduler, self.set_current_stream)

    def _stream(self, stream: StreamHandle | None, context: DeviceContext) -> StreamHandle:
        if stream is None:
            return self.current_stream(context.index)
        arguments.stream(stream)
        if stream.device != context.index:
            raise DeviceMismatch(f"stream {stream} is not on device {context.index}")
        if stream.scheduler is not context.scheduler:
            raise DeviceMismatch(f"stream {stream} belongs to another runtime")
        return stream
