"""Reductions of graph nodes with the accumulation rules of graph spec 4."""

from __future__ import annotations

import math

from rangeify.errors import ShapeError
from uopgraph import DType, Ops, UOp, dtypes, sum_acc_dtype
from uopgraph.movement_sugar import product


def reduce_sum(x: UOp, axes: tuple[int, ...], keepdims: bool, dtype: DType | None) -> UOp:
    """Sum in at least 32 bits; the result is `dtype`, else `x`'s own dtype for floats and the wide one for
    integers.
    """
    wide = sum_acc_dtype(x.dtype if dtype is None else dtype)
    total = x.cast(wide).sum(axes, keepdims)
    if dtype is not None:
        return total.cast(dtype)
    return total.cast(x.dtype) if x.dtype.is_float else total


def reduce_mean(x: UOp, axes: tuple[int, ...], keepdims: bool) -> UOp:
    """The sum over the number of elements in at least float32, rounded once to `x`'s dtype (integers:
    float32).
    """
    wide = sum_acc_dtype(x.dtype if x.dtype.is_float else dtypes.default_float)
    total, count = x.cast(wide).sum(axes, keepdims), product([x.shape[a] for a in axes])
    if isinstance(count, UOp):
        mean = total.alu(Ops.FDIV, count.cast(wide).expand(total.shape))
    else:
        mean = total / float(count) if count else total * math.nan
    return mean.cast(x.dtype) if x.dtype.is_float else mean


def matmul(a: UOp, b: UOp) -> UOp:
    """The product of stacks of matrices (or vectors), accumulated like :func:`reduce_sum`."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("matmul of a 0-d tensor")
    left = a.unsqueeze(0) if a.ndim == 1 else a
    right = b.unsqueeze(1) if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}")
    wide = sum_acc_dtype(a.dtype)
    product = left.unsqueeze(-1).cast(wide) * right.unsqueeze(-3).cast(wide)
    out = product.sum(-2).cast(a.dtype) if a.dtype.is_float else product.sum(-2)
    if a.ndim == 1:
        out = out.squeeze(-2)
    return out.squeeze(-1) if b.ndim == 1 else out


def arange(n: int) -> UOp:
    """0 ... n - 1 as int32: row o of a triangle of ones, summed. Scheduling finds the closed form.

    The triangle is made by movement alone: n zeros and n ones in a row, repeated, and read with one more
    column a row, so that each row is shifted by one.
    """
    if n <= 0:
        return UOp.const(0, dtypes.int32).expand((max(n, 0),))
    row = UOp.const(1, dtypes.int32).expand((n,)).pad(((n, 0),))
    flat = row.reshape(1, 2 * n).expand(n + 1, 2 * n).reshape(2 * n * (n + 1)).shrink(((0, n * (2 * n + 1)),))
    return flat.reshape(n, 2 * n + 1).shrink(((0, n), (0, n))).sum(0)
