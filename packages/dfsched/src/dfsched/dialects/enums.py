"""Enumeration attributes, written ``#dialect<keyword value>``: ``#vectorchain<binary_operator max>``."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import frozen

from ktir.attribute import Attribute

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer

__all__ = ["EnumAttr", "RoutingDirection", "enum_reader"]


class RoutingDirection(enum.IntEnum):
    """Which way round the ring data goes; the value is the attribute's integer."""

    PSEUDO_RANDOM = 0
    COUNTER_CLOCKWISE = 1
    CLOCKWISE = 2
    BOTH_WAYS = 3


ROUTING_SPELLING = {
    RoutingDirection.PSEUDO_RANDOM: "PseudoRandom",
    RoutingDirection.COUNTER_CLOCKWISE: "CounterClockwise",
    RoutingDirection.CLOCKWISE: "Clockwise",
    RoutingDirection.BOTH_WAYS: "BothWays",
}


@frozen
class EnumAttr(Attribute):
    """Base: a subclass sets `mnemonic` (the dialect), `keyword`, and `spelling` of every value."""

    value: enum.IntEnum

    keyword: ClassVar[str]
    spelling: ClassVar[dict[Any, str]]

    @classmethod
    def read_value(cls, parser: AttributeParser) -> Self:
        """Read the value's spelling."""
        offset = parser.offset
        word = parser.keyword(f"a value of '{cls.keyword}'")
        for value, text in cls.spelling.items():
            if text == word:
                return cls(value)
        choices = ", ".join(cls.spelling.values())
        raise parser.error_at(offset, f"expected one of {choices} but got '{word}'")

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.keyword} {self.spelling[self.value]}>")


def enum_reader(dialect: str, *classes: type[EnumAttr]) -> type[Attribute]:
    """The class to register for a dialect: it reads ``#dialect<keyword value>`` of all `classes`."""

    class Reader(Attribute):
        mnemonic = dialect

        @classmethod
        def parse_parameters(cls, parser: AttributeParser) -> Any:
            parser.expect("<", f"behind '#{dialect}'")
            offset = parser.offset
            word = parser.keyword("an enumeration's name")
            for kind in classes:
                if kind.keyword == word:
                    found = kind.read_value(parser)
                    parser.expect(">", "behind the value")
                    return found
            raise parser.error_at(offset, f"unknown attribute `{word}` in dialect `{dialect}`")

    return Reader
