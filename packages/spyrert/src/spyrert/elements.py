"""Where every element of a view lies on the device, as an array (runtime spec 3.4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spyrert.spyrecode.layout import Layout, LinearLayout, contiguous_strides, item_bytes


def element_offsets(
    layout: Layout, shape: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0
) -> np.ndarray[Any, Any]:
    """Device offset, in elements, of every element of a view in row-major order.

    ``strides`` and ``offset`` (elements) place the view inside the tensor that the layout was made for; the
    default is the whole contiguous tensor of ``shape``.
    """
    strides = contiguous_strides(shape) if strides is None else tuple(strides)
    host = np.full(tuple(shape), offset, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        view = [1] * len(shape)
        view[axis] = size
        host += (np.arange(size, dtype=np.int64) * stride).reshape(view)
    host = host.reshape(-1)
    if isinstance(layout, LinearLayout):
        return host
    width = item_bytes(layout.device_dtype)
    result = np.zeros_like(host)
    live = [j for j, s in enumerate(layout.stride_map) if s > 0 and layout.device_size[j] > 1]
    for j in sorted(live, key=lambda j: -layout.stride_map[j]):
        coordinate, host = np.divmod(host, layout.stride_map[j])
        result += coordinate * (layout.strides_bytes[j] // width)
    return result
