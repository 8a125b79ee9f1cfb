"""Dataflow scheduler: KTIR to ScheduleIR to DataflowIR to SpyreCode for any described device."""

from __future__ import annotations

from dfsched.architecture import Architecture
from dfsched.architecture.loading import load_architecture
from dfsched.errors import DfschedError

__all__ = ["Architecture", "DfschedError", "load_architecture"]
