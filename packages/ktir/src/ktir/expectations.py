"""Test files in MLIR's style: several modules in one file, and comments that say which errors are expected.

Lines ``// -----`` divide a file into modules. A comment ``// expected-error @+1 {{text}}`` expects an error
one line below whose message contains the text; the place may also be ``@below``, ``@above``, ``@-N`` or
missing (this line). ``expected-warning`` works in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from ktir.errors import Diagnostic
from ktir.location import FileLineColLoc

__all__ = ["Expectation", "expectations", "split_source", "unmet"]

_DIVIDER = re.compile(r"^// -----[^\S\n]*$\n?", re.M)
_COMMENT = re.compile(
    r"//\s*expected-(?P<severity>error|warning)\s*(@(?P<place>below|above|[+-]\d+))?\s*\{\{(?P<text>.*?)\}\}"
)


def split_source(text: str) -> tuple[str, ...]:
    """The modules of a file; each begins with empty lines, so that line numbers are those of the file."""
    parts: list[str] = []
    start = 0
    for part in _DIVIDER.split(text):
        parts.append("\n" * start + part)
        start += part.count("\n") + 1
    return tuple(parts)


@attrs.frozen
class Expectation:
    """A comment that expects a diagnostic whose message contains `text` in `line` (from 1)."""

    severity: str
    line: int
    text: str

    def fits(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic is the expected one."""
        return (
            diagnostic.severity == self.severity
            and _line(diagnostic) == self.line
            and self.text in diagnostic.message
        )


def _line(diagnostic: Diagnostic) -> int | None:
    place = None if diagnostic.location is None else diagnostic.location.file_line_column()
    return None if place is None else place[1]


def expectations(text: str) -> tuple[Expectation, ...]:
    """What the comments of a text expect, from top to bottom."""
    found: list[Expectation] = []
    for number, line in enumerate(text.split("\n"), 1):
        for match in _COMMENT.finditer(line):
            offset = {"below": 1, "above": -1, None: 0}.get(match["place"])
            offset = int(match["place"]) if offset is None else offset
            found.append(Expectation(match["severity"], number + offset, match["text"]))
    return tuple(found)


def unmet(text: str, diagnostics: Iterable[Diagnostic], file: str = "<string>") -> tuple[Diagnostic, ...]:
    """Where diagnostics and the comments of `text` differ, as errors: unexpected ones, and missing ones.

    Every comment stands for one diagnostic. Warnings that nobody expects are left out.
    """
    open_ = list(expectations(text))
    wrong: list[Diagnostic] = []
    for diagnostic in diagnostics:
        fitting = next((e for e in open_ if e.fits(diagnostic)), None)
        if fitting is not None:
            open_.remove(fitting)
        elif diagnostic.severity == "error":
            message = f"unexpected error: {diagnostic.message}"
            wrong.append(attrs.evolve(diagnostic, message=message, severity="error"))
    for missing in open_:
        message = f'expected {missing.severity} "{missing.text}" was not produced'
        wrong.append(Diagnostic(message, FileLineColLoc(file, missing.line, 1)))
    return tuple(wrong)
