"""Vector accesses whose address is a sum of products of run-time values (dataflowir spec 1.3.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.agen.access import segments
from dfsched.dialects.dataflow import GetLogicalMemoryView
from ktir.attributes import AffineMapAttr, AffineSetAttr, StringAttr
from ktir.constraints import ANY, INDEX
from ktir.errors import Diagnostic
from ktir.ir import Operation, Value
from ktir.opdef import (
    READS,
    WRITES,
    attribute,
    operand,
    operation,
    optional_attribute,
    optional_operand,
    result,
    variadic_operand,
)
from ktir.types import INDEX as INDEX_TYPE
from ktir.types import MemRefType, VectorType

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["SymbolicVectorLoad", "SymbolicVectorStore"]


def _parse_place(parser: OpParser) -> tuple[Unresolved, list[Unresolved], list[Unresolved]]:
    """``%m[indices:(%i), strides:(%s)]``."""
    memory = parser.parse_operand()
    groups = []
    for opening, word in (("[", "indices"), (",", "strides")):
        parser.expect(opening)
        parser.expect(word)
        parser.expect(":", f"behind '{word}'")
        groups.append(parser.parse_comma_list("(", ")", parser.parse_operand))
    parser.expect("]", "behind the strides")
    return memory, groups[0], groups[1]


def _print_place(
    printer: Printer, memory: Value, indices: tuple[Value, ...], strides: tuple[Value, ...]
) -> None:
    printer.operand(memory)
    printer.write("[indices:(")
    printer.operands(indices)
    printer.write("), strides:(")
    printer.operands(strides)
    printer.write(")]")


def _rules(
    verifier: Verifier, memory: Value, indices: tuple[Value, ...], strides: tuple[Value, ...], vector: Value
) -> Iterator[str]:
    type = memory.type
    if not isinstance(type, MemRefType):
        yield "memref is not of MemRefType"
        return
    if type.rank != 1:
        yield "memref is not one dimensional"
    view = verifier.definer(memory)
    if not isinstance(view, GetLogicalMemoryView):
        yield "memref should be a dataflow.get_logical_memory_view"
    elif (
        isinstance(layout := view.attributes.get("layout_map"), AffineMapAttr) and not layout.map.is_identity
    ):
        yield "memref layout map should be an identity map"
    if not isinstance(vector.type, VectorType) or vector.type.rank != 1:
        yield "result type is not one dimensional"
    elif vector.type.element != type.element:
        yield "result type does not match memref element type"
    if not indices:
        yield "indices should not be empty"
    if len(strides) != len(indices):
        yield "strides should be the same size as indices"


@operation("agen.symbolic_vector_load", traits=(READS,))
class SymbolicVectorLoad(Operation):
    """A vector from the place ``sum(indices * strides)`` of a one-dimensional view."""

    memory = operand(ANY)
    indices = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    multicast_info = optional_operand(INDEX)
    vector = result(ANY)
    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        memory, indices, strides = _parse_place(parser)
        group = None
        if parser.accept(","):
            parser.expect("multicast_info", "behind ','")
            parser.expect("(", "behind 'multicast_info'")
            group = parser.parse_operand()
            parser.expect(")", "behind the group")
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the types")
        type = parser.parse_type()
        parser.expect(",", "behind the memref's type")
        vector = parser.parse_type()
        uses = [*indices, *strides, *([] if group is None else [group])]
        operands = [parser.resolve(memory, type), *(parser.resolve(use, INDEX_TYPE) for use in uses)]
        attributes |= segments(1, len(indices), len(strides), int(group is not None))
        return cls.create(operands, (vector,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        _print_place(printer, self.memory, self.indices, self.strides)
        if self.multicast_info is not None:
            printer.write(", multicast_info(")
            printer.operand(self.multicast_info)
            printer.write(")")
        printer.attr_dict(self.attributes, elided=("operandSegmentSizes",))
        printer.write(" : ")
        printer.types([self.memory.type, self.vector.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _rules(verifier, self.memory, self.indices, self.strides, self.vector)


@operation("agen.symbolic_vector_store", traits=(WRITES,))
class SymbolicVectorStore(Operation):
    """A vector to the place ``sum(indices * strides)`` of a one-dimensional view."""

    vector = operand(ANY)
    memory = operand(ANY)
    indices = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    store_set = attribute(AffineSetAttr)
    store_order = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        source = parser.parse_operand()
        parser.expect(",", "behind the vector")
        memory, indices, strides = _parse_place(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the types")
        type = parser.parse_type()
        parser.expect(",", "behind the memref's type")
        vector = parser.resolve(source, parser.parse_type())
        operands = [vector, parser.resolve(memory, type)]
        operands += [parser.resolve(use, INDEX_TYPE) for use in (*indices, *strides)]
        attributes |= segments(1, 1, len(indices), len(strides))
        return cls.create(operands, (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.vector)
        printer.write(", ")
        _print_place(printer, self.memory, self.indices, self.strides)
        printer.attr_dict(self.attributes, elided=("operandSegmentSizes",))
        printer.write(" : ")
        printer.types([self.memory.type, self.vector.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _rules(verifier, self.memory, self.indices, self.strides, self.vector)
