"""Transfers: checking their structure, and moving their bytes (runtime spec 3.4.5, 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import numpy as np

from spyrert.device.memory import Bytes, RegionTable, nest_elements, nest_extent, nest_view
from spyrert.device.protocol import (
    ControlBlockError,
    Converter,
    Direction,
    DmaCB,
    RegionInfo,
    check_pieces,
)
from spyrert.errors import UnsupportedDtype
from spyrert.spyrecode.layout import item_bytes

RAW: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}
"""Unsigned type of each element width; transfers look at bits, never at numbers."""

Converters = Mapping[tuple[str, str], Converter]


def check_transfer(block: DmaCB, info: Callable[[int], RegionInfo], converters: Converters) -> None:
    """Check the structure of a transfer; raises ``ControlBlockError``."""
    device = check_pieces(block.pieces, info)
    try:
        src_bytes, dst_bytes = item_bytes(block.src_format), item_bytes(block.dst_format)
    except UnsupportedDtype as error:
        raise ControlBlockError(str(error)) from None
    if block.src_format != block.dst_format and (block.src_format, block.dst_format) not in converters:
        raise ControlBlockError(
            f"no conversion from {block.src_format} to {block.dst_format}", "UnsupportedConversion"
        )
    if block.direction is Direction.ON_DEVICE:
        if block.host is not None:
            raise ControlBlockError("a copy on the device has no host buffer")
        other = check_pieces(block.src_pieces, info)
    else:
        if block.host is None:
            raise ControlBlockError("a transfer needs a host buffer")
        if block.direction is Direction.FROM_DEVICE and block.host.readonly:
            raise ControlBlockError("a transfer from the device needs a writable host buffer")
        other = block.host.nbytes
    src, dst = (device, other) if block.direction is Direction.FROM_DEVICE else (other, device)
    if not block.nests:
        if src != dst or block.src_format != block.dst_format:
            raise ControlBlockError(f"plain copy of {src} bytes to {dst} bytes")
        return
    for nest in block.nests:
        if not (len(nest.sizes) == len(nest.src_strides) == len(nest.dst_strides)):
            raise ControlBlockError(f"sizes and strides of {nest} differ in length")
        if any(size <= 0 for size in nest.sizes):
            raise ControlBlockError(f"{nest} has an empty loop")
        for strides, offset, total, width, side in (
            (nest.src_strides, nest.src_offset, src, src_bytes, "source"),
            (nest.dst_strides, nest.dst_offset, dst, dst_bytes, "destination"),
        ):
            low, high = nest_extent(nest.sizes, strides, offset)
            if low < 0 or (high + 1) * width > total:
                raise ControlBlockError(f"{nest} leaves its {side} of {total} bytes")


def transferred_bytes(block: DmaCB) -> int:
    """Bytes of device memory that a transfer moves, zeroed padding included."""
    whole = sum(piece.size for piece in block.pieces)
    if not block.nests or block.fill_padding:
        return whole
    width = item_bytes(block.src_format if block.direction is Direction.FROM_DEVICE else block.dst_format)
    return width * sum(map(nest_elements, block.nests))


@attrs.define
class Transfer:
    """A transfer under way: its source was read when it started, its target is written by :meth:`commit`.

    ``limit``: only so many bytes arrive (fault injection).
    """

    block: DmaCB
    regions: RegionTable
    convert: Converter | None
    source: Bytes
    limit: int | None = None

    @classmethod
    def begin(cls, block: DmaCB, regions: RegionTable, converters: Converters) -> Transfer:
        """Read the source."""
        match block.direction:
            case Direction.FROM_DEVICE:
                source = regions.gather(block.pieces)
            case Direction.ON_DEVICE:
                source = regions.gather(block.src_pieces)
            case Direction.TO_DEVICE:
                assert block.host is not None
                source = np.frombuffer(block.host.cast("B"), np.uint8).copy()
        convert = None
        if block.src_format != block.dst_format:
            convert = converters[block.src_format, block.dst_format]
        return cls(block, regions, convert, source)

    def flip(self, bit: int) -> None:
        """Damage one bit of what is moved (fault injection)."""
        self.source[bit // 8 % len(self.source)] ^= 1 << bit % 8

    def commit(self) -> None:
        """Write the target."""
        block = self.block
        if block.direction is Direction.FROM_DEVICE:
            assert block.host is not None
            host = np.frombuffer(block.host.cast("B"), np.uint8)
            data = self._place(host)
            host[: len(data) if self.limit is None else self.limit] = data[: self.limit]
            return
        data = self._place(self._background())
        if self.limit is None:
            self.regions.scatter(block.pieces, data)
        elif self.limit > 0:
            before = self.regions.gather(block.pieces)
            before[: self.limit] = data[: self.limit]
            self.regions.scatter(block.pieces, before)

    def _background(self) -> Bytes:
        """What stands in the target where no nest writes: zero, or what is there."""
        block = self.block
        if not block.nests:
            return self.source
        if block.fill_padding:
            return np.zeros(sum(piece.size for piece in block.pieces), np.uint8)
        return self.regions.gather(block.pieces, blank=0)

    def _place(self, background: Bytes) -> Bytes:
        block = self.block
        if not block.nests:
            return self.source
        out = background.copy()
        elements_in = _elements(self.source, block.src_format)
        elements_out = _elements(out, block.dst_format)
        for nest in block.nests:
            values = nest_view(elements_in, nest.sizes, nest.src_strides, nest.src_offset)
            if self.convert is not None:
                values = self.convert(values)
            nest_view(elements_out, nest.sizes, nest.dst_strides, nest.dst_offset)[...] = values
        return out


def _elements(data: Bytes, dtype: str) -> np.ndarray[Any, Any]:
    """A byte buffer as raw elements; a ragged end is left out."""
    raw = RAW[item_bytes(dtype)]
    return data[: len(data) // raw.itemsize * raw.itemsize].view(raw)


def _narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (values & np.uint64(0xFFFFFFFF)).astype("<u4")


def _widen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.view("<i4").astype("<i8").view("<u8")


INTEGER_CONVERTERS: Final[Converters] = {("int64", "int32"): _narrow, ("int32", "int64"): _widen}
"""Conversions that need no knowledge of number formats."""
