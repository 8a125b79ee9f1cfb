"""Vector accesses (dataflowir spec 1.3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from ktir.affine import AffineMap, AffineSet
from ktir.attribute import Attribute
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
    result,
    variadic_operand,
)
from ktir.types import INDEX as INDEX_TYPE
from ktir.types import VectorType

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["VectorLoad", "VectorStore"]

_MAP = "access_map"


@operation("agen.vector_load", traits=(READS,))
class VectorLoad(Operation):
    """The lanes that `load_set` names, in `load_order`, at the subscripts."""

    memory = operand(MEMREF)
    indices = variadic_operand(INDEX)
    multicast_info = optional_operand(INDEX)
    vector = result(VECTOR)
    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)
    access_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @classmethod
    def of(
        cls,
        memory: Value,
        map: AffineMap,
        indices: Sequence[Value],
        set: AffineSet,
        order: AffineMap,
        type: VectorType,
    ) -> Self:
        entries: dict[str, Attribute] = {
            _MAP: AffineMapAttr(map),
            "load_set": AffineSetAttr(set),
            "load_order": AffineMapAttr(order),
        }
        return cls.create((memory, *indices), (type,), entries | segments(1, len(indices), 0))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        access = ParsedAccess.parse(parser)
        group = parse_multicast(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the types")
        memory = parser.parse_type()
        parser.expect(",", "behind the memref's type")
        vector = parser.parse_type()
        operands = access.resolve(parser, memory)
        if group is not None:
            operands.append(parser.resolve(group, INDEX_TYPE))
        attributes[_MAP] = AffineMapAttr(access.map)
        attributes |= segments(1, len(access.indices), int(group is not None))
        return cls.create(operands, (vector,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        print_access(printer, self.memory, self.access_map.map, self.indices)
        print_multicast(printer, self.multicast_info)
        printer.attr_dict(self.attributes, elided=(_MAP, "operandSegmentSizes"))
        printer.write(" : ")
        printer.types([self.memory.type, self.vector.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from access_rules(self.access_map.map, self.indices, self.memory)
        yield from set_rules("load", "array", self.load_set, self.load_order, self.access_map.map)


@operation("agen.vector_store", traits=(WRITES,))
class VectorStore(Operation):
    """Stores the lanes of a vector where `store_set` names, in `store_order`, at the subscripts."""

    vector = operand(VECTOR)
    memory = operand(MEMREF)
    indices = variadic_operand(INDEX)
    store_set = attribute(AffineSetAttr)
    store_order = attribute(AffineMapAttr)
    access_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @classmethod
    def of(
        cls,
        vector: Value,
        memory: Value,
        map: AffineMap,
        indices: Sequence[Value],
        set: AffineSet,
        order: AffineMap,
    ) -> Self:
        entries: dict[str, Attribute] = {
            _MAP: AffineMapAttr(map),
            "store_set": AffineSetAttr(set),
            "store_order": AffineMapAttr(order),
        }
        return cls.create((vector, memory, *indices), (), entries)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        source = parser.parse_operand()
        parser.expect(",", "behind the vector")
        access = ParsedAccess.parse(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the types")
        memory = parser.parse_type()
        parser.expect(",", "behind the memref's type")
        vector = parser.resolve(source, parser.parse_type())
        attributes[_MAP] = AffineMapAttr(access.map)
        return cls.create((vector, *access.resolve(parser, memory)), (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.vector)
        printer.write(", ")
        print_access(printer, self.memory, self.access_map.map, self.indices)
        printer.attr_dict(self.attributes, elided=(_MAP,))
        printer.write(" : ")
        printer.types([self.memory.type, self.vector.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from access_rules(self.access_map.map, self.indices, self.memory)
        yield from set_rules("store", "array", self.store_set, self.store_order, self.access_map.map)
