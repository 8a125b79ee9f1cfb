"""How errors reach the user: ``file:line:col: error: message``, the source line, and a caret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import ktir
from dfsched.codegen.errors import CodegenError
from dfsched.contracts import ContractError
from dfsched.errors import ArchitectureError, DeviceNotFound, DfschedError, InvalidSetting, PatternError
from dfsched.passes.errors import ScheduleError, UnknownPass
from ktir.errors import Diagnostic
from ktir.location import Location

__all__ = ["report", "reported"]


def _excerpt(file: str, line: int, column: int) -> str:
    """The source line with a caret below the column; empty if the file cannot be read."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1]
    blanks = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    return f"\n{text}\n{blanks}^"


def _at(location: Location | None) -> str:
    where = None if location is None else location.file_line_column()
    return "" if where is None else _excerpt(*where)


def _text(error: Exception) -> str:
    match error:
        case ktir.ParseError():
            return f"{error}{_excerpt(error.file, error.line, error.column)}"
        case ktir.VerifyError() | ScheduleError() | ContractError() | CodegenError():
            return "\n".join(f"{d}{_at(d.location)}" for d in error.diagnostics)
        case ArchitectureError(location=location) | PatternError(location=location) if location is not None:
            return f"{error}{_at(location)}"
        case _:
            return str(Diagnostic(str(error)))


def report(error: Exception) -> None:
    """Write one error to stderr."""
    click.echo(_text(error), err=True)


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors of the input into a message and exit code 1, errors of the call into exit code 2."""
    try:
        yield
    except (DeviceNotFound, UnknownPass, InvalidSetting) as error:
        report(error)
        raise SystemExit(2) from error
    except (ktir.KtirError, DfschedError, OSError, UnicodeDecodeError) as error:
        report(error)
        raise SystemExit(1) from error
