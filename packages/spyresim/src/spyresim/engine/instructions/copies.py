"""Asynchronous copies: issue, execution, and the time that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine.access import base_index
from spyresim.engine.activity import BANDWIDTH, MOVING
from spyresim.engine.instructions.ports import served, service_time
from spyresim.engine.races import join
from spyresim.engine.state import Blocked, Cohort, Copy, Gang, Mark
from spyresim.engine.values import TICKS_PER_CYCLE, Ticks
from spyresim.errors import ControlFault

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


def dma(x: Executor, cohort: Cohort, gang: Gang, i: im.Dma) -> bool:
    if not gang.copy_room:
        gang.blocked = Blocked("copy queue full", f"{len(gang.copies)} outstanding", gang.index)
        return False
    site = x.site(gang)
    source, target = x.view(gang, i.source), x.view(gang, i.target)
    sides = x.context.image.generators[i.generator].sides
    bases = (
        base_index(sides[0], gang.scalars, site),
        base_index(sides[1], gang.scalars, site),
    )
    room = gang.copy_room.popleft()
    join(gang.clock, room.clock)
    start = np.maximum(gang.time, room.time)
    x.spend(gang, start, TICKS_PER_CYCLE, "copy queue full", "issue copy")
    gang.copies.append(Copy(i, source, target, bases, gang.time, gang.pc, x.tick(gang), gang.iteration))
    gang.copies_issued += 1
    gang.pc += 1
    return True


def perform_copy(x: Executor, cohort: Cohort, gang: Gang) -> None:
    """Do the oldest outstanding copy of a gang."""
    copy = gang.copies[0]
    site = x.site_at(gang, copy.index)
    generator = copy.instruction.generator
    source = x.context.patterns.get(generator, 0, copy.source.view)
    target = x.context.patterns.get(generator, 1, copy.target.view)
    if source.footprint.step != target.footprint.step or len(source.footprint) != len(target.footprint):
        raise ControlFault(
            f"copy of {len(source.footprint)} elements of {source.footprint.step} bytes to "
            f"{len(target.footprint)} of {target.footprint.step}",
            site=site,
        )
    accesses = x.transfer(cohort, gang, copy, source, target, site)
    start = np.maximum(copy.issued, gang.copy_end)
    moves, end = copy_times(x, gang, copy, start, source.lanes * source.footprint.step, source.steps)
    gang.copies.popleft()
    gang.copy_room.append(Mark(end, gang.copy_clock.copy()))
    gang.copy_end = end
    gang.copies_done += 1
    gang.moving = gang.moving + (end - moves)
    assert gang.activity is not None
    if moves is not start:
        gang.activity.copy(BANDWIDTH, start, moves)
    gang.activity.copy(MOVING, moves, end)
    if x.context.trace is not None:
        x.record(gang, "wait for bandwidth", "copies", start, moves)
        x.record(gang, "copy", "copies", moves, end, source.footprint.size)
        for view, base, footprint, writing in accesses or ():
            x.record_access(gang, view, base, footprint, writing, start, end)


def copy_times(
    x: Executor, gang: Gang, copy: Copy, start: Ticks, step_bytes: int, steps: int
) -> tuple[Ticks, Ticks]:
    """When a copy begins to move, and when it ends: it may wait for its share of the port until it moves
    as fast as its slowest link; the latency of device memory comes once."""
    costs = x.context.costs
    latency = 0
    link = 0
    served_at: Ticks | None = None
    for view, writing in ((copy.source, False), (copy.target, True)):
        place = x.place_of(gang, view)
        memory = place.memory
        if memory.memory_class is im.MemoryClass.REGISTER:
            continue
        link = max(link, costs.link_time(gang.kind, memory.kind, step_bytes, writing) * steps)
        if memory.memory_class is im.MemoryClass.GLOBAL:
            latency += costs.memory_latency(memory.kind)
        service = service_time(x, place, costs.beats(gang.kind, memory.kind, step_bytes, writing) * steps)
        if service:
            link = max(link, service)
            done = served(x, place, start, service)
            served_at = done if served_at is None else np.maximum(served_at, done)
    gang.link += link
    if served_at is None:
        return start, start + (link + latency)
    moves = np.maximum(start, served_at - link)
    return moves, moves + (link + latency)


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.Dma: dma,
}
