"""Early rewrites of the tensor graph, before ranges are assigned (scheduler spec 6)."""

from __future__ import annotations

from typing import Final

from rangeify.config import Config
from rangeify.errors import UnsupportedError
from rangeify.split_reduce import pm_split_reduce
from uopgraph import GroupOp, Ops, PatternMatcher, UOp, UPat, graph_rewrite, identity_element


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


def _store_hazard(x: UOp, target: UOp, value: UOp) -> UOp | None:
    """A kernel may read its own target only at the index that it stores (scheduler spec 6.2, reading 31): a
    value that reads it elsewhere is computed into storage of its own first."""
    if value.op is not Ops.CONTIGUOUS and _reads_elsewhere(value, target):
        # not value.contiguous(): that is no mark on storage
        return x.replace(src=(target, UOp(Ops.CONTIGUOUS, None, (value,)), *x.src[2:]))
    return None


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
