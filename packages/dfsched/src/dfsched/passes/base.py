"""What a pass is."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import field, frozen

from dfsched.architecture import Architecture
from dfsched.options import Options
from ktir.errors import Diagnostic
from ktir.location import Location

if TYPE_CHECKING:
    from ktir.dialects.builtin import Module

__all__ = ["Group", "Pass", "PassContext"]


class Group(enum.Enum):
    """The groups of the pipeline; at the border after each one a contract holds (scheduler spec 2.3)."""

    DRIVER = "driver"
    FRONTEND = "frontend"
    SCHEDULER = "scheduler"
    BACKEND = "backend"


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


@frozen
class Pass:
    """One step: a pure function from module to module, with its name, group and a line of help."""

    name: str
    group: Group
    run: Callable[[Module, PassContext], Module]
    summary: str
