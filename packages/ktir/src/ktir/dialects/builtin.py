"""The ``builtin`` dialect: modules and unresolved casts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktir.attributes import StringAttr
from ktir.context import Dialect
from ktir.ir import Operation, Region, symbol_name
from ktir.opdef import (
    GRAPH_REGION,
    ISOLATED,
    NO_TERMINATOR,
    PURE,
    SINGLE_BLOCK,
    SYMBOL,
    SYMBOL_TABLE,
    operation,
    optional_attribute,
    region,
    variadic_operand,
    variadic_result,
)

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer


@operation(
    "builtin.module",
    traits=(ISOLATED, SYMBOL_TABLE, SYMBOL, NO_TERMINATOR, SINGLE_BLOCK, GRAPH_REGION),
)
class Module(Operation):
    """A list of top-level operations."""

    sym_name = optional_attribute(StringAttr)
    body = region()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations directly in the module."""
        return self.body.blocks[0].operations if self.body.blocks else ()

    def lookup(self, name: str) -> Operation | None:
        """The top-level operation with a symbol name."""
        return next((op for op in self.operations if symbol_name(op) == name), None)

    def with_operations(self, operations: tuple[Operation, ...]) -> Module:
        """A copy with another body."""
        if not self.body.blocks:
            return self.replace(regions=(Region.of(operations),))
        return self.replace(regions=(Region((self.body.block.replace(operations=operations),)),))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Module:
        name = parser.parse_optional_symbol_name()
        attributes = parser.parse_attr_dict_with_keyword()
        if name is not None:
            attributes["sym_name"] = StringAttr(name)
        body = parser.parse_region()
        if not body.blocks:
            body = Region.of(())
        return cls.create(attributes=attributes, regions=(body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if (name := symbol_name(self)) is not None:
            printer.write(" ")
            printer.symbol_name(name)
        printer.attr_dict(self.attributes, elided=("sym_name",), keyword=True)
        printer.write(" ")
        printer.region(self.body, owner=self.name)


@operation(
    "builtin.unrealized_conversion_cast",
    assembly="($inputs^ `:` type($inputs))? `to` type($outputs) attr-dict",
    traits=(PURE,),
)
class UnrealizedConversionCast(Operation):
    """A cast between type systems that some later pass resolves."""

    inputs = variadic_operand()
    outputs = variadic_result()


DIALECT = Dialect("builtin", (Module, UnrealizedConversionCast))
