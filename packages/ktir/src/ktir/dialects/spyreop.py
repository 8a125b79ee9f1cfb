"""The ``spyreop`` dialect: device intrinsics on scalars (KTIR spec 2).

``!spyreop.df16`` is the builtin-like `ktir.types.DF16`: there is one DLFloat16.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import attrs

from ktir.attribute import Attribute
from ktir.attributes import FloatAttr, IntegerAttr
from ktir.constraints import Constraint, exactly
from ktir.context import Dialect
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation
from ktir.opdef import (
    PURE,
    SAME_TYPE,
    attribute,
    operand,
    operation,
    optional_attribute,
    optional_operand,
    result,
)
from ktir.types import DF16, F16, F32, I32, I64, FloatType, TensorType, Type

if TYPE_CHECKING:
    from ktir.parser import AttributeParser, OpParser
    from ktir.printer import Printer
    from ktir.verifier import Verifier


# -- types


@attrs.frozen
class Df16(Type):
    """Reads ``!spyreop.df16`` as `ktir.types.DF16`; never instantiated."""

    mnemonic = "spyreop.df16"

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return DF16  # type: ignore[return-value]  # one class for one concept


@attrs.frozen
class FusedType(Type):
    """Two floats held as one value, the first in the low word."""

    @property
    def part(self) -> FloatType:
        """The type of each of the two."""
        return _PART[type(self)]


@attrs.frozen
class Df16Fused(FusedType):
    """``!spyreop.df16_fused``."""

    mnemonic = "spyreop.df16_fused"


@attrs.frozen
class Fp16Fused(FusedType):
    """``!spyreop.fp16_fused``."""

    mnemonic = "spyreop.fp16_fused"


@attrs.frozen
class Fp32Fused(FusedType):
    """``!spyreop.fp32_fused``."""

    mnemonic = "spyreop.fp32_fused"


_PART: dict[type[FusedType], FloatType] = {Df16Fused: DF16, Fp16Fused: F16, Fp32Fused: F32}
FUSED: dict[Type, FusedType] = {part: fused() for fused, part in _PART.items()}
"""The fused type that belongs to a float type."""


# -- attributes


class ReductionKind(enum.StrEnum):
    """How `SliceReduction` combines lanes."""

    ADD = "add"
    SUB = "sub"
    MAX = "max"
    MIN = "min"
    MUL = "mul"
    ABS_MAX = "abs_max"


class ReductionScope(enum.StrEnum):
    """Which lanes `SliceReduction` combines."""

    IN_SLICE = "in_slice"
    ACROSS_SLICE = "across_slice"


def _enum_keyword(parser: AttributeParser, what: str, names: Sequence[str]) -> str:
    bracket = parser.accept("<")
    if not parser.at(*names):
        parser.cursor.expected(f"{what} to be one of: {', '.join(names)}")
    name = parser.keyword()
    if bracket:
        parser.expect(">", f"behind the {what}")
    return name


@attrs.frozen
class ReductionKindAttr(Attribute):
    """``#spyreop.reduction_kind<add>``."""

    mnemonic = "spyreop.reduction_kind"

    kind: ReductionKind

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(ReductionKind(_enum_keyword(parser, "reduction kind", list(ReductionKind))))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.kind}>")


@attrs.frozen
class ReductionScopeAttr(Attribute):
    """``#spyreop.reduction_scope<in_slice>``."""

    mnemonic = "spyreop.reduction_scope"

    scope: ReductionScope

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(ReductionScope(_enum_keyword(parser, "reduction scope", list(ReductionScope))))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.scope}>")


class CompareKind(enum.StrEnum):
    """The relation that `Compare` tests."""

    EQUAL = "equal"
    NOTEQUAL = "notequal"
    GREATERTHAN = "greaterthan"
    GREATEREQUAL = "greaterequal"
    LESSERTHAN = "lesserthan"
    LESSEREQUAL = "lesserequal"


@attrs.frozen
class CompareKindAttr(Attribute):
    """``#spyreop.compare_kind<equal>``."""

    mnemonic = "spyreop.compare_kind"

    kind: CompareKind

    @classmethod
    def parse_parameters(cls, parser: AttributeParser) -> Self:
        return cls(CompareKind(_enum_keyword(parser, "compare kind", list(CompareKind))))

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<{self.kind}>")


# -- constraints

_WORDS: dict[Type, str] = {F16: "16-bit float", DF16: "IBM df16 float", F32: "32-bit float"}


def _one_of(*types: Type) -> Constraint:
    return Constraint(" or ".join(_WORDS[t] for t in types), lambda type: type in types)


ANY_FLOAT = _one_of(F16, DF16, F32)
HALF_FLOAT = _one_of(F16, DF16)
REGISTER_FLOAT = _one_of(F16, F32)
ANY_FUSED = Constraint(
    "A pair of df16 floats held as one value or A pair of 16-bit floats held as one value or "
    "A pair of 32-bit floats held as one value",
    lambda type: isinstance(type, FusedType),
)
SIGNLESS_32 = exactly(I32, "32-bit signless integer")
SIGNLESS_64 = exactly(I64, "64-bit signless integer")
STICK = Constraint(
    "1D tensor of 64 16-bit float values",
    lambda type: isinstance(type, TensorType) and type.shape == (64,) and type.element in (F16, DF16),
)

# -- integer operations


@operation("spyreop.addi32toi32", assembly="$lhs `,` $rhs attr-dict", traits=(PURE,))
class AddI32ToI32(Operation):
    """Wrapping sum."""

    lhs = operand(SIGNLESS_32)
    rhs = operand(SIGNLESS_32)
    result = result(SIGNLESS_32)


@operation("spyreop.muli32toi32", assembly="$lhs `,` $rhs attr-dict", traits=(PURE,))
class MulI32ToI32(Operation):
    """Low 32 bits of the product."""

    lhs = operand(SIGNLESS_32)
    rhs = operand(SIGNLESS_32)
    result = result(SIGNLESS_32)


@operation("spyreop.addi64toi64", assembly="$lhs `,` $rhs attr-dict", traits=(PURE,))
class AddI64ToI64(Operation):
    """Wrapping sum."""

    lhs = operand(SIGNLESS_64)
    rhs = operand(SIGNLESS_64)
    result = result(SIGNLESS_64)


@operation("spyreop.idx32toaddr", traits=(PURE,))
class Idx32ToAddr(Operation):
    """``base + stride * index``, wrapping; base and stride are operands or, in older text, attributes."""

    index = operand(SIGNLESS_32)
    base = optional_operand(SIGNLESS_32)
    stride = optional_operand(SIGNLESS_32)
    static_base = optional_attribute(IntegerAttr, name="base")
    static_stride = optional_attribute(IntegerAttr, name="stride")
    result = result(SIGNLESS_32)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Idx32ToAddr:
        from ktir.dialects.ktdp.views import segments

        uses = [parser.parse_operand()]
        attributes: dict[str, Attribute] = {}
        counts: list[int] = []
        for name in ("base", "stride"):
            parser.expect(name)
            use = parser.parse_optional_operand()
            counts.append(int(use is not None))
            if use is not None:
                uses.append(use)
            else:
                attributes[name] = parser.parse_attribute(I32)
        attributes.update(parser.parse_attr_dict())
        attributes["operandSegmentSizes"] = segments(1, *counts)
        operands = [parser.resolve(use, I32) for use in uses]
        return cls.create(operands, [I32], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.index)
        for name, value, static in (
            ("base", self.base, self.static_base),
            ("stride", self.stride, self.static_stride),
        ):
            printer.write(f" {name} ")
            if value is not None:
                printer.operand(value)
            elif static is not None:
                printer.attribute_without_type(static)
        printer.attr_dict(self.attributes, elided=("base", "stride", "operandSegmentSizes"))

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if (self.base is None) == (self.static_base is None):
            yield finding(
                "requires 'base' either as an operand or as an attribute", "one of the two, not both"
            )
        if (self.stride is None) == (self.static_stride is None):
            yield finding(
                "requires 'stride' either as an operand or as an attribute", "one of the two, not both"
            )


# -- element-wise operations


class _Unary(Operation):
    value = operand(ANY_FLOAT)
    result = result(ANY_FLOAT)


_UNARY = "$value attr-dict `:` type($result)"


@operation("spyreop.exp", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Exp(_Unary):
    """e to the power of the operand."""


@operation("spyreop.sqrt", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Sqrt(_Unary):
    """Square root."""


@operation("spyreop.rsqrt", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Rsqrt(_Unary):
    """Reciprocal square root."""


@operation("spyreop.reciprocal", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Reciprocal(_Unary):
    """One divided by the operand."""


@operation("spyreop.sigmoid", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Sigmoid(_Unary):
    """1 / (1 + exp(-x))."""


@operation("spyreop.silu", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Silu(_Unary):
    """x * sigmoid(x)."""


@operation("spyreop.gelu", assembly=_UNARY, traits=(PURE, SAME_TYPE))
class Gelu(Operation):
    """x times the standard normal distribution function of x."""

    value = operand(HALF_FLOAT)
    result = result(HALF_FLOAT)


@operation("spyreop.softplus", traits=(PURE, SAME_TYPE))
class Softplus(Operation):
    """x where ``beta * x > threshold``, else ``log1p(exp(beta * x)) / beta``."""

    value = operand(HALF_FLOAT)
    beta = attribute(FloatAttr)
    threshold = attribute(FloatAttr)
    result = result(HALF_FLOAT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Softplus:
        use = parser.parse_operand()
        attributes: dict[str, Attribute] = {}
        for name in ("beta", "threshold"):
            parser.expect(name)
            attributes[name] = parser.parse_attribute(F32)
        attributes.update(parser.parse_attr_dict())
        parser.expect(":", "in front of the type")
        type = parser.parse_type()
        return cls.create([parser.resolve(use, type)], [type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.value)
        printer.write(" beta ")
        printer.attribute_without_type(self.beta)
        printer.write(" threshold ")
        printer.attribute_without_type(self.threshold)
        printer.attr_dict(self.attributes, elided=("beta", "threshold"))
        printer.write(" : ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if self.beta.type != F32 or self.beta.value == 0:
            yield finding(
                "attribute 'beta' failed to satisfy constraint: 32-bit float attribute which is non-zero",
                f"softplus divides by it; got {self.beta}",
            )
        if self.threshold.type != F32:
            yield finding(
                "attribute 'threshold' failed to satisfy constraint: 32-bit float attribute",
                f"got {self.threshold}",
            )


@operation("spyreop.realdiv", assembly="$lhs `,` $rhs attr-dict `:` type($result)", traits=(PURE, SAME_TYPE))
class RealDiv(Operation):
    """Quotient."""

    lhs = operand(ANY_FLOAT)
    rhs = operand(ANY_FLOAT)
    result = result(ANY_FLOAT)


@operation("spyreop.compare", traits=(PURE, SAME_TYPE))
class Compare(Operation):
    """1.0 where the relation holds, else 0.0."""

    kind = attribute(CompareKindAttr)
    lhs = operand(ANY_FLOAT)
    rhs = operand(ANY_FLOAT)
    result = result(ANY_FLOAT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Compare:
        kind = CompareKindAttr.parse_parameters(parser)
        lhs = parser.parse_operand()
        parser.expect(",", "between the operands")
        rhs = parser.parse_operand()
        attributes = parser.parse_attr_dict()
        attributes["kind"] = kind
        parser.expect(":", "in front of the type")
        type = parser.parse_type()
        operands = parser.resolve_all([lhs, rhs], [type, type])
        return cls.create(operands, [type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(f" {self.kind.kind} ")
        printer.operands(self.operands)
        printer.attr_dict(self.attributes, elided=("kind",))
        printer.write(" : ")
        printer.type(self.result.type)


@operation(
    "spyreop.select",
    assembly="$condition `,` $true_value `,` $false_value attr-dict `:` type($result)",
    traits=(PURE, SAME_TYPE),
)
class Select(Operation):
    """The second operand where the first is not zero, else the third."""

    condition = operand(ANY_FLOAT)
    true_value = operand(ANY_FLOAT)
    false_value = operand(ANY_FLOAT)
    result = result(ANY_FLOAT)


@operation("spyreop.constant", traits=(PURE,))
class Constant(Operation):
    """A literal held in a register; never folded into or merged with ``arith.constant``."""

    value = attribute(Attribute)
    result = result(REGISTER_FLOAT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Constant:
        attributes = parser.parse_attr_dict()
        value = parser.parse_attribute()
        attributes["value"] = value
        if not isinstance(value, FloatAttr | IntegerAttr):
            raise parser.error("expected a floating-point literal")
        return cls.create([], [value.type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.attr_dict(self.attributes, elided=("value",))
        printer.write(" ")
        if isinstance(self.value, FloatAttr):
            printer.attribute_without_type(self.value)
            printer.write(" : ")
            printer.type(self.value.type)
        else:
            printer.attribute(self.value)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if not isinstance(self.value, FloatAttr):
            yield finding(
                f"requires a floating-point value attribute, got {self.value}",
                "write a number with a dot: 1.0 : f16",
            )
        elif self.value.type != self.result.type:
            yield finding(
                "failed to verify that all of {value, result} have same type",
                f"the value is {self.value.type}, the result {self.result.type}",
            )


# -- normalisation


@operation("spyreop.exx2", traits=(PURE,))
class Exx2(Operation):
    """Mean and mean of squares over the reduction iterators of the surrounding generic."""

    value = operand(ANY_FLOAT)
    mean = result(ANY_FLOAT)
    squares = result(ANY_FLOAT)

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Exx2:
        use = parser.parse_operand()
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the type")
        type = parser.parse_type()
        return cls.create([parser.resolve(use, type)], [type, type], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.operand(self.value)
        printer.attr_dict(self.attributes)
        printer.write(" : ")
        printer.type(self.value.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if any(r.type != self.value.type for r in self.results):
            yield finding(
                "requires the same type for all operands and results",
                f"mean and mean of squares are {self.value.type} as the operand",
            )


def _pairing(part: Type, fused: Type) -> Iterator[Diagnostic]:
    expected = FUSED.get(part)
    if expected is not None and expected != fused:
        yield finding(
            f"failed to infer returned types: inferred type(s) '{expected}' are incompatible with return "
            f"type(s) of operation '{fused}'",
            f"two values of {part} are packed as {expected}",
        )


class _ToFused(Operation):
    value = operand(ANY_FLOAT)
    result = result(ANY_FUSED)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _pairing(self.value.type, self.result.type)


_ARROW = "$value attr-dict `:` type($value) `->` type($result)"


@operation("spyreop.exx2_fused", assembly=_ARROW, traits=(PURE,))
class Exx2Fused(_ToFused):
    """Mean and mean of squares, packed."""


@operation("spyreop.exx2_zeromean_fused", assembly=_ARROW, traits=(PURE,))
class Exx2ZeroMeanFused(_ToFused):
    """Zero and mean of squares, packed."""


@operation(
    "spyreop.layernormscale",
    assembly="$mean (`squares` $squares^)? attr-dict `:` type($result)",
    traits=(PURE, SAME_TYPE),
)
class LayerNormScale(Operation):
    """Reciprocal standard deviation from mean and mean of squares (older text: from the variance alone)."""

    mean = operand(ANY_FLOAT)
    squares = optional_operand(ANY_FLOAT)
    result = result(ANY_FLOAT)


@operation("spyreop.layernormscale_fused", assembly=_ARROW, traits=(PURE,))
class LayerNormScaleFused(Operation):
    """Reciprocal standard deviation from a packed pair."""

    value = operand(ANY_FUSED)
    result = result(ANY_FLOAT)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        assert isinstance(self.value.type, FusedType)
        if self.value.type.part != self.result.type:
            yield finding(
                f"failed to infer returned types: inferred type(s) '{self.value.type.part}' are incompatible "
                f"with return type(s) of operation '{self.result.type}'",
                f"{self.value.type} packs two values of {self.value.type.part}",
            )


@operation(
    "spyreop.layernormnorm",
    assembly="$value `squares` $squares `scale` $scale `weight` $weight `bias` $bias attr-dict `:` "
    "type($result)",
    traits=(PURE, SAME_TYPE),
)
class LayerNormNorm(Operation):
    """``(value - squares) * scale * weight + bias``; callers pass the mean as `squares`."""

    value = operand(ANY_FLOAT)
    squares = operand(ANY_FLOAT)
    scale = operand(ANY_FLOAT)
    weight = operand(ANY_FLOAT)
    bias = operand(ANY_FLOAT)
    result = result(ANY_FLOAT)


@operation(
    "spyreop.slice_reduction",
    assembly="$value attr-dict `:` type($value) `->` type($result)",
    traits=(PURE, SAME_TYPE),
)
class SliceReduction(Operation):
    """Reduces lanes of one stick within its slices or across them."""

    value = operand(STICK)
    reduction_kind = attribute(ReductionKindAttr)
    reduction_scope = attribute(ReductionScopeAttr)
    result = result(STICK)


DIALECT = Dialect(
    "spyreop",
    operations=(
        AddI32ToI32,
        AddI64ToI64,
        Compare,
        Constant,
        Exp,
        Exx2,
        Exx2Fused,
        Exx2ZeroMeanFused,
        Gelu,
        Idx32ToAddr,
        LayerNormNorm,
        LayerNormScale,
        LayerNormScaleFused,
        MulI32ToI32,
        RealDiv,
        Reciprocal,
        Rsqrt,
        Select,
        Sigmoid,
        Silu,
        SliceReduction,
        Softplus,
        Sqrt,
    ),
    attributes=(CompareKindAttr, ReductionKindAttr, ReductionScopeAttr),
    types=(Df16, Df16Fused, Fp16Fused, Fp32Fused),
)
