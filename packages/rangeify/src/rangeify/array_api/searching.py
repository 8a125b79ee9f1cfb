"""Searching and indexing functions of the standard."""

from __future__ import annotations

from typing import Any, Final

from rangeify import gather
from rangeify.array_api import dtypes
from rangeify.array_api.array import Array, pair
from rangeify.array_api.creation import counter
from rangeify.array_api.manipulation import axis_of
from rangeify.errors import ArgumentError, IndexingError, ShapeError
from rangeify.signatures import checked
from uopgraph import Ops, UOp

#: A sorted vector of at most this length is compared as a whole.
SHORT: Final = 512


def count(n: int) -> UOp:
    """0 ... n - 1."""
    return counter(n, dtypes.DEFAULT_INT)


def along(vector: UOp, axis: int, ndim: int) -> UOp:
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
        raise ArgumentError(f"{name} over an axis of size 0")
    if least:
        node = -node if node.dtype.is_float else ~node
    best = node.max(place, keepdim=True)
    hit = node.eq(best) | (node.ne(node) & best.ne(best))
    backwards = along(
        count(n) * UOp.const(-1, dtypes.DEFAULT_INT) + UOp.const(n - 1, dtypes.DEFAULT_INT), place, node.ndim
    )
    last = hit.where(backwards, UOp.const(-1, dtypes.DEFAULT_INT)).max(place)
    found = UOp.const(n - 1, dtypes.DEFAULT_INT) + -last
    if not keepdims:
        return Array.of(found)
    kept = (1,) * x.ndim if axis is None else tuple(1 if i == place else s for i, s in enumerate(x.shape))
    return Array.of(found.reshape(kept))


@checked
def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first position of the greatest value, or of the first nan; in the flat array for None."""
    return _first(x, axis, keepdims, least=False, name="argmax")


@checked
def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first position of the least value, or of the first nan; in the flat array for None."""
    return _first(x, axis, keepdims, least=True, name="argmin")


@checked
def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition is true, else x2."""
    dtypes.require(condition.dtype, "bool", "where")
    a, b = pair(x1, x2, "numeric or bool", "where")
    return Array.of(condition.node.alu(Ops.WHERE, a, b))


# places in a sorted vector --------------------------------------------------------------------


@checked
def searchsorted(x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """For each value of x2 the place in the sorted vector x1 before (left) or behind (right) equal values."""
    if side not in ("left", "right"):
        raise ArgumentError(f"side must be 'left' or 'right', not {side!r}")
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted in an array of {x1.ndim} dimensions")
    a, b = pair(x1, x2, "numeric", "searchsorted")
    if sorter is not None:
        a = gather.take(a, take_index(sorter, "searchsorted"), 0)
    if x1.size == 0:
        return Array.of(
            UOp.const(0, dtypes.DEFAULT_INT).expand(x2.shape) if x2.ndim else UOp.const(0, dtypes.DEFAULT_INT)
        )
    if x1.size > SHORT:
        return Array.of(_bisected(a, b, side))
    values = b.unsqueeze(x2.ndim)
    return Array.of(_ahead(a, values, side).cast(dtypes.DEFAULT_INT).sum(x2.ndim))


def _ahead(a: UOp, values: UOp, side: str) -> UOp:
    """Whether elements of a sorted vector stand before the place of a value; nan is behind all others."""
    undefined = values.ne(values)
    return (a < values) | (undefined & a.eq(a)) if side == "left" else (a <= values) | undefined


def _bisected(a: UOp, b: UOp, side: str) -> UOp:
    """How many values of the sorted vector `a` lie ahead of each of `b`, found bit by bit."""
    n = int(a.shape[0])
    values = b.reshape(int(b.numel()))
    found = UOp.const(0, dtypes.DEFAULT_INT).expand(values.shape)
    for bit in reversed(range(n.bit_length())):
        more = found + UOp.const(1 << bit, dtypes.DEFAULT_INT)
        last = more + UOp.const(-1, dtypes.DEFAULT_INT)
        at = gather.take(a, last, 0)
        inside = last < UOp.const(n, dtypes.DEFAULT_INT)
        found = (inside & _ahead(at, values, side)).where(more, found).contiguous()
    return found.reshape(b.shape)


# indexing ---------------------------------------------------------------------------------------


def take_index(indices: Array, name: str) -> UOp:
    dtypes.require(indices.dtype, "integral", name)
    if indices.ndim != 1:
        raise ShapeError(f"{name} needs a vector of indices, not shape {indices.shape}")
    return indices.node


@checked
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements along an axis at a vector of indices, negative ones counted from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ArgumentError(f"take from {x.ndim} dimensions needs an axis")
        axis = 0
    place = axis_of(axis, x.ndim, "take")
    index = take_index(indices, "take")
    shape = (*x.shape[:place], indices.size, *x.shape[place + 1 :])
    if 0 in shape:
        return Array.of(UOp.const(0, x.dtype).expand(shape))
    if x.shape[place] == 0:
        raise IndexingError("take from an axis of size 0")
    return Array.of(gather.take(x.node, index, place))


@checked
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


__all__ = ["argmax", "argmin", "searchsorted", "take", "take_along_axis", "where"]
