"""Special values by the rules of the standard (those of IEEE 754 and C): signs of zeros, infinities, nan."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rangeify import array_api as xp

SPECIAL = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    2.5,
    -0.25,
    7e18,
    -1e-30,
]
PAIRS = list(itertools.product(SPECIAL, repeat=2))

UNARY: dict[str, Any] = {
    **{
        f: getattr(np, f)
        for f in ("abs", "ceil", "cos", "cosh", "exp", "expm1", "floor", "isfinite", "isinf", "isnan")
    },
    **{
        f: getattr(np, f)
        for f in ("log", "log10", "log1p", "log2", "negative", "positive", "reciprocal", "round")
    },
    **{f: getattr(np, f) for f in ("signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc")},
    **{f: getattr(np, f"arc{f[1:]}") for f in ("acos", "acosh", "asin", "asinh", "atan", "atanh")},
    "sign": lambda x: np.where(x == 0, 0, np.sign(x)),
}


def quotient(a: float, b: float) -> float:
    """x1 // x2 as the standard has it; where NumPy gives nan for an infinite dividend, it does not."""
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or a == b == 0:
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if math.isinf(b):
        return -1.0 if sign < 0 and a else sign * 0.0
    return math.copysign(float(math.floor(a / b)), sign) if a / b else sign * 0.0


def rest(a: float, b: float) -> float:
    """x1 % x2: the sign of x2, also that of a zero."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b):
        return math.copysign(0.0, b) if a == 0 else a if (a < 0) == (b < 0) else b
    return math.copysign(a % b, b)


BINARY: dict[str, Any] = {
    **{
        f: getattr(np, f) for f in ("add", "subtract", "multiply", "divide", "copysign", "hypot", "nextafter")
    },
    **{f: getattr(np, f) for f in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    "atan2": np.arctan2,
    "logaddexp": np.logaddexp,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "floor_divide": np.vectorize(quotient),
    "remainder": np.vectorize(rest),
}
OPERATORS: dict[str, list[Callable[[Any, Any], Any]]] = {
    "add": [operator.add, operator.iadd],
    "subtract": [operator.sub, operator.isub],
    "multiply": [operator.mul, operator.imul],
    "divide": [operator.truediv, operator.itruediv],
    "floor_divide": [operator.floordiv, operator.ifloordiv],
    "remainder": [operator.mod, operator.imod],
    "pow": [operator.pow, operator.ipow],
}
#: Of two zeros with different signs either is right.
EITHER_ZERO = ("maximum", "minimum")


def same(got: Any, want: Any, name: str, zeros: bool = True) -> None:
    """Special results are the same, signs included; others are close (what is known of values is tested
    elsewhere)."""
    assert got.shape == want.shape
    if got.dtype.kind == "b":
        assert np.array_equal(got, want), name
        return
    special = ~np.isfinite(want) | (want == 0)
    with np.errstate(all="ignore"):
        assert np.array_equal(got[special], want[special], equal_nan=True), (name, got, want)
        assert np.allclose(got, want, rtol=1e-5, atol=0, equal_nan=True), (name, got, want)
    signed = ~np.isnan(want) if zeros else (want != 0) & ~np.isnan(want)
    assert np.array_equal(np.signbit(got[signed]), np.signbit(want[signed])), (name, got, want)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_special_values_of_one_operand(kind: Any) -> None:
    x = np.array(SPECIAL, dtype=kind)
    for name, expected in UNARY.items():
        with np.errstate(all="ignore"):
            want = np.asarray(expected(x))
        same(
            np.asarray(getattr(xp, name)(xp.asarray(x))),
            want.astype(want.dtype if want.dtype == bool else kind),
            name,
        )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_two_operands(name: str, kind: Any) -> None:
    """As a function, an operator, and in place; with a number on either side for some."""
    a, b = (np.array(v, dtype=kind) for v in zip(*PAIRS, strict=True))
    with np.errstate(all="ignore"):
        want = np.asarray(BINARY[name](a, b))
        want = want if want.dtype == bool else want.astype(kind)
    for function in [getattr(xp, name), *OPERATORS.get(name, [])]:
        same(np.asarray(function(xp.asarray(a), xp.asarray(b))), want, name, name not in EITHER_ZERO)
    for value in (math.nan, -0.0, -math.inf, 2.0):
        signed = (a == value) & (np.signbit(a) == np.signbit(value))
        here = np.isnan(a) if math.isnan(value) else signed
        number_first = np.asarray(getattr(xp, name)(value, xp.asarray(b[here])))
        same(number_first, want[here], name, name not in EITHER_ZERO)


@pytest.mark.parametrize("kind", [xp.float32, xp.float64])
def test_special_values_of_statistics(kind: Any) -> None:
    nothing = xp.zeros((0,), dtype=kind)
    one = xp.ones((1,), dtype=kind)
    for x in (xp.mean(nothing), xp.std(one, correction=1), xp.var(one, correction=2.5), xp.var(nothing)):
        assert math.isnan(float(x))
    assert [float(x) for x in (xp.sum(nothing), xp.prod(nothing))] == [0, 1]
    assert [bool(x) for x in (xp.all(nothing), xp.any(nothing), xp.all(nothing == 1))] == [True, False, True]
    assert np.asarray(xp.all(xp.zeros((2, 0)), axis=1)).tolist() == [True, True]
    for values in ([1.0, math.nan, math.inf], [math.inf, 1.0, math.nan]):
        x = xp.asarray(values, dtype=kind)
        for f in (xp.max, xp.min, xp.sum, xp.prod, xp.mean, xp.std, xp.var):
            assert math.isnan(float(f(x))), f
        assert bool(xp.all(x))
        assert bool(xp.any(xp.asarray([math.nan], dtype=kind)))
    assert float(xp.max(xp.asarray([-math.inf, -1.0], dtype=kind))) == -1
    assert float(xp.sum(xp.asarray([math.inf, 1.0], dtype=kind))) == math.inf
    assert math.isnan(float(xp.sum(xp.asarray([math.inf, -math.inf], dtype=kind))))
