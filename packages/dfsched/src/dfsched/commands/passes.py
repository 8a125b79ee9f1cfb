"""`dfsched passes`: the pipeline, in order."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dfsched.options import Profile
from dfsched.pipeline import PASSES, V1

__all__ = ["passes"]


@click.command()
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.DEFAULT.value,
    help="default: what a compilation runs; v1: the list of the first published version.",
)
def passes(profile: str) -> None:
    """List the passes of the pipeline in order, one a line."""
    lines = _v1() if Profile(profile) is Profile.V1 else _default()
    for line in lines:
        click.echo(line)


def _default() -> Iterator[str]:
    for number, item in enumerate(PASSES):
        yield f"{number:2}  {item.name:32}  {item.group.value:9}  {item.summary}"


def _v1() -> Iterator[str]:
    for number, row in enumerate(V1):
        if row.is_built:
            done = "built" if row.built_as == (row.name,) else f"built as {', '.join(row.built_as)}"
        else:
            done = "not built yet: absent from the default pipeline"
        yield f"{number:2}  {row.name:45}  {row.group.value:9}  {done}"
