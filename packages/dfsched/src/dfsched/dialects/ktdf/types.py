"""Types and attributes of `ktdf` (scheduler spec 1.2, 1.3)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ktir.attribute import Attribute
from ktir.attributes import StringAttr
from ktir.constraints import instance_of
from ktir.types import Type

if TYPE_CHECKING:
    from ktir.parser import AttributeParser
    from ktir.printer import Printer

__all__ = ["FIFO_SLOT", "TOKEN", "FifoSlotType", "LoopKind", "LoopTypeAttr", "TokenType"]


@attrs.frozen
class TokenType(Type):
    """``!ktdf.token``: an ordering between stages; carries no data."""

    mnemonic: ClassVar[str] = "ktdf.token"


@attrs.frozen
class FifoSlotType(Type):
    """``!ktdf.fifo.slot<"A" -> "B", 64xf16>``: one slot of the queue from `source` to `target`.

    `capacity` counts elements; None stands for ``?``.
    """

    mnemonic: ClassVar[str] = "ktdf.fifo.slot"

    source: Attribute
    target: Attribute
    capacity: int | None
    element: Type

    @classmethod
    def between(cls, source: str, target: str, capacity: int, element: Type) -> FifoSlotType:
        """A slot of the queue between two unit kinds given by name."""
        return cls(StringAttr(source), StringAttr(target), capacity, element)

    @property
    def ends(self) -> tuple[Attribute, Attribute]:
        """Source and target; slots with equal ends share one physical queue."""
        return (self.source, self.target)

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<")
        source = parser.parse_attribute()
        parser.expect("->")
        target = parser.parse_attribute()
        parser.expect(",")
        extents = parser.parse_dimension_list(trailing_x=True)
        if len(extents) != 1:
            raise parser.error(f"expected one slot capacity, but found {len(extents)}")
        element = parser.parse_type()
        parser.expect(">")
        return cls(source, target, extents[0], element)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.attribute(self.source)
        printer.write(" -> ")
        printer.attribute(self.target)
        printer.write(f", {'?' if self.capacity is None else self.capacity}x")
        printer.type(self.element)
        printer.write(">")


class LoopKind(enum.Enum):
    """What is known of the iterations of a loop."""

    PARALLEL = "parallel_loop"
    REDUCTION = "reduction_loop"


@attrs.frozen
class LoopTypeAttr(Attribute):
    """``#ktdf.loop_type<parallel_loop>``, on ``scf.for`` under the name ``loop_type``."""

    mnemonic: ClassVar[str] = "ktdf.loop_type"

    kind: LoopKind

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<")
        word = parser.keyword("'parallel_loop' or 'reduction_loop'")
        kinds = {kind.value: kind for kind in LoopKind}
        if word not in kinds:
            raise parser.error(f"expected 'parallel_loop' or 'reduction_loop', but found '{word}'")
        parser.expect(">")
        return cls(kinds[word])

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.kind.value}>")


TOKEN = instance_of("token", TokenType)
FIFO_SLOT = instance_of("FIFO slot", FifoSlotType)
