"""Reading and writing at positions that are values: integer-array indexing without loops over data.

An element is picked by comparing its position with the wanted one and summing over all positions, on the bits
of the values, so that every bit pattern survives (-0.0 and nan too). All functions work on graph nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from rangeify.errors import IndexingError, ShapeError, UnsupportedError
from rangeify.reduction import arange
from uopgraph import DType, UOp, dtypes
from uopgraph.builders import broadcast_shape
from uopgraph.movement_sugar import shown

_BITS: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


def as_bits(x: UOp) -> UOp:
    """The values as unsigned integers of the same width; bools as 0 and 1."""
    if x.dtype is dtypes.bool:
        return x.cast(dtypes.uint8)
    return x.bitcast(_BITS[x.dtype.bitsize]) if x.dtype not in dtypes.uints else x


def from_bits(bits: UOp, dtype: DType) -> UOp:
    """The inverse of :func:`as_bits`."""
    return bits.ne(UOp.const(0, bits.dtype)) if dtype is dtypes.bool else bits.bitcast(dtype)


def pick(x: UOp, chosen: UOp, axes: Sequence[int]) -> UOp:
    """The one element of `x` along `axes` (dropped) at which `chosen` is true, 0 bits where none is."""
    bits = as_bits(x)
    found = chosen.where(bits, UOp.const(0, bits.dtype)).sum(tuple(axes))
    return from_bits(found, x.dtype)


def positions(n: int, dtype: DType) -> UOp:
    """0 ... n - 1 in an integer dtype that holds them."""
    return arange(n).cast(dtype)


def _wide(index: UOp, n: int) -> UOp:
    """An index of n places in a signed dtype that holds them, negative ones counted from the end."""
    signed = index.cast(
        dtypes.int64
        if index.dtype.bitsize >= 32 and index.dtype.is_unsigned
        else index.dtype
        if index.dtype in (dtypes.int32, dtypes.int64)
        else dtypes.int32
    )
    return (signed < UOp.const(0, signed.dtype)).where(signed + UOp.const(n, signed.dtype), signed)


def take(x: UOp, index: UOp, axis: int) -> UOp:
    """The elements of `x` along `axis` at a 1-d index: axis `axis` of the result has the length of
    `index`."""
    return _take_at(x, _wide(index, int(x.shape[axis])), axis)


def _take_at(x: UOp, at: UOp, axis: int) -> UOp:
    """:func:`take` at positions that are counted from the start; 0 bits where there is none."""
    n, count = int(x.shape[axis]), int(at.shape[0])
    moved = x.unsqueeze(axis)  # (..., 1, n, ...)
    tail = (1,) * (x.ndim - axis - 1)
    chosen = at.reshape(count, 1).eq(positions(n, at.dtype).reshape(1, n)).reshape((count, n, *tail))
    return pick(moved, chosen, (axis + 1,))


def take_along_axis(x: UOp, index: UOp, axis: int) -> UOp:
    """``out[..., k, ...] = x[..., index[..., k, ...], ...]``; the other axes broadcast."""
    n = int(x.shape[axis])
    at = _wide(index, n)
    tail = (1,) * (x.ndim - axis - 1)
    chosen = at.unsqueeze(axis + 1).eq(positions(n, at.dtype).reshape((n, *tail)))
    return pick(x.unsqueeze(axis), chosen, (axis + 1,))


def _flat(shape: Sequence[int], key: Sequence[UOp | int]) -> tuple[UOp, int]:
    """(the row-major position that the key names in the leading axes, -1 where one of its indices is beyond
    its axis; the number of positions there)."""
    lead = [int(s) for s in shape[: len(key)]]
    total = math.prod(lead)
    dtype = dtypes.int32 if total < 2**31 else dtypes.int64
    flat: UOp | None = None
    beyond: UOp | None = None
    for axis, (k, n) in enumerate(zip(key, lead, strict=True)):
        if isinstance(k, int):
            if not -n <= k < n:
                raise IndexingError(f"index {k} is out of range for axis {axis} of size {n}")
            part = UOp.const(k % n, dtype)
        else:
            at = _wide(k, n)
            part = at.cast(dtype)
            out = (at < UOp.const(0, at.dtype)) | (at < UOp.const(n, at.dtype)).ne(True)
            beyond = out if beyond is None else beyond | out
        flat = part if flat is None else flat * UOp.const(n, dtype) + part
    assert flat is not None
    return flat if beyond is None else beyond.where(UOp.const(-1, dtype), flat), total


def read(x: UOp, key: Sequence[UOp | int]) -> UOp:
    """``x[key]`` for a key of integers and integer arrays, which broadcast together; what lies beyond the
    sizes reads 0 bits."""
    flat, total = _flat([int(s) for s in x.shape], key)
    rest = tuple(int(s) for s in x.shape[len(key) :])
    lines = x.reshape((total, *rest))
    shape = tuple(int(s) for s in flat.shape)
    if 0 in shape or 0 in rest:
        return UOp.const(0, x.dtype).expand((*shape, *rest))
    if total == 0:
        raise IndexingError("an index into an axis of size 0")
    return _take_at(lines, flat.reshape(math.prod(shape)), 0).reshape((*shape, *rest))


def write(x: UOp, key: Sequence[UOp | int], value: UOp) -> UOp:
    """`x` after ``x[key] = value``: of several writes to one place the last in row-major order wins."""
    flat, total = _flat([int(s) for s in x.shape], key)
    rest = tuple(int(s) for s in x.shape[len(key) :])
    shape = tuple(int(s) for s in flat.shape)
    count = math.prod(shape)
    if value.dtype is not x.dtype:
        raise UnsupportedError(f"writing {value.dtype.name} into {x.dtype.name}")
    whole = value.expand((*shape, *rest)) if (*shape, *rest) else value
    if count == 0 or total == 0 or 0 in rest:
        return x
    if count >= 2**31:
        raise ShapeError("an index of 2**31 places or more")
    at = flat.reshape(1, count).expand(total, count)
    order = positions(count, dtypes.int32)
    place = positions(total, flat.dtype).reshape(total, 1)
    last = at.eq(place).where(order, UOp.const(-1, dtypes.int32)).max(1)
    lines = whole.reshape((count, *rest))
    new = take(lines, last.maximum(0), 0)
    there = (last < UOp.const(0, dtypes.int32)).reshape((total, *(1,) * len(rest)))
    return there.where(x.reshape((total, *rest)), new).reshape(x.shape)


@attrs.frozen
class ArrayKey:
    """An index with integer arrays: basic indexing first, then `arrays` pick along `axes` of what that gives.

    `place`: where the axes of the arrays stand in the result, as in NumPy: where the first array stood when
    all of them (and integers) stand side by side, else in front.
    """

    basic: tuple[Any, ...]
    axes: tuple[int, ...]
    arrays: tuple[UOp | int, ...]
    place: int

    def _order(self, ndim: int) -> tuple[int, ...]:
        return (*self.axes, *(a for a in range(ndim) if a not in self.axes))

    def _in_front(self, ndim: int, picked: int) -> tuple[int, ...]:
        """The permutation that brings the picked axes of the result to the front."""
        own = range(self.place, self.place + picked)
        return (*own, *(a for a in range(ndim) if a not in own))

    def read(self, view: UOp) -> UOp:
        """What the key picks from `view`, the result of its basic part."""
        _require_static(view)
        found = read(view.permute(self._order(view.ndim)), self.arrays)
        front = self._in_front(found.ndim, found.ndim - (view.ndim - len(self.axes)))
        return found.permute(_inverse(front))

    def write(self, view: UOp, value: UOp) -> UOp:
        """`view` after `value` was written where the key points."""
        _require_static(view)
        order = self._order(view.ndim)
        lines = view.permute(order)
        picked = len(broadcast_shape("index", *(k.shape for k in self.arrays if isinstance(k, UOp))))
        rest = view.ndim - len(self.axes)
        whole = value
        if value.ndim:
            whole = value.reshape((1,) * (picked + rest - value.ndim) + tuple(value.shape))
            whole = whole.permute(self._in_front(picked + rest, picked))
        return write(lines, self.arrays, whole).permute(_inverse(order))


def _require_static(view: UOp) -> None:
    if not all(isinstance(d, int) for d in view.shape):
        raise UnsupportedError(f"integer arrays as indices of the symbolic shape {shown(view.shape)}")


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def array_key(key: Any, ndim: int, node: Callable[[Any], UOp]) -> ArrayKey | None:
    """The parts of an index with integer arrays, None for a basic one; `node` makes a node of an array.

    Raises :class:`IndexingError` for too many indices and for what is no index, :class:`UnsupportedError` for
    a boolean mask.
    """
    items = [int(k) if isinstance(k, np.integer) else k for k in (key if isinstance(key, tuple) else (key,))]
    plain = (slice, type(None), type(Ellipsis), int, UOp)
    if all(isinstance(k, plain) and not isinstance(k, bool) for k in items):
        return None
    for k in items:
        if isinstance(k, bool | float | complex | str | bytes | dict):
            raise IndexingError(f"{k!r} is no index")
    used = sum(k is not None and k is not Ellipsis for k in items)
    if used > ndim:
        raise IndexingError(f"{used} indices for {ndim} dimensions")
    fill = [slice(None)] * (ndim - used)
    at = next((i for i, k in enumerate(items) if k is Ellipsis), len(items))
    items = [*items[:at], *fill, *items[at + 1 :]]
    picks = [i for i, k in enumerate(items) if k is not None and not isinstance(k, slice)]
    arrays = [int(k) if isinstance(k, int) else node(k) for k in (items[i] for i in picks)]
    for k in arrays:
        if isinstance(k, UOp) and not k.dtype.is_int:
            if k.dtype is dtypes.bool:
                raise UnsupportedError("reading by a boolean mask: the shape depends on data, use where")
            raise IndexingError(f"an index array of {k.dtype.name}")
    # an Ellipsis, None or slice between two arrays sends their axes to the front
    together = picks[-1] - picks[0] == len(picks) - 1 and not picks[0] < at < picks[-1] + (len(fill) == 0)
    basic = tuple(slice(None) if i in picks else k for i, k in enumerate(items))
    return ArrayKey(basic, tuple(picks), tuple(arrays), picks[0] if together else 0)


__all__ = [
    "ArrayKey",
    "array_key",
    "as_bits",
    "from_bits",
    "pick",
    "positions",
    "read",
    "take",
    "take_along_axis",
    "write",
]
