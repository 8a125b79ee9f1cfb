"""Dispatch: which operation is next, what becomes of it (runtime spec 3.8).

A :class:`Dispatcher` holds the streams of a device, feeds its engines and takes its completions. Who calls
it, and when, is the business of the scheduler.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from spyrert.constants import PROG_SEGMENT
from spyrert.device.protocol import Completion, ControlBlockError, Device, DeviceBusy, Status
from spyrert.errors import (
    ComputeFault,
    DeviceError,
    DeviceLost,
    DeviceTimeout,
    DmaFault,
    EccError,
    EventPoisoned,
    HostComputeError,
    SpyreError,
    StreamDestroyed,
)
from spyrert.execution import ras
from spyrert.execution.operations import Copy, Operation, OpState, Signal, Wait
from spyrert.execution.streams import StreamState
from spyrert.execution.validity import IndeterminateMemory
from spyrert.memory import FlexAllocator

MAX_HIGH_PICKS: Final = 8
"""After so many picks of high priority a normal stream that is ready gets its turn."""


class Dispatcher:
    """The streams of one device and their operations, from the head of a queue to the end of each.

    Args:
        device: used by this dispatcher alone.
        allocator: told which operations touch which blocks.
        index: number of the device, for messages.
        host_timeout: seconds after which a host function is given up.
    """

    def __init__(
        self, device: Device, allocator: FlexAllocator, index: int, host_timeout: float | None
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
        self._changed = threading.Condition(threading.RLock())
        self._by_ticket: dict[int, Operation] = {}
        self._host: tuple[Operation, int] | None = None
        self._host_thread: int | None = None
        self._host_timeout = host_timeout
        self._unfinished = 0
        self._clock = device.now()
        self._callbacks: deque[Operation] = deque()
        self._pointer = 0
        self._high_picks = 0
        self._outbox: deque[Dispatcher] = deque()

    def add_stream(self, state: StreamState) -> None:
        """Serve one more stream."""
        with self._changed:
            self.streams.append(state)
            self.streams.sort(key=lambda s: s.id)
            self._pointer = 0

    def now(self) -> int:
        """Virtual time (ns) as far as it was reached."""
        return self._clock

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
        except Exception as broken:  # noqa: BLE001 - whatever a device raises belongs to the operation
            what = operation.name or operation.kind
            error = DeviceError(
                f"the device raised {type(broken).__name__} for {what}: {broken}", device=self.index
            )
            error.__cause__ = broken
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
        except BaseException:
            with self._changed:  # the thread was interrupted, not the function wrong: it is called again
                self._host = None
                self._rewind(operation)
            raise
        with self._changed:
            if error is not None or duration == 0:
                self._host = None
                operation.end = self._clock
                self._finish(operation, OpState.DONE if error is None else OpState.FAILED, error)
            else:
                self._host = (operation, self._clock + duration)

    def _rewind(self, operation: Operation) -> None:
        """Put an operation back to the head of its stream."""
        operation.rewind()
        operation.state = OpState.PENDING
        assert operation.stream is not None
        operation.stream.in_flight = None
        operation.stream.queue.appendleft(operation)
        self._changed.notify_all()

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
        if self._host is not None:
            operation, self._host = self._host[0], None
            self._finish(operation, OpState.FAILED, DeviceLost(error.message, device=self.index))
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


def _arrival(operation: Operation, scheduler: Dispatcher) -> int | None:
    """When the event of another device that an operation waits for is seen here: virtual time is shared."""
    if isinstance(operation, Wait) and operation.event.signaled and operation.event.foreign_to(scheduler):
        return operation.event.time
    return None


__all__ = ["MAX_HIGH_PICKS", "Dispatcher"]
