"""Exact analysis of bounded integer sets: bounds, independent factors, enumeration.

All functions take constraints without symbols. Dimensions that no constraint ties together are independent,
so a set is handled as the product of its *pieces*: a box of any size costs nothing, and only pieces that
really couple dimensions (or use ``mod`` and ``floordiv``) are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ktir.affine.errors import AffineError
from ktir.affine.expr import AffineExpr, CeilDiv, Dim, FloorDiv
from ktir.affine.linear import Linear, linear

if TYPE_CHECKING:
    from ktir.affine.expr import IntArray

__all__ = ["DEFAULT_LIMIT", "Box", "Constraint", "Piece", "pieces"]

DEFAULT_LIMIT = 1 << 24
"""Points (or candidates) that one enumeration may hold at once."""

_ROUNDS = 64

Bounds: TypeAlias = tuple[int | None, int | None]
Box: TypeAlias = Sequence[tuple[int, int]]


@attrs.frozen
class Constraint:
    """``expr >= 0``, or ``expr == 0`` if `is_equality`."""

    expr: AffineExpr
    is_equality: bool

    def __str__(self) -> str:
        return f"{self.expr} {'==' if self.is_equality else '>='} 0"


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
            from ktir.affine.points import enumerate_points  # NumPy only where points are counted out

            piece = Piece(dims, points=enumerate_points(dims, own, flats, bounds, limit, text))
        if piece.is_empty:
            return None
        result.append(piece)
    return result
