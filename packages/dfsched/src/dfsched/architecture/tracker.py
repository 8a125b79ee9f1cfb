"""Bump allocation of buffers in the memories of a device (device spec 3.9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dfsched.architecture.architecture import Architecture
from dfsched.architecture.kinds import Kind, kind_text
from dfsched.errors import AddressError

__all__ = ["MemoryTracker"]


class MemoryTracker:
    """Next free address per memory kind; all numbers are bytes.

    ``pinned`` are half-open byte ranges per kind that no buffer may touch. The whole size of a memory can be
    used: what is reserved limits the front end, not the scheduler. Nothing is freed; a caller that reuses
    space by liveness plans within one allocation.
    """

    def __init__(
        self, architecture: Architecture, pinned: Mapping[Kind, Iterable[tuple[int, int]]] | None = None
    ) -> None:
        self._architecture = architecture
        self._next: dict[Kind, int] = {}
        self._pinned = {
            architecture.memory_kind(kind): tuple(sorted(ranges)) for kind, ranges in (pinned or {}).items()
        }

    def allocated(self, kind: Kind) -> int:
        """Bytes up to the end of the last buffer in that memory."""
        return self._next.get(self._architecture.memory_kind(kind), 0)

    def pinned(self, kind: Kind) -> tuple[tuple[int, int], ...]:
        """Byte ranges of that memory that no buffer may touch."""
        return self._pinned.get(self._architecture.memory_kind(kind), ())

    def allocate(self, kind: Kind, size: int, alignment: int = 1) -> int:
        """The byte address of a new buffer; `AddressError` if it does not fit or the memory has no size."""
        kind = self._architecture.memory_kind(kind)
        capacity = self._architecture.memory(kind).size
        if capacity is None:
            raise AddressError(kind_text(kind), size, alignment, None)
        start = self._next.get(kind, 0)
        address = -(-start // alignment) * alignment
        for low, high in self._pinned.get(kind, ()):
            if address < high and low < address + size:
                address = -(-high // alignment) * alignment
        if address + size > capacity:
            raise AddressError(kind_text(kind), size, alignment, capacity, start)
        self._next[kind] = address + size
        return address
