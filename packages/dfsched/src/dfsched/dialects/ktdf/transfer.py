"""`ktdf.data_transfer`: an atomic copy between memories and queues (scheduler spec 1.7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import attrs

from dfsched.dialects.ktdf.types import FifoSlotType
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, DenseArrayAttr, StringAttr
from ktir.constraints import INDEX, instance_of
from ktir.errors import TypeQueryError
from ktir.ir import Operation, Value
from ktir.location import UNKNOWN, Location
from ktir.opdef import (
    OPERAND_SEGMENTS,
    attribute,
    operand,
    operation,
    optional_attribute,
    variadic_operand,
)
from ktir.types import I32, I64, MemRefType, Type
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["DYNAMIC", "TRANSFER_MODE", "Cell", "DataTransfer"]

DYNAMIC = -(2**63)
"""How a size that is an operand stands in a static size array."""

TRANSFER_MODE = "transfer_mode"
"""Discardable attribute: ``"splat"`` repeats the source box over the slot, ``"pad"`` fills up with zeros."""

CELL = instance_of("memref or FIFO slot", MemRefType, FifoSlotType)


@attrs.frozen
class Cell:
    """One side of a transfer.

    `map` (memrefs only) takes `indices` to one subscript per dimension; `sizes` is the box, an entry per
    dimension (None: the next of `dynamic_sizes`).
    """

    value: Value
    map: AffineMap | None = None
    indices: tuple[Value, ...] = ()
    sizes: tuple[int | None, ...] = ()
    dynamic_sizes: tuple[Value, ...] = ()

    @classmethod
    def whole(cls, buffer: Value) -> Cell:
        """All of a static memref, or all of a slot."""
        match buffer.type:
            case MemRefType() as type:
                shape = type.static_shape()
                return cls(buffer, AffineMap.constant(*([0] * len(shape))), (), shape)
            case FifoSlotType(capacity=capacity):
                return cls(buffer, None, (), (capacity,))
            case other:
                raise TypeError(f"no cell of type {other}")

    @property
    def is_memory(self) -> bool:
        return isinstance(self.value.type, MemRefType)

    @property
    def static_sizes(self) -> tuple[int, ...]:
        """The box as plain integers; `TypeQueryError` if a size is dynamic."""
        if None in self.sizes:
            raise TypeQueryError("the transfer has a dynamic size")
        return tuple(size for size in self.sizes if size is not None)

    @property
    def num_elements(self) -> int:
        """Elements of the box; `TypeQueryError` if a size is dynamic."""
        return math.prod(self.static_sizes)


@operation("ktdf.data_transfer")
class DataTransfer(Operation):
    """Copy the boxed region of the source to that of the destination."""

    source = operand(CELL)
    source_indices = variadic_operand(INDEX)
    source_sizes = variadic_operand(INDEX)
    dest = operand(CELL)
    dest_indices = variadic_operand(INDEX)
    dest_sizes = variadic_operand(INDEX)
    source_map = optional_attribute(AffineMapAttr)
    dest_map = optional_attribute(AffineMapAttr)
    static_source_sizes = attribute(DenseArrayAttr)
    static_dest_sizes = attribute(DenseArrayAttr)

    @classmethod
    def between(
        cls,
        source: Cell,
        dest: Cell,
        attributes: Mapping[str, Attribute] | None = None,
        location: Location = UNKNOWN,
    ) -> Self:
        """A transfer from one cell to another; `attributes` are discardable ones."""
        entries: dict[str, Attribute] = dict(attributes or {})
        operands: list[Value] = []
        segments: list[int] = []
        for name, cell in (("source", source), ("dest", dest)):
            entries |= stored_attributes(name, cell)
            operands += [cell.value, *cell.indices, *cell.dynamic_sizes]
            segments += [1, len(cell.indices), len(cell.dynamic_sizes)]
        entries[OPERAND_SEGMENTS] = DenseArrayAttr(I32, tuple(segments))
        return cls.create(operands, (), entries, location=location)

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
    def mode(self) -> str | None:
        """The transfer mode, None for a plain copy."""
        match self.attributes.get(TRANSFER_MODE):
            case StringAttr(value=value):
                return value
            case _:
                return None

    @property
    def discardable(self) -> dict[str, Attribute]:
        """Attributes that the operation does not define itself."""
        inherent = self.definition.inherent
        return {name: value for name, value in self.attributes.items() if name not in inherent}

    def with_cells(self, source: Cell | None = None, dest: Cell | None = None) -> Self:
        """The same transfer with one or both sides replaced; discardable attributes and place are kept."""
        return self.between(
            source or self.source_cell, dest or self.dest_cell, self.discardable, self.location
        )

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        sides: list[tuple[Unresolved, Callable[[Value], Cell]]] = []
        for keyword in ("from", "to"):
            parser.expect_keyword(keyword)
            value = parser.parse_operand()
            sides.append((value, parse_cell(parser)))
        attributes = parser.parse_attr_dict()
        parser.expect(":")
        types: list[Type] = [parser.parse_type()]
        parser.expect(",")
        types.append(parser.parse_type())
        source, dest = (
            cell(parser.resolve(value, type)) for (value, cell), type in zip(sides, types, strict=True)
        )
        return cls.between(source, dest, attributes, parser.location)

    def print_custom(self, printer: Printer) -> None:
        for keyword, cell in (("from", self.source_cell), ("to", self.dest_cell)):
            printer.write(f" {keyword} ")
            print_cell(printer, cell)
        printer.attr_dict(self.attributes, elided=tuple(sorted(self.definition.inherent)))
        printer.write(" : ")
        printer.types([self.source.type, self.dest.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        for name, cell in (("source", self.source_cell), ("dest", self.dest_cell)):
            yield from verify_cell(name, cell)
        elements = {getattr(value.type, "element", None) for value in (self.source, self.dest)}
        if len(elements) > 1:
            yield "source and dest must have the same element type"


def parse_cell(parser: OpParser) -> Callable[[Value], Cell]:
    """Read subscripts and sizes; the cell once its value is known."""
    map: AffineMap | None = None
    indices: tuple[Value, ...] = ()
    if parser.at("["):
        map, dims, symbols = parser.parse_affine_subscripts("[", "]")
        if symbols:
            raise parser.error("symbols are not allowed in the subscripts of a transfer")
        indices = tuple(parser.resolve(dim, INDEX_TYPE) for dim in dims)
    sizes: tuple[int | None, ...] = ()
    dynamic: tuple[Value, ...] = ()
    if parser.accept_keyword("size"):
        static, operands = parser.parse_dynamic_index_list()
        sizes = tuple(static)
        dynamic = tuple(parser.resolve(size, INDEX_TYPE) for size in operands)
    return lambda value: Cell(value, map, indices, sizes, dynamic)


def print_cell(printer: Printer, cell: Cell) -> None:
    """The value, its subscripts and sizes."""
    printer.operand(cell.value)
    if cell.map is not None:
        printer.write("[")
        printer.affine_subscripts(cell.map, cell.indices)
        printer.write("]")
    if cell.sizes:
        printer.write(" size ")
        printer.dynamic_index_list(cell.sizes, cell.dynamic_sizes)


def stored_cell(
    value: Value,
    map: AffineMapAttr | None,
    indices: Sequence[Value],
    sizes: DenseArrayAttr,
    dynamic: Sequence[Value],
) -> Cell:
    """A side from the attributes and operands that hold it."""
    static = tuple(None if size == DYNAMIC else size for size in sizes)
    return Cell(value, None if map is None else map.map, tuple(indices), static, tuple(dynamic))


def stored_attributes(name: str, cell: Cell) -> dict[str, Attribute]:
    """The attributes that hold a side called `name`."""
    sizes = tuple(DYNAMIC if size is None else size for size in cell.sizes)
    entries: dict[str, Attribute] = {f"static_{name}_sizes": DenseArrayAttr(I64, sizes)}
    if cell.map is not None:
        entries[f"{name}_map"] = AffineMapAttr(cell.map)
    return entries


def verify_cell(name: str, cell: Cell) -> Iterator[str]:
    """What is wrong with a side called `name`."""
    match cell.value.type:
        case MemRefType() as type if cell.map is None:
            yield f"{name} is a memref and needs subscripts, one per dimension (rank {type.rank})"
        case MemRefType() as type if cell.map is not None:
            if cell.map.num_symbols:
                yield f"{name} map must have no symbols, but has {cell.map.num_symbols}"
            if cell.map.num_results != type.rank:
                yield f"{name} map has {cell.map.num_results} results, but the memref has rank {type.rank}"
            if len(cell.indices) != cell.map.num_dims:
                yield f"{name} map has {cell.map.num_dims} dimensions, but got {len(cell.indices)} indices"
            if len(cell.sizes) != type.rank:
                yield f"{name} has {len(cell.sizes)} sizes, but the memref has rank {type.rank}"
        case FifoSlotType():
            if cell.map is not None:
                yield f"{name} is a FIFO slot and takes no subscripts"
            if cell.indices:
                yield f"{name} is a FIFO slot and takes no indices"
    dynamic = sum(size is None for size in cell.sizes)
    if dynamic != len(cell.dynamic_sizes):
        yield f"{name} has {dynamic} dynamic sizes, but got {len(cell.dynamic_sizes)} size operands"
