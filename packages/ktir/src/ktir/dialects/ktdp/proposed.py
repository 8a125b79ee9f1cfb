"""Deliveries that are proposed, not settled: accepted by ``Context(proposed=True)`` only (KTIR spec 1.13.5).

Each transforms what the producers of a group contribute, along listed axes of the partials. P is the number
of producers that a consumer depends on, C that of consumers of the group; tiles count in ascending order.

- `InterTileReduceScatter`: folds, and gives every consumer its part of C;
- `InterTileGather`: every consumer gets the P contributions one behind the other;
- `InterTileAllToAll`: every consumer gets its part of C of every contribution, one behind the other;
- `InterTileScatter`: every consumer gets its part of C of the only contribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr
from ktir.constraints import ANY
from ktir.dialects.ktdp.inter_tile import (
    CONSUMERS,
    DEPENDENCY,
    Delivery,
    YieldReduced,
    parse_delivery_head,
    parse_delivery_types,
    parse_dependency,
    parse_identity,
    print_delivery_head,
    print_delivery_types,
    print_dependency,
    print_identity,
    verify_combiner,
    verify_consumer_tiles,
    verify_consumers,
    verify_dependency,
)
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation
from ktir.opdef import attribute, operation, region, variadic_operand
from ktir.types import I64, TensorType, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = [
    "PROPOSED",
    "InterTileAllToAll",
    "InterTileGather",
    "InterTileReduceScatter",
    "InterTileScatter",
    "ProposedDelivery",
]


class ProposedDelivery(Delivery):
    """Base of the proposals: a delivery along listed axes.

    `split_by` and `joined_by` name the attributes that list the axes divided among the consumers and those
    multiplied by the number of producers (empty: none).
    """

    split_by: ClassVar[str] = ""
    joined_by: ClassVar[str] = ""
    folds: ClassVar[bool] = False
    older: ClassVar[str] = ""
    """An older name that holds a single axis."""

    @property
    def split_axes(self) -> tuple[int, ...]:
        """The axes that are divided among the consumers."""
        return _axes(self.attributes.get(self.split_by))

    @property
    def joined_axes(self) -> tuple[int, ...]:
        """The axes along which contributions stand one behind the other."""
        return _axes(self.attributes.get(self.joined_by))

    @classmethod
    def axis_attributes(cls) -> tuple[str, ...]:
        """The attributes that list axes, in the order of the text."""
        return tuple(name for name in (cls.split_by, cls.joined_by) if name)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        use, attributes = parse_delivery_head(parser)
        parser.expect(",", "behind the consumers")
        for number, name in enumerate(cls.axis_attributes()):
            if number:
                parser.expect(",", "between the lists of axes")
            attributes[name] = cls._parse_axes(parser, name)
        identities: list[Unresolved] = []
        identity_types: list[Type] = []
        if cls.folds:
            parser.expect(",", "behind the axes")
        more = cls.folds or bool(parser.accept(","))
        if more and parser.at(DEPENDENCY):
            parse_dependency(parser, attributes)
            if cls.folds:
                parser.expect(",", "behind the dependency")
        elif more and not cls.folds:
            raise parser.error(f"expected '{DEPENDENCY}'")
        if cls.folds:
            identities, identity_types = parse_identity(parser)
        attributes.update(parser.parse_attr_dict())
        type, outputs = parse_delivery_types(parser)
        operands = [parser.resolve(use, type), *parser.resolve_all(identities, identity_types)]
        regions = [parser.parse_region()] if cls.folds else []
        return cls.create(operands, outputs, attributes, regions, location=parser.location)

    @classmethod
    def _parse_axes(cls, parser: OpParser, name: str) -> DenseArrayAttr:
        if cls.older and parser.accept(cls.older):
            parser.expect("=", f"behind '{cls.older}'")
            axes: Sequence[int] = (parser.parse_integer(),)
            if parser.accept(":"):
                parser.parse_type()
        else:
            parser.expect(name)
            parser.expect("=", f"behind '{name}'")
            axes = parser.parse_comma_list("[", "]", parser.parse_integer)
        return DenseArrayAttr(I64, tuple(axes))

    def print_custom(self, printer: Printer) -> None:
        print_delivery_head(printer, self)
        for name in self.axis_attributes():
            printer.write(f", {name} = [{', '.join(map(str, _axes(self.attributes.get(name))))}]")
        print_dependency(printer, self)
        if self.folds:
            print_identity(printer, self.operands[1:])
        elided = (CONSUMERS, DEPENDENCY, *self.axis_attributes())
        printer.attr_dict(self.attributes, elided=elided)
        print_delivery_types(printer, self)
        if self.folds:
            printer.write(" ")
            printer.region(self.regions[0], owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        partials = self.future_type.partials
        yield from verify_consumers(self.consumer_tiles_per_group.set)
        yield from verify_consumer_tiles(self.consumer_tiles_per_group.set)
        dependency = self.producer_dependency_per_consumer
        yield from verify_dependency(None if dependency is None else dependency.set)
        for name in self.axis_attributes():
            yield from _verify_axes(name, _axes(self.attributes.get(name)), partials)
        yield from self._verify_results(partials)
        if self.folds:
            if tuple(v.type for v in self.operands[1:]) != partials:
                yield finding(
                    "failed to verify that identity types must match future partial types",
                    f"expected identity(... : {', '.join(map(str, partials))})",
                )
            yield from verify_combiner(self.regions[0], partials)

    def _verify_results(self, partials: Sequence[Type]) -> Iterator[Diagnostic]:
        """One result per role, like its partial but for the extents of the listed axes."""
        if len(self.outputs) != len(partials):
            yield finding(
                f"has {len(self.outputs)} results but the future carries {len(partials)} partial type(s)",
                "expected one result per role",
            )
            return
        listed = {*self.split_axes, *self.joined_axes}
        for number, (value, partial) in enumerate(zip(self.outputs, partials, strict=True)):
            if not isinstance(partial, TensorType):
                continue
            fits = (
                isinstance(value.type, TensorType)
                and value.type.element == partial.element
                and value.type.rank == partial.rank
                and all(
                    axis in listed or extent == wanted
                    for axis, (extent, wanted) in enumerate(zip(value.type.shape, partial.shape, strict=True))
                )
            )
            if not fits:
                yield finding(
                    f"result #{number} type {value.type} does not fit future partial type {partial}",
                    "element type, rank and the extents of other axes stay those of the partial",
                )


def _axes(attribute: Attribute | None) -> tuple[int, ...]:
    return tuple(attribute.values) if isinstance(attribute, DenseArrayAttr) else ()


def _verify_axes(name: str, axes: tuple[int, ...], partials: Sequence[Type]) -> Iterator[Diagnostic]:
    if not axes:
        yield finding(f"{name} must not be empty", "list the axes of the partials to work along, such as [0]")
    if any(a >= b for a, b in pairwise(axes)):
        yield finding(
            f"{name} must be strictly ascending, but got {list(axes)}", f"expected {sorted({*axes})}"
        )
    for partial in partials:
        rank = partial.rank if isinstance(partial, TensorType) else 0
        wrong = [axis for axis in axes if not 0 <= axis < rank]
        if wrong:
            yield finding(
                f"{name} names axis {wrong[0]}, but {partial} has rank {rank}",
                f"axes run from 0 to {rank - 1}",
            )


@operation("ktdp.inter_tile_reduce_scatter", implicit_terminator=lambda: YieldReduced.create())
class InterTileReduceScatter(ProposedDelivery):
    """Folds the contributions of a group; every consumer gets its part of the listed axes."""

    split_by = "scatter_dimensions"
    folds = True
    older = "scatter_dimension"

    identities = variadic_operand(ANY)
    scatter_dimensions = attribute(DenseArrayAttr)
    body = region()


@operation("ktdp.inter_tile_gather")
class InterTileGather(ProposedDelivery):
    """Every consumer gets all contributions, one behind the other along the listed axes."""

    joined_by = "gather_dimensions"

    gather_dimensions = attribute(DenseArrayAttr)


@operation("ktdp.inter_tile_all_to_all")
class InterTileAllToAll(ProposedDelivery):
    """Every consumer gets its part of every contribution, one behind the other."""

    split_by = "split_dimensions"
    joined_by = "concat_dimensions"

    split_dimensions = attribute(DenseArrayAttr)
    concat_dimensions = attribute(DenseArrayAttr)


@operation("ktdp.inter_tile_scatter")
class InterTileScatter(ProposedDelivery):
    """Every consumer gets its part of the group's only contribution."""

    split_by = "scatter_dimensions"

    scatter_dimensions = attribute(DenseArrayAttr)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from super().verify_op(verifier)
        if self.producer_dependency_per_consumer is not None:
            yield finding(
                "takes no producer_dependency_per_consumer",
                "a group has exactly one producer: there is no choice",
            )


PROPOSED: tuple[type[Operation], ...] = (
    InterTileAllToAll,
    InterTileGather,
    InterTileReduceScatter,
    InterTileScatter,
)
