"""Durations in ticks of 1/1024 cycle, from the device description (device spec 5.2, 5.3; readings 19).

Bandwidths are bytes per cycle.  Global memory has one port that all cores share in both directions; every
scratchpad has one port per corelet that uses it; a copy is as fast as the slowest link on its way.
"""

from __future__ import annotations

import math
from fractions import Fraction

import attrs

from dfsched.architecture import Architecture, Datapath
from dfsched.image import ElementType
from spyresim.engine.values import TICKS_PER_CYCLE, ktir_type

TRANSCENDENTAL_FACTOR = 4
"""How many times longer than an addition a transcendental function or a division takes."""

_SLOW = frozenset(["arith.divf", "arith.remf", "math.exp"])


def is_slow(function: str) -> bool:
    """Whether an opaque function counts as transcendental."""
    if function in _SLOW or function.startswith("spyreop."):
        return True
    plain = ("math.absf", "math.absi", "math.floor", "math.ceil", "math.copysign", "math.fma", "math.trunc")
    return function.startswith("math.") and function not in plain


def ticks(cycles: Fraction | int) -> int:
    """Cycles in ticks, rounded up."""
    return math.ceil(cycles * TICKS_PER_CYCLE)


@attrs.define(eq=False)
class CostModel:
    """Answers how long things take on one architecture; answers are cached."""

    architecture: Architecture
    _cache: dict[object, int] = attrs.Factory(dict)

    # -- latencies

    @property
    def signal_latency(self) -> int:
        """From a signal's sending to its visibility."""
        return ticks(self.architecture.timing.sync_latency)

    @property
    def queue_latency(self) -> int:
        """From a send to the item's visibility."""
        return ticks(self.architecture.timing.fifo_latency)

    def memory_latency(self, kind: str) -> int:
        """From the first request of a copy to its first byte; only device memory has one."""
        memory = self.architecture.memory(kind)
        if memory.latency is not None:
            return ticks(memory.latency)
        return ticks(self.architecture.timing.memory_latency) if self.architecture.is_global(kind) else 0

    # -- compute

    def lanes_per_cycle(self, unit: str, element: ElementType) -> int:
        """Elements that one unit computes in a cycle; 1 where the description names no width."""
        type = ktir_type(element)
        return (self.architecture.lanes(type, unit) if type is not None else 0) or 1

    def compute(self, unit: str, element: ElementType, lanes: int, slow: bool = False) -> int:
        """A lane-wise operation on `lanes` elements."""
        key = ("compute", unit, element, lanes, slow)
        known = self._cache.get(key)
        if known is None:
            cycles = -(-lanes // self.lanes_per_cycle(unit, element))
            factor = TRANSCENDENTAL_FACTOR if slow else 1
            known = self._cache[key] = TICKS_PER_CYCLE * max(1, cycles) * factor
        return known

    def shuffle(self, unit: str, element: ElementType, lanes: int) -> int:
        """Moving lanes: one cycle in a unit that can splat, as long as an addition elsewhere.

        A load unit has no lanes that compute; what it splats, it does to vectors in passing.
        """
        simd = self.architecture.unit(unit).features.simd
        if simd is not None and simd.splat:
            return TICKS_PER_CYCLE
        return self.compute(unit, element, lanes)

    # -- memory

    def beats(self, unit: str, memory: str, size: int, writing: bool) -> int:
        """Bytes that really travel for one step of `size` bytes: padded to whole beats."""
        link = self._link(unit, memory, writing)
        if link is None or not link.granularity:
            return size
        fitting = [beat for beat in link.granularity if size % beat == 0]
        beat = max(fitting) if fitting else min(link.granularity)
        return -(-size // beat) * beat

    def _link(self, unit: str, memory: str, writing: bool) -> Datapath | None:
        a, b = (unit, memory) if writing else (memory, unit)
        links = self.architecture.links_between(a, b)
        return links[0] if links else None

    def link_time(self, unit: str, memory: str, size: int, writing: bool) -> int:
        """Time on the link between a unit and a memory, at least one cycle."""
        key = ("link", unit, memory, size, writing)
        if key not in self._cache:
            moved = self.beats(unit, memory, size, writing)
            a, b = (unit, memory) if writing else (memory, unit)
            bandwidth = self.architecture.bandwidth(a, b)
            cycles = Fraction(1) if bandwidth is None else Fraction(moved) / bandwidth
            self._cache[key] = ticks(max(Fraction(1), cycles))
        return self._cache[key]

    def port_time(self, memory: str, size: int) -> int:
        """Time on a memory's port; 0 if the description gives no bandwidth for it."""
        key = ("port", memory, size)
        if key not in self._cache:
            bandwidth = self.architecture.memory(memory).bandwidth
            self._cache[key] = 0 if bandwidth is None else ticks(Fraction(size) / bandwidth)
        return self._cache[key]

    def global_bandwidth(self, memory: str) -> Fraction | None:
        """Bytes per cycle of a memory, None if the description does not limit it."""
        return self.architecture.memory(memory).bandwidth
