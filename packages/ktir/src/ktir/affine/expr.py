"""Affine expressions: integer expressions over dimensions ``d0, d1, ...`` and symbols ``s0, s1, ...``.

The classes are plain frozen trees. The operators (``+ - * // %`` and :meth:`AffineExpr.ceildiv`) build the
form that MLIR builds when it reads the same text: constants move to the right, equal terms are collected,
``e - (e floordiv c) * c`` becomes ``e mod c``. Two expressions that print alike are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import attrs

from ktir.affine.errors import AffineError

if TYPE_CHECKING:  # NumPy is loaded when an expression is evaluated over arrays
    import numpy as np
    import numpy.typing as npt

    IntArray: TypeAlias = npt.NDArray[np.int64]
    BoolArray: TypeAlias = npt.NDArray[np.bool_]

__all__ = [
    "Add",
    "AffineExpr",
    "CeilDiv",
    "Const",
    "Dim",
    "FloorDiv",
    "Mod",
    "Mul",
    "Sym",
    "as_expr",
    "interval",
    "largest_known_divisor",
    "magnitude",
]

V = TypeVar("V", int, "IntArray")
_WORD = 1 << 63


@attrs.frozen(repr=False)
class AffineExpr:
    """Base of all affine expressions; `str()` gives MLIR's spelling."""

    def __add__(self, other: AffineExpr | int) -> AffineExpr:
        return _add(self, as_expr(other))

    def __radd__(self, other: int) -> AffineExpr:
        return _add(Const(other), self)

    def __sub__(self, other: AffineExpr | int) -> AffineExpr:
        return _add(self, _mul(as_expr(other), Const(-1)))

    def __rsub__(self, other: int) -> AffineExpr:
        return Const(other) - self

    def __neg__(self) -> AffineExpr:
        return _mul(self, Const(-1))

    def __mul__(self, other: AffineExpr | int) -> AffineExpr:
        return _mul(self, as_expr(other))

    def __rmul__(self, other: int) -> AffineExpr:
        return _mul(Const(other), self)

    def __floordiv__(self, other: AffineExpr | int) -> AffineExpr:
        return _floordiv(self, as_expr(other))

    def __mod__(self, other: AffineExpr | int) -> AffineExpr:
        return _mod(self, as_expr(other))

    def ceildiv(self, other: AffineExpr | int) -> AffineExpr:
        """``self ceildiv other``."""
        return _ceildiv(self, as_expr(other))

    def __str__(self) -> str:
        return format_expr(self)

    def __repr__(self) -> str:
        return f"<affine {self}>"

    @property
    def children(self) -> tuple[AffineExpr, ...]:
        """The operands: none for leaves, two for operators."""
        return ()

    def walk(self) -> Iterator[AffineExpr]:
        """All sub-expressions, operands before operators."""
        for child in self.children:
            yield from child.walk()
        yield self

    @property
    def is_symbolic(self) -> bool:
        """Whether no dimension occurs (constants count as symbolic)."""
        return not any(isinstance(e, Dim) for e in self.walk())

    def dims(self) -> frozenset[int]:
        """Positions of the dimensions that occur."""
        return frozenset(e.position for e in self.walk() if isinstance(e, Dim))

    def symbols(self) -> frozenset[int]:
        """Positions of the symbols that occur."""
        return frozenset(e.position for e in self.walk() if isinstance(e, Sym))

    def replace(self, dims: Sequence[AffineExpr], symbols: Sequence[AffineExpr]) -> AffineExpr:
        """Substitute dimensions and symbols by position; positions beyond the sequences stay."""
        match self:
            case Dim(position):
                return dims[position] if position < len(dims) else self
            case Sym(position):
                return symbols[position] if position < len(symbols) else self
            case Const():
                return self
            case _:
                lhs, rhs = (child.replace(dims, symbols) for child in self.children)
                return _BUILDERS[type(self)](lhs, rhs)

    def evaluate(self, dims: Sequence[V], symbols: Sequence[V] = ()) -> V:
        """The value at a point: exact on Python integers, element-wise on int64 arrays (which broadcast).

        :class:`AffineError` for a missing operand or a divisor that is not positive.
        """
        match self:
            case Dim(position):
                return _operand(dims, position, "dimension d")
            case Sym(position):
                return _operand(symbols, position, "symbol s")
            case Const(value):
                return value  # type: ignore[return-value]  # an int broadcasts against arrays
            case Add(lhs, rhs):
                return lhs.evaluate(dims, symbols) + rhs.evaluate(dims, symbols)
            case Mul(lhs, rhs):
                return lhs.evaluate(dims, symbols) * rhs.evaluate(dims, symbols)
            case FloorDiv(lhs, rhs):
                return lhs.evaluate(dims, symbols) // _divisor(rhs.evaluate(dims, symbols), self)
            case CeilDiv(lhs, rhs):
                return -(-lhs.evaluate(dims, symbols) // _divisor(rhs.evaluate(dims, symbols), self))
            case Mod(lhs, rhs):
                return lhs.evaluate(dims, symbols) % _divisor(rhs.evaluate(dims, symbols), self)
            case _:
                raise AssertionError(type(self))


@attrs.frozen(repr=False)
class Dim(AffineExpr):
    """The dimension ``d<position>``."""

    position: int


@attrs.frozen(repr=False)
class Sym(AffineExpr):
    """The symbol ``s<position>``."""

    position: int


@attrs.frozen(repr=False)
class Const(AffineExpr):
    """An integer of 64 bits; :class:`AffineError` for others, which no text could hold."""

    value: int

    def __attrs_post_init__(self) -> None:
        if not -_WORD <= self.value < _WORD:
            raise AffineError(f"constant {self.value} of an affine expression does not fit 64 bits")


@attrs.frozen(repr=False)
class _Binary(AffineExpr):
    lhs: AffineExpr
    rhs: AffineExpr

    @property
    def children(self) -> tuple[AffineExpr, ...]:
        return (self.lhs, self.rhs)


@attrs.frozen(repr=False)
class Add(_Binary):
    """``lhs + rhs``."""


@attrs.frozen(repr=False)
class Mul(_Binary):
    """``lhs * rhs``; affine if one side has no dimension."""


@attrs.frozen(repr=False)
class FloorDiv(_Binary):
    """``lhs floordiv rhs``, rounded to minus infinity; the divisor must be positive."""


@attrs.frozen(repr=False)
class CeilDiv(_Binary):
    """``lhs ceildiv rhs``, rounded to plus infinity; the divisor must be positive."""


@attrs.frozen(repr=False)
class Mod(_Binary):
    """``lhs mod rhs``, in ``[0, rhs)``; the divisor must be positive."""


def as_expr(value: AffineExpr | int) -> AffineExpr:
    """An expression, or the constant of an integer."""
    return value if isinstance(value, AffineExpr) else Const(int(value))


def _operand(values: Sequence[V], position: int, what: str) -> V:
    if position >= len(values):
        raise AffineError(f"no value given for {what}{position}")
    return values[position]


def _divisor(value: V, expr: AffineExpr) -> V:
    if value <= 0 if isinstance(value, int) else (value <= 0).any():
        raise AffineError(f"divisor of '{expr}' must be positive, but is {value}")
    return value


# -- construction with MLIR's local simplifications


def largest_known_divisor(expr: AffineExpr) -> int:
    """An integer that divides every value of the expression (0 if the value is always 0)."""
    match expr:
        case Const(value):
            return abs(value)
        case Mul(lhs, rhs):
            return largest_known_divisor(lhs) * largest_known_divisor(rhs)
        case Add(lhs, rhs) | Mod(lhs, rhs):
            return math.gcd(largest_known_divisor(lhs), largest_known_divisor(rhs))
        case FloorDiv(lhs, Const(value)) | CeilDiv(lhs, Const(value)) if value != 0:
            divisor = largest_known_divisor(lhs)
            return abs(divisor // value) if divisor % value == 0 else 1
        case _:
            return 1


def _add(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    return _simplify_add(lhs, rhs) or Add(lhs, rhs)


def _scaled(expr: AffineExpr) -> tuple[AffineExpr, int]:
    match expr:
        case Mul(factor, Const(value)):
            return factor, value
        case _:
            return expr, 1


def _simplify_add(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr | None:
    match lhs, rhs:
        case Const(a), Const(b):
            return Const(a + b)
        case Const(), _:
            return _add(rhs, lhs)
        case _, Const(0):
            return lhs
        case Add(inner, Const(a)), Const(b):
            return _add(inner, Const(a + b))
    if lhs.is_symbolic and not rhs.is_symbolic:
        return _add(rhs, lhs)
    (left, a), (right, b) = _scaled(lhs), _scaled(rhs)
    if left == right:
        return _mul(left, Const(a + b))
    match lhs:
        case Add(inner, Const() as constant) if not isinstance(rhs, Const):
            return _add(_add(inner, rhs), constant)
    match rhs:
        case Add(first, second):
            # Sums lean to the left, so that what prints alike (without brackets) is equal.
            return _add(_add(lhs, first), second)
        case Mul(Mul(FloorDiv(numerator, divisor), factor), Const(-1)) if (
            divisor == factor and numerator == lhs
        ):
            return _mod(lhs, divisor)
        case Mul(FloorDiv(numerator, Const(divisor_value)), Const(factor_value)):
            if divisor_value > 0 and factor_value == -divisor_value and numerator == lhs:
                return _mod(lhs, Const(divisor_value))
            if isinstance(lhs, Add):
                inner_sum = _simplify_add(lhs.rhs, rhs)
                return None if inner_sum is None else _add(lhs.lhs, inner_sum)
    return None


def _mul(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    match lhs, rhs:
        case Const(a), Const(b):
            return Const(a * b)
        case Const(), _:
            return _mul(rhs, lhs)
        case _, Const(1):
            return lhs
        case _, Const(0):
            return rhs
        case Mul(inner, Const(a)), Const(b):
            return _mul(inner, Const(a * b))
    if not rhs.is_symbolic and lhs.is_symbolic:
        return _mul(rhs, lhs)
    match lhs:
        case Mul(inner, Const() as constant):
            return _mul(_mul(inner, rhs), constant)
    return Mul(lhs, rhs)


def _floordiv(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    match lhs, rhs:
        case _, Const(value) if value <= 0:
            return FloorDiv(lhs, rhs)
        case Const(a), Const(b):
            return Const(a // b)
        case _, Const(1):
            return lhs
        case Mul(inner, Const(a)), Const(b) if a % b == 0:
            return _mul(inner, Const(a // b))
        case Add(first, second), Const(b) if (
            largest_known_divisor(first) % b == 0 or largest_known_divisor(second) % b == 0
        ):
            return _add(_floordiv(first, rhs), _floordiv(second, rhs))
    return FloorDiv(lhs, rhs)


def _ceildiv(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    match lhs, rhs:
        case _, Const(value) if value <= 0:
            return CeilDiv(lhs, rhs)
        case Const(a), Const(b):
            return Const(-(-a // b))
        case _, Const(1):
            return lhs
        case Mul(inner, Const(a)), Const(b) if a % b == 0:
            return _mul(inner, Const(a // b))
    return CeilDiv(lhs, rhs)


def _mod(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    match rhs:
        case Const(value) if value >= 1:
            if isinstance(lhs, Const):
                return Const(lhs.value % value)
            if largest_known_divisor(lhs) % value == 0:
                return Const(0)
            match lhs:
                case Add(first, second) if largest_known_divisor(first) % value == 0:
                    return _mod(second, rhs)
                case Add(first, second) if largest_known_divisor(second) % value == 0:
                    return _mod(first, rhs)
                case Mod(inner, Const(outer)) if outer >= 1 and outer % value == 0:
                    return _mod(inner, rhs)
    return Mod(lhs, rhs)


_BUILDERS: dict[type[AffineExpr], Callable[[AffineExpr, AffineExpr], AffineExpr]] = {
    Add: _add,
    Mul: _mul,
    FloorDiv: _floordiv,
    CeilDiv: _ceildiv,
    Mod: _mod,
}


# -- printing

_SPELLING: dict[type[AffineExpr], str] = {
    Mul: " * ",
    FloorDiv: " floordiv ",
    CeilDiv: " ceildiv ",
    Mod: " mod ",
}


def format_expr(
    expr: AffineExpr,
    leaf: Callable[[Dim | Sym], str] | None = None,
) -> str:
    """MLIR's spelling; `leaf` names dimensions and symbols (default ``d0``, ``s0``)."""
    name = leaf or _default_leaf
    return _format(expr, False, name)


def _default_leaf(expr: Dim | Sym) -> str:
    return f"d{expr.position}" if isinstance(expr, Dim) else f"s{expr.position}"


def _format(expr: AffineExpr, strong: bool, leaf: Callable[[Dim | Sym], str]) -> str:
    match expr:
        case Dim() | Sym():
            return leaf(expr)
        case Const(value):
            return str(value)
        case Mul(lhs, Const(-1)):
            text = "-" + _format(lhs, True, leaf)
        case Add(lhs, Mul(factor, Const(-1))):
            text = f"{_format(lhs, False, leaf)} - {_format(factor, isinstance(factor, Add), leaf)}"
        case Add(lhs, Mul(factor, Const(value))) if value < -1:
            text = f"{_format(lhs, False, leaf)} - {_format(factor, True, leaf)} * {-value}"
        case Add(lhs, Const(value)) if value < 0:
            text = f"{_format(lhs, False, leaf)} - {-value}"
        case Add(lhs, rhs):
            text = f"{_format(lhs, False, leaf)} + {_format(rhs, False, leaf)}"
        case Mul(lhs, rhs) | FloorDiv(lhs, rhs) | CeilDiv(lhs, rhs) | Mod(lhs, rhs):
            text = f"{_format(lhs, True, leaf)}{_SPELLING[type(expr)]}{_format(rhs, True, leaf)}"
        case _:
            raise AssertionError(type(expr))
    return f"({text})" if strong else text


# -- intervals


def magnitude(expr: AffineExpr, dims: Sequence[int], symbols: Sequence[int] = ()) -> int:
    """A bound of the absolute values of the expression and everything in it, given those of its operands."""
    match expr:
        case Dim(position):
            return dims[position]
        case Sym(position):
            return symbols[position]
        case Const(value):
            return abs(value)
        case Add(lhs, rhs):
            return magnitude(lhs, dims, symbols) + magnitude(rhs, dims, symbols)
        case Mul(lhs, rhs):
            a, b = magnitude(lhs, dims, symbols), magnitude(rhs, dims, symbols)
            return max(a, b, a * b)
        case FloorDiv(lhs, rhs) | CeilDiv(lhs, rhs) | Mod(lhs, rhs):
            return max(magnitude(lhs, dims, symbols), magnitude(rhs, dims, symbols)) + 1
        case _:
            raise AssertionError(type(expr))


def interval(
    expr: AffineExpr, dims: Sequence[tuple[int, int]], symbols: Sequence[tuple[int, int]] = ()
) -> tuple[int, int]:
    """Bounds (both inclusive) of the expression when each operand lies in its inclusive interval.

    Exact for an operand that occurs once; an over-approximation otherwise. :class:`AffineError` for a
    divisor that may be zero or negative.
    """
    match expr:
        case Dim(position):
            return dims[position]
        case Sym(position):
            return symbols[position]
        case Const(value):
            return value, value
        case Add(lhs, rhs):
            (a, b), (c, d) = interval(lhs, dims, symbols), interval(rhs, dims, symbols)
            return a + c, b + d
        case Mul(lhs, rhs):
            (a, b), (c, d) = interval(lhs, dims, symbols), interval(rhs, dims, symbols)
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        case FloorDiv(lhs, rhs) | CeilDiv(lhs, rhs) | Mod(lhs, rhs):
            (a, b), (c, d) = interval(lhs, dims, symbols), interval(rhs, dims, symbols)
            _divisor(c, expr)
            if isinstance(expr, Mod):
                same_period = c == d and a // c == b // c
                return (a % c, b % c) if same_period else (0, max(min(b, d - 1), 0) if a >= 0 else d - 1)
            if isinstance(expr, FloorDiv):
                corners = (a // c, a // d, b // c, b // d)
            else:
                corners = (-(-a // c), -(-a // d), -(-b // c), -(-b // d))
            return min(corners), max(corners)
        case _:
            raise AssertionError(type(expr))
