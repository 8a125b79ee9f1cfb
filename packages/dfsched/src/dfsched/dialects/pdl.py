"""The subset of `pdl` in which device files write rewrite patterns (device spec 4.2).

Inside a pattern the prefix ``pdl.`` may be left out. Ranges, attribute type constraints and external
rewriters are refused by name ("unsupported PDL construct").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from ktir.attribute import Attribute
from ktir.attributes import (
    FALSE,
    TRUE,
    ArrayAttr,
    DenseArrayAttr,
    IntegerAttr,
    StringAttr,
    TypeAttr,
)
from ktir.constraints import Constraint, instance_of
from ktir.context import Dialect
from ktir.errors import Diagnostic
from ktir.ir import Operation, Region, Value
from ktir.opdef import (
    ISOLATED,
    NO_TERMINATOR,
    OPTIONAL_BODY,
    SINGLE_BLOCK,
    TERMINATOR,
    attribute,
    operand,
    operation,
    optional_attribute,
    optional_operand,
    region,
    result,
    variadic_operand,
    variadic_result,
)
from ktir.types import I16, I32, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser
    from ktir.parser.operations import Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

__all__ = [
    "PDL",
    "ApplyNativeConstraintOp",
    "ApplyNativeRewriteOp",
    "AttributeOp",
    "EraseOp",
    "OperandOp",
    "OperationOp",
    "PatternOp",
    "ReplaceOp",
    "ResultOp",
    "RewriteOp",
    "TypeOp",
]


@attrs.frozen
class PdlOperationType(Type):
    """``!pdl.operation``."""

    mnemonic = "pdl.operation"


@attrs.frozen
class PdlValueType(Type):
    """``!pdl.value``."""

    mnemonic = "pdl.value"


@attrs.frozen
class PdlTypeType(Type):
    """``!pdl.type``."""

    mnemonic = "pdl.type"


@attrs.frozen
class PdlAttributeType(Type):
    """``!pdl.attribute``."""

    mnemonic = "pdl.attribute"


OPERATION, VALUE, TYPE, ATTRIBUTE = PdlOperationType(), PdlValueType(), PdlTypeType(), PdlAttributeType()
_TYPES = (PdlOperationType, PdlValueType, PdlTypeType, PdlAttributeType)

IS_OPERATION = instance_of("PDL handle to an operation", PdlOperationType)
IS_VALUE = instance_of("PDL handle to a value", PdlValueType)
IS_TYPE = instance_of("PDL handle to a type", PdlTypeType)
IS_ATTRIBUTE = instance_of("PDL handle to an attribute", PdlAttributeType)
ANY_HANDLE = Constraint("PDL handle", lambda type: isinstance(type, _TYPES))


def _pdl_type(parser: OpParser) -> Type:
    start = parser.offset
    type = parser.parse_type()
    if not isinstance(type, _TYPES):
        raise parser.error_at(start, f"unsupported PDL construct: type '{type}'")
    return type


def _arguments(parser: OpParser) -> list[Value]:
    """``(%a, %b : type, type)``, possibly empty."""
    parser.expect("(")
    if parser.accept(")"):
        return []
    uses: list[Unresolved] = parser.parse_comma_list(None, None, parser.parse_operand)
    parser.expect(":", "in front of the types")
    types: list[Type] = parser.parse_comma_list(None, None, lambda: _pdl_type(parser))
    parser.expect(")")
    return parser.resolve_all(uses, types)


def _print_arguments(printer: Printer, values: Sequence[Value]) -> None:
    printer.write("(")
    if values:
        printer.operands(values)
        printer.write(" : ")
        printer.types([value.type for value in values])
    printer.write(")")


@operation("pdl.pattern", traits=(ISOLATED, SINGLE_BLOCK, NO_TERMINATOR))
class PatternOp(Operation):
    """A pattern: what to match, and (its terminator) how to rewrite it. Higher benefit is tried first."""

    sym_name = optional_attribute(StringAttr)
    benefit = attribute(IntegerAttr)
    body = region()

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(op for block in self.body.blocks for op in block.operations)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> PatternOp:
        name = parser.parse_optional_symbol_name()
        parser.expect(":", "in front of the benefit")
        parser.expect_keyword("benefit")
        parser.expect("(")
        start = parser.offset
        benefit = parser.parse_integer()
        if not 0 <= benefit < 1 << 15:
            raise parser.error_at(start, "the benefit of a pattern is a 16-bit number >= 0")
        parser.expect(")")
        attributes: dict[str, Attribute] = {"benefit": IntegerAttr(benefit, I16)}
        if name is not None:
            attributes["sym_name"] = StringAttr(name)
        body = parser.parse_region(default_dialect="pdl")
        return cls.create(attributes=attributes, regions=(body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.sym_name is not None:
            printer.write(" ")
            printer.symbol_name(self.sym_name.value)
        printer.write(f" : benefit({self.benefit.value}) ")
        printer.region(self.body, owner=self.name)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        inside = self.operations
        if not inside or not isinstance(inside[-1], RewriteOp):
            yield "expected body to terminate with `pdl.rewrite`"
        if not any(isinstance(op, OperationOp) for op in inside):
            yield "the pattern must contain at least one `pdl.operation`"
        for op in inside:
            if isinstance(op, ReplaceOp | EraseOp | ApplyNativeRewriteOp):
                yield Diagnostic(f"'{op.name}' op belongs into `pdl.rewrite`", op.location)


@operation("pdl.type")
class TypeOp(Operation):
    """A type: the given constant, or any."""

    constant = optional_attribute(TypeAttr, name="constantType")
    type = result(IS_TYPE)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> TypeOp:
        attributes = parser.parse_attr_dict()
        if parser.accept(":"):
            attributes["constantType"] = TypeAttr(parser.parse_type())
        names = parser.result_names
        return cls.create((), (TYPE,), attributes, location=parser.location, names=names)

    def print_custom(self, printer: Printer) -> None:
        printer.attr_dict(self.attributes, elided=("constantType",))
        if self.constant is not None:
            printer.write(" : ")
            printer.attribute(self.constant)


@operation("pdl.operand")
class OperandOp(Operation):
    """A value from outside the match, optionally of a given type."""

    type = optional_operand(IS_TYPE)
    value = result(IS_VALUE)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> OperandOp:
        types = [parser.resolve(parser.parse_operand(), TYPE)] if parser.accept(":") else []
        attributes = parser.parse_attr_dict()
        names = parser.result_names
        return cls.create(types, (VALUE,), attributes, location=parser.location, names=names)

    def print_custom(self, printer: Printer) -> None:
        if self.type is not None:
            printer.write(" : ")
            printer.operand(self.type)
        printer.attr_dict(self.attributes)


@operation("pdl.attribute")
class AttributeOp(Operation):
    """An attribute: the given constant, or (in a match) any."""

    constant = optional_attribute(Attribute, name="value")
    attribute = result(IS_ATTRIBUTE)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> AttributeOp:
        if parser.at(":"):
            raise parser.error("unsupported PDL construct: attribute with a type")
        attributes: dict[str, Attribute] = {}
        if parser.accept("="):
            attributes["value"] = parser.parse_attribute()
        names = parser.result_names
        return cls.create((), (ATTRIBUTE,), attributes, location=parser.location, names=names)

    def print_custom(self, printer: Printer) -> None:
        if self.constant is not None:
            printer.write(" = ")
            printer.attribute(self.constant)
        printer.attr_dict(self.attributes, elided=("value",))


@operation("pdl.operation")
class OperationOp(Operation):
    """An operation to match, or (in a rewrite) to create."""

    operand_values = variadic_operand(IS_VALUE)
    attribute_values = variadic_operand(IS_ATTRIBUTE)
    type_values = variadic_operand(IS_TYPE)
    op_name = optional_attribute(StringAttr, name="opName")
    attribute_names = attribute(ArrayAttr, name="attributeValueNames")
    handle = result(IS_OPERATION)

    @property
    def named_attributes(self) -> tuple[tuple[str, Value], ...]:
        """Names and handles of the listed attributes."""
        names = [a.value for a in self.attribute_names if isinstance(a, StringAttr)]
        return tuple(zip(names, self.attribute_values, strict=True))

    @classmethod
    def parse_custom(cls, parser: OpParser) -> OperationOp:
        name = parser.parse_optional_string()
        values = _arguments(parser) if parser.at("(") else []
        names: list[str] = []
        uses: list[Unresolved] = []
        if parser.at("{"):

            def entry() -> None:
                names.append(parser.parse_string())
                parser.expect("=", "behind the attribute's name")
                uses.append(parser.parse_operand())

            parser.parse_comma_list("{", "}", entry)
        handles = parser.resolve_all(uses, [ATTRIBUTE] * len(uses))
        types = _arguments(parser) if parser.accept("->") else []
        attributes: dict[str, Attribute] = {
            "attributeValueNames": ArrayAttr(tuple(map(StringAttr, names))),
            "operandSegmentSizes": DenseArrayAttr(I32, (len(values), len(handles), len(types))),
        }
        if name is not None:
            attributes["opName"] = StringAttr(name)
        operands = (*values, *handles, *types)
        hints = parser.result_names
        return cls.create(operands, (OPERATION,), attributes, location=parser.location, names=hints)

    def print_custom(self, printer: Printer) -> None:
        if self.op_name is not None:
            printer.write(" ")
            printer.attribute(self.op_name)
        if self.operand_values:
            printer.write(" ")
            _print_arguments(printer, self.operand_values)
        if self.attribute_values:
            printer.write(" {")
            for number, (name, value) in enumerate(self.named_attributes):
                printer.write(", " if number else "")
                printer.attribute(StringAttr(name))
                printer.write(" = ")
                printer.operand(value)
            printer.write("}")
        if self.type_values:
            printer.write(" -> ")
            _print_arguments(printer, self.type_values)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if len(self.attribute_names) != len(self.attribute_values):
            yield (
                f"expected the same number of attribute values and attribute names, got "
                f"{len(self.attribute_names)} names and {len(self.attribute_values)} values"
            )
        if self.op_name is None and isinstance(verifier.parent(self), RewriteOp):
            yield "must have an operation name when nested within a `pdl.rewrite`"


@operation("pdl.result")
class ResultOp(Operation):
    """One result of an operation."""

    parent = operand(IS_OPERATION)
    index = attribute(IntegerAttr)
    value = result(IS_VALUE)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ResultOp:
        index = parser.parse_integer()
        parser.expect_keyword("of")
        parent = parser.resolve(parser.parse_operand(), OPERATION)
        attributes = {**parser.parse_attr_dict(), "index": IntegerAttr(index, I32)}
        names = parser.result_names
        return cls.create((parent,), (VALUE,), attributes, location=parser.location, names=names)

    def print_custom(self, printer: Printer) -> None:
        printer.write(f" {self.index.value} of ")
        printer.operand(self.parent)
        printer.attr_dict(self.attributes, elided=("index",))


def _parse_native(parser: OpParser) -> tuple[str, list[Value], list[Type], dict[str, Attribute]]:
    name = parser.parse_string()
    arguments = _arguments(parser)
    types: list[Type] = []
    if parser.accept(":"):
        types = parser.parse_comma_list(None, None, lambda: _pdl_type(parser))
    return name, arguments, types, parser.parse_attr_dict()


def _print_native(printer: Printer, op: Operation, name: str, elided: tuple[str, ...]) -> None:
    printer.write(" ")
    printer.attribute(StringAttr(name))
    printer.write(" ")
    _print_arguments(printer, op.operands)
    if op.results:
        printer.write(" : ")
        printer.types([value.type for value in op.results])
    printer.attr_dict(op.attributes, elided=elided)


@operation("pdl.apply_native_constraint")
class ApplyNativeConstraintOp(Operation):
    """A native predicate that must hold (or, negated, must not)."""

    arguments = variadic_operand(ANY_HANDLE)
    function = attribute(StringAttr, name="name")
    is_negated = optional_attribute(IntegerAttr, name="isNegated")
    values = variadic_result(ANY_HANDLE)

    @property
    def negated(self) -> bool:
        return self.is_negated == TRUE

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ApplyNativeConstraintOp:
        name, arguments, types, attributes = _parse_native(parser)
        if attributes.get("isNegated") == FALSE:
            del attributes["isNegated"]
        attributes["name"] = StringAttr(name)
        hints = parser.result_names
        return cls.create(arguments, types, attributes, location=parser.location, names=hints)

    def print_custom(self, printer: Printer) -> None:
        _print_native(printer, self, self.function.value, ("name",))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not self.arguments:
            yield "expected at least one argument"
        if self.negated:
            for value in self.results:
                if verifier.uses(value):
                    yield "the results of a negated constraint must not be used"


@operation("pdl.apply_native_rewrite")
class ApplyNativeRewriteOp(Operation):
    """A native function that changes or creates."""

    arguments = variadic_operand(ANY_HANDLE)
    function = attribute(StringAttr, name="name")
    values = variadic_result(ANY_HANDLE)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ApplyNativeRewriteOp:
        name, arguments, types, attributes = _parse_native(parser)
        attributes["name"] = StringAttr(name)
        hints = parser.result_names
        return cls.create(arguments, types, attributes, location=parser.location, names=hints)

    def print_custom(self, printer: Printer) -> None:
        _print_native(printer, self, self.function.value, ("name",))


@operation(
    "pdl.rewrite", traits=(TERMINATOR, SINGLE_BLOCK, OPTIONAL_BODY, NO_TERMINATOR), parents=("pdl.pattern",)
)
class RewriteOp(Operation):
    """The actions of a pattern, optionally naming the operation at which it is rooted."""

    root = optional_operand(IS_OPERATION)
    body = region()

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(op for block in self.body.blocks for op in block.operations)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> RewriteOp:
        use = parser.parse_optional_operand()
        if parser.at("with"):
            raise parser.error("unsupported PDL construct: external rewriter ('rewrite with')")
        root = [] if use is None else [parser.resolve(use, OPERATION)]
        body: Region = parser.parse_region(default_dialect="pdl")
        return cls.create(root, (), {}, (body,), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        if self.root is not None:
            printer.operand(self.root)
            printer.write(" ")
        printer.region(self.body, owner=self.name)


@operation("pdl.replace", parents=("pdl.rewrite",))
class ReplaceOp(Operation):
    """Uses values, or the results of another operation, instead of an operation, which is erased."""

    target = operand(IS_OPERATION)
    replacement = optional_operand(IS_OPERATION)
    values = variadic_operand(IS_VALUE)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> ReplaceOp:
        target = parser.resolve(parser.parse_operand(), OPERATION)
        parser.expect_keyword("with")
        other: list[Value] = []
        values: list[Value] = []
        if parser.at("("):
            values = _arguments(parser)
        else:
            other = [parser.resolve(parser.parse_operand(), OPERATION)]
        attributes = parser.parse_attr_dict()
        attributes["operandSegmentSizes"] = DenseArrayAttr(I32, (1, len(other), len(values)))
        return cls.create((target, *other, *values), (), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.target)
        printer.write(" with ")
        if self.replacement is not None:
            printer.operand(self.replacement)
        else:
            _print_arguments(printer, self.values)
        printer.attr_dict(self.attributes, elided=("operandSegmentSizes",))


@operation("pdl.erase", parents=("pdl.rewrite",))
class EraseOp(Operation):
    """Erases an operation whose results are not used."""

    target = operand(IS_OPERATION)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> EraseOp:
        target = parser.resolve(parser.parse_operand(), OPERATION)
        return cls.create((target,), (), parser.parse_attr_dict(), location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.target)
        printer.attr_dict(self.attributes)


class _Refused(Operation):
    """A construct of PDL outside the subset."""

    @classmethod
    def parse_custom(cls, parser: OpParser) -> _Refused:
        raise parser.error(f"unsupported PDL construct '{cls.definition.name}'")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield f"unsupported PDL construct '{self.name}'"


@operation("pdl.operands")
class OperandsOp(_Refused):
    """A range of operands (refused)."""


@operation("pdl.types")
class TypesOp(_Refused):
    """A range of types (refused)."""


@operation("pdl.results")
class ResultsOp(_Refused):
    """A range of results (refused)."""


@operation("pdl.range")
class RangeOp(_Refused):
    """A range of values or types (refused)."""


PDL = Dialect(
    "pdl",
    operations=(
        PatternOp,
        TypeOp,
        OperandOp,
        AttributeOp,
        OperationOp,
        ResultOp,
        ApplyNativeConstraintOp,
        ApplyNativeRewriteOp,
        RewriteOp,
        ReplaceOp,
        EraseOp,
        OperandsOp,
        TypesOp,
        ResultsOp,
        RangeOp,
    ),
    types=(PdlOperationType, PdlValueType, PdlTypeType, PdlAttributeType),
)
