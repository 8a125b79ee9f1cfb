"""`dfsched disasm`: what is inside a SpyreCode artefact."""

from __future__ import annotations

from pathlib import Path

import click

from dfsched.codegen.inspect import disassemble
from dfsched.commands.diagnostics import report, reported
from dfsched.recognition import kind_of_path
from ktir.recognition import ARTEFACT, KERNEL
from spyrert.errors import SpyreError

__all__ = ["disasm"]


@click.command("disasm")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
def disasm(path: Path) -> None:
    """Print the device image of a SpyreCode folder (or .spyrecode file): units, symbols, code."""
    with reported():
        try:
            click.echo(disassemble(path), nl=False)
        except SpyreError as error:
            report(error)
            kind = kind_of_path(path)
            if kind not in (None, KERNEL, ARTEFACT):
                click.echo(f"{path}: note: {kind.instead_of(ARTEFACT.name)}", err=True)
            raise SystemExit(1) from error
