"""Writes the reference pages of passes and command lines from the packages themselves.

python tools/reference_pages.py      writes docs/reference/passes.md and docs/reference/commands.md
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

import dfsched.cli
import ktir.cli
import spyrert.cli
import spyresim.cli
from dfsched.commands.passes import published_rows
from dfsched.pipeline import OTHER_PASSES, PASSES

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
MAINS: dict[str, click.Command] = {
    "ktir": ktir.cli.main,
    "dfsched": dfsched.cli.main,
    "spyrert": spyrert.cli.main,
    "spyresim": spyresim.cli.main,
}

PASSES_HEAD = """\
# The passes

In the order in which a compilation runs them; `dfsched passes` prints the same list. The column `row` is the
row of the first published version's list: `+` is a pass that it does not have, `~` one that stands elsewhere
there. Every pass is a function from module to module in a file of its own; what it takes, what it leaves and
an example stand below the tables. `dfsched opt FILE --pass NAME` runs one alone, `dfsched compile --set
NAME.OPTION=VALUE` sets an option.

Between the groups a contract holds, and is checked: behind the front end no KTIR loads and stores are left in
programs, behind the scheduler no open sizes and no buffers without address, behind the back end nothing but
DataflowIR.
"""
COMMANDS_HEAD = """\
# Command lines

Exit codes of all commands: 0 good, 1 the input is bad, 2 the call is bad. Results go to standard output,
diagnostics to standard error as `file:line:col: error: message`, with the line and a caret.
"""


def passes_page() -> str:
    """Tables of the pipeline and of what stands outside, then every pass in its own words."""
    lines = [PASSES_HEAD, "| | pass | group | row | what it does | options |", "|---|---|---|---|---|---|"]
    for number, (item, row) in enumerate(zip(PASSES, published_rows(PASSES), strict=True)):
        options = ", ".join(f"`{setting.name}`" for setting in item.settings)
        lines.append(
            f"| {number} | `{item.name}` | {item.group.value} | {row} | {item.summary} | {options} |"
        )
    lines += ["", "Not part of a compilation:", "", "| pass | what it does | options |", "|---|---|---|"]
    for item in OTHER_PASSES:
        options = ", ".join(f"`{setting.name}`" for setting in item.settings)
        lines.append(f"| `{item.name}` | {item.summary} | {options} |")
    lines += ["", "## What each one takes and leaves", ""]
    for module in dict.fromkeys(item.run.__module__ for item in (*PASSES, *OTHER_PASSES)):
        lines += [f"::: {module}", "    options:", "      members: false", ""]
    return "\n".join(lines).rstrip() + "\n"


def commands_page() -> str:
    """All commands with their options."""
    lines = [COMMANDS_HEAD]
    for name, main in MAINS.items():
        for words, command in _commands(name, main):
            arguments = [
                p.make_metavar(click.Context(command))
                for p in command.params
                if isinstance(p, click.Argument)
            ]
            lines += [f"## `{' '.join([words, *arguments])}`", "", " ".join((command.help or "").split()), ""]
            options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
            if options:
                lines += ["| option | |", "|---|---|", *(_option(p, command) for p in options), ""]
    return "\n".join(lines).rstrip() + "\n"


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for inner in sorted(command.commands):
        yield from _commands(f"{name} {inner}", command.commands[inner])


def _option(option: click.Option, command: click.Command) -> str:
    record = option.get_help_record(click.Context(command))
    assert record is not None
    left, right = (text.replace("|", "\\|") for text in record)
    return f"| `{left}` | {right} |"


if __name__ == "__main__":
    (REFERENCE / "passes.md").write_text(passes_page())
    (REFERENCE / "commands.md").write_text(commands_page())
