"""Pipelines that store where they have loaded from, and nowhere else.

Where an iteration stores exactly the elements that it loads itself, and no two iterations touch the same
element, no iteration has to wait for what another one stores.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from attrs import frozen

from dfsched.dialects.ktdf import DataTransfer, DeriveSize, Pipeline, Stage
from dfsched.dialects.ktdf.transfer import Cell
from dfsched.lowering.meetings import may_alias, memory_of
from dfsched.passes.index_arithmetic import expand_subscripts
from dfsched.passes.subscripts import Subscripts
from ktir.affine import Dim, linear
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, memref, scf
from ktir.dialects.ktdp import ConstructMemoryView
from ktir.ir import Operation, Value
from ktir.opdef import PURE
from ktir.types import MemRefType

__all__ = ["is_in_place"]


@frozen
class _Term:
    """A summand of a subscript: a loop around the pipeline, or a loop of the stage (by depth), at most
    `trips` times."""

    name: Value | int
    trips: int | None


@frozen
class _Region:
    """What a transfer touches: per dimension the terms with their coefficients, a constant, an extent."""

    base: tuple[Hashable, ...]
    exprs: tuple[tuple[tuple[tuple[_Term, int], ...], int], ...]
    box: tuple[int, ...]


def is_in_place(pipeline: Pipeline, store: Stage, load: Stage, uses: DefUse) -> bool:
    """Whether the regions that `store` writes are each iteration's own, and what `load` reads of the same
    memory are those of the same iteration."""
    written = [op.dest_cell for op in _transfers(store) if isinstance(op.dest.type, MemRefType)]
    read = [op.source_cell for op in _transfers(load) if isinstance(op.source.type, MemRefType)]
    targets = [memory_of(cell.value, uses) for cell in written]
    outer = [op for op in uses.ancestors(pipeline) if isinstance(op, scf.For)]
    stores = [(op, _region(op, cell, store, uses)) for op, cell in _pairs(store, written)]
    loads = [
        (op, _region(op, cell, load, uses))
        for op, cell in _pairs(load, read)
        if any(may_alias(memory_of(cell.value, uses), target) for target in targets)
    ]
    regions = {region for _, region in (*stores, *loads)}
    if len(regions) != 1 or None in regions:
        return False
    (region,) = regions
    return region is not None and _is_own(region, outer, uses)


def _transfers(stage: Stage) -> list[DataTransfer]:
    return [op for op in stage.walk() if isinstance(op, DataTransfer)]


def _pairs(stage: Stage, cells: Sequence[Cell]) -> Iterable[tuple[DataTransfer, Cell]]:
    for op in _transfers(stage):
        for cell in (op.source_cell, op.dest_cell):
            if cell in cells:
                yield op, cell


def _key(value: Value, uses: DefUse) -> Hashable:
    """Equal for values that are computed alike."""
    op = uses.definer(value)
    if op is None or not op.definition_has(PURE) or op.regions:
        return value
    return op.name, op.attributes, tuple(_key(operand, uses) for operand in op.operands)


def _place(value: Value, uses: DefUse) -> tuple[Hashable, ...] | None:
    """What fixes the addresses behind a memref: equal for equal ones; None unless subscripts are places."""
    found: list[Hashable] = []
    while True:
        match uses.definer(value):
            case memref.Cast() | memref.MemorySpaceCast() as cast:
                value = cast.operands[0]
            case memref.ReinterpretCast() as cast:
                sizes, strides = cast.static_sizes.values, cast.static_strides.values
                if cast.sizes or cast.strides or (not found and not _is_injective(sizes, strides)):
                    return None
                found += [cast.static_offsets, *(_key(offset, uses) for offset in cast.offsets), strides]
                value = cast.operands[0]
            case ConstructMemoryView() as view:
                if not found and not _is_injective(view.mixed_sizes, view.mixed_strides):
                    return None
                return (*found, _key(view.offset, uses), tuple(view.mixed_strides))
            case _:
                return None


def _is_injective(sizes: Sequence[object], strides: Sequence[object]) -> bool:
    """Whether different subscripts are different elements."""
    pairs = [
        (stride, size)
        for size, stride in zip(sizes, strides, strict=True)
        if isinstance(size, int) and isinstance(stride, int)
    ]
    if len(pairs) < len(sizes):
        return False
    reach = 1
    for stride, size in sorted(pairs):
        if size > 1 and stride < reach:
            return False
        reach += (size - 1) * stride
    return True


def _region(op: DataTransfer, cell: Cell, stage: Stage, uses: DefUse) -> _Region | None:
    """None where it cannot be told."""
    place = _place(cell.value, uses)
    if place is None or cell.map is None or None in cell.sizes:
        return None
    around: list[Operation] = []
    for outer in uses.ancestors(op):
        if outer is stage:
            break
        if not isinstance(outer, scf.For):
            return None
        around.append(outer)
    inner: dict[Value, _Term] = {
        loop.induction_variable: _Term(depth, _most_trips(loop, uses))
        for depth, loop in enumerate(reversed(around))
        if isinstance(loop, scf.For)
    }
    subscripts = expand_subscripts(Subscripts.of_map(cell.map, cell.indices), uses)
    exprs = []
    for expr in subscripts.exprs:
        flat = linear(expr)
        if flat is None or not all(isinstance(term, Dim) for term, _ in flat.terms):
            return None
        terms = []
        for term, coefficient in flat.terms:
            assert isinstance(term, Dim)
            index = subscripts.values[term.position]
            terms.append((inner.get(index, _Term(index, None)), coefficient))
        exprs.append((tuple(sorted(terms, key=_order)), flat.constant))
    return _Region(place, tuple(exprs), cell.static_sizes)


def _order(entry: tuple[_Term, int]) -> tuple[int, bool, int]:
    """Loops of the stage by depth, by coefficient: equal for regions that are equal but for names."""
    term, coefficient = entry
    return coefficient, isinstance(term.name, int), term.name if isinstance(term.name, int) else 0


def _most_trips(loop: scf.For, uses: DefUse) -> int | None:
    match uses.definer(loop.upper):
        case arith.Constant(value=IntegerAttr(value=number)):
            return number
        case DeriveSize() as size:
            match uses.definer(size.tile_sizes[-1]):
                case arith.Constant(value=IntegerAttr(value=number)):
                    return number
    return None


def _is_own(region: _Region, outer: Sequence[scf.For], uses: DefUse) -> bool:
    """Whether iterations of the loops around a pipeline have regions that do not overlap.

    Each of the loops moves one dimension by more than what those with smaller steps and the box cover there.
    """
    variables = {loop.induction_variable: _most_trips(loop, uses) for loop in outer}
    placed: set[Value] = set()
    for (terms, _), size in zip(region.exprs, region.box, strict=True):
        reach = size
        for term, step in sorted(terms, key=lambda entry: entry[1]):
            trips = term.trips
            if not isinstance(term.name, int):
                if term.name not in variables:
                    continue  # the same in all iterations
                if step < reach or term.name in placed:
                    return False
                placed.add(term.name)
                trips = variables[term.name]
            if step < 0 or (trips is None and (term, step) != max(terms, key=lambda entry: entry[1])):
                return False
            reach += ((trips or 1) - 1) * step
    return all(variable in placed or trips == 1 for variable, trips in variables.items())
