"""The command line `dfsched`.

Exit codes: 0 good, 1 the input is bad, 2 the call is bad. Diagnostics go to stderr.
"""

from __future__ import annotations

import click

from dfsched.commands.check import check
from dfsched.commands.compile import compile_command
from dfsched.commands.device import device
from dfsched.commands.disasm import disasm
from dfsched.commands.opt import opt
from dfsched.commands.passes import passes

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dfsched")
def main() -> None:
    """Schedule KTIR kernels for dataflow accelerators."""


main.add_command(check)
main.add_command(compile_command)
main.add_command(device)
main.add_command(disasm)
main.add_command(opt)
main.add_command(passes)
