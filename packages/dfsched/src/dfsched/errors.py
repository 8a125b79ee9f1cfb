"""Exceptions of dfsched: one hierarchy, with structured fields."""

from __future__ import annotations

from types import NoneType

from attrs import evolve, field, frozen

from ktir.errors import Diagnostic, Note
from ktir.location import Location

__all__ = [
    "AddressError",
    "ArchitectureError",
    "CallError",
    "DeviceNotFound",
    "DfschedError",
    "InvalidSetting",
    "PatternError",
    "RouteError",
    "UnsupportedDevice",
    "placed",
    "require",
]


class DfschedError(Exception):
    """Base of every error that dfsched raises for bad input or for what is not built."""


@frozen(str=False)
class CallError(DfschedError, TypeError):
    """A function of dfsched is called with something else than it takes.

    ``function`` and ``argument`` name what was called, ``expected`` what it takes, ``got`` what it was given.
    """

    function: str
    argument: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.function}: '{self.argument}' must be {self.expected}, not {self.got}"


def require(function: str, argument: str, value: object, *classes: type) -> None:
    """`CallError` unless a value is of one of the classes."""
    if not isinstance(value, classes):
        names = ["None" if c is NoneType else c.__name__ for c in classes]
        raise CallError(function, argument, " or ".join(names), type(value).__name__)


def placed(diagnostics: tuple[Diagnostic, ...], location: Location) -> tuple[Diagnostic, ...]:
    """Findings, those without a place at the one given."""
    return tuple(d if _has_place(d) else evolve(d, location=location) for d in diagnostics)


def _has_place(diagnostic: Diagnostic) -> bool:
    return diagnostic.location is not None and diagnostic.location.file_line_column() is not None


@frozen(str=False)
class ArchitectureError(DfschedError):
    """A device description is inconsistent or does not have what was asked of it.

    ``resource`` names the place in the device (kind or id), ``location`` the place in the text, where there
    is one.
    """

    message: str
    resource: str | None = None
    location: Location | None = None
    notes: tuple[Note, ...] = ()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong, at its place."""
        message = self.message if self.resource is None else f"{self.message} (at {self.resource})"
        return (Diagnostic(message, self.location, notes=self.notes),)

    def __str__(self) -> str:
        (found,) = self.diagnostics
        return found.message if self.location is None else str(found)


@frozen(str=False)
class DeviceNotFound(DfschedError):
    """No package device and no file of that name; ``known`` lists the package devices."""

    name: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = f"; package devices: {', '.join(self.known)}" if self.known else ""
        return f"no device '{self.name}': neither a package device nor a file{hint}"


@frozen(str=False)
class UnsupportedDevice(DfschedError):
    """The description is legal, but a view of it is asked for that dfsched does not build."""

    what: str
    resource: str | None = None

    def __str__(self) -> str:
        place = "" if self.resource is None else f" (at {self.resource})"
        return f"unsupported: {self.what}{place}"


@frozen(str=False)
class RouteError(DfschedError):
    """There is no route between two resources, or it cannot be driven by units."""

    source: str
    target: str
    reason: str

    def __str__(self) -> str:
        return f"no route from {self.source} to {self.target}: {self.reason}"


@frozen(str=False)
class AddressError(DfschedError):
    """A buffer does not fit into its memory; all sizes are bytes."""

    memory: str
    size_bytes: int
    alignment_bytes: int
    capacity_bytes: int | None
    allocated_bytes: int = field(default=0)

    def __str__(self) -> str:
        if self.capacity_bytes is None:
            return f"cannot allocate {self.size_bytes} bytes in {self.memory}: the memory has no size"
        return (
            f"cannot allocate {self.size_bytes} bytes aligned to {self.alignment_bytes} in {self.memory}: "
            f"capacity {self.capacity_bytes} bytes, {self.allocated_bytes} bytes already allocated"
        )


@frozen(str=False)
class PatternError(DfschedError):
    """A device pattern cannot be compiled, or a set of patterns does not come to an end."""

    message: str
    location: Location | None = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong, at its place."""
        return (Diagnostic(self.message, self.location),)

    def __str__(self) -> str:
        return self.message if self.location is None else str(*self.diagnostics)


@frozen(str=False)
class InvalidSetting(DfschedError):
    """An option of a pass does not exist, or cannot have that value; ``known`` lists the options."""

    name: str
    value: str
    known: tuple[str, ...] | None = None

    def __str__(self) -> str:
        if self.known is None:
            return f"'{self.value}' is no value of the pass option '{self.name}'"
        return f"no pass option '{self.name}'; options: {', '.join(self.known)}"
