"""Reductions that have a closed form (scheduler spec 8.4): they need no loop, and so no buffer and no
kernel.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from uopgraph import Ops, PatternMatcher, UOp, UPat, dtypes


def without(x: UOp, ranges: tuple[UOp, ...], value: UOp) -> UOp:
    """The reduction of `value` over the ranges that are left."""
    return UOp(Ops.REDUCE, x.dtype, (value, *ranges), x.arg) if ranges else value


def _scaled(value: UOp, count: UOp) -> UOp:
    """`value` added `count` times; an infinity or nan that is added no time at all leaves nothing."""
    product = value * count.cast(value.dtype)
    finite = value.op is Ops.CONST and math.isfinite(value.arg)
    if not value.dtype.is_float or finite or count.vmin > 0:
        return product
    return (count > 0).where(product, product.const_like(0))


def unused_ranges(x: UOp) -> UOp | None:
    """A loop that the value does not depend on: a sum multiplies by its size, a maximum ignores it."""
    value, op = x.src[0], x.arg[0]
    unused = [r for r in x.src[1:] if r.op is Ops.RANGE and r not in value.ranges]
    if not unused or op is Ops.MUL or value.dtype is dtypes.bool:
        return None
    out = without(x, tuple(r for r in x.src[1:] if r not in unused), value)
    if op is Ops.ADD:
        for r in unused:
            out = _scaled(out, r.src[0])
    return out


@attrs.define
class _Bounds:
    """The part of a loop in which a condition holds: ``lows <= r < highs``; ``rest`` does not depend on r."""

    lows: list[UOp] = attrs.field(factory=list)
    highs: list[UOp] = attrs.field(factory=list)
    rest: list[UOp] = attrs.field(factory=list)


def linear(expression: UOp, r: UOp) -> tuple[int, UOp] | None:
    """(coefficient of `r`, the rest) of a sum, None when `r` occurs in another way."""
    coefficient, rest = 0, UOp.const(0)
    for term in expression.split_uop(Ops.ADD):
        if term is r:
            coefficient += 1
        elif term.op is Ops.MUL and term.src[0] is r and term.src[1].op is Ops.CONST:
            coefficient += int(term.src[1].arg)
        elif r in term.ranges:
            return None
        else:
            rest = rest + term
    return coefficient, rest


def as_index(x: UOp) -> UOp | None:
    """An integer expression as index arithmetic of the same value, None when it may wrap or is none."""
    if x.dtype is dtypes.weakint:
        return x
    if not x.dtype.is_int:
        return None
    if x.op is Ops.CONST:
        return UOp.const(int(x.arg))
    if x.op is Ops.CAST:
        inner = as_index(x.src[0])
    elif x.op in (Ops.ADD, Ops.MUL):
        a, b = (as_index(s) for s in x.src)
        inner = None if a is None or b is None else a.alu(x.op, b)
    else:
        return None
    return None if inner is None or inner.overflows(x.dtype) else inner


def _clause(clause: UOp, r: UOp, bounds: _Bounds) -> bool:
    """Add one condition to `bounds`; False when it is of another form."""
    if r not in clause.ranges:
        bounds.rest.append(clause)
        return True
    positive = True
    if clause.op is Ops.CMPNE and clause.src[1].op is Ops.CONST and clause.src[1].arg is True:
        clause, positive = clause.src[0], False
    if clause.op is not Ops.CMPLT:
        return False
    left, right = (as_index(s) for s in clause.src)
    if left is None or right is None:
        return False
    found = linear((left + right * -1).simplify(), r)
    if found is None or found[0] not in (1, -1):
        return False
    coefficient, rest = found
    if coefficient == 1:  # r + rest < 0, or not
        (bounds.highs if positive else bounds.lows).append(rest * -1)
    else:  # rest - r < 0, or not
        (bounds.lows if positive else bounds.highs).append(rest + 1)
    return True


def _count(condition: UOp, r: UOp) -> tuple[UOp, UOp] | None:
    """(how many values of `r` fulfil `condition`, the part of the condition without `r`)."""
    bounds = _Bounds()
    if not all(_clause(c, r, bounds) for c in condition.split_uop(Ops.AND)):
        return None
    low, high = UOp.const(0), r.src[0]
    for bound in bounds.lows:
        low = low.maximum(bound)
    for bound in bounds.highs:
        high = high.minimum(bound)
    outside = UOp.const(True)
    for clause in bounds.rest:
        outside = outside & clause
    return (high + low * -1).maximum(0).simplify(), outside.simplify()


def counted(x: UOp) -> UOp | None:
    """The sum over r of ``condition(r) ? a : b`` with a and b independent of r counts the r that fulfil
    it.
    """
    value, op = x.src[0], x.arg[0]
    if op is not Ops.ADD or value.op is not Ops.WHERE or value.dtype is dtypes.bool:
        return None
    condition, then, otherwise = value.src
    for r in x.src[1:]:
        if r.op is not Ops.RANGE or r in then.ranges or r in otherwise.ranges or r not in condition.ranges:
            continue
        found = _count(condition, r)
        if found is None:
            continue
        count, outside = found
        inside = _scaled(then, count)
        rest = _scaled(otherwise, r.src[0] + count * -1)
        total = outside.where(inside + rest, _scaled(otherwise, r.src[0]))
        return without(x, tuple(s for s in x.src[1:] if s is not r), total)
    return None


def as_select(x: UOp, c: UOp) -> UOp | None:
    """A condition cast to a number under a sum becomes a selection, so that it can be counted."""
    if x.arg[0] is not Ops.ADD or c.src[0].dtype is not dtypes.bool:
        return None
    return x.replace(src=(c.src[0].where(UOp.const(1, c.dtype), UOp.const(0, c.dtype)), *x.src[1:]))


def arithmetic_series(x: UOp) -> UOp | None:
    """The sum over r < n of an integer cast(a * r + b), a constant: a * n * (n - 1) / 2 + b * n, modulo
    2**bits.
    """
    value = x.src[0]
    if x.arg[0] is not Ops.ADD or not value.dtype.is_int or value.op is not Ops.CAST:
        return None
    inner = value.src[0]
    if inner.dtype is not dtypes.weakint:
        return None
    for r in x.src[1:]:
        if r.op is not Ops.RANGE or r.src[0].op is not Ops.CONST:
            continue
        found = linear(inner, r)
        if found is None or found[0] == 0:
            continue
        n = int(r.src[0].arg)
        total = found[1] * n + found[0] * n * (n - 1) // 2
        return without(x, tuple(s for s in x.src[1:] if s is not r), total.cast(value.dtype))
    return None


def split_sum(x: UOp, s: UOp) -> UOp | None:
    """The sum of integer terms is the sum of their sums; done where one of the two has a loop of its own
    less.
    """
    return _split_sum(x, s) if s.dtype.is_int else None


def split_float_sum(x: UOp, s: UOp) -> UOp | None:
    """The same for floats, in another order of additions: only where real arithmetic is good enough."""
    return _split_sum(x, s) if s.dtype.is_float else None


def _split_sum(x: UOp, s: UOp) -> UOp | None:
    if x.arg[0] is not Ops.ADD:
        return None
    left, right = s.src
    ranges = x.src[1:]
    if all(r in left.ranges and r in right.ranges for r in ranges):
        return None
    return UOp(Ops.REDUCE, x.dtype, (left, *ranges), x.arg) + UOp(
        Ops.REDUCE, x.dtype, (right, *ranges), x.arg
    )


def scaled_sum(x: UOp, m: UOp) -> UOp | None:
    """Factors of an integer product that do not depend on the loops move out of a sum."""
    if x.arg[0] is not Ops.ADD or not m.dtype.is_int:
        return None
    for inner, factor in (m.src, m.src[::-1]):
        if not any(r in factor.ranges for r in x.src[1:]) and any(r in inner.ranges for r in x.src[1:]):
            return UOp(Ops.REDUCE, x.dtype, (inner, *x.src[1:]), x.arg) * factor
    return None


_reduce: Final = UPat(Ops.REDUCE, name="x")

pm_reduce: Final = PatternMatcher(
    [
        (_reduce, unused_ranges),
        (_reduce, counted),
        (UPat(Ops.REDUCE, src=(UPat(Ops.CAST, name="c"),), allow_any_len=True, name="x"), as_select),
        (_reduce, arithmetic_series),
        (UPat(Ops.REDUCE, src=(UPat(Ops.ADD, name="s"),), allow_any_len=True, name="x"), split_sum),
        (UPat(Ops.REDUCE, src=(UPat(Ops.MUL, name="m"),), allow_any_len=True, name="x"), scaled_sum),
    ]
)

pm_fast_reduce: Final = PatternMatcher(
    [(UPat(Ops.REDUCE, src=(UPat(Ops.ADD, name="s"),), allow_any_len=True, name="x"), split_float_sum)]
)
