"""Positions that a body computes in i64 as index values again, for `narrow-index-lanes` to make them narrow.

Front ends make positions of elements i64 where they think of addresses, and no vector unit computes on that::

    %i = linalg.index 0                                 %i = linalg.index 0
    %w = arith.index_cast %i : index to i64             %p = arith.muli %i, %c3 : index
    %p = arith.muli %w, %c3_i64 : i64                   %f = arith.sitofp %p : index to f32   // not yet legal
    %f = arith.sitofp %p : i64 to f32
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ktir.attributes import IntegerAttr, index_attr
from ktir.dialects import arith, linalg
from ktir.ir import Operation, Region, Value
from ktir.types import I64, INDEX

__all__ = ["with_index_positions"]

ARITHMETIC = (
    *(arith.AddI, arith.SubI, arith.MulI, arith.MinSI, arith.MaxSI),
    *(arith.DivSI, arith.DivUI, arith.FloorDivSI, arith.CeilDivSI, arith.CeilDivUI, arith.RemSI, arith.RemUI),
)


def with_index_positions(generic: linalg.Generic) -> linalg.Generic:
    """The generic with index values for what its body computes of indices in i64.

    The same generic if there are none, or if anything but arithmetic, comparisons and casts uses them.
    """
    body = _Body()
    operations = body.operations(generic.body.block.operations)
    if operations is None:
        return generic
    return generic.replace(regions=[Region((generic.body.block.replace(operations=operations),))])


@define(eq=False)
class _Body:
    """`places` gives the index value of an i64 position, `same` that of one that was cast back."""

    places: dict[Value, Value] = field(factory=dict)
    same: dict[Value, Value] = field(factory=dict)
    constants: dict[Value, int] = field(factory=dict)
    found: list[Operation] = field(factory=list)

    def operations(self, body: Sequence[Operation]) -> list[Operation] | None:
        """The new operations of a body; None if it must stay as it is."""
        for old in body:
            op = old.replace(operands=[self.same.get(value, value) for value in old.operands])
            if isinstance(op, arith.Constant) and op.result.type == I64 and isinstance(op.value, IntegerAttr):
                self.constants[op.result] = op.value.value
            if isinstance(op, arith.IndexCast) and op.operands[0].type == INDEX and op.results[0].type == I64:
                self.places[op.results[0]] = op.operands[0]
            elif not any(value in self.places for value in op.operands):
                self.found.append(op)
            elif not self._changed(op):
                return None
        if not self.places:
            return None
        used = {value for op in self.found for value in op.operands}
        return [op for op in self.found if not (isinstance(op, arith.Constant) and op.result not in used)]

    def _changed(self, op: Operation) -> bool:
        """Whether an operation on positions can be one on index values; it is added then."""
        numbers = op.operands[1:] if isinstance(op, arith.Select) else op.operands
        if op.regions or not all(value in self.places or value in self.constants for value in numbers):
            return False
        match op:
            case arith.IndexCast():
                self.same[op.results[0]] = self._place(op.operands[0])
            case arith.TruncI():
                cast = arith.IndexCast.create(
                    [self._place(op.operands[0])], [op.results[0].type], location=op.location
                )
                self.found.append(cast.replace(results=op.results))
            case arith.SIToFP() | arith.CmpI():
                self.found.append(op.replace(operands=[self._place(value) for value in op.operands]))
            case arith.Select():
                self._add(op, [op.condition, *(self._place(value) for value in numbers)])
            case _ if isinstance(op, ARITHMETIC):
                self._add(op, [self._place(value) for value in numbers])
            case _:
                return False
        return True

    def _add(self, op: Operation, operands: Sequence[Value]) -> None:
        new = op.__class__.create(operands, [INDEX], location=op.location)
        self.found.append(new)
        self.places[op.results[0]] = new.results[0]

    def _place(self, value: Value) -> Value:
        if value not in self.places:
            constant = arith.Constant.of(index_attr(self.constants[value]))
            self.found.append(constant)
            self.places[value] = constant.result
        return self.places[value]
