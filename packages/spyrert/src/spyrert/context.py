"""One device as the runtime holds it: regions, allocator, scheduler, streams, caches."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable

from spyrert.config import Overlap, RuntimeConfig
from spyrert.constants import DYN_SEGMENT, PROG_SEGMENT, STICK_BYTES
from spyrert.correction import CorrectionArena
from spyrert.device.protocol import Device, MemoryType, SegmentEntry
from spyrert.errors import ConfigError
from spyrert.execution import Scheduler, StreamState
from spyrert.execution.validity import IndeterminateMemory
from spyrert.memory import AllocationDirective, FlexAllocator, MemoryEvent, MemoryRegion, PlacementPolicy
from spyrert.tensor import Storage

DEFAULT_STREAM = 0
NORMAL_STREAMS = range(1, 33)
HIGH_STREAMS = range(33, 65)
FIRST_HOST_STREAM = 65
FALLBACK_SIZES = (12 << 30, 8 << 30, 4 << 30)


class DeviceContext:
    """Everything of one device. Made at first use by the runtime."""

    def __init__(
        self,
        index: int,
        device: Device,
        config: RuntimeConfig,
    ) -> None:
        self.index = index
        self.device = device
        self.config = config
        self.generation = 0
        self.props = device.props
        self.memory_observers: list[Callable[[MemoryEvent], None]] = []
        """Called with each allocation and release, without any lock held."""
        regions = _make_regions(device, config)
        self.allocator = FlexAllocator(regions, config.region_order, self._on_memory)
        self.scheduler = Scheduler(
            device, self.allocator, config.progress, index, config.host_timeout, config.timeout_ns
        )
        if config.track_validity:
            self.scheduler.indeterminate = IndeterminateMemory()
        self.launch_numbers = itertools.count(1)
        self.inflight = 0
        self.launches = 0
        self.image_transfers = 0
        self.storages: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        self._arenas: dict[int, CorrectionArena] = {}
        self._entries: dict[tuple[int, bool], SegmentEntry] = {}
        self._lock = threading.RLock()
        self._table: dict[int, StreamState] = {}
        self._generations: dict[int, int] = {}
        self._next = {False: itertools.cycle(NORMAL_STREAMS), True: itertools.cycle(HIGH_STREAMS)}
        self._open_streams()

    def _on_memory(self, event: MemoryEvent) -> None:
        for observer in list(self.memory_observers):
            observer(event)

    def _open_streams(self) -> None:
        self.stream_state(DEFAULT_STREAM)
        for number in range(self.config.host_compute_streams):
            self.stream_state(FIRST_HOST_STREAM + number)

    def reset(self) -> None:
        """Cancel everything and start anew: allocations and plans become stale, streams get a new "
        "generation."""
        with self._lock:
            self.scheduler.abandon()
            self.device.reset()
            self.generation += 1
            regions = _make_regions(self.device, self.config)
            self.allocator = FlexAllocator(regions, self.config.region_order, self._on_memory)
            self.scheduler.allocator = self.allocator
            self._arenas.clear()
            self._entries.clear()
            self.storages.clear()
            self._open_streams()

    def stream_state(self, id: int) -> StreamState:
        """The live queue of a stream id; a fresh generation after destruction."""
        with self._lock:
            state = self._table.get(id)
            if state is None or state.destroyed:
                generation = self._generations.get(id, -1) + 1
                self._generations[id] = generation
                priority = -1 if id >= HIGH_STREAMS.start else 0
                state = StreamState(id, generation, priority, self.index)
                state.tracked = self.config.hazard_tracker or self.config.overlap is not Overlap.OFF
                self._table[id] = state
                self.scheduler.add_stream(state)
            return state

    def pooled_stream(self, high: bool) -> StreamState:
        """Next stream of the pool, round robin."""
        with self._lock:
            return self.stream_state(next(self._next[high]))

    def region_entry(self, region_id: int, writable: bool) -> SegmentEntry:
        """A whole region as an entry of a segment table."""
        found = self._entries.get((region_id, writable))
        if found is None:
            size = self.allocator.region(region_id).size
            found = self._entries[region_id, writable] = SegmentEntry(True, region_id, 0, size, writable)
        return found

    def arena(self, stream_id: int) -> CorrectionArena:
        """Correction buffers of a stream that runs host functions."""
        found = self._arenas.get(stream_id)
        if found is None:
            config = self.config
            made = CorrectionArena(config.correction_arena_depth, config.correction_region_bytes)
            found = self._arenas.setdefault(stream_id, made)
        return found

    def shutdown_arenas(self) -> None:
        for arena in self._arenas.values():
            arena.shutdown()

    def launch_begun(self) -> None:
        with self._lock:
            self.inflight += 1
            self.launches += 1

    def launch_ended(self) -> None:
        with self._lock:
            self.inflight -= 1

    def stream_states(self) -> list[StreamState]:
        with self._lock:
            return [state for _, state in sorted(self._table.items()) if not state.destroyed]

    def reset_default(self) -> StreamState:
        """Replace the default stream by a new generation."""
        with self._lock:
            self.scheduler.destroy(self._table[DEFAULT_STREAM], cancel=True)
            return self.stream_state(DEFAULT_STREAM)

    def program_directive(self, memory_type: MemoryType) -> AllocationDirective:
        """Programs are bound to the domain of their region."""
        domain = next(r.domain_id for r in self.allocator.regions if r.memory_type is memory_type)
        return AllocationDirective(PlacementPolicy.BIND, (domain,), memory_type=memory_type)


def _make_regions(device: Device, config: RuntimeConfig) -> list[MemoryRegion]:
    """All regions: tensors in segments 1.., dynamic blocks in 6, programs in 7; spread over the memory
    domains."""
    domains = [domain.id for domain in device.props.domains]
    wanted = [
        (PROG_SEGMENT, config.program_region_bytes, MemoryType.PROGRAM_STATIC, domains[0]),
        (DYN_SEGMENT, config.dynamic_region_bytes, MemoryType.PROGRAM_DYNAMIC, domains[0]),
    ]
    count = max(config.tensor_regions, min(len(domains), 5))
    wanted += [
        (1 + k, config.tensor_region_bytes, MemoryType.TENSOR, domains[k % len(domains)])
        for k in range(count)
    ]
    capacity = {domain.id: domain.capacity for domain in device.props.domains}
    shares = {d: sum(1 for w in wanted if w[3] == d) for d in domains}
    regions = []
    for segment, size, memory_type, domain in wanted:
        share = capacity[domain] // shares[domain] // STICK_BYTES * STICK_BYTES
        fitting = [s for s in FALLBACK_SIZES if s <= share]
        length = size or (fitting[0] if fitting else share)
        if length < STICK_BYTES or length % STICK_BYTES:
            raise ConfigError(f"region of segment {segment} would have {length} bytes")
        try:
            region_id = device.create_region(length, domain, memory_type)
        except MemoryError as error:
            raise ConfigError(
                f"region of segment {segment} ({length} bytes) does not fit: {error}"
            ) from error
        regions.append(MemoryRegion(region_id, domain, segment, length, memory_type))
    return regions
