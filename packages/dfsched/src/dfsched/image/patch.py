"""Binding an image's symbols to their values."""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.image.model import Image

__all__ = ["patch"]


def patch(image: Image, values: Sequence[int | None]) -> tuple[int, ...]:
    """The cells of `image` with every relocated one filled; the image itself stays as it is.

    `values[slot]` is the value of `image.symbols[slot]`, already in the symbol's unit.  ValueError
    ``unresolved symbol <id>`` if a slot has no value.  Patching again with other values equals patching
    a fresh image.
    """
    cells = list(image.cells)
    for relocation in image.relocations:
        value = values[relocation.slot] if relocation.slot < len(values) else None
        if value is None:
            raise ValueError(f"unresolved symbol {image.symbols[relocation.slot].id}")
        cells[relocation.cell] = value
    return tuple(cells)
