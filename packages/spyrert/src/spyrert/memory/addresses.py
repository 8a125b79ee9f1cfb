"""Places in device memory (runtime spec 3.2).

A :class:`LogicalAddress` names a place by region and offset, a :class:`CompositeAddress` a byte range that
may lie in several regions, and a *DMVA* is the 64-bit number by which a program addresses memory: segment and
offset.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from spyrert.constants import DYN_SEGMENT, PROG_SEGMENT, SEGMENT_SHIFT, SEGMENT_SIZE
from spyrert.device.protocol import MemoryType, Piece


def dmva(segment: int, offset: int) -> int:
    """Virtual device address of a byte of a segment."""
    return (segment << SEGMENT_SHIFT) | offset


def decode(address: int) -> tuple[int, int, MemoryType]:
    """Segment, byte offset in it, and what the segment holds.

    >>> decode(0x1C00000080)
    (7, 128, <MemoryType.PROGRAM_STATIC: 'program_static'>)
    """
    segment, offset = address >> SEGMENT_SHIFT, address & (SEGMENT_SIZE - 1)
    if not 0 <= segment <= PROG_SEGMENT:
        raise ValueError(f"{address:#x} is no virtual device address")
    kind = {PROG_SEGMENT: MemoryType.PROGRAM_STATIC, DYN_SEGMENT: MemoryType.PROGRAM_DYNAMIC}
    return segment, offset, kind.get(segment, MemoryType.TENSOR)


@attrs.frozen
class LogicalAddress:
    """A place: byte ``offset`` of a region. Never a size."""

    region_id: int
    offset: int


@attrs.frozen
class Chunk:
    """``size`` bytes at one place."""

    addr: LogicalAddress
    size: int
    domain_id: int = 0

    @property
    def end(self) -> int:
        return self.addr.offset + self.size


@attrs.frozen
class CompositeAddress:
    """An ordered list of chunks that together are one logical byte range.

    Ordinary allocations have one chunk, interleaved ones one per memory domain. ``is_owner`` tells the
    address that the allocator returned from the views made of it.
    """

    chunks: tuple[Chunk, ...] = ()
    is_owner: bool = attrs.field(default=False, eq=False)

    @property
    def total_size(self) -> int:
        return sum(chunk.size for chunk in self.chunks)

    @property
    def token(self) -> int:
        """Opaque number that names the range: 0 for an empty one."""
        if not self.chunks:
            return 0
        first = self.chunks[0].addr
        return (first.region_id << SEGMENT_SHIFT) + first.offset + 1

    def locate(self, offset: int) -> tuple[int, int]:
        """Number of the chunk that holds byte ``offset``, and the offset in it."""
        rest = offset
        for index, chunk in enumerate(self.chunks):
            if rest < chunk.size:
                return index, rest
            rest -= chunk.size
        raise ValueError(f"offset {offset} is not in a range of {self.total_size} bytes")

    def slice(self, offset: int, size: int) -> CompositeAddress:
        """A view of ``size`` bytes from ``offset`` on; it may span chunks and owns nothing."""
        if offset < 0 or size < 0 or offset + size > self.total_size:
            raise ValueError(f"slice {offset}+{size} is not in a range of {self.total_size} bytes")
        return CompositeAddress(tuple(self._cut(offset, size)))

    def shift(self, offset: int) -> CompositeAddress:
        """Everything from ``offset`` on."""
        return self.slice(offset, self.total_size - offset)

    def _cut(self, offset: int, size: int) -> Iterator[Chunk]:
        for chunk in self.chunks:
            if size == 0:
                return
            if offset >= chunk.size:
                offset -= chunk.size
                continue
            count = min(size, chunk.size - offset)
            yield Chunk(
                LogicalAddress(chunk.addr.region_id, chunk.addr.offset + offset), count, chunk.domain_id
            )
            offset, size = 0, size - count

    def pieces(self) -> tuple[Piece, ...]:
        """The range as a device understands it."""
        return tuple(Piece(c.addr.region_id, c.addr.offset, c.size) for c in self.chunks)


EMPTY = CompositeAddress((), True)
"""The address of nothing."""
