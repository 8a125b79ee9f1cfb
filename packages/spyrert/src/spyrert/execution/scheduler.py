"""The scheduler of one device: who moves its operations, and when (runtime spec 3.1, 3.8).

Operations start in virtual time, so results, order and times do not depend on the machine. Work is moved by
whoever *pumps*: a worker thread, or blocking calls. Functions of users (host functions, callbacks) run with
no lock held.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from spyrert.config import Progress
from spyrert.device.protocol import Device
from spyrert.errors import (
    ArgumentError,
    DeadlockError,
    DeviceLost,
    HostComputeError,
    SpyreError,
    SynchronizeTimeout,
)
from spyrert.execution.dispatch import Dispatcher
from spyrert.execution.hazards import HazardTracker
from spyrert.execution.operations import Access, Operation, OpState, Wait
from spyrert.execution.streams import StreamState
from spyrert.execution.validity import IndeterminateMemory
from spyrert.memory import FlexAllocator


class Scheduler(Dispatcher):
    """Moves the operations of all streams of one device.

    Args:
        device: used by this scheduler alone.
        allocator: told which operations touch which blocks.
        progress: who pumps.
        index: number of the device, for messages.
        host_timeout: seconds after which a host function is given up.
        timeout_ns: virtual time that the device has for each operation; 0 is no limit.
    """

    def __init__(
        self,
        device: Device,
        allocator: FlexAllocator,
        progress: Progress,
        index: int = 0,
        host_timeout: float | None = None,
        timeout_ns: int = 0,
    ) -> None:
        super().__init__(device, allocator, index, host_timeout)
        self._progress = progress
        self._timeout_ns = timeout_ns
        self._pumping: int | None = None
        self._hazards = HazardTracker()
        self._next_op = 0
        self._waiters: list[Callable[[], bool]] = []
        self._worker: threading.Thread | None = None
        self._closing = False
        self.peers: Sequence[Scheduler] = ()
        """Schedulers of the same runtime, this one included; pumped too by whoever waits here by hand."""

    # -- enqueue -------------------------------------------------------------------------------

    def submit(self, operations: Sequence[tuple[StreamState, Operation]]) -> None:
        """Enqueue all or nothing; other threads' operations do not come between those of one stream.

        Raises ``StreamInErrorState``, ``StreamDestroyed``, ``InvalidFree``, and ``HostComputeError`` inside
        of a host function of this device; nothing is enqueued then.
        """
        if self._host_thread == threading.get_ident():
            raise HostComputeError("re-entrant: a host function may not enqueue work", device=self.index)
        with self._changed:
            for state in {id(state): state for state, _ in operations}.values():
                state.check()
            if self.indeterminate is not None:
                self._check_reads(operations)
            enqueued: list[Operation] = []
            now = self._clock
            try:
                for state, operation in operations:
                    self._next_op += 1
                    operation.op_id = self._next_op
                    operation.stream = state
                    operation.queued = now
                    operation.timeout_ns = self._timeout_ns
                    enqueued.append(operation)
                self.allocator.hold_all(
                    (access.allocation, operation.op_id)
                    for operation in enqueued
                    for access in operation.footprint
                )
            except SpyreError:
                for operation in enqueued:
                    self.allocator.release(operation.op_id)
                raise
            if not self._unfinished:
                self._hazards.clear()
            self._unfinished += len(operations)
            for state, operation in operations:
                ordered = [a for a in operation.footprint if a.shared or state.tracked]
                if ordered:
                    operation.after += self._hazards.edges(operation, ordered)
                state.queue.append(operation)
                if isinstance(operation, Wait) and operation.event.foreign_to(self):
                    operation.event.waiters.append(self)
            self._changed.notify_all()
        if self._progress is Progress.THREAD:
            self._start_worker()

    def _check_reads(self, operations: Sequence[tuple[StreamState, Operation]]) -> None:
        """Refuse to read what failed operations may have damaged, unless it is written before.

        What is enqueued to be written counts as written; it is damaged again if that operation fails.
        """
        assert self.indeterminate is not None
        written: list[Access] = []
        for _, operation in operations:
            for access in operation.footprint:
                hit = None if access.writes else self.indeterminate.hit(access.pieces)
                if hit is not None and not any(a.covers(hit) for a in written):
                    raise ArgumentError(
                        f"indeterminate data: {operation.name or operation.kind} reads {hit.size} bytes "
                        f"at {hit.offset:#x} of region {hit.region_id}, which a failed operation was to "
                        "write"
                    )
            written += [access for access in operation.footprint if access.writes]
        for access in written:
            self.indeterminate.clear(access.pieces)

    # -- pumping -------------------------------------------------------------------------------

    def pump(self, max_steps: int | None = None) -> int:
        """Make progress by at most ``max_steps`` steps; returns how many were made. A step dispatches what is
        ready, or takes one completion."""
        steps = 0
        while max_steps is None or steps < max_steps:
            if not self._step():
                break
            steps += 1
        return steps

    def wait_for(self, condition: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Block until ``condition`` holds; detects deadlock. Raises ``SynchronizeTimeout``."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._waiters.append(condition)
            self._changed.notify_all()
        try:
            while True:
                with self._changed:
                    if condition():
                        return
                    if threading.get_ident() in (self._pumping, self._host_thread):
                        raise HostComputeError(f"re-entrant: waiting for {what} inside of a host function")
                    if self._progress is Progress.THREAD or self._pumping not in (
                        None,
                        threading.get_ident(),
                    ):
                        left = None if deadline is None else deadline - time.monotonic()
                        if left is not None and left <= 0:
                            raise SynchronizeTimeout(
                                f"{what} did not finish in {timeout} s", device=self.index
                            )
                        self._changed.wait(left)
                        continue
                if deadline is not None and time.monotonic() >= deadline:
                    raise SynchronizeTimeout(f"{what} did not finish in {timeout} s", device=self.index)
                if not self._step() and not self._pump_peers() and not self._break_deadlock():
                    with self._changed:
                        left = None if deadline is None else max(0.0, deadline - time.monotonic())
                        if not condition() and (self._pumping is not None or not self._can_step()):
                            self._changed.wait(left)
        finally:
            with self._changed:
                self._waiters.remove(condition)

    def _pump_peers(self) -> bool:
        """One step of every other device; what is waited for here may depend on them."""
        moved = [peer._step() for peer in self.peers if peer is not self]
        return any(moved)

    def _start_worker(self) -> None:
        with self._changed:
            if self._worker is None and not self._closing:
                self._worker = threading.Thread(
                    target=self._work, name=f"spyrert-device-{self.index}", daemon=True
                )
                self._worker.start()

    def _work(self) -> None:
        while True:
            try:
                moved = self._step()
            except Exception as error:  # noqa: BLE001 - nobody else would hear of it, and all would wait
                with self._changed:
                    self._lose(DeviceLost(f"the device raised {type(error).__name__}: {error}"))
                    self._changed.notify_all()
                moved = True
            with self._changed:
                if self._closing and all(state.idle for state in self.streams):
                    return
                if moved:
                    continue
                if not self._can_step() and not self._break_deadlock():
                    self._changed.wait()

    def _can_step(self) -> bool:
        return (
            bool(self._by_ticket or self._host or self._callbacks)
            or any(self._ready(state) for state in self.streams)
            or self._wake() is not None
        )

    def _step(self) -> bool:
        """Dispatch everything that is ready, else take one completion. Returns whether anything moved."""
        with self._changed:
            if self._pumping is not None:
                return False
            self._pumping = threading.get_ident()
        try:
            moved = self._dispatch()
            if not moved:
                with self._changed:
                    moved = self._advance()
            return self._run_callbacks() or moved
        finally:
            with self._changed:
                self._pumping = None
                self._changed.notify_all()
            self._deliver()

    # -- deadlock, end -------------------------------------------------------------------------

    def _break_deadlock(self) -> bool:
        """Nothing moves and nothing is in flight: fail the streams that wait for each other."""
        with self._changed:
            if self._by_ticket or self._host or self._callbacks or self._pumping is not None:
                return False
            if any(self._ready(state) for state in self.streams):
                return False
            if all(condition() for condition in self._waiters):
                return False  # nobody is blocked: another thread may still signal what the streams wait for
            stuck = []
            for state in self.streams:
                if not state.queue or state.error is not None:
                    continue
                head = state.queue[0]
                if isinstance(head, Wait):
                    if head.event.foreign_to(self):
                        return False
                    stuck.append(state)
                elif head.after:
                    stuck.append(state)
            if not stuck:
                return False
            ids = [state.id for state in stuck]
            for state in stuck:
                error = DeadlockError(
                    f"streams {ids} wait for events that nobody can signal",
                    device=self.index,
                    stream_id=state.id,
                    streams=tuple(ids),
                )
                self._fail(state, error, state.queue[0] if state.queue else None)
            self._changed.notify_all()
        self._deliver()
        return True

    def destroy(self, state: StreamState, cancel: bool) -> None:
        """End a stream; see :meth:`Stream.destroy`."""
        if cancel or state.error is not None:
            with self._changed:
                self._cancel(state)
                state.destroyed = True
            self._deliver()
            self.wait_for(lambda: state.idle, None, f"stream {state.id}")
        else:
            self.wait_for(lambda: state.idle, None, f"stream {state.id}")
        with self._changed:
            state.destroyed = True
            if state in self.streams:
                self.streams.remove(state)
                self._pointer = 0

    def abandon(self) -> None:
        """Cancel everything, also what is in flight; the device is to be reset. Every stream ends."""
        with self._changed:
            while self._pumping not in (None, threading.get_ident()):
                self._changed.wait()
            error = DeviceLost("the device was reset", device=self.index)
            for operation in list(self._by_ticket.values()):
                self._finish(operation, OpState.CANCELLED, error)
            self._by_ticket.clear()
            for state in self.streams:
                self._cancel(state, error)
        self._deliver()
        self.wait_for(lambda: all(state.idle for state in self.streams), None, "reset")
        with self._changed:
            for state in self.streams:
                state.destroyed = True
            self.streams.clear()
            self._pointer = 0
            self._hazards.clear()
            self.lost = False
            if self.indeterminate is not None:
                self.indeterminate = IndeterminateMemory()

    def idle(self) -> bool:
        """Whether no stream has anything left."""
        with self._changed:
            return all(state.idle for state in self.streams) and not self._callbacks

    def close(self, timeout: float) -> None:
        """Drain for at most ``timeout`` seconds, cancel the rest, end the worker."""
        try:
            self.wait_for(lambda: all(state.idle for state in self.streams), timeout, "shutdown")
        except SynchronizeTimeout:
            with self._changed:
                for state in self.streams:
                    self._cancel(state)
            self._deliver()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._worker is not None and self._worker is not threading.current_thread():
            self._worker.join(timeout)
        self.device.close()


__all__ = ["Scheduler"]
