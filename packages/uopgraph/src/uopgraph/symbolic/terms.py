"""Sums of the weak integer as ``sum(t_i * f_i) + k``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from uopgraph.bounds import SATURATED, is_bounded
from uopgraph.dtype import Invalid
from uopgraph.factors import split_factor
from uopgraph.node import UOp
from uopgraph.ops import Ops
from uopgraph.order import order_key


@attrs.frozen(eq=False)
class Linear:
    """``sum(t * f) + const``; no t is a sum, a constant, or a product by a constant, no f is 0."""

    terms: dict[UOp, int]
    const: int

    def scaled(self, c: int) -> Linear:
        return Linear({t: f * c for t, f in self.terms.items()} if c else {}, self.const * c)

    def plus(self, other: Linear, c: int = 1) -> Linear:
        """self + other * c."""
        terms = dict(self.terms)
        for t, f in other.terms.items():
            total = terms.get(t, 0) + f * c
            if total:
                terms[t] = total
            else:
                terms.pop(t, None)
        return Linear(terms, self.const + other.const * c)

    def node(self) -> UOp:
        """The canonical sum: terms in key order, the constant last."""
        return build(self.terms, self.const)

    def bounds(self) -> tuple[int, int] | None:
        """The exact interval sum of the terms, None when a term has no bound."""
        low = high = self.const
        for t, f in self.terms.items():
            a, b = t.vmin, t.vmax
            if not is_bounded((a, b)):
                return None
            low += min(a * f, b * f)
            high += max(a * f, b * f)
        return (low, high) if low > -SATURATED and high < SATURATED else None


def is_int_const(x: UOp) -> bool:
    """True for a CONST that is not Invalid (of an integer expression)."""
    return x.op is Ops.CONST and x.arg is not Invalid


#: Steps after which a sum is taken for one with shared parts.
_TREE: Final = 4096


def linear(x: UOp) -> Linear:
    """`x` as a linear form; a product of a sum by a constant is distributed."""
    terms: dict[UOp, int] = {}
    const = 0
    stack = [(x, 1)]
    steps = 0
    while stack:
        steps += 1
        if steps > _TREE:
            return _shared_linear(x)
        node, scale = stack.pop()
        if node.op is Ops.ADD:
            stack.append((node.src[1], scale))
            stack.append((node.src[0], scale))
        elif is_int_const(node):
            const += int(node.arg) * scale
        else:
            base, factor = split_factor(node)
            if base is not node and (base.op is Ops.ADD or base.op is Ops.MUL or base.op is Ops.CONST):
                stack.append((base, scale * factor))
            else:
                terms[base] = terms.get(base, 0) + scale * factor
    return Linear({t: f for t, f in terms.items() if f}, const)


def _parts(node: UOp) -> tuple[tuple[UOp, int], ...]:
    """What a node of a sum is made of: ((part, factor), ...), nothing for a term or a constant."""
    if node.op is Ops.ADD:
        return ((node.src[0], 1), (node.src[1], 1))
    if node.op is Ops.CONST:
        return ()
    base, factor = split_factor(node)
    opened = base is not node and base.op in (Ops.ADD, Ops.MUL, Ops.CONST)
    return ((base, factor),) if opened else ()


def _shared_linear(x: UOp) -> Linear:
    """:func:`linear` for sums with shared parts: every part is opened once, with its whole factor."""
    order: list[UOp] = []
    seen = {x}
    stack = [(x, iter(_parts(x)))]
    while stack:
        node, parts = stack[-1]
        for part, _ in parts:
            if part not in seen:
                seen.add(part)
                stack.append((part, iter(_parts(part))))
                break
        else:
            order.append(node)
            stack.pop()
    factors = dict.fromkeys(order, 0)
    factors[x] = 1
    terms: dict[UOp, int] = {}
    const = 0
    for node in reversed(order):
        f, parts_of = factors[node], _parts(node)
        for part, g in parts_of:
            factors[part] += f * g
        if parts_of:
            continue
        if is_int_const(node):
            const += int(node.arg) * f
        else:
            base, g = split_factor(node)
            terms[base] = terms.get(base, 0) + f * g
    return Linear({t: f for t, f in terms.items() if f}, const)


def scale(t: UOp, f: int) -> UOp:
    """``t * f`` without a factor of 1."""
    return t if f == 1 else t * f


def build(terms: Mapping[UOp, int], const: int = 0) -> UOp:
    """The canonical sum of ``t * f`` and a constant."""
    out: UOp | None = None
    for t in sorted(terms, key=order_key):
        part = scale(t, terms[t])
        out = part if out is None else out + part
    if out is None:
        return UOp.const(const)
    return out if const == 0 else out + const


def total(parts: Iterable[UOp]) -> UOp:
    """The sum of `parts`, 0 for none."""
    nodes = list(parts)
    return nodes[0].usum(*nodes[1:]) if nodes else UOp.const(0)
