"""Devices: the interface that the runtime uses, and two implementations to build on.

:class:`Device` is the Protocol. :class:`EventDevice` is a complete device except for the meaning of programs:
memory, transfers, engines, virtual time, counters, faults; programs are executed by registered executors.
:class:`MicroDevice` adds the micro executor and scripted latencies, so that the runtime can be tested without
compiler or simulator.
"""

from spyrert.device.costs import CostModel
from spyrert.device.event import EventDevice
from spyrert.device.faults import FaultKind, FaultSpec, Match
from spyrert.device.micro import MicroDevice
from spyrert.device.protocol import (
    P2PCB,
    Completion,
    ComputeCB,
    ControlBlock,
    ControlBlockError,
    Converter,
    Device,
    DeviceBusy,
    DeviceFactory,
    DeviceFault,
    DeviceProperties,
    Direction,
    DmaCB,
    Engine,
    ExecResult,
    Executor,
    FillCB,
    MemoryDomain,
    MemoryType,
    Nest,
    Phases,
    Piece,
    Program,
    RegionInfo,
    SegmentEntry,
    SegmentMemory,
    Status,
    check_compute,
    check_pieces,
    engine_of,
)

__all__ = [
    "P2PCB",
    "Completion",
    "ComputeCB",
    "ControlBlock",
    "ControlBlockError",
    "Converter",
    "CostModel",
    "Device",
    "DeviceBusy",
    "DeviceFactory",
    "DeviceFault",
    "DeviceProperties",
    "Direction",
    "DmaCB",
    "Engine",
    "EventDevice",
    "ExecResult",
    "Executor",
    "FaultKind",
    "FaultSpec",
    "FillCB",
    "Match",
    "MemoryDomain",
    "MemoryType",
    "MicroDevice",
    "Nest",
    "Phases",
    "Piece",
    "Program",
    "RegionInfo",
    "SegmentEntry",
    "SegmentMemory",
    "Status",
    "check_compute",
    "check_pieces",
    "engine_of",
]
