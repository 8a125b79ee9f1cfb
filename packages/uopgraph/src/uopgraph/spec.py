"""Specifications: which nodes a stage allows.

A spec is a matcher whose functions return True (good), False (forbidden) or None (not decided here).
Anything but True is a violation. ``tensor_spec`` is for graphs of lazy tensors, ``kernel_graph_spec`` for the
graph of kernels after the split, ``program_spec`` for kernel bodies, ``full_spec`` for every form on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from uopgraph.args import AddrSpace, AxisType, BufferizeOpts, CallInfo, ParamArg
from uopgraph.dtype import ConstFloat, DType, Invalid, dtypes
from uopgraph.dtype_rules import dtype_from_uop
from uopgraph.errors import DTypeError, EncodingError, SpecError
from uopgraph.node import UOp, _checkers
from uopgraph.ops import GroupOp, Ops
from uopgraph.pattern import PatternMatcher, UPat


def _free(n: UOp) -> bool:
    """True for values that fit beside any dtype: weak ones and Invalid."""
    return n.dtype.is_weak or n.is_invalid


def _match(n: UOp, dtype: DType) -> bool:
    return n.dtype is dtype or _free(n)


def _const(x: UOp) -> bool:
    if x.src:
        return False
    if x.arg is Invalid:
        return x.dtype is dtypes.bool
    if x.dtype is dtypes.bool:
        return isinstance(x.arg, bool)
    if x.dtype.is_float:
        return type(x.arg) is ConstFloat
    return type(x.arg) is int and (x.dtype is dtypes.weakint or x.dtype.min <= x.arg <= x.dtype.max)


def _stack(x: UOp) -> bool:
    if any(s.shape_or_none is None for s in x.src):
        return False
    same = all(s.shape == x.src[0].shape for s in x.src)
    return same and all(_match(s, x.dtype) for s in x.src)


def _where(x: UOp, c: UOp) -> bool:
    return c.dtype is dtypes.bool and all(_match(s, x.dtype) for s in x.src[1:])


def _comparison(x: UOp) -> bool:
    a, b = x.src
    return x.dtype is dtypes.bool and (a.dtype is b.dtype or _free(a) or _free(b))


def _bitwise(x: UOp) -> bool:
    return not x.dtype.is_float and all(_match(s, x.dtype) for s in x.src)


def _shift(x: UOp, a: UOp, b: UOp) -> bool:
    counts = (a.dtype, dtypes.uint32, dtypes.weakint)
    return x.dtype is a.dtype and a.dtype.is_int and b.dtype in counts


def _division(x: UOp) -> bool:
    return (x.dtype.is_int or x.dtype is dtypes.bool) and all(_match(s, x.dtype) for s in x.src)


def _transcendental(x: UOp) -> bool:
    return x.dtype.is_float or x.src[0].is_invalid


def _alu(x: UOp) -> bool:
    return all(_match(s, x.dtype) for s in x.src)


def _cast(x: UOp) -> bool:
    return isinstance(x.arg, DType) and x.arg is x.dtype and len(x.src) == 1


def _range(x: UOp) -> bool:
    if not isinstance(x.arg, tuple) or not x.arg or not isinstance(x.arg[-1], AxisType):
        return False
    bound = x.src[0]
    if bound.op is Ops.CONST and bound.arg < 0:
        return False
    return bound.dtype is x.dtype and all(type(i) is int for i in x.arg[:-1])


def _index(x: UOp) -> bool:
    return all(i.dtype.is_int or i.dtype is dtypes.bool or i.is_invalid for i in x.src[1:])


def _end(x: UOp) -> bool:
    closing = x.src[1:]
    if closing and closing[-1].dtype is dtypes.bool:
        closing = closing[:-1]
    return len(x.src) > 0 and all(r.op in (Ops.RANGE, Ops.CONST) or bool(r.ranges) for r in closing)


_VIEWS: Final = (
    GroupOp.Movement
    | GroupOp.Defines
    | {
        *(Ops.AFTER, Ops.INDEX, Ops.BITCAST, Ops.UNSHARD, Ops.MSTACK, Ops.MSELECT, Ops.CONTIGUOUS, Ops.STAGE),
        *(Ops.CONST, Ops.GETTUPLE, Ops.DETACH, Ops.COPY),
    }
)


def _after(x: UOp) -> bool:
    return x.dtype is x.src[0].dtype and x.src[0].op in _VIEWS


def _store(x: UOp) -> bool:
    if len(x.src) not in (2, 3) or x.src[0].op not in _VIEWS:
        return False
    gate = len(x.src) == 2 or x.src[2].dtype is dtypes.bool
    return gate and _match(x.src[1], x.src[0].dtype)


def _load(x: UOp) -> bool:
    if len(x.src) not in (1, 2, 3) or x.src[0].op not in _VIEWS:
        return False
    return (len(x.src) == 1 or _match(x.src[1], x.dtype)) and (
        len(x.src) < 3 or x.src[2].dtype is dtypes.bool
    )


def _define(x: UOp) -> bool:
    if not isinstance(x.arg, ParamArg) or len(x.src) != 1:
        return False
    sizes = x.src[0].src if x.src[0].op is Ops.STACK else x.src
    if any(s.op is Ops.CONST and (type(s.arg) is not int or s.arg < 0) for s in sizes):
        return False
    return x.arg.dtype is x.dtype and (x.arg.addrspace is AddrSpace.ALU or not x.dtype.is_weak)


shared_spec: Final = PatternMatcher(
    [
        (UPat((Ops.SINK, Ops.NOOP), name="x"), lambda x: True),
        (UPat(Ops.CONST, name="x"), _const),
        (UPat(Ops.STACK, name="x"), _stack),
        (UPat(Ops.WHERE, name="x", src=(UPat.var("c"), UPat(), UPat())), _where),
        (UPat(GroupOp.Comparison, name="x", src=(UPat(), UPat())), _comparison),
        (UPat(GroupOp.Bitwise, name="x", src=(UPat(), UPat())), _bitwise),
        (UPat(GroupOp.Shift, name="x", src=(UPat.var("a"), UPat.var("b"))), _shift),
        (UPat(GroupOp.IntDivision, name="x", src=(UPat(), UPat())), _division),
        (UPat(GroupOp.Transcendental, name="x", src=(UPat(),)), _transcendental),
        (UPat(GroupOp.Rounding | {Ops.NEG}, name="x", src=(UPat(),)), _alu),
        (
            UPat(GroupOp.Binary - GroupOp.Comparison - GroupOp.Shift, name="x", src=(UPat(), UPat())),
            _alu,
        ),
        (UPat(Ops.MULACC, name="x", src=(UPat(), UPat(), UPat())), _alu),
        (UPat(GroupOp.Cast, name="x"), _cast),
        (UPat(Ops.RANGE, name="x"), _range),
        (UPat(Ops.INDEX, name="x", src=(UPat(),), allow_any_len=True), _index),
        (UPat(Ops.END, name="x"), _end),
        (UPat(GroupOp.Defines, name="x"), _define),
        (UPat(Ops.GROUP, name="x"), lambda x: all(s.dtype is dtypes.void for s in x.src)),
        (UPat(Ops.AFTER, name="x"), _after),
        (UPat(Ops.STORE, name="x"), _store),
        (UPat(Ops.LOAD, name="x"), _load),
    ]
)


# tensor level -----------------------------------------------------------------------------------


def _global_buffer(x: UOp) -> bool | None:
    if x.arg is None or not isinstance(x.arg, ParamArg):
        return False
    a = x.arg
    return None if a.addrspace is AddrSpace.GLOBAL and a.device is not None else False


def _variable(x: UOp) -> bool | None:
    if not isinstance(x.arg, ParamArg):
        return False
    return None if x.arg.addrspace is not AddrSpace.ALU or x.arg.device is None else False


_BODIES: Final = frozenset(
    {Ops.SINK, Ops.LINEAR, Ops.COPY, Ops.STORE, Ops.CUSTOM_FUNCTION, Ops.TUPLE, Ops.PROGRAM, Ops.GETADDR}
)


def _call(x: UOp) -> bool:
    return isinstance(x.arg, CallInfo) and bool(x.src) and x.src[0].op in _BODIES


def _gettuple(x: UOp, t: UOp) -> bool:
    values = t.src[0] if t.op is Ops.CALL else t
    return values.op is Ops.TUPLE and type(x.arg) is int and 0 <= x.arg < len(values.src)


def _movement(x: UOp) -> bool:
    want = {Ops.RESHAPE: 2, Ops.EXPAND: 2, Ops.PAD: 3, Ops.SHRINK: 3, Ops.PERMUTE: 1, Ops.FLIP: 1}[x.op]
    if len(x.src) != want or x.dtype is not x.src[0].dtype:
        return False
    if want == 3 and x.src[1].shape != x.src[2].shape:
        return False
    return x.shape_or_none is not None and all(s.dtype.is_int or not s.src for s in x.src[1:])


def _reduce(x: UOp) -> bool:
    good = (
        isinstance(x.arg, tuple) and len(x.arg) == 2 and x.arg[0] in GroupOp.Reduce and type(x.arg[1]) is int
    )
    return good and all(r.dtype.is_int for r in x.src[1:])


def _devices(d: Any) -> bool:
    return isinstance(d, str) or (isinstance(d, tuple) and bool(d) and all(isinstance(e, str) for e in d))


def _allreduce(x: UOp) -> bool:
    good = isinstance(x.arg, tuple) and len(x.arg) == 2 and x.arg[0] in GroupOp.Reduce
    return good and _devices(x.arg[1]) and isinstance(x.src[0].device, tuple)


def _unshard(x: UOp) -> bool:
    axes = x.arg
    if not isinstance(axes, tuple) or list(axes) != sorted(set(axes)) or len(axes) != len(x.src) - 1:
        return False
    return all(type(a) is int and 0 <= a < len(x.src[0].shape) for a in axes)


def _mselect(x: UOp, m: UOp) -> bool:
    return isinstance(m.device, tuple) and type(x.arg) is int and 0 <= x.arg < len(m.device)


def _mstack(x: UOp) -> bool:
    single = all(isinstance(s.device, str) for s in x.src)
    return bool(x.src) and (single or all(s is x.src[0] and s.device is None for s in x.src))


def _stage(x: UOp) -> bool:
    return isinstance(x.arg, BufferizeOpts) and all(r.op is Ops.CONST or bool(r.ranges) for r in x.src[1:])


_tensor_only: Final = PatternMatcher(
    [
        (UPat((Ops.BUFFER, Ops.ALLOC), name="x"), _global_buffer),
        (UPat(Ops.PARAM, name="x"), _variable),
        (UPat(Ops.LOAD, name="x"), lambda x: False),
        (UPat(Ops.CALL, name="x"), _call),
        (UPat(Ops.TUPLE, name="x"), lambda x: x.dtype is dtypes.void),
        (UPat((Ops.LINEAR, Ops.CUSTOM_FUNCTION), name="x"), lambda x: x.dtype is dtypes.void),
        (UPat(Ops.GETTUPLE, name="x", src=(UPat.var("t"),)), _gettuple),
        (UPat(GroupOp.Movement, name="x"), _movement),
        (UPat(Ops.REDUCE, name="x", src=(UPat(),), allow_any_len=True), _reduce),
        (UPat(Ops.COPY, name="x", src=(UPat(),)), lambda x: _devices(x.arg)),
        (UPat(Ops.ALLREDUCE, name="x", src=(UPat(),)), _allreduce),
        (UPat(Ops.UNSHARD, name="x", src=(UPat(),), allow_any_len=True), _unshard),
        (UPat(Ops.MSELECT, name="x", src=(UPat.var("m"),)), _mselect),
        (UPat(Ops.MSTACK, name="x"), _mstack),
        (
            UPat(Ops.CONTIGUOUS, name="x", src=(UPat(),)),
            lambda x: x.arg is None or isinstance(x.arg, tuple),
        ),
        (UPat((Ops.DETACH, Ops.CONTIGUOUS_BACKWARD), name="x", src=(UPat(),)), lambda x: x.arg is None),
    ]
)
tensor_spec: Final = _tensor_only + shared_spec


# kernel graph -----------------------------------------------------------------------------------

_STATES: Final = GroupOp.Defines | {
    *(Ops.AFTER, Ops.RESHAPE, Ops.BITCAST, Ops.MSTACK, Ops.MSELECT, Ops.SHRINK, Ops.UNSHARD),
}


def _kernel_call(x: UOp) -> bool:
    good = isinstance(x.arg, CallInfo) and x.src[0].op in (
        Ops.SINK,
        Ops.COPY,
        Ops.CUSTOM_FUNCTION,
        Ops.LINEAR,
    )
    return good and all(a.op in _STATES or a.is_variable or a.op is Ops.CONST for a in x.src[1:])


def _state_after(x: UOp) -> bool:
    deps = GroupOp.Effects | {Ops.RANGE}
    return x.src[0].op in _STATES and all(d.op in deps for d in x.src[1:])


def _bound_store(x: UOp) -> bool:
    return len(x.src) == 2 and x.src[0].is_variable and x.src[1].op is Ops.CONST


kernel_graph_spec: Final = PatternMatcher(
    [
        (UPat(Ops.SINK, name="x"), lambda x: True),
        (UPat(Ops.STACK, name="x"), lambda x: all(s.op in {Ops.CONST, Ops.PARAM} for s in x.src)),
        (UPat(Ops.CONST, name="x"), _const),
        (UPat(GroupOp.Defines, name="x"), _define),
        (
            UPat((Ops.RESHAPE, Ops.SHRINK, Ops.BITCAST, Ops.UNSHARD), name="x"),
            lambda x: x.src[0].op in _STATES,
        ),
        (UPat(Ops.RANGE, name="x"), _range),
        (UPat(Ops.MSELECT, name="x", src=(UPat.var("m"),)), _mselect),
        (UPat(Ops.MSTACK, name="x"), _mstack),
        (UPat(Ops.CALL, name="x"), _kernel_call),
        (UPat(Ops.AFTER, name="x"), _state_after),
        (UPat(Ops.STORE, name="x"), _bound_store),
        (UPat(Ops.NOOP, name="x"), lambda x: not x.src),
    ]
)


# programs ---------------------------------------------------------------------------------------


def _no_weak(x: UOp) -> bool | None:
    if x.dtype is dtypes.weakfloat or x.is_invalid:
        return False
    return None


program_spec: Final = (
    PatternMatcher(
        [
            (UPat(GroupOp.Movement - {Ops.SHRINK}, name="x"), lambda x: False),
            (UPat(GroupOp.All - {Ops.SINK}, name="x"), _no_weak),
            (UPat((Ops.STAGE, Ops.CONTIGUOUS, Ops.COPY, Ops.CALL), name="x"), lambda x: False),
            (UPat(Ops.SHRINK, name="x"), _movement),
            (
                UPat((Ops.BUFFER, Ops.ALLOC), name="x"),
                lambda x: None if x.arg.addrspace in (AddrSpace.REG, AddrSpace.LOCAL) else False,
            ),
            (UPat(Ops.REDUCE, name="x", src=(UPat(),), allow_any_len=True), _reduce),
        ]
    )
    + shared_spec
)
_intermediate: Final = PatternMatcher(
    [
        (UPat(Ops.STAGE, name="x", src=(UPat(),), allow_any_len=True), _stage),
        (UPat((Ops.BUFFER, Ops.ALLOC), name="x"), _define),
        (UPat(Ops.LOAD, name="x"), _load),
        (UPat(Ops.REWRITE_ERROR, name="x"), lambda x: isinstance(x.arg, str)),
        (UPat((Ops.CUSTOM, Ops.CUSTOMI, Ops.GETADDR), name="x"), lambda x: True),
    ]
)
full_spec: Final = _intermediate + tensor_spec


def violation(node: UOp, spec: PatternMatcher) -> str | None:
    """Why `spec` forbids `node`, None when it is good."""
    try:
        verdict = _verdict(node, spec)
    except Exception as e:  # noqa: BLE001  (a check that cannot even be made is a violation)
        verdict = False
        detail = f" ({e})"
    else:
        detail = ""
    if verdict is True:
        return None
    sources = ", ".join(f"{s.op.name}:{s.dtype.name}" for s in node.src)
    said = "forbidden" if verdict is False else "unknown to this stage"
    return f"{node.op.name} {node.dtype.name} ({sources}) arg={node.arg!r}: {said}{detail}"


def _verdict(node: UOp, spec: PatternMatcher) -> bool | None:
    for rule in spec.by_op.get(node.op, ()):
        result = rule.apply(node, None)
        if result is not None:
            return bool(result)
    return None


def type_verify(root: UOp | Iterable[UOp], spec: PatternMatcher, enter_calls: bool = True) -> None:
    """Check every node in order. Raises :class:`SpecError` with the index, the node and its summary."""
    nodes = list(root.toposort(enter_calls=enter_calls)) if isinstance(root, UOp) else list(root)
    for i, node in enumerate(nodes):
        wrong = violation(node, spec)
        if wrong is not None:
            raise SpecError(f"node {i}: {wrong}", i, node)


def _holds_node(arg: Any) -> bool:
    """Whether a UOp stands in `arg`: itself, in a tuple or set, or in a field of a record."""
    if arg is None or type(arg) in (int, str, DType):
        return False
    if isinstance(arg, UOp):
        return True
    if isinstance(arg, tuple | frozenset):
        return any(_holds_node(a) for a in arg)
    return attrs.has(type(arg)) and any(_holds_node(getattr(arg, f.name)) for f in attrs.fields(type(arg)))


def _check_new(node: UOp, level: int) -> None:
    """The checks of construction: dtype and spec, the shape (3), the text (4)."""
    if _holds_node(node.arg):
        raise SpecError(f"{node.op.name}: a UOp must not stand in arg", node=node)
    derived = None if node.op is Ops.CONST else dtype_from_uop(node.op, node.src, node.arg)
    if derived is not None and derived is not node.dtype:
        raise DTypeError(f"{node.op.name} has dtype {derived.name}, not {node.dtype.name}")
    if _verdict(node, full_spec) is not True:  # a ShapeError of a check is more telling than its text
        raise SpecError(violation(node, full_spec) or "", node=node)
    if level >= 3:
        _ = node.shape_or_none
    if level >= 4:
        from uopgraph.serialize import arg_from_json, arg_to_json

        if arg_from_json(arg_to_json(node.arg)) != node.arg:
            raise EncodingError(f"{node.op.name}: {node.arg!r} does not survive its text form")


_checkers.append(_check_new)

__all__ = [
    "full_spec",
    "kernel_graph_spec",
    "program_spec",
    "shared_spec",
    "tensor_spec",
    "type_verify",
    "violation",
]
