"""Exact algebra on every dtype: constants outward, selection, casts, strong integers."""

from __future__ import annotations

import math
from typing import Final

from uopgraph.constfold import fold
from uopgraph.dtype import Invalid, can_lossless_cast, dtypes
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.order import compare, in_order
from uopgraph.pattern import PatternMatcher, UPat
from uopgraph.symbolic.simple import as_dtype, broadcast, const_of, same

_STRONG: Final = dtypes.ints
_EXACT: Final = dtypes.exact

#: How many nodes rule A10 looks through in a branch.
_CLOSURE: Final = 48


def _two_stage(root: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """O3: ``(x op c1) op c2`` is ``x op (c1 op c2)`` when every dtype is the same and constants fold."""
    if c1.arg is Invalid or c2.arg is Invalid or not x.dtype is c1.dtype is c2.dtype is root.dtype:
        return None
    value = fold(root.op, root.dtype, [c1.dtype, c2.dtype], [c1.arg, c2.arg])
    return None if value is None else root.rebuild((x, UOp.const(value, root.dtype)))


def _two_stage_max(root: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """O3 for a float MAX: exact unless a constant is a zero or a nan."""
    if any(c.arg is Invalid or c.arg == 0 or math.isnan(c.arg) for c in (c1, c2)):
        return None
    return _two_stage(root, x, c1, c2)


def _outward(root: UOp, x: UOp, c: UOp, y: UOp) -> UOp | None:
    """O2: ``(x op c) op y`` is ``(x op y) op c`` for y not a constant."""
    if y.op is Ops.CONST or not x.dtype is c.dtype is y.dtype is root.dtype:
        return None
    inner = root.rebuild((x, y))
    return root.rebuild((inner, c))


def _const_right(root: UOp, c: UOp, x: UOp) -> UOp | None:
    if x.op is Ops.CONST or (root.op is Ops.MAX and root.dtype.is_float and c.arg == 0):
        return None  # which zero a maximum of both zeros gives may depend on their order
    return root.rebuild((x, c))


def _like_terms(root: UOp, x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """A1: ``x*c1 + x*c2`` is ``x*(c1 + c2)`` modulo 2**n."""
    if not x.dtype is c1.dtype is c2.dtype is root.dtype:
        return None
    return broadcast(x * UOp.const(c1.arg + c2.arg, root.dtype), root)


def _twice(root: UOp, x: UOp) -> UOp:
    return x * UOp.const(2, x.dtype)


def _power_of_two_mask(root: UOp, x: UOp, m: UOp, k: UOp) -> UOp | None:
    """S26: ``(x & m) >> k`` is ``x >> k`` when m only clears bits below k."""
    if x.dtype is not m.dtype or type(m.arg) is not int or type(k.arg) is not int or not 0 <= k.arg < 64:
        return None
    return root.rebuild((x, k)) if m.arg >> k.arg == -1 or _all_ones_above(m, int(k.arg)) else None


def _all_ones_above(m: UOp, k: int) -> bool:
    return m.dtype.is_unsigned and m.arg >> k == m.dtype.max >> k


def _mask_div(root: UOp, x: UOp, m: UOp, d: UOp) -> UOp | None:
    if type(d.arg) is not int or d.arg <= 0 or d.arg & (d.arg - 1):
        return None
    k = UOp.const(d.arg.bit_length() - 1, dtypes.weakint)
    found = _power_of_two_mask(root.replace(op=Ops.SHR, src=(root.src[0], k)), x, m, k)
    return None if found is None else root.rebuild((x, d))


#: Chains of AND or OR that are longer keep their order.
_CHAIN: Final = 64


def _canonical_bools(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """O1, S8, A5 on a chain of AND or OR: each term once, in key order; a term and its negation decide it."""
    if x.op is not root.op and y.op is not root.op and compare(x, y) < 0 and not _opposite(x, y):
        return None
    terms = root.split_uop(root.op)
    if len(terms) > _CHAIN:
        return None
    unique = in_order(dict.fromkeys(terms))
    deciding = root.op is Ops.OR
    for i, t in enumerate(unique):
        if any(_opposite(t, u) for u in unique[i + 1 :]):
            return const_of(deciding, root)
    out = unique[0]
    for t in unique[1:]:
        out = out.alu(root.op, t)
    return broadcast(out, root)


def _opposite(x: UOp, y: UOp) -> bool:
    """True when one is the logical not of the other."""
    return any(
        a.op is Ops.CMPNE and a.src[0] is b and a.src[1].op is Ops.CONST and a.src[1].arg is True
        for a, b in ((x, y), (y, x))
    )


# selection --------------------------------------------------------------------------------------


def _merge_and(root: UOp, a: UOp, b: UOp, c: UOp, d: UOp) -> UOp | None:
    """S25: ``a ? (b ? c : d) : d`` is ``(a & b) ? c : d``."""
    return None if d.is_invalid or b.is_invalid else (a & b).where(as_dtype(c, root), as_dtype(d, root))


def _merge_or(root: UOp, a: UOp, b: UOp, c: UOp, d: UOp) -> UOp | None:
    return None if d.is_invalid or b.is_invalid else (a | b).where(as_dtype(c, root), as_dtype(d, root))


def _not_condition(root: UOp, c: UOp, t: UOp, f: UOp) -> UOp | None:
    """A9: ``!c ? t : f`` is ``c ? f : t`` unless f is Invalid."""
    return None if f.is_invalid else c.where(f, t)


def _max_of_where(root: UOp, a: UOp, b: UOp) -> UOp | None:
    """A7: ``(a < b) ? b : a`` is the maximum (exact dtypes)."""
    return a.maximum(b) if a.dtype is b.dtype else None


def _same_conditions(root: UOp, c: UOp, t: UOp, f: UOp, t2: UOp, f2: UOp) -> UOp | None:
    """A8: ``where(c,t,f) op where(c,t2,f2)`` is one WHERE when one pair of branches is constant."""
    if any(x.is_invalid for x in (t, f, t2, f2)):
        return None
    constant = all(x.op is Ops.CONST for x in (t, t2)) or all(x.op is Ops.CONST for x in (f, f2))
    return c.where(root.rebuild((t, t2)), root.rebuild((f, f2))) if constant else None


def _merged(c: UOp, t: UOp, f: UOp, t2: UOp, f2: UOp) -> UOp | None:
    """``where(c,t,f) + where(c,t2,f2)`` when each branch pair is constant or has a 0 (exact dtypes)."""
    if any(x.is_invalid for x in (t, f, t2, f2)):
        return None

    def plain(a: UOp, b: UOp) -> bool:
        return (a.op is Ops.CONST and (b.op is Ops.CONST or a.arg == 0)) or (b.op is Ops.CONST and b.arg == 0)

    return c.where(t + t2, f + f2) if plain(t, t2) and plain(f, f2) else None


def _complementary(root: UOp, c: UOp, t: UOp, f: UOp, t2: UOp, f2: UOp) -> UOp | None:
    """A8: ``where(c,t,0) + where(c,0,f)`` is ``where(c,t,f)``."""
    return _merged(c, t, f, t2, f2)


def _under_sum(root: UOp, y: UOp, c: UOp, t: UOp, f: UOp, t2: UOp, f2: UOp) -> UOp | None:
    """A8 in a longer sum: ``(y + where(c,t,f)) + where(c,t2,f2)``."""
    found = _merged(c, t, f, t2, f2)
    return None if found is None or found.dtype is not root.dtype else y + found


def _occurs(target: UOp, root: UOp) -> bool | None:
    """Whether `target` is at or below `root`; None when the search meets an INDEX or grows too large."""
    if root.depth > _CLOSURE:
        return None
    seen = {root}
    stack = [root]
    found = False
    while stack:
        node = stack.pop()
        if node is target:
            found = True
            continue
        if node.op is Ops.INDEX or len(seen) > _CLOSURE:
            return None
        for s in node.src:
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return found


def _close(root: UOp, c: UOp, t: UOp, f: UOp) -> UOp | None:
    """A10: in the branches of WHERE the condition is known, unless an INDEX (a read) occurs in any of the
    three."""
    if c.op is Ops.CONST or any(n.op is Ops.INDEX for n in c.src):
        return None
    in_then, in_else = _occurs(c, t), _occurs(c, f)
    if in_then is None or in_else is None or not (in_then or in_else):
        return None
    if _occurs(UOp.invalid(), c) is None:  # a read in the condition
        return None
    new_t = t.substitute({c: UOp.const(True)}, walk=True) if in_then else t
    new_f = f.substitute({c: UOp.const(False)}, walk=True) if in_else else f
    return c.where(new_t, new_f)


# casts ------------------------------------------------------------------------------------------


def _round_trip(root: UOp, x: UOp) -> UOp | None:
    """S17: ``cast_b(cast_a(x))`` is x when x has dtype b and a holds every value of b."""
    return x if x.dtype is root.dtype and can_lossless_cast(x.dtype, root.src[0].dtype) else None


def _through(root: UOp, x: UOp) -> UOp | None:
    """A12: the cast in between changes no value."""
    middle = root.src[0].dtype
    if x.dtype is dtypes.bool and root.dtype is dtypes.bool:
        return x
    if can_lossless_cast(x.dtype, middle):
        return x.cast(root.dtype)
    ints = x.dtype.is_exact and middle.is_int
    return x.cast(root.dtype) if ints and middle.min <= x.vmin <= x.vmax <= middle.max else None


def _cast_of_sum(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """A14: a cast of ``x + c`` from the weak integer is ``cast(x) + c``: both wrap modulo 2**n."""
    if x.is_invalid or c.is_invalid:
        return None
    return x.cast(root.dtype) + UOp.const(c.arg, root.dtype)


def _to_bool(root: UOp, x: UOp) -> UOp | None:
    """S18: a cast to bool is a comparison with 0."""
    return None if x.dtype is dtypes.bool else x.ne(UOp.const(0, x.dtype))


def _cast_bool_unequal(root: UOp, b: UOp, c: UOp) -> UOp:
    """S11: ``cast(b) != c`` for a bool b: b, its negation, or True."""
    if c.arg == 0:
        return b
    return b.logical_not() if c.arg == 1 else const_of(True, root)


def _bool_op(op: Ops) -> UPat:
    return UPat(op, dtypes.bool, (UPat.var("x", dtypes.bool), UPat.var("y", dtypes.bool)), name="root")


def _branches(t: str, f: str) -> UPat:
    return UPat(Ops.WHERE, src=(UPat.var("c"), UPat.var(t), UPat.var(f)))


_x: Final = UPat.var("x")
_true: Final = UPat.const(True, dtypes.bool)
_not_c: Final = UPat(Ops.CMPNE, src=[UPat.var("c", dtypes.bool), _true])
_abcd: Final = {n: UPat.var(n) for n in "abcd"}
_ASSOCIATIVE: Final = (Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.MAX, Ops.XOR)

general: Final = PatternMatcher(
    [
        # a constant stands on the right
        (UPat(GroupOp.Commutative, name="root", src=(UPat.cvar("c"), _x)), _const_right),
        # S4
        (
            UPat(Ops.XOR, _EXACT, [UPat(Ops.XOR, _EXACT, [_x, UPat.var("y")]), UPat.var("y")], name="root"),
            same,
        ),
        # S7
        (UPat(Ops.AND, dtypes.bool, (_x, _true), name="root"), same),
        (
            UPat(Ops.AND, dtypes.bool, (_x, UPat.const(False, dtypes.bool)), name="root"),
            lambda root, x: const_of(False, root),
        ),
        (UPat(Ops.OR, dtypes.bool, (_x, UPat.const(False, dtypes.bool)), name="root"), same),
        (UPat(Ops.OR, dtypes.bool, (_x, _true), name="root"), lambda root, x: const_of(True, root)),
        (UPat(Ops.XOR, dtypes.bool, (_x, UPat.const(False, dtypes.bool)), name="root"), same),
        (
            UPat(Ops.XOR, dtypes.bool, (_x, _true), name="root"),
            lambda root, x: broadcast(x.logical_not(), root) if not root.src[1].is_invalid else None,
        ),
        # S12
        (UPat(tuple(GroupOp.Rounding), _EXACT, (UPat.var("x", _EXACT),), name="root"), same),
        # S19
        (_bool_op(Ops.MUL), lambda root, x, y: x & y),
        (_bool_op(Ops.ADD), lambda root, x, y: x | y),
        (_bool_op(Ops.MAX), lambda root, x, y: x | y),
        # O1, A5
        (
            UPat((Ops.AND, Ops.OR), dtypes.bool, (_x, UPat.var("y")), name="root"),
            _canonical_bools,
        ),
        # O2, O3 on exact dtypes
        *(
            (
                UPat(op, _EXACT, (UPat(op, _EXACT, (_x, UPat.cvar("c1"))), UPat.cvar("c2")), name="root"),
                _two_stage,
            )
            for op in _ASSOCIATIVE
        ),
        *(
            (UPat(op, _EXACT, [UPat(op, _EXACT, (_x, UPat.cvar("c"))), UPat.var("y")], name="root"), _outward)
            for op in _ASSOCIATIVE
        ),
        (
            UPat(
                Ops.MAX,
                dtypes.floats,
                (UPat(Ops.MAX, dtypes.floats, (_x, UPat.cvar("c1"))), UPat.cvar("c2")),
                name="root",
            ),
            _two_stage_max,
        ),
        # A1, A2 on strong integers; x + x is exact on floats too
        (UPat(Ops.ADD, _STRONG, (_x * UPat.cvar("c1"), _x * UPat.cvar("c2")), name="root"), _like_terms),
        (
            UPat(Ops.ADD, _STRONG, [UPat(Ops.MUL, _STRONG, (_x, UPat.cvar("c1"))), _x], name="root"),
            lambda root, x, c1: _like_terms(root, x, c1, UOp.const(1, root.dtype)),
        ),
        (UPat(Ops.ADD, (*_STRONG, *dtypes.floats), (_x, _x), name="root"), _twice),
        # S26
        (
            UPat(
                Ops.SHR, dtypes.ints, (UPat(Ops.AND, src=(_x, UPat.cvar("m"))), UPat.cvar("k")), name="root"
            ),
            _power_of_two_mask,
        ),
        (
            UPat(
                Ops.FLOORDIV,
                (dtypes.weakint, *dtypes.ints),
                (UPat(Ops.AND, src=(_x, UPat.cvar("m"))), UPat.cvar("d")),
                name="root",
            ),
            _mask_div,
        ),
        # S10, S25, A7, A8, A9, A10
        (
            UPat(Ops.WHERE, dtypes.bool, (_x, UPat.const(False, dtypes.bool), _true), name="root"),
            lambda root, x: broadcast(x.logical_not(), root),
        ),
        (
            UPat(
                Ops.WHERE,
                name="root",
                src=(_abcd["a"], UPat(Ops.WHERE, src=(_abcd["b"], _abcd["c"], _abcd["d"])), _abcd["d"]),
            ),
            _merge_and,
        ),
        (
            UPat(
                Ops.WHERE,
                name="root",
                src=(_abcd["a"], _abcd["c"], UPat(Ops.WHERE, src=(_abcd["b"], _abcd["c"], _abcd["d"]))),
            ),
            _merge_or,
        ),
        (
            UPat(
                Ops.WHERE,
                _EXACT,
                (UPat(Ops.CMPLT, src=(UPat.var("a", _EXACT), UPat.var("b", _EXACT))), _abcd["b"], _abcd["a"]),
                name="root",
            ),
            _max_of_where,
        ),
        (UPat(Ops.WHERE, name="root", src=(_not_c, UPat.var("t"), UPat.var("f"))), _not_condition),
        (
            UPat(
                GroupOp.Binary,
                name="root",
                src=(
                    UPat(Ops.WHERE, src=(UPat.var("c"), UPat.var("t"), UPat.var("f"))),
                    UPat(Ops.WHERE, src=(UPat.var("c"), UPat.var("t2"), UPat.var("f2"))),
                ),
            ),
            _same_conditions,
        ),
        (UPat(Ops.ADD, _EXACT, (_branches("t", "f"), _branches("t2", "f2")), name="root"), _complementary),
        (
            UPat(
                Ops.ADD,
                _EXACT,
                (UPat(Ops.ADD, _EXACT, (UPat.var("y"), _branches("t", "f"))), _branches("t2", "f2")),
                name="root",
            ),
            _under_sum,
        ),
        (UPat(Ops.WHERE, name="root", src=(UPat.var("c"), UPat.var("t"), UPat.var("f"))), _close),
        # S11, S17, S18, A12
        (
            UPat(
                Ops.CMPNE,
                name="root",
                src=(
                    UPat(Ops.CAST, (*dtypes.ints, dtypes.weakint), (UPat.var("b", dtypes.bool),)),
                    UPat.cvar("c"),
                ),
            ),
            _cast_bool_unequal,
        ),
        (UPat(Ops.CAST, name="root", src=(UPat(Ops.CAST, src=(_x,)),)), _round_trip),
        (UPat(Ops.CAST, name="root", src=(UPat(Ops.CAST, src=(_x,)),)), _through),
        (UPat(Ops.CAST, dtypes.bool, (_x,), name="root"), _to_bool),
        # A14
        (
            UPat(
                Ops.CAST,
                _STRONG,
                (UPat(Ops.ADD, dtypes.weakint, (UPat.var("x", dtypes.weakint), UPat.cvar("c"))),),
                name="root",
            ),
            _cast_of_sum,
        ),
        (
            UPat(Ops.BITCAST, name="root", src=(UPat(Ops.BITCAST, src=(_x,)),)),
            lambda root, x: x.bitcast(root.dtype) if x.dtype.itemsize == root.src[0].dtype.itemsize else None,
        ),
    ]
)
