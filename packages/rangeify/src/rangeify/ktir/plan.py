"""The plan of one element-wise kernel: which core does what, and which tile of each operand it touches."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rangeify.errors import UnsupportedError
from rangeify.ktir.access import Access, Coordinate, KernelAccesses
from rangeify.ktir.division import divide
from rangeify.ktir.layout import DeviceLayout, Part
from rangeify.ktir.layouts import stick_loop
from uopgraph import UOp


@attrs.frozen
class TileDim:
    """One device dimension of an operand's tile: it starts at ``grid * step + offset`` (``grid``: position of
    the grid dimension, None: not split), has `size` entries and follows loop `axis` of the tile (None: one
    entry)."""

    grid: int | None
    step: int
    offset: int
    size: int
    axis: int | None


@attrs.frozen
class Operand:
    """A load or the store: argument slot, and the tile per device dimension."""

    slot: int
    tile: tuple[TileDim, ...]


@attrs.frozen(eq=False)
class KernelPlan:
    """``grid``: one entry per split loop, in numbering order (the first is the fastest). ``tile_shape``:
    extents of the tile loops, which are the device dimensions of the output. ``loads``: INDEX node ->
    operand."""

    grid: tuple[int, ...]
    tile_shape: tuple[int, ...]
    store: Operand
    loads: dict[UOp, Operand]


def plan_kernel(
    accesses: KernelAccesses, layouts: Sequence[DeviceLayout], cores: int, where: str
) -> KernelPlan:
    """Divide the kernel's loops over at most `cores` cores and derive every tile; `layouts` by argument slot.

    A work slice is whole sticks and whole rows (planning spec 2.1); the division is the greedy one of 2.4.
    """
    lanes = {layout.lanes for layout in layouts}
    if len(lanes) > 1:
        raise UnsupportedError("operands with different numbers of elements per stick", where)
    per_stick = lanes.pop()
    out = layouts[accesses.store.slot]
    stick = stick_loop(accesses.store, out.order)
    sizes = [-(-n // per_stick) if i == stick else n for i, n in enumerate(accesses.extents)]
    splits = divide(sizes, cores)
    split_loops = [i for i, s in enumerate(splits) if s > 1]
    build = _TileBuilder(
        per_stick,
        stick,
        {loop: g for g, loop in enumerate(split_loops)},
        [n // s for n, s in zip(sizes, splits, strict=True)],
        _axes(accesses.store, out),
        len(out.dims) - 1,
        where,
    )
    store = _identity(build.operand(accesses.store, out))
    loads = {node: build.operand(a, layouts[a.slot]) for node, a in accesses.loads.items()}
    grid = tuple(splits[i] for i in split_loops) or (1,)
    return KernelPlan(grid, tuple(d.size for d in store.tile), store, loads)


def _identity(store: Operand) -> Operand:
    """Tile loops are the dimensions of the stored tile, also those with one entry."""
    return Operand(store.slot, tuple(attrs.evolve(d, axis=i) for i, d in enumerate(store.tile)))


def _axes(store: Access, out: DeviceLayout) -> dict[tuple[int, Part], int]:
    """(loop, part) -> the tile loop that walks it; tile loops are the device dimensions of the output."""
    axes = {}
    for axis, dim in enumerate(out.dims):
        if dim.host is not None:
            loop = store.coordinates[dim.host].loop
            if loop is not None:
                axes[loop, dim.part] = axis
    return axes


@attrs.frozen
class _TileBuilder:
    lanes: int
    stick: int | None
    grid: dict[int, int]
    slices: list[int]
    axes: dict[tuple[int, Part], int]
    last_axis: int
    where: str

    def operand(self, access: Access, layout: DeviceLayout) -> Operand:
        dims = []
        for dim in layout.dims:
            at = Coordinate(None) if dim.host is None else access.coordinates[dim.host]
            match dim.part:
                case Part.WHOLE:
                    dims.append(self._moving(at, Part.WHOLE, at.constant))
                case Part.TILE:
                    if at.loop is not None and at.constant % self.lanes:
                        raise UnsupportedError(
                            f"a slice that starts {at.constant % self.lanes} elements into a stick",
                            self.where,
                        )
                    dims.append(self._moving(at, Part.TILE, at.constant // self.lanes))
                case Part.LANE:
                    dims.append(self._lane(at))
        return Operand(access.slot, tuple(dims))

    def _moving(self, at: Coordinate, part: Part, offset: int) -> TileDim:
        if at.loop is None:
            return TileDim(None, 0, offset, 1, None)
        size = self.slices[at.loop]
        return TileDim(self.grid.get(at.loop), size, offset, size, self.axes[at.loop, part])

    def _lane(self, at: Coordinate) -> TileDim:
        if at.loop is None and at.constant % self.lanes:
            raise UnsupportedError(f"a constant index {at.constant} inside a stick", self.where)
        if at.loop is None and self.stick is not None:
            return TileDim(None, 0, 0, 1, None)
        # without a stick loop all lanes are computed alike; only lane 0 is meant
        axis = self.axes[self.stick, Part.LANE] if self.stick is not None else self.last_axis
        return TileDim(None, 0, 0, self.lanes, axis)
