"""The ``scf`` dialect (ktir spec 3.4): structured loops and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr, UnitAttr
from ktir.constraints import I1, INTEGER_OR_INDEX
from ktir.context import Dialect
from ktir.errors import Diagnostic, finding
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import Location
from ktir.opdef import (
    PURE,
    RECURSIVE_EFFECTS,
    SINGLE_BLOCK,
    TERMINATOR,
    operand,
    operation,
    optional_attribute,
    region,
    variadic_operand,
    variadic_result,
)
from ktir.printer import has_implicit_terminator
from ktir.types import INDEX, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier


@operation(
    "scf.yield",
    assembly="attr-dict ($values^ `:` type($values))?",
    traits=(TERMINATOR, PURE),
    parents=("scf.for", "scf.if", "scf.while"),
)
class Yield(Operation):
    """Hands values to the operation around it."""

    values = variadic_operand()


@operation(
    "scf.condition",
    assembly="`(` $condition `)` attr-dict ($values^ `:` type($values))?",
    traits=(TERMINATOR, PURE),
    parents=("scf.while",),
)
class Condition(Operation):
    """Ends the first region of a while: whether to go on, and the values to go on with."""

    condition = operand(I1)
    values = variadic_operand()


def _edge(source: str, given: Sequence[Type], target: Sequence[Type]) -> Iterator[Diagnostic]:
    if len(given) != len(target):
        yield finding(
            f"along control flow edge from Operation {source} to parent: source has {len(given)} operands, "
            f"but target successor needs {len(target)}",
            f"expected {source} of {', '.join(map(str, target)) or 'nothing'}",
        )
        return
    for number, (have, want) in enumerate(zip(given, target, strict=True)):
        if have != want:
            yield finding(
                f"along control flow edge from Operation {source} to parent: source type #{number} '{have}' "
                f"should match input type #{number} '{want}'",
                f"expected {source} of {', '.join(map(str, target))}",
            )


def _types(values: Sequence[Value]) -> list[Type]:
    return [value.type for value in values]


def _parse_bindings(parser: OpParser) -> tuple[list[tuple[str, Location]], list[Unresolved]]:
    """``(%a = %b, ...)``."""
    names: list[tuple[str, Location]] = []
    uses: list[Unresolved] = []

    def one() -> None:
        target = parser.parse_operand()
        parser.expect("=", "in the binding")
        names.append((target.name, parser.location_at(target.offset)))
        uses.append(parser.parse_operand())

    parser.parse_comma_list("(", ")", one)
    return names, uses


@operation(
    "scf.for",
    traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK),
    implicit_terminator=Yield.create,
)
class For(Operation):
    """Counts from `lower` (inclusive) to `upper` (exclusive) by a positive `step`."""

    lower = operand(INTEGER_OR_INDEX)
    upper = operand(INTEGER_OR_INDEX)
    step = operand(INTEGER_OR_INDEX)
    inits = variadic_operand()
    outputs = variadic_result()
    body = region()
    unsigned_cmp = optional_attribute(UnitAttr, name="unsignedCmp")

    def has_custom_form(self) -> bool:
        """Only with one block argument per initial value behind the induction variable."""
        return len(self.body.block.arguments) == 1 + len(self.inits)

    @property
    def induction_variable(self) -> BlockArgument:
        return self.body.block.arguments[0]

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        """The block arguments that hold the loop-carried values."""
        return self.body.block.arguments[1:]

    @classmethod
    def build(
        cls,
        lower: Value,
        upper: Value,
        step: Value,
        body: Sequence[Operation],
        induction_variable: BlockArgument,
        attributes: dict[str, Attribute] | None = None,
        location: Location | None = None,
    ) -> For:
        """A loop without loop-carried values; the terminator is added."""
        inner = Region.of((*body, Yield.create()), (induction_variable,))
        made = cls.create((lower, upper, step), (), attributes or {}, (inner,))
        return made if location is None else made.replace(location=location)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> For:
        attributes: dict[str, Attribute] = {}
        if parser.accept("unsigned"):
            attributes["unsignedCmp"] = UnitAttr()
        variable = parser.parse_operand()
        parser.expect("=", "behind the induction variable")
        bounds = [parser.parse_operand()]
        parser.expect("to", "behind the lower bound")
        bounds.append(parser.parse_operand())
        parser.expect("step", "behind the upper bound")
        bounds.append(parser.parse_operand())
        names: list[tuple[str, Location]] = []
        uses: list[Unresolved] = []
        carried: list[Type] = []
        if parser.accept("iter_args"):
            names, uses = _parse_bindings(parser)
            parser.expect("->", "behind iter_args")
            carried = parser.parse_result_types()
        type: Type = parser.parse_type() if parser.accept(":") else INDEX
        if len(names) != len(carried):
            raise parser.error(
                "mismatch in number of loop-carried values and defined values: "
                f"{len(names)} vs {len(carried)}"
            )
        operands = parser.resolve_all(bounds, [type] * 3) + parser.resolve_all(uses, carried)
        arguments: list[tuple[str | None, Type, Location]] = [
            (variable.name, type, parser.location_at(variable.offset))
        ]
        arguments += [(name, t, location) for (name, location), t in zip(names, carried, strict=True)]
        body = parser.parse_region(arguments)
        attributes.update(parser.parse_attr_dict())
        return cls.create(operands, carried, attributes, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.unsigned_cmp is not None:
            printer.write(" unsigned")
        printer.write(" ")
        printer.operand(self.induction_variable)
        printer.write(" = ")
        printer.operand(self.lower)
        printer.write(" to ")
        printer.operand(self.upper)
        printer.write(" step ")
        printer.operand(self.step)
        if self.inits:
            printer.write(" iter_args(")
            for number, (argument, value) in enumerate(zip(self.carried, self.inits, strict=True)):
                if number:
                    printer.write(", ")
                printer.operand(argument)
                printer.write(" = ")
                printer.operand(value)
            printer.write(") -> (")
            printer.types(_types(self.outputs))
            printer.write(")")
        if self.lower.type != INDEX:
            printer.write("  : ")
            printer.type(self.lower.type)
        printer.write(" ")
        hidden = has_implicit_terminator(self, self.body)
        printer.region(self.body, print_entry_arguments=False, print_terminator=not hidden, owner=self.name)
        printer.attr_dict(self.attributes, elided=("unsignedCmp",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        bounds = {value.type for value in self.operands[:3]}
        if len(bounds) != 1:
            yield finding(
                "failed to verify that all of {lowerBound, upperBound, step} have same type",
                f"got {', '.join(str(value.type) for value in self.operands[:3])}",
            )
        if len(self.body.blocks) != 1:
            yield finding("expects a body of one block", f"got {len(self.body.blocks)} blocks")
            return
        block = self.body.block
        if not block.arguments or block.arguments[0].type != self.lower.type:
            yield finding(
                "expected induction variable to be same type as bounds and step",
                f"the first argument of the body must be of type {self.lower.type}",
            )
        if len(self.inits) != len(self.outputs):
            yield finding(
                f"mismatch in number of loop-carried values and defined values: {len(self.inits)} vs "
                f"{len(self.outputs)}",
                "every value of iter_args has an initial value and a result",
            )
        if _types(self.inits) != _types(self.outputs) or _types(self.inits) != _types(block.arguments[1:]):
            initial = ", ".join(map(str, _types(self.inits)))
            yield finding(
                "types mismatch between iter operands, iter region arguments and results",
                f"the initial values are of {initial or 'no types'}",
            )
        terminator = block.terminator
        if not isinstance(terminator, Yield):
            yield finding("expects its body to end in 'scf.yield'", f"it ends in '{terminator.name}'")
            return
        yield from _edge("scf.yield", _types(terminator.values), _types(self.outputs))
        match verifier.definer(self.step):
            case Operation(name="arith.constant", attributes=attributes):
                step = attributes.get("value")
                if isinstance(step, IntegerAttr) and step.value <= 0 and self.unsigned_cmp is None:
                    yield finding(
                        f"constant step operand must be positive, but is {step.value}",
                        "a loop counts upwards; subtract inside the body to count down",
                    )
            case _:
                pass


@operation("scf.if", traits=(RECURSIVE_EFFECTS, SINGLE_BLOCK), implicit_terminator=Yield.create)
class If(Operation):
    """Runs the first region if the condition holds, else the second (which may be empty)."""

    condition = operand(I1)
    outputs = variadic_result()
    then_region = region()
    else_region = region()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> If:
        condition = parser.parse_operand()
        types = parser.parse_result_types() if parser.accept("->") else []
        then = parser.parse_region()
        otherwise = parser.parse_region() if parser.accept("else") else Region()
        attributes = parser.parse_attr_dict()
        from ktir.types import I1 as BOOLEAN

        operands = (parser.resolve(condition, BOOLEAN),)
        return cls.create(operands, types, attributes, (then, otherwise), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.condition)
        if self.outputs:
            printer.write(" -> (")
            printer.types(_types(self.outputs))
            printer.write(")")
        printer.write(" ")
        self._region(printer, self.then_region)
        if self.else_region.blocks:
            printer.write(" else ")
            self._region(printer, self.else_region)
        printer.attr_dict(self.attributes)

    def _region(self, printer: Printer, region: Region) -> None:
        hidden = has_implicit_terminator(self, region)
        printer.region(region, print_terminator=not hidden, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if self.outputs and not self.else_region.blocks:
            yield finding(
                "must have an else block if defining values",
                f"both branches yield {', '.join(map(str, _types(self.outputs)))}",
            )
        for inner in self.regions:
            for block in inner.blocks:
                if not isinstance(block.terminator, Yield):
                    yield finding(
                        "expects its regions to end in 'scf.yield'", f"one ends in '{block.terminator.name}'"
                    )
                else:
                    yield from _edge("scf.yield", _types(block.terminator.values), _types(self.outputs))


@operation("scf.while", traits=(RECURSIVE_EFFECTS,))
class While(Operation):
    """Runs `before`; while its condition holds, `after`, whose yielded values enter `before` again."""

    inits = variadic_operand()
    outputs = variadic_result()
    before = region()
    after = region()

    def has_custom_form(self) -> bool:
        """Only with one block argument per initial value."""
        blocks = self.before.blocks
        return len(blocks) == 1 and len(blocks[0].arguments) == len(self.inits)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> While:
        names: list[tuple[str, Location]] = []
        uses: list[Unresolved] = []
        if parser.at("("):
            names, uses = _parse_bindings(parser)
        parser.expect(":", "in front of the loop's type")
        signature = parser.parse_function_type()
        operands = parser.resolve_all(uses, signature.inputs)
        arguments = [(n, t, at) for (n, at), t in zip(names, signature.inputs, strict=True)]
        before = parser.parse_region(arguments)
        parser.expect("do", "behind the first region")
        after = parser.parse_region()
        attributes = parser.parse_attr_dict_with_keyword()
        return cls.create(operands, signature.results, attributes, (before, after), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.inits:
            printer.write(" (")
            for number, (argument, value) in enumerate(
                zip(self.before.block.arguments, self.inits, strict=True)
            ):
                if number:
                    printer.write(", ")
                printer.operand(argument)
                printer.write(" = ")
                printer.operand(value)
            printer.write(")")
        printer.write(" : ")
        printer.functional_type(_types(self.inits), _types(self.outputs))
        printer.write(" ")
        printer.region(self.before, print_entry_arguments=False, owner=self.name)
        printer.write(" do ")
        printer.region(self.after, owner=self.name)
        printer.attr_dict(self.attributes, keyword=True)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if len(self.before.blocks) != 1 or len(self.after.blocks) != 1:
            yield finding("expects two regions of one block", "the first decides, the second repeats")
            return
        before, after = self.before.block, self.after.block
        yield from _edge("scf.while", _types(self.inits), _types(before.arguments))
        if not isinstance(before.terminator, Condition):
            yield finding(
                "expects the 'before' region to terminate with 'scf.condition'",
                f"it ends in '{before.terminator.name}'",
            )
        else:
            passed = _types(before.terminator.values)
            yield from _edge("scf.condition", passed, _types(after.arguments))
            yield from _edge("scf.condition", passed, _types(self.outputs))
        if not isinstance(after.terminator, Yield):
            yield finding(
                "expects the 'after' region to terminate with 'scf.yield'",
                f"it ends in '{after.terminator.name}'",
            )
        else:
            yield from _edge("scf.yield", _types(after.terminator.values), _types(before.arguments))


DIALECT = Dialect("scf", (For, If, While, Condition, Yield))
