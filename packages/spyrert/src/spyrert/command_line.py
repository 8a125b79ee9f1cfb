"""What the command ``spyrert`` asks of paths: outputs before anything runs, inputs that are no artefact."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any, Final

import click

from spyrert.spyrecode.code import LAUNCH_SPEC, MANIFEST

__all__ = ["OutputFile", "OutputFolder", "note_on"]

_MLIR: Final = re.compile(
    rb"\s*(//[^\n]*\s+)*(#\w+ = |!\w+ = |\"?builtin\.module|module\b|func\.func\b|\"?ktdf_arch\.device\b)"
)

_OTHER: Final = (
    "this is no SpyreCode artefact: the folder of a compiled kernel or a .spyrecode file is wanted"
)


def note_on(path: Path) -> str:
    """What a path is that holds no artefact, and what makes or takes it; empty if that cannot be told."""
    try:
        if path.is_dir():
            kernels = sorted(p.parent.name for p in path.glob(f"*/{LAUNCH_SPEC}"))
            listed = ", ".join(kernels)
            return f"this is a folder of compiled kernels, give one of them: {listed}" if kernels else _OTHER
        with path.open("rb") as file:
            start = file.read(4096)
    except (OSError, ValueError):
        return ""
    if start.startswith(b"\x93NUMPY"):
        return "this is a NumPy array, not a SpyreCode artefact; `spyrert verify --input` takes it"
    if path.name in (MANIFEST, LAUNCH_SPEC):
        return f"this is a file of a SpyreCode artefact, give its folder: {path.parent}"
    if _MLIR.match(start):
        return "this is MLIR text, not a SpyreCode artefact; `dfsched compile` makes one of KTIR"
    return _OTHER


def _why_not_writable(path: Path, folder: bool) -> str | None:
    """Why a file (or a folder, with all above it that is missing) cannot be written; None if it can be."""
    if os.path.exists(path):  # also of what is no path at all
        if path.is_dir() != folder:
            return os.strerror(errno.ENOTDIR if folder else errno.EISDIR)
        return None if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
    parent = path.parent
    while folder and not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        return os.strerror(errno.ENOTDIR if parent.exists() else errno.ENOENT)
    return None if os.access(parent, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)


class _Output(click.Path):
    """A place to write, as a `Path`; found unwritable when the call is read."""

    folder: bool

    def __init__(self, *suffixes: str) -> None:
        super().__init__(path_type=Path)
        self.name = "directory" if self.folder else "file"
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        if self.suffixes and path.suffix.lower() not in self.suffixes:
            wanted = " or ".join(self.suffixes)
            self.fail(f"'{path}' does not end in {wanted}, which is what is written", param, ctx)
        if (reason := _why_not_writable(path, self.folder)) is not None:
            self.fail(f"cannot write '{path}': {reason}", param, ctx)
        return path


class OutputFile(_Output):
    """A file to write; its name must end in one of the `suffixes`, and its folder exist."""

    folder = False


class OutputFolder(_Output):
    """A folder to write; it and those above it are made where they are missing."""

    folder = True
