"""Access tiles as memrefs and subscripts that a transfer can use (scheduler spec 3.4 step 5).

A tile whose start is the same throughout a tile's run becomes a `memref.reinterpret_cast` at its offset.
Where the start depends on loop variables or launch parameters, or is not a multiple of the words in
which units address the memory, the whole view is addressed and everything stands in the subscripts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture, Kind
from dfsched.passes.base import PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import constant_value, expand_subscripts, leaves_of
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import view_of
from dfsched.passes.subscripts import Subscripts, constant_subscripts
from ktir.affine import AffineExpr, Const, Dim, largest_known_divisor, simplify
from ktir.attribute import Attribute
from ktir.attributes import AffineSetAttr, DenseArrayAttr, StridedLayoutAttr, StringAttr
from ktir.dialects import ktdp, memref
from ktir.ir import Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, I64, MemRefType, bit_width

__all__ = ["DYNAMIC", "TileAddress", "TileAddresses", "memory_attribute"]

DYNAMIC = -(2**63)


@frozen
class TileAddress:
    """Where a tile lies: element (i, j, ...) of the tile is ``memref[subscripts + (i, j, ...)]``."""

    memref: Value
    subscripts: Subscripts
    shape: tuple[int, ...]
    memory: Kind
    aligned: bool


def memory_attribute(kind: Kind) -> Attribute:
    """A device's memory kind as the memory space of a memref."""
    return StringAttr(kind) if isinstance(kind, str) else kind


@define(eq=False)
class TileAddresses:
    """Resolves access tiles of one function; the operations for it go to `emitter`."""

    definitions: Definitions
    context: PassContext
    emitter: Emitter
    _known: dict[ktdp.ConstructAccessTile, TileAddress] = field(factory=dict)

    def __call__(self, tile: ktdp.ConstructAccessTile) -> TileAddress:
        """The address of a tile; the same answer for the same operation."""
        if tile not in self._known:
            self._known[tile] = self._resolve(tile)
        return self._known[tile]

    def _resolve(self, tile: ktdp.ConstructAccessTile) -> TileAddress:
        view = view_of(tile, self.definitions)
        sizes, strides = _static(view, view.static_sizes), _static(view, view.static_strides)
        start, shape, order = self._box(tile, len(sizes))
        if order != tuple(range(len(order))):
            view = _permuted(view, order, sizes, strides)
            self.emitter.add(view)
            sizes = tuple(sizes[d] for d in order)
            strides = tuple(strides[d] for d in order)
            start = Subscripts(tuple(start.exprs[d] for d in order), start.values).canonical()
        memory = self.context.architecture.memory_kind(view.memory_space)
        type = view.result.type
        assert isinstance(type, MemRefType)
        space = memory_attribute(memory)
        cast_type = MemRefType(type.shape, type.element, type.layout, space)
        cast = self.emitter.add(
            memref.MemorySpaceCast.create([view.result], [cast_type], location=tile.location)
        )
        if not self._is_static_start(start, strides, memory, type):
            return TileAddress(cast, start, shape, memory, aligned=False)
        offset = self._offset(start, strides)
        layout = StridedLayoutAttr(tuple(strides), None)
        covered = _covered(shape, start, sizes)
        tile_type = MemRefType(covered, type.element, layout, space)
        reinterpret = memref.ReinterpretCast.create(
            [cast, offset],
            [tile_type],
            {
                "static_offsets": DenseArrayAttr(I64, (DYNAMIC,)),
                "static_sizes": DenseArrayAttr(I64, covered),
                "static_strides": DenseArrayAttr(I64, strides),
                OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, 1, 0, 0)),
            },
            location=tile.location,
        )
        return TileAddress(
            self.emitter.add(reinterpret), constant_subscripts([0] * len(shape)), shape, memory, aligned=True
        )

    def _box(
        self, tile: ktdp.ConstructAccessTile, rank: int
    ) -> tuple[Subscripts, tuple[int, ...], tuple[int, ...]]:
        """First element (view dimensions), shape (tile dimensions), view dimension per tile dimension."""
        result = tile.result.type
        assert isinstance(result, ktdp.AccessTileType)
        points = tile.access_tile_set.set
        if tile.symbol_operands or points.num_symbols or None in result.shape:
            raise UnsupportedKernel.at(tile.location, "access tiles of symbolic shape are not supported")
        order = tile.access_tile_order.map.as_permutation()
        if order is None:
            raise ScheduleError.at(tile.location, "access_tile_order must be a permutation")
        box = points.bounding_box()
        if not points.is_rectangular() or box is None:
            raise UnsupportedKernel.at(
                tile.location, "only access tiles whose set is a full box are supported"
            )
        extents = [high - low + 1 for low, high in box]
        shape = tuple(extents[d] for d in order)
        if shape != tuple(result.shape) or len(extents) != rank:
            raise ScheduleError.at(
                tile.location, f"the access tile's set has extents {list(shape)}, but its type is {result}"
            )
        constants = {
            value: number
            for value in tile.indices
            if (number := constant_value(value, self.definitions)) is not None
        }
        base = Subscripts.of_map(tile.base_map.map, tile.indices).with_constants(constants)
        lows = constant_subscripts([low for low, _ in box])
        return base.plus(lows).canonical(), shape, order

    def _is_static_start(
        self, start: Subscripts, strides: Sequence[int], memory: Kind, type: MemRefType
    ) -> bool:
        if not leaves_of(start.values, self.definitions).per_tile:
            return False
        full = expand_subscripts(start, self.definitions)
        offset: AffineExpr = Const(0)
        for expr, stride in zip(full.exprs, strides, strict=True):
            offset = offset + expr * stride
        divisor = largest_known_divisor(simplify(offset)) * ((bit_width(type.element) + 7) // 8)
        return divisor % _word_bytes(self.context.architecture, memory) == 0

    def _offset(self, start: Subscripts, strides: Sequence[int]) -> Value:
        terms: list[AffineExpr] = [
            expr * stride for expr, stride in zip(start.exprs, strides, strict=True) if expr != Const(0)
        ]
        total: AffineExpr = terms[0] if terms else Const(0)
        for term in terms[1:]:
            total = total + term
        return self.emitter.affine(total, start.values)


def _static(view: ktdp.ConstructMemoryView, values: DenseArrayAttr) -> tuple[int, ...]:
    if DYNAMIC in values.values:
        raise UnsupportedKernel.at(view.location, "memory views of symbolic shape are not supported")
    return tuple(values.values)


def _covered(shape: tuple[int, ...], start: Subscripts, sizes: Sequence[int]) -> tuple[int, ...]:
    """The tile's shape; a single element in the last dimension keeps what the view has behind it.

    That is what a transfer in full words may read around it (scheduler spec 3.6).
    """
    if not shape or shape[-1] != 1:
        return shape
    match start.exprs[-1]:
        case Const(value):
            return (*shape[:-1], sizes[-1] - value)
        case _:
            return shape


def _word_bytes(architecture: Architecture, memory: Kind) -> int:
    """Bytes to which a start must be aligned so that every unit's words address it."""
    words = [
        transfer.word_size(memory)
        for unit in architecture.units
        for transfer in (unit.features.load, unit.features.store)
        if transfer is not None
    ]
    return math.lcm(1, *words)


def _permuted(
    view: ktdp.ConstructMemoryView, order: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> ktdp.ConstructMemoryView:
    """The same memory, viewed with its dimensions in another order."""
    type = view.result.type
    assert isinstance(type, MemRefType)
    place = [Dim(list(order).index(d)) for d in range(len(order))]
    points = view.coordinate_set.set
    return ktdp.ConstructMemoryView.create(
        view.operands,
        [MemRefType(tuple(sizes[d] for d in order), type.element, None, type.memory_space)],
        {
            **view.attributes,
            "static_sizes": DenseArrayAttr(I64, tuple(sizes[d] for d in order)),
            "static_strides": DenseArrayAttr(I64, tuple(strides[d] for d in order)),
            "coordinate_set": AffineSetAttr(points.replace(place, (), len(order), 0)),
        },
        location=view.location,
    )
