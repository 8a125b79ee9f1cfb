"""Sparse memory of a device: regions made of pages that exist once they are touched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np

from spyrert.constants import NUM_SEGMENTS, SEGMENT_SHIFT, SEGMENT_SIZE, STICK_BYTES
from spyrert.device.protocol import MemoryType, Nest, Piece, RegionInfo, SegmentEntry
from spyrert.errors import PageFault

PAGE_BYTES: Final = 64 * 1024
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


class Region:
    """``info.size`` bytes, page by page. Never-written bytes read as the fill byte."""

    def __init__(self, info: RegionInfo, fill_byte: int) -> None:
        self.info = info
        self._fill = fill_byte
        self._pages: dict[int, Bytes] = {}
        self._written: dict[int, Flags] = {}

    @property
    def pages_touched(self) -> int:
        return len(self._pages)

    def read(self, offset: int, size: int, blank: int | None = None) -> Bytes:
        """A copy of ``size`` bytes; sticks that were never written read as ``blank`` if that is given."""
        out = np.full(size, self._fill if blank is None else blank, np.uint8)
        for page, start, stop, at in self.split(offset, size):
            held = self._pages.get(page)
            if held is None:
                continue
            part = held[start:stop]
            if blank is not None:
                written = np.repeat(self._written[page], STICK_BYTES)[start:stop]
                part = np.where(written, part, np.uint8(blank))
            out[at : at + stop - start] = part
        return out

    def write(self, offset: int, data: Bytes) -> None:
        """Store bytes. The rest of a partly written, never-written stick becomes zero."""
        for page, start, stop, at in self.split(offset, len(data)):
            held = self._pages.get(page)
            if held is None:
                held = self._pages[page] = np.full(PAGE_BYTES, self._fill, np.uint8)
                self._written[page] = np.zeros(PAGE_BYTES // STICK_BYTES, np.bool_)
            written = self._written[page]
            first, last = start // STICK_BYTES, (stop - 1) // STICK_BYTES
            for stick in {first, last}:
                if not written[stick]:
                    held[stick * STICK_BYTES : (stick + 1) * STICK_BYTES] = 0
            held[start:stop] = data[at : at + stop - start]
            written[first : last + 1] = True

    def written(self, offset: int, size: int) -> bool:
        """Whether every stick that the range touches was written."""
        for page, start, stop, _ in self.split(offset, size):
            flags = self._written.get(page)
            if flags is None or not flags[start // STICK_BYTES : (stop - 1) // STICK_BYTES + 1].all():
                return False
        return True

    def copy_page(self, page: int) -> tuple[Bytes, Flags]:
        """A private copy of one page: its bytes, and which of its sticks were written."""
        held = self._pages.get(page)
        if held is None:
            return np.full(PAGE_BYTES, self._fill, np.uint8), np.zeros(PAGE_BYTES // STICK_BYTES, np.bool_)
        return held.copy(), self._written[page].copy()

    def merge_page(self, page: int, data: Bytes, dirty: Flags) -> None:
        """Take over the dirty bytes of a private copy."""
        held = self._pages.get(page)
        if held is None:
            held = self._pages[page] = np.full(PAGE_BYTES, self._fill, np.uint8)
            self._written[page] = np.zeros(PAGE_BYTES // STICK_BYTES, np.bool_)
        np.copyto(held, data, where=dirty)
        self._written[page] |= dirty.reshape(-1, STICK_BYTES).any(axis=1)

    @staticmethod
    def split(offset: int, size: int) -> Iterator[tuple[int, int, int, int]]:
        """Cut a range at pages: (page, start in page, stop in page, position in the range)."""
        at = 0
        while at < size:
            page, start = divmod(offset + at, PAGE_BYTES)
            stop = min(PAGE_BYTES, start + size - at)
            yield page, start, stop, at
            at += stop - start


class RegionTable:
    """All regions of one device. Ids are never reused.

    In mode ``PF`` ids look like physical addresses, otherwise they are small numbers; nobody may care.
    """

    def __init__(self, mode: str, fill_byte: int, capacities: dict[int, int]) -> None:
        self._mode = mode
        self._fill = fill_byte
        self._capacities = capacities
        self._regions: dict[int, Region] = {}
        self._count = 0

    def create(self, size: int, domain_id: int, memory_type: MemoryType) -> int:
        if size <= 0 or size % STICK_BYTES:
            raise ValueError(f"region size {size} is not a positive multiple of {STICK_BYTES}")
        if domain_id not in self._capacities:
            raise ValueError(f"memory domain {domain_id} does not exist")
        used = sum(r.info.size for r in self._regions.values() if r.info.domain_id == domain_id)
        if used + size > self._capacities[domain_id]:
            raise MemoryError(
                f"domain {domain_id} has {self._capacities[domain_id] - used} bytes left, {size} requested"
            )
        self._count += 1
        region_id = self._count if self._mode != "PF" else 0x7_0000_0000 + self._count * 0x10_0000_0000
        self._regions[region_id] = Region(RegionInfo(region_id, size, domain_id, memory_type), self._fill)
        return region_id

    def destroy(self, region_id: int) -> None:
        del self._regions[region_id]

    def clear(self) -> None:
        self._regions.clear()

    def __getitem__(self, region_id: int) -> Region:
        return self._regions[region_id]

    def info(self, region_id: int) -> RegionInfo:
        """Facts of a region; ``KeyError`` if it does not exist."""
        return self._regions[region_id].info

    @property
    def bytes_reserved(self) -> int:
        return sum(region.info.size for region in self._regions.values())

    @property
    def pages_touched(self) -> int:
        return sum(region.pages_touched for region in self._regions.values())

    def gather(self, pieces: Sequence[Piece], blank: int | None = None) -> Bytes:
        """The logical byte range of pieces, copied."""
        return np.concatenate([self[p.region_id].read(p.offset, p.size, blank) for p in pieces])

    def scatter(self, pieces: Sequence[Piece], data: Bytes) -> None:
        at = 0
        for piece in pieces:
            self[piece.region_id].write(piece.offset, data[at : at + piece.size])
            at += piece.size


@attrs.define
class _Page:
    """A page as a running program sees it. ``dirty`` marks the bytes that it has changed."""

    data: Bytes
    written: Flags
    dirty: Flags


class TranslatedMemory:
    """Memory as a running program sees it: through the segment table of its launch (runtime spec 3.2.5).

    The program sees its own writes at once, everybody else when :meth:`commit` is called at its completion.
    An access that the table does not allow raises ``PageFault`` with ``segment`` and ``offset``.
    """

    def __init__(self, segments: tuple[SegmentEntry, ...], regions: RegionTable) -> None:
        self.segments = segments
        self.regions = regions
        self.bytes_read = self.bytes_written = 0
        self.sticks_read = self.sticks_written = 0
        self._pages: dict[tuple[int, int], _Page] = {}

    def translate(self, address: int, size: int, write: bool = False) -> tuple[int, int]:
        """(region, offset) of an access."""
        segment, offset = address >> SEGMENT_SHIFT, address & (SEGMENT_SIZE - 1)
        verb = "write" if write else "read"
        if not 0 <= segment < NUM_SEGMENTS or not self.segments[segment].valid:
            raise PageFault(
                f"{verb} of segment {segment}, which is not mapped", segment=segment, offset=offset
            )
        entry = self.segments[segment]
        if offset + size > entry.length:
            raise PageFault(
                f"{verb} of {size} bytes at {offset:#x} of segment {segment} ({entry.length:#x} bytes long)",
                segment=segment,
                offset=offset,
            )
        if write and not entry.writable:
            raise PageFault(f"write to the read-only segment {segment}", segment=segment, offset=offset)
        return entry.region_id, entry.base + offset

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a range inside one segment."""
        _, offset = self.translate(address, size)
        self.bytes_read += size
        self.sticks_read += _sticks(offset, size)
        return self.peek(address, size)

    def peek(self, address: int, size: int) -> bytes:
        """`read` by an observer: it counts for nothing."""
        region_id, offset = self.translate(address, size)
        region = self.regions[region_id]
        if not self._pages:
            return region.read(offset, size).tobytes()
        parts = []
        for number, start, stop, at in Region.split(offset, size):
            page = self._pages.get((region_id, number))
            parts.append(region.read(offset + at, stop - start) if page is None else page.data[start:stop])
        return b"".join(part.tobytes() for part in parts)

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Store bytes into a range inside one segment."""
        size = len(data)
        region_id, offset = self.translate(address, size, write=True)
        self.bytes_written += size
        self.sticks_written += _sticks(offset, size)
        source = np.frombuffer(data, np.uint8)
        for number, start, stop, at in Region.split(offset, size):
            page = self._pages.get((region_id, number))
            if page is None:
                content, written = self.regions[region_id].copy_page(number)
                page = _Page(content, written, np.zeros(PAGE_BYTES, np.bool_))
                self._pages[region_id, number] = page
            first, last = start // STICK_BYTES, (stop - 1) // STICK_BYTES
            for stick in {first, last}:
                if not page.written[stick]:
                    page.data[stick * STICK_BYTES : (stick + 1) * STICK_BYTES] = 0
                    page.dirty[stick * STICK_BYTES : (stick + 1) * STICK_BYTES] = True
            page.data[start:stop] = source[at : at + stop - start]
            page.dirty[start:stop] = True
            page.written[first : last + 1] = True

    def commit(self) -> None:
        """Make all writes visible."""
        for (region_id, number), page in self._pages.items():
            self.regions[region_id].merge_page(number, page.data, page.dirty)
        self._pages.clear()


def _sticks(offset: int, size: int) -> int:
    return (offset + size - 1) // STICK_BYTES - offset // STICK_BYTES + 1 if size else 0


# -- loop nests ------------------------------------------------------------------------------------


def nest_extent(sizes: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, int]:
    """Least and greatest element that a nest touches on one side."""
    low = offset + sum(min(0, (n - 1) * s) for n, s in zip(sizes, strides, strict=True))
    high = offset + sum(max(0, (n - 1) * s) for n, s in zip(sizes, strides, strict=True))
    return low, high


def nest_view(
    data: np.ndarray[Any, Any], sizes: Sequence[int], strides: Sequence[int], offset: int
) -> np.ndarray[Any, Any]:
    """The elements of one side of a nest as an array of shape ``sizes``."""
    step = data.itemsize
    return np.lib.stride_tricks.as_strided(
        data[offset:], tuple(sizes), tuple(s * step for s in strides), writeable=data.flags.writeable
    )


def nest_elements(nest: Nest) -> int:
    return math.prod(nest.sizes)
