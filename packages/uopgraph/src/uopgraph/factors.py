"""Integer factors of weak-integer expressions."""

from __future__ import annotations

import math
from collections import Counter

from uopgraph.dtype import dtypes
from uopgraph.node import UOp, derived
from uopgraph.ops import Ops


@derived("const_factor")
def _factor(node: UOp) -> int:
    match node.op:
        case Ops.CONST:
            return abs(node.arg) if type(node.arg) is int else 1
        case Ops.ADD | Ops.STACK if node.src:
            return math.gcd(*(s._cache["const_factor"] for s in node.src))
        case Ops.MUL:
            return int(node.src[0]._cache["const_factor"] * node.src[1]._cache["const_factor"])
        case Ops.PARAM if node.arg.multiple_of is not None:
            return int(node.arg.multiple_of)
        case _:
            return 1


def const_factor(node: UOp) -> int:
    """An integer that divides every value of `node`: 0 for the constant 0. Only exact for the weak integer;
    1 for other dtypes, whose products wrap."""
    if node.dtype is not dtypes.weakint and node.op is not Ops.CONST:
        return 1
    return int(node._derive("const_factor"))


def split_factor(node: UOp) -> tuple[UOp, int]:
    """(t, f) with node = t * f and f the constant of a product (1 when there is none)."""
    if node.op is Ops.MUL and node.src[1].op is Ops.CONST and type(node.src[1].arg) is int:
        return node.src[0], node.src[1].arg
    return node, 1


#: Factors into which a product is split at most.
_FACTORS = 64

#: Nesting of sums and products below which an exact quotient is not looked for.
_NESTING = 64


def divides(node: UOp, n: int, nesting: int = 0) -> UOp | None:
    """The exact quotient ``node / n`` as a node, or None when that is not certain."""
    if n == 1:
        return node
    if n == 0 or nesting > _NESTING or node.dtype is not dtypes.weakint or const_factor(node) % n:
        return None
    match node.op:
        case Ops.CONST:
            return UOp.const(node.arg // n)
        case Ops.ADD:
            parts = [divides(s, n, nesting + 1) for s in node.split_uop(Ops.ADD)]
            if any(p is None for p in parts):
                return None
            return parts[0].usum(*(p for p in parts[1:] if p is not None)) if parts[0] is not None else None
        case Ops.MUL:
            return _divide_product(node, n, nesting)
        case _:
            return None


def _divide_product(node: UOp, n: int, nesting: int) -> UOp | None:
    terms = node.split_uop(Ops.MUL, _FACTORS)
    left = n
    out: list[UOp] = []
    for t in reversed(terms):
        g = math.gcd(const_factor(t), left) if left != 1 else 1
        quotient = t if g == 1 or abs(g) == 1 else divides(t, g, nesting + 1) if t.op is not Ops.MUL else None
        if quotient is not None and quotient is not t:
            left //= g
            t = quotient
        if not (t.op is Ops.CONST and t.arg == 1):
            out.append(t)
    if abs(left) != 1:
        return None
    out.reverse()
    product = out[0].uprod(*out[1:]) if out else UOp.const(1)
    return product if left == 1 else product * -1


def product_factors(node: UOp) -> tuple[Counter[UOp], int]:
    """The symbolic factors of a product as a multiset, and its constant."""
    factors: Counter[UOp] = Counter()
    constant = 1
    for t in node.split_uop(Ops.MUL, _FACTORS):
        if t.op is Ops.CONST and type(t.arg) is int:
            constant *= t.arg
        else:
            factors[t] += 1
    return factors, constant


def from_factors(factors: Counter[UOp], constant: int) -> UOp:
    """The inverse of :func:`product_factors`."""
    nodes = list(factors.elements())
    if constant != 1 or not nodes:
        nodes.append(UOp.const(constant))
    return nodes[0].uprod(*nodes[1:])


def divide_exact(node: UOp, other: UOp) -> UOp | None:
    """The exact quotient by a node: its factors are cancelled in every term of a sum."""
    if other.op is Ops.CONST and type(other.arg) is int:
        return divides(node, other.arg)
    if node is other:
        return UOp.const(1)
    if node.dtype is not dtypes.weakint or other.dtype is not dtypes.weakint:
        return None
    want, c = product_factors(other)
    out = []
    for term in node.split_uop(Ops.ADD):
        if term.op is Ops.CONST and term.arg == 0:
            continue
        have, k = product_factors(term)
        if c == 0 or k % c or any(have[f] < m for f, m in want.items()):
            return None
        out.append(from_factors(have - want, k // c))
    return out[0].usum(*out[1:]) if out else UOp.const(0)


def common_factor(*nodes: UOp) -> UOp:
    """The common multiset of symbolic factors times the integer gcd."""
    shared: Counter[UOp] | None = None
    constant = 0
    for node in nodes:
        for term in node.split_uop(Ops.ADD):
            factors, c = product_factors(term)
            if c == 0:
                continue
            constant = math.gcd(constant, c)
            shared = factors if shared is None else shared & factors
    return from_factors(shared or Counter(), constant or 1)
