"""The command ``spyrert``: look at, check and pack SpyreCode artefacts.

Exit codes: 0 good, 1 the input is bad, 2 the call is bad. Diagnostics go to stderr as ``file:line:column:
error: message`` with the source line and a caret.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs
import click
import numpy as np
from rich.console import Console

from spyrert import verification
from spyrert.command_line import OutputFile, OutputFolder, note_on
from spyrert.device.protocol import Device, DeviceFactory, missing_members
from spyrert.errors import (
    LaunchSpecError,
    SpyreCodeDigestError,
    SpyreCodeError,
    SpyreCodeNotFound,
    SpyreCodeParseError,
    SpyreError,
)
from spyrert.inspection import describe, print_description
from spyrert.runtime import Runtime
from spyrert.runtime.devices import factory_by_index
from spyrert.spyrecode import LaunchSpec, SpyreCode, pack
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
        if isinstance(error, SpyreCodeNotFound) and (note := note_on(Path(error.path))):
            click.echo(f"{error.path}: note: {note}", err=True)
        sys.exit(1)
    except SpyreError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A `path` that cannot be written is an error that names it; ends with exit code 1."""
    try:
        yield
    except OSError as error:
        click.echo(f"error: cannot write '{path}': {error.strerror}", err=True)
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
@click.argument("output", type=OutputFile())
def pack_command(directory: Path, output: Path) -> None:
    """Write the artefact in DIRECTORY as the zip file OUTPUT."""
    with _diagnostics():
        code = SpyreCode.read(directory)
        with _writing(output):
            click.echo(pack(code, output))


@main.command()
@click.argument("archive", type=click.Path(path_type=Path))
@click.argument("directory", type=OutputFolder())
def unpack(archive: Path, directory: Path) -> None:
    """Write the artefact of the zip file ARCHIVE into DIRECTORY."""
    with _diagnostics():
        code = SpyreCode.read(archive)
        with _writing(directory):
            click.echo(code.write(directory))


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Values of an input, in order.",
)
@click.option(
    "-o",
    "--expected",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Expected values of an output, in order.",
)
@click.option(
    "--bind", "bindings", multiple=True, metavar="NAME=VALUE", help="Value of a scalar or symbolic size."
)
@click.option("--rtol", type=float, help="Relative tolerance.")
@click.option("--atol", type=float, help="Absolute tolerance.")
@click.option("--exact", is_flag=True, help="Compare bit for bit.")
@click.option("--save-output", type=OutputFolder(), help="Folder for the outputs as .npy.")
@click.option(
    "--device",
    default="spyrert:MicroDevice",
    show_default=True,
    metavar="MODULE:NAME",
    help="What makes the device.",
)
def verify(
    directory: Path,
    inputs: tuple[Path, ...],
    expected: tuple[Path, ...],
    bindings: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    exact: bool,
    save_output: Path | None,
    device: str,
) -> None:
    """Launch the kernel in DIRECTORY with values and compare its outputs.

    Without -i and -o the values recorded in DIRECTORY/verify are used.
    """
    bound = dict(_binding(text) for text in bindings)
    factory = _factory(device)
    with _diagnostics():
        code = SpyreCode.read(directory)
        if code.launch is None:
            raise LaunchSpecError(
                "an artefact without launch contract cannot be verified", path=str(directory)
            )
        _check_names(bound, code.launch)
        args = list(enumerate(code.launch.args))
        if not inputs and not expected:
            values = verification.recorded(directory, code.launch)
            values = attrs.evolve(values, bindings={**values.bindings, **bound})
        else:
            reading = [(k, arg) for k, arg in args if arg.role.reads]
            writing = [(k, arg) for k, arg in args if arg.role.writes]
            for given, wanted, what in ((inputs, reading, "inputs"), (expected, writing, "outputs")):
                if len(given) != len(wanted):
                    raise LaunchSpecError(
                        f"{len(wanted)} {what}, got {len(given)} files", path=str(directory)
                    )
            load = verification.load_tensor_for_arg
            values = verification.Values(
                {k: load(path, arg, bound) for (k, arg), path in zip(reading, inputs, strict=True)},
                {k: load(path, arg, bound) for (k, arg), path in zip(writing, expected, strict=True)},
                bound,
            )
        with Runtime(factory) as runtime:
            outputs, problems = verification.verify(runtime, code, values, rtol, atol, exact)
        if save_output is not None:
            with _writing(save_output):
                save_output.mkdir(parents=True, exist_ok=True)
                for index, array in outputs.items():
                    np.save(save_output / f"output{index}.npy", array)
        for problem in problems:
            click.echo(f"{directory}: error: {problem}", err=True)
        if problems:
            sys.exit(1)
        click.echo(f"{code.kernel_name}: {len(outputs)} outputs agree")


def _binding(text: str) -> tuple[str, int | float]:
    name, _, value = text.partition("=")
    for read in (lambda t: int(t, 0), float):
        try:
            number: int | float = read(value)
        except ValueError:
            continue
        if name:
            return name, number
    raise click.UsageError(f"--bind takes NAME=VALUE, not {text!r}")


def _check_names(bound: Mapping[str, object], launch: LaunchSpec) -> None:
    """`click.UsageError` for a name that the kernel does not bind."""
    for name in bound:
        if launch.symbol(name) is None:
            known = ", ".join(symbol.name for symbol in launch.symbols) or "none"
            raise click.UsageError(
                f"--bind: kernel '{launch.kernel_name}' has no symbol '{name}'; symbols: {known}"
            )


def _factory(text: str) -> DeviceFactory:
    """What makes the device; `click.UsageError`, at the latest when it is called, if it makes none."""
    module, _, name = text.partition(":")
    try:
        found: Callable[..., Device] = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise click.UsageError(
            f"--device {text!r} cannot be imported (MODULE:NAME is wanted): {error}"
        ) from error
    if not callable(found):
        raise click.UsageError(f"--device {text!r} makes no device: it cannot be called")
    make = factory_by_index(found)

    def device(index: int) -> Device:
        try:
            made = make(index)
        except SpyreError:
            raise
        except Exception as error:
            raise click.UsageError(f"--device {text!r} makes no device: {error}") from error
        if missing := missing_members(made):
            raise click.UsageError(
                f"--device {text!r} makes no device: {type(made).__name__} has no {', '.join(missing)}"
            )
        return made

    return device


if __name__ == "__main__":
    main()
