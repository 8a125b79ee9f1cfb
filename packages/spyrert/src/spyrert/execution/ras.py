"""Records of failures in the form that operators' tools read (runtime spec 3.18.2)."""

from __future__ import annotations

import zlib
from typing import Final

from spyrert.errors import (
    CommError,
    ComputeFault,
    CoreUnavailable,
    DeadlockError,
    DeviceLost,
    DeviceTimeout,
    DmaFault,
    EccError,
    EventPoisoned,
    HostComputeError,
    PageFault,
    SpyreError,
    StaleCorrection,
)
from spyrert.execution.operations import Operation

_CATEGORIES: Final[tuple[tuple[type[SpyreError], str, str, str], ...]] = (
    (DeviceLost, "DEVICE", "hardware", "reset the device (Runtime.reset_device)"),
    (EccError, "MEMORY", "hardware", "upload the data again; reset the device if programs are hit"),
    (CoreUnavailable, "CORE", "hardware", "reset the device or prepare for fewer cores"),
    (DeviceTimeout, "COMPUTE", "timeout", "raise RuntimeConfig.timeout_ns or look for a hang in the program"),
    (PageFault, "COMPUTE", "memory", "look for an access outside of the program's tensors"),
    (StaleCorrection, "COMPUTE", "consistency", "do not share correction buffers between launches"),
    (ComputeFault, "COMPUTE", "program", "look at the program and its image"),
    (DmaFault, "DMA", "transfer", "copy again on a new stream"),
    (HostComputeError, "HOST", "program", "look at the host function named in the message"),
    (CommError, "LINK", "communication", "look at the peers' errors"),
    (EventPoisoned, "RUNTIMESCHEDULER", "dependency", "look at the error that the event was poisoned by"),
    (DeadlockError, "RUNTIMESCHEDULER", "program", "look for waits on events that are signalled behind them"),
)
_OTHER: Final = ("RUNTIMESCHEDULER", "runtime", "use a new stream")


def code(error: type[SpyreError]) -> str:
    """A stable 16-bit code of an error class, as hex."""
    return f"{zlib.crc32(error.__name__.encode()) & 0xFFFF:#06x}"


def record(error: SpyreError, operation: Operation | None, stream: int) -> dict[str, object]:
    """The record of an asynchronous failure."""
    unit, category, action = next(
        ((u, c, a) for kind, u, c, a in _CATEGORIES if isinstance(error, kind)), _OTHER
    )
    return _record(
        unit, type(error).__name__, code(type(error)), "error", category, error.message, action, operation
    ) | {"stream": stream, "description": (type(error).__doc__ or "").strip()}


def note(text: str, operation: Operation) -> dict[str, object]:
    """The record of something that went well only with help, e.g. a corrected memory error."""
    stream = 0 if operation.stream is None else operation.stream.id
    return _record(
        "MEMORY", "Corrected", "0x0001", "info", "hardware", text, "none; watch the rate", operation
    ) | {"stream": stream, "description": "The device corrected an error by itself."}


def _record(
    unit: str,
    condition: str,
    number: str,
    severity: str,
    category: str,
    message: str,
    action: str,
    operation: Operation | None,
) -> dict[str, object]:
    return {
        "name": f"RAS::{unit}::{condition}",
        "code": number,
        "severity": severity,
        "category": category,
        "type": "asynchronous",
        "message": message,
        "action": action,
        "step": operation.tile if operation is not None else None,
        "OpType": operation.kind if operation else "",
        "op_id": operation.op_id if operation else 0,
        "kernel": operation.name if operation else "",
    }
