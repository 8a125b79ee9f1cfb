"""The ``tensor`` dialect (ktir spec 3.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr, int_array
from ktir.constraints import INDEX, RANKED_TENSOR, TENSOR
from ktir.context import Dialect
from ktir.dialects.slices import parse_element, print_element, static_array, static_values
from ktir.errors import Diagnostic
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
from ktir.types import I32, I64, TensorType, Type
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier


def ranked(type: Type) -> TensorType:
    """`type` as a ranked tensor (the verifier has checked it)."""
    assert isinstance(type, TensorType)
    return type


@operation("tensor.empty", assembly="`(` $sizes `)` attr-dict `:` type($result)", traits=(PURE,))
class Empty(Operation):
    """A tensor of undefined contents; one index operand for each dynamic extent."""

    sizes = variadic_operand(INDEX)
    result = result(RANKED_TENSOR)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        dynamic = sum(extent is None for extent in ranked(self.result.type).shape)
        if dynamic != len(self.sizes):
            yield f"incorrect number of dynamic sizes, has {len(self.sizes)}, expected {dynamic}"


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
            yield f"operand type must match the element type of the result: '{self.input.type}' vs '{type}'"
        dynamic = sum(extent is None for extent in type.shape)
        if dynamic != len(self.sizes):
            yield f"incorrect number of dynamic sizes, has {len(self.sizes)}, expected {dynamic}"


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
            yield (
                f"incorrect number of indices for extract_element: expected {type.rank}, got "
                f"{len(self.indices)}"
            )
        if self.result.type != type.element:
            yield "result type must match the element type of the tensor"


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
            yield "incorrect number of indices"
        if self.result.type != type or self.scalar.type != type.element:
            yield "types of scalar, destination and result do not agree"


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

    def _verify_triple(self, rank: int) -> Iterator[str]:
        groups = (self.offsets, self.sizes, self.strides)
        for name, group in zip(_LISTS, groups, strict=True):
            values = static_values(self.attributes.get(name))
            what = name.removeprefix("static_")[:-1]
            if len(values) != rank:
                yield f"expected {rank} {what} values, got {len(values)}"
            if sum(value is None for value in values) != len(group):
                yield f"expected {len(group)} dynamic {what} values"


def _reduced(full: Sequence[int | None], small: Sequence[int | None]) -> bool:
    """Whether `small` is `full` with some unit extents dropped."""
    position = 0
    for extent in full:
        if position < len(small) and small[position] == extent:
            position += 1
        elif extent != 1:
            return False
    return position == len(small)


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
        yield from self._verify_triple(source.rank)
        sizes = static_values(self.static_sizes)
        if source.element != target.element or not _reduced(sizes, target.shape):
            inferred = TensorType(sizes, source.element)
            yield f"expected type to be '{inferred}' or a rank-reduced version. (size mismatch)"


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
        yield from self._verify_triple(dest.rank)
        if self.result.type != dest:
            yield "result type must be the type of the destination"
        sizes = static_values(self.static_sizes)
        if source.element != dest.element or not _reduced(sizes, source.shape):
            inferred = TensorType(sizes, dest.element)
            yield f"expected type to be '{inferred}' or a rank-reduced version. (size mismatch)"


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


def _verify_reassociation(groups: list[list[int]], wide: TensorType, narrow: TensorType) -> Iterator[str]:
    if wide.element != narrow.element:
        yield f"element types differ: '{wide}' vs '{narrow}'"
    if len(groups) != narrow.rank:
        yield f"expected {narrow.rank} reassociation groups, got {len(groups)}"
        return
    flat = [dim for group in groups for dim in group]
    if narrow.rank == 0:
        flat = list(range(wide.rank)) if all(extent == 1 for extent in wide.shape) else []
    if flat != list(range(wide.rank)):
        yield "reassociation must list all dimensions of the higher-rank type in order"
        return
    for number, group in enumerate(groups):
        extents = [wide.shape[dim] for dim in group]
        known = [extent for extent in extents if extent is not None]
        have = narrow.shape[number]
        if len(known) == len(extents) and have is not None and math.prod(known) != have:
            yield (
                f"expected dimension {number} of collapsed type to be static value of "
                f"{math.prod(known)}, but got {have}"
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
            yield f"{len(self.elements)} elements do not fill a result of type '{type}'"
        if any(value.type != type.element for value in self.elements):
            yield "failed to verify that operand types match result element type"


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
                yield f"operand type '{source}' and result type '{dest}' are cast incompatible"


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
            yield "expects a body of one block that ends in 'tensor.yield'"
            return
        if len(self.body.block.arguments) != type.rank:
            yield f"expected one body argument per result dimension: {type.rank}"
        if [value.type for value in self.body.block.terminator.operands] != [type.element]:
            yield "body must yield a value of the result's element type"


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
