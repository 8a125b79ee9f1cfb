"""Which bytes of device memory failed operations may have damaged (runtime spec 3.18.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from spyrert.device.protocol import Piece


class IndeterminateMemory:
    """Byte ranges whose contents nobody can vouch for, until they are overwritten."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}

    def mark(self, pieces: Iterable[Piece]) -> None:
        """A write to these bytes failed or was cancelled."""
        for piece in pieces:
            start, end = piece.offset, piece.offset + piece.size
            ranges = self._ranges.setdefault(piece.region_id, [])
            touching = [r for r in ranges if r[0] <= end and start <= r[1]]
            for other in touching:
                ranges.remove(other)
                start, end = min(start, other[0]), max(end, other[1])
            ranges.insert(bisect_left(ranges, (start, end)), (start, end))

    def clear(self, pieces: Iterable[Piece]) -> None:
        """These bytes were written."""
        for piece in pieces:
            ranges = self._ranges.get(piece.region_id)
            if not ranges:
                continue
            start, end = piece.offset, piece.offset + piece.size
            kept: list[tuple[int, int]] = []
            for low, high in ranges:
                if low < start:
                    kept.append((low, min(high, start)))
                if high > end:
                    kept.append((max(low, end), high))
            self._ranges[piece.region_id] = kept

    def hit(self, pieces: Iterable[Piece]) -> Piece | None:
        """The first damaged part of these bytes, or ``None``."""
        for piece in pieces:
            for low, high in self._ranges.get(piece.region_id, ()):
                start, end = max(low, piece.offset), min(high, piece.offset + piece.size)
                if start < end:
                    return Piece(piece.region_id, start, end - start)
        return None
