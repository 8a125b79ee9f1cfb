"""Execution of one kernel body: loops as index grids, in one block or blockwise in a random order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from rangeify.errors import UnsupportedError
from rangeify.executor.alu import apply, constant
from rangeify.kernels import loops_of, store_of
from rangeify.storage import Array
from uopgraph import GroupOp, Ops, UOp

#: Most elements of one temporary array.
BLOCK_ELEMENTS: Final = 2 << 20

_REDUCE: Final = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}
_Index = npt.NDArray[np.int64]


def run_kernel(body: UOp, arrays: Sequence[Array], rng: np.random.Generator | None = None) -> None:
    """Execute a kernel body; ``arrays[i]`` is behind PARAM slot i and slot 0 is written.

    Every load of a block happens before its stores. Without `rng` a kernel whose arrays fit is one block.
    With `rng` the output indices are cut into blocks that run in a random order, each storing before the next
    one loads: a kernel that reads what another iteration writes shows.
    """
    outer, reduced = loops_of(body)
    extents = [_extent(r) for r in outer]
    total = math.prod(extents)
    if total == 0:
        return
    nests = {frozenset(n.ranges) for n in store_of(body).toposort()}
    if rng is None:
        for block in _slabs(outer, nests):
            rank = len(outer) + len(reduced)
            grid = {r: block[r].reshape(_on_axis(i, rank)) for i, r in enumerate(outer)}
            _run_block(body, arrays, {**grid, **_axes(reduced, len(outer), rank)})
        return
    inner = max((math.prod(_extent(r) for r in nest if r not in outer) for nest in nests), default=1)
    size = max(1, min(BLOCK_ELEMENTS // max(inner, 1), -(-total // 7)))
    starts = np.arange(0, total, size)
    rng.shuffle(starts)
    for start in starts:
        flat = np.arange(start, min(int(start) + size, total))
        rng.shuffle(flat)
        coordinates = np.unravel_index(flat, extents) if extents else ()
        rank = 1 + len(reduced)
        at = {r: np.asarray(c, np.int64) for r, c in zip(outer, coordinates, strict=True)}
        block = {r: c.reshape(_on_axis(0, rank)) for r, c in at.items()}
        _run_block(body, arrays, {**block, **_axes(reduced, 1, rank)})


def _on_axis(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(-1 if i == axis else 1 for i in range(rank))


def _slabs(outer: Sequence[UOp], nests: set[frozenset[UOp]]) -> Iterator[dict[UOp, _Index]]:
    """Blocks of the output loops in order, cut along the first loops only until every array of a block fits,
    so that what does not depend on the inner loops is computed once a block."""
    widths = {r: _extent(r) for r in outer}

    def largest() -> int:
        return max((math.prod(widths.get(r, _extent(r)) for r in nest) for nest in nests), default=1)

    for r in outer:
        while widths[r] > 1 and largest() > BLOCK_ELEMENTS:
            widths[r] = -(-widths[r] // 2)
    starts = [range(0, _extent(r), widths[r]) for r in outer]
    for corner in itertools.product(*starts):
        yield {
            r: np.arange(start, min(start + widths[r], _extent(r)), dtype=np.int64)
            for r, start in zip(outer, corner, strict=True)
        }


def _extent(r: UOp) -> int:
    bound = r.src[0].simplify()
    if bound.op is not Ops.CONST:
        raise UnsupportedError("execution of loops with symbolic bounds")
    return int(bound.arg)


def _axes(ranges: Sequence[UOp], first: int, rank: int) -> dict[UOp, _Index]:
    """Each range along an axis of its own."""
    out = {}
    for axis, r in enumerate(ranges, first):
        shape = [1] * rank
        shape[axis] = _extent(r)
        out[r] = np.arange(_extent(r), dtype=np.int64).reshape(shape)
    return out


def _run_block(body: UOp, arrays: Sequence[Array], grid: dict[UOp, _Index]) -> None:
    target, value = store_of(body).src[:2]
    known: dict[UOp, Array] = dict(grid)
    with np.errstate(all="ignore"):
        sink = UOp.make_sink(value, *target.src[1:])
        for node in sink.toposort(gate=lambda n: n not in grid and n.op not in GroupOp.Defines):
            if node is not sink:
                known[node] = _value(node, known, arrays, grid)
    out = known[value]
    places = [known[i] for i in target.src[1:]]
    if not places:
        _seen_as(target.src[0], arrays[0])[()] = out.reshape(())
        return
    where = np.broadcast_arrays(*places, out)[:-1]
    values = np.broadcast_to(out, where[0].shape)
    gates = [known[i.src[0]] for i in target.src[1:] if i.op is Ops.WHERE and i.src[2].is_invalid]
    if gates:
        inside = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*gates)), values.shape)
        where, values = tuple(w[inside] for w in where), values[inside]
    _seen_as(target.src[0], arrays[0])[tuple(where)] = values


def _seen_as(param: UOp, array: Array) -> Array:
    """The array in the shape that a body gives its parameter; a body written by hand may flatten it."""
    shape = param.max_shape
    return array if array.ndim == len(shape) else array.reshape(shape)


def _value(node: UOp, known: dict[UOp, Array], arrays: Sequence[Array], grid: dict[UOp, _Index]) -> Array:
    match node.op:
        case Ops.CONST:
            return constant(node)
        case Ops.INDEX:
            return _load(node, known, arrays)
        case Ops.REDUCE:
            return _reduce(node, known[node.src[0]], grid)
        case Ops.WHERE if node.src[2].is_invalid:
            return known[node.src[1]]
        case _ if node.op in GroupOp.Elementwise:
            return apply(node, [known[s] for s in node.src])
    raise UnsupportedError(f"execution of {node.op.name} in a kernel")


def _load(node: UOp, known: dict[UOp, Array], arrays: Sequence[Array]) -> Array:
    base = node.src[0]
    if base.op is not Ops.PARAM:
        raise UnsupportedError(f"a load from {base.op.name}")
    array = _seen_as(base, arrays[base.arg.slot])
    if len(node.src) == 1:
        return array[()] if isinstance(array[()], np.ndarray) else np.asarray(array[()])
    valid: Array | None = None
    places = []
    for i, size in zip(node.src[1:], array.shape, strict=True):
        at = known[i]
        if i.op is Ops.WHERE and i.src[2].is_invalid:
            gate = known[i.src[0]]
            valid = gate if valid is None else valid & gate
            at = np.clip(at, 0, size - 1)
        places.append(at)
    loaded = np.asarray(array[tuple(places)])
    return loaded if valid is None else np.where(valid, loaded, np.zeros((), loaded.dtype))


def _reduce(node: UOp, value: Array, grid: dict[UOp, _Index]) -> Array:
    """Fold over the axes of the node's ranges; a range that the value does not use still counts."""
    shape = list(value.shape) if value.ndim else [1] * next(iter(grid.values())).ndim
    axes = []
    for r in node.src[1:]:
        index = grid[r]
        axis = next((a for a, n in enumerate(index.shape) if n > 1), None)
        if axis is not None:
            axes.append(axis)
            shape[axis] = index.shape[axis]
    full = np.broadcast_to(value, shape)
    function = _REDUCE[node.arg[0]]
    return np.asarray(function.reduce(full, axis=tuple(axes), keepdims=True, dtype=value.dtype))
