"""The hazard tracker: orders operations of different streams by the bytes that they touch (runtime spec
3.9.3).

For every byte it knows the last operation that wrote it and, per stream, the last that read it since. A new
operation gets an edge from each of those that it conflicts with. Edges point from earlier to later in enqueue
order, so they form no cycle, and what is older follows by transitivity.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spyrert.execution.operations import Access, Operation


@attrs.define
class _Segment:
    """Bytes from ``start`` to the next segment's start."""

    start: int
    writer: Operation | None = None
    readers: dict[int, Operation] = attrs.field(factory=dict)

    def split(self, at: int) -> _Segment:
        return _Segment(at, self.writer, dict(self.readers))


class HazardTracker:
    """Byte-exact dependencies between the operations of tracked streams."""

    def __init__(self) -> None:
        self._regions: dict[int, tuple[list[int], list[_Segment]]] = {}

    def edges(self, operation: Operation, accesses: Iterable[Access]) -> list[Operation]:
        """Record accesses; returns the unfinished operations of other streams that must end before this
        one."""
        found: dict[int, Operation] = {}
        stream = operation.stream
        assert stream is not None
        for access in accesses:
            for piece in access.pieces:
                for segment in self._cut(piece.region_id, piece.offset, piece.offset + piece.size):
                    before = [segment.writer]
                    if access.writes:
                        before += segment.readers.values()
                    for other in before:
                        if other is not None and other.stream is not stream and not other.state.over:
                            found[other.op_id] = other
                    if access.writes:
                        segment.writer = operation
                        segment.readers = {}
                    else:
                        segment.readers[stream.id] = operation
        found.pop(operation.op_id, None)
        return [found[number] for number in sorted(found)]

    def clear(self) -> None:
        """Forget everything; allowed when nothing is in flight."""
        self._regions.clear()

    def _cut(self, region_id: int, start: int, end: int) -> list[_Segment]:
        """The segments that tile a range exactly."""
        starts, segments = self._regions.setdefault(region_id, ([0], [_Segment(0)]))
        for at in (start, end):
            index = bisect_right(starts, at) - 1
            if starts[index] != at:
                starts.insert(index + 1, at)
                segments.insert(index + 1, segments[index].split(at))
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end) - 1
        return segments[first:last]


__all__ = ["HazardTracker"]
