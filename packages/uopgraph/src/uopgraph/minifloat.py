"""The four 8-bit float formats: decode a code, encode a value.

Encoding rounds to nearest, ties to the even code, with denormals. A finite value beyond the greatest one
saturates; e5m2 keeps infinities, the others turn what is not finite into nan.
"""

from __future__ import annotations

import bisect
import functools
import math
from typing import Final

import attrs


@attrs.frozen
class Format:
    """A sign bit, `exponent` bits, `mantissa` bits. ``fnuz`` formats have one nan (0x80) and no -0."""

    name: str
    exponent: int
    mantissa: int
    bias: int
    infinities: bool
    fnuz: bool


FORMATS: Final[dict[str, Format]] = {
    f.name: f
    for f in (
        Format("fp8e4m3", 4, 3, 7, infinities=False, fnuz=False),
        Format("fp8e5m2", 5, 2, 15, infinities=True, fnuz=False),
        Format("fp8e4m3fnuz", 4, 3, 8, infinities=False, fnuz=True),
        Format("fp8e5m2fnuz", 5, 2, 16, infinities=False, fnuz=True),
    )
}


def decode(code: int, form: Format) -> float:
    """The value of the 8-bit `code`."""
    if form.fnuz and code == 0x80:
        return math.nan
    sign = -1.0 if code & 0x80 else 1.0
    magnitude = code & 0x7F
    exponent, mantissa = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    if form.infinities and exponent == (1 << form.exponent) - 1:
        return sign * math.inf if mantissa == 0 else math.nan
    if not form.infinities and not form.fnuz and magnitude == 0x7F:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - form.bias - form.mantissa)
    return sign * math.ldexp((1 << form.mantissa) + mantissa, exponent - form.bias - form.mantissa)


@functools.cache
def _magnitudes(form: Format) -> tuple[float, ...]:
    values = (decode(code, form) for code in range(0x80))
    return tuple(v for v in values if math.isfinite(v))


def encode(x: float, form: Format) -> int:
    """The code of the value nearest to `x`."""
    sign = 0x80 if math.copysign(1.0, x) < 0 else 0
    if math.isnan(x):
        return 0x80 if form.fnuz else sign | 0x7F
    values = _magnitudes(form)
    if math.isinf(x):
        if form.infinities:
            return sign | 0x7C
        return 0x80 if form.fnuz else sign | 0x7F
    a = abs(x)
    high = bisect.bisect_left(values, a)
    if high == len(values):
        code = high - 1
    elif values[high] == a:
        code = high
    else:
        low_gap, high_gap = a - values[high - 1], values[high] - a
        code = high - 1 if low_gap < high_gap or (low_gap == high_gap and high % 2 == 1) else high
    return code if form.fnuz and code == 0 else sign | code
