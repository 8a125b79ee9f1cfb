"""The table of operation meanings against exact arithmetic and against NumPy's own."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktir import dlfloat
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr
from ktir.dialects import arith
from ktir.machine import F16Format
from ktir.types import (
    BF16,
    DF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    FloatType,
    IntegerType,
    TensorType,
    Type,
)
from spyresim.errors import ArithmeticFault, UnsupportedError
from spyresim.meaning import constant_array, evaluate_named, has_meaning, held_dtype, meanings

PREDICATE = {p.name.lower(): IntegerAttr(p.value, I64) for p in arith.CmpFPredicate}
INTEGER_PREDICATE = {p.name.lower(): IntegerAttr(p.value, I64) for p in arith.CmpIPredicate}


def call(name: str, *operands: Any, type: Type = F16, result: Type | None = None, **attributes: Any) -> Any:
    arrays = [np.asarray(o) for o in operands]
    return evaluate_named(
        name, arrays, [type] * len(arrays), [type if result is None else result], attributes
    )[0]


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal bits, any NaN equal to any other."""
    assert a.dtype == b.dtype
    word = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.all((a.view(word) == b.view(word)) | ((a != a) & (b != b))))


# -- one rounding: exact rational arithmetic as the oracle --------------------------------------------

PRECISION = {"f16": (11, -24, 15), "bf16": (8, -133, 127), "f32": (24, -149, 127)}


def rounded(exact: Fraction, type: FloatType) -> float:
    """Nearest-even rounding of a rational number to an IEEE-like format, by the definition."""
    bits, lowest, highest = PRECISION[type.name]
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    quantum = Fraction(2) ** max(exponent - bits + 1, lowest)
    steps, rest = divmod(magnitude, quantum)
    if rest * 2 > quantum or (rest * 2 == quantum and steps % 2):
        steps += 1
    value = steps * quantum
    if value >= Fraction(2) ** (highest + 1):
        return math.copysign(math.inf, exact)
    return math.copysign(float(value), exact)


def numbers(type: FloatType) -> st.SearchStrategy[Any]:
    """Finite numbers of a format by bit pattern: all magnitudes, subnormals included."""
    held = held_dtype(type)
    word = np.dtype(f"u{held.itemsize}")

    def build(bits: int) -> Any:
        return np.asarray(bits, word).view(held)

    return st.integers(0, 2 ** (8 * held.itemsize) - 1).map(build).filter(lambda v: np.isfinite(v))


OPERATIONS = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b,
}


@pytest.mark.parametrize("type", [F16, BF16, F32], ids=["f16", "bf16", "f32"])
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_one_rounding(name: str, type: FloatType) -> None:
    @given(numbers(type), numbers(type))
    def check(a: Any, b: Any) -> None:
        x, y = Fraction(float(a)), Fraction(float(b))
        if name == "arith.divf" and y == 0:
            return
        got = call(name, a, b, type=type)
        assert float(got) == rounded(OPERATIONS[name](x, y), type)

    check()


@pytest.mark.parametrize("type", [F16, BF16, F32], ids=["f16", "bf16", "f32"])
def test_fma_rounds_once(type: FloatType) -> None:
    @given(numbers(type), numbers(type), numbers(type))
    def check(a: Any, b: Any, c: Any) -> None:
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert float(call("math.fma", a, b, c, type=type)) == rounded(exact, type)

    check()


def test_fma_where_two_roundings_differ() -> None:
    """2^24 * (1 + 2^-23) + (half an ulp + a bit): rounding the product first would lose the bit."""
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-(1 + 2**-11))
    assert call("math.fma", a, b, c, type=F32) == np.float32(2**-24)
    d = np.float64(1 + 2**-30)
    assert call("math.fma", d, d, np.float64(-(1 + 2**-29)), type=F64) == 2.0**-60


def test_f16_against_numpy_on_all_pairs_of_a_sample() -> None:
    """NumPy's half arithmetic is a second implementation of the same rule."""
    values = np.random.default_rng(7).integers(0, 1 << 16, 700, dtype=np.uint16).view(np.float16)
    values[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504]
    a, b = values[:, None], values[None, :]
    with np.errstate(all="ignore"):
        for name, function in (
            ("addf", np.add),
            ("subf", np.subtract),
            ("mulf", np.multiply),
            ("divf", np.divide),
        ):
            assert same(call(f"arith.{name}", a, b), function(a, b))


def test_sqrt_of_every_half_rounds_once() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    got = call("math.sqrt", values)
    positive = np.isfinite(values) & (values > 0)
    x = values[positive].astype(np.float64)
    y = got[positive].astype(np.float64)
    above = np.nextafter(got[positive], np.float16(np.inf)).astype(np.float64)
    below = np.nextafter(got[positive], np.float16(0)).astype(np.float64)
    # The root lies between the midpoints to both neighbours; squares of 13-bit midpoints are exact.
    assert np.all(((y + above) / 2) ** 2 >= x)
    assert np.all(((y + below) / 2) ** 2 <= x)


# -- special values -----------------------------------------------------------------------------------

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("type", [F16, BF16, F32, F64, FloatType("f8E5M2")])
def test_minimum_and_maximum(type: FloatType) -> None:
    """maximumf propagates NaN and orders the zeros; maxnumf drops a NaN."""
    held = held_dtype(type)
    a = np.array([1, NAN, 2, NAN, -0.0, 0.0, -INF, -0.0]).astype(held)
    b = np.array([2, 1, NAN, NAN, 0.0, -0.0, INF, -0.0]).astype(held)
    as_f64 = {
        name: call(f"arith.{name}", a, b, type=type).astype(np.float64)
        for name in ("maximumf", "minimumf", "maxnumf", "minnumf")
    }
    assert same(as_f64["maximumf"], np.array([2, NAN, NAN, NAN, 0.0, 0.0, INF, -0.0]))
    assert same(as_f64["minimumf"], np.array([1, NAN, NAN, NAN, -0.0, -0.0, -INF, -0.0]))
    assert same(as_f64["maxnumf"], np.array([2, 1, 2, NAN, 0.0, 0.0, INF, -0.0]))
    assert same(as_f64["minnumf"], np.array([1, 1, 2, NAN, -0.0, -0.0, -INF, -0.0]))


def test_negf_flips_the_sign_of_everything() -> None:
    bits = np.array([0x0000, 0x8000, 0x7C00, 0x7E01, 0x3C00], np.uint16)
    assert list(call("arith.negf", bits.view(np.float16)).view(np.uint16)) == [int(b) ^ 0x8000 for b in bits]
    assert list(call("arith.negf", bits, type=DF16)) == [int(b) ^ 0x8000 for b in bits]


def test_float_predicates() -> None:
    a = np.float32([1, 1, 2, NAN, 1])
    b = np.float32([1, 2, 1, 1, NAN])
    truth = {
        "false": "00000", "oeq": "10000", "ogt": "00100", "oge": "10100", "olt": "01000", "ole": "11000",
        "one": "01100", "ord": "11100", "ueq": "10011", "ugt": "00111", "uge": "10111", "ult": "01011",
        "ule": "11011", "une": "01111", "uno": "00011", "true": "11111",
    }  # fmt: skip
    for name, expected in truth.items():
        got = call("arith.cmpf", a, b, type=F32, result=I1, predicate=PREDICATE[name])
        assert "".join(str(int(v)) for v in got) == expected, name


def test_select_moves_bits() -> None:
    yes, no = np.array([0x7E01, 0x0001], np.uint16).view(np.float16), np.float16([3, 4])
    got = evaluate_named("arith.select", [np.array([True, False]), yes, no], [I1, F16, F16], [F16])[0]
    assert list(got.view(np.uint16)) == [0x7E01, 0x4400]


# -- integers -----------------------------------------------------------------------------------------


def wrapped(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


def unsigned(value: int, width: int) -> int:
    return value & ((1 << width) - 1)


INTEGERS: dict[str, Any] = {
    "addi": lambda a, b, w: a + b,
    "subi": lambda a, b, w: a - b,
    "muli": lambda a, b, w: a * b,
    "andi": lambda a, b, w: a & b,
    "ori": lambda a, b, w: a | b,
    "xori": lambda a, b, w: a ^ b,
    "maxsi": lambda a, b, w: max(a, b),
    "minsi": lambda a, b, w: min(a, b),
    "maxui": lambda a, b, w: max(unsigned(a, w), unsigned(b, w)),
    "minui": lambda a, b, w: min(unsigned(a, w), unsigned(b, w)),
    "divui": lambda a, b, w: unsigned(a, w) // unsigned(b, w),
    "remui": lambda a, b, w: unsigned(a, w) % unsigned(b, w),
    "ceildivui": lambda a, b, w: -(-unsigned(a, w) // unsigned(b, w)),
    "divsi": lambda a, b, w: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "remsi": lambda a, b, w: int(math.copysign(1, a)) * (abs(a) % abs(b)),
    "ceildivsi": lambda a, b, w: -(-a // b),
    "floordivsi": lambda a, b, w: a // b,
}
EDGES = {
    w: [-(1 << (w - 1)), -(1 << (w - 1)) + 1, -2, -1, 0, 1, 2, (1 << (w - 1)) - 1] for w in (8, 16, 32, 64)
}


@pytest.mark.parametrize("type", [I8, I16, I32, I64, INDEX])
@pytest.mark.parametrize("name", sorted(INTEGERS))
def test_integer_arithmetic(name: str, type: Type) -> None:
    """Wrap-around, signedness, rounding of quotients: against Python integers (ktir spec 3.2)."""
    width = type.width if isinstance(type, IntegerType) else 64
    rng = np.random.default_rng(3)
    some = EDGES[width] + [int(v) for v in rng.integers(-(1 << (width - 1)), 1 << (width - 1), 6)]
    divides = "div" in name or "rem" in name
    pairs = [
        (a, b)
        for a in some
        for b in some
        if not divides or (b != 0 and not (a == -(1 << (width - 1)) and b == -1))
    ]
    held = held_dtype(type)
    a = np.array([p[0] for p in pairs], held)
    b = np.array([p[1] for p in pairs], held)
    got = call(f"arith.{name}", a, b, type=type)
    assert [int(v) for v in got] == [wrapped(INTEGERS[name](x, y, width), width) for x, y in pairs]


@pytest.mark.parametrize("name", ["divui", "divsi", "remui", "remsi", "ceildivsi", "floordivsi", "ceildivui"])
def test_division_by_zero_is_a_fault(name: str) -> None:
    with pytest.raises(ArithmeticFault, match="division by zero") as caught:
        call(f"arith.{name}", np.int32([4, 6]), np.int32([2, 0]), type=I32)
    assert caught.value.operands == (6, 0)
    assert caught.value.site.operation == f"arith.{name}"


def test_quotient_that_does_not_fit_is_a_fault() -> None:
    with pytest.raises(ArithmeticFault, match="overflows"):
        call("arith.divsi", np.int8([-128]), np.int8([-1]), type=I8)


def test_shifts() -> None:
    a = np.int8([1, -128, -1, 64, 5])
    by = np.int8([1, 7, 3, 1, 8])
    assert list(call("arith.shli", a, by, type=I8)) == [2, 0, -8, -128, 0]
    assert list(call("arith.shrui", a, by, type=I8)) == [0, 1, 31, 32, 0]
    assert list(call("arith.shrsi", a, by, type=I8)) == [0, -1, -1, 32, 0]


def test_integer_predicates() -> None:
    a, b = np.int8([1, -1, 1]), np.int8([1, 1, -1])
    truth = {"eq": "100", "ne": "011", "slt": "010", "sle": "110", "sgt": "001", "sge": "101", "ult": "001",
             "ule": "101", "ugt": "010", "uge": "110"}  # fmt: skip
    for name, expected in truth.items():
        got = call("arith.cmpi", a, b, type=I8, result=I1, predicate=INTEGER_PREDICATE[name])
        assert "".join(str(int(v)) for v in got) == expected, name


def test_booleans_are_one_bit_integers() -> None:
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert list(call("arith.addi", a, b, type=I1)) == [False, True, False]
    assert list(call("arith.muli", a, b, type=I1)) == [True, False, False]
    assert list(call("arith.maxsi", a, b, type=I1)) == [True, False, False]  # true is -1
    less = call("arith.cmpi", a, b, type=I1, result=I1, predicate=INTEGER_PREDICATE["slt"])
    assert list(less) == [False, True, False]


# -- casts --------------------------------------------------------------------------------------------


def cast(name: str, values: Any, source: Type, target: Type) -> Any:
    return evaluate_named(f"arith.{name}", [np.asarray(values)], [source], [target])[0]


def test_integer_casts() -> None:
    assert list(cast("extsi", np.int8([-1, 5]), I8, I32)) == [-1, 5]
    assert list(cast("extui", np.int8([-1, 5]), I8, I32)) == [255, 5]
    assert list(cast("trunci", np.int32([-1, 0x1FF, 2]), I32, I8)) == [-1, -1, 2]
    assert list(cast("trunci", np.int32([2, 3]), I32, I1)) == [False, True]
    assert list(cast("extsi", np.array([True]), I1, I32)) == [-1]
    assert list(cast("extui", np.array([True]), I1, I32)) == [1]
    assert list(cast("index_cast", np.int32([-3]), I32, INDEX)) == [-3]
    assert list(cast("index_castui", np.int32([-3]), I32, INDEX)) == [2**32 - 3]


def test_float_to_integer_truncates_and_saturates() -> None:
    values = np.float32([2.9, -2.9, 1e30, -1e30, NAN, INF, -INF])
    assert list(cast("fptosi", values, F32, I8)) == [2, -2, 127, -128, 0, 127, -128]
    assert list(cast("fptosi", values, F32, I64)) == [2, -2, 2**63 - 1, -(2**63), 0, 2**63 - 1, -(2**63)]
    assert list(cast("fptoui", values, F32, I8).view(np.uint8)) == [2, 0, 255, 0, 0, 255, 0]
    assert list(cast("fptoui", values, F32, I64).view(np.uint64)) == [2, 0, 2**64 - 1, 0, 0, 2**64 - 1, 0]


@given(st.integers(-(2**63), 2**63 - 1))
def test_integer_to_float_rounds_once(value: int) -> None:
    for type in (F32, BF16):
        got = cast("sitofp", np.asarray(value, np.int64), I64, type)
        assert float(got) == rounded(Fraction(value), type)
        as_unsigned = cast("uitofp", np.asarray(value, np.int64), I64, type)
        assert float(as_unsigned) == rounded(Fraction(value % 2**64), type)


def test_integer_to_float_just_above_a_tie() -> None:
    assert float(cast("sitofp", np.int64([2**60 + 2**52 + 1]), I64, BF16)[0]) == 2.0**60 + 2.0**53
    assert float(cast("sitofp", np.array([True]), I1, F16)[0]) == -1.0
    assert float(cast("uitofp", np.array([True]), I1, F16)[0]) == 1.0


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_truncf_from_f64_rounds_once(value: float) -> None:
    for type in (F16, BF16, F32):
        got = cast("truncf", np.asarray(value), F64, type)
        assert float(got) == rounded(Fraction(value), type)


def test_truncf_to_bf16_is_not_rounded_twice() -> None:
    """The value lies above a tie of bf16 by less than float32 can tell."""
    assert float(cast("truncf", np.float64(1 + 2.0**-8 + 2.0**-40), F64, BF16)) == 1 + 2.0**-7


def test_extf_is_exact_for_every_half() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert same(cast("extf", values, F16, F32), values.astype(np.float32))


def test_bitcast() -> None:
    assert list(cast("bitcast", np.float16([1.0]), F16, I16)) == [0x3C00]
    assert list(cast("bitcast", np.int16([0x3C00]), I16, F16)) == [1.0]
    with pytest.raises(UnsupportedError, match="differ in width"):
        cast("bitcast", np.float16([1.0]), F16, I32)


# -- DLFloat16 ----------------------------------------------------------------------------------------


def test_dlfloat_arithmetic_rounds_ties_away() -> None:
    one, half_ulp = dlfloat.encode([1.0]), dlfloat.encode([2.0**-10])
    assert list(call("arith.addf", one, half_ulp, type=DF16)) == [0x3E01]
    assert list(call("arith.divf", one, dlfloat.encode([0.0]), type=DF16)) == [0x7FFF]


def test_f16_that_means_dlfloat() -> None:
    a, b = dlfloat.encode([1.5, 60000.0]), dlfloat.encode([0.25, 60000.0])
    got = evaluate_named("arith.addf", [a, b], [F16, F16], [F16], f16_format=F16Format.DLFLOAT)[0]
    assert got.dtype == np.uint16
    assert list(dlfloat.decode(got)) == [1.75, 119936.0] or list(dlfloat.decode(got)) == [1.75, 120064.0]


def test_constants() -> None:
    assert constant_array(IntegerAttr(-3, I16)).dtype == np.int16
    assert constant_array(FloatAttr.of(-2.5, BF16)) == ml_dtypes.bfloat16(-2.5)
    assert list(constant_array(DenseElementsAttr(b"\x00\x3c", TensorType((3,), F16), True))) == [1, 1, 1]
    code = constant_array(FloatAttr.of(0.1, F16), F16Format.DLFLOAT)
    assert code.dtype == np.uint16
    assert int(code) == 0x3733


# -- functions ----------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    name: getattr(math, name)
    for name in ("exp", "log", "log10", "log2", "sin", "cos", "tan", "tanh", "sinh", "cosh", "erf", "expm1",
                 "log1p", "atan", "asin", "acos", "sqrt", "exp2", "cbrt")
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("type", [F16, F32, BF16])
def test_functions_against_libm(name: str, type: FloatType) -> None:
    """Correct to one ulp of the element type (and mostly exactly the rounded value)."""
    held = held_dtype(type)
    values = np.linspace(0.0625, 0.9375, 97).astype(held)
    got = call(f"math.{name}", values, type=type)
    expected = np.array([FUNCTIONS[name](float(v)) for v in values]).astype(np.float32).astype(held)
    word = np.dtype(f"u{held.itemsize}")
    assert np.max(np.abs(got.view(word).astype(np.int64) - expected.view(word).astype(np.int64))) <= 1


def test_functions_do_not_depend_on_layout() -> None:
    values = np.random.default_rng(1).normal(size=(64, 9)).astype(np.float32)
    for name in ("exp", "sin", "tanh", "log1p", "rsqrt"):
        dense = call(f"math.{name}", values, type=F32)
        assert same(call(f"math.{name}", values[:, ::3], type=F32), np.ascontiguousarray(dense[:, ::3]))
        assert same(call(f"math.{name}", values.T, type=F32), np.ascontiguousarray(dense.T))
        assert same(call(f"math.{name}", values[5, 5], type=F32), dense[5, 5])


def test_rounding_functions() -> None:
    values = np.float32([2.5, -2.5, 0.5, -0.5, 1.5, -0.2, 0.49999997])
    assert same(call("math.round", values, type=F32), np.float32([3, -3, 1, -1, 2, -0.0, 0]))
    assert same(call("math.roundeven", values, type=F32), np.float32([2, -2, 0, -0.0, 2, -0.0, 0]))
    assert same(call("math.floor", values, type=F32), np.float32([2, -3, 0, -1, 1, -1, 0]))
    assert same(call("math.ceil", values, type=F32), np.float32([3, -2, 1, -0.0, 2, -0.0, 1]))
    assert same(call("math.trunc", values, type=F32), np.float32([2, -2, 0, -0.0, 1, -0.0, 0]))


# -- the table itself ---------------------------------------------------------------------------------


def test_every_elementwise_operation_of_arith_and_math_has_a_meaning() -> None:
    from ktir.dialects import math as math_dialect

    known = set(meanings())
    expected = {
        op.definition.name for dialect in (arith.DIALECT, math_dialect.DIALECT) for op in dialect.operations
    } - {"arith.constant"}
    assert expected <= known
    assert has_meaning(arith.AddF)


def test_unknown_operation() -> None:
    with pytest.raises(UnsupportedError, match=r"operation 'nn\.softmax' has no element-wise meaning"):
        call("nn.softmax", np.float16([1]))
    with pytest.raises(UnsupportedError, match="i7"):
        call("arith.addi", np.int8([1]), np.int8([1]), type=IntegerType(7))


# -- device intrinsics --------------------------------------------------------------------------------


def test_intrinsics() -> None:
    """checklist 96"""
    assert float(call("spyreop.silu", np.float16(1), type=F16)) == float(np.float16(0.7310586))
    assert float(call("spyreop.gelu", np.float16(1), type=F16)) == float(np.float16(0.8413447))
    assert float(call("spyreop.sigmoid", np.float32(0), type=F32)) == 0.5
    assert float(call("spyreop.reciprocal", np.float32(4), type=F32)) == 0.25


def test_intrinsic_compare_and_select() -> None:
    from ktir.dialects.spyreop import CompareKind, CompareKindAttr

    a, b = np.float16([1, 2, NAN]), np.float16([1, 1, 1])
    for kind, expected in ((CompareKind.GREATEREQUAL, [1, 1, 0]), (CompareKind.NOTEQUAL, [0, 1, 1])):
        got = evaluate_named("spyreop.compare", [a, b], [F16, F16], [F16], {"kind": CompareKindAttr(kind)})[0]
        assert got.tolist() == expected
    chosen = evaluate_named("spyreop.select", [np.float16([0, 2, NAN]), a, b], [F16] * 3, [F16])[0]
    assert np.array_equal(chosen, np.float16([1, 2, NAN]), equal_nan=True)


def test_idx32toaddr() -> None:
    """checklist 95"""
    values = [np.int32([7]), np.int32([4096]), np.int32([128])]
    assert evaluate_named("spyreop.idx32toaddr", values, [I32] * 3, [I32])[0] == [4992]
    attributes = {"base": IntegerAttr(4096, I32), "stride": IntegerAttr(128, I32)}
    assert evaluate_named("spyreop.idx32toaddr", values[:1], [I32], [I32], attributes)[0] == [4992]
