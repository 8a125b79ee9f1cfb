"""Early rewrites of the tensor graph, before ranges are assigned (scheduler spec 6)."""

from __future__ import annotations

from typing import Final

from rangeify.config import Config
from rangeify.errors import UnsupportedError
from rangeify.reasons import Reason, Rule
from rangeify.split_reduce import pm_split_reduce
from uopgraph import DType, GroupOp, Ops, PatternMatcher, UOp, UPat, dtypes, graph_rewrite, identity_element


def _strip(x: UOp) -> UOp:
    return x.src[0]


def _strip_views(x: UOp) -> UOp | None:
    """The sources of a SINK, and what an AFTER waits for, are states of storage, not views of them."""
    first = 0 if x.op is Ops.SINK else 1
    return x.rebuild(x.src[:first] + tuple(s.unsharded_base for s in x.src[first:]))


def _state_of_view(x: UOp, view: UOp) -> UOp:
    """AFTER(view(s), deps) -> view(AFTER(s, deps)): the state of a view is that of its base (reading 31)."""
    return view.rebuild((x.replace(src=(view.src[0], *x.src[1:])), *view.src[1:]))


def _merge_reshapes(x: UOp, inner: UOp) -> UOp:
    return inner.src[0].reshape(x.shape)


def _no_movement(x: UOp) -> UOp | None:
    """A RESHAPE to the same shape, a PERMUTE of nothing."""
    if x.op is Ops.RESHAPE:
        return x.src[0] if x.src[0].shape == x.shape else None
    return x.src[0] if x.arg == tuple(range(len(x.shape))) else None


def _merge_permutes(x: UOp, inner: UOp) -> UOp:
    return inner.src[0].permute(tuple(inner.arg[i] for i in x.arg))


def _empty_reduce(x: UOp) -> UOp | None:
    """A reduction over an empty axis is the identity element."""
    if 0 in x.src[0].shape and 0 not in x.shape:
        return x.const_like(identity_element(x.arg[0], x.dtype))
    return None


def _data_sources(x: UOp) -> int:
    return 1 if x.op in GroupOp.Movement or x.op in (Ops.AFTER, Ops.REDUCE) else len(x.src)


#: What reads its source at other indices than those at which it is read itself. (A RESHAPE that does is found
#: when indices are known.)
_MOVERS: Final = (GroupOp.Movement - {Ops.RESHAPE}) | {Ops.REDUCE, Ops.STACK}


def _reads_elsewhere(value: UOp, target: UOp) -> bool:
    """Whether `value` may read the storage under `target`, a view of it, at another index than that of
    `target`. What is stored anyway is not looked behind."""
    base = target.base
    moved = any(n.op in _MOVERS for n in target.toposort(gate=lambda n: n is not base))
    hidden = (Ops.CONTIGUOUS, Ops.COPY)
    reaches: dict[UOp, bool] = {target: True}
    for node in value.toposort(gate=lambda n: n is not target and n.op not in hidden, enter_calls=False):
        hit = any(reaches.get(s, False) for s in node.src[: _data_sources(node)])
        if (hit and node.op in _MOVERS) or (moved and node is base):
            return True
        reaches[node] = hit or node is base
    return False


_HAZARD: Final = Reason(Rule.HAZARD)


def _store_hazard(x: UOp, target: UOp, value: UOp) -> UOp | None:
    """A kernel may read its own target only at the index that it stores (scheduler spec 6.2, reading 31): a
    value that reads it elsewhere is computed into storage of its own first."""
    if value.op is not Ops.CONTIGUOUS and _reads_elsewhere(value, target):
        # not value.contiguous(): that is no mark on storage
        return x.replace(src=(target, UOp(Ops.CONTIGUOUS, None, (value,), None, _HAZARD), *x.src[2:]))
    return None


def _store_through_bitcast(x: UOp, target: UOp, value: UOp) -> UOp | None:
    """Writing values into a bit-cast of storage writes the bit-cast of the values into the storage."""
    view = target.base
    if view.op is not Ops.BITCAST:
        return None
    if view.dtype.itemsize != view.src[0].dtype.itemsize:
        raise UnsupportedError(f"a write through a bit-cast of {view.src[0].dtype.name} to {view.dtype.name}")
    dtype = view.src[0].dtype
    plain = target.substitute({view: view.src[0]}, name="write through bit-cast", walk=True)
    return x.replace(src=(plain, UOp(Ops.BITCAST, dtype, (value,), dtype)))


def _bitcast_of_other_size(x: UOp, source: UOp) -> UOp | None:
    """Bytes are cut out of, or put together to, unsigned integers, lowest first."""
    old, new = source.dtype.itemsize, x.dtype.itemsize
    if old == new:
        return None
    narrow, wide = _UNSIGNED[min(old, new)], _UNSIGNED[max(old, new)]
    count, bits = max(old, new) // min(old, new), 8 * min(old, new)
    if new < old:
        whole = _as(source, wide)
        parts = [(whole >> (bits * i)).cast(narrow) if i else whole.cast(narrow) for i in range(count)]
        return _as(parts[0].stack(*parts[1:], dim=-1).reshape(x.shape), x.dtype)
    cut = _as(source, narrow).reshape((*x.shape, count))
    keep = [(0, d) for d in x.shape]
    pieces = [cut.shrink((*keep, (i, i + 1))).reshape(x.shape).cast(wide) for i in range(count)]
    joined = pieces[0]
    for i, piece in enumerate(pieces[1:], 1):
        joined = joined | (piece << (bits * i))
    return _as(joined, x.dtype)


_UNSIGNED: Final = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def _as(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else UOp(Ops.BITCAST, dtype, (x,), dtype)


def _unsupported(x: UOp) -> None:
    raise UnsupportedError(f"{x.op.name} in a tensor graph")


pm_prepare: Final = PatternMatcher(
    [
        (UPat({Ops.DETACH, Ops.CONTIGUOUS_BACKWARD}, name="x"), _strip),
        (UPat({Ops.SINK, Ops.AFTER}, name="x"), _strip_views),
        (
            UPat(Ops.AFTER, src=(UPat(GroupOp.Movement, name="view"),), allow_any_len=True, name="x"),
            _state_of_view,
        ),
        (UPat(Ops.RESHAPE, src=(UPat(Ops.RESHAPE, name="inner"), UPat()), name="x"), _merge_reshapes),
        (UPat({Ops.RESHAPE, Ops.PERMUTE}, name="x"), _no_movement),
        (UPat(Ops.PERMUTE, src=(UPat(Ops.PERMUTE, name="inner"),), name="x"), _merge_permutes),
        (UPat(Ops.REDUCE, name="x"), _empty_reduce),
        (
            UPat(Ops.STORE, src=(UPat(name="target"), UPat(name="value")), name="x"),
            _store_through_bitcast,
        ),
        (UPat(Ops.BITCAST, src=(UPat(name="source"),), name="x"), _bitcast_of_other_size),
        (UPat(Ops.STORE, src=(UPat(name="target"), UPat(name="value")), name="x"), _store_hazard),
        (
            UPat(
                {Ops.COPY, Ops.ALLREDUCE, Ops.UNSHARD, Ops.TUPLE, Ops.GETTUPLE, Ops.CUSTOM_FUNCTION},
                name="x",
            ),
            _unsupported,
        ),
    ]
)


def prepare(sink: UOp, config: Config) -> UOp:
    """The tensor graph without marks that mean nothing to scheduling, with store hazards resolved and long
    reductions split."""
    return graph_rewrite(sink, pm_prepare + pm_split_reduce, config, name="prepare")
