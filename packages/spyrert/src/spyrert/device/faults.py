"""Fault injection: make the n-th operation of a kind fail in a chosen way (runtime spec 5.6)."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, Final

import attrs

from spyrert.device.protocol import ComputeCB, ControlBlock, Engine, MemoryType, engine_of


class FaultKind(enum.Enum):
    DMA_ERROR = "dma_error"
    DMA_CORRUPT = "dma_corrupt"
    DMA_SHORT = "dma_short"
    DMA_HANG = "dma_hang"
    COMPUTE_HANG = "compute_hang"
    COMPUTE_FAULT = "compute_fault"
    PAGE_FAULT = "page_fault"
    STALE_CORRECTION = "stale_correction"
    ECC_CORRECTABLE = "ecc_correctable"
    ECC_UNCORRECTABLE = "ecc_uncorrectable"
    CORE_UNAVAILABLE = "core_unavailable"
    SUBMIT_REJECT = "submit_reject"
    COMPLETION_LOST = "completion_lost"
    COMPLETION_DUPLICATE = "completion_duplicate"
    COMPLETION_REORDER = "completion_reorder"
    ALLOC_FAIL = "alloc_fail"
    SLOW = "slow"
    DEVICE_LOST = "device_lost"


_ENGINE_OF_KIND: Final = {
    FaultKind.DMA_ERROR: (Engine.DMA_IN, Engine.DMA_OUT),
    FaultKind.DMA_CORRUPT: (Engine.DMA_IN, Engine.DMA_OUT),
    FaultKind.DMA_SHORT: (Engine.DMA_IN, Engine.DMA_OUT),
    FaultKind.DMA_HANG: (Engine.DMA_IN, Engine.DMA_OUT),
    FaultKind.COMPUTE_HANG: (Engine.COMPUTE,),
    FaultKind.COMPUTE_FAULT: (Engine.COMPUTE,),
    FaultKind.PAGE_FAULT: (Engine.COMPUTE,),
    FaultKind.STALE_CORRECTION: (Engine.COMPUTE,),
    FaultKind.CORE_UNAVAILABLE: (Engine.COMPUTE,),
}


@attrs.frozen
class Match:
    """Which operations a fault hits.

    Args:
        op: an engine, or ``None`` for those that make sense for the fault's kind.
        kernel: kernel name of a compute operation.
        stream: id of the stream.
        op_id: exactly this operation.
        nth: the n-th match (from 1) ...
        every: ... and then every so many, if given.
    """

    op: Engine | None = None
    kernel: str | None = None
    stream: int | None = None
    op_id: int | None = None
    nth: int = 1
    every: int | None = None

    def fits(self, block: ControlBlock, kind: FaultKind) -> bool:
        engine = engine_of(block)
        if self.op is not None and engine is not self.op:
            return False
        if self.op is None and engine not in _ENGINE_OF_KIND.get(kind, tuple(Engine)):
            return False
        if self.kernel is not None and (not isinstance(block, ComputeCB) or block.kernel_name != self.kernel):
            return False
        if self.stream is not None and block.stream_id != self.stream:
            return False
        return self.op_id is None or block.op_id == self.op_id


@attrs.frozen
class FaultSpec:
    """One injected fault. ``params``: ``after_bytes``, ``bits``, ``code``, ``core``, ``segment``, ``offset``,
    ``factor``...

    ``persistent`` keeps firing on every later match.
    """

    kind: FaultKind
    match: Match = attrs.field(factory=Match)
    persistent: bool = False
    params: dict[str, Any] = attrs.field(factory=dict)


class FaultPlan:
    """The faults of one device. ``log`` lists (kind, op id) of what fired."""

    def __init__(self) -> None:
        self._faults: list[tuple[FaultSpec, list[int]]] = []
        self.log: list[tuple[FaultKind, int]] = []

    def add(self, fault: FaultSpec) -> None:
        self._faults.append((fault, [0]))

    def clear(self) -> None:
        self._faults.clear()

    def hits(self, block: ControlBlock) -> Iterator[FaultSpec]:
        """Faults that hit this operation, in the order they were added; counts the match."""
        for fault, seen in self._faults:
            if fault.kind is FaultKind.ALLOC_FAIL or not fault.match.fits(block, fault.kind):
                continue
            if _strikes(fault, seen):
                self.log.append((fault.kind, block.op_id))
                yield fault

    def refuses_region(self, memory_type: MemoryType) -> bool:
        """Whether an ``ALLOC_FAIL`` hits the creation of a region of this type (``params["memory_type"]``,
        all types without)."""
        for fault, seen in self._faults:
            fits = (
                fault.kind is FaultKind.ALLOC_FAIL
                and fault.params.get("memory_type", memory_type) is memory_type
            )
            if fits and _strikes(fault, seen):
                self.log.append((fault.kind, 0))
                return True
        return False


def _strikes(fault: FaultSpec, seen: list[int]) -> bool:
    """Count a match; whether it is the one, or one of those, that the fault is meant for."""
    seen[0] += 1
    late = seen[0] - fault.match.nth
    again = fault.persistent or (fault.match.every is not None and late > 0 and late % fault.match.every == 0)
    return late == 0 or (late > 0 and again)


__all__ = ["FaultKind", "FaultPlan", "FaultSpec", "Match"]
