"""Runtime for SpyreCode: prepare once, launch often.

Names are imported on first use, so that a compiler can import :mod:`spyrert.spyrecode` alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spyrert.device import Device, MicroDevice
    from spyrert.spyrecode import LaunchSpec, SpyreCode

_HOMES = {
    "Device": "spyrert.device",
    "LaunchSpec": "spyrert.spyrecode",
    "MicroDevice": "spyrert.device",
    "SpyreCode": "spyrert.spyrecode",
}

__all__ = ["Device", "LaunchSpec", "MicroDevice", "SpyreCode"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
