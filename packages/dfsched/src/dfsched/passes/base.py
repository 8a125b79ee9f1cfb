"""What a pass is."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import field, frozen

from dfsched.architecture import Architecture
from dfsched.errors import InvalidSetting
from dfsched.options import Options
from ktir.errors import Diagnostic
from ktir.location import Location

if TYPE_CHECKING:
    from ktir.dialects.builtin import Module

__all__ = ["Group", "Pass", "PassContext", "Setting", "names", "numbers"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Group(enum.Enum):
    """The groups of the pipeline; at the border after each one a contract holds (scheduler spec 2.3)."""

    DRIVER = "driver"
    FRONTEND = "frontend"
    SCHEDULER = "scheduler"
    BACKEND = "backend"


def numbers(text: str) -> tuple[int, ...]:
    """Numbers with commas in between, as a value of a setting."""
    return tuple(int(part) for part in text.split(",") if part.strip())


def names(text: str) -> tuple[str, ...]:
    """Names with commas in between, as a value of a setting."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@frozen
class Setting(Generic[T_co]):
    """An option of one pass: the pass's name, its own, the default, and how to read it from text."""

    owner: str
    name: str
    default: T_co
    convert: Callable[[str], T_co] = field(eq=False)

    @property
    def key(self) -> str:
        """How `Options.settings` calls it."""
        return f"{self.owner}.{self.name}"


@frozen
class PassContext:
    """What every pass may ask: the device, the options, and where to leave remarks.

    `remarks` collects what passes had to clip or leave alone, and why; errors are raised, not collected.
    """

    architecture: Architecture
    options: Options = field(factory=Options)
    remarks: list[Diagnostic] = field(factory=list, eq=False)

    def warn(self, location: Location, message: str) -> None:
        """Leave a warning at a place."""
        self.remarks.append(Diagnostic(message, location, "warning"))

    def setting(self, setting: Setting[T]) -> T:
        """The value of an option of a pass; `InvalidSetting` if what was given is no such value."""
        given = self.options.settings.get(setting.key)
        if given is None:
            return setting.default
        try:
            return setting.convert(given)
        except ValueError:
            raise InvalidSetting(setting.key, given) from None


@frozen
class Pass:
    """One step: a pure function from module to module, with its name, group, a line of help, its options."""

    name: str
    group: Group
    run: Callable[[Module, PassContext], Module]
    summary: str
    settings: tuple[Setting[object], ...] = ()
