"""Sorting functions of the standard.

Along a short axis every element is compared with every other: quadratic work in three kernels. A long one
goes through a network of comparisons (bitonic: log2(n) * (log2(n) + 1) / 2 steps of n/2 comparisons), so that
the work is n * log(n)**2 in many kernels. The order of the steps does not depend on data.
"""

from __future__ import annotations

import math
from typing import Final

from rangeify import gather
from rangeify.array_api import dtypes
from rangeify.array_api.array import Array
from rangeify.array_api.manipulation import axis_of
from rangeify.array_api.searching import along, count
from rangeify.signatures import checked
from uopgraph import UOp
from uopgraph import dtypes as _d

#: Axes of at most this length are compared as a whole.
SHORT: Final = 8192


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
    i, j = along(count(n), axis, x.ndim + 1), along(count(n), axis + 1, x.ndim + 1)
    before = (other < mine) | (other.eq(mine) & (j < i))
    return before.cast(dtypes.DEFAULT_INT).sum(axis + 1).contiguous()


def _network(key: UOp, axis: int) -> UOp:
    """The positions that sort `key` along an axis: pairs of (key, position) in a network of comparisons."""
    n = int(key.shape[axis])
    last = key.ndim - 1
    back = tuple(i for i in range(key.ndim) if i != axis)
    rows = key.permute((*back, axis)).reshape(int(key.numel()) // n, n)
    size = 1 << (n - 1).bit_length()
    rows = rows.pad([(0, 0), (0, size - n)])
    # what fills up is behind everything: among equal keys the later position is behind
    keys = (count(size) < UOp.const(n, dtypes.DEFAULT_INT)).where(rows, UOp.const(rows.dtype.max, rows.dtype))
    places = count(size).expand(rows.shape)
    for half in (1 << s for s in range(size.bit_length() - 1)):
        keys, places = _step(keys, places, half, mirrored=True)
        while half > 1:
            half //= 2
            keys, places = _step(keys, places, half, mirrored=False)
    order = places.shrink([(0, int(rows.shape[0])), (0, n)])
    shape = tuple(int(key.shape[i]) for i in back)
    inverse = tuple(last if i == axis else back.index(i) for i in range(key.ndim))
    return order.reshape((*shape, n)).permute(inverse)


def _step(keys: UOp, places: UOp, half: int, mirrored: bool) -> tuple[UOp, UOp]:
    """Compare elements `half` apart in blocks of twice that; `mirrored`: the first with the last of a
    block."""

    def cut(x: UOp) -> tuple[UOp, UOp]:
        blocks = x.reshape(int(x.shape[0]), int(x.shape[1]) // (2 * half), 2, half)
        low, high = (blocks[:, :, i] for i in (0, 1))
        return low, high.flip(2) if mirrored else high

    def join(low: UOp, high: UOp, like: UOp) -> UOp:
        turned = high.flip(2) if mirrored else high
        return low.unsqueeze(2).cat(turned.unsqueeze(2), dim=2).reshape(like.shape).contiguous()

    (a, b), (p, q) = cut(keys), cut(places)
    swap = (b < a) | (b.eq(a) & (q < p))
    new_keys = join(swap.where(b, a), swap.where(a, b), keys)
    return new_keys, join(swap.where(q, p), swap.where(p, q), places)


def _order(x: Array, axis: int, descending: bool, name: str) -> tuple[UOp, int]:
    dtypes.require(x.dtype, "numeric", name)
    place = axis_of(axis, x.ndim, name)
    n = x.shape[place]
    if x.size == 0:
        return UOp.const(0, dtypes.DEFAULT_INT).expand(x.shape), place
    if n > SHORT:
        return _network(_sort_key(x.node, descending), place), place
    ranks = _ranks(x.node, place, descending)
    wanted, source = along(count(n), place, x.ndim + 1), along(count(n), place + 1, x.ndim + 1)
    here = ranks.unsqueeze(place).eq(wanted)
    return here.where(source, UOp.const(0, dtypes.DEFAULT_INT)).sum(place + 1).contiguous(), place


@checked
def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions that sort x along an axis, always stably; nan is greater than everything."""
    return Array.of(_order(x, axis, descending, "argsort")[0])


@checked
def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """x sorted along an axis, always stably; nan is greater than everything."""
    order, place = _order(x, axis, descending, "sort")
    return Array.of(gather.take_along_axis(x.node, order, place)) if x.size else Array.of(x.node)


__all__ = ["argsort", "sort"]
