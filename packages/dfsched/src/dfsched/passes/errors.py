"""What passes raise: located errors of dfsched's hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from attrs import define, field, frozen

from dfsched.errors import DfschedError
from ktir.errors import Diagnostic, Note
from ktir.location import Location

__all__ = ["Findings", "ScheduleError", "UnknownPass", "UnsupportedKernel"]

T = TypeVar("T")


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


@define
class Findings:
    """What is wrong with the parts that a pass looks at one by one, so that it is all told at once."""

    errors: list[ScheduleError] = field(factory=list)

    def attempt(self, change: Callable[[T], T], part: T) -> T:
        """The changed part; the part as it was if that fails, which is noted."""
        try:
            return change(part)
        except ScheduleError as error:
            self.errors.append(error)
            return part

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what the block raises, and go on behind it."""
        try:
            yield
        except ScheduleError as error:
            self.errors.append(error)

    def check(self) -> None:
        """Raise what was noted as one error, of the class that all have in common."""
        if not self.errors:
            return
        kinds = {type(error) for error in self.errors}
        kind = kinds.pop() if len(kinds) == 1 else ScheduleError
        diagnostics = [diagnostic for error in self.errors for diagnostic in error.diagnostics]
        raise kind(tuple(dict.fromkeys(diagnostics)))


@frozen(str=False)
class UnknownPass(DfschedError):
    """No pass has that name; `known` lists the names."""

    name: str
    known: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"no pass '{self.name}'; passes: {', '.join(self.known)}"
