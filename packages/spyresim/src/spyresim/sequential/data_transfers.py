"""Transfers between memories and queues (scheduler spec 1): a box of elements on either side.

What an operation says of its sides is found out once a run. Subscripts that are the same for all tiles are
plain numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import attrs
import numpy as np

from dfsched.dialects import ktdf
from dfsched.dialects.ktdf.transfer import Cell
from ktir.affine import AffineExpr, Dim
from ktir.ir import Operation, Value
from spyresim.errors import ExecutionFault, QueueFault, Site, unsupported
from spyresim.meaning.formats import Array
from spyresim.sequential.access import IntArray, nest
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.memrefs import view_of
from spyresim.sequential.transfers import check_box, load_view, store_view
from spyresim.sequential.values import Batched, View

__all__ = ["DATA_TRANSFERS", "Slot", "drained"]

DATA_TRANSFERS = Handlers()


@attrs.define(eq=False)
class Slot(Batched):
    """A queue slot: what was put in and not yet taken out, with the tiles that did."""

    site: Site
    entries: deque[tuple[IntArray, Array]] = attrs.field(factory=deque)

    def put(self, frame: Frame, data: Array) -> None:
        self.entries.append((frame.tiles, data))

    def get(self, frame: Frame, op: Operation) -> Array:
        if not self.entries:
            raise QueueFault("a read from an empty queue", site=Site(op.name, op.location), queue="slot")
        tiles, data = self.entries.popleft()
        if tiles is not frame.tiles and (len(tiles) != frame.batch or (tiles != frame.tiles).any()):
            raise unsupported(op, "a queue that other tiles fill than those that read it")
        return data


def drained(slots: Sequence[Slot], op: Operation) -> None:
    """`QueueFault` if something is left in the queues of an operation."""
    left = sum(len(slot.entries) for slot in slots)
    if left:
        raise QueueFault(
            f"{left} entries are left in the queues at the end", site=Site(op.name, op.location), queue="slot"
        )


@attrs.frozen(eq=False)
class _Side:
    """One side of a transfer: `box` is its size where that is static, `subscripts` are those of a memref.

    A subscript is the number of an index, or an expression of all of them.
    """

    value: Value
    box: tuple[int, ...] | None
    sizes: tuple[int | None, ...]
    dynamic_sizes: tuple[Value, ...]
    indices: tuple[Value, ...]
    subscripts: tuple[int | AffineExpr, ...]

    @classmethod
    def of(cls, cell: Cell) -> _Side:
        expressions = () if cell.map is None else cell.map.results
        return cls(
            cell.value,
            None if cell.dynamic_sizes else cell.static_sizes,
            cell.sizes,
            cell.dynamic_sizes,
            cell.indices,
            tuple(expr.position if isinstance(expr, Dim) else expr for expr in expressions),
        )

    def extents(self, frame: Frame) -> tuple[int, ...]:
        """The box of this execution."""
        if self.box is not None:
            return self.box
        dynamic = iter(self.dynamic_sizes)
        return tuple(frame.number(next(dynamic)) if size is None else size for size in self.sizes)

    def anchor(self, frame: Frame, op: Operation, view: View, extents: tuple[int, ...]) -> IntArray | int:
        """The first element of the box, checked against the memref."""
        indices = [frame.array(value) for value in self.indices]
        if any(index.size != 1 for index in indices):
            return self._anchors(frame, op, view, extents, indices)
        numbers = [int(index[0]) for index in indices]
        total = 0
        for subscript, extent, size, stride in zip(
            self.subscripts, extents, view.sizes, view.strides, strict=True
        ):
            at = numbers[subscript] if isinstance(subscript, int) else subscript.evaluate(numbers)
            if at < 0 or at + extent > size:  # as arrays, for the fault
                return self._anchors(frame, op, view, extents, indices)
            total += at * stride
        return total

    def _anchors(
        self, frame: Frame, op: Operation, view: View, extents: tuple[int, ...], indices: Sequence[Array]
    ) -> IntArray:
        total: IntArray = np.zeros(1, np.int64)
        columns: list[Array] = []
        inside = True
        for subscript, extent, size, stride in zip(
            self.subscripts, extents, view.sizes, view.strides, strict=True
        ):
            found = indices[subscript] if isinstance(subscript, int) else subscript.evaluate(indices)
            column = np.atleast_1d(np.asarray(found, np.int64))
            columns.append(column)
            values = column.tolist()
            inside = inside and min(values) >= 0 and max(values) + extent <= size
            total = total + column * stride
        if not inside and all(extents):
            anchor = np.stack(np.broadcast_arrays(*columns), axis=1)
            box = [(0, extent - 1) for extent in extents]
            check_box(frame.tiles, op, view.sizes, anchor, box, view.memory.label)
        return total

    def read(self, run: Interpreter, frame: Frame, op: Operation) -> Array:
        """The elements, shape (batch, count)."""
        found, extents = frame[self.value], self.extents(frame)
        if isinstance(found, Slot):
            data = found.get(frame, op)
            if data.shape[1] != math.prod(extents):
                raise QueueFault(
                    f"a read of {math.prod(extents)} elements from a queue entry of {data.shape[1]}",
                    site=Site(op.name, op.location),
                    queue="slot",
                )
            return data
        view = view_of(frame, op, self.value)
        anchor = self.anchor(frame, op, view, extents)
        data = load_view(run, frame, op, view, anchor, nest(extents, view.strides))
        return data.reshape(data.shape[0], -1)

    def write(self, run: Interpreter, frame: Frame, op: Operation, data: Array) -> None:
        """Store data of shape (batch, count)."""
        found, extents = frame[self.value], self.extents(frame)
        if isinstance(found, Slot):
            found.put(frame, data)
            return
        view = view_of(frame, op, self.value)
        anchor = self.anchor(frame, op, view, extents)
        store_view(run, frame, op, view, anchor, nest(extents, view.strides), data.reshape(-1, *extents))


def _sides(op: ktdf.DataTransfer) -> tuple[_Side, _Side, str | None]:
    return _Side.of(op.source_cell), _Side.of(op.dest_cell), op.mode


@DATA_TRANSFERS.executes(ktdf.DataTransfer)
def transfer(run: Interpreter, frame: Frame, op: ktdf.DataTransfer) -> Results:
    run.counters.count(op.name, frame.batch)
    source, dest, kind = run.plan(op, _sides)
    data = source.read(run, frame, op)
    count, wanted = data.shape[1], math.prod(dest.extents(frame))
    match kind:
        case None if count != wanted:
            raise ExecutionFault(
                f"a transfer of {count} elements to {wanted}", site=Site(op.name, op.location)
            )
        case None:
            pass
        case "splat" if count and wanted % count == 0:
            data = np.tile(data, (1, wanted // count))
        case "pad" if count <= wanted:
            data = np.pad(data, ((0, 0), (0, wanted - count)))
        case mode:
            raise unsupported(op, f"transfer mode '{mode}' from {count} to {wanted} elements")
    dest.write(run, frame, op, data)
    return ()
