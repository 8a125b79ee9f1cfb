"""Streams: in-order queues of operations (runtime spec 3.6)."""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, NoReturn, Protocol

from spyrert.errors import (
    ArgumentTypeError,
    CoreUnavailable,
    DeviceError,
    DeviceTimeout,
    EccError,
    EventPoisoned,
    PageFault,
    SpyreError,
    StreamDestroyed,
    StreamError,
    StreamInErrorState,
)
from spyrert.execution.events import Event, EventGeneration
from spyrert.execution.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from spyrert.execution.scheduler import Scheduler


class Recorder(Protocol):
    """A recording in progress, as streams and events see it (see :mod:`spyrert.graph`)."""

    def mine(self) -> bool: ...

    def going(self) -> bool: ...

    def signal(self, state: StreamState, event: EventGeneration) -> None: ...

    def wait(self, state: StreamState, event: EventGeneration) -> None: ...

    def refuse(self, what: str) -> NoReturn: ...


class StreamStatus(enum.Enum):
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"
    DESTROYED = "destroyed"


class ErrorCode(enum.IntEnum):
    """What :meth:`Stream.get_error` returns."""

    SUCCESS = 0
    SHUTDOWN = 1
    HARDWARE_FAULT = 2
    TIMEOUT = 3
    MEMORY_FAULT = 4
    CORE_UNAVAILABLE = 5


class StreamState:
    """The queue behind one stream id and generation. Guarded by the scheduler's lock."""

    def __init__(self, id: int, generation: int, priority: int, device: int) -> None:
        self.id = id
        self.generation = generation
        self.priority = priority
        self.device = device
        self.queue: deque[Operation] = deque()
        self.in_flight: Operation | None = None
        self.error: SpyreError | None = None
        self.destroyed = False
        self.tracked = False
        self.settling = 0
        self.capture: Recorder | None = None

    def recorder(self) -> Recorder | None:
        """The recording of the calling thread that this stream is part of."""
        return self.capture if self.capture is not None and self.capture.mine() else None

    @property
    def idle(self) -> bool:
        return not self.queue and self.in_flight is None and not self.settling

    @property
    def status(self) -> StreamStatus:
        if self.destroyed:
            return StreamStatus.DESTROYED
        if self.error is not None:
            return StreamStatus.ERROR
        return StreamStatus.IDLE if self.idle else StreamStatus.BUSY

    def check(self) -> None:
        """Raise unless operations may be enqueued."""
        if self.destroyed:
            raise StreamDestroyed(f"stream {self.id} was destroyed", device=self.device, stream_id=self.id)
        if self.error is not None:
            error = StreamInErrorState(
                f"stream {self.id} is in the error state: {self.error}", device=self.device, stream_id=self.id
            )
            raise error from self.error


class Stream:
    """A handle of an in-order queue of one device.

    Two handles of one id and generation are equal and share the queue. A context manager: inside, it is the
    current stream of the thread.
    """

    def __init__(
        self, state: StreamState, scheduler: Scheduler, set_current: Callable[[Stream], Stream]
    ) -> None:
        self.state = state
        self.scheduler = scheduler
        self._set_current = set_current
        self._previous: list[Stream] = []

    @property
    def id(self) -> int:
        return self.state.id

    @property
    def device(self) -> int:
        return self.state.device

    @property
    def priority(self) -> int:
        """-1 for high, 0 for normal."""
        return self.state.priority

    @property
    def status(self) -> StreamStatus:
        return self.state.status

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.state is other.state

    def __hash__(self) -> int:
        return hash((self.device, self.id, self.state.generation))

    def __repr__(self) -> str:
        return f"<spyrert.Stream device={self.device} id={self.id}>"

    def __enter__(self) -> Stream:
        self._previous.append(self._set_current(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._set_current(self._previous.pop())

    def synchronize(self, timeout: float | None = None) -> None:
        """Block until everything enqueued so far is over.

        Raises the first error of the stream, every time; ``SynchronizeTimeout`` (seconds);
        ``StreamDestroyed``.
        """
        self._alive()
        self._not_recorded("synchronize")
        self.scheduler.wait_for(lambda: self.state.idle, timeout, repr(self))
        if self.state.error is not None:
            raise _again(self.state.error)

    def query(self) -> bool:
        """Whether the stream is idle; raises its first error."""
        self._alive()
        self._not_recorded("query")
        if self.state.error is not None:
            raise _again(self.state.error)
        return self.state.idle

    def get_error(self) -> ErrorCode:
        """The state without raising."""
        if self.state.destroyed or self.state.error is not None:
            return ErrorCode.SHUTDOWN
        return ErrorCode.SUCCESS

    @property
    def fault_class(self) -> ErrorCode:
        """What kind of failure is behind :meth:`get_error`."""
        error = self.state.error
        cause = error.__cause__ if isinstance(error, EventPoisoned) else error
        match cause:
            case None:
                return self.get_error()
            case DeviceTimeout():
                return ErrorCode.TIMEOUT
            case CoreUnavailable():
                return ErrorCode.CORE_UNAVAILABLE
            case PageFault() | EccError():
                return ErrorCode.MEMORY_FAULT
            case DeviceError():
                return ErrorCode.HARDWARE_FAULT
            case _:
                return ErrorCode.SHUTDOWN

    @property
    def error(self) -> SpyreError | None:
        """The first error, or ``None``."""
        return self.state.error

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (a new one by default) at this point."""
        event = Event() if event is None else _event(event)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later operations wait for the event."""
        _event(event).wait(self)

    def wait_stream(self, other: Stream) -> None:
        """Let later operations wait for everything that is on ``other`` now."""
        if not isinstance(other, Stream):
            raise ArgumentTypeError(f"a stream waits for a Stream, not {other!r}")
        self.wait_event(other.record_event())

    def destroy(self, cancel: bool = False) -> None:
        """Drain (or, with ``cancel``, drop what was not dispatched) and end the stream."""
        if self.id == 0:
            raise StreamError("the default stream cannot be destroyed; use Runtime.reset_stream")
        self._not_recorded("destroying a stream")
        if not self.state.destroyed:
            self.scheduler.destroy(self.state, cancel)

    def _not_recorded(self, what: str) -> None:
        recorder = self.state.recorder()
        if recorder is not None:
            recorder.refuse(what)

    def _alive(self) -> None:
        if self.state.destroyed:
            raise StreamDestroyed(f"stream {self.id} was destroyed", device=self.device, stream_id=self.id)


def _event(value: object) -> Event:
    if not isinstance(value, Event):
        raise ArgumentTypeError(f"{value!r} is no Event")
    return value


def _again(error: SpyreError) -> SpyreError:
    """The stored error, fit to be raised once more: without the traceback of the last time."""
    return error.with_traceback(None)


__all__ = ["ErrorCode", "Recorder", "Stream", "StreamState", "StreamStatus"]
