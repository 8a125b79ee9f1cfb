"""The `ktdf_arch` dialect: devices as graphs of memories, execution units, switches and links.

Grammar, attributes and verifier rules are those of device spec section 1 (rules V1 to V30 by number).
"""

from __future__ import annotations

from dfsched.dialects.ktdf_arch.ops import (
    KTDF_ARCH,
    DatapathOp,
    DeviceOp,
    ExecUnitOp,
    GroupOp,
    MemoryOp,
    PatternsOp,
    SwitchOp,
    YieldOp,
)
from dfsched.dialects.ktdf_arch.properties import Role, property_findings
from dfsched.dialects.ktdf_arch.types import EXEC_UNIT, MEMORY, PORT, MapAttr

__all__ = [
    "EXEC_UNIT",
    "KTDF_ARCH",
    "MEMORY",
    "PORT",
    "DatapathOp",
    "DeviceOp",
    "ExecUnitOp",
    "GroupOp",
    "MapAttr",
    "MemoryOp",
    "PatternsOp",
    "Role",
    "SwitchOp",
    "YieldOp",
    "property_findings",
]
