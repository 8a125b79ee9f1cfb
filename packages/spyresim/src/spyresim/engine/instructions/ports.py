"""Ports of memories whose description states a bandwidth: requests are served first come, first served.

Device memory has one port that all cores share.  A scratchpad has one that everything shares that comes to
it, load and store units of all corelets and copies, if the memory itself has a bandwidth; the links from it
to its units have theirs in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine.state import Blocked, Gang, Place, ViewValue
from spyresim.engine.values import Ticks

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


def service_time(x: Executor, place: Place, size: int) -> int:
    """Ticks that a port is taken by so many bytes of one row; 0 without a limit."""
    if place.memory.memory_class is im.MemoryClass.REGISTER:
        return 0
    return x.context.costs.port_time(place.memory.kind, size)


def has_turn(x: Executor, gang: Gang, view: ViewValue) -> bool:
    """Whether an instruction may come to the port of a memory: it has to be the first in order of time."""
    if gang.turn or not service_time(x, x.place_of(gang, view), 1):
        gang.turn = False
        return True
    gang.blocked = Blocked("port", x.place_of(gang, view).memory.kind, None)
    return False


def served(x: Executor, place: Place, arrival: Ticks, service: int) -> Ticks:
    """When requests that arrive at these times, one a row, have been served.

    Those of one batch come to a shared port by arrival, then by core.
    """
    key = place.memory.kind, place.memory.corelet
    shared = place.memory.memory_class is im.MemoryClass.GLOBAL
    ports = x.context.ports
    if key not in ports.free:
        count = 1 if shared else x.context.costs.architecture.cores
        ports.free[key], ports.busy[key] = np.zeros(count, np.int64), np.zeros(count, np.int64)
    free, busy = ports.free[key], ports.busy[key]
    if not shared:
        done: Ticks = np.maximum(arrival, free[place.cores]) + service
        free[place.cores] = done
        busy[place.cores] += service
        return done
    order = np.argsort(arrival, kind="stable")
    positions = np.arange(len(arrival), dtype=np.int64)
    ready = np.maximum(arrival[order], free[0])
    ordered = np.maximum.accumulate(ready - positions * service) + (positions + 1) * service
    free[0] = ordered[-1]
    busy[0] += service * len(arrival)
    out = np.empty_like(ordered)
    out[order] = ordered
    return out
