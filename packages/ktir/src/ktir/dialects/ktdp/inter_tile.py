"""Communication between compute tiles: produce, reduce, consume (KTIR spec 1.13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktir.affine import AffineError, AffineSet, Constraint, Dim
from ktir.attribute import Attribute
from ktir.attributes import AffineSetAttr
from ktir.constraints import ANY
from ktir.dialects.ktdp.types import TILE_FUTURE, TileFutureType
from ktir.errors import Diagnostic
from ktir.ir import Operation, Value
from ktir.opdef import (
    TERMINATOR,
    attribute,
    operand,
    operation,
    optional_attribute,
    region,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import IndexType, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


@operation(
    "ktdp.yield_partial",
    assembly="($partials^ `:` type($partials))? attr-dict",
    traits=(TERMINATOR,),
    parents=("ktdp.inter_tile_produce",),
)
class YieldPartial(Operation):
    """Publishes a tile's contributions, one per role."""

    partials = variadic_operand(ANY)


@operation(
    "ktdp.yield_reduced",
    assembly="($values^ `:` type($values))? attr-dict",
    traits=(TERMINATOR,),
    parents=("ktdp.inter_tile_reduce",),
)
class YieldReduced(Operation):
    """The combination of two contributions, one value per role."""

    values = variadic_operand(ANY)


def _set(attribute: Attribute | None) -> AffineSet | None:
    return attribute.set if isinstance(attribute, AffineSetAttr) else None


def _parse_set(parser: OpParser, name: str) -> AffineSetAttr:
    parser.expect(name)
    parser.expect("=", f"behind '{name}'")
    return AffineSetAttr(parser.parse_affine_set())


def _print_set(printer: Printer, name: str, value: AffineSetAttr) -> None:
    printer.write(f"{name} = ")
    printer.attribute(value)


@operation("ktdp.inter_tile_produce", implicit_terminator=lambda: YieldPartial.create())
class InterTileProduce(Operation):
    """Every tile of a group evaluates the region and publishes what it yields; does not block."""

    producer_tiles_per_group = attribute(AffineSetAttr)
    body = region()
    future = result(TILE_FUTURE)

    @property
    def future_type(self) -> TileFutureType:
        found = self.future.type
        assert isinstance(found, TileFutureType)
        return found

    @classmethod
    def parse_custom(cls, parser: OpParser) -> InterTileProduce:
        producers = _parse_set(parser, "producer_tiles_per_group")
        attributes = parser.parse_attr_dict()
        attributes["producer_tiles_per_group"] = producers
        repeated: list[Type] | None = None
        if parser.accept(":"):  # older spelling: the partial types stand in front of the arrow, too
            repeated = parser.parse_type_list()
        parser.expect("->", "in front of the future's type")
        start = parser.offset
        type = parser.parse_stripped_type(TileFutureType)
        if repeated is not None and isinstance(type, TileFutureType) and tuple(repeated) != type.partials:
            raise parser.error_at(start, "partial types in front of '->' do not match the future's")
        body = parser.parse_region()
        return cls.create([], [type], attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        _print_set(printer, "producer_tiles_per_group", self.producer_tiles_per_group)
        printer.attr_dict(self.attributes, elided=("producer_tiles_per_group",))
        printer.write(" -> ")
        printer.stripped_type(self.future.type)
        printer.write(" ")
        printer.region(self.body, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        future = self.future_type
        block = self.body.blocks[0] if self.body.blocks else None
        if block is None or [type(a.type) for a in block.arguments] != [IndexType]:
            yield "producer region must take a single `index` group-id argument"
        producers = self.producer_tiles_per_group.set
        if producers.num_symbols != 1:
            yield "`producer_tiles_per_group` must have exactly one symbol (the group index g)"
        elif producers.num_dims == 1:
            yield from _overlap(producers, future.groups)
        terminator = block.operations[-1] if block is not None and block.operations else None
        if isinstance(terminator, YieldPartial):
            yield from _yielded(
                terminator.partials,
                future.partials,
                "yield_partial",
                "the future carries {} partial type(s)",
                "future partial",
            )


def _yielded(
    values: Sequence[Value], expected: Sequence[Type], name: str, count_text: str, kind: str
) -> Iterator[str]:
    if len(values) != len(expected):
        yield f"{name} yields {len(values)} values but " + count_text.format(len(expected))
        return
    verb = "does not match" if kind == "future partial" else "must match"
    for number, (value, wanted) in enumerate(zip(values, expected, strict=True)):
        if value.type != wanted:
            yield f"{name} operand #{number} type {value.type} {verb} {kind} type {wanted}"


def members(tiles: AffineSet, symbols: Sequence[int]) -> tuple[int, ...] | None:
    """The tile numbers in a set, ascending from 0; None where it has no finite bound (spec 1.13.1)."""
    natural = AffineSet(1, tiles.num_symbols, (*tiles.constraints, Constraint(Dim(0), False)))
    try:
        return tuple(int(i) for (i,) in natural.points(symbols, limit=1 << 16).tolist())
    except AffineError:
        return None


def group_numbers(groups: AffineSet) -> tuple[int, ...]:
    """The group numbers of a future; none where they cannot be enumerated."""
    try:
        return tuple(int(g) for (g,) in groups.points(limit=1 << 12).tolist())
    except AffineError:
        return ()


def _overlap(producers: AffineSet, groups: AffineSet) -> Iterator[str]:
    """Rule R1; skipped where the sets have no finite bounds."""
    owner: dict[int, int] = {}
    for group in group_numbers(groups):
        for tile in members(producers, [group]) or ():
            first = owner.setdefault(tile, group)
            if first != group:
                yield f"producer_tiles_per_group for groups {first} and {group} are not disjoint"
                return


def _consumers_symbol(consumers: AffineSet) -> Iterator[str]:
    if consumers.num_symbols != 1:
        yield "`consumer_tiles_per_group` must have exactly one symbol (the group index g)"


@operation("ktdp.inter_tile_reduce", implicit_terminator=lambda: YieldReduced.create())
class InterTileReduce(Operation):
    """Every consumer gets the fold of its group's contributions with the combiner region; blocks."""

    future = operand(TILE_FUTURE)
    identities = variadic_operand(ANY)
    consumer_tiles_per_group = attribute(AffineSetAttr)
    producer_dependency_per_consumer = optional_attribute(AffineSetAttr)
    body = region()
    outputs = variadic_result(ANY)

    @property
    def future_type(self) -> TileFutureType:
        found = self.future.type
        assert isinstance(found, TileFutureType)
        return found

    @classmethod
    def parse_custom(cls, parser: OpParser) -> InterTileReduce:
        parser.expect("(", "behind the operation's name")
        use = parser.parse_operand()
        parser.expect(")", "behind the future")
        attributes: dict[str, Attribute] = {
            "consumer_tiles_per_group": _parse_set(parser, "consumer_tiles_per_group")
        }
        parser.expect(",", "behind the consumers")
        if parser.at("producer_dependency_per_consumer"):
            attributes["producer_dependency_per_consumer"] = _parse_set(
                parser, "producer_dependency_per_consumer"
            )
            parser.expect(",", "behind the dependency")
        parser.expect("identity")
        parser.expect("(", "behind 'identity'")
        identities = parser.parse_operand_list()
        identity_types: list[Type] = []
        if identities:
            parser.expect(":", "behind the identities")
            identity_types = parser.parse_type_list()
        parser.expect(")", "behind the identities' types")
        attributes.update(parser.parse_attr_dict())
        parser.expect(":", "in front of the future's type")
        type = parser.parse_stripped_type(TileFutureType)
        parser.expect("->", "behind the future's type")
        outputs = parser.parse_type_list()
        operands = [parser.resolve(use, type), *parser.resolve_all(identities, identity_types)]
        body = parser.parse_region()
        return cls.create(operands, outputs, attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write("(")
        printer.operand(self.future)
        printer.write(") ")
        _print_set(printer, "consumer_tiles_per_group", self.consumer_tiles_per_group)
        printer.write(", ")
        if self.producer_dependency_per_consumer is not None:
            _print_set(printer, "producer_dependency_per_consumer", self.producer_dependency_per_consumer)
            printer.write(", ")
        printer.write("identity(")
        printer.operands(self.identities)
        if self.identities:
            printer.write(" : ")
            printer.types([v.type for v in self.identities])
        printer.write(")")
        printer.attr_dict(
            self.attributes, elided=("consumer_tiles_per_group", "producer_dependency_per_consumer")
        )
        printer.write(" : ")
        printer.stripped_type(self.future.type)
        printer.write(" -> ")
        printer.types([v.type for v in self.outputs])
        printer.write(" ")
        printer.region(self.body, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        partials = self.future_type.partials
        outputs = tuple(v.type for v in self.outputs)
        if outputs != partials:
            yield "failed to verify that result types must match future partial types"
        if tuple(v.type for v in self.identities) != outputs:
            yield "failed to verify that identity types must match result types"
        yield from _consumers_symbol(self.consumer_tiles_per_group.set)
        yield from self._verify_region(partials)

    def _verify_region(self, partials: Sequence[Type]) -> Iterator[str]:
        block = self.body.blocks[0] if self.body.blocks else None
        arguments = block.arguments if block is not None else ()
        roles = len(partials)
        if len(arguments) != 2 * roles:
            yield f"reducer region must take 2*N arguments, got {len(arguments)}"
            return
        for role, wanted in enumerate(partials):
            if arguments[role].type != wanted or arguments[roles + role].type != wanted:
                yield f"reducer region argument pair #{role} must both have partial type {wanted}"
        terminator = block.operations[-1] if block is not None and block.operations else None
        if isinstance(terminator, YieldReduced):
            yield from _yielded(terminator.values, partials, "yield_reduced", "expected {}", "partial")


@operation("ktdp.inter_tile_consume")
class InterTileConsume(Operation):
    """Every consumer receives exactly one producer's contribution; blocks."""

    future = operand(TILE_FUTURE)
    consumer_tiles_per_group = attribute(AffineSetAttr)
    producer_dependency_per_consumer = optional_attribute(AffineSetAttr)
    outputs = variadic_result(ANY)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> InterTileConsume:
        parser.expect("(", "behind the operation's name")
        use = parser.parse_operand()
        parser.expect(")", "behind the future")
        attributes: dict[str, Attribute] = {
            "consumer_tiles_per_group": _parse_set(parser, "consumer_tiles_per_group")
        }
        if parser.accept(","):
            attributes["producer_dependency_per_consumer"] = _parse_set(
                parser, "producer_dependency_per_consumer"
            )
        attributes.update(parser.parse_attr_dict())
        parser.expect(":", "in front of the future's type")
        type = parser.parse_stripped_type(TileFutureType)
        parser.expect("->", "behind the future's type")
        outputs = parser.parse_type_list()
        return cls.create([parser.resolve(use, type)], outputs, attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write("(")
        printer.operand(self.future)
        printer.write(") ")
        _print_set(printer, "consumer_tiles_per_group", self.consumer_tiles_per_group)
        if self.producer_dependency_per_consumer is not None:
            printer.write(", ")
            _print_set(printer, "producer_dependency_per_consumer", self.producer_dependency_per_consumer)
        printer.attr_dict(
            self.attributes, elided=("consumer_tiles_per_group", "producer_dependency_per_consumer")
        )
        printer.write(" : ")
        printer.stripped_type(self.future.type)
        printer.write(" -> ")
        printer.types([v.type for v in self.outputs])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        assert isinstance(self.future.type, TileFutureType)
        if tuple(v.type for v in self.outputs) != self.future.type.partials:
            yield "failed to verify that result types must match future partial types"
        consumers = self.consumer_tiles_per_group.set
        yield from _consumers_symbol(consumers)
        if consumers.num_dims != 1:
            yield "`consumer_tiles_per_group` must have exactly one dimension (the tile id i)"
        dependency = _set(self.producer_dependency_per_consumer)
        if dependency is not None and dependency.num_symbols not in (1, 2):
            yield "`producer_dependency_per_consumer` must have one symbol (c) or two symbols (c, g)"
        if dependency is not None and dependency.num_dims != 1:
            yield (
                "`producer_dependency_per_consumer` must have exactly one dimension (the producer tile id p)"
            )


__all__ = [
    "InterTileConsume",
    "InterTileProduce",
    "InterTileReduce",
    "YieldPartial",
    "YieldReduced",
]
