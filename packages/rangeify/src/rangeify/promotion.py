"""Type promotion of Tensor operands (graph spec 4, reading 35)."""

from __future__ import annotations

from rangeify.errors import PromotionError
from uopgraph import DType, Ops, UOp, least_upper_dtype, strong_dtype


def common_dtype(*nodes: UOp) -> DType:
    """The dtype in which an operation on `nodes` is done.

    Weak operands (Python numbers) follow the strong ones. A weak result beside a strong operand is committed:
    an int8 tensor plus 0.5 is a float32 tensor. Two strong operands without a common strong dtype
    raise :class:`PromotionError`.
    """
    strong = {n.dtype for n in nodes if not n.dtype.is_weak}
    target = least_upper_dtype(*(n.dtype for n in nodes))
    if not target.is_weak or not strong:
        return target
    if least_upper_dtype(*strong).is_weak:
        names = tuple(sorted(d.name for d in strong))
        raise PromotionError(f"no common dtype of {' and '.join(names)}: cast one of them", names)
    return strong_dtype(target)


def convert(node: UOp, dtype: DType) -> UOp:
    """`node` as `dtype`; a constant becomes the constant of that dtype."""
    if node.op is Ops.CONST:
        return UOp.const(node.arg, dtype)
    return node.cast(dtype)


def promote(*nodes: UOp) -> tuple[UOp, ...]:
    """The nodes converted to their common dtype."""
    dtype = nodes[0].dtype
    for n in nodes:
        if n.dtype is not dtype:
            dtype = common_dtype(*nodes)
            break
    return tuple([n if n.dtype is dtype else convert(n, dtype) for n in nodes])
