"""Copies of a compute group with tensors of other shapes, at other access tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
from attrs import define, field

from dfsched.passes.build import Emitter
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.generalize_linalg import is_element_wise_scalar_op
from dfsched.passes.ir_tools import Definitions, captured
from dfsched.passes.memory_accesses import are_disjoint, may_alias, root_of, tile_of, view_of
from ktir.affine import Dim
from ktir.attributes import DenseElementsAttr
from ktir.dialects import arith, ktdp, linalg, tensor
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.transforms import clone
from ktir.types import INDEX, TensorType

__all__ = [
    "RATIO",
    "GroupCopy",
    "check_same_order",
    "is_element_wise",
    "level_sizes",
    "levels",
    "replace_groups",
    "with_blocks",
]


def is_element_wise(op: Operation) -> bool:
    """Whether an operation outside of `linalg` works on tensors of one shape, element by element."""
    if is_element_wise_scalar_op(op):
        return True
    if not isinstance(op, arith.Select):
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    shapes = {type.shape for type in types if isinstance(type, TensorType)}
    return len(shapes) == 1 and all(isinstance(type, TensorType) for type in types[1:])


@define(eq=False)
class GroupCopy:
    """One copy of a group.

    `shape` gives the new type of a tensor where an operation uses or makes it, `tile` makes the access tile
    that stands for an old one, and `shifts` says for a generic which value is added to the index of which
    loop.
    """

    emitter: Emitter
    definitions: Definitions
    shape: Callable[[Operation, Value], TensorType]
    tile: Callable[[ktdp.ConstructAccessTile], Value]
    shifts: Callable[[linalg.LinalgOp], Mapping[int, Value]]
    values: dict[Value, Value] = field(factory=dict)

    def add(self, group: Sequence[Operation], outs: Sequence[Value] = ()) -> None:
        """Append copies of the operations of the group, and of the leaves that they use.

        `outs`: what structured operations take as their outputs instead.
        """
        for op in group:
            mapping = dict(self.values)
            for value in dict.fromkeys(captured(op)):
                mapping[value] = self.leaf(op, value)
            new, table = clone(op, mapping)
            if outs:
                new = new.replace(operands=[*new.operands[: -len(outs)], *outs])
            new = self._retyped(op, new, table)
            if isinstance(op, linalg.LinalgOp):
                new = _shifted(new, self.shifts(op))
            self.emitter.operations.append(new)

    def leaf(self, user: Operation, value: Value) -> Value:
        """What stands for a value that an operation uses: a tile or tensor from nothing in the new shape."""
        if value in self.values:
            return self.values[value]
        op = self.definitions.definer(value)
        if isinstance(op, ktdp.ConstructAccessTile):
            self.values[value] = self.tile(op)
            return self.values[value]
        if not isinstance(value.type, TensorType):
            return value
        type = self.shape(user, value)
        if type == value.type:
            return value
        new: Operation
        match op:
            case tensor.Empty():
                new = tensor.Empty.create(_sizes(op, op.operands, type), [type], location=op.location)
            case tensor.Splat():
                sizes = _sizes(op, op.operands[1:], type)
                new = tensor.Splat.create([op.input, *sizes], [type], location=op.location)
            case arith.Constant() if (constant := _splat_like(op, type)) is not None:
                new = constant
            case _:
                assert op is not None
                raise UnsupportedKernel.at(
                    op.location, f"'{op.name}' cannot be cut into tensors of fixed shape"
                )
        return self.emitter.add(new)

    def _retyped(self, old: Operation, new: Operation, table: dict[Value, Value]) -> Operation:
        results = []
        for before, after in zip(old.results, new.results, strict=True):
            type = before.type
            if isinstance(type, TensorType):
                after = OpResult(self.shape(old, before), after.name)
            table[before] = after
            results.append(after)
        self.values.update({before: table[before] for before in old.results})
        return new.replace(results=results)


def _sizes(op: Operation, sizes: Sequence[Value], type: TensorType) -> list[Value]:
    """The extents of a tensor of symbolic shape that are still symbolic in another type."""
    old = op.results[0].type
    assert isinstance(old, TensorType)
    open_places = [d for d, extent in enumerate(old.shape) if extent is None]
    return [size for d, size in zip(open_places, sizes, strict=False) if type.shape[d] is None]


def _splat_like(op: arith.Constant, type: TensorType) -> Operation | None:
    """A constant with one number everywhere, in another shape."""
    match op.value:
        case DenseElementsAttr(splat=True) as dense:
            value = attrs.evolve(dense, type=type)
            return arith.Constant.create((), [type], {"value": value}, location=op.location)
        case _:
            return None


def _shifted(op: Operation, shifts: Mapping[int, Value]) -> Operation:
    """A `linalg` operation whose indices of some loops count from other values."""
    if not shifts:
        return op
    regions = []
    for region in op.regions:
        mapping: dict[Value, Value] = {}
        body: list[Operation] = []
        for inner in region.block.operations:
            new = inner.replace(operands=[mapping.get(value, value) for value in inner.operands])
            body.append(new)
            if isinstance(new, linalg.Index) and new.dim.value in shifts:
                total = arith.AddI.create([new.result, shifts[new.dim.value]], [INDEX], location=op.location)
                body.append(total)
                mapping[new.result] = total.results[0]
        regions.append(Region((region.block.replace(operations=body),)))
    return op.replace(regions=regions)


def check_same_order(group: Sequence[Operation], definitions: Definitions) -> None:
    """A group that runs in parts may write only memory that it does not read, or the same elements in the
    same order; `UnsupportedKernel` otherwise.
    """
    findings = Findings()
    memory = [op for op in group if isinstance(op, ktdp.Load | ktdp.Store)]
    for position, second in enumerate(memory):
        for first in memory[:position]:
            if isinstance(first, ktdp.Load) and isinstance(second, ktdp.Load):
                continue
            tiles = [tile_of(op, definitions) for op in (first, second)]
            views = [view_of(tile, definitions) for tile in tiles]
            if not may_alias(*(root_of(view, definitions) for view in views)):
                continue
            if are_disjoint(first, second, definitions):
                continue
            if isinstance(first, ktdp.Load) and _place(tiles[0], views[0]) == _place(tiles[1], views[1]):
                continue
            with findings.noting():
                raise UnsupportedKernel.at(
                    second.location,
                    "a compute group that is cut into parts overwrites memory that it also touches elsewhere",
                )
    findings.check()


def _place(tile: ktdp.ConstructAccessTile, view: ktdp.ConstructMemoryView) -> tuple[object, ...]:
    return (
        view.offset,
        view.static_strides,
        tile.indices,
        tile.symbol_operands,
        tile.base_map,
        tile.access_tile_set,
        tile.access_tile_order,
    )


# -- levels of tiles

RATIO = 8
"""Each size of tiles is so many times the next smaller one: few programs, few tiles of the small sizes."""


def level_sizes(granule: int, limit: int) -> list[int]:
    """Sizes of tiles up to `limit`, large ones first: each divides the one before, the last is `granule`."""
    sizes = [max(1, granule)]
    while sizes[-1] * RATIO <= limit:
        sizes.append(sizes[-1] * RATIO)
    return sizes[::-1]


def levels(
    total: Value, sizes: Sequence[int], emitter: Emitter
) -> Iterator[tuple[tuple[Value, Value, Value], int, BlockArgument, Emitter]]:
    """Loops that walk `total` indices with tiles of some sizes, the last of which divides the total.

    For each size: the bounds of its loop, the size, the variable, and where the body goes.
    """
    start = emitter.constant(0)
    for size in sizes:
        end = total if size == sizes[-1] else emitter.affine(Dim(0) // size * size, [total])
        yield (start, end, emitter.constant(size)), size, BlockArgument(INDEX), Emitter(emitter.location)
        start = end


def replace_groups(
    operations: Sequence[Operation],
    rebuilt: Sequence[Operation],
    groups: Sequence[Sequence[Operation]],
    replacements: Sequence[Sequence[Operation]],
) -> list[Operation]:
    """A block's `rebuilt` operations, with what replaces each group of its `operations` where that ended."""
    ends = {group[-1]: new for group, new in zip(groups, replacements, strict=True)}
    members = {op for group in groups for op in group}
    found: list[Operation] = []
    for old, new in zip(operations, rebuilt, strict=True):
        if old in ends:
            found += ends[old]
        elif old not in members:
            found.append(new)
    return found


def with_blocks(op: Operation, rebuild: Callable[[Sequence[Operation]], Sequence[Operation]]) -> Operation:
    """The operation with the operations of all its blocks rebuilt."""
    regions = [
        Region(tuple(block.replace(operations=rebuild(block.operations)) for block in region.blocks))
        for region in op.regions
    ]
    return op.replace(regions=regions)
