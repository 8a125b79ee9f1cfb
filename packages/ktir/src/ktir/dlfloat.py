"""DLFloat16: 16-bit floats with 1 sign, 6 exponent and 9 fraction bits (KTIR spec 2.2).

There are no subnormals, infinity and NaN share one code, zero is the all-zero code, and rounding is to
nearest with ties away from zero. The exponent bias is 31. A second variant, ``"ieee169"``, reads the same
field widths by the rules of IEEE 754 (subnormals, infinities, NaNs, ties to even).

>>> [hex(int(c)) for c in encode([1.0, -2.0, 0.1])]
['0x3e00', '0xc000', '0x3733']
>>> decode(encode(0.1)).item()
0.0999755859375
"""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST", "NAN", "SMALLEST", "Variant", "decode", "encode", "encode_literals", "round_trip"]

Variant: TypeAlias = Literal["dlfloat", "ieee169"]

NAN = 0x7FFF
"""The code of the merged NaN and infinity (with sign bit 0)."""
LARGEST = 8573157376.0
"""The largest finite value, code 0x7FFE."""
SMALLEST = 2.0**-31 * (1 + 1 / 512)
"""The smallest positive value, code 0x0001."""

_BIAS = 31
_FRACTION_BITS = 9


def encode(values: npt.ArrayLike, variant: Variant = "dlfloat") -> npt.NDArray[np.uint16]:
    """Codes of real numbers, rounded once.

    Args:
        values: anything that NumPy turns into binary64 without loss (float16, float32, float64, bfloat16,
            integers below 2**53).

    Returns:
        uint16 array of the same shape.
    """
    x = np.asarray(values).astype(np.float64)
    sign = np.where(np.signbit(x), np.uint16(0x8000), np.uint16(0))
    magnitude = np.abs(x)
    finite = np.isfinite(magnitude)
    safe = np.where(finite, magnitude, 1.0)
    code = _encode_dlfloat(safe) if variant == "dlfloat" else _encode_ieee(safe)
    if variant == "dlfloat":
        special = np.full(x.shape, NAN, dtype=np.uint16)
    else:
        special = np.where(np.isnan(x), np.uint16(0x7F00), np.uint16(0x7E00))
    return np.asarray(sign | np.where(finite, code, special), dtype=np.uint16)


def encode_literals(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Codes of numbers that a program writes down: as `encode`, but infinities become the largest finite
    numbers of their sign.

    Data that overflow are lost (NaN), but an infinity in a program is meant as the number that no other
    exceeds, where a maximum begins for instance; DLFloat16 has finite ones only.

    >>> [hex(int(c)) for c in encode_literals([0.1, float("inf"), float("-inf"), float("nan")])]
    ['0x3733', '0x7ffe', '0xfffe', '0x7fff']
    """
    x = np.asarray(values).astype(np.float64)
    return encode(np.where(np.isinf(x), np.copysign(LARGEST, x), x))


def _encode_dlfloat(a: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    fraction, exponent = np.frexp(a)  # a = fraction * 2**exponent, fraction in [1/2, 1)
    steps = np.floor(np.ldexp(fraction, _FRACTION_BITS + 1) + 0.5).astype(np.int64)  # [512, 1024]
    biased = exponent.astype(np.int64) - 1 + _BIAS
    # A carry to 1024 moves the exponent up by one and leaves a zero fraction: plain addition does that.
    code = (biased << _FRACTION_BITS) + steps - (1 << _FRACTION_BITS)
    code = np.where(a < SMALLEST, 1, np.minimum(code, NAN))  # includes 2**-31, whose own code means zero
    result: npt.NDArray[np.uint16] = np.where(a < SMALLEST / 2, 0, code).astype(np.uint16)
    return result


def _encode_ieee(a: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    exponent = np.where(a == 0, 1 - _BIAS, np.maximum(np.frexp(a)[1].astype(np.int64) - 1, 1 - _BIAS))
    steps = np.rint(np.ldexp(a, _FRACTION_BITS - exponent)).astype(np.int64)
    code = ((exponent + _BIAS - 1) << _FRACTION_BITS) + steps
    limited: npt.NDArray[np.uint16] = np.minimum(code, 0x7E00).astype(np.uint16)
    return limited


@cache
def _table(variant: Variant) -> npt.NDArray[np.float32]:
    codes = np.arange(1 << 16, dtype=np.int64)
    exponent = (codes >> _FRACTION_BITS) & 0x3F
    fraction = codes & 0x1FF
    values = np.ldexp(1.0 + fraction / 512.0, exponent - _BIAS)
    if variant == "dlfloat":
        values[(codes & 0x7FFF) == 0] = 0.0
        values[(codes & 0x7FFF) == NAN] = np.nan
    else:
        values = np.where(exponent == 0, np.ldexp(fraction / 512.0, 1 - _BIAS), values)
        values = np.where(exponent == 63, np.where(fraction == 0, np.inf, np.nan), values)
    table: npt.NDArray[np.float32] = np.copysign(values, np.where(codes & 0x8000, -1.0, 1.0)).astype(
        np.float32
    )
    table.setflags(write=False)
    return table


def decode(codes: npt.ArrayLike, variant: Variant = "dlfloat") -> npt.NDArray[np.float32]:
    """Values of codes (exact in binary32).

    Args:
        codes: uint16 array of any shape.

    Returns:
        float32 array of the same shape.
    """
    return np.asarray(_table(variant)[np.asarray(codes, dtype=np.uint16)])


def round_trip(values: npt.ArrayLike, variant: Variant = "dlfloat") -> npt.NDArray[np.float32]:
    """The nearest DLFloat16 numbers, as float32."""
    return decode(encode(values, variant), variant)
