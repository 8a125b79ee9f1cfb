"""Arrangement of a tensor in device memory (runtime spec 3.4, planning spec 1).

A layout is one of two things. :class:`LinearLayout`: exactly the bytes of a C-contiguous host array. And
:class:`StickLayout`: a dense row-major array of sticks, padded, with a map back to host offsets. The text
definition of a stick layout is the attribute ``#ktdp.layout<...>`` of KTIR; this module reads its JSON form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import attrs

from spyrert.constants import STICK_BYTES
from spyrert.errors import LayoutMismatch, UnsupportedDtype
from spyrert.spyrecode._json import Json, Node

MAX_RANK: Final = 6

ITEM_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "df16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Bytes of one element of each device format, by NumPy's name (``df16`` is DLFloat16)."""

UPSTREAM_FORMATS: Final = {
    "SEN169_FP16": "df16",
    "IEEE_FP16": "float16",
    "BFLOAT16": "bfloat16",
    "IEEE_FP32": "float32",
    "IEEE_INT32": "int32",
    "IEEE_INT64": "int64",
    "SENINT16": "int16",
    "SENINT8": "int8",
    "SEN143_FP8": "float8_e4m3fn",
    "SEN152_FP8": "float8_e5m2fnuz",
    "BOOL": "bool",
}
"""Upstream's names of formats, accepted by the reader and never written."""


def item_bytes(dtype: str) -> int:
    """Bytes of one element; ``UnsupportedDtype`` if the name is unknown."""
    try:
        return ITEM_BYTES[dtype]
    except KeyError:
        raise UnsupportedDtype(f"element type {dtype!r} has no device format", dtype=dtype) from None


def elements_per_stick(dtype: str) -> int:
    """Elements in one stick of 128 bytes.

    >>> elements_per_stick("float16"), elements_per_stick("float32"), elements_per_stick("int8")
    (64, 32, 128)
    """
    return STICK_BYTES // item_bytes(dtype)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@attrs.frozen
class LinearLayout:
    """Row-major, unpadded: device bytes are exactly the bytes of a C-contiguous host array."""

    device_dtype: str = attrs.field()

    @device_dtype.validator
    def _known(self, _: object, value: str) -> None:
        item_bytes(value)

    def to_json(self) -> Json:
        return {"arrangement": "linear", "device_dtype": self.device_dtype}

    def device_bytes(self, shape: Sequence[int]) -> int:
        return math.prod(shape) * item_bytes(self.device_dtype)


@attrs.frozen
class StickLayout:
    """Dense row-major array of sticks.

    Args:
        device_size: device shape; the last entry is the number of elements in a stick.
        stride_map: ``stride_map[j]`` is how far the host offset (elements) moves when device coordinate ``j``
            grows by one; -1 for synthetic, padded-only and size-1 dimensions, 0 for broadcast.
        device_dtype: element format on the device, NumPy's name (``df16`` for DLFloat16).
        element_arrangement: ``STANDARD``, ``DL16_TO_FP32``, ``QFP8CH`` or ``EXX2``.
        device_strides: stride in bytes of each device dimension; ``None`` means packed row-major. Differs
            only for kernels compiled to walk a tile inside a larger tensor (runtime spec 3.14.4).

    Identity: for every valid element ``host_offset == sum(c[j] * stride_map[j])`` over entries above 0.

    >>> StickLayout.default((512, 240), "float16")
    StickLayout(device_size=(4, 512, 64), stride_map=(64, 240, 1), device_dtype='float16', \
element_arrangement='STANDARD', device_strides=None)
    """

    device_size: tuple[int, ...]
    stride_map: tuple[int, ...]
    device_dtype: str = "float16"
    element_arrangement: str = "STANDARD"
    device_strides: tuple[int, ...] | None = None
    packed_strides: tuple[int, ...] = attrs.field(init=False, eq=False, repr=False, default=())
    """Packed row-major strides of the device dimensions, in bytes."""

    def __attrs_post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise LayoutMismatch(f"bad layout: {problem}")
        width = item_bytes(self.device_dtype)
        packed = tuple(width * step for step in contiguous_strides(self.device_size))
        object.__setattr__(self, "packed_strides", packed)

    def _problem(self) -> str | None:
        rank = len(self.device_size)
        if rank < 2 or rank != len(self.stride_map):
            return (
                f"device_size {self.device_size} and stride_map {self.stride_map} differ in length or are < 2"
            )
        if any(size < 0 for size in self.device_size):
            return f"device_size {self.device_size} has a negative entry"
        if any(stride < -1 for stride in self.stride_map):
            return f"stride_map {self.stride_map} has an entry below -1"
        if self.device_size[-1] != elements_per_stick(self.device_dtype):
            return (
                f"the last device dimension is {self.device_size[-1]}, a stick of {self.device_dtype} "
                f"has {elements_per_stick(self.device_dtype)} elements"
            )
        if self.element_arrangement not in ("STANDARD", "DL16_TO_FP32", "QFP8CH", "EXX2"):
            return f"unknown element arrangement {self.element_arrangement!r}"
        if self.device_strides is not None:
            if len(self.device_strides) != rank:
                return f"{len(self.device_strides)} device strides for {rank} device dimensions"
            if self.device_strides[-1] != item_bytes(self.device_dtype):
                return "the stride of the stick dimension must be one element"
            if any(stride % STICK_BYTES for stride in self.device_strides[:-1]):
                return "device strides above the stick must be multiples of 128 bytes"
        return None

    @classmethod
    def default(
        cls,
        shape: Sequence[int],
        device_dtype: str,
        order: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> StickLayout:
        """The layout of a host shape with dimension order ``order`` (runtime spec 3.4.2).

        ``order`` lists host dimensions, the stick dimension last; a trailing -1 makes a *sparse* tensor with
        one element per stick. ``strides`` are the host strides (default: contiguous). More than 6 entries, or
        an order that is no permutation, is ``LayoutMismatch``.
        """
        lanes = elements_per_stick(device_dtype)
        rank = len(shape)
        order = tuple(range(rank)) if order is None else tuple(order)
        strides = contiguous_strides(shape) if strides is None else tuple(strides)
        sparse = bool(order) and order[-1] == -1
        if sorted(order[:-1] if sparse else order) != list(range(rank)):
            raise LayoutMismatch(f"dimension order {list(order)} does not fit a shape of rank {rank}")
        if len(order) > MAX_RANK:
            raise LayoutMismatch(f"a layout orders at most {MAX_RANK} dimensions, not {len(order)}")
        if not order:
            return cls((1, lanes), (-1, -1), device_dtype)
        dim_map = (order[0], order[0]) if len(order) == 1 else (*order[1:], order[0], order[-1])
        sizes: list[int] = []
        for dim in dim_map:
            if dim == dim_map[-1]:
                sizes.append(1 if dim == -1 else -(-shape[dim] // lanes))
            else:
                sizes.append(shape[dim])
        sizes[-1] = lanes
        steps: list[int] = [0] * len(dim_map)
        last: dict[int, int] = {}
        for position in range(len(dim_map) - 1, -1, -1):
            dim = dim_map[position]
            if dim == -1 or shape[dim] == 1:
                steps[position] = -1
                continue
            steps[position] = steps[last[dim]] * sizes[last[dim]] if dim in last else strides[dim]
            last[dim] = position
        return cls(tuple(sizes), tuple(steps), device_dtype)

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        """Strides of the device dimensions in bytes: the declared ones, else packed."""
        return self.packed_strides if self.device_strides is None else self.device_strides

    def device_bytes(self, shape: Sequence[int] = ()) -> int:
        """Bytes from the first to behind the last element on the device, padding included."""
        if 0 in self.device_size:
            return 0
        if self.device_strides is None:
            return STICK_BYTES * math.prod(self.device_size[:-1])
        return STICK_BYTES + sum(
            (n - 1) * s for n, s in zip(self.device_size[:-1], self.device_strides[:-1], strict=True)
        )

    def coordinates(self, host_offset: int) -> tuple[int, ...]:
        """Device coordinates of a host offset in elements (runtime spec 3.4.3); ``LayoutMismatch`` if it has
        none."""
        coordinates = [0] * len(self.device_size)
        rest = host_offset
        live = [j for j, s in enumerate(self.stride_map) if s > 0 and self.device_size[j] > 1]
        for j in sorted(live, key=lambda j: -self.stride_map[j]):
            coordinates[j], rest = divmod(rest, self.stride_map[j])
            if coordinates[j] >= self.device_size[j]:
                raise LayoutMismatch(f"host offset {host_offset} lies outside device dimension {j} of {self}")
        if rest:
            raise LayoutMismatch(f"host offset {host_offset} has no device coordinates in {self}")
        return tuple(coordinates)

    def offset_bytes(self, host_offset: int) -> int:
        """Device offset in bytes of a host offset in elements.

        >>> layout = StickLayout.default((512, 240), "float16")
        >>> [layout.offset_bytes(so) for so in (240, 64, 30)]
        [128, 65536, 60]
        """
        return sum(c * s for c, s in zip(self.coordinates(host_offset), self.strides_bytes, strict=True))

    def to_json(self) -> Json:
        """The JSON form; ``device_strides`` only when not packed."""
        document: dict[str, Json] = {
            "device_size": list(self.device_size),
            "stride_map": list(self.stride_map),
            "device_dtype": self.device_dtype,
            "element_arrangement": self.element_arrangement,
        }
        if self.device_strides is not None:
            document["device_strides"] = list(self.device_strides)
        return document


Layout = LinearLayout | StickLayout


def layout_from_json(node: Node) -> Layout:
    """Read the JSON form of either kind; a bad one is an error at its place."""
    dtype = node.get("device_dtype")
    name = "float16" if dtype is None else UPSTREAM_FORMATS.get(dtype.string(), dtype.string())
    arrangement = node.get("arrangement")
    try:
        if arrangement is not None:
            if arrangement.string() != "linear":
                arrangement.fail(f"unknown arrangement {arrangement.value!r}, only 'linear' has this form")
            return LinearLayout(name)
        strides = node.get("device_strides")
        element_arrangement = node.get("element_arrangement")
        return StickLayout(
            tuple(item.integer(0) for item in node.member("device_size").elements()),
            tuple(item.integer(-1) for item in node.member("stride_map").elements()),
            name,
            "STANDARD" if element_arrangement is None else element_arrangement.string(),
            None if strides is None else tuple(item.integer(0) for item in strides.elements()),
        )
    except (LayoutMismatch, UnsupportedDtype) as error:
        node.fail(str(error))
