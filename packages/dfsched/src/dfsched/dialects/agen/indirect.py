"""Indirect vector accesses: an index read from one memref addresses another (dataflowir spec 1.3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.agen.access import (
    ParsedAccess,
    access_rules,
    parse_multicast,
    print_access,
    print_multicast,
    segments,
    set_rules,
)
from dfsched.dialects.dataflow import VECTOR
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, AffineSetAttr, StringAttr
from ktir.constraints import INDEX, MEMREF
from ktir.errors import Diagnostic
from ktir.ir import Operation
from ktir.opdef import (
    attribute,
    operand,
    operation,
    optional_attribute,
    optional_operand,
    result,
    variadic_operand,
)
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["IndirectVectorLoad", "IndirectVectorStore", "require"]

_ELIDED = ("indirect_map", "direct_map", "operandSegmentSizes")


def _parse_places(parser: OpParser) -> tuple[ParsedAccess, ParsedAccess, Unresolved | None]:
    places = []
    for word in ("indirect", "direct"):
        parser.expect(word, "in front of an access")
        parser.expect(":", f"behind '{word}'")
        places.append(ParsedAccess.parse(parser))
    return places[0], places[1], parse_multicast(parser)


def require(parser: OpParser, attributes: dict[str, Attribute], side: str) -> None:
    """Element set and order of a side must stand in the text."""
    for what in ("set", "order"):
        if f"{side}_{what}" not in attributes:
            raise parser.error(f"{side} {what} is missing in the operation")


class _Indirect(Operation):
    """What both directions share."""

    indirect = operand(MEMREF)
    indirect_indices = variadic_operand(INDEX)
    direct = operand(MEMREF)
    direct_indices = variadic_operand(INDEX)
    multicast_info = optional_operand(INDEX)
    indirect_map = attribute(AffineMapAttr)
    direct_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    def print_places(self, printer: Printer) -> None:
        printer.write(" indirect:")
        print_access(printer, self.indirect, self.indirect_map.map, self.indirect_indices)
        printer.write(" direct:")
        print_access(printer, self.direct, self.direct_map.map, self.direct_indices)
        print_multicast(printer, self.multicast_info)
        printer.newline()
        printer.attr_dict(self.attributes, elided=_ELIDED)
        printer.newline()
        printer.write(" : ")

    def place_rules(self) -> Iterator[str]:
        yield from access_rules(self.indirect_map.map, self.indirect_indices, self.indirect)
        yield from access_rules(self.direct_map.map, self.direct_indices, self.direct)


@operation("agen.indirect_vector_load")
class IndirectVectorLoad(_Indirect):
    """A vector whose every lane is addressed through the indirect memref."""

    vector = result(VECTOR)
    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        indirect, direct, group = _parse_places(parser)
        attributes = parser.parse_attr_dict()
        require(parser, attributes, "load")
        parser.expect(":", "in front of the types")
        types = parser.parse_type_list()
        if len(types) != 3:
            raise parser.error("expected the types of indirect memref, direct memref and vector")
        operands = indirect.resolve(parser, types[0]) + direct.resolve(parser, types[1])
        operands += [] if group is None else [parser.resolve(group, INDEX_TYPE)]
        attributes["indirect_map"] = AffineMapAttr(indirect.map)
        attributes["direct_map"] = AffineMapAttr(direct.map)
        attributes |= segments(1, len(indirect.indices), 1, len(direct.indices), int(group is not None))
        return cls.create(operands, (types[2],), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        self.print_places(printer)
        printer.types([self.indirect.type, self.direct.type, self.vector.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self.place_rules()
        yield from set_rules("load", "direct src array", self.load_set, self.load_order, self.direct_map.map)


@operation("agen.indirect_vector_store")
class IndirectVectorStore(_Indirect):
    """Stores a vector whose every lane is addressed through the indirect memref."""

    vector = operand(VECTOR)
    store_set = attribute(AffineSetAttr)
    store_order = attribute(AffineMapAttr)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        source = parser.parse_operand()
        indirect, direct, group = _parse_places(parser)
        attributes = parser.parse_attr_dict()
        require(parser, attributes, "store")
        parser.expect(":", "in front of the types")
        types = parser.parse_type_list()
        if len(types) != 3:
            raise parser.error("expected the types of vector, indirect memref and direct memref")
        operands = indirect.resolve(parser, types[1]) + direct.resolve(parser, types[2])
        operands += [] if group is None else [parser.resolve(group, INDEX_TYPE)]
        operands.append(parser.resolve(source, types[0]))
        attributes["indirect_map"] = AffineMapAttr(indirect.map)
        attributes["direct_map"] = AffineMapAttr(direct.map)
        attributes |= segments(1, len(indirect.indices), 1, len(direct.indices), int(group is not None), 1)
        return cls.create(operands, (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.vector)
        self.print_places(printer)
        printer.types([self.vector.type, self.indirect.type, self.direct.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self.place_rules()
        yield from set_rules("store", "direct array", self.store_set, self.store_order, self.direct_map.map)
