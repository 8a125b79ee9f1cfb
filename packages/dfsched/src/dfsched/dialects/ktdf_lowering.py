"""The `ktdf_lowering` dialect: what KTDFLow adds to `ktdf` (scheduler spec 1.12, dataflowir spec 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from ktir.attributes import DenseArrayAttr
from ktir.constraints import INDEX
from ktir.context import Dialect
from ktir.ir import Operation, Region, Value
from ktir.opdef import (
    NO_TERMINATOR,
    OPERAND_SEGMENTS,
    SINGLE_BLOCK,
    operation,
    region,
    variadic_operand,
)
from ktir.types import I32
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer

__all__ = ["KTDF_LOWERING", "Await", "ExecuteOn", "OneWay", "Post", "Signal"]


@operation("ktdf_lowering.execute_on", traits=(NO_TERMINATOR, SINGLE_BLOCK))
class ExecuteOn(Operation):
    """A region that the listed units run."""

    units = variadic_operand(INDEX)
    body = region()

    @classmethod
    def of(cls, units: Sequence[Value], operations: Sequence[Operation]) -> Self:
        """Run `operations` on `units`."""
        return cls.create(units, regions=[Region.of(operations)])

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        units = [parser.resolve(unit, INDEX_TYPE) for unit in parser.parse_operand_list()]
        body = parser.parse_region()
        attributes = parser.parse_attr_dict()
        return cls.create(units, (), attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        if self.operands:
            printer.operands(self.operands)
            printer.write(" ")
        printer.region(self.body)
        printer.attr_dict(self.attributes)


@operation("ktdf_lowering.signal", assembly="$units attr-dict")
class Signal(Operation):
    """A meeting point of the listed units; has side effects, is never removed."""

    units = variadic_operand(INDEX)


class OneWay(Operation):
    """One side of a signal for which nobody waits who sends it; has side effects, is never removed.

    The k-th `Post` from some units to others is for their k-th `Await` of it, wherever the two stand.
    """

    senders = variadic_operand(INDEX)
    receivers = variadic_operand(INDEX)

    @classmethod
    def between(cls, senders: Sequence[Value], receivers: Sequence[Value]) -> Self:
        """From all `senders` to all `receivers` on the same core and corelet."""
        segments = DenseArrayAttr(I32, (len(senders), len(receivers)))
        return cls.create((*senders, *receivers), (), {OPERAND_SEGMENTS: segments})


@operation("ktdf_lowering.post", assembly="$senders `to` $receivers attr-dict")
class Post(OneWay):
    """The senders send; they wait for their own copies only."""


@operation("ktdf_lowering.await", assembly="$senders `to` $receivers attr-dict")
class Await(OneWay):
    """The receivers wait for what the senders post."""


KTDF_LOWERING = Dialect("ktdf_lowering", operations=(Await, ExecuteOn, Post, Signal))
