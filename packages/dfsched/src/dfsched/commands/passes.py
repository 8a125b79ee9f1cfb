"""`dfsched passes`: the pipeline, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from dfsched.options import Profile
from dfsched.passes.base import Pass
from dfsched.pipeline import OTHER_PASSES, PASSES, V1

__all__ = ["passes"]


@click.command()
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.DEFAULT.value,
    help="default: what a compilation runs; v1: the list of the first published version.",
)
@click.option("--options", is_flag=True, help="The passes that have options, with the defaults.")
def passes(profile: str, options: bool) -> None:
    """List the passes of the pipeline in order, one a line.

    The default list says for every pass which row of the first published version's list it is: `+` is a pass
    that this list does not have, `<` one that stands further ahead there.
    """
    if options:
        lines = _options()
    else:
        lines = _v1() if Profile(profile) is Profile.V1 else _default()
    for line in lines:
        click.echo(line)


def _rows(items: Sequence[Pass]) -> list[str]:
    """The row of the published list that each pass stands for: ``+`` none, ``N<`` one that is passed by."""
    taken: set[int] = set()
    found: list[str] = []
    last = -1
    for item in items:
        row = next((n for n, r in enumerate(V1) if item.name in r.built_as and n not in taken), None)
        if row is None or (item.name == "apply-device-patterns" and "pre_scheduling" not in item.summary):
            found.append("+")
            continue
        if item.name == V1[row].built_as[-1]:
            taken.add(row)
        found.append(f"{row}<" if row < last else str(row))
        last = max(last, row)
    return found


def _default() -> Iterator[str]:
    for number, (item, row) in enumerate(zip(PASSES, _rows(PASSES), strict=True)):
        yield f"{number:2}  {item.name:34}  {item.group.value:9}  {row:>3}  {item.summary}"


def _v1() -> Iterator[str]:
    for number, row in enumerate(V1):
        here = row.instead or ", ".join(row.built_as)
        here = "" if row.built_as == (row.name,) else f"here {here}"
        here = here if row.is_built else "not built yet"
        yield f"{number:2}  {row.name:46}  {row.group.value:9}  {row.options:62}  {here}".rstrip()


def _options() -> Iterator[str]:
    for item in dict.fromkeys((*PASSES, *OTHER_PASSES)):
        for setting in item.settings:
            default = setting.default
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            yield f"{setting.key}={text}"
