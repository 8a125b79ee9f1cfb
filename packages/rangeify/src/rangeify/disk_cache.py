"""The disk level of the schedule cache: one file per lowered body, crash-safe and versioned, no pickle.

A file is written under another name and renamed, and carries a digest of its contents: a reader sees a whole
entry or none. An entry that cannot be read, of another version or damaged, is a miss. What a killed process
left half written has another name, is never read, and is removed by later writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rangeify.reasons import Reason
from uopgraph import Ops, UOp, from_json, to_json
from uopgraph.errors import UOpError

#: Changes whenever the meaning of an entry changes.
FORMAT: Final = 2
_UNFINISHED: Final = ".new-"
#: Seconds after which nobody can still be writing a file.
_ABANDONED: Final = 3600


def cache_directory(configured: str) -> Path:
    """The directory of a configuration: its own, else ``$XDG_CACHE_HOME/rangeify``, else
    ``~/.cache/rangeify``.
    """
    if configured:
        return Path(configured)
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "rangeify"


def entry_path(directory: Path, key: tuple[bytes, tuple[Any, ...]]) -> Path:
    """The file of a (body key, configuration key): its name depends on both and on the versions of the
    packages.
    """
    versions = (FORMAT, version("rangeify"), version("uopgraph"))
    digest = hashlib.sha256(key[0] + repr((key[1], versions)).encode()).hexdigest()
    return directory / digest[:2] / f"{digest}.json"


def load(path: Path) -> tuple[UOp, dict[int, Reason]] | None:
    """The LINEAR and the reasons of an entry, None when there is no whole entry."""
    try:
        head, _, payload = path.read_text(encoding="utf-8").partition("\n")
        if head != hashlib.sha256(payload.encode()).hexdigest():
            return None
        data = json.loads(payload)
        linear = from_json(data["linear"])
        reasons = {int(slot): Reason.from_data(reason) for slot, reason in data["reasons"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UOpError):
        return None
    return (linear, reasons) if linear.op is Ops.LINEAR else None


def _remove_abandoned(directory: Path) -> None:
    """Files that a process began to write long ago."""
    for path in directory.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()


def store(path: Path, linear: UOp, reasons: Mapping[int, Reason]) -> None:
    """Write an entry; a directory that cannot be written costs the cache, not the schedule."""
    payload = json.dumps(
        {"linear": to_json(linear), "reasons": {str(k): v.to_data() for k, v in reasons.items()}}
    )
    write(path, hashlib.sha256(payload.encode()).hexdigest() + "\n" + payload)


def write(path: Path, text: str) -> None:
    """Let `path` have `text`, all of it or, where it cannot be written, what it had."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
