"""Structural clean-up: views, effects, reductions."""

from __future__ import annotations

from typing import Any, Final

from uopgraph.dtype import dtypes
from uopgraph.movement_sugar import same_size
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat

_x: Final = UPat.var("x")


# views (S28) ------------------------------------------------------------------------------------


def _same_view(root: UOp, x: UOp) -> UOp | None:
    """A RESHAPE to the same shape, a PERMUTE into the same order."""
    if root.op is Ops.PERMUTE:
        return x if root.arg == tuple(range(len(root.arg))) else None
    a, b = root.shape, x.shape
    return x if len(a) == len(b) and all(same_size(p, q) for p, q in zip(a, b, strict=True)) else None


def _reshape_of_reshape(root: UOp, x: UOp) -> UOp:
    return root.rebuild((x, *root.src[1:]))


def _permute_of_permute(root: UOp, x: UOp) -> UOp:
    inner = root.src[0].arg
    return x.permute(tuple(inner[i] for i in root.arg))


def _element(root: UOp, s: UOp, c: UOp) -> UOp | None:
    """INDEX of a STACK by a constant is the element."""
    if not isinstance(c.arg, int) or not 0 <= c.arg < len(s.src):
        return None
    element = s.src[c.arg].cast(root.dtype)
    return element if len(root.src) == 2 else element.index(*root.src[2:])


def _index_of_index(root: UOp, base: UOp) -> UOp | None:
    """INDEX∘INDEX is one INDEX when the inner indices are scalars."""
    inner = root.src[0]
    if any(i.shape for i in inner.src[1:]):
        return None
    return base.index(*inner.src[1:], *root.src[1:])


def _stack_of_indices(root: UOp) -> UOp | None:
    """A STACK of the consecutive elements of one node is the node."""
    base = root.src[0].src[0]
    if base.shape_or_none is None or not base.shape or not same_size(base.shape[0], len(root.src)):
        return None
    for i, s in enumerate(root.src):
        if s.src[0] is not base or len(s.src) != 2 or s.src[1].op is not Ops.CONST or s.src[1].arg != i:
            return None
    return base


views: Final = PatternMatcher(
    [
        (UPat((Ops.RESHAPE, Ops.PERMUTE), name="root", src=(_x,), allow_any_len=True), _same_view),
        (
            UPat(Ops.RESHAPE, name="root", src=(UPat(Ops.RESHAPE, src=(_x, UPat())),), allow_any_len=True),
            _reshape_of_reshape,
        ),
        (UPat(Ops.PERMUTE, name="root", src=(UPat(Ops.PERMUTE, src=(_x,)),)), _permute_of_permute),
        (
            UPat(Ops.INDEX, name="root", src=(UPat(Ops.STACK, name="s"), UPat.cvar("c")), allow_any_len=True),
            _element,
        ),
        (
            UPat(
                Ops.INDEX,
                name="root",
                src=(UPat(Ops.INDEX, src=(UPat.var("base"),), allow_any_len=True),),
                allow_any_len=True,
            ),
            _index_of_index,
        ),
        (
            UPat(Ops.STACK, name="root", src=(UPat(Ops.INDEX),), allow_any_len=True),
            lambda root: _stack_of_indices(root) if all(s.op is Ops.INDEX for s in root.src) else None,
        ),
    ]
)


# effects (P10, A15, A18, A19) -------------------------------------------------------------------


def _noop() -> UOp:
    return UOp(Ops.NOOP, dtypes.void)


def _real_dependencies(root: UOp) -> UOp | None:
    """A15: an AFTER keeps only effects; another dependency is replaced by its sources."""
    deps: dict[UOp, None] = {}
    stack = list(reversed(root.src[1:]))
    seen: set[UOp] = set()
    while stack:
        d = stack.pop()
        if d in seen:
            continue
        seen.add(d)
        if d.op in GroupOp.Effects or d.op is Ops.RANGE:
            deps[d] = None
        else:
            stack += reversed(d.src)
    return None if tuple(deps) == root.src[1:] else root.src[0].after(*deps)


def _flattened(root: UOp) -> UOp | None:
    """A19: nested GROUP, NOOP and STACK of effects in SINK and GROUP."""
    out: dict[UOp, None] = {}
    for s in root.src:
        if s.op is Ops.NOOP and not s.src:
            continue
        inner = s.src if s.op is Ops.GROUP or (s.op in (Ops.SINK, Ops.NOOP) and s.arg is None) else (s,)
        out.update(dict.fromkeys(inner))
    new = tuple(out)
    return None if new == root.src else root.rebuild(new)


def _store_of_own_load(root: UOp, i: UOp, v: UOp) -> UOp | None:
    """A18: storing what is there already is nothing."""
    return _noop() if v.op is Ops.LOAD and v.src[0] is i and len(v.src) == 1 else None


def _store_selected(root: UOp, i: UOp, g: UOp, a: UOp, v: UOp) -> UOp | None:
    """A18: ``store(i, g ? a : load(i))`` is a store gated by g."""
    if len(root.src) != 2 or v.op is not Ops.LOAD or v.src[0] is not i or len(v.src) != 1:
        return None
    return i.store(a, g)


def _store_gated(root: UOp, i: UOp, c: UOp, v: UOp) -> UOp:
    """A18: ``store(i, c ? v : Invalid)`` is a store gated by c."""
    gate = c if len(root.src) == 2 else root.src[2] & c
    return i.store(v, gate)


_invalid_index: Final = UPat(Ops.INDEX, name="i", allow_any_len=True, src=(UPat(),))

effects: Final = PatternMatcher(
    [
        (UPat(Ops.AFTER, name="root"), lambda root: root.src[0] if len(root.src) == 1 else None),
        (UPat(Ops.END, name="root"), lambda root: root.src[0] if len(root.src) == 1 else None),
        (UPat(Ops.AFTER, name="root"), _real_dependencies),
        (UPat(Ops.GROUP, name="root"), lambda root: root.src[0] if len(root.src) == 1 else None),
        (UPat((Ops.SINK, Ops.GROUP), name="root"), _flattened),
        # P10
        (
            UPat(Ops.STORE, name="root", src=(_invalid_index,), allow_any_len=True),
            lambda root, i: _noop() if any(n.is_invalid for n in i.src[1:]) else None,
        ),
        (
            UPat(Ops.LOAD, name="root", src=(_invalid_index,), allow_any_len=True),
            lambda root, i: (
                (root.src[1] if len(root.src) > 1 else root.const_like(0))
                if any(n.is_invalid for n in i.src[1:])
                else None
            ),
        ),
        (
            UPat(Ops.STORE, name="root", src=(UPat.var("i"), UPat.var("v")), allow_any_len=True),
            _store_of_own_load,
        ),
        (
            UPat(
                Ops.STORE,
                name="root",
                src=(UPat.var("i"), UPat(Ops.WHERE, src=(UPat.var("g"), UPat.var("a"), UPat.var("v")))),
            ),
            _store_selected,
        ),
        (
            UPat(Ops.STORE, name="root", src=(UPat(), UPat(Ops.CONST, name="v")), allow_any_len=True),
            lambda root, v: _noop() if v.is_invalid else None,
        ),
        (
            UPat(
                Ops.STORE,
                name="root",
                src=(
                    UPat.var("i"),
                    UPat(Ops.WHERE, src=(UPat.var("c"), UPat.var("v"), UPat(Ops.CONST, name="e"))),
                ),
                allow_any_len=True,
            ),
            lambda root, i, c, v, e: _store_gated(root, i, c, v) if e.is_invalid else None,
        ),
    ]
)


# reductions (A17) -------------------------------------------------------------------------------


def _factor_out(root: UOp) -> UOp | None:
    """A17: factors that do not depend on the reduced ranges leave a sum of exact dtype; those that are not
    negative leave a maximum of the weak integer (a product of a strong integer may wrap)."""
    x, ranges, op = root.src[0], root.src[1:], root.arg[0]
    if not ranges or root.arg[1] or x.dtype is not root.dtype or not x.dtype.is_exact or x.op is not Ops.MUL:
        return None
    if op not in (Ops.ADD, Ops.MAX) or (op is Ops.MAX and x.dtype is not dtypes.weakint):
        return None
    closed = {r for e in ranges for r in e.ranges}
    out: list[UOp] = []
    inside: list[UOp] = []
    for f in x.split_uop(Ops.MUL, 64):
        free = not any(r in closed for r in f.ranges) and (op is Ops.ADD or f.vmin >= 0)
        (out if free else inside).append(f)
    if not out or not inside or any(f.dtype is not x.dtype for f in (*out, *inside)):
        return None
    return root.rebuild((inside[0].uprod(*inside[1:]), *ranges)).uprod(*out)


reductions: Final = PatternMatcher([(UPat(Ops.REDUCE, name="root"), _factor_out)])

# casts (A11) and negated sums (A3) --------------------------------------------------------------


def _cast_branches(root: UOp, c: UOp, t: UOp, f: UOp) -> UOp | None:
    """A11: a cast moves into the branches of a WHERE when it folds away in one of them."""
    if t.is_invalid or f.is_invalid or not (t.op is Ops.CONST or f.op is Ops.CONST):
        return None
    return c.where(t.cast(root.dtype), f.cast(root.dtype))


def _negated_sum(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """A3: ``-(x + y)`` of strong integers is ``-x + -y``, so that terms of both signs meet in one sum."""
    return None if x.dtype is not y.dtype else x * UOp.const(-1, x.dtype) + y * UOp.const(-1, y.dtype)


def _sum(dtype: Any) -> UPat:
    return UPat(Ops.ADD, dtype, (_x, UPat.var("y")))


branches: Final = PatternMatcher(
    [
        (
            UPat(
                Ops.CAST,
                name="root",
                src=(UPat(Ops.WHERE, src=(UPat.var("c"), UPat.var("t"), UPat.var("f"))),),
            ),
            _cast_branches,
        ),
        (UPat(Ops.MUL, dtypes.sints, (_sum(dtypes.sints), UPat.const(-1)), name="root"), _negated_sum),
        *((UPat(Ops.MUL, d, (_sum(d), UPat.const(d.max)), name="root"), _negated_sum) for d in dtypes.uints),
    ]
)

structure: Final = views + effects + reductions + branches

__all__ = ["branches", "effects", "reductions", "structure", "views"]
