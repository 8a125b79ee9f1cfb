"""DLFloat16 over all 65,536 codes and against an exact rational reference (KTIR spec 2.2, checklist 97)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktir import dlfloat
from ktir.dlfloat import LARGEST, NAN, SMALLEST, decode, encode

CODES = np.arange(1 << 16, dtype=np.uint16)


def exact(code: int) -> Fraction:
    """The value of a code that is no NaN, by the definition."""
    sign = -1 if code & 0x8000 else 1
    if code & 0x7FFF == 0:
        return Fraction(0)
    return sign * Fraction(2) ** ((code >> 9 & 63) - 31) * (1 + Fraction(code & 511, 512))


def test_decode_all_codes() -> None:
    values = decode(CODES)
    for code, value in enumerate(values.tolist()):
        if code & 0x7FFF == NAN:
            assert math.isnan(value)
        else:
            assert Fraction(value) == exact(code)
            assert (math.copysign(1.0, value) < 0) == bool(code & 0x8000)


def test_encode_inverts_decode_on_all_codes() -> None:
    """Checklist 97: the identity, NaN codes included since there is one a sign."""
    assert (encode(decode(CODES)) == CODES).all()
    assert (encode(decode(CODES).astype(np.float64)) == CODES).all()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1.0, 0x3E00), (-2.0, 0xC000), (0.5, 0x3C00), (1.5, 0x3F00), (3.0, 0x4100), (0.1, 0x3733),
        (-1 / 3, 0xBAAB), (1 + 1 / 512, 0x3E01), (1 + 1 / 1024, 0x3E01), (65504.0, 0x5E00),
        (8573157376.0, 0x7FFE), (1e10, 0x7FFF), (2.0**-31, 0x0001), (1e-10, 0x0000), (0.0, 0x0000),
        (-0.0, 0x8000),
        (math.inf, 0x7FFF), (-math.inf, 0xFFFF), (SMALLEST / 2, 0x0001), (-SMALLEST / 2, 0x8001),
        (np.nextafter(SMALLEST / 2, 0), 0x0000), (LARGEST, 0x7FFE),
    ],
)  # fmt: skip
def test_vectors(value: float, code: int) -> None:
    assert int(encode(value)) == code


def test_nan_keeps_its_sign() -> None:
    assert int(encode(np.nan)) == 0x7FFF
    assert int(encode(np.copysign(np.nan, -1.0))) == 0xFFFF


def reference(x: float) -> int:
    """Encoding by exact rational arithmetic: nearest value, ties away from zero."""
    sign = 0x8000 if math.copysign(1.0, x) < 0 else 0
    if not math.isfinite(x):
        return sign | NAN
    a = abs(Fraction(x))
    if a < exact(1) / 2:
        return sign
    low, high = 0, NAN - 1  # positive codes are ordered by value
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if exact(middle) <= a else (low, middle - 1)
    if low == 0:
        return sign | 1
    step_up = (
        exact(low + 1) if low + 1 < NAN else Fraction(2) ** 33 * Fraction(1023, 1024)
    )  # value of code NAN
    return sign | (low + 1 if 2 * a >= exact(low) + step_up else low)


@given(st.floats(width=64))
def test_encode_is_correctly_rounded(x: float) -> None:
    assert int(encode(x)) == reference(x)


def test_encode_between_all_neighbours() -> None:
    """Midpoints go away from zero, their neighbours to the nearer side, for every pair of adjacent codes."""
    positive = decode(CODES[1:NAN]).astype(np.float64)
    middle = (positive[:-1] + positive[1:]) / 2
    assert (encode(middle) == CODES[2:NAN]).all()
    assert (encode(np.nextafter(middle, 0)) == CODES[1 : NAN - 1]).all()
    assert (encode(-middle) == (CODES[2:NAN] | 0x8000)).all()


def test_all_halfs() -> None:
    """Every IEEE half against a search in the table of exact values."""
    half = CODES.view(np.float16).astype(np.float64)
    codes = np.arange(NAN)
    table = np.where(codes == 0, 0.0, np.ldexp(1 + (codes & 511) / 512, (codes >> 9) - 31))
    finite = np.isfinite(half)
    a = np.abs(half[finite])
    above = np.searchsorted(table, a)
    below = np.maximum(above - 1, 0)
    nearest = np.where(2 * a >= table[below] + table[above], above, below)
    assert ((encode(half[finite]) & 0x7FFF) == nearest).all()
    assert ((encode(half[~finite]) & 0x7FFF) == NAN).all()
    assert ((encode(half) >> 15) == np.signbit(half)).all()


def test_ieee_variant() -> None:
    """The alternative reading of the same fields: spec 2.2, last column."""
    values = decode(CODES, "ieee169")
    finite = np.isfinite(values)
    assert (encode(values[finite], "ieee169") == CODES[finite]).all()
    assert [int(encode(v, "ieee169")) for v in (2.0**-39, 4290772992.0, math.inf, 1 + 1 / 1024)] == [
        0x0001, 0x7DFF, 0x7E00, 0x3E00,
    ]  # fmt: skip
    assert int(encode(4294967296.0, "ieee169")) == 0x7E00
    assert np.isnan(decode(encode(math.nan, "ieee169"), "ieee169"))
    assert float(decode(0x0001, "ieee169")) == 2.0**-39
    assert float(decode(0x0200, "ieee169")) == 2.0**-30


def test_literals() -> None:
    """Numbers that a program writes down are rounded once; infinities are the largest finite numbers."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = np.isfinite(halves)
    assert (dlfloat.encode_literals(halves[finite]) == encode(halves[finite])).all()
    assert decode(dlfloat.encode_literals([math.inf, -math.inf])).tolist() == [LARGEST, -LARGEST]
    assert (dlfloat.encode_literals(halves[np.isnan(halves)]) & 0x7FFF == NAN).all()


def test_shapes_and_dtypes() -> None:
    x = np.ones((2, 3), dtype=np.float32)
    assert encode(x).shape == (2, 3)
    assert encode(x).dtype == np.uint16
    assert decode(encode(x)).dtype == np.float32
    assert dlfloat.round_trip([0.1]).tolist() == [0.0999755859375]
    assert encode(np.array([], dtype=np.float16)).shape == (0,)
