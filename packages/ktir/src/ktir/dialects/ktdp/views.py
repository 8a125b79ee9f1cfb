"""Compute tile ids, runtime arguments and memory views (KTIR spec 1.4 to 1.6, 1.11)."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktir.affine import AffineSet, Sym
from ktir.attributes import AffineSetAttr, DenseArrayAttr, IntegerAttr
from ktir.constraints import ANY, INDEX, cases
from ktir.dialects.ktdp.memory_space import MemorySpaceAttr
from ktir.dialects.ktdp.types import RUNTIME_ARG, RuntimeArgType
from ktir.dialects.slices import DYNAMIC, static_array, static_values
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation, Value
from ktir.opdef import (
    OPERAND_SEGMENTS,
    PURE,
    attribute,
    operand,
    operation,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import I32, IndexType, MemRefType, UnrankedMemRefType
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


def segments(*sizes: int) -> DenseArrayAttr:
    """The ``operandSegmentSizes`` attribute."""
    return DenseArrayAttr(I32, sizes)


@operation("ktdp.get_compute_tile_id", assembly="attr-dict `:` type($coordinates)", traits=(PURE,))
class GetComputeTileId(Operation):
    """The coordinates of the executing compute tile in its function's grid."""

    coordinates = variadic_result(INDEX)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not self.results:
            yield finding(
                "must return at least one index (num tile-grid dims >= 1)",
                "one result per dimension of the function's grid",
            )


@operation("ktdp.construct_memory_view", traits=(PURE,))
class ConstructMemoryView(Operation):
    """Interprets memory as an array: element x lies at ``offset + sum(x[j] * strides[j])``.

    Sizes and strides count elements; the unit of the offset is a switch of the module (elements by default).
    """

    offset = operand(INDEX)
    sizes = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    static_sizes = attribute(DenseArrayAttr)
    static_strides = attribute(DenseArrayAttr)
    memory_space = attribute(MemorySpaceAttr, description="KtdpMemorySpaceAttr")
    coordinate_set = attribute(AffineSetAttr)
    result = result(ANY)

    @property
    def mixed_sizes(self) -> tuple[int | Value, ...]:
        """The sizes, each a number or a value."""
        return _mixed(self.static_sizes, self.sizes)

    @property
    def mixed_strides(self) -> tuple[int | Value, ...]:
        """The strides in elements, each a number or a value."""
        return _mixed(self.static_strides, self.strides)

    @property
    def type(self) -> MemRefType:
        """The view's type."""
        found = self.result.type
        assert isinstance(found, MemRefType)
        return found

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ConstructMemoryView:
        offset = parser.parse_operand()
        parser.expect(",", "behind the offset")
        parser.expect("sizes")
        parser.expect(":", "behind 'sizes'")
        static_sizes, sizes = parser.parse_dynamic_index_list()
        parser.expect(",", "behind the sizes")
        parser.expect("strides")
        parser.expect(":", "behind 'strides'")
        static_strides, strides = parser.parse_dynamic_index_list()
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the view's type")
        type = parser.parse_type()
        attributes["static_sizes"] = static_array(static_sizes)
        attributes["static_strides"] = static_array(static_strides)
        attributes[OPERAND_SEGMENTS] = segments(1, len(sizes), len(strides))
        if parser.context.lenient:
            attributes.setdefault("coordinate_set", AffineSetAttr(_index_box(static_sizes)))
        operands = [parser.resolve(use, INDEX_TYPE) for use in (offset, *sizes, *strides)]
        return cls.create(operands, [type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.offset)
        printer.write(", sizes: ")
        printer.dynamic_index_list(static_values(self.static_sizes), self.sizes)
        printer.write(", strides: ")
        printer.dynamic_index_list(static_values(self.static_strides), self.strides)
        printer.attr_dict(self.attributes, elided=("static_sizes", "static_strides", OPERAND_SEGMENTS))
        printer.write(" : ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        sizes, strides = self.static_sizes, self.static_strides
        if len(sizes) != len(strides):
            yield finding(
                "static_sizes and static_strides must have equal length",
                f"got {len(sizes)} sizes and {len(strides)} strides; every dimension has one of each",
            )
        if sum(v == DYNAMIC for v in sizes) != len(self.sizes):
            yield finding(
                "number of dynamic size operands does not match kDynamic entries in static_sizes",
                _dynamic_note(sizes, self.sizes),
            )
        if sum(v == DYNAMIC for v in strides) != len(self.strides):
            yield finding(
                "number of dynamic stride operands does not match kDynamic entries in static_strides",
                _dynamic_note(strides, self.strides),
            )
        if not isinstance(self.result.type, MemRefType):
            yield finding(
                "result must be a memref type",
                f"expected memref<...> of rank {len(sizes)}, got {self.result.type}",
            )
        elif self.result.type.rank != len(sizes):
            yield finding(
                "result memref rank does not match sizes/strides length",
                f"{self.result.type} has rank {self.result.type.rank}, but there are {len(sizes)} sizes",
            )


def _index_box(sizes: Sequence[int | None]) -> AffineSet:
    """All coordinates from 0 to the sizes; dynamic sizes are symbols, from left to right."""
    symbols = (Sym(i) for i in range(len(sizes)))
    extents = [next(symbols) if size is None else size for size in sizes]
    return AffineSet.box(*extents, num_symbols=sum(size is None for size in sizes))


def _dynamic_note(static: DenseArrayAttr, dynamic: Sequence[Value]) -> str:
    wanted = sum(value == DYNAMIC for value in static)
    return f"{wanted} entries are {DYNAMIC} (dynamic), but {len(dynamic)} operands give values"


def _mixed(static: DenseArrayAttr, dynamic: Sequence[Value]) -> tuple[int | Value, ...]:
    rest = iter(dynamic)
    return tuple(next(rest) if v is None else v for v in static_values(static))


@operation("ktdp.construct_distributed_memory_view", traits=(PURE,))
class ConstructDistributedMemoryView(Operation):
    """Joins views of parts into one view in global coordinates."""

    memrefs = variadic_operand(ANY)
    result = result(ANY)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ConstructDistributedMemoryView:
        parser.expect("(", "behind the operation's name")
        uses = parser.parse_operand_list()
        types = []
        if uses:
            parser.expect(":", "behind the views")
            types = parser.parse_type_list()
        parser.expect(")", "behind the views' types")
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the view's type")
        type = parser.parse_type()
        operands = parser.resolve_all(uses, types)
        return cls.create(operands, [type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write("(")
        printer.operands(self.memrefs)
        if self.memrefs:
            printer.write(" : ")
            printer.types([v.type for v in self.memrefs])
        printer.write(")")
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = self.result.type
        if not isinstance(type, MemRefType):
            yield finding("result must be a memref type", f"expected a ranked memref<...>, got {type}")
            return
        inputs = [v.type for v in self.memrefs]
        if not all(isinstance(t, MemRefType | UnrankedMemRefType) for t in inputs) or any(
            isinstance(t, UnrankedMemRefType) for t in inputs
        ):
            got = ", ".join(map(str, inputs))
            yield finding("all inputs must be memref types", f"expected ranked memrefs, got {got}")
            return
        ranked = [t for t in inputs if isinstance(t, MemRefType)]
        for other in ranked:
            if other.element != type.element:
                yield finding(
                    "all input memrefs must have the same element type as the result",
                    f"the result has elements of {type.element}, but an input is {other}",
                )
                break
        for other in ranked:
            if other.rank != type.rank:
                yield finding(
                    "all input memrefs must have the same rank as the result",
                    f"the result has rank {type.rank}, but an input is {other}",
                )
                break


class ExtractKind(enum.IntEnum):
    """What `RuntimeArgExtract` yields; the value is that of its ``kind`` attribute."""

    VALUE = 0
    GRANULARITY = 1
    UPPERBOUND = 2


@operation("ktdp.runtime_arg_extract", traits=(PURE,))
class RuntimeArgExtract(Operation):
    """The launch value of a runtime argument, or one of the bounds that its type promises."""

    kind = attribute(IntegerAttr, type=I32, only=cases(ExtractKind, 32))
    runtime_arg = operand(RUNTIME_ARG)
    result = result(ANY)

    @property
    def what(self) -> ExtractKind:
        """The kind as an enumeration."""
        return ExtractKind(self.kind.value)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> RuntimeArgExtract:
        names = [kind.name.lower() for kind in ExtractKind]
        if not parser.at(*names):
            raise parser.error(
                "expected string or keyword containing one of the following enum values for attribute 'kind' "
                f"[{', '.join(names)}]"
            )
        kind = ExtractKind[parser.keyword().upper()]
        parser.expect("from", "behind the kind")
        use = parser.parse_operand()
        parser.expect(":", "in front of the operand's type")
        type = parser.parse_stripped_type(RuntimeArgType)
        attributes = parser.parse_attr_dict()
        parser.expect("->", "in front of the result's type")
        result_type = parser.parse_type()
        attributes["kind"] = IntegerAttr(kind.value, I32)
        operand = parser.resolve(use, type)
        return cls.create([operand], [result_type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(f" {self.what.name.lower()} from ")
        printer.operand(self.runtime_arg)
        printer.write(" : ")
        printer.stripped_type(self.runtime_arg.type)
        printer.attr_dict(self.attributes, elided=("kind",))
        printer.write(" -> ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, target = self.runtime_arg.type, self.result.type
        assert isinstance(source, RuntimeArgType)
        if self.what is ExtractKind.VALUE:
            if target != source.underlying:
                yield finding(
                    f"result type ({target}) must match runtime_arg underlying type ({source.underlying}) "
                    "when extracting value",
                    f"expected ... -> {source.underlying}; cast the result where another type is needed",
                )
            return
        name = self.what.name.lower()
        if (source.granularity if self.what is ExtractKind.GRANULARITY else source.upperbound) is None:
            yield finding(
                f"cannot extract {name} from runtime_arg that doesn't have one",
                f"state it in the type: !ktdp.runtime_arg<{source.underlying}, {name}=...>",
            )
        elif not isinstance(target, IndexType):
            yield finding(
                f"result type must be index when extracting {name}, but got '{target}'",
                "expected ... -> index",
            )
