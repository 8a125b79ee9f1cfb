"""Logical memory views: what a memref of the schedule is in DataflowIR (dataflowir spec 3.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from dfsched.architecture.kinds import Kind, kind_text
from dfsched.dialects.dataflow import GetLogicalMemoryView, GetUnit
from dfsched.errors import ArchitectureError
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.symbols import DerivedSymbol
from dfsched.lowering.values import Address, Buffer, Known, Meaning, Rotating, Runtime, View
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.attribute import Attribute
from ktir.attributes import StringAttr
from ktir.dialects import arith, memref
from ktir.dialects.ktdp import ConstructMemoryView
from ktir.dialects.slices import static_values
from ktir.ir import Operation, Value
from ktir.types import INDEX, MemRefType, Type, VectorType, bit_width

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["MemoryViews", "row_major"]

REGISTER_ALIGNMENT = 128

_VIEW_LIKE = (memref.MemorySpaceCast, memref.ReinterpretCast, memref.Cast, memref.SubView)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense array."""
    strides = [1] * len(shape)
    for position in range(len(shape) - 2, -1, -1):
        strides[position] = strides[position + 1] * shape[position + 1]
    return tuple(strides)


@define
class MemoryViews:
    """Memory of one program unit; views with a known start are made once, at the start of the program."""

    unit: ProgramUnitBuilder
    _views: dict[object, Value] = field(factory=dict)
    _handles: dict[Kind, Value] = field(factory=dict)

    # -- chains of casts

    def follow(self, op: Operation) -> None:
        """Give meaning to a view or a cast of one."""
        unit = self.unit
        match op:
            case ConstructMemoryView():
                unit.meanings[op.result] = self._root(op)
                return
            case _:
                source = unit.meaning(op.operands[0], op)
        if isinstance(source, Buffer | Rotating) and isinstance(op, memref.Cast):
            unit.meanings[op.results[0]] = source
            return
        if not isinstance(source, View):
            raise LoweringError.at(
                op.location, "unexpected consumer of memory view; expected data_transfer or select_memref"
            )
        match op:
            case memref.MemorySpaceCast():
                type = op.results[0].type
                assert isinstance(type, MemRefType)
                unit.meanings[op.results[0]] = evolve(source, space=type.memory_space)
            case memref.ReinterpretCast():
                unit.meanings[op.results[0]] = self._reinterpret(op, source)
            case _:
                unit.meanings[op.results[0]] = source

    def _root(self, op: ConstructMemoryView) -> View:
        sizes = [size for size in op.mixed_sizes if isinstance(size, int)]
        strides = [stride for stride in op.mixed_strides if isinstance(stride, int)]
        if len(sizes) != len(op.mixed_sizes):
            raise LoweringError.at(op.location, "construct_memory_view: dynamic sizes not supported")
        if len(strides) != len(op.mixed_strides):
            raise LoweringError.at(op.location, "construct_memory_view: dynamic strides not supported")
        users = self.unit.kinds.uses.users(op.result)
        if users and not any(isinstance(user, _VIEW_LIKE) for user in users):
            raise LoweringError.at(op.location, "construct_memory_view: no ViewLikeOpInterface users found")
        base = self.unit.meaning(op.offset, op)
        if not isinstance(base, Known | Address | Runtime):
            raise LoweringError.at(op.location, "the offset of a memory view must be a number")
        return View(op, base, tuple(sizes), tuple(strides), op.type.element)

    def _reinterpret(self, op: memref.ReinterpretCast, source: View) -> View:
        sizes = [size for size in static_values(op.static_sizes) if size is not None]
        strides = [stride for stride in static_values(op.static_strides) if stride is not None]
        if op.sizes or op.strides:
            raise LoweringError.at(op.location, "reinterpret_cast: dynamic sizes and strides not supported")
        (static,) = static_values(op.static_offsets)
        offset: Meaning
        if static is None:
            offset = self.unit.meaning(op.offsets[0], op)
        else:
            offset = Known((static,) * self.unit.rows)
        offset = self._sum(source.offset, offset, op)
        if tuple(strides) == source.strides:
            return evolve(source, offset=offset)  # the root's sizes: indices may reach as far as its do
        return evolve(source, offset=offset, sizes=tuple(sizes), strides=tuple(strides))

    def _sum(self, first: Known | Runtime | None, second: Meaning, op: Operation) -> Known | Runtime:
        match first, second:
            case None, Known() | Runtime():
                return second
            case Known(a), Known(b):
                return Known(tuple(x + y for x, y in zip(a, b, strict=True)))
            case _, Address() if first is None:
                return self.unit.runtime(second)
            case _:
                raise UnsupportedLowering.at(op.location, "a second dynamic offset on one memory view")

    # -- strides

    def strides(self, meaning: Meaning) -> tuple[int, ...] | None:
        """Elements per step of each dimension."""
        match meaning:
            case View(strides=strides):
                return strides
            case Buffer() | Rotating():
                return row_major(meaning.type.static_shape())
            case _:
                return None

    # -- views in DataflowIR

    def value(self, meaning: Meaning, op: Operation, shift: tuple[int, ...] | None = None) -> Value:
        """The logical memory view behind a memref operand of a transfer.

        `shift`: how many elements later it starts for every unit.
        """
        if shift is not None and any(shift):
            meaning = self._shifted(meaning, shift, op)
        match meaning:
            case View():
                return self._view(meaning)
            case Buffer():
                return self._buffer(meaning)
            case Rotating(view=view):
                return view
            case _:
                raise LoweringError.at(op.location, f"'{op.name}' uses a memref that is no memory")

    def _shifted(self, meaning: Meaning, shift: tuple[int, ...], op: Operation) -> Meaning:
        """The memory from an element on."""
        match meaning:
            case View():
                return evolve(meaning, offset=self._sum(meaning.offset, Known(shift), op))
            case Buffer():
                return evolve(meaning, start=_moved(meaning.start, shift, meaning.type.element))
            case Rotating():
                later = _moved(Known((0,) * self.unit.rows), shift, meaning.type.element)
                start = arith.AddI.create((meaning.start, self.unit.known_value(later)), (INDEX,))
                value = self.unit.emit(start)
                return evolve(meaning, start=value, view=self.at_runtime(meaning.buffer, Runtime(value)))
            case _:
                return meaning

    def _kind(self, space: object, op: Operation) -> Kind:
        if not isinstance(space, Attribute):
            raise LoweringError.at(op.location, "construct_memory_view: no memory space found in chain")
        architecture = self.unit.shared.architecture
        kind = architecture.memory_kind(space.value if isinstance(space, StringAttr) else space)
        if not architecture.is_memory(kind):
            raise LoweringError.at(op.location, f"Unknown memory space classification for: {kind_text(kind)}")
        return kind

    def _handle(self, kind: Kind, op: Operation) -> Value:
        """The handle of a memory, as the executing unit sees it."""
        if kind not in self._handles:
            handles = self.unit.shared.memory(kind, op.location)
            if len(handles) == 1 and handles[0].core is None:
                self._handles[kind] = handles[0].handles[0]
            else:
                entries = [self._own(unit, handles, op) for unit in self.unit.kind.units]
                self._handles[kind] = self.unit.mapping(entries, early=True)
        return self._handles[kind]

    def _own(self, unit: GetUnit, handles: Sequence[GetUnit], op: Operation) -> Value:
        """The instance of a memory that a unit sees."""
        for handle in handles:
            if handle.core == unit.core and handle.corelet in (-1, max(unit.corelet, 0)):
                return handle.handles[0]
        raise LoweringError.at(op.location, f"memory unit SSA value not found for core {unit.core}")

    def _make(
        self,
        kind: Kind,
        start: Known | Runtime | tuple[int, ...],
        sizes: Sequence[int],
        strides: Sequence[int],
        element: Type,
        op: Operation,
    ) -> Value:
        """A view; `start` is known per unit, a run-time value, or symbol ids per unit."""
        key = (kind, start, tuple(sizes), tuple(strides), element)
        if key in self._views:
            return self._views[key]
        memory = self._handle(kind, op)
        layout: AffineExpr = Const(0)
        for position, stride in enumerate(strides):
            layout = layout + Dim(position) * stride
        match start:
            case Known():
                value = self.unit.known_value(start)
            case Runtime(value=value):
                pass
            case _ if len(set(start)) == 1:
                value = self.unit.symbol(start[0])
            case _:
                value = self.unit.mapping([self.unit.symbol(number) for number in start], early=True)
        view = GetLogicalMemoryView.of(
            memory, value, AffineMap(len(sizes), 0, (layout,)), MemRefType(tuple(sizes), element)
        )
        if isinstance(start, Runtime):
            return self.unit.emit(view)
        self.unit.head.append(view)
        self._views[key] = view.view
        return view.view

    def _buffer(self, buffer: Buffer) -> Value:
        shape = buffer.type.static_shape()
        kind = self._kind(buffer.type.memory_space, buffer.op)
        return self._make(kind, buffer.start, shape, row_major(shape), buffer.type.element, buffer.op)

    def at_runtime(self, buffer: Buffer, start: Runtime) -> Value:
        """A view like that of a buffer, at a byte address that is only known while the program runs."""
        shape = buffer.type.static_shape()
        kind = self._kind(buffer.type.memory_space, buffer.op)
        return self._make(kind, start, shape, row_major(shape), buffer.type.element, buffer.op)

    def _view(self, view: View) -> Value:
        op = view.op
        kind = self._kind(view.space, op)
        width = bit_width(view.element)
        size = -(-width // 8)
        start: Known | Runtime | tuple[int, ...]
        match view.base:
            case Address():
                start = self._symbols(view, view.base, kind, size)
            case Known():
                start = self._constant_start(view, view.base, kind, size)
            case Runtime(inputs=inputs, local=local):
                raise LoweringError.at(op.location, _base_problem(inputs, local))
        return self._make(kind, start, view.sizes, view.strides, view.element, op)

    def _symbols(self, view: View, base: Address, kind: Kind, size: int) -> tuple[int, ...]:
        unit = self.unit
        if isinstance(view.offset, Runtime):
            raise LoweringError.at(
                view.op.location,
                "the start address is computed from a run input and displaced by a value only known while "
                "the program runs, so no symbol stands for it",
            )
        moved = view.offset.values if view.offset is not None else (0,) * unit.rows
        word = unit.shared.architecture.word_size(unit.kind.name, kind)
        factor = 1 if unit.byte_addresses else size
        return tuple(
            unit.shared.symbol(DerivedSymbol(base.input, offset * factor + step * size, word))
            for offset, step in zip(base.offsets, moved, strict=True)
        )

    def _constant_start(self, view: View, base: Known, kind: Kind, size: int) -> Known | Runtime:
        """Elements for device memory, bytes below (readings, item 5)."""
        unit = self.unit
        is_global = unit.shared.architecture.is_global(kind)
        starts = base.values
        if unit.byte_addresses and is_global:
            for address in starts:
                if address % size:
                    raise LoweringError.at(
                        view.op.location, f"device address {address} is not a multiple of the element size"
                    )
            starts = tuple(address // size for address in starts)
        elif not is_global and not unit.byte_addresses:
            starts = tuple(start * size for start in starts)
        scale = 1 if is_global else size
        match view.offset:
            case None:
                return Known(starts)
            case Known(values):
                return Known(tuple(a + b * scale for a, b in zip(starts, values, strict=True)))
            case Runtime() as offset:
                value = offset.value
                if scale != 1:
                    value = unit.emit(arith.MulI.create((value, unit.shared.constant(scale)), (INDEX,)))
                total = arith.AddI.create((unit.known_value(Known(starts)), value), (INDEX,))
                return Runtime(unit.emit(total))

    # -- register file

    def register_memory(self, op: Operation) -> Kind:
        """The registers to which a device pattern mapped the operation, or the unit's private memory."""
        architecture = self.unit.shared.architecture
        mapped = op.attributes.get("ktdf_arch.maps_to")
        if isinstance(mapped, StringAttr) and architecture.is_memory(mapped.value):
            if not architecture.is_private(mapped.value):
                raise LoweringError.at(
                    op.location, f"'{op.name}' is mapped to '{mapped.value}', which is no register memory"
                )
            return mapped.value
        name = self.unit.kind.name
        for memory in architecture.memories:
            beside = any(u.kind == name for u in architecture.units_beside(memory))
            if beside and architecture.is_private(memory.kind):
                return memory.kind
        raise UnsupportedLowering.at(
            op.location,
            f"'{op.name}' has no vector instruction, and device '{architecture.name}' has no register memory "
            f"beside {name}",
        )

    def register_offsets(self, types: Sequence[VectorType], kind: Kind, op: Operation) -> list[int]:
        """Byte offsets for operands and result of an opaque operation, behind the buffers of the schedule."""
        base = self._buffers_end(kind)
        offsets = []
        for type in types:
            offsets.append(base)
            size = type.num_elements() * max(8, bit_width(type.element)) // 8
            base += math.ceil(size / REGISTER_ALIGNMENT) * REGISTER_ALIGNMENT
        try:
            capacity = self.unit.shared.architecture.memory(kind).size
        except ArchitectureError:
            capacity = None
        if capacity is not None and base > capacity:
            raise LoweringError.at(
                op.location, f"register memory '{kind_text(kind)}' needs {base} bytes but has {capacity}"
            )
        return offsets

    def _buffers_end(self, kind: Kind) -> int:
        end = 0
        for meaning in self.unit.meanings.values():
            if isinstance(meaning, Buffer) and self._kind(meaning.type.memory_space, meaning.op) == kind:
                size = meaning.type.num_elements() * -(-bit_width(meaning.type.element) // 8)
                end = max(end, max(meaning.start.values) + size)
        return math.ceil(end / REGISTER_ALIGNMENT) * REGISTER_ALIGNMENT

    def register(self, handle: GetUnit, offset: int, type: VectorType) -> Value:
        """A view of one vector in the register memory."""
        key = ("register", offset, type)
        if key not in self._views:
            view = GetLogicalMemoryView.of(
                handle.handles[0],
                self.unit.shared.constant(offset),
                AffineMap.identity(1),
                MemRefType((type.num_elements(),), type.element),
            )
            self.unit.head.append(view)
            self._views[key] = view.view
        return self._views[key]


def _moved(start: Known, elements: tuple[int, ...], element: Type) -> Known:
    """A byte address some elements further."""
    size = -(-bit_width(element) // 8)
    return Known(tuple(a + n * size for a, n in zip(start.values, elements, strict=True)))


def _base_problem(inputs: frozenset[int], local: bool) -> str:
    if len(inputs) > 1:
        return "start address is computed from more than one run input, so no single symbol stands for it"
    if local and inputs:
        return (
            "start address is computed from a run input and from a value that only exists while the program "
            "runs, so no symbol stands for it"
        )
    if inputs:
        return (
            "start address is computed from a run input by an operation whose definition cannot be "
            "written as a symbol expression"
        )
    return "start address is only known while the program runs"
