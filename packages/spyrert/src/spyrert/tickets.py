"""Tickets: what a launch gives its caller (runtime spec 3.13.5)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from spyrert.context import DeviceContext
from spyrert.errors import GraphError, SpyreError, StreamDestroyed
from spyrert.execution import Operation, OpState
from spyrert.plan import HostBuffer


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


__all__ = ["LaunchTicket", "RecordedLaunch"]
