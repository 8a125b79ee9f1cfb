"""`dfsched passes`: the pipeline, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import click

from dfsched.options import Profile
from dfsched.passes.base import Pass
from dfsched.pipeline import OTHER_PASSES, PASSES, V1

__all__ = ["passes", "published_rows"]


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
    that this list does not have, `~` one that stands elsewhere there.
    """
    if options:
        lines = _options()
    else:
        lines = _v1() if Profile(profile) is Profile.V1 else _default()
    for line in lines:
        click.echo(line)


def published_rows(items: Sequence[Pass]) -> list[str]:
    """The published row that each pass stands for: ``+`` none, ``N~`` one that is elsewhere there."""
    taken: set[int] = set()
    rows: list[int | None] = []
    for item in items:
        row = next((n for n, r in enumerate(V1) if item.name in r.built_as and n not in taken), None)
        if item.name == "apply-device-patterns" and "pre_scheduling" not in item.summary:
            row = None
        if row is not None and item.name == V1[row].built_as[-1]:
            taken.add(row)
        rows.append(row)
    kept = _longest_in_order([row for row in rows if row is not None])
    return ["+" if row is None else f"{row}" if row in kept else f"{row}~" for row in rows]


def _longest_in_order(rows: Sequence[int]) -> set[int]:
    """The most rows that stand in the order of the published list."""
    best: list[list[int]] = [[]]
    for row in rows:
        before = sorted((chain for chain in best if not chain or chain[-1] <= row), key=len)
        best.append([*before[-1], row])
    return set(sorted(best, key=len)[-1])


def _default() -> Iterator[str]:
    for number, (item, row) in enumerate(zip(PASSES, published_rows(PASSES), strict=True)):
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
            yield f"{setting.key}={_text(default)}"


def _text(value: object) -> str:
    """A default as it would be given."""
    match value:
        case tuple():
            return ",".join(map(str, value))
        case Enum():
            return str(value.value)
        case _:
            return str(value)
