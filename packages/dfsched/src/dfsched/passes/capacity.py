"""What is told where buffers do not fit: how much they need, how much there is, which are live together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dfsched.architecture import Kind, kind_text
from dfsched.passes.buffer_packing import Buffer, users_of
from dfsched.passes.ir_tools import Definitions
from ktir.dialects import func, memref
from ktir.errors import Diagnostic, Note
from ktir.location import Location, UnknownLoc

__all__ = ["bytes_text", "overflow", "place_of_buffer"]


def bytes_text(size: int) -> str:
    """``1.5 GiB``, ``2.3 MiB``, ``12.0 KiB``, ``96 bytes``."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def place_of_buffer(alloc: memref.Alloc, function: func.Func, definitions: Definitions) -> Location | None:
    """Where the buffer stands in the text; of one that a pass made, where the first user of it does."""
    for op in (alloc, *users_of(alloc.memref, definitions), function):
        if not isinstance(op.location, UnknownLoc):
            return op.location
    return function.location


def overflow(
    function: func.Func,
    kind: Kind,
    allocs: Sequence[memref.Alloc],
    buffers: Sequence[Buffer],
    failed: Collection[int],
    capacity: int,
    pinned: Iterable[tuple[int, int]],
    definitions: Definitions,
) -> Diagnostic:
    """The most that is live at the same time as some of the `failed` buffers, a note for each kind of it.

    `pinned` are the bytes that the kernel keeps for itself.
    """

    def live(position: int) -> list[int]:
        return [n for n, buffer in enumerate(buffers) if buffer.first <= position <= buffer.last]

    def size(numbers: Iterable[int]) -> int:
        return sum(buffers[n].size for n in numbers)

    positions = sorted({p for n in failed for p in (buffers[n].first, buffers[n].last)})
    most = max((live(position) for position in positions), key=size)
    kept = sum(max(0, min(high, capacity) - low) for low, high in pinned if low < capacity)
    free = capacity - kept
    needed, available = bytes_text(size(most)), bytes_text(free)
    if needed == available:
        needed, available = f"{size(most)} bytes", f"{free} bytes"
    message = f"'{function.symbol}' needs {needed} of {kind_text(kind)}, {available} available"
    if size(most) <= free:
        message += ", but not in one piece for each"
    groups: dict[tuple[str, Location | None], list[int]] = {}
    for number in most:
        place = place_of_buffer(allocs[number], function, definitions)
        groups.setdefault((str(allocs[number].memref.type), place), []).append(number)
    rows = sorted(groups.items(), key=lambda entry: -size(entry[1]))
    notes = [
        Note(f"{bytes_text(size(numbers)):>10}  {len(numbers)} x {type}", place)
        for (type, place), numbers in rows
    ]
    if kept:
        notes.append(Note(f"{bytes_text(kept):>10}  kept for views of the kernel and residents of others"))
    return Diagnostic(
        f"{message}; these buffers are live at the same time:", function.location, notes=tuple(notes)
    )
