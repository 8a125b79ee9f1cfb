"""Tokens of MLIR text (KTIR spec 0.3.1) and the cursor that parsers read them with.

The lexer is lazy: one compiled regular expression is matched at the current offset whenever the next token
is asked for. That keeps the two lexing traps of MLIR simple. A dimension list such as ``16x48xf16`` lexes as
the integer ``16`` and the identifier ``x48xf16``, and ``0x42xindex`` begins with what looks like the
hexadecimal number ``0x42``; :meth:`Cursor.reset` lexes again from any offset inside a token, and
:meth:`Cursor.dimensions` reads a whole dimension list with it.
"""

from __future__ import annotations

import bisect
import enum
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import attrs

from ktir.errors import Note, ParseError

__all__ = [
    "MAX_NESTING",
    "Cursor",
    "ParseError",
    "Source",
    "Token",
    "TokenKind",
    "tokenize",
    "unescape_string",
]

T = TypeVar("T")

MAX_NESTING = 100
"""Brackets and regions may be nested this deep; deeper text is refused before Python's stack is in danger."""

MAX_DIGITS = 1024
"""Integer literals may have this many characters (Python itself refuses to convert more than 4300 digits)."""


class TokenKind(enum.Enum):
    """What a token is. Keywords are not separated from identifiers: MLIR has no reserved words."""

    BARE_ID = "identifier"
    VALUE_ID = "SSA name"  # %x, %0, %arg0
    BLOCK_ID = "block name"  # ^bb0
    SYMBOL = "symbol name"  # @f, @"local-schedule-0"
    HASH_ID = "attribute name"  # #map, #ktdp.layout, and the #1 of %p#1
    BANG_ID = "type name"  # !t, !ktdp.access_tile
    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    PUNCTUATION = "punctuation"
    EOF = "end of input"


@attrs.define(eq=False, repr=False)
class Token:
    """One token: `text` is exactly the source text (strings keep quotes and escapes), `start` its offset."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset of the first character behind the token."""
        return self.start + len(self.text)

    def __repr__(self) -> str:
        return f"Token({self.kind.name}, {self.text!r}, {self.start})"


class Source:
    """A text with a name. Line starts are computed when the first position is asked for."""

    __slots__ = ("_line_starts", "file", "text")

    def __init__(self, text: str, file: str = "<string>") -> None:
        self.text = text
        self.file = file
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (both count from 1, columns in characters) of a character offset."""
        starts = self._starts()
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line end."""
        starts = self._starts()
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            self._line_starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        return self._line_starts


_SUFFIX_ID = r"(?:[0-9]++|[A-Za-z$._\-][A-Za-z0-9$._\-]*+)"
_STRING = r'"[^"\\\n]*+(?:\\(?:["\\nt]|[0-9A-Fa-f]{2})[^"\\\n]*+)*+"'
# The order matters: `#-}` before HASH_ID, floats before integers, long punctuation before short.
_ALTERNATIVES: tuple[tuple[TokenKind | None, str], ...] = (
    (TokenKind.BARE_ID, r"[A-Za-z_][A-Za-z0-9_$.]*+"),
    (TokenKind.PUNCTUATION, r"\{-#|#-\}|->|\.\.\.|::|==|>=|<=|[(){}\[\]<>,:=*+\-?/|]"),
    (TokenKind.VALUE_ID, "%" + _SUFFIX_ID),
    (TokenKind.FLOAT, r"[0-9]++\.[0-9]*+(?:[eE][+\-]?[0-9]++)?"),
    (TokenKind.INTEGER, r"0x[0-9A-Fa-f]++|[0-9]++"),
    (TokenKind.HASH_ID, "#" + _SUFFIX_ID),
    (TokenKind.BANG_ID, "!" + _SUFFIX_ID),
    (TokenKind.SYMBOL, f"@(?:{_SUFFIX_ID}|{_STRING})"),
    (TokenKind.BLOCK_ID, r"\^" + _SUFFIX_ID),
    (TokenKind.STRING, _STRING),
    (None, r"."),
)
_MASTER = re.compile(
    r"(?:[ \t\r\n]++|//[^\n]*+)*+(?:" + "|".join(f"({pattern})" for _, pattern in _ALTERNATIVES) + r"|\Z)"
)
_KINDS: tuple[TokenKind | None, ...] = (None, *(kind for kind, _ in _ALTERNATIVES))
_match = _MASTER.match
_ESCAPE = re.compile(r'\\(["\\nt]|[0-9A-Fa-f]{2})')
_SIMPLE_ESCAPES = {'"': b'"', "\\": b"\\", "n": b"\n", "t": b"\t"}


def unescape_string(literal: str) -> str:
    """The value of a quoted string token (or of the quoted part of a symbol token), escapes resolved.

    ``\\hh`` escapes are bytes; the result is decoded as UTF-8, bytes that are not UTF-8 become surrogate
    escapes so that nothing is lost.
    """
    body = literal[1:-1]
    if "\\" not in body:
        return body
    out: list[bytes] = []
    end = 0
    for m in _ESCAPE.finditer(body):
        out.append(body[end : m.start()].encode("utf-8", "surrogateescape"))
        code = m.group(1)
        out.append(_SIMPLE_ESCAPES[code] if code in _SIMPLE_ESCAPES else bytes.fromhex(code))
        end = m.end()
    out.append(body[end:].encode("utf-8", "surrogateescape"))
    return b"".join(out).decode("utf-8", "surrogateescape")


class Cursor:
    """A position in a token stream.

    ``cursor.token`` is the current token (never None; at the end it has kind EOF and empty text). Texts given
    to `at`, `accept` and `expect` are compared with the token's source text, so ``cursor.accept("ins")``
    works for keywords as ``cursor.accept(",")`` does for punctuation; a string literal never matches because
    its text includes the quotes. All errors are :class:`ktir.ParseError` with file, line and column.
    """

    __slots__ = ("_ahead", "_depth", "_end", "previous_end", "source", "text", "token")

    def __init__(self, source: Source | str, start: int = 0) -> None:
        self.source = Source(source) if isinstance(source, str) else source
        self.text = self.source.text
        self._ahead: list[Token] = []
        self._depth = 0
        self._end = start  # where the next scan starts
        self.previous_end = start
        """Offset behind the token consumed last."""
        self.token = self._scan()

    # -- reading

    def _scan(self) -> Token:
        text = self.text
        m = _match(text, self._end)
        if m is None:  # cannot happen: the last alternative takes any character
            raise AssertionError("lexer")
        index = m.lastindex
        if index is None:
            self._end = m.end()
            return Token(TokenKind.EOF, "", self._end)
        start, self._end = m.span(index)
        kind = _KINDS[index]
        if kind is None:
            self._lexical_error(start)
        return Token(kind, text[start : self._end], start)

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` places behind the current one (0 is the current one)."""
        if distance == 0:
            return self.token
        while len(self._ahead) < distance:
            self._ahead.append(self._scan())
        return self._ahead[distance - 1]

    def next(self) -> Token:
        """Consume the current token and return it."""
        token = self.token
        self.previous_end = token.start + len(token.text)
        self.token = self._ahead.pop(0) if self._ahead else self._scan()
        return token

    def at(self, *texts: str) -> bool:
        """Whether the current token is spelled like one of `texts`."""
        return self.token.text in texts and self.token.kind is not TokenKind.EOF

    def at_kind(self, *kinds: TokenKind) -> bool:
        """Whether the current token has one of the kinds."""
        return self.token.kind in kinds

    def accept(self, text: str) -> bool:
        """Consume the current token if it is spelled `text`; whether it was."""
        if self.token.text == text:
            self.next()
            return True
        return False

    def accept_kind(self, kind: TokenKind) -> Token | None:
        """Consume and return the current token if it is of `kind`, else None."""
        return self.next() if self.token.kind is kind else None

    def expect(self, text: str, context: str = "") -> Token:
        """Consume a token spelled `text`; otherwise ``expected 'text' <context>, got ...``."""
        if self.token.text != text:
            self.expected(repr(text), context)
        return self.next()

    def expect_kind(self, kind: TokenKind, what: str = "") -> Token:
        """Consume a token of `kind`; otherwise ``expected <what or the kind's name>, got ...``."""
        if self.token.kind is not kind:
            self.expected(what or kind.value)
        return self.next()

    def reset(self, offset: int) -> None:
        """Lex again from `offset`, forgetting the current token and any look-ahead (the `split` facility)."""
        self._ahead.clear()
        self._end = offset
        self.previous_end = offset
        self.token = self._scan()

    def split(self, length: int) -> str:
        """Take the first `length` characters of the current token; what follows is lexed again."""
        token = self.token
        self.reset(token.start + length)
        return token.text[:length]

    # -- small grammars that every parser needs

    def integer(self, what: str = "integer") -> int:
        """``-``? integer, decimal or hexadecimal; :class:`ParseError` beyond 63 bits and a sign."""
        start = self.token
        negative = self.accept("-")
        value = self._integer_value(self.expect_kind(TokenKind.INTEGER, what))
        if value >= 1 << 63:  # the smallest number of 64 bits stands for '?' in lists of extents
            self.error("integer constant out of range: it must fit 64 bits", start)
        return -value if negative else value

    def _integer_value(self, token: Token) -> int:
        if len(token.text) > MAX_DIGITS:
            self.error("integer literal is too large", token)
        return int(token.text, 16) if token.text.startswith("0x") else int(token.text, 10)

    def string(self, what: str = "string") -> str:
        """A string literal; its value with escapes resolved."""
        return unescape_string(self.expect_kind(TokenKind.STRING, what).text)

    def dimensions(self, dynamic: bool = True) -> tuple[int | None, ...]:
        """``((integer | "?") "x")*``: the extents in front of an element type, None for ``?``.

        Stops in front of the element type, which is lexed afresh behind the last ``x``.
        """
        extents: list[int | None] = []
        while True:
            token = self.token
            if token.kind is TokenKind.INTEGER:
                if token.text.startswith("0x"):
                    extents.append(0)
                    self.split(1)
                else:
                    extent = self._integer_value(token)
                    if extent >= 1 << 63:
                        self.error("extent out of range: it must fit 64 bits", token)
                    extents.append(extent)
                    self.next()
            elif token.text == "?":
                if not dynamic:
                    self.error("dynamic extent '?' is not allowed here")
                extents.append(None)
                self.next()
            else:
                return tuple(extents)
            self.expect_x()

    def expect_x(self) -> None:
        """The ``x`` behind an extent; what follows it inside the same token is lexed afresh."""
        if self.token.kind is not TokenKind.BARE_ID or not self.token.text.startswith("x"):
            self.expected("'x' in dimension list")
        self.split(1)

    def separated(self, item: Callable[[], T], close: str, open_: str | None = None) -> list[T]:
        """``open? (item ("," item)*)? close``: a possibly empty list, closing token included."""
        if open_ is not None:
            self.expect(open_)
        items: list[T] = []
        if self.accept(close):
            return items
        while True:
            items.append(item())
            if not self.accept(","):
                self.expect(close, "or ',' in list" if items else "")
                return items

    @contextmanager
    def nesting(self) -> Iterator[None]:
        """Guards one level of recursion of a recursive-descent parser (see `MAX_NESTING`)."""
        self.push_nesting()
        try:
            yield
        finally:
            self.pop_nesting()

    def push_nesting(self) -> None:
        """Enter a nested construct; :class:`ParseError` if the text nests deeper than `MAX_NESTING`."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.error(f"nested deeper than {MAX_NESTING} levels")

    def pop_nesting(self) -> None:
        """Leave a nested construct."""
        self._depth -= 1

    # -- errors

    def position(self, offset: int | None = None) -> tuple[int, int]:
        """Line and column of `offset` (default: of the current token)."""
        return self.source.position(self.token.start if offset is None else offset)

    def error(self, message: str, at: Token | int | None = None, *notes: str) -> NoReturn:
        """Raise :class:`ParseError` at a token or offset (default: the current token)."""
        offset = self.token.start if at is None else at.start if isinstance(at, Token) else at
        line, column = self.source.position(offset)
        said = tuple(Note(note) for note in notes)
        raise ParseError(message, self.source.file, line, column, self.source.line(line), said)

    def expected(self, what: str, context: str = "", *notes: str) -> NoReturn:
        """Raise ``expected <what> <context>, got <the current token>``."""
        token = self.token
        got = "end of input" if token.kind is TokenKind.EOF else f"'{_shorten(token.text)}'"
        self.error(f"expected {what}{' ' + context if context else ''}, got {got}", None, *notes)

    def _lexical_error(self, offset: int) -> NoReturn:
        character = self.text[offset]
        if character == '"' or self.text.startswith('@"', offset):
            self._string_error(self.text.index('"', offset))
        if character in "%#!@^":
            names = {"%": "an SSA name", "#": "an attribute name", "!": "a type name", "@": "a symbol name"}
            notes = ("a remainder is written with 'mod'",) if character == "%" else ()
            self.error(
                f"expected {names.get(character, 'a block name')} behind '{character}'", offset, *notes
            )
        self.error(f"unexpected character {character!r}", offset)

    def _string_error(self, start: int) -> NoReturn:
        i = start + 1
        while i < len(self.text) and self.text[i] not in '"\n':
            if self.text[i] == "\\":
                m = _ESCAPE.match(self.text, i)
                if m is None:
                    self.error("unknown escape in string literal", i)
                i = m.end()
            else:
                i += 1
        self.error("expected '\"' at the end of the string literal", start)


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def tokenize(text: str, file: str = "<string>") -> list[Token]:
    """All tokens of a text, the EOF token last. For tools and tests; parsers use :class:`Cursor`."""
    cursor = Cursor(Source(text, file))
    tokens = [cursor.token]
    while tokens[-1].kind is not TokenKind.EOF:
        cursor.next()
        tokens.append(cursor.token)
    return tokens
