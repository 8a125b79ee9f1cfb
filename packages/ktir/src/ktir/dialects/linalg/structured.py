"""Structured operations: inputs, outputs, maps, iterators, a scalar body; the general one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import attrs

from ktir.affine import AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayAttr,
    IntegerAttr,
    StringAttr,
)
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation, Region, Value
from ktir.location import UNKNOWN, Location
from ktir.opdef import (
    OPERAND_SEGMENTS,
    PURE,
    RECURSIVE_EFFECTS,
    SINGLE_BLOCK,
    TERMINATOR,
    attribute,
    operation,
    optional_attribute,
    region,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import I32, I64, ShapedType, TensorType, Type
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import AttributeParser, OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


ITERATOR_TYPES = ("parallel", "reduction", "window")


@attrs.frozen
class IteratorType(Attribute):
    """``#linalg.iterator_type<parallel>``."""

    mnemonic = "linalg.iterator_type"
    kind: str = "parallel"

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        parser.expect("<")
        if not parser.at(*ITERATOR_TYPES):
            parser.cursor.expected(f"one of: {', '.join(ITERATOR_TYPES)}")
        kind = parser.keyword()
        parser.expect(">")
        return cls(kind)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.kind}>")


def element(type: Type) -> Type:
    """The element type of a shaped type, the type itself otherwise."""
    return type.element if isinstance(type, ShapedType) else type


def rank(type: Type) -> int:
    """The rank of a shaped type, 0 for scalars."""
    return type.rank if isinstance(type, ShapedType) else 0


class LinalgOp(Operation):
    """What all structured operations share: inputs, outputs, maps, iterators, a scalar body."""

    @property
    def input_values(self) -> tuple[Value, ...]:
        """The ``ins``."""
        raise NotImplementedError

    @property
    def output_values(self) -> tuple[Value, ...]:
        """The ``outs`` (initial values)."""
        raise NotImplementedError

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        """One map from iteration space to operand space for every input, then every output."""
        raise NotImplementedError

    @property
    def iterators(self) -> tuple[str, ...]:
        """``parallel`` or ``reduction`` for every loop, outermost first."""
        raise NotImplementedError

    def loop_extents(self) -> tuple[int | None, ...]:
        """Extents of the loops, from the operands' shapes; None where only dynamic extents tell.

        ValueError if two operands disagree.
        """
        extents: list[int | None] = [None] * len(self.iterators)
        operands = (*self.input_values, *self.output_values)
        for number, (value, map) in enumerate(zip(operands, self.maps, strict=True)):
            shape = value.type.shape if isinstance(value.type, ShapedType) else ()
            for position, (expr, extent) in enumerate(zip(map.results, shape, strict=False)):
                if not isinstance(expr, Dim) or extent is None:
                    continue
                known = extents[expr.position]
                if known is not None and known != extent:
                    raise ValueError(
                        f"inferred input/output operand #{number} has shape's dimension #{position} to be "
                        f"{known}, but found {extent}"
                    )
                extents[expr.position] = extent
        return tuple(extents)

    def built(self) -> Self:
        """The operation with the body that its custom form stands for, if that form leaves the body out."""
        return self

    def has_custom_form(self) -> bool:
        """Not with a body that reading the custom form would not give back."""
        from ktir.transforms.equivalence import alpha_equivalent

        built = self.built()
        return built is self or alpha_equivalent(self, self.replace(regions=built.regions))

    def argument_names(self, region: int) -> Sequence[str | None]:
        return [*(["in"] * len(self.input_values)), *(["out"] * len(self.output_values))]

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        operands = (*self.input_values, *self.output_values)
        maps, iterators = self.maps, self.iterators
        if len(maps) != len(operands):
            yield finding(
                f"expected the number of indexing_map ({len(maps)}) to be equal to the number of "
                f"input/output operands ({len(operands)})",
                "one map for each operand: ins first, then outs",
            )
            return
        for number, (map, value) in enumerate(zip(maps, operands, strict=True)):
            if map.num_symbols:
                yield finding(
                    f"unexpected symbols in indexing_map #{number}",
                    "write dimensions in parentheses: (d0) -> (d0)",
                )
            if map.num_dims != len(iterators):
                yield finding(
                    f"expected indexing_map #{number} to have {len(iterators)} dim(s) to match the number "
                    "of loops",
                    f"iterator_types lists {len(iterators)} loops, the map is affine_map<{map}>",
                )
                return
            if len(map.results) != rank(value.type):
                yield finding(
                    f"expected operand rank ({rank(value.type)}) to match the result rank of indexing_map "
                    f"#{number} ({len(map.results)})",
                    f"operand #{number} is {value.type}, its map affine_map<{map}>",
                )
                return
        try:
            self.loop_extents()
        except ValueError as error:
            types = ", ".join(str(value.type) for value in operands)
            yield finding(str(error), f"the operands are {types}; extents are not broadcast")
        yield from self._verify_results()
        yield from self._verify_body()

    def _verify_results(self) -> Iterator[Diagnostic]:
        tensors = [v.type for v in self.output_values if isinstance(v.type, TensorType)]
        if [r.type for r in self.results] != tensors:
            yield finding(
                f"expected the number of tensor results ({len(self.results)}) and their types to match "
                f"the tensor outputs ({len(tensors)})",
                f"expected -> {', '.join(map(str, tensors)) or 'nothing'}: one result per tensor of outs",
            )

    def _verify_body(self) -> Iterator[Diagnostic]:
        if len(self.regions[0].blocks) != 1:
            yield finding("expects a region with one block", "it computes one element per iteration")
            return
        block = self.regions[0].block
        operands = (*self.input_values, *self.output_values)
        if len(block.arguments) != len(operands):
            wanted = ", ".join(str(element(value.type)) for value in operands)
            yield finding(
                "expected as many non-induction variable region arguments as the number of input/output "
                f"operands: {len(operands)} vs {len(block.arguments)}",
                f"expected arguments of types ({wanted})",
            )
            return
        for number, (argument, value) in enumerate(zip(block.arguments, operands, strict=True)):
            if argument.type != element(value.type):
                yield finding(
                    f"expected type of bb argument #{number} ('{argument.type}') to match element or self "
                    f"type of the corresponding operand ('{element(value.type)}')",
                    f"operand #{number} is {value.type}",
                )
        yield from self._verify_yield()

    def _verify_yield(self) -> Iterator[Diagnostic]:
        terminator = self.regions[0].block.terminator
        if not isinstance(terminator, Yield):
            yield finding("expects its body to end in 'linalg.yield'", f"it ends in '{terminator.name}'")
            return
        wanted = [element(v.type) for v in self.output_values]
        given = [v.type for v in terminator.values]
        if len(given) != len(wanted):
            yield finding(
                f"expected number of yield values ({len(given)}) to match the number of inits / outs "
                f"operands of the enclosing LinalgOp ({len(wanted)})",
                f"expected linalg.yield of {', '.join(map(str, wanted))}",
            )
        for number, (have, want) in enumerate(zip(given, wanted, strict=False)):
            if have != want:
                yield finding(
                    f"type of yield operand {number + 1} ('{have}') doesn't match the element type of the "
                    f"enclosing linalg op ('{want}')",
                    f"expected linalg.yield of {', '.join(map(str, wanted))}",
                )


@operation("linalg.yield", assembly="attr-dict ($values^ `:` type($values))?", traits=(TERMINATOR, PURE))
class Yield(Operation):
    """The scalar results of a structured operation's body."""

    values = variadic_operand()


@operation("linalg.index", assembly="$dim attr-dict `:` type($result)", traits=(PURE,))
class Index(Operation):
    """The value of loop `dim` of the structured operation around it."""

    dim = attribute(IntegerAttr, type=I64)
    result = result()

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        parent = verifier.parent(self)
        if not isinstance(parent, LinalgOp):
            around = "the top level" if parent is None else f"'{parent.name}'"
            yield finding("expected parent op with LinalgOp interface", f"it stands in {around}")
        elif not 0 <= self.dim.value < len(parent.iterators):
            yield finding(
                f"expected dim ({self.dim.value}) to be lower than the number of loops "
                f"({len(parent.iterators)}) of the enclosing LinalgOp",
                "loops are numbered from 0, in the order of the maps' dimensions",
            )
        if self.result.type != INDEX_TYPE:
            yield finding(f"result #0 must be index, but got '{self.result.type}'", "cast it where needed")


def _parse_group(parser: OpParser, keyword: str) -> list[Value]:
    """``keyword(%a, %b : type, type)``; the whole group may be left out."""
    if not parser.accept(keyword):
        return []
    parser.expect("(", f"behind '{keyword}'")
    uses = parser.parse_operand_list()
    types: list[Type] = []
    if uses:
        parser.expect(":", "in front of the operand types")
        types = parser.parse_type_list()
    parser.expect(")", f"behind the {keyword} types")
    return parser.resolve_all(uses, types)


def _print_group(printer: Printer, keyword: str, values: Sequence[Value]) -> None:
    if not values:
        return
    printer.write(f" {keyword}(")
    printer.operands(values)
    printer.write(" : ")
    printer.types([value.type for value in values])
    printer.write(")")


def _segments(ins: Sequence[Value], outs: Sequence[Value]) -> DenseArrayAttr:
    return DenseArrayAttr(I32, (len(ins), len(outs)))


class _InsOuts(LinalgOp):
    """Structured operations with any number of inputs and outputs."""

    inputs = variadic_operand()
    outputs = variadic_operand()
    outcomes = variadic_result()

    @property
    def input_values(self) -> tuple[Value, ...]:
        return self.inputs

    @property
    def output_values(self) -> tuple[Value, ...]:
        return self.outputs


@operation("linalg.generic", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Generic(_InsOuts):
    """The general structured operation."""

    indexing_maps = attribute(ArrayAttr)
    iterator_types = attribute(ArrayAttr)
    doc = optional_attribute(StringAttr)
    library_call = optional_attribute(StringAttr)
    body = region()

    @classmethod
    def build(
        cls,
        ins: Sequence[Value],
        outs: Sequence[Value],
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
        body: Region,
        attributes: Mapping[str, Attribute] | None = None,
        location: Location = UNKNOWN,
    ) -> Generic:
        """A generic with one tensor result for every tensor output."""
        entries: dict[str, Attribute] = {
            **(attributes or {}),
            "indexing_maps": ArrayAttr(tuple(AffineMapAttr(map) for map in maps)),
            "iterator_types": ArrayAttr(tuple(IteratorType(kind) for kind in iterators)),
            OPERAND_SEGMENTS: _segments(ins, outs),
        }
        types = [v.type for v in outs if isinstance(v.type, TensorType)]
        return cls.create((*ins, *outs), types, entries, (body,), location=location)

    @property
    def maps(self) -> tuple[AffineMap, ...]:
        return tuple(a.map for a in self.indexing_maps if isinstance(a, AffineMapAttr))

    @property
    def iterators(self) -> tuple[str, ...]:
        return tuple(
            a.kind if isinstance(a, IteratorType) else a.value if isinstance(a, StringAttr) else "?"
            for a in self.iterator_types
        )

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Generic:
        start = parser.offset
        if not parser.at("{"):
            parser.cursor.expected("'{' with the traits of linalg.generic")
        attributes = parser.parse_attr_dict()
        kinds = attributes.get("iterator_types")
        if isinstance(kinds, ArrayAttr):
            converted: list[Attribute] = []
            for kind in kinds:
                if isinstance(kind, StringAttr) and kind.value not in ITERATOR_TYPES:
                    raise parser.error_at(start, f"unknown iterator type '{kind.value}'")
                converted.append(IteratorType(kind.value) if isinstance(kind, StringAttr) else kind)
            attributes["iterator_types"] = ArrayAttr(tuple(converted))
        ins = _parse_group(parser, "ins")
        outs = _parse_group(parser, "outs")
        if parser.accept("attrs"):
            parser.expect("=", "behind 'attrs'")
            attributes.update(parser.parse_attr_dict())
        body = parser.parse_region()
        types = parser.parse_result_types() if parser.accept("->") else []
        attributes[OPERAND_SEGMENTS] = _segments(ins, outs)
        return cls.create((*ins, *outs), types, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        shown = ("doc", "indexing_maps", "library_call", "iterator_types")
        printer.write(" {")
        first = True
        for name in shown:
            value = self.attributes.get(name)
            if value is None:
                continue
            printer.write("" if first else ", ")
            printer.write(f"{name} = ")
            first = False
            if name == "iterator_types":
                printer.attribute(ArrayAttr(tuple(StringAttr(kind) for kind in self.iterators)))
            else:
                printer.attribute(value)
        printer.write("}")
        _print_group(printer, "ins", self.inputs)
        _print_group(printer, "outs", self.outputs)
        rest = {k: v for k, v in self.attributes.items() if k not in (*shown, OPERAND_SEGMENTS)}
        if rest:
            printer.write(" attrs =")
            printer.attr_dict(rest)
        printer.write(" ")
        printer.region(self.body, owner=self.name)
        if self.outcomes:
            printer.write(" -> ")
            printer.result_types([v.type for v in self.outcomes])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if any(kind not in ITERATOR_TYPES for kind in self.iterators):
            yield finding(
                "unexpected iterator_type", f"one of {', '.join(ITERATOR_TYPES)}; got {self.iterator_types}"
            )
            return
        if len(self.maps) != len(self.indexing_maps):
            yield finding(
                "attribute 'indexing_maps' failed to satisfy constraint: AffineMap array attribute",
                f"got {self.indexing_maps}",
            )
            return
        yield from LinalgOp.verify_op(self, verifier)
