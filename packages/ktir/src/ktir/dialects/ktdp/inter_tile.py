"""Communication between compute tiles: produce, reduce, consume (KTIR spec 1.13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktir.affine import AffineError, AffineSet, Constraint, Dim
from ktir.attribute import Attribute
from ktir.attributes import AffineSetAttr
from ktir.constraints import ANY
from ktir.dialects.ktdp.types import TILE_FUTURE, TileFutureType
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation, Region, Value
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
    from ktir.parser import OpParser, Unresolved
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
    parents=("ktdp.inter_tile_reduce", "ktdp.inter_tile_reduce_scatter"),
)
class YieldReduced(Operation):
    """The combination of two contributions, one value per role."""

    values = variadic_operand(ANY)


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
            yield finding(
                "producer region must take a single `index` group-id argument",
                "begin the region with ^bb0(%g: index): the number of the executing tile's group",
            )
        producers = self.producer_tiles_per_group.set
        if producers.num_symbols != 1:
            yield finding(
                "`producer_tiles_per_group` must have exactly one symbol (the group index g)",
                f"expected affine_set<(i)[g] : ...>, got affine_set<{producers}>",
            )
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
) -> Iterator[Diagnostic]:
    note = f"expected ktdp.{name} of {', '.join(map(str, expected))}"
    if len(values) != len(expected):
        yield finding(f"{name} yields {len(values)} values but " + count_text.format(len(expected)), note)
        return
    verb = "does not match" if kind == "future partial" else "must match"
    for number, (value, wanted) in enumerate(zip(values, expected, strict=True)):
        if value.type != wanted:
            yield finding(f"{name} operand #{number} type {value.type} {verb} {kind} type {wanted}", note)


def members(tiles: AffineSet, symbols: Sequence[int]) -> tuple[int, ...] | None:
    """The tile numbers in a set, ascending from 0; None where it has no finite bound (spec 1.13.1)."""
    try:
        natural = AffineSet(1, tiles.num_symbols, (*tiles.constraints, Constraint(Dim(0), False)))
        return tuple(int(i) for (i,) in natural.points(symbols, limit=1 << 16).tolist())
    except AffineError:
        return None


def group_numbers(groups: AffineSet) -> tuple[int, ...]:
    """The group numbers of a future; none where they cannot be enumerated."""
    try:
        return tuple(int(g) for (g,) in groups.points(limit=1 << 12).tolist())
    except AffineError:
        return ()


def _overlap(producers: AffineSet, groups: AffineSet) -> Iterator[Diagnostic]:
    """Rule R1; skipped where the sets have no finite bounds."""
    owner: dict[int, int] = {}
    for group in group_numbers(groups):
        for tile in members(producers, [group]) or ():
            first = owner.setdefault(tile, group)
            if first != group:
                yield finding(
                    f"producer_tiles_per_group for groups {first} and {group} are not disjoint",
                    f"tile {tile} is in both; a tile contributes to one group at most",
                )
                return


class Delivery(Operation):
    """Base of what takes a future: the consumers of each group, and which producers each of them waits for.

    Without `producer_dependency_per_consumer` a consumer waits for all producers of its group.
    """

    future = operand(TILE_FUTURE)
    consumer_tiles_per_group = attribute(AffineSetAttr)
    producer_dependency_per_consumer = optional_attribute(AffineSetAttr)
    outputs = variadic_result(ANY)

    @property
    def future_type(self) -> TileFutureType:
        found = self.future.type
        assert isinstance(found, TileFutureType)
        return found


CONSUMERS, DEPENDENCY = "consumer_tiles_per_group", "producer_dependency_per_consumer"


def parse_delivery_head(parser: OpParser) -> tuple[Unresolved, dict[str, Attribute]]:
    """``(%future) consumer_tiles_per_group = ...``."""
    parser.expect("(", "behind the operation's name")
    use = parser.parse_operand()
    parser.expect(")", "behind the future")
    return use, {CONSUMERS: _parse_set(parser, CONSUMERS)}


def parse_dependency(parser: OpParser, attributes: dict[str, Attribute]) -> None:
    """``producer_dependency_per_consumer = ...``."""
    attributes[DEPENDENCY] = _parse_set(parser, DEPENDENCY)


def parse_identity(parser: OpParser) -> tuple[list[Unresolved], list[Type]]:
    """``identity(%a, %b : types)``."""
    parser.expect("identity")
    parser.expect("(", "behind 'identity'")
    identities = parser.parse_operand_list()
    types: list[Type] = []
    if identities:
        parser.expect(":", "behind the identities")
        types = parser.parse_type_list()
    parser.expect(")", "behind the identities' types")
    return identities, types


def parse_delivery_types(parser: OpParser) -> tuple[Type, list[Type]]:
    """``: future -> results``."""
    parser.expect(":", "in front of the future's type")
    type = parser.parse_stripped_type(TileFutureType)
    parser.expect("->", "behind the future's type")
    return type, parser.parse_type_list()


def print_delivery_head(printer: Printer, op: Delivery) -> None:
    printer.write("(")
    printer.operand(op.future)
    printer.write(") ")
    _print_set(printer, CONSUMERS, op.consumer_tiles_per_group)


def print_dependency(printer: Printer, op: Delivery) -> None:
    """``, producer_dependency_per_consumer = ...`` where there is one."""
    if op.producer_dependency_per_consumer is not None:
        printer.write(", ")
        _print_set(printer, DEPENDENCY, op.producer_dependency_per_consumer)


def print_identity(printer: Printer, identities: Sequence[Value]) -> None:
    printer.write(", identity(")
    printer.operands(identities)
    if identities:
        printer.write(" : ")
        printer.types([v.type for v in identities])
    printer.write(")")


def print_delivery_types(printer: Printer, op: Delivery) -> None:
    printer.write(" : ")
    printer.stripped_type(op.future.type)
    printer.write(" -> ")
    printer.types([v.type for v in op.outputs])


def verify_consumers(consumers: AffineSet) -> Iterator[Diagnostic]:
    """V-IR5."""
    if consumers.num_symbols != 1:
        yield finding(
            "`consumer_tiles_per_group` must have exactly one symbol (the group index g)",
            f"expected affine_set<(i)[g] : ...>, got affine_set<{consumers}>",
        )


def verify_consumer_tiles(consumers: AffineSet) -> Iterator[Diagnostic]:
    """V-IC2."""
    if consumers.num_dims != 1:
        yield finding(
            "`consumer_tiles_per_group` must have exactly one dimension (the tile id i)",
            f"expected affine_set<(i)[g] : ...>, got affine_set<{consumers}>",
        )


def verify_dependency(dependency: AffineSet | None) -> Iterator[Diagnostic]:
    """V-IC3 and V-IC4."""
    if dependency is None:
        return
    expected = (
        f"expected affine_set<(p)[c] : ...> or affine_set<(p)[c, g] : ...>, got affine_set<{dependency}>"
    )
    if dependency.num_symbols not in (1, 2):
        yield finding(
            "`producer_dependency_per_consumer` must have one symbol (c) or two symbols (c, g)", expected
        )
    if dependency.num_dims != 1:
        yield finding(
            "`producer_dependency_per_consumer` must have exactly one dimension (the producer tile id p)",
            expected,
        )


def verify_combiner(body: Region, partials: Sequence[Type]) -> Iterator[Diagnostic]:
    """V-IR3, V-IR4, V-IR6."""
    block = body.blocks[0] if body.blocks else None
    arguments = block.arguments if block is not None else ()
    roles = len(partials)
    types = ", ".join(str(partial) for partial in (*partials, *partials))
    expected = f"expected ({types}): all left-hand partials, then all right-hand ones"
    if len(arguments) != 2 * roles:
        yield finding(f"reducer region must take 2*N arguments, got {len(arguments)}", expected)
        return
    for role, wanted in enumerate(partials):
        if arguments[role].type != wanted or arguments[roles + role].type != wanted:
            yield finding(
                f"reducer region argument pair #{role} must both have partial type {wanted}", expected
            )
    terminator = block.operations[-1] if block is not None and block.operations else None
    if isinstance(terminator, YieldReduced):
        yield from _yielded(terminator.values, partials, "yield_reduced", "expected {}", "partial")


def verify_results(op: Delivery) -> Iterator[Diagnostic]:
    """V-IR1: as many results as roles, of the partials' types."""
    partials = op.future_type.partials
    if tuple(v.type for v in op.outputs) != partials:
        yield finding(
            "failed to verify that result types must match future partial types",
            f"expected {', '.join(map(str, partials))}: a delivery does not change the shape of a partial",
        )


@operation("ktdp.inter_tile_reduce", implicit_terminator=lambda: YieldReduced.create())
class InterTileReduce(Delivery):
    """Every consumer gets the fold of its group's contributions with the combiner region; blocks."""

    identities = variadic_operand(ANY)
    body = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> InterTileReduce:
        use, attributes = parse_delivery_head(parser)
        parser.expect(",", "behind the consumers")
        if parser.at(DEPENDENCY):
            parse_dependency(parser, attributes)
            parser.expect(",", "behind the dependency")
        identities, identity_types = parse_identity(parser)
        attributes.update(parser.parse_attr_dict())
        type, outputs = parse_delivery_types(parser)
        operands = [parser.resolve(use, type), *parser.resolve_all(identities, identity_types)]
        body = parser.parse_region()
        return cls.create(operands, outputs, attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        print_delivery_head(printer, self)
        print_dependency(printer, self)
        print_identity(printer, self.identities)
        printer.attr_dict(self.attributes, elided=(CONSUMERS, DEPENDENCY))
        print_delivery_types(printer, self)
        printer.write(" ")
        printer.region(self.body, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from verify_results(self)
        outputs = tuple(v.type for v in self.outputs)
        if tuple(v.type for v in self.identities) != outputs:
            yield finding(
                "failed to verify that identity types must match result types",
                f"expected identity(... : {', '.join(map(str, outputs))})",
            )
        yield from verify_consumers(self.consumer_tiles_per_group.set)
        yield from verify_combiner(self.body, self.future_type.partials)


@operation("ktdp.inter_tile_consume")
class InterTileConsume(Delivery):
    """Every consumer receives exactly one producer's contribution; blocks."""

    @classmethod
    def parse_custom(cls, parser: OpParser) -> InterTileConsume:
        use, attributes = parse_delivery_head(parser)
        if parser.accept(","):
            parse_dependency(parser, attributes)
        attributes.update(parser.parse_attr_dict())
        type, outputs = parse_delivery_types(parser)
        return cls.create([parser.resolve(use, type)], outputs, attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        print_delivery_head(printer, self)
        print_dependency(printer, self)
        printer.attr_dict(self.attributes, elided=(CONSUMERS, DEPENDENCY))
        print_delivery_types(printer, self)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from verify_results(self)
        consumers = self.consumer_tiles_per_group.set
        yield from verify_consumers(consumers)
        yield from verify_consumer_tiles(consumers)
        dependency = self.producer_dependency_per_consumer
        yield from verify_dependency(None if dependency is None else dependency.set)


__all__ = [
    "Delivery",
    "InterTileConsume",
    "InterTileProduce",
    "InterTileReduce",
    "YieldPartial",
    "YieldReduced",
]
