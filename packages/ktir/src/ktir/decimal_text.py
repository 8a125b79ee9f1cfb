"""Decimal text of a floating-point number, digit for digit as MLIR writes it (ktir spec 0.3.4).

MLIR does not round to nearest even here: it first drops low decimal digits that it takes to be superfluous
and then rounds half up, so that ``0.1 : f16`` (0.0999755859375) reads ``9.997550e-02``.
"""

from __future__ import annotations

from ktir.types import FloatType

PRECISION: dict[str, int] = {
    "f16": 11,
    "bf16": 8,
    "df16": 10,
    "f32": 24,
    "f64": 53,
    "tf32": 11,
    "f8E4M3FN": 4,
    "f8E5M2": 3,
    "f8E4M3": 4,
    "f8E4M3FNUZ": 4,
    "f8E5M2FNUZ": 3,
    "f8E4M3B11FNUZ": 4,
    "f8E3M4": 5,
    "f8E8M0FNU": 1,
}
"""Bits of the significand, the hidden one included."""

SHORT_DIGITS = 6
PLAIN_ZEROS = 3
"""Zeros that may stand in front of the digits before the scientific form is taken."""


def scientific_text(value: float) -> str:
    """At most six significant digits, padded to six decimals: ``1.500000e+00``.  `value` is finite."""
    sign, digits, exponent = _decimal(value, SHORT_DIGITS)
    if not digits:
        return f"{sign}0.000000e+00"
    exponent += len(digits) - 1
    return f"{sign}{digits[0]}.{digits[1:]:0<{SHORT_DIGITS}}e{exponent:+03d}"


def exact_text(value: float, type: FloatType) -> str | None:
    """As many digits as tell the numbers of `type` apart; None where that text would read as an integer."""
    limit = 2 + PRECISION[type.name] * 59 // 196
    sign, digits, exponent = _decimal(value, limit)
    if not digits:
        return None
    leading = exponent + len(digits) - 1
    if exponent >= 0:
        scientific = exponent > PLAIN_ZEROS or len(digits) + exponent > limit
    else:
        scientific = -leading > PLAIN_ZEROS
    if scientific:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{leading:+d}"
    if exponent >= 0:
        return None
    if leading >= 0:
        return f"{sign}{digits[: leading + 1]}.{digits[leading + 1 :]}"
    return f"{sign}0.{'0' * (-leading - 1)}{digits}"


def _decimal(value: float, limit: int) -> tuple[str, str, int]:
    """Sign, at most `limit` digits without trailing zeros, and the power of ten of the last one."""
    numerator, denominator = abs(value).as_integer_ratio()
    sign = "-" if str(value).startswith("-") else ""
    if numerator == 0:
        return sign, "", 0
    exponent = 1 - denominator.bit_length()  # minus the power of two, which becomes one of ten
    significand = numerator * 5**-exponent
    needed = (limit * 196 + 58) // 59  # bits of so many decimal digits, slightly too many
    surplus = max(significand.bit_length() - needed, 0) * 59 // 196
    exponent += surplus
    digits = str(significand // 10**surplus)
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    if len(stripped) > limit:
        dropped = len(stripped) - limit
        kept = int(stripped[:limit]) + (stripped[limit] >= "5")
        exponent += dropped
        stripped = str(kept).rstrip("0")
        exponent += len(str(kept)) - len(stripped)
    return sign, stripped, exponent
