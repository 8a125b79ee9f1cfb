"""What the command lines of ktir and of the packages on top of it ask of paths, before anything runs.

An output that cannot be written is found when the call is read, not after the work: exit code 2.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import click

from ktir.recognition import recognise

__all__ = ["OutputFile", "OutputFolder", "TextFile", "why_not_writable"]


def why_not_writable(path: Path, folder: bool = False) -> str | None:
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


class TextFile(click.Path):
    """An existing file of MLIR text, as a `Path`; a folder is named as what it is."""

    def __init__(self) -> None:
        super().__init__(exists=True, path_type=Path)
        self.name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        if path.is_dir() and (kind := recognise(path)) is not None:
            self.fail(f"File '{path}' is a directory: {kind.instead_of('MLIR text')}", param, ctx)
        return path


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
        if (reason := why_not_writable(path, self.folder)) is not None:
            self.fail(f"cannot write '{path}': {reason}", param, ctx)
        return path


class OutputFile(_Output):
    """A file to write; its name must end in one of the `suffixes`, and its folder exist."""

    folder = False


class OutputFolder(_Output):
    """A folder to write; it and those above it are made where they are missing."""

    folder = True
