"""Which part of a host array each dimension of its device form counts (planning spec 1.2).

The layout itself - sizes, strides, bytes - is :class:`ktir.layout.StickLayout`; this module says what the
planner needs besides: which host dimension stands behind each device dimension.
"""

from __future__ import annotations

import enum

import attrs

from ktir.layout import MAX_RANK, SPARSE, StickLayout
from ktir.types import Type
from rangeify.errors import UnsupportedError


class Part(enum.Enum):
    """What of a host dimension a device dimension counts."""

    WHOLE = "whole"
    TILE = "tile"
    LANE = "lane"


@attrs.frozen
class DeviceDim:
    """One dimension of the device array: a part of host dimension `host` (None: synthetic), `size`
    entries.
    """

    host: int | None
    part: Part
    size: int


@attrs.frozen
class DeviceLayout:
    """The stick layout of a host array for an order of its dimensions.

    ``order``: host dimensions, the last one runs inside a stick (SPARSE: one useful element a stick).
    """

    order: tuple[int, ...]
    dims: tuple[DeviceDim, ...]
    stick: StickLayout

    @property
    def shape(self) -> tuple[int, ...]:
        """The host shape."""
        return self.stick.shape

    @property
    def lanes(self) -> int:
        """Elements in one stick."""
        return self.stick.lanes

    @property
    def device_size(self) -> tuple[int, ...]:
        """The device shape; the last entry is the number of lanes."""
        return self.stick.device_size

    @property
    def is_default(self) -> bool:
        """True for the order that every reader assumes when none is given."""
        return self.order == tuple(range(len(self.shape)))


def device_layout(
    shape: tuple[int, ...], element: Type, order: tuple[int, ...] | None = None
) -> DeviceLayout:
    """The layout of a C-ordered host array of `shape`; `order` defaults to the host dimensions in order.

    Raises :class:`UnsupportedError` above 6 dimensions.
    """
    order = tuple(range(len(shape))) if order is None else order
    if len(order) > MAX_RANK:
        raise UnsupportedError(f"a device layout of {len(order)} dimensions (at most {MAX_RANK})")
    stick = StickLayout.default(shape, element, order)
    if not order:
        hosts: tuple[int, ...] = (SPARSE, SPARSE)
    else:
        hosts = (order[0], order[0]) if len(order) == 1 else (*order[1:], order[0], order[-1])
    last = len(hosts) - 1
    dims = []
    for j, (host, size) in enumerate(zip(hosts, stick.device_size, strict=True)):
        part = Part.LANE if j == last else Part.TILE if host == hosts[last] else Part.WHOLE
        dims.append(DeviceDim(None if host == SPARSE else host, part, size))
    return DeviceLayout(order, tuple(dims), stick)
