"""The lexer: tokens of KTIR spec 0.3.1, the two lexing traps, positions and hostile input."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktir.errors import ParseError
from ktir.lexer import MAX_NESTING, Cursor, Source, TokenKind, tokenize, unescape_string


def P(text: str) -> tuple[str, str]:
    return "PUNCTUATION", text


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind.name, t.text) for t in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%p:3 = a.b", [("VALUE_ID", "%p"), P(":"), ("INTEGER", "3"), P("="), ("BARE_ID", "a.b")]),
        ("%p#1", [("VALUE_ID", "%p"), ("HASH_ID", "#1")]),
        ("%0 %arg0 %a-b %$x", [("VALUE_ID", v) for v in ("%0", "%arg0", "%a-b", "%$x")]),
        ("^bb0(", [("BLOCK_ID", "^bb0"), P("(")]),
        ('@f::@"a-0"', [("SYMBOL", "@f"), P("::"), ("SYMBOL", '@"a-0"')]),
        ("#ktdp.layout<", [("HASH_ID", "#ktdp.layout"), P("<")]),
        ("!ktdp.access_tile", [("BANG_ID", "!ktdp.access_tile")]),
        ("-1 : i64", [P("-"), ("INTEGER", "1"), P(":"), ("BARE_ID", "i64")]),
        ("1e3", [("INTEGER", "1"), ("BARE_ID", "e3")]),
        ("1.e3 1. 2.5E-7", [("FLOAT", "1.e3"), ("FLOAT", "1."), ("FLOAT", "2.5E-7")]),
        ("0xFC00", [("INTEGER", "0xFC00")]),
        ("s0-1", [("BARE_ID", "s0"), P("-"), ("INTEGER", "1")]),
        ("(d0)->(d0)", [P("("), ("BARE_ID", "d0"), P(")"), P("->"),
                        P("("), ("BARE_ID", "d0"), P(")")]),
        (">= <= == -> ... ::", [P(p) for p in [">=", "<=", "==", "->", "...", "::"]]),
        ("{-# #-} >>", [P(p) for p in ["{-#", "#-}", ">", ">"]]),
        ('"a\\"b\\\\\\n\\41" x', [("STRING", '"a\\"b\\\\\\n\\41"'), ("BARE_ID", "x")]),
        ("a // comment ( %\n\tb//end", [("BARE_ID", "a"), ("BARE_ID", "b")]),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


def test_empty_text_is_only_the_end() -> None:
    for text in ("", "  \n\t", "// only a comment", "// c\n"):
        assert [t.kind for t in tokenize(text)] == [TokenKind.EOF]


@pytest.mark.parametrize(
    ("text", "extents", "rest"),
    [
        ("16x48xf16>", (16, 48), "f16"),
        ("0x42xindex>", (0, 42), "index"),
        ("0x0x7xf32", (0, 0, 7), "f32"),
        ("?x4x?xi1", (None, 4, None), "i1"),
        ("4 x 8 x f16", (4, 8), "f16"),
        ("f16", (), "f16"),
        ("0xbf16", (0,), "bf16"),
        ("2x!ktdp.access_tile", (2,), "!ktdp.access_tile"),
        ("2xxf", (2,), "xf"),
    ],
)
def test_dimension_lists(text: str, extents: tuple[int | None, ...], rest: str) -> None:
    """Trap of spec 0.3.1: `16x48xf16` and `0x42xindex`."""
    cursor = Cursor(text)
    assert cursor.dimensions() == extents
    assert cursor.token.text == rest


@given(
    st.lists(st.none() | st.integers(0, 10**6), max_size=6),
    st.sampled_from(["f16", "bf16", "index", "x", "i32"]),
)
def test_dimension_lists_round_trip(extents: list[int | None], element: str) -> None:
    cursor = Cursor("".join("?x" if e is None else f"{e}x" for e in extents) + element)
    assert cursor.dimensions() == tuple(extents)
    assert cursor.next().text == element
    assert cursor.at_kind(TokenKind.EOF)


def test_dimension_list_errors() -> None:
    with pytest.raises(ParseError, match=r"expected 'x' in dimension list, got '>'"):
        Cursor("4>").dimensions()
    with pytest.raises(ParseError, match=r"expected 'x' in dimension list, got end of input"):
        Cursor("4x3").dimensions()
    with pytest.raises(ParseError, match="dynamic extent"):
        Cursor("?xf16").dimensions(dynamic=False)


def test_cursor_protocol() -> None:
    cursor = Cursor("a ( b , c ) d")
    assert cursor.peek(0).text == "a"
    assert [cursor.peek(i).text for i in (3, 1, 7)] == [",", "(", ""]
    assert cursor.next().text == "a"
    assert cursor.previous_end == 1
    assert cursor.separated(lambda: cursor.expect_kind(TokenKind.BARE_ID).text, ")", "(") == ["b", "c"]
    assert not cursor.accept("e")
    assert cursor.accept("d")
    assert not cursor.at("")  # the end is not a spelling
    assert cursor.accept_kind(TokenKind.BARE_ID) is None


def test_reset_forgets_look_ahead() -> None:
    cursor = Cursor("x8xf16 y z")
    cursor.peek(2)
    assert cursor.split(1) == "x"
    assert [cursor.next().text for _ in range(4)] == ["8", "xf16", "y", "z"]


def test_integers_and_strings() -> None:
    cursor = Cursor('-12 0x1F 007 "a\\62\\n"')
    assert [cursor.integer(), cursor.integer(), cursor.integer(), cursor.string()] == [-12, 31, 7, "ab\n"]
    assert unescape_string('"\\C3\\A4\\FF"') == "ä\udcff"
    with pytest.raises(ParseError, match="integer literal is too large"):
        Cursor("9" * 5000).integer()


def test_positions_count_from_one() -> None:
    cursor = Cursor(Source("ab\n  cd\r\n\n e", "k.mlir"))
    places = []
    while cursor.token.kind is not TokenKind.EOF:
        places.append((cursor.token.text, cursor.position()))
        cursor.next()
    assert places == [("ab", (1, 1)), ("cd", (2, 3)), ("e", (4, 2))]
    assert [cursor.source.line(n) for n in (1, 2, 3, 4)] == ["ab", "  cd", "", " e"]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a\n  $", 2, 3, "unexpected character '$'"),
        ("a %", 1, 3, "expected an SSA name behind '%'"),
        ("@", 1, 1, "expected a symbol name behind '@'"),
        ('x "abc\n"', 1, 3, "expected '\"' at the end of the string literal"),
        ('"ab\\q"', 1, 4, "unknown escape in string literal"),
        ('@"ab', 1, 2, "expected '\"' at the end of the string literal"),
        ("ä", 1, 1, "unexpected character 'ä'"),
    ],
)
def test_lexical_errors(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        tokenize(text, "f.mlir")
    error = caught.value
    assert (error.file, error.line, error.column, error.message) == ("f.mlir", line, column, message)
    assert str(error).startswith(f"f.mlir:{line}:{column}: error: {message}")


def test_expectation_names_both_sides() -> None:
    cursor = Cursor("[a}")
    with pytest.raises(ParseError, match=r"expected ']' or ',' in list, got '\}'"):
        cursor.separated(cursor.next, "]", "[")
    with pytest.raises(ParseError, match=r"expected ':' before the type, got end of input"):
        Cursor("").expect(":", "before the type")


def test_nesting_is_bounded() -> None:
    cursor = Cursor("x")
    for _ in range(MAX_NESTING):
        cursor.push_nesting()
    with pytest.raises(ParseError, match="nested deeper than"), cursor.nesting():
        pass


@pytest.mark.parametrize(
    "text", ['"' + "a" * 200_000, '"' + "\\n" * 100_000, " " * 300_000 + "$", "/" * 200_000, "//" * 100_000]
)
def test_no_quadratic_time(text: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(ParseError):
        tokenize(text)
    assert time.perf_counter() - start < 5


@given(st.text(alphabet='%@#^!"\\abx019-+.:<>(){}[]=,/ \n\t?*|éA$', max_size=60))
def test_any_text_gives_tokens_that_cover_it_or_a_parse_error(text: str) -> None:
    try:
        tokens = tokenize(text)
    except ParseError:
        return
    end = 0
    for token in tokens:
        gap = text[end : token.start]
        assert all(part == "" or part.isspace() or part.lstrip().startswith("//") for part in gap.split("\n"))
        assert text.startswith(token.text, token.start)
        end = token.end
    assert end == len(text)
