"""The command line: ``ktir check`` and ``ktir fmt``.

Exit codes: 0 good, 1 the input is bad, 2 the call is bad.  Diagnostics go to stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ktir import __version__
from ktir.context import Context
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic, KtirError, ParseError
from ktir.parser import parse
from ktir.printer import print_module
from ktir.reporting import diagnostics_of, render, to_json
from ktir.verifier import collect

STDIN = "<stdin>"


def read_source(path: str) -> tuple[str, str]:
    """Name and text of a file, ``-`` for standard input.

    Raises `click.UsageError` (exit code 2) if there is no such file, `ParseError` if it is not UTF-8 text.
    """
    if path == "-":
        name, data = STDIN, sys.stdin.buffer.read()
    else:
        name = path
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise click.UsageError(f"cannot read '{path}': {error.strerror}") from error
    try:
        return name, data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ParseError(f"not UTF-8 text: {error.reason}", name, line, 1) from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ktir")
def main() -> None:
    """Read, check and print Kernel Tile IR (MLIR text)."""


def _check_one(path: str, context: Context, sources: dict[str, str]) -> tuple[Diagnostic, ...]:
    try:
        name, text = read_source(path)
        sources[name] = text
        return collect(parse(text, context, name))
    except KtirError as error:
        return diagnostics_of(error)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as a JSON list on stdout.")
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Parse and verify each FILE ('-' is standard input)."""
    context = Context()
    sources: dict[str, str] = {}
    found = [diagnostic for path in files for diagnostic in _check_one(path, context, sources)]
    if as_json:
        click.echo(json.dumps([to_json(diagnostic) for diagnostic in found], indent=2))
    else:
        for diagnostic in found:
            click.echo(render(diagnostic, sources), err=True)
    if any(diagnostic.severity == "error" for diagnostic in found):
        sys.exit(1)


def _parse_or_exit(path: str) -> Module:
    sources: dict[str, str] = {}
    try:
        name, text = read_source(path)
        sources[name] = text
        return parse(text, Context(), name)
    except KtirError as error:
        for diagnostic in diagnostics_of(error):
            click.echo(render(diagnostic, sources), err=True)
        sys.exit(1)


@main.command()
@click.argument("file", metavar="FILE")
@click.option("--generic", is_flag=True, help="Print every operation in generic form.")
@click.option("--locations", is_flag=True, help="Print the location of every operation.")
@click.option("--keep-names", is_flag=True, help="Keep the names of values as in FILE where possible.")
def fmt(file: str, generic: bool, locations: bool, keep_names: bool) -> None:
    """Print the canonical text of FILE ('-' is standard input).  FILE is parsed, not verified."""
    module = _parse_or_exit(file)
    names = "source" if keep_names else "canonical"
    click.echo(print_module(module, generic, locations=locations, names=names), nl=False)
