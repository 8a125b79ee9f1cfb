"""Searching, sorting and indexing functions of the standard.

Sorting compares every element with every other along the axis: quadratic work, one pass, no data-dependent
order.
"""

from __future__ import annotations

import math
from typing import Any

from rangeify import gather
from rangeify.array_api import dtypes
from rangeify.array_api.array import Array, array_function, pair
from rangeify.array_api.creation import counter
from rangeify.array_api.manipulation import axis_of
from rangeify.errors import ShapeError
from uopgraph import Ops, UOp
from uopgraph import dtypes as _d


def _count(n: int) -> UOp:
    return counter(n, dtypes.DEFAULT_INT)


def _along(vector: UOp, axis: int, ndim: int) -> UOp:
    """A vector on one of `ndim` axes."""
    return vector.reshape(tuple(-1 if i == axis else 1 for i in range(ndim)))


# positions of extremes --------------------------------------------------------------------------


def _first(x: Array, axis: int | None, keepdims: bool, least: bool, name: str) -> Array:
    dtypes.require(x.dtype, "numeric", name)
    node = x.node
    if axis is None:
        node = node.reshape(x.size)
    place = 0 if axis is None else axis_of(axis, x.ndim, name)
    n = int(node.shape[place])
    if n == 0:
        raise ValueError(f"{name} over an axis of size 0")
    if least:
        node = -node if node.dtype.is_float else ~node
    best = node.max(place, keepdim=True)
    hit = node.eq(best) | (node.ne(node) & best.ne(best))
    backwards = _along(
        _count(n) * UOp.const(-1, dtypes.DEFAULT_INT) + UOp.const(n - 1, dtypes.DEFAULT_INT), place, node.ndim
    )
    last = hit.where(backwards, UOp.const(-1, dtypes.DEFAULT_INT)).max(place)
    found = UOp.const(n - 1, dtypes.DEFAULT_INT) + -last
    if not keepdims:
        return Array.of(found)
    kept = (1,) * x.ndim if axis is None else tuple(1 if i == place else s for i, s in enumerate(x.shape))
    return Array.of(found.reshape(kept))


@array_function
def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first position of the greatest value, or of the first nan; in the flat array for None."""
    return _first(x, axis, keepdims, least=False, name="argmax")


@array_function
def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first position of the least value, or of the first nan; in the flat array for None."""
    return _first(x, axis, keepdims, least=True, name="argmin")


@array_function
def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition is true, else x2."""
    dtypes.require(condition.dtype, "bool", "where")
    a, b = pair(x1, x2, "numeric or bool", "where")
    return Array.of(condition.node.alu(Ops.WHERE, a, b))


# sorting ----------------------------------------------------------------------------------------


def _sort_key(x: UOp, descending: bool) -> UOp:
    """Integers in the order of the values: both zeros equal, every nan the same and behind all others."""
    if x.dtype.is_float:
        plain = x.ne(x).where(UOp.const(math.nan, x.dtype), x + UOp.const(0.0, x.dtype))
        signed = plain.bitcast(_d.int32 if x.dtype is _d.float32 else _d.int64)
        x = (signed < UOp.const(0, signed.dtype)).where(
            signed ^ UOp.const(signed.dtype.max, signed.dtype), signed
        )
    return ~x if descending else x


def _ranks(x: UOp, axis: int, descending: bool) -> UOp:
    """How many elements come before each along an axis; of equal ones the earlier."""
    key = _sort_key(x, descending).contiguous()
    n = int(x.shape[axis])
    mine, other = key.unsqueeze(axis + 1), key.unsqueeze(axis)
    i, j = _along(_count(n), axis, x.ndim + 1), _along(_count(n), axis + 1, x.ndim + 1)
    before = (other < mine) | (other.eq(mine) & (j < i))
    return before.cast(dtypes.DEFAULT_INT).sum(axis + 1).contiguous()


def _order(x: Array, axis: int, descending: bool, name: str) -> tuple[UOp, int]:
    dtypes.require(x.dtype, "numeric", name)
    place = axis_of(axis, x.ndim, name)
    n = x.shape[place]
    if x.size == 0:
        return UOp.const(0, dtypes.DEFAULT_INT).expand(x.shape), place
    ranks = _ranks(x.node, place, descending)
    wanted, source = _along(_count(n), place, x.ndim + 1), _along(_count(n), place + 1, x.ndim + 1)
    here = ranks.unsqueeze(place).eq(wanted)
    return here.where(source, UOp.const(0, dtypes.DEFAULT_INT)).sum(place + 1).contiguous(), place


@array_function
def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions that sort x along an axis, always stably; nan is greater than everything."""
    return Array.of(_order(x, axis, descending, "argsort")[0])


@array_function
def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """x sorted along an axis, always stably; nan is greater than everything."""
    order, place = _order(x, axis, descending, "sort")
    return Array.of(gather.take_along_axis(x.node, order, place)) if x.size else Array.of(x.node)


@array_function
def searchsorted(x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """For each value of x2 the place in the sorted vector x1 before (left) or behind (right) equal values."""
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', not {side!r}")
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted in an array of {x1.ndim} dimensions")
    a, b = pair(x1, x2, "numeric", "searchsorted")
    if sorter is not None:
        a = gather.take(a, take_index(sorter, "searchsorted"), 0)
    if x1.size == 0:
        return Array.of(
            UOp.const(0, dtypes.DEFAULT_INT).expand(x2.shape) if x2.ndim else UOp.const(0, dtypes.DEFAULT_INT)
        )
    values = b.unsqueeze(x2.ndim)
    ahead = (a < values) if side == "left" else (a <= values) | values.ne(values)
    return Array.of(ahead.cast(dtypes.DEFAULT_INT).sum(x2.ndim))


# indexing ---------------------------------------------------------------------------------------


def take_index(indices: Array, name: str) -> UOp:
    dtypes.require(indices.dtype, "integral", name)
    if indices.ndim != 1:
        raise ShapeError(f"{name} needs a vector of indices, not shape {indices.shape}")
    return indices.node


@array_function
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements along an axis at a vector of indices, negative ones counted from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take from {x.ndim} dimensions needs an axis")
        axis = 0
    place = axis_of(axis, x.ndim, "take")
    index = take_index(indices, "take")
    shape = (*x.shape[:place], indices.size, *x.shape[place + 1 :])
    if 0 in shape:
        return Array.of(UOp.const(0, x.dtype).expand(shape))
    if x.shape[place] == 0:
        raise IndexError("take from an axis of size 0")
    return Array.of(gather.take(x.node, index, place))


@array_function
def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """``out[..., k, ...] = x[..., indices[..., k, ...], ...]`` along an axis; the other axes broadcast."""
    dtypes.require(indices.dtype, "integral", "take_along_axis")
    if x.ndim != indices.ndim:
        raise ShapeError(f"take_along_axis of {x.ndim} dimensions by {indices.ndim}")
    place = axis_of(axis, x.ndim, "take_along_axis")
    if x.size == 0 or indices.size == 0:
        shape = tuple(
            i if a == place or s == 1 else s
            for a, (s, i) in enumerate(zip(x.shape, indices.shape, strict=True))
        )
        return Array.of(UOp.const(0, x.dtype).expand(shape))
    return Array.of(gather.take_along_axis(x.node, indices.node, place))


__all__ = ["argmax", "argmin", "argsort", "searchsorted", "sort", "take", "take_along_axis", "where"]
