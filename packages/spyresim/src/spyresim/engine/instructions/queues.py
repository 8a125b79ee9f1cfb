"""Queues and signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine.faults import queue_fault
from spyresim.engine.races import join
from spyresim.engine.state import Blocked, Cohort, Gang, Item, Mark
from spyresim.engine.values import TICKS_PER_CYCLE

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


def send(x: Executor, cohort: Cohort, gang: Gang, i: im.Send) -> bool:
    queue = x.queue(cohort, gang, i.unit, outgoing=True)
    vector = x.vector(gang, i.source)
    if queue.size_bytes and x.bytes_of(vector) > queue.size_bytes:
        raise queue_fault(
            f"an item of {x.bytes_of(vector)} bytes does not fit FIFO {queue.name} of {queue.size_bytes}",
            queue.name,
            x.site(gang),
        )
    size = x.bytes_of(vector)
    if not queue.has_room(size):
        other = x.target(cohort, gang, i.unit)
        gang.blocked = Blocked("queue full", queue.name, other.index)
        return False
    start = gang.time
    for room in queue.put(size):
        join(gang.clock, room.clock)
        start = np.maximum(start, room.time)
    x.spend(gang, start, TICKS_PER_CYCLE, "output full", "send")
    queue.items.append(Item(vector, gang.time + x.context.costs.queue_latency, x.tick(gang)))
    queue.high_water = max(queue.high_water, len(queue.items))
    x.record_item(gang, x.target(cohort, gang, i.unit), gang.time, +1)
    gang.pc += 1
    return True


def receive(x: Executor, cohort: Cohort, gang: Gang, i: im.Receive) -> bool:
    queue = x.queue(cohort, gang, i.unit, outgoing=False)
    if not queue.items:
        other = x.target(cohort, gang, i.unit)
        gang.blocked = Blocked("queue empty", queue.name, other.index)
        return False
    item = queue.items.popleft()
    value = item.value
    if value.element is not i.element or value.lanes != i.lanes:
        raise queue_fault(
            f"type mismatch on FIFO {queue.name}: sent {value.lanes}x{value.element.mlir}, received "
            f"{i.lanes}x{i.element.mlir}",
            queue.name,
            x.site(gang),
        )
    gang.vectors[i.dst] = value
    start = np.maximum(gang.time, item.visible)
    x.spend(gang, start, TICKS_PER_CYCLE, "input empty", "receive")
    join(gang.clock, item.clock)
    queue.take(x.bytes_of(value), Mark(gang.time, x.tick(gang)))
    sender = x.target(cohort, gang, i.unit)
    x.record_item(sender, gang, gang.time, -1)
    x.record_flow(sender, gang, item.visible - x.context.costs.queue_latency, gang.time)
    gang.pc += 1
    return True


def sync_send(x: Executor, cohort: Cohort, gang: Gang, i: im.SyncSend) -> bool:
    if i.wait and not x.drained(gang):
        return False
    start = np.maximum(gang.time, gang.copy_end) if i.wait else gang.time
    if i.wait:
        join(gang.clock, gang.copy_clock)
    x.spend(gang, start, TICKS_PER_CYCLE, "copies", "signal")
    signals = x.signals(cohort, gang, i.unit, outgoing=True)
    signals.pending.append(Mark(gang.time + x.context.costs.signal_latency, x.tick(gang)))
    gang.pc += 1
    return True


def sync_receive(x: Executor, cohort: Cohort, gang: Gang, i: im.SyncReceive) -> bool:
    signals = x.signals(cohort, gang, i.unit, outgoing=False)
    if not signals.pending:
        other = x.target(cohort, gang, i.unit)
        gang.blocked = Blocked("signal", signals.name, other.index)
        return False
    signal = signals.pending.popleft()
    join(gang.clock, signal.clock)
    start = np.maximum(gang.time, signal.time)
    x.spend(gang, start, TICKS_PER_CYCLE, "signal", "wait for signal")
    gang.pc += 1
    return True


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.Send: send,
    im.Receive: receive,
    im.SyncSend: sync_send,
    im.SyncReceive: sync_receive,
}
