"""Source locations (MLIR builtin locations), kept on every operation for diagnostics."""

from __future__ import annotations

import attrs

from ktir.attribute import Attribute


@attrs.frozen
class Location(Attribute):
    """Base of all locations."""

    def file_line_column(self) -> tuple[str, int, int] | None:
        """The file position that this location stands for, or None if it names none."""
        return None


@attrs.frozen
class UnknownLoc(Location):
    """``loc(unknown)``."""


@attrs.frozen
class FileLineColLoc(Location):
    """``loc("file":line:column)``; line and column are 1-based."""

    file: str
    line: int
    column: int

    def file_line_column(self) -> tuple[str, int, int] | None:
        return (self.file, self.line, self.column)


@attrs.frozen
class FileRangeLoc(FileLineColLoc):
    """``loc("file":line:column to end_line:end_column)``, as recent MLIR prints a range of source text."""

    end_line: int
    end_column: int


@attrs.frozen
class NameLoc(Location):
    """``loc("name"(child))``."""

    name: str
    child: Location

    def file_line_column(self) -> tuple[str, int, int] | None:
        return self.child.file_line_column()


@attrs.frozen
class CallSiteLoc(Location):
    """``loc(callsite(callee at caller))``."""

    callee: Location
    caller: Location

    def file_line_column(self) -> tuple[str, int, int] | None:
        return self.callee.file_line_column() or self.caller.file_line_column()


@attrs.frozen
class FusedLoc(Location):
    """``loc(fused<metadata>[a, b])``."""

    locations: tuple[Location, ...]
    metadata: Attribute | None = None

    def file_line_column(self) -> tuple[str, int, int] | None:
        for location in self.locations:
            if (where := location.file_line_column()) is not None:
                return where
        return None


UNKNOWN = UnknownLoc()
