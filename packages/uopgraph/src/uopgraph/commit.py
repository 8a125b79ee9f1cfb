"""Commitment of weak dtypes: a late pass after which every value has a width.

A constant without a width takes the dtype of the strong operand beside it, a stored value that of its target.
Index arithmetic is done in int32 where bounds show that every operand and result fits, else in int64. Shape
arguments stay weak: they describe storage, nothing computes them.
"""

from __future__ import annotations

from typing import Final

import attrs

from uopgraph.dtype import DType, dtypes, least_upper_dtype, strong_dtype
from uopgraph.errors import BoundError
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops

#: Sources from this position on are shape arguments.
_SHAPE_FROM: Final[dict[Ops, int]] = {
    **dict.fromkeys(GroupOp.Defines, 0),
    **dict.fromkeys(GroupOp.Movement, 1),
}


def commit(root: UOp) -> UOp:
    """`root` with a strong dtype for every value at or below it; what a CALL holds is left alone.

    Raises :class:`BoundError` for an integer constant that needs more than 64 bits.
    """
    new: dict[UOp, UOp] = {}
    for node in root.toposort(gate=lambda n: n.op is not Ops.CALL):
        new[node] = _committed(node, [new.get(s, s) for s in node.src])
    return new.get(root, root)


def width_of(node: UOp) -> DType:
    """The dtype in which a value of the weak integer is kept: int32 where its bounds fit, else int64."""
    return dtypes.int32 if not node.overflows(dtypes.int32) else dtypes.int64


def _committed(node: UOp, src: list[UOp]) -> UOp:
    start = _SHAPE_FROM.get(node.op)
    if start is not None:
        return _typed(node, [*src[:start], *node.src[start:]])
    match node.op:
        case Ops.CONST:
            return node  # whoever uses it knows its width
        case Ops.RANGE if node.dtype is dtypes.weakint:
            return UOp(Ops.RANGE, None, (_as(src[0], width_of(node.src[0])), *src[1:]), node.arg, node.tag)
        case Ops.STORE:
            return node.rebuild((src[0], _as(src[1], src[0].dtype), *src[2:]))
        case Ops.INDEX:
            return node.rebuild((src[0], *(_narrowed(i, node.src[0], k) for k, i in enumerate(src[1:]))))
        case Ops.CAST | Ops.BITCAST:
            return (
                _strong(src[0]).cast(node.dtype) if node.op is Ops.CAST else node.rebuild((_strong(src[0]),))
            )
        case op if op in GroupOp.Elementwise:
            return _operation(node, src)
        case _:
            return _typed(node, [_strong(s) for s in src])


def _typed(node: UOp, src: list[UOp]) -> UOp:
    """The node on committed sources; a weak PARAM becomes one of its width."""
    if node.op is Ops.PARAM and node.dtype.is_weak:
        dtype = width_of(node) if node.dtype is dtypes.weakint else strong_dtype(node.dtype)
        return UOp(Ops.PARAM, None, tuple(src), attrs.evolve(node.arg, dtype=dtype), node.tag)
    return node.rebuild(tuple(src))


def _strong(x: UOp) -> UOp:
    """A value that no strong partner gives a width."""
    if not x.dtype.is_weak:
        return x
    return _as(x, width_of(x) if x.dtype is dtypes.weakint else strong_dtype(x.dtype))


def _as(x: UOp, dtype: DType) -> UOp:
    """`x` in `dtype`; constants are built, not cast, Invalid and gates keep their form."""
    if x.is_invalid or x.dtype is dtype:
        return x
    if x.op is Ops.CONST:
        if x.dtype is dtypes.weakint and dtype.is_int and x.overflows(dtypes.int64) and x.overflows(dtype):
            raise BoundError(f"the constant {x.arg} needs more than 64 bits")
        return UOp.const(x.arg, dtype)
    if x.op is Ops.WHERE and x.src[2].is_invalid:
        return _as(x.src[1], dtype).valid(x.src[0])
    return x.cast(dtype)


def _operation(node: UOp, src: list[UOp]) -> UOp:
    """An element-wise operation on committed operands: one dtype for all that are not conditions."""
    first = 1 if node.op is Ops.WHERE else 0
    given = [s for s in node.src[first:] if not s.is_invalid]
    strong = [s.dtype for s in src[first:] if not s.dtype.is_weak and not s.is_invalid]
    weak = all(s.dtype.is_weak for s in given)
    if node.op in GroupOp.Shift:
        left = _strong(src[0])
        return _result(node, (left, _as(src[1], left.dtype) if src[1].dtype.is_weak else src[1]))
    if not given:
        return node.rebuild(tuple(src))
    if weak and all(s.dtype is dtypes.weakint for s in given) and not node.dtype.is_float:
        values = [*given, *([node] if node.dtype is dtypes.weakint else [])]
        common = dtypes.int32
        if any(width_of(v) is dtypes.int64 for v in values) or dtypes.int64 in strong:
            common = dtypes.int64
    else:
        common = strong_dtype(least_upper_dtype(*(s.dtype for s in given)))
    operands = [*src[:first], *(_as(s, common) for s in src[first:])]
    return _result(node, tuple(operands))


def _result(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """The operation, cast to the width of the weak value that it stands for."""
    out = UOp(node.op, None, src, node.arg, node.tag)
    if node.dtype is dtypes.weakint and out.dtype is not dtypes.bool:
        return _as(out, width_of(node))
    if node.dtype is dtypes.weakfloat or out.dtype is node.dtype or not out.dtype.is_weak:
        return out
    return _as(out, strong_dtype(node.dtype))


def _narrowed(index: UOp, base: UOp, axis: int) -> UOp:
    """An index; a gated one is in bounds where it is used, so that 32 bits are enough for fewer elements."""
    index = _strong(index)
    if index.dtype is not dtypes.int64 or index.op is not Ops.WHERE or not index.src[2].is_invalid:
        return index
    return _as(index, dtypes.int32) if base.max_shape[axis] < 2**31 else index


__all__ = ["commit", "width_of"]
