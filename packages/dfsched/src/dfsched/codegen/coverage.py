"""Which dimensions of an argument the stores of a kernel fill, from the first to the last element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
from attrs import frozen

from dfsched.passes.index_arithmetic import constant_value, expand_subscripts
from dfsched.passes.subscripts import Subscripts
from ktir.analysis.defuse import DefUse
from ktir.dialects import ktdp, scf
from ktir.grid import grid_of
from ktir.ir import Operation, Value

__all__ = ["MOST_BOXES", "StoredBoxes", "filled_dimensions"]

MOST_BOXES = 1 << 14
"""Boxes of one argument that are looked at: what consists of more counts as not filled."""

Corners = npt.NDArray[np.int64]


@frozen(eq=False)
class StoredBoxes:
    """The places of one store: boxes of `extents` elements at each value of the subscripts `start`."""

    start: Subscripts
    low: tuple[int, ...]
    extents: tuple[int, ...]


def filled_dimensions(
    function: Operation, stores: Sequence[StoredBoxes], shape: Sequence[int | str], definitions: DefUse
) -> set[int]:
    """The dimensions along which every line that is stored to at all is stored to from end to end.

    Subscripts may depend on tile ids and on variables of loops with constant bounds; with any other none is.
    """
    found: list[Corners] = []
    for store in stores:
        corners = _corners(function, store, definitions)
        if corners is None:
            return set()
        found.append(corners)
    boxes = np.unique(np.concatenate(found), axis=0)
    return {
        d
        for d, extent in enumerate(shape)
        if isinstance(extent, int) and _is_filled(boxes, d, extent, len(shape))
    }


def _corners(function: Operation, store: StoredBoxes, definitions: DefUse) -> Corners | None:
    """A row a box: its first places, then those behind its last ones; None if they cannot be told."""
    places = expand_subscripts(store.start, definitions)
    ranges = [_values(value, function, definitions) for value in places.values]
    known = [values for values in ranges if values is not None]
    if len(known) < len(ranges) or prod(map(len, known)) > MOST_BOXES:
        return None
    grids = np.meshgrid(*(np.asarray(values, np.int64) for values in known), indexing="ij")
    leaves = [grid.reshape(-1) for grid in grids]
    count = prod(map(len, known))
    lows = [
        np.broadcast_to(np.asarray(expr.evaluate(leaves), np.int64), (count,)) + low
        for expr, low in zip(places.exprs, store.low, strict=True)
    ]
    highs = [low + extent for low, extent in zip(lows, store.extents, strict=True)]
    return np.stack([*lows, *highs], axis=1) if lows else np.zeros((count, 0), np.int64)


def _values(value: Value, function: Operation, definitions: DefUse) -> range | None:
    """The values of a tile id or of a loop variable; None for anything else."""
    op = definitions.definer(value)
    if isinstance(op, ktdp.GetComputeTileId):
        grid = grid_of(function) or (1,)
        number = next(n for n, result in enumerate(op.results) if result is value)
        return range(grid[number] if len(op.results) == len(grid) else prod(grid))
    block = definitions.defining_block(value)
    loop = definitions.owner(block) if op is None and block is not None else None
    if not isinstance(loop, scf.For) or value is not loop.induction_variable:
        return None
    lower, upper, step = (constant_value(bound, definitions) for bound in (loop.lower, loop.upper, loop.step))
    return range(lower, upper, step) if lower is not None and upper is not None and step else None


def _is_filled(boxes: Corners, dimension: int, extent: int, rank: int) -> bool:
    """Whether boxes with the same sides in the other dimensions lie end to end along one dimension."""
    low, high = boxes[:, dimension], boxes[:, rank + dimension]
    others = np.delete(boxes, [dimension, rank + dimension], axis=1)
    order = np.lexsort((low, *others.T))
    reached: dict[bytes, int] = {}
    for row in order.tolist():
        key = others[row].tobytes()
        end = reached.get(key, 0)
        if low[row] > end:
            return False
        reached[key] = max(end, int(high[row]))
    return all(end >= extent for end in reached.values())
