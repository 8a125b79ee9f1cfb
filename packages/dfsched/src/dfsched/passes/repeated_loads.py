"""Loads that are repeated along further dimensions: for reductions over what was only broadcast.

A reduction needs an operand along every dimension that it folds. Where the only operands that have one were
broadcast along it, one of them is loaded again through a view with stride 0 in that dimension::

    %x = ktdp.load %t : <8xindex> -> tensor<8xf16>                 // reduced over 3 copies of itself
    %r = ktdp.load %u : <8x3xindex> -> tensor<8x3xf16>             // %u: sizes [8, 3], strides [1, 0]
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import tile_of, view_of
from ktir.affine import AffineMap, AffineSet, Const, Dim, Sym
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.dialects import ktdp
from ktir.ir import Operation
from ktir.types import I64, MemRefType, TensorType

__all__ = ["repeated"]


def repeated(
    load: ktdp.Load, extents: Sequence[int], definitions: Definitions
) -> tuple[tuple[Operation, ...], ktdp.Load] | None:
    """Operations that load a tile with further trailing dimensions of these extents, the load last.

    None if the view has sizes or strides that are not constant.
    """
    tile = tile_of(load, definitions)
    view = view_of(tile, definitions)
    if view.sizes or view.strides or tile.symbol_operands or None in tile.type.shape:
        return None
    wide = _view(view, extents)
    old = tile.type.shape
    shape = (*(n for n in old if n is not None), *extents)
    rank, count = len(tile.access_tile_order.map.results), len(extents)
    order = tile.access_tile_order.map
    start = tile.base_map.map
    added = tuple(Dim(order.num_dims + n) for n in range(count))
    wider = ktdp.ConstructAccessTile.create(
        [wide.result, *tile.operands[1:]],
        [ktdp.AccessTileType(shape)],
        {
            **tile.attributes,
            "access_tile_set": AffineSetAttr(_set(tile.access_tile_set.set, extents)),
            "access_tile_order": AffineMapAttr(AffineMap(rank + count, 0, (*order.results, *added))),
            "base_map": AffineMapAttr(
                AffineMap(start.num_dims, start.num_symbols, (*start.results, *(Const(0) for _ in extents)))
            ),
        },
        location=tile.location,
    )
    type = load.result.type
    assert isinstance(type, TensorType)
    again = ktdp.Load.create(
        [wider.result], [TensorType(shape, type.element)], load.attributes, location=load.location
    )
    return (wide, wider, again), again


def _view(view: ktdp.ConstructMemoryView, extents: Sequence[int]) -> ktdp.ConstructMemoryView:
    """The view with trailing dimensions in which nothing moves."""
    type = view.type
    sizes = (*view.static_sizes.values, *extents)
    return ktdp.ConstructMemoryView.create(
        view.operands,
        [MemRefType(sizes, type.element, None, type.memory_space)],
        {
            **view.attributes,
            "static_sizes": DenseArrayAttr(I64, sizes),
            "static_strides": DenseArrayAttr(I64, (*view.static_strides.values, *(0 for _ in extents))),
            "coordinate_set": AffineSetAttr(_set(view.coordinate_set.set, extents)),
        },
        location=view.location,
    )


def _set(points: AffineSet, extents: Sequence[int]) -> AffineSet:
    """The product of a set and a box."""
    rank, symbols = points.num_dims, [Sym(n) for n in range(points.num_symbols)]
    total = rank + len(extents)
    first = points.replace([Dim(d) for d in range(rank)], symbols, total, len(symbols))
    box = AffineSet.box(*extents, num_symbols=len(symbols))
    return first.intersection(
        box.replace([Dim(rank + d) for d in range(len(extents))], symbols, total, len(symbols))
    )
