"""Device intrinsics (``spyreop``) on scalars (ktir spec 2.3 to 2.5).

Functions are computed in binary64 and rounded once.  A fused pair is one unsigned integer, its first part in
the low half.
"""

from __future__ import annotations

import math as scalar_math
from typing import Any

import numpy as np

from ktir.attributes import FloatAttr, IntegerAttr
from ktir.dialects import spyreop
from ktir.dialects.arith import CmpFPredicate
from spyresim.errors import UnsupportedError
from spyresim.meaning.constants import constant_array
from spyresim.meaning.floats import compare
from spyresim.meaning.formats import Array, FloatFormat
from spyresim.meaning.functions import elementwise, erfc
from spyresim.meaning.table import Call, meaning

__all__ = ["gelu", "pack", "sigmoid", "silu", "softplus", "unpack"]

EPSILON = 1e-5
"""What `spyreop.layernormscale` adds to the variance (ktir spec 2.5)."""


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``."""
    return np.asarray(x / (1.0 + np.exp(-x)))


def gelu(x: Array) -> Array:
    """``x * Phi(x)`` with the normal distribution function (the erf form)."""
    return np.asarray(0.5 * x * erfc(-x / scalar_math.sqrt(2.0)))


meaning(spyreop.Exp)(elementwise(np.exp))
meaning(spyreop.Sqrt)(elementwise(np.sqrt))
meaning(spyreop.Rsqrt)(elementwise(lambda x: 1.0 / np.sqrt(x)))
meaning(spyreop.Reciprocal)(elementwise(lambda x: 1.0 / x))
meaning(spyreop.Sigmoid)(elementwise(sigmoid))
meaning(spyreop.Silu)(elementwise(silu))
meaning(spyreop.Gelu)(elementwise(gelu))
meaning(spyreop.RealDiv)(elementwise(np.divide))


def softplus(x: Array, beta: float, threshold: float) -> Array:
    """``log1p(exp(beta * x)) / beta``, and x itself where ``beta * x`` exceeds the threshold."""
    scaled = beta * x
    return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


@meaning(spyreop.Softplus)
def _softplus(call: Call) -> Array:
    beta, threshold = (call.attributes.get(name) for name in ("beta", "threshold"))
    if not isinstance(beta, FloatAttr) or not isinstance(threshold, FloatAttr):
        raise UnsupportedError(f"'{call.name}' without beta and threshold", call.site)
    number = call.floats
    wide = number.widen_double(call.operands[0])
    return number.narrow(np.asarray(softplus(wide, beta.value, threshold.value), np.float64))


_PREDICATES = {
    spyreop.CompareKind.EQUAL: CmpFPredicate.OEQ,
    spyreop.CompareKind.NOTEQUAL: CmpFPredicate.UNE,
    spyreop.CompareKind.GREATERTHAN: CmpFPredicate.OGT,
    spyreop.CompareKind.GREATEREQUAL: CmpFPredicate.OGE,
    spyreop.CompareKind.LESSERTHAN: CmpFPredicate.OLT,
    spyreop.CompareKind.LESSEREQUAL: CmpFPredicate.OLE,
}


@meaning(spyreop.Compare)
def _compare(call: Call) -> Array:
    """1 where the relation holds, else 0, in the operands' type."""
    kind = call.attributes.get("kind")
    if not isinstance(kind, spyreop.CompareKindAttr):
        raise UnsupportedError(f"'{call.name}' without a kind", call.site)
    number = call.floats
    left, right = (number.widen(values) for values in call.operands)
    return number.narrow(compare(_PREDICATES[kind.kind], left, right).astype(np.float64))


@meaning(spyreop.Select)
def _select(call: Call) -> Array:
    """The second operand where the first is not zero (NaN is not), else the third."""
    condition, yes, no = call.operands
    return np.where(call.floats.widen(condition) != 0, yes, no)


@meaning(spyreop.Constant)
def _constant(call: Call) -> Array:
    return constant_array(call.attributes["value"], call.f16_format)[None]


@meaning(spyreop.LayerNormScale)
def _scale(call: Call) -> Array:
    """Reciprocal standard deviation from mean and mean of squares (one operand: from the variance)."""
    number = call.floats
    wide = [number.widen_double(values) for values in np.broadcast_arrays(*call.operands)]
    if len(wide) == 2:
        return _reciprocal_deviation(number, *wide)
    return number.narrow(np.asarray(1.0 / np.sqrt(wide[0] + EPSILON)))


def _reciprocal_deviation(number: FloatFormat, mean: Array, squares: Array) -> Array:
    variance = np.maximum(squares - mean * mean, 0.0)
    return number.narrow(np.asarray(1.0 / np.sqrt(variance + EPSILON)))


@meaning(spyreop.LayerNormNorm)
def _normalize(call: Call) -> Array:
    """``(x - mean) * scale * weight + bias``; the operand named ``squares`` takes the mean."""
    number = call.floats
    x, mean, scale, weight, bias = (
        number.widen_double(values) for values in np.broadcast_arrays(*call.operands)
    )
    return number.narrow(np.asarray((x - mean) * scale * weight + bias))


@meaning(spyreop.Exx2)
def _moments(call: Call) -> tuple[Array, Array]:
    """Of a single element: itself and its square."""
    (x,) = call.operands
    number = call.floats
    wide = number.widen(x)
    return x, number.narrow(np.asarray(wide * wide))


def pack(first: Array, second: Array) -> Array:
    """Fused pairs of two arrays of one 16-bit or 32-bit float type."""
    bits = 8 * first.itemsize
    word, wide = np.dtype(f"u{first.itemsize}"), np.dtype(f"u{2 * first.itemsize}")
    low, high = (np.ascontiguousarray(part).view(word).astype(wide) for part in (first, second))
    return np.asarray(low | (high << wide.type(bits)))


def unpack(pairs: Array, held: np.dtype[Any]) -> tuple[Array, Array]:
    """The parts of fused pairs."""
    word = np.dtype(f"u{held.itemsize}")
    low, high = pairs.astype(word), (pairs >> pairs.dtype.type(8 * held.itemsize)).astype(word)
    return low.view(held), high.view(held)


@meaning(spyreop.Exx2Fused)
def _packed_moments(call: Call) -> Array:
    return pack(*_moments(call))


@meaning(spyreop.Exx2ZeroMeanFused)
def _packed_square(call: Call) -> Array:
    """The mean is taken to be zero."""
    x, square = _moments(call)
    return pack(np.zeros_like(x), square)


@meaning(spyreop.LayerNormScaleFused)
def _packed_scale(call: Call) -> Array:
    """Reciprocal standard deviation from a packed mean and mean of squares."""
    number = call.result_floats
    mean, squares = (number.widen_double(part) for part in unpack(call.operands[0], number.held))
    return _reciprocal_deviation(number, mean, squares)


@meaning(spyreop.AddI32ToI32, spyreop.AddI64ToI64)
def _add(call: Call) -> Array:
    return np.asarray(call.operands[0] + call.operands[1])


@meaning(spyreop.MulI32ToI32)
def _multiply(call: Call) -> Array:
    return np.asarray(call.operands[0] * call.operands[1])


@meaning(spyreop.Idx32ToAddr)
def _address(call: Call) -> Array:
    """``base + stride * index``, wrapping; base and stride are operands or attributes."""
    index, *rest = call.operands
    parts = iter(rest)
    terms = []
    for name in ("base", "stride"):
        match call.attributes.get(name):
            case IntegerAttr(value=value):
                terms.append(np.asarray(value, np.int64))
            case _:
                terms.append(next(parts).astype(np.int64))
    return np.asarray(terms[0] + terms[1] * index.astype(np.int64)).astype(np.int32)
