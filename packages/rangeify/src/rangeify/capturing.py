"""Taking schedules instead of running them (scheduler spec 13.4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs

from rangeify import storage
from rangeify.executor.execute import execute
from rangeify.schedule_types import Role, Schedule

_active: Final[ContextVar[Capture | None]] = ContextVar("rangeify_capture", default=None)


@attrs.define
class Capture:
    """The schedules that were made while the capture was active, in order; no memory is planned."""

    schedules: list[Schedule] = attrs.field(factory=list)

    def run(self, order: int | None = None) -> None:
        """Execute what was taken; afterwards the Tensors that were realised have their values."""
        for schedule in self.schedules:
            execute_and_keep(schedule, order)


def active_capture() -> Capture | None:
    """The innermost active capture of this context."""
    return _active.get()


@contextmanager
def capture() -> Iterator[Capture]:
    """While the block runs, :func:`rangeify.schedule` and :func:`rangeify.realize` hand what they schedule to
    the capture and do nothing: the caller gets an empty schedule, and realised Tensors have no contents until
    the capture is run."""
    token = _active.set(taken := Capture())
    try:
        yield taken
    finally:
        _active.reset(token)


def execute_and_keep(schedule: Schedule, order: int | None = None) -> None:
    """Execute a schedule of this process, and let its results and written buffers have the new contents."""
    memory = execute(schedule, order=order)
    assert schedule.nodes is not None
    for node, buffer, array in zip(schedule.nodes, schedule.buffers, memory, strict=True):
        if buffer.role in (Role.OUTPUT, Role.INPUT_OUTPUT):
            storage.set_contents(node, array)
