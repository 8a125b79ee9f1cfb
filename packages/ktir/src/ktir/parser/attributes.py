"""The parser of types and attributes (ktir spec 0.3.3 and 0.3.4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import attrs

from ktir.affine import AffineMap, AffineSet
from ktir.affine.parse import parse_map, parse_map_or_set, parse_set
from ktir.attribute import Attribute
from ktir.attributes import (
    FALSE,
    TRUE,
    UNIT,
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    DenseArrayAttr,
    DenseResourceAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    wrap_integer,
)
from ktir.context import Context
from ktir.errors import Note, ParseError
from ktir.lexer import Cursor, Source, Token, TokenKind, unescape_string
from ktir.location import (
    UNKNOWN,
    CallSiteLoc,
    FileLineColLoc,
    FileRangeLoc,
    FusedLoc,
    Location,
    NameLoc,
)
from ktir.parser.dense import parse_dense
from ktir.parser.suggestions import closest, for_attribute, for_type, for_type_name
from ktir.types import (
    F64,
    FLOAT_WIDTHS,
    I1,
    I64,
    INDEX,
    NONE,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    OpaqueType,
    Signedness,
    TensorType,
    TupleType,
    Type,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
)

T = TypeVar("T")

MAX_INTEGER_WIDTH = (1 << 24) - 1

_INTEGER_TYPE = re.compile(r"(s|u)?i([1-9][0-9]*)\Z")
_TYPE_KEYWORDS = frozenset(["index", "none", "tensor", "memref", "vector", "tuple", *FLOAT_WIDTHS])
_SIGN = {None: Signedness.SIGNLESS, "s": Signedness.SIGNED, "u": Signedness.UNSIGNED}
_LOCATION_ALIAS = re.compile(r"(#(?:[0-9]+|[A-Za-z$._\-][A-Za-z0-9$._\-]*))\s*=\s*loc\s*\(")


@attrs.frozen
class Alias:
    """A named attribute or type of the file, with the offset where it was defined."""

    value: Attribute
    offset: int


@attrs.define
class Environment:
    """What all parsers of one text share."""

    source: Source
    context: Context
    attribute_aliases: dict[str, Alias] = attrs.Factory(dict)
    type_aliases: dict[str, Alias] = attrs.Factory(dict)
    location_offsets: dict[str, int] | None = None
    forward_locations: dict[str, int] = attrs.Factory(dict)
    signatures: dict[str, FunctionType] = attrs.Factory(dict)
    dictionaries: dict[str, dict[str, Attribute]] = attrs.Factory(dict)
    """What texts of operation types and of attribute dictionaries were read as, in this source."""


class AttributeParser:
    """Reads types, attributes and the small pieces that they are made of."""

    def __init__(self, environment: Environment, cursor: Cursor | None = None) -> None:
        self.environment = environment
        self.context = environment.context
        self.cursor = Cursor(environment.source) if cursor is None else cursor

    # -- tokens

    def at(self, *texts: str) -> bool:
        """Whether the current token is spelled like one of `texts` (punctuation or keyword)."""
        return self.cursor.at(*texts)

    def accept(self, text: str) -> bool:
        """Consume the current token if it is spelled `text`."""
        return self.cursor.accept(text)

    def expect(self, text: str, context: str = "") -> None:
        """Consume a token spelled `text`; ParseError otherwise."""
        self.cursor.expect(text, context)

    accept_keyword = accept
    expect_keyword = expect

    def keyword(self, what: str = "keyword") -> str:
        """Consume a bare identifier and return it."""
        return self.cursor.expect_kind(TokenKind.BARE_ID, what).text

    @property
    def offset(self) -> int:
        """Offset of the current token."""
        return self.cursor.token.start

    def error(self, message: str, *notes: str | Note) -> ParseError:
        """A `ParseError` at the current token, to be raised by the caller."""
        return self.error_at(self.cursor.token.start, message, *notes)

    def error_at(self, offset: int, message: str, *notes: str | Note) -> ParseError:
        """A `ParseError` at an offset, to be raised by the caller; `notes` say what would be right."""
        source = self.environment.source
        line, column = source.position(offset)
        said = tuple(Note(note) if isinstance(note, str) else note for note in notes)
        return ParseError(message, source.file, line, column, source.line(line), said)

    def location_at(self, offset: int) -> FileLineColLoc:
        """The file location of an offset."""
        source = self.environment.source
        line, column = source.position(offset)
        return FileLineColLoc(source.file, line, column)

    def parse_integer(self) -> int:
        """An integer with an optional minus sign."""
        return self.cursor.integer()

    def parse_optional_integer(self) -> int | None:
        """An integer if one follows."""
        if self.cursor.at_kind(TokenKind.INTEGER) or self.cursor.at("-"):
            return self.cursor.integer()
        return None

    def parse_string(self) -> str:
        """A string literal's value."""
        return self.cursor.string()

    def parse_optional_string(self) -> str | None:
        """A string literal's value if one follows."""
        return self.cursor.string() if self.cursor.at_kind(TokenKind.STRING) else None

    def parse_symbol_name(self) -> str:
        """``@name`` or ``@"name"``; the name without the at sign."""
        return _symbol_text(self.cursor.expect_kind(TokenKind.SYMBOL))

    def parse_optional_symbol_name(self) -> str | None:
        """``@name`` if one follows."""
        token = self.cursor.accept_kind(TokenKind.SYMBOL)
        return None if token is None else _symbol_text(token)

    def parse_symbol_ref(self) -> SymbolRefAttr:
        """``@root::@nested``."""
        root = self.parse_symbol_name()
        nested: list[str] = []
        while self.accept("::"):
            nested.append(self.parse_symbol_name())
        return SymbolRefAttr(root, tuple(nested))

    def parse_comma_list(self, open_: str | None, close: str | None, element: Callable[[], T]) -> list[T]:
        """A comma-separated list.  With delimiters it may be empty; without, it has at least one element."""
        if close is not None:
            return self.cursor.separated(element, close, open_)
        items = [element()]
        while self.accept(","):
            items.append(element())
        return items

    def parse_dimension_list(self, trailing_x: bool = True) -> tuple[int | None, ...]:
        """``4x?x``: extents in front of an element type (or, without `trailing_x`, ``4x?``)."""
        if trailing_x:
            return self.cursor.dimensions()
        extents: list[int | None] = []
        while True:
            extents.append(None if self.accept("?") else self.cursor.integer("extent"))
            token = self.cursor.token
            if token.kind is TokenKind.BARE_ID and token.text.startswith("x"):
                self.cursor.expect_x()
                continue
            return tuple(extents)

    def parse_affine_map(self) -> AffineMap:
        """``affine_map<...>`` or an alias of one."""
        match self.parse_attribute():
            case AffineMapAttr(map=value):
                return value
            case _:
                raise self.error("expected an affine map")

    def parse_affine_set(self) -> AffineSet:
        """``affine_set<...>`` or an alias of one."""
        match self.parse_attribute():
            case AffineSetAttr(set=value):
                return value
            case _:
                raise self.error("expected an affine set")

    # -- types

    def parse_type(self) -> Type:
        """Any type."""
        parsed = self.parse_optional_type()
        if parsed is None:
            self.cursor.expected("a type", "", *for_type_name(self.cursor.token.text))
        return parsed

    def parse_optional_type(self) -> Type | None:
        """A type if the current token can start one (``(`` starts a function type)."""
        token = self.cursor.token
        if token.kind is TokenKind.BANG_ID:
            return self._bang_type()
        if token.text == "(":
            return self.parse_function_type()
        if token.kind is not TokenKind.BARE_ID:
            return None
        if (scalar := _scalar_type(token.text)) is not None:
            if isinstance(scalar, IntegerType) and scalar.width > MAX_INTEGER_WIDTH:
                raise self.error(f"integer bitwidth is limited to {MAX_INTEGER_WIDTH} bits")
            self.cursor.next()
            return scalar
        match token.text:
            case "tensor":
                return self._nested(self._tensor)
            case "memref":
                return self._nested(self._memref)
            case "vector":
                return self._nested(self._vector)
            case "tuple":
                return self._nested(self._tuple)
            case _:
                return None

    def _nested(self, body: Callable[[], T]) -> T:
        with self.cursor.nesting():
            return body()

    def parse_type_list(self) -> list[Type]:
        """``type ("," type)*``."""
        return self.parse_comma_list(None, None, self.parse_type)

    def parse_function_type(self) -> FunctionType:
        """``(types) -> types`` or ``type -> types``."""
        inputs = self._nested(self._parenthesised_types) if self.at("(") else [self.parse_type()]
        self.expect("->", "in function type")
        return FunctionType(tuple(inputs), tuple(self.parse_result_types()))

    def parse_result_types(self) -> list[Type]:
        """``type`` or ``(types)``: what stands behind an arrow."""
        return self._nested(self._parenthesised_types) if self.at("(") else [self.parse_type()]

    def _parenthesised_types(self) -> list[Type]:
        return self.parse_comma_list("(", ")", self.parse_type)

    def parse_stripped_type(self, cls: type[Type]) -> Type:
        """A type of a known class: only its parameters ``<...>``, or the full form."""
        if self.at("<"):
            return cls.parse_parameters(self)
        return self.parse_type()

    def _bang_type(self) -> Type:
        token = self.cursor.next()
        name = token.text[1:]
        if (alias := self.environment.type_aliases.get(name)) is not None:
            assert isinstance(alias.value, Type)
            return alias.value
        dialect, dot, mnemonic = name.partition(".")
        if (cls := self.context.type(name)) is not None:
            return self._nested(lambda: cls.parse_parameters(self))
        if self.context.has_dialect(dialect):
            notes = for_type(mnemonic, dialect, self.context)
            raise self.error_at(token.start, f"unknown type `{mnemonic}` in dialect `{dialect}`", *notes)
        if not dot and not self.at("<"):
            notes = closest(name, self.environment.type_aliases, "!")
            raise self.error_at(token.start, f"undefined symbol alias id '{name}'", *notes)
        return OpaqueType(dialect, (dot + mnemonic) + self.verbatim_parameters())

    def verbatim_parameters(self) -> str:
        """The text of a bracketed ``<...>`` group if one follows, else nothing."""
        if not self.at("<"):
            return ""
        start = self.cursor.token.start
        self.skip_balanced()
        return self.environment.source.text[start : self.cursor.previous_end]

    def skip_balanced(self) -> None:
        """Skip one bracketed group, or one token; brackets of all four kinds nest."""
        closers: list[str] = []
        while True:
            token = self.cursor.token
            if token.kind is TokenKind.EOF:
                self.cursor.expected(f"'{closers[-1]}'" if closers else "more text")
            if token.kind is TokenKind.PUNCTUATION:
                if token.text in _CLOSER:
                    closers.append(_CLOSER[token.text])
                elif closers and token.text == closers[-1]:
                    closers.pop()
                elif token.text in _CLOSER.values():
                    self.cursor.expected(f"'{closers[-1]}'" if closers else "more text")
            self.cursor.next()
            if not closers:
                return

    def _shape(self) -> tuple[int | None, ...]:
        return self.cursor.dimensions()

    def _tensor(self) -> Type:
        self.cursor.next()
        self.expect("<", "behind 'tensor'")
        if self.accept("*"):
            self.cursor.expect_x()
            element = self.parse_type()
            self.expect(">", "in tensor type")
            return UnrankedTensorType(element)
        shape = self._shape()
        element = self._element_type("tensor")
        encoding = self.parse_attribute() if self.accept(",") else None
        self.expect(">", "in tensor type")
        return TensorType(shape, element, encoding)

    def _element_type(self, owner: str) -> Type:
        start = self.offset
        element = self.parse_type()
        if isinstance(element, TensorType | FunctionType | TupleType) or (
            owner == "vector" and not isinstance(element, IntegerType | FloatType | IndexType)
        ):
            raise self.error_at(start, f"invalid {owner} element type: {element}")
        return element

    def _memref(self) -> Type:
        self.cursor.next()
        self.expect("<", "behind 'memref'")
        if self.accept("*"):
            self.cursor.expect_x()
            element = self.parse_type()
            unranked_space = self.parse_attribute() if self.accept(",") else None
            self.expect(">", "in memref type")
            return UnrankedMemRefType(element, unranked_space)
        shape = self._shape()
        element = self._element_type("memref")
        layout: Attribute | None = None
        space: Attribute | None = None
        while self.accept(","):
            start = self.offset
            parameter = self.parse_attribute()
            match parameter:
                case AffineMapAttr() | StridedLayoutAttr() if layout is None and space is None:
                    layout = parameter
                    self._check_layout(start, layout, len(shape))
                case _ if space is None:
                    space = parameter
                case _:
                    raise self.error_at(start, "multiple memory spaces specified in memref type")
        self.expect(">", "in memref type")
        return MemRefType(shape, element, _without_identity(layout), space)

    def _check_layout(self, offset: int, layout: Attribute, rank: int) -> None:
        match layout:
            case AffineMapAttr(map=value) if value.num_dims != rank:
                raise self.error_at(
                    offset, f"memref layout mismatch between rank and affine map: {rank} != {value.num_dims}"
                )
            case StridedLayoutAttr(strides=strides) if len(strides) != rank:
                raise self.error_at(
                    offset, f"expected the number of strides to match the rank: {len(strides)} != {rank}"
                )

    def _vector(self) -> Type:
        self.cursor.next()
        self.expect("<", "behind 'vector'")
        shape: list[int | None] = []
        scalable: list[bool] = []
        while True:
            if self.accept("["):
                shape.append(self.cursor.integer("extent"))
                self.expect("]", "in vector type")
                self.cursor.expect_x()
                scalable.append(True)
            elif self.cursor.at_kind(TokenKind.INTEGER):
                extents = self.cursor.dimensions(dynamic=False)
                shape += extents
                scalable += [False] * len(extents)
            else:
                break
        element = self._element_type("vector")
        self.expect(">", "in vector type")
        return VectorType(tuple(shape), element, tuple(scalable) if any(scalable) else ())

    def _tuple(self) -> Type:
        self.cursor.next()
        return TupleType(tuple(self.parse_comma_list("<", ">", self.parse_type)))

    # -- attributes

    def parse_attribute(self, type: Type | None = None) -> Attribute:
        """Any attribute.  With `type`, a number takes that type and no ``: type`` is read."""
        parsed = self.parse_optional_attribute(type)
        if parsed is None:
            self.cursor.expected("an attribute")
        return parsed

    def parse_optional_attribute(self, type: Type | None = None) -> Attribute | None:
        """An attribute if the current token can start one."""
        token = self.cursor.token
        match token.kind:
            case TokenKind.INTEGER | TokenKind.FLOAT:
                return self.parse_number(type)
            case TokenKind.STRING:
                text = self.cursor.string()
                return StringAttr(text, self.parse_type() if type is None and self._typed_string() else type)
            case TokenKind.SYMBOL:
                return self.parse_symbol_ref()
            case TokenKind.HASH_ID:
                return self._hash_attribute()
            case TokenKind.PUNCTUATION:
                match token.text:
                    case "-":
                        return self.parse_number(type)
                    case "[":
                        return ArrayAttr(tuple(self._nested(self._array)))
                    case "{":
                        return DictAttr(self._nested(self.parse_attr_dict))
                    case "(":
                        return TypeAttr(self.parse_type())
                    case _:
                        return None
            case TokenKind.BANG_ID:
                return TypeAttr(self.parse_type())
            case TokenKind.BARE_ID:
                return self._keyword_attribute(token, type)
            case _:
                return None

    def _typed_string(self) -> bool:
        if not self.at(":"):
            return False
        following = self.cursor.peek()
        if following.kind is TokenKind.BANG_ID or (
            following.kind is TokenKind.BARE_ID
            and (following.text in _TYPE_KEYWORDS or _INTEGER_TYPE.match(following.text) is not None)
        ):
            self.cursor.next()
            return True
        return False

    def _array(self) -> list[Attribute]:
        return self.parse_comma_list("[", "]", self.parse_attribute)

    def _keyword_attribute(self, token: Token, type: Type | None) -> Attribute | None:
        match token.text:
            case "true" | "false":
                self.cursor.next()
                if type is not None and type != I1:
                    raise self.error_at(token.start, "expected attribute of type i1 for 'true' or 'false'")
                return TRUE if token.text == "true" else FALSE
            case "unit":
                self.cursor.next()
                return UNIT
            case "affine_map":
                self.cursor.next()
                self.expect("<", "behind 'affine_map'")
                parsed = parse_map(self.cursor)
                self.expect(">", "in affine map")
                return AffineMapAttr(parsed)
            case "affine_set":
                self.cursor.next()
                self.expect("<", "behind 'affine_set'")
                parsed_set = parse_set(self.cursor)
                self.expect(">", "in affine set")
                return AffineSetAttr(parsed_set)
            case "dense":
                self.cursor.next()
                return parse_dense(self, type)
            case "dense_resource":
                self.cursor.next()
                self.expect("<", "behind 'dense_resource'")
                key = self.parse_optional_string() or self.keyword("a resource key")
                self.expect(">", "in dense resource")
                return DenseResourceAttr(key, self._colon_type(type))
            case "array":
                return self._dense_array()
            case "strided":
                return self._strided()
            case "loc":
                return self.parse_location()
            case "distinct" | "opaque" | "sparse":
                raise self.error(f"'{token.text}' attributes are not supported")
            case _:
                parsed_type = self.parse_optional_type()
                return None if parsed_type is None else TypeAttr(parsed_type)

    def _colon_type(self, type: Type | None) -> Type:
        if type is not None:
            return type
        self.expect(":", "in front of the attribute's type")
        return self.parse_type()

    def parse_number(self, type: Type | None = None) -> Attribute:
        """``-? (integer | float) (":" type)?``."""
        start = self.offset
        negative = self.accept("-")
        token = self.cursor.token
        if token.kind not in (TokenKind.INTEGER, TokenKind.FLOAT):
            self.cursor.expected("an integer or a floating-point literal")
        self.cursor.next()
        behind = self.cursor.token
        if behind.kind is TokenKind.BARE_ID and behind.start == token.end and behind.text[0] in "eE":
            raise self.error_at(
                start,
                f"'{token.text}{behind.text}' is not a number",
                "a floating-point literal has a '.', and digits behind the 'e': such as 1.0e3",
            )
        if type is None:
            default: Type = F64 if token.kind is TokenKind.FLOAT else I64
            type = self.parse_type() if self.accept(":") else default
        return self.number_attribute(start, negative, token, type)

    def number_attribute(self, start: int, negative: bool, token: Token, type: Type) -> Attribute:
        """The attribute that a literal stands for in `type`; ParseError if it does not fit."""
        is_hex = token.text.startswith("0x")
        match type:
            case FloatType():
                if token.kind is TokenKind.FLOAT:
                    value = float(token.text)
                    return FloatAttr.of(-value if negative else value, type)
                if not is_hex:
                    raise self.error_at(
                        start,
                        "unexpected decimal integer literal for a floating point value",
                    )
                if negative:
                    raise self.error_at(start, "hexadecimal float literal should not have a minus sign")
                bits = int(token.text, 16)
                if bits >> type.width:
                    raise self.error_at(start, f"hexadecimal float constant out of range for type {type}")
                return FloatAttr(bits, type)
            case IntegerType() | IndexType():
                if token.kind is TokenKind.FLOAT:
                    raise self.error_at(start, f"floating point literal is not valid for type {type}")
                if len(token.text) > 1024:
                    raise self.error_at(start, "integer literal is too large")
                value_int = int(token.text, 16 if is_hex else 10)
                width = type.width if isinstance(type, IntegerType) else 64
                signless = not isinstance(type, IntegerType) or type.signedness is Signedness.SIGNLESS
                unsigned = isinstance(type, IntegerType) and type.signedness is Signedness.UNSIGNED
                value_int = -value_int if negative else value_int
                low = 0 if unsigned else -(1 << (width - 1))
                high = (1 << width) - 1 if unsigned or signless else (1 << (width - 1)) - 1
                if not low <= value_int <= high:
                    raise self.error_at(start, f"integer constant out of range for attribute type {type}")
                return IntegerAttr(wrap_integer(value_int, type), type)
            case _:
                kind = "floating point" if token.kind is TokenKind.FLOAT else "integer"
                raise self.error_at(start, f"{kind} literal not valid for type {type}")

    def _dense_array(self) -> Attribute:
        self.cursor.next()
        self.expect("<", "behind 'array'")
        element = self.parse_type()
        values: list[int] = []
        if self.accept(":"):

            def one() -> int:
                match self.parse_attribute(element):
                    case IntegerAttr(value=value):
                        return value
                    case FloatAttr(bits=bits):
                        return bits
                    case _:
                        raise self.error("expected a number in dense array")

            values = self.parse_comma_list(None, None, one)
        self.expect(">", "in dense array")
        return DenseArrayAttr(element, tuple(values))

    def _strided(self) -> Attribute:
        self.cursor.next()
        self.expect("<", "behind 'strided'")

        def one() -> int | None:
            return None if self.accept("?") else self.parse_integer()

        strides = self.parse_comma_list("[", "]", one)
        offset: int | None = 0
        if self.accept(","):
            self.expect("offset", "in strided layout")
            self.expect(":", "behind 'offset'")
            offset = one()
        self.expect(">", "in strided layout")
        return StridedLayoutAttr(tuple(strides), offset)

    def parse_attr_dict(self) -> dict[str, Attribute]:
        """``{name = attribute, ...}`` if one follows, else nothing.  Entries keep their order."""
        entries: dict[str, Attribute] = {}
        if not self.at("{"):
            return entries
        self.cursor.next()
        if self.accept("}"):
            return entries
        while True:
            token = self.cursor.token
            if token.kind is TokenKind.STRING:
                name = self.cursor.string()
            elif token.kind in (TokenKind.BARE_ID, TokenKind.INTEGER):
                name = self.cursor.next().text
            else:
                self.cursor.expected("an attribute name")
            if name in entries:
                raise self.error_at(token.start, f"duplicate key '{name}' in dictionary attribute")
            entries[name] = self.parse_attribute() if self.accept("=") else UNIT
            if not self.accept(","):
                self.expect("}", "or ',' in attribute dictionary")
                return entries

    def parse_attr_dict_with_keyword(self) -> dict[str, Attribute]:
        """``attributes {...}`` if it follows, else nothing."""
        if not self.accept("attributes"):
            return {}
        if not self.at("{"):
            self.cursor.expected("'{' behind 'attributes'")
        return self.parse_attr_dict()

    def _hash_attribute(self) -> Attribute:
        token = self.cursor.next()
        name = token.text[1:]
        if (alias := self.environment.attribute_aliases.get(name)) is not None:
            return alias.value
        dialect, dot, mnemonic = name.partition(".")
        if (cls := self.context.attribute(name)) is not None:
            return self._nested(lambda: cls.parse_parameters(self))
        if dot and self.context.has_dialect(dialect):
            notes = for_attribute(mnemonic, dialect, self.context)
            raise self.error_at(token.start, f"unknown attribute `{mnemonic}` in dialect `{dialect}`", *notes)
        if not dot and not self.at("<"):
            if (location := self._forward_location(name, token.start)) is not None:
                return location
            notes = closest(name, self.environment.attribute_aliases, "#")
            raise self.error_at(token.start, f"undefined symbol alias id '{name}'", *notes)
        return OpaqueAttr(dialect, (dot + mnemonic) + self.verbatim_parameters())

    # -- locations

    def parse_location(self) -> Location:
        """``loc(...)``."""
        self.expect("loc")
        self.expect("(", "behind 'loc'")
        location = self._nested(self._location_body)
        self.expect(")", "in location")
        return location

    def _location_body(self) -> Location:
        token = self.cursor.token
        if token.kind is TokenKind.STRING:
            text = self.cursor.string()
            if self.accept(":"):
                line = self.cursor.integer("line number")
                self.expect(":", "behind the line number")
                column = self.cursor.integer("column number")
                if not self.accept("to"):
                    return FileLineColLoc(text, line, column)
                end = line if self.at(":") else self.cursor.integer("line number")
                self.expect(":", "behind the line number")
                return FileRangeLoc(text, line, column, end, self.cursor.integer("column number"))
            if self.accept("("):
                child = self._nested(self._location_body)
                self.expect(")", "in location")
                return NameLoc(text, child)
            return NameLoc(text, UNKNOWN)
        if token.kind is TokenKind.HASH_ID:
            attribute = self._hash_attribute()
            if not isinstance(attribute, Location):
                raise self.error_at(token.start, f"expected location, but found '{attribute}'")
            return attribute
        match token.text:
            case "unknown":
                self.cursor.next()
                return UNKNOWN
            case "callsite":
                self.cursor.next()
                self.expect("(")
                callee = self._nested(self._location_body)
                self.expect("at", "in callsite location")
                caller = self._nested(self._location_body)
                self.expect(")", "in callsite location")
                return CallSiteLoc(callee, caller)
            case "fused":
                self.cursor.next()
                metadata = None
                if self.accept("<"):
                    metadata = self.parse_attribute()
                    self.expect(">", "in fused location")
                parts = self.parse_comma_list("[", "]", lambda: self._nested(self._location_body))
                return FusedLoc(tuple(parts), metadata)
            case _:
                self.cursor.expected("a location")

    def _forward_location(self, name: str, offset: int) -> Location | None:
        """A location alias that the file defines further down (locations are printed last)."""
        environment = self.environment
        if environment.location_offsets is None:
            found = _LOCATION_ALIAS.finditer(environment.source.text)
            environment.location_offsets = {m.group(1)[1:]: m.end(1) for m in found}
        if name in environment.forward_locations:
            raise self.error_at(offset, f"location alias '{name}' refers to itself")
        start = environment.location_offsets.get(name)
        if start is None:
            return None
        environment.forward_locations[name] = offset
        inner = AttributeParser(environment, Cursor(environment.source, start))
        inner.expect("=")
        location = inner.parse_location()
        environment.attribute_aliases[name] = Alias(location, -1)
        return location

    def parse_map_or_set_text(self) -> AffineMap | AffineSet:
        """A bare map or set without its keyword, ``(d0) -> (d0)`` or ``(d0) : (d0 >= 0)``."""
        return parse_map_or_set(self.cursor)


_CLOSER = {"(": ")", "[": "]", "{": "}", "<": ">"}


def _symbol_text(token: Token) -> str:
    text = token.text[1:]
    return unescape_string(text) if text.startswith('"') else text


def _scalar_type(text: str) -> Type | None:
    if text == "index":
        return INDEX
    if text in FLOAT_WIDTHS:
        return FloatType(text)
    if text == "none":
        return NONE
    if (m := _INTEGER_TYPE.match(text)) is not None and len(text) < 12:
        return IntegerType(int(m.group(2)), _SIGN[m.group(1)])
    return None


def _without_identity(layout: Attribute | None) -> Attribute | None:
    match layout:
        case AffineMapAttr(map=value) if value.is_identity and value.num_symbols == 0:
            return None
        case _:
            return layout
