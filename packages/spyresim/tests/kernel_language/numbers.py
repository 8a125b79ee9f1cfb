"""Element types and scalar arithmetic, from the words of the MLIR and KTIR references.

Integers are Python's own, wrapped to their width; ``i1`` is the one-bit integer whose set bit means -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np

Array = np.ndarray

DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
}
FLOATS = ("f16", "bf16", "f32")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64, "f16": 16, "bf16": 16, "f32": 32}
PRECISION = {
    "f16": (11, -24),
    "bf16": (8, -133),
    "f32": (24, -149),
}  # significant bits, exponent of the last one


def is_float(element: str) -> bool:
    return element in FLOATS


def wrap(value: int, element: str) -> int:
    """Two's complement of the element's width."""
    width = WIDTHS[element]
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def unsigned(value: int, element: str) -> int:
    return value & ((1 << WIDTHS[element]) - 1)


def integers(array: Array, element: str) -> list[int]:
    """The elements as Python integers; a set ``i1`` is -1."""
    return [-int(x) if element == "i1" else int(x) for x in array.reshape(-1)]


def from_integers(values: list[int], element: str, shape: tuple[int, ...]) -> Array:
    wrapped = [wrap(v, element) for v in values]
    if element == "i1":
        return np.array([v != 0 for v in wrapped], np.bool_).reshape(shape)
    return np.array(wrapped, DTYPES[element]).reshape(shape)


def nearest(value: Fraction | int, element: str) -> float:
    """A rational number rounded to nearest, ties to even (overflow to infinity)."""
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    bits, smallest = PRECISION[element]
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    ulp = Fraction(2) ** max(exponent - bits + 1, smallest)
    rounded = float(round(magnitude / ulp) * ulp)  # `round` of a Fraction: ties to even
    largest = (
        float(np.finfo(DTYPES[element]).max) if element != "bf16" else float(ml_dtypes.finfo("bfloat16").max)
    )
    return math.copysign(math.inf if rounded > largest else rounded, exact)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


SIGNED: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": min,
    "maxsi": max,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {"minui": min, "maxui": max}
DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "divsi": _truncated,
    "remsi": lambda a, b: a - b * _truncated(a, b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
}
UNSIGNED_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
    "ceildivui": lambda a, b: -(-a // b),
}
SHIFTS = ("shli", "shrsi", "shrui")
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
CMPI = ("eq", "ne", *(f"{sign}{order}" for sign in "su" for order in ("lt", "le", "gt", "ge")))
CMPF = (
    "false",
    "true",
    "ord",
    "uno",
    *(f"{kind}{c}" for kind in "ou" for c in ("eq", "ne", "lt", "le", "gt", "ge")),
)
CMPF = tuple("one" if p == "one" else p for p in CMPF)


def integer_operation(name: str, a: int, b: int, element: str) -> int:
    """The value of ``arith.<name>`` before wrapping."""
    if name in SIGNED:
        return SIGNED[name](a, b)
    if name in DIVISIONS:
        return DIVISIONS[name](a, b)
    ua, ub = unsigned(a, element), unsigned(b, element)
    if name in UNSIGNED:
        return UNSIGNED[name](ua, ub)
    if name in UNSIGNED_DIVISIONS:
        return UNSIGNED_DIVISIONS[name](ua, ub)
    return {"shli": a << ub, "shrsi": a >> ub, "shrui": ua >> ub}[name]


def compare_integers(predicate: str, a: int, b: int, element: str) -> bool:
    if predicate.startswith("u"):
        a, b = unsigned(a, element), unsigned(b, element)
    return COMPARISONS[predicate[-2:]](a, b)


def compare_floats(predicate: str, a: Array, b: Array) -> Array:
    """``arith.cmpf``: the first letter says whether an unordered pair (a NaN) counts as true."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    loose = np.isnan(a) | np.isnan(b)
    match predicate:
        case "false":
            return np.zeros(a.shape, np.bool_)
        case "true":
            return np.ones(a.shape, np.bool_)
        case "ord":
            return ~loose
        case "uno":
            return loose
    kind, order = predicate[0], predicate[1:]
    table = {"eq": a == b, "ne": (a < b) | (a > b), "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    return np.asarray(table[order] | (loose if kind == "u" else False))


def extreme(a: Array, b: Array, largest: bool, keeps_nan: bool) -> Array:
    """IEEE 754 maximum and minimum (NaN wins, -0 < +0) or maximumNumber and minimumNumber (NaN loses)."""
    x, y = (np.where(v == 0, np.where(np.signbit(v), -1e-300, 1e-300), v.astype(np.float64)) for v in (a, b))
    first = (x >= y) if largest else (x <= y)
    result = np.where(first, a, b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if keeps_nan:
        result = np.where(nan_a, a, np.where(nan_b, b, result))
    else:
        result = np.where(nan_a, b, np.where(nan_b, a, result))
    return np.asarray(result.astype(a.dtype))


def float_operation(name: str, a: Array, b: Array) -> Array:
    """A two-operand operation on floats of one type: one rounding to that type."""
    match name:
        case "addf":
            return np.asarray(a + b)
        case "subf":
            return np.asarray(a - b)
        case "mulf":
            return np.asarray(a * b)
        case "divf":
            return np.asarray(a / b)
        case "maximumf" | "minimumf" | "maxnumf" | "minnumf":
            return extreme(a, b, name.startswith("max"), name.endswith("imumf"))
    raise ValueError(name)


def float_function(name: str, a: Array) -> Array:
    """A function whose result has one right value in every format."""
    wide = a.astype(np.float64)
    match name:
        case "negf":
            return np.asarray(-a)
        case "absf":
            return np.asarray(abs(a))
        case "sqrt":
            return np.asarray(np.sqrt(a))
        case "floor":
            result = np.floor(wide)
        case "ceil":
            result = np.ceil(wide)
        case "trunc":
            result = np.trunc(wide)
        case "roundeven":
            result = np.rint(wide)
        case "round":  # halves away from zero
            result = np.copysign(np.where(abs(wide) < 2.0**52, np.floor(abs(wide) + 0.5), abs(wide)), wide)
        case _:
            raise ValueError(name)
    return np.asarray(result.astype(a.dtype))


def same(a: Array, b: Array) -> bool:
    """Equal bit by bit, where every NaN is like every other."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    word = np.dtype(f"u{a.dtype.itemsize}")
    bits = np.ascontiguousarray(a).view(word) == np.ascontiguousarray(b).view(word)
    if a.dtype.kind in "biu":
        return bool(np.all(bits))
    return bool(np.all(bits | (np.isnan(a) & np.isnan(b))))
