"""The `ktdf_lowering` dialect: what KTDFLow adds to `ktdf` (scheduler spec 1.12, dataflowir spec 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from ktir.constraints import INDEX
from ktir.context import Dialect
from ktir.ir import Operation, Region, Value
from ktir.opdef import NO_TERMINATOR, SINGLE_BLOCK, operation, region, variadic_operand
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer

__all__ = ["KTDF_LOWERING", "ExecuteOn", "Signal"]


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


KTDF_LOWERING = Dialect("ktdf_lowering", operations=(ExecuteOn, Signal))
