"""How errors reach the user: ``file:line:col: error: message``, the source line, and a caret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

import ktir
from dfsched.codegen.errors import CodegenError
from dfsched.contracts import ContractError
from dfsched.errors import ArchitectureError, DeviceNotFound, DfschedError, InvalidSetting, PatternError
from dfsched.passes.errors import ScheduleError, UnknownPass
from dfsched.recognition import WrongKind
from ktir.errors import Diagnostic
from ktir.reporting import diagnostics_of, render, source_of

__all__ = ["report", "reported"]


def _diagnostics(error: Exception) -> tuple[Diagnostic, ...]:
    match error:
        case ktir.KtirError():
            return diagnostics_of(error)
        case (
            ScheduleError()
            | ContractError()
            | CodegenError()
            | ArchitectureError()
            | PatternError()
            | WrongKind()
        ):
            return error.diagnostics
        case _:
            return (Diagnostic(str(error)),)


def report(error: Exception) -> None:
    """Write one error to stderr."""
    for diagnostic in _diagnostics(error):
        click.echo(render(diagnostic, source_of(diagnostic.location)), err=True)


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
