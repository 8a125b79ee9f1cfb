"""Floor division and modulo of the weak integer.

Floor semantics make most of the catalogue's sign conditions unnecessary: ``floor(floor(x)/n) == floor(x/n)``
and ``(q*c + r) // c == q + r // c`` hold for every sign of x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from uopgraph.bounds import is_bounded
from uopgraph.factors import common_factor, divide_exact
from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.symbolic.terms import Linear, build, is_int_const, linear

#: How many candidates rule D12 looks at, and how deeply it nests.
_CANDIDATES = 8
_DEPTH = 12


def fold_div(root: UOp) -> UOp | None:
    """A simpler form of ``x // y``, or None. Raises ZeroDivisionError when y can only be 0."""
    return _div(root.src[0], root.src[1], _DEPTH)


def fold_mod(root: UOp) -> UOp | None:
    """A simpler form of ``x % y``, or None. Raises ZeroDivisionError when y can only be 0."""
    return _mod(root.src[0], root.src[1], _DEPTH)


def _quotient_interval(x: UOp, y: UOp) -> tuple[int, int] | None:
    a, b, c, d = x.vmin, x.vmax, y.vmin, y.vmax
    if c == d == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if not is_bounded((a, b)) or not is_bounded((c, d)) or c <= 0 <= d:
        return None
    corners = (a // c, a // d, b // c, b // d)
    return min(corners), max(corners)


def _single_quotient(x: UOp, y: UOp) -> int | None:
    """D6: the quotient when it can only be one value."""
    interval = _quotient_interval(x, y)
    return interval[0] if interval is not None and interval[0] == interval[1] else None


def _is_counter_of(x: UOp, bound: UOp) -> bool:
    """D4: x is a RANGE over [0, bound), with any bound."""
    return x.op is Ops.RANGE and x.src[0] is bound


def _div(x: UOp, y: UOp, depth: int) -> UOp | None:
    q = _single_quotient(x, y)
    if q is not None:
        return UOp.const(q)
    if _is_counter_of(x, y):
        return UOp.const(0)
    if is_int_const(y):
        c = int(y.arg)
        return _div_const(x, c, depth) if c > 0 else _div_negative(x, c)
    return _div_symbolic(x, y)


def _mod(x: UOp, y: UOp, depth: int) -> UOp | None:
    q = _single_quotient(x, y)
    if q is not None:
        return (linear(x).plus(linear(y), -q)).node() if is_int_const(y) else x + y * -q
    if _is_counter_of(x, y):
        return x
    if is_int_const(y):
        c = int(y.arg)
        return _mod_const(x, c, depth) if c > 0 else _mod_negative(x, c)
    return _mod_symbolic(x, y)


# constant divisors ------------------------------------------------------------------------------


def _quotient_of(x: UOp) -> tuple[UOp, int, int] | None:
    """(z, c, a) for x = z // c + a with constants c and a."""
    rest, a = x.pop_const(Ops.ADD)
    if rest.op is Ops.FLOORDIV and is_int_const(rest.src[1]) and rest.src[1].arg != 0 and isinstance(a, int):
        return rest.src[0], int(rest.src[1].arg), a
    return None


def _div_const(x: UOp, c: int, depth: int) -> UOp | None:
    if c == 1:
        return x
    nested = _quotient_of(x)
    if nested is not None:  # D1, D2
        z, c1, a = nested
        return (z + a * c1) // (c1 * c) if a else z // (c1 * c)
    if x.op is Ops.FLOORMOD and is_int_const(x.src[1]):
        period = int(x.src[1].arg)
        if period > 0 and period % c == 0:
            return (x.src[0] // c) % (period // c)  # D8
    form = linear(x)
    exact = _congruence(form, c)
    if exact is not None:  # D10
        return exact[0].node()
    out, rest = _pull_out(form, c)
    if out is not None:  # D3, D14
        return out.plus(linear(_divided(rest, c, depth))).node()
    g = math.gcd(c, *rest.terms.values())
    if g > 1:  # D11
        return _divided(_over(rest, g), c // g, depth)
    return _nested_div(rest, c, depth)


def _divided(form: Linear, c: int, depth: int) -> UOp:
    """``form // c`` folded as far as it goes."""
    node = form.node()
    if c == 1:
        return node
    if depth > 0:
        folded = _div(node, UOp.const(c), depth - 1)
        if folded is not None:
            return folded
    return node // c


def _remainder(form: Linear, c: int, depth: int) -> UOp:
    """``form % c`` folded as far as it goes."""
    node = form.node()
    if c == 1:
        return UOp.const(0)
    if depth > 0:
        folded = _mod(node, UOp.const(c), depth - 1)
        if folded is not None:
            return folded
    return node % c


def _over(form: Linear, g: int) -> Linear:
    """``floor(form / g)`` when g divides every factor."""
    return Linear({t: f // g for t, f in form.terms.items()}, form.const // g)


def _pull_out(form: Linear, c: int) -> tuple[Linear | None, Linear]:
    """(what leaves the division by c, the rest); None when nothing leaves. Factors keep their sign."""
    out: dict[UOp, int] = {}
    rest: dict[UOp, int] = {}
    for t, f in form.terms.items():
        r = f % c if f > 0 else -(-f % c)
        if r != f:
            out[t] = (f - r) // c
        if r:
            rest[t] = r
    q, k = divmod(form.const, c)
    if not out and q == 0:
        return None, form
    return Linear(out, q), Linear(rest, k)


def _choices(f: int, c: int, single: bool) -> tuple[int, ...]:
    r = f % c
    if r == 0:
        return (0,)
    if single or 2 * r == c:
        return (r, r - c)
    return (r,) if 2 * r < c else (r - c,)


def _congruence(form: Linear, c: int) -> tuple[Linear, Linear] | None:
    """D10: (quotient, remainder) of the division by c when congruent factors keep the rest in one period."""
    single = len(form.terms) == 1
    options: list[dict[UOp, int]] = [{}]
    for t, f in form.terms.items():
        found = _choices(f, c, single)
        if len(options) * len(found) > _CANDIDATES:
            found = found[:1]
        options = [{**o, t: r} for o in options for r in found]
    for chosen in options:
        rest = Linear({t: r for t, r in chosen.items() if r}, form.const % c)
        interval = rest.bounds()
        if interval is None or interval[0] > interval[1] or interval[0] // c != interval[1] // c:
            continue
        q = interval[0] // c
        factors = {t: (f - chosen[t]) // c for t, f in form.terms.items() if f != chosen[t]}
        return Linear(factors, form.const // c + q), Linear(rest.terms, rest.const - q * c)
    return None


def _divisors(form: Linear, c: int) -> list[int]:
    """Factors by which D12 may nest, the greatest first."""
    found = {abs(f) for f in form.terms.values()}
    return sorted((f for f in found if 1 < f < c and c % f == 0), reverse=True)[:_CANDIDATES]


def _nested_div(form: Linear, c: int, depth: int) -> UOp | None:
    """D12 for //: divide by a factor first when that division vanishes."""
    best: UOp | None = None
    for f in _divisors(form, c):
        exact = _congruence(form, f)
        if exact is None:
            continue
        found = _divided(exact[0], c // f, depth)
        if best is None or len(found.backward_slice) < len(best.backward_slice):
            best = found
    return best


def _nested_mod(form: Linear, c: int, depth: int) -> UOp | None:
    """D12 for %: split off leftovers in [0, f)."""
    best: UOp | None = None
    for f in _divisors(form, c):
        inner = {t: v for t, v in form.terms.items() if v % f == 0}
        rest = Linear({t: v for t, v in form.terms.items() if v % f}, form.const % f)
        interval = rest.bounds()
        if interval is None or not 0 <= interval[0] <= interval[1] < f:
            continue
        quotient = Linear({t: v // f for t, v in inner.items()}, form.const // f)
        found = linear(_remainder(quotient, c // f, depth)).scaled(f).plus(rest).node()
        if best is None or len(found.backward_slice) < len(best.backward_slice):
            best = found
    return best


def _drop_inner_mods(form: Linear, c: int) -> Linear | None:
    """D9: a term ``f * (z % m)`` is ``f * z`` when c divides f * m."""
    changed = False
    out = Linear({}, form.const)
    for t, f in form.terms.items():
        part = Linear({t: 1}, 0)
        if (
            t.op is Ops.FLOORMOD
            and is_int_const(t.src[1])
            and t.src[1].arg != 0
            and f * t.src[1].arg % c == 0
        ):
            part = linear(t.src[0])
            changed = True
        out = out.plus(part, f)
    return out if changed else None


def _mod_const(x: UOp, c: int, depth: int) -> UOp | None:
    if c == 1:
        return UOp.const(0)
    if x.op is Ops.FLOORMOD and x.src[1].op is Ops.CONST and x.src[1].arg == c:
        return x  # S5
    form = linear(x)
    outer = _drop_inner_mods(form, c)
    if outer is not None:
        return _remainder(outer, c, depth)
    exact = _congruence(form, c)
    if exact is not None:  # D10
        return exact[1].node()
    out, rest = _pull_out(form, c)
    if out is not None:  # D3, D14
        return _remainder(rest, c, depth)
    g = math.gcd(c, *rest.terms.values())
    if g > 1:  # D11
        folded = linear(_remainder(_over(rest, g), c // g, depth))
        return folded.scaled(g).plus(Linear({}, rest.const % g)).node()
    if c != 1 and x.const_factor() % c == 0:  # D7
        return UOp.const(0)
    return _nested_mod(rest, c, depth)


def _div_negative(x: UOp, c: int) -> UOp | None:
    if c == -1:
        return linear(x).scaled(-1).node()
    form = linear(x)
    if form.terms and all(f % c == 0 for f in form.terms.values()):
        # (sum + k) // c = sum / c + k // c
        return Linear({t: f // c for t, f in form.terms.items()}, form.const // c).node()
    q, k = divmod(form.const, c)
    if q:  # D3
        return build({Linear(form.terms, k).node() // c: 1}, q)
    return None


def _mod_negative(x: UOp, c: int) -> UOp | None:
    form = linear(x)
    if all(f % c == 0 for f in form.terms.values()):
        return UOp.const(form.const % c)
    if form.const % c != form.const:  # D3
        return Linear(form.terms, form.const % c).node() % c
    return None


# symbolic divisors ------------------------------------------------------------------------------


def _exact_parts(x: UOp, y: UOp) -> tuple[list[UOp], list[UOp]]:
    """D14: (quotients of the terms that y divides, the other terms)."""
    out: list[UOp] = []
    rest: list[UOp] = []
    for term in x.split_uop(Ops.ADD):
        quotient = divide_exact(term, y)
        if quotient is None:
            rest.append(term)
        else:
            out.append(quotient)
    return out, rest


def _shared(x: UOp, y: UOp) -> UOp | None:
    """D13: a common symbolic or integer factor other than 1."""
    if x.op is Ops.CONST and x.arg == 0:
        return None
    g = common_factor(x, y)
    return None if g.op is Ops.CONST and g.arg == 1 else g


def _sum(parts: list[UOp]) -> UOp:
    """The sum of `parts`; the constant 0 for none."""
    return parts[0].usum(*parts[1:]) if parts else UOp.const(0)


def _may_be_zero(y: UOp) -> bool:
    return bool(y.vmin <= 0 <= y.vmax)


def _div_symbolic(x: UOp, y: UOp) -> UOp | None:
    out, rest = ([], [x]) if _may_be_zero(y) else _exact_parts(x, y)
    if out:
        return _sum([*out, _sum(rest) // y]) if rest else _sum(out)
    g = _shared(x, y)
    if g is None or _may_be_zero(g):
        return None
    a, b = divide_exact(x, g), divide_exact(y, g)
    return None if a is None or b is None else a // b


def _mod_symbolic(x: UOp, y: UOp) -> UOp | None:
    if x.op is Ops.FLOORMOD and x.src[1] is y:
        return x  # S5
    out, rest = ([], [x]) if _may_be_zero(y) else _exact_parts(x, y)
    if out:
        return _sum(rest) % y if rest else UOp.const(0)
    g = _shared(x, y)
    if g is None or _may_be_zero(g):
        return None
    a, b = divide_exact(x, g), divide_exact(y, g)
    return None if a is None or b is None else (a % b) * g


# recombination ----------------------------------------------------------------------------------


def _congruent(a: Linear, b: Linear, d: int) -> bool:
    diff = a.plus(b, -1)
    return diff.const % d == 0 and all(f % d == 0 for f in diff.terms.values())


def _numerators(q: UOp, d: int) -> Iterator[UOp]:
    """Every b' with q = b' // d that q shows: from ``b' // d`` and from the merged ``b0 // (d0 * d)``."""
    if q.op is Ops.FLOORDIV and is_int_const(q.src[1]) and q.src[1].arg > 0 and q.src[1].arg % d == 0:
        yield _divided(linear(q.src[0]), q.src[1].arg // d, _DEPTH)


def recombine(form: Linear) -> Linear | None:
    """R: ``(b % d)*m + (b' // d)*(d*m)`` is ``b'*m``, and with ``(b' // d) % e`` it is ``(b' % (d*e))*m``,
    where b' and b are congruent modulo d."""
    mods = [t for t in form.terms if t.op is Ops.FLOORMOD]
    if not mods:
        return None
    by_factor: dict[int, list[UOp]] = {}
    for t, f in form.terms.items():
        if t.op in (Ops.FLOORDIV, Ops.FLOORMOD):
            by_factor.setdefault(f, []).append(t)
    for t in mods:
        b, divisor = t.src
        m = form.terms[t]
        if not is_int_const(divisor):
            found = _recombine_symbolic(form, t, m)
            if found is not None:
                return found
            continue
        d = int(divisor.arg)
        if d <= 0:
            continue
        want = linear(b)
        for q in by_factor.get(m * d, ()):
            e = None
            inner = q
            if q.op is Ops.FLOORMOD:
                if not is_int_const(q.src[1]) or q.src[1].arg <= 0:
                    continue
                e, inner = int(q.src[1].arg), q.src[0]
            for b2 in _numerators(inner, d):
                have = linear(b2)
                if _congruent(have, want, d):
                    rest = Linear(
                        {k: v for k, v in form.terms.items() if k is not t and k is not q}, form.const
                    )
                    whole = have if e is None else linear(have.node() % (d * e))
                    return rest.plus(whole, m)
    return None


def _recombine_symbolic(form: Linear, t: UOp, m: int) -> Linear | None:
    """R with a symbolic divisor: ``(b % y)*m + (b // y)*y*m`` is ``b*m``."""
    b, y = t.src
    if _may_be_zero(y):
        return None
    quotient = b // y
    for q, f in form.terms.items():
        if f != m or q.op is not Ops.MUL or quotient not in q.split_uop(Ops.MUL, 64):
            continue
        if divide_exact(q, quotient) is y:
            rest = Linear({k: v for k, v in form.terms.items() if k is not t and k is not q}, form.const)
            return rest.plus(linear(b), m)
    return None
