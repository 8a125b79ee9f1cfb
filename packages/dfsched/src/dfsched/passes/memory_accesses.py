"""Which memory a load or store touches, and whether two accesses can touch the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import expand, expand_subscripts
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.subscripts import Subscripts
from ktir.affine import Const, Dim, SetTooLargeError, UnboundedSetError, linear
from ktir.attribute import Attribute
from ktir.dialects import ktdp
from ktir.errors import Diagnostic, Note
from ktir.ir import Operation, Value
from ktir.types import MemRefType, bit_width

__all__ = [
    "Root",
    "accesses",
    "address_argument",
    "are_disjoint",
    "conflict",
    "is_injective",
    "may_alias",
    "overwritten",
    "root_of",
    "tile_of",
    "view_of",
]

MemoryOp = ktdp.Load | ktdp.Store

MOST_POINTS = 1 << 16
"""Points that are compared one by one to tell two accesses apart."""


@frozen
class Root:
    """Where a view starts: a kernel argument, or a range of elements at a constant or per-tile address.

    `low` and `high` bound the bytes of views without an argument (None where not known).
    """

    space: Attribute
    argument: Value | None = None
    low: int | None = None
    high: int | None = None


def accesses(op: Operation) -> Iterator[MemoryOp]:
    """All loads and stores in an operation, itself included."""
    for inner in op.walk():
        if isinstance(inner, MemoryOp):
            yield inner


def overwritten(load: ktdp.Load, store: ktdp.Store) -> UnsupportedKernel:
    """Why a group that stores where it also loads cannot run in vectors or slabs, one after another."""
    return UnsupportedKernel(
        (
            Diagnostic(
                "the compute group overwrites memory that it also reads in another order; store to other "
                "memory first, for example a view of the scratchpad",
                store.location,
                notes=(Note("it is read here", load.location),),
            ),
        )
    )


def tile_of(op: MemoryOp, definitions: Definitions) -> ktdp.ConstructAccessTile:
    """The access tile of a load or store; `ScheduleError` if it is not made by `construct_access_tile`."""
    match definitions.definer(op.access_tile):
        case ktdp.ConstructAccessTile() as tile:
            return tile
        case _:
            raise ScheduleError.at(op.location, "the access tile is not made by 'ktdp.construct_access_tile'")


def view_of(tile: ktdp.ConstructAccessTile, definitions: Definitions) -> ktdp.ConstructMemoryView:
    """The memory view under an access tile; `ScheduleError` if it is something else."""
    match definitions.definer(tile.base):
        case ktdp.ConstructMemoryView() as view:
            return view
        case _:
            raise ScheduleError.at(
                tile.location, "the base of the access tile is not made by 'ktdp.construct_memory_view'"
            )


def root_of(view: ktdp.ConstructMemoryView, definitions: Definitions) -> Root:
    """Where the view starts."""
    space = view.memory_space
    expr, leaves = expand(view.offset, definitions)
    for leaf in leaves:
        if definitions.definer(leaf) is None:
            return Root(space, leaf)
    if not isinstance(expr, Const):
        return Root(space)
    type = view.result.type
    assert isinstance(type, MemRefType)
    size = max(1, (bit_width(type.element) + 7) // 8)
    span = 1
    for extent, stride in zip(view.static_sizes, view.static_strides, strict=True):
        if extent < 0 or stride < 0:
            return Root(space)
        span += max(0, extent - 1) * stride
    return Root(space, None, expr.value * size, (expr.value + span) * size)


def may_alias(a: Root, b: Root) -> bool:
    """Whether accesses through the two roots can touch the same bytes.

    Different kernel arguments are different buffers, and none of them lies at a constant address.
    """
    if a.space != b.space:
        return False
    if a.argument is not None or b.argument is not None:
        return a.argument is b.argument
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return True
    return a.low < b.high and b.low < a.high


def is_injective(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether different indices of a view surely are different elements (strides nest without overlap)."""
    reach = 0
    for stride, size in sorted((abs(s), n) for n, s in zip(sizes, strides, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def are_disjoint(a: MemoryOp, b: MemoryOp, definitions: Definitions) -> bool:
    """Whether two accesses of one block, through equal views, surely touch different elements.

    True if in some dimension their boxes are a constant apart that is at least the extent of the first one,
    or if they are a constant apart in all dimensions and their sets have no
    point in common (even and odd columns).
    """
    tiles = [tile_of(op, definitions) for op in (a, b)]
    views = [view_of(tile, definitions) for tile in tiles]
    first, second = views
    same = first.offset is second.offset and first.result.type == second.result.type
    strides = first.static_strides.values
    if not same or strides != second.static_strides.values:
        return False
    boxes = [tile.access_tile_set.set.bounding_box() for tile in tiles if not tile.symbol_operands]
    if len(boxes) != 2 or None in boxes or not is_injective(first.static_sizes.values, strides):
        return False
    starts = [Subscripts.of_map(tile.base_map.map, tile.indices) for tile in tiles]
    negative = Subscripts(tuple(expr * -1 for expr in starts[0].exprs), starts[0].values)
    apart = expand_subscripts(starts[1].plus(negative), definitions)
    for distance, one, two in zip(apart.exprs, *(box or () for box in boxes), strict=True):
        if isinstance(distance, Const) and (
            distance.value + two[0] > one[1] or distance.value + two[1] < one[0]
        ):
            return True
    distances = [expr.value for expr in apart.exprs if isinstance(expr, Const)]
    if len(distances) != len(apart.exprs):
        return False
    sets = [tile.access_tile_set.set for tile in tiles]
    try:
        return sets[0].is_disjoint(sets[1].translate(distances), limit=MOST_POINTS)
    except (SetTooLargeError, UnboundedSetError):
        return False


def conflict(a: MemoryOp, b: MemoryOp, definitions: Definitions) -> bool:
    """Whether the order of two accesses can matter."""
    if isinstance(a, ktdp.Load) and isinstance(b, ktdp.Load):
        return False
    if are_disjoint(a, b, definitions):
        return False
    roots = [root_of(view_of(tile_of(op, definitions), definitions), definitions) for op in (a, b)]
    return may_alias(roots[0], roots[1])


def address_argument(
    view: ktdp.ConstructMemoryView, definitions: Definitions, kernel: Operation
) -> Value | None:
    """The kernel argument that a view's start is relative to, None if there is none.

    `ScheduleError` when the start depends on a loop variable, on two arguments, or on an argument in another
    way than by adding to it.
    """
    expr, leaves = expand(view.offset, definitions)
    arguments = [leaf for leaf in leaves if definitions.region_owner(leaf) is kernel]
    for leaf in leaves:
        if leaf in arguments or isinstance(definitions.definer(leaf), ktdp.GetComputeTileId):
            continue
        raise ScheduleError.at(
            view.location,
            "the start of a memory view depends on a value that only exists while the program runs; "
            "use it in the subscripts of the access tile",
        )
    if not arguments:
        return None
    flat = linear(expr)
    dims = {leaf: Dim(index) for index, leaf in enumerate(leaves)}
    coefficients = [0 if flat is None else flat.coefficient(dims[argument]) for argument in arguments]
    if len(arguments) > 1:
        raise ScheduleError.at(
            view.location, "the start of a memory view depends on more than one kernel argument"
        )
    if flat is None or coefficients != [1]:
        raise ScheduleError.at(
            view.location,
            "the start of a memory view may only add to the kernel argument that is its address",
        )
    return arguments[0]
