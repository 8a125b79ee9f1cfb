"""Reduce, broadcast, transpose and map: operations with a list of dimensions or a mapper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from ktir.affine import AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import (
    DenseArrayAttr,
)
from ktir.errors import Diagnostic, finding
from ktir.ir import BlockArgument, Operation, Region, UnregisteredOp, Value
from ktir.location import UNKNOWN, Location
from ktir.opdef import (
    RECURSIVE_EFFECTS,
    SINGLE_BLOCK,
    attribute,
    operation,
    region,
    variadic_operand,
    variadic_result,
)
from ktir.types import I64, TensorType, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

from ktir.dialects.linalg.structured import (
    LinalgOp,
    Yield,
    _parse_group,
    _print_group,
    element,
    rank,
)


def _dimension_list(parser: OpParser, keyword: str) -> DenseArrayAttr:
    parser.expect(keyword, "in the operation")
    parser.expect("=", f"behind '{keyword}'")
    return DenseArrayAttr(I64, tuple(parser.parse_comma_list("[", "]", parser.parse_integer)))


def _shorthand(parser: OpParser) -> tuple[str, dict[str, Attribute]] | None:
    """``{ arith.addf }``: the name of the operation that makes the body."""
    if not parser.accept("{"):
        return None
    start = parser.offset
    name = parser.keyword("the name of an operation")
    if parser.context.operation(name) is None:
        from ktir.parser.suggestions import for_operation

        raise parser.error_at(start, f"custom op '{name}' is unknown", *for_operation(name, parser.context))
    attributes = parser.parse_attr_dict()
    parser.expect("}", "behind the operation's name")
    return name, attributes


def _shorthand_body(
    parser: OpParser,
    name: str,
    attributes: dict[str, Attribute],
    arguments: Sequence[BlockArgument],
    out: Type,
) -> Region:
    cls = parser.context.operation(name)
    assert cls is not None, name
    combined = cls.create(arguments, (out,), attributes, location=parser.location)
    return Region.of((combined, Yield.create(combined.results, location=parser.location)), arguments)


def _is_shorthand(body: Region, order: Sequence[Value], out: Type) -> Operation | None:
    """The only operation of a body that hands its arguments, in order, to one operation and yields it."""
    if len(body.blocks) != 1 or len(body.block.operations) != 2:
        return None
    op, terminator = body.block.operations
    if isinstance(op, UnregisteredOp) or op.regions or op.name.count(".") != 1:
        return None
    if op.operands != tuple(order) or [value.type for value in op.results] != [out]:
        return None
    plain = isinstance(terminator, Yield) and terminator.operands == op.results and not terminator.attributes
    return op if plain else None


def _print_shorthand(printer: Printer, op: Operation) -> None:
    printer.write(f" {{ {op.name}")
    elided = [d.name for d in op.definition.attributes if op.attributes.get(d.name) == d.default]
    printer.attr_dict(op.attributes, elided=elided)
    printer.write(" }")


@operation("linalg.reduce", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Reduce(LinalgOp):
    """Folds inputs over dimensions, starting from the initial values."""

    arguments = variadic_operand()
    outcomes = variadic_result()
    dimensions = attribute(DenseArrayAttr)
    combiner = region()

    def result_names(self) -> Sequence[str | None]:
        return ("reduced", *[None] * (len(self.results) - 1))

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.arguments[: len(self.arguments) // 2]

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.arguments[len(self.arguments) // 2 :]

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        loops = rank(self.arguments[0].type)
        kept = tuple(Dim(d) for d in range(loops) if d not in self.dimensions.values)
        half = len(self.arguments) // 2
        return (AffineMap.identity(loops),) * half + (AffineMap(loops, 0, kept),) * half

    @property
    def iterators(self) -> tuple[str, ...]:
        reduced = self.dimensions.values
        loops = rank(self.arguments[0].type)
        return tuple("reduction" if d in reduced else "parallel" for d in range(loops))

    def argument_names(self, region: int) -> Sequence[str | None]:
        half = len(self.arguments) // 2
        return ["in"] * half + ["init"] * half

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Reduce:
        short = _shorthand(parser)
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        dimensions = _dimension_list(parser, "dimensions")
        attributes = parser.parse_attr_dict()
        attributes["dimensions"] = dimensions
        if short is not None:
            if len(ins) != 1 or len(outs) != 1:
                raise parser.error("the short form of linalg.reduce takes one input and one init")
            arguments = [BlockArgument(element(ins[0].type)), BlockArgument(element(outs[0].type))]
            body = _shorthand_body(parser, short[0], short[1], arguments, arguments[1].type)
        else:
            given = [
                (a.name, a.type, a.location) for a in parser.parse_comma_list("(", ")", parser.parse_argument)
            ]
            body = parser.parse_region(given)
        types = [v.type for v in outs if isinstance(v.type, TensorType)]
        return cls.create((*ins, *outs), types, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        short = None
        if len(self.arguments) == 2:
            out = element(self.arguments[1].type)
            short = _is_shorthand(self.combiner, self.combiner.block.arguments, out)
        if short is not None:
            _print_shorthand(printer, short)
        _print_group(printer, "ins", self.input_values)
        _print_group(printer, "outs", self.output_values)
        printer.write(f" dimensions = {list(self.dimensions.values)} ")
        printer.attr_dict(self.attributes, elided=("dimensions",))
        if short is None:
            _print_arguments(printer, self.combiner)
            printer.region(self.combiner, print_entry_arguments=False, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if len(self.arguments) % 2 or not self.arguments:
            yield finding(
                "expects as many inits as inputs, and at least one", f"got {len(self.arguments)} operands"
            )
            return
        loops = rank(self.arguments[0].type)
        dims = self.dimensions.values
        if list(dims) != sorted(set(dims)):
            yield finding(
                f"dimensions must be sorted and unique, got {list(dims)}", f"expected {sorted(set(dims))}"
            )
            return
        if any(not 0 <= d < loops for d in dims):
            yield finding(
                f"dimensions for reduction should be in the range [0, {loops - 1}].",
                f"the input is {self.arguments[0].type}, got {list(dims)}",
            )
            return
        yield from LinalgOp.verify_op(self, verifier)


def _print_arguments(printer: Printer, body: Region) -> None:
    printer.newline()
    printer.write("  (")
    for number, argument in enumerate(body.block.arguments):
        if number:
            printer.write(", ")
        printer.argument(argument)
    printer.write(") ")


class _OneInOneOut(LinalgOp):
    """One input, one initial value, the value copied over."""

    arguments = variadic_operand()
    outcomes = variadic_result()

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.arguments[:1]

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.arguments[1:]

    @property
    def iterators(self) -> tuple[str, ...]:
        return ("parallel",) * rank(self.arguments[-1].type)

    @classmethod
    def _parse(cls, parser: OpParser, keyword: str) -> Self:
        start = parser.offset
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        dimensions = _dimension_list(parser, keyword)
        attributes = parser.parse_attr_dict()
        attributes[keyword] = dimensions
        if len(ins) != 1 or len(outs) != 1:
            raise parser.error_at(start, f"'{cls.definition.name}' expects 1 input and 1 init")
        return cls.build(ins[0], outs[0], attributes, parser.location)

    @classmethod
    def build(
        cls, input: Value, init: Value, attributes: Mapping[str, Attribute], location: Location = UNKNOWN
    ) -> Self:
        """The operation with its copying body."""
        arguments = [BlockArgument(element(v.type)) for v in (input, init)]
        body = Region.of((Yield.create(arguments[:1], location=location),), arguments)
        types = [init.type] if isinstance(init.type, TensorType) else []
        return cls.create((input, init), types, attributes, (body,), location=location)

    def has_custom_form(self) -> bool:
        return len(self.arguments) == 2 and LinalgOp.has_custom_form(self)

    def built(self) -> Self:
        return self.build(self.arguments[0], self.arguments[1], self.attributes)

    def _print(self, printer: Printer, keyword: str, values: Sequence[int]) -> None:
        _print_group(printer, "ins", self.input_values)
        _print_group(printer, "outs", self.output_values)
        printer.write(f" {keyword} = {list(values)} ")
        printer.attr_dict(self.attributes, elided=(keyword,))


@operation("linalg.broadcast", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Broadcast(_OneInOneOut):
    """Repeats the input along the listed result dimensions."""

    dimensions = attribute(DenseArrayAttr)
    body = region()

    def result_names(self) -> Sequence[str | None]:
        return ("broadcasted", *[None] * (len(self.results) - 1))

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        loops = rank(self.arguments[-1].type)
        kept = tuple(Dim(d) for d in range(loops) if d not in self.dimensions.values)
        return (AffineMap(loops, 0, kept), AffineMap.identity(loops))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls._parse(parser, "dimensions")

    def print_custom(self, printer: Printer) -> None:
        self._print(printer, "dimensions", self.dimensions.values)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, target = rank(self.arguments[0].type), rank(self.arguments[-1].type)
        added = len(self.dimensions)
        if source + added != target:
            yield finding(
                "input rank plus added dimensions does not match init rank. input rank: "
                f"{source}, dimensions size: {added}, init rank: {target}",
                f"list the {max(target - source, 0)} dimensions of the result that the input does not have",
            )
            return
        for number, dim in enumerate(self.dimensions.values):
            if not 0 <= dim < target:
                yield finding(
                    f"dimension {number} is out of range. expected range: [0, {target - 1}], got: {dim}",
                    f"the result is {self.arguments[-1].type}",
                )
                return
        yield from LinalgOp.verify_op(self, verifier)


@operation("linalg.transpose", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Transpose(_OneInOneOut):
    """Result dimension i is input dimension permutation[i]."""

    permutation = attribute(DenseArrayAttr)
    body = region()

    def result_names(self) -> Sequence[str | None]:
        return ("transposed", *[None] * (len(self.results) - 1))

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        order = list(self.permutation.values)
        inverse = tuple(Dim(order.index(d)) for d in range(len(order)))
        return (AffineMap(len(order), 0, inverse), AffineMap.identity(len(order)))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls._parse(parser, "permutation")

    def print_custom(self, printer: Printer) -> None:
        self._print(printer, "permutation", self.permutation.values)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        order = self.permutation.values
        source, target = rank(self.arguments[0].type), rank(self.arguments[-1].type)
        if sorted(order) != list(range(len(order))):
            yield finding(
                "permutation is not valid",
                f"expected the numbers 0 to {source - 1}, each once, got {list(order)}",
            )
            return
        if len(order) != source or source != target:
            yield finding(
                f"size of permutation {len(order)} does not match the argument rank {source}"
                if len(order) != source
                else f"input rank {source} does not match init rank {target}",
                f"from {self.arguments[0].type} to {self.arguments[-1].type} by {list(order)}",
            )
            return
        yield from LinalgOp.verify_op(self, verifier)


@operation("linalg.map", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Map(LinalgOp):
    """Applies a region element by element; its arguments are the inputs' elements only."""

    arguments = variadic_operand()
    outcomes = variadic_result()
    mapper = region()

    def result_names(self) -> Sequence[str | None]:
        return ("mapped", *[None] * (len(self.results) - 1))

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.arguments[:-1]

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.arguments[-1:]

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        return (AffineMap.identity(rank(self.arguments[-1].type)),) * len(self.arguments)

    @property
    def iterators(self) -> tuple[str, ...]:
        return ("parallel",) * rank(self.arguments[-1].type)

    def argument_names(self, region: int) -> Sequence[str | None]:
        return ["in"] * len(self.input_values)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Map:
        short = _shorthand(parser)
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        attributes = parser.parse_attr_dict()
        if len(outs) != 1:
            raise parser.error("linalg.map takes one init")
        if short is not None:
            arguments = [BlockArgument(element(v.type)) for v in ins]
            out = element(outs[0].type)
            body = _shorthand_body(parser, short[0], short[1], arguments, out)
        else:
            given = [
                (a.name, a.type, a.location) for a in parser.parse_comma_list("(", ")", parser.parse_argument)
            ]
            body = parser.parse_region(given)
        types = [v.type for v in outs if isinstance(v.type, TensorType)]
        return cls.create((*ins, *outs), types, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        short = _is_shorthand(self.mapper, self.mapper.block.arguments, element(self.arguments[-1].type))
        if short is not None:
            _print_shorthand(printer, short)
        _print_group(printer, "ins", self.input_values)
        _print_group(printer, "outs", self.output_values)
        printer.attr_dict(self.attributes)
        if short is None:
            _print_arguments(printer, self.mapper)
            printer.region(self.mapper, print_entry_arguments=False, owner=self.name)

    def _verify_body(self) -> Iterator[Diagnostic]:
        if len(self.mapper.blocks) != 1:
            yield finding("expects a region with one block", "it computes one element per iteration")
            return
        block = self.mapper.block
        wanted = [element(v.type) for v in self.input_values]
        if [a.type for a in block.arguments] != wanted:
            yield finding(
                f"expects number of operands to match the arity of mapper, but got: {len(wanted)} and "
                f"{len(block.arguments)}",
                f"expected arguments of types ({', '.join(map(str, wanted))})",
            )
            return
        yield from self._verify_yield()
