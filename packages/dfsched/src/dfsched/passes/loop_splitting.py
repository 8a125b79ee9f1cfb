"""Loops of a generic split where operands are read by quotients and remainders of them.

A tensor that was collapsed is read by subscripts like ``(d0 floordiv 64, d0 mod 64)``. With the loop split
into two, ``d0 = a * 64 + b``, these are ``(a, b)``. The new loops take the place of the old one, so elements
come in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from dfsched.passes.build import Emitter
from dfsched.passes.ir_tools import substitute
from ktir.affine import Add, AffineExpr, AffineMap, Const, Dim, FloorDiv, Mod, Mul, interval, simplify
from ktir.attributes import IntegerAttr
from ktir.dialects import linalg
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.types import INDEX

__all__ = ["Digits", "SplitLoops", "digits_of", "split_map"]

Digits = Mapping[int, tuple[tuple[int, int], ...]]
"""Per loop the new loops in its place, outermost first: number and stride."""


@frozen
class SplitLoops:
    """Loops in place of those of a generic: each split, and maybe over a part of what it went over."""

    digits: Digits
    extents: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]
    """Start and step of each new loop."""

    @classmethod
    def of(cls, maps: Sequence[AffineMap], extents: Sequence[int]) -> SplitLoops:
        """Loops split so that quotients and remainders in `maps` are sums of them, where that can be."""
        digits, sizes = digits_of(maps, extents)
        return cls(digits, sizes, ((0, 1),) * len(sizes))

    @property
    def are_old(self) -> bool:
        """Whether these are the loops of the generic as they were."""
        return len(self.digits) == len(self.extents) and set(self.steps) <= {(0, 1)}

    def numbers(self, dims: Sequence[int]) -> list[int]:
        """The new loops in place of some of the old ones."""
        return [number for dim in dims for number, _ in self.digits[dim]]

    def only(self, dims: Sequence[int]) -> SplitLoops:
        """The loops in place of some of the old ones, for a generic that has these alone, in this order."""
        numbers = self.numbers(dims)
        places = {number: position for position, number in enumerate(numbers)}
        return SplitLoops(
            {
                position: tuple((places[number], stride) for number, stride in self.digits[dim])
                for position, dim in enumerate(dims)
            },
            tuple(self.extents[number] for number in numbers),
            tuple(self.steps[number] for number in numbers),
        )

    def narrowed(self, parts: Mapping[int, tuple[int, int, int]]) -> SplitLoops:
        """Some of the new loops over parts: start, step and extent."""
        whole = [(*step, extent) for step, extent in zip(self.steps, self.extents, strict=True)]
        found = [parts.get(number, loop) for number, loop in enumerate(whole)]
        return evolve(
            self,
            extents=tuple(extent for _, _, extent in found),
            steps=tuple((start, step) for start, step, _ in found),
        )

    def map(self, map: AffineMap) -> AffineMap:
        """A map of the old loops over the new ones."""
        split = split_map(map, self.digits)
        places = [Dim(number) * step + start for number, (start, step) in enumerate(self.steps)]
        exprs = (simplify(expr.replace(places, ())) for expr in split.results)
        return AffineMap(len(self.extents), 0, tuple(_bounded(expr, self.extents) for expr in exprs))

    def body(self, body: Sequence[Operation], location: Location) -> list[Operation]:
        """A body whose loop indices are put together from those of the new loops."""
        if self.are_old:
            return list(body)
        result: list[Operation] = []
        mapping: dict[Value, Value] = {}
        for op in body:
            if not isinstance(op, linalg.Index):
                result.append(substitute(op, mapping))
                continue
            emitter = Emitter(location)
            places = self.digits[op.dim.value]
            parts = [
                emitter.add(linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(number)}))
                for number, _ in places
            ]
            total: AffineExpr = Const(0)
            for position, (number, stride) in enumerate(places):
                start, step = self.steps[number]
                total = total + (Dim(position) * step + start) * stride
            mapping[op.result] = emitter.affine(simplify(total), parts)
            result += emitter.operations
        return result


def _bounded(expr: AffineExpr, extents: Sequence[int]) -> AffineExpr:
    """A subscript without quotients and remainders that loops of these extents make no difference to."""
    match expr:
        case FloorDiv(lhs, Const(step)) | Mod(lhs, Const(step)):
            lhs = _bounded(lhs, extents)
            low, high = interval(lhs, [(0, extent - 1) for extent in extents])
            if low // step != high // step:
                return type(expr)(lhs, Const(step))
            return Const(low // step) if isinstance(expr, FloorDiv) else simplify(lhs - low // step * step)
        case Add(lhs, rhs):
            return simplify(_bounded(lhs, extents) + _bounded(rhs, extents))
        case Mul(lhs, rhs):
            return simplify(_bounded(lhs, extents) * _bounded(rhs, extents))
        case _:
            return expr


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
