"""Reading affine maps, sets and subscripts from a token stream (KTIR spec 0.3.5)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ktir.affine.errors import AffineError
from ktir.affine.expr import AffineExpr, Const, Dim, Sym
from ktir.affine.map import AffineMap
from ktir.affine.set import AffineSet, Constraint
from ktir.lexer import Cursor, Source, TokenKind

__all__ = [
    "MAX_OPERATORS",
    "affine_map",
    "affine_set",
    "parse_expr",
    "parse_map",
    "parse_map_or_set",
    "parse_set",
    "parse_subscripts",
]

K = TypeVar("K", bound=Hashable)

MAX_OPERATORS = 128
"""Operators in one expression; the analyses recurse over the tree."""

_PRODUCTS = ("*", "floordiv", "ceildiv", "mod")
_KEYWORDS = frozenset(("floordiv", "ceildiv", "mod"))


class _ExprParser:
    """Recursive descent over ``aexpr``; `leaf` reads everything that is neither number nor bracket."""

    def __init__(self, cursor: Cursor, leaf: Callable[[], AffineExpr]) -> None:
        self.cursor = cursor
        self.leaf = leaf
        self.operators = 0

    def expr(self) -> AffineExpr:
        result = self.term()
        while self.cursor.at("+", "-"):
            minus = self._operator() == "-"
            rhs = self.term()
            result = result - rhs if minus else result + rhs
        return result

    def term(self) -> AffineExpr:
        cursor = self.cursor
        result = self.factor()
        while cursor.at(*_PRODUCTS):
            place = cursor.token
            operator = self._operator()
            rhs = self.factor()
            if operator == "*":
                if not (result.is_symbolic or rhs.is_symbolic):
                    cursor.error(
                        "non-affine expression: at least one of the multiply operands has to be either a "
                        "constant or symbolic",
                        place,
                    )
                result = result * rhs
                continue
            if not rhs.is_symbolic:
                cursor.error(
                    f"non-affine expression: right operand of {operator} has to be either a constant or "
                    "symbolic",
                    place,
                )
            if isinstance(rhs, Const) and rhs.value <= 0:
                cursor.error(f"the divisor of {operator} must be positive, but is {rhs.value}", place)
            match operator:
                case "floordiv":
                    result = result // rhs
                case "ceildiv":
                    result = result.ceildiv(rhs)
                case _:
                    result = result % rhs
        if cursor.at("/"):
            cursor.expected("an affine operator", "", "a quotient is written with 'floordiv' or 'ceildiv'")
        return result

    def factor(self) -> AffineExpr:
        cursor = self.cursor
        if cursor.at("-"):
            self._operator()
            return -self.factor()
        if cursor.at_kind(TokenKind.INTEGER):
            return Const(cursor.integer())
        if cursor.accept("("):
            with cursor.nesting():
                result = self.expr()
            cursor.expect(")", "in affine expression")
            return result
        return self.leaf()

    def _operator(self) -> str:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            self.cursor.error(f"affine expression has more than {MAX_OPERATORS} operators")
        return self.cursor.next().text


def parse_expr(cursor: Cursor, leaf: Callable[[], AffineExpr]) -> AffineExpr:
    """One affine expression whose leaves other than integers are read by `leaf`."""
    with _located(cursor):
        return _ExprParser(cursor, leaf).expr()


@contextmanager
def _located(cursor: Cursor) -> Iterator[None]:
    """Errors of building an expression are errors at its first token."""
    start = cursor.token
    try:
        yield
    except AffineError as error:
        cursor.error(str(error), start)


def _operand_lists(cursor: Cursor) -> tuple[int, int, Callable[[], AffineExpr]]:
    names: dict[str, AffineExpr] = {}
    counts = [0, 0]

    def declare(kind: int) -> None:
        token = cursor.expect_kind(TokenKind.BARE_ID, "a dimension or symbol name")
        if token.text in names:
            cursor.error(f"redefinition of identifier '{token.text}'", token)
        if token.text in _KEYWORDS:
            cursor.error(f"'{token.text}' cannot be a dimension or symbol name", token)
        names[token.text] = Sym(counts[1]) if kind else Dim(counts[0])
        counts[kind] += 1

    cursor.separated(lambda: declare(0), ")", "(")
    if cursor.at("["):
        cursor.separated(lambda: declare(1), "]", "[")

    def leaf() -> AffineExpr:
        token = cursor.expect_kind(TokenKind.BARE_ID, "affine expression")
        if token.text not in names:
            cursor.error(f"use of undeclared identifier '{token.text}'", token)
        return names[token.text]

    return counts[0], counts[1], leaf


def parse_map(cursor: Cursor) -> AffineMap:
    """``(d0)[s0] -> (exprs)``: what stands between ``affine_map<`` and ``>``."""
    dims, symbols, leaf = _operand_lists(cursor)
    return _map_body(cursor, dims, symbols, leaf)


def _map_body(cursor: Cursor, dims: int, symbols: int, leaf: Callable[[], AffineExpr]) -> AffineMap:
    cursor.expect("->", "in affine map")
    results = cursor.separated(lambda: parse_expr(cursor, leaf), ")", "(")
    return AffineMap(dims, symbols, tuple(results))


def parse_set(cursor: Cursor) -> AffineSet:
    """``(d0)[s0] : (constraints)``: what stands between ``affine_set<`` and ``>``."""
    dims, symbols, leaf = _operand_lists(cursor)
    return _set_body(cursor, dims, symbols, leaf)


def _set_body(cursor: Cursor, dims: int, symbols: int, leaf: Callable[[], AffineExpr]) -> AffineSet:
    cursor.expect(":", "in affine set")

    def constraint() -> Constraint:
        lhs = parse_expr(cursor, leaf)
        if not cursor.at(">=", "<=", "=="):
            notes = ("a < b is written a <= b - 1",) if cursor.at("<", ">") else ()
            cursor.expected("'>=', '<=' or '==' in affine constraint", "", *notes)
        relation = cursor.next().text
        with _located(cursor):
            rhs = parse_expr(cursor, leaf)
            return Constraint(rhs - lhs if relation == "<=" else lhs - rhs, relation == "==")

    constraints = cursor.separated(constraint, ")", "(")
    return AffineSet(dims, symbols, tuple(constraints))


def parse_map_or_set(cursor: Cursor) -> AffineMap | AffineSet:
    """A map or a set, whichever follows (``->`` or ``:``)."""
    dims, symbols, leaf = _operand_lists(cursor)
    if cursor.at(":"):
        return _set_body(cursor, dims, symbols, leaf)
    return _map_body(cursor, dims, symbols, leaf)


def parse_subscripts(
    cursor: Cursor, operand: Callable[[], K], open_: str = "[", close: str = "]"
) -> tuple[AffineMap, list[K], list[K]]:
    """A bracketed list of affine expressions whose leaves are SSA values.

    `operand` reads one value use and returns its key (equal keys are the same operand). Every distinct value
    becomes a dimension in order of first appearance, ``symbol(%v)`` a symbol. Returns the map, the keys of
    its dimensions and those of its symbols.
    """
    dims: list[K] = []
    symbols: list[K] = []

    def position(keys: list[K], key: K) -> int:
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    def leaf() -> AffineExpr:
        if cursor.at("symbol"):
            cursor.next()
            cursor.expect("(", "behind 'symbol'")
            result = Sym(position(symbols, operand()))
            cursor.expect(")", "behind the symbol operand")
            return result
        if not cursor.at_kind(TokenKind.VALUE_ID):
            cursor.expected("an SSA name or an integer in affine subscript")
        return Dim(position(dims, operand()))

    results = cursor.separated(lambda: parse_expr(cursor, leaf), close, open_)
    return AffineMap(len(dims), len(symbols), tuple(results)), dims, symbols


def _whole(text: str, keyword: str) -> Cursor:
    cursor = Cursor(Source(text))
    if cursor.accept(keyword):
        cursor.expect("<")
    return cursor


def _finish(cursor: Cursor, text: str) -> None:
    if text.lstrip().startswith("affine_"):
        cursor.expect(">")
    cursor.expect_kind(TokenKind.EOF, "end of text")


def affine_map(text: str) -> AffineMap:
    """An affine map from text, ``affine_map<...>`` or only what is between the brackets.

    >>> affine_map("(i, j)[n] -> (i * n + j, j mod 8)")
    affine_map<(d0, d1)[s0] -> (d0 * s0 + d1, d1 mod 8)>
    """
    cursor = _whole(text, "affine_map")
    result = parse_map(cursor)
    _finish(cursor, text)
    return result


def affine_set(text: str) -> AffineSet:
    """An affine set from text, ``affine_set<...>`` or only what is between the brackets.

    >>> affine_set("(i) : (i >= 0, i <= 95)")
    affine_set<(d0) : (d0 >= 0, -d0 + 95 >= 0)>
    """
    cursor = _whole(text, "affine_set")
    result = parse_set(cursor)
    _finish(cursor, text)
    return result
