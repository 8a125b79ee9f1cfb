"""Events: points in a stream that others may wait for (runtime spec 3.9).

An :class:`EventGeneration` is used once: signalled or poisoned, never reset. The user's :class:`Event` starts
a new generation whenever it is recorded; a wait captures the generation that is current at that time, so that
user-level events can never form a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spyrert.errors import ArgumentTypeError, EventError, EventPoisoned, GraphError, SpyreError
from spyrert.execution.operations import Signal, Wait

if TYPE_CHECKING:
    from spyrert.execution.scheduler import Scheduler
    from spyrert.execution.streams import Recorder, Stream


class EventGeneration:
    """A single-use event. ``time`` is the virtual time (ns) of its signal.

    ``scheduler`` is the one whose stream signals it; an ``external`` event is signalled by a thread, so that
    nobody who waits for it can be said to be in a deadlock. A ``recorded`` one stands in a graph and is never
    signalled itself.
    """

    def __init__(
        self, scheduler: Scheduler | None = None, timing: bool = True, external: bool = False
    ) -> None:
        self.scheduler = scheduler
        self.external = external
        self.timing = timing
        self.signaled = False
        self.error: SpyreError | None = None
        self.time: int | None = None
        self.waiters: list[Scheduler] = []
        self.recorded = False

    @property
    def over(self) -> bool:
        return self.signaled or self.error is not None

    def foreign_to(self, scheduler: object) -> bool:
        """Whether something else than the streams of this scheduler signals it."""
        return self.external or self.scheduler not in (None, scheduler)

    def signal(self, time: int | None = None) -> None:
        """Mark as reached; ignored if the event is over."""
        if not self.over:
            self.signaled = True
            self.time = time

    def poison(self, error: SpyreError) -> None:
        """Mark as never to be reached; the first error counts."""
        if not self.over:
            self.error = error

    def poisoned(self) -> EventPoisoned:
        """The error that waiting for this event raises."""
        error = EventPoisoned(f"the event was poisoned: {self.error}")
        error.__cause__ = self.error
        return error


class Event:
    """A point in a stream, re-recordable.

    Args:
        enable_timing: whether :meth:`elapsed_time` may be asked.
        current_stream: gives the stream of calls that name none.
    """

    def __init__(
        self, enable_timing: bool = False, current_stream: Callable[[], Stream] | None = None
    ) -> None:
        self.enable_timing = enable_timing
        self._current_stream = current_stream
        self._generation: EventGeneration | None = None
        self._recorder: Recorder | None = None

    def _target(self, stream: Stream | None) -> Stream:
        from spyrert.execution.streams import Stream as Handle

        if stream is None and self._current_stream is not None:
            return self._current_stream()
        if not isinstance(stream, Handle):
            raise ArgumentTypeError(f"an event is recorded and waited for on a Stream, not {stream!r}")
        return stream

    def record(self, stream: Stream | None = None) -> None:
        """Bind the event to this point of the stream; waits that are pending keep what they wait for."""
        stream = self._target(stream)
        scheduler = stream.scheduler
        generation = EventGeneration(scheduler, self.enable_timing)
        recorder = stream.state.recorder()
        if recorder is not None:
            generation.recorded = True
            self._recorder = recorder
            recorder.signal(stream.state, generation)
        else:
            self._recorder = None
            scheduler.submit([(stream.state, Signal("event", event=generation))])
        self._generation = generation

    def wait(self, stream: Stream | None = None) -> None:
        """Let the stream wait for the generation that is current now; never recorded: nothing to wait for."""
        stream = self._target(stream)
        generation = self._generation
        if generation is None:
            return
        recorder = stream.state.recorder() or self._recorder
        if generation.recorded or recorder is not None:
            if recorder is None or not recorder.mine():
                raise GraphError("the event belongs to a recorded graph; only its replays reach it")
            recorder.wait(stream.state, generation)
            return
        stream.scheduler.submit([(stream.state, Wait("event", event=generation))])

    def _live(self) -> EventGeneration | None:
        """The current generation, unless it stands in a graph."""
        if self._recorder is not None:
            if self._recorder.mine() and self._recorder.going():
                self._recorder.refuse("asking for an event")
            raise GraphError("the event belongs to a recorded graph; only its replays reach it")
        return self._generation

    def query(self) -> bool:
        """Whether the recorded point was reached; ``True`` if never recorded, raises ``EventPoisoned``."""
        generation = self._live()
        if generation is None:
            return True
        if generation.error is not None:
            raise generation.poisoned()
        return generation.signaled

    def synchronize(self, timeout: float | None = None) -> None:
        """Block until the recorded point is reached. Raises ``EventPoisoned``, ``SynchronizeTimeout``."""
        generation = self._live()
        if generation is None:
            return
        assert generation.scheduler is not None
        generation.scheduler.wait_for(lambda: generation.over, timeout, "event")
        if generation.error is not None:
            raise generation.poisoned()

    def elapsed_time(self, end: Event) -> float:
        """Virtual milliseconds from this event to ``end``; both timed, reached, and of one device."""
        if not isinstance(end, Event):
            raise ArgumentTypeError(f"elapsed_time takes an Event, not {end!r}")
        first, last = self._generation, end._generation
        if not (self.enable_timing and end.enable_timing):
            raise EventError("elapsed_time needs events with enable_timing=True")
        if first is None or last is None or first.time is None or last.time is None:
            raise EventError("elapsed_time needs two events that were reached")
        if first.scheduler is not last.scheduler:
            raise EventError("elapsed_time needs events of one device")
        return (last.time - first.time) / 1e6
