"""Flat forms: a pure affine expression as a linear combination of dimensions, symbols and quotients.

Every ``floordiv``, ``ceildiv`` and ``mod`` by a constant introduces one quotient variable. The flat form is
what simplification, bounds and set analysis work on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from ktir.affine.expr import (
    Add,
    AffineExpr,
    CeilDiv,
    Const,
    Dim,
    FloorDiv,
    Mod,
    Mul,
    Sym,
)

__all__ = ["Linear", "linear", "simplify"]


@attrs.frozen
class Linear:
    """``constant + sum(coefficient * term)``; a term is a Dim, a Sym or a FloorDiv/CeilDiv/Mod expression.

    Coefficients are never zero; terms stand in the order dimensions, symbols, others by first appearance.
    """

    terms: tuple[tuple[AffineExpr, int], ...] = ()
    constant: int = 0

    @property
    def is_linear(self) -> bool:
        """Whether only dimensions and symbols occur."""
        return all(isinstance(term, Dim | Sym) for term, _ in self.terms)

    def coefficient(self, term: AffineExpr) -> int:
        """The coefficient of a term (0 if it does not occur)."""
        return next((c for t, c in self.terms if t == term), 0)

    def expr(self) -> AffineExpr:
        """The expression that MLIR rebuilds from the flat form."""
        result: AffineExpr = Const(0)
        for term, coefficient in self.terms:
            result = result + term * coefficient
        return result + self.constant


def _make(coefficients: Mapping[AffineExpr, int], constant: int) -> Linear:
    def rank(item: tuple[int, tuple[AffineExpr, int]]) -> tuple[int, int]:
        order, (term, _) = item
        match term:
            case Dim(position):
                return 0, position
            case Sym(position):
                return 1, position
            case _:
                return 2, order

    ordered = sorted(enumerate(coefficients.items()), key=rank)
    return Linear(tuple(item for _, item in ordered if item[1] != 0), constant)


def _combine(a: Linear, b: Linear, factor: int) -> Linear:
    coefficients = dict(a.terms)
    for term, value in b.terms:
        coefficients[term] = coefficients.get(term, 0) + factor * value
    return _make(coefficients, a.constant + factor * b.constant)


def _scale(a: Linear, factor: int) -> Linear:
    return Linear(tuple((t, c * factor) for t, c in a.terms) if factor else (), a.constant * factor)


def linear(expr: AffineExpr) -> Linear | None:
    """The flat form; None if the expression is not pure affine (a product or divisor that is no constant)."""
    flat = _flatten(expr)
    return flat if all(_is_pure(term) for term, _ in flat.terms) else None


def _is_pure(term: AffineExpr) -> bool:
    match term:
        case Dim() | Sym():
            return True
        case FloorDiv(lhs, Const()) | CeilDiv(lhs, Const()):
            return all(_is_pure(inner) for inner, _ in _flatten(lhs).terms)
        case _:
            return False


def _flatten(expr: AffineExpr) -> Linear:
    """The flat form in which products and quotients by non-constants are terms of their own."""
    match expr:
        case Const(value):
            return Linear((), value)
        case Dim() | Sym():
            return Linear(((expr, 1),), 0)
        case Add(lhs, rhs):
            return _combine(_flatten(lhs), _flatten(rhs), 1)
        case Mul(lhs, rhs):
            a, b = _flatten(lhs), _flatten(rhs)
            if not b.terms:
                return _scale(a, b.constant)
            return _scale(b, a.constant) if not a.terms else _term(a.expr() * b.expr())
        case FloorDiv(lhs, rhs) | CeilDiv(lhs, rhs) | Mod(lhs, rhs):
            a, b = _flatten(lhs), _flatten(rhs)
            if not b.terms and b.constant > 0:
                if isinstance(expr, Mod):
                    return _combine(a, _divide(a, b.constant, FloorDiv), -b.constant)
                return _divide(a, b.constant, type(expr))
            match expr:
                case FloorDiv():
                    return _term(a.expr() // b.expr())
                case CeilDiv():
                    return _term(a.expr().ceildiv(b.expr()))
                case _:
                    return _term(a.expr() % b.expr())
        case _:
            raise AssertionError(type(expr))


def _term(expr: AffineExpr) -> Linear:
    return Linear(((expr, 1),), 0)


def _divide(numerator: Linear, divisor: int, kind: type[AffineExpr]) -> Linear:
    common = math.gcd(divisor, numerator.constant, *(c for _, c in numerator.terms))
    reduced = Linear(tuple((t, c // common) for t, c in numerator.terms), numerator.constant // common)
    divisor //= common
    if divisor == 1:
        return reduced
    expr = reduced.expr()
    quotient = expr.ceildiv(divisor) if kind is CeilDiv else expr // divisor
    # The builders may have split a sum or folded a constant.
    return _term(quotient) if isinstance(quotient, FloorDiv | CeilDiv) else _flatten(quotient)


def simplify(expr: AffineExpr) -> AffineExpr:
    """MLIR's simplification: flatten, collect equal terms, rebuild."""
    return _flatten(expr).expr()
