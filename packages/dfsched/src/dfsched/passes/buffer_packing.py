"""Which buffers of a program are live at the same time, and how the others share space.

A program is a sequence of operations; a buffer is live from the first of them that uses it to the last.
Inside of one (a nest with its pipelines) nothing is told apart, because iterations and units overlap there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from dfsched.dialects.ktdf import PrivateYield, SelectMemref
from dfsched.passes.ir_tools import Definitions
from ktir.dialects import func, memref
from ktir.ir import Operation, Value

__all__ = ["Buffer", "live_ranges", "packed", "users_of"]


@frozen
class Buffer:
    """Bytes that a buffer takes, and the first and last operation of the program that uses it."""

    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both are live at some time."""
        return self.first <= other.last and other.first <= self.last


def live_ranges(
    function: func.Func, allocs: Sequence[memref.Alloc], definitions: Definitions
) -> dict[memref.Alloc, tuple[int, int]]:
    """First and last operation of the function's body that uses each buffer; those without a use are live
    where they are allocated."""
    position: dict[Operation, int] = {}
    for number, op in enumerate(function.body.block.operations):
        for inner in op.walk():
            position[inner] = number
    ranges: dict[memref.Alloc, tuple[int, int]] = {}
    for alloc in allocs:
        places = [position[user] for user in users_of(alloc.memref, definitions) if user in position]
        ranges[alloc] = (min(places), max(places)) if places else (position[alloc], position[alloc])
    return ranges


def users_of(value: Value, definitions: Definitions) -> Iterator[Operation]:
    """Operations that use a buffer, also under the names by which it is handed on; not its end."""
    seen: set[Value] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for use in definitions.uses(current):
            if isinstance(use.op, memref.Dealloc):
                continue
            yield use.op
            match use.op:
                case PrivateYield():
                    private = definitions.parent(use.op)
                    if private is not None:
                        pending.append(private.results[use.index])
                case SelectMemref() | memref.Cast() | memref.ReinterpretCast() | memref.SubView():
                    pending += use.op.results


def packed(
    buffers: Sequence[Buffer], capacity: int, alignment: int, pinned: Iterable[tuple[int, int]]
) -> list[int | None]:
    """An address for every buffer: the lowest free one, larger buffers first; None where there is no room."""
    taken = list(pinned)
    placed: list[tuple[int, Buffer]] = []
    found: list[int | None] = [None] * len(buffers)
    for index in sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, i)):
        buffer = buffers[index]
        busy = sorted(
            [*taken, *((start, start + other.size) for start, other in placed if other.meets(buffer))]
        )
        address = 0
        for low, high in busy:
            if low < high and address < high and low < address + buffer.size:
                address = -(-high // alignment) * alignment
        if address + buffer.size <= capacity:
            found[index] = address
            placed.append((address, buffer))
    return found
