"""A store that the next iteration loads: the two ends meet in between (dataflowir spec 2.9, 2.11).

The meeting stands twice: first in the loading stage, not in the first iteration, and last in the storing
stage, not in the last one. Iteration n of the store then pairs with iteration n + 1 of the load.

Under `BackedgeGuard.LINEAR` all loops around count, so that the first (last) iteration is the very first
(very last) one. There is no guard where the number of iterations is not known in advance, or differs between
units, where a condition in a loop decides over the pipeline, or where other pipelines stand in sequence with
it (between which units meet, too, in the order of the text): the two meet behind the store every time, which
always pairs up. Under `BackedgeGuard.AND` only the loops count that an address depends on, and each of
them must be beyond its first (before its last) iteration: the text of the published version, which deadlocks
where an inner loop sends more than the queues hold.

There is no back edge (but under `BackedgeGuard.AND`) where every iteration stores what it loads itself, and
nothing else (`in_place`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

from attrs import frozen

from dfsched.dialects.ktdf import DataTransfer, Parallel, Pipeline, SelectMemref, Stage
from dfsched.dialects.ktdf_lowering import Signal
from dfsched.lowering.in_place import is_in_place
from dfsched.lowering.meetings import may_alias, memory_of, origin
from dfsched.lowering.stage_graph import local_edges
from dfsched.passes.index_arithmetic import buffer_address
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, memref, scf
from ktir.dialects.linalg import LinalgOp
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.types import I1, INDEX, MemRefType, bit_width

__all__ = ["BackEdge", "BackedgeGuard", "carried", "repeats", "trip_count"]


class BackedgeGuard(enum.Enum):
    """Which iterations of two or more loops a store and the next load of its result skip when they meet.

    LINEAR: the very first and the very last one. AND: every one that is the first (last) of any of the loops,
    as the first published version does; such a program may deadlock.
    """

    AND = "and"
    LINEAR = "linear"


@frozen(eq=False)
class BackEdge:
    """A storing stage whose results a later iteration of a loading stage of the same pipeline reads.

    `loops`: those around the pipeline whose iterations guard the meeting; none: no guard.
    """

    store: Stage
    load: Stage
    loops: tuple[scf.For, ...]

    def at_load(self, units: Sequence[Value], guard: BackedgeGuard) -> list[Operation]:
        """The guarded meeting at the start of the loading stage."""
        flags = [_differs(loop.induction_variable, loop.lower) for loop in self.loops]
        return _guarded(flags, units, guard)

    def at_store(self, units: Sequence[Value], guard: BackedgeGuard) -> list[Operation]:
        """The guarded meeting at the end of the storing stage."""
        lasts = [arith.SubI.create((loop.upper, loop.step), (INDEX,)) for loop in self.loops]
        flags = [
            _differs(loop.induction_variable, last.results[0])
            for loop, last in zip(self.loops, lasts, strict=True)
        ]
        return [*lasts, *_guarded(flags, units, guard)]


def _differs(a: Value, b: Value) -> arith.CmpI:
    return arith.CmpI.create((a, b), (I1,), {"predicate": IntegerAttr(arith.CmpIPredicate.NE)})


def _guarded(flags: Sequence[Operation], units: Sequence[Value], guard: BackedgeGuard) -> list[Operation]:
    operations = list(flags)
    combine = arith.AndI if guard is BackedgeGuard.AND else arith.OrI
    flag = flags[0].results[0]
    for other in flags[1:]:
        operations.append(combine.create((flag, other.results[0]), (I1,)))
        flag = operations[-1].results[0]
    inside = Region.of((Signal.create(units), scf.Yield.create()))
    return [*operations, scf.If.create((flag,), regions=(inside, Region()))]


def carried(pipeline: Pipeline, uses: DefUse, guard: BackedgeGuard) -> list[BackEdge]:
    """The back edges of a pipeline in a loop; no unit kinds are looked at."""
    edges = local_edges(pipeline)
    first = [stage for stage in pipeline.stages if all(stage is not consumer for _, consumer in edges)]
    last = [stage for stage in pipeline.stages if all(stage is not producer for producer, _ in edges)]
    found = []
    for store in pipeline.stages:
        behind = _behind(store, edges)
        for load in pipeline.stages:
            if load in behind:
                continue
            ends = store in last and load in first  # others only meet over memory that is no buffer
            loads = [op for op in _transfers(load) if _is_loaded_again(op, store, uses)]
            loads = [op for op in loads if ends or memory_of(op.source, uses) is not None]
            if not loads or (guard is BackedgeGuard.AND and not ends):
                continue
            around = tuple(op for op in uses.ancestors(pipeline) if repeats(op, uses))
            if guard is BackedgeGuard.AND:
                needed = tuple(_dependent(loads, load, store, uses))
                if needed:
                    found.append(BackEdge(store, load, needed))
            elif around and not is_in_place(pipeline, store, load, uses):
                found.append(BackEdge(store, load, _guards(pipeline, around, uses)))
    return found


def _behind(stage: Stage, edges: Sequence[tuple[Stage, Stage]]) -> set[Stage]:
    """A stage and those that depend on it."""
    found = {stage}
    pending = [stage]
    while pending:
        here = pending.pop()
        new = [consumer for producer, consumer in edges if producer is here and consumer not in found]
        found.update(new)
        pending += new
    return found


def _guards(pipeline: Pipeline, around: Sequence[Operation], uses: DefUse) -> tuple[scf.For, ...]:
    """The loops, outermost first, if they repeat the pipeline alone and its first and last run are known."""
    inner: Operation = pipeline
    for op in uses.ancestors(pipeline):
        if isinstance(op, scf.If):  # the first run need not be in the first iteration
            return ()
        block = next(b for region in op.regions for b in region.blocks if inner in b.operations)
        others = (other for other in block.operations if other is not inner and other.regions)
        if any(isinstance(part, Pipeline) for other in others for part in other.walk()):
            return ()
        if op is around[-1]:
            break
        inner = op
    loops = [loop for loop in around if isinstance(loop, scf.For) and _is_exact(loop, uses)]
    return tuple(reversed(loops)) if len(loops) == len(around) else ()


# -- loops -------------------------------------------------------------------------------------------


def _bounds(loop: scf.For, uses: DefUse) -> tuple[int, int, int] | None:
    """Lower bound, upper bound and step, if they are constants."""
    bounds = []
    for value in (loop.lower, loop.upper, loop.step):
        match uses.definer(value):
            case arith.Constant(value=IntegerAttr(value=number)):
                bounds.append(number)
            case _:
                return None
    lower, upper, step = bounds
    return lower, upper, step


def _is_exact(loop: scf.For, uses: DefUse) -> bool:
    """Whether the last iteration is the one at ``upper - step``."""
    bounds = _bounds(loop, uses)
    return bounds is not None and bounds[2] > 0 and (bounds[1] - bounds[0]) % bounds[2] == 0


def trip_count(loop: scf.For, uses: DefUse) -> int | None:
    """The number of iterations if the bounds are constants (1 stands for at most one)."""
    bounds = _bounds(loop, uses)
    if bounds is None or bounds[2] <= 0:
        return None
    lower, upper, step = bounds
    return max(1, -(-(upper - lower) // step))


def repeats(op: Operation, uses: DefUse) -> bool:
    """Whether an operation is a loop that may run more than once."""
    return isinstance(op, Parallel | scf.While) or (isinstance(op, scf.For) and trip_count(op, uses) != 1)


def _dependent(loads: Sequence[DataTransfer], load: Stage, store: Stage, uses: DefUse) -> Iterator[scf.For]:
    """The loops around the pipeline that an address depends on, in the order in which they are found."""
    stores = [op for op in _transfers(store) if isinstance(op.dest.type, MemRefType)]
    pending = [index for op in loads for index in op.source_cell.indices]
    pending += [index for op in stores for index in op.dest_cell.indices]
    for stage, transfers in ((load, loads), (store, stores)):
        for op in transfers:
            for outer in uses.ancestors(op):
                if outer is stage:
                    break
                pending += outer.operands
    around = [op for op in uses.ancestors(load) if isinstance(op, scf.For)]
    by_variable = {loop.induction_variable: loop for loop in around if trip_count(loop, uses) != 1}
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        definer = uses.definer(value)
        if definer is not None:
            pending += definer.operands
        elif isinstance(value, BlockArgument) and value in by_variable:
            yield by_variable[value]


# -- memory ------------------------------------------------------------------------------------------


def _transfers(stage: Stage) -> list[DataTransfer]:
    return [op for op in stage.walk() if isinstance(op, DataTransfer)]


def _written(stage: Stage) -> Iterator[Value]:
    """Every memref that something in a stage writes."""
    for op in stage.walk():
        match op:
            case DataTransfer(dest=target) | memref.Copy(target=target) if isinstance(
                target.type, MemRefType
            ):
                yield target
            case memref.Store():
                yield op.memref
            case LinalgOp():
                yield from (value for value in op.output_values if isinstance(value.type, MemRefType))


def _is_loaded_again(load: DataTransfer, store: Stage, uses: DefUse) -> bool:
    """Whether a stage writes what a transfer reads from memory."""
    return isinstance(load.source.type, MemRefType) and any(
        _same_memory(load.source, target, uses) for target in _written(store)
    )


def _same_memory(a: Value, b: Value, uses: DefUse) -> bool:
    first, second = memory_of(a, uses), memory_of(b, uses)
    if first is not None or second is not None:
        return may_alias(first, second)
    return any(x.overlaps(y) for x in _buffers(a, uses) for y in _buffers(b, uses))


@frozen(eq=False)
class _Buffer:
    """A buffer; `span` is its first byte and the end, if known."""

    value: Value
    span: tuple[int, int] | None

    def overlaps(self, other: _Buffer) -> bool:
        if self.value is other.value:
            return True
        a, b = self.value.type, other.value.type
        in_one = isinstance(a, MemRefType) and isinstance(b, MemRefType) and a.memory_space == b.memory_space
        if not in_one or self.span is None or other.span is None:
            return False
        return self.span[0] < other.span[1] and other.span[0] < self.span[1]


def _buffers(value: Value, uses: DefUse) -> Iterator[_Buffer]:
    """The buffers that a memref may stand for."""
    root, definer = origin(value, uses)
    type = root.type
    match definer:
        case SelectMemref():
            for candidate in definer.candidates:
                yield from _buffers(candidate, uses)
        case _:
            start = buffer_address(definer, uses)
            if start is None or not isinstance(type, MemRefType) or not type.is_static:
                yield _Buffer(root, None)
                return
            size = type.num_elements() * -(-bit_width(type.element) // 8)
            yield _Buffer(root, (start, start + size))
