"""The ``func`` dialect (ktir spec 3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, StringAttr, SymbolRefAttr, TypeAttr
from ktir.context import Dialect
from ktir.errors import Diagnostic, finding
from ktir.ir import BlockArgument, Operation, symbol_name
from ktir.lexer import TokenKind
from ktir.location import Location
from ktir.opdef import (
    ISOLATED,
    SYMBOL,
    TERMINATOR,
    attribute,
    operation,
    optional_attribute,
    region,
    variadic_operand,
    variadic_result,
)
from ktir.types import FunctionType, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

_SHOWN = ("sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility")


@operation("func.func", traits=(ISOLATED, SYMBOL))
class Func(Operation):
    """A function; a declaration has no block."""

    sym_name = attribute(StringAttr)
    function_type = attribute(TypeAttr)
    sym_visibility = optional_attribute(StringAttr)
    arg_attrs = optional_attribute(ArrayAttr)
    res_attrs = optional_attribute(ArrayAttr)
    body = region()

    @property
    def symbol(self) -> str:
        """The function's name without ``@``."""
        return self.sym_name.value

    @property
    def type(self) -> FunctionType:
        """Argument and result types."""
        found = self.function_type.type
        assert isinstance(found, FunctionType)
        return found

    @property
    def is_declaration(self) -> bool:
        return not self.body.blocks

    @property
    def is_public(self) -> bool:
        """Whether the function is visible outside its module."""
        return self.sym_visibility is None or self.sym_visibility.value == "public"

    @property
    def arguments(self) -> tuple[BlockArgument, ...]:
        """The entry block's arguments; empty for a declaration."""
        return self.body.blocks[0].arguments if self.body.blocks else ()

    def argument_attributes(self, index: int) -> DictAttr:
        """The attributes written behind argument `index`."""
        match self.arg_attrs:
            case ArrayAttr(elements=elements) if index < len(elements):
                found = elements[index]
                return found if isinstance(found, DictAttr) else DictAttr()
            case _:
                return DictAttr()

    def has_custom_form(self) -> bool:
        """Only if the arguments are those of the type, which the custom form writes once."""
        match self.function_type.type:
            case FunctionType(inputs=inputs):
                return self.is_declaration or tuple(a.type for a in self.arguments) == inputs
            case _:
                return False

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Func:
        attributes: dict[str, Attribute] = {}
        if parser.at("private", "public", "nested"):
            attributes["sym_visibility"] = StringAttr(parser.keyword())
        attributes["sym_name"] = StringAttr(parser.parse_symbol_name())
        arguments: list[tuple[str | None, Type, Location]] = []
        argument_attributes: list[DictAttr] = []

        def one() -> None:
            if parser.cursor.at_kind(TokenKind.VALUE_ID):
                argument = parser.parse_argument(attributes=True)
                if argument.name in {name for name, _, _ in arguments}:
                    raise parser.error_at(
                        argument.offset,
                        f"redefinition of SSA value '%{argument.name}'",
                        "arguments have different names",
                    )
                arguments.append((argument.name, argument.type, argument.location))
                argument_attributes.append(DictAttr(argument.attributes))
            else:
                location = parser.location_at(parser.offset)
                arguments.append((None, parser.parse_type(), location))
                argument_attributes.append(DictAttr(parser.parse_attr_dict()))

        parser.parse_comma_list("(", ")", one)
        results: list[Type] = []
        result_attributes: list[DictAttr] = []
        if parser.accept("->"):

            def result() -> None:
                results.append(parser.parse_type())
                result_attributes.append(DictAttr(parser.parse_attr_dict()))

            if parser.at("("):
                parser.parse_comma_list("(", ")", result)
            else:
                results.append(parser.parse_type())
                result_attributes.append(DictAttr())
        entries = parser.parse_attr_dict_with_keyword()
        for name in entries:
            if name in _SHOWN:
                raise parser.error(f"attribute '{name}' belongs to the function's own syntax")
        attributes.update(entries)
        inputs = tuple(type for _, type, _ in arguments)
        attributes["function_type"] = TypeAttr(FunctionType(inputs, tuple(results)))
        if any(argument_attributes):
            attributes["arg_attrs"] = ArrayAttr(tuple(argument_attributes))
        if any(result_attributes):
            attributes["res_attrs"] = ArrayAttr(tuple(result_attributes))
        body = parser.parse_optional_region(arguments)
        from ktir.ir import Region

        return cls.create(
            attributes=attributes,
            regions=(body if body is not None else Region(),),
            location=parser.location,
        )

    def print_custom(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.write(f" {self.sym_visibility.value}")
        printer.write(" ")
        printer.symbol_name(self.symbol)
        printer.write("(")
        type = self.type
        for number, input in enumerate(type.inputs):
            if number:
                printer.write(", ")
            if self.is_declaration:
                printer.type(input)
                printer.attr_dict(self.argument_attributes(number))
            else:
                printer.argument(self.arguments[number], self.argument_attributes(number))
        printer.write(")")
        if type.results:
            printer.write(" -> ")
            self._print_results(printer, type.results)
        printer.attr_dict(self.attributes, elided=_SHOWN, keyword=True)
        if not self.is_declaration:
            printer.write(" ")
            printer.region(self.body, print_entry_arguments=False, owner=self.name)

    def _print_results(self, printer: Printer, results: tuple[Type, ...]) -> None:
        if self.res_attrs is None:
            printer.result_types(results)
            return
        printer.write("(")
        for number, result in enumerate(results):
            if number:
                printer.write(", ")
            printer.type(result)
            entries = self.res_attrs[number]
            if isinstance(entries, DictAttr):
                printer.attr_dict(entries)
        printer.write(")")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not isinstance(self.function_type.type, FunctionType):
            yield finding(
                "requires a 'function_type' attribute of function type", f"got {self.function_type.type}"
            )
            return
        visibility = self.sym_visibility
        if visibility is not None and visibility.value not in ("public", "private", "nested"):
            yield finding(
                f'visibility expected to be one of ["public", "private", "nested"], but got {visibility}',
                "leave it out for a public function",
            )
        for kind, entries, count in (
            ("argument", self.arg_attrs, len(self.type.inputs)),
            ("result", self.res_attrs, len(self.type.results)),
        ):
            if entries is None:
                continue
            if len(entries) != count:
                yield finding(
                    f"expects {kind} attribute array to have {count} elements, got {len(entries)}",
                    f"one dictionary for each {kind}, empty ones included",
                )
            elif not all(isinstance(entry, DictAttr) for entry in entries.elements):
                yield finding(f"expects {kind} attribute array to hold dictionaries", f"got {entries}")
        if self.is_declaration:
            if self.is_public:
                yield finding(
                    "external functions must have private visibility",
                    "a function without a body is a declaration: func.func private @name(...)",
                )
            return
        given = tuple(argument.type for argument in self.arguments)
        if given != self.type.inputs:
            yield finding(
                "entry block argument types do not match the function's inputs",
                f"expected ({', '.join(map(str, self.type.inputs))}), got ({', '.join(map(str, given))})",
            )


@operation("func.return", assembly="attr-dict ($values^ `:` type($values))?", traits=(TERMINATOR,))
class Return(Operation):
    """Leaves a function."""

    values = variadic_operand()

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        parent = verifier.parent(self)
        if not isinstance(parent, Func):
            around = "the top level" if parent is None else f"'{parent.name}'"
            yield finding("expects parent op 'func.func'", f"it stands in {around}")
            return
        declared = parent.attributes.get("function_type")
        if not isinstance(declared, TypeAttr) or not isinstance(declared.type, FunctionType):
            return  # reported at the function
        expected = declared.type.results
        if len(expected) != len(self.values):
            yield finding(
                f"has {len(self.values)} operands, but enclosing function (@{symbol_name(parent)}) returns "
                f"{len(expected)}",
                f"the function returns ({', '.join(map(str, expected))})",
            )
            return
        for number, (value, type) in enumerate(zip(self.values, expected, strict=True)):
            if value.type != type:
                yield finding(
                    f"type of return operand {number} ('{value.type}') doesn't match function result type "
                    f"('{type}') in function @{symbol_name(parent)}",
                    f"the function returns ({', '.join(map(str, expected))})",
                )


@operation("func.call")
class Call(Operation):
    """Calls a function by its symbol."""

    callee = attribute(SymbolRefAttr)
    arguments = variadic_operand()
    outputs = variadic_result()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Call:
        callee = parser.parse_symbol_ref()
        uses = parser.parse_comma_list("(", ")", parser.parse_operand)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the call's type")
        signature = parser.parse_function_type()
        attributes["callee"] = callee
        values = parser.resolve_all(uses, signature.inputs)
        return cls.create(values, signature.results, attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.attribute(self.callee)
        printer.write("(")
        printer.operands(self.arguments)
        printer.write(")")
        printer.attr_dict(self.attributes, elided=("callee",))
        printer.write(" : ")
        printer.functional_type([v.type for v in self.arguments], [v.type for v in self.outputs])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        target: Operation | None = verifier.symbol(self, self.callee.root)
        for name in self.callee.nested:
            inside = (
                [] if target is None else [o for r in target.regions for b in r.blocks for o in b.operations]
            )
            target = next((op for op in inside if symbol_name(op) == name), None)
        shown = "::@".join((self.callee.root, *self.callee.nested))
        if not isinstance(target, Func):
            what = "no symbol has that name" if target is None else f"it names a '{target.name}'"
            yield finding(f"'{shown}' does not reference a valid function", what)
            return
        declared = target.attributes.get("function_type")
        if not isinstance(declared, TypeAttr) or not isinstance(declared.type, FunctionType):
            return  # reported at the function
        expected = declared.type
        if len(expected.inputs) != len(self.arguments):
            yield finding(
                "incorrect number of operands for callee",
                f"@{shown} takes {len(expected.inputs)}, got {len(self.arguments)}",
            )
            return
        for number, (value, type) in enumerate(zip(self.arguments, expected.inputs, strict=True)):
            if value.type != type:
                yield finding(
                    f"operand type mismatch: expected operand type '{type}', but provided '{value.type}' "
                    f"for operand number {number}",
                    f"@{shown} is {expected}",
                )
        if tuple(v.type for v in self.outputs) != expected.results:
            yield finding("result type mismatch with the callee", f"@{shown} is {expected}")


DIALECT = Dialect("func", (Func, Return, Call))
