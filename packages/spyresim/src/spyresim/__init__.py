"""Functional and timed simulator for KTIR, ScheduleIR, DataflowIR and SpyreCode.

Names are imported when they are first used, so that a process which only simulates the device does not
import the KTIR interpreter.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ArgumentError": "spyresim.errors",
    "ArithmeticFault": "spyresim.errors",
    "ConflictFault": "spyresim.errors",
    "DeadlockFault": "spyresim.errors",
    "ExecutionFault": "spyresim.errors",
    "MemoryFault": "spyresim.errors",
    "Report": "spyresim.report",
    "Result": "spyresim.report",
    "Session": "spyresim.session",
    "SimDevice": "spyresim.device",
    "SpyresimError": "spyresim.errors",
    "UnsupportedError": "spyresim.errors",
    "run_dataflow": "spyresim.dataflow_level",
    "run_ktir": "spyresim.ktir_level",
    "run_device": "spyresim.device_level",
    "run_schedule": "spyresim.schedule_level",
    "verify": "spyresim.verification",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'spyresim' has no attribute '{name}'")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
