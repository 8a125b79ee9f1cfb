"""The pipeline of a slab: what is walked is moved in full, the compute stage holds the generics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from dfsched.architecture import kind_text
from dfsched.dialects.ktdf import (
    Cell,
    CreateToken,
    DataTransfer,
    FifoSlotType,
    Pipeline,
    Private,
    ReadFromFifo,
    Stage,
    WriteToFifo,
)
from dfsched.passes.build import Emitter
from dfsched.passes.errors import UnsupportedKernel
from dfsched.passes.generics import element_type, is_window
from dfsched.passes.ir_tools import clone_all
from dfsched.passes.loop_alignment import Axis
from dfsched.passes.memory_accesses import tile_of
from dfsched.passes.pipeline_parts import allocations, element_of
from dfsched.passes.reductions import combine_of
from dfsched.passes.slab_shapes import can_pad, elements_in_a_row
from dfsched.passes.subscripts import Subscripts
from dfsched.passes.tile_addresses import TileAddress, memory_attribute
from dfsched.passes.vector_lanes import REASSOCIATED, VECTOR, shift_indices
from ktir.affine import AffineExpr, AffineMap, Const, Dim, linear, simplify
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, ArrayAttr, DenseArrayAttr, IntegerAttr, StringAttr, UnitAttr
from ktir.dialects import ktdp, linalg, tensor
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.types import I64, INDEX, TensorType

if TYPE_CHECKING:
    from dfsched.passes.slab_nests import SlabNest

__all__ = ["Part", "SlabPipeline"]


@frozen
class Part:
    """A part of the space of the outer loops: offset and extent of the vector loop (None: no such loop)."""

    vector: Axis | None
    offset: int = 0
    extent: int = 0
    tile: int = 1


@frozen
class _Read:
    """One distinct box of a load that a pipeline brings in."""

    load: ktdp.Load
    cell: Cell
    shape: tuple[int, ...]
    address: TileAddress


@define(eq=False)
class SlabPipeline:
    """The pipeline of one part."""

    nest: SlabNest
    part: Part
    variables: dict[Axis, BlockArgument]
    reads: dict[tuple[object, ...], tuple[_Read, OpResult]] = field(factory=dict)

    def result(self) -> Pipeline:
        nest = self.nest
        unit = nest.architecture.compute_unit
        assert unit is not None
        compute = kind_text(unit.kind)
        operands = {
            (op, number): self._read(op, value, map)
            for op in nest.generics
            for number, (value, map) in enumerate(zip(op.inputs, op.maps, strict=False))
            if isinstance(nest.definitions.definer(value), ktdp.Load)
        }
        order = {op: position for position, op in enumerate(nest.group)}
        reads = sorted((read for read, _ in self.reads.values()), key=lambda read: order[read.load])
        inputs = [read.cell for read in reads]
        outputs = [self._store_cell(store) for store in nest.stores]
        slots = [
            OpResult(
                FifoSlotType(
                    memory_attribute(read.address.memory),
                    StringAttr(compute),
                    cell.num_elements,
                    element_of(cell.value),
                )
            )
            for read, cell in zip(reads, inputs, strict=True)
        ]
        for store, cell in zip(nest.stores, outputs, strict=True):
            memory = nest.addresses(tile_of(store, nest.definitions)).memory
            slots.append(
                OpResult(
                    FifoSlotType(
                        StringAttr(compute),
                        memory_attribute(memory),
                        cell.num_elements,
                        element_of(cell.value),
                    )
                )
            )
        tokens = [CreateToken.new() for _ in range(3)]
        private = Private.of([*allocations(slots), *tokens], [*slots, *(token.token for token in tokens)])
        resources = private.results
        first, second, third = resources[len(slots) :]
        loads = len(reads)
        load = [
            DataTransfer.between(cell, Cell(slot, None, (), cell.sizes), location=read.load.location)
            for read, cell, slot in zip(reads, inputs, resources, strict=False)
        ]
        store_transfers = [
            DataTransfer.between(Cell(slot, None, (), cell.sizes), cell, location=store.location)
            for store, cell, slot in zip(nest.stores, outputs, resources[loads : len(slots)], strict=True)
        ]
        computation = self._compute(
            dict(zip(reads, resources, strict=False)), resources[loads : len(slots)], operands
        )
        return Pipeline.of(
            [
                private,
                Stage.of([], [first], load),
                Stage.of([first], [second], computation, [compute]),
                Stage.of([second], [third], store_transfers),
            ]
        ).replace(location=nest.stores[0].location)

    # -- boxes

    def _tile(self, axis: Axis) -> int:
        return self.nest.tile(axis, self.part)

    def _start(self, op: linalg.Generic, expr: AffineExpr) -> tuple[AffineExpr, tuple[Value, ...]]:
        """The first element of an iteration: outer loops at their variables, walked ones at 0."""
        values: list[Value] = []
        dims: list[AffineExpr] = []
        for dim in range(len(op.iterators)):
            axis = (op, dim)
            if self.nest.alignment.is_outer(axis):
                dims.append(Dim(len(values)))
                values.append(self.variables[self.nest.alignment.root(axis)])
            else:
                dims.append(Const(0))
        return expr.replace(dims, ()), tuple(values)

    def _box(self, op: linalg.Generic, map: AffineMap) -> tuple[Subscripts, tuple[int, ...]]:
        """First element and extents of what an iteration reads or writes by a map."""
        exprs: list[AffineExpr] = []
        values: tuple[Value, ...] = ()
        for expr in map.results:
            start, values = self._start(op, expr)
            exprs.append(start)
        return Subscripts(tuple(exprs), values), self.shape(op, map)

    def shape(self, op: linalg.Generic, map: AffineMap) -> tuple[int, ...]:
        """Extents of the box that an iteration reads or writes by a map."""
        return tuple(self._extent(op, expr) for expr in map.results)

    def _extent(self, op: linalg.Generic, expr: AffineExpr) -> int:
        """Elements in a row that a subscript takes; `UnsupportedKernel` if it leaves some out."""
        flat = linear(expr)
        if flat is None or not flat.is_linear:
            raise UnsupportedKernel.at(
                op.location, f"an operand is read by the subscript {expr}, which is not linear"
            )
        extent = elements_in_a_row(flat, {dim: self._tile((op, dim)) for dim in expr.dims()})
        if extent is None:
            raise UnsupportedKernel.at(
                op.location, f"an operand is read by the subscript {expr}, which leaves out elements"
            )
        return extent

    def _read(self, op: linalg.Generic, value: Value, map: AffineMap) -> _Read:
        nest = self.nest
        load = nest.definitions.definer(value)
        assert isinstance(load, ktdp.Load)
        address = nest.addresses(tile_of(load, nest.definitions))
        inside, shape = self._box(op, map)
        cell = address.cell(inside, shape)
        key = (load, cell.map, cell.indices, shape)
        if key not in self.reads:
            self.reads[key] = (_Read(load, cell, shape, address), OpResult(INDEX))
        return self.reads[key][0]

    def _store_cell(self, store: ktdp.Store) -> Cell:
        nest = self.nest
        address = nest.addresses(tile_of(store, nest.definitions))
        inside, shape = self._box(*nest.stored(store))
        return address.cell(inside, shape)

    # -- the compute stage

    def _compute(
        self,
        slots: dict[_Read, Value],
        outputs: Sequence[Value],
        operands: dict[tuple[linalg.Generic, int], _Read],
    ) -> list[Operation]:
        nest = self.nest
        emitter = Emitter(nest.stores[0].location)
        tensors: dict[_Read, Value] = {}
        for read, slot in slots.items():
            type = TensorType(read.shape, element_of(read.address.memref))
            tensors[read] = emitter.add(ReadFromFifo.create([slot], [type], location=read.load.location))
        results: dict[Value, Value] = {}
        for op in nest.generics:
            inputs = [
                tensors[operands[op, number]]
                if (op, number) in operands
                else self._made(op, number, results, emitter)
                for number in range(len(op.inputs))
            ]
            results[op.results[0]] = self._local(op, inputs, results, emitter)
        for store, slot in zip(nest.stores, outputs, strict=True):
            data = results[nest.stored(store)[0].results[0]]
            collapse = nest.definitions.definer(store.data_tile)
            if isinstance(collapse, tensor.CollapseShape):
                data = self._collapsed(collapse, data, emitter)
            emitter.operations.append(WriteToFifo.create([data, slot], location=store.location))
        return emitter.operations

    def _made(
        self, op: linalg.Generic, number: int, results: Mapping[Value, Value], emitter: Emitter
    ) -> Value:
        """An input that is not loaded: a result of another generic, or a window."""
        value = op.inputs[number]
        window = self.nest.definitions.definer(value)
        if not is_window(window):
            return results[value]
        shape = self.shape(op, op.maps[number])
        type = TensorType(shape, element_type(value))
        return emitter.add(tensor.Empty.create((), [type], location=op.location))

    def _collapsed(self, op: tensor.CollapseShape, data: Value, emitter: Emitter) -> Value:
        """The slab of a result in the shape that is stored."""
        type = data.type
        assert isinstance(type, TensorType)
        shape = type.static_shape()
        extents = [
            math.prod(shape[entry.value] for entry in group if isinstance(entry, IntegerAttr))
            for group in op.reassociation
            if isinstance(group, ArrayAttr)
        ]
        result = TensorType(tuple(extents), type.element)
        new = tensor.CollapseShape.create([data], [result], op.attributes, location=op.location)
        return emitter.add(new)

    def _local(
        self, op: linalg.Generic, inputs: Sequence[Value], results: dict[Value, Value], emitter: Emitter
    ) -> Value:
        """The generic on the slab of one iteration."""
        nest = self.nest
        maps = [
            *(
                self._local_map(op, map, isinstance(nest.definitions.definer(value), ktdp.Load))
                for value, map in zip(op.inputs, op.maps, strict=False)
            ),
            op.maps[-1],
        ]
        out = op.outputs[0]
        if out in results:
            initial = results[out]
        else:
            type = op.results[0].type
            assert isinstance(type, TensorType)
            shape = self.shape(op, op.maps[-1])
            initial = emitter.add(
                tensor.Empty.create((), [TensorType(shape, type.element)], location=op.location)
            )
        bases = {
            dim: self.variables[nest.alignment.root((op, dim))]
            for dim in range(len(op.iterators))
            if nest.alignment.is_outer((op, dim))
        }
        attributes: dict[str, Attribute] = {
            **op.attributes,
            "indexing_maps": ArrayAttr(tuple(AffineMapAttr(map) for map in maps)),
            **self._vector(op, maps, inputs),
        }
        mapping: dict[Value, Value] = {}
        block = op.body.block
        arguments = tuple(BlockArgument(a.type, a.name, a.location) for a in block.arguments)
        mapping.update(zip(block.arguments, arguments, strict=True))
        operations = clone_all(shift_indices(block.operations, bases, emitter), mapping)
        generic = linalg.Generic.create(
            [*inputs, initial],
            [initial.type],
            attributes,
            [Region.of(operations, arguments)],
            location=op.location,
        )
        return emitter.add(generic)

    def _local_map(self, op: linalg.Generic, map: AffineMap, is_loaded: bool) -> AffineMap:
        """Subscripts within what an iteration holds: a box from where the map starts, or a whole result."""
        dims: list[AffineExpr] = [
            Const(0) if self._tile((op, dim)) == 1 else Dim(dim) for dim in range(len(op.iterators))
        ]
        exprs: list[AffineExpr] = []
        for expr in map.results:
            if isinstance(expr, Dim):
                exprs.append(expr)
                continue
            start = expr.replace([Const(0)] * len(dims), ()) if is_loaded else Const(0)
            exprs.append(simplify(expr.replace(dims, ()) - start))
        return AffineMap(map.num_dims, 0, tuple(exprs))

    def _vector(
        self, op: linalg.Generic, maps: Sequence[AffineMap], inputs: Sequence[Value]
    ) -> dict[str, Attribute]:
        """Along which loop the generic is computed in vectors, and of how many lanes."""
        tiles = [self._tile((op, dim)) for dim in range(len(op.iterators))]
        dim = self._vector_dim(op, maps, inputs, tiles)
        if dim is None:
            return {VECTOR: DenseArrayAttr(I64, (-1, 1))}
        lanes = min(tiles[dim], self.nest.lanes)
        found: dict[str, Attribute] = {}
        if op.iterators[dim] == "reduction":
            combine = combine_of(op)
            assert combine is not None
            if combine.depends_on_order:
                found[REASSOCIATED] = UnitAttr()
            if tiles[dim] % lanes and not can_pad(op, lanes, self.nest.architecture):
                lanes = max(n for n in range(1, lanes + 1) if tiles[dim] % n == 0)
        found[VECTOR] = DenseArrayAttr(I64, (dim, lanes))
        return found

    def _vector_dim(
        self,
        op: linalg.Generic,
        maps: Sequence[AffineMap],
        inputs: Sequence[Value],
        tiles: Sequence[int],
    ) -> int | None:
        may_split = combine_of(op) is not None
        usable = [
            dim
            for dim, tile in enumerate(tiles)
            if tile > 1
            and (op.iterators[dim] == "parallel" or may_split)
            and (self.nest.lanes == 1 or not self._goes_in_steps(op, maps, dim))
        ]
        best: tuple[int, int] | None = None
        for old, value, map in zip(op.inputs, inputs, maps, strict=False):
            if is_window(self.nest.definitions.definer(old)):
                continue
            type = value.type
            assert isinstance(type, TensorType)
            innermost = next(
                (
                    expr
                    for expr, n in reversed(list(zip(map.results, type.static_shape(), strict=True)))
                    if n > 1
                ),
                None,
            )
            if isinstance(innermost, Dim) and innermost.position in usable:
                candidate = type.num_elements(), innermost.position
                best = candidate if best is None or candidate[0] > best[0] else best
        if best is not None:
            return best[1]
        return usable[-1] if usable else None

    def _goes_in_steps(self, op: linalg.Generic, maps: Sequence[AffineMap], dim: int) -> bool:
        """Whether the elements of a vector along a loop do not lie side by side in something that is moved.

        ``d0 * 3 + d1`` goes in steps of 3 along ``d0``, whatever the tensor's layout is.
        """
        nest = self.nest
        moved = [*maps, *(out for made, out in map(nest.stored, nest.stores) if made is op)]
        start = nest.definitions.definer(op.outputs[0])
        if isinstance(start, linalg.Generic):
            moved += [inner.compose(op.maps[-1]) for inner in start.maps[: len(start.inputs)]]
        for subscripts in moved:
            for expr in subscripts.results:
                if isinstance(expr, Dim) or dim not in expr.dims():
                    continue
                flat = linear(expr)
                if flat is None or not flat.is_linear or flat.coefficient(Dim(dim)) != 1:
                    return True
        return False
