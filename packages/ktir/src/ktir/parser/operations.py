"""The parser of operations, blocks and regions (ktir spec 0.3.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from ktir.affine import AffineMap
from ktir.affine.parse import parse_subscripts
from ktir.attribute import Attribute
from ktir.attributes import EMPTY_DICT, DictAttr
from ktir.context import Context
from ktir.errors import Note
from ktir.ir import Block, BlockArgument, Label, Operation, OpResult, Region, UnregisteredOp, Value
from ktir.lexer import Cursor, Source, TokenKind
from ktir.lexer import ParseError as LexerError
from ktir.location import Location
from ktir.opdef import ISOLATED, TERMINATOR, OpDef
from ktir.parser.attributes import Alias, AttributeParser, Environment
from ktir.parser.suggestions import closest, for_operation
from ktir.types import FunctionType, Type

if TYPE_CHECKING:
    from ktir.dialects.builtin import Module

_NAME = r"(?:[0-9]+(?![A-Za-z0-9_$.\-])|[A-Za-z_$.\-][A-Za-z0-9_$.\-]*)"
_FAST_LINE = re.compile(
    rf'(?:%({_NAME}) = )?"([A-Za-z0-9_$.]+)"\(((?:%{_NAME}(?:, %{_NAME})*)?)\)'
    r"(?: <(\{[^\n]*?\})>)?(?: (\{[^\n]*?\}))? : ([^\n]*)(?=\n)"
)
_OPERANDS = re.compile(rf"\((%{_NAME}(?:, %{_NAME})*)?\)")
_PROPERTIES = re.compile(r"\{[^\n]*?\}(?=>)")
_REST_OF_LINE = re.compile(r"[^\n]*(?=\n)")
_FAST_START = (TokenKind.VALUE_ID, TokenKind.STRING)

DEFAULT_DIALECTS = ("builtin", "func")
"""Dialects whose prefix may be left out in the text."""


@attrs.frozen
class Unresolved:
    """A value use in the text: name without ``%``, number behind ``#`` (or None), offset."""

    name: str
    number: int | None
    offset: int

    def __str__(self) -> str:
        return f"%{self.name}" if self.number is None else f"%{self.name}#{self.number}"

    @property
    def key(self) -> tuple[str, int]:
        """Equal keys are the same value."""
        return (self.name, self.number or 0)


@attrs.define
class _Definition:
    values: tuple[Value, ...]
    offset: int


@attrs.define
class _Scope:
    """Names of one region; a scope without parent starts an isolated region."""

    parent: _Scope | None
    names: dict[str, _Definition] = attrs.Factory(dict)
    forward: dict[tuple[str, int], tuple[OpResult, int]] = attrs.Factory(dict)
    labels: dict[str, tuple[Label, int]] = attrs.Factory(dict)
    defined_labels: set[str] = attrs.Factory(set)
    early: dict[Value, Value] = attrs.Factory(dict)
    """Block arguments that blocks further up used, by the placeholder that stands there."""


@attrs.frozen
class Argument:
    """A parsed function-like argument."""

    name: str | None
    type: Type
    attributes: dict[str, Attribute]
    location: Location
    offset: int


class OpParser(AttributeParser):
    """Reads operations.  The framework calls an operation class's `parse_custom` with one of these."""

    def __init__(self, environment: Environment, cursor: Cursor | None = None) -> None:
        super().__init__(environment, cursor)
        self.scope = _Scope(None)
        self.location: Location = self.location_at(0)
        self.result_names: tuple[str | None, ...] = ()
        self._definition: OpDef | None = None
        self._default_dialect: str | None = None

    # -- top level

    def parse_file(self) -> Module:
        """A whole file: one module, wrapped in an implicit one if the text does not hold exactly one."""
        from ktir.dialects.builtin import Module

        operations: list[Operation] = []
        start = self.location_at(0)
        while not self.cursor.at_kind(TokenKind.EOF):
            token = self.cursor.token
            if token.kind is TokenKind.HASH_ID and self.cursor.peek().text == "=":
                self._attribute_alias()
            elif token.kind is TokenKind.BANG_ID and self.cursor.peek().text == "=":
                self._type_alias()
            elif token.text == "{-#":
                raise self.error("file metadata ('{-# ... #-}') is not supported")
            else:
                operations.append(self.parse_operation())
        self._check_forward(self.scope)
        for name, offset in self.environment.forward_locations.items():
            alias = self.environment.attribute_aliases.get(name)
            if alias is None or alias.offset < 0:
                raise self.error_at(offset, f"undefined symbol alias id '{name}'")
        if len(operations) == 1 and isinstance(operations[0], Module):
            return operations[0]
        return Module.create(regions=(Region.of(operations),), location=start)

    def _attribute_alias(self) -> None:
        token = self.cursor.next()
        name = token.text[1:]
        if "." in name:
            raise self.error_at(
                token.start, "attribute names with a '.' are reserved for dialect-defined names"
            )
        known = self.environment.attribute_aliases.get(name)
        if known is not None and known.offset >= 0:
            raise self.error_at(token.start, f"redefinition of attribute alias id '{name}'")
        self.cursor.next()
        value = self.parse_attribute()
        self.environment.attribute_aliases[name] = Alias(value, token.start)

    def _type_alias(self) -> None:
        token = self.cursor.next()
        name = token.text[1:]
        if "." in name:
            raise self.error_at(token.start, "type names with a '.' are reserved for dialect-defined names")
        if name in self.environment.type_aliases:
            raise self.error_at(token.start, f"redefinition of type alias id '{name}'")
        self.cursor.next()
        self.environment.type_aliases[name] = Alias(self.parse_type(), token.start)

    # -- operations

    def parse_operation(self) -> Operation:
        """One operation with its result names and trailing location, entered into the scope."""
        if self.cursor.token.kind in _FAST_START and (op := self._fast_generic()) is not None:
            return op
        groups, offsets = self._result_groups()
        start = self.cursor.token.start
        saved = (self.location, self.result_names, self._definition)
        self.location = self.location_at(start)
        self.result_names = tuple(
            None if count > 1 or name[0].isdigit() else name for name, count in groups for _ in range(count)
        )
        op = self._generic() if self.cursor.at_kind(TokenKind.STRING) else self._custom()
        names = self.result_names
        self.location, self.result_names, self._definition = saved
        if self.at("loc") and self.cursor.peek().text == "(":
            op = op.replace(location=self.parse_location())
        return self._bind(op, groups, offsets, names, start)

    def _fast_generic(self) -> Operation | None:
        """A line of generic form as printers write it, if its type was read before.

        Only a short cut: for everything else, errors included, it returns None and has changed nothing.
        """
        environment, scope = self.environment, self.scope
        start = self.cursor.token.start
        found = _FAST_LINE.match(environment.source.text, start)
        if found is None or scope.forward:
            return None
        name, op_name, uses, properties, entries, type_text = found.groups()
        signature = environment.signatures.get(type_text)
        cls = self.context.operation(op_name)
        if signature is None or cls is None or len(signature.results) != (name is not None):
            return None
        attributes: dict[str, Attribute] = {}
        for text, begins in ((properties, found.start(4)), (entries, found.start(5))):
            if text is None:
                continue
            known = environment.dictionaries.get(text)
            if known is None:
                self.cursor.reset(begins)
                known = self._remembered_dictionary()
                whole = self.cursor.previous_end == begins + len(text)
                self.cursor.reset(start)
                if not whole:
                    return None
            if not attributes.keys().isdisjoint(known):
                return None
            attributes.update(known)
        operands: list[Value] = []
        for use in uses.split(", ") if uses else ():
            definition = self._lookup(use[1:])
            if definition is None or len(definition.values) != 1:
                return None
            operands.append(definition.values[0])
        types = signature.inputs
        if len(operands) != len(types) or any(v.type != t for v, t in zip(operands, types, strict=True)):
            return None
        results: tuple[OpResult, ...] = ()
        if name is not None:
            if self._lookup(name) is not None:
                return None
            results = (OpResult(signature.results[0], None if name[0].isdigit() else name),)
            scope.names[name] = _Definition(results, start)
        begin = start if name is None else start + len(name) + 4
        self.cursor.reset(found.end())
        return cls(
            tuple(operands),
            results,
            DictAttr(attributes) if attributes else EMPTY_DICT,
            location=self.location_at(begin),
        )

    def _result_groups(self) -> tuple[list[tuple[str, int]], list[int]]:
        groups: list[tuple[str, int]] = []
        offsets: list[int] = []
        if not self.cursor.at_kind(TokenKind.VALUE_ID):
            return groups, offsets
        while True:
            token = self.cursor.expect_kind(TokenKind.VALUE_ID)
            count = 1
            if self.accept(":"):
                count = self.cursor.integer("number of results")
                if not 1 <= count <= 1 << 16:
                    raise self.error_at(token.start, "expected named operation to have at least 1 result")
            groups.append((token.text[1:], count))
            offsets.append(token.start)
            if not self.accept(","):
                break
        self.expect("=", "behind the result names")
        return groups, offsets

    def _bind(
        self,
        op: Operation,
        groups: list[tuple[str, int]],
        offsets: list[int],
        names: tuple[str | None, ...],
        start: int,
    ) -> Operation:
        if not groups:
            return op
        bound = sum(count for _, count in groups)
        if not op.results:
            raise self.error_at(start, "cannot name an operation with no results")
        if bound != len(op.results):
            raise self.error_at(
                start, f"operation defines {len(op.results)} results but was provided {bound} to bind"
            )
        results: list[OpResult] = []
        position = 0
        for (name, count), offset in zip(groups, offsets, strict=True):
            for number in range(count):
                result = op.results[position]
                forward = self.scope.forward.pop((name, number), None)
                if forward is not None:
                    placeholder, use = forward
                    if placeholder.type != result.type:
                        raise self.error_at(use, _clash(f"%{name}", placeholder.type, result.type))
                    results.append(placeholder)
                elif names[position] is not None and result.name is None:
                    results.append(OpResult(result.type, names[position]))
                else:
                    results.append(result)
                position += 1
            group = tuple(results[position - count : position])
            self._define(name, group, offset)
        return op.replace(results=results)

    def _define(self, name: str, values: tuple[Value, ...], offset: int) -> None:
        known = self._lookup(name)
        if known is not None:
            message = f"redefinition of SSA value '%{name}'"
            raise self.error_at(offset, message, Note("first defined here", self._place(known)))
        self.scope.names[name] = _Definition(values, offset)

    def _place(self, definition: _Definition) -> Location:
        match definition.values:
            case (BlockArgument(location=location),):
                return location
            case _:
                return self.location_at(definition.offset)

    def _lookup(self, name: str) -> _Definition | None:
        scope: _Scope | None = self.scope
        while scope is not None:
            if (found := scope.names.get(name)) is not None:
                return found
            scope = scope.parent
        return None

    def _operation_class(self, name: str) -> type[Operation] | None:
        if (cls := self.context.operation(name)) is not None or "." in name:
            return cls
        for dialect in (self._default_dialect, *DEFAULT_DIALECTS):
            if dialect is None:
                continue
            if (cls := self.context.operation(f"{dialect}.{name}")) is not None:
                return cls
        return None

    def _custom(self) -> Operation:
        token = self.cursor.token
        if token.kind is not TokenKind.BARE_ID:
            self.cursor.expected("an operation")
        self.cursor.next()
        cls = self._operation_class(token.text)
        if cls is None:
            from ktir.dialects.verbatim import VERBATIM, VerbatimOp

            if token.text in VERBATIM and not self.context.has_dialect(token.text.partition(".")[0]):
                return VerbatimOp.parse_verbatim(self, token)
            raise self.error_at(
                token.start, f"custom op '{token.text}' is unknown", *for_operation(token.text, self.context)
            )
        self._definition = cls.definition
        if cls.definition.assembly is not None:
            from ktir.assembly import parse_assembly

            return parse_assembly(cls, self)
        return cls.parse_custom(self)

    def _generic(self) -> Operation:
        start = self.offset
        name = self.parse_string()
        cls = self.context.operation(name)
        if cls is None and (not name or self.context.has_dialect(name.partition(".")[0])):
            message = f"unregistered operation '{name}' found in a registered dialect"
            raise self.error_at(start, message, *for_operation(name, self.context))
        self._definition = None
        operands = self._operands_between_brackets()
        successors = self.parse_comma_list("[", "]", self.parse_successor) if self.at("[") else []
        properties: dict[str, Attribute] = {}
        if self.accept("<"):
            properties = self._known_properties() or self._remembered_dictionary()
            self.expect(">", "behind the properties")
        regions: list[Region] = []
        if self.at("("):
            isolated = cls is not None and cls.definition.has(ISOLATED)
            regions = self.parse_comma_list("(", ")", lambda: self.parse_region(isolated=isolated))
        entries = self._remembered_dictionary()
        for key in entries:
            if key in properties:
                raise self.error_at(start, f"attribute '{key}' stands in properties and attributes")
        self.expect(":", "in front of the operation's type")
        types_at = self.offset
        signature = self._known_signature() or self._remembered_signature()
        if len(signature.inputs) != len(operands):
            raise self.error_at(
                types_at, f"expected {len(operands)} operand types, but had {len(signature.inputs)}"
            )
        values = self.resolve_all(operands, signature.inputs)
        attributes = DictAttr({**properties, **entries})
        if cls is not None:
            return cls.create(values, signature.results, attributes, regions, successors, self.location)
        results = tuple(OpResult(type) for type in signature.results)
        return UnregisteredOp(
            tuple(values),
            results,
            attributes,
            tuple(regions),
            tuple(successors),
            self.location,
            op_name=name,
            inherent=frozenset(properties),
        )

    # Text that was read before means the same again: these look it up instead of reading it token by token.

    def _operands_between_brackets(self) -> list[Unresolved]:
        """``(%a, %b)``, at once where it is spelled as printers do."""
        found = _OPERANDS.match(self.environment.source.text, self.offset)
        if found is None:
            return self.parse_comma_list("(", ")", self.parse_operand)
        uses: list[Unresolved] = []
        offset = found.start() + 1
        for use in found[1].split(", ") if found[1] else ():
            uses.append(Unresolved(use[1:], None, offset))
            offset += len(use) + 2
        self.cursor.reset(found.end())
        return uses

    def _known_properties(self) -> dict[str, Attribute] | None:
        found = _PROPERTIES.match(self.environment.source.text, self.offset)
        known = None if found is None else self.environment.dictionaries.get(found[0])
        if found is not None and known is not None:
            self.cursor.reset(found.end())
        return known

    def _known_signature(self) -> FunctionType | None:
        found = _REST_OF_LINE.match(self.environment.source.text, self.offset)
        known = None if found is None else self.environment.signatures.get(found[0])
        if found is not None and known is not None:
            self.cursor.reset(found.end())
        return known

    def _remembered_signature(self) -> FunctionType:
        start = self.offset
        signature = self.parse_function_type()
        self.environment.signatures[self.environment.source.text[start : self.cursor.previous_end]] = (
            signature
        )
        return signature

    def _remembered_dictionary(self) -> dict[str, Attribute]:
        start = self.offset
        entries = self.parse_attr_dict()
        if entries:
            text = self.environment.source.text[start : self.cursor.previous_end]
            self.environment.dictionaries[text] = entries
        return entries

    # -- operands

    def parse_operand(self) -> Unresolved:
        """``%x`` or ``%x#1``."""
        token = self.cursor.expect_kind(TokenKind.VALUE_ID, "an SSA operand")
        number = None
        following = self.cursor.token
        if following.kind is TokenKind.HASH_ID and following.text[1:].isdigit():
            self.cursor.next()
            number = int(following.text[1:10])
        return Unresolved(token.text[1:], number, token.start)

    def parse_optional_operand(self) -> Unresolved | None:
        """``%x`` if one follows."""
        return self.parse_operand() if self.cursor.at_kind(TokenKind.VALUE_ID) else None

    def parse_operand_list(self) -> list[Unresolved]:
        """A comma-separated list of operands, possibly empty."""
        if not self.cursor.at_kind(TokenKind.VALUE_ID):
            return []
        return self.parse_comma_list(None, None, self.parse_operand)

    def resolve(self, use: Unresolved, type: Type) -> Value:
        """The value behind a use, which must have `type`; a later definition in the same isolated region
        may supply it."""
        definition = self._lookup(use.name)
        if definition is None:
            return self._forward(use, type)
        number = use.number or 0
        if number >= len(definition.values):
            count = len(definition.values)
            note = Note(f"it has {count} result{'' if count == 1 else 's'}", self._place(definition))
            raise self.error_at(use.offset, f"reference to invalid result number of '%{use.name}'", note)
        value = definition.values[number]
        if value.type != type:
            note = Note(f"its type is {value.type}", self._place(definition))
            raise self.error_at(use.offset, _clash(str(use), type, value.type), note)
        return value

    def value_type(self, use: Unresolved) -> Type | None:
        """The type of an already defined value, None if it is not defined yet."""
        definition = self._lookup(use.name)
        number = use.number or 0
        if definition is None or number >= len(definition.values):
            return None
        return definition.values[number].type

    def resolve_all(self, uses: Sequence[Unresolved], types: Sequence[Type]) -> list[Value]:
        """`resolve` for several uses; ParseError when the counts differ."""
        if len(uses) != len(types):
            offset = uses[0].offset if uses else self.offset
            raise self.error_at(offset, f"{len(uses)} operands present, but expected {len(types)}")
        return [self.resolve(use, type) for use, type in zip(uses, types, strict=True)]

    def _forward(self, use: Unresolved, type: Type) -> Value:
        scope: _Scope | None = self.scope
        while scope is not None:
            if (pending := scope.forward.get(use.key)) is not None:
                if pending[0].type != type:
                    raise self.error_at(use.offset, _clash(str(use), type, pending[0].type))
                return pending[0]
            scope = scope.parent
        placeholder = OpResult(type, None if use.name[0].isdigit() else use.name)
        self.scope.forward[use.key] = (placeholder, use.offset)
        return placeholder

    def _check_forward(self, scope: _Scope) -> None:
        """At the end of a region: what is still undefined may be defined further out, if not isolated."""
        for key, (value, offset) in scope.forward.items():
            if scope.parent is None:
                message = "use of undeclared SSA value name"
                raise self.error_at(offset, message, *closest(key[0], scope.names, "%"))
            scope.parent.forward[key] = (value, offset)

    def parse_affine_subscripts(
        self, open_: str = "[", close: str = "]"
    ) -> tuple[AffineMap, list[Unresolved], list[Unresolved]]:
        """Affine expressions over SSA values (spec 0.3.5): map, dimension operands, symbol operands."""
        uses: dict[tuple[str, int], Unresolved] = {}

        def operand() -> tuple[str, int]:
            use = self.parse_operand()
            uses.setdefault(use.key, use)
            return use.key

        map, dims, symbols = parse_subscripts(self.cursor, operand, open_, close)
        return map, [uses[key] for key in dims], [uses[key] for key in symbols]

    def parse_dynamic_index_list(self) -> tuple[list[int | None], list[Unresolved]]:
        """``[%a, 4]``: static values (None where dynamic) and the dynamic operands in order."""
        dynamic: list[Unresolved] = []

        def one() -> int | None:
            if (use := self.parse_optional_operand()) is not None:
                dynamic.append(use)
                return None
            return self.parse_integer()

        return self.parse_comma_list("[", "]", one), dynamic

    # -- regions

    @contextmanager
    def _entered(self, isolated: bool) -> Iterator[_Scope]:
        outer = self.scope
        self.scope = _Scope(None if isolated else outer)
        try:
            yield self.scope
        finally:
            self.scope = outer

    def parse_region(
        self,
        arguments: Sequence[tuple[str | None, Type, Location]] = (),
        *,
        isolated: bool | None = None,
        default_dialect: str | None = None,
    ) -> Region:
        """``{...}``.  `arguments` are the entry block's, in scope under their names (without ``%``).

        Operations of `default_dialect` may be written without their prefix inside.

        The implicit terminator of the operation being parsed is added where the text leaves it out.
        `isolated` defaults to the trait of that operation.
        """
        definition = self._definition
        if isolated is None:
            isolated = definition is not None and definition.has(ISOLATED)
        opening = self.offset
        self.expect("{", "to begin a region")
        blocks: list[Block] = []
        self.cursor.push_nesting()
        outer_dialect, self._default_dialect = self._default_dialect, default_dialect
        with self._entered(isolated) as scope:
            entry = self._arguments(arguments)
            if not self.cursor.at_kind(TokenKind.BLOCK_ID) or arguments:
                operations = self._block_body()
                custom = definition is not None  # the generic form of an empty region has no block
                if operations or arguments or (custom and not self.cursor.at_kind(TokenKind.BLOCK_ID)):
                    blocks.append(Block(entry, tuple(operations)))
            while self.cursor.at_kind(TokenKind.BLOCK_ID):
                blocks.append(self._labelled_block())
            self.expect("}", "to end a region")
            for name, (_, offset) in scope.labels.items():
                if name not in scope.defined_labels:
                    notes = closest(name, scope.defined_labels, "^")
                    raise self.error_at(offset, f"reference to an undefined block '^{name}'", *notes)
            self._check_forward(scope)
            if scope.early:
                blocks = [_substituted(block, scope.early) for block in blocks]
        self._default_dialect = outer_dialect
        self.cursor.pop_nesting()
        if definition is not None and definition.implicit_terminator is not None:
            blocks = [self._terminated(block, definition.implicit_terminator, opening) for block in blocks]
        return Region(tuple(blocks))

    def parse_optional_region(
        self, arguments: Sequence[tuple[str | None, Type, Location]] = ()
    ) -> Region | None:
        """A region if ``{`` follows."""
        return self.parse_region(arguments) if self.at("{") else None

    def _terminated(self, block: Block, build: Callable[[], Operation], offset: int) -> Block:
        if block.operations and block.operations[-1].definition_has(TERMINATOR):
            return block
        terminator = build().replace(location=self.location_at(offset))
        return block.replace(operations=(*block.operations, terminator))

    def _arguments(self, arguments: Sequence[tuple[str | None, Type, Location]]) -> tuple[BlockArgument, ...]:
        values: list[BlockArgument] = []
        for name, type, location in arguments:
            hint = None if name is None or name[0].isdigit() else name
            value = BlockArgument(type, hint, location)
            values.append(value)
            if name is not None:
                self._define(name, (value,), self.offset)
                forward = self.scope.forward.pop((name, 0), None)
                if forward is not None:
                    placeholder, use = forward
                    if placeholder.type != type:
                        raise self.error_at(use, _clash(f"%{name}", placeholder.type, type))
                    self.scope.early[placeholder] = value
        return tuple(values)

    def _block_body(self) -> list[Operation]:
        operations: list[Operation] = []
        while not self.at("}") and not self.cursor.at_kind(TokenKind.BLOCK_ID):
            if self.cursor.at_kind(TokenKind.EOF):
                self.cursor.expected("'}' to end a region")
            operations.append(self.parse_operation())
        return operations

    def _labelled_block(self) -> Block:
        token = self.cursor.next()
        name = token.text[1:]
        if name in self.scope.defined_labels:
            raise self.error_at(token.start, f"redefinition of block '^{name}'")
        self.scope.defined_labels.add(name)
        label, _ = self.scope.labels.setdefault(name, (Label(name), token.start))
        arguments: list[tuple[str | None, Type, Location]] = []
        if self.at("("):

            def one() -> tuple[str | None, Type, Location]:
                argument = self.parse_argument()
                return (argument.name, argument.type, argument.location)

            arguments = self.parse_comma_list("(", ")", one)
        self.expect(":", "behind the block's name")
        values = self._arguments(arguments)
        return Block(values, tuple(self._block_body()), label)

    def parse_argument(self, *, attributes: bool = False) -> Argument:
        """``%x: type``, with attributes if asked for, and an optional location."""
        token = self.cursor.expect_kind(TokenKind.VALUE_ID, "an SSA name")
        self.expect(":", "behind the argument's name")
        type = self.parse_type()
        entries = self.parse_attr_dict() if attributes else {}
        location = self.parse_location() if self.at("loc") else self.location_at(token.start)
        return Argument(token.text[1:], type, entries, location, token.start)

    def parse_successor(self) -> Label:
        """``^bb1``; the block may be defined further down."""
        token = self.cursor.expect_kind(TokenKind.BLOCK_ID, "a block name")
        label, _ = self.scope.labels.setdefault(token.text[1:], (Label(token.text[1:]), token.start))
        return label


def _substituted(block: Block, table: dict[Value, Value]) -> Block:
    """The block with other operands, nested regions included."""

    def one(op: Operation) -> Operation:
        regions = [Region(tuple(_substituted(inner, table) for inner in r.blocks)) for r in op.regions]
        return op.replace(operands=[table.get(v, v) for v in op.operands], regions=regions)

    return block.replace(operations=[one(op) for op in block.operations])


def _clash(use: str, expected: Type, actual: Type) -> str:
    return f"use of value '{use}' expects different type than prior uses: '{expected}' vs '{actual}'"


def parse(text: str, context: Context | None = None, file: str = "<string>") -> Module:
    """Read a module from text.

    Raises `ktir.ParseError` (file, line, column) if the text is not valid.  The result is *not* verified,
    see `ktir.verify`.
    """
    from ktir.errors import ParseError

    source = Source(text, file)
    try:
        return OpParser(Environment(source, context or Context())).parse_file()
    except ParseError:
        raise
    except LexerError as error:  # pragma: no cover - one class once the lexer uses ktir.errors
        raise ParseError(error.message, error.file, error.line, error.column) from None
