"""What tensor and memref operations with indices, or with offsets, sizes and strides, share.

Dynamic positions are None here and -9223372036854775808 in the ``static_*`` attributes, as in MLIR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr
from ktir.errors import Diagnostic, finding
from ktir.ir import Value
from ktir.types import I64, INDEX, ShapedType

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer

S = TypeVar("S", bound=ShapedType)

DYNAMIC = -9223372036854775808


def static_array(values: Sequence[int | None]) -> DenseArrayAttr:
    """``array<i64: ...>`` with the marker where a value is dynamic."""
    return DenseArrayAttr(I64, tuple(DYNAMIC if value is None else value for value in values))


def static_values(attribute: Attribute | None) -> tuple[int | None, ...]:
    """The inverse of `static_array`."""
    if not isinstance(attribute, DenseArrayAttr):
        return ()
    return tuple(None if value == DYNAMIC else value for value in attribute.values)


def is_rank_reduced(full: Sequence[int | None], small: Sequence[int | None]) -> bool:
    """Whether `small` is `full` with some unit extents dropped."""
    position = 0
    for extent in full:
        if position < len(small) and small[position] == extent:
            position += 1
        elif extent != 1:
            return False
    return position == len(small)


def out_of_bounds(
    offsets: Sequence[int | None],
    sizes: Sequence[int | None],
    strides: Sequence[int | None],
    shape: Sequence[int | None],
) -> Iterator[Diagnostic]:
    """Where a slice is known to leave the tensor it is taken from."""
    for dim, (offset, size, stride, extent) in enumerate(zip(offsets, sizes, strides, shape, strict=False)):
        if offset is None or extent is None:
            continue
        if not 0 <= offset < max(extent, 1) and size != 0:
            yield finding(
                f"offset {dim} is out-of-bounds: {offset} >= {extent}", f"dimension {dim} has extent {extent}"
            )
        elif size is not None and stride is not None and size > 0 and offset + (size - 1) * stride >= extent:
            yield finding(
                f"slice along dimension {dim} runs out-of-bounds: {offset + (size - 1) * stride} >= {extent}",
                f"dimension {dim} has extent {extent}; the slice takes {size} elements from {offset} on, "
                f"{stride} apart",
            )


def parse_element(
    parser: OpParser, kind: type[S], noun: str
) -> tuple[Unresolved, list[Value], dict[str, Attribute], S]:
    """``%x[%i, %j] {...} : type``: the shaped operand (not resolved), indices, attributes and its type."""
    use = parser.parse_operand()
    indices = parser.parse_comma_list("[", "]", parser.parse_operand)
    attributes = parser.parse_attr_dict()
    parser.expect(":", f"in front of the {noun} type")
    start = parser.offset
    type = parser.parse_type()
    if not isinstance(type, kind):
        raise parser.error_at(start, f"expected a ranked {noun} type, got '{type}'")
    return use, parser.resolve_all(indices, [INDEX] * len(indices)), attributes, type


def print_element(
    printer: Printer, shaped: Value, indices: Sequence[Value], attributes: Mapping[str, Attribute]
) -> None:
    """The inverse of `parse_element`."""
    printer.operand(shaped)
    printer.write("[")
    printer.operands(indices)
    printer.write("]")
    printer.attr_dict(attributes)
    printer.write(" : ")
    printer.type(shaped.type)
