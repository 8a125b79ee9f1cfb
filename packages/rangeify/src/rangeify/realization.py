"""Realisation: schedule, run, and let live Tensors read the storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rangeify import storage
from rangeify.build import build
from rangeify.capturing import execute_and_keep
from rangeify.config import Config
from rangeify.errors import InputError
from rangeify.executor import evaluate_expression, with_values
from rangeify.signatures import checked
from rangeify.storage import Array
from rangeify.tensor import Tensor, live_tensors
from uopgraph import UOp, strong_dtype


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


def _contents(buffer: UOp) -> Array:
    array = storage.contents(buffer)
    if array is None:
        raise InputError(f"a buffer of shape {buffer.shape} has no contents")
    return array


def to_numpy(tensor: Tensor) -> npt.NDArray[Any]:
    """The value of `tensor` as an array of its own; realises it."""
    realize(tensor)
    bound = {v.expr: int(v.arg.val) for v in tensor.uop.toposort() if v.is_bound_var}
    value = evaluate_expression(with_values(tensor.uop, bound), _contents)
    return np.array(value, dtype=storage.numpy_dtype(strong_dtype(tensor.dtype)), copy=True)
