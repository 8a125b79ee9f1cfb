"""`dfsched compile`: KTIR files to ScheduleIR, DataflowIR and SpyreCode."""

from __future__ import annotations

from pathlib import Path

import click
from attrs import evolve

import ktir
from dfsched.commands.diagnostics import reported
from dfsched.compilation import Compiled, compile, kernels
from dfsched.options import Emit, Options, Profile
from dfsched.passes.errors import ScheduleError
from dfsched.pipeline import find_passes

__all__ = ["compile_command"]


@click.command("compile")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--device", help="A package device or a file; not needed where the file declares its device.")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Output directory.")
@click.option("--kernel", help="Compile only this public function.")
@click.option(
    "--emit",
    type=click.Choice([emit.value for emit in Emit]),
    default=Emit.SPYRECODE.value,
    help="How far to go.",
)
@click.option("--print-ir-after", metavar="PASS|all", help="Print the module after a pass, or after each.")
@click.option("--disable", metavar="PASS", multiple=True, help="Leave a pass out.")
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
    profile: str,
) -> None:
    """Compile every public kernel of FILE; each into its own folder of the output directory."""
    with reported():
        for name in (*disable, *([] if print_ir_after in (None, "all") else [print_ir_after])):
            find_passes(name)
        module = ktir.load(file)
        ktir.verify(module)
        options = Options(emit=emit, profile=profile, disabled=disable)
        names = kernels(module) if kernel is None else (kernel,)
        if not names:
            raise ScheduleError.at(module.location, "the module has no kernel")
        for name in names:
            compiled = compile(module, device, evolve(options, kernel=name))
            if print_ir_after is not None:
                _print(compiled, print_ir_after)
            for remark in compiled.remarks:
                click.echo(str(remark), err=True)
            if output is not None:
                compiled.write(output / name)
                click.echo(f"{name}: {output / name}")
            elif print_ir_after is None:
                click.echo(str(compiled.report))


def _print(compiled: Compiled, wanted: str) -> None:
    for result in compiled.passes:
        if wanted in ("all", result.name):
            click.echo(f"// -----// IR after {result.name} ({compiled.kernel}) //----- //")
            click.echo(ktir.print_module(result.module), nl=False)
