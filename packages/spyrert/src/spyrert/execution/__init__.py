"""Operations, streams, events and the scheduler that moves them. Knows nothing of plans and tensors."""

from spyrert.execution.events import Event, EventGeneration
from spyrert.execution.operations import (
    Access,
    Compute,
    Copy,
    Fill,
    HostCall,
    Operation,
    OpState,
    Signal,
    Wait,
)
from spyrert.execution.scheduler import Scheduler
from spyrert.execution.streams import ErrorCode, Recorder, Stream, StreamState, StreamStatus

__all__ = [
    "Access",
    "Compute",
    "Copy",
    "ErrorCode",
    "Event",
    "EventGeneration",
    "Fill",
    "HostCall",
    "OpState",
    "Operation",
    "Recorder",
    "Scheduler",
    "Signal",
    "Stream",
    "StreamState",
    "StreamStatus",
    "Wait",
]
