"""Loops of a generic split where operands are read by quotients and remainders of them.

A tensor that was collapsed is read by subscripts like ``(d0 floordiv 64, d0 mod 64)``. With the loop split
into two, ``d0 = a * 64 + b``, these are ``(a, b)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ktir.affine import Add, AffineExpr, AffineMap, Const, Dim, FloorDiv, Mod, Mul, simplify

__all__ = ["Digits", "digits_of", "split_map"]

Digits = Mapping[int, tuple[tuple[int, int], ...]]
"""Per loop the new loops in its place, outermost first: number and stride."""


def digits_of(maps: Sequence[AffineMap], extents: Sequence[int]) -> tuple[Digits, tuple[int, ...]]:
    """New loops and their extents, so that every quotient and remainder of a loop in `maps` is a sum of them.

    A loop whose quotients do not nest stays whole.
    """
    steps: dict[int, set[int]] = {}
    for map in maps:
        for expr in map.results:
            _collect(expr, steps)
    digits: dict[int, tuple[tuple[int, int], ...]] = {}
    sizes: list[int] = []
    for dim, extent in enumerate(extents):
        strides = [1, *sorted(step for step in steps.get(dim, ()) if 1 < step < extent)]
        if any(b % a for a, b in pairwise([*strides, extent])):
            strides = [1]
        places: list[tuple[int, int]] = []
        for stride, above in reversed(list(zip(strides, [*strides[1:], extent], strict=True))):
            places.append((len(sizes), stride))
            sizes.append(above // stride)
        digits[dim] = tuple(places)
    return digits, tuple(sizes)


def _collect(expr: AffineExpr, steps: dict[int, set[int]]) -> None:
    for part in expr.walk():
        match part:
            case FloorDiv(Dim(dim), Const(step)) | Mod(Dim(dim), Const(step)):
                steps.setdefault(dim, set()).add(step)
            case Mod(FloorDiv(Dim(dim), Const(low)), Const(count)):
                steps.setdefault(dim, set()).update((low, low * count))


def split_map(map: AffineMap, digits: Digits) -> AffineMap:
    """The map over the new loops."""
    count = 1 + max((number for places in digits.values() for number, _ in places), default=-1)
    return AffineMap(count, 0, tuple(simplify(_split(expr, digits)) for expr in map.results))


def _split(expr: AffineExpr, digits: Digits) -> AffineExpr:
    match expr:
        case Dim(dim):
            return _sum(digits[dim], 1, math.inf)
        case FloorDiv(Dim(dim), Const(step)) if _nests(digits[dim], step):
            return _sum(digits[dim], step, math.inf)
        case Mod(Dim(dim), Const(step)) if _nests(digits[dim], step):
            return _sum(digits[dim], 1, step)
        case Mod(FloorDiv(Dim(dim), Const(low)), Const(count)) if _nests(digits[dim], low, low * count):
            return _sum(digits[dim], low, low * count)
        case Add(lhs, rhs):
            return _split(lhs, digits) + _split(rhs, digits)
        case Mul(lhs, rhs):
            return _split(lhs, digits) * _split(rhs, digits)
        case FloorDiv(lhs, rhs):
            return _split(lhs, digits) // _split(rhs, digits)
        case Mod(lhs, rhs):
            return _split(lhs, digits) % _split(rhs, digits)
        case _:
            return expr


def _nests(places: Sequence[tuple[int, int]], *steps: int) -> bool:
    """Whether each step is the stride of some new loop (or beyond all of them, as the extent is)."""
    strides = {stride for _, stride in places}
    return len(places) > 1 and all(step in strides or step > max(strides) for step in steps)


def _sum(places: Sequence[tuple[int, int]], low: int, high: float) -> AffineExpr:
    """The new loops with strides from `low` to below `high`, in units of `low`."""
    total: AffineExpr = Const(0)
    for number, stride in places:
        if low <= stride < high:
            total = total + Dim(number) * (stride // low)
    return total
