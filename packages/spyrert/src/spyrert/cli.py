"""The command ``spyrert``: look at, check and pack SpyreCode artefacts.

Exit codes: 0 good, 1 the input is bad, 2 the call is bad. Diagnostics go to stderr as
``file:line:column: error: message`` with the source line and a caret.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from spyrert.errors import SpyreCodeDigestError, SpyreCodeError, SpyreCodeParseError, SpyreError
from spyrert.inspection import describe, print_description
from spyrert.spyrecode import SpyreCode, pack
from spyrert.spyrecode.locate import Place, locate, place


@contextmanager
def _diagnostics() -> Iterator[None]:
    """Print warnings, and errors of the artefact, with their place; end with exit code 1."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            click.echo(f"warning: {warning.message}", err=True)
    except SpyreCodeError as error:
        where = _place(error)
        prefix = error.path or "spyrecode"
        if where is not None:
            prefix += f":{where.line}:{where.column}"
        click.echo(f"{prefix}: error: {error.reason}", err=True)
        if where is not None:
            click.echo(where.caret(), err=True)
        sys.exit(1)
    except SpyreError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _place(error: SpyreCodeError) -> Place | None:
    """Where in its file an error is, if the file can be read."""
    path = Path(error.path)
    if not path.is_file() or path.suffix != ".json":
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if isinstance(error, SpyreCodeParseError):
        try:
            json.loads(text)
        except json.JSONDecodeError as cause:
            return place(text, cause.pos)
        except (ValueError, RecursionError):
            return None
        return None
    if isinstance(error, SpyreCodeDigestError) and not error.pointer:
        return None
    try:
        return locate(text, error.pointer)
    except (ValueError, IndexError):
        return None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spyrert")
def main() -> None:
    """Look at, check and pack SpyreCode artefacts."""


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--verify",
    type=click.Choice(["full", "size", "none"]),
    default="full",
    show_default=True,
    help="How much of the digests to check.",
)
@click.option("--lenient", is_flag=True, help="Accept numbers that are not decimal strings (version 0).")
def inspect(directory: Path, as_json: bool, verify: str, lenient: bool) -> None:
    """Validate the artefact in DIRECTORY (a kernel folder, a spyreCodeDir or a zip file) and describe it."""
    with _diagnostics():
        code = SpyreCode.read(directory, verify=verify, lenient=lenient)
        if verify == "full":
            code.validate()
        if as_json:
            click.echo(json.dumps(describe(code), indent=2))
        else:
            print_description(code, Console(width=None if sys.stdout.isatty() else 120))


@main.command("pack")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
def pack_command(directory: Path, output: Path) -> None:
    """Write the artefact in DIRECTORY as the zip file OUTPUT."""
    with _diagnostics():
        click.echo(pack(SpyreCode.read(directory), output))


@main.command()
@click.argument("archive", type=click.Path(path_type=Path))
@click.argument("directory", type=click.Path(path_type=Path))
def unpack(archive: Path, directory: Path) -> None:
    """Write the artefact of the zip file ARCHIVE into DIRECTORY."""
    with _diagnostics():
        click.echo(SpyreCode.read(archive).write(directory))


if __name__ == "__main__":
    main()
