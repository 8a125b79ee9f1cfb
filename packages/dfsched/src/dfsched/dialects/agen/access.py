"""What the operations of `agen` share: subscripts, element sets and orders (dataflowir spec 1.3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from dfsched.dialects.enums import ROUTING_SPELLING, EnumAttr, RoutingDirection
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.opdef import OPERAND_SEGMENTS, PURE, TERMINATOR, operation, variadic_operand
from ktir.types import I32, MemRefType, Type
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer

__all__ = [
    "AgenDirection",
    "ParsedAccess",
    "Yield",
    "implicit_yield",
    "parse_load_iv",
    "parse_loaded",
    "parse_multicast",
    "parse_time_symbols",
    "print_load_iv",
    "print_loaded",
    "print_multicast",
    "print_region_and_types",
    "print_time_symbols",
    "segments",
]


@frozen
class AgenDirection(EnumAttr):
    """``#agen<direction Clockwise>``."""

    mnemonic: ClassVar[str] = "agen"
    keyword: ClassVar[str] = "direction"
    spelling = ROUTING_SPELLING
    value: RoutingDirection


@operation("agen.yield", assembly="attr-dict ($values^ `:` type($values))?", traits=(PURE, TERMINATOR))
class Yield(Operation):
    """The value that a composite operation stores at this step; none: the loaded one."""

    values = variadic_operand()


def implicit_yield() -> Operation:
    """The terminator that the text may leave out."""
    return Yield.create()


def segments(*sizes: int) -> dict[str, Attribute]:
    """``operandSegmentSizes`` as an attribute entry."""
    return {OPERAND_SEGMENTS: DenseArrayAttr(I32, sizes)}


@frozen
class ParsedAccess:
    """A memref with subscripts, read but not resolved."""

    memory: Unresolved
    map: AffineMap
    indices: tuple[Unresolved, ...]

    @classmethod
    def parse(cls, parser: OpParser) -> ParsedAccess:
        """``%m[%i * 4, 0]``."""
        memory = parser.parse_operand()
        return cls.behind(parser, memory)

    @classmethod
    def behind(cls, parser: OpParser, memory: Unresolved) -> ParsedAccess:
        """The subscripts behind a memref that is already read."""
        offset = parser.offset
        map, dims, symbols = parser.parse_affine_subscripts()
        if symbols:
            raise parser.error_at(offset, "symbols are not supported in the subscripts of an access")
        return cls(memory, map, tuple(dims))

    def resolve(self, parser: OpParser, type: Type) -> list[Value]:
        """The memref and its index operands."""
        values = [parser.resolve(self.memory, type)]
        return values + [parser.resolve(index, INDEX_TYPE) for index in self.indices]


def print_access(printer: Printer, memory: Value, map: AffineMap, indices: Sequence[Value]) -> None:
    """``%m[%i * 4, 0]``."""
    printer.operand(memory)
    printer.write("[")
    printer.affine_subscripts(map, indices)
    printer.write("]")


def parse_multicast(parser: OpParser) -> Unresolved | None:
    """``multicast_info = %group``, if it is there."""
    if not parser.accept("multicast_info"):
        return None
    parser.expect("=", "behind 'multicast_info'")
    return parser.parse_operand()


def print_multicast(printer: Printer, group: Value | None) -> None:
    """The inverse of `parse_multicast`, with a blank in front."""
    if group is not None:
        printer.write(" multicast_info = ")
        printer.operand(group)


def parse_time_symbols(parser: OpParser) -> list[Unresolved]:
    """``time_symbols(%a, %b)``."""
    parser.expect("time_symbols", "behind the access")
    return parser.parse_comma_list("(", ")", parser.parse_operand)


def print_time_symbols(printer: Printer, symbols: Sequence[Value]) -> None:
    """The inverse of `parse_time_symbols`, with a blank in front."""
    printer.write(" time_symbols(")
    printer.operands(symbols)
    printer.write(")")


def parse_load_iv(parser: OpParser) -> tuple[str | None, Type, Location]:
    """``(%v:vector<32xf16>)``: the argument of the region."""
    parser.expect("(", "in front of the loaded vector")
    argument = parser.parse_argument()
    parser.expect(")", "behind the loaded vector")
    return argument.name, argument.type, argument.location


def print_load_iv(printer: Printer, vector: Value) -> None:
    """The inverse of `parse_load_iv`."""
    printer.write("(")
    printer.operand(vector)
    printer.write(":")
    printer.type(vector.type)
    printer.write(")")


def parse_loaded(parser: OpParser) -> tuple[str | None, Type, Location]:
    """``, load_iv(%v:vector<32xf16>)``, which stands behind the time symbols."""
    parser.expect(",", "behind the time symbols")
    parser.expect("load_iv", "behind the time symbols")
    return parse_load_iv(parser)


def print_loaded(printer: Printer, vector: Value) -> None:
    """The inverse of `parse_loaded`."""
    printer.write(", load_iv")
    print_load_iv(printer, vector)


def print_region_and_types(
    printer: Printer, op: Operation, memories: Sequence[Value], elided: Sequence[str]
) -> None:
    """What composites end with: attributes, the region, the types of the memories."""
    printer.newline()
    printer.attr_dict(op.attributes, elided=tuple(elided))
    printer.newline()
    printer.region(op.regions[0], print_entry_arguments=False, owner=op.name)
    printer.write(" : ")
    printer.types([memory.type for memory in memories])


def memref_of(value: Value) -> MemRefType:
    """The type of a memref operand."""
    assert isinstance(value.type, MemRefType)
    return value.type


def access_rules(map: AffineMap, indices: Sequence[Value], memory: Value) -> Iterator[str]:
    """The access map fits its operands and the memref."""
    if map.num_dims != len(indices):
        yield f"expected {map.num_dims} map operands, but got {len(indices)}"
    if map.num_results != memref_of(memory).rank:
        yield f"expected {memref_of(memory).rank} subscripts, but got {map.num_results}"


def set_rules(
    side: str, array: str, set: AffineSetAttr, order: AffineMapAttr, map: AffineMap
) -> Iterator[str]:
    """An element set has at least the memref's rank, and its order the set's dimensions."""
    if set.set.num_dims < map.num_results:
        yield f"{side} set and {array} dimensions should match"
    if set.set.num_dims != order.map.num_dims:
        yield f"{side} set and order dimensions should match"
    elif order.map.num_results != order.map.num_dims:
        yield f"{side} order should have as many results as dimensions"
