"""Open tile sizes, rotating buffers and what computes indices from them (scheduler spec 1.8, 1.10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from ktir.attribute import Attribute
from ktir.attributes import DenseArrayAttr, IntegerAttr, index_attr
from ktir.constraints import INDEX, MEMREF
from ktir.ir import Operation, Value
from ktir.opdef import (
    CSE_OPAQUE,
    OPERAND_SEGMENTS,
    PURE,
    attribute,
    operand,
    operation,
    result,
    variadic_operand,
)
from ktir.types import I32, I64, IndexType
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["BufferPhase", "DeriveSize", "LinearizeIndex", "ReserveSize", "SelectMemref"]


def _value_of(constant: Attribute | None) -> int | None:
    return constant.value if isinstance(constant, IntegerAttr) else None


@operation("ktdf.tiling.reserve_size", assembly="attr-dict `:` type($size)", traits=(PURE, CSE_OPAQUE))
class ReserveSize(Operation):
    """A tile size that a later pass picks: a multiple of `divisibility`, at least `min_value`."""

    divisibility = attribute(IntegerAttr)
    min_value = attribute(IntegerAttr)
    size = result(INDEX)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        for name, value in (("divisibility", self.divisibility), ("min_value", self.min_value)):
            if not isinstance(value.type, IndexType):
                yield f"attribute '{name}' must be of index type"
            if value.value < 1:
                yield f"attribute '{name}' must be at least 1, but is {value.value}"


def _parse_pairs(parser: OpParser) -> tuple[list[Unresolved], list[Unresolved]]:
    firsts: list[Unresolved] = []
    seconds: list[Unresolved] = []
    while parser.accept("["):
        firsts.append(parser.parse_operand())
        parser.expect(":")
        seconds.append(parser.parse_operand())
        parser.expect("]")
        if parser.at(","):
            parser.accept(",")
    return firsts, seconds


def _print_pairs(printer: Printer, firsts: Sequence[Value], seconds: Sequence[Value]) -> None:
    for position, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        printer.write(", [" if position else " [")
        printer.operand(first)
        printer.write(" : ")
        printer.operand(second)
        printer.write("]")


@operation("ktdf.tiling.derive_size", traits=(PURE,))
class DeriveSize(Operation):
    """The trip count of the loop just inside the last tile loop: the tile size, less in the last tile."""

    loop_variables = variadic_operand(INDEX)
    tile_sizes = variadic_operand(INDEX)
    total_size = operand(INDEX)
    size = result(INDEX)

    @classmethod
    def of(cls, pairs: Sequence[tuple[Value, Value]], total: Value) -> Self:
        """Pairs of (tile loop variable, tile size), outermost first."""
        count = len(pairs)
        return cls.create(
            [*(variable for variable, _ in pairs), *(size for _, size in pairs), total],
            [INDEX_TYPE],
            {OPERAND_SEGMENTS: DenseArrayAttr(I32, (count, count, 1))},
        )

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        variables, sizes = _parse_pairs(parser)
        parser.expect_keyword("total_size")
        parser.expect("=")
        total = parser.parse_operand()
        attributes = dict(parser.parse_attr_dict())
        parser.expect(":")
        type = parser.parse_type()
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (len(variables), len(sizes), 1))
        operands = [parser.resolve(use, INDEX_TYPE) for use in (*variables, *sizes, total)]
        return cls.create(operands, [type], attributes, location=parser.location, names=parser.result_names)

    def print_custom(self, printer: Printer) -> None:
        _print_pairs(printer, self.loop_variables, self.tile_sizes)
        printer.write(", total_size = ")
        printer.operand(self.total_size)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS,))
        printer.write(" : ")
        printer.type(self.size.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        if len(self.loop_variables) != len(self.tile_sizes):
            yield f"has {len(self.loop_variables)} loop variables, but {len(self.tile_sizes)} tile sizes"
        if not self.loop_variables:
            yield "expects at least one pair of loop variable and tile size"

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        """One pair: ``min(tile, total)`` in tile 0; the tile itself wherever it divides the total."""
        if len(operands) != 3:
            return None
        variable, tile, total = map(_value_of, operands)
        if tile is None or total is None or tile <= 0:
            return None
        if variable == 0:
            return [index_attr(min(tile, total))]
        return [index_attr(tile)] if total % tile == 0 else None


@operation("ktdf.tiling.linearize_index", traits=(PURE,))
class LinearizeIndex(Operation):
    """The sum of variable times stride; the last pair is the point loop with stride 1."""

    variables = variadic_operand(INDEX)
    strides = variadic_operand(INDEX)
    index = result(INDEX)

    @classmethod
    def of(cls, pairs: Sequence[tuple[Value, Value]]) -> Self:
        """Pairs of (variable, stride), outermost first."""
        return cls.create(
            [*(variable for variable, _ in pairs), *(stride for _, stride in pairs)],
            [INDEX_TYPE],
            {OPERAND_SEGMENTS: DenseArrayAttr(I32, (len(pairs), len(pairs)))},
        )

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        variables, strides = _parse_pairs(parser)
        attributes = dict(parser.parse_attr_dict())
        parser.expect(":")
        type = parser.parse_type()
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (len(variables), len(strides)))
        operands = [parser.resolve(use, INDEX_TYPE) for use in (*variables, *strides)]
        return cls.create(operands, [type], attributes, location=parser.location, names=parser.result_names)

    def print_custom(self, printer: Printer) -> None:
        _print_pairs(printer, self.variables, self.strides)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS,))
        printer.write(" : ")
        printer.type(self.index.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        if len(self.variables) != len(self.strides):
            yield f"has {len(self.variables)} variables, but {len(self.strides)} strides"
        if not self.variables:
            yield "expects at least one pair of variable and stride"

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        values = [_value_of(constant) for constant in operands]
        known = [value for value in values if value is not None]
        if len(known) != len(values):
            return None
        half = len(known) // 2
        return [index_attr(sum(v * s for v, s in zip(known[:half], known[half:], strict=True)))]


@operation("ktdf.buffer_phase", assembly="`(` $indices `)` attr-dict `:` type($phase)", traits=(PURE,))
class BufferPhase(Operation):
    """Number of pipeline iterations so far modulo `num_phases`; operands: the loop variables around it."""

    indices = variadic_operand(INDEX)
    num_phases = attribute(IntegerAttr)
    phase = result(INDEX)

    @classmethod
    def of(cls, indices: Sequence[Value], num_phases: int) -> Self:
        """Loop variables outermost first."""
        return cls.create(indices, [INDEX_TYPE], {"num_phases": IntegerAttr(num_phases, I64)})

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        if not self.operands:
            yield "expects at least one loop variable"
        if self.num_phases.value < 2:
            yield f"num_phases must be at least 2, but is {self.num_phases.value}"

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return [index_attr(0)] if all(constant is not None for constant in operands) else None


@operation("ktdf.select_memref", traits=(PURE,))
class SelectMemref(Operation):
    """``candidates[phase]``."""

    phase = operand(INDEX)
    candidates = variadic_operand(MEMREF)
    selected = result(MEMREF)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        phase = parser.parse_operand()
        candidates = parser.parse_comma_list("[", "]", parser.parse_operand)
        attributes = parser.parse_attr_dict()
        parser.expect(":")
        type = parser.parse_type()
        operands = [parser.resolve(phase, INDEX_TYPE), *(parser.resolve(c, type) for c in candidates)]
        return cls.create(operands, [type], attributes, location=parser.location, names=parser.result_names)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.phase)
        printer.write("[")
        printer.operands(self.candidates)
        printer.write("]")
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.selected.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        if len(self.candidates) < 2:
            yield f"expects at least two candidates, but got {len(self.candidates)}"
        if any(candidate.type != self.selected.type for candidate in self.candidates):
            yield "all candidates must have the type of the result"
        phase = verifier.definer(self.phase)
        phases = phase.attributes.get("num_phases") if isinstance(phase, BufferPhase) else None
        if isinstance(phases, IntegerAttr) and phases.value != len(self.candidates):
            yield f"selects among {len(self.candidates)} candidates by a phase of {phases.value}"

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        phase = _value_of(operands[0])
        if phase is None or not 0 <= phase < len(self.candidates):
            return None
        return [self.candidates[phase]]
