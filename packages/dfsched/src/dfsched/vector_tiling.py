"""How an element-wise iteration space is cut into vectors.

`reference_tile` is the rule of scheduler spec 3.4 step 3. `vector_boxes` is ours: vectors are full wherever
possible, and what is left over at the end of the innermost dimension becomes a box of its own, so every
transfer has a static size and nothing outside the space is touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

__all__ = ["Box", "reference_tile", "vector_boxes"]


@frozen
class Box:
    """A part of an iteration space: first point, extents and the tile of one vector, an entry per dimension.

    Every tile divides its extent.
    """

    offsets: tuple[int, ...]
    extents: tuple[int, ...]
    tile: tuple[int, ...]

    @property
    def lanes(self) -> int:
        """Elements of one vector."""
        return math.prod(self.tile)

    @property
    def trips(self) -> tuple[int, ...]:
        """Iterations per dimension."""
        return tuple(extent // tile for extent, tile in zip(self.extents, self.tile, strict=True))


def reference_tile(extents: Sequence[int], lanes: int) -> tuple[int, ...]:
    """Tile sizes of parallel dimensions by the greatest-common-divisor rule.

    >>> reference_tile([8, 256], 64), reference_tile([5, 96], 64), reference_tile([12, 16], 64)
    ((1, 64), (1, 32), (4, 16))
    """
    tile = [1] * len(extents)
    product, rest = 1, max(1, lanes)
    for dim in reversed(range(len(extents))):
        if product >= lanes:
            break
        product *= extents[dim]
        tile[dim] = math.gcd(extents[dim], rest)
        rest = max(1, rest // tile[dim])
    return tuple(tile)


def vector_boxes(
    extents: Sequence[int], lanes: int, operand_dims: Iterable[Sequence[int]]
) -> tuple[Box, ...]:
    """Boxes that partition the space, in lexicographic order of their columns.

    `operand_dims` lists, per operand, the dimensions that its subscripts use, in subscript order. A tile
    grows beyond the innermost dimension only while each operand's part of a vector is a run of lanes that
    repeats (`splats`), since that is what queues can replicate.

    >>> [(b.offsets, b.extents, b.tile) for b in vector_boxes([8, 200], 64, [(0, 1), (0, 1)])]
    [((0, 0), (8, 192), (1, 64)), ((0, 192), (8, 8), (8, 8))]
    >>> [b.tile for b in vector_boxes([8, 200], 64, [(0, 1), (0,)])]
    [(1, 64), (1, 8)]
    """
    if any(extent == 0 for extent in extents):
        return ()
    if not extents:
        return (Box((), (), ()),)
    used = [tuple(dims) for dims in operand_dims]
    last = len(extents) - 1
    width = max(1, lanes)
    full = extents[last] // width * width
    parts = [(0, full)] if full else []
    if full != extents[last]:
        parts.append((full, extents[last] - full))
    boxes = []
    for start, extent in parts:
        offsets = (0,) * last + (start,)
        box = (*extents[:last], extent)
        boxes.append(Box(offsets, tuple(box), _tile(box, width, used)))
    return tuple(boxes)


def _tile(extents: Sequence[int], lanes: int, operand_dims: Sequence[Sequence[int]]) -> tuple[int, ...]:
    last = len(extents) - 1
    tile = [1] * len(extents)
    tile[last] = min(lanes, extents[last])
    rest = lanes // tile[last]
    for dim in reversed(range(last)):
        best = max(size for size in range(1, rest + 1) if extents[dim] % size == 0)
        if best > 1:
            grown = [*tile]
            grown[dim] = best
            if not all(splats(grown, dims) for dims in operand_dims):
                break
            tile = grown
            rest //= best
        if best != extents[dim]:
            break
    return tuple(tile)


def splats(tile: Sequence[int], dims: Sequence[int]) -> bool:
    """Whether an operand over `dims` fills the lanes of a tile by repeating its own elements in order.

    True iff its dimensions with a tile above 1 stand in loop order and are the innermost such ones.

    >>> splats((8, 8), (1,)), splats((8, 8), (0,)), splats((1, 64), (0,)), splats((8, 8), (1, 0))
    (True, False, True, False)
    """
    wide = [dim for dim, size in enumerate(tile) if size > 1]
    own = [dim for dim in dims if tile[dim] > 1]
    return own == wide[len(wide) - len(own) :]
