"""A complete device except for the meaning of programs.

:class:`EventDevice` implements :class:`spyrert.device.Device`: sparse regions, transfers with loop nests
and format
conversion, fills, three engines on one virtual clock, counters, fault injection. Programs are executed by
executors
that are registered per payload kind (runtime spec 5.4).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from spyrert.constants import PROG_OFFSET_BASE
from spyrert.device.faults import FaultKind, FaultPlan, FaultSpec
from spyrert.device.memory import RegionTable, TranslatedMemory, nest_elements, nest_extent, nest_view
from spyrert.device.protocol import (
    P2PCB,
    Completion,
    ComputeCB,
    ControlBlock,
    ControlBlockError,
    Converter,
    DeviceBusy,
    DeviceFault,
    DeviceProperties,
    Direction,
    DmaCB,
    Engine,
    Executor,
    FillCB,
    MemoryType,
    Phases,
    Program,
    RegionInfo,
    Status,
    check_compute,
    check_pieces,
    engine_of,
)
from spyrert.errors import (
    ComputeFault,
    CoreUnavailable,
    DeviceError,
    DeviceLost,
    DeviceTimeout,
    DmaFault,
    EccError,
    PageFault,
    SpyreCodeImageError,
    StaleCorrection,
    UnsupportedDtype,
)
from spyrert.spyrecode.correction import Correction
from spyrert.spyrecode.image import HEADER_BYTES, Image
from spyrert.spyrecode.layout import item_bytes

_RAW: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}
HANG_NS: Final = 10**15


@attrs.frozen
class CostModel:
    """Virtual time of operations, in integer nanoseconds, rounded up.

    Linear: a fixed latency plus bytes over bandwidth (bytes per second) for transfers; cycles over the
    clock for
    programs.
    """

    link_bandwidth: int = 64_000_000_000
    latency_ns: int = 2_000
    clock_hz: int = 1_000_000_000
    fill_bandwidth: int = 200_000_000_000

    def dma_ns(self, size: int, direction: Direction) -> int:
        return self.latency_ns + -(-size * 10**9 // self.link_bandwidth)

    def compute_ns(self, cycles: int) -> int:
        return -(-cycles * 10**9 // self.clock_hz)

    def fill_ns(self, size: int) -> int:
        return self.latency_ns + -(-size * 10**9 // self.fill_bandwidth)


class _State(enum.Enum):
    QUEUED = enum.auto()
    RUNNING = enum.auto()
    DONE = enum.auto()


@attrs.define(eq=False)
class _Job:
    ticket: int
    block: ControlBlock
    t_submit: int
    faults: list[FaultSpec]
    state: _State = _State.QUEUED
    completion: Completion | None = None
    commit: Callable[[], None] = lambda: None
    reports: int = 1


@attrs.define
class _Outcome:
    """What an operation did: time, bytes, fault; ``commit`` makes its writes visible at completion."""

    duration: int
    bytes: int = 0
    fault: DeviceFault | None = None
    phases: Phases = attrs.field(factory=Phases)
    commit: Callable[[], None] = lambda: None


class EventDevice:
    """A device whose programs are executed by registered executors.

    Args:
        props: what the device tells about itself; ``payload_kinds`` is extended by registered executors.
        cost: durations.

    ``faults`` injects faults, :meth:`register_executor` and :meth:`register_converter` extend it.
    Operations take
    effect when they start in virtual time; their writes are seen by others when they end.
    """

    def __init__(self, props: DeviceProperties | None = None, cost: CostModel | None = None) -> None:
        self._props = props or DeviceProperties()
        self.cost = cost or CostModel()
        self.faults = FaultPlan()
        self._executors: dict[int, Executor] = {}
        self._converters: dict[tuple[str, str], Converter] = dict(_NARROWING)
        self._regions = self._new_regions()
        self._now = 0
        self._ticket = 0
        self._queues: dict[Engine, list[_Job]] = {engine: [] for engine in Engine}
        self._running: list[tuple[int, int, _Job]] = []
        self._jobs: dict[int, _Job] = {}
        self._finished: list[Completion] = []
        self._lost = False
        self._images: dict[bytes, tuple[Image, str]] = {}
        self._counters: dict[str, int] = {}
        self.reset_counters()

    # -- extension -----------------------------------------------------------------------------

    @property
    def props(self) -> DeviceProperties:
        return self._props

    def register_executor(self, payload_kind: int, executor: Executor) -> None:
        """Let programs of this kind be executed by ``executor(program, memory, core_mask)``."""
        self._executors[payload_kind] = executor
        kinds = self._props.payload_kinds | {payload_kind}
        self._props = attrs.evolve(self._props, payload_kinds=kinds)

    def register_converter(self, src_format: str, dst_format: str, converter: Converter) -> None:
        """Let transfers convert between two formats; the arrays hold raw unsigned integers."""
        self._converters[src_format, dst_format] = converter

    def script_duration(self, block: ControlBlock, duration: int) -> int:
        """Duration that an operation really takes; subclasses may override it."""
        return duration

    # -- memory --------------------------------------------------------------------------------

    def _new_regions(self) -> RegionTable:
        return RegionTable(
            self._props.mode, self._props.fill_byte, {d.id: d.capacity for d in self._props.domains}
        )

    def create_region(self, size: int, domain_id: int, memory_type: MemoryType) -> int:
        return self._regions.create(size, domain_id, memory_type)

    def destroy_region(self, region_id: int) -> None:
        self._regions.destroy(region_id)

    def region_info(self, region_id: int) -> RegionInfo:
        return self._regions.info(region_id)

    def peek(self, region_id: int, offset: int, size: int) -> bytes:
        return self._regions[region_id].read(offset, size).tobytes()

    def poke(self, region_id: int, offset: int, data: bytes) -> None:
        self._regions[region_id].write(offset, np.frombuffer(data, np.uint8))

    # -- work ----------------------------------------------------------------------------------

    def submit(self, block: ControlBlock) -> int:
        if self._lost:
            raise DeviceLost(f"device {self._props.index} is lost", device=self._props.index)
        self._check(block)
        faults = list(self.faults.hits(block))
        if any(fault.kind is FaultKind.SUBMIT_REJECT for fault in faults):
            raise DeviceBusy(f"device {self._props.index} refuses the submission")
        self._ticket += 1
        job = _Job(self._ticket, block, self._now, faults)
        self._jobs[job.ticket] = job
        engine = engine_of(block)
        self._queues[engine].append(job)
        self._counters[_SUBMITTED[type(block)](block)] += 1
        depth = len(self._jobs)
        self._counters["queue_depth_max"] = max(self._counters["queue_depth_max"], depth)
        self._start_ready()
        return job.ticket

    def next_completion(self, block: bool = True) -> Completion | None:
        while not self._finished:
            if not self._running:
                return None
            end, _, job = self._running[0]
            if end > self._now:
                if not block:
                    return None
                self._now = end
            heapq.heappop(self._running)
            self._end(job)
        completion = self._finished.pop(0)
        return completion

    def cancel(self, ticket: int) -> bool:
        job = self._jobs.get(ticket)
        if job is None or job.state is not _State.QUEUED:
            return False
        self._queues[engine_of(job.block)].remove(job)
        self._report(
            job,
            Completion(ticket, job.block.op_id, Status.CANCELLED, None, job.t_submit, self._now, self._now),
        )
        return True

    def in_flight(self) -> int:
        return len(self._jobs) + len(self._finished)

    def can_accept(self, engine: Engine) -> bool:
        running = sum(engine_of(job.block) is engine for _, _, job in self._running)
        return running + len(self._queues[engine]) < self._props.engines[engine]

    def now(self) -> int:
        return self._now

    def advance(self, ns: int) -> None:
        """Let time pass, but not beyond the end of the earliest operation in flight."""
        target = self._now + ns
        if self._finished:
            return
        if self._running and self._running[0][0] <= target:
            target = max(self._now, self._running[0][0])
        self._now = target

    def counters(self) -> dict[str, int]:
        gauges = {
            "queue_depth": len(self._jobs),
            "region_bytes_reserved": self._regions.bytes_reserved,
            "region_pages_touched": self._regions.pages_touched,
        }
        return self._counters | gauges

    def reset_counters(self) -> None:
        self._counters = dict.fromkeys(_COUNTERS, 0)

    def reset(self) -> None:
        for queue in self._queues.values():
            queue.clear()
        self._running.clear()
        self._jobs.clear()
        self._finished.clear()
        self._regions.clear()
        self._images.clear()
        self.faults.clear()
        self._lost = False

    def close(self) -> None:
        self.reset()

    # -- structure -----------------------------------------------------------------------------

    def _check(self, block: ControlBlock) -> None:
        match block:
            case ComputeCB():
                check_compute(block, self.region_info)
            case FillCB():
                total = check_pieces(block.pieces, self.region_info)
                if block.elem_bytes not in _RAW or total % block.elem_bytes:
                    raise ControlBlockError(f"fill of {total} bytes with elements of {block.elem_bytes}")
                if not 0 <= block.value_bits < 1 << 8 * block.elem_bytes:
                    raise ControlBlockError(
                        f"fill value {block.value_bits:#x} exceeds {block.elem_bytes} bytes"
                    )
            case DmaCB():
                self._check_dma(block)
            case P2PCB():
                raise ControlBlockError("this device has no peer link", "UnsupportedControlBlock")

    def _check_dma(self, block: DmaCB) -> None:
        device = check_pieces(block.pieces, self.region_info)
        try:
            src_bytes, dst_bytes = item_bytes(block.src_format), item_bytes(block.dst_format)
        except UnsupportedDtype as error:
            raise ControlBlockError(str(error)) from None
        pair = (block.src_format, block.dst_format)
        if block.src_format != block.dst_format and pair not in self._converters:
            raise ControlBlockError(
                f"no conversion from {block.src_format} to {block.dst_format}", "UnsupportedConversion"
            )
        if block.direction is Direction.ON_DEVICE:
            if block.host is not None:
                raise ControlBlockError("a copy on the device has no host buffer")
            other = check_pieces(block.src_pieces, self.region_info)
        else:
            if block.host is None:
                raise ControlBlockError("a transfer needs a host buffer")
            if block.direction is Direction.FROM_DEVICE and block.host.readonly:
                raise ControlBlockError("a transfer from the device needs a writable host buffer")
            other = block.host.nbytes
        src, dst = (device, other) if block.direction is Direction.FROM_DEVICE else (other, device)
        if not block.nests:
            if src != dst or block.src_format != block.dst_format:
                raise ControlBlockError(f"plain copy of {src} bytes to {dst} bytes")
            return
        for nest in block.nests:
            if not (len(nest.sizes) == len(nest.src_strides) == len(nest.dst_strides)):
                raise ControlBlockError(f"sizes and strides of {nest} differ in length")
            if any(size <= 0 for size in nest.sizes):
                raise ControlBlockError(f"{nest} has an empty loop")
            for strides, offset, total, width, side in (
                (nest.src_strides, nest.src_offset, src, src_bytes, "source"),
                (nest.dst_strides, nest.dst_offset, dst, dst_bytes, "destination"),
            ):
                low, high = nest_extent(nest.sizes, strides, offset)
                if low < 0 or (high + 1) * width > total:
                    raise ControlBlockError(f"{nest} leaves its {side} of {total} bytes")

    # -- progress ------------------------------------------------------------------------------

    def _start_ready(self) -> None:
        for engine, queue in self._queues.items():
            running = sum(engine_of(job.block) is engine for _, _, job in self._running)
            while queue and running < self._props.engines[engine]:
                self._start(queue.pop(0))
                running += 1

    def _start(self, job: _Job) -> None:
        block = job.block
        faults = job.faults
        match block:
            case ComputeCB():
                outcome = self._compute(block, faults)
            case DmaCB():
                outcome = self._transfer(block, faults)
            case FillCB():
                outcome = self._fill(block)
            case P2PCB():
                raise AssertionError("refused at submission")
        duration = self.script_duration(block, outcome.duration)
        for fault in faults:
            match fault.kind:
                case FaultKind.SLOW:
                    duration *= int(fault.params.get("factor", 2))
                case FaultKind.DMA_HANG | FaultKind.COMPUTE_HANG:
                    duration = HANG_NS
                case FaultKind.COMPLETION_LOST:
                    job.reports = 0
                case FaultKind.COMPLETION_DUPLICATE:
                    job.reports = 2
                case FaultKind.DEVICE_LOST:
                    self._lost = True
                case FaultKind.ECC_CORRECTABLE:
                    self._counters["ecc_corrected"] += 1
        timeout = block.timeout_ns if isinstance(block, ComputeCB) else 0
        if timeout and duration > timeout:
            duration = timeout
            outcome = _Outcome(
                duration, 0, DeviceFault(DeviceTimeout, f"operation {block.op_id} exceeded {timeout} ns")
            )
            self._counters["timeouts"] += 1
        if self._lost:
            outcome = _Outcome(duration, 0, DeviceFault(DeviceLost, f"device {self._props.index} is lost"))
        job.state = _State.RUNNING
        status = Status.OK if outcome.fault is None else Status.FAULT
        job.completion = Completion(
            job.ticket,
            block.op_id,
            status,
            outcome.fault,
            job.t_submit,
            self._now,
            self._now + duration,
            outcome.phases,
            outcome.bytes,
        )
        job.commit = outcome.commit
        heapq.heappush(self._running, (self._now + duration, job.ticket, job))

    def _end(self, job: _Job) -> None:
        assert job.completion is not None
        job.commit()
        completion = job.completion
        engine = engine_of(job.block)
        self._counters[f"{engine.value}_busy_ns"] += completion.t_end - completion.t_start
        if isinstance(job.block, ComputeCB):
            self._counters["cycles_busy_compute"] += completion.phases.compute
        self._report(job, completion)
        self._start_ready()

    def _report(self, job: _Job, completion: Completion) -> None:
        job.state = _State.DONE
        self._jobs.pop(job.ticket, None)
        self._counters[f"cb_{completion.status.value}"] += 1
        self._finished += [completion] * job.reports

    # -- execution -----------------------------------------------------------------------------

    def _fill(self, block: FillCB) -> _Outcome:
        size = sum(piece.size for piece in block.pieces)
        raw = np.full(size // block.elem_bytes, block.value_bits, _RAW[block.elem_bytes]).view(np.uint8)
        return _Outcome(
            self.cost.fill_ns(size), size, commit=lambda: self._regions.scatter(block.pieces, raw)
        )

    def _transfer(self, block: DmaCB, faults: Sequence[FaultSpec]) -> _Outcome:
        device_bytes = sum(piece.size for piece in block.pieces)
        src_raw, dst_raw = _RAW[item_bytes(block.src_format)], _RAW[item_bytes(block.dst_format)]
        match block.direction:
            case Direction.FROM_DEVICE:
                source = self._regions.gather(block.pieces)
            case Direction.ON_DEVICE:
                source = self._regions.gather(block.src_pieces)
            case Direction.TO_DEVICE:
                assert block.host is not None
                source = np.frombuffer(block.host.cast("B"), np.uint8).copy()
        corrupt: list[int] = []
        limit: int | None = None
        fault: DeviceFault | None = None
        for injected in faults:
            match injected.kind:
                case FaultKind.DMA_ERROR | FaultKind.DMA_SHORT:
                    limit = int(injected.params.get("after_bytes", injected.params.get("bytes", 0)))
                    what = block.name or block.op_id
                    fault = DeviceFault(DmaFault, f"transfer {what} failed after {limit} bytes")
                case FaultKind.DMA_CORRUPT:
                    corrupt += list(injected.params.get("bits", [0]))
                case FaultKind.ECC_UNCORRECTABLE:
                    fault = DeviceFault(EccError, "uncorrectable memory error")
                    self._counters["ecc_uncorrected"] += 1
        for bit in corrupt:
            source[bit // 8 % len(source)] ^= 1 << bit % 8
        convert = self._converters.get((block.src_format, block.dst_format))

        def target_bytes(current: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
            if not block.nests:
                return source
            out = current.copy()
            elements_in, elements_out = _elements(source, src_raw), _elements(out, dst_raw)
            for nest in block.nests:
                values = nest_view(elements_in, nest.sizes, nest.src_strides, nest.src_offset)
                if convert is not None and block.src_format != block.dst_format:
                    values = convert(values)
                nest_view(elements_out, nest.sizes, nest.dst_strides, nest.dst_offset)[...] = values
            return out

        def commit() -> None:
            if block.direction is Direction.FROM_DEVICE:
                assert block.host is not None
                host = np.frombuffer(block.host.cast("B"), np.uint8)
                data = target_bytes(host)
                host[: len(data) if limit is None else limit] = data[:limit]
                return
            if block.fill_padding and block.nests:
                current = np.zeros(device_bytes, np.uint8)
            elif block.nests:
                current = self._current(block)
            else:
                current = source
            data = target_bytes(current)
            if limit is None:
                self._regions.scatter(block.pieces, data)
            elif limit > 0:
                before = self._regions.gather(block.pieces)
                before[:limit] = data[:limit]
                self._regions.scatter(block.pieces, before)

        if block.nests:
            width = item_bytes(
                block.src_format if block.direction is Direction.FROM_DEVICE else block.dst_format
            )
            size = device_bytes if block.fill_padding else width * sum(map(nest_elements, block.nests))
        else:
            size = device_bytes
        counter = {
            Direction.TO_DEVICE: "bytes_h2d",
            Direction.FROM_DEVICE: "bytes_d2h",
            Direction.ON_DEVICE: "bytes_d2d",
        }[block.direction]
        self._counters[counter] += size if fault is None else 0
        return _Outcome(self.cost.dma_ns(size, block.direction), size, fault, commit=commit)

    def _current(self, block: DmaCB) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """What the destination holds; sticks that were never written count as zero."""
        parts = []
        for piece in block.pieces:
            region = self._regions[piece.region_id]
            data = region.read(piece.offset, piece.size)
            at = 0
            while at < piece.size:
                step = min(128 - (piece.offset + at) % 128, piece.size - at)
                if not region.written(piece.offset + at, step):
                    data[at : at + step] = 0
                at += step
            parts.append(data)
        return np.concatenate(parts)

    def _compute(self, block: ComputeCB, faults: Sequence[FaultSpec]) -> _Outcome:
        overlay = TranslatedMemory(block.segments, self._regions)
        cycles, phases, fault = 0, Phases(), None
        try:
            for injected in faults:
                _raise_injected(injected, block)
            image, digest = self._image(block, overlay)
            symbols = self._symbols(block, image, overlay)
            executor = self._executors.get(image.payload_kind)
            if executor is None:
                raise ComputeFault(f"no executor for payload kind {image.payload_kind:#x}")
            if image.f16_format != self._props.f16_format:
                raise ComputeFault(
                    f"image has f16 format {image.f16_format}, the device {self._props.f16_format}"
                )
            program = Program(
                image.payload,
                image.payload_kind,
                image.core_count,
                symbols,
                image.f16_format,
                digest,
                block.kernel_name,
                block.launch_seq,
            )
            result = executor(program, overlay, block.core_mask)
            cycles, phases = result.cycles, result.phases
            for name, value in result.counters.items():
                self._counters[name] = self._counters.get(name, 0) + value
            if not any(name.startswith("dram_") for name in result.counters):
                self._counters["dram_read_bytes"] += overlay.bytes_read
                self._counters["dram_write_bytes"] += overlay.bytes_written
                self._counters["sticks_read"] += overlay.sticks_read
                self._counters["sticks_written"] += overlay.sticks_written
        except DeviceError as error:
            fault = DeviceFault(type(error), error.message, dict(error.details))
            if isinstance(error, PageFault):
                self._counters["page_faults"] += 1
            elif isinstance(error, StaleCorrection):
                self._counters["stale_corrections"] += 1
        return _Outcome(self.cost.compute_ns(cycles), 0, fault, phases, overlay.commit)

    def _image(self, block: ComputeCB, memory: TranslatedMemory) -> tuple[Image, str]:
        """Decode the image at the entry, cached by its header (which holds the payload's digest)."""
        length = block.segments[7].length - block.entry_offset
        head = memory.read(PROG_OFFSET_BASE + block.entry_offset, min(HEADER_BYTES, length))
        size = int.from_bytes(head[16:24], "little") if len(head) == HEADER_BYTES else 0
        data = memory.read(PROG_OFFSET_BASE + block.entry_offset, min(size, length)) if size else head
        if data in self._images:
            return self._images[data]
        try:
            image = Image.decode(data)
        except SpyreCodeImageError as error:
            raise ComputeFault(f"bad image at {block.entry_offset:#x}: {error.reason}") from None
        found = (image, data[64:96].hex())
        if len(self._images) > 256:
            self._images.clear()
        self._images[data] = found
        return found

    def _symbols(self, block: ComputeCB, image: Image, memory: TranslatedMemory) -> tuple[int, ...]:
        """Read and check the correction tensor; values in slot order."""
        if image.correction_offset is None:
            return ()
        data = memory.read(PROG_OFFSET_BASE + image.correction_offset, image.correction_size)
        try:
            correction = Correction.decode(data)
        except SpyreCodeImageError as error:
            raise ComputeFault(f"bad correction: {error.reason}") from None
        if len(correction.entries) != image.num_symbols:
            raise ComputeFault(
                f"correction has {len(correction.entries)} entries, the image {image.num_symbols} symbols"
            )
        if correction.plan_digest64 != block.plan_digest64:
            raise ComputeFault("the correction belongs to another plan")
        if correction.launch_seq != block.launch_seq:
            raise StaleCorrection(
                f"the correction is of launch {correction.launch_seq}, this is launch {block.launch_seq}"
            )
        slots = {entry.index: entry.value for entry in correction.entries}
        if sorted(slots) != list(range(image.num_symbols)):
            raise ComputeFault(f"correction slots {sorted(slots)} are not 0..{image.num_symbols - 1}")
        return tuple(slots[index] for index in range(image.num_symbols))


def _elements(data: np.ndarray[Any, np.dtype[np.uint8]], raw: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A byte buffer as raw elements; a ragged end is left out."""
    return data[: len(data) // raw.itemsize * raw.itemsize].view(raw)


def _raise_injected(fault: FaultSpec, block: ComputeCB) -> None:
    params = fault.params
    match fault.kind:
        case FaultKind.COMPUTE_FAULT:
            raise ComputeFault(f"injected fault in {block.kernel_name or block.op_id}", **params)
        case FaultKind.PAGE_FAULT:
            raise PageFault(f"injected page fault in {block.kernel_name or block.op_id}", **params)
        case FaultKind.STALE_CORRECTION:
            raise StaleCorrection("injected stale correction", **params)
        case FaultKind.CORE_UNAVAILABLE:
            raise CoreUnavailable("a core is out of service", **params)
        case FaultKind.ECC_UNCORRECTABLE:
            raise EccError("uncorrectable memory error", **params)


def _narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (values & np.uint64(0xFFFFFFFF)).astype("<u4")


def _widen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.view("<i4").astype("<i8").view("<u8")


_NARROWING: Final[dict[tuple[str, str], Converter]] = {
    ("int64", "int32"): _narrow,
    ("int32", "int64"): _widen,
}

_SUBMITTED: Final[dict[type, Callable[[Any], str]]] = {
    ComputeCB: lambda block: "cb_compute",
    FillCB: lambda block: "cb_fill",
    DmaCB: lambda block: {
        Direction.TO_DEVICE: "cb_dma_in",
        Direction.FROM_DEVICE: "cb_dma_out",
        Direction.ON_DEVICE: "cb_d2d",
    }[block.direction],
}

_COUNTERS: Final = (
    "cb_compute",
    "cb_dma_in",
    "cb_dma_out",
    "cb_d2d",
    "cb_fill",
    "cb_ok",
    "cb_fault",
    "cb_cancelled",
    "bytes_h2d",
    "bytes_d2h",
    "bytes_d2d",
    "dram_read_bytes",
    "dram_write_bytes",
    "sticks_read",
    "sticks_written",
    "cycles_busy_compute",
    "dma_in_busy_ns",
    "dma_out_busy_ns",
    "compute_busy_ns",
    "page_faults",
    "stale_corrections",
    "ecc_corrected",
    "ecc_uncorrected",
    "timeouts",
    "queue_depth_max",
)
