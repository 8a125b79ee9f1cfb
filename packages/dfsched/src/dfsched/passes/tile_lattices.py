"""Access tiles as lattices: the set of a tile in its order, element (i, j, ...) at an affine coordinate.

Boxes are lattices, and so are strided, skewed and transposed ones. What is none (a triangle) has no start and
steps; `tile_rows` cuts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from attrs import frozen

from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from ktir.affine import AffineSet, Const, Constraint, Dim, Mod, SetTooLargeError, UnboundedSetError
from ktir.dialects import ktdp

__all__ = ["MOST_POINTS", "Lattice", "lattice_of", "ordered_points", "progressions"]

MOST_POINTS = 1 << 20
"""Points of a set that is no product of progressions; boxes are not enumerated."""

Points = npt.NDArray[np.int64]


@frozen
class Lattice:
    """Element (i, j, ...) of a tile of shape `shape` is ``start + i * steps[0] + j * steps[1] + ...``.

    Relative to the subscripts of the tile.
    """

    shape: tuple[int, ...]
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]

    @property
    def order(self) -> tuple[int, ...] | None:
        """The view dimension of each tile dimension if every step is one element of another; else None."""
        found = []
        for step in self.steps:
            if sorted(step) != [*[0] * (len(step) - 1), 1]:
                return None
            found.append(step.index(1))
        return tuple(found) if sorted(found) == list(range(len(self.start))) else None

    def strides(self, view: Sequence[int]) -> tuple[int, ...]:
        """Elements of memory per step of each tile dimension, for a view with these strides."""
        return tuple(sum(a * b for a, b in zip(step, view, strict=True)) for step in self.steps)

    @property
    def spans(self) -> tuple[int, ...]:
        """How far the tile reaches in each view dimension, if no step goes backwards."""
        return tuple(
            sum((extent - 1) * step[d] for extent, step in zip(self.shape, self.steps, strict=True))
            for d in range(len(self.start))
        )

    @property
    def goes_backwards(self) -> bool:
        """Whether a step leads to a smaller coordinate of some dimension."""
        return any(part < 0 for step in self.steps for part in step)


def lattice_of(tile: ktdp.ConstructAccessTile) -> Lattice | None:
    """The lattice of a tile without symbols; None if its set is none in that order and shape.

    `ScheduleError` if order, set and type do not fit together, `UnsupportedKernel` for what is not built.
    """
    points, shape, order = _parts(tile)
    try:
        factors = points.factors()
    except (UnboundedSetError, SetTooLargeError) as error:
        raise ScheduleError.at(tile.location, str(error)) from None
    if factors is None or not all(isinstance(f, range) for f in factors):
        return _fitted(ordered_points(tile), shape)
    extents = tuple(_extent(factors[d]) for d in order)
    if extents != shape:
        result = tile.result.type
        raise ScheduleError.at(
            tile.location, f"the access tile's set has extents {list(extents)}, but its type is {result}"
        )
    start = tuple(f[0] if len(f) else 0 for f in factors)
    steps = []
    for d in order:
        factor = factors[d]
        assert isinstance(factor, range)
        steps.append(tuple(factor.step if place == d else 0 for place in range(len(factors))))
    if any(len(factors[d]) == 1 for d in order):  # one element needs no step; one keeps dimensions apart
        steps = [
            step if len(factors[d]) > 1 else tuple(int(place == d) for place in range(len(factors)))
            for d, step in zip(order, steps, strict=True)
        ]
    return Lattice(shape, start, tuple(steps))


def _extent(points: Sequence[int]) -> int:
    """How many there are; `len` of a range ends at what a word of the host holds."""
    if isinstance(points, range):
        return max(0, -((points.start - points.stop) // points.step))
    return len(points)


def ordered_points(tile: ktdp.ConstructAccessTile) -> Points:
    """The coordinates of a tile relative to its subscripts, a row an element, in the order of the tensor."""
    points, shape, order = _parts(tile)
    try:
        found = points.points(limit=MOST_POINTS)
    except SetTooLargeError:
        raise UnsupportedKernel.at(
            tile.location, f"an access tile that is no box may have at most {MOST_POINTS} elements"
        ) from None
    if len(found) != math.prod(shape):
        raise ScheduleError.at(
            tile.location,
            f"the access tile's set has {len(found)} points, but its type is {tile.result.type}",
        )
    if order != tuple(range(len(order))):
        found = found[np.lexsort(tuple(found[:, d] for d in reversed(order)))]
    return found


def _parts(tile: ktdp.ConstructAccessTile) -> tuple[AffineSet, tuple[int, ...], tuple[int, ...]]:
    """Set, shape and order (set dimension per tile dimension)."""
    result = tile.result.type
    assert isinstance(result, ktdp.AccessTileType)
    points: AffineSet = tile.access_tile_set.set
    if tile.symbol_operands or points.num_symbols or None in result.shape:
        raise UnsupportedKernel.at(tile.location, "access tiles of symbolic shape are not supported")
    order = tile.access_tile_order.map.as_permutation()
    if order is None:
        raise ScheduleError.at(tile.location, "access_tile_order must be a permutation")
    if len(order) != points.num_dims:
        raise ScheduleError.at(
            tile.location, f"access_tile_order has no place for {points.num_dims} dimensions"
        )
    return points, tuple(e for e in result.shape if e is not None), tuple(order)


def _fitted(points: Points, shape: tuple[int, ...]) -> Lattice | None:
    """The lattice through all points, laid out in a shape."""
    if not len(points):
        return None
    grid = points.reshape(*shape, points.shape[1])
    start = grid[(0,) * len(shape)]
    steps = []
    expected = np.broadcast_to(start, grid.shape).copy()
    for dim, extent in enumerate(shape):
        step = np.zeros_like(start)
        if extent > 1:
            step = grid[tuple(int(d == dim) for d in range(len(shape)))] - start
            along = [1] * (len(shape) + 1)
            along[dim] = extent
            expected = expected + np.arange(extent).reshape(along) * step
        steps.append(tuple(int(n) for n in step))
    if not np.array_equal(expected, grid):
        return None
    return Lattice(shape, tuple(int(n) for n in start), tuple(steps))


def progressions(strides: Sequence[tuple[int, int]]) -> AffineSet:
    """The points 0, step, ... of each dimension, by step and count; one point is an equality."""
    constraints: list[Constraint] = []
    for d, (step, count) in enumerate(strides):
        if count == 1:
            constraints.append(Constraint(Dim(d), True))
            continue
        constraints += [Constraint(Dim(d), False), Constraint(-Dim(d) + step * (count - 1), False)]
        if step > 1:
            constraints.append(Constraint(Mod(Dim(d), Const(step)), True))
    return AffineSet(len(strides), 0, tuple(constraints))
