"""Element-wise functions of the standard."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rangeify.array_api import dtypes
from rangeify.array_api.array import Array, pair
from rangeify.errors import DTypeError
from rangeify.gather import as_bits, from_bits
from rangeify.signatures import checked
from uopgraph import Ops, UOp
from uopgraph import dtypes as _d

_NUMERIC, _REAL, _INTEGRAL = "numeric", "real floating", "integral"
_BITWISE, _ANY = "integral or bool", "numeric or bool"


def _node(x: Array, kind: str, name: str) -> UOp:
    """The node of an array of `kind`."""
    dtypes.require(x.dtype, kind, name)
    return x.node


def _c(x: UOp, value: float) -> UOp:
    return UOp.const(value, x.dtype)


def _unary(x: Array, op: Ops, name: str) -> Array:
    return Array.of(_node(x, _REAL, name).alu(op))


def _binary(x1: Any, x2: Any, op: Ops, kind: str, name: str) -> Array:
    a, b = pair(x1, x2, kind, name)
    return Array.of(a.alu(op, b))


def _in_double(x1: Any, x2: Any, name: str, function: Callable[[UOp, UOp], UOp]) -> Array:
    """A function of two floats that float32 operands compute in float64, rounded once."""
    a, b = pair(x1, x2, _REAL, name)
    return Array.of(function(a.cast(_d.float64), b.cast(_d.float64)).cast(a.dtype))


# functions of one float -------------------------------------------------------------------------


@checked
def acos(x: Array, /) -> Array:
    """The inverse cosine."""
    return _unary(x, Ops.ACOS, "acos")


@checked
def acosh(x: Array, /) -> Array:
    """The inverse hyperbolic cosine."""
    return _unary(x, Ops.ACOSH, "acosh")


@checked
def asin(x: Array, /) -> Array:
    """The inverse sine."""
    return _unary(x, Ops.ASIN, "asin")


@checked
def asinh(x: Array, /) -> Array:
    """The inverse hyperbolic sine."""
    return _unary(x, Ops.ASINH, "asinh")


@checked
def atan(x: Array, /) -> Array:
    """The inverse tangent."""
    return _unary(x, Ops.ATAN, "atan")


@checked
def atanh(x: Array, /) -> Array:
    """The inverse hyperbolic tangent."""
    return _unary(x, Ops.ATANH, "atanh")


@checked
def cos(x: Array, /) -> Array:
    """The cosine."""
    return _unary(x, Ops.COS, "cos")


@checked
def cosh(x: Array, /) -> Array:
    """The hyperbolic cosine."""
    return _unary(x, Ops.COSH, "cosh")


@checked
def exp(x: Array, /) -> Array:
    """e to the power of x."""
    return _unary(x, Ops.EXP, "exp")


@checked
def expm1(x: Array, /) -> Array:
    """exp(x) - 1 without cancellation."""
    return _unary(x, Ops.EXPM1, "expm1")


@checked
def log(x: Array, /) -> Array:
    """The natural logarithm."""
    return _unary(x, Ops.LOG, "log")


@checked
def log1p(x: Array, /) -> Array:
    """log(1 + x) without cancellation."""
    return _unary(x, Ops.LOG1P, "log1p")


@checked
def log2(x: Array, /) -> Array:
    """The logarithm to base 2."""
    return _unary(x, Ops.LOG2, "log2")


@checked
def log10(x: Array, /) -> Array:
    """The logarithm to base 10, from the natural one in float64."""
    node = _node(x, _REAL, "log10")
    wide = node.cast(_d.float64).log()
    return Array.of((wide / _c(wide, math.log(10))).cast(node.dtype))


@checked
def reciprocal(x: Array, /) -> Array:
    """1 / x."""
    node = _node(x, _REAL, "reciprocal")
    return Array.of(_c(node, 1.0).alu(Ops.FDIV, node))


@checked
def sin(x: Array, /) -> Array:
    """The sine."""
    return _unary(x, Ops.SIN, "sin")


@checked
def sinh(x: Array, /) -> Array:
    """The hyperbolic sine."""
    return _unary(x, Ops.SINH, "sinh")


@checked
def sqrt(x: Array, /) -> Array:
    """The square root."""
    return _unary(x, Ops.SQRT, "sqrt")


@checked
def tan(x: Array, /) -> Array:
    """The tangent."""
    return _unary(x, Ops.TAN, "tan")


@checked
def tanh(x: Array, /) -> Array:
    """The hyperbolic tangent."""
    return _unary(x, Ops.TANH, "tanh")


# parts and signs --------------------------------------------------------------------------------


def _sign_mask(bits: UOp) -> UOp:
    return UOp.const(1 << (bits.dtype.bitsize - 1), bits.dtype)


def _magnitude(node: UOp) -> UOp:
    """A float without its sign bit."""
    bits = as_bits(node)
    return from_bits(bits & (_sign_mask(bits) ^ UOp.const(-1, bits.dtype)), node.dtype)


@checked
def abs(x: Array, /) -> Array:
    """The absolute value; the least integer of a signed dtype is its own."""
    node = _node(x, _NUMERIC, "abs")
    if node.dtype.is_float:
        return Array.of(_magnitude(node))
    if node.dtype.is_unsigned:
        return Array.of(node)
    return Array.of((node < _c(node, 0)).where(-node, node))


@checked
def positive(x: Array, /) -> Array:
    """x itself."""
    return Array.of(_node(x, _NUMERIC, "positive"))


@checked
def negative(x: Array, /) -> Array:
    """-x; integers wrap."""
    return Array.of(-_node(x, _NUMERIC, "negative"))


@checked
def sign(x: Array, /) -> Array:
    """-1, 0 or 1; nan for nan."""
    node = _node(x, _NUMERIC, "sign")
    zero = _c(node, 0)
    above = (zero < node).where(_c(node, 1), zero)
    if node.dtype.is_float:
        above = node.ne(node).where(node, above)
    return Array.of(above if node.dtype.is_unsigned else (node < zero).where(_c(node, -1), above))


@checked
def signbit(x: Array, /) -> Array:
    """Whether the sign bit is set: true also for -0.0."""
    bits = as_bits(_node(x, _REAL, "signbit"))
    return Array.of((bits & _sign_mask(bits)).ne(_c(bits, 0)))


@checked
def copysign(x1: Any, x2: Any, /) -> Array:
    """x1 with the sign bit of x2."""
    a, b = pair(x1, x2, _REAL, "copysign")
    bits = as_bits(b)
    return Array.of(from_bits(as_bits(_magnitude(a)) | (bits & _sign_mask(bits)), a.dtype))


@checked
def real(x: Array, /) -> Array:
    """The real part of a real array: itself."""
    return Array.of(_node(x, _NUMERIC, "real"))


@checked
def isnan(x: Array, /) -> Array:
    node = _node(x, _NUMERIC, "isnan")
    return Array.of(node.ne(node))


@checked
def isinf(x: Array, /) -> Array:
    node = _node(x, _NUMERIC, "isinf")
    if not node.dtype.is_float:
        return Array.of(node.ne(node))
    return Array.of(_magnitude(node).eq(_c(node, math.inf)))


@checked
def isfinite(x: Array, /) -> Array:
    node = _node(x, _NUMERIC, "isfinite")
    if not node.dtype.is_float:
        return Array.of(node.eq(node))
    return Array.of(_magnitude(node) < _c(node, math.inf))


# rounding ---------------------------------------------------------------------------------------


def _rounded(x: Array, op: Ops, name: str) -> Array:
    node = _node(x, _NUMERIC, name)
    return Array.of(node.alu(op) if node.dtype.is_float else node)


@checked
def ceil(x: Array, /) -> Array:
    """The least integral value that is not below x."""
    return _rounded(x, Ops.CEIL, "ceil")


@checked
def floor(x: Array, /) -> Array:
    """The greatest integral value that is not above x."""
    return _rounded(x, Ops.FLOOR, "floor")


@checked
def round(x: Array, /) -> Array:
    """The nearest integral value, ties to even."""
    return _rounded(x, Ops.ROUND_EVEN, "round")


@checked
def trunc(x: Array, /) -> Array:
    """The integral part."""
    return _rounded(x, Ops.TRUNC, "trunc")


# arithmetic -------------------------------------------------------------------------------------


@checked
def add(x1: Any, x2: Any, /) -> Array:
    """x1 + x2."""
    return _binary(x1, x2, Ops.ADD, _NUMERIC, "add")


@checked
def subtract(x1: Any, x2: Any, /) -> Array:
    """x1 - x2."""
    return _binary(x1, x2, Ops.SUB, _NUMERIC, "subtract")


@checked
def multiply(x1: Any, x2: Any, /) -> Array:
    """x1 * x2."""
    return _binary(x1, x2, Ops.MUL, _NUMERIC, "multiply")


@checked
def divide(x1: Any, x2: Any, /) -> Array:
    """x1 / x2 of floats."""
    return _binary(x1, x2, Ops.FDIV, _REAL, "divide")


@checked
def square(x: Array, /) -> Array:
    """x * x."""
    node = _node(x, _NUMERIC, "square")
    return Array.of(node * node)


@checked
def pow(x1: Any, x2: Any, /) -> Array:
    """x1 to the power of x2; a negative exponent of an integer is undefined."""
    return _binary(x1, x2, Ops.POW, _NUMERIC, "pow")


@checked
def floor_divide(x1: Any, x2: Any, /) -> Array:
    """The greatest integral value not above x1 / x2, exact where the dtype holds it."""
    a, b = pair(x1, x2, _NUMERIC, "floor_divide")
    if not a.dtype.is_float:
        return Array.of(a // b)
    x, y = a.cast(_d.float64), b.cast(_d.float64)
    quotient = ((x + -_modulo(x, y)).alu(Ops.FDIV, y)).round_even()
    infinite = _magnitude(y).eq(_c(y, math.inf)) & (_magnitude(x) < _c(x, math.inf))
    opposite = (x < _c(x, 0.0)).ne(y < _c(y, 0.0)) & x.ne(_c(x, 0.0))
    plain = x.alu(Ops.FDIV, y)
    beyond = opposite.where(_c(x, -1.0), _signed_like(_c(x, 0.0), plain))
    undivided = y.eq(_c(y, 0.0)) | _magnitude(x).eq(_c(x, math.inf)) | x.eq(_c(x, 0.0))
    found = infinite.where(beyond, undivided.where(plain, _signed_like(quotient, plain)))
    return Array.of(found.cast(a.dtype))


def _signed_like(x: UOp, like: UOp) -> UOp:
    """`x`, a zero of it with the sign of `like`."""
    zero = from_bits(as_bits(like) & _sign_mask(as_bits(like)), like.dtype)
    return x.eq(_c(x, 0.0)).where(zero, x)


def _modulo(x: UOp, y: UOp) -> UOp:
    """x - floor(x / y) * y, rounded once: in [0, y] or [y, 0]."""
    rest = x.fmod(y)
    wrong = rest.ne(_c(rest, 0.0)) & (rest < _c(rest, 0.0)).ne(y < _c(y, 0.0))
    return wrong.where(rest + y, rest)


@checked
def remainder(x1: Any, x2: Any, /) -> Array:
    """x1 - floor(x1 / x2) * x2, with the sign of x2; floats are rounded once."""
    a, b = pair(x1, x2, _NUMERIC, "remainder")
    if not a.dtype.is_float:
        return Array.of(a % b)
    return Array.of(_signed_like(_modulo(a, b), b))


@checked
def atan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1)."""
    return _binary(x1, x2, Ops.ATAN2, _REAL, "atan2")


@checked
def hypot(x1: Any, x2: Any, /) -> Array:
    """sqrt(x1**2 + x2**2) without overflow of the squares; infinite beside an infinity, also with nan."""

    def length(a: UOp, b: UOp) -> UOp:
        p, q = _magnitude(a), _magnitude(b)
        big = p.maximum(q)
        small = p.minimum(q)
        ratio = small.alu(Ops.FDIV, big)
        plain = big.eq(_c(big, 0.0)).where(big, big * (ratio * ratio + _c(big, 1.0)).sqrt())
        infinite = p.eq(_c(p, math.inf)) | q.eq(_c(q, math.inf))
        return infinite.where(_c(p, math.inf), plain)

    return _in_double(x1, x2, "hypot", length)


@checked
def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow."""

    def total(a: UOp, b: UOp) -> UOp:
        big = a.maximum(b)
        gap = a.eq(b).where(_c(a, 0.0), -_magnitude(a + -b))
        return big + gap.exp().log1p()

    return _in_double(x1, x2, "logaddexp", total)


@checked
def nextafter(x1: Any, x2: Any, /) -> Array:
    """The next representable value after x1 towards x2."""
    a, b = pair(x1, x2, _REAL, "nextafter")
    bits = as_bits(a)
    one = _c(bits, 1)
    least = from_bits((as_bits(b) & _sign_mask(bits)) | one, a.dtype)
    away = (a < b).ne(a < _c(a, 0.0))  # the magnitude grows
    moved = from_bits(away.where(bits + one, bits + _c(bits, -1)), a.dtype)
    stepped = a.eq(b).where(b, a.eq(_c(a, 0.0)).where(least, moved))
    return Array.of((a.ne(a) | b.ne(b)).where(a + b, stepped))


@checked
def maximum(x1: Any, x2: Any, /) -> Array:
    """The greater value; nan where either is nan."""
    return _binary(x1, x2, Ops.MAX, _NUMERIC, "maximum")


@checked
def minimum(x1: Any, x2: Any, /) -> Array:
    """The lesser value; nan where either is nan."""
    a, b = pair(x1, x2, _NUMERIC, "minimum")
    return Array.of(a.minimum(b))


@checked
def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """x limited to [min, max], in the dtype of x; nan where a limit is nan."""
    node = _node(x, _NUMERIC, "clip")
    for limit, lower in ((min, True), (max, False)):
        if limit is None:
            continue
        if isinstance(limit, Array):
            if dtypes.promote(node.dtype, limit.dtype) is not node.dtype:
                raise DTypeError(f"clip of {node.dtype.name} by {limit.dtype.name}")
            bound = limit.node.cast(node.dtype)
        else:
            bound = dtypes.scalar(limit, node.dtype)
        node = node.maximum(bound) if lower else node.minimum(bound)
    return Array.of(node)


# comparison -------------------------------------------------------------------------------------


@checked
def equal(x1: Any, x2: Any, /) -> Array:
    """x1 == x2."""
    a, b = pair(x1, x2, _ANY, "equal")
    return Array.of(a.eq(b))


@checked
def not_equal(x1: Any, x2: Any, /) -> Array:
    """x1 != x2."""
    return _binary(x1, x2, Ops.CMPNE, _ANY, "not_equal")


@checked
def less(x1: Any, x2: Any, /) -> Array:
    """x1 < x2."""
    return _binary(x1, x2, Ops.CMPLT, _NUMERIC, "less")


@checked
def less_equal(x1: Any, x2: Any, /) -> Array:
    """x1 <= x2."""
    a, b = pair(x1, x2, _NUMERIC, "less_equal")
    return Array.of(a <= b)


@checked
def greater(x1: Any, x2: Any, /) -> Array:
    """x1 > x2."""
    a, b = pair(x1, x2, _NUMERIC, "greater")
    return Array.of(b < a)


@checked
def greater_equal(x1: Any, x2: Any, /) -> Array:
    """x1 >= x2."""
    a, b = pair(x1, x2, _NUMERIC, "greater_equal")
    return Array.of(b <= a)


# bits and logic ---------------------------------------------------------------------------------


@checked
def bitwise_and(x1: Any, x2: Any, /) -> Array:
    """x1 & x2."""
    return _binary(x1, x2, Ops.AND, _BITWISE, "bitwise_and")


@checked
def bitwise_or(x1: Any, x2: Any, /) -> Array:
    """x1 | x2."""
    return _binary(x1, x2, Ops.OR, _BITWISE, "bitwise_or")


@checked
def bitwise_xor(x1: Any, x2: Any, /) -> Array:
    """x1 ^ x2."""
    return _binary(x1, x2, Ops.XOR, _BITWISE, "bitwise_xor")


@checked
def bitwise_invert(x: Array, /) -> Array:
    """~x."""
    return Array.of(~_node(x, _BITWISE, "bitwise_invert"))


def _shift(x1: Any, x2: Any, op: Ops, name: str) -> Array:
    """A shift; counts of the width or more give 0 (or the sign), a negative count is undefined."""
    a, b = pair(x1, x2, _INTEGRAL, name)
    far = (b < _c(b, a.dtype.bitsize)).logical_not()
    near = far.where(_c(b, 0), b)
    end = _c(a, 0) if op is Ops.SHL or a.dtype.is_unsigned else (a < _c(a, 0)).where(_c(a, -1), _c(a, 0))
    return Array.of(far.where(end, a.alu(op, near)))


@checked
def bitwise_left_shift(x1: Any, x2: Any, /) -> Array:
    """x1 << x2; bits that leave the dtype are dropped."""
    return _shift(x1, x2, Ops.SHL, "bitwise_left_shift")


@checked
def bitwise_right_shift(x1: Any, x2: Any, /) -> Array:
    """x1 >> x2; the sign is shifted in."""
    return _shift(x1, x2, Ops.SHR, "bitwise_right_shift")


@checked
def logical_and(x1: Any, x2: Any, /) -> Array:
    """Both are true."""
    return _binary(x1, x2, Ops.AND, "bool", "logical_and")


@checked
def logical_or(x1: Any, x2: Any, /) -> Array:
    """One is true."""
    return _binary(x1, x2, Ops.OR, "bool", "logical_or")


@checked
def logical_xor(x1: Any, x2: Any, /) -> Array:
    """Exactly one is true."""
    return _binary(x1, x2, Ops.XOR, "bool", "logical_xor")


@checked
def logical_not(x: Array, /) -> Array:
    """The negation."""
    return Array.of(_node(x, "bool", "logical_not").logical_not())


__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]
