"""Casts of ``arith`` (ktir spec 3.2).

Float to integer truncates to zero; what does not fit saturates and NaN gives 0 (MLIR leaves both open).
Integer to float rounds once, to nearest even.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ktir.dialects import arith
from ktir.types import bit_width
from spyresim.errors import UnsupportedError
from spyresim.meaning.formats import Array, FloatFormat, integer_width
from spyresim.meaning.integers import to_signed, to_unsigned, wrap
from spyresim.meaning.table import Call, meaning

__all__ = ["float_to_float", "float_to_integer", "integer_to_float"]


def float_to_float(values: Array, source: FloatFormat, target: FloatFormat) -> Array:
    """Exact where the target is wider, otherwise one rounding."""
    if source == target:
        return values
    return target.narrow(source.widen(values))


@meaning(arith.ExtF, arith.TruncF)
def resize_float(call: Call) -> Array:
    return float_to_float(call.operands[0], call.floats, call.result_floats)


@meaning(arith.ExtSI, arith.IndexCast)
def resize_signed(call: Call) -> Array:
    """To a wider or narrower integer, sign-extended or cut."""
    return wrap(to_signed(call.operands[0], call.operand_types[0]), call.result_dtype)


@meaning(arith.ExtUI, arith.IndexCastUI, arith.TruncI)
def resize_unsigned(call: Call) -> Array:
    """To a wider or narrower integer, zero-extended or cut."""
    return wrap(to_unsigned(call.operands[0], call.operand_types[0]), call.result_dtype)


def integer_to_float(values: Array, target: FloatFormat) -> Array:
    """Integers (any dtype, read as its numbers) to a float format, one rounding."""
    if target.wide == np.float64 and not target.is_dlfloat:
        return values.astype(np.float64)
    if values.dtype.itemsize < 8:
        return target.narrow(values.astype(np.float64))  # exact in binary64
    negative = values < 0
    bits = values.view(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - bits, bits)
    low = magnitude & np.uint64(0x7FF)
    sticky = (magnitude & ~np.uint64(0x7FF)) | ((low != 0).astype(np.uint64) << np.uint64(11))
    # Above 2**53 the dropped bits only decide on which side of a tie the number lies: one bit says that.
    kept = np.where(magnitude >= np.uint64(1 << 53), sticky, magnitude).astype(np.float64)
    return target.narrow(np.where(negative, -kept, kept))


@meaning(arith.SIToFP)
def signed_to_float(call: Call) -> Array:
    return integer_to_float(to_signed(call.operands[0], call.operand_types[0]), call.result_floats)


@meaning(arith.UIToFP)
def unsigned_to_float(call: Call) -> Array:
    return integer_to_float(to_unsigned(call.operands[0], call.operand_types[0]), call.result_floats)


def float_to_integer(values: Array, width: int, signed: bool, held: np.dtype[Any]) -> Array:
    """binary64 numbers truncated to zero and saturated to `width` bits; NaN gives 0."""
    low = -(1 << (width - 1)) if signed else 0
    high = (1 << (width - 1)) - 1 if signed else (1 << width) - 1
    whole = np.trunc(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
    above, below = whole > float(high), whole < float(low)
    above |= whole >= 2.0 ** (width - 1 if signed else width)  # float(high) is rounded up for 64 bits
    inside = np.where(above | below, 0.0, whole)
    carrier: type[np.signedinteger[Any]] | type[np.unsignedinteger[Any]] = np.int64 if signed else np.uint64
    numbers = inside.astype(carrier)
    numbers = np.where(above, carrier(high), np.where(below, carrier(low), numbers))
    return wrap(numbers, held)


@meaning(arith.FPToSI)
def float_to_signed(call: Call) -> Array:
    values = call.floats.widen(call.operands[0]).astype(np.float64)
    return float_to_integer(values, integer_width(call.result_types[0]), True, call.result_dtype)


@meaning(arith.FPToUI)
def float_to_unsigned(call: Call) -> Array:
    values = call.floats.widen(call.operands[0]).astype(np.float64)
    return float_to_integer(values, integer_width(call.result_types[0]), False, call.result_dtype)


@meaning(arith.Bitcast)
def bitcast(call: Call) -> Array:
    """The same bits in another type of the same width."""
    (source,), (target,) = call.operand_types, call.result_types
    if bit_width(source) != bit_width(target):
        raise UnsupportedError(f"bitcast from {source} to {target}, which differ in width", call.site)
    return np.ascontiguousarray(call.operands[0]).view(call.result_dtype).reshape(call.operands[0].shape)
