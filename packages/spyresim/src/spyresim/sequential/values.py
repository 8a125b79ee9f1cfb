"""Values at run time, for a batch of compute tiles.

Scalars and tensors are arrays whose first axis is the batch: one entry a tile, or a single entry that stands
for all of them.  Everything else is a `Batched` object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs
import numpy as np

from ktir.affine import AffineSet
from ktir.dialects import ktdp
from ktir.types import Type
from spyresim.errors import Site, UnsupportedError
from spyresim.meaning.formats import Array
from spyresim.sequential.access import IntArray, Pattern
from spyresim.sequential.memory import HOST, Memory

__all__ = [
    "AccessTile",
    "Batched",
    "Box",
    "BoxTile",
    "DistributedView",
    "PointTile",
    "RuntimeValue",
    "View",
    "merge",
    "spread",
    "take",
    "uniform",
]


class Batched:
    """A value other than an array that may differ between tiles."""

    def take(self, positions: IntArray) -> Batched:
        """The value for some tiles of the batch."""
        return self


RuntimeValue: TypeAlias = Array | Batched
Box: TypeAlias = tuple[tuple[int, int], ...]
"""Inclusive bounds, one pair a dimension."""


@attrs.frozen(eq=False)
class View(Batched):
    """A memref: element x lies at ``base + item * sum(x[j] * strides[j])`` bytes of `memory`.

    `base` has a batch axis.  `row` is the memory's instance, None for that of the executing core.  `owner` is
    on whose behalf it reads and writes: `HOST` for views of the kernel, a program call for its temporaries.
    """

    memory: Memory
    row: int | None
    base: IntArray
    element: Type
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    owner: int = HOST

    def take(self, positions: IntArray) -> View:
        return attrs.evolve(self, base=_take(self.base, positions))


@attrs.frozen(eq=False)
class AccessTile(Batched):
    """Coordinates of a view: the pattern's offsets count from element `anchor` of the view.

    `anchor` has shape (batch, rank); `box` are the inclusive bounds of the relative points per dimension
    (None: no point); `origin` is the operation that made it, with its symbols.
    """

    view: View
    anchor: IntArray
    pattern: Pattern
    box: tuple[tuple[int, int], ...] | None
    origin: tuple[ktdp.ConstructAccessTile, tuple[int, ...]]

    def take(self, positions: IntArray) -> AccessTile:
        return attrs.evolve(self, view=self.view.take(positions), anchor=_take(self.anchor, positions))


@attrs.frozen(eq=False)
class DistributedView(Batched):
    """Views of parts, each with the set of global coordinates that it holds (and that set's corner).

    `boxes` are the sets as inclusive bounds per dimension if all of them are boxes that do not meet.
    """

    parts: tuple[View, ...]
    sets: tuple[tuple[AffineSet, tuple[int, ...]], ...]
    corners: tuple[tuple[int, ...], ...]
    boxes: tuple[Box, ...] | None = None

    @property
    def element(self) -> Type:
        return self.parts[0].element

    def take(self, positions: IntArray) -> DistributedView:
        return attrs.evolve(self, parts=tuple(part.take(positions) for part in self.parts))


@attrs.frozen(eq=False)
class BoxTile(Batched):
    """A box of coordinates of a distributed view: `box` counts from `anchor`, shape (batch, rank).

    The data has an axis for every dimension of the view, in the order that `order` says, and then the shape
    `extents`. `origin` is the operation that made it, with its symbols.
    """

    view: DistributedView
    anchor: IntArray
    box: Box
    order: tuple[int, ...]
    extents: tuple[int, ...]
    origin: tuple[ktdp.ConstructAccessTile, tuple[int, ...]]

    def take(self, positions: IntArray) -> BoxTile:
        return attrs.evolve(self, view=self.view.take(positions), anchor=_take(self.anchor, positions))


@attrs.frozen(eq=False)
class PointTile(Batched):
    """Any coordinates: `points` has shape (batch, count, rank), the data has shape `extents`."""

    view: View | DistributedView
    points: IntArray
    extents: tuple[int, ...]

    def take(self, positions: IntArray) -> PointTile:
        points = self.points if self.points.shape[0] == 1 else self.points[positions]
        return attrs.evolve(self, view=self.view.take(positions), points=points)


def _take(array: Array, positions: IntArray) -> Array:
    return array if array.shape[0] == 1 else np.asarray(array[positions])


def take(value: RuntimeValue, positions: IntArray) -> RuntimeValue:
    """A value for some tiles of the batch."""
    return value.take(positions) if isinstance(value, Batched) else _take(value, positions)


def spread(array: Array, batch: int) -> Array:
    """The array with one entry a tile."""
    return array if array.shape[0] == batch else np.broadcast_to(array, (batch, *array.shape[1:]))


def uniform(array: Array) -> Array | None:
    """The single entry (batch axis kept) if all tiles agree, else None."""
    if array.shape[0] == 1:
        return array
    first = array[:1]
    return first if (array == first).all() else None


def merge(
    batch: int, parts: Sequence[tuple[IntArray, Sequence[RuntimeValue]]], site: Site
) -> tuple[RuntimeValue, ...]:
    """Values of groups of tiles (positions, values) as values of the whole batch."""
    if len(parts) == 1:
        return tuple(parts[0][1])
    return tuple(
        _merge(batch, [(positions, values[i]) for positions, values in parts], site)
        for i in range(len(parts[0][1]))
    )


def _merge(batch: int, parts: Sequence[tuple[IntArray, RuntimeValue]], site: Site) -> RuntimeValue:
    first = parts[0][1]
    if isinstance(first, np.ndarray):
        arrays = [(positions, value) for positions, value in parts if isinstance(value, np.ndarray)]
        if any(value.shape[1:] != first.shape[1:] for _, value in arrays):
            raise UnsupportedError("tiles that hold tensors of different shapes in one value", site)
        out = np.empty((batch, *first.shape[1:]), first.dtype)
        for positions, value in arrays:
            out[positions] = value
        return out
    if isinstance(first, View):
        views = [(positions, value) for positions, value in parts if isinstance(value, View)]
        same = [(v.memory, v.row, v.sizes, v.strides) for _, v in views]
        if all(key == same[0] for key in same):
            base = np.empty((batch,), np.int64)
            for positions, view in views:
                base[positions] = view.base
            return attrs.evolve(first, base=base)
    raise UnsupportedError(f"tiles that choose different values of kind {type(first).__name__}", site)
