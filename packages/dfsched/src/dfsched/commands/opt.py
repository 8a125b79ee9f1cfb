"""`dfsched opt`: chosen passes, alone, on a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import click

import ktir
from dfsched.commands.diagnostics import reported
from dfsched.options import Options, Profile
from dfsched.passes.base import PassContext
from dfsched.passes.ensure_device_declaration import declare
from dfsched.pipeline import check_settings, run_pipeline, select_passes
from ktir.command_line import TextFile

__all__ = ["opt", "settings_of"]

_PASS = re.compile(r"(?P<name>[\w-]+)(\{(?P<options>.*)\})?")


@click.command("opt")
@click.argument("file", type=TextFile())
@click.option("--device", help="A package device or a file; not needed where the file declares its device.")
@click.option(
    "--pass",
    "chosen",
    metavar="PASS[{OPTION=VALUE;...}]",
    multiple=True,
    required=True,
    help="A pass to run, in order; lists have commas, options semicolons in between.",
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.DEFAULT.value,
    help="v1: the rules of the first published version.",
)
def opt(file: Path, device: str | None, chosen: tuple[str, ...], profile: str) -> None:
    """Run chosen passes on the module in FILE, whatever it holds, and print the result."""
    with reported():
        module = ktir.load(file)
        ktir.verify(module)
        declared, architecture = declare(module, device)
        remarks = []
        for text in chosen:
            found = _PASS.fullmatch(text)
            if found is None:
                raise click.BadParameter(f"'{text}' is not PASS{{OPTION=VALUE}}", param_hint="--pass")
            (item,) = select_passes([found["name"]])
            pairs = filter(None, (found["options"] or "").split(";"))
            options = Options(profile=profile, settings=settings_of(f"{item.name}.{pair}" for pair in pairs))
            check_settings(options)
            context = PassContext(architecture, options)
            results = run_pipeline(declared, context, [item])
            declared = results[-1].module
            remarks += context.remarks
        for remark in remarks:
            click.echo(str(remark), err=True)
        click.echo(ktir.print_module(declared), nl=False)


def settings_of(texts: Iterable[str]) -> dict[str, str]:
    """``pass.option=value`` as entries of `Options.settings`; `click.BadParameter` for anything else."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or "." not in name:
            raise click.BadParameter(f"'{text}' is not PASS.OPTION=VALUE", param_hint="--set")
        found[name.strip()] = value.strip()
    return found
