"""A two-level segregated fit allocator over a range of addresses (scheduler spec 15.1).

Free blocks are kept in lists by size class: the bit length of the size (first level) and a linear
subdivision of that octave (second level), so that a block that surely fits is found without search.
"""

from __future__ import annotations

import attrs


@attrs.define
class _Block:
    size: int
    next: int | None
    prev: int | None
    free: bool


class TLSF:
    """Allocates ``[base, base + size)`` in blocks of at least `block` bytes, `lists` classes an octave."""

    def __init__(self, size: int, base: int = 0, block: int = 16, lists: int = 16) -> None:
        self.size = size
        self.base = base
        self.block = block
        self._lists = lists
        self._bits = lists.bit_length()
        # (first, second) level -> start addresses; a dict serves as an ordered set
        self._free: dict[tuple[int, int], dict[int, None]] = {}
        self._blocks: dict[int, _Block] = {}
        if size > 0:
            self._blocks[0] = _Block(size, None, None, False)
            self._insert(0)

    def _first(self, size: int) -> int:
        return size.bit_length()

    def _second(self, size: int) -> int:
        octave = size.bit_length() - 1
        return int((size - (1 << octave)) >> max(0, octave + 1 - self._bits))

    def _insert(self, start: int) -> None:
        block = self._blocks[start]
        block.free = True
        self._free.setdefault((self._first(block.size), self._second(block.size)), {})[start] = None

    def _remove(self, start: int) -> None:
        block = self._blocks[start]
        block.free = False
        del self._free[self._first(block.size), self._second(block.size)][start]

    def _split(self, start: int, size: int) -> None:
        """Cut the free block at `start` into `size` bytes and a free rest."""
        block = self._blocks[start]
        if block.size == size:
            return
        self._remove(start)
        rest = start + size
        self._blocks[rest] = _Block(block.size - size, block.next, start, False)
        if block.next is not None:
            self._blocks[block.next].prev = rest
        block.size, block.next = size, rest
        self._insert(start)
        self._insert(rest)

    def _absorb_next(self, start: int) -> None:
        """Join the free block at `start` with its free right neighbour."""
        block = self._blocks[start]
        assert block.next is not None
        self._remove(start)
        self._remove(block.next)
        right = self._blocks.pop(block.next)
        block.size += right.size
        block.next = right.next
        if right.next is not None:
            self._blocks[right.next].prev = start
        self._insert(start)

    def alloc(self, size: int, align: int = 1) -> int:
        """The address of a fresh block of at least `size` bytes, a multiple of `align`, or MemoryError."""
        size = max(self.block, size)
        wanted = size + align - 1
        granule = 1 << max(0, wanted.bit_length() - self._bits)
        wanted = -(-wanted // granule) * granule
        first, second = self._first(wanted), self._second(wanted)
        for level in range(first, self.size.bit_length() + 1):
            for part in range(second if level == first else 0, self._lists + 1):
                starts = self._free.get((level, part))
                if not starts:
                    continue
                start = next(iter(starts))
                aligned = -(-(start + self.base) // align) * align - self.base
                if aligned != start:
                    self._split(start, aligned - start)
                self._split(aligned, size)
                self._remove(aligned)
                return aligned + self.base
        raise MemoryError(f"cannot allocate {size} bytes")

    def free(self, address: int) -> None:
        """Give back the block at `address`, joining free neighbours; KeyError for an unknown one."""
        start = address - self.base
        if self._blocks[start].free:
            raise KeyError(f"the block at {address} is free already")
        self._insert(start)
        left = self._blocks[start].prev
        while left is not None and self._blocks[left].free:
            start = left
            left = self._blocks[start].prev
        while (right := self._blocks[start].next) is not None and self._blocks[right].free:
            self._absorb_next(start)

    def check(self) -> None:
        """Assert that blocks tile the range, the lists hold the free ones, and no two free ones touch."""
        position, previous = 0, None
        while position < self.size:
            block = self._blocks[position]
            assert block.prev == previous
            listed = position in self._free.get((self._first(block.size), self._second(block.size)), {})
            assert listed == block.free
            if previous is not None:
                assert not (block.free and self._blocks[previous].free)
            previous, position = position, position + block.size
        assert position == self.size
        assert sum(len(starts) for starts in self._free.values()) == sum(
            b.free for b in self._blocks.values()
        )
