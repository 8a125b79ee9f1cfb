"""Sums that pick one term become loads at an index that is a value (scheduler spec 8.4, load collapse).

``sum over r < n of (r == index) ? f(r) : 0`` is ``0 <= index < n ? f(index) : 0``: a gather reads one element
a result and no place outside its buffer, whatever the index is.
"""

from __future__ import annotations

from typing import Final

from rangeify.reduce_rules import as_index, linear, without
from uopgraph import Ops, PatternMatcher, UOp, UPat, dtypes, graph_rewrite, symbolic


def _equality(clause: UOp) -> tuple[UOp, UOp] | None:
    """The sides of ``a == b``, which is written ``(a != b) != True``."""
    if clause.op is not Ops.CMPNE or clause.src[1].op is not Ops.CONST or clause.src[1].arg is not True:
        return None
    inner = clause.src[0]
    return (inner.src[0], inner.src[1]) if inner.op is Ops.CMPNE else None


def _picked(clause: UOp, r: UOp) -> UOp | None:
    """The value of `r` at which a clause holds, as index arithmetic; None when it is of another form."""
    sides = _equality(clause)
    if sides is None or not sides[0].dtype.is_int:
        return None
    for mine, other in (sides, sides[::-1]):
        if r not in mine.ranges or r in other.ranges:
            continue
        position = as_index(mine)
        found = None if position is None else linear(position.simplify(), r)
        if found is not None and found[0] == 1:
            index = other if other.dtype is dtypes.weakint else other.cast(dtypes.weakint)
            return index + found[1] * -1
    return None


def _at(value: UOp, r: UOp, index: UOp, inside: UOp) -> UOp:
    """`value` with `index` for `r`; loads only where `inside` holds."""
    new = {r: index}
    for node in value.toposort(gate=lambda n: r in n.ranges):
        if node is r:
            continue
        sources = [new.get(s, s) for s in node.src]
        if node.op is Ops.INDEX:
            for i, (old, now) in enumerate(zip(node.src, sources, strict=True)):
                if i and old is not now:
                    sources[i] = now.get_idx().valid(now.get_valid() & inside)
        new[node] = node.rebuild(tuple(sources))
    return new.get(value, value)


def _selection(value: UOp) -> tuple[list[UOp], UOp] | None:
    """(conditions, v) of ``all of them ? v : 0``; None for another value."""
    if value.op is not Ops.WHERE or value.dtype is dtypes.bool:
        return None
    condition, then, otherwise = value.src
    if _is_zero(otherwise):
        return list(condition.split_uop(Ops.AND)), then
    if _is_zero(then) and condition.op is Ops.CMPNE:
        return [condition.ne(True)], otherwise
    return None


def _is_zero(x: UOp) -> bool:
    return x.op is Ops.CONST and x.arg == 0


def picked_term(x: UOp) -> UOp | None:
    """The rule: a sum of ``... & r == index ? f(r) : 0``."""
    found = _selection(x.src[0]) if x.arg[0] is Ops.ADD else None
    if found is None:
        return None
    clauses, then = found
    for r in x.src[1:]:
        if r.op is not Ops.RANGE:
            continue
        for clause in clauses:
            index = _picked(clause, r)
            if index is None:
                continue
            inside = (index < r.src[0]) & (index < 0).ne(True)
            holds = inside
            for rest in clauses:
                if rest is not clause:
                    holds = holds & _at(rest, r, index, inside)
            term = _at(then, r, index, inside)
            if term.dtype.is_float:
                term = term + term.const_like(0)  # a sum with zeros has no negative zero
            loops = tuple(s for s in x.src[1:] if s is not r)
            return without(x, loops, holds.where(term, term.const_like(0)))
    return None


pm_gathers: Final = PatternMatcher(
    [(UPat(Ops.REDUCE, src=(UPat(Ops.WHERE),), allow_any_len=True, name="x"), picked_term)]
)


def collapse_gathers(sink: UOp) -> UOp:
    """The graph with every such sum replaced."""
    return graph_rewrite(sink, symbolic + pm_gathers, name="collapse gathers")
