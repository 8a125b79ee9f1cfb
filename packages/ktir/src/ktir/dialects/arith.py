"""The ``arith`` dialect (ktir spec 3.2)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from ktir.attribute import Attribute
from ktir.attributes import (
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    wrap_integer,
)
from ktir.constraints import ANY, FLOAT_LIKE, I1_LIKE, INTEGER_LIKE, cases
from ktir.context import Dialect
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation, Value
from ktir.opdef import (
    COMMUTATIVE,
    CONSTANT_LIKE,
    PURE,
    SAME_TYPE,
    attribute,
    operand,
    operation,
    optional_attribute,
    result,
)
from ktir.types import (
    I1,
    I64,
    FloatType,
    IndexType,
    IntegerType,
    ShapedType,
    Signedness,
    TensorType,
    Type,
    VectorType,
    bit_width,
    element_or_self,
)

if TYPE_CHECKING:
    from ktir.parser import AttributeParser, OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier

FASTMATH_FLAGS = ("none", "reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast")
OVERFLOW_FLAGS = ("none", "nsw", "nuw")


def _flags(parser: AttributeParser, allowed: tuple[str, ...]) -> tuple[str, ...]:
    def one() -> str:
        if not parser.at(*allowed):
            parser.cursor.expected(f"one of: {', '.join(allowed)}")
        return parser.keyword()

    found = set(parser.parse_comma_list("<", ">", one))
    return tuple(flag for flag in allowed if flag in found and flag != "none")


@attrs.frozen
class FastMath(Attribute):
    """``#arith.fastmath<contract,nnan>``; no flags is ``none``."""

    mnemonic = "arith.fastmath"
    flags: tuple[str, ...] = ()

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(_flags(parser, FASTMATH_FLAGS))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{','.join(self.flags) or 'none'}>")


@attrs.frozen
class Overflow(Attribute):
    """``#arith.overflow<nsw>``; no flags is ``none``."""

    mnemonic = "arith.overflow"
    flags: tuple[str, ...] = ()

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(_flags(parser, OVERFLOW_FLAGS))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{', '.join(self.flags) or 'none'}>")


class CmpIPredicate(enum.IntEnum):
    """Integer comparisons; the value is that of the ``predicate`` attribute."""

    EQ = 0
    NE = 1
    SLT = 2
    SLE = 3
    SGT = 4
    SGE = 5
    ULT = 6
    ULE = 7
    UGT = 8
    UGE = 9


class CmpFPredicate(enum.IntEnum):
    """Float comparisons; the value is that of the ``predicate`` attribute."""

    FALSE = 0
    OEQ = 1
    OGT = 2
    OGE = 3
    OLT = 4
    OLE = 5
    ONE = 6
    ORD = 7
    UEQ = 8
    UGT = 9
    UGE = 10
    ULT = 11
    ULE = 12
    UNE = 13
    UNO = 14
    TRUE = 15


def _constant(value: Attribute | None) -> tuple[int, Type] | None:
    return (value.value, value.type) if isinstance(value, IntegerAttr) else None


def unsigned(value: int, type: Type) -> int:
    """The bits of a canonical integer value as an unsigned number."""
    width = type.width if isinstance(type, IntegerType) else 64
    return value & ((1 << width) - 1)


def signed(value: int, type: Type) -> int:
    """The bits of a canonical integer value as a signed number (i1: 0 or -1)."""
    width = type.width if isinstance(type, IntegerType) else 64
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


_BINARY = "$lhs `,` $rhs attr-dict `:` type($result)"
_OVERFLOW = "$lhs `,` $rhs (`overflow` `` $overflowFlags^)? attr-dict `:` type($result)"
_FLOAT_BINARY = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
_FLOAT_UNARY = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
_CAST = "$source attr-dict `:` type($source) `to` type($out)"
_FLOAT_CAST = "$source (`fastmath` `` $fastmath^)? attr-dict `:` type($source) `to` type($out)"


class _IntegerBinary(Operation):
    """Two integers or index values of one type, or tensors or vectors of them."""

    lhs = operand(INTEGER_LIKE)
    rhs = operand(INTEGER_LIKE)
    result = result(INTEGER_LIKE)

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        """The (not yet wrapped) value for two constants; None where it is undefined."""
        return None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        """Folding when one side is a known number."""
        return None

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        left, right = (_constant(value) for value in operands)
        if left is not None and right is not None:
            value = self.evaluate(left[0], right[0], left[1])
            return None if value is None else (IntegerAttr(wrap_integer(value, left[1]), left[1]),)
        return self.identity(left and left[0], right and right[0])


class _OverflowBinary(_IntegerBinary):
    overflow_flags = optional_attribute(Overflow, name="overflowFlags", default=Overflow())


class _FloatBinary(Operation):
    """Two floats of one type, or tensors or vectors of them; one rounding (nearest even)."""

    lhs = operand(FLOAT_LIKE)
    rhs = operand(FLOAT_LIKE)
    result = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


def _width(scalar: Type) -> int | None:
    """Bits of a float or integer; None for index and everything else, whose width is not the program's."""
    return (
        None
        if isinstance(scalar, IndexType) or not isinstance(scalar, FloatType | IntegerType)
        else bit_width(scalar)
    )


@attrs.frozen
class _CastRule:
    """Which scalar types an operation casts between, and the words for it; `index` has no width."""

    fits: Callable[[Type, Type], bool]
    text: str


def _by_width(compare: Callable[[int, int], bool], text: str) -> _CastRule:
    def fits(source: Type, target: Type) -> bool:
        have, want = _width(source), _width(target)
        return have is not None and want is not None and compare(have, want)

    return _CastRule(fits, text)


_ANY_WIDTHS = _by_width(lambda a, b: True, "both have a fixed width: cast index to an integer first")
_WIDER = _by_width(lambda a, b: a < b, "the result is wider than the operand")
_NARROWER = _by_width(lambda a, b: a > b, "the result is narrower than the operand")
_EQUALLY_WIDE = _by_width(lambda a, b: a == b, "both are equally wide, and not index")
_TO_OR_FROM_INDEX = _CastRule(
    lambda a, b: isinstance(a, IndexType) != isinstance(b, IndexType),
    "one of the two is index, the other an integer",
)


class _Cast(Operation):
    """One value from one type to another, element by element."""

    source = operand()
    out = result()

    rule: ClassVar[_CastRule] = _ANY_WIDTHS

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        source, target = self.source.type, self.out.type
        shaped = isinstance(source, ShapedType), isinstance(target, ShapedType)
        message = f"operand type '{source}' and result type '{target}' are cast incompatible"
        if shaped[0] != shaped[1] or getattr(source, "shape", None) != getattr(target, "shape", None):
            yield finding(message, "a cast keeps the shape")
        elif not self.rule.fits(element_or_self(source), element_or_self(target)):
            yield finding(message, self.rule.text)


def _divides(lhs: int, rhs: int, type: Type) -> bool:
    """Whether the quotient of two signed numbers is defined: no zero, no least number by -1."""
    width = type.width if isinstance(type, IntegerType) else 64
    return rhs != 0 and not (rhs == -1 and lhs == -(1 << (width - 1)))


def _truncated(lhs: int, rhs: int, type: Type) -> int | None:
    if not _divides(lhs, rhs, type):
        return None
    quotient = abs(lhs) // abs(rhs)
    return quotient if (lhs < 0) == (rhs < 0) else -quotient


@operation("arith.addi", assembly=_OVERFLOW, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class AddI(_OverflowBinary):
    """Sum modulo 2**width."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return lhs + rhs

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else (self.rhs,) if lhs == 0 else None


@operation("arith.subi", assembly=_OVERFLOW, traits=(PURE, SAME_TYPE))
class SubI(_OverflowBinary):
    """Difference modulo 2**width."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return lhs - rhs

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else None


@operation("arith.muli", assembly=_OVERFLOW, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MulI(_OverflowBinary):
    """Product modulo 2**width."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return lhs * rhs

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        if rhs == 1:
            return (self.lhs,)
        if lhs == 1:
            return (self.rhs,)
        if (lhs == 0 or rhs == 0) and not isinstance(self.result.type, ShapedType):
            return (IntegerAttr(0, self.result.type),)
        return None


@operation("arith.shli", assembly=_OVERFLOW, traits=(PURE, SAME_TYPE))
class ShLI(_OverflowBinary):
    """Shift left; undefined at the width and above."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        width = type.width if isinstance(type, IntegerType) else 64
        return lhs << rhs if 0 <= rhs < width else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else None


@operation("arith.divui", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class DivUI(_IntegerBinary):
    """Quotient of unsigned numbers."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        divisor = unsigned(rhs, type)
        return unsigned(lhs, type) // divisor if divisor else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 1 else None


@operation("arith.divsi", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class DivSI(_IntegerBinary):
    """Quotient of signed numbers, rounded to zero."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return _truncated(signed(lhs, type), signed(rhs, type), type)

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 1 else None


@operation("arith.remui", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class RemUI(_IntegerBinary):
    """Remainder of unsigned numbers."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        divisor = unsigned(rhs, type)
        return unsigned(lhs, type) % divisor if divisor else None


@operation("arith.remsi", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class RemSI(_IntegerBinary):
    """Remainder of signed numbers, with the sign of the dividend."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        quotient = _truncated(signed(lhs, type), signed(rhs, type), type)
        return None if quotient is None else signed(lhs, type) - quotient * signed(rhs, type)


@operation("arith.ceildivui", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class CeilDivUI(_IntegerBinary):
    """Quotient of unsigned numbers, rounded up."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        divisor = unsigned(rhs, type)
        return -(-unsigned(lhs, type) // divisor) if divisor else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 1 else None


@operation("arith.ceildivsi", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class CeilDivSI(_IntegerBinary):
    """Quotient of signed numbers, rounded up."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        dividend, divisor = signed(lhs, type), signed(rhs, type)
        return -(-dividend // divisor) if _divides(dividend, divisor, type) else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 1 else None


@operation("arith.floordivsi", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class FloorDivSI(_IntegerBinary):
    """Quotient of signed numbers, rounded down."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        dividend, divisor = signed(lhs, type), signed(rhs, type)
        return dividend // divisor if _divides(dividend, divisor, type) else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 1 else None


@operation("arith.andi", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class AndI(_IntegerBinary):
    """Bitwise and."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return lhs & rhs


@operation("arith.ori", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class OrI(_IntegerBinary):
    """Bitwise or."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return lhs | rhs

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else (self.rhs,) if lhs == 0 else None


@operation("arith.xori", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class XOrI(_IntegerBinary):
    """Bitwise exclusive or."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return lhs ^ rhs

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else (self.rhs,) if lhs == 0 else None


@operation("arith.shrui", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class ShRUI(_IntegerBinary):
    """Logical shift right."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        width = type.width if isinstance(type, IntegerType) else 64
        return unsigned(lhs, type) >> rhs if 0 <= rhs < width else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else None


@operation("arith.shrsi", assembly=_BINARY, traits=(PURE, SAME_TYPE))
class ShRSI(_IntegerBinary):
    """Arithmetic shift right."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        width = type.width if isinstance(type, IntegerType) else 64
        return signed(lhs, type) >> rhs if 0 <= rhs < width else None

    def identity(self, lhs: int | None, rhs: int | None) -> Sequence[Attribute | Value] | None:
        return (self.lhs,) if rhs == 0 else None


@operation("arith.maxsi", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MaxSI(_IntegerBinary):
    """Larger of two signed numbers."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return max(signed(lhs, type), signed(rhs, type))


@operation("arith.maxui", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MaxUI(_IntegerBinary):
    """Larger of two unsigned numbers."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return max(unsigned(lhs, type), unsigned(rhs, type))


@operation("arith.minsi", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MinSI(_IntegerBinary):
    """Smaller of two signed numbers."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return min(signed(lhs, type), signed(rhs, type))


@operation("arith.minui", assembly=_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MinUI(_IntegerBinary):
    """Smaller of two unsigned numbers."""

    def evaluate(self, lhs: int, rhs: int, type: Type) -> int | None:
        return min(unsigned(lhs, type), unsigned(rhs, type))


@operation("arith.addf", assembly=_FLOAT_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class AddF(_FloatBinary):
    """Sum."""


@operation("arith.subf", assembly=_FLOAT_BINARY, traits=(PURE, SAME_TYPE))
class SubF(_FloatBinary):
    """Difference."""


@operation("arith.mulf", assembly=_FLOAT_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MulF(_FloatBinary):
    """Product."""


@operation("arith.divf", assembly=_FLOAT_BINARY, traits=(PURE, SAME_TYPE))
class DivF(_FloatBinary):
    """Quotient."""


@operation("arith.remf", assembly=_FLOAT_BINARY, traits=(PURE, SAME_TYPE))
class RemF(_FloatBinary):
    """Remainder with the sign of the dividend (C's fmod)."""


@operation("arith.maximumf", assembly=_FLOAT_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MaximumF(_FloatBinary):
    """Larger number; NaN if either is NaN; -0 < +0."""


@operation("arith.minimumf", assembly=_FLOAT_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MinimumF(_FloatBinary):
    """Smaller number; NaN if either is NaN; -0 < +0."""


@operation("arith.maxnumf", assembly=_FLOAT_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MaxNumF(_FloatBinary):
    """Larger number; a NaN loses against a number."""


@operation("arith.minnumf", assembly=_FLOAT_BINARY, traits=(PURE, COMMUTATIVE, SAME_TYPE))
class MinNumF(_FloatBinary):
    """Smaller number; a NaN loses against a number."""


@operation("arith.negf", assembly=_FLOAT_UNARY, traits=(PURE, SAME_TYPE))
class NegF(Operation):
    """The number with its sign flipped."""

    operand = operand(FLOAT_LIKE)
    result = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


@operation("arith.extf", assembly=_FLOAT_CAST, traits=(PURE,))
class ExtF(_Cast):
    """To a wider float; exact."""

    rule = _WIDER

    source = operand(FLOAT_LIKE)
    out = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


@operation("arith.truncf", assembly=_FLOAT_CAST, traits=(PURE,))
class TruncF(_Cast):
    """To a narrower float; nearest even."""

    rule = _NARROWER

    source = operand(FLOAT_LIKE)
    out = result(FLOAT_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())


@operation("arith.extsi", assembly=_CAST, traits=(PURE,))
class ExtSI(_Cast):
    """To a wider integer, sign-extended."""

    rule = _WIDER

    source = operand(INTEGER_LIKE)
    out = result(INTEGER_LIKE)

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return _fold_integer_cast(self.out.type, operands[0], signed)


@operation("arith.extui", assembly=_CAST, traits=(PURE,))
class ExtUI(_Cast):
    """To a wider integer, zero-extended."""

    rule = _WIDER

    source = operand(INTEGER_LIKE)
    out = result(INTEGER_LIKE)

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return _fold_integer_cast(self.out.type, operands[0], unsigned)


@operation("arith.trunci", assembly=_CAST, traits=(PURE,))
class TruncI(_Cast):
    """To a narrower integer, dropping high bits."""

    rule = _NARROWER

    source = operand(INTEGER_LIKE)
    out = result(INTEGER_LIKE)

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return _fold_integer_cast(self.out.type, operands[0], signed)


@operation("arith.sitofp", assembly=_CAST, traits=(PURE,))
class SIToFP(_Cast):
    """Signed integer to float, nearest even."""

    source = operand(INTEGER_LIKE)
    out = result(FLOAT_LIKE)


@operation("arith.uitofp", assembly=_CAST, traits=(PURE,))
class UIToFP(_Cast):
    """Unsigned integer to float, nearest even."""

    source = operand(INTEGER_LIKE)
    out = result(FLOAT_LIKE)


@operation("arith.fptosi", assembly=_CAST, traits=(PURE,))
class FPToSI(_Cast):
    """Float to signed integer, truncated to zero."""

    source = operand(FLOAT_LIKE)
    out = result(INTEGER_LIKE)


@operation("arith.fptoui", assembly=_CAST, traits=(PURE,))
class FPToUI(_Cast):
    """Float to unsigned integer, truncated to zero."""

    source = operand(FLOAT_LIKE)
    out = result(INTEGER_LIKE)


@operation("arith.index_cast", assembly=_CAST, traits=(PURE,))
class IndexCast(_Cast):
    """Between index and integers, sign-extended or truncated."""

    rule = _TO_OR_FROM_INDEX

    source = operand(INTEGER_LIKE)
    out = result(INTEGER_LIKE)

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return _fold_integer_cast(self.out.type, operands[0], signed)


@operation("arith.index_castui", assembly=_CAST, traits=(PURE,))
class IndexCastUI(_Cast):
    """Between index and integers, zero-extended or truncated."""

    rule = _TO_OR_FROM_INDEX

    source = operand(INTEGER_LIKE)
    out = result(INTEGER_LIKE)

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return _fold_integer_cast(self.out.type, operands[0], unsigned)


@operation("arith.bitcast", assembly=_CAST, traits=(PURE,))
class Bitcast(_Cast):
    """The same bits in another type of the same width."""

    rule = _EQUALLY_WIDE

    source = operand(ANY)
    out = result(ANY)


def _fold_integer_cast(
    target: Type, value: Attribute | None, read: Callable[[int, Type], int]
) -> Sequence[Attribute | Value] | None:
    if not isinstance(value, IntegerAttr) or not isinstance(target, IndexType | IntegerType):
        return None
    return (IntegerAttr(wrap_integer(read(value.value, value.type), target), target),)


@operation("arith.constant", traits=(PURE, CONSTANT_LIKE))
class Constant(Operation):
    """A constant number, tensor or vector."""

    value = attribute(Attribute)
    result = result()

    @classmethod
    def of(cls, value: Attribute, type: Type | None = None) -> Constant:
        """The constant for an attribute, whose type is the result's."""
        found = type or attribute_type(value)
        if found is None:
            raise ValueError(f"{value} has no type")
        return cls.create((), (found,), {"value": value})

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Constant:
        attributes = parser.parse_attr_dict()
        start = parser.offset
        value = parser.parse_attribute()
        type = attribute_type(value)
        if type is None:
            raise parser.error_at(start, "expected a typed constant")
        attributes["value"] = value
        return cls.create((), (type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.attr_dict(self.attributes, elided=("value",))
        printer.write(" ")
        value = self.value
        printer.attribute_without_type(value)
        if self.result.type != I1 and not isinstance(value, DenseElementsAttr):
            printer.write(" : ")
            printer.type(self.result.type)
        elif isinstance(value, DenseElementsAttr):
            printer.write(" : ")
            printer.type(value.type)

    def result_names(self) -> Sequence[str | None]:
        match self.value:
            case IntegerAttr(value=value, type=IntegerType(width=1)):
                return ("true" if value else "false",)
            case IntegerAttr(value=value, type=IndexType()):
                return (f"c{value}",)
            case IntegerAttr(value=value, type=type):
                return (f"c{value}_{type}",)
            case _:
                return ("cst",)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = attribute_type(self.value)
        if type is None:
            yield finding("value must be an integer, float, or elements attribute", f"got {self.value}")
        elif type != self.result.type:
            yield finding(
                f"failed to verify that all of {{value, result}} have same type: '{type}' vs "
                f"'{self.result.type}'",
                f"the value is of type {type}",
            )
        scalar = element_or_self(self.result.type)
        if isinstance(scalar, IntegerType) and scalar.signedness is not Signedness.SIGNLESS:
            yield finding(
                "integer return type must be signless",
                f"expected i{scalar.width}: operations choose the sign",
            )

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        return (self.value,)


def attribute_type(value: Attribute) -> Type | None:
    """The type of a number or elements attribute, None for other attributes."""
    match value:
        case IntegerAttr(type=type):
            return type
        case FloatAttr(type=float_type):
            return float_type
        case DenseElementsAttr(type=dense_type):
            return dense_type
        case _:
            from ktir.attributes import DenseResourceAttr

            return value.type if isinstance(value, DenseResourceAttr) else None


def boolean_like(type: Type) -> Type:
    """i1, or a tensor or vector of i1 with the shape of `type`."""
    match type:
        case TensorType(shape=shape, encoding=encoding):
            return TensorType(shape, I1, encoding)
        case VectorType(shape=shape, scalable=scalable):
            return VectorType(shape, I1, scalable)
        case _:
            return I1


def _parse_predicate(parser: OpParser, predicates: type[enum.IntEnum]) -> IntegerAttr:
    allowed = [p.name.lower() for p in predicates]
    quoted = parser.parse_optional_string()
    if quoted is None:
        if not parser.at(*allowed):
            parser.cursor.expected(f"one of the predicates {', '.join(allowed)}")
        quoted = parser.keyword()
    if quoted.upper() not in predicates.__members__:
        raise parser.error(f"unknown predicate '{quoted}'")
    return IntegerAttr(predicates[quoted.upper()].value, I64)


class _Compare(Operation):
    @classmethod
    def _parse(cls, parser: OpParser, predicates: type[enum.IntEnum]) -> Self:
        predicate = _parse_predicate(parser, predicates)
        parser.expect(",", "behind the predicate")
        lhs = parser.parse_operand()
        parser.expect(",", "behind the first operand")
        rhs = parser.parse_operand()
        fastmath = FastMath.parse_parameters(parser) if parser.accept("fastmath") else None
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the operand type")
        type = parser.parse_type()
        attributes["predicate"] = predicate
        if fastmath is not None:
            attributes["fastmath"] = fastmath
        values = parser.resolve_all([lhs, rhs], [type, type])
        return cls.create(values, (boolean_like(type),), attributes, location=parser.location)

    def _print(self, printer: Printer, predicate: enum.IntEnum) -> None:
        printer.write(f" {predicate.name.lower()}, ")
        printer.operands(self.operands)
        fastmath = self.attributes.get("fastmath")
        if isinstance(fastmath, FastMath) and fastmath.flags:
            printer.write(" fastmath")
            fastmath.print_parameters(printer)
        printer.attr_dict(self.attributes, elided=("predicate", "fastmath"))
        printer.write(" : ")
        printer.type(self.operands[0].type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        lhs, rhs = (value.type for value in self.operands)
        if lhs != rhs:
            yield finding(
                f"requires all operands to have the same type, but got '{lhs}' and '{rhs}'",
                "nothing is converted implicitly",
            )
        if self.results[0].type != boolean_like(lhs):
            yield finding(
                f"result must be '{boolean_like(lhs)}', but got '{self.results[0].type}'",
                "one truth value per compared element",
            )


@operation("arith.cmpi", traits=(PURE,))
class CmpI(_Compare):
    """Compares integers or index values."""

    predicate = attribute(IntegerAttr, type=I64, only=cases(CmpIPredicate))
    lhs = operand(INTEGER_LIKE)
    rhs = operand(INTEGER_LIKE)
    result = result(I1_LIKE)

    @property
    def comparison(self) -> CmpIPredicate:
        return CmpIPredicate(self.predicate.value)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls._parse(parser, CmpIPredicate)

    def print_custom(self, printer: Printer) -> None:
        self._print(printer, self.comparison)

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        left, right = (_constant(value) for value in operands)
        if left is None or right is None:
            return None
        return (IntegerAttr(int(compare_integers(self.comparison, left[0], right[0], left[1])), I1),)


def compare_integers(predicate: CmpIPredicate, lhs: int, rhs: int, type: Type) -> bool:
    """The comparison on two canonical integer values of `type`."""
    read = unsigned if predicate >= CmpIPredicate.ULT else signed
    a, b = read(lhs, type), read(rhs, type)
    match predicate:
        case CmpIPredicate.EQ:
            return a == b
        case CmpIPredicate.NE:
            return a != b
        case CmpIPredicate.SLT | CmpIPredicate.ULT:
            return a < b
        case CmpIPredicate.SLE | CmpIPredicate.ULE:
            return a <= b
        case CmpIPredicate.SGT | CmpIPredicate.UGT:
            return a > b
        case _:
            return a >= b


@operation("arith.cmpf", traits=(PURE,))
class CmpF(_Compare):
    """Compares floats; ordered predicates are false and unordered ones true if a NaN takes part."""

    predicate = attribute(IntegerAttr, type=I64, only=cases(CmpFPredicate))
    lhs = operand(FLOAT_LIKE)
    rhs = operand(FLOAT_LIKE)
    result = result(I1_LIKE)
    fastmath = optional_attribute(FastMath, default=FastMath())

    @property
    def comparison(self) -> CmpFPredicate:
        return CmpFPredicate(self.predicate.value)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        return cls._parse(parser, CmpFPredicate)

    def print_custom(self, printer: Printer) -> None:
        self._print(printer, self.comparison)


@operation("arith.select", traits=(PURE,))
class Select(Operation):
    """The second operand where the condition holds, else the third."""

    condition = operand(I1_LIKE)
    true_value = operand()
    false_value = operand()
    result = result()

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Select:
        uses = [parser.parse_operand()]
        for _ in range(2):
            parser.expect(",", "between the operands")
            uses.append(parser.parse_operand())
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the operand type")
        first = parser.parse_type()
        condition: Type = I1
        type = first
        if parser.accept(","):
            condition, type = first, parser.parse_type()
        values = parser.resolve_all(uses, [condition, type, type])
        return cls.create(values, (type,), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operands(self.operands)
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        if isinstance(self.condition.type, ShapedType):
            printer.type(self.condition.type)
            printer.write(", ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not self.true_value.type == self.false_value.type == self.result.type:
            yield finding(
                "failed to verify that all of {true_value, false_value, result} have same type",
                f"got {self.true_value.type}, {self.false_value.type} and {self.result.type}",
            )
        condition = self.condition.type
        if isinstance(condition, ShapedType) and condition != boolean_like(self.result.type):
            yield finding(
                f"expected condition type to have the same shape as the result type, got '{condition}'",
                f"expected i1 or {boolean_like(self.result.type)}",
            )

    def fold(self, operands: Sequence[Attribute | None]) -> Sequence[Attribute | Value] | None:
        if self.true_value is self.false_value:
            return (self.true_value,)
        match operands[0]:
            case IntegerAttr(value=value):
                return (self.true_value if value else self.false_value,)
            case _:
                return None


DIALECT = Dialect(
    "arith",
    (
        AddI,
        SubI,
        MulI,
        ShLI,
        DivUI,
        DivSI,
        RemUI,
        RemSI,
        CeilDivUI,
        CeilDivSI,
        FloorDivSI,
        AndI,
        OrI,
        XOrI,
        ShRUI,
        ShRSI,
        MaxSI,
        MaxUI,
        MinSI,
        MinUI,
        AddF,
        SubF,
        MulF,
        DivF,
        RemF,
        MaximumF,
        MinimumF,
        MaxNumF,
        MinNumF,
        NegF,
        ExtF,
        TruncF,
        ExtSI,
        ExtUI,
        TruncI,
        SIToFP,
        UIToFP,
        FPToSI,
        FPToUI,
        IndexCast,
        IndexCastUI,
        Bitcast,
        Constant,
        CmpI,
        CmpF,
        Select,
    ),
    (FastMath, Overflow),
)
