"""The arena of a schedule: the temporaries of its items, placed by lanes (scheduler spec 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rangeify.config import Config
from rangeify.memory import Lifetime, held_longer, lifetimes, place
from rangeify.schedule_types import Arena, Buffer, Copy, Item, Lane, Role

_TEMPORARY: Final = Role.TEMPORARY  # reading a member of an Enum is slow


def plan_arena(items: Sequence[Item], buffers: Sequence[Buffer], config: Config) -> Arena:
    """Place the temporaries of the item list, a lane for each device and each of copies and kernels."""
    if not config.memory_planner:
        return Arena()
    copied = {b for item in items if isinstance(item, Copy) for b in item.touched}
    sizes = {i: b.nbytes for i, b in enumerate(buffers) if b.role is _TEMPORARY}
    by_lane: dict[tuple[str, bool], list[Lifetime[int]]] = {}
    for live in lifetimes((item.touched for item in items), sizes):
        by_lane.setdefault((buffers[live.key].device, live.key in copied), []).append(live)
    offsets: dict[int, int] = {}
    lanes: list[Lane] = []
    start = 0
    for (device, copies), lives in by_lane.items():
        own = [held_longer(v) for v in lives] if copies else lives
        placement = place(own, config.arena_alignment)
        offsets.update({i: start + offset for i, offset in placement.offsets.items()})
        lanes.append(Lane(device, copies, start, placement.nbytes))
        start += placement.nbytes
    return Arena(start, config.arena_alignment, offsets, tuple(lanes))
