"""The `vectorchain` dialect: operations on vectors (dataflowir spec 1.2).

Masks are an optional operand in brackets: ``%a, %b [%m : vector<64xi1>] {...}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from attrs import frozen

from dfsched.dialects.dataflow import VECTOR, CustomVectorType
from dfsched.dialects.enums import EnumAttr, enum_reader
from dfsched.image.instructions import BinaryOperator, CompareOperator
from ktir.attribute import Attribute
from ktir.attributes import AffineMapAttr, AffineSetAttr, ArrayAttr, IntegerAttr, StringAttr
from ktir.constraints import ANY, INDEX, instance_of
from ktir.context import Dialect
from ktir.errors import Diagnostic
from ktir.ir import Operation, Value
from ktir.opdef import (
    PURE,
    attribute,
    operand,
    operation,
    optional_attribute,
    optional_operand,
    result,
    variadic_operand,
)
from ktir.types import I32, FloatType, IntegerType, Type, VectorType, bit_width
from ktir.types import INDEX as INDEX_TYPE

if TYPE_CHECKING:
    from ktir.parser import OpParser, Unresolved
    from ktir.printer import Printer
    from ktir.verifier import Verifier

import enum

__all__ = [
    "VECTORCHAIN",
    "Binary",
    "BinaryOperatorAttr",
    "Cast",
    "CompareOperatorAttr",
    "ConstantBitstream",
    "CreateAffineMask",
    "ElementWiseCompare",
    "ElementWiseSelection",
    "EstimateVersion",
    "EvalOrder",
    "ExpEstimate",
    "FastExp",
    "Floor",
    "LnEstimate",
    "Merge",
    "Multiply",
    "MultiplyAndAccumulate",
    "Neg",
    "Pack",
    "RecEstimate",
    "Rotate",
    "RsqrtEstimate",
    "ScanWithGap",
    "Select",
    "Shuffle",
    "SigmoidEstimate",
    "TanhEstimate",
    "lanes",
]

MLIR_VECTOR = instance_of("vector of any type values", VectorType)


class ExpVersion(enum.IntEnum):
    A = 0
    B = 1


class EstimateVersion(enum.IntEnum):
    SLOPE = 0
    OFFSET = 1


class EvalOrder(enum.IntEnum):
    LEFT_TO_RIGHT = 0
    RIGHT_TO_LEFT = 1


@frozen
class BinaryOperatorAttr(EnumAttr):
    """``#vectorchain<binary_operator max>``."""

    mnemonic: ClassVar[str] = "vectorchain"
    keyword: ClassVar[str] = "binary_operator"
    spelling = {  # noqa: RUF012 (a constant of the class)
        BinaryOperator.AND: "and0",
        BinaryOperator.OR: "or0",
        **{op: op.name.lower() for op in BinaryOperator if op.value > 1},
    }
    value: BinaryOperator


@frozen
class CompareOperatorAttr(EnumAttr):
    """``#vectorchain<element_wise_compare_operator compare_lt>``."""

    mnemonic: ClassVar[str] = "vectorchain"
    keyword: ClassVar[str] = "element_wise_compare_operator"
    spelling = {op: f"compare_{op.name.lower()}" for op in CompareOperator}  # noqa: RUF012
    value: CompareOperator


@frozen
class ExpVersionAttr(EnumAttr):
    """``#vectorchain<exp_estimate a>``."""

    mnemonic: ClassVar[str] = "vectorchain"
    keyword: ClassVar[str] = "exp_estimate"
    spelling = {version: version.name.lower() for version in ExpVersion}  # noqa: RUF012
    value: ExpVersion


@frozen
class EstimateVersionAttr(EnumAttr):
    """``#vectorchain<estimate_versions slope>``."""

    mnemonic: ClassVar[str] = "vectorchain"
    keyword: ClassVar[str] = "estimate_versions"
    spelling = {version: version.name.lower() for version in EstimateVersion}  # noqa: RUF012
    value: EstimateVersion


@frozen
class EvalOrderAttr(EnumAttr):
    """``#vectorchain<eval_order left_to_right>``."""

    mnemonic: ClassVar[str] = "vectorchain"
    keyword: ClassVar[str] = "eval_order"
    spelling = {order: order.name.lower() for order in EvalOrder}  # noqa: RUF012
    value: EvalOrder


def lanes(type: Type) -> int:
    """Elements of a vector type; 0 for other types."""
    match type:
        case VectorType():
            return type.num_elements()
        case CustomVectorType(lanes=count):
            return count
        case _:
            return 0


def _same_lanes(op: Operation, *values: Value | None) -> Iterator[str]:
    counts = {lanes(value.type) for value in (*values, *op.results) if value is not None}
    if len(counts) > 1:
        yield "operand and result lane counts must match"


_UNARY = "$a (`[` $mask^ `:` type($mask) `]`)? attr-dict `:` type($a) `,` type($result)"
_BINARY = "$a `,` $b (`[` $mask^ `:` type($mask) `]`)? attr-dict `:` type($a) `,` type($b) `,` type($result)"


@operation("vectorchain.select", assembly="$a attr-dict `:` type($a) `,` type($result)", traits=(PURE,))
class Select(Operation):
    """``out[j] = a[selection_map(j)]``."""

    a = operand(VECTOR)
    result = result(VECTOR)
    selection_map = attribute(AffineMapAttr)


@operation("vectorchain.multiply", assembly=_BINARY, traits=(PURE,))
class Multiply(Operation):
    """Products, summed over the lanes that `reduction_map` sends to one result lane."""

    a = operand(VECTOR)
    b = operand(VECTOR)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    reduction_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation("vectorchain.binary", assembly=_BINARY, traits=(PURE,))
class Binary(Operation):
    """``a op b`` lane by lane."""

    a = operand(VECTOR)
    b = operand(VECTOR)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    binary_op = attribute(BinaryOperatorAttr)
    op_specific_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _same_lanes(self, self.a, self.b, self.mask)


@operation("vectorchain.element_wise_compare", assembly=_BINARY, traits=(PURE,))
class ElementWiseCompare(Operation):
    """``a op b`` lane by lane, as i1."""

    a = operand(MLIR_VECTOR)
    b = operand(MLIR_VECTOR)
    mask = optional_operand(VECTOR)
    result = result(MLIR_VECTOR)
    compare_op = attribute(CompareOperatorAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _same_lanes(self, self.a, self.b, self.mask)


@operation(
    "vectorchain.merge",
    assembly="$a `,` $b attr-dict `:` type($a) `,` type($b) `,` type($result)",
    traits=(PURE,),
)
class Merge(Operation):
    """Lanes of a and b put where two sets of maps say."""

    a = operand(VECTOR)
    b = operand(VECTOR)
    result = result(VECTOR)
    iteration_space_ca = attribute(AffineSetAttr, name="iteration_space_CA")
    access_function_ca = attribute(AffineMapAttr, name="access_function_CA")
    access_function_a = attribute(AffineMapAttr, name="access_function_A")
    iteration_space_cb = attribute(AffineSetAttr, name="iteration_space_CB")
    access_function_cb = attribute(AffineMapAttr, name="access_function_CB")
    access_function_b = attribute(AffineMapAttr, name="access_function_B")
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation(
    "vectorchain.create_affine_mask", assembly="($parameter^)? attr-dict `:` type($result)", traits=(PURE,)
)
class CreateAffineMask(Operation):
    """Lane i is set iff i is in `mask_set`; the parameter is the set's symbol."""

    parameter = optional_operand(INDEX)
    result = result(MLIR_VECTOR)
    mask_set = attribute(AffineSetAttr)


@operation("vectorchain.pack", assembly=_BINARY, traits=(PURE,))
class Pack(Operation):
    """Lanes of a and b picked by `indices`, repeated, integers widened."""

    a = operand(VECTOR)
    b = operand(VECTOR)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    indices = attribute(ArrayAttr)
    repetition = attribute(IntegerAttr)
    sign_extend = optional_attribute(IntegerAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


class _Unary(Operation):
    """A lane-wise operation on one vector."""

    a = operand(MLIR_VECTOR)
    mask = optional_operand(MLIR_VECTOR)
    result = result(MLIR_VECTOR)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _same_lanes(self, self.a, self.mask)


@operation("vectorchain.cast", assembly=_UNARY, traits=(PURE,))
class Cast(Operation):
    """Every lane converted to the result's element type."""

    a = operand(VECTOR)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if lanes(self.a.type) != lanes(self.result.type):
            yield "result size does not match input size"


@operation("vectorchain.fast_exp", assembly=_UNARY, traits=(PURE,))
class FastExp(_Unary):
    """e to the power of every lane."""


@operation("vectorchain.floor", assembly=_UNARY, traits=(PURE,))
class Floor(_Unary):
    """The greatest whole number not above every lane."""


@operation("vectorchain.rec_estimate", assembly=_UNARY, traits=(PURE,))
class RecEstimate(_Unary):
    """The reciprocal of every lane."""


@operation("vectorchain.ln_estimate", assembly=_UNARY, traits=(PURE,))
class LnEstimate(_Unary):
    """The natural logarithm of every lane."""


@operation("vectorchain.rsqrt_estimate", assembly=_UNARY, traits=(PURE,))
class RsqrtEstimate(_Unary):
    """The reciprocal square root of every lane."""


@operation("vectorchain.neg", assembly=_UNARY, traits=(PURE,))
class Neg(_Unary):
    """Every lane negated."""


@operation("vectorchain.exp_estimate", assembly=_UNARY, traits=(PURE,))
class ExpEstimate(_Unary):
    """One of two factors of the exponential."""

    version = attribute(ExpVersionAttr)


@operation("vectorchain.sigmoid_estimate", assembly=_UNARY, traits=(PURE,))
class SigmoidEstimate(_Unary):
    """Slope or offset of the tangent of the logistic function."""

    version = attribute(EstimateVersionAttr)


@operation("vectorchain.tanh_estimate", assembly=_UNARY, traits=(PURE,))
class TanhEstimate(_Unary):
    """Slope or offset of the tangent of the hyperbolic tangent."""

    version = attribute(EstimateVersionAttr)


@operation(
    "vectorchain.multiply_and_accumulate",
    assembly="$a `,` $b `,` $c (`[` $mask^ `:` type($mask) `]`)? attr-dict `:` "
    "type($a) `,` type($b) `,` type($c) `,` type($result)",
    traits=(PURE,),
)
class MultiplyAndAccumulate(Operation):
    """``a * b + c``, products summed as `reduction_map` says."""

    a = operand(VECTOR)
    b = operand(VECTOR)
    c = operand(VECTOR)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    reduction_map = attribute(AffineMapAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation(
    "vectorchain.element_wise_selection",
    assembly="$condition `?` $a `:` $b (`[` $mask^ `:` type($mask) `]`)? attr-dict `:` "
    "type($condition) `,` type($a) `,` type($b) `,` type($result)",
    traits=(PURE,),
)
class ElementWiseSelection(Operation):
    """``condition ? a : b`` lane by lane."""

    condition = operand(VECTOR)
    a = operand(VECTOR)
    b = operand(VECTOR)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        yield from _same_lanes(self, self.condition, self.a, self.b, self.mask)


@operation("vectorchain.constant_bitstream", traits=(PURE,))
class ConstantBitstream(Operation):
    """A vector constant: the bit pattern of every lane."""

    result = result()
    value = attribute(ArrayAttr)

    @classmethod
    def of(cls, patterns: Sequence[int], type: VectorType) -> Self:
        """From one bit pattern per lane."""
        entries = ArrayAttr(tuple(IntegerAttr(p, INDEX_TYPE) for p in patterns))
        return cls.create((), (type,), {"value": entries})

    @property
    def is_symbol(self) -> bool:
        found = self.attributes.get("is_symbol")
        return isinstance(found, IntegerAttr) and bool(found.value)

    def patterns(self) -> list[int]:
        """The bit pattern of every lane."""
        return [entry.value for entry in self.value if isinstance(entry, IntegerAttr)]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        attributes = parser.parse_attr_dict()
        match attributes.get("value"):
            case ArrayAttr(elements=elements):
                numbers = tuple(
                    IntegerAttr(e.value, INDEX_TYPE) if isinstance(e, IntegerAttr) else e for e in elements
                )
                attributes["value"] = ArrayAttr(numbers)
        parser.expect(":", "in front of the result type")
        return cls.create((), (parser.parse_type(),), attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        if self.is_symbol:
            printer.attr_dict(self.attributes)
        else:
            printer.write(f" {{value = [{', '.join(hex(pattern) for pattern in self.patterns())}]}}")
        printer.write(" : ")
        printer.type(self.result.type)

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        type = self.result.type
        if not isinstance(type, VectorType):
            yield "result element type is not vector type."
            return
        if not isinstance(type.element, FloatType | IntegerType):
            yield "result element type is not ints or floats"
            return
        if len(self.value) != type.num_elements():
            yield "result does not match value array"
            return
        if self.is_symbol:
            return
        if not all(isinstance(entry, IntegerAttr) for entry in self.value):
            yield "value attribute should only contain integer representations"
        elif any(not 0 <= pattern < 1 << bit_width(type.element) for pattern in self.patterns()):
            yield "value attribute contains element that exceeds bitwidth of output element type"


@operation("vectorchain.shuffle", traits=(PURE,))
class Shuffle(Operation):
    """Lanes of the input, scalar variables or scalar pads picked by `indices`, repeated."""

    input = operand(VECTOR)
    variables = variadic_operand(ANY)
    pads = variadic_operand(ANY)
    mask = optional_operand(VECTOR)
    result = result(VECTOR)
    indices = attribute(ArrayAttr)
    repetition = attribute(IntegerAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")

    @classmethod
    def of(
        cls,
        input: Value,
        type: VectorType,
        indices: Sequence[int],
        repetition: int = 1,
        variables: Sequence[Value] = (),
        pads: Sequence[Value] = (),
    ) -> Self:
        """Without mask."""
        entries: dict[str, Attribute] = {
            "indices": ArrayAttr(tuple(IntegerAttr(index, I32) for index in indices)),
            "repetition": IntegerAttr(repetition, I32),
            "operandSegmentSizes": _segments(1, len(variables), len(pads), 0),
        }
        return cls.create((input, *variables, *pads), (type,), entries)

    def picks(self) -> list[int]:
        """The indices as integers."""
        return [entry.value for entry in self.indices if isinstance(entry, IntegerAttr)]

    @classmethod
    def parse_custom(cls, parser: OpParser) -> Self:
        parser.expect("input", "behind 'vectorchain.shuffle'")
        parser.expect("(")
        source = parser.parse_operand()
        parser.expect(")", "behind the input")
        groups: dict[str, list[Unresolved]] = {}
        while parser.accept(","):
            if not parser.at("variable", "pad", "mask"):
                raise parser.error("expected 'variable', 'pad', or 'mask' keyword")
            offset = parser.offset
            word = parser.keyword()
            if word in groups:
                raise parser.error_at(offset, f"'{word}' is given twice")
            groups[word] = parser.parse_comma_list("(", ")", parser.parse_operand)
        attributes = parser.parse_attr_dict()
        parser.expect(":", "in front of the types")
        types = parser.parse_type_list()
        variables, pads, mask = (groups.get(word, []) for word in ("variable", "pad", "mask"))
        if len(mask) > 1:
            raise parser.error("expected at most one mask")
        operands = parser.resolve_all([source, *variables, *pads, *mask], types[:-1])
        attributes["operandSegmentSizes"] = _segments(1, len(variables), len(pads), len(mask))
        return cls.create(operands, types[-1:], attributes, location=parser.location)

    def print_custom(self, printer: Printer) -> None:
        printer.write(" input(")
        printer.operand(self.input)
        printer.write(")")
        masks = () if self.mask is None else (self.mask,)
        for word, values in (("variable", self.variables), ("pad", self.pads), ("mask", masks)):
            if values:
                printer.write(f", {word}(")
                printer.operands(values)
                printer.write(")")
        printer.attr_dict(self.attributes, elided=("operandSegmentSizes",))
        printer.write(" : ")
        printer.types([value.type for value in (*self.operands, *self.results)])

    def verify_op(self, verifier: Verifier) -> Iterator[str | Diagnostic]:
        if len(self.indices) * self.repetition.value != lanes(self.result.type):
            yield "result does not scale with indices and repetitions"
        if _element(self.input.type) != _element(self.result.type):
            yield "input element type does not match output element type"
        if not all(isinstance(entry, IntegerAttr) for entry in self.indices):
            yield "indices element is not integer"
        low, high = -(len(self.variables) + len(self.pads)), lanes(self.input.type)
        if any(not low <= pick < high for pick in self.picks()):
            yield "out of bounds indices element"


def _element(type: Type) -> Type | None:
    return type.element if isinstance(type, VectorType | CustomVectorType) else None


def _segments(*sizes: int) -> Attribute:
    from ktir.attributes import DenseArrayAttr

    return DenseArrayAttr(I32, sizes)


@operation(
    "vectorchain.scan_with_gap", assembly="$a attr-dict `:` type($a) `,` type($result)", traits=(PURE,)
)
class ScanWithGap(Operation):
    """Running combination of every `gap`-th lane."""

    a = operand(VECTOR)
    result = result(VECTOR)
    reduction_op = attribute(BinaryOperatorAttr)
    gap = attribute(IntegerAttr)
    eval_order = attribute(EvalOrderAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


@operation(
    "vectorchain.rotate",
    assembly="$a `,` $amount attr-dict `:` type($a) `,` type($amount) `,` type($result)",
    traits=(PURE,),
)
class Rotate(Operation):
    """The lanes as a ring, turned right (or left) by `amount`."""

    a = operand(VECTOR)
    amount = operand(INDEX)
    result = result(VECTOR)
    right_shift = optional_attribute(IntegerAttr)
    dbg_name = optional_attribute(StringAttr, name="dbgName")


VECTORCHAIN = Dialect(
    "vectorchain",
    operations=(
        Select,
        Multiply,
        Binary,
        ElementWiseCompare,
        Merge,
        CreateAffineMask,
        Pack,
        Cast,
        FastExp,
        Floor,
        RecEstimate,
        LnEstimate,
        RsqrtEstimate,
        Neg,
        ExpEstimate,
        SigmoidEstimate,
        TanhEstimate,
        MultiplyAndAccumulate,
        ElementWiseSelection,
        ConstantBitstream,
        Shuffle,
        ScanWithGap,
        Rotate,
    ),
    attributes=(
        enum_reader(
            "vectorchain",
            BinaryOperatorAttr,
            CompareOperatorAttr,
            ExpVersionAttr,
            EstimateVersionAttr,
            EvalOrderAttr,
        ),
    ),
)
