"""`ktdf.ind_data_transfer`: a copy whose place in one memory comes from a table (scheduler spec 1.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from dfsched.dialects.ktdf.transfer import (
    CELL,
    Cell,
    parse_cell,
    print_cell,
    stored_attributes,
    stored_cell,
    verify_cell,
)
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, DenseArrayAttr
from ktir.constraints import INDEX, MEMREF
from ktir.ir import Operation, Value
from ktir.opdef import (
    OPERAND_SEGMENTS,
    attribute,
    operand,
    operation,
    optional_attribute,
    variadic_operand,
)
from ktir.types import I32, IndexType, MemRefType, Type
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["IndirectDataTransfer"]

_SIDES = (("src", "source"), ("dst", "dest"))


@operation("ktdf.ind_data_transfer")
class IndirectDataTransfer(Operation):
    """A gather (the table says where the source is) or a scatter (where the destination is) of one box.

    The entry of the table is a base address, the cell of the same side offset and size.
    """

    source_table = variadic_operand(MEMREF)
    source_entry = variadic_operand(INDEX)
    source = operand(CELL)
    source_indices = variadic_operand(INDEX)
    source_sizes = variadic_operand(INDEX)
    dest_table = variadic_operand(MEMREF)
    dest_entry = variadic_operand(INDEX)
    dest = operand(CELL)
    dest_indices = variadic_operand(INDEX)
    dest_sizes = variadic_operand(INDEX)
    source_map = optional_attribute(AffineMapAttr)
    dest_map = optional_attribute(AffineMapAttr)
    static_source_sizes = attribute(DenseArrayAttr)
    static_dest_sizes = attribute(DenseArrayAttr)

    @property
    def source_cell(self) -> Cell:
        return stored_cell(
            self.source, self.source_map, self.source_indices, self.static_source_sizes, self.source_sizes
        )

    @property
    def dest_cell(self) -> Cell:
        return stored_cell(
            self.dest, self.dest_map, self.dest_indices, self.static_dest_sizes, self.dest_sizes
        )

    @property
    def is_gather(self) -> bool:
        """Whether the table is that of the source."""
        return bool(self.source_table)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        tables: list[tuple[Unresolved, Unresolved] | None] = []
        cells: list[tuple[Unresolved, Callable[[Value], Cell]]] = []
        for short, _ in _SIDES:
            parser.expect_keyword(f"ind_{short}")
            parser.expect("=")
            tables.append(_parse_table(parser))
            parser.expect_keyword(f"dir_{short}")
            parser.expect("=")
            value = parser.parse_operand()
            cells.append((value, parse_cell(parser)))
        entries: dict[str, Attribute] = dict(parser.parse_attr_dict())
        operands: list[Value] = []
        segments: list[int] = []
        for number, (table, (value, cell)) in enumerate(zip(tables, cells, strict=True)):
            parser.expect("," if number else ":")
            table_type = _parse_type_or_none(parser)
            if (table is None) != (table_type is None):
                raise parser.error("expected 'none' as the type of an absent table, and only of that")
            parser.expect(",")
            made = cell(parser.resolve(value, parser.parse_type()))
            if table is not None and table_type is not None:
                operands += [parser.resolve(table[0], table_type), parser.resolve(table[1], INDEX_TYPE)]
            segments += [int(table is not None)] * 2
            operands += [made.value, *made.indices, *made.dynamic_sizes]
            segments += [1, len(made.indices), len(made.dynamic_sizes)]
            entries |= stored_attributes(_SIDES[number][1], made)
        entries[OPERAND_SEGMENTS] = DenseArrayAttr(I32, tuple(segments))
        return cls.create(operands, (), entries, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        for (short, _), table, entry, cell in self._sides():
            printer.newline()
            printer.write(f"  ind_{short} = ")
            if table:
                printer.operands(table)
                printer.write("[")
                printer.operands(entry)
                printer.write("]")
            else:
                printer.write("none")
            printer.newline()
            printer.write(f"  dir_{short} = ")
            print_cell(printer, cell)
        printer.attr_dict(self.attributes, elided=tuple(sorted(self.definition.inherent)))
        printer.newline()
        printer.write("  : ")
        for number, (_, table, _, cell) in enumerate(self._sides()):
            printer.write(", " if number else "")
            if table:
                printer.types([table[0].type])
            else:
                printer.write("none")
            printer.write(", ")
            printer.types([cell.value.type])

    def _sides(self) -> list[tuple[tuple[str, str], Sequence[Value], Sequence[Value], Cell]]:
        return [
            (_SIDES[0], self.source_table, self.source_entry, self.source_cell),
            (_SIDES[1], self.dest_table, self.dest_entry, self.dest_cell),
        ]

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        if bool(self.source_table) == bool(self.dest_table):
            yield "exactly one of ind_src and ind_dst must be present"
        for (short, name), table, entry, cell in self._sides():
            yield from verify_cell(name, cell)
            if len(table) > 1 or len(table) != len(entry):
                yield f"ind_{short} must be one table with one entry"
            if not table:
                continue
            type = table[0].type
            if not (isinstance(type, MemRefType) and isinstance(type.element, IndexType) and type.rank == 1):
                yield f"ind_{short} must be a one-dimensional memref of index, not {type}"
            if not cell.is_memory:
                yield f"dir_{short} must be a memref where ind_{short} is present"
        elements = {getattr(value.type, "element", None) for value in (self.source, self.dest)}
        if len(elements) > 1:
            yield "source and dest must have the same element type"


def _parse_table(parser: OpParser) -> tuple[Unresolved, Unresolved] | None:
    if parser.accept_keyword("none"):
        return None
    table = parser.parse_operand()
    parser.expect("[")
    entry = parser.parse_operand()
    parser.expect("]")
    return table, entry


def _parse_type_or_none(parser: OpParser) -> Type | None:
    return None if parser.accept_keyword("none") else parser.parse_type()
