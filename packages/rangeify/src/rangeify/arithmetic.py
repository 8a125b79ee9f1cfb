"""Operators and element-wise functions of Tensors. Two dtypes meet by the lattice of graph spec 4."""

from __future__ import annotations

from typing import Any, Final, Self

from rangeify.errors import UnsupportedError
from rangeify.operands import Valued, is_operand, operand
from rangeify.promotion import common_dtype, convert, promote
from rangeify.signatures import checked_methods
from uopgraph import DType, Ops, UOp, dtypes

#: Functions that leave integers as they are.
KEEPS_INTEGERS: Final = frozenset({Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND_EVEN})


@checked_methods
class Arithmetic(Valued):
    """The element-wise part of :class:`rangeify.Tensor`."""

    __slots__ = ()

    def _made(self, node: UOp) -> Self:
        """A Tensor of another value."""
        raise NotImplementedError

    @property
    def dtype(self) -> DType:
        return self._uop.dtype

    @property
    def device(self) -> Any:
        """The device string; None for a constant."""
        return self._uop.device

    def _unary(self, op: Ops) -> Self:
        node = self._uop
        if not node.dtype.is_float and op not in KEEPS_INTEGERS:
            node = convert(node, dtypes.default_float)
        elif not node.dtype.is_float:
            return self
        return self._made(node.alu(op))

    def _binary(self, op: Ops, other: Any, swap: bool = False) -> Self:
        if not is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        nodes = (operand(other, self.device), self._uop) if swap else (self._uop, operand(other, self.device))
        a, b = promote(*nodes)
        return self._made(a.alu(op, b))

    def __add__(self, other: Any) -> Self:
        return self._binary(Ops.ADD, other)

    def __radd__(self, other: Any) -> Self:
        return self._binary(Ops.ADD, other, swap=True)

    def __mul__(self, other: Any) -> Self:
        return self._binary(Ops.MUL, other)

    def __rmul__(self, other: Any) -> Self:
        return self._binary(Ops.MUL, other, swap=True)

    def _difference(self, other: Any, swap: bool) -> Self:
        if not is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        nodes = (operand(other, self.device), self._uop) if swap else (self._uop, operand(other, self.device))
        a, b = promote(*nodes)
        if a.dtype is dtypes.bool:
            raise UnsupportedError("subtraction of bool tensors: use ^")
        return self._made(a - b)

    def __sub__(self, other: Any) -> Self:
        return self._difference(other, swap=False)

    def __rsub__(self, other: Any) -> Self:
        return self._difference(other, swap=True)

    def _quotient(self, other: Any, swap: bool) -> Self:
        if not is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        nodes = (operand(other, self.device), self._uop) if swap else (self._uop, operand(other, self.device))
        dtype = common_dtype(*nodes)
        if not dtype.is_float:
            dtype = dtypes.default_float
        a, b = (convert(n, dtype) for n in nodes)
        return self._made(a.alu(Ops.FDIV, b))

    def __truediv__(self, other: Any) -> Self:
        return self._quotient(other, swap=False)

    def __rtruediv__(self, other: Any) -> Self:
        return self._quotient(other, swap=True)

    def _integral(self, op: Ops, other: Any, swap: bool) -> Self:
        if is_operand(other):
            dtype = common_dtype(self._uop, operand(other, self.device))
            if dtype.is_float:
                raise UnsupportedError(f"{op.name} of {dtype.name} tensors")
        return self._binary(op, other, swap)

    def __floordiv__(self, other: Any) -> Self:
        return self._integral(Ops.FLOORDIV, other, swap=False)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._integral(Ops.FLOORDIV, other, swap=True)

    def __mod__(self, other: Any) -> Self:
        return self._integral(Ops.FLOORMOD, other, swap=False)

    def __rmod__(self, other: Any) -> Self:
        return self._integral(Ops.FLOORMOD, other, swap=True)

    def __and__(self, other: Any) -> Self:
        return self._integral(Ops.AND, other, swap=False)

    def __rand__(self, other: Any) -> Self:
        return self._integral(Ops.AND, other, swap=True)

    def __or__(self, other: Any) -> Self:
        return self._integral(Ops.OR, other, swap=False)

    def __ror__(self, other: Any) -> Self:
        return self._integral(Ops.OR, other, swap=True)

    def __xor__(self, other: Any) -> Self:
        return self._integral(Ops.XOR, other, swap=False)

    def __rxor__(self, other: Any) -> Self:
        return self._integral(Ops.XOR, other, swap=True)

    def __lt__(self, other: Any) -> Self:
        return self._binary(Ops.CMPLT, other)

    def __gt__(self, other: Any) -> Self:
        return self._binary(Ops.CMPLT, other, swap=True)

    def _ordered(self, other: Any, swap: bool) -> Self:
        if not is_operand(other):
            return NotImplemented  # type: ignore[no-any-return]
        nodes = (operand(other, self.device), self._uop) if swap else (self._uop, operand(other, self.device))
        a, b = promote(*nodes)
        return self._made(a <= b)

    def __le__(self, other: Any) -> Self:
        return self._ordered(other, swap=False)

    def __ge__(self, other: Any) -> Self:
        return self._ordered(other, swap=True)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        different = self._binary(Ops.CMPNE, other)
        return different if different is NotImplemented else ~different

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary(Ops.CMPNE, other)

    def __neg__(self) -> Self:
        if self.dtype is dtypes.bool:
            raise UnsupportedError("negation of a bool tensor: use ~")
        return self._made(-self._uop)

    def __pos__(self) -> Self:
        return self

    def __invert__(self) -> Self:
        if self.dtype.is_float:
            raise UnsupportedError(f"bitwise not of a {self.dtype.name} tensor")
        return self._made(~self._uop)

    def __abs__(self) -> Self:
        if self.dtype.is_unsigned or self.dtype is dtypes.bool:
            return self
        # adding 0 makes the absolute value of -0.0 positive
        positive = (self < 0).where(-self, self)
        return positive + 0 if self.dtype.is_float else positive

    def maximum(self, other: Any) -> Self:
        """The greater value; nan where either is nan."""
        return self._binary(Ops.MAX, other)

    def minimum(self, other: Any) -> Self:
        """The lesser value; nan where either is nan."""
        a, b = promote(self._uop, operand(other, self.device))
        return self._made(a.minimum(b))

    def where(self, then: Any, otherwise: Any) -> Self:
        """`then` where this bool tensor is true, else `otherwise`."""
        if self.dtype is not dtypes.bool:
            raise UnsupportedError(f"where on a {self.dtype.name} condition")
        a, b = promote(operand(then, self.device), operand(otherwise, self.device))
        return self._made(self._uop.alu(Ops.WHERE, a, b))

    def relu(self) -> Self:
        """The maximum with 0."""
        return self.maximum(0)

    def exp(self) -> Self:
        """e to the power of each element; integers become the default float, as in all functions below."""
        return self._unary(Ops.EXP)

    def exp2(self) -> Self:
        return self._unary(Ops.EXP2)

    def log(self) -> Self:
        return self._unary(Ops.LOG)

    def log2(self) -> Self:
        return self._unary(Ops.LOG2)

    def sin(self) -> Self:
        return self._unary(Ops.SIN)

    def cos(self) -> Self:
        return self._unary(Ops.COS)

    def tanh(self) -> Self:
        return self._unary(Ops.TANH)

    def erf(self) -> Self:
        return self._unary(Ops.ERF)

    def sqrt(self) -> Self:
        return self._unary(Ops.SQRT)

    def rsqrt(self) -> Self:
        """1 / sqrt(x) with one rounding."""
        return self._unary(Ops.RSQRT)

    def reciprocal(self) -> Self:
        return self._unary(Ops.RECIPROCAL)

    def floor(self) -> Self:
        return self._unary(Ops.FLOOR)

    def ceil(self) -> Self:
        return self._unary(Ops.CEIL)

    def trunc(self) -> Self:
        return self._unary(Ops.TRUNC)

    def round(self) -> Self:
        """The nearest integral value, ties to even."""
        return self._unary(Ops.ROUND_EVEN)

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        return 1 / ((-self).exp() + 1)
