"""The part of the ``affine`` dialect that index arithmetic needs: ``apply``, ``min``, ``max``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, IntegerAttr, index_attr
from ktir.constraints import INDEX
from ktir.context import Dialect
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation, Value
from ktir.opdef import PURE, attribute, operation, result, variadic_operand
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


class _MapOp(Operation):
    """An affine map applied to index values: dimensions, then symbols."""

    map = attribute(AffineMapAttr)
    arguments = variadic_operand(INDEX)
    result = result(INDEX)

    @classmethod
    def apply(cls, map: AffineMapAttr, arguments: Sequence[Value]) -> Self:
        """The operation for a map and its operands."""
        return cls.create(arguments, (INDEX_TYPE,), {"map": map})

    @property
    def dims(self) -> tuple[Value, ...]:
        return self.arguments[: self.map.map.num_dims]

    @property
    def symbols(self) -> tuple[Value, ...]:
        return self.arguments[self.map.map.num_dims :]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        map = parser.parse_affine_map()
        uses = parser.parse_comma_list("(", ")", parser.parse_operand)
        if parser.at("["):
            uses += parser.parse_comma_list("[", "]", parser.parse_operand)
        attributes = parser.parse_attr_dict()
        attributes["map"] = AffineMapAttr(map)
        values = parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(values, (INDEX_TYPE,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.attribute(self.map)
        printer.write("(")
        printer.operands(self.dims)
        printer.write(")")
        if self.map.map.num_symbols:
            printer.write("[")
            printer.operands(self.symbols)
            printer.write("]")
        printer.attr_dict(self.attributes, elided=("map",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        map = self.map.map
        if len(self.arguments) != map.num_dims + map.num_symbols:
            yield finding(
                "operand count and affine map dimension and symbol count must match",
                f"affine_map<{map}> takes {map.num_operands} operands, got {len(self.arguments)}",
            )
        elif not map.results:
            yield finding("expected an affine map with at least one result", f"got affine_map<{map}>")

    def choose(self, values: Sequence[int]) -> int:
        """The result for the evaluated map results."""
        raise NotImplementedError

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        numbers = [value.value for value in operands if isinstance(value, IntegerAttr)]
        map = self.map.map
        if len(numbers) != len(operands):
            return None
        return (index_attr(self.choose(map.evaluate(numbers[: map.num_dims], numbers[map.num_dims :]))),)


@operation("affine.apply", traits=(PURE,))
class Apply(_MapOp):
    """The value of an affine map of one result."""

    def choose(self, values: Sequence[int]) -> int:
        return values[0]

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _MapOp.verify_op(self, verifier)
        if len(self.map.map.results) != 1:
            yield finding("mapping must produce one value", f"affine_map<{self.map.map}> has several results")


@operation("affine.min", traits=(PURE,))
class Min(_MapOp):
    """The smallest of the map's results."""

    def choose(self, values: Sequence[int]) -> int:
        return min(values)


@operation("affine.max", traits=(PURE,))
class Max(_MapOp):
    """The largest of the map's results."""

    def choose(self, values: Sequence[int]) -> int:
        return max(values)


DIALECT = Dialect("affine", (Apply, Min, Max))
