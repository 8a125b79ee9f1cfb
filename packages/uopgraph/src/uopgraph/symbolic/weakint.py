"""Arithmetic of the weak integer: canonical sums and products, bounds, comparisons."""

from __future__ import annotations

import math
from typing import Final

from uopgraph.bounds import is_bounded
from uopgraph.dtype import dtypes
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.order import compare, order_key
from uopgraph.pattern import PatternMatcher, UPat
from uopgraph.symbolic.divmod import fold_div, fold_mod, recombine
from uopgraph.symbolic.simple import broadcast
from uopgraph.symbolic.terms import Linear, is_int_const, linear

_W: Final = dtypes.weakint


def _base(x: UOp) -> UOp:
    return x.src[0] if x.op is Ops.MUL and is_int_const(x.src[1]) else x


def _is_canonical_step(x: UOp) -> bool:
    """True when `x` = left + right adds a later term to an already canonical sum (an O(1) test)."""
    left, right = x.src
    if is_int_const(left):
        return False
    if left.op is Ops.ADD and is_int_const(left.src[1]):
        return False
    if is_int_const(right):
        return bool(right.arg != 0)
    base = _base(right)
    if base.op is Ops.ADD or base.op is Ops.CONST:
        return False
    last = _base(left.src[1] if left.op is Ops.ADD else left)
    if last.op is Ops.ADD or last.op is Ops.CONST:
        return False
    return compare(last, base) < 0


def _has_quotient(x: UOp) -> bool:
    return _base(x).op in (Ops.FLOORDIV, Ops.FLOORMOD) or (
        _base(x).op is Ops.MUL and any(s.op is Ops.FLOORDIV for s in _base(x).split_uop(Ops.MUL, _FACTORS))
    )


def canonical_sum(x: UOp) -> UOp | None:
    """O1-O3, A1-A3, R: like terms merged, constants distributed and last, terms in key order, div and mod
    recombined."""
    step = _is_canonical_step(x)
    if step and not _has_quotient(x.src[1]):
        return None
    form = linear(x)
    found = recombine(form)
    if found is None and step:
        return None
    while found is not None:
        form, found = found, recombine(found)
    return form.node()


#: Products of more factors keep their form: repeated squaring has exponentially many.
_FACTORS: Final = 32


def _is_canonical_factor(x: UOp) -> bool:
    """True when `x` = left * right adds a later factor to an already canonical product (an O(1) test)."""
    left, right = x.src
    if left.op is Ops.CONST or right.op is Ops.MUL:
        return False
    if left.op is Ops.MUL and left.src[1].op is Ops.CONST:
        return False
    if right.op is Ops.CONST:
        return is_int_const(right) and right.arg not in (0, 1) and left.op is not Ops.ADD
    return compare(left.src[1] if left.op is Ops.MUL else left, right) <= 0


def canonical_product(x: UOp) -> UOp | None:
    """O1-O3, A3: factors in key order, the constant last and distributed over a sum."""
    if _is_canonical_factor(x):
        return None
    constant = 1
    factors: list[UOp] = []
    flat = x.split_uop(Ops.MUL, _FACTORS)
    if len(flat) >= _FACTORS:
        return None
    for f in flat:
        if is_int_const(f):
            constant *= int(f.arg)
        else:
            factors.append(f)
    if constant == 0:
        return UOp.const(0)
    factors.sort(key=order_key)
    if not factors:
        return UOp.const(constant)
    product = factors[0].uprod(*factors[1:])
    if constant == 1:
        return product
    return linear(product).scaled(constant).node() if product.op is Ops.ADD else product * constant


def ordered(x: UOp) -> UOp | None:
    """O1 for the commutative operations without a normal form of their own."""
    a, b = x.src
    return x.rebuild((b, a)) if compare(a, b) > 0 else None


def constant_by_bounds(x: UOp) -> UOp | None:
    """A6: a value that its bounds decide. Not for Invalid operands: poison must survive."""
    low, high = x.vmin, x.vmax
    if low == high and is_bounded((low, high)) and not any(s.is_invalid for s in x.src):
        return UOp.const(low, x.dtype)
    return None


def max_by_bounds(x: UOp) -> UOp | None:
    """A7: a maximum that disjoint bounds decide."""
    a, b = x.src
    if a.vmin >= b.vmax and a.vmin > -(2**799) and b.vmin <= b.vmax:
        return a
    if b.vmin >= a.vmax and b.vmin > -(2**799) and a.vmin <= a.vmax:
        return b
    return None


def _split_constant(x: UOp) -> tuple[Linear, int]:
    form = linear(x)
    return Linear(form.terms, 0), form.const


def compare_less(x: UOp) -> UOp | None:
    """L1-L6: ``sum < constant``, the constant on the right, common factors divided out."""
    a, b = x.src
    if is_int_const(a):
        if is_int_const(b):
            return None
        return (b < int(a.arg) + 1).logical_not()  # c < X is not X < c + 1
    if not is_int_const(b):
        return _less_symbolic(a, b)
    c = int(b.arg)
    if a.op is Ops.FLOORDIV and is_int_const(a.src[1]):  # L3
        z, d = a.src[0], int(a.src[1].arg)
        if d > 0:
            return z < c * d
        if d < 0:
            return (z < c * d + 1).logical_not()
    form, k = _split_constant(a)
    if k:  # L1
        return form.node() < c - k
    if form.terms and all(f < 0 for f in form.terms.values()):  # -X < c is not X < 1 - c
        return (form.scaled(-1).node() < 1 - c).logical_not()
    g = math.gcd(*form.terms.values()) if form.terms else 1
    if g > 1:  # L2, exact division
        return Linear({t: f // g for t, f in form.terms.items()}, 0).node() < -(-c // g)
    divided = _common_part(form, c)
    if divided is not None:
        return divided
    if c == 1 and len(form.terms) > 1 and any(f != 1 for f in form.terms.values()):  # L6
        positive = all(f > 0 and t.op in GroupOp.Irreducible and t.vmin >= 0 for t, f in form.terms.items())
        if positive:
            return Linear(dict.fromkeys(form.terms, 1), 0).node() < 1
    return None


def _common_part(form: Linear, c: int) -> UOp | None:
    """L4: ``g*z + s < c`` with s in [0, g) is ``z < c/g`` when g divides c."""
    for g in sorted({math.gcd(abs(f), c) for f in form.terms.values()}, reverse=True):
        if g <= 1:
            return None
        small = Linear({t: f for t, f in form.terms.items() if f % g}, 0)
        interval = small.bounds()
        if interval is not None and 0 <= interval[0] <= interval[1] < g:
            big = Linear({t: f // g for t, f in form.terms.items() if f % g == 0}, 0)
            return big.node() < c // g
    return None


def _less_symbolic(a: UOp, b: UOp) -> UOp | None:
    """Two expressions: a RANGE is less than its bound, equal terms cancel, L5."""
    if a.op is Ops.RANGE and a.src[0] is b:
        return UOp.const(True)
    if a.op is Ops.ADD or b.op is Ops.ADD or (a.op is Ops.MUL and b.op is Ops.MUL):
        x, y = linear(a), linear(b)
        shared = {t: f for t, f in x.terms.items() if y.terms.get(t) == f}
        if shared or y.const:
            common = Linear(shared, y.const)
            return x.plus(common, -1).node() < y.plus(common, -1).node()
        if not x.const and all(f < 0 for f in (*x.terms.values(), *y.terms.values())):
            return y.scaled(-1).node() < x.scaled(-1).node()  # L5
    return None


def compare_unequal(x: UOp) -> UOp | None:
    """``sum != constant``: the constant on the right, a common factor divided out."""
    a, b = x.src
    if is_int_const(a):
        return None
    if not is_int_const(b):
        left, right = linear(a), linear(b)
        if left.terms.keys() & right.terms.keys() or right.const:
            rest = left.plus(right, -1)
            return Linear(rest.terms, 0).node().ne(-rest.const)
        return None
    form, k = _split_constant(a)
    c = int(b.arg)
    if k:
        return form.node().ne(c - k)
    g = math.gcd(*form.terms.values()) if form.terms else 1
    if g > 1:
        if c % g:
            return UOp.const(True)
        return Linear({t: f // g for t, f in form.terms.items()}, 0).node().ne(c // g)
    return None


_compared: Final = (UPat.var("a", _W), UPat.var("b", _W))
_BOUNDED: Final = (GroupOp.Binary - {Ops.ADD, Ops.MUL, Ops.THREEFRY}) | {Ops.PARAM, Ops.RANGE, Ops.AFTER}


def _in_shape(x: UOp, found: UOp | None) -> UOp | None:
    """A result in the shape of what it replaces: a term that vanishes may have carried a tensor's shape."""
    return None if found is None else broadcast(found, x)


#: O1, O2, O3, A1-A3, A6, A7, D1-D14, L1-L6, R, one normal form per operation.
weakint: Final = PatternMatcher(
    [
        (
            UPat(GroupOp.Comparison, name="x", src=_compared),
            lambda x, a, b: _in_shape(x, constant_by_bounds(x)),
        ),
        (UPat(_BOUNDED - GroupOp.Comparison, _W, name="x"), lambda x: _in_shape(x, constant_by_bounds(x))),
        (
            UPat(Ops.ADD, _W, (UPat.var(None, _W), UPat.var(None, _W)), name="x"),
            lambda x: _in_shape(x, canonical_sum(x)),
        ),
        (
            UPat(Ops.MUL, _W, (UPat.var(None, _W), UPat.var(None, _W)), name="x"),
            lambda x: _in_shape(x, canonical_product(x)),
        ),
        (UPat(Ops.MAX, _W, name="x"), lambda x: _in_shape(x, max_by_bounds(x))),
        (UPat(Ops.FLOORDIV, _W, name="root"), lambda root: _in_shape(root, fold_div(root))),
        (UPat(Ops.FLOORMOD, _W, name="root"), lambda root: _in_shape(root, fold_mod(root))),
        (UPat(Ops.CMPLT, name="x", src=_compared), lambda x, a, b: _in_shape(x, compare_less(x))),
        (UPat(GroupOp.Commutative - {Ops.ADD, Ops.MUL}, _W, name="x"), ordered),
        (UPat((Ops.CMPNE, Ops.CMPEQ), name="x", src=_compared), lambda x, a, b: ordered(x)),
        (UPat(Ops.CMPNE, name="x", src=_compared), lambda x, a, b: _in_shape(x, compare_unequal(x))),
    ]
)
