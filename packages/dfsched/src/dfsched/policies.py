"""Policies: rules that turn the facts of a program into a `Plan`.

`heuristic` estimates, per nest, how long a core takes with tiles of some sizes, and takes the fastest that
fits the scratchpad. Tiles are whole in the inner loops, cut in one loop, single iterations outside of it:
so copies stay long runs of memory. The estimate: copies in, computation and copies out of neighbouring
tiles overlap where buffers have two copies; a copy takes its latency and its bytes over the slower of its
link and the core's share of device memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import attrs
from attrs import frozen

from dfsched.architecture import Architecture, kind_text
from dfsched.plan import NestFacts, NestPlan, OperandFacts, Plan, ProgramFacts
from dfsched.tapering import CopyTimes, Part, TileTimes, tapered

__all__ = ["OVERLAPPED", "TICKS", "Estimate", "copies_bytes", "heuristic", "scratchpad_bytes", "tiled_plan"]

OVERLAPPED = 2
"""Copies of a buffer that let neighbouring tiles overlap."""

PARTS = 32
"""Into how many tiles a loop is cut at most when sizes are tried that cut it evenly."""


TICKS = 1024
"""Ticks of a cycle."""


def heuristic(facts: ProgramFacts, architecture: Architecture) -> Plan:
    """The default: the fastest tiles that fit by the estimate, two copies of buffers, all instances."""
    unit = architecture.compute_unit
    nests = tuple(_nest(nest, facts, architecture) for nest in facts.nests)
    return Plan(facts.program, "" if unit is None else kind_text(unit.kind), nests)


def tiled_plan(
    nest: NestFacts,
    sizes: Sequence[int],
    architecture: Architecture,
    depth: int = OVERLAPPED,
    limit: str = "",
) -> NestPlan:
    """The plan with some tile sizes: everything that has a point loop is sunk, one of them is spread."""
    points = [loop for loop, size in enumerate(sizes) if size > 1]
    count = _instances(nest, architecture)
    loop = _instance_loop(nest, sizes, count)
    return NestPlan(
        loop_order=tuple(range(len(nest.trips))),
        tile_sizes=tuple(sizes),
        buffer_depths=(depth,) * len(nest.operands),
        sunk_loops=len(points),
        hoisted=_hoisted(nest),
        instance_loop=loop,
        instances=1 if loop is None else count,
        limit=limit,
    )


def _hoisted(nest: NestFacts) -> tuple[int, ...]:
    """Loads that some loop does not change: they move as far out as that holds."""
    loops = len(nest.trips)
    return tuple(
        number
        for number, operand in enumerate(nest.operands)
        if not operand.is_store and len(operand.dims) < loops
    )


def scratchpad_bytes(
    nest: NestFacts, sizes: Sequence[int], depths: Sequence[int], architecture: Architecture
) -> int:
    """Bytes of scratchpad that the buffers of a nest take: one for every operand that lives elsewhere."""
    total = sum(copies_bytes(nest, sizes, depths, architecture))
    loop = _instance_loop(nest, sizes, _instances(nest, architecture))
    points = 1 if loop is None else sizes[loop]
    return total + nest.scratch_bytes * points


def copies_bytes(
    nest: NestFacts, sizes: Sequence[int], depths: Sequence[int], architecture: Architecture
) -> tuple[int, ...]:
    """Bytes of scratchpad for all copies of each operand's buffer; 0 for an operand that lives there."""
    pad = architecture.scratchpad
    alignment = 1 if pad is None else architecture.access_alignment(pad.kind)
    return tuple(
        -(-_tile_bytes(nest, operand, sizes, architecture) // alignment) * alignment * depth
        if _is_copied(operand, architecture)
        else 0
        for operand, depth in zip(nest.operands, depths, strict=True)
    )


def _nest(nest: NestFacts, facts: ProgramFacts, architecture: Architecture) -> NestPlan:
    depths = (OVERLAPPED,) * len(nest.operands)
    estimate = Estimate.of(nest, facts, architecture)
    ranked = sorted(
        (estimate.cycles(sizes, OVERLAPPED), -math.prod(sizes), sizes) for sizes in _candidates(nest.trips)
    )
    whole = ranked[0][2] == nest.trips
    limit = "the whole nest is one tile" if whole else "more tiles overlap better"
    available = facts.scratchpad_bytes // max(1, nest.live_nests)
    for _, _, sizes in ranked:
        needed = scratchpad_bytes(nest, sizes, depths, architecture)
        if needed <= available:
            plan = tiled_plan(nest, sizes, architecture, OVERLAPPED, limit)
            return _in_parts(plan, nest, estimate, available)
        limit = f"scratchpad: a larger tile takes {needed} of {available} bytes"
    return tiled_plan(nest, (1,) * len(nest.trips), architecture, 1, limit)


def _in_parts(plan: NestPlan, nest: NestFacts, estimate: Estimate, available: int) -> NestPlan:
    """The plan with smaller tiles towards the end, where only the outermost loop is cut and that helps."""
    if nest.live_nests > 1 or nest.scratch_bytes or plan.tile_sizes[1:] != nest.trips[1:]:
        return plan
    multiple = plan.instances if plan.instance_loop == 0 else 1
    if not nest.trips or nest.trips[0] < 3 * multiple or plan.tile_sizes == nest.trips[:1]:
        return plan
    architecture = estimate.architecture

    @functools.cache
    def times(size: int) -> TileTimes:
        return estimate.times((size, *plan.tile_sizes[1:]))

    @functools.cache
    def needed(size: int) -> int:
        return scratchpad_bytes(nest, (size, *plan.tile_sizes[1:]), plan.buffer_depths, architecture)

    def fits(parts: Sequence[Part]) -> bool:
        return sum(needed(part.size) for part in parts) <= available

    tiles = Part(nest.trips[0], plan.tile_sizes[0]).tiles
    parts = tapered(tiles, times, OVERLAPPED, multiple, fits)
    if not parts:
        return plan
    limit = f"{plan.limit}; smaller tiles at the end shorten what nothing overlaps"
    return attrs.evolve(
        plan,
        tile_sizes=(parts[0].size, *plan.tile_sizes[1:]),
        parts=tuple(part.iterations for part in parts),
        part_sizes=tuple(part.size for part in parts),
        limit=limit,
    )


def _candidates(trips: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Tile sizes to try; their number does not grow with the trip counts (those not known count as 1)."""
    trips = tuple(max(1, trip) for trip in trips)
    seen = {(1,) * len(trips)}
    yield (1,) * len(trips)
    for cut in reversed(range(len(trips))):
        trip = trips[cut]
        sizes = {-(-trip // parts) for parts in range(1, PARTS + 1)}
        sizes |= {1 << power for power in range(trip.bit_length())}
        for size in sorted(sizes):
            found = (*([1] * cut), size, *trips[cut + 1 :])
            if found not in seen and size >= 1:
                seen.add(found)
                yield found


def _instances(nest: NestFacts, architecture: Architecture) -> int:
    """Equal pieces of hardware that hold the compute unit and what feeds it."""
    unit = architecture.compute_unit
    if unit is None or unit.kind is None:
        return 1
    found = architecture.instances_for([unit.kind])
    return 1 if found is None else found.count


def _instance_loop(nest: NestFacts, sizes: Sequence[int], count: int) -> int | None:
    """The point loop to spread: the most even one, the outermost of equals; None if none has enough trips."""
    fitting = [loop for loop, size in enumerate(sizes) if size >= count]
    if count < 2 or not fitting:
        return None
    return min(fitting, key=lambda loop: (_share(sizes[loop], count), loop))


def _share(size: int, count: int) -> Fraction:
    """The part of a loop that the busiest instance runs."""
    return Fraction(-(-size // count), max(1, size))


def _is_copied(operand: OperandFacts, architecture: Architecture) -> bool:
    return not architecture.is_per_core_scratchpad(operand.memory)


def _tile_bytes(
    nest: NestFacts, operand: OperandFacts, sizes: Sequence[int], architecture: Architecture
) -> int:
    """Bytes of an operand in one tile; a single element is fetched with the vector behind it."""
    box = operand.box_bytes
    elements = math.prod(operand.box)
    if elements == 1:
        box *= max(1, architecture.lanes(operand.element))
    return box * math.prod(sizes[loop] for loop in operand.dims)


@frozen
class Estimate:
    """Rates of one core, cycles."""

    nest: NestFacts
    architecture: Architecture
    instances: int
    latency: int
    link: Fraction
    share: Fraction

    @classmethod
    def of(cls, nest: NestFacts, facts: ProgramFacts, architecture: Architecture) -> Estimate:
        memory = architecture.device_memory
        tiles = max(1, math.prod(facts.grid))
        if memory is None:
            return cls(nest, architecture, 1, 0, Fraction(1), Fraction(1))
        links = [*architecture.links_from(memory), *architecture.links_to(memory)]
        rates = [link.bandwidth for link in links if link.bandwidth is not None]
        link = min(rates, default=Fraction(128))
        latency = architecture.timing.memory_latency if memory.latency is None else memory.latency
        total = memory.bandwidth
        share = link if total is None else Fraction(total) / tiles
        instances = _instances(nest, architecture)
        return cls(nest, architecture, instances, math.ceil(latency), link, share)

    def cycles(self, sizes: Sequence[int], depth: int) -> Fraction:
        """Cycles that a core takes with some tile sizes."""
        loads, stores = self._copies(sizes, False), self._copies(sizes, True)
        moved = sum(size for size in (*loads, *stores))
        read = sum((self.latency + size / self.link for size in loads), Fraction(0))
        written = sum((self.latency + size / self.link for size in stores), Fraction(0))
        shared = moved / self.share
        compute = self._compute(sizes)
        tiles = math.prod(-(-trip // size) for trip, size in zip(self.nest.trips, sizes, strict=True))
        one = max(read + written, shared) + compute
        if depth < OVERLAPPED:
            return tiles * one
        return one + (tiles - 1) * max(read, written, shared, compute)

    def times(self, sizes: Sequence[int]) -> TileTimes:
        """What the parts of the work on one tile take, in ticks."""
        loads, stores = (
            tuple(self._copy(size) for size in self._copies(sizes, is_store)) for is_store in (False, True)
        )
        return TileTimes(loads, math.ceil(self._compute(sizes) * TICKS), stores)

    def _copy(self, size: int) -> CopyTimes:
        link, port = (math.ceil(size / rate * TICKS) for rate in (self.link, self.share))
        return CopyTimes(self.latency * TICKS, link, port)

    def _vectors(self, operand: OperandFacts) -> int:
        """Vectors of an operand in one iteration."""
        lanes = max(1, self.architecture.lanes(operand.element))
        return -(-math.prod(operand.box) // lanes)

    def _copies(self, sizes: Sequence[int], stores: bool) -> list[int]:
        return [
            _tile_bytes(self.nest, operand, sizes, self.architecture)
            for operand in self.nest.operands
            if operand.is_store is stores and _is_copied(operand, self.architecture)
        ]

    def _compute(self, sizes: Sequence[int]) -> Fraction:
        """Cycles of the slowest of the units that work on vectors."""
        loads = sum(self._vectors(operand) for operand in self.nest.operands if not operand.is_store)
        stores = sum(self._vectors(operand) for operand in self.nest.operands if operand.is_store)
        vector = max(2 * loads, loads + self.nest.operations + stores, 2 * stores)
        loop = _instance_loop(self.nest, sizes, self.instances)
        part = Fraction(1) if loop is None else _share(sizes[loop], self.instances)
        return math.prod(sizes) * vector * part
