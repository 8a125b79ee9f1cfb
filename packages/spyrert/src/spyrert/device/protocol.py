"""The device interface: what the runtime asks of a device, and nothing else (runtime spec 5).

A device owns memory *regions*, executes *control blocks* and reports *completions*. It never sees plans,
streams or tensors. Rules for every implementation:

* Deterministic: equal submissions in equal order give equal completions, times, counters, memory, faults.
* Non-blocking: :meth:`Device.submit` checks the structure, queues and returns a ticket. A structural error
  raises :class:`ControlBlockError` at once; everything else arrives as a completion with status ``FAULT``.
* Used by one thread at a time (the runtime's scheduler); no locks needed.
* Time is virtual: integer nanoseconds, moved only by :meth:`Device.next_completion` and
:meth:`Device.advance`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np

from spyrert.constants import CORE_SPAN_LIMIT, NUM_SEGMENTS, SEGMENT_SIZE, STICK_BYTES
from spyrert.errors import DeviceError


class ControlBlockError(ValueError):
    """A control block is malformed: refused at submission, nothing happened.

    ``name`` is the name of the fault as a device would log it, e.g. ``InvalidBootstrapAddress``.
    """

    def __init__(self, message: str, name: str = "InvalidControlBlock") -> None:
        super().__init__(message)
        self.name = name


class DeviceBusy(RuntimeError):
    """The device refuses a submission now; nothing happened."""


class MemoryType(enum.Enum):
    """What a region is for; decides its segment (runtime spec 3.2.3)."""

    TENSOR = "tensor"
    PROGRAM_STATIC = "program_static"
    PROGRAM_DYNAMIC = "program_dynamic"


class Engine(enum.Enum):
    """Queues of a device that run beside each other."""

    DMA_IN = "dma_in"
    DMA_OUT = "dma_out"
    COMPUTE = "compute"


@attrs.frozen
class MemoryDomain:
    """One locality of device memory: capacity in bytes and the cores that are near."""

    id: int
    capacity: int
    affine_cores: tuple[int, ...] = ()


@attrs.frozen
class DeviceProperties:
    """What a device tells about itself.

    Args:
        name: model name.
        index: number in the machine.
        mode: ``"PF"``, ``"VF"`` or ``"MOCK"``; decides what region ids look like, and nobody may interpret
            them.
        num_cores, corelets: cores, and corelets in each.
        lx_bytes: scratchpad of one core.
        f16_format: ``"ieee"`` or ``"dlfloat"``: what a 16-bit float is. A plan made for the other is refused.
        architecture: name and digest (hex, may be empty) of the machine description, or ``None`` if the
            device runs anything. A plan that names another architecture is refused.
        domains: memory localities.
        engines: slots of each engine: how many control blocks run at once.
        payload_kinds: kinds of image payload that it can execute.
        features: names of optional features (``"d2d"``, ``"fill"``, ``"p2p"``, ``"nests"``).
        patch_in_place: correction modifies the image in memory (makes the replica rule visible).
        fill_byte: what never-written memory reads as.
    """

    name: str = "micro"
    index: int = 0
    mode: str = "MOCK"
    num_cores: int = 32
    corelets: int = 2
    lx_bytes: int = 2 << 20
    stick_bytes: int = STICK_BYTES
    segment_size: int = SEGMENT_SIZE
    num_segments: int = NUM_SEGMENTS
    core_span_limit: int = CORE_SPAN_LIMIT
    f16_format: str = "ieee"
    architecture: tuple[str, str] | None = None
    domains: tuple[MemoryDomain, ...] = (MemoryDomain(0, 128 << 30),)
    engines: Mapping[Engine, int] = attrs.field(factory=lambda: dict.fromkeys(Engine, 1))
    payload_kinds: frozenset[int] = frozenset()
    features: frozenset[str] = frozenset({"d2d", "fill", "nests"})
    patch_in_place: bool = False
    fill_byte: int = 0xCD
    p2p_peers: tuple[int, ...] = ()
    link_bandwidth: int = 64_000_000_000


@attrs.frozen
class RegionInfo:
    """One region of device memory. ``size`` is its exact length in bytes."""

    region_id: int
    size: int
    domain_id: int
    memory_type: MemoryType


# -- control blocks --------------------------------------------------------------------------------


@attrs.frozen
class Piece:
    """``size`` bytes at ``offset`` of a region. Several pieces in order are one logical byte range."""

    region_id: int
    offset: int
    size: int


@attrs.frozen
class Nest:
    """One loop nest of a transfer, outermost loop first. Everything counts *elements*.

    Element ``i`` of the nest goes from ``src_offset + sum(i[k] * src_strides[k])`` to ``dst_offset + sum(i[k]
    * dst_strides[k])``; offsets are from the start of the host buffer or of the pieces. The host side of a
    transfer counts elements of the host format, the device side those of the device format.
    """

    sizes: tuple[int, ...]
    src_strides: tuple[int, ...]
    dst_strides: tuple[int, ...]
    src_offset: int = 0
    dst_offset: int = 0


class Direction(enum.Enum):
    TO_DEVICE = "in"
    FROM_DEVICE = "out"
    ON_DEVICE = "d2d"


@attrs.frozen(eq=False)
class DmaCB:
    """A transfer.

    Args:
        direction: which way.
        host: host bytes (writable for ``FROM_DEVICE``), ``None`` for ``ON_DEVICE``.
        pieces: the device range: destination, or source for ``FROM_DEVICE``.
        src_pieces: source range for ``ON_DEVICE``.
        nests: what goes where, in elements; ``()`` is a plain copy of all bytes, and then host buffer and
            pieces have one size.
        src_format, dst_format: element types by NumPy's name. When they differ the device converts; a pair it
            cannot convert is refused at submission.
        fill_padding: transfers to the device and on it: bytes of the pieces that no nest writes become zero.
            Otherwise they keep their value (read-modify-write of partial sticks); the rest of a stick that
            was never written becomes zero.
        timeout_ns: virtual time after which the operation faults with ``DeviceTimeout``; 0 is never.
    """

    direction: Direction
    host: memoryview | None
    pieces: tuple[Piece, ...]
    src_pieces: tuple[Piece, ...] = ()
    nests: tuple[Nest, ...] = ()
    src_format: str = "uint8"
    dst_format: str = "uint8"
    fill_padding: bool = False
    op_id: int = 0
    stream_id: int = 0
    name: str = ""
    timeout_ns: int = 0


@attrs.frozen
class SegmentEntry:
    """One entry of the segment table of a compute control block (runtime spec 3.2.5).

    An access of ``n`` bytes at offset ``off`` of the segment is legal iff ``valid`` and ``off + n <=
    length``; it touches ``base + off`` of the region. ``length`` is the exact size. Writes need ``writable``.
    """

    valid: bool = False
    region_id: int = 0
    base: int = 0
    length: int = 0
    writable: bool = False


@attrs.frozen
class ComputeCB:
    """Start a program.

    Args:
        entry_offset: byte offset of the image header in segment 7, a multiple of 128.
        segments: exactly 8 entries.
        launch_seq: must equal the one in the correction tensor.
        plan_digest64: first 8 bytes of the artefact's digest; likewise.
        kernel_name: for traces.
        core_mask: bit ``i`` set: core ``i`` may be used.
        timeout_ns: virtual time after which the operation faults with ``DeviceTimeout``; 0 is never.
    """

    entry_offset: int
    segments: tuple[SegmentEntry, ...]
    launch_seq: int
    plan_digest64: bytes
    kernel_name: str = ""
    core_mask: int = 2**32 - 1
    entry_segment: int = 7
    op_id: int = 0
    stream_id: int = 0
    timeout_ns: int = 0


@attrs.frozen
class FillCB:
    """Set every ``elem_bytes`` bytes of the pieces to the little-endian number ``value_bits``."""

    pieces: tuple[Piece, ...]
    value_bits: int = 0
    elem_bytes: int = 1
    op_id: int = 0
    stream_id: int = 0
    name: str = ""


@attrs.frozen
class P2PCB:
    """Exchange with a peer device: ``kind`` is ``send``, ``recv`` or ``exchange``."""

    kind: str
    peer: int
    tag: int
    pieces: tuple[Piece, ...]
    op_id: int = 0
    stream_id: int = 0


ControlBlock = DmaCB | ComputeCB | FillCB | P2PCB


def engine_of(block: ControlBlock) -> Engine:
    """Which engine executes a control block."""
    match block:
        case ComputeCB():
            return Engine.COMPUTE
        case DmaCB(direction=Direction.FROM_DEVICE):
            return Engine.DMA_OUT
        case _:
            return Engine.DMA_IN


# -- completions -----------------------------------------------------------------------------------


class Status(enum.Enum):
    OK = "ok"
    FAULT = "fault"
    CANCELLED = "cancelled"


@attrs.frozen
class DeviceFault:
    """Why an operation failed.

    ``error`` is the class that the runtime raises (``ComputeFault``, ``PageFault``, ``StaleCorrection``,
    ``DmaFault``, ``DeviceTimeout``, ``DeviceLost``, ...). ``details`` names what is known: ``segment``,
    ``offset``, ``core``, ``code``.
    """

    error: type[DeviceError]
    message: str
    details: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Phases:
    """Cycles of a compute operation: input DMA, compute, output DMA."""

    dmi: int = 0
    compute: int = 0
    dmo: int = 0


@attrs.frozen
class Completion:
    """One control block is finished. Times are nanoseconds of virtual time; ``bytes`` is the payload
    moved."""

    ticket: int
    op_id: int
    status: Status
    fault: DeviceFault | None = None
    t_submit: int = 0
    t_start: int = 0
    t_end: int = 0
    phases: Phases = attrs.field(factory=Phases)
    bytes: int = 0
    notes: tuple[str, ...] = ()
    """What the device corrected by itself, for the error log."""


# -- execution of images ---------------------------------------------------------------------------


class SegmentMemory(Protocol):
    """Device memory as a program sees it: through the segment table of its launch.

    Addresses are DMVAs, ``(segment << 34) | offset``. An access outside the table raises the ``PageFault``
    that the operation completes with.
    """

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes | memoryview) -> None: ...


@attrs.frozen
class Program:
    """What an executor gets besides memory.

    Args:
        payload: the image's payload.
        payload_kind: its kind.
        core_count: cores the program wants; the mask says which it may use.
        symbols: values of the correction tensor in slot order, ``()`` if there is none.
        f16_format: what a 16-bit float is.
        digest: SHA-256 (hex) of the payload, to cache decoded programs by.
        kernel_name, launch_seq: of the launch.
    """

    payload: bytes
    payload_kind: int
    core_count: int
    symbols: tuple[int, ...]
    f16_format: str
    digest: str
    kernel_name: str = ""
    launch_seq: int = 0


@attrs.frozen
class ExecResult:
    """What an executor returns: total cycles and, if known, their phases; ``counters`` are added to the
    device's (``dram_read_bytes``, ``dram_write_bytes``, ``sticks_read``, ...)."""

    cycles: int
    phases: Phases = attrs.field(factory=Phases)
    counters: Mapping[str, int] = attrs.field(factory=dict)


Executor = Callable[[Program, SegmentMemory, int], ExecResult]
"""``executor(program, memory, core_mask)``; a fault is raised as the ``DeviceError`` it completes with."""

Converter = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
"""Converts an array of raw elements (unsigned integers of the source width) to those of the destination."""


# -- the interface ---------------------------------------------------------------------------------


def missing_members(value: object) -> list[str]:
    """What an object lacks to be a `Device`, sorted; proxies that answer in ``__getattr__`` count."""
    return sorted(name for name in dir(Device) if not name.startswith("_") and not hasattr(value, name))


@runtime_checkable
class Device(Protocol):
    """A device. The runtime depends on exactly these methods."""

    @property
    def props(self) -> DeviceProperties:
        """Constant properties."""
        ...

    # memory

    def create_region(self, size: int, domain_id: int, memory_type: MemoryType) -> int:
        """Make a region of ``size`` bytes and return its id, an opaque key that is never reused.

        Backing is sparse; total capacity of the domain is enforced with ``MemoryError``.
        """
        ...

    def destroy_region(self, region_id: int) -> None: ...

    def region_info(self, region_id: int) -> RegionInfo: ...

    def peek(self, region_id: int, offset: int, size: int) -> bytes:
        """Read memory for debugging: no time, no counters."""
        ...

    def poke(self, region_id: int, offset: int, data: bytes) -> None:
        """Write memory for debugging."""
        ...

    # work

    def submit(self, block: ControlBlock) -> int:
        """Check structure and queue; returns a ticket. Raises ``ControlBlockError``, ``DeviceBusy``,
        ``DeviceLost``."""
        ...

    def next_completion(self, block: bool = True) -> Completion | None:
        """The next finished operation.

        With ``block`` virtual time moves to the end of the earliest operation in flight; ``None`` if nothing
        is. Without, only what has ended at :meth:`now` is returned.
        """
        ...

    def cancel(self, ticket: int) -> bool:
        """Withdraw an operation that has not started; it completes as ``CANCELLED``."""
        ...

    def in_flight(self) -> int:
        """Operations submitted and not yet reported."""
        ...

    def can_accept(self, engine: Engine) -> bool:
        """Whether an engine has a free slot."""
        ...

    # time

    def now(self) -> int:
        """Virtual time in nanoseconds."""
        ...

    def advance(self, ns: int) -> None:
        """Let at most ``ns`` pass on the host lane: time stops at the end of the earliest operation in
        flight, whose completion is then ready; ask :meth:`now`."""
        ...

    # the rest

    def counters(self) -> dict[str, int]:
        """Monotonic counters and gauges (runtime spec 5.5)."""
        ...

    def reset_counters(self) -> None: ...

    def reset(self) -> None:
        """Cancel everything, drop all regions, clear faults."""
        ...

    def close(self) -> None: ...


DeviceFactory = Callable[[int], Device]
"""Makes the device of an index; the runtime calls it once per device, at first use."""


def check_pieces(pieces: Sequence[Piece], info: Callable[[int], RegionInfo]) -> int:
    """Check that pieces are not empty and lie inside their regions; returns their total size.

    For implementations of :meth:`Device.submit`; raises ``ControlBlockError``.
    """
    total = 0
    for piece in pieces:
        if piece.size <= 0 or piece.offset < 0:
            raise ControlBlockError(f"piece {piece} has no positive size and offset")
        try:
            region = info(piece.region_id)
        except KeyError:
            raise ControlBlockError(f"region {piece.region_id} does not exist") from None
        if piece.offset + piece.size > region.size:
            raise ControlBlockError(f"piece {piece} ends behind its region of {region.size} bytes")
        total += piece.size
    return total


def check_compute(block: ComputeCB, info: Callable[[int], RegionInfo]) -> None:
    """Check the structure of a compute control block (runtime spec 5.3); raises ``ControlBlockError``."""
    if block.entry_segment != 7:
        raise ControlBlockError(f"entry segment is {block.entry_segment}, not 7", "InvalidBootstrapAddress")
    if len(block.segments) != NUM_SEGMENTS:
        raise ControlBlockError(f"segment table has {len(block.segments)} entries, not {NUM_SEGMENTS}")
    for number, entry in enumerate(block.segments):
        if not entry.valid:
            continue
        try:
            region = info(entry.region_id)
        except KeyError:
            raise ControlBlockError(f"segment {number}: region {entry.region_id} does not exist") from None
        if entry.base < 0 or entry.base % STICK_BYTES or not 0 <= entry.length <= SEGMENT_SIZE:
            raise ControlBlockError(f"segment {number}: bad base or length in {entry}")
        if entry.base + entry.length > region.size:
            raise ControlBlockError(f"segment {number}: {entry} ends behind its region of {region.size} B")
    program = block.segments[7]
    if not program.valid or block.entry_offset % STICK_BYTES or not 0 <= block.entry_offset < program.length:
        raise ControlBlockError(
            f"entry offset {block.entry_offset} is no multiple of 128 inside segment 7",
            "InvalidBootstrapAddress",
        )
