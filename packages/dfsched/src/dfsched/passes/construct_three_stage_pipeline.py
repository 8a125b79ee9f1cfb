"""`construct-three-stage-pipeline`: loops over vectors around load, compute and store (scheduler spec 3.4).

Takes programs in which every stored value is one element-wise `linalg.generic` over loads (what
`fuse-linalg` leaves). For each compute group the iteration space is cut into boxes of vectors
(`vector_tiling`); each box becomes a nest of `scf.for` with ``loop_type = parallel_loop`` and one
pipeline of three stages in its innermost body: transfers into queues to the compute unit, the generics
on one vector, transfers out of queues. All stores of a group share the pipeline, all its operands are
read once per vector. Access tiles become memrefs (`tile_addresses`); no `ktdp.load`, `ktdp.store` or
access tile is left.

Before::

    %x = ktdp.load %tx : <8x256xindex> -> tensor<8x256xf16>
    %z = linalg.generic {...} ins(%x, %y ...) ... { arith.mulf ... }
    ktdp.store %z, %tz : tensor<8x256xf16>, <8x256xindex>

After (64 lanes)::

    scf.for %i = %c0 to %c8 step %c1 { scf.for %j = %c0 to %c256 step %c64 {
      ktdf.pipeline {
        %v:6 = ktdf.private -> (slots "DDR" -> "SFU", a slot "SFU" -> "DDR", three tokens) { ... }
        ktdf.stage depends_in(none) depends_out(%v#3) {
          ktdf.data_transfer from %x[%i, %j] size [1, 64] to %v#0 size [1, 64] ...
        }
        ktdf.stage depends_in(%v#3) depends_out(%v#4) { read; generic; write } {applicable_units = ["SFU"]}
        ktdf.stage depends_in(%v#4) depends_out(%v#5) {
          ktdf.data_transfer from %v#2 size [1, 64] to %z[%i, %j] size [1, 64] ...
        }
      }
    } {loop_type = ...} } {loop_type = ...}

>>> from dfsched.passes.examples import after, kernel
>>> after("construct-three-stage-pipeline", kernel(),
... r"scf.for|ktdf.stage|arith.addf")
scf.for %arg0 = %c0 to %c2 step %c1 {
scf.for %arg1 = %c0 to %c256 step %c64 {
ktdf.stage depends_in(none) depends_out(%2#2) {
ktdf.stage depends_in(%2#2) depends_out(%2#3) {
%6 = arith.addf %in, %in : f16
ktdf.stage depends_in(%2#3) depends_out(%2#4) {
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import define, frozen

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
from dfsched.options import Profile
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.compute_groups import check_order, compute_groups
from dfsched.passes.errors import Findings, ScheduleError, UnsupportedKernel
from dfsched.passes.ir_tools import Definitions, clone_all
from dfsched.passes.memory_accesses import are_disjoint, may_alias, overwritten, tile_of
from dfsched.passes.pinned_ranges import counts_bytes
from dfsched.passes.pipeline_parts import allocations, element_of, place_of, scalar_types
from dfsched.passes.slab_nests import is_slab_group, slab_nests
from dfsched.passes.subscripts import Subscripts
from dfsched.passes.tile_addresses import TileAddress, TileAddresses, memory_attribute
from dfsched.passes.vector_lanes import check_lanes, shift_indices
from dfsched.vector_tiling import Box, reference_tile, vector_boxes
from ktir.affine import AffineMap, Const, Dim
from ktir.attributes import AffineMapAttr, ArrayAttr, StringAttr
from ktir.dialects import func, ktdp, linalg, scf, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.location import Location
from ktir.transforms import dce
from ktir.types import INDEX, TensorType

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Build the pipelines of every function, nested modules included."""
    unit = context.architecture.compute_unit
    if unit is None:
        raise ScheduleError.at(module.location, "the device has no single compute unit kind")
    if not isinstance(unit.kind, str):
        raise ScheduleError.at(
            module.location,
            f"the compute unit has the kind {kind_text(unit.kind)}; stages name units by strings",
        )
    findings = Findings()
    new = _in_module(module, context, counts_bytes(module), findings)
    findings.check()
    pruned = dce(new)
    assert isinstance(pruned, Module)
    return pruned


PASS = Pass(
    "construct-three-stage-pipeline",
    Group.FRONTEND,
    run,
    "tile compute to vectors and wrap it in load, compute and store stages",
)


def _in_module(module: Module, context: PassContext, byte_addresses: bool, findings: Findings) -> Module:
    operations: list[Operation] = []
    for op in module.operations:
        match op:
            case Module():
                operations.append(_in_module(op, context, byte_addresses, findings))
            case func.Func() if not op.is_declaration:
                build = partial(_in_function, context=context, byte_addresses=byte_addresses)
                operations.append(findings.attempt(build, op))
            case _:
                operations.append(op)
    return module.with_operations(tuple(operations))


def _in_function(function: func.Func, context: PassContext, byte_addresses: bool) -> func.Func:
    store = next((op for op in function.walk() if isinstance(op, ktdp.Store)), None)
    if store is None:
        return function
    _check_links(context.architecture, store.location)
    builder = _Builder(Definitions(function), context, byte_addresses)
    block = function.body.block
    operations = builder.block(block.operations)
    return function.replace(regions=[Region((block.replace(operations=operations),))])


def _check_links(architecture: Architecture, location: Location) -> None:
    """The compute unit must get and give whole vectors through ordered queues (scheduler spec 3.4 step 4)."""
    unit = architecture.compute_unit
    assert unit is not None
    name = kind_text(unit.kind)
    beats: list[int] = []
    for links, side in (
        (architecture.links_to(unit), "incoming"),
        (architecture.links_from(unit), "outgoing"),
    ):
        if not links:
            raise ScheduleError.at(location, f"the compute unit {name} has no {side} link")
        for link in links:
            if not link.ordered_queue:
                raise ScheduleError.at(location, f"the {side} link of {name} is no ordered queue")
            if not link.granularity:
                raise ScheduleError.at(location, f"the {side} link of {name} has no transfer granularity")
        beats.append(max(max(link.granularity or (0,)) for link in links))
    if beats[0] != beats[1]:
        raise ScheduleError.at(
            location,
            f"the largest transfer granularities into and out of {name} differ: {beats[0]} and {beats[1]}",
        )


@frozen
class _Operand:
    """One distinct way in which a group reads a load: the subscript map of the generics' input."""

    load: ktdp.Load
    map: AffineMap
    address: TileAddress


@frozen
class _Output:
    """A store with the generic that computes its value."""

    store: ktdp.Store
    generic: linalg.Generic
    address: TileAddress


@define(eq=False)
class _Nest:
    """One group, ready to be built box by box."""

    operands: list[_Operand]
    outputs: list[_Output]
    extents: tuple[int, ...]
    lanes: int
    location: Location


@define(eq=False)
class _Builder:
    """Rebuilds the blocks of one function."""

    definitions: Definitions
    context: PassContext
    byte_addresses: bool

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        """Replace every compute group of a block by its nests, in the place of its last store."""
        nests: dict[Operation, list[Operation]] = {}
        members: set[Operation] = set()
        groups = compute_groups(operations, self.definitions)
        check_order(operations, groups, -1, self.definitions)
        for group in groups:
            members.update(group)
            nests[group[-1]] = self._nests(group)
        result: list[Operation] = []
        for op in operations:
            if op in nests:
                result += nests[op]
            elif op not in members:
                result.append(self._control(op))
        return result

    def _control(self, op: Operation) -> Operation:
        if not isinstance(op, scf.For | scf.If):
            return op
        regions = [
            Region(tuple(b.replace(operations=self.block(b.operations)) for b in region.blocks))
            for region in op.regions
        ]
        return op.replace(regions=regions)

    # -- analysis

    def _nests(self, group: Sequence[Operation]) -> list[Operation]:
        emitter = Emitter(group[0].location)
        addresses = TileAddresses(self.definitions, self.context, emitter, self.byte_addresses)
        if is_slab_group(group, self.definitions):
            return slab_nests(group, self.definitions, addresses, self.context)
        nest = self._analyse(group, addresses)
        self._check_hazards(nest, group)
        for box in self._boxes(nest):
            self._nest(nest, box, emitter)
        return emitter.operations

    def _analyse(self, group: Sequence[Operation], addresses: TileAddresses) -> _Nest:
        stores = [op for op in group if isinstance(op, ktdp.Store)]
        outputs = [
            _Output(store, self._generic(store), addresses(tile_of(store, self.definitions)))
            for store in stores
        ]
        extents = outputs[0].address.shape
        for output in outputs[1:]:
            if output.address.shape != extents:
                raise UnsupportedKernel.at(
                    output.store.location,
                    f"stores of different shapes in one compute group: {list(extents)} and "
                    f"{list(output.address.shape)}",
                )
        operands: dict[tuple[Operation, AffineMap], _Operand] = {}
        order = {op: position for position, op in enumerate(group)}
        for output in outputs:
            for value, map in _inputs(output.generic):
                load = self.definitions.definer(value)
                if not isinstance(load, ktdp.Load):
                    raise UnsupportedKernel.at(
                        output.generic.location, "an input of the fused computation is not a load"
                    )
                _check_map(load, map)
                if (load, map) not in operands:
                    operands[load, map] = _Operand(load, map, addresses(tile_of(load, self.definitions)))
        ordered = sorted(operands.values(), key=lambda operand: order[operand.load])
        types = dict.fromkeys(t for output in outputs for t in scalar_types(output.generic))
        check_lanes(types, self.context.architecture, outputs[0].generic.location)
        lanes = self.context.architecture.vector_length(types)
        return _Nest(ordered, outputs, extents, lanes, stores[0].location)

    def _generic(self, store: ktdp.Store) -> linalg.Generic:
        generic = self.definitions.definer(store.data_tile)
        if not isinstance(generic, linalg.Generic):
            raise UnsupportedKernel.at(
                store.location, "the stored value is not computed by one element-wise operation after fusion"
            )
        if any(kind != "parallel" for kind in generic.iterators):
            raise UnsupportedKernel.at(generic.location, "reductions are not supported")
        if not generic.maps[-1].is_identity or len(generic.results) != 1:
            raise UnsupportedKernel.at(
                generic.location, "only one result with an identity map is supported after fusion"
            )
        return generic

    def _check_hazards(self, nest: _Nest, group: Sequence[Operation]) -> None:
        """Vectors are loaded while others are already stored: what is read and written must be the same, and
        read first (every vector is loaded before the results at its place are stored)."""
        order = {op: position for position, op in enumerate(group)}
        for output in nest.outputs:
            written = place_of(output.store, self.definitions)
            for operand in nest.operands:
                read = place_of(operand.load, self.definitions)
                if not may_alias(read.root, written.root) or are_disjoint(
                    operand.load, output.store, self.definitions
                ):
                    continue
                if order[operand.load] > order[output.store]:
                    raise UnsupportedKernel.at(
                        operand.load.location, "the compute group loads memory that it has stored to before"
                    )
                same = _is_in_place(operand.map, nest.extents)
                if read.access != written.access or not same or written.overlaps:
                    raise overwritten(operand.load, output.store)
        for position, output in enumerate(nest.outputs):
            for other in nest.outputs[:position]:
                a, b = place_of(other.store, self.definitions), place_of(output.store, self.definitions)
                apart = are_disjoint(other.store, output.store, self.definitions)
                if may_alias(a.root, b.root) and a.access != b.access and not apart:
                    raise UnsupportedKernel.at(
                        output.store.location, "two stores of one compute group overlap"
                    )

    def _boxes(self, nest: _Nest) -> tuple[Box, ...]:
        if self.context.options.profile is Profile.V1:
            zeros = (0,) * len(nest.extents)
            return (Box(zeros, nest.extents, reference_tile(nest.extents, nest.lanes)),)
        dims = [_dims(operand.map) for operand in nest.operands]
        return vector_boxes(nest.extents, nest.lanes, dims)

    # -- construction

    def _nest(self, nest: _Nest, box: Box, emitter: Emitter) -> None:
        variables = [BlockArgument(INDEX) for _ in box.extents]
        body: list[Operation] = [self._pipeline(nest, box, variables)]
        for dim in reversed(range(len(box.extents))):
            bounds = (
                emitter.constant(box.offsets[dim]),
                emitter.constant(box.offsets[dim] + box.extents[dim]),
                emitter.constant(box.tile[dim]),
            )
            body = [build.for_loop(bounds, variables[dim], body, LoopKind.PARALLEL, nest.location)]
        emitter.operations += body

    def _pipeline(self, nest: _Nest, box: Box, variables: Sequence[Value]) -> Pipeline:
        unit = self.context.architecture.compute_unit
        assert unit is not None
        compute = kind_text(unit.kind)
        slots: list[OpResult] = []
        cells: list[Cell] = []
        for operand in nest.operands:
            cell = _cell(operand.address, operand.map, box, variables)
            cells.append(cell)
            slots.append(
                OpResult(
                    FifoSlotType(
                        memory_attribute(operand.address.memory),
                        StringAttr(compute),
                        cell.num_elements,
                        element_of(operand.address.memref),
                    )
                )
            )
        for output in nest.outputs:
            identity = AffineMap.identity(len(box.extents))
            cell = _cell(output.address, identity, box, variables)
            cells.append(cell)
            slots.append(
                OpResult(
                    FifoSlotType(
                        StringAttr(compute),
                        memory_attribute(output.address.memory),
                        cell.num_elements,
                        element_of(output.address.memref),
                    )
                )
            )
        tokens = [CreateToken.new() for _ in range(3)]
        private = Private.of([*allocations(slots), *tokens], [*slots, *(token.token for token in tokens)])
        resources = private.results
        first, second, third = resources[len(slots) :]
        loads = len(nest.operands)
        load = [
            DataTransfer.between(
                cells[i], Cell(resources[i], None, (), cells[i].sizes), location=operand.load.location
            )
            for i, operand in enumerate(nest.operands)
        ]
        store = [
            DataTransfer.between(
                Cell(resources[loads + i], None, (), cells[loads + i].sizes),
                cells[loads + i],
                location=output.store.location,
            )
            for i, output in enumerate(nest.outputs)
        ]
        computation = self._compute(nest, box, resources[:loads], resources[loads : len(slots)], variables)
        return Pipeline.of(
            [
                private,
                Stage.of([], [first], load),
                Stage.of([first], [second], computation, [compute]),
                Stage.of([second], [third], store),
            ]
        ).replace(location=nest.location)

    def _compute(
        self,
        nest: _Nest,
        box: Box,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        variables: Sequence[Value],
    ) -> list[Operation]:
        emitter = Emitter(nest.location)
        operations = emitter.operations
        reads: dict[tuple[Operation, AffineMap], Value] = {}
        for operand, slot in zip(nest.operands, inputs, strict=True):
            shape = _box_shape(operand.map, box)
            read = ReadFromFifo.create(
                [slot],
                [TensorType(shape, element_of(operand.address.memref))],
                location=operand.load.location,
            )
            operations.append(read)
            reads[operand.load, operand.map] = read.data
        results: list[Value] = []
        for output in nest.outputs:
            type = TensorType(box.tile, element_of(output.address.memref))
            empty = tensor.Empty.create((), [type], location=output.generic.location)
            operations.append(empty)
            generic = _on_vector(output.generic, reads, self.definitions, empty.result, variables, emitter)
            operations.append(generic)
            results.append(generic.results[0])
        for value, slot, output in zip(results, outputs, nest.outputs, strict=True):
            operations.append(WriteToFifo.create([value, slot], location=output.store.location))
        return operations


def _inputs(generic: linalg.Generic) -> list[tuple[Value, AffineMap]]:
    return list(zip(generic.inputs, generic.maps, strict=False))


def _check_map(load: ktdp.Load, map: AffineMap) -> None:
    dims = [expr for expr in map.results if not isinstance(expr, Const)]
    if not all(isinstance(expr, Dim) for expr in dims) or len(set(dims)) != len(dims):
        raise UnsupportedKernel.at(
            load.location, f"an operand is read by the subscripts {map}; supported are loops and constants"
        )


def _is_in_place(map: AffineMap, extents: Sequence[int]) -> bool:
    """Whether an operand is read where the loops are; a loop of one iteration may be left out."""
    return map.num_results == len(extents) and all(
        expr == Dim(d) or (extents[d] == 1 and expr == Const(0)) for d, expr in enumerate(map.results)
    )


def _dims(map: AffineMap) -> tuple[int, ...]:
    return tuple(expr.position for expr in map.results if isinstance(expr, Dim))


def _box_shape(map: AffineMap, box: Box) -> tuple[int, ...]:
    return tuple(box.tile[expr.position] if isinstance(expr, Dim) else 1 for expr in map.results)


def _cell(address: TileAddress, map: AffineMap, box: Box, variables: Sequence[Value]) -> Cell:
    inside = Subscripts(map.results, tuple(variables))
    return address.cell(inside, _box_shape(map, box))


def _within(map: AffineMap) -> AffineMap:
    """Subscripts of what was read: constants are where the box begins."""
    return AffineMap(
        map.num_dims, 0, tuple(Const(0) if isinstance(expr, Const) else expr for expr in map.results)
    )


def _on_vector(
    generic: linalg.Generic,
    reads: dict[tuple[Operation, AffineMap], Value],
    definitions: Definitions,
    out: Value,
    variables: Sequence[Value],
    emitter: Emitter,
) -> linalg.Generic:
    """The generic on one vector: inputs from the queues, the same body, indices from the loops."""
    operands: list[Value] = []
    for value, map in _inputs(generic):
        load = definitions.definer(value)
        assert load is not None
        operands.append(reads[load, map])
    regions: list[Region] = []
    for region in generic.regions:
        mapping: dict[Value, Value] = {}
        arguments = tuple(BlockArgument(a.type, a.name, a.location) for a in region.block.arguments)
        mapping.update(zip(region.block.arguments, arguments, strict=True))
        shifted = shift_indices(region.block.operations, dict(enumerate(variables)), emitter)
        regions.append(Region.of(clone_all(shifted, mapping), arguments))
    maps = [AffineMapAttr(_within(map)) for map in generic.maps]
    return linalg.Generic.create(
        [*operands, out],
        [out.type],
        {**generic.attributes, "indexing_maps": ArrayAttr(tuple(maps))},
        regions,
        location=generic.location,
    )
