"""Which stages must stay in lock step: they share a memory below the scratchpad or a queue (scheduler
spec 4.6)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from dfsched.architecture import Architecture
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import FifoSlotType, Stage
from ktir.types import MemRefType

__all__ = ["stage_groups"]


def stage_groups(stages: Sequence[Stage], architecture: Architecture) -> tuple[tuple[Stage, ...], ...]:
    """Groups ordered by their first stage, members in program order.

    Groups that would wait for each other in a circle are one group.
    """
    parent = list(range(len(stages)))

    def find(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    def unite(a: int, b: int) -> None:
        low, high = sorted((find(a), find(b)))
        parent[high] = low

    owner: dict[Hashable, int] = {}
    for index, stage in enumerate(stages):
        for resource in _coupling(stage, architecture):
            unite(index, owner.setdefault(resource, index))
    edges = [
        (a, b)
        for a, first in enumerate(stages)
        for b, second in enumerate(stages)
        if not set(first.depends_out).isdisjoint(second.depends_in)
    ]
    while (pair := _circle(edges, find, len(stages))) is not None:
        unite(*pair)
    groups: dict[int, list[Stage]] = {}
    for index, stage in enumerate(stages):
        groups.setdefault(find(index), []).append(stage)
    return tuple(tuple(group) for group in groups.values())


def _coupling(stage: Stage, architecture: Architecture) -> Iterator[Hashable]:
    for op in stage.walk():
        for value in op.operands:
            match value.type:
                case FifoSlotType() as slot:
                    yield slot.ends
                case MemRefType(memory_space=space) if space is not None:
                    kind = kind_of(space)
                    if architecture.is_memory(kind) and architecture.is_below_scratchpad(kind):
                        yield architecture.memory_kind(kind)


def _circle(
    edges: Sequence[tuple[int, int]], find: Callable[[int], int], count: int
) -> tuple[int, int] | None:
    """Two groups on a circle of dependencies, None if there is no circle."""
    after: dict[int, set[int]] = {find(index): set() for index in range(count)}
    for a, b in edges:
        if find(a) != find(b):
            after[find(a)].add(find(b))
    for start in after:
        seen, stack = set[int](), list(after[start])
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            if start in after[current]:
                return start, current
            stack += after[current]
    return None
