"""`tile-scf-for-loops`: a tile loop and a point loop for each loop of a nest (scheduler spec 3.8, 4.5).

Takes normal loops. Leaves nests of tile loops around point loops; their sizes stay open
(`ktdf.tiling.reserve_size`) until `tile-size-selection`, the trip counts of point loops are
`ktdf.tiling.derive_size`, the old loop variables `ktdf.tiling.linearize_index`.

Which loops: those that the plan tiles. A loop with tile size 1 stays a tile loop, one whose tile is the whole
loop becomes a point loop; neither needs an open size. Tile loops and point loops stand in the plan's order.
Without a plan (and in the v1 profile) every perfect nest of two to four parallel loops is tiled.

Before::

    scf.for %i = %c0 to %c8 step %c1 { use(%i) }

After::

    %s = ktdf.tiling.reserve_size {divisibility = 1 : index, min_value = 1 : index} : index
    %n = arith.ceildivui %c8, %s : index
    scf.for %a = %c0 to %n step %c1 {
      %d = ktdf.tiling.derive_size [%a : %s], total_size = %c8 : index
      scf.for %b = %c0 to %d step %c1 {
        %i = ktdf.tiling.linearize_index [%a : %s], [%b : %c1] : index
        use(%i)

>>> from dfsched.passes.examples import example
>>> example("tile-scf-for-loops", '''
... %c0 = arith.constant 0 : index
... %c1 = arith.constant 1 : index
... %c8 = arith.constant 8 : index
... scf.for %i = %c0 to %c8 step %c1 {
...   "use"(%i) : (index) -> ()
... }
... ''', tile_sizes="3")
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c8 = arith.constant 8 : index
%c0_0 = arith.constant 0 : index
%c1_1 = arith.constant 1 : index
%c3 = arith.constant 3 : index
%0 = arith.ceildivui %c8, %c3 : index
scf.for %arg0 = %c0_0 to %0 step %c1_1 {
  %1 = ktdf.tiling.derive_size [%arg0 : %c3], total_size = %c8 : index
  scf.for %arg1 = %c0_0 to %1 step %c1_1 {
    %2 = ktdf.tiling.linearize_index [%arg0 : %c3], [%arg1 : %c1_1] : index
    "use"(%2) : (index) -> ()
  }
}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from dfsched.dialects.ktdf import DeriveSize, LinearizeIndex, Pipeline, ReserveSize
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext, Setting, numbers
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.loop_nests import (
    LOOP,
    is_normal,
    is_parallel,
    loop_tag,
    nest_plan,
    outermost_loops,
    perfect_nest,
)
from dfsched.passes.simplify_loops import static_trips
from ktir.attributes import DenseArrayAttr, index_attr
from ktir.dialects import arith, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, INDEX

__all__ = ["MAX_DEPTH", "PASS", "TILE_SIZES", "run", "strip_mined", "tile_statically"]

MAX_DEPTH = 4
"""Most loops of a nest that are tiled together where no plan says more (scheduler spec 4.5)."""


NAME = "tile-scf-for-loops"

TILE_SIZES: Setting[tuple[int, ...]] = Setting(NAME, "tile-sizes", (), numbers)
"""Sizes for every outermost nest, outermost loop first; none: the plan decides."""


def run(module: Module, context: PassContext) -> Module:
    """Tile the nests that the plans name, or all candidates where there is no plan."""
    sizes = context.setting(TILE_SIZES)
    if sizes:
        return tile_statically(module, sizes)
    definitions = Definitions(module)
    planned = context.options.profile is not Profile.V1

    def choose(root: scf.For) -> list[_Split] | None:
        if planned:
            found = _planned(root, definitions)
            if found is not None:
                return found or None
        return _candidates(root, definitions)

    return _tile(module, definitions, choose)


PASS = Pass(NAME, Group.SCHEDULER, run, "split loops into tile loops and point loops", settings=(TILE_SIZES,))


def tile_statically(module: Module, sizes: Sequence[int]) -> Module:
    """Tile every outermost nest by given sizes, outermost first; all loops of a nest, each size positive."""
    definitions = Definitions(module)
    for index, size in enumerate(sizes):
        if size < 1:
            raise ScheduleError.at(module.location, f"tile size {index} must be positive, but is {size}")
    outermost = set(outermost_loops(module.operations))

    def choose(root: scf.For) -> list[_Split] | None:
        if root not in outermost:
            return None
        nest = perfect_nest(root)
        if len(nest) != len(sizes):
            raise ScheduleError.at(
                root.location, f"the nest has {len(nest)} loops, but {len(sizes)} tile sizes are given"
            )
        return [_Split(loop, True, True, size) for loop, size in zip(nest, sizes, strict=True)]

    return _tile(module, definitions, choose)


def strip_mined(module: Module, size: int | None, wanted: Callable[[scf.For], bool]) -> Module:
    """Tile single loops; `size` None leaves the tile sizes open."""
    definitions = Definitions(module)

    def choose(root: scf.For) -> list[_Split] | None:
        found = wanted(root) and is_normal(root, definitions)
        return [_Split(root, True, True, size)] if found else None

    return _tile(module, definitions, choose)


@define(eq=False)
class _Split:
    """What becomes of one loop: a tile loop, a point loop, or both (then with a size: None is open)."""

    loop: scf.For
    tile: bool
    point: bool
    size: int | None = None
    outer: BlockArgument = field(factory=lambda: BlockArgument(INDEX))
    inner: BlockArgument = field(factory=lambda: BlockArgument(INDEX))

    @property
    def is_split(self) -> bool:
        return self.tile and self.point


def _planned(root: scf.For, definitions: Definitions) -> list[_Split] | None:
    """The splits that the plan asks for, in its order; empty: none, None: there is no plan."""
    tag = loop_tag(root)
    if tag is None:
        return None
    plan = nest_plan(root, tag.nest, definitions)
    if plan is None:
        return None
    nest = [loop for loop in perfect_nest(root) if (t := loop_tag(loop)) is not None and t.nest == tag.nest]
    splits: list[tuple[int, _Split]] = []
    for loop in nest:
        own = loop_tag(loop)
        trips = static_trips(loop, definitions)
        if own is None or trips is None or not is_normal(loop, definitions):
            return []
        size = min(plan.tile_sizes[own.loop], trips)
        place = plan.loop_order.index(own.loop)
        splits.append((place, _Split(loop, size < trips, size > 1 or trips == 1)))
    ordered = [split for _, split in sorted(splits, key=lambda entry: entry[0])]
    if ordered == [split for _, split in splits] and not any(split.point for split in ordered):
        return []
    return ordered


def _candidates(root: scf.For, definitions: Definitions) -> list[_Split] | None:
    """All loops of a nest of at least two parallel ones (the deeper ones of more than four stay inside)."""
    nest: list[scf.For] = []
    for loop in perfect_nest(root)[:MAX_DEPTH]:
        if not is_parallel(loop) or not is_normal(loop, definitions):
            break
        nest.append(loop)
    if len(nest) < 2 or not any(isinstance(op, Pipeline) for op in root.walk()):
        return None
    return [_Split(loop, True, True) for loop in nest]


def _tile(
    module: Module, definitions: Definitions, choose: Callable[[scf.For], list[_Split] | None]
) -> Module:
    """Replace every chosen nest; the nests of an outer one are not looked at again."""
    chosen: dict[scf.For, list[_Split]] = {}
    covered: set[Operation] = set()
    for op in module.walk():
        if isinstance(op, scf.For) and op not in covered:
            splits = choose(op)
            if splits:
                chosen[op] = splits
                covered.update(split.loop for split in splits)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            key = by_value.get(op.induction_variable) if isinstance(op, scf.For) else None
            if key is None:
                result.append(op)
            else:
                assert isinstance(op, scf.For)
                result += _tiled(op, chosen[key], definitions)
        return result

    by_value = {root.induction_variable: root for root in chosen}
    if not chosen:
        return module
    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


def _tiled(root: scf.For, splits: Sequence[_Split], definitions: Definitions) -> list[Operation]:
    """Tile loops, point loops, and the innermost body."""
    before = Emitter(root.location)
    zero, one = before.constant(0), before.constant(1)
    constants, body = _innermost(root, {split.loop.induction_variable for split in splits})
    before.operations += constants
    sizes = {split.outer: _size(split, before) for split in splits if split.is_split}
    derived = {
        split.outer: _derived(split, sizes[split.outer], definitions) for split in splits if split.is_split
    }
    body = _with_old_variables(splits, sizes, body, one, definitions)
    for split in reversed(splits):
        if split.point:
            upper = derived[split.outer].size if split.is_split else split.loop.upper
            body = [_loop(split.loop, zero, upper, one, split.inner, body)]
    body = [*derived.values(), *body]
    for split in reversed(splits):
        if not split.tile:
            continue
        trips = split.loop.upper
        if split.is_split:
            count = arith.CeilDivUI.create([trips, sizes[split.outer]], [INDEX], location=split.loop.location)
            body = [count, _loop(split.loop, zero, count.results[0], one, split.outer, body)]
        else:
            body = [_loop(split.loop, zero, trips, one, split.outer, body)]
    return [*before.operations, *body]


def _loop(
    old: scf.For, zero: Value, upper: Value, one: Value, variable: BlockArgument, body: Sequence[Operation]
) -> scf.For:
    """A loop with the attributes of the old one."""
    return scf.For.build(zero, upper, one, body, variable, dict(old.attributes), old.location)


def _innermost(root: scf.For, variables: set[BlockArgument]) -> tuple[list[Operation], list[Operation]]:
    """Constants between the loops of a nest, and the body of the innermost one."""
    constants: list[Operation] = []
    current = root
    while True:
        operations = current.body.block.operations[:-1]
        inner = [op for op in operations if isinstance(op, scf.For) and op.induction_variable in variables]
        if not inner:
            return constants, list(operations)
        constants += [op for op in operations if isinstance(op, arith.Constant)]
        current = inner[0]


def _size(split: _Split, before: Emitter) -> Value:
    """The tile size: a constant, or open, with the loop's place in the plan."""
    if split.size is not None:
        return before.constant(split.size)
    tag = split.loop.attributes.get(LOOP)
    attributes = {"divisibility": index_attr(1), "min_value": index_attr(1)}
    extra = {} if tag is None else {LOOP: tag}
    return before.add(ReserveSize.create((), [INDEX], {**attributes, **extra}, location=split.loop.location))


def _derived(split: _Split, size: Value, definitions: Definitions) -> DeriveSize:
    """The trip count of the point loop; tiles of tiles know the tiles around them."""
    upper = definitions.definer(split.loop.upper)
    own = (split.outer, size)
    if isinstance(upper, DeriveSize):
        around = list(zip(upper.loop_variables, upper.tile_sizes, strict=True))
        return DeriveSize.of([*around, own], upper.total_size)
    return DeriveSize.of([own], split.loop.upper)


def _with_old_variables(
    splits: Sequence[_Split],
    sizes: dict[BlockArgument, Value],
    body: list[Operation],
    one: Value,
    definitions: Definitions,
) -> list[Operation]:
    """The innermost body on the new loop variables.

    A `linearize_index` over an old variable gets both new ones in its place; everything else uses a new
    `linearize_index` at the start of the body (those of later loops stand first).
    """
    renamed: dict[Value, Value] = {}
    for split in splits:
        if not split.is_split:
            renamed[split.loop.induction_variable] = split.outer if split.tile else split.inner
    body = [substitute(op, renamed) for op in body]
    for split in splits:
        if not split.is_split:
            continue
        old, size = split.loop.induction_variable, sizes[split.outer]

        def longer(
            operations: Sequence[Operation], old: Value = old, size: Value = size, split: _Split = split
        ) -> list[Operation]:
            result: list[Operation] = []
            for op in operations:
                if isinstance(op, LinearizeIndex) and old in op.variables:
                    result += _longer(op, old, split, size, definitions)
                else:
                    result.append(op)
            return result

        body = [rewrite_blocks(op, longer) for op in longer(body)]
        if any(old in op.operands for top in body for op in top.walk()):
            index = LinearizeIndex.of([(split.outer, size), (split.inner, one)])
            body = [index, *(substitute(op, {old: index.index}) for op in body)]
    return body


def _longer(
    op: LinearizeIndex, old: Value, split: _Split, size: Value, definitions: Definitions
) -> list[Operation]:
    """The pair of the old variable replaced by those of its tile and point loops."""
    pairs: list[tuple[Value, Value]] = []
    made: list[Operation] = []
    for variable, stride in zip(op.variables, op.strides, strict=True):
        if variable is not old:
            pairs.append((variable, stride))
            continue
        far = size
        if constant_value(stride, definitions) != 1:
            scaled = arith.MulI.create([size, stride], [INDEX], location=op.location)
            made.append(scaled)
            far = scaled.results[0]
        pairs += [(split.outer, far), (split.inner, stride)]
    longer = op.replace(
        operands=[*(v for v, _ in pairs), *(s for _, s in pairs)],
        attributes={OPERAND_SEGMENTS: DenseArrayAttr(I32, (len(pairs), len(pairs)))},
    )
    return [*made, longer]
