"""Operator sugar that graph nodes and patterns share.

Python operators build nodes; ``==`` and ``!=`` stay identity, use :meth:`Operators.eq` and
:meth:`Operators.ne`.
"""

from __future__ import annotations

from typing import Any, Self

from uopgraph.dtype import DType
from uopgraph.ops import Ops


class Operators:
    """A mixin: needs :meth:`alu` (build an operation on self) and :meth:`operand` (make a Python value
    one)."""

    __slots__ = ()

    def alu(self, op: Ops, *src: Self) -> Self:
        """The node ``op(self, *src)``."""
        raise NotImplementedError

    def operand(self, value: Any) -> Self:
        """`value` as a node that can stand beside self; a node is returned as is."""
        raise NotImplementedError

    def _binary(self, op: Ops, other: Any, swap: bool = False) -> Self:
        other = self.operand(other)
        return other.alu(op, self) if swap else self.alu(op, other)

    # arithmetic
    def __add__(self, other: Any) -> Self:
        return self._binary(Ops.ADD, other)

    def __radd__(self, other: Any) -> Self:
        return self._binary(Ops.ADD, other, swap=True)

    def __mul__(self, other: Any) -> Self:
        return self._binary(Ops.MUL, other)

    def __rmul__(self, other: Any) -> Self:
        return self._binary(Ops.MUL, other, swap=True)

    def __neg__(self) -> Self:
        return self._binary(Ops.MUL, -1)

    def __sub__(self, other: Any) -> Self:
        if isinstance(other, int | float):
            return self._binary(Ops.ADD, -other)
        return self._binary(Ops.ADD, -self.operand(other))

    def __rsub__(self, other: Any) -> Self:
        return self.operand(other)._binary(Ops.ADD, -self)

    def __floordiv__(self, other: Any) -> Self:
        return self._binary(Ops.FLOORDIV, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._binary(Ops.FLOORDIV, other, swap=True)

    def __mod__(self, other: Any) -> Self:
        return self._binary(Ops.FLOORMOD, other)

    def __rmod__(self, other: Any) -> Self:
        return self._binary(Ops.FLOORMOD, other, swap=True)

    def __truediv__(self, other: Any) -> Self:
        return self._binary(Ops.FDIV, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._binary(Ops.FDIV, other, swap=True)

    def __pow__(self, other: Any) -> Self:
        return self._binary(Ops.POW, other)

    def cdiv(self, other: Any) -> Self:
        """Integer division that truncates toward zero."""
        return self._binary(Ops.CDIV, other)

    def cmod(self, other: Any) -> Self:
        """The remainder of :meth:`cdiv`."""
        return self._binary(Ops.CMOD, other)

    # bits
    def __and__(self, other: Any) -> Self:
        return self._binary(Ops.AND, other)

    def __rand__(self, other: Any) -> Self:
        return self._binary(Ops.AND, other, swap=True)

    def __or__(self, other: Any) -> Self:
        return self._binary(Ops.OR, other)

    def __ror__(self, other: Any) -> Self:
        return self._binary(Ops.OR, other, swap=True)

    def __xor__(self, other: Any) -> Self:
        return self._binary(Ops.XOR, other)

    def __rxor__(self, other: Any) -> Self:
        return self._binary(Ops.XOR, other, swap=True)

    def __lshift__(self, other: Any) -> Self:
        return self._binary(Ops.SHL, other)

    def __rshift__(self, other: Any) -> Self:
        return self._binary(Ops.SHR, other)

    # comparison
    def __lt__(self, other: Any) -> Self:
        return self._binary(Ops.CMPLT, other)

    def __gt__(self, other: Any) -> Self:
        return self._binary(Ops.CMPLT, other, swap=True)

    def ne(self, other: Any) -> Self:
        """Element-wise ``!=`` (true for nan)."""
        return self._binary(Ops.CMPNE, other)

    def logical_not(self) -> Self:
        """``self != True`` for a bool."""
        return self._binary(Ops.CMPNE, True)

    def eq(self, other: Any) -> Self:
        """Element-wise ``==``: the negation of :meth:`ne`."""
        return self.ne(other).logical_not()

    # maxima, selection, unary functions
    def maximum(self, other: Any) -> Self:
        """The greater value; nan if either is nan."""
        return self._binary(Ops.MAX, other)

    def where(self, then: Any, otherwise: Any) -> Self:
        """``then`` where self (a bool) is true, else ``otherwise``."""
        first, second = self._branches(then, otherwise)
        return self.alu(Ops.WHERE, first, second)

    def _branches(self, then: Any, otherwise: Any) -> tuple[Self, Self]:
        """The two branches of a where as nodes."""
        return self.operand(then), self.operand(otherwise)

    def reciprocal(self) -> Self:
        return self.alu(Ops.RECIPROCAL)

    def exp(self) -> Self:
        return self.alu(Ops.EXP)

    def exp2(self) -> Self:
        return self.alu(Ops.EXP2)

    def expm1(self) -> Self:
        return self.alu(Ops.EXPM1)

    def log(self) -> Self:
        return self.alu(Ops.LOG)

    def log2(self) -> Self:
        return self.alu(Ops.LOG2)

    def log1p(self) -> Self:
        return self.alu(Ops.LOG1P)

    def sin(self) -> Self:
        return self.alu(Ops.SIN)

    def cos(self) -> Self:
        return self.alu(Ops.COS)

    def tan(self) -> Self:
        return self.alu(Ops.TAN)

    def asin(self) -> Self:
        return self.alu(Ops.ASIN)

    def acos(self) -> Self:
        return self.alu(Ops.ACOS)

    def atan(self) -> Self:
        return self.alu(Ops.ATAN)

    def sinh(self) -> Self:
        return self.alu(Ops.SINH)

    def cosh(self) -> Self:
        return self.alu(Ops.COSH)

    def tanh(self) -> Self:
        return self.alu(Ops.TANH)

    def asinh(self) -> Self:
        return self.alu(Ops.ASINH)

    def acosh(self) -> Self:
        return self.alu(Ops.ACOSH)

    def atanh(self) -> Self:
        return self.alu(Ops.ATANH)

    def erf(self) -> Self:
        return self.alu(Ops.ERF)

    def sqrt(self) -> Self:
        return self.alu(Ops.SQRT)

    def rsqrt(self) -> Self:
        return self.alu(Ops.RSQRT)

    def trunc(self) -> Self:
        return self.alu(Ops.TRUNC)

    def floor(self) -> Self:
        return self.alu(Ops.FLOOR)

    def ceil(self) -> Self:
        return self.alu(Ops.CEIL)

    def round_even(self) -> Self:
        """Round to the nearest integral value, ties to even."""
        return self.alu(Ops.ROUND_EVEN)

    def fmod(self, other: Any) -> Self:
        """The exact rest of a division of floats rounded to zero; the sign is that of self."""
        return self._binary(Ops.FMOD, other)

    def atan2(self, other: Any) -> Self:
        return self._binary(Ops.ATAN2, other)

    def cast(self, dtype: DType) -> Self:
        raise NotImplementedError

    def bitcast(self, dtype: DType) -> Self:
        raise NotImplementedError
