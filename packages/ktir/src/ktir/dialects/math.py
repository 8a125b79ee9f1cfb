"""The ``math`` dialect (ktir spec 3.2)."""

from __future__ import annotations

from ktir.constraints import FLOAT_LIKE, INTEGER_LIKE
from ktir.context import Dialect
from ktir.dialects.arith import FastMath
from ktir.ir import Operation
from ktir.opdef import PURE, SAME_TYPE, operand, operation, optional_attribute, result

_UNARY = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
_BINARY = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
_TERNARY = "$a `,` $b `,` $c (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"


class _FloatUnary(Operation):
    """One float, or a tensor or vector of floats."""

    operand = operand(FLOAT_LIKE)
    result = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


class _FloatBinary(Operation):
    """Two floats of one type, or tensors or vectors of them."""

    lhs = operand(FLOAT_LIKE)
    rhs = operand(FLOAT_LIKE)
    result = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


@operation("math.absf", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class AbsF(_FloatUnary):
    """Absolute value."""


@operation("math.acos", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Acos(_FloatUnary):
    """Arc cosine."""


@operation("math.asin", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Asin(_FloatUnary):
    """Arc sine."""


@operation("math.atan", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Atan(_FloatUnary):
    """Arc tangent."""


@operation("math.cbrt", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Cbrt(_FloatUnary):
    """Cube root."""


@operation("math.ceil", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Ceil(_FloatUnary):
    """Rounded up to a whole number."""


@operation("math.cos", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Cos(_FloatUnary):
    """Cosine."""


@operation("math.cosh", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Cosh(_FloatUnary):
    """Hyperbolic cosine."""


@operation("math.erf", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Erf(_FloatUnary):
    """Error function."""


@operation("math.exp", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Exp(_FloatUnary):
    """Natural exponential."""


@operation("math.exp2", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Exp2(_FloatUnary):
    """Power of two."""


@operation("math.expm1", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class ExpM1(_FloatUnary):
    """exp(x) - 1."""


@operation("math.floor", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Floor(_FloatUnary):
    """Rounded down to a whole number."""


@operation("math.log", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Log(_FloatUnary):
    """Natural logarithm."""


@operation("math.log10", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Log10(_FloatUnary):
    """Decimal logarithm."""


@operation("math.log1p", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Log1p(_FloatUnary):
    """log(1 + x)."""


@operation("math.log2", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Log2(_FloatUnary):
    """Binary logarithm."""


@operation("math.round", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Round(_FloatUnary):
    """Rounded to a whole number, halves away from zero."""


@operation("math.roundeven", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class RoundEven(_FloatUnary):
    """Rounded to a whole number, halves to even."""


@operation("math.rsqrt", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Rsqrt(_FloatUnary):
    """1 / sqrt(x)."""


@operation("math.sin", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Sin(_FloatUnary):
    """Sine."""


@operation("math.sinh", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Sinh(_FloatUnary):
    """Hyperbolic sine."""


@operation("math.sqrt", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Sqrt(_FloatUnary):
    """Square root."""


@operation("math.tan", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Tan(_FloatUnary):
    """Tangent."""


@operation("math.tanh", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Tanh(_FloatUnary):
    """Hyperbolic tangent."""


@operation("math.trunc", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Trunc(_FloatUnary):
    """Rounded to zero to a whole number."""


@operation("math.atan2", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class Atan2(_FloatBinary):
    """Angle of the point (rhs, lhs)."""


@operation("math.copysign", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class CopySign(_FloatBinary):
    """Magnitude of lhs with the sign of rhs."""


@operation("math.powf", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class PowF(_FloatBinary):
    """lhs to the power of rhs."""


@operation("math.fma", assembly=_TERNARY, traits=(PURE, SAME_TYPE))
class Fma(Operation):
    """a * b + c with one rounding."""

    a = operand(FLOAT_LIKE)
    b = operand(FLOAT_LIKE)
    c = operand(FLOAT_LIKE)
    result = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


@operation("math.absi", assembly="$operand attr-dict `:` type($result)", traits=(PURE, SAME_TYPE))
class AbsI(Operation):
    """Absolute value of a signed integer (the smallest one stays)."""

    operand = operand(INTEGER_LIKE)
    result = result(INTEGER_LIKE)


DIALECT = Dialect(
    "math",
    (
        AbsF,
        Acos,
        Asin,
        Atan,
        Cbrt,
        Ceil,
        Cos,
        Cosh,
        Erf,
        Exp,
        Exp2,
        ExpM1,
        Floor,
        Log,
        Log10,
        Log1p,
        Log2,
        Round,
        RoundEven,
        Rsqrt,
        Sin,
        Sinh,
        Sqrt,
        Tan,
        Tanh,
        Trunc,
        Atan2,
        CopySign,
        PowF,
        Fma,
        AbsI,
    ),
)
