"""Composite indirect accesses: many vectors through a table in one asynchronous transfer (dataflowir spec
1.3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from dfsched.dialects.agen.access import (
    ParsedAccess,
    access_rules,
    implicit_yield,
    parse_loaded,
    parse_multicast,
    parse_time_symbols,
    print_access,
    print_loaded,
    print_multicast,
    print_region_and_types,
    print_time_symbols,
    segments,
    set_rules,
)
from dfsched.dialects.agen.indirect import require
from ktir.attributes import AffineMapAttr, AffineSetAttr, StringAttr
from ktir.constraints import INDEX, MEMREF
from ktir.errors import Diagnostic
from ktir.ir import Operation, Value
from ktir.opdef import (
    OPERAND_SEGMENTS,
    attribute,
    operand,
    operation,
    optional_attribute,
    optional_operand,
    region,
    variadic_operand,
)
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["CompositeIndirectLoad", "CompositeIndirectLoadAndStore", "CompositeIndirectStore"]


def _parse_place(parser: OpParser, word: str) -> ParsedAccess:
    """``word:%m[%i]``."""
    if not parser.accept(word):
        raise parser.error(f"error parsing {word.replace('_', ' ')}")
    parser.expect(":", f"behind '{word}'")
    return ParsedAccess.parse(parser)


def _parse_times(parser: OpParser, what: str) -> list[Unresolved]:
    if not parser.at("time_symbols"):
        raise parser.error(f"error parsing {what}")
    return parse_time_symbols(parser)


class _OneSided(Operation):
    """What loads and stores share: a table, a memref, movement in time, a region."""

    indirect = operand(MEMREF)
    indirect_indices = variadic_operand(INDEX)
    direct = operand(MEMREF)
    direct_indices = variadic_operand(INDEX)
    multicast_info = optional_operand(INDEX)
    time_symbols = variadic_operand(INDEX)
    indirect_map = attribute(AffineMapAttr)
    direct_map = attribute(AffineMapAttr)
    time_set = attribute(AffineSetAttr)
    time_order = attribute(AffineMapAttr)
    time_addr_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @classmethod
    def parse_sides(cls, parser: OpParser, side: str, *, loads: bool) -> Self:
        """The whole operation; `loads`: the region gets the loaded vector."""
        indirect, direct = _parse_place(parser, "indirect"), _parse_place(parser, "direct")
        group = parse_multicast(parser)
        symbols = _parse_times(parser, "time_symbols and ivs" if loads else "time_symbols")
        arguments = []
        if loads:
            arguments.append(parse_loaded(parser))
        attributes = parser.parse_attr_dict()
        require(parser, attributes, side)
        body = parser.parse_region(arguments)
        parser.expect(":", "in front of the types")
        table = parser.parse_type()
        parser.expect(",", "behind the table's type")
        operands = indirect.resolve(parser, table) + direct.resolve(parser, parser.parse_type())
        operands += [parser.resolve(use, INDEX_TYPE) for use in ([] if group is None else [group])]
        operands += [parser.resolve(symbol, INDEX_TYPE) for symbol in symbols]
        attributes["indirect_map"] = AffineMapAttr(indirect.map)
        attributes["direct_map"] = AffineMapAttr(direct.map)
        attributes |= segments(
            1, len(indirect.indices), 1, len(direct.indices), int(group is not None), len(symbols)
        )
        return cls.create(operands, (), attributes, (body,), location=parser.location)

    def print_places(self, printer: Printer) -> None:
        printer.write(" indirect:")
        print_access(printer, self.indirect, self.indirect_map.map, self.indirect_indices)
        printer.write(" direct:")
        print_access(printer, self.direct, self.direct_map.map, self.direct_indices)

    def print_rest(self, printer: Printer) -> None:
        elided = ("indirect_map", "direct_map", OPERAND_SEGMENTS)
        print_region_and_types(printer, self, (self.indirect, self.direct), elided)

    def place_rules(self) -> Iterator[str]:
        yield from access_rules(self.indirect_map.map, self.indirect_indices, self.indirect)
        yield from access_rules(self.direct_map.map, self.direct_indices, self.direct)


@operation("agen.composite_indirect_load", implicit_terminator=implicit_yield)
class CompositeIndirectLoad(_OneSided):
    """At every time step: load a vector whose place a table says, and run the region on it."""

    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)
    body = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls.parse_sides(parser, "load", loads=True)

    def print_custom(self, printer: Printer) -> None:
        self.print_places(printer)
        print_multicast(printer, self.multicast_info)
        print_time_symbols(printer, self.time_symbols)
        print_loaded(printer, self.body.block.arguments[0])
        self.print_rest(printer)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self.place_rules()
        yield from set_rules("load", "direct src array", self.load_set, self.load_order, self.direct_map.map)


@operation("agen.composite_indirect_store", implicit_terminator=implicit_yield)
class CompositeIndirectStore(_OneSided):
    """At every time step: store what the region yields where a table says."""

    store_set = attribute(AffineSetAttr)
    store_order = attribute(AffineMapAttr)
    body = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls.parse_sides(parser, "store", loads=False)

    def print_custom(self, printer: Printer) -> None:
        self.print_places(printer)
        printer.newline()
        print_multicast(printer, self.multicast_info)
        print_time_symbols(printer, self.time_symbols)
        self.print_rest(printer)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self.place_rules()
        yield from set_rules("store", "direct array", self.store_set, self.store_order, self.direct_map.map)


_MAPS = ("indirect_src_map", "direct_src_map", "indirect_dst_map", "direct_dst_map")


@operation("agen.composite_indirect_load_and_store", implicit_terminator=implicit_yield)
class CompositeIndirectLoadAndStore(Operation):
    """At every time step: load, run the region, store what it yields; either place may come from a table."""

    indirect_source = optional_operand(MEMREF)
    indirect_source_indices = variadic_operand(INDEX)
    source = operand(MEMREF)
    source_indices = variadic_operand(INDEX)
    indirect_target = optional_operand(MEMREF)
    indirect_target_indices = variadic_operand(INDEX)
    target = operand(MEMREF)
    target_indices = variadic_operand(INDEX)
    multicast_info = optional_operand(INDEX)
    time_symbols = variadic_operand(INDEX)
    indirect_src_map = optional_attribute(AffineMapAttr)
    direct_src_map = attribute(AffineMapAttr)
    indirect_dst_map = optional_attribute(AffineMapAttr)
    direct_dst_map = attribute(AffineMapAttr)
    load_set = attribute(AffineSetAttr)
    load_order = attribute(AffineMapAttr)
    store_set = attribute(AffineSetAttr)
    store_order = attribute(AffineMapAttr)
    time_set = attribute(AffineSetAttr)
    time_order = attribute(AffineMapAttr)
    load_direct_time_addr_map = attribute(AffineMapAttr)
    store_direct_time_addr_map = attribute(AffineMapAttr)
    load_indirect_time_addr_map = optional_attribute(AffineMapAttr)
    store_indirect_time_addr_map = optional_attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")
    body = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        places: list[ParsedAccess | None] = []
        for side in ("src", "dst"):
            word = f"indirect_{side}"
            places.append(_parse_place(parser, word) if parser.at(word) else None)
            places.append(_parse_place(parser, f"direct_{side}"))
        group = parse_multicast(parser)
        symbols = _parse_times(parser, "time_symbols and ivs")
        argument = parse_loaded(parser)
        attributes = parser.parse_attr_dict()
        for side in ("load", "store"):
            require(parser, attributes, side)
        body = parser.parse_region([argument])
        parser.expect(":", "in front of the types")
        types = parser.parse_type_list()
        present = [place for place in places if place is not None]
        if len(types) != len(present):
            raise parser.error(f"expected {len(present)} types, one for every memref")
        resolved = iter(place.resolve(parser, type) for place, type in zip(present, types, strict=True))
        operands: list[Value] = []
        sizes: list[int] = []
        for place, name in zip(places, _MAPS, strict=True):
            sizes += [0, 0] if place is None else [1, len(place.indices)]
            if place is not None:
                operands += next(resolved)
                attributes[name] = AffineMapAttr(place.map)
        operands += [parser.resolve(use, INDEX_TYPE) for use in ([] if group is None else [group])]
        operands += [parser.resolve(symbol, INDEX_TYPE) for symbol in symbols]
        attributes |= segments(*sizes, int(group is not None), len(symbols))
        return cls.create(operands, (), attributes, (body,), location=parser.location)

    def _places(self) -> Iterator[tuple[str, Value, AffineMapAttr, tuple[Value, ...]]]:
        """Those that are there, in the order of the text."""
        if self.indirect_source is not None and self.indirect_src_map is not None:
            yield "indirect_src", self.indirect_source, self.indirect_src_map, self.indirect_source_indices
        yield "direct_src", self.source, self.direct_src_map, self.source_indices
        if self.indirect_target is not None and self.indirect_dst_map is not None:
            yield "indirect_dst", self.indirect_target, self.indirect_dst_map, self.indirect_target_indices
        yield "direct_dst", self.target, self.direct_dst_map, self.target_indices

    def print_custom(self, printer: Printer) -> None:
        for word, memory, map, indices in self._places():
            printer.write(f" {word}:")
            print_access(printer, memory, map.map, indices)
        printer.newline()
        print_multicast(printer, self.multicast_info)
        print_time_symbols(printer, self.time_symbols)
        print_loaded(printer, self.body.block.arguments[0])
        memories = [memory for _, memory, _, _ in self._places()]
        print_region_and_types(printer, self, memories, (*_MAPS, OPERAND_SEGMENTS))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        for _, memory, map, indices in self._places():
            yield from access_rules(map.map, indices, memory)
        yield from set_rules(
            "load", "direct src array", self.load_set, self.load_order, self.direct_src_map.map
        )
        yield from set_rules(
            "store", "direct dst array", self.store_set, self.store_order, self.direct_dst_map.map
        )
