"""`stage-coarsening`: point loops sink into the stages of their pipeline (scheduler spec 3.10).

Takes pipelines in loops, with units on every stage. Leaves an outer pipeline at the grain of tiles: stages
that are coupled to no other (copies) hold the sunk loops themselves, stages that must stay in lock step
share one stage with the loops around an inner pipeline. A buffer that one group hands to another gets a
leading dimension for every sunk loop on which it depends, and all its transfers get the loop's index there.

Which loops: the innermost ones, as many as the plan sinks (without a plan, and in the v1 profile, at most
two). A loop is sunk only if its body holds nothing but the pipeline, one loop and pure index arithmetic.

Before::

    scf.for %a = ... { scf.for %b = %c0 to %d step %c1 { ktdf.pipeline {
      stage { %p[...] to %buffer[0, 0] } {["MNILU"]}  stage ... {["L1LU"]}  stage ... {["SFU"]}  ... } } }

After::

    scf.for %a = ... { ktdf.pipeline {
      stage { scf.for %b = ... { %p[...] to %buffer[%b, 0, 0] } } {["MNILU"]}
      stage { scf.for %b = ... { ktdf.pipeline { stage ... stage ... } } } {["L1LU", "SFU", "L1SU"]}
      ... } }

>>> from dfsched.passes.examples import after, kernel
>>> after("stage-coarsening", kernel(),
... r"ktdf.pipeline|scf.for|applicable_units")
ktdf.pipeline {
scf.for %arg0 = %c0 to %c2 step %c1 {
scf.for %arg1 = %c0 to %c4 step %c1 {
} {applicable_units = ["MNILU"]}
scf.for %arg0 = %c0 to %c2 step %c1 {
scf.for %arg1 = %c0 to %c4 step %c1 {
ktdf.pipeline {
} {applicable_units = ["L1LU"]}
} {applicable_units = ["SFU"]}
} {applicable_units = ["L1SU"]}
} {applicable_units = ["L1LU", "SFU", "L1SU"]}
scf.for %arg0 = %c0 to %c2 step %c1 {
scf.for %arg1 = %c0 to %c4 step %c1 {
} {applicable_units = ["MNISU"]}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, evolve, field

from dfsched.dialects.ktdf import (
    Cell,
    CreateToken,
    DataTransfer,
    DeriveSize,
    FifoAllocate,
    Pipeline,
    Private,
    Stage,
)
from dfsched.dialects.ktdf.types import TokenType
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext, Setting
from dfsched.passes.build import Emitter
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.index_arithmetic import constant_value, depends_on
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks, substitute
from dfsched.passes.loop_nests import nest_number, nest_plan
from dfsched.passes.simplify_loops import static_trips
from dfsched.passes.stage_grouping import stage_groups
from ktir.affine import AffineMap, Dim
from ktir.attributes import DenseArrayAttr, DictAttr
from ktir.dialects import arith, memref, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.opdef import OPERAND_SEGMENTS, PURE
from ktir.types import I32, INDEX, MemRefType

__all__ = ["NEST_DEPTH", "PASS", "run"]

NAME = "stage-coarsening"

NEST_DEPTH: Setting[int] = Setting(NAME, "loop-nest-depth", 2, int)
"""Loops that are sunk where no plan says how many."""


def run(module: Module, context: PassContext) -> Module:
    """Coarsen every pipeline that has loops to sink."""
    nest_depth = context.setting(NEST_DEPTH)
    definitions = Definitions(module)
    work: dict[Value, _Coarsening] = {}
    findings = Findings()
    for op in module.walk():
        if isinstance(op, Pipeline):
            with findings.noting():
                loops = _candidates(op, definitions, context, nest_depth)
                if loops:
                    work[loops[-1].induction_variable] = _Coarsening(op, loops[::-1], definitions, context)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            found = work.get(op.induction_variable) if isinstance(op, scf.For) else None
            with findings.noting():
                result += [op] if found is None else found.result()
        return result

    if not work:
        return module
    new = rewrite_blocks(module, rewrite)
    findings.check()
    assert isinstance(new, Module)
    return new


PASS = Pass(
    NAME,
    Group.SCHEDULER,
    run,
    "sink point loops into the stages: pipelines of tiles",
    settings=(NEST_DEPTH,),
)


def _candidates(
    pipeline: Pipeline, definitions: Definitions, context: PassContext, nest_depth: int
) -> list[scf.For]:
    """Loops to sink, innermost first."""
    depth = nest_depth
    if context.options.profile is not Profile.V1:
        plan = nest_plan(pipeline, nest_number(pipeline), definitions)
        if plan is not None:
            depth = plan.sunk_loops
    loops: list[scf.For] = []
    path: Operation = pipeline
    if sum(isinstance(op, Pipeline) for op in pipeline.walk()) > 1:
        return loops  # coarsened already
    for ancestor in definitions.ancestors(pipeline):
        if len(loops) == depth or not isinstance(ancestor, scf.For) or ancestor.inits:
            break
        beside = [op for op in ancestor.body.block.operations[:-1] if op is not path]
        if not all(op.definition_has(PURE) and not op.regions for op in beside):
            break
        loops.append(ancestor)
        path = ancestor
    return loops


@define(eq=False)
class _Coarsening:
    """One pipeline with its sunk loops, outermost first."""

    pipeline: Pipeline
    loops: list[scf.For]
    definitions: Definitions
    context: PassContext
    groups: tuple[tuple[Stage, ...], ...] = field(init=False)
    before: Emitter = field(init=False)
    expanded: dict[Value, tuple[scf.For, ...]] = field(factory=dict)
    """Results of the private that get dimensions, with the loops that they are for."""

    def __attrs_post_init__(self) -> None:
        self.groups = stage_groups(self.pipeline.stages, self.context.architecture)
        self.before = Emitter(self.pipeline.location)

    def result(self) -> list[Operation]:
        """What stands in place of the outermost sunk loop."""
        homes = self._homes()
        self._expand(homes)
        outer_values: dict[Value, Value] = {}
        tokens = self._tokens()
        outer_private = self._private(
            [result for result, users in homes.items() if self._is_outer(result, users)],
            list(tokens.values()),
            outer_values,
        )
        stages = []
        for number, group in enumerate(self.groups):
            waits = [outer_values[tokens[other].token] for other in self._predecessors(number)]
            posts = [outer_values[tokens[number].token]] if number in tokens else []
            units = list(dict.fromkeys(unit for stage in group for unit in stage.units or ()))
            stages.append(Stage.of(waits, posts, self._group(group, homes, outer_values), units or None))
        body_ops: list[Operation] = [*([] if outer_private is None else [outer_private]), *stages]
        outer = self.pipeline.replace(regions=[Region.of(body_ops)])
        return [*self.before.operations, outer]

    # -- analysis

    def _homes(self) -> dict[OpResult, list[int]]:
        """For every resource of the pipeline, the groups that use it."""
        private = self.pipeline.private
        homes: dict[OpResult, list[int]] = {}
        if private is None:
            return homes
        made = {value for op in private.body.block.operations for value in op.results}
        if len(made.intersection(private.yielded)) != len(private.yielded):
            raise ScheduleError.at(
                private.location, "this private yields a resource twice, or one that is made elsewhere"
            )
        for result in private.results:
            if isinstance(result.type, TokenType):
                continue
            users = [n for n, group in enumerate(self.groups) if any(_uses(s, result) for s in group)]
            if users:
                homes[result] = users
        return homes

    def _is_outer(self, result: OpResult, users: Sequence[int]) -> bool:
        return len(users) != 1 or len(self.groups[users[0]]) == 1

    def _tokens(self) -> dict[int, CreateToken]:
        """One token per group that another one waits for."""
        waited = {other for number in range(len(self.groups)) for other in self._predecessors(number)}
        return {number: CreateToken.new() for number in sorted(waited)}

    def _predecessors(self, number: int) -> list[int]:
        wanted = {token for stage in self.groups[number] for token in stage.depends_in}
        return [
            other
            for other, group in enumerate(self.groups)
            if other != number and any(not wanted.isdisjoint(stage.depends_out) for stage in group)
        ]

    def _expand(self, homes: dict[OpResult, list[int]]) -> None:
        """Which buffers get dimensions, and for which loops."""
        transfers = [
            op for stage in self.pipeline.stages for op in stage.walk() if isinstance(op, DataTransfer)
        ]
        found: dict[Value, set[scf.For]] = {}
        for result, users in homes.items():
            if len(users) < 2 or not isinstance(result.type, MemRefType):
                continue
            touching = [op for op in transfers if result in (op.source, op.dest)]
            if not any(op.dest is result for op in touching):
                continue
            for stage in self.pipeline.stages:
                for op in stage.walk():
                    if result in op.operands and not isinstance(op, DataTransfer):
                        raise ScheduleError.at(
                            op.location, "a buffer between stages may only be used by transfers"
                        )
            indices = [value for op in touching for value in (*op.source_indices, *op.dest_indices)]
            found[result] = {
                loop
                for loop in self.loops
                if depends_on(indices, {loop.induction_variable}, self.definitions)
            }
        self._spread(found, transfers)
        for result in homes:
            if found.get(result):
                self.expanded[result] = tuple(loop for loop in self.loops if loop in found[result])

    @staticmethod
    def _spread(found: dict[Value, set[scf.For]], transfers: Sequence[DataTransfer]) -> None:
        """Buffers in different memories on one way hold the same: each depends on the loops of the others."""
        copies = [op for op in transfers if op.source in found and op.dest in found]
        for _ in copies:  # a way has at most as many steps
            for op in copies:
                found[op.source] = found[op.dest] = found[op.source] | found[op.dest]

    # -- construction

    def _private(
        self, results: Sequence[OpResult], tokens: Sequence[CreateToken], values: dict[Value, Value]
    ) -> Private | None:
        """A private of some old resources and new tokens; `values` learns what stands for what."""
        if not results and not tokens:
            return None
        old = self.pipeline.private
        operations: list[Operation] = []
        yielded: list[Value] = []
        inner: dict[Value, Value] = {}
        if old is not None:
            behind = dict(zip(old.results, old.yielded, strict=True))
            wanted = {behind[result]: result for result in results}
            needed = _needed(old, wanted)
            for op in needed:
                made = self._resource(op, wanted)
                clones = clone_all([made], inner)
                if isinstance(made, memref.Alloc) and isinstance(op, memref.Alloc):
                    inner[op.memref] = inner[made.memref]
                operations += clones
            yielded += [inner[behind[result]] for result in results]
        operations += tokens
        yielded += [token.token for token in tokens]
        private = Private.of(operations, yielded)
        keys: list[Value] = [*results, *(token.token for token in tokens)]
        values.update(zip(keys, private.results, strict=True))
        return private

    def _resource(self, op: Operation, wanted: dict[Value, OpResult]) -> Operation:
        """An operation of the old private, with the buffer expanded or unused slots left out."""
        match op:
            case memref.Alloc() if op.memref in wanted and wanted[op.memref] in self.expanded:
                return self._expanded_alloc(op, self.expanded[wanted[op.memref]])
            case FifoAllocate() if not op.operands:
                return FifoAllocate((), tuple(slot for slot in op.results if slot in wanted))
            case _:
                return op

    def _expanded_alloc(self, op: memref.Alloc, loops: Sequence[scf.For]) -> memref.Alloc:
        type = op.memref.type
        assert isinstance(type, MemRefType)
        extents: list[int | None] = []
        operands: list[Value] = []
        for loop in loops:
            extent = self._extent(loop)
            if isinstance(extent, int):
                extents.append(extent)
            else:
                extents.append(None)
                operands.append(extent)
        operands += op.sizes
        new = MemRefType((*extents, *type.shape), type.element, None, type.memory_space)
        segments = DenseArrayAttr(I32, (len(operands), len(op.symbols)))
        return memref.Alloc(
            (*operands, *op.symbols),
            (OpResult(new, op.memref.name),),
            DictAttr({**op.attributes, OPERAND_SEGMENTS: segments}),
            location=op.location,
        )

    def _extent(self, loop: scf.For) -> int | Value:
        """Copies that a loop needs: its trip count, or the size of the tile that it walks."""
        trips = static_trips(loop, self.definitions)
        if trips is not None:
            return trips
        if (
            constant_value(loop.lower, self.definitions) != 0
            or constant_value(loop.step, self.definitions) != 1
        ):
            raise ScheduleError.at(loop.location, "a loop of unknown trip count must start at 0 with step 1")
        match self.definitions.definer(loop.upper):
            case DeriveSize() as size:
                found = size.tile_sizes[-1]
            case _:
                found = loop.upper
        constant = constant_value(found, self.definitions)
        return found if constant is None else constant

    def _group(
        self, group: Sequence[Stage], homes: dict[OpResult, list[int]], outer: dict[Value, Value]
    ) -> list[Operation]:
        """The body of a group's stage: the loops around the stage's body or around an inner pipeline."""
        loops: dict[Value, Value] = {
            loop.induction_variable: BlockArgument(INDEX, loop.induction_variable.name) for loop in self.loops
        }
        values: dict[Value, Value] = dict(outer)
        if len(group) == 1:
            inner = list(group[0].body.block.operations)
        else:
            inner = [self._inner_pipeline(group, homes, values)]
        body = self._indexed(inner, loops, values)
        for loop in reversed(self.loops):
            beside = [op for op in loop.body.block.operations[:-1] if not _holds(op, self.pipeline)]
            mapping = dict(loops)
            copies = clone_all(beside, mapping)
            body = [*copies, *(substitute(op, mapping) for op in body)]
            variable = loops[loop.induction_variable]
            assert isinstance(variable, BlockArgument)
            body = [
                scf.For.build(
                    loop.lower, loop.upper, loop.step, body, variable, dict(loop.attributes), loop.location
                )
            ]
        return body

    def _inner_pipeline(
        self, group: Sequence[Stage], homes: dict[OpResult, list[int]], values: dict[Value, Value]
    ) -> Pipeline:
        number = next(n for n, known in enumerate(self.groups) if known is group)
        own = [r for r, users in homes.items() if users == [number]]
        waited = {
            token
            for stage in group
            for token in stage.depends_in
            if any(token in s.depends_out for s in group)
        }
        fresh: dict[Stage, CreateToken] = {
            stage: CreateToken.new() for stage in group if not waited.isdisjoint(stage.depends_out)
        }
        private = self._private(own, list(fresh.values()), values)
        stages = [
            Stage.of(
                [
                    values[token.token]
                    for other, token in fresh.items()
                    if not set(other.depends_out).isdisjoint(stage.depends_in)
                ],
                [values[fresh[stage].token]] if stage in fresh else [],
                stage.body.block.operations,
                stage.units,
                {k: v for k, v in stage.attributes.items() if k not in stage.definition.inherent},
            )
            for stage in group
        ]
        for token in fresh.values():
            del values[token.token]
        operations: list[Operation] = [*([] if private is None else [private]), *stages]
        return Pipeline.of(operations)

    def _indexed(
        self, operations: Sequence[Operation], loops: dict[Value, Value], values: dict[Value, Value]
    ) -> list[Operation]:
        """Operations of a stage on new loop variables and resources, with indices of expanded buffers."""
        emitter = Emitter(self.pipeline.location)
        offsets: dict[scf.For, Value] = {}

        def offset(loop: scf.For) -> Value:
            if loop not in offsets:
                value: Value = loop.induction_variable
                if constant_value(loop.lower, self.definitions) != 0:
                    value = emitter.binary(arith.SubI, value, loop.lower)
                if constant_value(loop.step, self.definitions) != 1:
                    value = emitter.binary(arith.DivSI, value, loop.step)
                offsets[loop] = value
            return offsets[loop]

        def cell(old: Cell) -> Cell:
            extra = self.expanded.get(old.value)
            if extra is None:
                return old
            assert old.map is not None
            shifted = [Dim(i + len(extra)) for i in range(old.map.num_dims)]
            results = [expr.replace(shifted, ()) for expr in old.map.results]
            map = AffineMap(
                len(extra) + old.map.num_dims, 0, (*(Dim(i) for i in range(len(extra))), *results)
            )
            indices = (*(offset(loop) for loop in extra), *old.indices)
            return evolve(old, map=map, indices=indices, sizes=(*([1] * len(extra)), *old.sizes))

        def rewrite(ops: Sequence[Operation]) -> list[Operation]:
            return [
                op.with_cells(cell(op.source_cell), cell(op.dest_cell))
                if isinstance(op, DataTransfer)
                else op
                for op in ops
            ]

        new = [rewrite_blocks(op, rewrite) for op in rewrite(operations)]
        mapping = {**loops, **values}
        return [substitute(op, mapping) for op in (*emitter.operations, *new)]


def _uses(stage: Stage, value: Value) -> bool:
    return any(value in op.operands for op in stage.walk())


def _holds(op: Operation, pipeline: Pipeline) -> bool:
    return any(inner is pipeline for inner in op.walk())


def _needed(private: Private, wanted: Iterable[Value]) -> list[Operation]:
    """Operations of a private behind some of the values that it yields, in order."""
    missing = set(wanted)
    kept: list[Operation] = []
    for op in reversed(private.body.block.operations[:-1]):
        if not missing.isdisjoint(op.results):
            kept.append(op)
            missing.update(value for inner in op.walk() for value in inner.operands)
    return kept[::-1]
