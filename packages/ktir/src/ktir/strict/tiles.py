"""Level S for access tiles, direct and indirect, and for loads and stores (KTIR spec 1.7 to 1.10)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ktir.affine import AffineError, AffineMap, AffineSet
from ktir.dialects.ktdp import (
    AccessTileType,
    ConstructAccessTile,
    ConstructDistributedMemoryView,
    ConstructIndirectAccessTile,
    ConstructMemoryView,
    Load,
    Store,
)
from ktir.errors import Diagnostic, Note, finding
from ktir.ir import Operation, Value
from ktir.strict.facts import POINT_LIMIT, Facts, Span
from ktir.types import IndexType, IntegerType, MemRefType, TensorType, Type, element_or_self

__all__ = ["check"]


def check(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    """S-CAT7 to S-CAT10, S-IAT16 and S-IAT17, S-LD3, S-ST3."""
    match op:
        case ConstructAccessTile():
            yield from _direct(op, facts)
        case ConstructIndirectAccessTile():
            yield from _indirect(op, facts)
        case Load():
            yield from _elements(op.access_tile, op.result.type, "loads", facts)
        case Store():
            yield from _elements(op.access_tile, op.data_tile.type, "stores", facts)
            base = facts.base(op.access_tile)
            if base is not None and isinstance(base.type, TensorType):
                yield finding(
                    "stores into an access tile of a tensor",
                    "tensors are values and cannot be written; the base must be a memref",
                )


def _direct(op: ConstructAccessTile, facts: Facts) -> Iterator[Diagnostic]:
    base = op.base.type
    assert isinstance(base, MemRefType | TensorType)
    subscripts = op.base_map.map.num_results
    if subscripts != base.rank:
        yield finding(
            f"number of subscripts ({subscripts}) must match base rank ({base.rank})",
            f"expected {base.rank} indices for {base}, got {subscripts}",
        )
        return
    set = op.access_tile_set.set
    symbols = facts.constants(op.symbol_operands)
    yield from _shape(op.type, set, op.access_tile_order.map, symbols, "access_tile")
    spans = facts.spans(set, symbols)
    if spans is not None:
        yield from _reach(op, spans, facts)


def _shape(
    type: AccessTileType, set: AffineSet, order: AffineMap, symbols: tuple[int, ...] | None, name: str
) -> Iterator[Diagnostic]:
    """S-CAT8 and S-CAT9 (S-IAT16 and S-IAT17): the order is a permutation, the extents those of the set."""
    permutation = order.as_permutation()
    if permutation is None:
        yield finding(
            f"{name}_order must be a permutation",
            f"({order}) does not name each of its {order.num_dims} dimensions once",
        )
        return
    if symbols is None:
        return
    try:
        factors = set.factors(symbols, limit=POINT_LIMIT)
        points = set.count(symbols, limit=POINT_LIMIT)
    except AffineError:
        return
    given = [extent for extent in type.shape if extent is not None]
    if factors is None:
        if len(given) == len(type.shape) and math.prod(given) != points:
            yield finding(
                f"the tile has {math.prod(given)} elements, but {name}_set has {points} points",
                "the points fill the tile in row-major order: their numbers must agree",
            )
        return
    extents = tuple(_length(factors[d]) for d in permutation)
    wrong = [
        extent != wanted and (extent is not None or set.num_symbols == 0)
        for extent, wanted in zip(type.shape, extents, strict=True)
    ]
    if any(wrong):
        yield finding(
            f"tile extents {_extents(type.shape)} do not fit the {_extents(extents)} points of {name}_set",
            f"the type that fits set and order is {AccessTileType(extents)}",
        )


def _length(values: Sequence[int]) -> int:
    """`len`, also of ranges that are longer than Python's `len` can say."""
    if isinstance(values, range):
        return max(0, -(-(values.stop - values.start) // values.step))
    return len(values)


def _extents(shape: Sequence[int | None]) -> str:
    return "x".join("?" if extent is None else str(extent) for extent in shape) or "1"


def _reach(op: ConstructAccessTile, spans: tuple[Span, ...], facts: Facts) -> Iterator[Diagnostic]:
    """S-CAT10: coordinates that can never lie inside the base."""
    indices = [facts.constant(value) for value in op.indices]
    map = op.base_map.map
    for dim, ((low, high), extent) in enumerate(zip(spans, _base_extents(op.base, facts), strict=True)):
        if extent is None:
            continue
        anchor = _anchor(map, dim, indices)
        if anchor is not None and (anchor + low < 0 or anchor + high >= extent):
            yield finding(
                f"the tile covers coordinates {anchor + low} to {anchor + high} of dimension {dim}, "
                f"but the base has extent {extent}",
                f"coordinates of dimension {dim} run from 0 to {extent - 1}",
            )
        elif anchor is None and high - low >= extent:
            yield finding(
                f"the tile spans {high - low + 1} coordinates of dimension {dim}, "
                f"but the base has extent {extent}",
                "wherever the tile is anchored, part of it lies outside",
            )


def _anchor(map: AffineMap, dim: int, indices: Sequence[int | None]) -> int | None:
    expr = map.results[dim]
    used = [*expr.dims(), *(map.num_dims + s for s in expr.symbols())]
    if any(indices[i] is None for i in used):
        return None
    values = [0 if value is None else value for value in indices]
    try:
        return int(expr.evaluate(values[: map.num_dims], values[map.num_dims :]))
    except AffineError:
        return None


def _base_extents(base: Value, facts: Facts) -> tuple[int | None, ...]:
    view = facts.view(base)
    if view is not None:
        return tuple(facts.constant(size) for size in view.mixed_sizes)
    assert isinstance(base.type, MemRefType | TensorType)
    return base.type.shape


def _indirect(op: ConstructIndirectAccessTile, facts: Facts) -> Iterator[Diagnostic]:
    views = iter(op.indirect_memrefs)
    for dim, kind in enumerate(op.kinds):
        if kind:
            element = element_or_self(next(views).type)
            if not isinstance(element, IntegerType | IndexType):
                yield finding(
                    f"index view of dimension {dim} has elements of type {element}",
                    "coordinates are read from it: its elements must be integers or index values",
                )
    symbols = facts.constants(op.symbol_operands)
    set, order = op.variables_space_set.set, op.variables_space_order.map
    yield from _shape(op.type, set, order, symbols, "variables_space")
    yield from _rewritten_indices(op, facts)


def _rewritten_indices(op: ConstructIndirectAccessTile, facts: Facts) -> Iterator[Diagnostic]:
    """Indices are read when the tile is made: a later store to them does not move it (1.8)."""
    function = facts.function(op)
    uses = facts.defuse.users(op.result)
    if function is None or not uses or not op.indirect_memrefs:
        return
    begin, end = facts.defuse.position(op), max(facts.defuse.position(use) for use in uses)
    for store in function.walk():
        if not isinstance(store, Store) or not begin < facts.defuse.position(store) < end:
            continue
        base = facts.base(store.access_tile)
        if base is not None and any(_may_alias(base, view, facts) for view in op.indirect_memrefs):
            yield Diagnostic(
                "an index view may be written between this tile and its use",
                notes=(
                    Note("the indices are read here, so this store does not change them", store.location),
                ),
            )
            return


def _may_alias(a: Value, b: Value, facts: Facts) -> bool:
    """Whether two views may share memory: the same space, and not two different buffers of the host."""
    left, right = _roots(a, facts), _roots(b, facts)
    if left is None or right is None:
        return True
    return any(
        x.memory_space == y.memory_space and (_buffer(x, facts) == _buffer(y, facts))
        for x in left
        for y in right
    )


def _roots(view: Value, facts: Facts) -> tuple[ConstructMemoryView, ...] | None:
    match facts.defuse.definer(view):
        case ConstructMemoryView() as root:
            return (root,)
        case ConstructDistributedMemoryView(memrefs=parts):
            roots = [facts.view(part) for part in parts]
            known = tuple(root for root in roots if root is not None)
            return known if len(known) == len(roots) else None
        case _:
            return None


def _buffer(view: ConstructMemoryView, facts: Facts) -> frozenset[Value]:
    """The function's arguments that an address is computed from; a constant address has none."""
    found: set[Value] = set()
    stack, seen = [view.offset], set[Value]()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        definer = facts.defuse.definer(value)
        if definer is not None:
            stack += definer.operands
        elif facts.defuse.defining_block(value) is not None:
            found.add(value)
    function = facts.function(view)
    return frozenset(found & set(function.arguments if function is not None else ()))


def _elements(tile: Value, data: Type, verb: str, facts: Facts) -> Iterator[Diagnostic]:
    """S-LD3 and S-ST3: nothing is converted on the way."""
    base = facts.base(tile)
    if base is None or not isinstance(data, TensorType):
        return
    element = element_or_self(base.type)
    if element != data.element:
        yield finding(
            f"{verb} elements of type {data.element}, but the base holds {element}",
            f"a tile of {base.type} gives and takes tensors of {element}; convert with arith",
        )
