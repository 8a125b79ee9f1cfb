"""Affine subscripts over SSA values: the maps and indices of transfers, in canonical form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from ktir.affine import AffineExpr, AffineMap, Const, Dim, simplify
from ktir.ir import Value

__all__ = ["Subscripts", "constant_subscripts"]


@frozen
class Subscripts:
    """One affine expression per dimension; ``Dim(i)`` stands for ``values[i]``."""

    exprs: tuple[AffineExpr, ...]
    values: tuple[Value, ...] = ()

    @classmethod
    def of_map(cls, map: AffineMap, indices: Sequence[Value]) -> Subscripts:
        """The subscripts of a transfer's side."""
        return cls(map.results, tuple(indices))

    @classmethod
    def of_values(cls, values: Sequence[Value]) -> Subscripts:
        """One value per dimension."""
        return cls(tuple(Dim(i) for i in range(len(values))), tuple(values))

    @property
    def map(self) -> AffineMap:
        return AffineMap(len(self.values), 0, self.exprs)

    def plus(self, other: Subscripts) -> Subscripts:
        """Sum per dimension."""
        shift = len(self.values)
        moved = other._moved(shift)
        return Subscripts(
            tuple(a + b for a, b in zip(self.exprs, moved, strict=True)), self.values + other.values
        )

    def _moved(self, shift: int) -> tuple[AffineExpr, ...]:
        dims = [Dim(i + shift) for i in range(len(self.values))]
        return tuple(expr.replace(dims, ()) for expr in self.exprs)

    def replaced(
        self, replacement: Callable[[Value], tuple[AffineExpr, tuple[Value, ...]] | None]
    ) -> Subscripts:
        """Every value for which `replacement` knows an expression over others, replaced by it."""
        values: list[Value] = []
        dims: list[AffineExpr] = []
        for value in self.values:
            found = replacement(value)
            if found is None:
                dims.append(Dim(len(values)))
                values.append(value)
            else:
                expr, inner = found
                dims.append(expr.replace([Dim(len(values) + i) for i in range(len(inner))], ()))
                values += inner
        return Subscripts(tuple(expr.replace(dims, ()) for expr in self.exprs), tuple(values))

    def with_constants(self, constants: Mapping[Value, int]) -> Subscripts:
        """Known values folded into the expressions."""

        def constant(value: Value) -> tuple[AffineExpr, tuple[Value, ...]] | None:
            known = constants.get(value)
            return None if known is None else (Const(known), ())

        return self.replaced(constant)

    def canonical(self) -> Subscripts:
        """Simplified, every value once, in order of first appearance, unused ones left out."""
        first: dict[Value, int] = {}
        dims = []
        for value in self.values:
            dims.append(Dim(first.setdefault(value, len(first))))
        unique = list(first)
        exprs = [simplify(expr.replace(dims, ())) for expr in self.exprs]
        order: dict[int, int] = {}
        for expr in exprs:
            for leaf in expr.walk():
                if isinstance(leaf, Dim):
                    order.setdefault(leaf.position, len(order))
        renumber = [Dim(order.get(i, 0)) for i in range(len(unique))]
        kept = sorted(order, key=lambda position: order[position])
        return Subscripts(tuple(expr.replace(renumber, ()) for expr in exprs), tuple(unique[i] for i in kept))


def constant_subscripts(values: Sequence[int]) -> Subscripts:
    """Subscripts without operands."""
    return Subscripts(tuple(Const(value) for value in values))
