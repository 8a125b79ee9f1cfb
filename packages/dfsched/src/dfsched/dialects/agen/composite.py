"""Composite copies: many vectors in one asynchronous transfer (dataflowir spec 1.3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from attrs import frozen

from dfsched.dialects.agen.access import (
    AgenDirection,
    ParsedAccess,
    access_rules,
    implicit_yield,
    parse_loaded,
    parse_time_symbols,
    print_access,
    print_loaded,
    print_multicast,
    print_region_and_types,
    print_time_symbols,
    segments,
    set_rules,
)
from ktir.affine import AffineMap, AffineSet
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, AffineSetAttr, StringAttr
from ktir.constraints import INDEX, MEMREF
from ktir.errors import Diagnostic
from ktir.ir import BlockArgument, Operation, Region, Value
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
)
from ktir.types import INDEX as INDEX_TYPE
from ktir.types import VectorType

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["CompositeLoadAndStore", "CompositeSide"]


@frozen
class CompositeSide:
    """One end of a copy: memref, subscripts, element set and order, movement in time."""

    memory: Value
    map: AffineMap
    indices: tuple[Value, ...]
    set: AffineSet
    order: AffineMap
    time_map: AffineMap


_ELIDED = ("src_map", "dst_map", "operandSegmentSizes")


@operation("agen.composite_load_and_store", traits=(READS, WRITES), implicit_terminator=implicit_yield)
class CompositeLoadAndStore(Operation):
    """At every time step: load a vector, run the region, store what it yields."""

    source = operand(MEMREF)
    source_indices = variadic_operand(INDEX)
    target = operand(MEMREF)
    target_indices = variadic_operand(INDEX)
    time_symbols = variadic_operand(INDEX)
    multicast_info = optional_operand(INDEX)
    src_map = attribute(AffineMapAttr)
    dst_map = attribute(AffineMapAttr)
    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)
    store_set = attribute(AffineSetAttr)
    store_order = attribute(AffineMapAttr)
    time_set = attribute(AffineSetAttr)
    time_order = attribute(AffineMapAttr)
    load_time_addr_map = attribute(AffineMapAttr)
    store_time_addr_map = attribute(AffineMapAttr)
    direction = optional_attribute(AgenDirection, name="dir")
    dbg_name = optional_attribute(StringAttr, name="dbgName")
    body = region()

    @classmethod
    def of(
        cls, source: CompositeSide, target: CompositeSide, time_set: AffineSet, vector: VectorType
    ) -> Self:
        """A plain copy (bare yield), time steps in lexicographic order."""
        entries: dict[str, Attribute] = {
            "src_map": AffineMapAttr(source.map),
            "dst_map": AffineMapAttr(target.map),
            "load_set": AffineSetAttr(source.set),
            "load_order": AffineMapAttr(source.order),
            "store_set": AffineSetAttr(target.set),
            "store_order": AffineMapAttr(target.order),
            "time_set": AffineSetAttr(time_set),
            "time_order": AffineMapAttr(AffineMap.identity(time_set.num_dims)),
            "load_time_addr_map": AffineMapAttr(source.time_map),
            "store_time_addr_map": AffineMapAttr(target.time_map),
        }
        operands = (source.memory, *source.indices, target.memory, *target.indices)
        sizes = segments(1, len(source.indices), 1, len(target.indices), 0, 0)
        body = Region.of((implicit_yield(),), (BlockArgument(vector),))
        return cls.create(operands, (), entries | sizes, (body,))

    @property
    def sides(self) -> tuple[CompositeSide, CompositeSide]:
        """Source and target."""
        return (
            CompositeSide(
                self.source,
                self.src_map.map,
                self.source_indices,
                self.load_set.set,
                self.load_order.map,
                self.load_time_addr_map.map,
            ),
            CompositeSide(
                self.target,
                self.dst_map.map,
                self.target_indices,
                self.store_set.set,
                self.store_order.map,
                self.store_time_addr_map.map,
            ),
        )

    @property
    def load_iv(self) -> Value:
        """The vector loaded at this step."""
        return self.body.block.arguments[0]

    @property
    def is_plain_copy(self) -> bool:
        """Whether the region is a bare yield."""
        operations = self.body.block.operations
        return len(operations) == 1 and not operations[0].operands

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        parser.expect("src", "in front of the source")
        parser.expect(":", "behind 'src'")
        source = ParsedAccess.parse(parser)
        parser.expect("dst", "in front of the target")
        parser.expect(":", "behind 'dst'")
        target = ParsedAccess.parse(parser)
        symbols = parse_time_symbols(parser)
        argument = parse_loaded(parser)
        group = None
        if parser.accept(","):
            parser.expect("multicast_info", "behind ','")
            parser.expect("=", "behind 'multicast_info'")
            group = parser.parse_operand()
        attributes = parser.parse_attr_dict()
        body = parser.parse_region([argument])
        parser.expect(":", "in front of the types")
        source_type = parser.parse_type()
        parser.expect(",", "behind the source's type")
        target_type = parser.parse_type()
        operands = source.resolve(parser, source_type) + target.resolve(parser, target_type)
        operands += [parser.resolve(symbol, INDEX_TYPE) for symbol in symbols]
        if group is not None:
            operands.append(parser.resolve(group, INDEX_TYPE))
        attributes["src_map"] = AffineMapAttr(source.map)
        attributes["dst_map"] = AffineMapAttr(target.map)
        attributes |= segments(
            1, len(source.indices), 1, len(target.indices), len(symbols), int(group is not None)
        )
        return cls.create(operands, (), attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" src:")
        print_access(printer, self.source, self.src_map.map, self.source_indices)
        printer.write(" dst:")
        print_access(printer, self.target, self.dst_map.map, self.target_indices)
        printer.newline()
        print_time_symbols(printer, self.time_symbols)
        print_loaded(printer, self.load_iv)
        if self.multicast_info is not None:
            printer.write(",")
            print_multicast(printer, self.multicast_info)
        print_region_and_types(printer, self, (self.source, self.target), _ELIDED)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from access_rules(self.src_map.map, self.source_indices, self.source)
        yield from access_rules(self.dst_map.map, self.target_indices, self.target)
        yield from set_rules("load", "src array", self.load_set, self.load_order, self.src_map.map)
        yield from set_rules("store", "dst array", self.store_set, self.store_order, self.dst_map.map)
        yield from _time_rules(self)


def _time_rules(op: CompositeLoadAndStore) -> Iterator[str]:
    dims = op.time_set.set.num_dims
    order = op.time_order.map
    if order.num_results != order.num_dims:
        yield "time order should have as many results as dimensions"
    maps: Sequence[AffineMap] = (order, op.load_time_addr_map.map, op.store_time_addr_map.map)
    if any(map.num_dims != dims for map in maps):
        yield "time set, time order and time address maps should have the same dimensions"
