"""Realisation: schedule, run, and let live Tensors read the storage."""

from __future__ import annotations

import math
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rangeify import storage
from rangeify.build import build
from rangeify.capturing import execute_and_keep
from rangeify.config import Config
from rangeify.errors import ConstantError, InputError
from rangeify.executor import evaluate_expression, with_values
from rangeify.graph import data_srcs
from rangeify.signatures import checked
from rangeify.storage import Array
from rangeify.tensor import Tensor, live_tensors
from uopgraph import GroupOp, Ops, UOp, strong_dtype

#: The greatest number of elements of a value that is computed as a whole when one element is asked for.
WHOLE: Final = 1 << 16
#: The greatest number of elements, of all nodes together, and of nodes that are computed without a schedule.
AT_ONCE: Final = 1 << 13
AT_ONCE_NODES: Final = 128

#: Values without storage of which single elements were asked for, as buffers.
_read: Final[WeakKeyDictionary[UOp, UOp]] = WeakKeyDictionary()

_AT_ONCE: Final = GroupOp.Movement | GroupOp.Elementwise | {Ops.CONST}


@checked
def realize(*tensors: Tensor, config: Config | None = None) -> None:
    """Compute `tensors`; afterwards they, and every live Tensor that holds one of their values, have
    storage. Raises `CallError` for what is no Tensor.
    """
    config = Config.from_environment() if config is None else config
    built = build(tensors, config, tuple(t.uop for t in live_tensors()))
    execute_and_keep(built.schedule)
    if built.buffer_map:
        for tensor in live_tensors():
            tensor.rebind(tensor.uop.substitute(built.buffer_map, name="rebind", walk=True))


def _is_stored(node: UOp) -> bool:
    """Whether a node is a view of a buffer that has been filled: there is nothing to compute."""
    while node.op in GroupOp.Movement:
        node = node.src[0]
    return node.op is Ops.BUFFER and storage.contents(node) is not None


def scalar(tensor: Tensor) -> Any:
    """The one element of `tensor` as a Python number.

    Little work on stored values is done at once, without a schedule. Otherwise, where elements of other
    Tensors that are alive and not large go into it, all of those is computed, so that their other elements
    need only be read.
    """
    root = tensor.uop
    if tensor.dtype.is_weak:
        return to_numpy(tensor).item()
    if not _is_little_work(root):
        wholes = _wholes(root)
        if new := [t for t in wholes if t.uop not in _read]:
            realize(*new)
        root = tensor.uop.substitute(dict(map(_readable, wholes)), name="read", walk=True)
        if not wholes or not _is_little_work(root):
            return to_numpy(tensor).item()
    return np.asarray(evaluate_expression(root, _contents)).item()


def _readable(whole: Tensor) -> tuple[UOp, UOp]:
    """(the value of `whole`, what its elements are read from). Realising gives no storage to what is computed
    from indices alone, like ``arange``; such a value is kept here."""
    if _is_stored(whole.uop):
        return whole.uop, whole.uop
    if whole.uop not in _read:
        _read[whole.uop] = storage.from_array(to_numpy(whole))
    return whole.uop, _read[whole.uop]


def _wholes(root: UOp) -> list[Tensor]:
    """The live Tensors without storage of which single elements are operands of `root`."""
    cut, pending, seen = [], [root], {root}
    for node in pending:
        if node.op is Ops.SHRINK:
            cut.append(node.src[0])
            continue
        new = [
            s
            for s in data_srcs(node)
            if s not in seen and all(isinstance(d, int) and d == 1 for d in s.shape)
        ]
        seen.update(new)
        pending.extend(new)
        if len(pending) > AT_ONCE_NODES:
            return []
    if not any(map(_is_computed, cut)):
        return []
    live = {t.uop: t for t in live_tensors()}
    found = [_deepest(node, live) for node in cut]
    return [t for t in found if t is not None and _is_computed(t.uop) and not t.dtype.is_weak]


def _is_computed(node: UOp) -> bool:
    return not _is_stored(node)


def _deepest(node: UOp, live: dict[UOp, Tensor]) -> Tensor | None:
    """What `node` was cut from and is a live Tensor that is not large."""
    found = live.get(node)
    while node.op in GroupOp.Movement:
        node = node.src[0]
        found = live.get(node, found)
    return found if found is not None and _is_modest(found) else None


def _is_modest(whole: Tensor) -> bool:
    return all(isinstance(s, int) for s in whole.shape) and whole.size <= WHOLE


def _is_little_work(root: UOp) -> bool:
    """Whether a node is a few element-wise operations on views of buffers of one device."""
    nodes, work, devices = {root: None}, 0, set()
    for node in (pending := [root]):
        if node.op is Ops.BUFFER:
            if storage.contents(node) is None:
                return False
            devices.add(node.device)
            continue
        if node.op not in _AT_ONCE or not all(isinstance(s, int) for s in node.shape):
            return False
        if node.op in (Ops.SHRINK, Ops.PAD) and not all(isinstance(v, int) for cut in node.marg for v in cut):
            return False
        work += int(math.prod(node.shape))
        if work > AT_ONCE or len(nodes) > AT_ONCE_NODES:
            return False
        for source in data_srcs(node):
            if source not in nodes:
                nodes[source] = None
                pending.append(source)
    return len(devices) <= 1


def _contents(buffer: UOp) -> Array:
    array = storage.contents(buffer)
    if array is None:
        raise InputError(f"a buffer of shape {buffer.shape} has no contents")
    return array


def to_numpy(tensor: Tensor) -> npt.NDArray[Any]:
    """The value of `tensor` as an array of its own; realises it."""
    if not _is_stored(tensor.uop):
        realize(tensor)
    bound = {v.expr: int(v.arg.val) for v in tensor.uop.toposort() if v.is_bound_var}
    value = evaluate_expression(with_values(tensor.uop, bound), _contents)
    dtype = strong_dtype(tensor.dtype)
    if tensor.dtype.is_weak and dtype.is_int and not np.all((dtype.min <= value) & (value <= dtype.max)):
        raise ConstantError(
            f"{value!s:.40} is out of range for {dtype.name}, the dtype of integers without one"
        )
    return np.array(value, dtype=storage.numpy_dtype(dtype), copy=True)
