"""Rules of real arithmetic (``fast_math``): right up to rounding, nan, infinities and signs of zeros.

Never part of the exact set.
"""

from __future__ import annotations

import math
from typing import Final

from uopgraph.constfold import fold
from uopgraph.dtype import Invalid, dtypes
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat
from uopgraph.symbolic.simple import broadcast, const_of, same

_F: Final = dtypes.floats
_x: Final = UPat.var("x", _F)


def _fold_fast(root: UOp) -> UOp | None:
    if any(s.arg is Invalid for s in root.src):
        return None
    value = fold(root.op, root.dtype, [s.dtype for s in root.src], [s.arg for s in root.src], fast=True)
    return None if value is None else UOp.const(value, root.dtype)


def _power(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """S22: ``x ** c`` for an integer or half-integer c: repeated squaring, a square root, a reciprocal."""
    k = float(c.arg)
    if x.dtype is not root.dtype or not math.isfinite(k) or abs(k) > 64 or 2 * k != int(2 * k):
        return None
    if k < 0:
        return x.alu(Ops.POW, UOp.const(-k, c.dtype)).reciprocal()
    if k == 0:
        return const_of(1, root)
    n = int(k)
    out = x.sqrt() if k != n else None
    square = x
    while n:
        if n & 1:
            out = square if out is None else out * square
        n >>= 1
        if n:
            square = square * square
    return out


def _power_of_constant(root: UOp, c: UOp, x: UOp) -> UOp | None:
    """S22: ``c ** x`` is ``exp2(x * log2 c)`` for c > 0."""
    if x.dtype is not root.dtype or c.op is not Ops.CONST or not 0 < float(c.arg) < math.inf:
        return None
    if float(c.arg) == 1.0:
        return const_of(1, root)
    return (x * UOp.const(math.log2(float(c.arg)), x.dtype)).exp2()


def _two_stage_float(root: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """O3 on floats: constants of a sum or product join."""
    if Invalid in (c1.arg, c2.arg) or not x.dtype is c1.dtype is c2.dtype is root.dtype:
        return None
    value = fold(root.op, root.dtype, [c1.dtype, c2.dtype], [c1.arg, c2.arg])
    return None if value is None else root.rebuild((x, UOp.const(value, root.dtype)))


def _like_terms(root: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    if Invalid in (c1.arg, c2.arg) or not x.dtype is c1.dtype is c2.dtype is root.dtype:
        return None
    return broadcast(x * UOp.const(float(c1.arg) + float(c2.arg), root.dtype), root)


def _factor_out(root: UOp) -> UOp | None:
    """A17 on floats: factors without the reduced ranges leave a sum."""
    x, ranges = root.src[0], root.src[1:]
    if (
        root.arg[0] is not Ops.ADD
        or not ranges
        or root.arg[1]
        or x.dtype is not root.dtype
        or x.op is not Ops.MUL
    ):
        return None
    closed = {r for e in ranges for r in e.ranges}
    out = [f for f in x.split_uop(Ops.MUL, 64) if not any(r in closed for r in f.ranges)]
    inside = [f for f in x.split_uop(Ops.MUL, 64) if f not in out]
    if not out or not inside or any(f.dtype is not x.dtype for f in (*out, *inside)):
        return None
    return root.rebuild((inside[0].uprod(*inside[1:]), *ranges)).uprod(*out)


def _over_one_plus(root: UOp, x: UOp, d: UOp) -> UOp | None:
    """A16: ``x / (1 + x)`` is ``1 - 1/(1 + x)``: finite where x is infinite."""
    return broadcast(_one_minus(d), root) if _is_one_plus(d, x) else None


def _over_one_plus_scaled(root: UOp, x: UOp, d: UOp, y: UOp) -> UOp | None:
    """A16: ``x * (1/(1 + x) * y)`` is ``(1 - 1/(1 + x)) * y``."""
    return broadcast(_one_minus(d) * y, root) if _is_one_plus(d, x) else None


def _over_one_plus_in_sum(root: UOp, x: UOp, d: UOp, y: UOp) -> UOp | None:
    """A16: ``x * (1/(1 + x) + y)`` is ``1 - 1/(1 + x) + x*y``."""
    return broadcast(_one_minus(d) + x * y, root) if _is_one_plus(d, x) else None


def _is_one_plus(d: UOp, x: UOp) -> bool:
    """Whether `d` is ``x + 1``, written in either order."""
    return any(
        a is x and b.op is Ops.CONST and b.arg is not Invalid and float(b.arg) == 1.0
        for a, b in (d.src, d.src[::-1])
    )


def _one_minus(d: UOp) -> UOp:
    one = UOp.const(1.0, d.dtype)
    return one + one / d * UOp.const(-1.0, d.dtype)


def _split_reciprocal(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """A16: the reciprocal of ``x * c`` is a product by a constant."""
    if c.arg is Invalid or float(c.arg) == 0 or not x.dtype is c.dtype is root.dtype:
        return None
    return x.reciprocal() * UOp.const(1 / float(c.arg), c.dtype)


_y: Final = UPat.var("y", _F)
_d: Final = UPat(Ops.ADD, _F, name="d")
_inverse: Final = UPat.any(UPat(Ops.RECIPROCAL, _F, (_d,)), UPat(Ops.FDIV, _F, (UPat.const(1), _d)))
_recip: Final = UPat(Ops.RECIPROCAL, src=(_x,))

fast_only: Final = PatternMatcher(
    [
        (UPat(GroupOp.Transcendental | {Ops.ATAN2, Ops.POW}, _F, UPat(Ops.CONST), name="root"), _fold_fast),
        # S1, S20 on floats
        (UPat(Ops.ADD, _F, [_x, UPat.const(0)], name="root"), same),
        (UPat(Ops.MUL, _F, [_x, UPat.const(0)], name="root"), lambda root, x: const_of(0, root)),
        # S21
        (UPat(Ops.FDIV, _F, (_x, _x), name="root"), lambda root, x: const_of(1, root)),
        (UPat(Ops.FDIV, _F, (UPat(Ops.MUL, _F, [_x, _y]), _y), name="root"), same),
        (
            UPat(Ops.FDIV, _F, (_x, UPat.cvar("c", _F)), name="root"),
            lambda root, x, c: x * UOp.const(1 / float(c.arg), c.dtype) if float(c.arg) != 0 else None,
        ),
        # S22
        (UPat(Ops.POW, _F, (_x, UPat.cvar("c")), name="root"), _power),
        (UPat(Ops.POW, _F, (UPat.cvar("c"), _x), name="root"), _power_of_constant),
        # A1, A4, O3
        *(
            (
                UPat(op, _F, (UPat(op, _F, (_x, UPat.cvar("c1"))), UPat.cvar("c2")), name="root"),
                _two_stage_float,
            )
            for op in (Ops.ADD, Ops.MUL)
        ),
        (UPat(Ops.ADD, _F, (_x * UPat.cvar("c1"), _x * UPat.cvar("c2")), name="root"), _like_terms),
        (
            UPat(Ops.ADD, _F, [UPat(Ops.MUL, _F, (_x, UPat.cvar("c1"))), _x], name="root"),
            lambda root, x, c1: _like_terms(root, x, c1, UOp.const(1, root.dtype)),
        ),
        (
            UPat(Ops.FDIV, _F, (UPat(Ops.FDIV, _F, (_x, _y)), UPat.var("z", _F)), name="root"),
            lambda root, x, y, z: x / (y * z) if y is not z else None,
        ),
        # A16
        (UPat(Ops.FDIV, _F, (_x, _d), name="root"), _over_one_plus),
        (UPat(Ops.MUL, _F, [_x, _inverse], name="root"), _over_one_plus),
        (UPat(Ops.MUL, _F, [_x, UPat(Ops.MUL, _F, [_inverse, _y])], name="root"), _over_one_plus_scaled),
        (UPat(Ops.MUL, _F, [_x, UPat(Ops.ADD, _F, [_inverse, _y])], name="root"), _over_one_plus_in_sum),
        (
            UPat(Ops.RECIPROCAL, _F, (UPat(Ops.MUL, _F, [_x, UPat.cvar("c", _F)]),), name="root"),
            _split_reciprocal,
        ),
        (
            UPat(Ops.RECIPROCAL, _F, (UPat(Ops.MUL, _F, (_x, _x)),), name="root"),
            lambda root, x: x.reciprocal() * x.reciprocal(),
        ),
        (UPat(Ops.MUL, _F, [_x, _recip], name="root"), lambda root, x: const_of(1, root)),
        (UPat(Ops.REDUCE, _F, name="root"), _factor_out),
    ]
)
