"""Functions of ``math``: computed in binary64 and rounded once to the element type (ktir spec 3.2).

Operands are made contiguous first: NumPy picks its loop by memory layout, and a value must not depend on
that.
"""

from __future__ import annotations

import math as scalar_math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from ktir.dialects import math
from spyresim.meaning.formats import Array, FloatFormat
from spyresim.meaning.table import Call, Meaning, meaning

__all__ = ["elementwise", "erf", "erfc", "fused_multiply_add", "round_half_away"]


def elementwise(function: Callable[..., Array]) -> Meaning:
    """A function of binary64 arrays, with one rounding of its result.

    A function of one 16-bit number is computed once for all codes of the format and then looked up.
    """
    tables: dict[FloatFormat, Array] = {}

    def compute(number: FloatFormat, operands: Sequence[Array]) -> Array:
        wide = [number.widen_double(values) for values in operands]
        return number.narrow(np.asarray(function(*wide), np.float64))

    def apply(call: Call) -> Array:
        number = call.floats
        if len(call.operands) > 1:
            return compute(number, np.broadcast_arrays(*call.operands))
        if number.held.itemsize != 2:
            return compute(number, call.operands)
        table = tables.get(number)
        if table is None:
            codes = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
            table = tables[number] = compute(number, [codes.view(number.held)])
        return np.take(table, call.operands[0].view(np.uint16))

    return apply


def round_half_away(values: Array) -> Array:
    """To whole numbers, halves away from zero."""
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    vectorized = np.frompyfunc(function, 1, 1)

    def apply(values: Array) -> Array:
        return np.asarray(vectorized(values), np.float64)

    return apply


erf = _by_element(scalar_math.erf)
erfc = _by_element(scalar_math.erfc)


def _keeps_sign(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Rounding to whole numbers keeps the sign of a zero result."""

    def apply(values: Array) -> Array:
        return np.copysign(function(values), values)

    return apply


_FUNCTIONS: tuple[tuple[type[math.Exp] | type, Callable[..., Array]], ...] = (
    (math.Acos, np.arccos),
    (math.Asin, np.arcsin),
    (math.Atan, np.arctan),
    (math.Cbrt, np.cbrt),
    (math.Cos, np.cos),
    (math.Cosh, np.cosh),
    (math.Erf, erf),
    (math.Exp, np.exp),
    (math.Exp2, np.exp2),
    (math.ExpM1, np.expm1),
    (math.Log, np.log),
    (math.Log10, np.log10),
    (math.Log1p, np.log1p),
    (math.Log2, np.log2),
    (math.Rsqrt, lambda values: 1.0 / np.sqrt(values)),
    (math.Sin, np.sin),
    (math.Sinh, np.sinh),
    (math.Sqrt, np.sqrt),
    (math.Tan, np.tan),
    (math.Tanh, np.tanh),
    (math.Atan2, np.arctan2),
    (math.PowF, np.power),
    (math.Ceil, _keeps_sign(np.ceil)),
    (math.Floor, _keeps_sign(np.floor)),
    (math.Round, _keeps_sign(round_half_away)),
    (math.RoundEven, _keeps_sign(np.rint)),
    (math.Trunc, _keeps_sign(np.trunc)),
)
for _op_class, _function in _FUNCTIONS:
    meaning(_op_class)(elementwise(_function))


@meaning(math.AbsF)
def absolute(call: Call) -> Array:
    """The sign bit cleared, also of NaNs."""
    (values,) = call.operands
    return values & np.uint16(0x7FFF) if call.floats.is_dlfloat else np.abs(values)


@meaning(math.CopySign)
def copy_sign(call: Call) -> Array:
    """Magnitude of the first operand with the sign bit of the second."""
    magnitude, sign = call.operands
    if call.floats.is_dlfloat:
        return (magnitude & np.uint16(0x7FFF)) | (sign & np.uint16(0x8000))
    return np.copysign(magnitude, sign)


def fused_multiply_add(a: Array, b: Array, c: Array, number: FloatFormat) -> Array:
    """``a * b + c`` of held arrays of one format, with one rounding."""
    x, y, z = (np.asarray(number.widen(v), np.float64) for v in (a, b, c))
    with np.errstate(all="ignore"):
        product = x * y
        if number.held == np.float64:
            return _exact_fma(x, y, z)
        if number.is_dlfloat or number.held.itemsize <= 2:
            return number.narrow(_odd_sum(product, z))  # the product is exact
        return _odd_sum(product, z).astype(number.held)


def _odd_sum(left: Array, right: Array) -> Array:
    """The sum of two binary64 arrays rounded to odd, so that a further rounding is the only one."""
    total = left + right
    high = total - left
    error = (left - (total - high)) + (right - high)
    inexact = np.isfinite(total) & (error != 0)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, toward), total)


def _exact_fma(a: Array, b: Array, c: Array) -> Array:
    plain = a * b + c
    flat = [v.ravel() for v in np.broadcast_arrays(a, b, c, plain)]
    result = flat[3].copy()
    for i, (x, y, z) in enumerate(zip(*flat[:3], strict=True)):
        if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if exact:
                try:
                    result[i] = float(exact)
                except OverflowError:
                    result[i] = np.inf if exact > 0 else -np.inf
    return result.reshape(plain.shape)


@meaning(math.Fma)
def multiply_add(call: Call) -> Array:
    a, b, c = np.broadcast_arrays(*call.operands)
    return fused_multiply_add(a, b, c, call.floats)
