"""Tiles one after another instead of together: a thread each, of which one runs at a time (ktir spec 5.3).

A tile gives its turn away when it waits for what another one has to publish (and, at random, between
operations).
"""

from __future__ import annotations

import enum
import random
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs

from ktir.ir import Operation
from spyresim.errors import DeadlockFault, Site

__all__ = ["Schedule", "Turns"]

T = TypeVar("T")


class Schedule(enum.StrEnum):
    """How the compute tiles of a kernel advance; programs without races give the same under all."""

    LOCKSTEP = "lockstep"
    """All tiles together, an operation at a time, in one batch."""
    SEQUENTIAL = "sequential"
    """One tile to its end, or until it has to wait for another; then the one with the lowest number."""
    RANDOM = "random"
    """An operation of a tile drawn at random."""


class _Abandoned(BaseException):
    """Ends the thread of a tile whose run is over."""


@attrs.define(eq=False)
class _Strand:
    """One tile: its thread, and what it waits for (`waiting` names that)."""

    thread: threading.Thread | None = None
    resume: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    ready: Callable[[], bool] | None = None
    waiting: Callable[[], Sequence[str]] = tuple
    site: Site = attrs.field(factory=Site)
    done: bool = False
    error: BaseException | None = None


class Turns(Generic[T]):
    """Runs functions, one for each tile, one at a time; and keeps what they publish, by dynamic instance."""

    def __init__(self, schedule: Schedule, seed: int = 0) -> None:
        self._random = random.Random(seed) if schedule is Schedule.RANDOM else None
        self._strands: list[_Strand] = []
        self._current = _Strand()
        self._back = threading.Semaphore(0)
        self._abandoned = False
        self._instances: dict[tuple[Operation, int], int] = {}
        self._published: dict[tuple[Operation, int], dict[int, T]] = {}

    def instance(self, op: Operation, tile: int) -> dict[int, T]:
        """What all tiles publish, by tile, in that dynamic instance of `op` which `tile` executes next."""
        number = self._instances.get((op, tile), 0)
        self._instances[op, tile] = number + 1
        return self._published.setdefault((op, number), {})

    def run(self, bodies: Sequence[Callable[[], None]]) -> None:
        """Run everything to its end.

        Raises the first exception of a tile, or `DeadlockFault` if all that are left wait.
        """
        self._strands = [_Strand() for _ in bodies]
        for strand, body in zip(self._strands, bodies, strict=True):
            strand.thread = threading.Thread(target=self._follow, args=(strand, body), daemon=True)
        try:
            while True:
                left = [s for s in self._strands if not s.done]
                if not left:
                    return
                able = [s for s in left if s.ready is None or s.ready()]
                if not able:
                    raise self._deadlock(left)
                self._turn(self._choose(able))
        finally:
            self._abandon()

    def _choose(self, able: Sequence[_Strand]) -> _Strand:
        if self._random is not None:
            return self._random.choice(able)
        return self._current if self._current in able else able[0]

    def _turn(self, strand: _Strand) -> None:
        self._current = strand
        assert strand.thread is not None
        if strand.thread.ident is None:
            strand.thread.start()
        strand.resume.release()
        self._back.acquire()
        if strand.error is not None:
            raise strand.error

    def _follow(self, strand: _Strand, body: Callable[[], None]) -> None:
        strand.resume.acquire()
        try:
            if not self._abandoned:
                body()
        except _Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001  # raised again by the thread that waits
            strand.error = error
        finally:
            strand.done = True
            self._back.release()

    def _deadlock(self, left: Sequence[_Strand]) -> DeadlockFault:
        waiting = tuple(reason for strand in left for reason in strand.waiting())
        return DeadlockFault(
            f"deadlock: {waiting[0]}, which has not produced here", site=left[0].site, waiting=waiting
        )

    def _abandon(self) -> None:
        self._abandoned = True
        for strand in self._strands:
            if not strand.done and strand.thread is not None and strand.thread.ident is not None:
                strand.resume.release()
                if strand is not self._current or strand.ready is not None:
                    strand.thread.join()

    # -- for the tile whose turn it is

    def wait(self, ready: Callable[[], bool], waiting: Callable[[], Sequence[str]], site: Site) -> None:
        """Go on when `ready`; `waiting` says for what, one sentence each."""
        if ready():
            return
        strand = self._current
        strand.ready, strand.waiting, strand.site = ready, waiting, site
        self._give_away(strand)
        strand.ready = None

    def pause(self) -> None:
        """Let another tile go first, perhaps."""
        if self._random is not None:
            self._give_away(self._current)

    def _give_away(self, strand: _Strand) -> None:
        self._back.release()
        strand.resume.acquire()
        if self._abandoned:
            raise _Abandoned
