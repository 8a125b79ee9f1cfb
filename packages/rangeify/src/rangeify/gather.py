"""Reading and writing at positions that are values: integer-array indexing without loops over data.

An element is picked by comparing its position with the wanted one and summing over all positions, on the bits
of the values, so that every bit pattern survives (-0.0 and nan too). All functions work on graph nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rangeify.errors import ShapeError, UnsupportedError
from rangeify.reduction import arange
from uopgraph import DType, UOp, dtypes

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
    n = int(x.shape[axis])
    at = _wide(index, n)
    count = int(index.shape[0])
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
    """(the row-major position that the key names in the leading axes, the number of positions there)."""
    lead = [int(s) for s in shape[: len(key)]]
    total = math.prod(lead)
    dtype = dtypes.int32 if total < 2**31 else dtypes.int64
    flat: UOp | None = None
    for axis, (k, n) in enumerate(zip(key, lead, strict=True)):
        if isinstance(k, int):
            if not -n <= k < n:
                raise IndexError(f"index {k} is out of range for axis {axis} of size {n}")
            part = UOp.const(k % n, dtype)
        else:
            part = _wide(k, n).cast(dtype)
        flat = part if flat is None else flat * UOp.const(n, dtype) + part
    assert flat is not None
    return flat, total


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
        raise IndexError("an index into an axis of size 0")
    return take(lines, flat.reshape(math.prod(shape)), 0).reshape((*shape, *rest))


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


__all__ = ["as_bits", "from_bits", "pick", "positions", "read", "take", "take_along_axis", "write"]
