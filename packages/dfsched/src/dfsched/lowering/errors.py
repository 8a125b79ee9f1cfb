"""What the back-end passes raise."""

from __future__ import annotations

from attrs import frozen

from dfsched.errors import DfschedError
from ktir.errors import Diagnostic
from ktir.location import Location

__all__ = ["LoweringError", "UnsupportedLowering"]


@frozen(str=False)
class LoweringError(DfschedError):
    """A program cannot be lowered; `diagnostics` says why and where."""

    diagnostics: tuple[Diagnostic, ...]

    @classmethod
    def at(cls, location: Location, message: str) -> LoweringError:
        """One finding at one place."""
        return cls((Diagnostic(message, location),))

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


@frozen(str=False)
class UnsupportedLowering(LoweringError):
    """Legal, but not built; the message names what is missing."""
