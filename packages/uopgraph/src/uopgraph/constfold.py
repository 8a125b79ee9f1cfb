"""The value of an operation on constants, exactly as the dtype computes it.

Integers wrap, floats round once. Only operations that IEEE 754 rounds correctly are folded by default, so
that a folded constant equals the computed value bit for bit; transcendental functions are folded with
``fast=True``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from uopgraph.dtype import (
    ConstFloat,
    ConstValue,
    DType,
    Invalid,
    bitcast,
    dtypes,
    least_upper_dtype,
    truncate,
)
from uopgraph.errors import DTypeError
from uopgraph.ops import GroupOp, Ops


def trunc_div(a: int, b: int) -> int:
    """Integer division toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def float_div(a: float, b: float) -> float:
    """IEEE division in double precision."""
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _integral(function: Callable[[float], int]) -> Callable[[float], float]:
    def rounded(x: float) -> float:
        return math.copysign(float(function(x)), x) if math.isfinite(x) else x

    return rounded


_ROUNDING: Final[dict[Ops, Callable[[float], float]]] = {
    Ops.TRUNC: _integral(math.trunc),
    Ops.FLOOR: _integral(math.floor),
    Ops.CEIL: _integral(math.ceil),
    Ops.ROUND_EVEN: _integral(round),
}

_FUNCTIONS: Final[dict[Ops, Callable[[float], float]]] = {
    Ops.EXP: math.exp,
    Ops.EXP2: lambda x: 2.0**x,
    Ops.EXPM1: math.expm1,
    Ops.LOG: lambda x: -math.inf if x == 0 else math.log(x),
    Ops.LOG2: lambda x: -math.inf if x == 0 else math.log2(x),
    Ops.LOG1P: lambda x: -math.inf if x == -1 else math.log1p(x),
    Ops.SIN: math.sin,
    Ops.COS: math.cos,
    Ops.TAN: math.tan,
    Ops.ASIN: math.asin,
    Ops.ACOS: math.acos,
    Ops.ATAN: math.atan,
    Ops.SINH: math.sinh,
    Ops.COSH: math.cosh,
    Ops.TANH: math.tanh,
    Ops.ASINH: math.asinh,
    Ops.ACOSH: math.acosh,
    Ops.ATANH: lambda x: math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x),
    Ops.ERF: math.erf,
    Ops.RSQRT: lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x),
}


def _function(op: Ops, x: float) -> float:
    try:
        return _FUNCTIONS[op](x)
    except ValueError:
        return math.nan
    except OverflowError:
        return -math.inf if op is Ops.SINH and x < 0 else math.inf


def fold(
    op: Ops, dtype: DType, src_dtypes: Sequence[DType], values: Sequence[ConstValue], fast: bool = False
) -> ConstValue | None:
    """The constant ``op(*values)`` of `dtype`, or None when it is not folded (division by zero, a negative
    shift, a float that has no integer value, maximum of zeros of both signs, transcendental functions)."""
    if any(v is Invalid for v in values):
        return None
    if op is Ops.CAST:
        return _cast(values[0], dtype)
    if op is Ops.BITCAST:
        try:
            return bitcast(values[0], src_dtypes[0], dtype)
        except DTypeError:
            return None
    if op is Ops.WHERE:
        return _cast(values[1] if values[0] else values[2], dtype)
    if op in GroupOp.Shift:
        common = src_dtypes[0]
        x: list[Any] = [truncate(values[0], common), values[1]]
    elif len(src_dtypes) == 1:
        common = dtype if op in GroupOp.Transcendental else src_dtypes[0]
        x = [truncate(values[0], common)]
    else:
        common = least_upper_dtype(*src_dtypes)
        x = [truncate(v, common) for v in values]
    if op in GroupOp.Comparison:
        a, b = (float(v) for v in x) if common.is_float else x
        return bool(a < b if op is Ops.CMPLT else a != b if op is Ops.CMPNE else a == b)
    if common.is_float:
        result = _fold_float(op, [float(v) for v in x], fast)
    elif common is dtypes.bool:
        result = _fold_bool(op, x)
    else:
        result = _fold_int(op, x, common)
    return None if result is None else truncate(result, dtype)


def _cast(value: ConstValue, dtype: DType) -> ConstValue | None:
    if isinstance(value, float) and not dtype.is_float and dtype is not dtypes.bool:
        if not math.isfinite(value):
            return None
        whole = math.trunc(value)
        return whole if dtype.min <= whole <= dtype.max else None
    return truncate(value, dtype)


def _fold_float(op: Ops, x: list[float], fast: bool) -> float | None:
    match op:
        case Ops.ADD:
            return x[0] + x[1]
        case Ops.SUB:
            return x[0] - x[1]
        case Ops.MUL:
            return x[0] * x[1]
        case Ops.FDIV:
            return float_div(x[0], x[1])
        case Ops.FMOD:
            undefined = any(map(math.isnan, x)) or math.isinf(x[0]) or x[1] == 0
            return math.nan if undefined else math.fmod(x[0], x[1])
        case Ops.RECIPROCAL:
            return float_div(1.0, x[0])
        case Ops.NEG:
            return -x[0]
        case Ops.SQRT:
            return math.nan if math.isnan(x[0]) or x[0] < 0 else math.sqrt(x[0])
        case Ops.MAX:
            if math.isnan(x[0]) or math.isnan(x[1]):
                return math.nan
            return None if x[0] == x[1] == 0.0 and ConstFloat(x[0]) != ConstFloat(x[1]) else max(x)
        case _ if op in _ROUNDING:
            return _ROUNDING[op](x[0])
        case _ if op in _FUNCTIONS and fast:
            return _function(op, x[0])
        case Ops.ATAN2 if fast:
            return math.atan2(x[0], x[1])
        case Ops.POW if fast:
            try:
                return math.pow(x[0], x[1])
            except (OverflowError, ValueError):
                return None
        case _:
            return None


def _fold_bool(op: Ops, x: list[Any]) -> bool | None:
    match op:
        case Ops.ADD | Ops.OR | Ops.MAX:
            return bool(x[0] or x[1])
        case Ops.MUL | Ops.AND:
            return bool(x[0] and x[1])
        case Ops.XOR:
            return bool(x[0] != x[1])
        case _ if op in _ROUNDING:
            return bool(x[0])
        case _:
            return None


def _fold_int(op: Ops, x: list[Any], dtype: DType) -> int | None:
    a = int(x[0])
    b = int(x[1]) if len(x) > 1 else 0
    match op:
        case Ops.ADD:
            return a + b
        case Ops.SUB:
            return a - b
        case Ops.MUL:
            return a * b
        case Ops.NEG:
            return -a
        case Ops.MAX:
            return max(a, b)
        case Ops.AND:
            return a & b
        case Ops.OR:
            return a | b
        case Ops.XOR:
            return a ^ b
        case Ops.SHL if b >= 0:
            return (0 if b >= dtype.bitsize else a << b) if not dtype.is_weak else a << min(b, 4096)
        case Ops.SHR if b >= 0:
            return a >> min(b, 4096)
        case Ops.FLOORDIV if b:
            return a // b
        case Ops.FLOORMOD if b:
            return a % b
        case Ops.CDIV if b:
            return trunc_div(a, b)
        case Ops.CMOD if b:
            return a - trunc_div(a, b) * b
        case Ops.MULACC:
            return a * b + int(x[2])
        case Ops.POW if b >= 0 and not dtype.is_weak:
            return pow(a, b, 1 << dtype.bitsize)
        case Ops.POW if 0 <= b <= 4096:
            return int(a**b)
        case _ if op in _ROUNDING:
            return a
        case _:
            return None
