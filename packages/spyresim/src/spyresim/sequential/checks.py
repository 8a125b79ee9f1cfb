"""What an interpreter lets pass, and what it takes for a fault (ktir spec 4.5, 4.6)."""

from __future__ import annotations

import enum

import attrs

__all__ = ["STRICT", "Checks", "OutOfRange", "Unwritten"]


class OutOfRange(enum.StrEnum):
    """Coordinates behind the end of a view, or in no part of a distributed one; negative ones are faults."""

    ERROR = "error"
    ZERO = "zero"
    """Reads give zero, writes are dropped."""


class Unwritten(enum.StrEnum):
    """Reading memory that nobody has written."""

    ERROR = "error"
    FILL = "fill"
    """Reads give the fill byte 0xCD."""


@attrs.frozen
class Checks:
    """`scratchpad`: whether live tensors and pinned views must fit into each scratchpad together."""

    out_of_range: OutOfRange = attrs.field(default=OutOfRange.ERROR, converter=OutOfRange)
    unwritten: Unwritten = attrs.field(default=Unwritten.ERROR, converter=Unwritten)
    scratchpad: bool = False


STRICT = Checks()
"""The default: everything is a fault, but scratchpads may hold any number of tensors."""
