"""What is known of index values before a launch: bounds and divisors that `!ktdp.runtime_arg` promises."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import frozen

from dfsched.passes.ir_tools import Definitions
from ktir.attributes import IntegerAttr
from ktir.dialects import arith
from ktir.ir import Operation, Value

__all__ = ["Promise", "Promises"]


@frozen
class Promise:
    """A value is a multiple of `granularity`, not negative, and at most `upper` (None: not bounded)."""

    granularity: int = 1
    upper: int | None = None


@frozen
class Promises:
    """Answers questions about values of one function, whose run-time arguments `arguments` lists."""

    definitions: Definitions
    arguments: Mapping[Value, Promise]

    def upper(self, value: Value) -> int | None:
        """The largest number that a value can be, None if nothing bounds it."""
        if value in self.arguments:
            return self.arguments[value].upper
        op = self.definitions.definer(value)
        match op:
            case arith.Constant(value=IntegerAttr(value=number)):
                return number
            case arith.IndexCast() | arith.IndexCastUI():
                return self.upper(op.operands[0])
            case arith.MinSI() | arith.MinUI():
                known = [bound for bound in map(self.upper, op.operands) if bound is not None]
                return min(known, default=None)
            case arith.MaxSI() | arith.MaxUI() | arith.AddI() | arith.MulI():
                return self._upper_of_both(op)
            case arith.DivSI() | arith.DivUI() | arith.FloorDivSI():
                dividend, divisor = self.upper(op.operands[0]), self._constant(op.operands[1])
                return dividend // divisor if dividend is not None and divisor else None
            case arith.CeilDivSI() | arith.CeilDivUI():
                dividend, divisor = self.upper(op.operands[0]), self._constant(op.operands[1])
                return -(-dividend // divisor) if dividend is not None and divisor else None
            case arith.RemSI() | arith.RemUI():
                divisor = self._constant(op.operands[1])
                return divisor - 1 if divisor else None
            case _:
                return None

    def _upper_of_both(self, op: Operation) -> int | None:
        left, right = (self.upper(value) for value in op.operands)
        if left is None or right is None:
            return None
        match op:
            case arith.AddI():
                return left + right
            case arith.MulI():
                return left * right if self._is_natural(op.operands[0], op.operands[1]) else None
            case _:
                return max(left, right)

    def _is_natural(self, *values: Value) -> bool:
        return all(self.is_natural(value) for value in values)

    def is_natural(self, value: Value) -> bool:
        """Whether a value surely is not negative."""
        if value in self.arguments:
            return True
        op = self.definitions.definer(value)
        match op:
            case arith.Constant(value=IntegerAttr(value=number)):
                return number >= 0
            case arith.MaxSI():
                return any(self.is_natural(operand) for operand in op.operands)
            case (
                arith.IndexCast()
                | arith.MinSI()
                | arith.AddI()
                | arith.MulI()
                | arith.DivSI()
                | arith.FloorDivSI()
                | arith.CeilDivSI()
                | arith.RemSI()
            ):
                return self._is_natural(*op.operands)
            case _:
                return False

    def divisor(self, value: Value) -> int:
        """The largest number known to divide a value; 0 for the constant zero."""
        if value in self.arguments:
            return self.arguments[value].granularity
        op = self.definitions.definer(value)
        match op:
            case arith.Constant(value=IntegerAttr(value=number)):
                return abs(number)
            case arith.IndexCast() | arith.IndexCastUI():
                return self.divisor(op.operands[0])
            case arith.MinSI() | arith.MinUI() | arith.MaxSI() | arith.MaxUI() | arith.AddI() | arith.SubI():
                return math.gcd(*(self.divisor(operand) for operand in op.operands))
            case arith.MulI():
                return math.prod(self.divisor(operand) for operand in op.operands)
            case _:
                return 1

    def _constant(self, value: Value) -> int | None:
        match self.definitions.definer(value):
            case arith.Constant(value=IntegerAttr(value=number)) if number > 0:
                return number
            case _:
                return None
