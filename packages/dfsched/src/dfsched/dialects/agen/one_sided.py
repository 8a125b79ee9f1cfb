"""One-sided composites: many vectors loaded or stored by one asynchronous transfer (dataflowir 1.3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.agen.access import (
    ParsedAccess,
    access_rules,
    implicit_yield,
    parse_load_iv,
    parse_time_symbols,
    print_access,
    print_load_iv,
    print_region_and_types,
    print_time_symbols,
    segments,
    set_rules,
)
from dfsched.dialects.dataflow import VECTOR
from ktir.attributes import AffineMapAttr, AffineSetAttr, StringAttr
from ktir.constraints import INDEX, MEMREF
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
    region,
    variadic_operand,
    variadic_region,
)
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["CompositeLoad", "CompositeStore"]

_ELIDED = ("access_map", "operandSegmentSizes")


@operation("agen.composite_load", traits=(READS,), implicit_terminator=implicit_yield)
class CompositeLoad(Operation):
    """At every time step: load a vector and run the region on it."""

    memory = operand(MEMREF)
    indices = variadic_operand(INDEX)
    time_symbols = variadic_operand(INDEX)
    access_map = attribute(AffineMapAttr)
    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)
    time_set = attribute(AffineSetAttr)
    time_order = attribute(AffineMapAttr)
    time_addr_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")
    body = region()

    @property
    def load_iv(self) -> Value:
        """The vector loaded at this step."""
        return self.body.block.arguments[0]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        access = ParsedAccess.parse(parser)
        symbols = parse_time_symbols(parser)
        argument = parse_load_iv(parser)
        attributes = parser.parse_attr_dict()
        body = parser.parse_region([argument])
        parser.expect(":", "in front of the memref's type")
        operands = access.resolve(parser, parser.parse_type())
        operands += [parser.resolve(symbol, INDEX_TYPE) for symbol in symbols]
        attributes["access_map"] = AffineMapAttr(access.map)
        attributes |= segments(1, len(access.indices), len(symbols))
        return cls.create(operands, (), attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        print_access(printer, self.memory, self.access_map.map, self.indices)
        printer.newline()
        print_time_symbols(printer, self.time_symbols)
        print_load_iv(printer, self.load_iv)
        print_region_and_types(printer, self, (self.memory,), _ELIDED)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from access_rules(self.access_map.map, self.indices, self.memory)
        yield from set_rules("load", "Array", self.load_set, self.load_order, self.access_map.map)


@operation("agen.composite_store", traits=(WRITES,), implicit_terminator=implicit_yield)
class CompositeStore(Operation):
    """At every time step: store what the region yields, or the next chunk of `input_vector`.

    The two forms exclude each other; only the first has an element set and order.
    """

    memory = operand(MEMREF)
    indices = variadic_operand(INDEX)
    input_vector = optional_operand(VECTOR)
    time_symbols = variadic_operand(INDEX)
    access_map = attribute(AffineMapAttr)
    store_set = optional_attribute(AffineSetAttr)
    store_order = optional_attribute(AffineMapAttr)
    time_set = attribute(AffineSetAttr)
    time_order = attribute(AffineMapAttr)
    time_addr_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")
    bodies = variadic_region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        access = ParsedAccess.parse(parser)
        vector = None
        if parser.accept("input_vector"):
            parser.expect("=", "behind 'input_vector'")
            vector = parser.parse_operand()
        symbols = parse_time_symbols(parser)
        attributes = parser.parse_attr_dict()
        body = parser.parse_optional_region()
        parser.expect(":", "in front of the types")
        operands = access.resolve(parser, parser.parse_type())
        if vector is not None:
            parser.expect(",", "in front of the vector's type")
            operands.append(parser.resolve(vector, parser.parse_type()))
        operands += [parser.resolve(symbol, INDEX_TYPE) for symbol in symbols]
        attributes["access_map"] = AffineMapAttr(access.map)
        attributes |= segments(1, len(access.indices), int(vector is not None), len(symbols))
        regions = () if body is None else (body,)
        return cls.create(operands, (), attributes, regions, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        print_access(printer, self.memory, self.access_map.map, self.indices)
        printer.newline()
        if self.input_vector is not None:
            printer.write(" input_vector=")
            printer.operand(self.input_vector)
        print_time_symbols(printer, self.time_symbols)
        printer.newline()
        printer.attr_dict(self.attributes, elided=_ELIDED)
        for body in self.regions:
            printer.newline()
            printer.region(body, print_entry_arguments=False, owner=self.name)
        printer.write(" : ")
        types = [self.memory.type]
        if self.input_vector is not None:
            types.append(self.input_vector.type)
        printer.types(types)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from access_rules(self.access_map.map, self.indices, self.memory)
        if self.input_vector is not None and self.regions:
            yield "for composite_store, input_vector and region can't co-exist"
        if self.store_set is not None and self.store_order is not None:
            yield from set_rules("store", "Array", self.store_set, self.store_order, self.access_map.map)
        elif self.input_vector is None:
            yield "either store_set/order or input vector has to be present in composite store"
