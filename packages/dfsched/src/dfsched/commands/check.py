"""`dfsched check`: DataflowIR files, of this compiler or of another one, judged as a whole."""

from __future__ import annotations

from pathlib import Path

import click

import ktir
from dfsched.architecture.loading import load_architecture
from dfsched.codegen.facts import GLOBAL
from dfsched.commands.diagnostics import report, reported
from dfsched.dataflow_check import check_dataflow
from dfsched.lowering.errors import LoweringError
from dfsched.recognition import DATAFLOW_IR, require_kind
from dfsched.split import read_split
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic
from ktir.recognition import recognise
from spyrert.errors import SpyreError
from spyrert.spyrecode import LaunchSpec, read_launch_spec

__all__ = ["check"]

LAUNCH_SPEC = "launch_spec.json"


@click.command("check")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--device", help="A package device or a file: also encode the kernel for it.")
def check(path: Path, device: str | None) -> None:
    """Judge the DataflowIR in PATH: a folder with global.mlir and one file a program, or one file.

    Reports everything that verifiers, the rules between files and, with --device, code generation find.
    """
    with reported():
        files = _files(path)
        architecture = None if device is None else load_architecture(device)
        launch = _launch(path) if path.is_dir() else None
        findings = check_dataflow(files, architecture, launch)
        if findings:
            report(LoweringError(findings))
            raise SystemExit(1)
    count = len(files) - 1 or 1
    click.echo(f"{path}: {count} program file{'s' if count > 1 else ''}, nothing wrong")


def _files(path: Path) -> dict[str, Module]:
    if not path.is_dir():
        module = ktir.load(path)
        require_kind(module, DATAFLOW_IR)
        return read_split(path.parent) if path.name == GLOBAL else {GLOBAL: module}
    if not (path / GLOBAL).is_file() and (kind := recognise(path)) is not None:
        raise LoweringError((Diagnostic(f"{path} holds no {GLOBAL}: {kind.instead_of(DATAFLOW_IR.name)}"),))
    return read_split(path)


def _launch(folder: Path) -> LaunchSpec | None:
    path = folder / LAUNCH_SPEC
    if not path.is_file():
        return None
    try:
        return read_launch_spec(path)
    except SpyreError as error:
        report(error)
        raise SystemExit(1) from error
