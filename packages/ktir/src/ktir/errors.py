"""Diagnostics and the exception hierarchy of ktir.

Every error that a user can cause is a `KtirError`.  The text form of a located diagnostic is
``<file>:<line>:<col>: error: <message>`` (ktir spec 0.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from ktir.location import Location


@attrs.frozen
class Note:
    """A remark attached to a diagnostic: what would be right, or where the other party stands."""

    message: str
    location: Location | None = None


@attrs.frozen
class Diagnostic:
    """One finding: `severity` is ``"error"`` or ``"warning"``; `message` has no location prefix."""

    message: str
    location: Location | None = None
    severity: str = "error"
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [_line(self.location, self.severity, self.message)]
        lines += [_line(note.location or self.location, "note", note.message) for note in self.notes]
        return "\n".join(lines)


def finding(message: str, *notes: str) -> Diagnostic:
    """What a rule finds wrong with an operation, and what would be right.

    It has no place: the verifier adds that of the operation, and its name in front of the message.
    """
    return Diagnostic(message, notes=tuple(Note(note) for note in notes))


def _line(location: Location | None, severity: str, message: str) -> str:
    where = location.file_line_column() if location is not None else None
    prefix = "" if where is None else f"{where[0]}:{where[1]}:{where[2]}: "
    return f"{prefix}{severity}: {message}"


class KtirError(Exception):
    """Base of every exception that ktir raises on purpose."""


class ParseError(KtirError):
    """Text is not valid.

    `file`, `line` (1-based), `column` (1-based) name the place; `source_line` is the text of that line
    (empty when unknown) so that a command line can show a caret.
    """

    def __init__(
        self,
        message: str,
        file: str = "<string>",
        line: int = 1,
        column: int = 1,
        source_line: str = "",
        notes: tuple[Note, ...] = (),
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.source_line = source_line
        self.notes = notes
        super().__init__(f"{file}:{line}:{column}: error: {message}")


class VerifyError(KtirError):
    """IR breaks one or more rules; `diagnostics` lists all of them in program order."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(str(d) for d in diagnostics))


class UnsupportedError(KtirError):
    """Something valid that this version does not do; the message names it and, if known, the place."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        self.message = message
        self.location = location
        super().__init__(str(Diagnostic(message, location)))


class DeclarationError(KtirError, ValueError):
    """An operation class or a dialect is declared wrongly; `subject` is its name."""

    def __init__(self, subject: str, message: str) -> None:
        self.subject = subject
        super().__init__(f"{subject}: {message}")


class TypeQueryError(KtirError, ValueError):
    """A type is asked for what it does not have: the elements of a dynamic shape, the width of a token.

    So are operations for sizes that only the run knows.
    """


class RewriteLimitError(KtirError):
    """A rewrite driver did not reach a fixed point within its bound; `limit` is the bound that was hit."""

    def __init__(self, message: str, limit: int) -> None:
        self.limit = limit
        super().__init__(message)
