"""Counting out integer points with NumPy: one array of prefixes, extended dimension by dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ktir.affine.analysis import Bounds, Constraint, Piece
from ktir.affine.errors import SetTooLargeError, UnboundedSetError
from ktir.affine.expr import Dim, magnitude
from ktir.affine.linear import Linear

if TYPE_CHECKING:
    from ktir.affine.expr import BoolArray, IntArray

__all__ = ["enumerate_points", "holds", "holds_at", "no_points", "product_points"]

_HUGE = 1 << 62
_WORD = 1 << 63


def no_points(num_dims: int) -> IntArray:
    """The points of the empty set."""
    return np.zeros((0, num_dims), dtype=np.int64)


def holds(constraint: Constraint, dims: Sequence[IntArray], symbols: Sequence[int] = ()) -> BoolArray:
    """Where the constraint is true over grids of the dimensions, which broadcast; exact, however large."""
    sizes = [max(-int(d.min()), int(d.max())) if d.size else 0 for d in dims]
    if magnitude(constraint.expr, sizes, [abs(s) for s in symbols]) >= _WORD:
        dims = [d.astype(object) for d in dims]  # Python's integers do not wrap around
    value = np.asarray(constraint.expr.evaluate(dims, [np.asarray(s) for s in symbols]))
    return np.asarray(value == 0 if constraint.is_equality else value >= 0, dtype=np.bool_)


def holds_at(constraint: Constraint, dims: Sequence[int], points: IntArray) -> BoolArray:
    """Whether `constraint` holds at each row of `points`; its columns are the (ascending) `dims`."""
    columns: list[IntArray] = [np.zeros(1, dtype=np.int64)] * (max(dims, default=-1) + 1)
    for column, position in enumerate(dims):
        columns[position] = points[:, column]
    return holds(constraint, columns)


def enumerate_points(
    dims: tuple[int, ...],
    constraints: Sequence[Constraint],
    flats: Sequence[Linear],
    bounds: Sequence[Bounds],
    limit: int,
    text: Callable[[], str],
) -> IntArray:
    """The points of constraints that tie `dims` together, as rows in lexicographic order.

    `flats` are the linear forms of `constraints`, `bounds` those of every dimension of the set.
    Errors as in `ktir.affine.analysis.pieces`.
    """
    box: dict[int, tuple[int, int]] = {}
    for d in dims:
        low, high = bounds[d]
        if low is None or high is None:
            raise UnboundedSetError(text(), d)
        if max(abs(low), abs(high)) >= _HUGE:
            raise SetTooLargeError(text(), limit)
        box[d] = (low, high)
    exact: Any = np.int64 if all(_magnitude(flat, box) < _HUGE for flat in flats) else object
    prefix: IntArray = np.zeros((1, 0), dtype=np.int64)
    for k, d in enumerate(dims):
        low_array = np.full(len(prefix), box[d][0], dtype=exact)
        high_array = np.full(len(prefix), box[d][1], dtype=exact)
        for constraint, flat in zip(constraints, flats, strict=True):
            c = flat.coefficient(Dim(d))
            if c == 0 or not flat.is_linear:
                continue
            for direction in (1, -1) if constraint.is_equality else (1,):
                rest = _rest(flat, direction, dims, k, prefix.astype(exact, copy=False), box)
                own = direction * c
                if own > 0:
                    np.maximum(low_array, -(rest // own), out=low_array)
                else:
                    np.minimum(high_array, rest // -own, out=high_array)
        counts = np.maximum(high_array - low_array + 1, 0)
        total = int(counts.sum(dtype=object)) if len(counts) < 64 else int(counts.astype(np.float64).sum())
        if total > limit:
            raise SetTooLargeError(text(), limit)
        counts = counts.astype(np.int64)
        rows = np.repeat(np.arange(len(prefix)), counts)
        offsets = np.arange(len(rows), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        prefix = np.column_stack([prefix[rows], low_array[rows].astype(np.int64) + offsets])
        complete = set(dims[: k + 1])
        for constraint, flat in zip(constraints, flats, strict=True):
            used = constraint.expr.dims()
            if d in used and used <= complete and not flat.is_linear and len(prefix):
                prefix = prefix[holds_at(constraint, dims[: k + 1], prefix)]
    return prefix


def _magnitude(flat: Linear, box: Mapping[int, tuple[int, int]]) -> int:
    """A bound of the absolute values of coefficients, of the linear part and of its partial sums."""
    terms = [(t.position, c) for t, c in flat.terms if isinstance(t, Dim)]
    return abs(flat.constant) + sum(abs(c) * max(1, *map(abs, box[d])) for d, c in terms)


def _rest(
    flat: Linear,
    direction: int,
    dims: tuple[int, ...],
    k: int,
    prefix: IntArray,
    box: dict[int, tuple[int, int]],
) -> IntArray:
    """Upper bound of ``direction * flat`` without the term of ``dims[k]``, for every prefix."""
    constant = direction * flat.constant
    rest = np.zeros(len(prefix), dtype=prefix.dtype)
    for term, coefficient in flat.terms:
        if not isinstance(term, Dim) or term.position == dims[k]:
            continue
        c = direction * coefficient
        column = dims.index(term.position)
        if column < k:
            rest = rest + c * prefix[:, column]
        else:
            constant += c * box[term.position][1 if c > 0 else 0]
    return rest + constant


def product_points(
    factors: Sequence[Piece], dims: Sequence[int], limit: int, text: Callable[[], str] = lambda: "the set"
) -> IntArray:
    """All points of a product of pieces, as rows over `dims` in lexicographic order.

    `dims` must be exactly the dimensions of the pieces, ascending.
    """
    total = 1
    for piece in factors:
        count = piece.count()
        if count is None:
            raise UnboundedSetError(text(), piece.dims[0])
        total *= count
    if total > limit:
        raise SetTooLargeError(text(), limit)
    column = {d: i for i, d in enumerate(dims)}
    result = np.zeros((total, len(dims)), dtype=np.int64)
    inner = total
    for piece in factors:
        count = piece.count() or 0
        inner //= count
        index = np.arange(total) // inner % count
        if piece.points is None:
            result[:, column[piece.dims[0]]] = (piece.low or 0) + index
        else:
            result[:, [column[d] for d in piece.dims]] = piece.points[index]
    order = [d for piece in factors for d in piece.dims]
    if order != sorted(order):
        result = result[np.lexsort(result.T[::-1])]
    return result
