"""A write to a part of a value as a value: what the whole is afterwards, for all of its elements.

Where storage can be written in place, a write is a STORE to a view of it. Where the view cuts an axis that is
spread over several devices, each device would store another number of elements; there every device computes
all of its part, the old value where nothing was written.
"""

from __future__ import annotations

from rangeify.errors import UnsupportedError
from uopgraph import Ops, UOp


def _path(whole: UOp, view: UOp) -> list[UOp]:
    """The movement operations from `view` back to `whole`, the last one first."""
    path = []
    while view is not whole:
        path.append(view)
        view = view.src[0]
    return path


def cuts_shards(whole: UOp, view: UOp) -> bool:
    """Whether a view of a sharded value takes a part of the sharded axis, or reverses it."""
    for step in reversed(_path(whole, view)):
        before = step.src[0]
        axis = before.axis
        if axis is None:
            return False
        if step.op is Ops.SHRINK and step.marg[axis] != (0, before.shape[axis]):
            return True
        if step.op is Ops.FLIP and step.arg[axis]:
            return True
    return False


def _undone(step: UOp, value: UOp) -> UOp:
    """A value of the shape of a movement operation, moved back to where its elements came from."""
    before = step.src[0].shape
    match step.op:
        case Ops.RESHAPE:
            return value.reshape(before)
        case Ops.PERMUTE:
            return value.permute(tuple(sorted(range(len(before)), key=step.arg.__getitem__)))
        case Ops.FLIP:
            return value.movement(Ops.FLIP, step.arg)
        case Ops.SHRINK | Ops.PAD:
            back = Ops.PAD if step.op is Ops.SHRINK else Ops.SHRINK
            bounds = [(offset, size) for (offset, _), size in zip(step.marg, before, strict=True)]
            return value.movement(back, tuple(bounds))
    raise UnsupportedError(f"a write through {step.op.name}")


def overwritten(whole: UOp, view: UOp, value: UOp) -> UOp:
    """`whole` with `value`, of the shape of `view`, in the place of what `view` shows of it."""
    there = UOp.const(True).expand(view.shape) if view.shape else UOp.const(True)
    for step in _path(whole, view):
        value, there = _undone(step, value), _undone(step, there)
    return there.where(value, whole)
