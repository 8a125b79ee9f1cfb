"""Declarative assembly formats: a subset of ODS' ``assemblyFormat``, compiled once per operation class.

Directives: literals in backticks (an empty pair means "no blank here"), ``$name`` of an operand, attribute or
region (an operation with successors writes its own hooks), ``attr-dict``, ``attr-dict-with-keyword``,
``type($name)``, ``stripped-type($name)`` (the type's class is fixed by the constraint), ``type(operands)``,
``type(results)``, ``functional-type(operands, results)``, and optional groups ``( ... $name^ ... )?`` with an
optional else ``( ... ) : ( ... )?``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ktir.attribute import Attribute
from ktir.attributes import (
    UNIT,
    ArrayAttr,
    DenseArrayAttr,
    DictAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from ktir.errors import DeclarationError
from ktir.ir import Operation, Region, Value
from ktir.opdef import (
    OPERAND_SEGMENTS,
    RESULT_SEGMENTS,
    SAME_TYPE,
    Arity,
    AttributeDef,
    OpDef,
    OperandDef,
    ResultDef,
)
from ktir.types import I32, I64, Type

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer

O = TypeVar("O", bound=Operation)


# -- the format as data


@attrs.frozen
class Literal:
    """Fixed text; empty means: no blank in front of what follows."""

    text: str


@attrs.frozen
class Variable:
    """``$name``."""

    name: str
    kind: str  # operand | attribute | region


@attrs.frozen
class AttrDict:
    """``attr-dict`` or ``attr-dict-with-keyword``."""

    keyword: bool


@attrs.frozen
class TypeOf:
    """``type($name)``; `name` may be ``operands`` or ``results``; `stripped` drops the class' prefix."""

    name: str
    stripped: bool


@attrs.frozen
class FunctionalType:
    """``functional-type(operands, results)``."""


@attrs.frozen
class OptionalGroup:
    """``( ... anchor^ ... )?``."""

    elements: tuple[Element, ...]
    anchor: str
    otherwise: tuple[Element, ...] = ()


Element = Literal | Variable | AttrDict | TypeOf | FunctionalType | OptionalGroup

_TOKEN = re.compile(
    r"\s*(?:`(?P<literal>[^`]*)`|\$(?P<variable>\w+)(?P<anchor>\^)?|(?P<word>[a-z][a-z\-]*)|(?P<punct>[()?:,]))"
)


class _FormatReader:
    """Reads a format string; `DeclarationError` for a mistake."""

    def __init__(self, text: str, definition: OpDef) -> None:
        self.definition = definition
        self.tokens = list(_TOKEN.finditer(text))
        if "".join(m.group(0) for m in self.tokens).strip() != text.strip():
            raise DeclarationError(definition.name, f"malformed assembly format {text!r}")
        self.position = 0
        self.kinds = {d.name: "operand" for d in definition.operands}
        self.kinds |= {d.name: "attribute" for d in definition.attributes}
        self.kinds |= {d.name: "region" for d in definition.regions}

    def punct(self, text: str) -> bool:
        if self.position < len(self.tokens) and self.tokens[self.position].group("punct") == text:
            self.position += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.punct(text):
            raise DeclarationError(self.definition.name, f"expected {text!r} in assembly format")

    def next(self) -> re.Match[str]:
        if self.position == len(self.tokens):
            raise DeclarationError(self.definition.name, "assembly format ends within parentheses")
        self.position += 1
        return self.tokens[self.position - 1]

    def whole(self) -> tuple[Element, ...]:
        elements, anchor = self.elements()
        if self.position < len(self.tokens) or anchor is not None:
            what = (
                "a parenthesis that nothing opens"
                if anchor is None
                else f"an anchor on ${anchor} outside a group"
            )
            raise DeclarationError(self.definition.name, f"{what} in assembly format")
        return elements

    def elements(self) -> tuple[tuple[Element, ...], str | None]:
        found: list[Element] = []
        anchor: str | None = None
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            if token.group("punct") == ")":
                break
            self.position += 1
            if (literal := token.group("literal")) is not None:
                found.append(Literal(literal.strip()))
            elif (name := token.group("variable")) is not None:
                if name not in self.kinds:
                    raise DeclarationError(self.definition.name, f"unknown ${name} in assembly format")
                found.append(Variable(name, self.kinds[name]))
                if token.group("anchor"):
                    anchor = name
            elif (word := token.group("word")) is not None:
                found.append(self.directive(word))
            elif token.group("punct") == "(":
                found.append(self.group())
            else:
                raise DeclarationError(
                    self.definition.name, f"unexpected {token.group(0).strip()!r} in assembly format"
                )
        return tuple(found), anchor

    def group(self) -> OptionalGroup:
        elements, anchor = self.elements()
        self.need(")")
        otherwise: tuple[Element, ...] = ()
        if self.punct(":"):
            self.need("(")
            otherwise, _ = self.elements()
            self.need(")")
        self.need("?")
        if anchor is None:
            raise DeclarationError(self.definition.name, "optional group without anchor")
        return OptionalGroup(elements, anchor, otherwise)

    def directive(self, word: str) -> Element:
        match word:
            case "attr-dict" | "attr-dict-with-keyword":
                return AttrDict(word != "attr-dict")
            case "functional-type":
                self.need("(")
                while not self.punct(")"):
                    self.next()
                return FunctionalType()
            case "type" | "stripped-type":
                self.need("(")
                token = self.next()
                self.need(")")
                return TypeOf(token.group("variable") or token.group("word"), word != "type")
            case _:
                raise DeclarationError(self.definition.name, f"unknown directive {word!r}")


@cache
def compile_format(definition: OpDef) -> tuple[Element, ...]:
    """The elements of a declared format.  A cache keyed by the (immutable) definition.

    Raises `DeclarationError` for a mistake in the format.
    """
    assert definition.assembly is not None
    return _FormatReader(definition.assembly, definition).whole()


# -- parsing


class _State:
    """What has been read of one operation."""

    def __init__(self, definition: OpDef) -> None:
        self.operands: dict[str, list[Unresolved]] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: dict[str, list[Region]] = {}
        self.types: dict[str, list[Type]] = {}
        self.inputs: tuple[Type, ...] | None = None
        self.outputs: tuple[Type, ...] | None = None
        self.operand_defs = {d.name: d for d in definition.operands}
        self.result_defs = {d.name: d for d in definition.results}
        self.attribute_defs = {d.name: d for d in definition.attributes}
        self.region_defs = {d.name: d for d in definition.regions}


def parse_assembly(cls: type[O], parser: OpParser) -> O:
    """Read the custom form of `cls` by its declared format."""
    definition = cls.definition
    state = _State(definition)
    start = parser.offset
    _parse_elements(compile_format(definition), parser, state)
    operand_types = _operand_types(definition, state, parser, start)
    operands: list[Value] = []
    sizes: list[int] = []
    for declared in definition.operands:
        uses = state.operands.get(declared.name, [])
        types = operand_types[declared.name]
        operands += parser.resolve_all(uses, types)
        sizes.append(len(uses))
    result_types, result_sizes = _result_types(cls, state, operands, parser, start)
    if definition.operand_segments:
        state.attributes[OPERAND_SEGMENTS] = DenseArrayAttr(I32, tuple(sizes))
    if definition.result_segments:
        state.attributes[RESULT_SEGMENTS] = DenseArrayAttr(I32, tuple(result_sizes))
    regions = [region for d in definition.regions for region in state.regions.get(d.name, [])]
    return cls.create(operands, result_types, state.attributes, regions, (), parser.location)


def _parse_elements(elements: Sequence[Element], parser: OpParser, state: _State) -> None:
    for element in elements:
        match element:
            case Literal(text=text):
                if text:
                    parser.expect(text)
            case Variable():
                _parse_variable(element, parser, state)
            case AttrDict(keyword=keyword):
                entries = parser.parse_attr_dict_with_keyword() if keyword else parser.parse_attr_dict()
                for name, value in entries.items():
                    if name in state.attributes:
                        raise parser.error(f"attribute '{name}' is given twice")
                    state.attributes[name] = value
            case TypeOf():
                _parse_types(element, parser, state)
            case FunctionalType():
                signature = parser.parse_function_type()
                state.inputs, state.outputs = signature.inputs, signature.results
            case OptionalGroup():
                if _present(element, parser, state):
                    _parse_elements(element.elements, parser, state)
                    if _is_unit(state, element.anchor):
                        state.attributes[element.anchor] = UNIT
                else:
                    _parse_elements(element.otherwise, parser, state)


def _is_unit(state: _State, name: str) -> bool:
    """Whether `name` is an attribute that is only there or not there."""
    declared = state.attribute_defs.get(name)
    return declared is not None and declared.kind is UnitAttr


def _present(group: OptionalGroup, parser: OpParser, state: _State) -> bool:
    first = next((e for e in group.elements if not (isinstance(e, Literal) and not e.text)), None)
    match first:
        case Literal(text=text):
            return parser.at(text)
        case Variable(name=name, kind="operand"):
            from ktir.lexer import TokenKind

            return parser.cursor.at_kind(TokenKind.VALUE_ID)
        case Variable(kind="region"):
            return parser.at("{")
        case Variable(name=name, kind="attribute"):
            parsed = _parse_attribute_value(state.attribute_defs[name], parser, optional=True)
            if parsed is None:
                return False
            state.attributes[name] = parsed
            return True
        case _:
            return False


def _parse_variable(variable: Variable, parser: OpParser, state: _State) -> None:
    name = variable.name
    match variable.kind:
        case "operand":
            match state.operand_defs[name].arity:
                case Arity.ONE:
                    state.operands[name] = [parser.parse_operand()]
                case Arity.OPTIONAL:
                    use = parser.parse_optional_operand()
                    state.operands[name] = [] if use is None else [use]
                case Arity.VARIADIC:
                    state.operands[name] = parser.parse_operand_list()
        case "region":
            if state.region_defs[name].variadic:
                found = [parser.parse_region()] if parser.at("{") else []
                while found and parser.accept(","):
                    found.append(parser.parse_region())
                state.regions[name] = found
            else:
                state.regions[name] = [parser.parse_region()]
        case _:
            if name in state.attributes or _is_unit(state, name):
                return  # read while deciding whether the optional group is there
            parsed = _parse_attribute_value(state.attribute_defs[name], parser, optional=False)
            assert parsed is not None
            state.attributes[name] = parsed


def _parse_attribute_value(declared: AttributeDef, parser: OpParser, *, optional: bool) -> Attribute | None:
    kind = declared.kind
    if isinstance(kind, tuple):
        return parser.parse_optional_attribute() if optional else parser.parse_attribute()
    if kind is StringAttr and declared.name == "sym_name":
        symbol = parser.parse_optional_symbol_name() if optional else parser.parse_symbol_name()
        return None if symbol is None else StringAttr(symbol)
    if kind is IntegerAttr:
        return _parse_integer(declared, parser, optional)
    if kind is TypeAttr:
        parsed = parser.parse_optional_type() if optional else parser.parse_type()
        return None if parsed is None else TypeAttr(parsed)
    if kind is StringAttr:
        text = parser.parse_optional_string() if optional else parser.parse_string()
        return None if text is None else StringAttr(text)
    if kind.mnemonic and (parser.at("<") or not parser.cursor.token.text.startswith("#")):
        if optional and not parser.at("<"):
            return None
        return kind.parse_parameters(parser)
    return parser.parse_optional_attribute() if optional else parser.parse_attribute()


def _parse_integer(declared: AttributeDef, parser: OpParser, optional: bool) -> Attribute | None:
    from ktir.lexer import TokenKind

    if optional and not (parser.at("-") or parser.cursor.at_kind(TokenKind.INTEGER)):
        return None
    if declared.value_type is not None:
        return parser.parse_attribute(declared.value_type)
    return parser.parse_attribute()


def _parse_types(element: TypeOf, parser: OpParser, state: _State) -> None:
    name = element.name
    declared: OperandDef | ResultDef | None = state.operand_defs.get(name) or state.result_defs.get(name)
    parse: Callable[[], Type] = parser.parse_type
    if element.stripped:
        assert declared is not None
        type_class = declared.constraint.type_class
        assert type_class is not None, f"stripped-type(${name}) needs a constraint with one type class"
        parse = _stripped(parser, type_class)
    if declared is not None and declared.arity is Arity.ONE:
        state.types[name] = [parse()]
        return
    if declared is not None and name in state.operands and not state.operands[name]:
        state.types[name] = []
        return
    state.types[name] = parser.parse_comma_list(None, None, parse)


def _stripped(parser: OpParser, type_class: type[Type]) -> Callable[[], Type]:
    return lambda: parser.parse_stripped_type(type_class)


def _operand_types(
    definition: OpDef, state: _State, parser: OpParser, start: int
) -> dict[str, Sequence[Type]]:
    counts = {d.name: len(state.operands.get(d.name, [])) for d in definition.operands}
    flat = state.inputs if state.inputs is not None else state.types.get("operands")
    found: dict[str, Sequence[Type]] = {}
    if flat is not None:
        if len(flat) != sum(counts.values()):
            raise parser.error_at(
                start, f"expected {sum(counts.values())} operand types, but had {len(flat)}"
            )
        position = 0
        for name, count in counts.items():
            found[name] = flat[position : position + count]
            position += count
        return found
    shared = _shared_type(definition, state)
    for declared in definition.operands:
        count = counts[declared.name]
        if declared.name in state.types:
            found[declared.name] = state.types[declared.name]
        elif declared.constraint.buildable is not None:
            found[declared.name] = [declared.constraint.buildable] * count
        elif shared is not None:
            found[declared.name] = [shared] * count
        else:
            uses = state.operands.get(declared.name, [])
            known = [parser.value_type(use) for use in uses]
            for use, type in zip(uses, known, strict=True):
                if type is None:
                    raise parser.error_at(use.offset, "use of undeclared SSA value name")
            found[declared.name] = [type for type in known if type is not None]
    return found


def _shared_type(definition: OpDef, state: _State) -> Type | None:
    if not definition.has(SAME_TYPE):
        return None
    return next((types[0] for types in state.types.values() if types), None)


def _result_types(
    cls: type[Operation], state: _State, operands: Sequence[Value], parser: OpParser, start: int
) -> tuple[list[Type], list[int]]:
    definition = cls.definition
    flat = state.outputs if state.outputs is not None else state.types.get("results")
    if flat is not None:
        loose = len(flat) - sum(d.arity is Arity.ONE for d in definition.results)
        sizes = [1 if d.arity is Arity.ONE else loose for d in definition.results]
        return list(flat), sizes
    inferred = cls.infer_result_types(operands, DictAttr(state.attributes))
    types: list[Type] = []
    sizes = []
    shared = _shared_type(definition, state)
    for position, declared in enumerate(definition.results):
        if declared.name in state.types:
            group: Sequence[Type] = state.types[declared.name]
        elif inferred is not None:
            group = inferred[position : position + 1]
        elif declared.constraint.buildable is not None:
            group = [declared.constraint.buildable]
        elif shared is not None:
            group = [shared]
        elif declared.arity is not Arity.ONE:
            group = []
        else:
            raise parser.error_at(start, f"cannot infer the type of result '{declared.name}'")
        types += group
        sizes.append(len(group))
    return types, sizes


# -- printing


def print_assembly(op: Operation, printer: Printer) -> None:
    """Write the custom form of `op` by its declared format, with ODS' rules for blanks."""
    elements = compile_format(op.definition)
    shown = set(_shown_attributes(elements))
    writer = _Writer(op, printer, shown)
    writer.elements(elements)


def _shown_attributes(elements: Sequence[Element]) -> list[str]:
    names: list[str] = []
    for element in elements:
        match element:
            case Variable(name=name, kind="attribute"):
                names.append(name)
            case OptionalGroup(elements=inner, otherwise=otherwise, anchor=anchor):
                names += [anchor, *_shown_attributes(inner), *_shown_attributes(otherwise)]
    return names


class _Writer:
    def __init__(self, op: Operation, printer: Printer, shown: set[str]) -> None:
        self.op = op
        self.printer = printer
        self.shown = shown
        self.space = True
        self.after_punctuation = False
        self.attribute_defs: dict[str, AttributeDef] = {d.name: d for d in op.definition.attributes}

    def blank(self) -> None:
        if self.space or not self.after_punctuation:
            self.printer.write(" ")
        self.space = True
        self.after_punctuation = False

    def elements(self, elements: Sequence[Element]) -> None:
        for element in elements:
            match element:
                case Literal(text=text):
                    self.literal(text)
                case Variable():
                    self.variable(element)
                case AttrDict(keyword=keyword):
                    segments = {OPERAND_SEGMENTS, RESULT_SEGMENTS} & self.op.definition.inherent
                    elided = self.shown | segments | self.defaults()
                    self.printer.attr_dict(self.op.attributes, elided=elided, keyword=keyword)
                case TypeOf():
                    self.types(element)
                case FunctionalType():
                    self.blank()
                    self.printer.functional_type(
                        [v.type for v in self.op.operands], [v.type for v in self.op.results]
                    )
                case OptionalGroup():
                    self.elements(element.elements if self.present(element.anchor) else element.otherwise)

    def defaults(self) -> set[str]:
        attributes = self.op.attributes
        return {
            d.name
            for d in self.op.definition.attributes
            if d.default is not None and attributes.get(d.name) == d.default
        }

    def literal(self, text: str) -> None:
        if not text:
            self.space = False
            self.after_punctuation = True
            return
        if self.space and _blank_before(text, self.after_punctuation):
            self.printer.write(" ")
        self.printer.write(text)
        self.space = len(text) != 1 or text not in "<({["
        self.after_punctuation = text[0] != "_" and not text[0].isalpha()

    def present(self, name: str) -> bool:
        declared = self.attribute_defs.get(name)
        if declared is not None:
            value = self.op.attributes.get(name)
            return value is not None and value != declared.default
        item: Any = getattr(self.op, name)
        if isinstance(item, Region):
            return bool(item.blocks)
        return bool(item) if isinstance(item, tuple) else item is not None

    def variable(self, variable: Variable) -> None:
        if variable.kind == "attribute":
            self.attribute(self.attribute_defs[variable.name])
            return
        item: Any = getattr(self.op, variable.name)
        items = item if isinstance(item, tuple) else () if item is None else (item,)
        if variable.kind == "region":
            for number, region in enumerate(items):
                if number:
                    self.printer.write(",")
                self.blank()
                self.printer.region(region)
            return
        if items:
            self.blank()
            self.printer.operands(items)

    def attribute(self, declared: AttributeDef) -> None:
        value = self.op.attributes.get(declared.name, declared.default)
        if value is None or isinstance(value, UnitAttr):
            return
        self.blank()
        match value:
            case StringAttr(value=text) if declared.name == "sym_name":
                self.printer.symbol_name(text)
            case SymbolRefAttr() | ArrayAttr() | StringAttr():
                self.printer.attribute(value)
            case TypeAttr(type=held):
                self.printer.type(held)
            case IntegerAttr(type=number_type) if number_type == (declared.value_type or I64):
                self.printer.attribute_without_type(value)
            case _ if value.mnemonic and declared.kind is type(value):
                value.print_parameters(self.printer)
            case _:
                self.printer.attribute(value)

    def types(self, element: TypeOf) -> None:
        if element.name in ("operands", "results"):
            values: Sequence[Value] = self.op.operands if element.name == "operands" else self.op.results
        else:
            item: Any = getattr(self.op, element.name)
            values = item if isinstance(item, tuple) else () if item is None else (item,)
        if not values:
            return
        self.blank()
        for number, value in enumerate(values):
            if number:
                self.printer.write(", ")
            if element.stripped:
                self.printer.stripped_type(value.type)
            else:
                self.printer.type(value.type)


def _blank_before(text: str, after_punctuation: bool) -> bool:
    if len(text) != 1 and text != "->":
        return True
    if after_punctuation:
        return text[0] not in ">)}],"
    return text[0] not in "<>(){}[],"


__all__ = ["compile_format", "parse_assembly", "print_assembly"]
