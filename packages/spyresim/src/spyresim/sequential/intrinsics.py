"""Intrinsics that see more than one element: moments over a reduction, lanes of a stick (ktir spec 2.5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ktir.dialects import spyreop
from spyresim.meaning.floats import maximum, minimum
from spyresim.meaning.formats import Array, FloatFormat, float_format
from spyresim.meaning.intrinsics import pack
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results

__all__ = ["INTRINSICS", "SLICE_LANES"]

INTRINSICS = Handlers()

SLICE_LANES = 8
"""Lanes of a slice of a stick; the sources do not fix it."""


@INTRINSICS.executes(spyreop.Exx2, spyreop.Exx2Fused, spyreop.Exx2ZeroMeanFused)
def moments(
    run: Interpreter, frame: Frame, op: spyreop.Exx2 | spyreop.Exx2Fused | spyreop.Exx2ZeroMeanFused
) -> Results:
    """Mean and mean of squares over the reduction loops around the operation; without any, of the element."""
    values = frame.array(op.value)
    if not run.reductions or not run.reductions[-1]:
        return run.elementwise(op, [values], frame)
    axes = tuple(1 + loop for loop in run.reductions[-1])
    number = float_format(op.value.type, run.machine.f16_format)
    wide = number.widen_double(values)
    with np.errstate(all="ignore"):
        mean = number.narrow(_mean(wide, axes))
        squares = number.narrow(_mean(wide * wide, axes))
    run.count(op, frame)
    run.work.vector(op, run.elements[-1], frame.tiles)
    match op:
        case spyreop.Exx2():
            return [mean, squares]
        case spyreop.Exx2ZeroMeanFused():
            return [pack(np.zeros_like(mean), squares)]
        case _:
            return [pack(mean, squares)]


def _mean(values: Array, axes: tuple[int, ...]) -> Array:
    """Added up in one order, however many tiles there are; the axes stay with extent 1."""
    rest = [axis for axis in range(values.ndim) if axis not in axes]
    line = np.ascontiguousarray(values.transpose(*rest, *axes))
    line = line.reshape(*(values.shape[axis] for axis in rest), -1)
    total = np.add.accumulate(line, axis=-1)[..., -1] / max(line.shape[-1], 1)
    return np.asarray(total.reshape([1 if axis in axes else n for axis, n in enumerate(values.shape)]))


_COMBINERS: dict[spyreop.ReductionKind, Callable[[Array, Array], Array]] = {
    spyreop.ReductionKind.ADD: np.add,
    spyreop.ReductionKind.SUB: np.subtract,
    spyreop.ReductionKind.MUL: np.multiply,
    spyreop.ReductionKind.MAX: maximum,
    spyreop.ReductionKind.MIN: minimum,
    spyreop.ReductionKind.ABS_MAX: maximum,
}


@INTRINSICS.executes(spyreop.SliceReduction)
def slice_reduction(run: Interpreter, frame: Frame, op: spyreop.SliceReduction) -> Results:
    """A left fold over the lanes of each slice into its first lane, or over the slices into the first one.

    Other lanes keep their values.
    """
    run.count(op, frame)
    values = frame.array(op.value)
    run.work.vector(op, values.shape[1], frame.tiles)
    number = float_format(op.value.type, run.machine.f16_format)
    lanes = values.reshape(len(values), -1, SLICE_LANES)
    inside = op.reduction_scope.scope is spyreop.ReductionScope.IN_SLICE
    folded = _fold(number, op.reduction_kind.kind, lanes if inside else lanes.transpose(0, 2, 1))
    out = lanes.copy()
    if inside:
        out[:, :, 0] = folded
    else:
        out[:, 0, :] = folded
    return [out.reshape(values.shape)]


def _fold(number: FloatFormat, kind: spyreop.ReductionKind, values: Array) -> Array:
    """Along the last axis, one rounding a step."""
    combine = _COMBINERS[kind]
    if kind is spyreop.ReductionKind.ABS_MAX:
        values = number.narrow(np.abs(number.widen(values)))
    total = values[..., 0]
    with np.errstate(all="ignore"):
        for lane in range(1, values.shape[-1]):
            total = number.narrow(np.asarray(combine(number.widen(total), number.widen(values[..., lane]))))
    return total
