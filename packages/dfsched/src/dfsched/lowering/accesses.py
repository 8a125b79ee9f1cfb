"""`ktdf.data_transfer` as copies, loads and stores of vectors (dataflowir spec 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, evolve

from dfsched.dialects import vectorchain as vc
from dfsched.dialects.agen import CompositeLoadAndStore, CompositeSide, VectorLoad, VectorStore
from dfsched.dialects.ktdf import TRANSFER_MODE, Cell, DataTransfer
from dfsched.lowering.errors import LoweringError
from dfsched.lowering.transfers import CopyPlan, TimeLoop, box_set, moved_over, plan_copy
from dfsched.lowering.values import Known, Shifted
from ktir.affine import AffineExpr, AffineMap, Const, Dim, simplify
from ktir.affine.linear import linear
from ktir.attribute import Attribute
from ktir.attributes import FloatAttr, IntegerAttr, StringAttr
from ktir.dialects import scf
from ktir.errors import TypeQueryError
from ktir.ir import BlockArgument, Operation, Value
from ktir.types import INDEX, FloatType, MemRefType, Type, VectorType

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["Transfers"]


@define
class Transfers:
    """The transfers of one program unit."""

    unit: ProgramUnitBuilder

    def _subscripts(self, cell: Cell, op: Operation) -> tuple[AffineMap, list[Value]]:
        """Subscripts over values of the new program; constants folded in."""
        assert cell.map is not None
        values: list[Value] = []
        dims: list[AffineExpr] = []
        for index in cell.indices:
            meaning = self.unit.meaning(index, op)
            if isinstance(meaning, Known) and meaning.uniform is not None:
                dims.append(Const(meaning.uniform))
                continue
            value = meaning.value if isinstance(meaning, Shifted) else self.unit.scalar(index, op)
            if value not in values:
                values.append(value)
            dims.append(Dim(values.index(value)))
        exprs = [simplify(expr.replace(dims, ())) for expr in cell.map.results]
        used = sorted({leaf.position for expr in exprs for leaf in expr.walk() if isinstance(leaf, Dim)})
        renumber: list[AffineExpr] = [
            Dim(used.index(i)) if i in used else Const(0) for i in range(len(values))
        ]
        return (
            AffineMap(len(used), 0, tuple(expr.replace(renumber, ()) for expr in exprs)),
            [values[i] for i in used],
        )

    def _view(self, cell: Cell, op: Operation) -> Value:
        """The memory of one side, from where a shifted loop variable puts it."""
        assert cell.map is not None
        unit = self.unit
        memory = unit.meaning(cell.value, op)
        shift: list[int] | None = None
        for position, index in enumerate(cell.indices):
            meaning = unit.meaning(index, op)
            if isinstance(meaning, Shifted):
                step = _elements_per_step(cell, position, unit.views.strides(memory), op)
                shift = shift or [0] * unit.rows
                shift = [a + step * n for a, n in zip(shift, meaning.offsets, strict=True)]
        return unit.views.value(memory, op, None if shift is None else tuple(shift))

    def _sizes(self, cell: Cell, op: Operation) -> tuple[int, ...]:
        try:
            return cell.static_sizes
        except TypeQueryError:
            raise LoweringError.at(op.location, "the sizes of a transfer must be static") from None

    def transfer(self, op: DataTransfer) -> None:
        source, target = op.source_cell, op.dest_cell
        if source.is_memory and target.is_memory:
            self._copy(op, source, target)
        elif source.is_memory:
            self._load_and_send(op, source, target)
        elif target.is_memory:
            self._receive_and_store(op, source, target)
        else:
            raise LoweringError.at(
                op.location, "Unsupported data transfer: FIFO to FIFO transfers are not allowed"
            )

    def _copy(self, op: DataTransfer, source: Cell, target: Cell) -> None:
        strides = [self.unit.views.strides(self.unit.meaning(cell.value, op)) for cell in (source, target)]
        plan = self._plan(op, strides[0], strides[1])
        sides = self._sides(op, plan)
        vector = VectorType((plan.lanes,), _memref(source.value).element)
        if plan.loop is None:
            self.unit.emit(CompositeLoadAndStore.of(sides[0], sides[1], plan.time_set, vector))
            return
        iv = BlockArgument(INDEX)
        moved = [
            _walked(side, walk.dimension, walk.step, iv) for side, walk in zip(sides, plan.loop, strict=True)
        ]
        copy = CompositeLoadAndStore.of(moved[0], moved[1], plan.time_set, vector)
        zero, upper, one = (self.unit.shared.constant(n) for n in (0, plan.loop[0].extent, 1))
        self.unit.emit(scf.For.build(zero, upper, one, (copy,), iv))

    def copy(self, op: DataTransfer, times: Sequence[TimeLoop]) -> None:
        """A copy between memories that walks some loops over time.

        The variables of the loops mean their first values.
        """
        plan = self._plan(op, None, None)
        sides = self._sides(op, plan)
        extents = (*(time.extent for time in times), *plan.extents)
        source = evolve(sides[0], time_map=moved_over([t.source for t in times], sides[0].time_map, plan))
        target = evolve(sides[1], time_map=moved_over([t.target for t in times], sides[1].time_map, plan))
        vector = VectorType((plan.lanes,), _memref(op.source).element)
        self.unit.emit(CompositeLoadAndStore.of(source, target, box_set(extents or (1,)), vector))

    def _plan(
        self, op: DataTransfer, source: tuple[int, ...] | None, target: tuple[int, ...] | None
    ) -> CopyPlan:
        element = _memref(op.source).element
        lanes = self.unit.shared.architecture.vector_length((element,))
        boxes = self._sizes(op.source_cell, op), self._sizes(op.dest_cell, op)
        return plan_copy(*boxes, lanes, source, target, op.location)

    def _sides(self, op: DataTransfer, plan: CopyPlan) -> list[CompositeSide]:
        sides = []
        for cell, sizes, movement in (
            (op.source_cell, plan.source_sizes, plan.source_map),
            (op.dest_cell, plan.target_sizes, plan.target_map),
        ):
            map, indices = self._subscripts(cell, op)
            view = self._view(cell, op)
            identity = AffineMap.identity(len(sizes))
            sides.append(CompositeSide(view, map, tuple(indices), box_set(sizes), identity, movement))
        return sides

    def _load_and_send(self, op: DataTransfer, source: Cell, target: Cell) -> None:
        sizes = self._sizes(source, op)
        capacity = self.unit.capacity(target.value, op)
        vector = self._load(op, source, sizes)
        count = box_set(sizes).count()
        if count != capacity and not self._is_piece(op, count, capacity):
            vector = self._widen(op, vector, count, capacity)
        self.unit.send(op, vector, target.value)

    def _is_piece(self, op: DataTransfer, count: int, capacity: int) -> bool:
        """Whether a transfer is one of several that fill a slot of more than a vector."""
        longest = self.unit.shared.architecture.vector_length((_memref(op.source).element,))
        return TRANSFER_MODE not in op.attributes and capacity > longest and capacity % count == 0

    def _load(self, op: Operation, cell: Cell, sizes: Sequence[int]) -> Value:
        map, indices = self._subscripts(cell, op)
        view = self._view(cell, op)
        domain = box_set(sizes)
        type = VectorType((domain.count(),), _memref(cell.value).element)
        identity = AffineMap.identity(len(sizes))
        return self.unit.emit(VectorLoad.of(view, map, indices, domain, identity, type))

    def _widen(self, op: DataTransfer, vector: Value, count: int, capacity: int) -> Value:
        """Repeat or fill up a vector of `count` lanes to `capacity` lanes."""
        mode = op.attributes.get(TRANSFER_MODE)
        word = mode.value if isinstance(mode, StringAttr) else None
        if word not in ("splat", "pad"):
            raise LoweringError.at(op.location, f"source has {count} elements, but the slot takes {capacity}")
        if count > capacity:
            raise LoweringError.at(
                op.location, "source total elements must not exceed destination for splat/pad transfer"
            )
        assert isinstance(vector.type, VectorType)
        result = VectorType((capacity,), vector.type.element)
        picks = list(range(count))
        if word == "pad":
            zero = self.unit.shared.constant(_zero(vector.type.element))
            indices = picks + [-1] * (capacity - count)
            return self.unit.emit(vc.Shuffle.of(vector, result, indices, 1, pads=(zero,)))
        if capacity % count:
            raise LoweringError.at(
                op.location, "dst_total_elements must be divisible by src_total_elements for splat transfer"
            )
        return self.unit.emit(vc.Shuffle.of(vector, result, picks, capacity // count))

    def _receive_and_store(self, op: DataTransfer, source: Cell, target: Cell) -> None:
        sizes = self._sizes(target, op)
        count = box_set(sizes).count()
        vector = self.unit.receive(op, source.value)
        assert isinstance(vector.type, VectorType)
        lanes = vector.type.num_elements()
        if count > lanes:
            raise LoweringError.at(op.location, f"the slot holds {lanes} elements, but {count} are stored")
        if count < lanes:
            narrow = VectorType((count,), vector.type.element)
            vector = self.unit.emit(vc.Shuffle.of(vector, narrow, list(range(count))))
        self._store(op, vector, target, sizes)

    def _store(self, op: Operation, vector: Value, cell: Cell, sizes: Sequence[int]) -> None:
        map, indices = self._subscripts(cell, op)
        view = self._view(cell, op)
        self.unit.emit(
            VectorStore.of(vector, view, map, indices, box_set(sizes), AffineMap.identity(len(sizes)))
        )


def _memref(value: Value) -> MemRefType:
    assert isinstance(value.type, MemRefType)
    return value.type


def _elements_per_step(cell: Cell, position: int, strides: tuple[int, ...] | None, op: Operation) -> int:
    """By how many elements an access moves when one of its indices grows by one."""
    assert cell.map is not None
    forms = [form for expr in cell.map.results if (form := linear(expr)) is not None and form.is_linear]
    if strides is None or len(forms) != len(cell.map.results):
        raise LoweringError.at(op.location, "loop_iv not found in coefficient dictionary")
    steps = [form.coefficient(Dim(position)) for form in forms]
    return sum(stride * step for stride, step in zip(strides, steps, strict=True))


def _walked(side: CompositeSide, dimension: int, step: int, iv: Value) -> CompositeSide:
    """The side with ``step * iv`` added to one subscript."""
    results = list(side.map.results)
    results[dimension] = results[dimension] + Dim(side.map.num_dims) * step
    map = AffineMap(side.map.num_dims + 1, 0, tuple(results))
    return CompositeSide(side.memory, map, (*side.indices, iv), side.set, side.order, side.time_map)


def _zero(element: Type) -> Attribute:
    return FloatAttr(0, element) if isinstance(element, FloatType) else IntegerAttr(0, element)
