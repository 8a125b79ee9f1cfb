"""Loop nests of nothing but copies: one composite copy each, with the loops as time dimensions (dataflowir
spec 3.7.1).

A unit that moves whole tiles walks loops of vector-sized transfers. The memories can do that walk
themselves: every loop becomes a time dimension of the copy, with the distances that each side advances per
step. So a tile costs one request. A loop over a tile of which the last one is shorter becomes two copies
under a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, frozen

from dfsched.dialects.ktdf import Cell, DataTransfer
from dfsched.lowering.loops import Tile
from dfsched.lowering.transfers import TimeLoop
from dfsched.lowering.values import Known, View
from ktir.affine import Dim, linear
from ktir.dialects import arith, scf
from ktir.ir import Region, Value

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["CopyNests"]


@frozen(eq=False)
class _Loop:
    """A loop of a nest: variable, first value, step, trip count."""

    variable: Value
    lower: int
    step: int
    trips: int | Tile


@frozen(eq=False)
class _Copy:
    """A transfer with the loops around it, outermost first."""

    loops: tuple[_Loop, ...]
    transfer: DataTransfer


@define
class CopyNests:
    """The nests of copies of one program unit."""

    unit: ProgramUnitBuilder

    def nest(self, op: scf.For) -> bool:
        """Lower a loop nest as copies; False (and nothing done) if it holds anything else."""
        found = self._collect(op, ())
        if not found or not _independent(found, self):
            return False
        for loop in {loop.variable: loop for copy in found for loop in copy.loops}.values():
            self.unit.meanings[loop.variable] = Known((loop.lower,) * self.unit.rows)
        for copy in found:
            used = [
                loop
                for loop in copy.loops
                if loop.variable in (*copy.transfer.source_indices, *copy.transfer.dest_indices)
            ]
            self._emit(copy.transfer, used, ())
        return True

    def _collect(self, op: scf.For, around: tuple[_Loop, ...]) -> list[_Copy] | None:
        loop = self._loop(op)
        if loop is None:
            return None
        loops = (*around, loop)
        found: list[_Copy] = []
        for inner in op.body.block.operations[:-1]:
            match inner:
                case scf.For():
                    nested = self._collect(inner, loops)
                    if nested is None:
                        return None
                    found += nested
                case DataTransfer() if _is_copy(inner) and _is_linear(inner, [x.variable for x in loops]):
                    found.append(_Copy(loops, inner))
                case arith.Constant():
                    self.unit.operation(inner)
                case _:
                    return None
        return found

    def _loop(self, op: scf.For) -> _Loop | None:
        if op.inits:
            return None
        lower, step = (self._number(value) for value in (op.lower, op.step))
        if lower is None or step is None or step <= 0:
            return None
        tile = self.unit.loops.tiles.get(op.upper)
        if tile is not None and lower == 0 and step == 1:
            return _Loop(op.induction_variable, lower, step, tile)
        upper = self._number(op.upper)
        if upper is None or upper <= lower:
            return None
        return _Loop(op.induction_variable, lower, step, -(-(upper - lower) // step))

    def _number(self, value: Value) -> int | None:
        meaning = self.unit.meanings.get(value)
        return meaning.uniform if isinstance(meaning, Known) else None

    def _emit(self, transfer: DataTransfer, loops: Sequence[_Loop], times: tuple[TimeLoop, ...]) -> None:
        """The copy for all choices of trip counts."""
        if not loops:
            self.unit.transfers.copy(transfer, times)
            return
        loop, rest = loops[0], loops[1:]

        def advanced(extent: int) -> TimeLoop:
            source = _advance(transfer.source_cell, loop)
            return TimeLoop(extent, source, _advance(transfer.dest_cell, loop))

        if isinstance(loop.trips, int):
            self._emit(transfer, rest, (*times, advanced(loop.trips)))
            return
        tile = loop.trips
        regions = []
        for extent in (tile.full, tile.rest):
            time = (*times, advanced(extent))
            inner = self.unit.nested(lambda time=time: self._emit(transfer, rest, time))  # type: ignore[misc]
            regions.append(Region.of((*inner, scf.Yield.create())))
        self.unit.emit(scf.If.create((tile.is_full,), regions=regions, location=transfer.location))


def _is_copy(op: DataTransfer) -> bool:
    return op.source_cell.is_memory and op.dest_cell.is_memory and op.mode is None


def _is_linear(op: DataTransfer, variables: Sequence[Value]) -> bool:
    """Whether the loop variables occur in the subscripts with constant factors only."""
    for cell in (op.source_cell, op.dest_cell):
        assert cell.map is not None
        if None in cell.sizes:
            return False
        dims = {i for i, value in enumerate(cell.indices) if value in variables}
        for expr in cell.map.results:
            flat = linear(expr)
            if flat is None:
                return False
            for term, _ in flat.terms:
                if not isinstance(term, Dim) and not dims.isdisjoint(term.dims()):
                    return False
    return True


def _advance(cell: Cell, loop: _Loop) -> tuple[int, ...]:
    """What one step of a loop adds to every subscript."""
    assert cell.map is not None
    moves = []
    for expr in cell.map.results:
        flat = linear(expr)
        assert flat is not None
        factor = sum(
            flat.coefficient(Dim(i)) for i, value in enumerate(cell.indices) if value is loop.variable
        )
        moves.append(factor * loop.step)
    return tuple(moves)


def _independent(copies: Sequence[_Copy], nests: CopyNests) -> bool:
    """Whether the copies may run one after the other instead of in turns."""
    sources = {_place(copy.transfer.source, nests) for copy in copies}
    targets = [_place(copy.transfer.dest, nests) for copy in copies]
    if len(copies) > 1 and not sources.isdisjoint(targets):
        return False
    return all(
        targets[i] != targets[j] or _apart(copies[i], copies[j]) for j in range(len(copies)) for i in range(j)
    )


def _apart(a: _Copy, b: _Copy) -> bool:
    """Whether two copies into one memref write different parts of it, in all iterations of their loops.

    True if in some dimension both start from the same values outside of the loops, and the ranges differ.
    """
    for first, second in zip(_ranges(a), _ranges(b), strict=True):
        if first is None or second is None:
            continue
        (outside, low, high), (other, other_low, other_high) = first, second
        if outside == other and (high < other_low or other_high < low):
            return True
    return False


def _ranges(copy: _Copy) -> list[tuple[dict[Value, int], int, int] | None]:
    """Per dimension of the target: factors of values outside of the loops, first and last index beside
    them.
    """
    cell = copy.transfer.dest_cell
    assert cell.map is not None
    loops = {loop.variable: loop for loop in copy.loops}
    found: list[tuple[dict[Value, int], int, int] | None] = []
    for expr, size in zip(cell.map.results, cell.static_sizes, strict=True):
        flat = linear(expr)
        if flat is None or not flat.is_linear:
            found.append(None)
            continue
        outside: dict[Value, int] = {}
        low = high = flat.constant
        for term, factor in flat.terms:
            assert isinstance(term, Dim)
            value = cell.indices[term.position]
            loop = loops.get(value)
            if loop is None:
                outside[value] = outside.get(value, 0) + factor
                continue
            trips = loop.trips if isinstance(loop.trips, int) else loop.trips.full
            ends = factor * loop.lower, factor * (loop.lower + loop.step * (trips - 1))
            low, high = low + min(ends), high + max(ends)
        found.append((outside, low, high + size - 1))
    return found


def _place(value: Value, nests: CopyNests) -> object:
    """What tells memory apart: the kernel's view, or the buffer."""
    meaning = nests.unit.meanings.get(value)
    return meaning.op if isinstance(meaning, View) else value
