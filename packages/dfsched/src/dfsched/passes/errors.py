"""What passes raise: located errors of dfsched's hierarchy."""

from __future__ import annotations

from attrs import field, frozen

from dfsched.errors import DfschedError
from ktir.errors import Diagnostic, Note
from ktir.location import Location

__all__ = ["ScheduleError", "UnknownPass", "UnsupportedKernel"]


@frozen(str=False)
class ScheduleError(DfschedError):
    """A program cannot be scheduled; `diagnostics` says why and where, in program order."""

    diagnostics: tuple[Diagnostic, ...]

    @classmethod
    def at(cls, location: Location, message: str, *notes: Note) -> ScheduleError:
        """One finding at one place."""
        return cls((Diagnostic(message, location, notes=notes),))

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


@frozen(str=False)
class UnsupportedKernel(ScheduleError):
    """The kernel is legal, but uses something that is not built."""


@frozen(str=False)
class UnknownPass(DfschedError):
    """No pass has that name; `known` lists the names."""

    name: str
    known: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"no pass '{self.name}'; passes: {', '.join(self.known)}"
