"""The part of the ``memref`` dialect that scheduler-side files use (ktir spec 3.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktir.attributes import DenseArrayAttr, IntegerAttr, StridedLayoutAttr
from ktir.constraints import ANY_MEMREF, INDEX, MEMREF, POWER_OF_TWO
from ktir.context import Dialect
from ktir.dialects.slices import is_rank_reduced, parse_element, print_element, static_array, static_values
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation
from ktir.opdef import (
    ALLOCATES,
    OPERAND_SEGMENTS,
    PURE,
    READS,
    WRITES,
    attribute,
    operand,
    operation,
    optional_attribute,
    result,
    variadic_operand,
)
from ktir.types import I32, I64, MemRefType, Type, UnrankedMemRefType
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


@operation("memref.alloc", traits=(ALLOCATES,))
class Alloc(Operation):
    """Fresh memory; one index operand for each dynamic extent, symbols for the layout."""

    sizes = variadic_operand(INDEX)
    symbols = variadic_operand(INDEX)
    memref = result(MEMREF, hint="alloc")
    alignment = optional_attribute(IntegerAttr, type=I64, only=POWER_OF_TWO)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Alloc:
        sizes = parser.parse_comma_list("(", ")", parser.parse_operand)
        symbols = parser.parse_comma_list("[", "]", parser.parse_operand) if parser.at("[") else []
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the memref type")
        type = parser.parse_type()
        uses = [*sizes, *symbols]
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (len(sizes), len(symbols)))
        values = parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(values, (type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write("(")
        printer.operands(self.sizes)
        printer.write(")")
        if self.symbols:
            printer.write("[")
            printer.operands(self.symbols)
            printer.write("]")
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS,))
        printer.write(" : ")
        printer.type(self.memref.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = self.memref.type
        assert isinstance(type, MemRefType)
        dynamic = sum(extent is None for extent in type.shape)
        if dynamic != len(self.sizes):
            yield finding(
                "dimension operand count does not equal memref dynamic dimension count: "
                f"{len(self.sizes)} vs {dynamic}",
                f"give one size for every '?' of {type}",
            )


@operation("memref.alloca", traits=(ALLOCATES,))
class Alloca(Alloc):
    """Fresh memory that lives as long as the enclosing scope."""


def _agree(source: Type, target: Type, verb: str) -> Iterator[Diagnostic]:
    """The same elements, and extents that can be equal."""
    left, right = (getattr(type, "element", None) for type in (source, target))
    fits = left == right
    if isinstance(source, MemRefType) and isinstance(target, MemRefType):
        pairs = zip(source.shape, target.shape, strict=False)
        fits = fits and source.rank == target.rank and all(a == b or None in (a, b) for a, b in pairs)
    if not fits:
        text = "operand type '{}' and result type '{}' are cast incompatible"
        if verb == "copied":
            text = "failed to verify that source and target have same shape and element type: '{}' vs '{}'"
        yield finding(text.format(source, target), "element types and known extents must be equal")


@operation("memref.dealloc", assembly="$memref attr-dict `:` type($memref)", traits=(WRITES,))
class Dealloc(Operation):
    """Frees memory."""

    memref = operand(ANY_MEMREF)


@operation(
    "memref.copy",
    assembly="$source `,` $target attr-dict `:` type($source) `to` type($target)",
    traits=(READS, WRITES),
)
class Copy(Operation):
    """Copies all elements."""

    source = operand(ANY_MEMREF)
    target = operand(ANY_MEMREF)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _agree(self.source.type, self.target.type, "copied")


@operation("memref.cast", assembly="$source attr-dict `:` type($source) `to` type($dest)", traits=(PURE,))
class Cast(Operation):
    """Adds or drops static knowledge of extents, strides or offset."""

    source = operand(ANY_MEMREF)
    dest = result(ANY_MEMREF, hint="cast")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _agree(self.source.type, self.dest.type, "cast")


@operation(
    "memref.memory_space_cast",
    assembly="$source attr-dict `:` type($source) `to` type($dest)",
    traits=(PURE,),
)
class MemorySpaceCast(Operation):
    """The same memory under another memory space."""

    source = operand(ANY_MEMREF)
    dest = result(ANY_MEMREF, hint="memspacecast")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _agree(self.source.type, self.dest.type, "cast")


@operation("memref.load", traits=(READS,))
class Load(Operation):
    """One element."""

    memref = operand(MEMREF)
    indices = variadic_operand(INDEX)
    result = result()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Load:
        use, indices, attributes, type = parse_element(parser, MemRefType, "memref")
        values = [parser.resolve(use, type), *indices]
        return cls.create(values, (type.element,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        print_element(printer, self.memref, self.indices, self.attributes)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = self.memref.type
        assert isinstance(type, MemRefType)
        if len(self.indices) != type.rank:
            yield finding(
                f"incorrect number of indices for load, expected {type.rank} but got {len(self.indices)}",
                f"expected {type.rank} indices for {type}, got {len(self.indices)}",
            )
        if self.result.type != type.element:
            yield finding(
                "failed to verify that result type matches element type of 'memref'",
                f"{type} holds {type.element}, the result is {self.result.type}",
            )


@operation("memref.store", traits=(WRITES,))
class Store(Operation):
    """Writes one element."""

    value = operand()
    memref = operand(MEMREF)
    indices = variadic_operand(INDEX)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Store:
        value = parser.parse_operand()
        parser.expect(",", "behind the value")
        use, indices, attributes, type = parse_element(parser, MemRefType, "memref")
        values = [*parser.resolve_all([value, use], [type.element, type]), *indices]
        return cls.create(values, (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.value)
        printer.write(", ")
        print_element(printer, self.memref, self.indices, self.attributes)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = self.memref.type
        assert isinstance(type, MemRefType)
        if len(self.indices) != type.rank:
            yield finding(
                f"store index operand count not equal to memref rank: expected {type.rank}",
                f"expected {type.rank} indices for {type}, got {len(self.indices)}",
            )
        if self.value.type != type.element:
            yield finding(
                "failed to verify that type of 'value' matches element type of 'memref'",
                f"{type} holds {type.element}, the value is {self.value.type}",
            )


_LISTS = ("static_offsets", "static_sizes", "static_strides")


class _Strided(Operation):
    """A view of a memref with other offsets, sizes and strides."""

    source = operand(ANY_MEMREF)
    offsets = variadic_operand(INDEX)
    sizes = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    static_offsets = attribute(DenseArrayAttr)
    static_sizes = attribute(DenseArrayAttr)
    static_strides = attribute(DenseArrayAttr)

    def _verify_lists(self, counts: tuple[int, int, int]) -> Iterator[Diagnostic]:
        """As many offsets, sizes and strides as `counts` says, and a value for each dynamic one."""
        groups = (self.offsets, self.sizes, self.strides)
        for name, group, count in zip(_LISTS, groups, counts, strict=True):
            values = static_values(self.attributes.get(name))
            what = name.removeprefix("static_")[:-1]
            if len(values) != count:
                yield finding(
                    f"expected {count} {what} values, got {len(values)}",
                    f"from {self.source.type} to {self.results[0].type}",
                )
            if (dynamic := sum(value is None for value in values)) != len(group):
                yield finding(
                    f"expected {len(group)} dynamic {what} values",
                    f"{dynamic} entries are marked dynamic, {len(group)} operands give values",
                )


@operation("memref.reinterpret_cast", traits=(PURE,))
class ReinterpretCast(_Strided):
    """Another shape, offset and strides over the same base."""

    result = result(MEMREF, hint="reinterpret_cast")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ReinterpretCast:
        use = parser.parse_operand()
        parser.expect("to", "behind the source")
        static = []
        dynamic = []
        for number, keyword in enumerate(("offset", "sizes", "strides")):
            if number:
                parser.expect(",", f"in front of '{keyword}'")
            parser.expect(keyword)
            parser.expect(":", f"behind '{keyword}'")
            values, uses = parser.parse_dynamic_index_list()
            static.append(values)
            dynamic.append(uses)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the source type")
        source = parser.parse_type()
        parser.expect("to", "in front of the result type")
        target = parser.parse_type()
        attributes |= {name: static_array(v) for name, v in zip(_LISTS, static, strict=True)}
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (1, *(len(uses) for uses in dynamic)))
        operands = [parser.resolve(use, source)]
        for uses in dynamic:
            operands += parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(operands, (target,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.source)
        printer.write(" to ")
        groups = (self.offsets, self.sizes, self.strides)
        for number, (keyword, name, group) in enumerate(
            zip(("offset", "sizes", "strides"), _LISTS, groups, strict=True)
        ):
            if number:
                printer.write(", ")
            printer.write(f"{keyword}: ")
            printer.dynamic_index_list(static_values(self.attributes.get(name)), group)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS, *_LISTS))
        printer.write(" : ")
        printer.type(self.source.type)
        printer.write(" to ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        result = self.result.type
        assert isinstance(result, MemRefType)
        yield from self._verify_lists((1, result.rank, result.rank))
        yield from self._verify_result(result)
        source = self.source.type
        if isinstance(source, MemRefType | UnrankedMemRefType) and source.element != result.element:
            yield finding(
                f"different element types specified for source type '{source}' and result type '{result}'",
                f"the result keeps elements of {source.element}",
            )
        elif source.memory_space != result.memory_space:  # type: ignore[attr-defined]
            yield finding(
                f"different memory spaces specified for source type '{source}' and result type '{result}'",
                "memref.memory_space_cast changes the space",
            )

    def _verify_result(self, result: MemRefType) -> Iterator[Diagnostic]:
        """The result's type repeats sizes, offset and strides; ``?`` where they are dynamic."""
        sizes = static_values(self.static_sizes)
        for dim, (size, extent) in enumerate(zip(sizes, result.shape, strict=False)):
            if size != extent:
                wanted = f"size = {_shown(size)} instead of {_shown(extent)} in dim = {dim}"
                yield finding(
                    f"expected result type with {wanted}",
                    f"the sizes are [{', '.join(map(_shown, sizes))}], the result is {result}",
                )
        offset, strides = _layout_of(result)
        if strides is None or len(self.static_strides) != result.rank:
            return
        stated = static_values(self.static_offsets)
        if len(stated) == 1 and stated[0] != offset:
            yield finding(
                f"expected result type with offset = {_shown(stated[0])} instead of {_shown(offset)}",
                "write strided<[...], offset: ...> in the result's type",
            )
        for dim, (stride, have) in enumerate(zip(static_values(self.static_strides), strides, strict=False)):
            if stride != have:
                wanted = f"stride = {_shown(stride)} instead of {_shown(have)} in dim = {dim}"
                yield finding(
                    f"expected result type with {wanted}",
                    "write strided<[...]> in the result's type",
                )


def _shown(number: int | None) -> str:
    return "?" if number is None else str(number)


def _layout_of(type: MemRefType) -> tuple[int | None, tuple[int | None, ...] | None]:
    """Offset and strides in elements; strides are None where the layout is another map than these."""
    match type.layout:
        case StridedLayoutAttr(strides=strides, offset=offset):
            return offset, strides
        case None:
            steps: list[int | None] = []
            step: int | None = 1
            for extent in reversed(type.shape):
                steps.append(step)
                step = None if step is None or extent is None else step * extent
            return 0, tuple(reversed(steps))
        case _:
            return None, None


@operation("memref.subview", traits=(PURE,))
class SubView(_Strided):
    """A strided part of a memref."""

    result = result(MEMREF, hint="subview")

    @classmethod
    def parse_custom(cls, parser: OpParser) -> SubView:
        use = parser.parse_operand()
        static = []
        dynamic = []
        for _ in range(3):
            values, uses = parser.parse_dynamic_index_list()
            static.append(values)
            dynamic.append(uses)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the source type")
        source = parser.parse_type()
        parser.expect("to", "in front of the result type")
        target = parser.parse_type()
        attributes |= {name: static_array(v) for name, v in zip(_LISTS, static, strict=True)}
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (1, *(len(uses) for uses in dynamic)))
        operands = [parser.resolve(use, source)]
        for uses in dynamic:
            operands += parser.resolve_all(uses, [INDEX_TYPE] * len(uses))
        return cls.create(operands, (target,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.source)
        groups = (self.offsets, self.sizes, self.strides)
        for number, (name, group) in enumerate(zip(_LISTS, groups, strict=True)):
            if number:
                printer.write(" ")
            printer.dynamic_index_list(static_values(self.attributes.get(name)), group)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS, *_LISTS))
        printer.write(" : ")
        printer.type(self.source.type)
        printer.write(" to ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, result = self.source.type, self.result.type
        if not isinstance(source, MemRefType):
            yield finding("needs a ranked source", f"got {source}")
            return
        assert isinstance(result, MemRefType)
        yield from self._verify_lists((source.rank, source.rank, source.rank))
        if source.element != result.element or not is_rank_reduced(
            static_values(self.static_sizes), result.shape
        ):
            sizes = MemRefType(static_values(self.static_sizes), source.element)
            yield finding(
                f"expected result type to be '{sizes}' or a rank-reduced version. (mismatch of result sizes)",
                f"got {result}",
            )


DIALECT = Dialect(
    "memref",
    (
        Alloc,
        Alloca,
        Dealloc,
        Copy,
        Cast,
        MemorySpaceCast,
        Load,
        Store,
        ReinterpretCast,
        SubView,
    ),
)
