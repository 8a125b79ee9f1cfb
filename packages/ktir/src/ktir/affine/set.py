"""Affine sets: integer points that satisfy affine equalities and inequalities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from ktir.affine.analysis import DEFAULT_LIMIT, Box, Constraint, Piece, pieces
from ktir.affine.errors import AffineError, UnboundedSetError
from ktir.affine.expr import AffineExpr, Const, Dim, Sym, interval
from ktir.affine.linear import linear, simplify
from ktir.affine.map import check_operands, spelled_operands

if TYPE_CHECKING:  # NumPy is loaded by the methods that look at single points
    from ktir.affine.expr import BoolArray, IntArray

__all__ = ["AffineSet", "Constraint"]


def _constraints(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    # The empty conjunction is spelled and stored as (0 == 0), so that text and structure agree.
    return tuple(constraints) or (Constraint(Const(0), True),)


@attrs.frozen(repr=False)
class AffineSet:
    """``(d0, ...)[s0, ...] : (constraints)``.

    `str()` is the text between ``affine_set<`` and ``>``. Methods that look at points take the values of the
    symbols; they are exact, and raise :class:`UnboundedSetError` where the answer needs finitely many points.
    """

    num_dims: int
    num_symbols: int
    constraints: tuple[Constraint, ...] = attrs.field(default=(), converter=_constraints)

    def __attrs_post_init__(self) -> None:
        check_operands([c.expr for c in self.constraints], self.num_dims, self.num_symbols)

    # -- making sets

    @classmethod
    def universe(cls, num_dims: int, num_symbols: int = 0) -> AffineSet:
        """All integer points."""
        return cls(num_dims, num_symbols)

    @classmethod
    def box(cls, *extents: int | tuple[int, int] | AffineExpr, num_symbols: int = 0) -> AffineSet:
        """A box: an extent ``n`` means ``0 <= d < n``, a pair ``(low, high)`` means ``low <= d < high``.

        >>> AffineSet.box(96, (4, 8))
        affine_set<(d0, d1) : (d0 >= 0, -d0 + 95 >= 0, d1 - 4 >= 0, -d1 + 7 >= 0)>
        """
        constraints: list[Constraint] = []
        for i, extent in enumerate(extents):
            low, high = extent if isinstance(extent, tuple) else (0, extent)
            constraints.append(Constraint(Dim(i) - low, False))
            constraints.append(Constraint(-Dim(i) + (high - 1), False))
        return cls(len(extents), num_symbols, tuple(constraints))

    def intersection(self, other: AffineSet) -> AffineSet:
        """Points in both sets; they must have the same dimensions and symbols."""
        if (self.num_dims, self.num_symbols) != (other.num_dims, other.num_symbols):
            raise AffineError(f"cannot intersect {self} with {other}: different dimensions or symbols")
        return AffineSet(self.num_dims, self.num_symbols, self.constraints + other.constraints)

    def bind_symbols(self, values: Sequence[int]) -> AffineSet:
        """The set with its symbols replaced by constants."""
        if len(values) != self.num_symbols:
            raise AffineError(f"{self} has {self.num_symbols} symbols, but got {len(values)} values")
        dims = [Dim(i) for i in range(self.num_dims)]
        return self.replace(dims, [Const(int(v)) for v in values], self.num_dims, 0)

    def replace(
        self, dims: Sequence[AffineExpr], symbols: Sequence[AffineExpr], num_dims: int, num_symbols: int
    ) -> AffineSet:
        """Substitute all operands (the preimage under a map); the new set has the given numbers of them."""
        if len(dims) != self.num_dims or len(symbols) != self.num_symbols:
            raise AffineError(f"{self}: expected {self.num_dims} dimensions and {self.num_symbols} symbols")
        changed = [Constraint(c.expr.replace(dims, symbols), c.is_equality) for c in self.constraints]
        return AffineSet(num_dims, num_symbols, tuple(changed))

    def translate(self, offsets: Sequence[int]) -> AffineSet:
        """The set moved by `offsets`."""
        symbols = [Sym(i) for i in range(self.num_symbols)]
        dims = [Dim(i) - offset for i, offset in enumerate(offsets)]
        return self.replace(dims, symbols, self.num_dims, self.num_symbols)

    def simplified(self) -> AffineSet:
        """Constraints simplified, duplicates and those that always hold dropped."""
        kept: dict[Constraint, None] = {}
        for c in self.constraints:
            expr = simplify(c.expr)
            if isinstance(expr, Const) and (expr.value == 0 or (expr.value > 0 and not c.is_equality)):
                continue
            kept[Constraint(expr, c.is_equality)] = None
        return AffineSet(self.num_dims, self.num_symbols, tuple(kept))

    # -- questions about points

    def contains(self, point: Sequence[int], symbols: Sequence[int] = ()) -> bool:
        """Whether one point is in the set."""
        values = [(c.expr.evaluate(point, symbols), c.is_equality) for c in self._checked(point, symbols)]
        return all(v == 0 if equality else v >= 0 for v, equality in values)

    def mask(self, dims: Sequence[IntArray], symbols: Sequence[int] = ()) -> BoolArray:
        """Which points of a grid are in the set; the arrays broadcast against each other."""
        import numpy as np

        from ktir.affine.points import holds

        checked = self._checked(dims, symbols)
        grids = [np.asarray(d, dtype=np.int64) for d in dims]
        result = np.ones(np.broadcast_shapes(*(d.shape for d in grids)), dtype=np.bool_)
        for c in checked:
            result &= holds(c, grids, symbols)
        return result

    def points(
        self, symbols: Sequence[int] = (), box: Box | None = None, limit: int = DEFAULT_LIMIT
    ) -> IntArray:
        """All points as rows of an int64 array of shape (count, num_dims), in lexicographic order.

        `box` gives additional inclusive bounds ``(low, high)`` per dimension (KTIR spec 0.3.7).
        """
        from ktir.affine.points import no_points, product_points

        factors = self._pieces(symbols, box, limit)
        if factors is None:
            return no_points(self.num_dims)
        return product_points(factors, range(self.num_dims), limit, lambda: str(self))

    def count(self, symbols: Sequence[int] = (), box: Box | None = None, limit: int = DEFAULT_LIMIT) -> int:
        """Number of points."""
        pieces = self._pieces(symbols, box, limit)
        if pieces is None:
            return 0
        total = 1
        for piece in pieces:
            count = piece.count()
            if count is None:
                raise UnboundedSetError(str(self), piece.dims[0])
            total *= count
        return total

    def is_empty(self, symbols: Sequence[int] = (), limit: int = DEFAULT_LIMIT) -> bool:
        """Whether no integer point satisfies the constraints."""
        return self._pieces(symbols, None, limit) is None

    def bounding_box(
        self, symbols: Sequence[int] = (), limit: int = DEFAULT_LIMIT
    ) -> tuple[tuple[int, int], ...] | None:
        """The smallest box around the points, inclusive ``(low, high)`` per dimension; None if empty."""
        factors = self._pieces(symbols, None, limit)
        if factors is None:
            return None
        result: list[tuple[int, int]] = [(0, 0)] * self.num_dims
        for piece in factors:
            for column, d in enumerate(piece.dims):
                low, high = piece.bounds(column)
                if low is None or high is None:
                    raise UnboundedSetError(str(self), d)
                result[d] = (low, high)
        return tuple(result)

    def factors(
        self, symbols: Sequence[int] = (), limit: int = DEFAULT_LIMIT
    ) -> tuple[Sequence[int], ...] | None:
        """The values of each dimension if the set is the Cartesian product of them, else None.

        Arithmetic progressions come as `range` objects (a box has steps of one), others as tuples. The empty
        set is the product of empty ranges.
        """
        parts = self._pieces(symbols, None, limit)
        if parts is None:
            return (range(0),) * self.num_dims
        result: dict[int, Sequence[int]] = {}
        for piece in parts:
            if piece.points is None:
                if piece.low is None or piece.high is None:
                    raise UnboundedSetError(str(self), piece.dims[0])
                result[piece.dims[0]] = range(piece.low, piece.high + 1)
                continue
            columns = [sorted(set(piece.points[:, i].tolist())) for i in range(len(piece.dims))]
            if math.prod(len(c) for c in columns) != len(piece.points):
                return None
            result.update(zip(piece.dims, map(_progression, columns), strict=True))
        return tuple(result[d] for d in range(self.num_dims))

    def is_rectangular(self, symbols: Sequence[int] = (), limit: int = DEFAULT_LIMIT) -> bool:
        """Whether the points are exactly those of a (possibly empty) box."""
        factors = self.factors(symbols, limit)
        return factors is not None and all(isinstance(f, range) and f.step == 1 for f in factors)

    def is_subset(
        self,
        other: AffineSet,
        symbols: Sequence[int] = (),
        other_symbols: Sequence[int] = (),
        limit: int = DEFAULT_LIMIT,
    ) -> bool:
        """Whether every point of this set is in `other`."""
        self._same_rank(other)
        factors = self._pieces(symbols, None, limit)
        if factors is None:
            return True
        return all(_all_satisfy(factors, c, limit) for c in other.bind_symbols(other_symbols).constraints)

    def is_disjoint(
        self,
        other: AffineSet,
        symbols: Sequence[int] = (),
        other_symbols: Sequence[int] = (),
        limit: int = DEFAULT_LIMIT,
    ) -> bool:
        """Whether the two sets have no point in common."""
        self._same_rank(other)
        both = self.bind_symbols(symbols).intersection(other.bind_symbols(other_symbols))
        return both.is_empty(limit=limit)

    # -- helpers

    def _same_rank(self, other: AffineSet) -> None:
        if self.num_dims != other.num_dims:
            raise AffineError(f"cannot compare {self} with {other}: different numbers of dimensions")

    def _checked(self, dims: Sequence[object], symbols: Sequence[object]) -> tuple[Constraint, ...]:
        if len(dims) != self.num_dims or len(symbols) != self.num_symbols:
            raise AffineError(
                f"{self} has {self.num_dims} dimensions and {self.num_symbols} symbols, "
                f"but got {len(dims)} and {len(symbols)}"
            )
        return self.constraints

    def _pieces(self, symbols: Sequence[int], box: Box | None, limit: int) -> list[Piece] | None:
        if box is not None and len(box) != self.num_dims:
            raise AffineError(f"a box of {len(box)} dimensions does not fit {self}")
        bound = self.bind_symbols(symbols) if self.num_symbols or symbols else self
        return pieces(self.num_dims, bound.constraints, box, limit, lambda: str(self))

    def __str__(self) -> str:
        constraints = ", ".join(str(c) for c in self.constraints)
        return f"{spelled_operands(self.num_dims, self.num_symbols)} : ({constraints})"

    def __repr__(self) -> str:
        return f"affine_set<{self}>"


def _progression(numbers: Sequence[int]) -> Sequence[int]:
    if len(numbers) < 2:
        return range(numbers[0], numbers[0] + 1) if numbers else range(0)
    step = numbers[1] - numbers[0]
    candidate = range(numbers[0], numbers[-1] + 1, step)
    return candidate if list(candidate) == numbers else tuple(numbers)


def _all_satisfy(factors: Sequence[Piece], constraint: Constraint, limit: int) -> bool:
    """Whether all points of a non-empty product satisfy a constraint."""
    used = constraint.expr.dims()
    touched = [p for p in factors if used & set(p.dims)]
    ends = {d: p.bounds(i) for p in touched for i, d in enumerate(p.dims)}
    flat = linear(constraint.expr)
    if flat is not None and flat.is_linear:
        terms = [(c, ends[t.position]) for t, c in flat.terms if isinstance(t, Dim)]
        low, high = _linear_range(flat.constant, terms)
        if (low is not None and low >= 0) and (not constraint.is_equality or high == 0):
            return True
        if all(p.points is None for p in touched):
            return False  # an interval product attains both ends
    else:
        finite = [ends.get(d, (0, 0)) for d in range(max(used, default=-1) + 1)]
        box = [(a, b) for a, b in finite if a is not None and b is not None]
        if len(box) == len(finite):
            low, high = interval(constraint.expr, box)
            if low >= 0 and (not constraint.is_equality or high == 0):
                return True
    from ktir.affine.points import holds_at, product_points

    dims = sorted(d for p in touched for d in p.dims)
    points = product_points(touched, dims, limit, lambda: str(constraint))
    return bool(holds_at(constraint, dims, points).all())


def _linear_range(
    constant: int, terms: Sequence[tuple[int, tuple[int | None, int | None]]]
) -> tuple[int | None, int | None]:
    low: int | None = constant
    high: int | None = constant
    for c, (a, b) in terms:
        least, most = (a, b) if c > 0 else (b, a)
        low = None if low is None or least is None else low + c * least
        high = None if high is None or most is None else high + c * most
    return low, high
