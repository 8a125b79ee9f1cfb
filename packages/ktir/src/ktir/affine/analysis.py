"""Exact analysis of bounded integer sets: bounds, independent factors, enumeration.

All functions take constraints without symbols. Dimensions that no constraint ties together are independent,
so a set is handled as the product of its *pieces*: a box of any size costs nothing, and only pieces that
really couple dimensions (or use ``mod`` and ``floordiv``) are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from ktir.affine.errors import AffineError, SetTooLargeError, UnboundedSetError
from ktir.affine.expr import AffineExpr, CeilDiv, Dim, FloorDiv, IntArray
from ktir.affine.linear import Linear, linear

__all__ = ["DEFAULT_LIMIT", "Constraint", "Piece", "pieces", "product_points"]

DEFAULT_LIMIT = 1 << 24
"""Points (or candidates) that one enumeration may hold at once."""

_ROUNDS = 64
_HUGE = 1 << 62

Bounds: TypeAlias = tuple[int | None, int | None]
Box: TypeAlias = Sequence[tuple[int, int]]


@attrs.frozen
class Constraint:
    """``expr >= 0``, or ``expr == 0`` if `is_equality`."""

    expr: AffineExpr
    is_equality: bool

    def __str__(self) -> str:
        return f"{self.expr} {'==' if self.is_equality else '>='} 0"

    def holds(self, dims: Sequence[IntArray]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Where the constraint is true, over grids of the dimensions."""
        value = np.asarray(self.expr.evaluate(dims))
        return np.asarray(value == 0 if self.is_equality else value >= 0)


@attrs.frozen(eq=False)
class Piece:
    """An independent factor of a set: a (possibly unbounded) interval of one dimension, or a list of points.

    `dims` are ascending; `points` has one row a point, in lexicographic order, and is None for intervals.
    """

    dims: tuple[int, ...]
    low: int | None = None
    high: int | None = None
    points: IntArray | None = None

    @property
    def is_empty(self) -> bool:
        if self.points is not None:
            return len(self.points) == 0
        return self.low is not None and self.high is not None and self.low > self.high

    def bounds(self, column: int) -> Bounds:
        """Inclusive bounds of one of the piece's dimensions; the piece must not be empty."""
        if self.points is None:
            return self.low, self.high
        values = self.points[:, column]
        return int(values.min()), int(values.max())

    def count(self) -> int | None:
        """Number of points; None if there are infinitely many."""
        if self.points is not None:
            return len(self.points)
        if self.low is None or self.high is None:
            return 0 if self.is_empty else None
        return max(self.high - self.low + 1, 0)


@attrs.frozen
class _Row:
    """``constant + sum(coefficients[v] * v) >= 0`` (or ``== 0``) over numbered variables."""

    coefficients: tuple[tuple[int, int], ...]
    constant: int
    is_equality: bool


class _System:
    """The constraints as linear rows; variables are the dimensions, then one per quotient."""

    def __init__(self, num_dims: int, constraints: Iterable[Constraint]) -> None:
        self.num_dims = num_dims
        self._quotients: dict[AffineExpr, int] = {}
        self.rows: list[_Row] = []
        for constraint in constraints:
            flat = _flat(constraint.expr)
            self.rows.append(self._row(flat, constraint.is_equality))

    @property
    def num_variables(self) -> int:
        return self.num_dims + len(self._quotients)

    def _row(self, flat: Linear, is_equality: bool) -> _Row:
        coefficients = tuple((self._variable(term), c) for term, c in flat.terms)
        return _Row(coefficients, flat.constant, is_equality)

    def _variable(self, term: AffineExpr) -> int:
        match term:
            case Dim(position):
                return position
            case FloorDiv(lhs, rhs) | CeilDiv(lhs, rhs):
                known = self._quotients.get(term)
                if known is not None:
                    return known
                row = self._row(_flat(lhs), False)
                divisor = _flat(rhs).constant
                variable = self.num_variables
                self._quotients[term] = variable
                # floordiv: 0 <= lhs - c*q <= c-1;  ceildiv: 0 <= c*q - lhs <= c-1
                sign = 1 if isinstance(term, FloorDiv) else -1
                rest = tuple((v, sign * c) for v, c in row.coefficients)
                low = _Row((*rest, (variable, -sign * divisor)), sign * row.constant, False)
                negated = tuple((v, -c) for v, c in low.coefficients)
                self.rows += [low, _Row(negated, divisor - 1 - low.constant, False)]
                return variable
            case _:
                raise AssertionError(type(term))


def _flat(expr: AffineExpr) -> Linear:
    flat = linear(expr)
    if flat is None:
        raise AffineError(f"'{expr}' is not affine: product of dimensions or bad divisor")
    return flat


def _propagate(system: _System, start: list[Bounds]) -> list[Bounds] | None:
    """Interval propagation over all rows to a fixpoint (or `_ROUNDS`); None if the set is empty."""
    bounds = start + [(None, None)] * (system.num_variables - len(start))
    for row in system.rows:
        divisor = math.gcd(*(c for _, c in row.coefficients))
        if row.is_equality and (row.constant % divisor if divisor else row.constant):
            return None
        if not row.coefficients and row.constant < 0:
            return None
    for _ in range(_ROUNDS):
        changed = False
        for row in system.rows:
            for direction in (1, -1) if row.is_equality else (1,):
                changed |= _tighten(row, direction, bounds)
        if any(low is not None and high is not None and low > high for low, high in bounds):
            return None
        if not changed:
            break
    return bounds


def _tighten(row: _Row, direction: int, bounds: list[Bounds]) -> bool:
    """Use ``direction * row >= 0`` to tighten the bounds of each of its variables."""
    changed = False
    for variable, raw in row.coefficients:
        rest = direction * row.constant
        for other, other_raw in row.coefficients:
            if other != variable:
                c = direction * other_raw
                end = bounds[other][1 if c > 0 else 0]
                if end is None:
                    break
                rest += c * end
        else:
            c = direction * raw
            low, high = bounds[variable]
            if c > 0:
                limit = -(rest // c)
                if low is None or limit > low:
                    bounds[variable] = (limit, high)
                    changed = True
            else:
                limit = rest // -c
                if high is None or limit < high:
                    bounds[variable] = (low, limit)
                    changed = True
    return changed


def _components(
    num_dims: int, constraints: Sequence[Constraint]
) -> list[tuple[tuple[int, ...], list[Constraint]]]:
    """Groups of dimensions that constraints tie together, by first dimension."""
    parent = list(range(num_dims))

    def find(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    tied = [(sorted(c.expr.dims()), c) for c in constraints]
    for dims, _ in tied:
        for d in dims[1:]:
            parent[find(d)] = find(dims[0])
    groups: dict[int, tuple[list[int], list[Constraint]]] = {}
    for d in range(num_dims):
        groups.setdefault(find(d), ([], []))[0].append(d)
    for dims, constraint in tied:
        if dims:
            groups[find(dims[0])][1].append(constraint)
    return [(tuple(dims), own) for dims, own in groups.values()]


def pieces(
    num_dims: int,
    constraints: Sequence[Constraint],
    box: Box | None = None,
    limit: int = DEFAULT_LIMIT,
    text: Callable[[], str] = lambda: "the set",
) -> list[Piece] | None:
    """The independent factors of a set in ascending order of their first dimension; None if it is empty.

    `box` gives inclusive bounds per dimension in addition to the constraints. :class:`UnboundedSetError` if a
    piece that must be enumerated has a dimension without finite bounds, :class:`SetTooLargeError` if it has
    more than `limit` points.
    """
    system = _System(num_dims, constraints)
    start: list[Bounds] = [(None, None)] * num_dims if box is None else [(low, high) for low, high in box]
    bounds = _propagate(system, start)
    if bounds is None:
        return None
    result: list[Piece] = []
    for dims, own in _components(num_dims, constraints):
        flats = [_flat(c.expr) for c in own]
        if len(dims) == 1 and all(f.is_linear for f in flats):
            # propagation is exact for rows of a single variable
            piece = Piece(dims, *bounds[dims[0]])
        else:
            piece = Piece(dims, points=_enumerate(dims, own, flats, bounds, limit, text))
        if piece.is_empty:
            return None
        result.append(piece)
    return result


def _enumerate(
    dims: tuple[int, ...],
    constraints: Sequence[Constraint],
    flats: Sequence[Linear],
    bounds: Sequence[Bounds],
    limit: int,
    text: Callable[[], str],
) -> IntArray:
    box: dict[int, tuple[int, int]] = {}
    for d in dims:
        low, high = bounds[d]
        if low is None or high is None:
            raise UnboundedSetError(text(), d)
        if max(abs(low), abs(high)) >= _HUGE:
            raise SetTooLargeError(text(), limit)
        box[d] = (low, high)
    prefix: IntArray = np.zeros((1, 0), dtype=np.int64)
    for k, d in enumerate(dims):
        low_array = np.full(len(prefix), box[d][0], dtype=np.int64)
        high_array = np.full(len(prefix), box[d][1], dtype=np.int64)
        for constraint, flat in zip(constraints, flats, strict=True):
            c = flat.coefficient(Dim(d))
            if c == 0 or not flat.is_linear:
                continue
            for direction in (1, -1) if constraint.is_equality else (1,):
                rest = _rest(flat, direction, dims, k, prefix, box)
                own = direction * c
                if own > 0:
                    np.maximum(low_array, -(rest // own), out=low_array)
                else:
                    np.minimum(high_array, rest // -own, out=high_array)
        counts = np.maximum(high_array - low_array + 1, 0)
        total = int(counts.sum(dtype=object)) if len(counts) < 64 else int(counts.astype(np.float64).sum())
        if total > limit:
            raise SetTooLargeError(text(), limit)
        rows = np.repeat(np.arange(len(prefix)), counts)
        offsets = np.arange(len(rows), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        prefix = np.column_stack([prefix[rows], low_array[rows] + offsets])
        complete = set(dims[: k + 1])
        for constraint, flat in zip(constraints, flats, strict=True):
            used = constraint.expr.dims()
            if d in used and used <= complete and not flat.is_linear and len(prefix):
                columns: list[IntArray] = [np.zeros(1, dtype=np.int64)] * (dims[-1] + 1)
                for column, position in enumerate(dims[: k + 1]):
                    columns[position] = prefix[:, column]
                prefix = prefix[constraint.holds(columns)]
    return prefix


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
    rest = np.zeros(len(prefix), dtype=np.int64)
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
