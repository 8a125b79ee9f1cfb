"""`broadcast-promotion`: what every iteration of a loop loads anew is loaded once (scheduler spec 3.14).

Takes any module with expanded pipelines. A transfer into a buffer that depends on no variable of the loops
around its pipeline, whose source nobody writes in them, moves into a pipeline of its own in front of the
outermost loop for which that holds; the buffer moves with it. One transfer at a time, the one that goes
farthest out first, until none is left. What only depends on no loop inside of its stage moves to the front
of the stage. Where a plan says which operands may move (`NestPlan.hoisted`), only those do.

Before::

    scf.for %i = ... { ktdf.pipeline {
      stage { from %w[0] to %v#0[0]  from %x[%i, 0] to %v#1[0] } {["MNILU"]}  stage { %v#0 ... } } }

After::

    %b = memref.alloc() : memref<64xf16, "L1">
    ktdf.pipeline { stage { from %w[0] to %b[0] } {["MNILU"]} }
    scf.for %i = ... { ktdf.pipeline {
      stage { from %x[%i, 0] to %v#1[0] } {["MNILU"]}  stage { %b ... } } }

>>> from dfsched.passes.examples import after, generic, kernel
>>> after("broadcast-promotion",
... kernel(generic("(d0, d1) -> (0, d1)", "%s = arith.addf %p, %p : f16"), 4096),
... r"ktdf.pipeline|scf.for|data_transfer.*%alloc")
ktdf.pipeline {
scf.for %arg0 = %c0 to %c4 step %c1 {
ktdf.data_transfer from %reinterpret_cast_1[0, %arg0 * 64] size [1, 64] to %alloc[%arg0, 0, 0]
    size [1, 1, 64] : memref<4096x256xf16, strided<[256, 1], offset: ?>, "DDR">,
    memref<4x1x64xf16, "L1">
scf.for %arg0 = %c0 to %3 step %c1 {
ktdf.pipeline {
scf.for %arg1 = %c0 to %4 step %c1 {
scf.for %arg2 = %c0 to %c4 step %c1 {
ktdf.pipeline {
ktdf.data_transfer from %alloc[%arg2, 0, 0] size [1, 1, 64] to %7#0 size [64] {ktdf.operand = 0
    : i64} : memref<4x1x64xf16, "L1">, !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>
scf.for %arg1 = %c0 to %4 step %c1 {
scf.for %arg2 = %c0 to %c4 step %c1 {
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from dfsched.architecture import Architecture
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import (
    DataTransfer,
    DeriveSize,
    Parallel,
    Pipeline,
    Private,
    ReadFromFifo,
    SelectMemref,
    Stage,
    WriteToFifo,
)
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.index_arithmetic import constant_value, depends_on
from dfsched.passes.ir_tools import Definitions, captured, clone_all, rewrite_blocks, substitute
from dfsched.passes.loop_nests import OPERAND, nest_number, nest_plan, pipeline_scope
from dfsched.passes.memory_accesses import may_alias, root_of
from dfsched.passes.pipeline_parts import without_unused
from dfsched.passes.simplify_loops import static_trips
from ktir.analysis import is_pure
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, ktdp, linalg, memref, scf
from ktir.dialects.builtin import Module
from ktir.ir import Operation, OpResult, Region, Value
from ktir.types import MemRefType

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Hoist until nothing can be hoisted."""
    while True:
        definitions = Definitions(module)
        found = next(
            (
                candidate
                for op in _post_order(module)
                if isinstance(op, Pipeline)
                and (candidate := _candidate(op, definitions, context.architecture)) is not None
            ),
            None,
        )
        if found is None:
            return _in_stages(module)
        module = _hoisted(module, found)


PASS = Pass(
    "broadcast-promotion", Group.SCHEDULER, run, "load what no iteration changes in front of the loops"
)


def _post_order(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _post_order(inner)
    yield op


@frozen(eq=False)
class _Candidate:
    """A transfer that can move in front of a loop; `alloc` is the buffer's allocation in the private."""

    pipeline: Pipeline
    stage: Stage
    transfer: DataTransfer
    loop: scf.For
    distance: int
    result: Value
    alloc: memref.Alloc


# -- what can move ----------------------------------------------------------------------------------------


def _candidate(pipeline: Pipeline, definitions: Definitions, architecture: Architecture) -> _Candidate | None:
    """The transfer of a pipeline that goes farthest out, the first among equals."""
    scope = pipeline_scope(pipeline, definitions)
    best: _Candidate | None = None
    if not scope or pipeline.modulo is not None:
        return None
    for stage in pipeline.stages:
        for op in stage.walk():
            if isinstance(op, DataTransfer) and _is_in_scratchpad(op.dest, architecture):
                found = _target(pipeline, stage, op, scope, definitions)
                if found is not None and (best is None or found.distance > best.distance):
                    best = found
    return best


def _is_in_scratchpad(dest: Value, architecture: Architecture) -> bool:
    """Whether a destination is a buffer that all units of a core see (memories below have instances)."""
    if not isinstance(dest.type, MemRefType) or dest.type.memory_space is None:
        return False
    return architecture.is_per_core_scratchpad(kind_of(dest.type.memory_space))


def _target(
    pipeline: Pipeline,
    stage: Stage,
    transfer: DataTransfer,
    scope: Sequence[scf.For],
    definitions: Definitions,
) -> _Candidate | None:
    alloc = _allocation(transfer.dest, pipeline, definitions)
    if alloc is None or not _may_move(pipeline, transfer, definitions):
        return None
    found: _Candidate | None = None
    for distance, loop in enumerate(scope, start=1):
        inside = {v for op in loop.walk() for v in op.results} | set(loop.body.block.arguments)
        if not inside.isdisjoint(alloc.operands) or not _is_invariant(transfer, stage, loop, definitions):
            break
        found = _Candidate(pipeline, stage, transfer, loop, distance, transfer.dest, alloc)
    return found


def _allocation(dest: Value, pipeline: Pipeline, definitions: Definitions) -> memref.Alloc | None:
    """The allocation behind a private result of the pipeline."""
    private = pipeline.private
    if private is None or dest not in private.results:
        return None
    alloc = definitions.definer(private.yielded[private.results.index(dest)])
    return alloc if isinstance(alloc, memref.Alloc) else None


def _may_move(pipeline: Pipeline, transfer: DataTransfer, definitions: Definitions) -> bool:
    """Whether the plan lets the operand move; without a plan everything may."""
    plan = nest_plan(pipeline, nest_number(pipeline), definitions)
    if plan is None:
        return True
    operand = _operand(transfer, pipeline)
    return operand is None or operand in plan.hoisted


def _operand(transfer: DataTransfer, pipeline: Pipeline) -> int | None:
    """The operand of the nest that a transfer is part of: it stands on the last hop."""
    transfers = [op for op in pipeline.walk() if isinstance(op, DataTransfer)]
    current: DataTransfer | None = transfer
    while current is not None:
        match current.attributes.get(OPERAND):
            case IntegerAttr(value=number):
                return number
        dest = current.dest
        current = next((op for op in transfers if op.source is dest), None)
    return None


def _is_invariant(transfer: DataTransfer, stage: Stage, loop: scf.For, definitions: Definitions) -> bool:
    """Whether the transfer does the same in every iteration of a loop that surely runs."""
    if not _surely_runs(loop, definitions):
        return False
    variables: set[Value] = {*loop.body.block.arguments}
    used = [
        value for value in transfer.operands if value is not transfer.source and value is not transfer.dest
    ]
    for ancestor in definitions.ancestors(transfer):
        if ancestor is stage:
            break
        if not isinstance(ancestor, scf.For | scf.If) or ancestor.results:
            return False
        if _changes_nothing(ancestor, used, definitions):
            continue  # it is opened when the transfer moves
        used += ancestor.operands
    if depends_on(used, variables, definitions):
        return False
    inside = {value for op in loop.walk() for value in op.results}
    source = definitions.definer(transfer.source)
    if source in set(loop.walk()) or (source is None and transfer.source in inside):
        return False
    for op in loop.walk():
        if op is transfer:
            continue
        for written in _written(op):
            if _aliases(written, transfer.source, definitions) or _aliases(
                written, transfer.dest, definitions
            ):
                return False
    return True


def _changes_nothing(loop: Operation, used: Sequence[Value], definitions: Definitions) -> bool:
    """Whether it is all the same how often a loop does something with these operands, once at least."""
    return (
        isinstance(loop, scf.For)
        and not depends_on(used, {loop.induction_variable}, definitions)
        and _surely_runs(loop, definitions)
    )


def _surely_runs(loop: scf.For, definitions: Definitions) -> bool:
    """Whether a loop has an iteration: by its constant bounds, or as one over tiles, or over a tile."""
    trips = static_trips(loop, definitions)
    if trips is not None:
        return trips > 0
    if constant_value(loop.lower, definitions) != 0:
        return False
    match definitions.definer(loop.upper):
        case arith.CeilDivUI() as tiles:
            total = constant_value(tiles.operands[0], definitions)
            return total is not None and total > 0
        case DeriveSize(loop_variables=(variable,), tile_sizes=(size,)) as points:
            outer = definitions.region_owner(variable)
            count = definitions.definer(outer.upper) if isinstance(outer, scf.For) else None
            total = constant_value(points.total_size, definitions)
            return (
                isinstance(count, arith.CeilDivUI)
                and count.operands[1] is size
                and total is not None
                and total > 0
                and constant_value(count.operands[0], definitions) == total
            )
        case _:
            return False


def _written(op: Operation) -> Sequence[Value]:
    """Memrefs that an operation writes; what is not known counts as written."""
    match op:
        case DataTransfer():
            return [op.dest] if isinstance(op.dest.type, MemRefType) else []
        case linalg.LinalgOp():
            return [value for value in op.output_values if isinstance(value.type, MemRefType)]
        case ReadFromFifo() | WriteToFifo() | Private() | Stage() | Pipeline() | SelectMemref() | Parallel():
            return []
        case _ if is_pure(op) or op.regions or op.name in ("memref.alloc", "memref.dealloc", "memref.load"):
            return []
        case _ if op.name in ("scf.yield", "ktdf.private_yield", "ktdf.parallel_yield"):
            return []
        case _:
            return [value for value in op.operands if isinstance(value.type, MemRefType)]


def _roots(value: Value, definitions: Definitions) -> list[tuple[Value, Operation | None]]:
    """What a memref may be, behind casts, private results and phases."""
    definer = definitions.definer(value)
    match definer:
        case Private():
            return _roots(definer.yielded[definer.results.index(value)], definitions)
        case memref.Cast() | memref.MemorySpaceCast() | memref.ReinterpretCast() | memref.SubView():
            return _roots(definer.operands[0], definitions)
        case SelectMemref():
            return [root for candidate in definer.candidates for root in _roots(candidate, definitions)]
        case _:
            return [(value, definer)]


def _aliases(a: Value, b: Value, definitions: Definitions) -> bool:
    """Whether two memrefs may share bytes: buffers are apart from each other and from pinned ranges."""
    for first, one in _roots(a, definitions):
        for second, two in _roots(b, definitions):
            if first is second:
                return True
            if isinstance(one, ktdp.ConstructMemoryView) and isinstance(two, ktdp.ConstructMemoryView):
                if may_alias(root_of(one, definitions), root_of(two, definitions)):
                    return True
            elif not isinstance(one, memref.Alloc) and not isinstance(two, memref.Alloc):
                return True
    return False


# -- inside of stages ---------------------------------------------------------------------------------------


def _in_stages(module: Module) -> Module:
    """Transfers to the front of their stages where the loops there do not change them."""
    while True:
        definitions = Definitions(module)
        found = next(
            (
                (stage, op)
                for stage in module.walk()
                if isinstance(stage, Stage) and not any(isinstance(o, Pipeline) for o in stage.walk())
                for op in stage.walk()
                if isinstance(op, DataTransfer) and _goes_to_front(op, stage, definitions)
            ),
            None,
        )
        if found is None:
            return module
        module = _fronted(module, *found)


def _goes_to_front(op: DataTransfer, stage: Stage, definitions: Definitions) -> bool:
    around = []
    for ancestor in definitions.ancestors(op):
        if ancestor is stage:
            break
        around.append(ancestor)
    if not around or not all(isinstance(loop, scf.For) for loop in around):
        return False
    if not isinstance(op.source.type, MemRefType) or not isinstance(op.dest.type, MemRefType):
        return False
    pipeline = next((a for a in definitions.ancestors(stage) if isinstance(a, Pipeline)), None)
    if pipeline is None or not _may_move(pipeline, op, definitions):
        return False
    return all(isinstance(loop, scf.For) and _is_invariant(op, stage, loop, definitions) for loop in around)


def _fronted(module: Module, stage: Stage, transfer: DataTransfer) -> Module:
    front = clone_all(_pruned(stage.body.block.operations, transfer), {})

    def drop(operations: Sequence[Operation]) -> list[Operation]:
        return [op for op in operations if op is not transfer and not _is_idle(op)]

    rest = rewrite_blocks(stage, drop)
    block = rest.regions[0].block
    new_stage = rest.replace(regions=[Region((block.replace(operations=[*front, *block.operations]),))])

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [new_stage if op is stage else op for op in operations]

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


# -- moving -----------------------------------------------------------------------------------------------


def _hoisted(module: Module, found: _Candidate) -> Module:
    """The module with one transfer in front of its loop."""
    buffer = OpResult(found.alloc.memref.type, found.alloc.memref.name)
    private = found.pipeline.private
    assert private is not None
    mapping: dict[Value, Value] = {found.result: buffer}
    body = clone_all(_pruned(found.stage.body.block.operations, found.transfer), dict(mapping))
    stage = Stage.of([], [], body, found.stage.units)
    single = Pipeline.of([stage]).replace(location=found.transfer.location)
    alloc = memref.Alloc(
        found.alloc.operands, (buffer,), found.alloc.attributes, location=found.alloc.location
    )
    front = [alloc, single]
    rest = _without(found, mapping)
    variable = found.loop.induction_variable
    replaced: dict[Operation, Operation] = {found.pipeline: rest}

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, scf.For) and op.induction_variable is variable:
                result += front
            result.append(replaced.get(op, op))
        return result

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


def _pruned(operations: Sequence[Operation], kept: DataTransfer) -> list[Operation]:
    """The operations of a stage that a transfer needs; loops whose variable it does not use are opened."""
    result: list[Operation] = []
    wanted: set[Value] = set()
    for op in reversed(operations):
        new: list[Operation] = []
        if op is kept:
            new = [op]
        elif any(inner is kept for inner in op.walk()):
            new = _around(op, kept)
        elif not wanted.isdisjoint(op.results):
            new = [op]
        for added in new:
            wanted.update(captured(added))
        result = [*new, *result]
    return result


def _around(op: Operation, kept: DataTransfer) -> list[Operation]:
    """An operation with regions around the transfer, or what is left of it."""
    regions: list[Region] = []
    inner: list[Operation] = []
    for region in op.regions:
        holds = any(o is kept for block in region.blocks for top in block.operations for o in top.walk())
        if not holds:
            regions.append(Region())
            continue
        block = region.block
        inner = _pruned(block.operations[:-1], kept)
        regions.append(Region((block.replace(operations=[*inner, block.operations[-1]]),)))
    if isinstance(op, scf.For):
        used = {value for o in inner for value in captured(o)}
        if op.induction_variable not in used:
            return inner
    return [op.replace(regions=regions)]


def _without(found: _Candidate, mapping: dict[Value, Value]) -> Pipeline:
    """The pipeline without the transfer, on the new buffer; stages that have nothing left to do go, too."""

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [op for op in operations if op is not found.transfer and not _is_idle(op)]

    stages: list[Stage] = []
    gone: set[Value] = set()
    for stage in found.pipeline.stages:
        new = rewrite_blocks(stage, rewrite) if stage is found.stage else stage
        assert isinstance(new, Stage)
        if stage is found.stage and not any(not is_pure(op) for op in new.body.block.operations):
            gone.update(stage.depends_out)
        else:
            stages.append(new)
    kept = [
        Stage.of(
            [token for token in stage.depends_in if token not in gone],
            list(stage.depends_out),
            [substitute(op, mapping) for op in stage.body.block.operations],
            stage.units,
            {n: a for n, a in stage.attributes.items() if n not in stage.definition.inherent},
        )
        for stage in stages
    ]
    return without_unused(found.pipeline, kept)


def _is_idle(op: Operation) -> bool:
    """Control flow around nothing."""
    if not isinstance(op, scf.For | scf.If) or op.results:
        return False
    inner = [o for region in op.regions for block in region.blocks for o in block.operations]
    return all(is_pure(o) or o.name == "scf.yield" for o in inner)
