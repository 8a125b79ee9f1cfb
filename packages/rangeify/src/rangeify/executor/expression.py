"""Evaluation of a tensor expression over storage, node by node, without scheduling."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import numpy as np

from rangeify.errors import UnsupportedError
from rangeify.executor.alu import apply, constant
from rangeify.graph import data_srcs, data_toposort
from rangeify.storage import Array, on_each_device
from uopgraph import GroupOp, Ops, UOp, identity_element


@attrs.frozen(eq=False)
class Shards:
    """What each of several devices holds of one value."""

    parts: tuple[Array, ...]


_REDUCE = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}


def evaluate_expression(root: UOp, leaf: Callable[[UOp], Array]) -> Array:
    """The value of `root`; `leaf` gives the array behind a BUFFER, ALLOC or PARAM. May be a view of a
    leaf. Of a value that is whole on several devices it is the one of the first.
    """
    known: dict[UOp, Array | Shards] = {}
    with np.errstate(all="ignore"):
        for node in data_toposort(root):
            if node.op in GroupOp.Defines:
                parts = tuple(leaf(part) for part in on_each_device(node))
                known[node] = Shards(parts) if isinstance(node.device, tuple) else parts[0]
            else:
                known[node] = _on_devices(node, [known[s] for s in data_srcs(node)])
    value = known[root]
    return value.parts[0] if isinstance(value, Shards) else value


def _on_devices(node: UOp, operands: list[Array | Shards]) -> Array | Shards:
    match node.op:
        case Ops.MSTACK:
            return Shards(tuple(x for x in operands if not isinstance(x, Shards)))
        case Ops.MSELECT if isinstance(operands[0], Shards):
            return operands[0].parts[int(node.arg)]
        case Ops.UNSHARD if isinstance(operands[0], Shards):
            joined: Array = np.concatenate(operands[0].parts, axis=node.arg[0])
            return joined
    count = max((len(x.parts) for x in operands if isinstance(x, Shards)), default=0)
    if not count:
        return _value(node, [x for x in operands if not isinstance(x, Shards)])
    return Shards(
        tuple(
            _value(node, [x.parts[i] if isinstance(x, Shards) else x for x in operands]) for i in range(count)
        )
    )


def _ints(values: Iterable[int | UOp]) -> tuple[int, ...]:
    out = []
    for v in values:
        size = v.simplify().arg if isinstance(v, UOp) else v
        if not isinstance(size, int):
            raise UnsupportedError("evaluation of symbolic shapes")
        out.append(size)
    return tuple(out)


def _value(node: UOp, operands: list[Array]) -> Array:
    match node.op:
        case Ops.CONST:
            return constant(node)
        case Ops.RESHAPE:
            return operands[0].reshape(_ints(node.shape))
        case Ops.EXPAND:
            return np.broadcast_to(operands[0], _ints(node.shape))
        case Ops.PERMUTE:
            return operands[0].transpose(node.arg)
        case Ops.FLIP:
            return operands[0][tuple(slice(None, None, -1 if f else 1) for f in node.arg)]
        case Ops.SHRINK:
            return operands[0][tuple(slice(*_ints((o, o + n))) for o, n in node.marg)]
        case Ops.PAD:
            out = np.zeros(_ints(node.shape), operands[0].dtype)
            old = operands[0].shape
            out[tuple(slice(*_ints((o, o + n))) for (o, _), n in zip(node.marg, old, strict=True))] = (
                operands[0]
            )
            return out
        case Ops.STACK:
            return np.stack(operands)
        case Ops.REDUCE:
            op, count = node.arg
            if operands[0].size == 0:
                return np.full(_ints(node.shape), identity_element(op, node.dtype), operands[0].dtype)
            return np.asarray(
                _REDUCE[op].reduce(operands[0], axis=tuple(range(count)), dtype=operands[0].dtype)
            )
        case Ops.CONTIGUOUS | Ops.DETACH | Ops.CONTIGUOUS_BACKWARD:
            return operands[0]
        case _ if node.op in GroupOp.Elementwise:
            return apply(node, operands)
    raise UnsupportedError(f"evaluation of {node.op.name}")
