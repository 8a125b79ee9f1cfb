"""Diagnostics as people read them: location, message, the source line with a caret, notes.

The command lines of ktir and of the packages on top of it print through this module, so that they all look
alike: ``file:line:col: error: message``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktir.errors import Diagnostic, KtirError, Note, ParseError, VerifyError
from ktir.location import FileLineColLoc, Location


def diagnostics_of(error: KtirError) -> tuple[Diagnostic, ...]:
    """What an exception of ktir says, as located diagnostics."""
    match error:
        case VerifyError(diagnostics=diagnostics):
            return diagnostics
        case ParseError():
            location = FileLineColLoc(error.file, error.line, error.column)
            return (Diagnostic(error.message, location, notes=error.notes),)
        case _:
            message, place = getattr(error, "message", None), getattr(error, "location", None)
            if not isinstance(message, str):
                message = str(error)
            return (Diagnostic(message, place) if isinstance(place, Location) else Diagnostic(message),)


def render(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str:
    """One diagnostic with the source line and a caret where the text of the file is known.

    `sources` maps file names (as they stand in locations) to their text.
    """
    head = _head(diagnostic.location, diagnostic.severity, diagnostic.message)
    lines = [_with_caret(head, diagnostic.location, sources)]
    lines += [_note(note, diagnostic.location, sources) for note in diagnostic.notes]
    return "\n".join(lines)


def _note(note: Note, fallback: Location | None, sources: Mapping[str, str]) -> str:
    head = _head(note.location or fallback, "note", note.message)
    return head if note.location is None else _with_caret(head, note.location, sources)


def _head(location: Location | None, severity: str, message: str) -> str:
    where = None if location is None else location.file_line_column()
    prefix = "" if where is None else f"{where[0]}:{where[1]}:{where[2]}: "
    return f"{prefix}{severity}: {message}"


def _with_caret(head: str, location: Location | None, sources: Mapping[str, str]) -> str:
    where = None if location is None else location.file_line_column()
    if where is None or where[0] not in sources:
        return head
    lines = sources[where[0]].split("\n")
    if not 1 <= where[1] <= len(lines):
        return head
    line = lines[where[1] - 1].rstrip("\r")
    if not line.replace("\t", "").isprintable() or "\N{REPLACEMENT CHARACTER}" in line:
        return head  # not text: nothing to look at, and it would disturb a terminal
    pad = "".join("\t" if character == "\t" else " " for character in line[: where[2] - 1])
    return f"{head}\n{line}\n{pad}^"


def source_of(location: Location | None) -> dict[str, str]:
    """The text of the file that a location names, by its name; empty if it cannot be read."""
    where = None if location is None else location.file_line_column()
    if where is None:
        return {}
    try:
        return {where[0]: Path(where[0]).read_text(encoding="utf-8", errors="replace")}
    except (OSError, ValueError):
        return {}


def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """One diagnostic as JSON values: file, line, column (null when unknown), severity, message, notes."""
    where = None if diagnostic.location is None else diagnostic.location.file_line_column()
    file, line, column = where or (None, None, None)
    return {
        "file": file,
        "line": line,
        "column": column,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "notes": [note.message for note in diagnostic.notes],
    }
