"""The `uniform` dialect: what differs between the units that share a program (dataflowir spec 1.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from ktir.attributes import ArrayAttr, DenseArrayAttr
from ktir.constraints import INDEX
from ktir.context import Dialect
from ktir.errors import Diagnostic
from ktir.ir import Operation, Region, Value
from ktir.opdef import (
    PURE,
    TERMINATOR,
    operand,
    operation,
    optional_attribute,
    result,
    variadic_operand,
    variadic_region,
    variadic_result,
)
from ktir.types import I64, Type
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = [
    "UNIFORM",
    "DefImmutableMapping",
    "EqualizePattern",
    "QueryMap",
    "UniformYield",
    "UniformizeRegions",
]


def parse_entries(parser: OpParser) -> tuple[list[Unresolved], list[Unresolved]]:
    """``([%k -> %v], ...)``: keys and values."""
    keys: list[Unresolved] = []
    values: list[Unresolved] = []

    def entry() -> None:
        parser.expect("[", "in front of an entry")
        keys.append(parser.parse_operand())
        parser.expect("->", "behind the key")
        values.append(parser.parse_operand())
        parser.expect("]", "behind the value")

    parser.parse_comma_list("(", ")", entry)
    return keys, values


def print_entries(printer: Printer, keys: tuple[Value, ...], values: tuple[Value, ...]) -> None:
    """The inverse of `parse_entries`."""
    printer.write("(")
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        printer.write(", [" if number else "[")
        printer.operand(key)
        printer.write(" -> ")
        printer.operand(value)
        printer.write("]")
    printer.write(")")


@operation("uniform.def_immutable_mapping", traits=(PURE,))
class DefImmutableMapping(Operation):
    """A constant map from values to values of equal kind; keys come first among the operands."""

    entries = variadic_operand()
    mapping = result(INDEX)

    @classmethod
    def of(cls, entries: Mapping[Value, Value] | list[tuple[Value, Value]]) -> Self:
        """A map with `entries` in order."""
        pairs = list(entries.items()) if isinstance(entries, Mapping) else entries
        return cls.create((*(key for key, _ in pairs), *(value for _, value in pairs)), (INDEX_TYPE,))

    @property
    def keys(self) -> tuple[Value, ...]:
        return self.operands[: len(self.operands) // 2]

    @property
    def values(self) -> tuple[Value, ...]:
        return self.operands[len(self.operands) // 2 :]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        keys, values = parse_entries(parser)
        parser.expect(":", "in front of the result type")
        kind = parser.parse_type()
        value_type = parser.parse_type() if parser.accept(",") else kind
        operands = [parser.resolve(key, INDEX_TYPE) for key in keys]
        operands += [parser.resolve(value, value_type) for value in values]
        return cls.create(operands, (kind,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        print_entries(printer, self.keys, self.values)
        printer.write(":")
        printer.type(self.mapping.type)
        if self.values and self.values[0].type != self.mapping.type:
            printer.write(", ")
            printer.type(self.values[0].type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        from dfsched.dialects.dataflow import GetUnit
        from dfsched.dialects.symbol import CreateSymbol

        if not self.operands or len(self.operands) % 2:
            yield "expected as many values as keys, and at least one"
            return
        keys = [verifier.definer(key) for key in self.keys]
        if isinstance(keys[0], GetUnit) and not all(isinstance(key, GetUnit) for key in keys):
            yield "All Keys are not of same type"
        values = [verifier.definer(value) for value in self.values]
        if isinstance(values[0], CreateSymbol):
            if not all(isinstance(value, CreateSymbol) for value in values):
                yield "All map values are expected to be scalar values."
        elif len({None if value is None else value.name for value in values}) > 1:
            yield "All map values should be of same type."


@operation("uniform.query_map", traits=(PURE,))
class QueryMap(Operation):
    """The value that the map holds for a key; keys compare as values."""

    map = operand(INDEX)
    key = operand(INDEX)
    value = result()

    @classmethod
    def of(cls, map: Value, key: Value) -> Self:
        return cls.create((map, key), (INDEX_TYPE,))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        uses = parse_query(parser)
        parser.expect(":", "in front of the result type")
        kind = parser.parse_type()
        return cls.create(
            [parser.resolve(use, INDEX_TYPE) for use in uses], (kind,), location=parser.location
        )

    def print_custom(self, printer: Printer) -> None:
        print_query(printer, self.map, self.key)
        printer.write(" : ")
        printer.type(self.value.type)


def parse_query(parser: OpParser) -> list[Unresolved]:
    """``(map:%m, key:%k)``."""
    uses = []
    for opening, word in (("(", "map"), (",", "key")):
        parser.expect(opening)
        parser.expect(word)
        parser.expect(":", f"behind '{word}'")
        uses.append(parser.parse_operand())
    parser.expect(")", "behind the key")
    return uses


def print_query(printer: Printer, map: Value, key: Value) -> None:
    """The inverse of `parse_query`."""
    printer.write("(map:")
    printer.operand(map)
    printer.write(", key:")
    printer.operand(key)
    printer.write(")")


@operation("uniform.yield", assembly="attr-dict ($values^ `:` type($values))?", traits=(PURE, TERMINATOR))
class UniformYield(Operation):
    """Ends a region of `uniformize_regions` or `equalize_pattern`."""

    values = variadic_operand()


def _yield() -> Operation:
    return UniformYield.create()


class _UnitRegions(Operation):
    """Regions that run on the units listed for each; `list_sizes` counts the units of every region."""

    def unit_lists(self) -> list[tuple[Value, ...]]:
        """The units of every region."""
        sizes = self.attributes.get("list_sizes")
        assert isinstance(sizes, DenseArrayAttr)
        lists, start = [], 0
        for size in sizes:
            lists.append(self.operands[start : start + size])
            start += size
        return lists

    @staticmethod
    def parse_unit_regions(parser: OpParser) -> tuple[list[Value], list[Region], DenseArrayAttr]:
        units: list[Value] = []
        regions: list[Region] = []
        sizes: list[int] = []
        parser.expect("{", "in front of the regions")
        while parser.accept("("):
            argument = parser.parse_operand()
            parser.expect("->", "behind the region's argument")
            uses = parser.parse_operand_list()
            parser.expect(")", "behind the units")
            units += [parser.resolve(use, INDEX_TYPE) for use in uses]
            sizes.append(len(uses))
            location = parser.location_at(argument.offset)
            regions.append(parser.parse_region([(argument.name, INDEX_TYPE, location)]))
        parser.expect("}", "behind the regions")
        return units, regions, DenseArrayAttr(I64, tuple(sizes))

    def print_unit_regions(self, printer: Printer) -> None:
        printer.write(" {")
        for units, body in zip(self.unit_lists(), self.regions, strict=True):
            printer.newline()
            printer.write("  (")
            printer.operand(body.block.arguments[0])
            printer.write(" -> ")
            printer.operands(units)
            printer.write(")")
            printer.region(body, print_entry_arguments=False, owner=self.name)
        printer.newline()
        printer.write("}")

    def unit_rules(self, verifier: Verifier) -> Iterator[str]:
        from dfsched.dialects.dataflow import CreateGroup, GetUnit

        if len(set(self.operands)) != len(self.operands):
            yield "duplicated unit SSAs found!"
        for units in self.unit_lists():
            definers = [verifier.definer(unit) for unit in units]
            if len(units) == 1 and not isinstance(definers[0], GetUnit | CreateGroup):
                yield "region's unit_list must be programUnitOp or createGroupOp type!"
            if len(units) > 1 and not all(isinstance(definer, GetUnit) for definer in definers):
                yield "when unit_list size > 1, all units must be programUnitOp!"


@operation("uniform.uniformize_regions", implicit_terminator=_yield)
class UniformizeRegions(_UnitRegions):
    """Each region runs on its units, with its argument bound to the executing unit."""

    units = variadic_operand(INDEX)
    outputs = variadic_result()
    list_sizes = optional_attribute(DenseArrayAttr)
    reg_indices = optional_attribute(ArrayAttr, name="regIndices")
    reg_locales = optional_attribute(ArrayAttr, name="regLocales")
    bodies = variadic_region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        types: list[Type] = []
        if parser.accept("->"):
            if parser.accept("("):
                parser.expect(")", "behind an empty list of types")
            else:
                types = parser.parse_type_list()
        units, regions, sizes = cls.parse_unit_regions(parser)
        attributes: dict[str, Any] = parser.parse_attr_dict()
        attributes["list_sizes"] = sizes
        return cls.create(units, types, attributes, regions, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" -> ")
        if self.results:
            printer.types([value.type for value in self.results])
        else:
            printer.write("()")
        self.print_unit_regions(printer)
        printer.attr_dict(self.attributes, elided=("list_sizes",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self.unit_rules(verifier)
        for body in self.regions:
            if len(body.block.terminator.operands) != len(self.results):
                yield (
                    "The size of the operands in the yieldOp of a uniformize_regionsOp region differs from "
                    "the size of its results."
                )


@operation("uniform.equalize_pattern", implicit_terminator=_yield)
class EqualizePattern(_UnitRegions):
    """Regions of equal form for different units."""

    units = variadic_operand(INDEX)
    list_sizes = optional_attribute(DenseArrayAttr)
    bodies = variadic_region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        units, regions, sizes = cls.parse_unit_regions(parser)
        return cls.create(units, (), {"list_sizes": sizes}, regions, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        self.print_unit_regions(printer)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from self.unit_rules(verifier)
        if len(self.regions) < 2:
            yield "expected at least two regions"
            return
        names = [[op.name for op in body.block.operations] for body in self.regions]
        if len({len(sequence) for sequence in names}) > 1:
            yield "regions have different operation size."
        elif any(sequence != names[0] for sequence in names):
            yield "Operation sequences different."


UNIFORM = Dialect(
    "uniform", operations=(DefImmutableMapping, QueryMap, UniformYield, UniformizeRegions, EqualizePattern)
)
