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

from collections.abc import Sequence

from attrs import define, evolve, field

from dfsched.architecture import Architecture, kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import (
    Cell,
    DataTransfer,
    Parallel,
    Pipeline,
    ReadFromFifo,
    Stage,
    WriteToFifo,
)
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.pipeline_parts import without_unused
from dfsched.passes.vector_lanes import VECTOR
from dfsched.passes.vector_walks import Port, Slab, Walk
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, StringAttr
from ktir.dialects import linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import Operation, OpResult, Value
from ktir.types import IndexType, MemRefType, TensorType

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Expose the loops of every pipeline that computes on slabs."""
    definitions = Definitions(module)
    findings = Findings()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            stage = _slab_stage(op, context.architecture) if isinstance(op, Pipeline) else None
            if isinstance(op, Pipeline) and stage is not None:
                with findings.noting():
                    result += _Exposure(op, stage, Slab(definitions, context.architecture)).result()
            elif isinstance(op, Stage):
                result.append(_with_all_units(op))
            else:
                result.append(op)
        return result

    new = rewrite_blocks(module, rewrite)
    findings.check()
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


def _with_all_units(stage: Stage) -> Stage:
    """The stage with the units of all stages inside: what reads a result again may load nothing else."""
    inner = [op for op in stage.walk() if isinstance(op, Stage)]
    known = stage.units or ()
    units = tuple(dict.fromkeys((*known, *(unit for op in inner for unit in op.units or ()))))
    if units == known:
        return stage
    return stage.replace(attributes={"applicable_units": ArrayAttr(tuple(StringAttr(u) for u in units))})


@define(eq=False)
class _Exposure:
    """One pipeline."""

    pipeline: Pipeline
    stage: Stage
    slab: Slab
    coupled: list[Stage] = field(factory=list)
    buffers: list[Operation] = field(factory=list)

    def result(self) -> list[Operation]:
        """What stands in the place of the pipeline."""
        generics = self._collect()
        starts = {
            definer
            for op in generics
            for value in op.outputs
            if isinstance(definer := self.slab.definitions.definer(value), linalg.Generic)
        }
        walked = [op for op in generics if op not in starts]
        for op in walked:
            self._place(op, generics)
        sequence: list[Operation] = []
        for op in walked:
            sequence += Walk(self.slab, op).result()
        return self._assembled(sequence)

    # -- what feeds and drains the slab

    def _collect(self) -> list[linalg.Generic]:
        generics: list[linalg.Generic] = []
        self.coupled.append(self.stage)
        for op in self.stage.body.block.operations:
            match op:
                case ReadFromFifo():
                    self.slab.sources[op.data] = self._other_end(op, op.slot, feeds=True)
                case WriteToFifo():
                    port = self._other_end(op, op.slot, feeds=False)
                    definer = self.slab.definitions.definer(op.data)
                    collapse = definer if isinstance(definer, tensor.CollapseShape) else None
                    data = op.data if collapse is None else collapse.operands[0]
                    self.slab.targets.setdefault(data, []).append(evolve(port, collapse=collapse))
                case linalg.Generic():
                    generics.append(op)
                case tensor.Empty() | tensor.CollapseShape():
                    pass
                case _:
                    self.slab.scalars.append(op)
        return generics

    def _other_end(self, op: Operation, slot: Value, feeds: bool) -> Port:
        """What feeds or drains a queue: one unit that moves boxes of a buffer."""
        for stage in self.pipeline.stages:
            for inner in stage.body.block.operations:
                if isinstance(inner, DataTransfer) and (inner.dest if feeds else inner.source) is slot:
                    if stage not in self.coupled:
                        self.coupled.append(stage)
                    return _port(stage, inner.source_cell if feeds else inner.dest_cell, inner)
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
        plain = next((port for port in self.slab.targets.get(result, ()) if port.collapse is None), None)
        if plain is not None:
            self.slab.sources[result] = Port(self._reader(plain.cell.value), plain.cell)
            return
        memory, writer = self._scratch()
        type = result.type
        assert isinstance(type, TensorType)
        parallel = next(
            (a for a in self.slab.definitions.ancestors(self.pipeline) if isinstance(a, Parallel)), None
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
        self.slab.targets.setdefault(result, []).append(Port(writer, cell))
        self.slab.sources[result] = Port(self._reader(buffer), cell)

    def _scratch(self) -> tuple[Attribute, str]:
        """The memory beside the queues, and the unit that stores results there."""
        for ports in self.slab.targets.values():
            type = ports[0].cell.value.type
            assert isinstance(type, MemRefType)
            assert type.memory_space is not None
            if self.slab.architecture.is_global(kind_of(type.memory_space)):
                raise ScheduleError.at(
                    self.stage.location,
                    f"an intermediate result would have to stand in {type.memory_space}, which is device "
                    "memory; the device needs a memory of the core between it and the compute unit",
                )
            return type.memory_space, ports[0].unit
        raise ScheduleError.at(self.stage.location, "this stage keeps a result that no transfer takes away")

    def _reader(self, buffer: Value) -> str:
        """The unit that loads from a buffer's memory into queues to the compute unit."""
        type = buffer.type
        assert isinstance(type, MemRefType)
        for port in self.slab.sources.values():
            other = port.cell.value.type
            assert isinstance(other, MemRefType)
            if other.memory_space == type.memory_space:
                return port.unit
        unit = self._loader(type.memory_space)
        if unit is not None:
            return unit
        raise ScheduleError.at(
            self.stage.location,
            f"an intermediate result in {type.memory_space} is read again, but no unit loads from there",
        )

    def _loader(self, memory: Attribute | None) -> str | None:
        """The one unit on the device's way from a memory to the compute unit."""
        architecture = self.slab.architecture
        compute = architecture.compute_unit
        if compute is None or compute.kind is None or memory is None:
            return None
        route = architecture.route(kind_of(memory), compute.kind)
        return kind_text(route.movers[0]) if route is not None and len(route.movers) == 1 else None

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
        order = {stage: i for i, stage in enumerate(self.pipeline.stages)}
        units = dict.fromkeys(
            unit for stage in sorted(self.coupled, key=lambda s: order[s]) for unit in stage.units or ()
        )
        middle = _with_all_units(
            Stage.of(list(tokens_in), tokens_out, [*self.buffers, *sequence], list(units))
        )
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
            (s for s in waiting if all(produced.get(token) in (*done, None) for token in s.depends_in)), None
        )
        if ready is None:
            raise ScheduleError.at(waiting[0].location, "the tokens of the stages form a circle")
        waiting.remove(ready)
        done.append(ready)
    return done


def _port(stage: Stage, cell: Cell, transfer: DataTransfer) -> Port:
    """One end of a transfer; it must be a box of a buffer, moved by the one unit of its stage."""
    if stage.units is None or len(stage.units) != 1:
        raise ScheduleError.at(stage.location, "a stage that moves operands must name one unit")
    type = cell.value.type
    if not isinstance(type, MemRefType) or type.memory_space is None or cell.map is None:
        raise ScheduleError.at(transfer.location, "this transfer must move boxes of a buffer in some memory")
    return Port(stage.units[0], cell)
