"""Folds that hold for every dtype they name, exact unless marked fast."""

from __future__ import annotations

from typing import Any, Final

from uopgraph.constfold import fold
from uopgraph.dtype import Invalid, dtypes
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat

_INTS: Final = (dtypes.weakint, *dtypes.ints)
_EXACT: Final = dtypes.exact


def as_dtype(x: UOp, like: UOp) -> UOp:
    """`x` in the dtype of `like`: a result must not change the dtype of what it replaces."""
    return x.cast(like.dtype)


def _fold(root: UOp) -> UOp | None:
    if any(s.op is not Ops.CONST or s.arg is Invalid for s in root.src):
        return None
    value = fold(root.op, root.dtype, [s.dtype for s in root.src], [s.arg for s in root.src])
    return None if value is None else UOp.const(value, root.dtype)


def _fold_lanes(root: UOp) -> UOp | None:
    lanes = max(len(s.src) for s in root.src if s.op is Ops.STACK)
    if not all(_is_const_stack(s, lanes) for s in root.src):
        return None
    out = []
    for i in range(lanes):
        args = [s.src[i].arg if s.op is Ops.STACK else s.arg for s in root.src]
        value = fold(root.op, root.dtype, [s.dtype for s in root.src], args)
        if value is None:
            return None
        out.append(UOp.const(value, root.dtype))
    return UOp(Ops.STACK, None, tuple(out))


def _is_const_stack(s: UOp, lanes: int) -> bool:
    if s.op is Ops.STACK:
        return len(s.src) == lanes and all(e.op is Ops.CONST and e.arg is not Invalid for e in s.src)
    return s.op is Ops.CONST and s.arg is not Invalid


def _where_const(root: UOp, c: UOp, t: UOp, f: UOp) -> UOp | None:
    if c.arg is Invalid:
        return None
    return broadcast(as_dtype(t if c.arg else f, root), root)


def broadcast(x: UOp, root: UOp) -> UOp:
    """`x` with the shape of what it replaces."""
    shape = root.shape_or_none
    if not shape or x.shape_or_none == shape:
        return x
    return x.expand(shape)


_x: Final = UPat.var("x")
_int: Final = UPat.var("x", _INTS)
_bool: Final = UPat.var("x", dtypes.bool)


def same(root: UOp, x: UOp, y: UOp | None = None) -> UOp:
    """`x` in place of the root."""
    return broadcast(as_dtype(x, root), root)


def const_of(value: Any, root: UOp) -> UOp:
    """The constant of the root's dtype and shape."""
    c = UOp.const(value, root.dtype)
    return broadcast(c, root)


folds: Final = PatternMatcher(
    [
        # S13, S14, S15: constants, lane by lane
        (UPat(GroupOp.Elementwise - {Ops.THREEFRY, Ops.WHERE}, name="root", src=UPat(Ops.CONST)), _fold),
        (
            UPat(GroupOp.Elementwise - {Ops.THREEFRY}, name="root", src=UPat((Ops.STACK, Ops.CONST))),
            lambda root: _fold_lanes(root) if any(s.op is Ops.STACK for s in root.src) else None,
        ),
        # S24
        (UPat(Ops.WHERE, name="root", src=(UPat.cvar("c"), UPat.var("t"), UPat.var("f"))), _where_const),
        (UPat(Ops.WHERE, name="root", src=(UPat.var(), UPat.var("x"), UPat.var("x"))), same),
        # S16
        (UPat(Ops.CAST, name="root", src=(_x,)), lambda root, x: x if x.dtype is root.dtype else None),
        (UPat(Ops.BITCAST, name="root", src=(_x,)), lambda root, x: x if x.dtype is root.dtype else None),
    ]
)

identities: Final = PatternMatcher(
    [
        # S1: on integers every identity is exact; on floats only x*1, x/1 and x + -0.0 are
        *(((UPat(op, _INTS, [_int, UPat.const(0)], name="root")), same) for op in (Ops.ADD, Ops.XOR, Ops.OR)),
        *((UPat(op, _INTS, (_int, UPat.const(0)), name="root"), same) for op in (Ops.SHL, Ops.SHR, Ops.SUB)),
        (UPat(Ops.MUL, name="root", src=[_x, UPat.const(1)]), same),
        (UPat(Ops.FDIV, dtypes.floats, (_x, UPat.const(1)), name="root"), same),
        *((UPat(op, _INTS, (_int, UPat.const(1)), name="root"), same) for op in (Ops.FLOORDIV, Ops.CDIV)),
        (
            UPat(Ops.FLOORDIV, _INTS, (_int, UPat.const(-1)), name="root"),
            lambda root, x: same(root, -x),
        ),
        # S2, S3, S4, S6
        (UPat(Ops.XOR, _EXACT, (_x, _x), name="root"), lambda root, x: const_of(0, root)),
        (
            UPat(Ops.CMPLT, src=(UPat.var("x", _EXACT), _x), name="root"),
            lambda root, x: const_of(False, root),
        ),
        (
            UPat(Ops.CMPNE, src=(UPat.var("x", _EXACT), _x), name="root"),
            lambda root, x: const_of(False, root),
        ),
        (
            UPat(Ops.CMPEQ, src=(UPat.var("x", _EXACT), _x), name="root"),
            lambda root, x: const_of(True, root),
        ),
        (UPat(Ops.MUL, _INTS, [_int, UPat.const(0)], name="root"), lambda root, x: const_of(0, root)),
        (UPat(Ops.AND, _INTS, [_int, UPat.const(0)], name="root"), lambda root, x: const_of(0, root)),
        # S8
        (UPat(GroupOp.Idempotent, name="root", src=(_x, _x)), same),
        # S9, S10
        (UPat(Ops.CMPNE, src=[_bool, UPat.const(False, dtypes.bool)], name="root"), same),
        (
            UPat(
                Ops.CMPNE,
                src=[
                    UPat(Ops.CMPNE, src=[_bool, UPat.const(True, dtypes.bool)]),
                    UPat.const(True, dtypes.bool),
                ],
                name="root",
            ),
            same,
        ),
        (
            UPat(Ops.WHERE, dtypes.bool, (_x, UPat.const(True), UPat.const(False, dtypes.bool)), name="root"),
            lambda root, x: same(root, x) if not root.src[1].is_invalid else None,
        ),
    ]
)

simple: Final = folds + identities
