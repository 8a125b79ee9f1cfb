"""Reductions, cumulative functions and differences of the standard."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from rangeify.array_api import dtypes
from rangeify.array_api.array import Array
from rangeify.array_api.creation import counter
from rangeify.array_api.manipulation import axes_of, axis_of, concat
from rangeify.errors import ArgumentError, ShapeError
from rangeify.signatures import checked
from uopgraph import DType, Ops, UOp
from uopgraph import dtypes as _d

Axes: TypeAlias = "int | tuple[int, ...] | None"

#: The greatest extent over which a cumulative function compares every place with every other.
_BLOCK: Final = 256


def _numeric(x: Array, kind: str, name: str) -> UOp:
    dtypes.require(x.dtype, kind, name)
    return x.node


def _accumulated(x: Array, dtype: DType | None, name: str) -> tuple[UOp, DType]:
    """The operand of a sum or product in the dtype of its result."""
    node = _numeric(x, "numeric", name)
    target = dtypes.accumulator(x.dtype) if dtype is None else dtypes.as_dtype(dtype, name)
    return node.cast(target), target


@checked
def sum(x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The sum; integers of less than the default width in the default width."""
    node, _ = _accumulated(x, dtype, "sum")
    return Array.of(node.sum(axes_of(axis, x.ndim, "sum"), keepdims))


@checked
def prod(x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The product; integers of less than the default width in the default width."""
    node, _ = _accumulated(x, dtype, "prod")
    return Array.of(node.prod(axes_of(axis, x.ndim, "prod"), keepdims))


def _extreme(x: Array, axis: Axes, keepdims: bool, name: str) -> tuple[UOp, tuple[int, ...]]:
    node = _numeric(x, "numeric", name)
    axes = axes_of(axis, x.ndim, name)
    if 0 in [x.shape[a] for a in axes]:
        raise ArgumentError(f"{name} over an axis of size 0")
    return node, axes


@checked
def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The greatest value; nan where one is nan."""
    node, axes = _extreme(x, axis, keepdims, "max")
    return Array.of(node.max(axes, keepdims))


@checked
def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The least value; nan where one is nan."""
    node, axes = _extreme(x, axis, keepdims, "min")
    if node.dtype.is_float:
        return Array.of(-((-node).max(axes, keepdims)))
    return Array.of(~((~node).max(axes, keepdims)))


def _divided(total: UOp, count: float) -> UOp:
    return total.alu(Ops.FDIV, UOp.const(count, total.dtype))


def _mean(node: UOp, axes: tuple[int, ...], keepdims: bool) -> UOp:
    return _divided(node.sum(axes, keepdims), float(math.prod(int(node.shape[a]) for a in axes)))


@checked
def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum divided by the number of elements."""
    node = _numeric(x, "real floating", "mean")
    return Array.of(_mean(node, axes_of(axis, x.ndim, "mean"), keepdims))


@checked
def var(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The mean square distance from the mean; `correction` is taken from the number of elements."""
    return Array.of(_variance(x, axis, correction, keepdims, "var"))


@checked
def std(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of the variance."""
    return Array.of(_variance(x, axis, correction, keepdims, "std").alu(Ops.SQRT))


def _variance(x: Array, axis: Axes, correction: float, keepdims: bool, name: str) -> UOp:
    node = _numeric(x, "real floating", name)
    axes = axes_of(axis, x.ndim, name)
    centred = node + -_mean(node, axes, True)
    count = math.prod(x.shape[a] for a in axes) - correction
    return _divided((centred * centred).sum(axes, keepdims), builtins.max(float(count), 0.0))


# truth ------------------------------------------------------------------------------------------


def _truth(x: Array) -> UOp:
    return x.node if x.dtype is _d.bool else x.node.ne(UOp.const(0, x.dtype))


@checked
def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether one element is true (not 0)."""
    return Array.of(_some(_truth(x), axes_of(axis, x.ndim, "any"), keepdims))


@checked
def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether every element is true (not 0)."""
    return Array.of(_some(_truth(x).logical_not(), axes_of(axis, x.ndim, "all"), keepdims).logical_not())


def _some(truth: UOp, axes: tuple[int, ...], keepdims: bool) -> UOp:
    return truth.cast(_d.uint8).max(axes, keepdims).ne(UOp.const(0, _d.uint8))


@checked
def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """How many elements are not 0."""
    axes = axes_of(axis, x.ndim, "count_nonzero")
    return Array.of(_truth(x).cast(dtypes.DEFAULT_INT).sum(axes, keepdims))


# cumulative -------------------------------------------------------------------------------------


def _reduced(op: Ops, x: UOp, axis: int) -> UOp:
    return x.sum(axis) if op is Ops.ADD else x.prod(axis)


def _identity(op: Ops, dtype: DType) -> UOp:
    return UOp.const(0 if op is Ops.ADD else 1, dtype)


def _triangle(x: UOp, op: Ops) -> UOp:
    """The inclusive scan over the last axis: place i combines all places up to i."""
    n = int(x.shape[-1])
    place = counter(n, _d.int32)
    after = place.reshape(n, 1) < place.reshape(1, n)
    lines = x.unsqueeze(x.ndim - 1)
    return _reduced(op, after.where(_identity(op, x.dtype), lines), x.ndim)


def _scan(x: UOp, op: Ops) -> UOp:
    """The inclusive scan over the last axis, in blocks where it is long."""
    n = int(x.shape[-1])
    if n <= _BLOCK:
        return _triangle(x, op)
    lead = x.shape[:-1]
    blocks = -(-n // _BLOCK)
    filler = [(0, 0)] * len(lead) + [(0, blocks * _BLOCK - n)]
    padded = x.pad(filler, _identity(op, x.dtype).arg).reshape((*lead, blocks, _BLOCK))
    inner = _triangle(padded, op).contiguous()
    totals = inner[..., _BLOCK - 1]
    carried = _scan(totals, op)[..., : blocks - 1].pad(
        [(0, 0)] * len(lead) + [(1, 0)], _identity(op, x.dtype).arg
    )
    whole = inner.alu(op, carried.unsqueeze(carried.ndim))
    return whole.reshape((*lead, blocks * _BLOCK))[..., :n]


def _cumulative(
    x: Array, axis: int | None, dtype: DType | None, include_initial: bool, op: Ops, name: str
) -> Array:
    if axis is None:
        if x.ndim != 1:
            raise ArgumentError(f"{name} of {x.ndim} dimensions needs an axis")
        axis = 0
    node, target = _accumulated(x, dtype, name)
    place = axis_of(axis, x.ndim, name)
    out = node
    if x.size:
        out = _scan(node.transpose(place, -1), op).transpose(place, -1)
    if not include_initial:
        return Array.of(out)
    first = _identity(op, target).expand(tuple(1 if i == place else s for i, s in enumerate(x.shape)))
    return concat([Array.of(first), Array.of(out)], axis=place)


@checked
def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """The sums of all elements up to each place; with a leading 0 if asked for."""
    return _cumulative(x, axis, dtype, include_initial, Ops.ADD, "cumulative_sum")


@checked
def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """The products of all elements up to each place; with a leading 1 if asked for."""
    return _cumulative(x, axis, dtype, include_initial, Ops.MUL, "cumulative_prod")


@checked
def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    """The differences of neighbours along an axis, `n` times."""
    _numeric(x, "numeric", "diff")
    place = axis_of(axis, x.ndim, "diff")
    if n < 0:
        raise ArgumentError(f"diff {n} times")
    if n == 0:
        return Array.of(x.node)
    ends: Sequence[Any] = [e for e in (prepend, x, append) if e is not None]
    out = concat(list(ends), axis=place) if len(ends) > 1 else x
    lead = (slice(None),) * place
    for _ in range(n):
        if out.shape[place] < 1:
            raise ShapeError(f"diff {n} times of an axis of {x.shape[place]}")
        out = out[(*lead, slice(1, None))] - out[(*lead, slice(0, out.shape[place] - 1))]
    return out


__all__ = [
    *(
        "all",
        "any",
        "count_nonzero",
        "cumulative_prod",
        "cumulative_sum",
        "diff",
        "max",
        "mean",
        "min",
        "prod",
    ),
    *("std", "sum", "var"),
]
