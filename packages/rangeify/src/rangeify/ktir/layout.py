"""Stick layouts: how a host array stands in device memory (planning spec 1)."""

from __future__ import annotations

import enum
import math

import attrs

from rangeify.errors import UnsupportedError

#: Device layouts are defined for at most this many host dimensions (planning spec 1.2).
MAX_RANK = 6
#: Stands in an order for a stick with one useful element (planning spec 1.2, "sparse").
SPARSE = -1


class Part(enum.Enum):
    """What of a host dimension a device dimension counts."""

    WHOLE = "whole"
    TILE = "tile"
    LANE = "lane"


@attrs.frozen
class DeviceDim:
    """One dimension of the device array: a part of host dimension `host` (None: synthetic), `size` entries."""

    host: int | None
    part: Part
    size: int


@attrs.frozen
class DeviceLayout:
    """A host array of `shape` cut into sticks of `lanes` elements.

    ``order``: host dimensions, the last one runs inside a stick (SPARSE: one useful element a stick).
    ``stride_map``: host elements that one step along each device dimension moves; -1 for synthetic ones.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    lanes: int
    dims: tuple[DeviceDim, ...]
    stride_map: tuple[int, ...]

    @property
    def device_size(self) -> tuple[int, ...]:
        """The device shape; the last entry is the number of lanes."""
        return tuple(d.size for d in self.dims)

    @property
    def stick_dim(self) -> int | None:
        """The host dimension that runs inside a stick; None when sticks hold one useful element."""
        return self.order[-1] if self.order and self.order[-1] != SPARSE else None

    @property
    def is_default(self) -> bool:
        """True for the layout that every reader assumes when none is given."""
        return self.order == tuple(range(len(self.shape)))

    @property
    def elements(self) -> int:
        """The number of elements with padding."""
        return math.prod(self.device_size)


def device_layout(shape: tuple[int, ...], lanes: int, order: tuple[int, ...] | None = None) -> DeviceLayout:
    """The layout of a C-ordered host array of `shape` with `lanes` elements a stick (planning spec 1.2).

    `order` defaults to the host dimensions in order. Raises :class:`UnsupportedError` above 6 dimensions.
    """
    order = tuple(range(len(shape))) if order is None else order
    if len(order) > MAX_RANK:
        raise UnsupportedError(f"a device layout of {len(order)} dimensions (at most {MAX_RANK})")
    assert sorted(d for d in order if d != SPARSE) == list(range(len(shape)))
    if not order:
        dims = (DeviceDim(None, Part.TILE, 1), DeviceDim(None, Part.LANE, lanes))
        return DeviceLayout(shape, order, lanes, dims, (-1, -1))
    stick = order[-1]
    slots = (stick, stick) if len(order) == 1 else (*order[1:], order[0], stick)
    built = [_device_dim(shape, lanes, host, stick) for host in slots[:-1]]
    built.append(DeviceDim(None if stick == SPARSE else stick, Part.LANE, lanes))
    return DeviceLayout(shape, order, lanes, tuple(built), _stride_map(shape, built))


def _device_dim(shape: tuple[int, ...], lanes: int, host: int, stick: int) -> DeviceDim:
    if host == SPARSE:
        return DeviceDim(None, Part.TILE, 1)
    if host == stick:
        return DeviceDim(host, Part.TILE, -(-shape[host] // lanes))
    return DeviceDim(host, Part.WHOLE, shape[host])


def _stride_map(shape: tuple[int, ...], dims: list[DeviceDim]) -> tuple[int, ...]:
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    running: dict[int, int] = {}
    out = []
    for dim in reversed(dims):
        if dim.host is None or shape[dim.host] == 1:
            out.append(-1)
            continue
        stride = running.get(dim.host, strides[dim.host])
        out.append(stride)
        running[dim.host] = stride * dim.size
    return tuple(reversed(out))
