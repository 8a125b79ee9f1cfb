"""Manipulation and data type functions of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rangeify.array_api import dtypes
from rangeify.array_api.array import Array
from rangeify.array_api.dtypes import FloatInfo, IntInfo
from rangeify.errors import ArgumentError, ShapeError, UnsupportedError
from rangeify.signatures import checked
from uopgraph import DType
from uopgraph.builders import broadcast_shape
from uopgraph.errors import BroadcastError


def axis_of(axis: int, ndim: int, function: str) -> int:
    """An axis counted from the start. Raises IndexError-like :class:`ShapeError` when there is none."""
    if not -ndim <= axis < ndim:
        raise AxisError(f"{function}: axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have."""


def axes_of(axis: int | Sequence[int] | None, ndim: int, function: str) -> tuple[int, ...]:
    """Distinct axes in order; all for None."""
    listed = range(ndim) if axis is None else tuple(axis) if isinstance(axis, Sequence) else (axis,)
    found = [axis_of(a, ndim, function) for a in listed]
    if len(set(found)) != len(found):
        raise ShapeError(f"{function}: axis named twice in {tuple(listed)}")
    return tuple(sorted(found))


# data types -------------------------------------------------------------------------------------


@checked
def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Array:
    """x in another dtype; `copy` makes no difference that can be observed."""
    target = dtypes.as_dtype(dtype, "astype")
    out = Array.of(x.node.cast(target))
    return out if device is None else out.to_device(device)


@checked
def can_cast(from_: DType | Array, to: DType, /) -> bool:
    """Whether promotion of the two dtypes gives `to`."""
    return dtypes.can_cast_dtype(from_.dtype if isinstance(from_, Array) else from_, to)


@checked
def finfo(type: DType | Array, /) -> FloatInfo:
    """Limits of a floating-point dtype."""
    return dtypes.float_limits(type.dtype if isinstance(type, Array) else type)


@checked
def iinfo(type: DType | Array, /) -> IntInfo:
    """Limits of an integer dtype."""
    return dtypes.int_limits(type.dtype if isinstance(type, Array) else type)


isdtype = checked(dtypes.isdtype)


@checked
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of an operation on arrays, dtypes and Python numbers (at least one of the first two)."""
    strong = [a.dtype if isinstance(a, Array) else a for a in arrays_and_dtypes if not dtypes.is_scalar(a)]
    if not strong or not all(isinstance(d, DType) for d in strong):
        raise ArgumentError("result_type needs an array or a dtype")
    found = dtypes.promote(*strong)
    for value in arrays_and_dtypes:
        if dtypes.is_scalar(value):
            dtypes.scalar(value, found)
    return found


# shapes -----------------------------------------------------------------------------------------


def _common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return broadcast_shape("broadcast", *shapes)
    except BroadcastError as e:
        raise ShapeError(str(e)) from None


@checked
def broadcast_arrays(*arrays: Array) -> list[Array]:
    """All arrays in their common shape."""
    shape = _common_shape([a.shape for a in arrays]) if arrays else ()
    return [broadcast_to(a, shape) for a in arrays]


@checked
def broadcast_to(x: Array, /, shape: Sequence[int]) -> Array:
    """x in a shape that it broadcasts to."""
    target = tuple(shape)
    if _common_shape([x.shape, target]) != target:
        raise ShapeError(f"shape {x.shape} does not broadcast to {target}")
    return Array.of(x.node.expand(target) if target else x.node)


@checked
def reshape(x: Array, /, shape: Sequence[int], *, copy: bool | None = None) -> Array:
    """The same elements in row-major order; one size may be -1."""
    return Array.of(x.node.reshape(tuple(shape)))


@checked
def expand_dims(x: Array, /, axis: int = 0) -> Array:
    """x with a new axis of size 1."""
    return Array.of(x.node.unsqueeze(axis_of(axis, x.ndim + 1, "expand_dims")))


@checked
def squeeze(x: Array, /, axis: int | Sequence[int]) -> Array:
    """x without axes of size 1."""
    dropped = axes_of(axis, x.ndim, "squeeze")
    if any(x.shape[a] != 1 for a in dropped):
        raise ShapeError(f"squeeze of axis {axis} of shape {x.shape}")
    return Array.of(x.node.reshape(tuple(s for i, s in enumerate(x.shape) if i not in dropped)))


@checked
def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """Axis i of the result is axis ``axes[i]`` of x."""
    order = [axis_of(a, x.ndim, "permute_dims") for a in axes]
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims: {tuple(axes)} is no permutation of {x.ndim} axes")
    return Array.of(x.node.permute(tuple(order)))


@checked
def moveaxis(x: Array, source: int | Sequence[int], destination: int | Sequence[int], /) -> Array:
    """Axes moved to other places; the others keep their order."""
    listed = [(a,) if isinstance(a, int) else tuple(a) for a in (source, destination)]
    origin, target = ([axis_of(a, x.ndim, "moveaxis") for a in axes] for axes in listed)
    if len(origin) != len(target) or len(set(origin)) != len(origin) or len(set(target)) != len(target):
        raise ShapeError(f"moveaxis from {source} to {destination}")
    order = [a for a in range(x.ndim) if a not in origin]
    for place, axis in sorted(zip(target, origin, strict=True)):
        order.insert(place, axis)
    return Array.of(x.node.permute(tuple(order)))


@checked
def flip(x: Array, /, *, axis: int | Sequence[int] | None = None) -> Array:
    """x reversed along axes (all by default)."""
    return Array.of(x.node.flip(axes_of(axis, x.ndim, "flip")))


@checked
def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis; flattened first for None."""
    if not arrays:
        raise ArgumentError("concat of nothing")
    dtype = dtypes.promote(*(a.dtype for a in arrays))
    nodes = [a.node.cast(dtype) for a in arrays]
    if axis is None:
        nodes, axis = [n.reshape(a.size) for n, a in zip(nodes, arrays, strict=True)], 0
    place = axis_of(axis, len(nodes[0].shape), "concat")
    filled = [n for n in nodes if n.shape[place] != 0] or nodes[:1]
    for n in nodes:
        if len(n.shape) != len(nodes[0].shape) or any(
            i != place and s != t for i, (s, t) in enumerate(zip(n.shape, nodes[0].shape, strict=True))
        ):
            raise ShapeError(f"concat of shapes {[tuple(m.shape) for m in nodes]} along axis {axis}")
    return Array.of(filled[0].cat(*filled[1:], dim=place))


@checked
def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of one shape joined along a new axis."""
    if not arrays:
        raise ArgumentError("stack of nothing")
    if len({a.shape for a in arrays}) > 1:
        raise ShapeError(f"stack of shapes {[a.shape for a in arrays]}")
    place = axis_of(axis, arrays[0].ndim + 1, "stack")
    return concat([Array.of(a.node.unsqueeze(place)) for a in arrays], axis=place)


@checked
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of x along an axis."""
    place = axis_of(axis, x.ndim, "unstack")
    lead = (slice(None),) * place
    return tuple(x[(*lead, i)] for i in range(x.shape[place]))


@checked
def roll(x: Array, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Array:
    """Elements moved along axes, those that leave come in at the other end; over the flat array for None."""
    if axis is None:
        if not isinstance(shift, int):
            raise ArgumentError("roll by several shifts needs as many axes")
        flat = Array.of(x.node.reshape(x.size))
        return Array.of(roll(flat, shift, axis=0).node.reshape(x.shape))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll by {len(shifts)} shifts along {len(axes)} axes")
    out = x
    for a, s in zip(axes, shifts, strict=True):
        place = axis_of(a, x.ndim, "roll")
        n = x.shape[place]
        if n == 0 or s % n == 0:
            continue
        lead = (slice(None),) * place
        at = n - s % n
        out = concat([out[(*lead, slice(at, n))], out[(*lead, slice(0, at))]], axis=place)
    return out


@checked
def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element several times; `repeats` is a number, or an array of numbers that is computed here."""
    if axis is None:
        x, axis = Array.of(x.node.reshape(x.size)), 0
    place = axis_of(axis, x.ndim, "repeat")
    n = x.shape[place]
    if isinstance(repeats, Array):
        dtypes.require(repeats.dtype, "integral", "repeat")
        counts = [int(c) for c in repeats.tensor.numpy().reshape(-1)]
        if len(counts) == 1:
            repeats = counts[0]
        elif len(counts) != n:
            raise ShapeError(f"{len(counts)} counts for an axis of {n}")
        else:
            return _repeat_each(x, counts, place)
    if not isinstance(repeats, int):
        raise UnsupportedError(f"repeat by {type(repeats).__name__}")
    if repeats < 0:
        raise ArgumentError(f"repeat {repeats} times")
    before, after = x.shape[:place], x.shape[place + 1 :]
    wide = x.node.reshape((*before, n, 1, *after)).expand((*before, n, repeats, *after))
    return Array.of(wide.reshape((*before, n * repeats, *after)))


def _repeat_each(x: Array, counts: Sequence[int], axis: int) -> Array:
    if any(c < 0 for c in counts):
        raise ArgumentError("repeat a negative number of times")
    lead = (slice(None),) * axis
    parts = [repeat(x[(*lead, slice(i, i + 1))], c, axis=axis) for i, c in enumerate(counts) if c] or [
        x[(*lead, slice(0, 0))]
    ]
    return concat(parts, axis=axis)


@checked
def tile(x: Array, repetitions: Sequence[int], /) -> Array:
    """x repeated as a whole along each axis."""
    times = tuple(repetitions)
    rank = max(x.ndim, len(times))
    shape = (1,) * (rank - x.ndim) + x.shape
    times = (1,) * (rank - len(times)) + times
    if any(t < 0 for t in times):
        raise ArgumentError(f"tile {times} times")
    node = x.node.reshape(tuple(v for s in shape for v in (1, s)))
    wide = node.expand(tuple(v for s, t in zip(shape, times, strict=True) for v in (t, s)))
    return Array.of(wide.reshape(tuple(s * t for s, t in zip(shape, times, strict=True))))


__all__ = [
    *(
        "astype",
        "broadcast_arrays",
        "broadcast_to",
        "can_cast",
        "concat",
        "expand_dims",
        "finfo",
        "flip",
        "iinfo",
    ),
    *("isdtype", "moveaxis", "permute_dims", "repeat", "reshape", "result_type", "roll", "squeeze", "stack"),
    *("tile", "unstack"),
]
