"""`dfsched compile`: KTIR files to ScheduleIR, DataflowIR and SpyreCode."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
from attrs import evolve

import ktir
from dfsched.commands.diagnostics import reported
from dfsched.commands.opt import settings_of
from dfsched.compilation import Compiled, compile, isolate_kernel, kernels
from dfsched.options import Emit, Options, Profile
from dfsched.passes.errors import ScheduleError
from dfsched.pipeline import find_passes
from dfsched.recognition import KTIR, require_kind
from ktir.command_line import OutputFolder, TextFile
from ktir.dialects.func import Func
from ktir.interface import find_function

__all__ = ["compile_command"]


@click.command("compile")
@click.argument("file", type=TextFile())
@click.option("--device", help="A package device or a file; not needed where the file declares its device.")
@click.option("-o", "--output", type=OutputFolder(), help="Output directory.")
@click.option("--kernel", help="Compile only this public function.")
@click.option(
    "--emit",
    type=click.Choice([emit.value for emit in Emit]),
    default=Emit.SPYRECODE.value,
    help="How far to go.",
)
@click.option("--print-ir-after", metavar="PASS|all", help="Print the module after a pass, or after each.")
@click.option("--disable", metavar="PASS", multiple=True, help="Leave a pass out.")
@click.option("--stop-after", metavar="PASS", help="Run no pass behind this one.")
@click.option(
    "--verify-each", is_flag=True, help="Verify the IR after every pass, not only after each group."
)
@click.option("--timing", is_flag=True, help="Tell how long each pass took.")
@click.option(
    "--pin",
    metavar="FIELD=NUMBERS",
    multiple=True,
    help="Fix a field of the plan: tile_sizes=8,16 for all nests, or 'local_schedule_0[1].tile_sizes=8,16'.",
)
@click.option(
    "--set",
    "settings",
    metavar="PASS.OPTION=VALUE",
    multiple=True,
    help="An option of a pass (dfsched passes --options lists them).",
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.DEFAULT.value,
    help="v1: only what the first published version accepts.",
)
def compile_command(
    file: Path,
    device: str | None,
    output: Path | None,
    kernel: str | None,
    emit: str,
    print_ir_after: str | None,
    disable: tuple[str, ...],
    stop_after: str | None,
    verify_each: bool,
    timing: bool,
    pin: tuple[str, ...],
    settings: tuple[str, ...],
    profile: str,
) -> None:
    """Compile every public kernel of FILE; each into its own folder of the output directory."""
    with reported():
        asked = [print_ir_after] if print_ir_after not in (None, "all") else []
        for name in (*disable, *asked, *([stop_after] if stop_after else [])):
            find_passes(str(name))
        module = ktir.load(file)
        require_kind(module, KTIR)
        ktir.verify(module)
        options = Options(
            emit=emit,
            profile=profile,
            disabled=disable,
            stop_after=stop_after,
            verify_each=verify_each,
            pins=dict(_pin(text) for text in pin),
            settings=settings_of(settings),
        )
        names = kernels(module) if kernel is None else (kernel,)
        if not names:
            raise ScheduleError.at(module.location, "the module has no kernel")
        if output is not None:
            for name in names:
                alone, _ = isolate_kernel(module, name)
                OutputFolder()(_folder(output, find_function(alone, name)))
        for name in names:
            compiled = compile(module, device, evolve(options, kernel=name))
            if print_ir_after is not None:
                _print(compiled, print_ir_after)
            for remark in compiled.remarks:
                click.echo(str(remark), err=True)
            if timing:
                _times(compiled)
            if output is not None:
                compiled.write(output / name)
                click.echo(f"{name}: {output / name}")
            elif print_ir_after is None:
                click.echo(str(compiled.report))


def _folder(output: Path, kernel: Func) -> Path:
    """The folder of a kernel below the output directory; `ScheduleError` where its name names none.

    Names of functions are any text: parts of a path would lead out of the directory.
    """
    name = kernel.symbol
    if name in ("", ".", "..") or any(char in "/\\:" or ord(char) < 32 for char in name):
        raise ScheduleError.at(
            kernel.location,
            f"kernel {json.dumps(name)} cannot be written: its folder would have its name, which must not be "
            "empty, '.' or '..' nor have '/', '\\', ':' or control characters; rename it",
        )
    return output / name


def _pin(text: str) -> tuple[str, object]:
    """A field of the plan and its value; `click.BadParameter` where the text is neither."""
    name, equals, value = text.rpartition("=")
    if equals and re.fullmatch(r"[A-Za-z_]\w*", value):
        return name, value
    try:
        numbers = [int(number) for number in value.split(",")]
    except ValueError:
        numbers = []
    if not equals or not name or not numbers:
        raise click.BadParameter(
            f"'{text}' is not FIELD=NUMBER, FIELD=NUMBER,NUMBER,... or FIELD=NAME", param_hint="--pin"
        )
    return name, numbers[0] if len(numbers) == 1 else tuple(numbers)


def _times(compiled: Compiled) -> None:
    total = sum(result.seconds for result in compiled.passes)
    for number, result in enumerate(compiled.passes):
        click.echo(f"{number:2}  {result.name:36}{1000 * result.seconds:9.1f} ms")
    click.echo(f"    {'all passes':36}{1000 * total:9.1f} ms")


def _print(compiled: Compiled, wanted: str) -> None:
    for result in compiled.passes:
        if wanted in ("all", result.name):
            click.echo(f"// -----// IR after {result.name} ({compiled.kernel}) //----- //")
            click.echo(ktir.print_module(result.module), nl=False)
