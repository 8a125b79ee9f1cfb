"""The ``grid`` attribute of a function: its only reader (KTIR spec 1.2.2).

``grid = [4, 2]`` gives the number of compute tiles along each dimension, in integers of any type. A function
without the attribute runs as one tile.
"""

from __future__ import annotations

from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.errors import Diagnostic, KtirError
from ktir.ir import Operation
from ktir.location import Location

__all__ = ["GRID", "GridError", "grid_of"]

GRID = "grid"


class GridError(KtirError):
    """A ``grid`` that is no array of positive integers; `location` is that of the function."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(str(Diagnostic(message, location)))
        self.message = message
        self.location = location


def grid_of(function: Operation) -> tuple[int, ...] | None:
    """The extents of a function's grid (at least one, all positive), None where it has no grid.

    Raises `GridError`, whose message is the same for everyone who asks.
    """
    match function.attributes.get(GRID):
        case None:
            return None
        case ArrayAttr(elements=()):
            raise GridError("Grid must have at least one dimension", function.location)
        case ArrayAttr(elements=elements):
            return tuple(_extent(entry, function) for entry in elements)
        case other:
            raise GridError(f"the grid must be an array of integers, not {other}", function.location)


def _extent(entry: object, function: Operation) -> int:
    if not isinstance(entry, IntegerAttr):
        raise GridError("Grid size must be integer attribute", function.location)
    if entry.value <= 0:
        raise GridError(f"Grid size must be positive (got {entry.value})", function.location)
    return entry.value
