"""Operations that a target lacks, written with others.

``decompositions(missing)`` is a matcher that rewrites exactly the operations in `missing`. Those in
:data:`EXACT` keep every bit; the others are right up to rounding of the operations they use.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final

from uopgraph.dtype import dtypes
from uopgraph.errors import UnsupportedError
from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.pattern import PatternMatcher, UPat

_F: Final = dtypes.floats
_I: Final = (dtypes.weakint, *dtypes.ints)


def _c(x: UOp, value: float) -> UOp:
    return UOp.const(value, x.dtype)


def _sub(root: UOp, x: UOp, y: UOp) -> UOp:
    return x + y * UOp.const(-1, y.dtype)


def _neg(root: UOp, x: UOp) -> UOp:
    return x * UOp.const(-1, x.dtype)


def _cmpeq(root: UOp, x: UOp, y: UOp) -> UOp:
    return x.ne(y).logical_not()


def _reciprocal(root: UOp, x: UOp) -> UOp:
    return _c(x, 1.0).alu(Ops.FDIV, x)


def _fdiv(root: UOp, x: UOp, y: UOp) -> UOp:
    return x * y.reciprocal()


def _rsqrt(root: UOp, x: UOp) -> UOp:
    return x.sqrt().reciprocal()


def _mulacc(root: UOp, x: UOp, y: UOp, z: UOp) -> UOp:
    return x * y + z


def _floordiv(root: UOp, x: UOp, y: UOp) -> UOp:
    """Toward zero, and one less when the remainder has the other sign than the divisor."""
    q = x.alu(Ops.CDIV, y)
    return q + _adjust(x, y).cast(root.dtype) * UOp.const(-1, root.dtype)


def _floormod(root: UOp, x: UOp, y: UOp) -> UOp:
    r = x.alu(Ops.CMOD, y)
    return r + _adjust(x, y).where(y, UOp.const(0, y.dtype))


def _adjust(x: UOp, y: UOp) -> UOp:
    r = x.alu(Ops.CMOD, y)
    zero = UOp.const(0, r.dtype)
    return r.ne(zero) & (r < zero).ne(y < UOp.const(0, y.dtype))


def _signed_zero(x: UOp, whole: UOp) -> UOp:
    """`whole`, or x itself where that is a zero, so that -0.0 stays."""
    return x.ne(_c(x, 0.0)).where(whole, x)


def _floor(root: UOp, x: UOp) -> UOp:
    t = x.trunc()
    return (x < t).where(t + _c(x, -1.0), t)


def _ceil(root: UOp, x: UOp) -> UOp:
    """TRUNC keeps the sign of a zero: a negative fraction rounds up to -0.0."""
    t = x.trunc()
    return (t < x).where(t + _c(x, 1.0), t)


def _exp(root: UOp, x: UOp) -> UOp:
    return (x * _c(x, 1 / math.log(2))).exp2()


def _exp2(root: UOp, x: UOp) -> UOp:
    return (x * _c(x, math.log(2))).exp()


def _log(root: UOp, x: UOp) -> UOp:
    return x.log2() * _c(x, math.log(2))


def _log2(root: UOp, x: UOp) -> UOp:
    return x.log() * _c(x, 1 / math.log(2))


def _expm1(root: UOp, x: UOp) -> UOp:
    """Near 0 the series x + x^2/2 + x^3/6, elsewhere exp(x) - 1."""
    small = (x.maximum(-x)) < _c(x, 0.03)
    series = x * (_c(x, 1.0) + x * (_c(x, 0.5) + x * (_c(x, 1 / 6) + x * _c(x, 1 / 24))))
    return small.where(_signed_zero(x, series), x.exp() + _c(x, -1.0))


def _log1p(root: UOp, x: UOp) -> UOp:
    """With u = 1 + x: log(u) * x / (u - 1), and x where u is 1: the rounding of u cancels."""
    u = x + _c(x, 1.0)
    d = u + _c(x, -1.0)
    finite = (d.ne(_c(x, 0.0))) & (u < _c(x, math.inf))
    return finite.where(u.log() * x.alu(Ops.FDIV, d), (u < _c(x, math.inf)).where(x, u.log()))


def _cos(root: UOp, x: UOp) -> UOp:
    return (x + _c(x, math.pi / 2)).sin()


def _tan(root: UOp, x: UOp) -> UOp:
    return x.sin().alu(Ops.FDIV, x.cos())


def _sinh(root: UOp, x: UOp) -> UOp:
    """With e = expm1(|x|): (e + e / (e + 1)) / 2, e where it is infinite, the sign of x."""
    e = x.maximum(-x).expm1()
    half = (e + e.alu(Ops.FDIV, e + _c(x, 1.0))) * _c(x, 0.5)
    whole = (e < _c(x, math.inf)).where(half, e)
    return _signed_zero(x, (x < _c(x, 0.0)).where(-whole, whole))


def _cosh(root: UOp, x: UOp) -> UOp:
    return (x.exp() + (-x).exp()) * _c(x, 0.5)


def _tanh(root: UOp, x: UOp) -> UOp:
    """With e = expm1(2|x|): e / (e + 2), 1 where e is infinite, the sign of x."""
    a = x.maximum(-x)
    e = (a * _c(x, 2.0)).expm1()
    t = (e < _c(x, math.inf)).where(e.alu(Ops.FDIV, e + _c(x, 2.0)), _c(x, 1.0))
    signed = (x < _c(x, 0.0)).where(-t, t)
    return x.ne(x).where(x, _signed_zero(x, signed))


_x: Final = UPat.var("x")
_xy: Final = (UPat.var("x"), UPat.var("y"))


def _floats(op: Ops) -> UPat:
    return UPat(op, _F, (_x,), name="root")


_RULES: Final[dict[Ops, tuple[UPat, Callable[..., UOp]]]] = {
    Ops.SUB: (UPat(Ops.SUB, src=_xy, name="root"), _sub),
    Ops.NEG: (UPat(Ops.NEG, src=(_x,), name="root"), _neg),
    Ops.CMPEQ: (UPat(Ops.CMPEQ, src=_xy, name="root"), _cmpeq),
    Ops.RECIPROCAL: (_floats(Ops.RECIPROCAL), _reciprocal),
    Ops.MULACC: (UPat(Ops.MULACC, src=(*_xy, UPat.var("z")), name="root"), _mulacc),
    Ops.FLOORDIV: (UPat(Ops.FLOORDIV, _I, _xy, name="root"), _floordiv),
    Ops.FLOORMOD: (UPat(Ops.FLOORMOD, _I, _xy, name="root"), _floormod),
    Ops.FLOOR: (_floats(Ops.FLOOR), _floor),
    Ops.CEIL: (_floats(Ops.CEIL), _ceil),
    Ops.FDIV: (UPat(Ops.FDIV, _F, _xy, name="root"), _fdiv),
    Ops.RSQRT: (_floats(Ops.RSQRT), _rsqrt),
    Ops.EXP: (_floats(Ops.EXP), _exp),
    Ops.EXP2: (_floats(Ops.EXP2), _exp2),
    Ops.LOG: (_floats(Ops.LOG), _log),
    Ops.LOG2: (_floats(Ops.LOG2), _log2),
    Ops.EXPM1: (_floats(Ops.EXPM1), _expm1),
    Ops.LOG1P: (_floats(Ops.LOG1P), _log1p),
    Ops.COS: (_floats(Ops.COS), _cos),
    Ops.TAN: (_floats(Ops.TAN), _tan),
    Ops.SINH: (_floats(Ops.SINH), _sinh),
    Ops.COSH: (_floats(Ops.COSH), _cosh),
    Ops.TANH: (_floats(Ops.TANH), _tanh),
}

#: Decompositions that keep every bit.
EXACT: Final = frozenset(
    {Ops.SUB, Ops.NEG, Ops.CMPEQ, Ops.RECIPROCAL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.FLOOR, Ops.CEIL}
)


@functools.cache
def decompositions(missing: frozenset[Ops]) -> PatternMatcher:
    """The matcher that writes every operation of `missing` with others.

    Raises :class:`UnsupportedError` for an operation without a decomposition, or for pairs that need each
    other (EXP and EXP2, LOG and LOG2, FDIV and RECIPROCAL).
    """
    for op in sorted(missing):
        if op not in _RULES:
            raise UnsupportedError(f"decomposition of {op.name}")
    for a, b in ((Ops.EXP, Ops.EXP2), (Ops.LOG, Ops.LOG2), (Ops.FDIV, Ops.RECIPROCAL)):
        if a in missing and b in missing:
            raise UnsupportedError(f"decomposition of {a.name} without {b.name}")
    return PatternMatcher([_RULES[op] for op in sorted(missing)])


__all__ = ["EXACT", "decompositions"]
