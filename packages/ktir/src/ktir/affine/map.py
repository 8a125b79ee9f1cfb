"""Affine maps: tuples of affine expressions over the same dimensions and symbols."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ktir.affine.errors import AffineError
from ktir.affine.expr import AffineExpr, Const, Dim, Sym, V, as_expr
from ktir.affine.linear import simplify

__all__ = ["AffineMap"]


def _exprs(results: Sequence[AffineExpr | int]) -> tuple[AffineExpr, ...]:
    return tuple(as_expr(r) for r in results)


def spelled_operands(num_dims: int, num_symbols: int) -> str:
    """``(d0, d1)[s0]``."""
    dims = ", ".join(f"d{i}" for i in range(num_dims))
    symbols = ", ".join(f"s{i}" for i in range(num_symbols))
    return f"({dims})" + (f"[{symbols}]" if num_symbols else "")


def check_operands(exprs: Sequence[AffineExpr], num_dims: int, num_symbols: int) -> None:
    """:class:`AffineError` if an expression uses a dimension or symbol that does not exist."""
    for expr in exprs:
        for leaf in expr.walk():
            match leaf:
                case Dim(position) if not 0 <= position < num_dims:
                    raise AffineError(f"'{expr}' uses d{position}, but there are {num_dims} dimensions")
                case Sym(position) if not 0 <= position < num_symbols:
                    raise AffineError(f"'{expr}' uses s{position}, but there are {num_symbols} symbols")


@attrs.frozen(repr=False)
class AffineMap:
    """``(d0, ...)[s0, ...] -> (results)``.

    `str()` is the text between ``affine_map<`` and ``>``.
    """

    num_dims: int
    num_symbols: int
    results: tuple[AffineExpr, ...] = attrs.field(converter=_exprs)

    def __attrs_post_init__(self) -> None:
        check_operands(self.results, self.num_dims, self.num_symbols)

    @classmethod
    def identity(cls, rank: int) -> AffineMap:
        """``(d0, ..., dn) -> (d0, ..., dn)``."""
        return cls(rank, 0, tuple(Dim(i) for i in range(rank)))

    @classmethod
    def permutation(cls, order: Sequence[int]) -> AffineMap:
        """The map whose i-th result is ``d<order[i]>``; :class:`AffineError` if that is no permutation."""
        if sorted(order) != list(range(len(order))):
            raise AffineError(f"{tuple(order)} is not a permutation")
        return cls(len(order), 0, tuple(Dim(i) for i in order))

    @classmethod
    def constant(cls, *values: int) -> AffineMap:
        """``() -> (values)``."""
        return cls(0, 0, tuple(Const(v) for v in values))

    @property
    def num_results(self) -> int:
        return len(self.results)

    @property
    def num_operands(self) -> int:
        """Dimensions plus symbols."""
        return self.num_dims + self.num_symbols

    @property
    def is_identity(self) -> bool:
        return self.num_symbols == 0 and self.results == tuple(Dim(i) for i in range(self.num_dims))

    @property
    def is_permutation(self) -> bool:
        """Whether the results are all dimensions, each once."""
        return self.as_permutation() is not None

    def as_permutation(self) -> tuple[int, ...] | None:
        """``order`` such that result i is ``d<order[i]>``, or None if the map is no permutation."""
        order = tuple(r.position for r in self.results if isinstance(r, Dim))
        if len(order) != len(self.results) or self.num_symbols:
            return None
        return order if sorted(order) == list(range(self.num_dims)) else None

    @property
    def is_projected_permutation(self) -> bool:
        """Whether every result is a dimension and none occurs twice."""
        dims = [r.position for r in self.results if isinstance(r, Dim)]
        return len(dims) == len(self.results) == len(set(dims)) and self.num_symbols == 0

    def inverse_permutation(self) -> AffineMap:
        """The inverse of a permutation; :class:`AffineError` for other maps."""
        order = self.as_permutation()
        if order is None:
            raise AffineError(f"not a permutation: {self}")
        return AffineMap.permutation([order.index(i) for i in range(len(order))])

    def evaluate(self, dims: Sequence[V], symbols: Sequence[V] = ()) -> tuple[V, ...]:
        """The results at a point (integers) or over grids (int64 arrays that broadcast)."""
        self._check_arity(len(dims), len(symbols))
        return tuple(r.evaluate(dims, symbols) for r in self.results)

    def compose(self, inner: AffineMap) -> AffineMap:
        """``self`` after ``inner``: dims are inner's; symbols are self's, then inner's."""
        if inner.num_results != self.num_dims:
            raise AffineError(
                f"cannot compose {self} with {inner}: {inner.num_results} results for "
                f"{self.num_dims} dimensions"
            )
        shift = [Sym(self.num_symbols + i) for i in range(inner.num_symbols)]
        dims = [Dim(i) for i in range(inner.num_dims)]
        inner_results = [r.replace(dims, shift) for r in inner.results]
        symbols = [Sym(i) for i in range(self.num_symbols)]
        results = tuple(r.replace(inner_results, symbols) for r in self.results)
        return AffineMap(inner.num_dims, self.num_symbols + inner.num_symbols, results)

    def replace(
        self, dims: Sequence[AffineExpr], symbols: Sequence[AffineExpr], num_dims: int, num_symbols: int
    ) -> AffineMap:
        """Substitute all operands; the new map has the given numbers of them."""
        self._check_arity(len(dims), len(symbols))
        return AffineMap(num_dims, num_symbols, tuple(r.replace(dims, symbols) for r in self.results))

    def bind_symbols(self, values: Sequence[int]) -> AffineMap:
        """The map with all symbols replaced by constants."""
        dims = [Dim(i) for i in range(self.num_dims)]
        return self.replace(dims, [Const(v) for v in values], self.num_dims, 0)

    def select(self, indices: Sequence[int]) -> AffineMap:
        """The map with only the results at `indices`, in that order."""
        return AffineMap(self.num_dims, self.num_symbols, tuple(self.results[i] for i in indices))

    def simplified(self) -> AffineMap:
        """Every result simplified."""
        return AffineMap(self.num_dims, self.num_symbols, tuple(simplify(r) for r in self.results))

    def _check_arity(self, dims: int, symbols: int) -> None:
        if dims != self.num_dims or symbols != self.num_symbols:
            raise AffineError(
                f"{self} takes {self.num_dims} dimensions and {self.num_symbols} symbols, "
                f"but got {dims} and {symbols}"
            )

    def __str__(self) -> str:
        results = ", ".join(str(r) for r in self.results)
        return f"{spelled_operands(self.num_dims, self.num_symbols)} -> ({results})"

    def __repr__(self) -> str:
        return f"affine_map<{self}>"
