"""What the kernels of this folder compute, in NumPy: functions of the inputs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@attrs.frozen
class Reference:
    """`compute` maps inputs and scalars by argument name to outputs by name; `rtol` is relative to the
    value, 0 means bit for bit.  `scalars` are the values passed at the launches, one mapping a launch."""

    compute: Callable[..., Mapping[str, Array]]
    rtol: float = 0.0
    scalars: tuple[Mapping[str, int], ...] = ({}, {}, {})


def _shifted_add(a: Array, b: Array, shift: int) -> Mapping[str, Array]:
    return {"c": a + np.roll(b, -shift, axis=0)}


def _fused_chain(x: Array, y: Array, z: Array) -> Mapping[str, Array]:
    inside = np.maximum(x * y + z[:, None], np.float16(0))
    return {"out": np.exp(inside.astype(np.float64)).astype(np.float16)}


ONE_ULP = 2.0**-10
"""Relative distance of neighbouring f16 numbers: the tolerance for `exp`, whose last bit nobody promises."""

REFERENCES: dict[str, Reference] = {
    "shifted_add": Reference(_shifted_add, scalars=({"shift": 0}, {"shift": 9}, {"shift": 93})),
    "fused_chain": Reference(_fused_chain, ONE_ULP),
    "fused_chain_sticks": Reference(_fused_chain, ONE_ULP),
}
