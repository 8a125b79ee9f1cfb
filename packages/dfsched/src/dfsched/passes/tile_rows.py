"""Access tiles that are no lattices as walks: their coordinates in order, cut into rows of equal steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from attrs import frozen

from dfsched.passes.errors import UnsupportedKernel
from dfsched.passes.tile_lattices import ordered_points
from ktir.dialects import ktdp

__all__ = ["Rows", "Walk", "rows_of", "walk_of"]

IntArray = npt.NDArray[np.int64]


@frozen(eq=False)
class Walk:
    """The coordinates of one tile in order, and its step from one element of a row to the next."""

    points: IntArray
    axis: int
    stride: int

    @property
    def step(self) -> IntArray:
        found = np.zeros(self.points.shape[1], np.int64)
        found[self.axis] = self.stride
        return found

    @property
    def is_one_row(self) -> bool:
        return len(self.points) < 2 or bool((np.diff(self.points, axis=0) == self.step).all())


@frozen
class Rows:
    """`count` rows from element `first` on: row i has ``length + i * growth`` elements."""

    first: int
    count: int
    length: int
    growth: int

    def longest(self) -> int:
        return max(self.length, self.length + (self.count - 1) * self.growth)


def walk_of(tile: ktdp.ConstructAccessTile) -> Walk:
    """The points of a tile, and the step that most of them are apart."""
    points = ordered_points(tile)
    steps = np.diff(points, axis=0)
    if not len(steps):
        return Walk(points, points.shape[1] - 1, 1)
    found, first, counts = np.unique(steps, axis=0, return_index=True, return_counts=True)
    step = found[min(range(len(found)), key=lambda i: (-counts[i], first[i]))]
    axes = np.flatnonzero(step)
    if len(axes) != 1 or step[axes[0]] < 0:
        raise UnsupportedKernel.at(
            tile.location,
            f"the rows of the access tile run in steps of {step.tolist()}, not along one dimension",
        )
    return Walk(points, int(axes[0]), int(step[axes[0]]))


def rows_of(walks: Sequence[Walk]) -> list[Rows]:
    """Runs of equal steps in all tiles, gathered where lengths and starts grow evenly."""
    count = len(next(iter(walks)).points)
    breaks = np.zeros(max(0, count - 1), bool)
    for walk in walks:
        breaks |= (np.diff(walk.points, axis=0) != walk.step).any(axis=1)
    starts = np.concatenate([[0], np.flatnonzero(breaks) + 1]).astype(np.int64)
    lengths = np.diff(np.concatenate([starts, [count]]))
    features = [lengths[:, None]]
    features += [walk.points[starts] for walk in walks if not walk.is_one_row]
    table = np.concatenate(features, axis=1)
    found: list[Rows] = []
    row = 0
    while row < len(starts):
        end = row + 1
        while end < len(starts) and (table[end] - table[end - 1] == table[row + 1] - table[row]).all():
            end += 1
        growth = int(lengths[row + 1] - lengths[row]) if end - row > 1 else 0
        found.append(Rows(int(starts[row]), end - row, int(lengths[row]), growth))
        row = end
    return found
