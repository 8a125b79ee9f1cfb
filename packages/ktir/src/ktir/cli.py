"""The command line: ``ktir check``, ``fmt``, ``stats`` and ``graph``.

Exit codes: 0 good, 1 the input is bad, 2 the call is bad.  Diagnostics go to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from ktir import __version__
from ktir.context import Context
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.errors import Diagnostic, KtirError
from ktir.expectations import split_source, unmet
from ktir.ir import Operation, symbol_name
from ktir.levels import Level, levels_of
from ktir.levels import check as check_module
from ktir.parser import parse
from ktir.printer import print_module
from ktir.recognition import decoded, read_text, recognise
from ktir.reporting import diagnostics_of, render, to_json
from ktir.verifier import verify

if TYPE_CHECKING:
    from ktir.statistics import ModuleStatistics

STDIN = "<stdin>"


def read_source(path: str) -> tuple[str, str]:
    """Name and text of a file, ``-`` for standard input.

    Raises `click.UsageError` (exit code 2) if there is no such file, `ParseError` if it is not MLIR text.
    """
    if path == "-":
        return STDIN, decoded(sys.stdin.buffer.read(), STDIN)
    if Path(path).is_dir() and (kind := recognise(path)) is not None:
        raise click.UsageError(f"cannot read '{path}': {kind.instead_of('MLIR text')}")
    try:
        return path, read_text(path)
    except OSError as error:
        raise click.UsageError(f"cannot read '{path}': {error.strerror}") from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ktir")
def main() -> None:
    """Read, check and print Kernel Tile IR (MLIR text)."""


def _levels(context: click.Context, parameter: click.Parameter, value: str) -> tuple[Level, ...]:
    try:
        return levels_of(value)
    except KtirError as error:
        raise click.BadParameter(str(error)) from error


@attrs.frozen
class _Checking:
    """How ``check`` looks at files."""

    context: Context
    levels: tuple[Level, ...]
    strict: bool
    split: bool
    expected: bool

    def file(self, path: str, sources: dict[str, str]) -> tuple[Diagnostic, ...]:
        """Everything wrong with a file; `sources` gets its text."""
        try:
            name, text = read_source(path)
        except KtirError as error:
            return diagnostics_of(error)
        sources[name] = text
        parts = split_source(text) if self.split else (text,)
        return tuple(diagnostic for part in parts for diagnostic in self._part(part, name))

    def _part(self, text: str, name: str) -> tuple[Diagnostic, ...]:
        try:
            found = check_module(parse(text, self.context, name), self.levels, strict=self.strict)
        except KtirError as error:
            found = diagnostics_of(error)
        return unmet(text, found, name) if self.expected else found


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--level",
    "levels",
    default="V",
    show_default=True,
    metavar="LETTERS",
    callback=_levels,
    help="What to check, one or more of: P (parse), V (verify), L (legality of the module), S (strict: "
    "extents, ranks, element types, grids; warnings), D (what the first scheduler version takes).",
)
@click.option("--strict", is_flag=True, help="Findings of level S are errors; implies level S.")
@click.option("--proposed", is_flag=True, help="Accept proposed inter-tile deliveries.")
@click.option("--lenient", is_flag=True, help="Accept memory views without a coordinate_set.")
@click.option(
    "--split-input-file", "split", is_flag=True, help="Lines '// -----' divide a FILE into several modules."
)
@click.option(
    "--verify-diagnostics",
    "expected",
    is_flag=True,
    help="Compare with comments '// expected-error @+1 {{text}}': an error is what they do not say.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the diagnostics as a JSON list on stdout.")
def check(
    files: tuple[str, ...],
    levels: tuple[Level, ...],
    strict: bool,
    proposed: bool,
    lenient: bool,
    split: bool,
    expected: bool,
    as_json: bool,
) -> None:
    """Parse and verify each FILE ('-' is standard input)."""
    wanted = (*levels, Level.STRICT) if strict else levels
    with _diagnosed():
        context = Context(proposed=proposed, lenient=lenient)
    checking = _Checking(context, wanted, strict, split, expected)
    sources: dict[str, str] = {}
    found = [diagnostic for path in files for diagnostic in checking.file(path, sources)]
    if as_json:
        click.echo(json.dumps([to_json(diagnostic) for diagnostic in found], indent=2))
    else:
        for diagnostic in found:
            click.echo(render(diagnostic, sources), err=True)
    if any(diagnostic.severity == "error" for diagnostic in found):
        sys.exit(1)


@contextmanager
def _diagnosed() -> Iterator[dict[str, str]]:
    """Prints the diagnostics of an error of ktir and ends with exit code 1.

    Gives a table for the texts of files, by name, so that the diagnostics can show the line.
    """
    sources: dict[str, str] = {}
    try:
        yield sources
    except KtirError as error:
        for diagnostic in diagnostics_of(error):
            click.echo(render(diagnostic, sources), err=True)
        sys.exit(1)


def _read(path: str, sources: dict[str, str], proposed: bool = False) -> Module:
    name, text = read_source(path)
    sources[name] = text
    return parse(text, Context(proposed=proposed), name)


@main.command()
@click.argument("file", metavar="FILE")
@click.option("--generic", is_flag=True, help="Print every operation in generic form.")
@click.option("--locations", is_flag=True, help="Print the location of every operation.")
@click.option("--keep-names", is_flag=True, help="Keep the names of values as in FILE where possible.")
@click.option("--proposed", is_flag=True, help="Accept proposed inter-tile deliveries.")
def fmt(file: str, generic: bool, locations: bool, keep_names: bool, proposed: bool) -> None:
    """Print the canonical text of FILE ('-' is standard input).  FILE is parsed, not verified."""
    with _diagnosed() as sources:
        module = _read(file, sources, proposed)
        names = "source" if keep_names else "canonical"
        text = print_module(module, generic, locations=locations, names=names)
    click.echo(text, nl=False)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, one entry a FILE, on stdout.")
def stats(files: tuple[str, ...], as_json: bool) -> None:
    """Count operations by dialect, and the bytes that one compute tile loads and stores.

    Each FILE ('-' is standard input) is verified first.  Nothing is run: where a branch or the number of a
    loop's iterations is known only at run time, the count is a range.
    """
    from ktir.statistics import statistics
    from ktir.statistics import to_json as counts_json

    counted = []
    for path in files:
        with _diagnosed() as sources:
            module = _read(path, sources)
            verify(module)
            counted.append((STDIN if path == "-" else path, statistics(module)))
    if as_json:
        click.echo(json.dumps([{"file": name, **counts_json(found)} for name, found in counted], indent=2))
        return
    for name, found in counted:
        _print_statistics(name, found)


def _print_statistics(name: str, found: ModuleStatistics) -> None:
    click.echo(f"{name}: {sum(found.operations.values())} operations ({_listed(found.operations)})")
    for function in found.functions:
        grid = "none" if function.grid is None else " x ".join(map(str, function.grid))
        click.echo(f"  @{function.name}")
        click.echo(f"    grid: {grid}")
        click.echo(f"    operations: {_listed(function.operations)}")
        click.echo(f"    bytes loaded per tile: {_listed(function.traffic.loaded) or 0}")
        click.echo(f"    bytes stored per tile: {_listed(function.traffic.stored) or 0}")


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


@main.command()
@click.argument("file", metavar="FILE")
@click.option("--function", metavar="NAME", help="Draw only this function.")
def graph(file: str, function: str | None) -> None:
    """Print the def-use graph of FILE ('-' is standard input) for Graphviz: ktir graph k.mlir | dot -Tsvg.

    FILE is parsed, not verified.
    """
    from ktir.drawing import dot

    with _diagnosed() as sources:
        module = _read(file, sources)
    root: Operation | None = module
    if function is not None:
        named = (op for op in module.walk() if isinstance(op, Func) and symbol_name(op) == function)
        root = next(named, None)
    if root is None:
        raise click.UsageError(f"'{file}' has no function '{function}'")
    click.echo(dot(root), nl=False)
