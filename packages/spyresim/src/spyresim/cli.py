"""The command line: ``spyresim run`` and ``spyresim verify``.

Exit codes: 0 good, 1 the input is bad (or the program faults, or levels differ), 2 the call is bad.
Diagnostics go to stderr as ``file:line:col: error: message`` with the source line and a caret.
"""

from __future__ import annotations

import enum
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click
import numpy as np

from ktir.command_line import OutputFile, TextFile
from ktir.errors import Diagnostic, KtirError
from ktir.location import FileLineColLoc
from ktir.recognition import ARTEFACT, KERNEL, KERNELS, recognise
from ktir.reporting import diagnostics_of, render, source_of
from spyresim import __version__
from spyresim.errors import ArgumentError, ExecutionFault, SpyresimError, UnsupportedError

if TYPE_CHECKING:
    from dfsched import Compiled
    from ktir.dialects.builtin import Module
    from spyresim.ktir_level import RunOptions
    from spyresim.report import Result

__all__ = ["main"]


class Level(enum.StrEnum):
    """What is executed."""

    KTIR = "ktir"
    DATAFLOW = "dataflow"
    DEVICE = "device"


SCHEDULES = ("lockstep", "sequential", "random")
"""`spyresim.sequential.turns.Schedule`, without importing the interpreter."""


class EngineSwitches(TypedDict):
    """Options of the engine that the command line sets."""

    trace: bool
    time_only: bool


class Failed(Exception):
    """Ends a command with exit code 1; what there is to say has been said."""


class BadFile(Exception):
    """A file that the call names holds no array."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spyresim")
def main() -> None:
    """Execute kernels: KTIR text, DataflowIR and SpyreCode."""


# -- errors


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors into messages and exit codes."""
    from dfsched.errors import DeviceNotFound, DfschedError
    from dfsched.passes.errors import UnknownPass
    from spyrert.errors import SpyreError

    try:
        yield
    except Failed:
        sys.exit(1)
    except BadFile as error:
        _say(Diagnostic(str(error)))
        sys.exit(1)
    except MemoryError as error:
        _say(Diagnostic(f"the arrays of this run do not fit into memory: {error}".rstrip(": ")))
        sys.exit(1)
    except (ArgumentError, DeviceNotFound, UnknownPass) as error:
        _say(Diagnostic(str(error)))
        sys.exit(2)
    except KtirError as error:
        for diagnostic in diagnostics_of(error):
            _say(diagnostic)
        sys.exit(1)
    except SpyresimError as error:
        _say(_diagnostic(error))
        sys.exit(1)
    except (DfschedError, SpyreError) as error:
        found = getattr(error, "diagnostics", None)
        for diagnostic in found or (Diagnostic(str(error)),):
            _say(diagnostic)
        sys.exit(1)


@contextmanager
def writing(target: str | Path) -> Iterator[None]:
    """Name the file that cannot be written."""
    try:
        yield
    except OSError as error:
        _say(Diagnostic(f"cannot write '{target}': {error.strerror or error}"))
        raise Failed from error


def _diagnostic(error: SpyresimError) -> Diagnostic:
    match error:
        case ExecutionFault(message=message, site=site):
            where = str(site)
            return Diagnostic(f"{message} ({where})" if where else message, site.location)
        case UnsupportedError(what=what, site=site):
            where = str(site)
            return Diagnostic(f"unsupported: {what}" + (f" ({where})" if where else ""), site.location)
        case _:
            return Diagnostic(str(error))


def _say(diagnostic: Diagnostic) -> None:
    click.echo(render(diagnostic, source_of(diagnostic.location)), err=True)


# -- values on the command line


def parse_assignments(entries: tuple[str, ...], option: str) -> dict[str, str]:
    """``name=value`` entries; `click.UsageError` for anything else."""
    found: dict[str, str] = {}
    for entry in entries:
        name, separator, value = entry.partition("=")
        if not separator or not name or not value:
            raise click.UsageError(f"{option} takes name=value, not '{entry}'")
        if name in found:
            raise click.UsageError(f"{option} gives '{name}' twice")
        found[name] = value
    return found


def parse_value(text: str) -> object:
    """A number, ``true`` or ``false``, or the array in ``@file.npy``."""
    if text.startswith("@"):
        return load_array(text[1:])
    if text in ("true", "false"):
        return text == "true"
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise click.UsageError(f"'{text}' is neither a number nor @file.npy")


_ARRAY_FILES = (b"\x93NUMPY", b"PK")
"""How files of arrays begin; NumPy takes anything else for a pickle."""


def load_array(path: str) -> np.ndarray[Any, Any]:
    """The array in a file; `click.UsageError` if there is no file, `BadFile` if it holds no array."""
    from dfsched.recognition import kind_of_path

    if Path(path).is_dir() and (kind := recognise(path)) is not None:
        raise click.UsageError(f"cannot read an array from '{path}': {kind.instead_of('a .npy file')}")
    if not Path(path).is_file():
        raise click.UsageError(f"cannot read an array from '{path}': no such file")
    try:
        with Path(path).open("rb") as file:
            if not file.read(6).startswith(_ARRAY_FILES):
                kind = kind_of_path(path)
                what = "" if kind is None else f" ({kind.instead_of('a .npy file')})"
                raise BadFile(f"cannot read an array from '{path}': it is no .npy file{what}")
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        raise BadFile(f"cannot read an array from '{path}': {' '.join(str(error).split())}") from error
    if not isinstance(loaded, np.ndarray):
        raise BadFile(f"'{path}' is {recognise(path) or 'an archive'}; give a .npy file")
    if loaded.dtype.kind == "V" and loaded.dtype.itemsize == 2 and loaded.dtype.names is None:
        import ml_dtypes

        return loaded.view(ml_dtypes.bfloat16)  # how NumPy reads back what was saved as bfloat16
    return loaded


# -- run


@main.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path), metavar="FILE.mlir|DIR|FILE.spyrecode")
@click.option("--function", "-f", help="The kernel; needed where there are several.")
@click.option("--arg", "-a", "args", multiple=True, metavar="NAME=VALUE|NAME=@FILE.npy", help="An argument.")
@click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Random values for arguments not given.",
)
@click.option("--save", "saves", multiple=True, metavar="NAME=FILE.npy", help="Where to store an output.")
@click.option("--expect", "expects", multiple=True, metavar="NAME=FILE.npy", help="Compare an output.")
@click.option("--rtol", type=click.FloatRange(min=0), default=0.0, show_default=True, help="For --expect.")
@click.option("--atol", type=click.FloatRange(min=0), default=0.0, show_default=True, help="For --expect.")
@click.option("--level", type=click.Choice([level.value for level in Level]), help="What to execute.")
@click.option("--device", help="A package device or a file; default what the input declares or was made for.")
@click.option("--strict", is_flag=True, help="Level ktir: what only lockstep orders is an error.")
@click.option("--schedule", type=click.Choice(SCHEDULES), help="Level ktir: how tiles advance.")
@click.option("--cost", is_flag=True, help="Level ktir: print the roofline.")
@click.option("--proposed", is_flag=True, help="Level ktir: accept proposed inter-tile deliveries.")
@click.option(
    "--time-only", is_flag=True, help="Level dataflow: simulate the time alone; arrays may be left out."
)
@click.option("--trace", type=OutputFile(".json"), help="Chrome trace-event JSON.")
@click.option("--report", type=OutputFile(".html", ".htm", ".json"), help="r.html or r.json.")
def run(
    path: Path,
    function: str | None,
    args: tuple[str, ...],
    seed: int | None,
    saves: tuple[str, ...],
    expects: tuple[str, ...],
    rtol: float,
    atol: float,
    level: str | None,
    device: str | None,
    strict: bool,
    schedule: str | None,
    cost: bool,
    proposed: bool,
    time_only: bool,
    trace: Path | None,
    report: Path | None,
) -> None:
    """Execute one kernel of a KTIR file, or of a folder that `dfsched compile` wrote (packed or not)."""
    is_compiled = path.is_dir() or recognise(path) == ARTEFACT
    chosen = Level(level) if level is not None else Level.DEVICE if is_compiled else Level.KTIR
    if time_only:
        chosen = Level.DATAFLOW if level is None else chosen
        if chosen is not Level.DATAFLOW or saves or expects:
            raise click.UsageError("--time-only is for level dataflow, and has no outputs to save or compare")
    if chosen is not Level.KTIR and (strict or schedule or cost or proposed):
        raise click.UsageError("--strict, --schedule, --cost and --proposed are for level ktir")
    targets = parse_assignments(saves, "--save")
    for target in targets.values():
        OutputFile(".npy")(target)
    engine: EngineSwitches = {
        "trace": trace is not None or (report is not None and report.suffix != ".json"),
        "time_only": time_only,
    }
    with reported():
        if trace is not None and chosen is Level.KTIR:
            raise UnsupportedError(f"a trace of level {chosen}; levels dataflow and device have time")
        values = {name: parse_value(text) for name, text in parse_assignments(args, "--arg").items()}
        expected = {name: load_array(text) for name, text in parse_assignments(expects, "--expect").items()}
        asked = (*targets, *expected)
        if is_compiled:
            result = _run_folder(path, function, values, seed, chosen, device, engine, asked)
            compiled = None
        elif chosen is Level.KTIR:
            options: RunOptions = {"strict": strict, "schedule": schedule or SCHEDULES[0]}
            result = _run_ktir(path, function, values, seed, device, proposed, options, asked)
            compiled = None
        else:
            result, compiled = _run_file(path, function, values, seed, chosen, device, engine, asked)
        if cost:
            from rich.console import Console

            Console().print(result.report.table())
        _finish(result, targets, expected, rtol, atol, trace, report, compiled)


def _run_ktir(
    path: Path,
    function: str | None,
    values: dict[str, object],
    seed: int | None,
    device: str | None,
    proposed: bool,
    options: RunOptions,
    asked: Sequence[str],
) -> Result:
    from spyresim.ktir_level import run_ktir

    machine = None
    if device is not None:
        from dfsched import load_architecture

        machine = load_architecture(device).machine()
    module = _load(path, proposed)
    _require_outputs(asked, _outputs_of(module, function))
    return run_ktir(module, function, _filled(module, function, values, seed), machine, **options)


def _run_file(
    path: Path,
    function: str | None,
    values: dict[str, object],
    seed: int | None,
    level: Level,
    device: str | None,
    engine: EngineSwitches,
    asked: Sequence[str],
) -> tuple[Result, Compiled]:
    """The result, and what was compiled for it."""
    import dfsched

    module = _load(path)
    _require_outputs(asked, _outputs_of(module, function))
    compiled = dfsched.compile(module, device, dfsched.Options(kernel=function))
    if not engine["time_only"]:
        values = _filled(module, compiled.kernel, values, seed)
    from spyresim.engine import Options

    options = Options(**engine)
    if level is Level.DATAFLOW:
        from spyresim.dataflow_level import run_dataflow

        return run_dataflow(compiled, values, options=options), compiled
    from spyresim.device_level import run_device

    result = run_device(compiled, values, options=options)
    return result, compiled


def _load(path: Path, proposed: bool = False) -> Module:
    import ktir
    from dfsched.recognition import KTIR, require_kind

    module = ktir.load(path, ktir.Context(proposed=proposed))
    require_kind(module, KTIR)
    ktir.verify(module)
    return module


def _filled(
    module: Module, function: str | None, values: dict[str, object], seed: int | None
) -> dict[str, object]:
    """The values, with random ones for what is missing if there is a seed."""
    if seed is None:
        return values
    from ktir.machine import Machine
    from ktir.transforms import flatten
    from spyresim.schedule_level import interface_of
    from spyresim.verification import random_arguments

    interface = interface_of(module, function)
    return next(random_arguments(interface, Machine().for_module(flatten(module).attributes), seed, values))


def _run_folder(
    path: Path,
    function: str | None,
    values: dict[str, object],
    seed: int | None,
    level: Level,
    device: str | None,
    engine: EngineSwitches,
    asked: Sequence[str],
) -> Result:
    from spyresim.engine import Options

    if level is Level.KTIR:
        raise click.UsageError("a compiled folder holds no KTIR; levels: dataflow, device")
    if seed is not None:
        raise click.UsageError("--random needs a KTIR file")
    folder, options = _kernel_folder(path, function), Options(**engine)
    _require_outputs(asked, _outputs_in(folder))
    if level is Level.DATAFLOW:
        if recognise(folder) == ARTEFACT:
            raise click.UsageError(f"{folder}: {ARTEFACT.name} holds no DataflowIR; level: device")
        from spyresim.dataflow_level import run_dataflow

        return run_dataflow(folder, values, device=device, options=options)
    from spyresim.device_level import run_device

    return run_device(folder, values, device=device, options=options)


def _outputs_of(module: Module, function: str | None) -> tuple[str, ...] | None:
    """The outputs of a kernel; None where only a run tells (constant addresses, whatever else is wrong)."""
    import ktir
    from ktir.interface import Role
    from spyresim.schedule_level import interface_of

    try:
        interface = interface_of(module, function)
    except ktir.KtirError:
        return None
    if interface.constants:
        return None
    return tuple(a.name for a in interface.arguments if a.is_pointer and a.role is not Role.INPUT)


def _outputs_in(folder: Path) -> tuple[str, ...] | None:
    """The outputs of a compiled kernel; None where only a run tells (packed ones, constant addresses)."""
    from spyrert.errors import SpyreCodeError
    from spyrert.spyrecode import Role, read_launch_spec

    path = folder / "launch_spec.json"
    if not path.is_file():
        return None
    try:
        spec = read_launch_spec(path)
    except SpyreCodeError:
        return None
    if any(arg.kernel_position is None for arg in spec.args):
        return None
    return tuple(arg.name for arg in spec.args if arg.role is not Role.INPUT)


def _require_outputs(asked: Sequence[str], known: Sequence[str] | None) -> None:
    """`ArgumentError` for the first name that is no output."""
    for name in asked:
        if known is not None and name not in known:
            raise ArgumentError(f"there is no output '{name}'; outputs: {', '.join(known) or 'none'}", name)


def _kernel_folder(path: Path, function: str | None) -> Path:
    """The folder (or archive) of one kernel: the path itself, or one of its folders."""
    kind = recognise(path)
    if kind in (KERNEL, ARTEFACT):
        return path
    if kind is not None and kind != KERNELS:
        raise click.UsageError(f"{path}: {kind.instead_of(KERNEL.name)}")
    found = sorted(p.parent.name for p in path.glob("*/launch_spec.json"))
    if function is None and len(found) == 1:
        return path / found[0]
    if function in found:
        return path / str(function)
    known = ", ".join(found) or "none"
    what = f"no kernel '{function}'" if function is not None else "no kernel folder, or several"
    raise click.UsageError(f"{path} holds {what}; kernels: {known}")


def _finish(
    result: Result,
    targets: Mapping[str, str],
    references: Mapping[str, np.ndarray[Any, Any]],
    rtol: float,
    atol: float,
    trace: Path | None,
    report: Path | None,
    compiled: Compiled | None,
) -> None:
    from spyresim.report_files import write_report, write_trace

    _require_outputs((*targets, *references), tuple(result.outputs))
    cycles = "" if result.report.cycles is None else f", {result.report.cycles:g} cycles"
    limit = "" if result.report.bottleneck is None else f" (limited by {result.report.bottleneck})"
    click.echo(
        f"{result.report.function} at level {result.report.level}: {result.report.tiles} tiles{cycles}{limit}"
    )
    for name, array in result.outputs.items():
        click.echo(f"  {name}: {array.dtype}{list(array.shape)}")
    for warning in result.report.warnings:
        click.echo(f"warning: {warning}", err=True)
    for name, target in targets.items():
        with writing(target):
            np.save(target, result.outputs[name])
    if trace is not None:
        with writing(trace):
            write_trace(result.report, trace)
    if report is not None:
        with writing(report):
            write_report(result.report, report, compiled)
    for name, reference in references.items():
        _compare(name, reference, result.outputs[name], rtol, atol)


def _compare(
    name: str, expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], rtol: float, atol: float
) -> None:
    if expected.shape != got.shape:
        _say(
            Diagnostic(
                f"output '{name}' has shape {list(got.shape)}, the expected array {list(expected.shape)}"
            )
        )
        raise Failed
    try:
        a, b = expected.astype(np.float64, casting="same_kind"), got.astype(np.float64)
    except TypeError as error:
        _say(Diagnostic(f"output '{name}' cannot be compared with an array of dtype {expected.dtype}"))
        raise Failed from error
    with np.errstate(invalid="ignore"):
        bad = ~((np.abs(a - b) <= atol + rtol * np.abs(a)) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if rtol == atol == 0 and expected.dtype.kind in "iu" and got.dtype.kind in "iu":
        bad = np.asarray(expected != got)  # beyond 2**53, too
    if bad.any():
        index = tuple(int(v) for v in np.argwhere(bad)[0])
        _say(
            Diagnostic(
                f"output '{name}' at {list(index)}: expected {expected[index]}, got {got[index]} "
                f"({int(bad.sum())} of {bad.size} elements differ)"
            )
        )
        raise Failed


# -- verify


def _on_a_terminal() -> bool:
    return sys.stderr.isatty()


class _Progress:
    """One line on a terminal that says what is being done; nothing elsewhere."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown

    def show(self, name: str, seed: int, where: str) -> None:
        self.clear()
        if self._shown:
            click.echo(f"{name} seed {seed}: {where} ...", err=True, nl=False)

    def clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False, color=True)


@main.command()
@click.argument("file", type=TextFile())
@click.option("--device", help="A package device or a file; not needed where the file declares its device.")
@click.option("--kernel", help="Only this public function.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Sets of arguments.")
@click.option("--arg", "-a", "args", multiple=True, metavar="NAME=VALUE|NAME=@FILE.npy", help="An argument.")
@click.option("--stop-after", metavar="PASS", help="Execute nothing behind this pass.")
@click.option(
    "--only",
    metavar="PASS|dataflow|device",
    multiple=True,
    help="Execute the IR after this pass, or this level at the end, and no other; may be repeated.",
)
@click.option("--quiet", "-q", is_flag=True, help="Say only what differs.")
def verify(
    file: Path,
    device: str | None,
    kernel: str | None,
    seeds: int,
    args: tuple[str, ...],
    stop_after: str | None,
    only: tuple[str, ...],
    quiet: bool,
) -> None:
    """Compile FILE, execute every level and the IR after every pass, and compare the outputs.

    On a terminal a line says what is being executed.
    """
    import dfsched
    from spyresim.verification import LevelOutcome
    from spyresim.verification import verify as verify_module

    values = {name: parse_value(text) for name, text in parse_assignments(args, "--arg").items()}

    progress = _Progress(not quiet and _on_a_terminal())

    def show(name: str, seed: int, outcome: LevelOutcome) -> None:
        progress.clear()
        if not quiet:
            cycles = "" if outcome.cycles is None else f"  {outcome.cycles:g} cycles"
            state = "ok" if outcome.agrees else "DIFFERS" if outcome.difference else "FAILS"
            same = "" if outcome.executed else "  (the same program)"
            click.echo(f"{name} seed {seed}: {outcome.where:<48} {state}{cycles}{same}")

    with reported():
        module = _load(file)
        try:
            found = verify_module(
                module,
                device,
                kernel=kernel,
                seeds=seeds,
                args=values,
                options=dfsched.Options(stop_after=stop_after),
                only=only or None,
                on_outcome=show,
                on_start=progress.show,
            )
        finally:
            progress.clear()
        if not found:
            raise UnsupportedError("a file without a public kernel")
        bad = [(v, v.first) for v in found if v.first is not None]
        for verification, first in bad:
            what = first.difference or first.error
            place = FileLineColLoc(str(file), 1, 1)
            _say(
                Diagnostic(
                    f"kernel '{verification.kernel}' (seed {verification.seed}) {first.where}: {what}", place
                )
            )
        if bad:
            raise Failed
        if not quiet:
            click.echo(f"{len(found)} runs, all levels agree")
