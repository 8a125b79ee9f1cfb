"""One generic of a slab, walked in vectors: loops around a pipeline, reduction loops inside of its stages.

`reduction-loop-exposure` says where the elements of every tensor of the slab lie (`Slab`); a `Walk` makes the
pipelines of one generic: transfers of one vector a step into queues, the body on vectors, transfers of
results out of queues, in a full and maybe a short part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture, kind_text
from dfsched.dialects.ktdf import (
    TRANSFER_MODE,
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
from dfsched.passes.build import Emitter
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.generics import loop_extents, operands_of
from dfsched.passes.ir_tools import Definitions, clone_all, substitute
from dfsched.passes.pipeline_parts import allocations
from dfsched.passes.reductions import combine_of, neutral_element
from dfsched.passes.slab_shapes import collapsed
from dfsched.passes.subscripts import Subscripts
from dfsched.passes.vector_bodies import carrying_loop, masked, renumbered, splat
from dfsched.passes.vector_lanes import shift_indices, vector_of
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.attribute import Attribute
from ktir.attributes import StringAttr
from ktir.dialects import linalg, scf, tensor
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.types import INDEX, MemRefType, TensorType

__all__ = ["Port", "Slab", "Walk"]


@frozen
class Port:
    """Where elements of a tensor of the slab lie: a cell that starts at its first element.

    `collapse`: the change of shape that comes between the tensor and the cell.
    """

    unit: str
    cell: Cell
    collapse: tensor.CollapseShape | None = None


@define(eq=False)
class Slab:
    """What the computations of one stage have in common: where tensors are read and written, and scalars."""

    definitions: Definitions
    architecture: Architecture
    sources: dict[Value, Port] = field(factory=dict)
    targets: dict[Value, list[Port]] = field(factory=dict)
    scalars: list[Operation] = field(factory=list)


Place = tuple[AffineExpr, tuple[Value, ...]]
"""Where a loop stands: an expression over values."""

STILL: Place = (Const(0), ())


@frozen
class Step:
    """One vector of a walk: where every loop stands, and how many of its lanes count."""

    places: Mapping[int, Place]
    active: int


@define(eq=False)
class Queue:
    """A queue of a walk: its slot, and how a vector gets in or out."""

    port: Port
    map: AffineMap
    slot: OpResult


@define(eq=False)
class Walk:
    """The pipelines of one generic."""

    slab: Slab
    op: linalg.Generic
    extents: dict[int, int] = field(init=False)
    vector: int | None = field(init=False)
    lanes: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.extents = loop_extents(self.op)
        known = vector_of(self.op)
        self.vector, self.lanes = (None, 1) if known is None else known
        if self.vector is not None and self.vector < 0:
            self.vector = None
        if self.vector is not None and self.vector >= self.rank:
            raise ScheduleError.at(self.op.location, "the loop of the vectors is none of this computation")
        findings = Findings()
        for what in self._wrong():
            with findings.noting():
                raise ScheduleError.at(self.op.location, what)
        findings.check()

    def _wrong(self) -> Iterator[str]:
        """What keeps a generic from being walked in vectors; nothing in pipelines that our passes make."""
        op, definitions = self.op, self.slab.definitions
        if len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
            yield "a computation on a slab must have one result, a tensor"
        if len(self.extents) != self.rank:
            yield "no operand states the extent of a loop of this computation"
        if self.lanes < 1:
            yield "vectors without lanes"
        if self.folds_lanes and combine_of(op) is None:
            yield "the lanes of this reduction cannot be folded"
        needed = [value for value, _, _ in operands_of(op, definitions)]
        start = definitions.definer(op.outputs[0])
        needed += start.inputs if isinstance(start, linalg.Generic) else ()
        for computed in (op, start):
            if isinstance(computed, linalg.Generic) and "reduction" not in computed.iterators:
                held = computed.body.block.arguments[-1]
                if any(held in inner.operands for inner in computed.walk()):
                    yield "a computation on a slab takes what its output held"
        if any(value not in self.slab.sources for value in needed):
            yield "an operand of this computation comes from no queue and no computation before it"

    @property
    def folds_lanes(self) -> bool:
        """Whether the lanes of the vectors are reduced in the end."""
        return self.vector is not None and self.op.iterators[self.vector] == "reduction"

    @property
    def rank(self) -> int:
        return len(self.op.iterators)

    def result(self) -> list[Operation]:
        """Loops around pipelines, a full and maybe a short part."""
        found: list[Operation] = []
        for start, extent, lanes in self._parts():
            emitter = Emitter(self.op.location)
            self._around(0, {}, (start, extent, lanes), emitter)
            found += emitter.operations
        return found

    def _parts(self) -> Iterator[tuple[int, int, int]]:
        """Start, extent and lanes of parts along a parallel vector loop; one part if there is none."""
        if self.vector is None or self.folds_lanes:
            yield 0, self.lanes, self.lanes
            return
        extent = self.extents[self.vector]
        full = extent // self.lanes * self.lanes
        if full:
            yield 0, full, self.lanes
        if full != extent:
            yield full, extent - full, extent - full

    def _around(
        self, dim: int, places: dict[int, Place], part: tuple[int, int, int], emitter: Emitter
    ) -> None:
        """Loops over parallel dimensions, outermost first, then the pipeline."""
        if dim == self.rank:
            emitter.operations.append(_Pipeline(self, places, part[2]).result())
            return
        start, extent, lanes = part
        if self.op.iterators[dim] != "parallel":
            self._around(dim + 1, places, part, emitter)
            return
        trips = extent // lanes if dim == self.vector else self.extents[dim]
        step, first = (lanes, start) if dim == self.vector else (1, 0)
        if trips == 1:
            self._around(dim + 1, {**places, dim: (Const(first), ())}, part, emitter)
            return
        variable = BlockArgument(INDEX)
        inner = Emitter(self.op.location)
        self._around(dim + 1, {**places, dim: (Dim(0) * step + first, (variable,))}, part, inner)
        emitter.operations.append(_loop(emitter, trips, variable, inner.operations, LoopKind.PARALLEL))


def _loop(
    emitter: Emitter, trips: int, variable: BlockArgument, body: Sequence[Operation], kind: LoopKind
) -> scf.For:
    bounds = (emitter.constant(0), emitter.constant(trips), emitter.constant(1))
    return build.for_loop(bounds, variable, body, kind, emitter.location)


@define(eq=False)
class _Pipeline:
    """One pipeline: reads of vectors, the body on them, results; reduction loops inside of its stages."""

    walk: Walk
    places: dict[int, Place]
    lanes: int
    starts: list[Queue] = field(factory=list)
    inputs: list[Queue] = field(factory=list)
    outputs: list[Queue] = field(factory=list)

    @property
    def op(self) -> linalg.Generic:
        return self.walk.op

    @property
    def slab(self) -> Slab:
        return self.walk.slab

    def result(self) -> Pipeline:
        op, slab = self.op, self.slab
        unit = slab.architecture.compute_unit
        assert unit is not None
        compute = kind_text(unit.kind)
        start = slab.definitions.definer(op.outputs[0])
        if isinstance(start, linalg.Generic):
            lanes = 1 if self.walk.folds_lanes else self.lanes
            self.starts = [
                self._queue(slab.sources[value], self._start_map(map), compute, lanes)
                for value, map in zip(start.inputs, start.maps, strict=False)
            ]
        self.inputs = [
            self._queue(slab.sources[value], map, compute, self.lanes)
            for value, map, _ in operands_of(op, slab.definitions)
        ]
        count = 1 if self.walk.folds_lanes else self.lanes
        for port in slab.targets.get(op.results[0], []):
            slot = self._slot(compute, port.unit, count, port.cell)
            map = op.maps[-1] if port.collapse is None else collapsed(port.collapse, op.maps[-1])
            self.outputs.append(Queue(port, map, slot))
        return self._pipeline(compute, start if isinstance(start, linalg.Generic) else None)

    def _start_map(self, map: AffineMap) -> AffineMap:
        """A map of the start's loops (those of the result) over the loops of the reduction."""
        out = self.op.maps[-1]
        return AffineMap(out.num_dims, 0, tuple(expr.replace(out.results, ()) for expr in map.results))

    def _slot(self, source: str, target: str, lanes: int, cell: Cell) -> OpResult:
        type = cell.value.type
        assert isinstance(type, MemRefType)
        return OpResult(FifoSlotType(StringAttr(source), StringAttr(target), lanes, type.element))

    def _queue(self, port: Port, map: AffineMap, compute: str, lanes: int) -> Queue:
        return Queue(port, map, self._slot(port.unit, compute, lanes, port.cell))

    def _pipeline(self, compute: str, start: linalg.Generic | None) -> Pipeline:
        queues = [*self.starts, *self.inputs, *self.outputs]
        slots = [queue.slot for queue in queues]
        loads = dict.fromkeys(queue.port.unit for queue in (*self.starts, *self.inputs))
        stores = dict.fromkeys(queue.port.unit for queue in self.outputs)
        tokens = {unit: CreateToken.new() for unit in loads}
        done = CreateToken.new()
        private = Private.of(
            [*allocations(slots), *tokens.values(), done],
            [*slots, *(token.token for token in tokens.values()), done.token],
        )
        results: dict[Value, Value] = dict(
            zip([*slots, *(t.token for t in tokens.values()), done.token], private.results, strict=True)
        )
        stages: list[Operation] = [
            Stage.of([], [results[tokens[unit].token]], self._loading(unit), [unit]) for unit in loads
        ]
        stages.append(
            Stage.of(
                [results[tokens[unit].token] for unit in loads],
                [results[done.token]],
                self._computing(start),
                [compute],
            )
        )
        stages += [Stage.of([results[done.token]], [], self._storing(unit), [unit]) for unit in stores]
        new = [private, *(substitute(stage, results) for stage in stages)]
        return Pipeline.of(new).replace(location=self.op.location)

    # -- walking what is reduced

    def _steps(
        self,
        emitter: Emitter,
        carried: list[Value],
        leaf: Callable[[Step, list[Value], Emitter], list[Value]],
        dim: int = 0,
        step: Step | None = None,
    ) -> list[Value]:
        """Loops over what is reduced in order, `leaf` for every vector; the values that are carried out."""
        walk = self.walk
        here = Step(self.places, self.lanes) if step is None else step
        if dim == walk.rank:
            return leaf(here, carried, emitter)
        if walk.op.iterators[dim] == "parallel":
            return self._steps(emitter, carried, leaf, dim + 1, here)
        width = self.lanes if dim == walk.vector else 1
        trips, rest = divmod(walk.extents[dim], width)

        def inside(place: Place, active: int, values: list[Value], inner: Emitter) -> list[Value]:
            return self._steps(inner, values, leaf, dim + 1, Step({**here.places, dim: place}, active))

        if trips == 1:
            carried = inside(STILL, here.active, carried, emitter)
        elif trips:
            carried = carrying_loop(
                emitter,
                trips,
                carried,
                lambda v, values, inner: inside((Dim(0) * width, (v,)), here.active, values, inner),
            )
        if rest:
            carried = inside((Const(trips * width), ()), rest, carried, emitter)
        return carried

    # -- stages

    def _cell(self, queue: Queue, step: Step, lanes: int) -> Cell:
        """The box of one vector."""
        base = queue.port.cell
        assert base.map is not None
        rank = len(base.map.results)
        exprs: list[AffineExpr] = []
        values: list[Value] = []
        dims: list[AffineExpr] = []
        for dim in range(self.walk.rank):
            expr, used = step.places.get(dim, STILL)
            dims.append(expr.replace([Dim(len(values) + i) for i in range(len(used))], ()))
            values += used
        sizes: list[int] = []
        for expr in queue.map.results:
            exprs.append(expr.replace(dims, ()))
            has_vector = self.walk.vector is not None and self.walk.vector in expr.dims()
            sizes.append(lanes if has_vector else 1)
        lead = rank - len(exprs)  # buffers of several points: the base says which
        exprs = [*([Const(0)] * lead), *exprs]
        where = Subscripts.of_map(base.map, base.indices).plus(Subscripts(tuple(exprs), tuple(values)))
        canonical = where.canonical()
        return Cell(base.value, canonical.map, canonical.values, (*([1] * lead), *sizes))

    def _loading(self, unit: str) -> list[Operation]:
        emitter = Emitter(self.op.location)
        first = Step(self.places, self.lanes)
        for queue in self.starts:
            if queue.port.unit == unit:
                self._load(queue, first, emitter)
        queues = [queue for queue in self.inputs if queue.port.unit == unit]

        def leaf(step: Step, carried: list[Value], inner: Emitter) -> list[Value]:
            for queue in queues:
                self._load(queue, step, inner)
            return carried

        if queues:
            self._steps(emitter, [], leaf)
        return emitter.operations

    def _load(self, queue: Queue, step: Step, emitter: Emitter) -> None:
        type = queue.slot.type
        assert isinstance(type, FifoSlotType)
        assert type.capacity is not None
        cell = self._cell(queue, step, step.active)
        count = math.prod(cell.static_sizes)
        attributes: dict[str, Attribute] = {}
        if count != type.capacity:
            attributes[TRANSFER_MODE] = StringAttr("splat" if count == 1 else "pad")
        target = Cell(queue.slot, None, (), (type.capacity,))
        emitter.operations.append(DataTransfer.between(cell, target, attributes, location=self.op.location))

    def _storing(self, unit: str) -> list[Operation]:
        emitter = Emitter(self.op.location)
        step = Step(self.places, self.lanes)
        for queue in self.outputs:
            if queue.port.unit == unit:
                cell = self._cell(queue, step, self.lanes)
                source = Cell(queue.slot, None, (), (math.prod(cell.static_sizes),))
                emitter.operations.append(DataTransfer.between(source, cell, location=self.op.location))
        return emitter.operations

    def _computing(self, start: linalg.Generic | None) -> list[Operation]:
        emitter = Emitter(self.op.location)
        mapping: dict[Value, Value] = {}
        emitter.operations += clone_all(self.slab.scalars, mapping)
        first = Step(self.places, self.lanes)
        if "reduction" not in self.op.iterators:
            result = self._body(first, None, emitter, mapping)
        elif not self.walk.folds_lanes:
            initial = self._start(start, first, self._shape(self.lanes), emitter, mapping)
            (result,) = self._steps(emitter, [initial], lambda s, v, e: [self._body(s, v[0], e, mapping)])
        else:
            combine = combine_of(self.op)
            assert combine is not None
            element = combine.op.results[0].type
            seed = splat(neutral_element(combine.op), TensorType(self._shape(self.lanes), element))
            initial = self._start(start, first, self._result_shape(), emitter, mapping)
            emitter.operations.append(seed)
            (lanes,) = self._steps(emitter, [seed.result], lambda s, v, e: [self._body(s, v[0], e, mapping)])
            result = self._fold_lanes(lanes, initial, emitter)
        for queue in self.outputs:
            emitter.operations.append(WriteToFifo.create([result, queue.slot], location=self.op.location))
        return emitter.operations

    def _shape(self, lanes: int) -> tuple[int, ...]:
        """A vector as a tensor with the rank of the loops."""
        return tuple(lanes if dim == self.walk.vector else 1 for dim in range(self.walk.rank))

    def _result_shape(self) -> tuple[int, ...]:
        return (1,) * self.op.maps[-1].num_results

    def _start(
        self,
        start: linalg.Generic | None,
        step: Step,
        shape: tuple[int, ...],
        emitter: Emitter,
        mapping: dict[Value, Value],
    ) -> Value:
        """The value that a reduction starts with, as one vector."""
        if start is None:
            raise ScheduleError.at(
                self.op.location, "a reduction starts with a tensor that nothing in its stage computes"
            )
        out = self.op.maps[-1]
        places = {
            position: step.places.get(expr.position, STILL)
            for position, expr in enumerate(out.results)
            if isinstance(expr, Dim)
        }
        loops = {position: position for position in places}
        if not self.walk.folds_lanes:
            loops = {p: e.position for p, e in enumerate(out.results) if isinstance(e, Dim)}
        return self._vector_generic(start, self.starts, None, shape, places, loops, emitter, mapping)

    def _body(
        self, step: Step, accumulator: Value | None, emitter: Emitter, mapping: dict[Value, Value]
    ) -> Value:
        return self._vector_generic(
            self.op,
            self.inputs,
            accumulator,
            self._shape(self.lanes),
            step.places,
            {dim: dim for dim in range(self.walk.rank)},
            emitter,
            mapping,
            step.active,
        )

    def _vector_generic(
        self,
        op: linalg.Generic,
        queues: Sequence[Queue],
        accumulator: Value | None,
        shape: tuple[int, ...],
        places: Mapping[int, Place],
        loops: Mapping[int, int],
        emitter: Emitter,
        mapping: dict[Value, Value],
        active: int | None = None,
    ) -> Value:
        """The body of a generic on one vector; an accumulator is one more input.

        `loops` says which loop of the vector stands for which loop of the generic.
        """
        values: list[Value] = []
        for queue in queues:
            type = queue.slot.type
            assert isinstance(type, FifoSlotType)
            read = ReadFromFifo.create([queue.slot], [TensorType(shape, type.element)], location=op.location)
            values.append(emitter.add(read))
        block = op.body.block
        read_arguments = [argument for _, _, argument in operands_of(op, self.slab.definitions)]
        arguments = [BlockArgument(a.type, a.name, a.location) for a in read_arguments]
        inner = dict(mapping)
        inner.update(zip(read_arguments, arguments, strict=True))
        if accumulator is not None:
            values.append(accumulator)
            carried = BlockArgument(block.arguments[-1].type, "acc")
            arguments.append(carried)
            inner[block.arguments[-1]] = carried
        indices = {o.dim.value for o in block.operations if isinstance(o, linalg.Index)}
        bases = {dim: emitter.affine(*places[dim]) for dim in sorted(indices) if dim in places}
        shifted = shift_indices(block.operations, bases, emitter)
        body = clone_all(renumbered(shifted, loops), inner)
        result_type = op.results[0].type
        assert isinstance(result_type, TensorType)
        if active is not None and active != math.prod(shape):
            body, mask, argument = masked(op, body, inner, active, shape)
            emitter.operations.append(mask)
            values.append(mask.result)
            arguments.append(argument)
        out = TensorType(shape, result_type.element)
        empty = emitter.add(tensor.Empty.create((), [out], location=op.location))
        rank = len(shape)
        generic = linalg.Generic.build(
            values,
            [empty],
            [AffineMap.identity(rank)] * (len(values) + 1),
            ["parallel"] * rank,
            Region.of(body, [*arguments, BlockArgument(result_type.element, "out")]),
            location=op.location,
        )
        return emitter.add(generic)

    def _fold_lanes(self, lanes: Value, initial: Value, emitter: Emitter) -> Value:
        """The lanes of the accumulator, folded into the start value in order."""
        combine = combine_of(self.op)
        assert combine is not None
        element = combine.op.results[0].type
        value, accumulator = BlockArgument(element, "in"), BlockArgument(element, "acc")
        mapping: dict[Value, Value] = {combine.value: value, self.op.body.block.arguments[-1]: accumulator}
        body = clone_all([combine.op], mapping)
        body.append(linalg.Yield.create([body[0].results[0]], location=self.op.location))
        generic = linalg.Generic.build(
            [lanes],
            [initial],
            [AffineMap.identity(self.walk.rank), self.op.maps[-1]],
            self.op.iterators,
            Region.of(body, [value, accumulator]),
            location=self.op.location,
        )
        return emitter.add(generic)
