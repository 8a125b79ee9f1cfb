"""What a launch touches: footprints for the scheduler, segment tables for devices (runtime spec 3.13.4)."""

from __future__ import annotations

from spyrert import binding as checks
from spyrert.constants import DYN_SEGMENT, PROG_SEGMENT, align_up
from spyrert.context import DeviceContext
from spyrert.device.protocol import SegmentEntry
from spyrert.errors import LayoutMismatch, UnsupportedFeature
from spyrert.execution import Access
from spyrert.launch import TileLaunch
from spyrert.memory import CompositeAddress
from spyrert.plan import JobPlan
from spyrert.tensor import DeviceTensor

UNMAPPED = SegmentEntry()


def accesses(
    plan: JobPlan, tile: TileLaunch, pool: DeviceTensor | None, dynamic: CompositeAddress
) -> tuple[Access, ...]:
    """Footprint of the arguments (exact roles; read and write if unknown), the pool and the dynamic block."""
    found = []
    for index, tensor in enumerate(tile.tensors):
        storage = tensor.storage
        writes = plan.args[index].role.writes if plan.launch is not None else True
        low, high = checks.extent(tensor)
        high = min(high, storage.nbytes)
        whole = low == 0 and high == storage.nbytes
        pieces = storage.pieces if whole else storage.address.slice(low, high - low).pieces()
        found.append(Access(storage.root, pieces, writes))
    if pool is not None:
        found.append(Access(pool.storage.root, pool.storage.address.pieces(), True))
    if dynamic.chunks:
        found.append(Access(dynamic, dynamic.pieces(), True))
    return tuple(found)


def _block(address: CompositeAddress, writable: bool = True) -> SegmentEntry:
    chunk = address.chunks[0]
    return SegmentEntry(True, chunk.addr.region_id, chunk.addr.offset, chunk.size, writable)


def symbolic_segments(
    plan: JobPlan,
    tile: TileLaunch,
    pool: DeviceTensor | None,
    static: CompositeAddress,
    dynamic: CompositeAddress,
    context: DeviceContext,
) -> tuple[SegmentEntry, ...]:
    """One entry per tensor region that the arguments use, plus dynamic and static block (runtime spec
    3.13.4)."""
    segments = [UNMAPPED] * 8
    used: dict[int, bool] = {}
    for index, tensor in enumerate(tile.tensors):
        writes = plan.args[index].role.writes if plan.launch is not None else True
        for chunk in tensor.chunks():
            used[chunk.addr.region_id] = used.get(chunk.addr.region_id, False) or writes
    if pool is not None:
        used[pool.storage.address.chunks[0].addr.region_id] = True
    for region_id, writes in used.items():
        region = context.allocator.region(region_id)
        segments[region.segment] = context.region_entry(region_id, writes)
    if dynamic.chunks:
        segments[DYN_SEGMENT] = _block(dynamic)
    segments[PROG_SEGMENT] = _block(static)
    return tuple(segments)


def baked_segments(
    plan: JobPlan,
    tile: TileLaunch,
    pool: DeviceTensor | None,
    static: CompositeAddress,
    dynamic: CompositeAddress,
    context: DeviceContext,
) -> tuple[tuple[SegmentEntry, ...], tuple[CompositeAddress, ...]]:
    """Entry ``i`` is argument ``i`` with its exact extent; a pool takes entry 0 and shifts the rest."""
    segments = [UNMAPPED] * 8
    ranges = []
    if pool is not None:
        ranges.append((pool.storage.address, True))
    for index, tensor in enumerate(tile.tensors):
        if len(tensor.storage.address.chunks) != 1:
            raise LayoutMismatch(f"argument {index} is interleaved, a baked program needs one chunk")
        offset = tensor.device_offset()
        spec = plan.args[index] if plan.launch is not None else None
        size = tensor.storage.nbytes - offset
        if spec is not None:
            size = min(size, align_up(spec.layout.device_bytes(tensor.shape)))
        writes = spec.role.writes if spec is not None else True
        ranges.append((tensor.storage.address.slice(offset, size), writes))
    if len(ranges) > 7:
        raise UnsupportedFeature(f"a baked program takes at most 7 arguments, not {len(ranges)}")
    for number, (address, writes) in enumerate(ranges):
        segments[number] = _block(address, writes)
    if dynamic.chunks and len(ranges) <= DYN_SEGMENT:
        segments[DYN_SEGMENT] = _block(dynamic)
    segments[PROG_SEGMENT] = _block(static)
    return tuple(segments), tuple(address for address, _ in ranges)


__all__ = ["accesses", "baked_segments", "symbolic_segments"]
