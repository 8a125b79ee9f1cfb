"""What each element-wise operation means in NumPy, in one table.

Every operation has one rounding, to the dtype of its operands; integers wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from rangeify.errors import ArgumentError, ConstantError, UnsupportedError
from rangeify.storage import Array, numpy_dtype
from uopgraph import DType, Ops, UOp, dtypes

_Function = Callable[..., Any]


def host_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which values of `dtype` are computed; index arithmetic (the weak integer) in
    int64.
    """
    if dtype is dtypes.weakint:
        return np.dtype(np.int64)
    return np.dtype(np.float32) if dtype is dtypes.weakfloat else numpy_dtype(dtype)


def _rounded_once(function: _Function) -> _Function:
    """Compute a function of floats in float64 and round to the operand's dtype."""

    def call(x: Array) -> Any:
        return function(x.astype(np.float64)).astype(x.dtype)

    return call


def _rsqrt(x: Array) -> Any:
    return 1.0 / np.sqrt(x)


_erf: Final = np.vectorize(math.erf, otypes=[np.float64])


def _floor_divide(a: Array, b: Array) -> Any:
    return np.where(b == 0, np.zeros_like(a), np.floor_divide(a, np.where(b == 0, np.ones_like(b), b)))


def _floor_mod(a: Array, b: Array) -> Any:
    return a - _floor_divide(a, b) * b


def _trunc_divide(a: Array, b: Array) -> Any:
    quotient = _floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)


def _trunc_mod(a: Array, b: Array) -> Any:
    return a - _trunc_divide(a, b) * b


def _add(a: Array, b: Array) -> Any:
    return np.logical_or(a, b) if a.dtype == np.bool_ else np.add(a, b)


def _mul(a: Array, b: Array) -> Any:
    return np.logical_and(a, b) if a.dtype == np.bool_ else np.multiply(a, b)


def _where(c: Array, a: Array, b: Array) -> Any:
    return np.where(c, a, b)


def _muladd(a: Array, b: Array, c: Array) -> Any:
    return a * b + c


FUNCTIONS: Final[dict[Ops, _Function]] = {
    Ops.ADD: _add,
    Ops.SUB: np.subtract,
    Ops.MUL: _mul,
    Ops.FDIV: np.divide,
    Ops.FMOD: np.fmod,
    Ops.MAX: np.maximum,
    Ops.FLOORDIV: _floor_divide,
    Ops.FLOORMOD: _floor_mod,
    Ops.CDIV: _trunc_divide,
    Ops.CMOD: _trunc_mod,
    Ops.POW: np.power,
    Ops.ATAN2: np.arctan2,
    Ops.CMPLT: np.less,
    Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
    Ops.WHERE: _where,
    Ops.MULACC: _muladd,
    Ops.NEG: np.negative,
    Ops.RECIPROCAL: np.reciprocal,
    Ops.SQRT: np.sqrt,
    Ops.RSQRT: _rounded_once(_rsqrt),
    Ops.EXP: np.exp,
    Ops.EXP2: np.exp2,
    Ops.EXPM1: np.expm1,
    Ops.LOG: np.log,
    Ops.LOG2: np.log2,
    Ops.LOG1P: np.log1p,
    Ops.SIN: np.sin,
    Ops.COS: np.cos,
    Ops.TAN: np.tan,
    Ops.ASIN: np.arcsin,
    Ops.ACOS: np.arccos,
    Ops.ATAN: np.arctan,
    Ops.SINH: np.sinh,
    Ops.COSH: np.cosh,
    Ops.TANH: np.tanh,
    Ops.ASINH: np.arcsinh,
    Ops.ACOSH: np.arccosh,
    Ops.ATANH: np.arctanh,
    Ops.ERF: _rounded_once(_erf),
    Ops.TRUNC: np.trunc,
    Ops.FLOOR: np.floor,
    Ops.CEIL: np.ceil,
    Ops.ROUND_EVEN: np.rint,
}


def _bit_cast(array: Array, target: np.dtype[Any]) -> Array:
    """The same bytes; another item size rescales the last axis."""
    shape = array.shape
    if target.itemsize != array.dtype.itemsize:
        shape = (*shape[:-1], shape[-1] * array.dtype.itemsize // target.itemsize)
    return np.ascontiguousarray(array).view(target).reshape(shape)


def apply(node: UOp, operands: list[Array]) -> Array:
    """The value of the element-wise operation `node` on arrays that broadcast together."""
    target = host_dtype(node.dtype)
    match node.op:
        case Ops.CAST:
            return operands[0].astype(target)
        case Ops.BITCAST:
            return _bit_cast(operands[0], target)
    function = FUNCTIONS.get(node.op)
    if function is None:
        raise UnsupportedError(f"execution of {node.op.name}")
    try:
        return np.asarray(function(*operands)).astype(target, copy=False)
    except ValueError:
        if node.op is not Ops.POW:
            raise
        raise ArgumentError("an integer to the power of a negative one") from None


def constant(node: UOp) -> Array:
    """The value of a CONST as a 0-d array; the poisonous constant reads as 0 and is never used.

    Raises :class:`ConstantError` for one without a width that no integer of the executor holds."""
    try:
        return np.asarray(0 if node.is_invalid else node.arg, dtype=host_dtype(node.dtype))
    except OverflowError:
        raise ConstantError(f"{node.arg!s:.40} is out of range for {host_dtype(node.dtype)}") from None
