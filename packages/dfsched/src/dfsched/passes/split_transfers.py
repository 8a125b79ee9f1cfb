"""`split-transfers`: copies between memories that are no whole number of vectors.

Takes expanded pipelines. A copy from memory to memory of more elements than a vector has goes in vectors
along the innermost dimension, which both sides must have in multiples of the lanes and walk by the same
distances. Any other copy becomes loops over its dimensions, also where distances differ in one dimension only
(dataflowir spec 3.7.1 takes that, but with a request a step). Rows go in as few pieces of one size as whole
vectors would take, because a loop over equal pieces is one request to the memories, with one latency. Where
equal pieces do not come out even, neighbours overlap: what two of them hold is written twice, with the same
value. Where not even that fits the rows, whole vectors and a short one at the end are copies of their own.

Before (64 lanes)::

    data_transfer from %p[%i, 0] size [4, 127] to %b[0, 0] size [4, 127]

After::

    scf.for %r = %c0 to %c4 step %c1 { scf.for %v = %c0 to %c2 step %c1 {
      data_transfer from %p[%i + %r, %v * 63] size [1, 64] to %b[%r, %v * 63] size [1, 64]
    } }

>>> from dfsched.passes.examples import example
>>> example("split-transfers", '''
... ktdf.data_transfer from %x[0, 0] size [2, 100] to %y[0, 0] size [2, 100]
...     : memref<2x100xf16, "DDR">, memref<2x100xf16, "L1">
... ''', arguments='%x: memref<2x100xf16, "DDR">, %y: memref<2x100xf16, "L1">')
%c0 = arith.constant 0 : index
%c2 = arith.constant 2 : index
%c1 = arith.constant 1 : index
scf.for %arg0 = %c0 to %c2 step %c1 {
  %c0_0 = arith.constant 0 : index
  %c2_1 = arith.constant 2 : index
  %c1_2 = arith.constant 1 : index
  scf.for %arg1 = %c0_0 to %c2_1 step %c1_2 {
    ktdf.data_transfer from %x[%arg0, %arg1 * 50] size [1, 50] to %y[%arg0, %arg1 * 50] size [1,
        50] : memref<2x100xf16, "DDR">, memref<2x100xf16, "L1">
  } {loop_type = #ktdf.loop_type<parallel_loop>}
} {loop_type = #ktdf.loop_type<parallel_loop>}
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve, frozen

from dfsched.dialects.ktdf import Cell, DataTransfer, LoopKind
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from dfsched.passes.subscripts import Subscripts
from ktir.affine import AffineExpr, Const, Dim
from ktir.dialects import ktdp, memref
from ktir.dialects.builtin import Module
from ktir.dialects.slices import static_values
from ktir.ir import BlockArgument, Operation, Value
from ktir.types import INDEX, MemRefType

__all__ = ["PASS", "run"]

Walk = tuple[int, int, int]
"""A dimension of the source, the one of the destination that goes with it, and their extent."""


@frozen
class _Pieces:
    """Parts of a row: how many, the distance of their starts, and the elements of each."""

    trips: int
    step: int
    size: int

    @property
    def end(self) -> int:
        """The first element behind them."""
        return (self.trips - 1) * self.step + self.size


def run(module: Module, context: PassContext) -> Module:
    """Split every copy that needs it."""
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [new for op in operations for new in _split(op, context, definitions)]

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


PASS = Pass("split-transfers", Group.SCHEDULER, run, "copies between memories in whole vectors and rests")


def _split(op: Operation, context: PassContext, definitions: Definitions) -> list[Operation]:
    if not isinstance(op, DataTransfer) or not op.source_cell.is_memory or not op.dest_cell.is_memory:
        return [op]
    source, dest = op.source_cell, op.dest_cell
    if None in source.sizes or None in dest.sizes or op.mode is not None:
        return [op]
    type = source.value.type
    assert isinstance(type, MemRefType)
    lanes = context.architecture.vector_length((type.element,))
    sizes = source.static_sizes, dest.static_sizes
    if math.prod(sizes[1]) <= lanes or not all(sizes):
        return [op]
    walks = _walks(*sizes)
    if walks is None:
        return [op]
    if all(s[-1] % lanes == 0 for s in sizes):
        strides = [_strides(cell.value, definitions) for cell in (source, dest)]
        if strides[0] is None or strides[1] is None or not _differ(walks, lanes, strides[0], strides[1]):
            return [op]
    emitter = Emitter(op.location)
    _copies(op, walks, lanes, (Const(0),) * len(walks), (), emitter)
    return emitter.operations


def _walks(source: Sequence[int], dest: Sequence[int]) -> list[Walk] | None:
    """Dimensions of more than one element, paired; None if the two sides do not agree."""
    wide = [[(d, n) for d, n in enumerate(sizes) if n != 1] for sizes in (source, dest)]
    if [n for _, n in wide[0]] != [n for _, n in wide[1]]:
        return None
    return [(a, b, n) for (a, n), (b, _) in zip(*wide, strict=True)]


def _differ(walks: Sequence[Walk], lanes: int, source: Sequence[int], dest: Sequence[int]) -> bool:
    """Whether a dimension that whole vectors walk advances by different distances on the two sides."""
    *outer, (a, b, extent) = walks
    walked = [*outer, (a, b, extent)] if extent > lanes else outer
    return any(source[a] != dest[b] for a, b, _ in walked)


def _strides(memory: Value, definitions: Definitions) -> tuple[int, ...] | None:
    """Elements per step of each dimension; None where they are not known.

    The type of a view does not say them, what made it does.
    """
    found: Sequence[int | Value | None]
    match definitions.definer(memory):
        case ktdp.ConstructMemoryView() as view:
            found = view.mixed_strides
        case memref.ReinterpretCast() as view:
            found = static_values(view.static_strides)
        case (memref.MemorySpaceCast() | memref.Cast()) as view:
            return _strides(view.source, definitions)
        case _:
            type = memory.type
            assert isinstance(type, MemRefType)
            if type.layout is not None or not type.is_static:
                return None
            shape = type.static_shape()
            found = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    known = tuple(stride for stride in found if isinstance(stride, int))
    return known if len(known) == len(found) else None


def _copies(
    op: DataTransfer,
    walks: Sequence[Walk],
    lanes: int,
    places: tuple[AffineExpr, ...],
    variables: tuple[Value, ...],
    emitter: Emitter,
    depth: int = 0,
) -> None:
    """Loops over the dimensions from `depth` on; vectors along the last one."""
    extent = walks[depth][2]

    def at(expr: AffineExpr) -> tuple[AffineExpr, ...]:
        return (*places[:depth], expr, *places[depth + 1 :])

    if depth + 1 < len(walks):
        variable = BlockArgument(INDEX)
        inner = Emitter(op.location)
        _copies(op, walks, lanes, at(Dim(len(variables))), (*variables, variable), inner, depth + 1)
        _loop(emitter, extent, variable, inner)
        return
    pieces = _equal_pieces(extent, lanes) or _Pieces(extent // lanes, lanes, lanes)
    if pieces.trips == 1:
        emitter.operations.append(_vector(op, walks, at(Const(0)), variables, pieces.size))
    else:
        variable = BlockArgument(INDEX)
        inner = Emitter(op.location)
        place = at(Dim(len(variables)) * pieces.step)
        inner.operations.append(_vector(op, walks, place, (*variables, variable), pieces.size))
        _loop(emitter, pieces.trips, variable, inner)
    if pieces.end < extent:
        emitter.operations.append(_vector(op, walks, at(Const(pieces.end)), variables, extent - pieces.end))


def _equal_pieces(extent: int, lanes: int) -> _Pieces | None:
    """The smallest equal pieces that cover exactly a row, no more of them than whole vectors would take."""
    trips = -(-extent // lanes)
    if trips == 1:
        return _Pieces(1, extent, extent)
    for size in range(-(-extent // trips), lanes + 1):
        step, rest = divmod(extent - size, trips - 1)
        if not rest and step <= size:
            return _Pieces(trips, step, size)
    return None


def _loop(emitter: Emitter, trips: int, variable: BlockArgument, body: Emitter) -> None:
    bounds = (emitter.constant(0), emitter.constant(trips), emitter.constant(1))
    emitter.operations.append(
        build.for_loop(bounds, variable, body.operations, LoopKind.PARALLEL, emitter.location)
    )


def _vector(
    op: DataTransfer,
    walks: Sequence[Walk],
    places: Sequence[AffineExpr],
    variables: tuple[Value, ...],
    count: int,
) -> DataTransfer:
    """The copy of one vector."""

    def moved(cell: Cell, side: int) -> Cell:
        assert cell.map is not None
        exprs: list[AffineExpr] = [Const(0)] * len(cell.sizes)
        sizes = [1] * len(cell.sizes)
        for walk, place in zip(walks, places, strict=True):
            exprs[walk[side]] = place
        sizes[walks[-1][side]] = count
        where = (
            Subscripts.of_map(cell.map, cell.indices).plus(Subscripts(tuple(exprs), variables)).canonical()
        )
        return evolve(cell, map=where.map, indices=where.values, sizes=tuple(sizes))

    return op.with_cells(moved(op.source_cell, 0), moved(op.dest_cell, 1))
