"""Finding a device to run on.

Packages that bring devices announce them in the entry-point group ``spyrert.devices``: a callable
``make(index, device=architecture)`` that gives a :class:`spyrert.Device`.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import Any, Final

import dfsched
from rangeify.errors import UnsupportedError
from spyrert import Runtime

GROUP: Final = "spyrert.devices"


@functools.cache
def default_runtime(architecture: dfsched.Architecture) -> Runtime:
    """A runtime on the first installed device (by name); one per architecture and process.

    Raises :class:`rangeify.UnsupportedError` when no package announces a device.
    """
    found = sorted(entry_points(group=GROUP), key=lambda e: e.name)
    if not found:
        raise UnsupportedError(
            "running without a device: install a package that announces one in the entry-point group "
            f"{GROUP}, or pass runtime=spyrert.Runtime(device_factory=...)"
        )
    make = found[0].load()

    def factory(index: int) -> Any:
        return make(index, device=architecture)

    return Runtime(device_factory=factory)
