"""Compute groups with reductions: one pipeline whose compute stage holds a slab (readings, item 14).

A group of generics that feed each other has dimensions of two kinds. *Outer* dimensions are parallel in
every generic of the group and all generics have them; they become loops around the pipeline. All others
(what any generic reduces, and what some generic lacks) are *walked*: the pipeline moves them in full, so
the compute stage holds a slab and computes every generic on it, in order. Data is loaded once however
often the generics read it. `reduction-loop-exposure` later walks the slab in vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture, kind_text
from dfsched.dialects.ktdf import (
    Cell,
    CreateToken,
    DataTransfer,
    FifoSlotType,
    LoopKind,
    Pipeline,
    Private,
    ReadFromFifo,
    Stage,
    WriteToFifo,
)
from dfsched.passes import build
from dfsched.passes.base import PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import UnsupportedKernel
from dfsched.passes.generics import loop_extents
from dfsched.passes.ir_tools import Definitions, clone_all
from dfsched.passes.memory_accesses import are_disjoint, may_alias, tile_of
from dfsched.passes.pipeline_parts import allocations, element_of, place_of, scalar_types
from dfsched.passes.reductions import combine_of
from dfsched.passes.subscripts import Subscripts
from dfsched.passes.tile_addresses import TileAddress, TileAddresses, memory_attribute
from dfsched.passes.vector_lanes import REASSOCIATED, VECTOR, shift_indices
from ktir.affine import AffineExpr, AffineMap, Const, Dim, linear, simplify
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, ArrayAttr, DenseArrayAttr, IntegerAttr, StringAttr, UnitAttr
from ktir.dialects import arith, ktdp, linalg, tensor
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.types import I1, I64, INDEX, TensorType

__all__ = ["is_slab_group", "slab_nests"]

Axis = tuple[linalg.Generic, int]
"""A loop of a generic."""


def generics_of(group: Sequence[Operation]) -> list[linalg.Generic]:
    """The generics of a group, in order."""
    return [op for op in group if isinstance(op, linalg.Generic)]


def is_slab_group(group: Sequence[Operation], definitions: Definitions) -> bool:
    """Whether a group needs a slab.

    Its generics feed each other, reduce, have different shapes, or read by subscripts that are computed.
    """
    generics = generics_of(group)
    if any("reduction" in op.iterators for op in generics):
        return True
    if any(isinstance(op, tensor.CollapseShape) for op in group):
        return True
    if any(not isinstance(e, Dim | Const) for op in generics for map in op.maps for e in map.results):
        return True
    shapes = {tuple(sorted(loop_extents(op).items())) for op in generics}
    return len(shapes) > 1 or any(
        isinstance(definitions.definer(value), linalg.Generic) for op in generics for value in op.inputs
    )


def slab_nests(
    group: Sequence[Operation], definitions: Definitions, addresses: TileAddresses, context: PassContext
) -> list[Operation]:
    """The nests of one group (addresses are emitted in front)."""
    nest = _SlabNest(group, definitions, addresses, context)
    nest.check_hazards()
    for part in nest.parts():
        nest.build(part)
    return addresses.emitter.operations


# -- which loops are the same ------------------------------------------------------------------------------


@define(eq=False)
class Alignment:
    """Loops of different generics that run over the same thing, as classes; each has a representative."""

    generics: Sequence[linalg.Generic]
    definitions: Definitions
    parents: dict[Axis, Axis] = field(factory=dict)
    walked: set[Axis] = field(factory=set)

    @classmethod
    def of(cls, generics: Sequence[linalg.Generic], definitions: Definitions) -> Alignment:
        """Align by results that are read, then by loads that are shared where this merges no two loops of one
        generic."""
        found = cls(generics, definitions)
        for op in generics:
            for dim in range(len(op.iterators)):
                found.parents[op, dim] = (op, dim)
        for op in generics:
            for value, map in zip((*op.inputs, *op.outputs), op.maps, strict=True):
                producer = definitions.definer(value)
                if isinstance(producer, linalg.Generic) and producer in generics:
                    found._feed(producer, op, map)
        known: dict[tuple[Value, int], list[Axis]] = {}
        for op in generics:
            for value, map in zip(op.inputs, op.maps, strict=False):
                for position, expr in enumerate(map.results):
                    if isinstance(expr, Dim):
                        known.setdefault((value, position), []).append((op, expr.position))
        for axes in known.values():
            for axis in axes[1:]:
                if not found._clash(axes[0], axis):
                    found._unite(axes[0], axis)
        found._classify()
        return found

    def root(self, axis: Axis) -> Axis:
        """The representative of a loop's class."""
        while self.parents[axis] != axis:
            axis = self.parents[axis]
        return axis

    def is_outer(self, axis: Axis) -> bool:
        return self.root(axis) not in self.walked

    def _unite(self, a: Axis, b: Axis) -> None:
        a, b = self.root(a), self.root(b)
        if a == b:
            return
        if b in self.walked:
            self.walked.add(a)
        self.parents[b] = a

    def _members(self, axis: Axis) -> list[Axis]:
        root = self.root(axis)
        return [other for other in self.parents if self.root(other) == root]

    def _clash(self, a: Axis, b: Axis) -> bool:
        if self.root(a) == self.root(b):
            return False
        mine = {op for op, _ in self._members(a)}
        return any(op in mine for op, _ in self._members(b))

    def _feed(self, producer: linalg.Generic, user: linalg.Generic, map: AffineMap) -> None:
        out = producer.maps[-1]
        for made, read in zip(out.results, map.results, strict=True):
            assert isinstance(made, Dim)
            if isinstance(read, Dim):
                self._unite((producer, made.position), (user, read.position))
            else:
                self.walked.add(self.root((producer, made.position)))
                for dim in read.dims():
                    self.walked.add(self.root((user, dim)))

    def _classify(self) -> None:
        self.walked = {self.root(axis) for axis in self.walked}
        for axis in list(self.parents):
            members = self._members(axis)
            owners = [op for op, _ in members]
            reduced = any(op.iterators[dim] != "parallel" for op, dim in members)
            if reduced or len(set(owners)) != len(owners) or len(owners) != len(self.generics):
                self.walked.add(self.root(axis))


# -- nests ----------------------------------------------------------------------------------------------


@frozen
class _Part:
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
class _SlabNest:
    """One group, analysed."""

    group: Sequence[Operation]
    definitions: Definitions
    addresses: TileAddresses
    context: PassContext
    generics: list[linalg.Generic] = field(init=False)
    stores: list[ktdp.Store] = field(init=False)
    alignment: Alignment = field(init=False)
    extents: dict[linalg.Generic, dict[int, int]] = field(init=False)
    lanes: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.generics = generics_of(self.group)
        self.stores = [op for op in self.group if isinstance(op, ktdp.Store)]
        self.extents = {op: loop_extents(op) for op in self.generics}
        self.alignment = Alignment.of(self.generics, self.definitions)
        for op in self.generics:
            for value in op.inputs:
                if not isinstance(self.definitions.definer(value), ktdp.Load | linalg.Generic):
                    raise UnsupportedKernel.at(op.location, "an input of the fused computation is not a load")
        self.lanes = self._lanes()

    @property
    def emitter(self) -> Emitter:
        return self.addresses.emitter

    @property
    def architecture(self) -> Architecture:
        return self.context.architecture

    def _lanes(self) -> int:
        unit = self.architecture.compute_unit
        assert unit is not None
        types = dict.fromkeys(type for op in self.generics for type in scalar_types(op))
        for type in types:
            if self.architecture.lanes(type) == 0:
                raise UnsupportedKernel.at(
                    self.generics[0].location, f"{kind_text(unit.kind)} does not compute on {type}"
                )
        return self.architecture.vector_length(types)

    # -- hazards

    def check_hazards(self) -> None:
        """A slab is loaded before it is stored; slabs come one after another in the order of the loops."""
        order = {op: position for position, op in enumerate(self.group)}
        for number, store in enumerate(self.stores):
            written = place_of(store, self.definitions)
            generic, out = self.stored(store)
            for op in self.generics:
                for value, map in zip(op.inputs, op.maps, strict=False):
                    load = self.definitions.definer(value)
                    if not isinstance(load, ktdp.Load):
                        continue
                    read = place_of(load, self.definitions)
                    if not may_alias(read.root, written.root) or are_disjoint(load, store, self.definitions):
                        continue
                    if order[load] > order[store]:
                        raise UnsupportedKernel.at(
                            load.location, "the compute group loads memory that it has stored to before"
                        )
                    if (
                        read.access != written.access
                        or written.overlaps
                        or not self._same_slabs(op, map, generic, out)
                    ):
                        raise UnsupportedKernel.at(
                            store.location,
                            "the compute group overwrites memory that it also reads in another order",
                        )
            for other in self.stores[:number]:
                a = place_of(other, self.definitions)
                apart = are_disjoint(other, store, self.definitions)
                if may_alias(a.root, written.root) and a.access != written.access and not apart:
                    raise UnsupportedKernel.at(store.location, "two stores of one compute group overlap")

    def _same_slabs(self, op: linalg.Generic, map: AffineMap, stored: linalg.Generic, out: AffineMap) -> bool:
        """Whether reading by `map` takes an element from the slab that `stored` later writes it in."""
        for written, read in zip(out.results, map.results, strict=True):
            if not isinstance(written, Dim):
                return False
            axis = (stored, written.position)
            if not self.alignment.is_outer(axis):
                continue
            same = isinstance(read, Dim) and self.alignment.root((op, read.position)) == self.alignment.root(
                axis
            )
            if not same:
                return False
        return True

    def stored(self, store: ktdp.Store) -> tuple[linalg.Generic, AffineMap]:
        """The generic whose result is stored, and where the elements of its loops go in the tile."""
        definer = self.definitions.definer(store.data_tile)
        if isinstance(definer, tensor.CollapseShape):
            generic = self.definitions.definer(definer.operands[0])
        else:
            generic = definer
        if not isinstance(generic, linalg.Generic):
            raise UnsupportedKernel.at(
                store.location, "the stored value is not computed by one element-wise operation after fusion"
            )
        out = generic.maps[-1]
        if isinstance(definer, tensor.CollapseShape):
            out = collapsed(definer, out)
        return generic, out

    # -- which vectors

    def parts(self) -> Iterator[_Part]:
        """Parts with full and with short vectors along an outer loop, if vectors lie along one."""
        vector = self._outer_vector()
        if vector is None:
            yield _Part(None)
            return
        extent = self.extents[vector[0]][vector[1]]
        full = extent // self.lanes * self.lanes
        if full:
            yield _Part(vector, 0, full, self.lanes)
        if extent != full:
            yield _Part(vector, full, extent - full, extent - full)

    def _outer_vector(self) -> Axis | None:
        """The outer loop along which memory is contiguous, if that is an outer one."""
        best: tuple[int, Axis] | None = None
        stored = {self.stored(store)[0].results[0] for store in self.stores}
        for op in self.generics:
            values = [*op.inputs, *(result for result in op.results if result in stored)]
            maps = [*op.maps[: len(op.inputs)], *op.maps[-1:]]
            for value, map in zip(values, maps, strict=False):
                is_load = isinstance(self.definitions.definer(value), ktdp.Load)
                if not (is_load or value in stored) or not map.results:
                    continue
                type = value.type
                assert isinstance(type, TensorType)
                last = map.results[-1]
                if isinstance(last, Dim) and (best is None or type.num_elements() > best[0]):
                    best = type.num_elements(), (op, last.position)
        if best is None:
            return None
        axis = best[1]
        wide = self.extents[axis[0]][axis[1]] > 1
        return axis if wide and self.alignment.is_outer(axis) else None

    # -- construction

    def build(self, part: _Part) -> None:
        """Emit the loops and the pipeline of one part."""
        lead, _ = self.stored(self.stores[-1])
        dims = [dim for dim in range(len(lead.iterators)) if self.alignment.is_outer((lead, dim))]
        variables = {self.alignment.root((lead, dim)): BlockArgument(INDEX) for dim in dims}
        body: list[Operation] = [_SlabPipeline(self, part, variables).result()]
        for dim in reversed(dims):
            root = self.alignment.root((lead, dim))
            is_vector = part.vector is not None and self.alignment.root(part.vector) == root
            low = part.offset if is_vector else 0
            high = low + (part.extent if is_vector else self.extents[lead][dim])
            step = part.tile if is_vector else 1
            bounds = (self.emitter.constant(low), self.emitter.constant(high), self.emitter.constant(step))
            body = [build.for_loop(bounds, variables[root], body, LoopKind.PARALLEL, lead.location)]
        self.emitter.operations += body


@define(eq=False)
class _SlabPipeline:
    """The pipeline of one part."""

    nest: _SlabNest
    part: _Part
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
        """Elements of a loop that one pipeline iteration holds."""
        nest = self.nest
        if not nest.alignment.is_outer(axis):
            return nest.extents[axis[0]][axis[1]]
        vector = self.part.vector
        same = vector is not None and nest.alignment.root(vector) == nest.alignment.root(axis)
        return self.part.tile if same else 1

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
        shape = tuple(self._extent(op, expr) for expr in map.results)
        return Subscripts(tuple(exprs), values), shape

    def _extent(self, op: linalg.Generic, expr: AffineExpr) -> int:
        """Elements in a row that a subscript takes; `UnsupportedKernel` if it leaves some out."""
        flat = linear(expr)
        if flat is None or not flat.is_linear:
            raise UnsupportedKernel.at(
                op.location, f"an operand is read by the subscript {expr}, which is not linear"
            )
        wide = sorted(
            (flat.coefficient(Dim(dim)), self._tile((op, dim)))
            for dim in expr.dims()
            if self._tile((op, dim)) > 1
        )
        extent = 1
        for coefficient, tile in wide:
            if coefficient != extent:
                raise UnsupportedKernel.at(
                    op.location, f"an operand is read by the subscript {expr}, which leaves out elements"
                )
            extent *= tile
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
                tensors[operands[op, number]] if (op, number) in operands else results[value]
                for number, value in enumerate(op.inputs)
            ]
            results[op.results[0]] = self._local(op, inputs, results, emitter)
        for store, slot in zip(nest.stores, outputs, strict=True):
            data = results[nest.stored(store)[0].results[0]]
            collapse = nest.definitions.definer(store.data_tile)
            if isinstance(collapse, tensor.CollapseShape):
                data = self._collapsed(collapse, data, emitter)
            emitter.operations.append(WriteToFifo.create([data, slot], location=store.location))
        return emitter.operations

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
            *(self._local_map(op, map) for map in op.maps[: len(op.inputs)]),
            op.maps[-1],
        ]
        out = op.outputs[0]
        if out in results:
            initial = results[out]
        else:
            type = op.results[0].type
            assert isinstance(type, TensorType)
            shape = tuple(self._extent(op, expr) for expr in op.maps[-1].results)
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

    def _local_map(self, op: linalg.Generic, map: AffineMap) -> AffineMap:
        """Subscripts within what an iteration holds."""
        dims: list[AffineExpr] = [
            Const(0) if self._tile((op, dim)) == 1 else Dim(dim) for dim in range(len(op.iterators))
        ]
        exprs: list[AffineExpr] = []
        for expr in map.results:
            if isinstance(expr, Dim):
                exprs.append(expr)
                continue
            start = expr.replace([Const(0)] * len(dims), ())
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
            if tile > 1 and (op.iterators[dim] == "parallel" or may_split)
        ]
        best: tuple[int, int] | None = None
        for value, map in zip(inputs, maps, strict=False):
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


def can_pad(op: linalg.Generic, lanes: int, architecture: Architecture) -> bool:
    """Whether the last vector of a reduction may have lanes that hold zeros and are left out afterwards.

    The units that feed the compute unit must fill up with zeros, it must select by masks of so many
    lanes, and the body must have no operation that zeros are not allowed in.
    """
    if architecture.lanes(I1) < lanes or any(isinstance(inner, _TRAPS) for inner in op.body.block.operations):
        return False
    unit = architecture.compute_unit
    assert unit is not None
    feeders = [
        other
        for other in architecture.units
        if other.features.load is not None and architecture.link(other, unit) is not None
    ]
    return bool(feeders) and all(f.features.simd is not None and f.features.simd.zero_pad for f in feeders)


_TRAPS = (
    arith.DivSI,
    arith.DivUI,
    arith.RemSI,
    arith.RemUI,
    arith.FloorDivSI,
    arith.CeilDivSI,
    arith.CeilDivUI,
)
"""Operations without a result for some operands."""


def collapsed(op: tensor.CollapseShape, map: AffineMap) -> AffineMap:
    """Where the elements of a map's loops go when dimensions of the result are collapsed."""
    type = op.operands[0].type
    assert isinstance(type, TensorType)
    shape = type.static_shape()
    exprs: list[AffineExpr] = []
    for group in op.reassociation:
        assert isinstance(group, ArrayAttr)
        dims = [entry.value for entry in group if isinstance(entry, IntegerAttr)]
        total: AffineExpr = Const(0)
        for position, dim in enumerate(dims):
            total = total + map.results[dim] * math.prod(shape[d] for d in dims[position + 1 :])
        exprs.append(simplify(total))
    return AffineMap(map.num_dims, 0, tuple(exprs))
