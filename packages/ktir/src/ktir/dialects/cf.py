"""The ``cf`` dialect: branches between blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktir.attributes import DenseArrayAttr
from ktir.constraints import I1
from ktir.context import Dialect
from ktir.errors import Diagnostic, finding
from ktir.ir import Label, Operation, Value
from ktir.opdef import OPERAND_SEGMENTS, TERMINATOR, operand, operation, variadic_operand
from ktir.types import I1 as BOOLEAN
from ktir.types import I32

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


def _parse_target(parser: OpParser) -> tuple[Label, list[Value]]:
    label = parser.parse_successor()
    if not parser.accept("("):
        return label, []
    uses = parser.parse_operand_list()
    parser.expect(":", "in front of the operand types")
    types = parser.parse_type_list()
    parser.expect(")", "behind the operand types")
    return label, parser.resolve_all(uses, types)


def _print_target(printer: Printer, label: Label, values: tuple[Value, ...]) -> None:
    printer.successor(label)
    if values:
        printer.write("(")
        printer.operands(values)
        printer.write(" : ")
        printer.types([value.type for value in values])
        printer.write(")")


def _verify_edge(
    op: Operation, verifier: Verifier, number: int, values: tuple[Value, ...]
) -> Iterator[Diagnostic]:
    """What the branch hands over must be what the block receives."""
    block = verifier.target(op, op.successors[number])
    assert block is not None  # the verifier has checked the successors
    if len(values) != len(block.arguments):
        wanted = ", ".join(str(argument.type) for argument in block.arguments)
        yield finding(
            f"branch has {len(values)} operands for successor #{number}, but target block has "
            f"{len(block.arguments)}",
            f"the block takes ({wanted})",
        )
        return
    for position, (value, argument) in enumerate(zip(values, block.arguments, strict=True)):
        if value.type != argument.type:
            yield finding(
                f"type mismatch for bb argument #{position} of successor #{number}",
                f"the block takes {argument.type}, got {value.type}",
            )


@operation("cf.br", traits=(TERMINATOR,), successors=1)
class Branch(Operation):
    """Goes to a block."""

    arguments = variadic_operand()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Branch:
        label, values = _parse_target(parser)
        attributes = parser.parse_attr_dict()
        return cls.create(values, (), attributes, (), (label,), parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        _print_target(printer, self.successors[0], self.arguments)
        printer.attr_dict(self.attributes)

    def verify_op(self, verifier: Verifier) -> Iterator[Diagnostic]:
        yield from _verify_edge(self, verifier, 0, self.arguments)


@operation("cf.cond_br", traits=(TERMINATOR,), successors=2)
class CondBranch(Operation):
    """Goes to the first block if the condition holds, else to the second."""

    condition = operand(I1)
    true_arguments = variadic_operand()
    false_arguments = variadic_operand()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> CondBranch:
        condition = parser.resolve(parser.parse_operand(), BOOLEAN)
        parser.expect(",", "behind the condition")
        first, first_values = _parse_target(parser)
        parser.expect(",", "behind the first block")
        second, second_values = _parse_target(parser)
        attributes = parser.parse_attr_dict()
        attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, (1, len(first_values), len(second_values)))
        operands = (condition, *first_values, *second_values)
        return cls.create(operands, (), attributes, (), (first, second), parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.condition)
        printer.write(", ")
        _print_target(printer, self.successors[0], self.true_arguments)
        printer.write(", ")
        _print_target(printer, self.successors[1], self.false_arguments)
        printer.attr_dict(self.attributes, elided=(OPERAND_SEGMENTS,))

    def verify_op(self, verifier: Verifier) -> Iterator[Diagnostic]:
        yield from _verify_edge(self, verifier, 0, self.true_arguments)
        yield from _verify_edge(self, verifier, 1, self.false_arguments)


DIALECT = Dialect("cf", (Branch, CondBranch))
