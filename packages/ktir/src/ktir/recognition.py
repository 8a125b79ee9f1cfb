"""What a path holds that somebody gave where MLIR text is wanted, and which commands take it.

Contents are told apart by how they begin, folders by what is in them; nothing is parsed.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

import attrs

from ktir.errors import ParseError

__all__ = ["ARRAY", "ARTEFACT", "KERNEL", "KERNELS", "Kind", "decoded", "read_text", "recognise"]


@attrs.frozen
class Kind:
    """A kind of file or folder: its name with an article, and the commands that take it."""

    name: str
    taken_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def hint(self) -> str:
        """Which commands take it; empty if there is none."""
        if not self.taken_by:
            return ""
        *others, last = (f"`{command}`" for command in self.taken_by)
        return f"{', '.join(others)} and {last} take it" if others else f"{last} takes it"

    def instead_of(self, wanted: str) -> str:
        """One sentence: what it is, what was wanted, what takes it."""
        return "; ".join(filter(None, (f"this is {self.name}, not {wanted}", self.hint)))


ARTEFACT: Final = Kind("a SpyreCode artefact", ("spyresim run", "spyrert inspect", "dfsched disasm"))
KERNEL: Final = Kind(
    "the folder of a compiled kernel", ("spyresim run", "spyrert inspect", "dfsched disasm", "dfsched check")
)
KERNELS: Final = Kind("a folder of compiled kernels", ("spyresim run",))
ARRAY: Final = Kind("a NumPy array", ("spyresim run --arg", "spyrert verify --input"))
_FOLDER: Final = Kind("a folder")
_ARCHIVE: Final = Kind("a zip archive")
_ARRAYS: Final = Kind("an archive of NumPy arrays")
_MANIFEST: Final = Kind("a file of a SpyreCode artefact (give its folder)")
_JSON: Final = Kind("JSON text")
_PAGE: Final = Kind("an HTML page")
_BINARY: Final = Kind("binary data")

_LAUNCH_SPEC: Final = "launch_spec.json"
_CODE: Final = "spyreCodeDir"
_MANIFEST_NAME: Final = "spyrecode.json"


def recognise(path: str | Path) -> Kind | None:
    """What a path holds; None for text of no other kind, and for what cannot be read."""
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        with path.open("rb") as file:
            return _content(path, file.read(4096))
    except (OSError, ValueError):
        return None


def _folder(path: Path) -> Kind:
    if (path / _LAUNCH_SPEC).is_file() or (path / _CODE).is_dir():
        return KERNEL
    if (path / _MANIFEST_NAME).is_file():
        return ARTEFACT
    return KERNELS if any(path.glob(f"*/{_LAUNCH_SPEC}")) else _FOLDER


def _content(path: Path, start: bytes) -> Kind | None:
    if start.startswith(b"\x93NUMPY"):
        return ARRAY
    if start.startswith(b"PK\x03\x04") and zipfile.is_zipfile(path):
        names = {name.rpartition("/")[2] for name in zipfile.ZipFile(path).namelist()}
        if _MANIFEST_NAME in names:
            return ARTEFACT
        return _ARRAYS if names and all(name.endswith(".npy") for name in names) else _ARCHIVE
    if path.name in (_MANIFEST_NAME, _LAUNCH_SPEC):
        return _MANIFEST
    head = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if path.suffix == ".json" or head.startswith((b'{"', b"[")):
        return _JSON
    if head[:14].lower().startswith((b"<!doctype html", b"<html")):
        return _PAGE
    return _BINARY if b"\0" in start else None


def read_text(path: str | Path) -> str:
    """The text of a file of MLIR.

    Raises `ParseError` if it is of another kind or not UTF-8 text, `OSError` if it cannot be read.
    """
    data = Path(path).read_bytes()
    if (kind := recognise(path)) is not None:
        raise ParseError(kind.instead_of("MLIR text"), str(path))
    return decoded(data, str(path))


def decoded(data: bytes, name: str) -> str:
    """Bytes of a file as text; `ParseError` at the line of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ParseError(f"not UTF-8 text: {error.reason}", name, line, 1) from error
