"""What the back-end passes raise."""

from __future__ import annotations

from attrs import frozen

from dfsched.passes.errors import ScheduleError

__all__ = ["LoweringError", "UnsupportedLowering"]


@frozen(str=False)
class LoweringError(ScheduleError):
    """A scheduled program cannot be lowered; `diagnostics` says why and where."""


@frozen(str=False)
class UnsupportedLowering(LoweringError):
    """Legal, but not built; the message names what is missing."""
