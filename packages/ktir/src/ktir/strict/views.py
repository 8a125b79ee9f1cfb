"""Level S for memory views, plain and distributed (KTIR spec 1.5, 1.6, 4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from ktir.affine import AffineError
from ktir.dialects.ktdp import (
    ConstructDistributedMemoryView,
    ConstructMemoryView,
    MemorySpace,
    SpyreMemorySpace,
)
from ktir.dialects.spyreop import FusedType
from ktir.dtypes import element_bytes
from ktir.errors import Diagnostic, Note, UnsupportedError, finding
from ktir.ir import Operation
from ktir.machine import AddressUnit
from ktir.strict.facts import POINT_LIMIT, Facts, Span
from ktir.types import F64, MemRefType

__all__ = ["check"]

_MOST_PARTITIONS = 128
"""Partitions of a distributed view whose overlap is looked for, pair by pair."""


def check(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    """S-CMV7 to S-CMV10 and what 1.5, 1.6 and 4.6 ask of level S."""
    match op:
        case ConstructMemoryView():
            yield from _extents(op)
            yield from _sizes(op, facts)
            yield from _element(op)
            yield from _space(op, facts)
            yield from _coordinates(op, facts)
        case ConstructDistributedMemoryView():
            yield from _distributed(op, facts)


def _fitting_type(view: ConstructMemoryView) -> str:
    shape = tuple(size if isinstance(size, int) else None for size in view.mixed_sizes)
    return str(attrs.evolve(view.type, shape=shape))


def _extents(view: ConstructMemoryView) -> Iterator[Diagnostic]:
    """S-CMV7: the type repeats the sizes."""
    for dim, (extent, size) in enumerate(zip(view.type.shape, view.mixed_sizes, strict=True)):
        if isinstance(size, int):
            if extent == size:
                continue
            has = "dynamic" if extent is None else str(extent)
            text = f"memref extent {dim} is {has}, but the size of the view is {size}"
        else:
            if extent is None:
                continue
            text = f"memref extent {dim} is {extent}, but the size of the view is dynamic"
        yield Diagnostic(text, notes=(Note(f"the type that fits the sizes is {_fitting_type(view)}"),))


def _sizes(view: ConstructMemoryView, facts: Facts) -> Iterator[Diagnostic]:
    """S-CMV9."""
    for dim, size in enumerate(view.mixed_sizes):
        number = facts.constant(size)
        if number is not None and number < 0:
            yield finding(f"size {dim} of the view is negative ({number})", "sizes count elements, from 0 up")


def _element(view: ConstructMemoryView) -> Iterator[Diagnostic]:
    """S-CMV10: the table of 4.2."""
    element = view.type.element
    if isinstance(element, FusedType):
        return
    try:
        element_bytes(element)
        stored = element != F64
    except UnsupportedError:
        stored = False
    if not stored:
        yield finding(
            f"element type {element} of the view is no storage type",
            "stored are f16, bf16, df16, f32, f8, i1, integers of 8 to 64 bits, index and fused pairs",
        )


def _space(view: ConstructMemoryView, facts: Facts) -> Iterator[Diagnostic]:
    declared, space = view.type.memory_space, view.memory_space
    if declared is not None and declared != space:
        yield finding(
            f"memory space {declared} of the memref differs from the view's, {space}",
            "the attribute of the operation decides; leave the type's out or repeat it",
        )
    match space:
        case SpyreMemorySpace():
            yield finding(
                f"memory space {space} has no meaning on this machine",
                "there are #ktdp.memory_space<global> and #ktdp.memory_space<ct_local>",
            )
        case MemorySpace(ct_id=int(tile)) if (grid := facts.grid(view)) is not None:
            if tile >= math.prod(grid):
                yield finding(
                    f"ct_id = {tile} is out of range [0, {math.prod(grid)}) for this grid",
                    f"grid = {list(grid)} has {math.prod(grid)} compute tiles, numbered from 0",
                )
    if isinstance(space, MemorySpace) and not space.is_global:
        yield from _fits_scratchpad(view, facts)


def _fits_scratchpad(view: ConstructMemoryView, facts: Facts) -> Iterator[Diagnostic]:
    """4.6: a view at a constant place lies within the scratchpad."""
    offset = facts.constant(view.offset)
    sizes, strides = facts.constants(view.mixed_sizes), facts.constants(view.mixed_strides)
    if offset is None or sizes is None or strides is None or 0 in sizes:
        return
    try:
        width = element_bytes(view.type.element)
    except UnsupportedError:
        return
    machine = facts.machine(view)
    start = offset * (width if machine.address_unit is AddressUnit.ELEMENT else 1)
    steps = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    low = start + width * sum(step for step in steps if step < 0)
    high = start + width * (1 + sum(step for step in steps if step > 0))
    if low < 0 or high > machine.scratchpad_bytes:
        yield finding(
            f"view covers bytes {low} to {high} of a scratchpad of {machine.scratchpad_bytes} bytes",
            f"the offset counts {machine.address_unit}s; an element has {width} bytes",
        )


def symbols_of(view: ConstructMemoryView, facts: Facts) -> tuple[int, ...] | None:
    """Values of the coordinate set's symbols: the dynamic sizes from left to right, if they are constant."""
    return facts.constants(view.sizes[: view.coordinate_set.set.num_symbols])


def _coordinates(view: ConstructMemoryView, facts: Facts) -> Iterator[Diagnostic]:
    """S-CMV8, and the set against the sizes."""
    set, rank = view.coordinate_set.set, view.type.rank
    if set.num_dims != rank:
        yield finding(
            f"coordinate_set has {set.num_dims} dimensions, but the view has rank {rank}",
            f"expected {rank} dimensions for {view.type}, got {set.num_dims}",
        )
        return
    if set.num_symbols > len(view.sizes):
        yield finding(
            f"coordinate_set has {set.num_symbols} symbols, but the view has {len(view.sizes)} dynamic sizes",
            "symbols are bound to the dynamic sizes from left to right",
        )
        return
    spans = facts.spans(set, symbols_of(view, facts))
    if spans is None:
        return
    for dim, ((low, high), size) in enumerate(zip(spans, view.mixed_sizes, strict=True)):
        number = facts.constant(size)
        if number is not None and high - low + 1 > number:
            yield finding(
                f"coordinate_set holds coordinates {low} to {high} in dimension {dim}, "
                f"but the size of the view is {number}",
                f"a dimension of size {number} ends at {low} + {number} - 1 = {low + number - 1}",
            )
    if any(low for low, _ in spans) and _used_directly(view, facts):
        first = tuple(low for low, _ in spans)
        yield finding(
            f"coordinate_set begins at {_point(first)}, but a view that is used directly is indexed from 0",
            "only a partition of construct_distributed_memory_view is indexed by its set",
        )


def _point(coordinates: Sequence[int]) -> str:
    return f"({', '.join(map(str, coordinates))})"


def _used_directly(view: ConstructMemoryView, facts: Facts) -> bool:
    users = facts.defuse.users(view.result)
    return any(not isinstance(user, ConstructDistributedMemoryView) for user in users)


def _distributed(op: ConstructDistributedMemoryView, facts: Facts) -> Iterator[Diagnostic]:
    """S-CDV5 to S-CDV8."""
    if not op.memrefs:
        yield Diagnostic("has no partitions", notes=(Note("list at least one view, with its type"),))
        return
    views: list[ConstructMemoryView] = []
    for position, value in enumerate(op.memrefs):
        view = facts.view(value)
        if view is None:
            yield finding(
                f"partition #{position} is not the direct result of ktdp.construct_memory_view",
                "the coordinates of a partition are the coordinate_set of that operation",
            )
            continue
        views.append(view)
        space = view.memory_space
        if isinstance(space, MemorySpace) and not space.is_global and space.ct_id is None:
            yield finding(
                f"partition #{position} lies in the scratchpad of whichever tile executes",
                "name the tile: #ktdp.memory_space<ct_local, ct_id = ...>",
            )
    rank = op.result.type.rank if isinstance(op.result.type, MemRefType) else -1
    boxes = [facts.spans(view.coordinate_set.set, symbols_of(view, facts)) for view in views]
    known = [box for box in boxes if box is not None and len(box) == rank]
    if len(known) == len(op.memrefs):
        yield from _union(op, views, known, facts)


def _union(
    op: ConstructDistributedMemoryView,
    views: Sequence[ConstructMemoryView],
    boxes: Sequence[tuple[Span, ...]],
    facts: Facts,
) -> Iterator[Diagnostic]:
    type = op.result.type
    assert isinstance(type, MemRefType)
    extents = [max(high for _, high in column) + 1 for column in zip(*boxes, strict=True)]
    for dim, (extent, wanted) in enumerate(zip(type.shape, extents, strict=True)):
        if extent is not None and extent != wanted:
            fitting = attrs.evolve(type, shape=tuple(extents))
            yield finding(
                f"memref extent {dim} is {extent}, but the partitions end at {wanted}",
                f"the type that fits the partitions is {fitting}",
            )
    overlap = _overlap(views, boxes, facts)
    if overlap is not None:
        first, second = overlap
        yield Diagnostic(
            f"partitions #{first} and #{second} overlap",
            notes=(Note(f"partition #{first} comes from here", views[first].location),
                   Note(f"partition #{second} comes from here", views[second].location)),
        )  # fmt: skip
        return
    try:
        points = sum(
            view.coordinate_set.set.count(symbols_of(view, facts) or (), limit=POINT_LIMIT) for view in views
        )
    except AffineError:
        return
    if points < math.prod(extents):
        yield finding(
            f"partitions cover {points} of the {math.prod(extents)} coordinates",
            "an access to a coordinate without a partition fails when the kernel runs",
        )


def _overlap(
    views: Sequence[ConstructMemoryView], boxes: Sequence[tuple[Span, ...]], facts: Facts
) -> tuple[int, int] | None:
    """The first two partitions with a coordinate in common."""
    if len(views) > _MOST_PARTITIONS:
        return None
    for second in range(len(views)):
        for first in range(second):
            apart = any(a[1] < b[0] or b[1] < a[0] for a, b in zip(boxes[first], boxes[second], strict=True))
            if not apart and _share(views[first], views[second], facts):
                return first, second
    return None


def _share(a: ConstructMemoryView, b: ConstructMemoryView, facts: Facts) -> bool:
    try:
        return not a.coordinate_set.set.is_disjoint(
            b.coordinate_set.set, symbols_of(a, facts) or (), symbols_of(b, facts) or (), limit=POINT_LIMIT
        )
    except AffineError:
        return False
