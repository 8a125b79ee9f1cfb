"""Runtime for SpyreCode: prepare once, launch often.

Names are imported on first use, so that a compiler can import :mod:`spyrert.spyrecode` alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spyrert.collectives import Communicator
    from spyrert.config import Overlap, Progress, RuntimeConfig
    from spyrert.device import Device, MicroDevice
    from spyrert.errors import SpyreError
    from spyrert.execution import Event, Stream
    from spyrert.graph import Graph, GraphInstance, ShapeBucketer
    from spyrert.launch import Launch, SymbolicArg, SymbolicKind
    from spyrert.memory import AllocationDirective, PlacementPolicy
    from spyrert.plan import JobPlan
    from spyrert.planset import PlanSet
    from spyrert.runtime import Runtime
    from spyrert.spyrecode import LaunchSpec, LinearLayout, SpyreCode, StickLayout
    from spyrert.tensor import DeviceTensor
    from spyrert.tickets import LaunchTicket

_HOMES = {
    "AllocationDirective": "spyrert.memory",
    "Communicator": "spyrert.collectives",
    "Device": "spyrert.device",
    "DeviceTensor": "spyrert.tensor",
    "Event": "spyrert.execution",
    "Graph": "spyrert.graph",
    "GraphInstance": "spyrert.graph",
    "JobPlan": "spyrert.plan",
    "Launch": "spyrert.launch",
    "LaunchSpec": "spyrert.spyrecode",
    "LaunchTicket": "spyrert.tickets",
    "LinearLayout": "spyrert.spyrecode",
    "MicroDevice": "spyrert.device",
    "Overlap": "spyrert.config",
    "PlacementPolicy": "spyrert.memory",
    "PlanSet": "spyrert.planset",
    "Progress": "spyrert.config",
    "Runtime": "spyrert.runtime",
    "ShapeBucketer": "spyrert.graph",
    "RuntimeConfig": "spyrert.config",
    "SpyreCode": "spyrert.spyrecode",
    "SpyreError": "spyrert.errors",
    "StickLayout": "spyrert.spyrecode",
    "Stream": "spyrert.execution",
    "SymbolicArg": "spyrert.launch",
    "SymbolicKind": "spyrert.launch",
}

__all__ = [
    "AllocationDirective",
    "Communicator",
    "Device",
    "DeviceTensor",
    "Event",
    "Graph",
    "GraphInstance",
    "JobPlan",
    "Launch",
    "LaunchSpec",
    "LaunchTicket",
    "LinearLayout",
    "MicroDevice",
    "Overlap",
    "PlacementPolicy",
    "PlanSet",
    "Progress",
    "Runtime",
    "RuntimeConfig",
    "ShapeBucketer",
    "SpyreCode",
    "SpyreError",
    "StickLayout",
    "Stream",
    "SymbolicArg",
    "SymbolicKind",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
