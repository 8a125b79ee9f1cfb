"""One call body to a LINEAR of kernels, cached by content (scheduler spec 1 and 4)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from rangeify import disk_cache, report
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
    slot why that value is stored."""

    linear: UOp
    reasons: Mapping[int, Reason]


_Key: TypeAlias = "tuple[bytes, tuple[object, ...]]"

#: Lowered bodies by (content key, configuration): the memory level of the schedule cache.
_cache: Final[dict[_Key, Lowered]] = {}
#: The bodies themselves: while they live, an equal graph is made of their nodes, whose keys are known.
_bodies: Final[dict[_Key, UOp]] = {}
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


def kernel_graph(body: UOp, config: Config) -> tuple[UOp, Mapping[int, Reason]]:
    """The SINK of a call body as kernels over states of storage, not yet in order, and why each ALLOC slot is
    there. Every stage in the order of scheduler spec 1."""
    devices = DeviceLowering(config, lambda inner, c: lower_body(inner, c).linear, _local_storage(body))
    local = lower_devices(open_calls(body, devices), devices)
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
    graph, reasons = kernel_graph(body, config)
    return Lowered(create_schedule(graph, config.order == "memory"), reasons)


def _local_storage(body: UOp) -> int:
    return max((-n.arg.slot for n in body.toposort(enter_calls=False) if n.op is Ops.ALLOC), default=0)


def lower_calls(calls: Sequence[UOp], config: Config) -> list[Lowered]:
    """The lowered bodies of CALLs, from a cache where an equal body was lowered before under an equal
    configuration. Equal bodies among `calls` are lowered once, and each without ``Config.reuse``."""
    bodies = [call.src[0] for call in calls]
    if config.reuse:
        known = {body: lower_body(body, config) for body in dict.fromkeys(bodies)}
        return [known[body] for body in bodies]
    if config.schedule_cache == 0:
        return [lower_sink(body, config) for body in bodies]
    keys = [(body.key, config.key()) for body in bodies]
    found = [_cached(body, key, config) for body, key in zip(bodies, keys, strict=True)]
    return [
        _lower_and_keep(body, key, config) if old is None else old
        for body, key, old in zip(bodies, keys, found, strict=True)
    ]


def lower_body(body: UOp, config: Config) -> Lowered:
    """The lowered SINK of a call, from a cache when an equal body was lowered with an equal configuration."""
    if config.schedule_cache == 0:
        return lower_sink(body, config)
    key = (body.key, config.key())
    return _cached(body, key, config) or _lower_and_keep(body, key, config)


def _cached(body: UOp, key: _Key, config: Config) -> Lowered | None:
    """What the memory or the disk level has for a key; what was on disk is in memory from now on."""
    with _lock:
        hit = _cache.get(key)
    if hit is not None:
        statistics.hits += 1
        return hit
    path = _path(key, config)
    entry = None if path is None else disk_cache.load(path)
    if entry is None:
        return None
    statistics.disk_hits += 1
    return _keep(body, key, Lowered(*entry))


def _lower_and_keep(body: UOp, key: _Key, config: Config) -> Lowered:
    statistics.misses += 1
    lowered = lower_sink(body, config)
    path = _path(key, config)
    if path is not None:
        disk_cache.store(path, lowered.linear, lowered.reasons)
    return _keep(body, key, lowered)


def _keep(body: UOp, key: _Key, lowered: Lowered) -> Lowered:
    with _lock:
        _bodies[key] = body
        return _cache.setdefault(key, lowered)


def _path(key: _Key, config: Config) -> Path | None:
    if config.schedule_cache < 2:
        return None
    return disk_cache.entry_path(disk_cache.cache_directory(config.cache_directory), key)
