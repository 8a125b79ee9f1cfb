"""One region of device memory and its free list (runtime spec 3.3.4)."""

from __future__ import annotations

from bisect import bisect_left, insort

from spyrert.constants import align_up
from spyrert.device.protocol import MemoryType


class MemoryRegion:
    """A region with best-fit placement: the smallest free block that fits, ties to the lowest offset.

    All sizes and offsets are multiples of 128 bytes.
    """

    def __init__(
        self, region_id: int, domain_id: int, segment: int, size: int, memory_type: MemoryType
    ) -> None:
        self.region_id = region_id
        self.domain_id = domain_id
        self.segment = segment
        self.size = size
        self.memory_type = memory_type
        self.free = size
        self._by_size: list[tuple[int, int]] = [(size, 0)]
        self._size_at: dict[int, int] = {0: size}
        self._start_of_end: dict[int, int] = {size: 0}

    @property
    def largest_free(self) -> int:
        return self._by_size[-1][0] if self._by_size else 0

    @property
    def free_blocks(self) -> tuple[tuple[int, int], ...]:
        """(offset, size) of the free blocks, by offset."""
        return tuple(sorted(self._size_at.items()))

    def take(self, size: int, alignment: int) -> int | None:
        """Offset of a new block of ``size`` bytes on a multiple of ``alignment``; ``None`` if none fits."""
        for index in range(bisect_left(self._by_size, (size, -1)), len(self._by_size)):
            block, start = self._by_size[index]
            offset = align_up(start, alignment)
            if offset + size > start + block:
                continue
            self._remove(start, block)
            if offset > start:
                self._insert(start, offset - start)
            if offset + size < start + block:
                self._insert(offset + size, start + block - offset - size)
            self.free -= size
            return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Return a block; it merges with its free neighbours."""
        self.free += size
        left = self._start_of_end.get(offset)
        if left is not None:
            block = self._size_at[left]
            self._remove(left, block)
            offset, size = left, size + block
        right = self._size_at.get(offset + size)
        if right is not None:
            self._remove(offset + size, right)
            size += right
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        insort(self._by_size, (size, offset))
        self._size_at[offset] = size
        self._start_of_end[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, offset))]
        del self._size_at[offset]
        del self._start_of_end[offset + size]
