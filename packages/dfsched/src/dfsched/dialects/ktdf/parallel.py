"""`ktdf.parallel`: a loop nest spread over identical instances of hardware (scheduler spec 1.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from ktir.attributes import DenseArrayAttr, IntegerAttr
from ktir.constraints import INDEX
from ktir.ir import BlockArgument, Operation, Value
from ktir.opdef import (
    OPERAND_SEGMENTS,
    SINGLE_BLOCK,
    TERMINATOR,
    attribute,
    operation,
    region,
    variadic_operand,
)
from ktir.types import I32, I64, IndexType
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = ["Parallel", "ParallelYield"]


@operation("ktdf.parallel_yield", assembly="attr-dict", traits=(TERMINATOR,), parents=("ktdf.parallel",))
class ParallelYield(Operation):
    """The end of an iteration."""


@operation("ktdf.parallel", traits=(SINGLE_BLOCK,))
class Parallel(Operation):
    """Points of a box in lexicographic order, cut into `num_instances` contiguous chunks.

    Block arguments: one loop variable per dimension, then the instance id.
    """

    lower = variadic_operand(INDEX)
    upper = variadic_operand(INDEX)
    step = variadic_operand(INDEX)
    num_instances = attribute(IntegerAttr)
    body = region()

    @property
    def induction_variables(self) -> tuple[BlockArgument, ...]:
        return self.body.block.arguments[:-1]

    @property
    def instance(self) -> BlockArgument:
        """The number of the instance that runs the iteration."""
        return self.body.block.arguments[-1]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        start = parser.offset
        names = parser.parse_comma_list("(", ")", parser.parse_operand)
        if len(names) < 2:
            raise parser.error_at(start, "expected at least one loop variable and the instance id")
        parser.expect("=")
        bounds: list[list[Unresolved]] = [parser.parse_comma_list("(", ")", parser.parse_operand)]
        for keyword in ("to", "step"):
            parser.expect_keyword(keyword)
            bounds.append(parser.parse_comma_list("(", ")", parser.parse_operand))
        parser.expect_keyword("distribute")
        parser.expect("(")
        parser.expect_keyword("num_instances")
        parser.expect("=")
        instances = parser.parse_integer()
        parser.expect(")")
        operands: list[Value] = [parser.resolve(use, INDEX_TYPE) for group in bounds for use in group]
        body = parser.parse_region([(name.name, INDEX_TYPE, parser.location) for name in names])
        attributes = dict(parser.parse_attr_dict())
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, tuple(len(group) for group in bounds))
        attributes["num_instances"] = IntegerAttr(instances, I64)
        return cls.create(operands, (), attributes, [body], location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        groups: Sequence[tuple[str, Sequence[Value]]] = (
            (" (", self.body.block.arguments),
            (") = (", self.lower),
            (") to (", self.upper),
            (") step (", self.step),
        )
        for text, values in groups:
            printer.write(text)
            printer.operands(values)
        printer.write(f") distribute(num_instances = {self.num_instances.value}) ")
        printer.region(self.body, print_entry_arguments=False)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS, "num_instances"))

    def verify_op(self, verifier: Verifier) -> Iterator[str]:
        block = self.body.block
        if len({len(self.lower), len(self.upper), len(self.step)}) != 1:
            yield "expects as many lower bounds as upper bounds and steps"
        if not self.lower:
            yield "expects at least one dimension"
        if self.num_instances.value < 1:
            yield f"num_instances must be at least 1, but is {self.num_instances.value}"
        if len(block.arguments) != len(self.lower) + 1:
            yield f"expects {len(self.lower) + 1} block arguments, but got {len(block.arguments)}"
        if not all(isinstance(argument.type, IndexType) for argument in block.arguments):
            yield "block arguments must be of index type"
        if not block.operations or not isinstance(block.operations[-1], ParallelYield):
            yield "expects its body to end in 'ktdf.parallel_yield'"
