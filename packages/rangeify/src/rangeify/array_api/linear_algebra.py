"""Linear algebra: the functions of the namespace, and those of its ``linalg`` extension that need no
solver."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rangeify.array_api import dtypes
from rangeify.array_api.array import Array
from rangeify.array_api.elementwise import abs as magnitude
from rangeify.array_api.manipulation import axes_of, axis_of
from rangeify.errors import DTypeError, ShapeError
from rangeify.reduction import matmul as _matmul
from rangeify.signatures import checked
from uopgraph import DType, Ops, UOp


def _promoted(x1: Array, x2: Array, name: str) -> tuple[UOp, UOp, DType]:
    for x in (x1, x2):
        if not isinstance(x, Array):
            raise DTypeError(f"{name} needs arrays, not {type(x).__name__}")
        dtypes.require(x.dtype, "numeric", name)
    dtype = dtypes.promote(x1.dtype, x2.dtype)
    return x1.node.cast(dtype), x2.node.cast(dtype), dtype


@checked
def matmul(x1: Array, x2: Array, /) -> Array:
    """The product of stacks of matrices (or vectors), in the promoted dtype."""
    a, b, dtype = _promoted(x1, x2, "matmul")
    return Array.of(_matmul(a, b).cast(dtype))


@checked
def matrix_transpose(x: Array, /) -> Array:
    """The transposes of a stack of matrices."""
    return x.mT


@checked
def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """The sum of products over the last axes of x1 and the first of x2, or over named pairs of axes."""
    a, b, dtype = _promoted(x1, x2, "tensordot")
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ShapeError(f"tensordot over {axes} axes of shapes {x1.shape} and {x2.shape}")
        left, right = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        left = [axis_of(i, x1.ndim, "tensordot") for i in axes[0]]
        right = [axis_of(i, x2.ndim, "tensordot") for i in axes[1]]
    if len(left) != len(right) or [x1.shape[i] for i in left] != [x2.shape[i] for i in right]:
        raise ShapeError(f"tensordot of shapes {x1.shape} and {x2.shape} over {axes}")
    keep1 = [i for i in range(x1.ndim) if i not in left]
    keep2 = [i for i in range(x2.ndim) if i not in right]
    inner = math.prod(x1.shape[i] for i in left)
    rows, columns = math.prod(x1.shape[i] for i in keep1), math.prod(x2.shape[i] for i in keep2)
    shape = (*(x1.shape[i] for i in keep1), *(x2.shape[i] for i in keep2))
    p = a.permute((*keep1, *left)).reshape(rows, inner) if x1.ndim else a.reshape(1, 1)
    q = b.permute((*right, *keep2)).reshape(inner, columns) if x2.ndim else b.reshape(1, 1)
    return Array.of(_matmul(p, q).cast(dtype).reshape(shape))


@checked
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis (counted from the end); the other axes broadcast."""
    a, b, _ = _promoted(x1, x2, "vecdot")
    if not -min(x1.ndim, x2.ndim) <= axis <= -1:
        raise ShapeError(f"vecdot along axis {axis} of shapes {x1.shape} and {x2.shape}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(f"vecdot of {x1.shape[axis]} and {x2.shape[axis]} elements")
    product = a * b
    return Array.of(product.sum(len(product.shape) + axis))


# the extension ----------------------------------------------------------------------------------


@checked
def outer(x1: Array, x2: Array, /) -> Array:
    """All products of two vectors."""
    a, b, _ = _promoted(x1, x2, "outer")
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"outer of shapes {x1.shape} and {x2.shape}")
    return Array.of(a.reshape(x1.size, 1) * b.reshape(1, x2.size))


@checked
def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of a stack of matrices, by movement alone."""
    if x.ndim < 2:
        raise ShapeError(f"diagonal of {x.ndim} dimensions")
    *lead, rows, columns = x.shape
    top, left = max(-offset, 0), max(offset, 0)
    n = max(min(rows - top, columns - left), 0)
    if n == 0:
        return Array.of(UOp.const(0, x.dtype).expand((*lead, 0)))
    window = x.node[(..., slice(top, top + n), slice(left, left + n))]
    keep = [(0, 0)] * len(lead)
    skewed = window.reshape((*lead, n * n)).pad([*keep, (0, n)]).reshape((*lead, n, n + 1))
    return Array.of(skewed[..., 0])


@checked
def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """The sums of the diagonals of a stack of matrices."""
    dtypes.require(x.dtype, "numeric", "trace")
    target = dtypes.accumulator(x.dtype) if dtype is None else dtypes.as_dtype(dtype, "trace")
    line = diagonal(x, offset=offset).node.cast(target)
    return Array.of(line.sum(line.ndim - 1))


@checked
def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of three along an axis; the other axes broadcast."""
    a, b, _ = _promoted(x1, x2, "cross")
    shape = (a + b).shape
    if not -min(x1.ndim, x2.ndim) <= axis < max(x1.ndim, x2.ndim):
        raise ShapeError(f"cross along axis {axis} of shapes {x1.shape} and {x2.shape}")
    place = axis_of(axis, len(shape), "cross")
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError(f"cross of {x1.shape[axis]} and {x2.shape[axis]} components")
    lead = (slice(None),) * place
    p, q = ([n.expand(shape)[(*lead, slice(i, i + 1))] for i in range(3)] for n in (a, b))
    parts = [p[i] * q[j] + -(p[j] * q[i]) for i, j in ((1, 2), (2, 0), (0, 1))]
    return Array.of(parts[0].cat(*parts[1:], dim=place))


@checked
def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The norm of vectors along axes: 0 counts, infinities take extremes, else the sum of powers and its
    root."""
    dtypes.require(x.dtype, "real floating", "vector_norm")
    axes = axes_of(axis, x.ndim, "vector_norm")
    size = magnitude(x).node
    if ord in (math.inf, -math.inf):
        best = size if ord > 0 else -size
        found = best.max(axes, keepdims)
        return Array.of(found if ord > 0 else -found)
    if ord == 0:
        return Array.of(size.ne(UOp.const(0, x.dtype)).cast(x.dtype).sum(axes, keepdims))
    if ord == 1:
        return Array.of(size.sum(axes, keepdims))
    if ord == 2:
        return Array.of((size * size).sum(axes, keepdims).alu(Ops.SQRT))
    power = UOp.const(float(ord), x.dtype)
    total = size.alu(Ops.POW, power).sum(axes, keepdims)
    return Array.of(total.alu(Ops.POW, UOp.const(1.0 / float(ord), x.dtype)))


__all__ = [
    *(
        "cross",
        "diagonal",
        "matmul",
        "matrix_transpose",
        "outer",
        "tensordot",
        "trace",
        "vecdot",
        "vector_norm",
    ),
]
