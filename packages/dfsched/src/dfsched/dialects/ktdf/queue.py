"""Queues and tokens of `ktdf` (scheduler spec 1.4, 1.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.ktdf.types import FIFO_SLOT, TOKEN, FifoSlotType, TokenType
from ktir.constraints import INDEX, instance_of
from ktir.ir import Operation
from ktir.opdef import (
    ALLOCATES,
    CSE_OPAQUE,
    PURE,
    operand,
    operation,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import MemRefType, ShapedType, TensorType, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["CreateToken", "FifoAllocate", "ReadFromFifo", "WriteToFifo"]

DATA = instance_of("ranked tensor or memref", TensorType, MemRefType)


@operation("ktdf.fifo.allocate", assembly="`(` $sizes `)` attr-dict `->` type($slots)", traits=(ALLOCATES,))
class FifoAllocate(Operation):
    """Slots of one or more queues, used in the order of allocation; one size operand per ``?``."""

    sizes = variadic_operand(INDEX)
    slots = variadic_result(FIFO_SLOT)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        dynamic = sum(isinstance(s.type, FifoSlotType) and s.type.capacity is None for s in self.results)
        if not self.results:
            yield "must allocate at least one slot"
        if dynamic != len(self.operands):
            yield f"expects {dynamic} sizes for its dynamic slots, but got {len(self.operands)}"


def _agreement(data: Type, slot: Type) -> Iterator[str]:
    """The three rules that a slot and the data read from or written to it share."""
    if not isinstance(data, ShapedType) or not isinstance(slot, FifoSlotType):
        return
    if data.element != slot.element:
        yield f"slot element type {slot.element} differs from data element type {data.element}"
    if (slot.capacity is None) == data.is_static:
        yield "slot and data must both be dynamic or both be static"
    elif slot.capacity is not None and data.num_elements() != slot.capacity:
        yield f"slot holds {slot.capacity} elements, but the data has {data.num_elements()}"


@operation("ktdf.read_from_fifo")
class ReadFromFifo(Operation):
    """Take a slot's contents as a tensor, or as a memref that some later pass binds to the queue."""

    slot = operand(FIFO_SLOT)
    data = result(DATA)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        slot = parser.parse_operand()
        attributes = parser.parse_attr_dict()
        parser.expect(":")
        slot_type = parser.parse_stripped_type(FifoSlotType)
        parser.expect("->")
        data = parser.parse_type()
        return cls.create(
            [parser.resolve(slot, slot_type)],
            [data],
            attributes,
            location=parser.location,
            names=parser.result_names,
        )

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.slot)
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.stripped_type(self.slot.type)
        printer.write(" -> ")
        printer.type(self.data.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        yield from _agreement(self.data.type, self.slot.type)


@operation("ktdf.write_to_fifo")
class WriteToFifo(Operation):
    """Put a tensor or the contents of a memref into a slot."""

    data = operand(DATA)
    slot = operand(FIFO_SLOT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        data = parser.parse_operand()
        parser.expect(",")
        slot = parser.parse_operand()
        attributes = parser.parse_attr_dict()
        parser.expect(":")
        data_type = parser.parse_type()
        parser.expect(",")
        slot_type = parser.parse_stripped_type(FifoSlotType)
        return cls.create(
            [parser.resolve(data, data_type), parser.resolve(slot, slot_type)],
            (),
            attributes,
            location=parser.location,
        )

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operands(self.operands)
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.data.type)
        printer.write(", ")
        printer.stripped_type(self.slot.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        yield from _agreement(self.data.type, self.slot.type)


@operation("ktdf.create_token", assembly="attr-dict `:` type($token)", traits=(PURE, CSE_OPAQUE))
class CreateToken(Operation):
    """A new ordering token; two of them are never the same value."""

    token = result(TOKEN)

    @classmethod
    def new(cls, name: str | None = None) -> Self:
        """A token value in an operation of its own."""
        return cls.create((), [TokenType()], names=[name])
