"""The ``tensor`` dialect (ktir spec 3.6).  Tensors are values: nothing is changed in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import tensor
from ktir.dialects.slices import static_values
from ktir.ir import Operation, Value
from ktir.types import ShapedType, Type, element_or_self
from spyresim.errors import ExecutionFault, OutOfRangeFault, Site
from spyresim.meaning.formats import Array, held_dtype
from spyresim.sequential.access import IntArray
from spyresim.sequential.interpreter import Diverged, Frame, Handlers, Interpreter, Results, groups_of
from spyresim.sequential.memory import FILL_BYTE
from spyresim.sequential.values import spread

__all__ = ["TENSORS", "poison"]

TENSORS = Handlers()


def poison(type: Type, shape: Sequence[int], run: Interpreter) -> Array:
    """Contents of a tensor that nobody has written: NaN, or the fill byte for integers; shape (1, *shape)."""
    held = held_dtype(type, run.machine.f16_format)
    if held.kind == "f" or held.kind == "V":
        scalar = np.full(1, np.nan).astype(held)
    else:
        scalar = np.full(held.itemsize, FILL_BYTE, np.uint8).view(np.uint8 if held == np.bool_ else held)
    return np.broadcast_to(scalar.astype(held).reshape((1,) * (len(shape) + 1)), (1, *shape))


def result_shape(op: Operation, frame: Frame, type: Type, sizes: Sequence[Value]) -> tuple[int, ...]:
    """The extents of a shaped type; dynamic ones are the next of `sizes`."""
    assert isinstance(type, ShapedType)
    dynamic = iter(sizes)
    shape = tuple(frame.number(next(dynamic)) if extent is None else extent for extent in type.shape)
    check_extents(op, shape)
    return shape


def check_extents(op: Operation, shape: Sequence[int]) -> None:
    """No tensor has a negative extent."""
    if any(extent < 0 for extent in shape):
        raise ExecutionFault(f"a tensor of shape {tuple(shape)}", site=Site(op.name, op.location))


def reshaped(op: Operation, source: Array, shape: Sequence[int]) -> Array:
    """The tensors of a batch in another shape of as many elements."""
    check_extents(op, shape)
    if math.prod(shape) != math.prod(source.shape[1:]):
        raise ExecutionFault(
            f"a tensor of shape {source.shape[1:]} cannot have shape {tuple(shape)}",
            site=Site(op.name, op.location),
        )
    return source.reshape(source.shape[0], *shape)


@TENSORS.executes(tensor.Empty)
def empty(run: Interpreter, frame: Frame, op: tensor.Empty) -> Results:
    type = op.results[0].type
    return [poison(type, result_shape(op, frame, type, op.sizes), run)]


@TENSORS.executes(tensor.Splat)
def splat(run: Interpreter, frame: Frame, op: tensor.Splat) -> Results:
    scalar = frame.array(op.input)
    shape = result_shape(op, frame, op.results[0].type, op.sizes)
    return [np.broadcast_to(scalar.reshape((-1,) + (1,) * len(shape)), (scalar.shape[0], *shape))]


def _indices(
    frame: Frame, op: Operation, indices: Sequence[Value], shape: Sequence[int]
) -> tuple[tuple[Array, ...], int]:
    """Index arrays (batch first, then whatever axes they have), checked against the extents; their rank."""
    arrays = [frame.array(value) for value in indices]
    for axis, (array, extent) in enumerate(zip(arrays, shape, strict=True)):
        bad = (array < 0) | (array >= extent)
        if bad.any():
            position = int(np.argwhere(bad)[0][0])
            tile = int(frame.tiles[position if len(array) == frame.batch else 0])
            index = int(array[tuple(np.argwhere(bad)[0])])
            raise OutOfRangeFault(
                f"index {index} of dimension {axis} is outside a tensor of shape {tuple(shape)}",
                site=Site(op.name, op.location, tile),
                memory="tensor",
                coordinate=(index,),
                limit=extent,
            )
    return tuple(arrays), max((array.ndim for array in arrays), default=1)


@TENSORS.executes(tensor.Extract)
def extract(run: Interpreter, frame: Frame, op: tensor.Extract) -> Results:
    source = frame.array(op.source)
    arrays, rank = _indices(frame, op, op.indices, source.shape[1:])
    batch = max([source.shape[0], *(array.shape[0] for array in arrays)])
    rows = np.arange(batch) if source.shape[0] != 1 else np.zeros(batch, np.int64)
    aligned = [a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in arrays]
    return [np.asarray(source[(rows.reshape((-1,) + (1,) * (rank - 1)), *aligned)])]


@TENSORS.executes(tensor.Insert)
def insert(run: Interpreter, frame: Frame, op: tensor.Insert) -> Results:
    scalar, dest = frame.array(op.scalar), frame.array(op.dest)
    arrays, _ = _indices(frame, op, op.indices, dest.shape[1:])
    batch = max([scalar.shape[0], dest.shape[0], *(array.shape[0] for array in arrays)])
    out = spread(dest, batch).copy()
    out[(np.arange(batch), *arrays)] = scalar
    return [out]


def _slices(
    frame: Frame, op: tensor.ExtractSlice | tensor.InsertSlice, shape: Sequence[int]
) -> tuple[list[IntArray], tuple[int, ...]]:
    """Per dimension the positions of a slice, shape (batch, size); and the sizes."""
    offsets, sizes, strides = (iter(group) for group in (op.offsets, op.sizes, op.strides))
    positions: list[IntArray] = []
    extents: list[int] = []
    entries = zip(
        static_values(op.static_offsets),
        static_values(op.static_sizes),
        static_values(op.static_strides),
        shape,
        strict=True,
    )
    for axis, (offset, size, stride, limit) in enumerate(entries):
        start = frame.array(next(offsets)) if offset is None else np.array([offset], np.int64)
        count = frame.number(next(sizes)) if size is None else size
        check_extents(op, (count,))
        step = frame.array(next(strides)) if stride is None else np.array([stride], np.int64)
        where = np.asarray(start[:, None] + step[:, None] * np.arange(count)[None, :])
        if where.size and (where.min() < 0 or where.max() >= limit):
            raise OutOfRangeFault(
                f"slice [{int(where.min())}, {int(where.max())}] of dimension {axis} leaves a tensor of "
                f"shape {tuple(shape)}",
                site=Site(op.name, op.location),
                memory="tensor",
                limit=limit,
            )
        positions.append(where)
        extents.append(count)
    return positions, tuple(extents)


def _grid(positions: Sequence[IntArray], batch: int, rows: int) -> tuple[Array, ...]:
    """Index arrays that select the Cartesian product of the positions, for every tile."""
    rank = len(positions)
    first = np.arange(batch) if rows != 1 else np.zeros(batch, np.int64)
    grid: list[Array] = [first.reshape((-1,) + (1,) * rank)]
    for axis, where in enumerate(positions):
        shape = [where.shape[0]] + [1] * rank
        shape[axis + 1] = where.shape[1]
        grid.append(where.reshape(shape))
    return tuple(grid)


@TENSORS.executes(tensor.ExtractSlice)
def extract_slice(run: Interpreter, frame: Frame, op: tensor.ExtractSlice) -> Results:
    source = frame.array(op.source)
    positions, extents = _slices(frame, op, source.shape[1:])
    batch = max([source.shape[0], *(where.shape[0] for where in positions)])
    found = np.asarray(source[_grid(positions, batch, source.shape[0])])
    type = op.results[0].type
    assert isinstance(type, ShapedType)
    if type.rank == len(extents):
        return [found]
    kept = [n for n in extents if n != 1] if type.rank == sum(n != 1 for n in extents) else None
    shape = kept if kept is not None else [n for n in type.shape if n is not None]
    return [found.reshape(batch, *shape)]


@TENSORS.executes(tensor.InsertSlice)
def insert_slice(run: Interpreter, frame: Frame, op: tensor.InsertSlice) -> Results:
    source, dest = frame.array(op.source), frame.array(op.dest)
    positions, extents = _slices(frame, op, dest.shape[1:])
    batch = max([source.shape[0], dest.shape[0], *(where.shape[0] for where in positions)])
    out = spread(dest, batch).copy()
    out[_grid(positions, batch, batch)] = source.reshape(source.shape[0], *extents)
    return [out]


@TENSORS.executes(tensor.CollapseShape)
def collapse_shape(run: Interpreter, frame: Frame, op: tensor.CollapseShape) -> Results:
    source = frame.array(op.source)
    groups = [_group(group) for group in op.reassociation]
    shape = [int(np.prod([source.shape[1 + d] for d in group], dtype=np.int64)) for group in groups]
    return [source.reshape(source.shape[0], *shape)]


def _group(group: object) -> list[int]:

    assert isinstance(group, ArrayAttr)
    return [d.value for d in group if isinstance(d, IntegerAttr)]


@TENSORS.executes(tensor.ExpandShape)
def expand_shape(run: Interpreter, frame: Frame, op: tensor.ExpandShape) -> Results:
    source = frame.array(op.source)
    dynamic = iter(op.output_shape)
    shape = [frame.number(next(dynamic)) if n is None else n for n in static_values(op.static_output_shape)]
    return [reshaped(op, source, shape)]


@TENSORS.executes(tensor.Reshape)
def reshape(run: Interpreter, frame: Frame, op: tensor.Reshape) -> Results:
    source, wanted = frame.array(op.source), frame.array(op.shape)
    if wanted.shape[0] != 1 and (wanted != wanted[:1]).any():
        raise Diverged(groups_of(wanted))
    return [reshaped(op, source, [int(n) for n in wanted[0]])]


@TENSORS.executes(tensor.FromElements)
def from_elements(run: Interpreter, frame: Frame, op: tensor.FromElements) -> Results:
    type = op.results[0].type
    assert isinstance(type, ShapedType)
    arrays = np.broadcast_arrays(*(frame.array(value) for value in op.elements)) if op.elements else []
    if not arrays:
        return [
            np.empty((1, *type.static_shape()), held_dtype(element_or_self(type), run.machine.f16_format))
        ]
    return [np.stack(arrays, axis=1).reshape(arrays[0].shape[0], *type.static_shape())]


@TENSORS.executes(tensor.Dim)
def dimension(run: Interpreter, frame: Frame, op: tensor.Dim) -> Results:
    shape, axis = frame.array(op.source).shape[1:], frame.number(op.index)
    if not 0 <= axis < len(shape):
        raise OutOfRangeFault(
            f"dimension {axis} of a tensor of shape {shape}",
            site=Site(op.name, op.location),
            memory="tensor",
            limit=len(shape),
        )
    return [np.array([shape[axis]], np.int64)]


@TENSORS.executes(tensor.Cast)
def cast(run: Interpreter, frame: Frame, op: tensor.Cast) -> Results:
    source, type = frame.array(op.source), op.dest.type
    if isinstance(type, ShapedType) and any(
        extent is not None and extent != have
        for extent, have in zip(type.shape, source.shape[1:], strict=True)
    ):
        raise OutOfRangeFault(
            f"a tensor of shape {source.shape[1:]} is no {type}",
            site=Site(op.name, op.location),
            memory="tensor",
        )
    return [source]


@TENSORS.executes(tensor.Concat)
def concatenate(run: Interpreter, frame: Frame, op: tensor.Concat) -> Results:
    arrays = [frame.array(value) for value in op.inputs]
    batch = max(array.shape[0] for array in arrays)
    return [np.concatenate([spread(array, batch) for array in arrays], axis=1 + op.dim.value)]


@TENSORS.executes(tensor.Generate)
def generate(run: Interpreter, frame: Frame, op: tensor.Generate) -> Results:
    """The body sees whole index grids."""
    extents = result_shape(op, frame, op.results[0].type, op.sizes)
    block = op.body.block
    grids = []
    for d, extent in enumerate(extents):
        shape = [1] * (len(extents) + 1)
        shape[d + 1] = extent
        grids.append(np.arange(extent, dtype=np.int64).reshape(shape))
    frame.bind(block.arguments, grids)
    run.elements.append(math.prod(extents))
    try:
        (value,) = run.run_block(block, frame)
    finally:
        run.elements.pop()
    assert isinstance(value, np.ndarray)
    if value.ndim < len(extents) + 1:
        value = value.reshape(value.shape + (1,) * (len(extents) + 1 - value.ndim))
    return [np.broadcast_to(value, (value.shape[0], *extents))]
