"""Access tiles as memrefs and subscripts that a transfer can use (scheduler spec 3.4 step 5).

A tile whose start is the same throughout a tile's run becomes a `memref.reinterpret_cast` at its offset.
Where the start depends on loop variables or launch parameters, or is not a multiple of the words in
which units address the memory, the whole view is addressed and everything stands in the subscripts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture, Kind
from dfsched.dialects.ktdf import Cell
from dfsched.passes.base import PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import constant_value, expand, expand_subscripts, leaves_of
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import view_of
from dfsched.passes.subscripts import Subscripts, constant_subscripts
from dfsched.passes.tile_lattices import Lattice, lattice_of
from ktir.affine import AffineExpr, AffineSet, Const, Dim, largest_known_divisor, simplify
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
    """Where a tile lies: its element (i, j, ...) is ``memref[subscripts + (0, ..., i, j, ...)]``, with `lead`
    zeros.
    """

    memref: Value
    subscripts: Subscripts
    shape: tuple[int, ...]
    memory: Kind
    aligned: bool
    lead: int = 0

    def cell(self, inside: Subscripts, shape: tuple[int, ...]) -> Cell:
        """A box of the tile: `inside` is its first element, `shape` its extents."""
        zeros: tuple[AffineExpr, ...] = (Const(0),) * self.lead
        where = self.subscripts.plus(Subscripts((*zeros, *inside.exprs), inside.values)).canonical()
        return Cell(self.memref, where.map, where.values, (*(1,) * self.lead, *shape))


def memory_attribute(kind: Kind) -> Attribute:
    """A device's memory kind as the memory space of a memref."""
    return StringAttr(kind) if isinstance(kind, str) else kind


@define(eq=False)
class TileAddresses:
    """Resolves access tiles of one function; the operations for it go to `emitter`.

    `byte_addresses`: starts of views count bytes instead of elements.
    """

    definitions: Definitions
    context: PassContext
    emitter: Emitter
    byte_addresses: bool = False
    _known: dict[ktdp.ConstructAccessTile, TileAddress] = field(factory=dict)

    def __call__(self, tile: ktdp.ConstructAccessTile) -> TileAddress:
        """The address of a tile; the same answer for the same operation."""
        if tile not in self._known:
            self._known[tile] = self._resolve(tile)
        return self._known[tile]

    def _resolve(self, tile: ktdp.ConstructAccessTile) -> TileAddress:
        view = view_of(tile, self.definitions)
        memory = self.context.architecture.memory_kind(view.memory_space)
        behind = self._broken_words(view, memory)
        if behind is not None:
            return self._behind(tile, view, memory, *behind)
        sizes, strides = _static(view, view.static_sizes), _static(view, view.static_strides)
        lattice = _lattice(tile, len(sizes))
        start = self._start(tile, lattice)
        order = lattice.order
        if order is None:
            return self._stepping(tile, view, lattice, start)
        if order != tuple(range(len(order))):
            sizes = tuple(sizes[d] for d in order)
            strides = tuple(strides[d] for d in order)
            view = _viewed(view, sizes, strides)
            self.emitter.add(view)
            start = Subscripts(tuple(start.exprs[d] for d in order), start.values).canonical()
        cast = self._cast(view, memory, tile)
        if not self._is_static_start(start, strides, memory, _type(view)):
            return TileAddress(cast, start, lattice.shape, memory, aligned=False)
        covered = _covered(lattice.shape, start, sizes)
        moved = self._at_offset(cast, self._offset(start, strides), covered, strides, tile)
        return TileAddress(moved, _origin(len(covered)), lattice.shape, memory, aligned=True)

    def _stepping(
        self,
        tile: ktdp.ConstructAccessTile,
        view: ktdp.ConstructMemoryView,
        lattice: Lattice,
        start: Subscripts,
    ) -> TileAddress:
        """A tile that leaves elements out, or walks several dimensions of the view at once."""
        strides = _static(view, view.static_strides)
        steps = lattice.strides(strides)
        memory = self.context.architecture.memory_kind(view.memory_space)
        if any(step < 0 for step in steps):
            raise UnsupportedKernel.at(tile.location, "access tiles that run backwards are not supported")
        if self._is_static_start(start, strides, memory, _type(view)):
            cast = self._cast(view, memory, tile)
            moved = self._at_offset(cast, self._offset(start, strides), lattice.shape, steps, tile)
            return TileAddress(moved, _origin(len(steps)), lattice.shape, memory, aligned=True)
        return self._led(tile, view, memory, lattice, start, None)

    def _led(
        self,
        tile: ktdp.ConstructAccessTile,
        view: ktdp.ConstructMemoryView,
        memory: Kind,
        lattice: Lattice,
        start: Subscripts,
        behind: Subscripts | None,
    ) -> TileAddress:
        """Leading dimensions take what lies between the start of the view and the first element (`behind`
        elements, then the subscripts of the tile), the dimensions behind them the element of the tile.
        """
        sizes, strides = _static(view, view.static_sizes), _static(view, view.static_strides)
        spans = (0,) * len(sizes) if lattice.goes_backwards else lattice.spans
        lead = tuple(max(1, size - span) for size, span in zip(sizes, spans, strict=True))
        if behind is not None:
            moved = Subscripts((*behind.exprs, *[Const(0)] * len(start.exprs)), behind.values)
            start = moved.plus(Subscripts((Const(0), *start.exprs), start.values))
            lead, strides = (self._room(view, memory), *lead), (1, *strides)
        wide = _viewed(view, (*lead, *lattice.shape), (*strides, *lattice.strides(strides[-len(sizes) :])))
        self.emitter.add(wide)
        cast = self._cast(wide, memory, tile)
        inside = tuple(Const(0) for _ in lattice.shape)
        subscripts = Subscripts((*start.exprs, *inside), start.values).canonical()
        return TileAddress(cast, subscripts, lattice.shape, memory, aligned=False, lead=len(lead))

    def _room(self, view: ktdp.ConstructMemoryView, memory: Kind) -> int:
        """Elements that a memory holds."""
        size = self.context.architecture.memory(memory).size
        return max(1, (size or 1 << 31) // _element_bytes(_type(view)))

    # -- starts that break words

    def _broken_words(self, view: ktdp.ConstructMemoryView, memory: Kind) -> tuple[Value, Subscripts] | None:
        """The argument and the elements behind it where a view starts, if these are no whole words.

        Units address memory by words, so the elements must stand in the subscripts. `ScheduleError` if the
        start is not even a whole element.
        """
        expr, leaves = expand(view.offset, self.definitions)
        pointers = [n for n, leaf in enumerate(leaves) if self.definitions.definer(leaf) is None]
        if len(pointers) != 1 or not self.context.architecture.is_global(memory):
            return None
        rest = simplify(expr - Dim(pointers[0]))
        size = _element_bytes(_type(view))
        unit = 1 if self.byte_addresses else size
        word = _word_bytes(self.context.architecture, memory)
        if rest == Const(0) or largest_known_divisor(rest) * unit % word == 0:
            return None
        if unit < size:
            if largest_known_divisor(rest) % size:
                raise ScheduleError.at(
                    view.location, f"the view does not start at a multiple of {size} bytes"
                )
            rest = simplify(rest // size)
        return leaves[pointers[0]], Subscripts((rest,), leaves).canonical()

    def _behind(
        self,
        tile: ktdp.ConstructAccessTile,
        view: ktdp.ConstructMemoryView,
        memory: Kind,
        pointer: Value,
        behind: Subscripts,
    ) -> TileAddress:
        lattice = _lattice(tile, len(view.static_sizes.values))
        moved = view.replace(operands=[pointer, *view.operands[1:]])
        return self._led(tile, moved, memory, lattice, self._start(tile, lattice), behind)

    def _cast(self, view: ktdp.ConstructMemoryView, memory: Kind, tile: ktdp.ConstructAccessTile) -> Value:
        type = _type(view)
        cast_type = MemRefType(type.shape, type.element, type.layout, memory_attribute(memory))
        return self.emitter.add(
            memref.MemorySpaceCast.create([view.result], [cast_type], location=tile.location)
        )

    def _at_offset(
        self,
        cast: Value,
        offset: Value,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        tile: ktdp.ConstructAccessTile,
    ) -> Value:
        old = cast.type
        assert isinstance(old, MemRefType)
        type = MemRefType(shape, old.element, StridedLayoutAttr(strides, None), old.memory_space)
        reinterpret = memref.ReinterpretCast.create(
            [cast, offset],
            [type],
            {
                "static_offsets": DenseArrayAttr(I64, (DYNAMIC,)),
                "static_sizes": DenseArrayAttr(I64, shape),
                "static_strides": DenseArrayAttr(I64, strides),
                OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, 1, 0, 0)),
            },
            location=tile.location,
        )
        return self.emitter.add(reinterpret)

    def _start(self, tile: ktdp.ConstructAccessTile, lattice: Lattice) -> Subscripts:
        """The first element, in the dimensions of the view."""
        constants = {
            value: number
            for value in tile.indices
            if (number := constant_value(value, self.definitions)) is not None
        }
        base = Subscripts.of_map(tile.base_map.map, tile.indices).with_constants(constants)
        return base.plus(constant_subscripts(lattice.start)).canonical()

    def _is_static_start(
        self, start: Subscripts, strides: Sequence[int], memory: Kind, type: MemRefType
    ) -> bool:
        if not leaves_of(start.values, self.definitions).per_tile:
            return False
        full = expand_subscripts(start, self.definitions)
        offset: AffineExpr = Const(0)
        for expr, stride in zip(full.exprs, strides, strict=True):
            offset = offset + expr * stride
        divisor = largest_known_divisor(simplify(offset)) * _element_bytes(type)
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


def _lattice(tile: ktdp.ConstructAccessTile, rank: int) -> Lattice:
    """The lattice of a tile of a view of some rank."""
    lattice = lattice_of(tile)
    if lattice is None:
        raise UnsupportedKernel.at(
            tile.location, "only access tiles whose elements lie in equal steps are supported"
        )
    if len(lattice.start) != rank:
        raise ScheduleError.at(
            tile.location, f"the access tile's set has {len(lattice.start)} dimensions, the view {rank}"
        )
    return lattice


def _element_bytes(type: MemRefType) -> int:
    return (bit_width(type.element) + 7) // 8


def _type(view: ktdp.ConstructMemoryView) -> MemRefType:
    type = view.result.type
    assert isinstance(type, MemRefType)
    return type


def _origin(rank: int) -> Subscripts:
    return constant_subscripts([0] * rank)


def _viewed(
    view: ktdp.ConstructMemoryView, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> ktdp.ConstructMemoryView:
    """The same memory with other sizes and strides."""
    type = _type(view)
    return ktdp.ConstructMemoryView.create(
        view.operands,
        [MemRefType(sizes, type.element, None, type.memory_space)],
        {
            **view.attributes,
            "static_sizes": DenseArrayAttr(I64, sizes),
            "static_strides": DenseArrayAttr(I64, strides),
            "coordinate_set": AffineSetAttr(AffineSet.box(*sizes)),
        },
        location=view.location,
    )
