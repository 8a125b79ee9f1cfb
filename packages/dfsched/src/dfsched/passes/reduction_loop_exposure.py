"""`reduction-loop-exposure`: slabs are walked in vectors (scheduler spec 3.12; readings, items 14 and 16).

Takes expanded pipelines whose compute stage computes generics on a slab (`construct-three-stage-pipeline`
builds them for groups with reductions). Every generic becomes a pipeline of its own, in order: transfers
of one vector a step into queues, the body on vectors, transfers of results out of queues. Loops over what
is reduced stand inside of the stages, marked ``reduction_loop``, and carry the accumulator; all other
loops stand around the pipeline. What a later generic reads goes through a buffer beside the queues. Where
lanes themselves are reduced, each lane starts with the neutral element, a last short vector is filled up
and masked, and one generic at the end folds the lanes into the start value (a device pattern maps it).
Pipelines that move other data too keep those stages; the walks become one stage in the middle.

Before (a sum over rows of 128 elements, 64 lanes)::

    stage { from %b[0, 0] size [1, 128] to %s size [128] }    {applicable_units = ["L1LU"]}
    stage { %x = read %s; %y = generic(sum) ins(%x : tensor<1x128xf16>) ...; write %y, %t }
    stage { from %t size [1] to %c[0] size [1] }    {applicable_units = ["L1SU"]}

After::

    stage {
      ktdf.pipeline {
        stage { scf.for %k = 0 to 2 { from %b[0, %k * 64] size [1, 64] to %q size [64] } } ...
        stage {
          %a = scf.for %k = 0 to 2 iter_args(%acc = -0.0) { %x = read %q; yield generic(addf) %x, %acc }
          %y = generic(lanes of %a); write %y, %r
        } {applicable_units = ["SFU"]}
        stage { from %r size [1] to %c[0] size [1] } {applicable_units = ["L1SU"]}
      }
    } {applicable_units = ["L1LU", "SFU", "L1SU"]}

>>> from dfsched.passes.examples import SUM, after
>>> after("reduction-loop-exposure", SUM,
... r"scf.for|reduction_loop|read_from|write_to")
scf.for %arg0 = %c0 to %c2 step %c1 {
scf.for %arg2 = %c0_2 to %c4 step %c1_3 {
} {loop_type = #ktdf.loop_type<reduction_loop>}
%6 = scf.for %arg2 = %c0_2 to %c4 step %c1_3 iter_args(%arg3 = %cst) -> (tensor<1x64xf16>) {
%8 = ktdf.read_from_fifo %3#0 : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>
} {loop_type = #ktdf.loop_type<reduction_loop>}
ktdf.write_to_fifo %7, %3#1 : tensor<1xf16>, <"SFU" -> "L1SU", 1xf16>
scf.for %arg0 = %c0 to %c2 step %c1 {
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
    LoopTypeAttr,
    Parallel,
    Pipeline,
    Private,
    ReadFromFifo,
    Stage,
    WriteToFifo,
)
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError
from dfsched.passes.generics import loop_extents
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks, substitute
from dfsched.passes.pipeline_parts import allocations, without_unused
from dfsched.passes.reductions import combine_of, neutral_element
from dfsched.passes.slab_nests import collapsed
from dfsched.passes.subscripts import Subscripts
from dfsched.passes.vector_lanes import VECTOR, shift_indices, vector_of
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr, StringAttr
from ktir.dialects import arith, linalg, scf, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.types import I1, INDEX, FloatType, IndexType, IntegerType, MemRefType, TensorType, bit_width

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Expose the loops of every pipeline that computes on slabs."""
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            stage = _slab_stage(op, context.architecture) if isinstance(op, Pipeline) else None
            if isinstance(op, Pipeline) and stage is not None:
                result += _Exposure(op, stage, definitions, context.architecture).result()
            else:
                result.append(op)
        return result

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


PASS = Pass(
    "reduction-loop-exposure", Group.SCHEDULER, run, "walk slabs in vectors, reductions as loops in stages"
)


def _slab_stage(pipeline: Pipeline, architecture: Architecture) -> Stage | None:
    unit = architecture.compute_unit
    for stage in pipeline.stages:
        if unit is None or stage.units != (kind_text(unit.kind),):
            continue
        if any(
            isinstance(op, linalg.Generic) and VECTOR in op.attributes for op in stage.body.block.operations
        ):
            return stage
    return None


@frozen
class _Port:
    """Where elements of a tensor of the slab lie: a cell that starts at its first element.

    `collapse`: the change of shape that comes between the tensor and the cell.
    """

    unit: str
    cell: Cell
    collapse: tensor.CollapseShape | None = None


@define(eq=False)
class _Exposure:
    """One pipeline."""

    pipeline: Pipeline
    stage: Stage
    definitions: Definitions
    architecture: Architecture
    sources: dict[Value, _Port] = field(factory=dict)
    targets: dict[Value, list[_Port]] = field(factory=dict)
    scalars: list[Operation] = field(factory=list)
    coupled: list[Stage] = field(factory=list)
    buffers: list[Operation] = field(factory=list)

    def result(self) -> list[Operation]:
        """What stands in the place of the pipeline."""
        generics = self._collect()
        starts = {
            definer
            for op in generics
            for value in op.outputs
            if isinstance(definer := self.definitions.definer(value), linalg.Generic)
        }
        walked = [op for op in generics if op not in starts]
        for op in walked:
            self._place(op, generics)
        sequence: list[Operation] = []
        for op in walked:
            sequence += _Walk(self, op).result()
        return self._assembled(sequence)

    # -- what feeds and drains the slab

    def _collect(self) -> list[linalg.Generic]:
        generics: list[linalg.Generic] = []
        self.coupled.append(self.stage)
        for op in self.stage.body.block.operations:
            match op:
                case ReadFromFifo():
                    stage, transfer = self._other_end(op, op.slot, feeds=True)
                    self.sources[op.data] = _Port(_unit(stage), transfer.source_cell)
                case WriteToFifo():
                    stage, transfer = self._other_end(op, op.slot, feeds=False)
                    definer = self.definitions.definer(op.data)
                    collapse = definer if isinstance(definer, tensor.CollapseShape) else None
                    data = op.data if collapse is None else collapse.operands[0]
                    port = _Port(_unit(stage), transfer.dest_cell, collapse)
                    self.targets.setdefault(data, []).append(port)
                case linalg.Generic():
                    generics.append(op)
                case tensor.Empty() | tensor.CollapseShape():
                    pass
                case _:
                    self.scalars.append(op)
        return generics

    def _other_end(self, op: Operation, slot: Value, feeds: bool) -> tuple[Stage, DataTransfer]:
        for stage in self.pipeline.stages:
            for inner in stage.body.block.operations:
                if isinstance(inner, DataTransfer) and (inner.dest if feeds else inner.source) is slot:
                    if stage not in self.coupled:
                        self.coupled.append(stage)
                    return stage, inner
        end = "fed" if feeds else "drained"
        raise ScheduleError.at(
            op.location,
            f"this queue is not {end} by a transfer of the same pipeline; its loops cannot be exposed",
        )

    def _place(self, op: linalg.Generic, generics: Sequence[linalg.Generic]) -> None:
        """Where later generics find the result: in an output's buffer, or one of its own."""
        result = op.results[0]
        if not any(result in other.operands for other in generics):
            return
        plain = next((port for port in self.targets.get(result, ()) if port.collapse is None), None)
        if plain is not None:
            self.sources[result] = _Port(self._reader(plain.cell.value), plain.cell)
            return
        memory, writer = self._scratch()
        type = result.type
        assert isinstance(type, TensorType)
        parallel = next(
            (a for a in self.definitions.ancestors(self.pipeline) if isinstance(a, Parallel)), None
        )
        shape = type.static_shape()
        indices: tuple[Value, ...] = ()
        lead: tuple[AffineExpr, ...] = ()
        if parallel is not None:  # instances run at the same time, so each has a buffer of its own
            shape = (parallel.num_instances.value, *shape)
            indices, lead = (parallel.instance,), (Dim(0),)
        buffer = OpResult(MemRefType(shape, type.element, None, memory))
        self.buffers.append(build.alloc(buffer))
        map = AffineMap(len(indices), 0, (*lead, *([Const(0)] * type.rank)))
        cell = Cell(buffer, map, indices, shape)
        self.targets.setdefault(result, []).append(_Port(writer, cell))
        self.sources[result] = _Port(self._reader(buffer), cell)

    def _scratch(self) -> tuple[Attribute, str]:
        """The memory beside the queues, and the unit that stores results there."""
        for ports in self.targets.values():
            type = ports[0].cell.value.type
            assert isinstance(type, MemRefType)
            assert type.memory_space is not None
            return type.memory_space, ports[0].unit
        raise AssertionError(self.stage)

    def _reader(self, buffer: Value) -> str:
        """The unit that loads from a buffer's memory into queues to the compute unit."""
        type = buffer.type
        assert isinstance(type, MemRefType)
        for port in self.sources.values():
            other = port.cell.value.type
            assert isinstance(other, MemRefType)
            if other.memory_space == type.memory_space:
                return port.unit
        raise ScheduleError.at(
            self.stage.location,
            f"an intermediate result in {type.memory_space} is read again, but no operand comes from there",
        )

    # -- assembly

    def _assembled(self, sequence: Sequence[Operation]) -> list[Operation]:
        others = [stage for stage in self.pipeline.stages if stage not in self.coupled]
        private = self.pipeline.private
        if not others:
            kept: list[Operation] = []
            mapping: dict[Value, Value] = {}
            if private is not None:
                mapping = dict(zip(private.results, private.yielded, strict=True))
                kept = [
                    op
                    for op in private.body.block.operations[:-1]
                    if any(isinstance(r.type, MemRefType | IndexType) for r in op.results)
                ]
            return [*kept, *self.buffers, *(substitute(op, mapping) for op in sequence)]
        inside = {token for stage in self.coupled for token in stage.depends_out}
        wanted = {token for stage in others for token in stage.depends_in}
        tokens_in = dict.fromkeys(
            token for stage in self.coupled for token in stage.depends_in if token not in inside
        )
        tokens_out = [token for token in inside_order(self.coupled) if token in wanted]
        units = dict.fromkeys(unit for stage in self.coupled for unit in stage.units or ())
        order = {stage: i for i, stage in enumerate(self.pipeline.stages)}
        units = dict.fromkeys(
            unit for stage in sorted(self.coupled, key=lambda s: order[s]) for unit in stage.units or ()
        )
        middle = Stage.of(list(tokens_in), tokens_out, [*self.buffers, *sequence], list(units))
        stages: list[Operation] = []
        for stage in self.pipeline.stages:
            if stage is self.stage:
                stages.append(middle)
            elif stage not in self.coupled:
                stages.append(stage)
        stages = _topological([s for s in stages if isinstance(s, Stage)])
        return [without_unused(self.pipeline, stages)]


def inside_order(stages: Sequence[Stage]) -> list[Value]:
    """Tokens that stages produce, in order."""
    return list(dict.fromkeys(token for stage in stages for token in stage.depends_out))


def _topological(stages: Sequence[Stage]) -> list[Operation]:
    """Stages with producers of tokens first."""
    waiting = list(stages)
    produced = {token: stage for stage in stages for token in stage.depends_out}
    done: list[Operation] = []
    while waiting:
        ready = next(
            s for s in waiting if all(produced.get(token) in (*done, None) for token in s.depends_in)
        )
        waiting.remove(ready)
        done.append(ready)
    return done


def _unit(stage: Stage) -> str:
    assert stage.units is not None
    return stage.units[0]


# -- one generic -----------------------------------------------------------------------------------------


Place = tuple[AffineExpr, tuple[Value, ...]]
"""Where a loop stands: an expression over values."""

STILL: Place = (Const(0), ())


@frozen
class _Step:
    """One vector of a walk: where every loop stands, and how many of its lanes count."""

    places: Mapping[int, Place]
    active: int


@define(eq=False)
class _Queue:
    """A queue of a walk: its slot, and how a vector gets in or out."""

    port: _Port
    map: AffineMap
    slot: OpResult


@define(eq=False)
class _Walk:
    """The pipelines of one generic."""

    exposure: _Exposure
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
            emitter.operations.append(_WalkPipeline(self, places, part[2]).result())
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
class _WalkPipeline:
    """One pipeline: reads of vectors, the body on them, results; reduction loops inside of its stages."""

    walk: _Walk
    places: dict[int, Place]
    lanes: int
    starts: list[_Queue] = field(factory=list)
    inputs: list[_Queue] = field(factory=list)
    outputs: list[_Queue] = field(factory=list)

    @property
    def op(self) -> linalg.Generic:
        return self.walk.op

    @property
    def exposure(self) -> _Exposure:
        return self.walk.exposure

    def result(self) -> Pipeline:
        op, exposure = self.op, self.exposure
        unit = exposure.architecture.compute_unit
        assert unit is not None
        compute = kind_text(unit.kind)
        start = exposure.definitions.definer(op.outputs[0])
        if isinstance(start, linalg.Generic):
            lanes = 1 if self.walk.folds_lanes else self.lanes
            self.starts = [
                self._queue(exposure.sources[value], self._start_map(map), compute, lanes)
                for value, map in zip(start.inputs, start.maps, strict=False)
            ]
        self.inputs = [
            self._queue(exposure.sources[value], map, compute, self.lanes)
            for value, map in zip(op.inputs, op.maps, strict=False)
        ]
        count = 1 if self.walk.folds_lanes else self.lanes
        for port in exposure.targets.get(op.results[0], []):
            slot = self._slot(compute, port.unit, count, port.cell)
            map = op.maps[-1] if port.collapse is None else collapsed(port.collapse, op.maps[-1])
            self.outputs.append(_Queue(port, map, slot))
        return self._pipeline(compute, start if isinstance(start, linalg.Generic) else None)

    def _start_map(self, map: AffineMap) -> AffineMap:
        """A map of the start's loops (those of the result) over the loops of the reduction."""
        out = self.op.maps[-1]
        return AffineMap(out.num_dims, 0, tuple(expr.replace(out.results, ()) for expr in map.results))

    def _slot(self, source: str, target: str, lanes: int, cell: Cell) -> OpResult:
        type = cell.value.type
        assert isinstance(type, MemRefType)
        return OpResult(FifoSlotType(StringAttr(source), StringAttr(target), lanes, type.element))

    def _queue(self, port: _Port, map: AffineMap, compute: str, lanes: int) -> _Queue:
        return _Queue(port, map, self._slot(port.unit, compute, lanes, port.cell))

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
        leaf: Callable[[_Step, list[Value], Emitter], list[Value]],
        dim: int = 0,
        step: _Step | None = None,
    ) -> list[Value]:
        """Loops over what is reduced in order, `leaf` for every vector; the values that are carried out."""
        walk = self.walk
        here = _Step(self.places, self.lanes) if step is None else step
        if dim == walk.rank:
            return leaf(here, carried, emitter)
        if walk.op.iterators[dim] == "parallel":
            return self._steps(emitter, carried, leaf, dim + 1, here)
        width = self.lanes if dim == walk.vector else 1
        trips, rest = divmod(walk.extents[dim], width)

        def inside(place: Place, active: int, values: list[Value], inner: Emitter) -> list[Value]:
            return self._steps(inner, values, leaf, dim + 1, _Step({**here.places, dim: place}, active))

        if trips == 1:
            carried = inside(STILL, here.active, carried, emitter)
        elif trips:
            carried = _carrying_loop(
                emitter,
                trips,
                carried,
                lambda v, values, inner: inside((Dim(0) * width, (v,)), here.active, values, inner),
            )
        if rest:
            carried = inside((Const(trips * width), ()), rest, carried, emitter)
        return carried

    # -- stages

    def _cell(self, queue: _Queue, step: _Step, lanes: int) -> Cell:
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
        first = _Step(self.places, self.lanes)
        for queue in self.starts:
            if queue.port.unit == unit:
                self._load(queue, first, emitter)
        queues = [queue for queue in self.inputs if queue.port.unit == unit]

        def leaf(step: _Step, carried: list[Value], inner: Emitter) -> list[Value]:
            for queue in queues:
                self._load(queue, step, inner)
            return carried

        if queues:
            self._steps(emitter, [], leaf)
        return emitter.operations

    def _load(self, queue: _Queue, step: _Step, emitter: Emitter) -> None:
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
        step = _Step(self.places, self.lanes)
        for queue in self.outputs:
            if queue.port.unit == unit:
                cell = self._cell(queue, step, self.lanes)
                source = Cell(queue.slot, None, (), (math.prod(cell.static_sizes),))
                emitter.operations.append(DataTransfer.between(source, cell, location=self.op.location))
        return emitter.operations

    def _computing(self, start: linalg.Generic | None) -> list[Operation]:
        emitter = Emitter(self.op.location)
        mapping: dict[Value, Value] = {}
        emitter.operations += clone_all(self.exposure.scalars, mapping)
        first = _Step(self.places, self.lanes)
        if "reduction" not in self.op.iterators:
            result = self._body(first, None, emitter, mapping)
        elif not self.walk.folds_lanes:
            initial = self._start(start, first, self._shape(self.lanes), emitter, mapping)
            (result,) = self._steps(emitter, [initial], lambda s, v, e: [self._body(s, v[0], e, mapping)])
        else:
            combine = combine_of(self.op)
            assert combine is not None
            element = combine.op.results[0].type
            seed = _splat(neutral_element(combine.op), TensorType(self._shape(self.lanes), element))
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
        step: _Step,
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
        self, step: _Step, accumulator: Value | None, emitter: Emitter, mapping: dict[Value, Value]
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
        queues: Sequence[_Queue],
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
        arguments = [BlockArgument(a.type, a.name, a.location) for a in block.arguments[: len(op.inputs)]]
        inner = dict(mapping)
        inner.update(zip(block.arguments, arguments, strict=False))
        if accumulator is not None:
            values.append(accumulator)
            carried = BlockArgument(block.arguments[-1].type, "acc")
            arguments.append(carried)
            inner[block.arguments[-1]] = carried
        indices = {o.dim.value for o in block.operations if isinstance(o, linalg.Index)}
        bases = {dim: emitter.affine(*places[dim]) for dim in sorted(indices) if dim in places}
        shifted = shift_indices(block.operations, bases, emitter)
        body = clone_all(_renumbered(shifted, loops), inner)
        result_type = op.results[0].type
        assert isinstance(result_type, TensorType)
        if active is not None and active != math.prod(shape):
            body, mask, argument = _masked(op, body, inner, active, shape)
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


def _renumbered(operations: Sequence[Operation], loops: Mapping[int, int]) -> list[Operation]:
    """A body whose loops have other numbers."""
    return [
        op.replace(attributes={"dim": IntegerAttr(loops[op.dim.value])})
        if isinstance(op, linalg.Index)
        else op
        for op in operations
    ]


def _carrying_loop(
    emitter: Emitter,
    trips: int,
    carried: list[Value],
    body: Callable[[Value, list[Value], Emitter], list[Value]],
) -> list[Value]:
    """A reduction loop around `body`, which gets the variable and the carried values."""
    variable = BlockArgument(INDEX)
    inner = Emitter(emitter.location)
    arguments = [BlockArgument(value.type, "acc") for value in carried]
    values = body(variable, list(arguments), inner)
    bounds = [emitter.constant(0), emitter.constant(trips), emitter.constant(1)]
    loop = scf.For.create(
        [*bounds, *carried],
        [value.type for value in carried],
        {"loop_type": LoopTypeAttr(LoopKind.REDUCTION)},
        [Region.of([*inner.operations, scf.Yield.create(values)], [variable, *arguments])],
        location=emitter.location,
    )
    emitter.operations.append(loop)
    return list(loop.results)


def _masked(
    op: linalg.Generic,
    body: Sequence[Operation],
    inner: Mapping[Value, Value],
    active: int,
    shape: tuple[int, ...],
) -> tuple[list[Operation], arith.Constant, BlockArgument]:
    """A body that combines the neutral element in lanes from `active` on, the mask, its block argument."""
    combine = combine_of(op)
    assert combine is not None
    lanes = math.prod(shape)
    data = bytes([1] * active + [0] * (lanes - active))
    mask = arith.Constant.of(DenseElementsAttr(data, TensorType(shape, I1), False))
    argument = BlockArgument(I1, "mask")
    value = inner.get(combine.value, combine.value)
    neutral = arith.Constant.of(neutral_element(combine.op))
    select = arith.Select.create([argument, value, neutral.result], [value.type], location=op.location)
    new = inner[combine.op.results[0]]
    result: list[Operation] = []
    for operation in body:
        if new in operation.results:
            result += [neutral, select]
            operands = [select.results[0] if v is value else v for v in operation.operands]
            operation = operation.replace(operands=operands)
        result.append(operation)
    return result, mask, argument


def _splat(attribute: Attribute, type: TensorType) -> arith.Constant:
    """A constant tensor of one number."""
    match attribute:
        case FloatAttr(bits=bits, type=FloatType() as element):
            data = bits.to_bytes((element.width + 7) // 8, "little")
        case IntegerAttr(value=number, type=IntegerType() as integer):
            width = max(1, (bit_width(integer) + 7) // 8)
            data = (number & ((1 << bit_width(integer)) - 1)).to_bytes(width, "little")
        case _:
            raise AssertionError(attribute)
    return arith.Constant.of(DenseElementsAttr(data, type, True))
