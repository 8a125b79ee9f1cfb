"""One call body to a LINEAR of kernels, cached by content (scheduler spec 1 and 4)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

import attrs

from rangeify import disk_cache, report
from rangeify.blocks import call_blocks
from rangeify.buffers import stage_to_storage
from rangeify.calls import open_calls
from rangeify.config import Config
from rangeify.gather_rules import collapse_gathers
from rangeify.kernels import split_kernels
from rangeify.limit import limit_buffers
from rangeify.multi import DeviceLowering, lower_devices
from rangeify.order import create_schedule
from rangeify.prepare import prepare
from rangeify.profit import keep_what_pays
from rangeify.ranges import run_rangeify
from rangeify.reasons import Reason
from rangeify.rows import merge_rows
from rangeify.unstage import Mode, unstage
from uopgraph import Ops, UOp


@attrs.frozen(eq=False)
class Lowered:
    """``linear``: the kernel calls over PARAMs of the call and call-local ALLOCs. ``reasons``: for each ALLOC
    slot why that value is stored. ``nested``: the same for the LINEAR of each repeated block."""

    linear: UOp
    reasons: Mapping[int, Reason]
    nested: Mapping[UOp, Mapping[int, Reason]] = attrs.field(factory=dict)


#: Lowered bodies by (content key, configuration): the memory level of the schedule cache.
_cache: Final[dict[tuple[bytes, tuple[object, ...]], Lowered]] = {}
#: The bodies themselves: while they live, an equal graph is made of their nodes, whose keys are known.
_bodies: Final[dict[tuple[bytes, tuple[object, ...]], UOp]] = {}
_lock: Final = threading.Lock()


@attrs.define
class CacheStatistics:
    """How many bodies were found in the cache and how many were lowered, since the process began."""

    hits: int = 0
    disk_hits: int = 0
    misses: int = 0


statistics: Final = CacheStatistics()


def clear_schedule_cache() -> None:
    """Forget every cached schedule."""
    with _lock:
        _cache.clear()
        _bodies.clear()


def kernel_graph(
    body: UOp, config: Config, nested: dict[UOp, Mapping[int, Reason]] | None = None
) -> tuple[UOp, Mapping[int, Reason]]:
    """The SINK of a call body as kernels over states of storage, not yet in order, and why each ALLOC slot is
    there (`nested`: for the kernels of repeated blocks). Every stage in the order of scheduler spec 1."""
    devices = DeviceLowering(
        config, lambda inner, c: lower_body(inner, c).linear, _lower_block, _local_storage(body)
    )
    opened = open_calls(body, devices)
    # an order for memory looks at all kernels at once
    local = lower_devices(opened if config.order == "memory" else call_blocks(opened, devices), devices)
    if nested is not None:
        nested.update(devices.nested)
    prepared = prepare(local, config)
    ranged, found = run_rangeify(prepared, config)
    if config.debug_ranges:
        report.tell(report.ranges_table(prepared, found))
    if config.fusion == "profit":
        ranged = keep_what_pays(ranged)
    fused = unstage(ranged, config.fast_math, Mode(config.fusion == "rows", config.partial_stage > 2))
    if config.fusion == "rows":
        fused = unstage(merge_rows(fused, config.row_bytes), config.fast_math)
    if config.max_kernel_buffers:
        fused = limit_buffers(fused, config.max_kernel_buffers)
    if config.collapse_gathers:
        fused = collapse_gathers(fused)
    stored, allocation = stage_to_storage(fused)
    return split_kernels(stored), {**devices.reasons, **allocation.reasons}


def lower_sink(body: UOp, config: Config) -> Lowered:
    """Lower the SINK of a call body, without the cache."""
    nested: dict[UOp, Mapping[int, Reason]] = {}
    graph, reasons = kernel_graph(body, config, nested)
    return Lowered(create_schedule(graph, config.order == "memory"), reasons, nested)


def _lower_block(body: UOp, config: Config) -> tuple[UOp, Mapping[int, Reason]]:
    lowered = lower_sink(body, config)
    return lowered.linear, lowered.reasons


def _local_storage(body: UOp) -> int:
    return max((-n.arg.slot for n in body.toposort(enter_calls=False) if n.op is Ops.ALLOC), default=0)


def lower_call(call: UOp, config: Config) -> Lowered:
    """The lowered body of a CALL, from a cache when an equal body was lowered under an equal
    configuration.
    """
    assert call.op is Ops.CALL
    return lower_body(call.src[0], config)


def lower_body(body: UOp, config: Config) -> Lowered:
    """:func:`lower_call` of a body: the SINK of a call."""
    if config.schedule_cache == 0:
        return lower_sink(body, config)
    key = (body.key, config.key())
    with _lock:
        hit = _cache.get(key)
    if hit is not None:
        statistics.hits += 1
        return hit
    on_disk = config.schedule_cache >= 2
    path = disk_cache.entry_path(disk_cache.cache_directory(config.cache_directory), key) if on_disk else None
    entry = None if path is None else disk_cache.load(path)
    if entry is not None:
        statistics.disk_hits += 1
        lowered = Lowered(*entry)
    else:
        statistics.misses += 1
        lowered = lower_sink(body, config)
        if path is not None:
            disk_cache.store(path, lowered.linear, lowered.reasons)
    with _lock:
        _bodies[key] = body
        return _cache.setdefault(key, lowered)
