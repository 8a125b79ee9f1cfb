"""Index values: affine expressions over SSA values, turned into operations only where one needs a value."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktir.affine import Add, AffineExpr, CeilDiv, Const, Dim, FloorDiv, Mod, Mul, simplify
from ktir.attributes import IntegerAttr, index_attr
from ktir.builder.emitter import BuilderError, Emitter
from ktir.dialects import arith
from ktir.ir import Operation, Value
from ktir.types import I32, I64, INDEX, IntegerType, Type

if TYPE_CHECKING:
    from ktir.builder.element import Scalar


class Index:
    """An ``index`` value under construction: ``expr`` over the values `leaves` (dimension i is leaf i).

    Sums, differences, products with numbers, ``//`` and ``%`` by positive numbers stay symbolic, so that
    subscripts become affine maps and ``row : row + 3`` is known to have three entries.
    """

    __slots__ = ("emitter", "expr", "leaves")

    def __init__(self, emitter: Emitter, expr: AffineExpr, leaves: tuple[Value, ...]) -> None:
        self.emitter = emitter
        self.expr = simplify(expr)
        self.leaves = leaves

    @classmethod
    def leaf(cls, emitter: Emitter, value: Value) -> Index:
        """The index that a value holds."""
        return cls(emitter, Dim(0), (value,))

    def _coerce(self, other: Index | int) -> Index:
        if isinstance(other, Index):
            return other
        try:
            number = operator.index(other)
        except TypeError:
            hint = "; index() makes an index of it" if hasattr(other, "emitter") else ""
            raise BuilderError(f"an index expression takes whole numbers, not {other!r}{hint}") from None
        return Index(self.emitter, Const(number), ())

    def __add__(self, other: Index | int) -> Index:
        (a, b), leaves = join(self, self._coerce(other))
        return Index(self.emitter, a + b, leaves)

    __radd__ = __add__

    def __sub__(self, other: Index | int) -> Index:
        (a, b), leaves = join(self, self._coerce(other))
        return Index(self.emitter, a - b, leaves)

    def __rsub__(self, other: int) -> Index:
        return self._coerce(other) - self

    def __neg__(self) -> Index:
        return self * -1

    def __mul__(self, other: Index | int) -> Index:
        (a, b), leaves = join(self, self._coerce(other))
        if isinstance(a, Const) or isinstance(b, Const):
            return Index(self.emitter, a * b, leaves)
        return self._emit(arith.MulI, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        if isinstance(other, int) and other > 0:
            return Index(self.emitter, self.expr // other, self.leaves)
        return self._emit(arith.FloorDivSI, other)

    def __mod__(self, other: Index | int) -> Index:
        if isinstance(other, int) and other > 0:
            return Index(self.emitter, self.expr % other, self.leaves)
        return self - self // other * other

    def ceildiv(self, other: Index | int) -> Index:
        """The quotient rounded up."""
        if isinstance(other, int) and other > 0:
            return Index(self.emitter, self.expr.ceildiv(other), self.leaves)
        return self._emit(arith.CeilDivSI, other)

    def _emit(self, operation: type[Operation], other: Index | int) -> Index:
        operands = (self.value(), self._coerce(other).value())
        return Index.leaf(self.emitter, self.emitter.value(operation.create(operands, (INDEX,))))

    def to(self, type: Type | str) -> Scalar:
        """The index as a number of an integer type, or (by way of i32) of a float type."""
        from ktir.builder.element import Scalar, as_type

        target = as_type(type)
        whole = target if isinstance(target, IntegerType) else I32
        made = Scalar(self.emitter, self.emitter.value(arith.IndexCast.create((self.value(),), (whole,))))
        return made.to(target)

    def minimum(self, other: Index | int) -> Index:
        """The smaller of two indices."""
        return self._emit(arith.MinSI, other)

    def maximum(self, other: Index | int) -> Index:
        """The larger of two indices."""
        return self._emit(arith.MaxSI, other)

    def _compare(self, predicate: arith.CmpIPredicate, other: Index | int) -> Scalar:
        from ktir.builder.element import Scalar
        from ktir.types import I1

        operands = (self.value(), self._coerce(other).value())
        made = arith.CmpI.create(operands, (I1,), {"predicate": IntegerAttr(int(predicate), I64)})
        return Scalar(self.emitter, self.emitter.value(made))

    def equal(self, other: Index | int) -> Scalar:
        """Whether two indices are equal (i1)."""
        return self._compare(arith.CmpIPredicate.EQ, other)

    def not_equal(self, other: Index | int) -> Scalar:
        """Whether two indices differ (i1)."""
        return self._compare(arith.CmpIPredicate.NE, other)

    def __eq__(self, other: Index | int) -> Scalar:  # type: ignore[override]
        return self.equal(other)

    def __ne__(self, other: Index | int) -> Scalar:  # type: ignore[override]
        return self.not_equal(other)

    __hash__ = object.__hash__

    def __lt__(self, other: Index | int) -> Scalar:
        return self._compare(arith.CmpIPredicate.SLT, other)

    def __le__(self, other: Index | int) -> Scalar:
        return self._compare(arith.CmpIPredicate.SLE, other)

    def __gt__(self, other: Index | int) -> Scalar:
        return self._compare(arith.CmpIPredicate.SGT, other)

    def __ge__(self, other: Index | int) -> Scalar:
        return self._compare(arith.CmpIPredicate.SGE, other)

    def __bool__(self) -> bool:
        raise BuilderError("an index has no truth value while the kernel is built; use Kernel.when")

    def __index__(self) -> int:
        raise BuilderError("an index has no number while the kernel is built; use Kernel.loop for range()")

    @property
    def constant(self) -> int | None:
        """The number, if it is one."""
        return self.expr.value if isinstance(self.expr, Const) else None

    def value(self) -> Value:
        """The SSA value; arithmetic is emitted where it is needed, equal expressions once a block."""
        return self._materialise(self.expr)

    def _materialise(self, expr: AffineExpr) -> Value:
        match expr:
            case Const(value):
                return self.emitter.constant(index_attr(value))
            case Dim(position):
                return self.leaves[position]
        key = ("index", expr, tuple(self.leaves[d] for d in sorted(expr.dims())), tuple(sorted(expr.dims())))
        found = self.emitter.cached(key)
        if found is not None:
            return found
        return self.emitter.remember(key, self._arithmetic(expr))

    def _arithmetic(self, expr: AffineExpr) -> Value:
        match expr:
            case Add(lhs, Mul(factor, Const(-1))):
                return self._binary(arith.SubI, lhs, factor)
            case Add(lhs, rhs):
                return self._binary(arith.AddI, lhs, rhs)
            case Mul(lhs, rhs):
                return self._binary(arith.MulI, lhs, rhs)
            case FloorDiv(lhs, rhs):
                return self._binary(arith.FloorDivSI, lhs, rhs)
            case CeilDiv(lhs, rhs):
                return self._binary(arith.CeilDivSI, lhs, rhs)
            case Mod(lhs, rhs):
                # remsi takes the sign of the dividend, mod does not
                quotient = Mul(FloorDiv(lhs, rhs), rhs)
                return self._binary(arith.SubI, lhs, quotient)
            case _:
                raise AssertionError(type(expr))

    def _binary(self, operation: type[Operation], lhs: AffineExpr, rhs: AffineExpr) -> Value:
        operands = (self._materialise(lhs), self._materialise(rhs))
        return self.emitter.value(operation.create(operands, (INDEX,)))

    def __repr__(self) -> str:
        return f"<Index {self.expr} over {list(self.leaves)}>"


def join(*indices: Index) -> tuple[list[AffineExpr], tuple[Value, ...]]:
    """The expressions over one common tuple of leaves, and that tuple."""
    leaves: list[Value] = []
    exprs: list[AffineExpr] = []
    for index in indices:
        dims: list[AffineExpr] = []
        for value in index.leaves:
            position = next((i for i, known in enumerate(leaves) if known is value), len(leaves))
            if position == len(leaves):
                leaves.append(value)
            dims.append(Dim(position))
        exprs.append(index.expr.replace(dims, []))
    return exprs, tuple(leaves)


def used(exprs: Sequence[AffineExpr], leaves: Sequence[Value]) -> tuple[list[AffineExpr], list[Value]]:
    """The same expressions over only the leaves that occur, in order of first appearance."""
    order: list[int] = []
    for expr in exprs:
        for leaf in expr.walk():
            if isinstance(leaf, Dim) and leaf.position not in order:
                order.append(leaf.position)
    dims: list[AffineExpr] = [Dim(order.index(i) if i in order else 0) for i in range(len(leaves))]
    return [expr.replace(dims, []) for expr in exprs], [leaves[i] for i in order]
