"""`double-buffering`: copies of a scratchpad buffer, so that neighbouring iterations overlap (scheduler
spec 3.15).

Takes pipelines in loops. A buffer of the pipeline that one stage fills and later ones drain gets as many
copies as the plan says (two without a plan, and in the v1 profile) in front of the loops; iterations rotate
through them by one `ktdf.buffer_phase` per depth and a `ktdf.select_memref` per buffer. The pipeline is
marked ``modulo(size : N)``, N the largest depth. Pipelines that are marked already stay as they are.

Before::

    scf.for %a = ... { ktdf.pipeline { private { %b = memref.alloc() : memref<2x64xf16, "L1"> } ... } }

After::

    %b0 = memref.alloc() : memref<2x64xf16, "L1">
    %b1 = memref.alloc() : memref<2x64xf16, "L1">
    scf.for %a = ... {
      %phase = ktdf.buffer_phase(%a) {num_phases = 2 : i64} : index
      %b = ktdf.select_memref %phase[%b0, %b1] : memref<2x64xf16, "L1">
      ktdf.pipeline modulo(size : 2) { ... }
    }
    memref.dealloc %b0 : memref<2x64xf16, "L1">
    memref.dealloc %b1 : memref<2x64xf16, "L1">

>>> from dfsched.passes.examples import after, kernel
>>> after("double-buffering", kernel(rows=4096),
... r"modulo|buffer_phase|select_memref")
%5 = ktdf.buffer_phase(%arg0) {num_phases = 2 : i64} : index
%6 = ktdf.select_memref %5[%alloc, %alloc_2] : memref<?x4x1x64xf16, "L1">
%7 = ktdf.select_memref %5[%alloc_3, %alloc_4] : memref<?x4x1x64xf16, "L1">
ktdf.pipeline modulo(size : 2) {
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, frozen

from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import (
    BufferPhase,
    DataTransfer,
    Pipeline,
    Private,
    ReserveSize,
    SelectMemref,
    Stage,
)
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks, substitute
from dfsched.passes.loop_nests import OPERAND, nest_number, nest_plan, pipeline_scope
from ktir.attributes import IntegerAttr
from ktir.dialects import memref, scf
from ktir.dialects.builtin import Module
from ktir.ir import Operation, OpResult, Region, Value
from ktir.opdef import PURE
from ktir.types import I64, MemRefType

__all__ = ["DEPTH", "PASS", "run"]

DEPTH = 2
"""Copies of a buffer where no plan says how many."""


@frozen
class _Buffer:
    """A private result that rotates: its allocation and the number of copies."""

    result: OpResult
    alloc: memref.Alloc
    depth: int


@define(eq=False)
class _Rotation:
    """One pipeline, the loops of its phase (outermost first), the buffers that rotate."""

    pipeline: Pipeline
    loops: tuple[scf.For, ...]
    buffers: list[_Buffer]


def run(module: Module, context: PassContext) -> Module:
    """Rotate the buffers of every pipeline that has some to rotate."""
    definitions = Definitions(module)
    work = [
        found
        for op in module.walk()
        if isinstance(op, Pipeline) and (found := _rotation(op, definitions, context)) is not None
    ]
    if not work:
        return module
    copies: dict[_Rotation, list[list[Operation]]] = {
        rotation: [clone_all([buffer.alloc] * buffer.depth, {}) for buffer in rotation.buffers]
        for rotation in work
    }
    at_pipeline = {rotation.pipeline.regions[0].block.label: rotation for rotation in work}
    at_loop = {rotation.loops[0].induction_variable: rotation for rotation in work}

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            match op:
                case Pipeline() if (rotation := at_pipeline.get(op.regions[0].block.label)) is not None:
                    result += _rotated(op, rotation, copies[rotation])
                case scf.For() if (rotation := at_loop.get(op.induction_variable)) is not None:
                    allocs = [alloc for group in copies[rotation] for alloc in group]
                    result += [*allocs, op, *(memref.Dealloc.create([a.results[0]]) for a in allocs)]
                case _:
                    result.append(op)
        return result

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


PASS = Pass("double-buffering", Group.SCHEDULER, run, "rotate scratchpad buffers so that iterations overlap")


def _rotation(pipeline: Pipeline, definitions: Definitions, context: PassContext) -> _Rotation | None:
    private = pipeline.private
    if pipeline.modulo is not None or private is None:
        return None
    loops = _phase_loops(pipeline, definitions)
    if not loops:
        return None
    buffers = []
    for result, value in zip(private.results, private.yielded, strict=True):
        alloc = definitions.definer(value)
        if not isinstance(alloc, memref.Alloc) or not _is_eligible(
            result, alloc, private, definitions, context
        ):
            continue
        if not _is_handed_on(pipeline, result):
            continue
        if any(_is_inside(size, loops[0], definitions) for size in alloc.operands):
            continue
        depth = _depth(pipeline, result, definitions, context)
        if depth > 1:
            buffers.append(_Buffer(result, alloc, depth))
    return _Rotation(pipeline, loops, buffers) if buffers else None


def _phase_loops(pipeline: Pipeline, definitions: Definitions) -> tuple[scf.For, ...]:
    """Loops whose iterations the phase counts, outermost first.

    All but the outermost one have the same trip count in every iteration of those around them.
    """
    loops: list[scf.For] = []
    for loop in pipeline_scope(pipeline, definitions):
        if loop.inits or not all(
            _is_independent(bound, loop, definitions) for inner in loops for bound in inner.operands[:3]
        ):
            break
        loops.append(loop)
    return tuple(reversed(loops))


def _is_independent(value: Value, loop: scf.For, definitions: Definitions) -> bool:
    """Whether a value is the same in all iterations of a loop: made in front of it, or of such values."""
    if not _is_inside(value, loop, definitions):
        return True
    op = definitions.definer(value)
    return (
        op is not None
        and (op.definition_has(PURE) or isinstance(op, ReserveSize))
        and not op.regions
        and all(_is_independent(operand, loop, definitions) for operand in op.operands)
    )


def _is_eligible(
    result: OpResult,
    alloc: memref.Alloc,
    private: Private,
    definitions: Definitions,
    context: PassContext,
) -> bool:
    """A buffer in a per-core scratchpad, allocated in the private and used by nothing but its yield."""
    type = result.type
    if not isinstance(type, MemRefType) or type.memory_space is None:
        return False
    if not context.architecture.is_per_core_scratchpad(kind_of(type.memory_space)):
        return False
    return alloc in private.body.block.operations and len(definitions.uses(alloc.memref)) == 1


def _is_handed_on(pipeline: Pipeline, buffer: Value) -> bool:
    """Exactly one stage fills the buffer, others behind it drain it, and none does both."""
    producers = [stage for stage in pipeline.stages if any(op.dest is buffer for op in _transfers(stage))]
    consumers = [stage for stage in pipeline.stages if any(op.source is buffer for op in _transfers(stage))]
    if len(producers) != 1 or not consumers or producers[0] in consumers:
        return False
    behind = _behind(pipeline, producers[0])
    return all(consumer in behind for consumer in consumers)


def _transfers(stage: Stage) -> list[DataTransfer]:
    return [op for op in stage.walk() if isinstance(op, DataTransfer)]


def _behind(pipeline: Pipeline, stage: Stage) -> set[Stage]:
    """Stages that wait for a stage, directly or not."""
    found: set[Stage] = set()
    pending = [stage]
    while pending:
        current = pending.pop()
        for other in pipeline.stages:
            if other not in found and not set(current.depends_out).isdisjoint(other.depends_in):
                found.add(other)
                pending.append(other)
    return found


def _is_inside(value: Value, loop: scf.For, definitions: Definitions) -> bool:
    """Whether a value is made in a loop (and so is not there in front of it)."""
    block = definitions.defining_block(value)
    while block is not None:
        owner = definitions.owner(block)
        if owner is loop:
            return True
        block = definitions.block(owner)
    return False


def _depth(pipeline: Pipeline, buffer: Value, definitions: Definitions, context: PassContext) -> int:
    """Copies that the plan gives the operand behind a buffer."""
    if context.options.profile is Profile.V1:
        return DEPTH
    plan = nest_plan(pipeline, nest_number(pipeline), definitions)
    if plan is None:
        return DEPTH
    depths = [
        plan.buffer_depths[number.value]
        for stage in pipeline.stages
        for op in _transfers(stage)
        if buffer in (op.source, op.dest) and isinstance(number := op.attributes.get(OPERAND), IntegerAttr)
    ]
    return max(depths, default=max(plan.buffer_depths, default=1))


def _rotated(
    pipeline: Pipeline, rotation: _Rotation, copies: Sequence[Sequence[Operation]]
) -> list[Operation]:
    """The phases, the selections and the pipeline without the buffers that rotate."""
    variables = [loop.induction_variable for loop in rotation.loops]
    phases: dict[int, BufferPhase] = {}
    selects: list[Operation] = []
    mapping: dict[Value, Value] = {}
    for buffer, group in zip(rotation.buffers, copies, strict=True):
        if buffer.depth not in phases:
            phases[buffer.depth] = BufferPhase.of(variables, buffer.depth)
        candidates = [alloc.results[0] for alloc in group]
        select = SelectMemref.create([phases[buffer.depth].phase, *candidates], [candidates[0].type])
        selects.append(select)
        mapping[buffer.result] = select.results[0]
    private = pipeline.private
    assert private is not None
    gone = {buffer.result for buffer in rotation.buffers}
    dropped = {buffer.alloc for buffer in rotation.buffers}
    kept = [
        (result, value)
        for result, value in zip(private.results, private.yielded, strict=True)
        if result not in gone
    ]
    body = [op for op in private.body.block.operations[:-1] if op not in dropped]
    smaller = Private.of(body, [value for _, value in kept])
    mapping.update({old: new for (old, _), new in zip(kept, smaller.results, strict=True)})
    stages = [substitute(stage, mapping) for stage in pipeline.stages]
    operations = [smaller, *stages] if kept else stages
    modulo = IntegerAttr(max(phases), I64)
    new = pipeline.replace(attributes={"modulo": modulo}, regions=[Region.of(operations)])
    return [*phases.values(), *selects, new]
