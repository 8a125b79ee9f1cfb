"""Sound closed intervals of node values: vmin and vmax.

Strong integers wrap: an interval that leaves the dtype becomes the dtype's full range. Bounds of the weak
integer saturate at +-2**799. Floats have no interval arithmetic; only constants and maxima of them are known.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from uopgraph.dtype import DType, Invalid, InvalidType, dtypes, least_upper_dtype, truncate
from uopgraph.node import UOp, derived
from uopgraph.ops import GroupOp, Ops

Interval: TypeAlias = tuple[Any, Any]


def full(dtype: DType) -> Interval:
    """Every value of `dtype`; for void the meaningless (0, 0)."""
    return (0, 0) if dtype is dtypes.void else (dtype.min, dtype.max)


def fit(low: int, high: int, dtype: DType) -> Interval:
    """An exact integer interval as one of `dtype`: saturated for the weak integer, else full when it
    leaves."""
    if dtype is dtypes.weakint:
        return (min(max(low, dtype.min), dtype.max), max(min(high, dtype.max), dtype.min))
    return (low, high) if dtype.min <= low and high <= dtype.max else (dtype.min, dtype.max)


#: Where weak-integer bounds saturate: an end at +-SATURATED stands for "no bound".
SATURATED: Final = 2**799


def is_bounded(interval: Interval) -> bool:
    """True for a non-empty interval whose ends are real values, not saturation points."""
    low, high = interval
    return bool(-SATURATED < low <= high < SATURATED)


def cdiv(a: int, b: int) -> int:
    """Division that truncates toward zero, exact for any size."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def cmod(a: int, b: int) -> int:
    """The remainder of :func:`cdiv`."""
    return a - cdiv(a, b) * b


def _operand(node: UOp, dtype: DType) -> Interval:
    """The interval of `node` converted to the operation's operand dtype."""
    interval: Interval = node._cache["bounds"]
    if node.dtype is dtype:
        return interval
    return fit(int(interval[0]), int(interval[1]), dtype) if dtype is not dtypes.bool else full(dtype)


def _bits_hull(a: int, b: int, c: int, d: int) -> int:
    """All ones up to the greatest bit of two non-negative intervals."""
    return int((1 << max(b.bit_length(), d.bit_length())) - 1)


def _binary(op: Ops, x: Interval, y: Interval, dtype: DType) -> Interval | None:
    """The exact interval of an integer operation, or None when nothing is known."""
    (a, b), (c, d) = x, y
    if a > b or c > d:  # an empty range: no value at all
        return (0, 0) if op in (Ops.FLOORDIV, Ops.FLOORMOD) else None
    if dtype is dtypes.weakint and not (is_bounded(x) and is_bounded(y)):
        return _saturated(op, x, y)
    match op:
        case Ops.ADD:
            return (a + c, b + d)
        case Ops.SUB:
            return (a - d, b - c)
        case Ops.MUL:
            products = (a * c, a * d, b * c, b * d)
            return (min(products), max(products))
        case Ops.MAX:
            return (max(a, c), max(b, d))
        case Ops.AND:
            if a >= 0 and c >= 0:
                return (0, min(b, d))
            return (0, d) if c >= 0 else (0, b) if a >= 0 else None
        case Ops.OR if a >= 0 and c >= 0:
            return (max(a, c), _bits_hull(a, b, c, d))
        case Ops.XOR:
            if c == d == -1:
                return (~b, ~a)
            return (0, _bits_hull(a, b, c, d)) if a >= 0 and c >= 0 else None
        case Ops.SHL if c == d and 0 <= c < 2048:
            return (a << c, b << c)
        case Ops.SHR if c == d and c >= 0:
            return (a >> c, b >> c)
        case Ops.FLOORDIV if c > 0 or d < 0:
            quotients = (a // c, a // d, b // c, b // d)
            return (min(quotients), max(quotients))
        case Ops.CDIV if c > 0 or d < 0:
            quotients = (cdiv(a, c), cdiv(a, d), cdiv(b, c), cdiv(b, d))
            return (min(quotients), max(quotients))
        case Ops.FLOORMOD:
            return _floormod(x, y)
        case Ops.CMOD:
            return _cmod(x, y)
        case _:
            return None


def _saturated(op: Ops, x: Interval, y: Interval) -> Interval | None:
    """What is still known when an operand of the weak integer has no bound on some side."""
    (a, b), (c, d) = x, y
    if op is Ops.MAX:
        return (max(a, c), max(b, d))
    if op is Ops.FLOORMOD and c > 0 and d < SATURATED:
        return (0, d - 1)
    if op is Ops.AND and c >= 0:
        return (0, d)
    if op is Ops.ADD and a >= 0 and c >= 0:
        return (a + c, SATURATED)
    if op is Ops.MUL and a >= 0 and c >= 0:
        return (a * c, SATURATED)
    if op is Ops.FLOORDIV and a >= 0 and c > 0:
        return (0, b)
    return None


def _floormod(x: Interval, y: Interval) -> Interval | None:
    (a, b), (c, d) = x, y
    if c == d and c != 0 and a // c == b // c:
        return (a % c, b % c)
    if c > 0:
        return (0, min(d - 1, b)) if a >= 0 else (0, d - 1)
    if d < 0:
        return (max(c + 1, a), 0) if b <= 0 else (c + 1, 0)
    return None


def _cmod(x: Interval, y: Interval) -> Interval | None:
    (a, b), (c, d) = x, y
    if c <= 0 <= d:
        return None
    if c == d and cdiv(a, c) == cdiv(b, c):
        return (cmod(a, c), cmod(b, c))
    m = max(abs(c), abs(d)) - 1
    return (0 if a >= 0 else max(-m, a), 0 if b <= 0 else min(m, b))


def _compare(op: Ops, x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if a > b or c > d:
        return (False, True)
    if op is Ops.CMPLT:
        return (b < c, a < d or a <= -SATURATED or d >= SATURATED)
    disjoint, same = b < c or d < a, a == b == c == d and abs(a) < SATURATED
    return (disjoint, not same) if op is Ops.CMPNE else (same, not disjoint)


def _cast(node: UOp) -> Interval:
    source = node.src[0]
    low, high = source._cache["bounds"]
    target, dtype = node.dtype, source.dtype
    if target is dtypes.void or dtype is dtypes.void or low > high:
        return full(target)
    if target is dtypes.bool:
        if low == high and not dtype.is_float:
            return (bool(low), bool(low))
        return (True, True) if not dtype.is_float and (low > 0 or high < 0) else full(target)
    if dtype.is_float:
        # a float interval says nothing about nan, and a conversion of nan to an integer is free
        if target.is_float and low == high and source.op is Ops.CONST:
            value = truncate(low, target)
            return (value, value)
        return full(target)
    if target.is_float:
        return (truncate(low, target), truncate(high, target))
    return fit(int(low), int(high), target)


@derived("bounds")
def bounds_of(node: UOp) -> Interval:
    """(vmin, vmax) of `node`."""
    op, dtype = node.op, node.dtype
    if op is Ops.CONST:
        if isinstance(node.arg, InvalidType):
            return (False, True)
        return fit(node.arg, node.arg, dtype) if dtype is dtypes.weakint else (node.arg, node.arg)
    if op in GroupOp.Comparison:
        a, b = node.src[0], node.src[1]
        if a.dtype.is_float or b.dtype.is_float:
            return _compare_floats(op, a, b)
        if a.is_invalid or b.is_invalid:
            return (False, True)
        common = a.dtype if a.dtype is b.dtype else least_upper_dtype(a.dtype, b.dtype)
        return _compare(op, _operand(a, common), _operand(b, common))
    if op in GroupOp.Binary and dtype is dtypes.bool:
        return _bool(op, node)
    if op in GroupOp.Binary and not dtype.is_float:
        y = node.src[1]
        right = y._cache["bounds"] if op in GroupOp.Shift else _operand(y, dtype)
        found = _binary(op, _operand(node.src[0], dtype), right, dtype)
        return full(dtype) if found is None else fit(found[0], found[1], dtype)
    match op:
        case Ops.WHERE if not dtype.is_float:
            return _where(node)
        case Ops.PARAM | Ops.BUFFER | Ops.ALLOC:
            known = node.arg.vmin_vmax
            if known is None:
                return full(dtype)
            return fit(known[0], known[1], dtype) if dtype is dtypes.weakint else known
        case Ops.RANGE if dtype is not dtypes.void:
            end = node.src[0]._cache["bounds"][1]
            return (0, end if dtype is dtypes.weakint and end >= SATURATED else end - 1)
        case Ops.AFTER | Ops.INDEX if dtype is not dtypes.void:
            return node.src[0]._cache["bounds"]  # type: ignore[no-any-return]
        case Ops.STACK if node.src and not dtype.is_float:
            parts = [_operand(s, dtype) for s in node.src]
            return (min(p[0] for p in parts), max(p[1] for p in parts))
        case Ops.CAST:
            return _cast(node)
        case Ops.NEG if not dtype.is_float and dtype is not dtypes.bool:
            low, high = node.src[0]._cache["bounds"]
            return fit(-high, -low, dtype)
        case Ops.TRUNC | Ops.FLOOR | Ops.CEIL | Ops.ROUND_EVEN if not dtype.is_float:
            return node.src[0]._cache["bounds"]  # type: ignore[no-any-return]
        case _:
            return full(dtype)


def _compare_floats(op: Ops, a: UOp, b: UOp) -> Interval:
    """Only two constants are compared: an interval of floats does not exclude nan."""
    if a.op is Ops.CONST and b.op is Ops.CONST and Invalid not in (a.arg, b.arg):
        common = least_upper_dtype(a.dtype, b.dtype)
        x, y = (float(truncate(n.arg, common)) for n in (a, b))  # type: ignore[arg-type]
        value = x < y if op is Ops.CMPLT else x != y if op is Ops.CMPNE else x == y
        return (value, value)
    return (False, True)


def _bool(op: Ops, node: UOp) -> Interval:
    (a, b), (c, d) = node.src[0]._cache["bounds"], node.src[1]._cache["bounds"]
    if node.src[0].is_invalid or node.src[1].is_invalid:
        return (False, True)
    match op:
        case Ops.OR | Ops.ADD | Ops.MAX:
            return (a or c, b or d)
        case Ops.AND | Ops.MUL:
            return (a and c, b and d)
        case Ops.XOR:
            return _compare(Ops.CMPNE, (a, b), (c, d))
        case _:
            return (False, True)


def _where(node: UOp) -> Interval:
    _, then, other = node.src
    if then.is_invalid or other.is_invalid:
        return _gated(then, other, node.dtype)
    (a, b), (c, d) = _operand(then, node.dtype), _operand(other, node.dtype)
    if a > b or c > d:
        return full(node.dtype)
    return (min(a, c), max(b, d))


def _gated(then: UOp, other: UOp, dtype: DType) -> Interval:
    """A poisoned element has no value, so a gated value has the bounds of its live branch; it never folds."""
    live = other if then.is_invalid else then
    return full(dtype) if live.is_invalid else _operand(live, dtype)
