"""The dtype of an operation from its sources."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from uopgraph.args import ParamArg
from uopgraph.dtype import DType, dtypes, least_upper_dtype, least_upper_float
from uopgraph.errors import ArityError, DTypeError, UnsupportedError
from uopgraph.ops import ARITY, GroupOp, Ops

if TYPE_CHECKING:
    from uopgraph.node import UOp

FIRST: Final = (
    GroupOp.Movement
    | GroupOp.Shift
    | GroupOp.Rounding
    | {Ops.NEG, Ops.RANGE, Ops.AFTER, Ops.INDEX, Ops.LOAD, Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD}
    | {Ops.DETACH, Ops.STAGE, Ops.COPY, Ops.MSELECT, Ops.MSTACK, Ops.ALLREDUCE, Ops.UNSHARD, Ops.REDUCE}
)
PROMOTED: Final = (GroupOp.Binary - GroupOp.Shift - GroupOp.Comparison) | {Ops.MULACC}
VOID: Final = frozenset(
    {Ops.TUPLE, Ops.LINEAR, Ops.CUSTOM_FUNCTION, Ops.SINK, Ops.GROUP, Ops.END, Ops.STORE, Ops.REWRITE_ERROR}
)
_CONST: Final = Ops.CONST  # reading a member of an Enum is slow
#: Operations whose dtype cannot be derived and must be given.
GIVEN: Final = frozenset({Ops.CUSTOM, Ops.CUSTOMI, Ops.NOOP, Ops.INS})


def dtype_from_uop(op: Ops, src: tuple[UOp, ...], arg: Any) -> DType | None:
    """The derived dtype; None where it must be given (CUSTOM, INS, NOOP, CALL with a non-void body).

    Raises :class:`DTypeError` when the sources do not fit the operation.
    """
    if op in PROMOTED:
        first = src[0].dtype
        for s in src:
            if s.dtype is not first:
                return least_upper_dtype(*[s.dtype for s in src])
        return first
    if op in FIRST:
        if op in GroupOp.Shift and not all(s.dtype.is_int for s in src):
            raise DTypeError(f"{op.name} needs integers, got {[s.dtype.name for s in src]}")
        return src[0].dtype
    if op is _CONST:
        return dtypes.from_py(arg)
    if op in GroupOp.Comparison:
        return dtypes.bool
    if op is Ops.WHERE:
        if src[0].dtype is not dtypes.bool:
            raise DTypeError(f"the condition of WHERE has dtype {src[0].dtype.name}")
        return least_upper_dtype(src[1].dtype, src[2].dtype)
    if op in GroupOp.Cast:
        if not isinstance(arg, DType):
            raise DTypeError(f"{op.name} needs a dtype as argument, got {arg!r}")
        return arg
    if op in GroupOp.Transcendental:
        operand = src[0]
        if operand.op is Ops.CONST and operand.dtype is dtypes.bool and not isinstance(operand.arg, bool):
            return dtypes.bool
        return least_upper_float(operand.dtype)
    if op in VOID:
        return dtypes.void
    if op is Ops.STACK:
        return least_upper_dtype(*(s.dtype for s in src)) if src else dtypes.void
    if op in GroupOp.Defines:
        if not isinstance(arg, ParamArg):
            raise DTypeError(f"{op.name} needs a ParamArg as argument, got {arg!r}")
        return arg.dtype
    if op is Ops.GETADDR:
        return dtypes.uint64
    if op is Ops.GETTUPLE:
        return _element(src[0], arg).dtype
    if op is Ops.CALL:
        return dtypes.void if src[0].dtype is dtypes.void else None
    if op in GIVEN:
        return None
    raise UnsupportedError(f"operation {op.name} (program stage)")


def _element(tuple_or_call: UOp, index: int) -> UOp:
    body = tuple_or_call.src[0] if tuple_or_call.op is Ops.CALL else tuple_or_call
    if body.op is not Ops.TUPLE or not isinstance(index, int) or not 0 <= index < len(body.src):
        raise DTypeError(f"GETTUPLE {index!r} of {body.op.name} with {len(body.src)} sources")
    return body.src[index]


#: The least and greatest number of sources of every operation that can be built.
LIMITS: Final = {
    op: (least, sys.maxsize if most is None else most)
    for op in GroupOp.All - GroupOp.OutOfScope
    for least, most in (ARITY.get(op, (0, None)),)
}


def check_sources(op: Ops, src: tuple[UOp, ...]) -> None:
    """Raise :class:`ArityError` for a number of sources that `op` does not take."""
    limits = ARITY.get(op)
    if limits is None:
        return
    least, most = limits
    if len(src) < least or (most is not None and len(src) > most):
        raise ArityError(op.name, len(src), least, most)


def derive_dtype(op: Ops, src: tuple[UOp, ...], arg: Any, default: DType | None = None) -> DType:
    """Like :func:`dtype_from_uop`, with `default` where nothing can be derived; raises without one."""
    try:
        dtype = dtype_from_uop(op, src, arg)
    except IndexError:
        check_sources(op, src)
        raise
    if dtype is None:
        dtype = default
    if dtype is None:
        raise DTypeError(f"the dtype of {op.name} must be given")
    return dtype
