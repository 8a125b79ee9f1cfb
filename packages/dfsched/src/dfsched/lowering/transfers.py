"""Shapes of memory accesses: element sets, and copies cut into vectors over time (dataflowir spec 3.7.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from dfsched.lowering.errors import LoweringError
from ktir.affine import AffineExpr, AffineMap, AffineSet, Const, Constraint, Dim, simplify
from ktir.location import Location

__all__ = ["CopyPlan", "TimeLoop", "Walk", "box_set", "moved_over", "plan_copy"]


def box_set(sizes: Sequence[int]) -> AffineSet:
    """The points of a box at the origin; a dimension of one point is an equality."""
    constraints: list[Constraint] = []
    for position, size in enumerate(sizes):
        dim = Dim(position)
        if size == 1:
            constraints.append(Constraint(dim, True))
        else:
            constraints += [Constraint(dim, False), Constraint(-dim + (size - 1), False)]
    return AffineSet(len(sizes), 0, tuple(constraints))


@frozen
class Walk:
    """One dimension that a side walks over time: number, steps, elements per step."""

    dimension: int
    extent: int
    step: int


@frozen
class TimeLoop:
    """A loop as a time dimension: steps, and what source and target subscripts advance per step."""

    extent: int
    source: tuple[int, ...]
    target: tuple[int, ...]


@frozen
class CopyPlan:
    """A copy as vectors: sizes of one vector on both sides, time extents, offsets per time step.

    `loop` is a walk (source, target) that needs a loop around the copy instead of a time dimension.
    """

    lanes: int
    source_sizes: tuple[int, ...]
    target_sizes: tuple[int, ...]
    extents: tuple[int, ...]
    source_map: AffineMap
    target_map: AffineMap
    loop: tuple[Walk, Walk] | None = None

    @property
    def time_set(self) -> AffineSet:
        return box_set(self.extents or (1,))


def plan_copy(
    source: Sequence[int],
    target: Sequence[int],
    lanes: int,
    source_strides: Sequence[int] | None,
    target_strides: Sequence[int] | None,
    location: Location,
) -> CopyPlan:
    """Cut a copy of a box into vectors of at most `lanes` elements.

    Strides are elements per step of each dimension, None if unknown.
    """
    total = math.prod(target)
    if math.prod(source) != total:
        raise LoweringError.at(location, f"source has {math.prod(source)} elements, destination {total}")
    if total <= lanes:
        return CopyPlan(total, tuple(source), tuple(target), (), _still(len(source)), _still(len(target)))
    if not source or not target:
        raise LoweringError.at(
            location,
            f"data transfer of {total} elements exceeds the hardware vector width of {lanes} but has no "
            "dimensions to split",
        )
    if source[-1] % lanes or target[-1] % lanes:
        raise LoweringError.at(
            location,
            f"data transfer of {total} elements exceeds the hardware vector width of {lanes}; splitting "
            "requires the innermost source and destination sizes to be a multiple of the vector width, "
            f"but they are {source[-1]} and {target[-1]}",
        )
    walks = _walks(source, lanes), _walks(target, lanes)
    if [walk.extent for walk in walks[0]] != [walk.extent for walk in walks[1]]:
        raise LoweringError.at(
            location,
            f"source and destination walked dimensions must match to split a transfer of {total} elements "
            "across multiple vectors",
        )
    loop: tuple[Walk, Walk] | None = None
    if source_strides is not None and target_strides is not None:
        differing = [
            (a, b)
            for a, b in zip(*walks, strict=True)
            if a.step * source_strides[a.dimension] != b.step * target_strides[b.dimension]
        ]
        if len(differing) > 1:
            raise LoweringError.at(
                location,
                f"source and destination advance by different distances in {len(differing)} walked "
                f"dimensions of a transfer of {total} elements; only one such dimension can be resolved",
            )
        loop = differing[0] if differing else None
    kept = [(a, b) for a, b in zip(*walks, strict=True) if loop is None or (a, b) != loop]
    return CopyPlan(
        lanes,
        (*([1] * (len(source) - 1)), lanes),
        (*([1] * (len(target) - 1)), lanes),
        tuple(a.extent for a, _ in kept),
        _moving(len(source), [a for a, _ in kept]),
        _moving(len(target), [b for _, b in kept]),
        loop,
    )


def moved_over(loops: Sequence[Sequence[int]], inner: AffineMap, plan: CopyPlan) -> AffineMap:
    """The movement of one side over outer loops (what a step of each adds) and the steps of the plan."""
    own = [Dim(i + len(loops)) for i in range(inner.num_dims)]
    results: list[AffineExpr] = [
        expr.replace(own, ()) if plan.extents else Const(0) for expr in inner.results
    ]
    for position, moves in enumerate(loops):
        results = [expr + Dim(position) * step for expr, step in zip(results, moves, strict=True)]
    return AffineMap(max(1, len(loops) + len(plan.extents)), 0, tuple(simplify(expr) for expr in results))


def _walks(sizes: Sequence[int], lanes: int) -> list[Walk]:
    """Walked dimensions, slowest first."""
    outer = [Walk(d, size, 1) for d, size in enumerate(sizes[:-1]) if size != 1]
    vectors = sizes[-1] // lanes
    return outer + ([Walk(len(sizes) - 1, vectors, lanes)] if vectors > 1 else [])


def _still(rank: int) -> AffineMap:
    return AffineMap(1, 0, (Const(0),) * rank)


def _moving(rank: int, walks: Sequence[Walk]) -> AffineMap:
    results: list[AffineExpr] = [Const(0)] * rank
    for time, walk in enumerate(walks):
        results[walk.dimension] = Dim(time) * walk.step
    return AffineMap(max(1, len(walks)), 0, tuple(results))
