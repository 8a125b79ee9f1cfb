"""Operators and attributes beside array-api-strict."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from array_api_cases.calls import Case, _nonzero, _shift_count, _small_exponent, infinite_dividend
from array_api_cases.comparison import converted, same
from array_api_cases.drawing import ALL, FLOATS, INTS, KINDS, NUMERIC, Call, array, partner
from hypothesis import given
from hypothesis import strategies as st

from rangeify import array_api as xp

OPERATORS: dict[str, tuple[Any, Any, list[str], Any, float]] = {
    "+": (operator.add, operator.iadd, NUMERIC, None, 0),
    "-": (operator.sub, operator.isub, NUMERIC, None, 0),
    "*": (operator.mul, operator.imul, NUMERIC, None, 0),
    "/": (operator.truediv, operator.itruediv, FLOATS, None, 0),
    "//": (operator.floordiv, operator.ifloordiv, NUMERIC, _nonzero, 1e-6),
    "%": (operator.mod, operator.imod, NUMERIC, _nonzero, 1e-5),
    "**": (operator.pow, operator.ipow, NUMERIC, _small_exponent, 1e-5),
    "&": (operator.and_, operator.iand, ["bool", *INTS], None, 0),
    "|": (operator.or_, operator.ior, ["bool", *INTS], None, 0),
    "^": (operator.xor, operator.ixor, ["bool", *INTS], None, 0),
    "<<": (operator.lshift, operator.ilshift, INTS, _shift_count, 0),
    ">>": (operator.rshift, operator.irshift, INTS, _shift_count, 0),
    "<": (operator.lt, None, NUMERIC, None, 0),
    "<=": (operator.le, None, NUMERIC, None, 0),
    ">": (operator.gt, None, NUMERIC, None, 0),
    ">=": (operator.ge, None, NUMERIC, None, 0),
    "==": (operator.eq, None, ALL, None, 0),
    "!=": (operator.ne, None, ALL, None, 0),
}


def attempt(function: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as e:  # noqa: BLE001
            return e


@pytest.mark.parametrize("symbol", OPERATORS)
@given(data=st.data())
@pytest.mark.sweep(default=12, full=400)
def test_operators(symbol: str, data: st.DataObject) -> None:
    plain, inplace, dtypes, fix, relative = OPERATORS[symbol]
    small = symbol in ("//", "%")
    x = array(data.draw, dtypes, small=small)
    y = partner(data.draw, x, KINDS, small)
    if fix is not None:
        y = fix(y)
    standard = {"standard": infinite_dividend} if symbol == "//" else {}
    case = Case(lambda draw: ([], {}), relative=relative, **standard)
    pairs = [(x, y)] if fix is not None else [(x, y), (y, x)]
    for a, b in pairs:
        call: Call = ([a, b], {})
        ours, theirs = (
            attempt(lambda n=n, a=a, b=b: plain(converted(n, a), converted(n, b))) for n in (xp, strict)
        )
        same(ours, theirs, case, call, f"{a!r} {symbol} {b!r}")
    if inplace is not None:
        call = ([x, y], {})
        target, old = xp.asarray(x), xp.asarray(x)
        ours = attempt(lambda: inplace(target, converted(xp, y)))
        theirs = attempt(lambda: inplace(strict.asarray(x.copy()), converted(strict, y)))
        same(ours, theirs, case, call, f"{x!r} {symbol}= {y!r}")
        if not isinstance(ours, Exception):
            assert ours is target
        assert np.array_equal(np.asarray(old), x, equal_nan=x.dtype.kind == "f")


@pytest.mark.parametrize("symbol", OPERATORS)
def test_dtypes_of_different_kinds_do_not_mix(symbol: str) -> None:
    """reading 35: a TypeError for every mix that the standard leaves undefined"""
    plain = OPERATORS[symbol][0]
    kinds = {"bool": True, "int8": 1, "uint64": 1, "int64": 2, "float32": 1.5}
    for a in kinds:
        for b, number in kinds.items():
            for other in (
                lambda n, b=b: n.asarray([1], dtype=getattr(n, b)),
                lambda n, number=number: number,
            ):
                ours, theirs = (
                    attempt(
                        lambda n=n, a=a, other=other: plain(n.asarray([1], dtype=getattr(n, a)), other(n))
                    )
                    for n in (xp, strict)
                )
                assert isinstance(ours, TypeError) == isinstance(theirs, TypeError), (
                    a,
                    symbol,
                    b,
                    number,
                    ours,
                    theirs,
                )


@given(data=st.data())
@pytest.mark.sweep(default=30, full=600)
def test_unary_operators_and_attributes(data: st.DataObject) -> None:
    x = array(data.draw, ALL)
    case, call = Case(lambda draw: ([], {})), ([x], {})
    a, b = xp.asarray(x), strict.asarray(x)
    for op in (operator.neg, operator.pos, operator.invert, operator.abs):
        same(attempt(lambda op=op: op(a)), attempt(lambda op=op: op(b)), case, call, op.__name__)
    assert (a.shape, a.ndim, a.size) == (b.shape, b.ndim, b.size)
    for name in ("T", "mT"):
        same(
            attempt(lambda name=name: getattr(a, name)),
            attempt(lambda name=name: getattr(b, name)),
            case,
            call,
            name,
        )
    for kind in (bool, int, float, complex, operator.index):
        mine, other = attempt(lambda kind=kind: kind(a)), attempt(lambda kind=kind: kind(b))
        if isinstance(other, Exception):
            assert isinstance(mine, Exception), (kind, mine)
        else:
            assert mine == other or (mine != mine and other != other), kind


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_remainders_of_floats_are_exact(kind: Any) -> None:
    """Over all exponents, where quotients have up to 2098 bits; with signs, zeros and infinities as in NumPy."""
    words = {np.float32: np.uint32, np.float64: np.uint64}[kind]
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, np.iinfo(words).max, (2, 400), words, endpoint=True).view(kind)
    limits = np.finfo(kind)
    special = np.array(
        [0, -0.0, 1, -3, 0.1, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal],
        kind,
    )
    a = np.concatenate([a, np.repeat(special, len(special))])
    b = np.concatenate([b, np.tile(special, len(special))])
    rest = np.asarray(xp.remainder(xp.asarray(a), xp.asarray(b)))
    quotient = np.asarray(xp.floor_divide(xp.asarray(a), xp.asarray(b)))
    with np.errstate(all="ignore"):
        expected = np.remainder(a, b)
    np.testing.assert_array_equal(rest, expected)
    known = ~np.isnan(rest)
    np.testing.assert_array_equal(np.signbit(rest[known]), np.signbit(expected[known]))
    checked = 0
    for x, y, r, q in zip(a, b, rest, quotient, strict=True):
        if np.isfinite(x) and np.isfinite(y) and y:
            exact = Fraction(float(x)) // Fraction(float(y))
            distance = Fraction(float(x)) - exact * Fraction(float(y)) - Fraction(float(r))
            assert abs(distance) <= Fraction(float(abs(r) - np.nextafter(abs(r), kind(0))))
            if abs(exact) < 2**limits.nmant:
                assert q == exact
                checked += 1
    assert checked > 100
