"""Validity of indices: what a condition says about an expression, and which clauses are
needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from uopgraph.bounds import is_bounded
from uopgraph.dtype import dtypes
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.order import in_order
from uopgraph.pattern import PatternMatcher, UPat
from uopgraph.rewrite import graph_rewrite
from uopgraph.symbolic.exact import symbolic
from uopgraph.symbolic.terms import is_int_const, linear


@attrs.frozen(eq=False)
class Bound:
    """One clause as a bound: ``expr <= value`` when upper, else ``expr >= value``."""

    expr: UOp
    upper: bool
    value: int


def parse_valid(clause: UOp) -> Bound | None:
    """The bound that an integer comparison states, None for any other clause."""
    negated = clause.op is Ops.CMPNE and clause.src[1].op is Ops.CONST and clause.src[1].arg is True
    c = clause.src[0] if negated else clause
    if c.op is not Ops.CMPLT or not c.src[0].dtype.is_int:
        return None
    a, b = c.src
    if is_int_const(b):
        return Bound(a, False, int(b.arg)) if negated else Bound(a, True, int(b.arg) - 1)
    if is_int_const(a):
        return Bound(b, True, int(a.arg)) if negated else Bound(b, False, int(a.arg) + 1)
    return None


def _simplify(x: UOp) -> UOp:
    return graph_rewrite(x, symbolic, name="simplify given valid")


def clauses_of(valid: UOp) -> list[UOp]:
    """The terms of an AND, without the constant True."""
    return [c for c in valid.split_uop(Ops.AND) if not (c.op is Ops.CONST and c.arg is True)]


def _bounds(clauses: Iterable[UOp]) -> dict[UOp, tuple[int, int]] | None:
    """The interval of each bounded expression; None when two clauses contradict each other."""
    found: dict[UOp, tuple[int, int]] = {}
    for clause in clauses:
        b = parse_valid(clause)
        if b is None:
            continue
        low, high = found.get(b.expr, (b.expr.vmin, b.expr.vmax))
        found[b.expr] = (low, min(high, b.value)) if b.upper else (max(low, b.value), high)
        if found[b.expr][0] > found[b.expr][1]:
            return None
    return found


def _stand_in(name: str, x: UOp, low: int, high: int) -> UOp:
    """A Variable that has the dtype of `x` and a tighter interval."""
    if low == high:
        return UOp.const(low, x.dtype)
    return UOp.variable(name, low, high, x.dtype)


def _given(u: UOp, replaced: dict[UOp, UOp]) -> UOp:
    """`u` simplified while some expressions are replaced by bounded stand-ins."""
    there = u.substitute(replaced, walk=True)
    if there is u:
        return u
    back = {v: k for k, v in replaced.items() if v.op is not Ops.CONST}
    return _simplify(_simplify(there).substitute(back, walk=True))


def uop_given_valid(valid: UOp, u: UOp, try_simplex: bool = True) -> UOp:
    """`u` simplified under the assumption that `valid` holds. `u` itself when the assumption says nothing.

    Per bounded expression X: X is replaced by a fresh Variable with the tighter interval. With `try_simplex`,
    when X is a sum of irreducible terms that is at least 1, some term is at least 1: every such case is tried
    and the result is taken when all agree.
    """
    bounds = _bounds(clauses_of(valid))
    if bounds is None:
        return u
    for i, (x, (low, high)) in enumerate(bounds.items()):
        if try_simplex and low == 1 and x.op is Ops.ADD:
            u = _simplex(x, u, i)
        if (low, high) == (x.vmin, x.vmax):
            continue
        u = _given(u, {x: _stand_in(f"__given{i}", x, low, high)})
        u = _through_sum(x, low, high, u, i)
    together = {
        x: _stand_in(f"__given{i}", x, low, high)
        for i, (x, (low, high)) in enumerate(bounds.items())
        if (low, high) != (x.vmin, x.vmax)
    }
    return _given(u, together) if len(together) > 1 else u


def _through_sum(x: UOp, low: int, high: int, u: UOp, i: int) -> UOp:
    """A sum in `x` may stand in `u` inside a longer sum: one of its terms is replaced by X minus the
    others."""
    if x.op is not Ops.ADD or x.dtype is not dtypes.weakint:
        return u
    form = linear(x)
    unit = next((t for t, f in form.terms.items() if f == 1 and t.op in GroupOp.Irreducible), None)
    if unit is None or (low, high) == (x.vmin, x.vmax) or not is_bounded((low, high)):
        return u
    fresh = _stand_in(f"__sum{i}", x, low, high)
    rest = linear(x).plus(linear(unit), -1).node()
    there = _simplify(u.substitute({unit: fresh + rest * -1}, walk=True))
    if unit in there.backward_slice_with_self:
        return u
    back = _simplify(there.substitute({fresh: x}, walk=True)) if fresh.op is not Ops.CONST else there
    return back if len(back.backward_slice) < len(u.backward_slice) else u


def _simplex(x: UOp, u: UOp, i: int) -> UOp:
    terms = x.split_uop(Ops.ADD)
    if not all(t.op in GroupOp.Irreducible and t.op is not Ops.CONST and t.vmin == 0 for t in terms):
        return u
    results = [_given(u, {t: _stand_in(f"__given{i}_{k}", t, 1, t.vmax)}) for k, t in enumerate(terms)]
    return results[0] if all(r is results[0] for r in results) else u


def _has_index(x: UOp) -> bool:
    return x.op_in_backward_slice_with_self(Ops.INDEX, Ops.LOAD)


def simplify_valid(valid: UOp) -> UOp | None:
    """The condition with every clause simplified given the others; None when nothing changes.

    Data-dependent conditions (with INDEX) are left alone. The result does not depend on the order of the
    clauses: they are taken in key order, those that occur inside others first.
    """
    if _has_index(valid):
        return None
    clauses = list(dict.fromkeys(clauses_of(valid)))
    if _bounds(clauses) is None:
        return UOp.const(False)
    parsed = {c: parse_valid(c) for c in clauses}
    inside = {
        c: sum(1 for d in clauses if d is not c and b is not None and b.expr in d.backward_slice)
        for c, b in parsed.items()
    }
    ordered = sorted(in_order(clauses), key=lambda c: -inside[c])
    kept: list[UOp] = []
    for i, clause in enumerate(ordered):
        others = kept + ordered[i + 1 :]
        own = parsed[clause]
        new = clause
        for other in others:
            b = parsed.get(other) or parse_valid(other)
            if b is not None and (own is None or b.expr is not own.expr):
                new = uop_given_valid(other, new)
        if new.op is Ops.CONST:
            if new.arg is False:
                return UOp.const(False)
            continue
        kept += clauses_of(new)
    kept = _merge_bounds(list(dict.fromkeys(kept)))
    result = _conjunction(kept)
    return None if result is valid else result


def _merge_bounds(clauses: list[UOp]) -> list[UOp]:
    """Of several bounds on one side of one expression only the tightest stays."""
    best: dict[tuple[UOp, bool], tuple[int, UOp]] = {}
    out: list[UOp] = []
    for c in clauses:
        b = parse_valid(c)
        if b is None:
            out.append(c)
            continue
        place = (b.expr, b.upper)
        old = best.get(place)
        if old is None or (b.value < old[0] if b.upper else b.value > old[0]):
            best[place] = (b.value, c)
    return [*out, *(c for _, c in best.values())]


def _conjunction(clauses: list[UOp]) -> UOp:
    if not clauses:
        return UOp.const(True)
    ordered = in_order(clauses)
    out = ordered[0]
    for c in ordered[1:]:
        out = out & c
    return out


def simplify_gated(root: UOp, valid: UOp, idx: UOp) -> UOp | None:
    """V2: an index without reads, simplified given its validity."""
    if idx.op is Ops.CONST or _has_index(idx) or _has_index(valid):
        return None
    new = uop_given_valid(valid, idx, try_simplex=False)
    return None if new is idx else new.valid(valid)


def drop_foreign_clauses(root: UOp, valid: UOp, idx: UOp) -> UOp | None:
    """V3, only in the reshape pass: clauses that share no range with the index."""
    mine = idx.ranges
    clauses = clauses_of(valid)
    kept = [c for c in clauses if any(r in mine for r in c.ranges) or not c.ranges]
    return None if len(kept) == len(clauses) else idx.valid(_conjunction(kept))


def gate_load(root: UOp, cond: UOp, load: UOp, zero: UOp) -> UOp | None:
    """V4: ``cond ? load : 0`` moves the clauses that the index can carry into its validity (a load through an
    invalid index is 0). Clauses with other ranges or with reads stay outside; the index keeps its own."""
    index = load.src[0]
    if len(load.src) != 1 or index.op is not Ops.INDEX or len(index.src) < 2 or zero.arg != 0:
        return None
    if root.dtype is not load.dtype or (root.dtype.is_float and str(zero.arg) != "0.0"):
        return None
    mine = {r for i in index.src[1:] for r in i.ranges}
    inside = [
        c for c in clauses_of(cond) if not _has_index(c) and c.ranges and all(r in mine for r in c.ranges)
    ]
    if not inside:
        return None
    first = index.src[1]
    own = clauses_of(first.get_valid())
    valid = _conjunction(list(dict.fromkeys([*own, *inside])))
    gated = first.get_idx().valid(valid)
    rest = [c for c in clauses_of(cond) if c not in inside]
    new = load.rebuild((index.rebuild((index.src[0], gated, *index.src[2:])),))
    return _conjunction(rest).where(new, zero) if rest else new


def _gate_load_swapped(root: UOp, cond: UOp, load: UOp, zero: UOp) -> UOp | None:
    return gate_load(root, cond.logical_not(), load, zero)


def _valid_rule(root: UOp) -> UOp | None:
    return simplify_valid(root)


_gated: Final = UPat(
    Ops.WHERE, name="root", src=(UPat.var("valid"), UPat.var("idx", dtypes.weakint), UPat.cvar("i"))
)

#: V1 and V2.
valid_rules: Final = PatternMatcher(
    [
        (UPat(Ops.AND, dtypes.bool, name="root"), _valid_rule),
        (_gated, lambda root, valid, idx, i: simplify_gated(root, valid, idx) if i.is_invalid else None),
    ]
)

_load: Final = UPat(Ops.LOAD, name="load")

#: V4.
gated_loads: Final = PatternMatcher(
    [
        (UPat(Ops.WHERE, name="root", src=(UPat.var("cond"), _load, UPat.cvar("zero"))), gate_load),
        (UPat(Ops.WHERE, name="root", src=(UPat.var("cond"), UPat.cvar("zero"), _load)), _gate_load_swapped),
    ]
)

#: V3.
foreign_clauses: Final = PatternMatcher(
    [(_gated, lambda root, valid, idx, i: drop_foreign_clauses(root, valid, idx) if i.is_invalid else None)]
)

__all__ = [
    "Bound",
    "foreign_clauses",
    "gated_loads",
    "parse_valid",
    "simplify_valid",
    "uop_given_valid",
    "valid_rules",
]
