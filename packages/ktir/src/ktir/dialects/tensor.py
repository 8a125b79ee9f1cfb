"""The ``tensor`` dialect (ktir spec 3.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr, int_array
from ktir.constraints import INDEX, RANKED_TENSOR, TENSOR
from ktir.context import Dialect
from ktir.dialects.slices import (
    is_rank_reduced,
    out_of_bounds,
    parse_element,
    print_element,
    static_array,
    static_values,
)
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation
from ktir.opdef import (
    OPERAND_SEGMENTS,
    PURE,
    RECURSIVE_EFFECTS,
    SINGLE_BLOCK,
    TERMINATOR,
    attribute,
    operand,
    operation,
    region,
    result,
    variadic_operand,
)
from ktir.types import I32, I64, IndexType, IntegerType, TensorType, Type, element_or_self
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier


def ranked(type: Type) -> TensorType:
    """`type` as a ranked tensor (the verifier has checked it)."""
    assert isinstance(type, TensorType)
    return type


def _dynamic_sizes(given: int, expected: int, type: Type) -> Diagnostic:
    return finding(
        f"incorrect number of dynamic sizes, has {given}, expected {expected}",
        f"give one size for every '?' of {type}",
    )


@operation("tensor.empty", assembly="`(` $sizes `)` attr-dict `:` type($result)", traits=(PURE,))
class Empty(Operation):
    """A tensor of undefined contents; one index operand for each dynamic extent."""

    sizes = variadic_operand(INDEX)
    result = result(RANKED_TENSOR)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        dynamic = sum(extent is None for extent in ranked(self.result.type).shape)
        if dynamic != len(self.sizes):
            yield _dynamic_sizes(len(self.sizes), dynamic, self.results[0].type)


@operation("tensor.splat", traits=(PURE,))
class Splat(Operation):
    """A tensor with one scalar everywhere."""

    input = operand()
    sizes = variadic_operand(INDEX)
    aggregate = result(RANKED_TENSOR, hint="splat")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Splat:
        use = parser.parse_operand()
        sizes = parser.parse_comma_list("[", "]", parser.parse_operand) if parser.at("[") else []
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        start = parser.offset
        type = parser.parse_type()
        if not isinstance(type, TensorType):
            raise parser.error_at(start, f"invalid kind of type specified: expected a tensor, got '{type}'")
        values = [parser.resolve(use, type.element), *parser.resolve_all(sizes, [INDEX_TYPE] * len(sizes))]
        return cls.create(values, (type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.input)
        if self.sizes:
            printer.write("[")
            printer.operands(self.sizes)
            printer.write("]")
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.aggregate.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = ranked(self.aggregate.type)
        if self.input.type != type.element:
            yield finding(
                f"operand type must match the element type of the result: '{self.input.type}' vs '{type}'",
                f"expected a {type.element}",
            )
        dynamic = sum(extent is None for extent in type.shape)
        if dynamic != len(self.sizes):
            yield _dynamic_sizes(len(self.sizes), dynamic, self.results[0].type)


@operation("tensor.extract", traits=(PURE,))
class Extract(Operation):
    """One element."""

    source = operand(RANKED_TENSOR)
    indices = variadic_operand(INDEX)
    result = result(hint="extracted")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Extract:
        use, indices, attributes, type = parse_element(parser, TensorType, "tensor")
        values = [parser.resolve(use, type), *indices]
        return cls.create(values, (type.element,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        print_element(printer, self.source, self.indices, self.attributes)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = ranked(self.source.type)
        if len(self.indices) != type.rank:
            yield finding(
                f"incorrect number of indices for extract_element: expected {type.rank}, got "
                f"{len(self.indices)}",
                f"expected {type.rank} indices for {type}, got {len(self.indices)}",
            )
        if self.result.type != type.element:
            yield finding(
                "result type must match the element type of the tensor",
                f"{type} holds {type.element}, the result is {self.result.type}",
            )


@operation("tensor.insert", traits=(PURE,))
class Insert(Operation):
    """A copy of a tensor with one element replaced."""

    scalar = operand()
    dest = operand(RANKED_TENSOR)
    indices = variadic_operand(INDEX)
    result = result(RANKED_TENSOR, hint="inserted")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Insert:
        scalar = parser.parse_operand()
        parser.expect("into", "behind the scalar")
        dest, indices, attributes, type = parse_element(parser, TensorType, "tensor")
        values = [*parser.resolve_all([scalar, dest], [type.element, type]), *indices]
        return cls.create(values, (type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.scalar)
        printer.write(" into ")
        print_element(printer, self.dest, self.indices, self.attributes)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = ranked(self.dest.type)
        if len(self.indices) != type.rank:
            yield finding(
                "incorrect number of indices",
                f"expected {type.rank} indices for {type}, got {len(self.indices)}",
            )
        if self.result.type != type or self.scalar.type != type.element:
            yield finding(
                "types of scalar, destination and result do not agree",
                f"expected a {type.element} into {type}, which is the result's type",
            )


_LISTS = ("static_offsets", "static_sizes", "static_strides")


def _parse_triple(parser: OpParser) -> tuple[list[list[int | None]], list[list[Unresolved]]]:
    static: list[list[int | None]] = []
    dynamic: list[list[Unresolved]] = []
    for _ in range(3):
        values, uses = parser.parse_dynamic_index_list()
        static.append(values)
        dynamic.append(uses)
    return static, dynamic


class _Slice(Operation):
    """Offsets, sizes and strides of a part of a tensor."""

    offsets = variadic_operand(INDEX)
    sizes = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    static_offsets = attribute(DenseArrayAttr)
    static_sizes = attribute(DenseArrayAttr)
    static_strides = attribute(DenseArrayAttr)

    def _print_triple(self, printer: Printer) -> None:
        groups = (self.offsets, self.sizes, self.strides)
        for name, group in zip(_LISTS, groups, strict=True):
            printer.dynamic_index_list(static_values(self.attributes.get(name)), group)
            if name != "static_strides":
                printer.write(" ")

    def _verify_triple(self, shape: Sequence[int | None]) -> Iterator[Diagnostic]:
        rank = len(shape)
        groups = (self.offsets, self.sizes, self.strides)
        for name, group in zip(_LISTS, groups, strict=True):
            values = static_values(self.attributes.get(name))
            what = name.removeprefix("static_")[:-1]
            if len(values) != rank:
                yield finding(f"expected {rank} {what} values, got {len(values)}", "one for every dimension")
            if (dynamic := sum(value is None for value in values)) != len(group):
                yield finding(
                    f"expected {len(group)} dynamic {what} values",
                    f"{dynamic} entries are marked dynamic, {len(group)} operands give values",
                )
        lists = [static_values(self.attributes.get(name)) for name in _LISTS]
        yield from out_of_bounds(lists[0], lists[1], lists[2], shape)


@operation("tensor.extract_slice", traits=(PURE,))
class ExtractSlice(_Slice):
    """A strided part of a tensor; the result may drop unit extents."""

    source = operand(RANKED_TENSOR)
    offsets = variadic_operand(INDEX)
    sizes = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    result = result(RANKED_TENSOR, hint="extracted_slice")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ExtractSlice:
        use = parser.parse_operand()
        static, dynamic = _parse_triple(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the source type")
        source = parser.parse_type()
        parser.expect("to", "in front of the result type")
        target = parser.parse_type()
        attributes |= {name: static_array(v) for name, v in zip(_LISTS, static, strict=True)}
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (1, *(len(uses) for uses in dynamic)))
        values = [parser.resolve(use, source)]
        for uses in dynamic:
            values += parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(values, (target,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.source)
        self._print_triple(printer)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS, *_LISTS))
        printer.write(" : ")
        printer.type(self.source.type)
        printer.write(" to ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, target = ranked(self.source.type), ranked(self.result.type)
        yield from self._verify_triple(source.shape)
        sizes = static_values(self.static_sizes)
        if source.element != target.element or not is_rank_reduced(sizes, target.shape):
            inferred = TensorType(sizes, source.element)
            yield finding(
                f"expected type to be '{inferred}' or a rank-reduced version. (size mismatch)",
                f"got {target}; only extents of 1 may be dropped",
            )


@operation("tensor.insert_slice", traits=(PURE,))
class InsertSlice(_Slice):
    """A copy of `dest` with a strided part replaced by `source`."""

    source = operand(RANKED_TENSOR)
    dest = operand(RANKED_TENSOR)
    offsets = variadic_operand(INDEX)
    sizes = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    result = result(RANKED_TENSOR, hint="inserted_slice")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> InsertSlice:
        source = parser.parse_operand()
        parser.expect("into", "behind the source")
        dest = parser.parse_operand()
        static, dynamic = _parse_triple(parser)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the source type")
        source_type = parser.parse_type()
        parser.expect("into", "in front of the destination type")
        dest_type = parser.parse_type()
        attributes |= {name: static_array(v) for name, v in zip(_LISTS, static, strict=True)}
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (1, 1, *(len(uses) for uses in dynamic)))
        values = parser.resolve_all([source, dest], [source_type, dest_type])
        for uses in dynamic:
            values += parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(values, (dest_type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.source)
        printer.write(" into ")
        printer.operand(self.dest)
        self._print_triple(printer)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS, *_LISTS))
        printer.write(" : ")
        printer.type(self.source.type)
        printer.write(" into ")
        printer.type(self.dest.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, dest = ranked(self.source.type), ranked(self.dest.type)
        yield from self._verify_triple(dest.shape)
        if self.result.type != dest:
            yield finding(
                "result type must be the type of the destination", f"expected {dest}, got {self.result.type}"
            )
        sizes = static_values(self.static_sizes)
        if source.element != dest.element or not is_rank_reduced(sizes, source.shape):
            inferred = TensorType(sizes, dest.element)
            yield finding(
                f"expected type to be '{inferred}' or a rank-reduced version. (size mismatch)",
                f"got {source}; only extents of 1 may be dropped",
            )


def _parse_reassociation(parser: OpParser) -> ArrayAttr:
    groups = parser.parse_comma_list(
        "[", "]", lambda: int_array(parser.parse_comma_list("[", "]", parser.parse_integer))
    )
    return ArrayAttr(tuple(groups))


def _groups(attribute: ArrayAttr) -> list[list[int]]:
    return [
        [e.value for e in group if isinstance(e, IntegerAttr)]
        for group in attribute
        if isinstance(group, ArrayAttr)
    ]


def _verify_reassociation(
    groups: list[list[int]], wide: TensorType, narrow: TensorType
) -> Iterator[Diagnostic]:
    if wide.element != narrow.element:
        yield finding(f"element types differ: '{wide}' vs '{narrow}'", "only the shape may change")
    if len(groups) != narrow.rank:
        yield finding(
            f"expected {narrow.rank} reassociation groups, got {len(groups)}",
            f"one group of dimensions of {wide} for each dimension of {narrow}",
        )
        return
    flat = [dim for group in groups for dim in group]
    if narrow.rank == 0:
        flat = list(range(wide.rank)) if all(extent == 1 for extent in wide.shape) else []
    if flat != list(range(wide.rank)):
        yield finding(
            "reassociation must list all dimensions of the higher-rank type in order",
            f"expected the dimensions 0 to {wide.rank - 1} of {wide}, each once, got {groups}",
        )
        return
    for number, group in enumerate(groups):
        extents = [wide.shape[dim] for dim in group]
        known = [extent for extent in extents if extent is not None]
        have = narrow.shape[number]
        if len(known) == len(extents) and have is not None and math.prod(known) != have:
            yield finding(
                f"expected dimension {number} of collapsed type to be static value of "
                f"{math.prod(known)}, but got {have}",
                f"dimensions {group} of {wide} hold {math.prod(known)} elements",
            )


class _Reassociate(Operation):
    source = operand(RANKED_TENSOR)
    reassociation = attribute(ArrayAttr)

    @property
    def groups(self) -> list[list[int]]:
        """Dimensions of the higher-rank type that make one of the lower-rank type."""
        return _groups(self.reassociation)

    def _print_groups(self, printer: Printer) -> None:
        printer.write(" [" + ", ".join(str(group) for group in self.groups) + "]")


@operation("tensor.collapse_shape", traits=(PURE,))
class CollapseShape(_Reassociate):
    """Merges neighbouring dimensions."""

    result = result(RANKED_TENSOR, hint="collapsed")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> CollapseShape:
        use = parser.parse_operand()
        reassociation = _parse_reassociation(parser)
        attributes = parser.parse_attr_dict()
        attributes["reassociation"] = reassociation
        parser.expect(":", "in front of the source type")
        source = parser.parse_type()
        parser.expect("into", "in front of the result type")
        target = parser.parse_type()
        values = (parser.resolve(use, source),)
        return cls.create(values, (target,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.source)
        self._print_groups(printer)
        printer.attr_dict(self.attributes, elided=("reassociation",))
        printer.write(" : ")
        printer.type(self.source.type)
        printer.write(" into ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _verify_reassociation(self.groups, ranked(self.source.type), ranked(self.result.type))


@operation("tensor.expand_shape", traits=(PURE,))
class ExpandShape(_Reassociate):
    """Splits dimensions."""

    output_shape = variadic_operand(INDEX)
    static_output_shape = attribute(DenseArrayAttr)
    result = result(RANKED_TENSOR, hint="expanded")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ExpandShape:
        use = parser.parse_operand()
        reassociation = _parse_reassociation(parser)
        static: list[int | None] | None = None
        dynamic: list[Unresolved] = []
        if parser.accept("output_shape"):
            static, dynamic = parser.parse_dynamic_index_list()
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the source type")
        source = parser.parse_type()
        parser.expect("into", "in front of the result type")
        start = parser.offset
        target = parser.parse_type()
        if static is None:
            if not isinstance(target, TensorType) or not target.is_static:
                raise parser.error_at(start, "a dynamic expand_shape needs 'output_shape'")
            static = list(target.shape)
        attributes["reassociation"] = reassociation
        attributes["static_output_shape"] = static_array(static)
        values = [parser.resolve(use, source), *parser.resolve_all(dynamic, [INDEX_TYPE] * len(dynamic))]
        return cls.create(values, (target,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.source)
        self._print_groups(printer)
        printer.write(" output_shape ")
        printer.dynamic_index_list(static_values(self.static_output_shape), self.output_shape)
        printer.attr_dict(self.attributes, elided=("reassociation", "static_output_shape"))
        printer.write(" : ")
        printer.type(self.source.type)
        printer.write(" into ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _verify_reassociation(self.groups, ranked(self.result.type), ranked(self.source.type))


@operation(
    "tensor.reshape",
    assembly="$source `(` $shape `)` attr-dict `:` functional-type(operands, results)",
    traits=(PURE,),
)
class Reshape(Operation):
    """The same elements in row-major order under another shape, given by a 1-D tensor."""

    source = operand(TENSOR)
    shape = operand(RANKED_TENSOR)
    result = result(TENSOR)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        shape, source, result = ranked(self.shape.type), self.source.type, self.result.type
        if not isinstance(shape.element, IndexType | IntegerType) or shape.rank != 1:
            yield finding(
                f"operand #1 must be 1D tensor of signless integer or index values, but got '{shape}'",
                "it lists the extents of the result",
            )
            return
        if element_or_self(source) != element_or_self(result):
            yield finding(
                "element types of source and destination tensor types should be the same",
                f"{source} holds {element_or_self(source)}, the result {element_or_self(result)}",
            )
        if not isinstance(result, TensorType):
            return
        if shape.shape[0] != result.rank:
            yield finding(
                "length of shape operand differs from the result's tensor rank",
                f"{shape} gives {shape.shape[0]} extents, {result} has {result.rank}",
            )
        static = isinstance(source, TensorType) and source.is_static and result.is_static
        if static and ranked(source).num_elements() != result.num_elements():
            yield finding(
                "source and destination tensor should have the same number of elements",
                f"{source} has {ranked(source).num_elements()}, {result} has {result.num_elements()}",
            )


@operation("tensor.from_elements", traits=(PURE,))
class FromElements(Operation):
    """A tensor from scalars in row-major order."""

    elements = variadic_operand()
    result = result(RANKED_TENSOR)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> FromElements:
        uses = parser.parse_operand_list()
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        start = parser.offset
        type = parser.parse_type()
        if not isinstance(type, TensorType):
            raise parser.error_at(start, f"expected a ranked tensor type, got '{type}'")
        values = parser.resolve_all(uses, [type.element] * len(uses))
        return cls.create(values, (type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operands(self.elements)
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = ranked(self.result.type)
        if not type.is_static or type.num_elements() != len(self.elements):
            yield finding(
                f"{len(self.elements)} elements do not fill a result of type '{type}'",
                "the extents are static, and their product is the number of elements",
            )
        wrong = [value.type for value in self.elements if value.type != type.element]
        if wrong:
            yield finding(
                "failed to verify that operand types match result element type",
                f"expected {type.element}, got {wrong[0]}",
            )


@operation("tensor.dim", assembly="attr-dict $source `,` $index `:` type($source)", traits=(PURE,))
class Dim(Operation):
    """One extent."""

    source = operand(TENSOR)
    index = operand(INDEX)
    result = result(INDEX, hint="dim")


@operation("tensor.cast", assembly="$source attr-dict `:` type($source) `to` type($dest)", traits=(PURE,))
class Cast(Operation):
    """Adds or drops static knowledge of extents."""

    source = operand(TENSOR)
    dest = result(TENSOR, hint="cast")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, dest = self.source.type, self.dest.type
        if isinstance(source, TensorType) and isinstance(dest, TensorType):
            pairs = zip(source.shape, dest.shape, strict=False)
            fits = source.rank == dest.rank and all(a == b or None in (a, b) for a, b in pairs)
            if source.element != dest.element or not fits:
                yield finding(
                    f"operand type '{source}' and result type '{dest}' are cast incompatible",
                    "a cast adds or drops knowledge of extents; arith converts elements",
                )


@operation("tensor.concat", traits=(PURE,))
class Concat(Operation):
    """Tensors put together along one dimension."""

    dim = attribute(IntegerAttr, type=I64)
    inputs = variadic_operand(RANKED_TENSOR)
    result = result(RANKED_TENSOR, hint="concat")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Concat:
        parser.expect("dim")
        parser.expect("(")
        dim = parser.parse_integer()
        parser.expect(")")
        uses = parser.parse_operand_list()
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the operation's type")
        signature = parser.parse_function_type()
        attributes["dim"] = IntegerAttr(dim, I64)
        values = parser.resolve_all(uses, signature.inputs)
        return cls.create(values, signature.results, attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(f" dim({self.dim.value}) ")
        printer.operands(self.inputs)
        printer.attr_dict(self.attributes, elided=("dim",))
        printer.write(" : ")
        printer.functional_type([v.type for v in self.inputs], [self.result.type])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        result, inputs = ranked(self.result.type), [ranked(v.type) for v in self.inputs]
        dim = self.dim.value
        if not inputs:
            yield finding("requires at least one input", "list the tensors to put together")
            return
        if any(t.rank != result.rank or t.element != result.element for t in inputs):
            yield finding(
                "rank and element type of all inputs and of the result must be the same",
                f"got {', '.join(map(str, (*inputs, result)))}",
            )
            return
        if not 0 <= dim < result.rank:
            yield finding(
                "concatenation dim must be less than the tensor rank",
                f"got {dim}, {result} has rank {result.rank}",
            )
            return
        for axis, extent in enumerate(result.shape):
            extents = [t.shape[axis] for t in inputs]
            known = [e for e in extents if e is not None]
            if axis == dim:
                fits = extent is None or len(known) != len(extents) or sum(known) == extent
            else:
                fits = len({*known, *(() if extent is None else (extent,))}) <= 1
            if not fits:
                expected = sum(known) if axis == dim else known[0]
                yield finding(
                    "static concatenation size mismatch",
                    f"extent {axis} of {result} should be {expected}, from {', '.join(map(str, inputs))}",
                )


@operation("tensor.yield", assembly="$value attr-dict `:` type($value)", traits=(TERMINATOR, PURE))
class Yield(Operation):
    """The element that a generate computes."""

    value = operand()


@operation("tensor.generate", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK))
class Generate(Operation):
    """A tensor whose elements a region computes from their indices."""

    sizes = variadic_operand(INDEX)
    result = result(RANKED_TENSOR, hint="generated")
    body = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Generate:
        uses = parser.parse_operand_list()
        body = parser.parse_region()
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the result type")
        type = parser.parse_type()
        values = parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(values, (type,), attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.sizes:
            printer.write(" ")
            printer.operands(self.sizes)
        printer.write(" ")
        printer.region(self.body, owner=self.name)
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = ranked(self.result.type)
        if len(self.body.blocks) != 1 or not isinstance(self.body.block.terminator, Yield):
            yield finding(
                "expects a body of one block that ends in 'tensor.yield'", f"it yields one {type.element}"
            )
            return
        arguments = [argument.type for argument in self.body.block.arguments]
        if len(arguments) != type.rank:
            yield finding(
                f"expected one body argument per result dimension: {type.rank}", f"got {len(arguments)}"
            )
        elif any(argument != INDEX_TYPE for argument in arguments):
            yield finding("all body arguments must be index", f"got {', '.join(map(str, arguments))}")
        dynamic = sum(extent is None for extent in type.shape)
        if dynamic != len(self.sizes):
            yield _dynamic_sizes(len(self.sizes), dynamic, type)
        yielded = [value.type for value in self.body.block.terminator.operands]
        if yielded != [type.element]:
            yield finding(
                "body must yield a value of the result's element type",
                f"expected tensor.yield of {type.element}, got {', '.join(map(str, yielded)) or 'nothing'}",
            )


DIALECT = Dialect(
    "tensor",
    (
        Empty,
        Splat,
        Extract,
        Insert,
        ExtractSlice,
        InsertSlice,
        CollapseShape,
        ExpandShape,
        Reshape,
        FromElements,
        Dim,
        Cast,
        Concat,
        Yield,
        Generate,
    ),
)
