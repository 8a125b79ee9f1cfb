"""Loads narrowed to the part that a slice takes of them.

The loops of a generic have the extents of the operands that they subscript directly. A slice at offset 0 of a
larger tensor becomes such a subscript, ``d1`` up to 64 of an operand of 128 columns: the loop would have two
extents, and a reduction along it would fold elements that are not in the slice. So `fuse-linalg` loads the
part alone, right behind the load of the whole (what memory holds is the same there), and the whole only if
something else reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

from dfsched.passes.errors import UnsupportedKernel
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.tile_lattices import Lattice, lattice_of, progressions
from ktir.affine import Add, AffineExpr, AffineMap, Const, Dim, Mul
from ktir.attributes import AffineMapAttr, AffineSetAttr
from ktir.dialects import ktdp
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.types import TensorType

__all__ = ["NarrowedLoads", "Part", "linear_in_loop", "part_of"]


@frozen
class Part:
    """What a subscript reads of one dimension of a tensor: elements ``start + i * step``, i < `extent`."""

    start: int
    step: int
    extent: int
    subscript: AffineExpr
    """Where the element is read in the part alone."""


@define(eq=False)
class NarrowedLoads:
    """Narrowed loads, each made once; `behind` gives what to put behind a load of a whole tensor."""

    definitions: Definitions
    behind: dict[Operation, list[Operation]] = field(factory=dict)
    _made: dict[tuple[Value, tuple[tuple[int, int, int], ...]], Value] = field(factory=dict)

    def operand(
        self, value: Value, map: AffineMap, extents: Sequence[int], location: Location
    ) -> tuple[Value, AffineMap]:
        """An operand read at `map` by loops of these extents, narrowed if a loop does not cover it.

        `UnsupportedKernel` if it would have to be, but is no load of a box or of a strided, transposed one.
        """
        type = value.type
        assert isinstance(type, TensorType)
        shape = type.static_shape()
        if not any(
            leaves_out(expr, extents, extent) for expr, extent in zip(map.results, shape, strict=True)
        ):
            return value, map
        parts = [part_of(expr, extents, extent) for expr, extent in zip(map.results, shape, strict=True)]
        key = value, tuple((part.start, part.step, part.extent) for part in parts)
        if key not in self._made:
            self._made[key] = self._narrowed(value, type, parts, location)
        return self._made[key], AffineMap(map.num_dims, 0, tuple(part.subscript for part in parts))

    def _narrowed(self, value: Value, type: TensorType, parts: Sequence[Part], location: Location) -> Value:
        load = self.definitions.definer(value)
        tile = self.definitions.definer(load.operands[0]) if isinstance(load, ktdp.Load) else None
        lattice = None
        if (
            isinstance(tile, ktdp.ConstructAccessTile)
            and not tile.symbol_operands
            and not tile.base_map.map.num_symbols
            and not tile.access_tile_set.set.num_symbols
        ):
            lattice = lattice_of(tile)
        axes = None if lattice is None else _axes(lattice)
        if lattice is None or axes is None:
            raise UnsupportedKernel.at(
                location, f"a slice of a {type} that is no load of a box of memory is not supported"
            )
        assert isinstance(load, ktdp.Load)
        assert isinstance(tile, ktdp.ConstructAccessTile)
        shape = tuple(part.extent for part in parts)
        starts = list(lattice.start)
        strides = [(1, 1)] * len(starts)
        for part, axis, step in zip(parts, axes, lattice.steps, strict=True):
            starts[axis] += part.start * step[axis]
            strides[axis] = part.step * step[axis], part.extent
        base = tile.base_map.map
        subscripts = (expr + start for expr, start in zip(base.results, starts, strict=True))
        narrow = ktdp.ConstructAccessTile.create(
            tile.operands,
            [ktdp.AccessTileType(shape)],
            {
                **tile.attributes,
                "access_tile_set": AffineSetAttr(progressions(strides)),
                "access_tile_order": AffineMapAttr(AffineMap(len(starts), 0, tuple(Dim(d) for d in axes))),
                "base_map": AffineMapAttr(AffineMap(base.num_dims, 0, tuple(subscripts)).simplified()),
            },
            location=tile.location,
        )
        part_load = ktdp.Load.create(
            [narrow.result], [TensorType(shape, type.element)], load.attributes, location=load.location
        )
        self.behind.setdefault(load, []).extend([narrow, part_load])
        return part_load.results[0]


def leaves_out(expr: AffineExpr, extents: Sequence[int], extent: int) -> bool:
    """Whether a loop that is a subscript, or goes in steps, does not reach the whole dimension."""
    match linear_in_loop(expr):
        case (0, 1, position):
            return extents[position] != extent
        case (_, step, _):
            return step != 1
        case _:
            return False


def part_of(expr: AffineExpr, extents: Sequence[int], extent: int) -> Part:
    match expr, linear_in_loop(expr):
        case Const(value), _:
            return Part(value, 1, 1, Const(0))
        case _, (start, step, position):
            return Part(start, step, extents[position], Dim(position))
        case _:
            return Part(0, 1, extent, expr)


def linear_in_loop(expr: AffineExpr) -> tuple[int, int, int] | None:
    """Start, step (from 1 on) and loop of ``d * step + start``; None for what is no such subscript."""
    match expr:
        case Dim(position):
            return 0, 1, position
        case Mul(Dim(position), Const(step)) if step > 0:
            return 0, step, position
        case Add(inner, Const(start)) if start >= 0:
            found = linear_in_loop(inner)
            return None if found is None else (found[0] + start, found[1], found[2])
        case _:
            return None


def _axes(lattice: Lattice) -> tuple[int, ...] | None:
    """The view dimension along which each tile dimension goes; None if they are not one each, forwards."""
    axes = [[d for d, part in enumerate(step) if part] for step in lattice.steps]
    if any(len(axis) != 1 for axis in axes) or any(part < 0 for step in lattice.steps for part in step):
        return None
    found = tuple(axis[0] for axis in axes)
    return found if sorted(found) == list(range(len(lattice.start))) else None
