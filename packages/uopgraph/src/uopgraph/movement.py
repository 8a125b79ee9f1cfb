"""Movement operations as index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uopgraph.args import AxisType
from uopgraph.dtype import Invalid
from uopgraph.errors import ShapeError
from uopgraph.infer import movement_arg
from uopgraph.movement_sugar import product, same_size, sint
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops


def apply_movement_op(op: Ops, in_shape: Sequence[sint], arg: Any, indices: Sequence[UOp]) -> tuple[UOp, ...]:
    """The indices into the source of a movement operation from those into its result.

    `arg` is the decoded argument (:attr:`UOp.marg`). A padded place is an index that is Invalid outside the
    data. RESHAPE gives simplified indices; the others only add what they must.
    """
    match op:
        case Ops.SHRINK:
            return tuple(
                i if same_size(offset, 0) else _regated(i, i.get_idx() + offset)
                for i, (offset, _) in zip(indices, arg, strict=True)
            )
        case Ops.PERMUTE:
            source: list[UOp | None] = [None] * len(indices)
            for i, axis in zip(indices, arg, strict=True):
                source[axis] = i
            return tuple(i for i in source if i is not None)
        case Ops.FLIP:
            return tuple(
                i if not flipped else _regated(i, (i.get_idx() * -1) + (s - 1))
                for i, s, flipped in zip(indices, in_shape, arg, strict=True)
            )
        case Ops.EXPAND:
            return tuple(indices[len(arg) :])
        case Ops.PAD:
            return tuple(
                _padded(i, s, offset, size)
                for i, s, (offset, size) in zip(indices, in_shape, arg, strict=True)
            )
        case Ops.RESHAPE:
            return reshape_indices(in_shape, arg, indices)
        case _:
            raise ShapeError(op.name, "is not a movement operation")


def _regated(gated: UOp, index: UOp) -> UOp:
    """`index` under the validity of `gated`: gates stay outside the arithmetic, where they can be found."""
    return index.valid(gated.get_valid())


def _padded(i: UOp, size: sint, offset: sint, new: sint) -> UOp:
    if same_size(size, new):
        return i
    outer, i = i.get_valid(), i.get_idx()
    index = i if same_size(offset, 0) else i - offset
    low = UOp.const(True) if same_size(offset, 0) else (i < offset).logical_not()
    behind = i < size + offset
    inside = low & behind if not _is_true(low) else behind
    if isinstance(size, int) and isinstance(offset, int) and isinstance(new, int) and offset + size == new:
        inside = low
    return index.valid(inside if _is_true(outer) else outer & inside)


def _is_true(c: UOp) -> bool:
    return c.op is Ops.CONST and c.arg is True


def flat_index(indices: Sequence[UOp], shape: Sequence[sint]) -> UOp:
    """The row-major position of `indices` in `shape` (not simplified)."""
    terms: list[UOp] = []
    stride: sint = 1
    for i, s in zip(reversed(indices), reversed(shape), strict=True):
        if not same_size(s, 1):
            terms.append(i if same_size(stride, 1) else i * stride)
        stride = product([s, stride])
    if not terms:
        return UOp.const(0)
    terms.reverse()
    return terms[0].usum(*terms[1:])


def split_index(flat: UOp, shape: Sequence[sint]) -> tuple[UOp, ...]:
    """The indices in `shape` of the row-major position `flat` (not simplified)."""
    out: list[UOp] = []
    rest = flat
    for k, s in enumerate(reversed(shape)):
        if same_size(s, 1):
            out.append(UOp.const(0))
        elif k == len(shape) - 1 or all(same_size(d, 1) for d in shape[: len(shape) - 1 - k]):
            out.append(rest)
            rest = UOp.const(0)
        else:
            out.append(rest % s)
            rest = rest // s
    return tuple(reversed(out))


def reshape_indices(
    in_shape: Sequence[sint], out_shape: Sequence[sint], indices: Sequence[UOp]
) -> tuple[UOp, ...]:
    """Indices into `in_shape` from those into `out_shape`, simplified, validity kept outside the
    arithmetic."""
    from uopgraph.symbolic import simplify_index as simplify

    valids = [i.get_valid() for i in indices]
    plain = [i.get_idx() for i in indices]
    groups = _aligned(in_shape, out_shape)
    source: list[UOp] = []
    for ins, outs in groups:
        flat = flat_index([plain[o] for o in outs], [out_shape[o] for o in outs])
        source += split_index(flat, [in_shape[i] for i in ins])
    valid = UOp.const(True)
    for v in dict.fromkeys(valids):
        if not _is_true(v):
            valid = v if _is_true(valid) else valid & v
    return tuple(simplify(s.valid(valid)) for s in source)


def _aligned(in_shape: Sequence[sint], out_shape: Sequence[sint]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes on both sides with equal products: arithmetic does not need to cross them."""
    groups: list[tuple[list[int], list[int]]] = []
    ins: list[int] = []
    outs: list[int] = []
    i = o = 0
    a: sint = 1
    b: sint = 1
    while i < len(in_shape) or o < len(out_shape):
        if isinstance(a, int) and isinstance(b, int):
            take_in = i < len(in_shape) and (o >= len(out_shape) or a <= b)
        else:
            take_in = i < len(in_shape)
        if take_in:
            a = product([a, in_shape[i]])
            ins.append(i)
            i += 1
        else:
            b = product([b, out_shape[o]])
            outs.append(o)
            o += 1
        if same_size(a, b) and ins and outs:
            groups.append((ins, outs))
            ins, outs, a, b = [], [], 1, 1
    if ins or outs:
        if groups and not (ins and outs):
            groups[-1][0].extend(ins)
            groups[-1][1].extend(outs)
        else:
            groups.append((ins, outs))
    return groups


def push_index(node: UOp, indices: Sequence[UOp]) -> tuple[UOp, tuple[UOp, ...], UOp]:
    """Follow the movement operations under `node`: (the base, indices into the base, validity of the indices
    that an EXPAND dropped)."""
    found = tuple(indices)
    dropped = UOp.const(True)
    while node.op in GroupOp.Movement or node.op is Ops.DETACH:
        if node.op is Ops.EXPAND:
            for i in found[: len(movement_arg(node))]:
                v = i.get_valid()
                dropped = dropped if _is_true(v) else v if _is_true(dropped) else dropped & v
        if node.op is not Ops.DETACH:
            found = apply_movement_op(node.op, node.src[0].shape, movement_arg(node), found)
        node = node.src[0]
    return node, found, dropped


def contiguous_view(node: UOp) -> tuple[UOp, int] | None:
    """(storage, offset in storage elements) when `node` is one run of storage in order, else None.

    The flattened value is indexed with one range, pushed through every movement operation and simplified. A
    BITCAST rescales the offset by the ratio of item sizes. Only static shapes are looked at.
    """
    from uopgraph.symbolic import simplify_index as simplify

    size = node.numel()
    if not isinstance(size, int) or size == 0:
        return None
    at = node
    while True:
        count = at.numel()
        if not isinstance(count, int) or not all(isinstance(d, int) for d in at.shape):
            return None
        counter = UOp.range(count, 0, AxisType.PLACEHOLDER)
        base, indices, valid = push_index(at, split_index(counter, at.shape))
        if not all(isinstance(d, int) for d in base.shape):
            return None
        position = simplify(flat_index(indices, base.shape).valid(valid))
        start = _run(position, counter, count)
        if start is None:
            return None
        if base.op in GroupOp.Defines:
            return base, start
        if base.op is not Ops.BITCAST:
            return None
        # elements of the cast become elements of its source
        offset, remainder = divmod(start * base.dtype.itemsize, base.src[0].dtype.itemsize)
        last = count * base.dtype.itemsize
        if remainder or last % base.src[0].dtype.itemsize:
            return None
        n = last // base.src[0].dtype.itemsize
        at = base.src[0].reshape(base.src[0].numel()).movement(Ops.SHRINK, ((offset, n),))


def _run(position: UOp, counter: UOp, count: int) -> int | None:
    """The start of ``counter + start``, or None when the position is of another form."""
    if position.op is Ops.CONST:
        return int(position.arg) if count == 1 and position.arg is not Invalid else None
    rest, start = position.pop_const(Ops.ADD)
    return int(start) if rest is counter and not isinstance(start, type(Invalid)) else None
