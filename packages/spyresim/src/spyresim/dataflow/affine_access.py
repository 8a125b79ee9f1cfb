"""Subscripts, sets and layouts as the engine wants them: linear forms over registers."""

from __future__ import annotations

from collections.abc import Sequence

from ktir.affine import AffineMap, AffineSet, Dim
from ktir.affine.linear import linear
from spyresim.errors import Site, UnsupportedError


def linear_rows(map: AffineMap, what: str, site: Site) -> tuple[list[int], list[list[int]]]:
    """Constants and coefficients (one row a result, one column a dimension) of a map.

    `UnsupportedError` if it is not linear.
    """
    constants: list[int] = []
    rows: list[list[int]] = []
    for expr in map.results:
        form = linear(expr)
        if form is None or not form.is_linear or map.num_symbols:
            raise UnsupportedError(f"{what} that is not linear: {map}", site)
        constants.append(form.constant)
        rows.append([form.coefficient(Dim(d)) for d in range(map.num_dims)])
    return constants, rows


def ordered_points(set: AffineSet, order: AffineMap, site: Site) -> list[tuple[int, ...]]:
    """The points of a set in the order in which a map ranks them (ties: lexicographically)."""
    if set.num_symbols:
        raise UnsupportedError("element sets with symbols", site)
    points = [tuple(int(n) for n in point) for point in set.points()]
    return sorted(points, key=lambda point: (order.evaluate(point), point))


def time_box(set: AffineSet, order: AffineMap, site: Site) -> tuple[list[int], list[int]]:
    """Extents of the time dimensions in execution order (slowest first), and their original positions."""
    if set.num_symbols:
        raise UnsupportedError("time sets with symbols", site)
    if set.num_dims == 0:
        return [], []
    permutation = order.as_permutation()
    box = set.bounding_box()
    if permutation is None or box is None or any(low != 0 for low, _ in box) or not set.is_rectangular():
        raise UnsupportedError("unsupported time domain", site)
    extents = [high + 1 for _, high in box]
    return [extents[d] for d in permutation], list(permutation)


def strides_of(layout: AffineMap, rank: int, site: Site) -> tuple[tuple[int, ...], int]:
    """Coefficients and constant of a layout map (in elements); `UnsupportedError`: not linear."""
    constants, rows = linear_rows(layout, "layout map", site)
    if len(rows) != 1 or len(rows[0]) != rank:
        raise UnsupportedError(f"layout map {layout} of a view of rank {rank}", site)
    return tuple(rows[0]), constants[0]


def by_rank(rows: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Nested tuples."""
    return tuple(tuple(row) for row in rows)
