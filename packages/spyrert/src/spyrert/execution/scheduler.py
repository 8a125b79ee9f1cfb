"""The scheduler of one device: picks operations, feeds the engines, takes completions (runtime spec 3.8).

Operations start in virtual time, so results, order and times do not depend on the machine. Work is moved by
whoever *pumps*: a worker thread, or blocking calls. Functions of users (host functions, callbacks) run with
no lock held.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from spyrert.config import Progress
from spyrert.constants import PROG_SEGMENT
from spyrert.device.protocol import (
    Completion,
    ControlBlockError,
    Device,
    DeviceBusy,
    Status,
)
from spyrert.errors import (
    ArgumentError,
    ComputeFault,
    DeadlockError,
    DeviceError,
    DeviceLost,
    DeviceTimeout,
    DmaFault,
    EccError,
    EventPoisoned,
    HostComputeError,
    SpyreError,
    StreamDestroyed,
    SynchronizeTimeout,
)
from spyrert.execution import ras
from spyrert.execution.hazards import HazardTracker
from spyrert.execution.operations import Access, Copy, Operation, OpState, Signal, Wait
from spyrert.execution.streams import StreamState
from spyrert.execution.validity import IndeterminateMemory
from spyrert.memory import FlexAllocator

MAX_HIGH_PICKS: Final = 8
"""After so many picks of high priority a normal stream that is ready gets its turn."""


class Scheduler:
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
        self.device = device
        self.allocator = allocator
        self.index = index
        self.streams: list[StreamState] = []
        self.observers: list[Callable[[Operation], None]] = []
        """Called with each operation when it is over, under the scheduler's lock."""
        self.error_log: list[dict[str, object]] = []
        self.spurious_completions = 0
        self.lost = False
        self.indeterminate: IndeterminateMemory | None = None
        self._progress = progress
        self._changed = threading.Condition(threading.RLock())
        self._pumping: int | None = None
        self._by_ticket: dict[int, Operation] = {}
        self._host: tuple[Operation, int] | None = None
        self._host_thread: int | None = None
        self._host_timeout = host_timeout
        self._timeout_ns = timeout_ns
        self._hazards = HazardTracker()
        self._unfinished = 0
        self._clock = device.now()
        self._callbacks: deque[Operation] = deque()
        self._next_op = 0
        self._pointer = 0
        self._high_picks = 0
        self._waiters: list[Callable[[], bool]] = []
        self._worker: threading.Thread | None = None
        self._closing = False
        self._outbox: deque[Scheduler] = deque()
        self.peers: Sequence[Scheduler] = ()
        """Schedulers of the same runtime, this one included; pumped too by whoever waits here by hand."""

    def add_stream(self, state: StreamState) -> None:
        """Serve one more stream."""
        with self._changed:
            self.streams.append(state)
            self.streams.sort(key=lambda s: s.id)
            self._pointer = 0

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
                    for access in operation.footprint:
                        self.allocator.hold(access.allocation, operation.op_id)
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
            moved = self._step()
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

    def _wake(self) -> int | None:
        """The earliest time at which another device has signalled an event that a stream here waits for, if
        that is later than now."""
        times = [
            time
            for state in self.streams
            if state.error is None and state.in_flight is None and state.queue
            for time in [_arrival(state.queue[0], self)]
            if time is not None and time > self._clock
        ]
        return min(times, default=None)

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

    # -- dispatch ------------------------------------------------------------------------------

    def _ready(self, state: StreamState) -> bool:
        if not state.queue or state.in_flight is not None or state.error is not None:
            return False
        operation = state.queue[0]
        if any(not before.state.over for before in operation.after):
            return False
        if isinstance(operation, Wait):
            return operation.event.over and (_arrival(operation, self) or 0) <= self._clock
        if operation.host_lane:
            return self._host is None and operation.ready()
        if operation.engine is not None:
            return self.device.can_accept(operation.engine) and operation.ready()
        return True

    def _pick(self) -> StreamState | None:
        """The next stream: high priority first, round robin, normal ones at least every ninth time."""
        count = len(self.streams)
        order = [self.streams[(self._pointer + k) % count] for k in range(count)]
        ready = [state for state in order if self._ready(state)]
        if not ready:
            return None
        high = [state for state in ready if state.priority < 0]
        normal = [state for state in ready if state.priority >= 0]
        if high and (not normal or self._high_picks < MAX_HIGH_PICKS):
            chosen = high[0]
            self._high_picks = self._high_picks + 1 if normal else 0
        else:
            chosen = normal[0]
            self._high_picks = 0
        self._pointer = (self.streams.index(chosen) + 1) % count
        return chosen

    def _dispatch(self) -> bool:
        """Start everything that is ready. The device and host functions work with no lock held."""
        moved = False
        while True:
            with self._changed:
                state = self._pick()
                if state is None:
                    return moved
                moved = True
                operation = state.queue.popleft()
                operation.submitted = operation.start = self._clock
                poison = self._failed_before(operation)
                if poison is not None:
                    state.in_flight = operation
                    self._finish(operation, OpState.FAILED, poison)
                    continue
                if isinstance(operation, Signal):
                    operation.event.signal(self._clock)
                    self._finish(operation, OpState.DONE)
                    self._outbox.extend(operation.event.waiters)
                    continue
                state.in_flight = operation
                if isinstance(operation, Wait):
                    if operation.event.error is not None and not operation.tolerant:
                        self._finish(operation, OpState.FAILED, operation.poisoned())
                    else:
                        self._finish(operation, OpState.DONE)
                    continue
                operation.state = OpState.DISPATCHED
                if operation.host_lane:
                    self._host = (operation, 1 << 62)
            if operation.host_lane:
                self._run_host(operation)
            else:
                self._to_device(operation)

    @staticmethod
    def _failed_before(operation: Operation) -> SpyreError | None:
        """The error that an operation inherits from one whose result it reads."""
        for before in operation.after:
            if before.state in (OpState.FAILED, OpState.CANCELLED) and any(
                b.writes and not a.writes and a.conflicts(b)
                for a in operation.footprint
                for b in before.footprint
            ):
                cause = before.error
                error = EventPoisoned(
                    f"{operation.name or operation.kind} depends on a failed operation: {cause}"
                )
                error.__cause__ = cause
                return error
        operation.after.clear()
        return None

    def _to_device(self, operation: Operation) -> None:
        error: SpyreError
        try:
            ticket = self.device.submit(operation.block())
        except DeviceLost as lost:
            error = lost
        except (ControlBlockError, DeviceBusy) as refused:
            kind = DmaFault if isinstance(operation, Copy) else ComputeFault
            what = operation.name or operation.kind
            error = kind(f"the device refused {what}: {refused}", device=self.index)
            error.__cause__ = refused
        else:
            with self._changed:
                self._by_ticket[ticket] = operation
            return
        with self._changed:
            if isinstance(error, DeviceLost):
                self._lose(error)
            self._finish(operation, OpState.FAILED, error)

    def _run_host(self, operation: Operation) -> None:
        """Run a host function with no lock held; its virtual duration occupies the host lane."""
        error: SpyreError | None = None
        duration = 0
        try:
            duration = self._call_host(operation)
        except SpyreError as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001 - whatever a user's function raises belongs to its stream
            error = HostComputeError(
                f"host function {operation.name!r} raised {type(raised).__name__}: {raised}"
            )
            error.__cause__ = raised
        with self._changed:
            if error is not None or duration == 0:
                self._host = None
                operation.end = self._clock
                self._finish(operation, OpState.DONE if error is None else OpState.FAILED, error)
            else:
                self._host = (operation, self._clock + duration)

    def _call_host(self, operation: Operation) -> int:
        """The duration of a host function, which may not enqueue anything. With a watchdog it runs in a
        thread of its own, which is left behind if it does not return."""
        result: list[int] = []
        failure: list[BaseException] = []

        def work() -> None:
            self._host_thread = threading.get_ident()
            try:
                result.append(operation.run())
            except BaseException as error:  # noqa: BLE001 - raised again below
                failure.append(error)
            finally:
                if self._host_thread == threading.get_ident():
                    self._host_thread = None

        if self._host_timeout is None:
            work()
        else:
            thread = threading.Thread(target=work, name="spyrert-host-function", daemon=True)
            thread.start()
            thread.join(self._host_timeout)
            if not (result or failure):
                self._host_thread = None
                operation.abandon()
                raise HostComputeError(
                    f"timeout: host function {operation.name!r} did not return in {self._host_timeout} s"
                )
        if failure:
            raise failure[0]
        return result[0]

    # -- completions ---------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Let virtual time pass to the next completion, or to the end of a host function, or to the signal of
        another device."""
        ends = [
            time for time in (self._wake(), None if self._host is None else self._host[1]) if time is not None
        ]
        if ends:
            self.device.advance(max(0, min(ends) - self._clock))
            self._clock = self.device.now()
            completion = self.device.next_completion(block=False)
            if completion is not None:
                self._complete(completion)
                return True
            if self._host is not None and self._clock >= self._host[1]:
                operation, end = self._host
                self._host = None
                operation.end = end
                self._finish(operation, OpState.DONE)
            return True
        if not self._by_ticket:
            return False
        completion = self.device.next_completion(block=True)
        self._clock = self.device.now()
        if completion is not None:
            self._complete(completion)
            return True
        for ticket, operation in list(self._by_ticket.items()):
            del self._by_ticket[ticket]
            error = DeviceTimeout(f"{operation.name or operation.kind} never completed", device=self.index)
            self._finish(operation, OpState.FAILED, error)
        return True

    def _complete(self, completion: Completion) -> None:
        operation = self._by_ticket.pop(completion.ticket, None)
        if operation is None:
            self.spurious_completions += 1
            return
        operation.start, operation.end = completion.t_start, completion.t_end
        operation.bytes = completion.bytes
        match completion.status:
            case Status.OK:
                self.error_log += [ras.note(text, operation) for text in completion.notes]
                self._finish(operation, OpState.DONE)
            case Status.CANCELLED:
                self._finish(operation, OpState.CANCELLED)
            case Status.FAULT:
                fault = completion.fault
                error = fault.error(fault.message, **fault.details) if fault else DeviceError("unknown fault")
                error.device = self.index
                if isinstance(error, DeviceLost):
                    self._lose(error)
                elif isinstance(error, EccError) and fault and fault.details.get("segment") == PROG_SEGMENT:
                    self._lose(DeviceLost(f"a program is damaged: {error}", device=self.index))
                self._finish(operation, OpState.FAILED, error)

    def _finish(self, operation: Operation, state: OpState, error: SpyreError | None = None) -> None:
        """An operation is over; on failure its stream fails and everything behind it is cancelled."""
        stream = operation.stream
        assert stream is not None
        operation.state = state
        operation.error = error
        if not operation.end:
            operation.end = self._clock
        self._unfinished -= 1
        self.allocator.release(operation.op_id)
        if stream.in_flight is operation:
            stream.in_flight = None
        if isinstance(operation, Signal) and state is not OpState.DONE:
            operation.event.poison(error or stream.error or StreamDestroyed("the stream was destroyed"))
            self._outbox.extend(operation.event.waiters)
        if self.indeterminate is not None and state is not OpState.DONE:
            for access in operation.footprint:
                if access.writes:
                    self.indeterminate.mark(access.pieces)
        for observer in self.observers:
            observer(operation)
        self._callbacks.append(operation)
        stream.settling += 1
        if state is OpState.FAILED and error is not None:
            error.op_id = error.op_id or operation.op_id
            error.stream_id = stream.id if error.stream_id is None else error.stream_id
            error.launch_seq = error.launch_seq or operation.launch_seq
            self._fail(stream, error, operation)
        self._changed.notify_all()

    def _fail(self, stream: StreamState, error: SpyreError, operation: Operation | None) -> None:
        self.error_log.append(ras.record(error, operation, stream.id))
        if stream.error is None:
            stream.error = error
        else:
            stream.error.add_note(f"later: {type(error).__name__}: {error}")
        self._cancel(stream)

    def _cancel(self, stream: StreamState, error: SpyreError | None = None) -> None:
        while stream.queue:
            operation = stream.queue.popleft()
            error = stream.error or error
            if error is None:
                error = StreamDestroyed(f"stream {stream.id} was destroyed", stream_id=stream.id)
            self._finish(operation, OpState.CANCELLED, error)

    def _lose(self, error: DeviceLost) -> None:
        """The device is gone: every stream fails."""
        self.lost = True
        for operation in list(self._by_ticket.values()):
            self._finish(operation, OpState.FAILED, DeviceLost(error.message, device=self.index))
        self._by_ticket.clear()
        for stream in self.streams:
            if not stream.destroyed and stream.error is None:
                self._fail(stream, DeviceLost(error.message, device=self.index, stream_id=stream.id), None)

    def _run_callbacks(self) -> bool:
        """Call the callbacks of operations that are over; an exception is logged and hurts nobody."""
        ran = False
        while True:
            with self._changed:
                if not self._callbacks:
                    return ran
                operation = self._callbacks.popleft()
            callbacks, operation.callbacks = operation.callbacks, []
            for callback in callbacks:
                ran = True
                try:
                    callback(operation)
                except Exception as error:  # noqa: BLE001 - a callback belongs to the user
                    self.error_log.append(
                        {"name": "callback", "message": repr(error), "op_id": operation.op_id}
                    )
            operation.drop()
            with self._changed:
                if operation.stream is not None:
                    operation.stream.settling -= 1
                self._changed.notify_all()

    def _deliver(self) -> None:
        """Wake the schedulers of other devices that wait for events of this one; no lock of this one is held,
        since they may be about to do the same."""
        while True:
            try:
                other = self._outbox.popleft()
            except IndexError:
                return
            other.wake()

    def wake(self) -> None:
        """Something that streams of this device wait for has changed outside of it."""
        with self._changed:
            self._changed.notify_all()

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

    def now(self) -> int:
        """Virtual time (ns) as far as it was reached."""
        return self._clock

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


def _arrival(operation: Operation, scheduler: Scheduler) -> int | None:
    """When the event of another device that an operation waits for is seen here: virtual time is shared."""
    if isinstance(operation, Wait) and operation.event.signaled and operation.event.foreign_to(scheduler):
        return operation.event.time
    return None


__all__ = ["MAX_HIGH_PICKS", "Scheduler"]
