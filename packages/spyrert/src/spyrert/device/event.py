"""A complete device except for the meaning of programs.

:class:`EventDevice` implements :class:`spyrert.device.Device`: sparse regions, transfers with loop nests and
format conversion, fills, three engines on one virtual clock, counters, fault injection. Programs are executed
by executors that are registered per payload kind (runtime spec 5.4).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from spyrert.device.costs import CostModel
from spyrert.device.dma import INTEGER_CONVERTERS, RAW, Transfer, check_transfer, transferred_bytes
from spyrert.device.faults import FaultKind, FaultPlan, FaultSpec
from spyrert.device.memory import RegionTable, TranslatedMemory
from spyrert.device.programs import ImageCache, read_symbols
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
    StaleCorrection,
)

HANG_NS: Final = 10**15


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

    ``faults`` injects faults, :meth:`register_executor` and :meth:`register_converter` extend it. Operations
    take effect when they start in virtual time; their writes are seen by others when they end.
    """

    def __init__(self, props: DeviceProperties | None = None, cost: CostModel | None = None) -> None:
        self._props = props or DeviceProperties()
        self.cost = cost or CostModel()
        self.faults = FaultPlan()
        self._executors: dict[int, Executor] = {}
        self._converters: dict[tuple[str, str], Converter] = dict(INTEGER_CONVERTERS)
        self._regions = self._new_regions()
        self._now = 0
        self._ticket = 0
        self._queues: dict[Engine, list[_Job]] = {engine: [] for engine in Engine}
        self._running: list[tuple[int, int, _Job]] = []
        self._jobs: dict[int, _Job] = {}
        self._finished: list[Completion] = []
        self._held: list[Completion] = []
        self._lost = False
        self._images = ImageCache()
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
        if self.faults.refuses_region(memory_type):
            raise MemoryError(f"device {self._props.index} refuses a region of {size} bytes")
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
                self._finished, self._held = self._held, []
                if not self._finished:
                    return None
                break
            end, _, job = self._running[0]
            if end > self._now:
                if not block:
                    return None
                self._pass(end)
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
        return len(self._jobs) + len(self._finished) + len(self._held)

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
        self._pass(target)

    def _pass(self, time: int) -> None:
        """Let time pass; counts how long transfers and programs ran beside each other."""
        busy = {engine_of(job.block) for _, _, job in self._running}
        if Engine.COMPUTE in busy and len(busy) > 1:
            self._counters["overlap_ns"] += time - self._now
        self._now = time

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
        self._held.clear()
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
                if block.elem_bytes not in RAW or total % block.elem_bytes:
                    raise ControlBlockError(f"fill of {total} bytes with elements of {block.elem_bytes}")
                if not 0 <= block.value_bits < 1 << 8 * block.elem_bytes:
                    raise ControlBlockError(
                        f"fill value {block.value_bits:#x} exceeds {block.elem_bytes} bytes"
                    )
            case DmaCB():
                check_transfer(block, self.region_info, self._converters)
            case P2PCB():
                raise ControlBlockError("this device has no peer link", "UnsupportedControlBlock")

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
        notes: tuple[str, ...] = ()
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
                    notes = (*notes, "a memory error was corrected")
        timeout = block.timeout_ns if isinstance(block, (ComputeCB, DmaCB)) else 0
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
            notes,
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
            phases = completion.phases
            self._counters["cycles_busy_compute"] += phases.compute
            self._counters["cycles_dmi"] += phases.dmi
            self._counters["cycles_compute"] += phases.compute
            self._counters["cycles_dmo"] += phases.dmo
        self._report(job, completion)
        self._start_ready()

    def _report(self, job: _Job, completion: Completion) -> None:
        job.state = _State.DONE
        self._jobs.pop(job.ticket, None)
        self._counters[f"cb_{completion.status.value}"] += 1
        if any(fault.kind is FaultKind.COMPLETION_REORDER for fault in job.faults):
            self._held += [completion] * job.reports
            return
        self._finished += [completion] * job.reports + self._held
        self._held = []

    # -- execution -----------------------------------------------------------------------------

    def _fill(self, block: FillCB) -> _Outcome:
        size = sum(piece.size for piece in block.pieces)
        raw = np.full(size // block.elem_bytes, block.value_bits, RAW[block.elem_bytes]).view(np.uint8)
        return _Outcome(
            self.cost.fill_ns(size), size, commit=lambda: self._regions.scatter(block.pieces, raw)
        )

    def _transfer(self, block: DmaCB, faults: Sequence[FaultSpec]) -> _Outcome:
        transfer = Transfer.begin(block, self._regions, self._converters)
        fault: DeviceFault | None = None
        for injected in faults:
            match injected.kind:
                case FaultKind.DMA_ERROR | FaultKind.DMA_SHORT:
                    transfer.limit = int(injected.params.get("after_bytes", injected.params.get("bytes", 0)))
                    what = block.name or block.op_id
                    fault = DeviceFault(DmaFault, f"transfer {what} failed after {transfer.limit} bytes")
                case FaultKind.DMA_CORRUPT:
                    for bit in injected.params.get("bits", [0]):
                        transfer.flip(bit)
                case FaultKind.ECC_UNCORRECTABLE:
                    fault = DeviceFault(EccError, "uncorrectable memory error", dict(injected.params))
                    self._counters["ecc_uncorrected"] += 1
        size = transferred_bytes(block)
        counter = {
            Direction.TO_DEVICE: "bytes_h2d",
            Direction.FROM_DEVICE: "bytes_d2h",
            Direction.ON_DEVICE: "bytes_d2d",
        }[block.direction]
        self._counters[counter] += size if fault is None else 0
        return _Outcome(self.cost.dma_ns(size, block.direction), size, fault, commit=transfer.commit)

    def _compute(self, block: ComputeCB, faults: Sequence[FaultSpec]) -> _Outcome:
        overlay = TranslatedMemory(block.segments, self._regions)
        cycles, phases, fault = 0, Phases(), None
        try:
            for injected in faults:
                _raise_injected(injected, block)
            image, digest = self._images.load(block, overlay)
            symbols = read_symbols(block, image, overlay)
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
    "cycles_dmi",
    "cycles_compute",
    "cycles_dmo",
    "dma_in_busy_ns",
    "dma_out_busy_ns",
    "compute_busy_ns",
    "overlap_ns",
    "page_faults",
    "stale_corrections",
    "ecc_corrected",
    "ecc_uncorrected",
    "timeouts",
    "queue_depth_max",
)
