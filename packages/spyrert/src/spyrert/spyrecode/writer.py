"""Writing an artefact: atomic and byte-identical for equal input (runtime spec 1.1, 1.12)."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from spyrert.spyrecode._json import pretty
from spyrert.spyrecode.code import CODE_DIR, LAUNCH_SPEC, MANIFEST, SYMBOL_KINDS_FILE, SpyreCode


def documents(code: SpyreCode) -> dict[str, bytes]:
    """Every file of the artefact by its name relative to the kernel folder, in writing order."""
    result: dict[str, bytes] = {}
    if code.launch is not None and code.version > 0:
        result[LAUNCH_SPEC] = pretty(code.launch.to_json())
        if code.launch.symbol_kinds:
            result[SYMBOL_KINDS_FILE] = pretty([kind.to_json() for kind in code.launch.symbol_kinds])
    for file in code.files:
        result[f"{CODE_DIR}/{file.name}"] = file.data
    result[f"{CODE_DIR}/{MANIFEST}"] = pretty(code.manifest())
    return result


def write(code: SpyreCode, directory: Path) -> Path:
    """Publish the artefact into the kernel folder ``directory``; see :meth:`SpyreCode.write`."""
    code.validate()
    directory.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".spyrecode-", dir=directory))
    try:
        for name, data in documents(code).items():
            target = scratch / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _store(target, data)
        (scratch / CODE_DIR).chmod(0o755)
        for name in (LAUNCH_SPEC, SYMBOL_KINDS_FILE):
            if (scratch / name).exists():
                (scratch / name).replace(directory / name)
            else:
                (directory / name).unlink(missing_ok=True)
        target = directory / CODE_DIR
        if target.exists():
            target.rename(scratch / "old")
        (scratch / CODE_DIR).rename(target)
        _sync(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return directory


def pack(code: SpyreCode, path: Path) -> Path:
    """Write the zip form: stored, not compressed, same names, no time stamps."""
    code.validate()
    handle, scratch = tempfile.mkstemp(prefix=".spyrecode-", dir=path.parent)
    os.close(handle)
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_STORED) as archive:
            for name, data in documents(code).items():
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
        Path(scratch).chmod(0o644)
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)
    return path


def _store(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
