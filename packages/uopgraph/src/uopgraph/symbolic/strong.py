"""Strong integers: like terms in longer sums, divisors that cannot be 0, powers, narrowing, packed words.

A strong integer wraps, so a sum or product may be rearranged freely, but a division only where bounds show
that nothing wraps on the way. All rules keep every bit.
"""

from __future__ import annotations

from typing import Final

from uopgraph.dtype import dtypes
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat
from uopgraph.symbolic.simple import broadcast, const_of, same

_STRONG: Final = dtypes.ints
_INTS: Final = (dtypes.weakint, *_STRONG)
_x: Final = UPat.var("x", _STRONG)


def _all_like(root: UOp, *nodes: UOp) -> bool:
    return all(n.dtype is root.dtype and not n.is_invalid for n in nodes)


# bounds -----------------------------------------------------------------------------------------


def constant_by_bounds(x: UOp) -> UOp | None:
    """A value that its bounds decide. Not of Invalid operands: poison must survive."""
    low, high = x.vmin, x.vmax
    if low != high or any(s.is_invalid for s in x.src):
        return None
    return const_of(low, x)


def max_by_bounds(x: UOp) -> UOp | None:
    """A maximum that disjoint bounds decide."""
    a, b = x.src
    if not _all_like(x, a, b) or a.vmin > a.vmax or b.vmin > b.vmax:
        return None
    if a.vmin >= b.vmax:
        return broadcast(a, x)
    return broadcast(b, x) if b.vmin >= a.vmax else None


def _not_zero(x: UOp) -> bool:
    return bool(x.vmin > 0 or x.vmax < 0)


def _self_quotient(root: UOp, x: UOp) -> UOp | None:
    """``x // x`` is 1 and ``x % x`` is 0 where x cannot be 0."""
    if not _not_zero(x):
        return None
    return const_of(1 if root.op in (Ops.FLOORDIV, Ops.CDIV) else 0, root)


def _inner(root: UOp, y: UOp) -> UOp:
    """``(a % y) % y`` is ``a % y``."""
    return broadcast(root.src[0], root)


# like terms -------------------------------------------------------------------------------------


def _terms_in_sum(root: UOp, y: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """``(y + x*c1) + x*c2`` is ``y + x*(c1 + c2)`` modulo 2**n."""
    if not _all_like(root, y, x, c1, c2):
        return None
    return broadcast(y + x * UOp.const(c1.arg + c2.arg, root.dtype), root)


def _term_once(root: UOp, y: UOp, x: UOp, c1: UOp) -> UOp | None:
    return _terms_in_sum(root, y, x, c1, UOp.const(1, root.dtype))


def _twice_in_sum(root: UOp, y: UOp, x: UOp) -> UOp | None:
    """``(y + x) + x`` is ``y + x*2``."""
    if not _all_like(root, y, x) or x.op is Ops.CONST:
        return None
    return broadcast(y + x * UOp.const(2, root.dtype), root)


def _distribute_const(root: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """``(x + c1)*c2`` is ``x*c2 + c1*c2`` modulo 2**n: constants move outward."""
    if not _all_like(root, x, c1, c2):
        return None
    return x * c2 + UOp.const(c1.arg * c2.arg, root.dtype)


# powers -----------------------------------------------------------------------------------------

#: The greatest exponent that is written as products.
_EXPONENT: Final = 64


def _power(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """``x**c`` by repeated squaring: ``x**8`` is three products."""
    n = c.arg
    if type(n) is not int or not 0 <= n <= _EXPONENT or not _all_like(root, x):
        return None
    out: UOp | None = None
    square = x
    while n:
        if n & 1:
            out = square if out is None else out * square
        n >>= 1
        if n:
            square = square * square
    return const_of(1, root) if out is None else out


# narrowing --------------------------------------------------------------------------------------

_NARROWED: Final = (
    GroupOp.Comparison | GroupOp.IntDivision | GroupOp.Bitwise | {Ops.ADD, Ops.MUL, Ops.SUB, Ops.MAX}
)


def _narrow(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """64-bit arithmetic whose operands and result fit 32 bits is done in 32 bits and cast back."""
    wide = (x, y) if root.op in GroupOp.Comparison else (x, y, root)
    if any(v.vmin > v.vmax or v.overflows(dtypes.int32) for v in wide) or x.op is y.op is Ops.CONST:
        return None
    narrow = x.cast(dtypes.int32).alu(root.op, y.cast(dtypes.int32))
    return narrow.cast(root.dtype)


# packed words -----------------------------------------------------------------------------------

_high: Final = UPat.var("hi", dtypes.uint32)
_low: Final = UPat.var("lo", dtypes.uint32)
_U64: Final = dtypes.uint64


def _packed() -> tuple[UPat, ...]:
    """``hi*2**32 + lo`` of two 32-bit words, in the four ways to write it."""
    up = _high.cast(_U64)
    shifted = (UPat(Ops.SHL, _U64, (up, UPat.const(32))), UPat(Ops.MUL, _U64, (up, UPat.const(1 << 32))))
    low = _low.cast(_U64)
    return tuple(UPat(op, _U64, [s, low]) for s in shifted for op in (Ops.OR, Ops.ADD))


def _high_word(root: UOp, hi: UOp, lo: UOp) -> UOp:
    return same(root, hi)


def _low_word(root: UOp, hi: UOp, lo: UOp) -> UOp:
    return same(root, lo)


_c1: Final = UPat.cvar("c1", _STRONG)
_c2: Final = UPat.cvar("c2", _STRONG)

strong: Final = PatternMatcher(
    [
        # S2, S5: divisors that cannot be 0, and a remainder of the same divisor
        (UPat(tuple(GroupOp.IntDivision), _STRONG, (_x, _x), name="root"), _self_quotient),
        *(
            (
                UPat(op, _STRONG, (UPat(op, _STRONG, (UPat(), UPat.var("y"))), UPat.var("y")), name="root"),
                _inner,
            )
            for op in (Ops.FLOORMOD, Ops.CMOD)
        ),
        # A6, A7
        (
            UPat(GroupOp.Comparison, name="x", src=(UPat(None, _STRONG), UPat(None, _STRONG))),
            constant_by_bounds,
        ),
        (UPat(GroupOp.IntDivision | {Ops.PARAM, Ops.RANGE}, _STRONG, name="x"), constant_by_bounds),
        (UPat(Ops.MAX, _STRONG, name="x"), max_by_bounds),
        # A1, A2 in a longer sum, A3
        (
            UPat(
                Ops.ADD, _STRONG, [UPat(Ops.ADD, _STRONG, [UPat.var("y"), _x * _c1]), _x * _c2], name="root"
            ),
            _terms_in_sum,
        ),
        (
            UPat(Ops.ADD, _STRONG, [UPat(Ops.ADD, _STRONG, [UPat.var("y"), _x * _c1]), _x], name="root"),
            _term_once,
        ),
        (
            UPat(Ops.ADD, _STRONG, [UPat(Ops.ADD, _STRONG, [UPat.var("y"), _x]), _x], name="root"),
            _twice_in_sum,
        ),
        (UPat(Ops.MUL, _STRONG, (UPat(Ops.ADD, _STRONG, (_x, _c1)), _c2), name="root"), _distribute_const),
        # S22
        (UPat(Ops.POW, _INTS, (UPat.var("x", _INTS), UPat.cvar("c", _INTS)), name="root"), _power),
        # A13
        (
            UPat(_NARROWED, name="root", src=(UPat.var("x", dtypes.int64), UPat.var("y", dtypes.int64))),
            _narrow,
        ),
        # S23
        *((UPat(Ops.CAST, dtypes.uint32, (p,), name="root"), _low_word) for p in _packed()),
        *((UPat(Ops.AND, _U64, [p, UPat.const(0xFFFFFFFF)], name="root"), _low_word) for p in _packed()),
        *((UPat(Ops.SHR, _U64, (p, UPat.const(32)), name="root"), _high_word) for p in _packed()),
        *((UPat(Ops.FLOORDIV, _U64, (p, UPat.const(1 << 32)), name="root"), _high_word) for p in _packed()),
    ]
)

__all__ = ["constant_by_bounds", "max_by_bounds", "strong"]
