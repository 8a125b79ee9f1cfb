"""Who wrote an element of an output last."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from spyresim.arguments import Buffer
from spyresim.errors import Site

__all__ = ["Watch"]


@attrs.define
class Watch:
    """An element of an output, by its index in the host array; `writer` is filled in by a run.

    `address` is its first byte in device memory (of the level that is run), once that is known.
    """

    output: str
    index: tuple[int, ...]
    writer: Site | None = None
    address: int | None = None

    def locate(self, buffers: Iterable[Buffer]) -> Buffer | None:
        """Find the address of the element; its buffer, None if there is none."""
        for buffer in buffers:
            if buffer.name == self.output and len(self.index) == len(buffer.layout.shape):
                self.address = buffer.address + buffer.layout.offset_bytes(self.index)
                return buffer
        return None
