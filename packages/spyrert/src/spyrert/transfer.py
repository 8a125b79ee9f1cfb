"""From layouts to transfers: where every element of a host array lies on the device (runtime spec 3.4.5).

A transfer is a list of loop nests. A stick layout gives one nest for the full sticks and, where a dimension
is not a whole number of sticks, one for the remainder. Views that no short list of nests describes go through
staging.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from spyrert.device.protocol import Nest
from spyrert.elements import element_offsets
from spyrert.spyrecode.layout import Layout, LinearLayout, StickLayout, contiguous_strides, item_bytes


@attrs.frozen
class _Loop:
    size: int
    host: int
    device: int


def nests(layout: Layout, shape: Sequence[int], strides: Sequence[int] | None = None) -> tuple[Nest, ...]:
    """Loop nests that move a dense host array of ``shape`` to the device.

    ``strides`` are the host array's strides in elements (default: contiguous); they may be negative or zero.
    Source is the host, destination the device; see :func:`reverse`.

    >>> for nest in nests(StickLayout.default((37, 130), "float16"), (37, 130)):
    ...     print(nest.sizes, nest.src_strides, nest.dst_strides, nest.src_offset, nest.dst_offset)
    (2, 37, 64) (64, 130, 1) (2368, 64, 1) 0 0
    (37, 2) (130, 1) (64, 1) 128 4736
    """
    shape = tuple(shape)
    packed = contiguous_strides(shape)
    strides = packed if strides is None else tuple(strides)
    if isinstance(layout, LinearLayout):
        if not shape:
            return (Nest((1,), (1,), (1,)),)
        return (Nest(shape, strides, packed),) if math.prod(shape) else ()
    return _stick_nests(layout, shape, packed, strides)


def _stick_nests(
    layout: StickLayout, shape: tuple[int, ...], packed: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[Nest, ...]:
    if 0 in shape:
        return ()
    width = item_bytes(layout.device_dtype)
    device = [s // width for s in layout.strides_bytes]
    order = sorted(range(len(device)), key=lambda j: -device[j])
    # Device dimensions that walk one host axis: the outer one counts blocks of the inner one.
    owner = {
        j: _axis(layout.stride_map[j], packed, shape)
        for j in order
        if layout.stride_map[j] > 0 and layout.device_size[j] > 1
    }
    inner_size = {
        j: layout.stride_map[j] // packed[axis] for j, axis in owner.items()
    }  # elements of the host axis that one step of j passes
    choices: list[list[dict[int, tuple[int, int]]]] = []
    for axis in sorted(set(owner.values())):
        dims = sorted((j for j in owner if owner[j] == axis), key=lambda j: -inner_size[j])
        choices.append(_cover(shape[axis], [(j, inner_size[j], layout.device_size[j]) for j in dims]))
    result = []
    for parts in itertools.product(*choices):
        ranges = {j: span for part in parts for j, span in part.items()}
        loops, src, dst = [], 0, 0
        for j in order:
            if j not in ranges:
                continue
            start, count = ranges[j]
            step = strides[owner[j]] * inner_size[j]
            src += start * step
            dst += start * device[j]
            if count > 1:
                loops.append(_Loop(count, step, device[j]))
        loops = loops or [_Loop(1, 1, 1)]
        result.append(
            Nest(
                tuple(loop.size for loop in loops),
                tuple(loop.host for loop in loops),
                tuple(loop.device for loop in loops),
                src,
                dst,
            )
        )
    return tuple(result)


def _axis(stride: int, packed: Sequence[int], shape: Sequence[int]) -> int:
    """Host axis that a device dimension of this host stride walks: the outermost whose stride divides into
    it."""
    for axis, (step, size) in enumerate(zip(packed, shape, strict=True)):
        if size > 1 and stride >= step:
            return axis
    return len(shape) - 1


def _cover(size: int, dims: list[tuple[int, int, int]]) -> list[dict[int, tuple[int, int]]]:
    """Cut ``0..size`` into boxes over nested dimensions (dim, elements per step, extent), outermost first.

    Each box maps a dimension to (start, count).
    """
    if not dims:
        return [{}]
    dim, step, extent = dims[0]
    if len(dims) == 1:
        return [{dim: (0, min(extent, size))}]
    full, rest = divmod(size, step)
    boxes = []
    if full:
        boxes += [{dim: (0, full)} | inner for inner in _cover(step, dims[1:])]
    if rest:
        boxes += [{dim: (full, 1)} | inner for inner in _cover(rest, dims[1:])]
    return boxes


def reverse(nest: Nest) -> Nest:
    """The nest of the opposite direction."""
    return Nest(nest.sizes, nest.dst_strides, nest.src_strides, nest.dst_offset, nest.src_offset)


def view_nests(
    layout: Layout, shape: Sequence[int], strides: Sequence[int], offset: int = 0
) -> tuple[Nest, ...]:
    """Loop nests that move a contiguous host array into a view of a device tensor.

    ``strides`` and ``offset`` (elements) place the view in the host shape that ``layout`` was made for. Works
    for every view without overlap; the number of nests grows with its irregularity.
    """
    shape = tuple(shape)
    count = math.prod(shape)
    if count == 0:
        return ()
    device = element_offsets(layout, shape, strides, offset).reshape(shape)
    return pair_nests(np.arange(count).reshape(shape), device)


def pair_nests(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> tuple[Nest, ...]:
    """Loop nests that move element ``source[i]`` to ``target[i]`` for every index ``i`` of two arrays of
    offsets.

    The arrays are cut into boxes in which both are affine.

    >>> pair_nests(np.arange(6).reshape(2, 3), np.array([[0, 1, 8], [2, 3, 10]]))[0].sizes
    (2, 2)
    """
    result: list[Nest] = []
    _factor(source, target, result)
    return tuple(result)


def _factor(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any], out: list[Nest]) -> None:
    for axis in range(target.ndim - 1, -1, -1):
        size = target.shape[axis]
        if size < 2:
            continue
        uneven = np.zeros(size - 1, np.bool_)
        for offsets in (source, target):
            steps = np.moveaxis(np.diff(offsets, axis=axis), axis, -1)
            uneven |= (steps != steps.flat[0]).reshape(-1, size - 1).any(axis=0)
        if not uneven.any():
            continue
        block = int(uneven.argmax()) + 1  # elements in front of the first step that differs
        whole = size // block
        front = (slice(None),) * axis
        if whole == 1 or block == 1:
            whole = 1
            head = (*front, slice(0, block))
            _factor(source[head], target[head], out)
        else:
            head = (*front, slice(0, whole * block))
            shape = (*target.shape[:axis], whole, block, *target.shape[axis + 1 :])
            _factor(source[head].reshape(shape), target[head].reshape(shape), out)
        if whole * block < size:
            tail = (*front, slice(whole * block, size))
            _factor(source[tail], target[tail], out)
        return
    start, end = int(source.flat[0]), int(target.flat[0])
    loops = []
    for axis, size in enumerate(target.shape):
        if size > 1:
            there = tuple(int(k == axis) for k in range(target.ndim))
            loops.append(_Loop(size, int(source[there]) - start, int(target[there]) - end))
    loops = sorted(loops, key=lambda loop: -abs(loop.device)) or [_Loop(1, 1, 1)]
    out.append(
        Nest(
            tuple(loop.size for loop in loops),
            tuple(loop.host for loop in loops),
            tuple(loop.device for loop in loops),
            start,
            end,
        )
    )
