"""Execution of one kernel body: loops as index grids, in one block or blockwise in a random order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from rangeify.errors import ScheduleError, UnsupportedError
from rangeify.executor.alu import apply, constant
from rangeify.executor.blocks import Steps, extent, is_gated, steps, widths
from rangeify.kernels import loops_of, store_of
from rangeify.storage import Array
from uopgraph import GroupOp, Ops, UOp

_REDUCE: Final = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}
#: A kernel in a random order is cut into so many blocks along each of its output loops, by their number.
_PIECES: Final = {1: 7, 2: 3}
_Index = npt.NDArray[np.int64]
_Grid = Mapping[UOp, _Index]


def run_kernel(body: UOp, arrays: Sequence[Array], rng: np.random.Generator | None = None) -> None:
    """Execute a kernel body; ``arrays[i]`` is behind PARAM slot i and slot 0 is written.

    Every load of a block happens before its stores, and the temporaries of a block have at most
    ``blocks.MAX_TEMPORARIES`` bytes. Without `rng` a kernel whose temporaries fit is one block. With `rng`
    the indices of each output loop are shuffled and cut into pieces, and the blocks made of them run in a
    random order, each storing before the next one loads: a kernel that reads what another iteration writes
    shows.

    Raises :class:`ScheduleError` when a load or store is outside its buffer.
    """
    outer, reduced = loops_of(body)
    extents = [extent(r) for r in outer]
    if 0 in extents:
        return
    roots = _roots(body)
    pieces = 1 if rng is None else _PIECES.get(len(outer), 2)
    store_bytes = 8 * len(outer) if any(is_gated(i) for i in roots) else 0
    width = widths(steps(roots), outer, pieces, store_bytes)
    axis = {r: a for a, r in enumerate((*outer, *reduced))}
    kernel = _Kernel(body, arrays, width, axis)
    indices = [np.arange(n) if rng is None else rng.permutation(n) for n in extents]
    corners = list(itertools.product(*(range(0, n, width[r]) for r, n in zip(outer, extents, strict=True))))
    if rng is not None:
        rng.shuffle(corners)
    for corner in corners:
        kernel.block({r: i[c : c + width[r]] for r, i, c in zip(outer, indices, corner, strict=True)})


def _roots(body: UOp) -> tuple[UOp, ...]:
    """What a kernel computes for its store: the value, the indices, and where they are valid."""
    target, value = store_of(body).src[:2]
    return (value, *target.src[1:], *(i.src[0] for i in target.src[1:] if is_gated(i)))


@attrs.define(eq=False)
class _Kernel:
    """A kernel body on its arrays. ``width``: iterations of each loop that are computed at once; a reduction
    over more is folded piece by piece. ``axis``: the axis of each loop in temporaries."""

    body: UOp
    arrays: Sequence[Array]
    width: Mapping[UOp, int]
    axis: Mapping[UOp, int]
    _steps: dict[tuple[UOp, ...], Steps] = attrs.field(factory=dict)
    _pieces: frozenset[UOp] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        reduces = (n for n in self.body.toposort() if n.op is Ops.REDUCE)
        self._pieces = frozenset(n for n in reduces if any(self.width[r] < extent(r) for r in n.src[1:]))

    def _along(self, r: UOp, indices: npt.NDArray[Any]) -> _Index:
        """Indices of a loop along its axis."""
        shape = [1] * len(self.axis)
        shape[self.axis[r]] = -1
        return indices.astype(np.int64).reshape(shape)

    def block(self, at: Mapping[UOp, npt.NDArray[Any]]) -> None:
        """Compute and store the values at the product of the given indices of each output loop."""
        grid = {r: self._along(r, indices) for r, indices in at.items()}
        for r in self.axis:
            if r not in at and self.width[r] == extent(r):
                grid[r] = self._along(r, np.arange(extent(r)))
        target, value = store_of(self.body).src[:2]
        with np.errstate(all="ignore"):
            known = self._compute(_roots(self.body), grid)
        out = known[value]
        places = [known[i] for i in target.src[1:]]
        into = self._array(target.src[0])
        if not places:
            into[()] = out.reshape(())
            return
        where = np.broadcast_arrays(*places, out)[:-1]
        values = np.broadcast_to(out, where[0].shape)
        gates = [known[i.src[0]] for i in target.src[1:] if is_gated(i)]
        if gates:
            inside = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*gates)), values.shape)
            where, values = tuple(w[inside] for w in where), values[inside]
        self._check(target, where if gates else places, into.shape)
        into[tuple(where)] = values

    def _compute(self, roots: tuple[UOp, ...], grid: _Grid) -> dict[UOp, Array]:
        """The values of `roots` (and perhaps of others)."""
        order = self._steps.get(roots)
        if order is None:
            order = self._steps[roots] = steps(roots, self._pieces)
        known: dict[UOp, Array] = dict(grid)
        for node, dead in zip(order.nodes, order.dead, strict=True):
            known[node] = self._value(node, known, grid)
            for d in dead:
                del known[d]
        return known

    def _value(self, node: UOp, known: dict[UOp, Array], grid: _Grid) -> Array:
        match node.op:
            case Ops.CONST:
                return constant(node)
            case Ops.INDEX:
                return self._load(node, known)
            case Ops.REDUCE if node in self._pieces:
                return self._reduce_in_pieces(node, grid)
            case Ops.REDUCE:
                return _reduce(node, known[node.src[0]], grid)
            case Ops.WHERE if is_gated(node):
                return known[node.src[1]]
            case _ if node.op in GroupOp.Elementwise:
                return apply(node, [known[s] for s in node.src])
        raise UnsupportedError(f"execution of {node.op.name} in a kernel")

    def _load(self, node: UOp, known: dict[UOp, Array]) -> Array:
        base = node.src[0]
        if base.op is not Ops.PARAM:
            raise UnsupportedError(f"a load from {base.op.name}")
        array = self._array(base)
        if len(node.src) == 1:
            return np.asarray(array[()])
        gates = [known[i.src[0]] for i in node.src[1:] if is_gated(i)]
        places = [known[i] for i in node.src[1:]]
        if not gates:
            self._check(node, places, array.shape)
            return np.asarray(array[tuple(places)])
        valid = gates[0]
        for gate in gates[1:]:
            valid = valid & gate
        places = [np.where(valid, at, 0) for at in places]
        self._check(node, places, array.shape)
        loaded = np.asarray(array[tuple(places)])
        return np.where(valid, loaded, np.zeros((), loaded.dtype))

    def _array(self, param: UOp) -> Array:
        """What is behind a parameter, in the shape that the body gives it; a body written by hand may flatten
        it."""
        array, shape = self.arrays[param.arg.slot], param.max_shape
        return array if array.ndim == len(shape) else np.reshape(array, shape)

    def _check(self, node: UOp, places: Sequence[Array], shape: tuple[int, ...]) -> None:
        for axis, (at, n) in enumerate(zip(places, shape, strict=True)):
            if at.size and (at.min() < 0 or at.max() >= n):
                raise ScheduleError(
                    "run",
                    f"kernel {self.body.arg.name} is at {int(at.min())} ... {int(at.max())} of axis {axis} "
                    f"of size {n} of its buffer {node.src[0].arg.slot}",
                )

    def _reduce_in_pieces(self, node: UOp, grid: _Grid) -> Array:
        """Fold over pieces of the node's ranges, each computed by itself."""
        function = _REDUCE[node.arg[0]]
        loops = node.src[1:]
        total: Array | None = None
        for corner in itertools.product(*(range(0, extent(r), self.width[r]) for r in loops)):
            piece = dict(grid)
            for r, start in zip(loops, corner, strict=True):
                piece[r] = self._along(r, np.arange(start, min(start + self.width[r], extent(r))))
            source = self._compute((node.src[0],), piece)[node.src[0]]
            part = _reduce(node, source, piece)
            total = part if total is None else np.asarray(function(total, part))
        assert total is not None
        return total


def _reduce(node: UOp, value: Array, grid: _Grid) -> Array:
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
