"""Addresses and the allocator against a brute-force model (runtime spec 3.2, 3.3, 6.4)."""

from __future__ import annotations

import random
import threading

import attrs
import pytest

from spyrert.constants import align_up
from spyrert.device.protocol import MemoryType
from spyrert.errors import DirectiveError, InvalidFree, OutOfDeviceMemory
from spyrert.memory import (
    EMPTY,
    AllocationDirective,
    Chunk,
    CompositeAddress,
    FlexAllocator,
    LogicalAddress,
    MemoryEvent,
    MemoryRegion,
    PlacementPolicy,
    RegionOrder,
    decode,
)

KIB = 1024


def make(
    *sizes: int, domains: tuple[int, ...] = (), order: RegionOrder = RegionOrder.MOST_FREE
) -> FlexAllocator:
    """Tensor regions of these sizes in segments 1.., and a program region of 64 KiB."""
    domains = domains or (0,) * len(sizes)
    regions = [
        MemoryRegion(10 + k, domain, 1 + k, size, MemoryType.TENSOR)
        for k, (size, domain) in enumerate(zip(sizes, domains, strict=True))
    ]
    regions.append(MemoryRegion(99, 0, 7, 64 * KIB, MemoryType.PROGRAM_STATIC))
    return FlexAllocator(regions, order)


def test_decode() -> None:
    """runtime checklist R25"""
    assert decode(0x1C00000080) == (7, 128, MemoryType.PROGRAM_STATIC)
    assert decode((1 << 34) + 5) == (1, 5, MemoryType.TENSOR)
    with pytest.raises(ValueError):
        decode(8 << 34)


def test_best_fit() -> None:
    """runtime checklist R30: among free blocks 512, 256, 384 a request of 300 takes 384."""
    allocator = make(2048)
    blocks = [allocator.allocate(n) for n in (512, 128, 256, 128, 384, 640)]
    for index in (0, 2, 4):
        allocator.free(blocks[index])
    assert allocator.allocate(300).chunks[0].addr.offset == blocks[4].chunks[0].addr.offset
    allocator.check_invariants()


def test_coalescing() -> None:
    """runtime checklist R28, R29"""
    allocator = make(20480)
    before = allocator.stats()
    blocks = [allocator.allocate(2048) for _ in range(10)]
    order = list(range(10))
    random.Random(3).shuffle(order)
    for index in order:
        allocator.free(blocks[index])
    assert allocator.region(10).free_blocks == ((0, 20480),)
    assert allocator.allocate(20480).total_size == 20480
    assert before["total_free"] == 20480 + 64 * KIB


def test_alignment_trims_the_front() -> None:
    allocator = make(4096)
    allocator.allocate(128)
    block = allocator.allocate(1000, AllocationDirective(chunk_alignment=1024))
    assert block.chunks[0].addr.offset == 1024
    assert block.total_size == 1024
    allocator.check_invariants()


def test_policies() -> None:
    """runtime checklist R31; fault M7"""
    allocator = make(4096, 4096, domains=(0, 1))
    allocator.allocate(4096, AllocationDirective(PlacementPolicy.BIND, (0,)))
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(128, AllocationDirective(PlacementPolicy.BIND, (0,)))
    block = allocator.allocate(128, AllocationDirective(PlacementPolicy.PREFERRED, (0,)))
    assert block.chunks[0].domain_id == 1
    near = allocator.allocate(128, AllocationDirective(PlacementPolicy.BIND, near=block))
    assert near.chunks[0].domain_id == 1
    for bad in (
        AllocationDirective(PlacementPolicy.BIND),
        AllocationDirective(PlacementPolicy.BIND, (7,)),
        AllocationDirective(PlacementPolicy.PREFERRED, (0, 0)),
        AllocationDirective(chunk_alignment=100),
        AllocationDirective(chunk_alignment=0),
    ):
        with pytest.raises(DirectiveError):
            allocator.allocate(128, bad)


def test_region_order() -> None:
    big_first = make(4096, 8192)
    assert big_first.allocate(128).chunks[0].addr.region_id == 11
    small_first = make(4096, 8192, order=RegionOrder.LEAST_FREE)
    assert small_first.allocate(128).chunks[0].addr.region_id == 10


def test_interleave() -> None:
    """runtime checklist R32, R33; fault M5"""
    allocator = make(*[4096] * 4, domains=(0, 1, 2, 3))
    spread = AllocationDirective(PlacementPolicy.INTERLEAVE)
    block = allocator.allocate(1000, spread)
    assert [(c.size, c.domain_id) for c in block.chunks] == [(256, 0), (256, 1), (256, 2), (256, 3)]
    assert [c.size for c in allocator.allocate(300, spread).chunks] == [128, 128, 128]
    allocator.allocate(4096 - 256, AllocationDirective(PlacementPolicy.BIND, (3,)))
    before = allocator.stats()
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(4096, spread)
    after = allocator.stats()
    assert after | {"num_ooms": 0} == before
    allocator.check_invariants()


def test_composite_slices() -> None:
    """runtime checklist R40"""
    chunks = tuple(Chunk(LogicalAddress(k, 1024), 256, k) for k in range(3))
    address = CompositeAddress(chunks, True)
    part = address.slice(200, 300)
    assert [(c.addr.region_id, c.addr.offset, c.size) for c in part.chunks] == [(0, 1224, 56), (1, 1024, 244)]
    assert part.total_size == 300
    assert not part.is_owner
    assert address.locate(511) == (1, 255)
    assert address.shift(256).chunks == chunks[1:]
    assert EMPTY.token == 0
    for bad in ((-1, 5), (0, 769), (768, 1)):
        with pytest.raises(ValueError):
            address.slice(*bad)


def test_out_of_memory_reasons() -> None:
    """runtime checklist R34; faults M1-M4: the message says what there is."""
    allocator = make(4096)
    with pytest.raises(ValueError):
        allocator.allocate(-1)
    assert allocator.allocate(0) is EMPTY
    with pytest.raises(OutOfDeviceMemory) as caught:
        allocator.allocate(8192)
    assert caught.value.details["reason"] == "too_large_for_any_region"
    blocks = [allocator.allocate(1024) for _ in range(4)]
    with pytest.raises(OutOfDeviceMemory) as caught:
        allocator.allocate(128)
    assert caught.value.details["reason"] == "exhausted"
    allocator.free(blocks[0])
    allocator.free(blocks[2])
    with pytest.raises(OutOfDeviceMemory, match="fragmented") as caught:
        allocator.allocate(2048, host_bytes=64)
    error = caught.value
    assert isinstance(error, MemoryError)
    assert isinstance(error, RuntimeError)
    assert error.details["regions"] == ((10, 0, 4096, 2048, 1024),)
    for part in ("64 bytes on the host", "2048 on the device", "padding factor 32.0", "largest block 1024"):
        assert part in str(error)
    assert allocator.stats()["num_ooms"] == 3


def test_invalid_frees() -> None:
    """runtime checklist R35; fault M6"""
    allocator = make(4096)
    block = allocator.allocate(256)
    stranger = make(4096).allocate(256)
    for bad in (block.slice(0, 128), stranger, attrs.evolve(block)):
        with pytest.raises(InvalidFree):
            allocator.free(bad)
    allocator.free(block)
    with pytest.raises(InvalidFree):
        allocator.free(block)
    allocator.allocate(4096)
    assert allocator.stats()["allocated_bytes.all.current"] == 4096


def test_quarantine() -> None:
    """runtime checklist R37, R38 (allocator side); fault R15"""
    allocator = make(1024)
    block = allocator.allocate(1024)
    allocator.hold(block, 7)
    allocator.hold(block, 8)
    allocator.free(block)
    stats = allocator.stats()
    assert (stats["deferred_bytes"], stats["allocated_bytes.all.current"]) == (1024, 0)
    with pytest.raises(OutOfDeviceMemory, match="1024 bytes wait for operations"):
        allocator.allocate(128)
    allocator.release(7)
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(128)
    allocator.release(8)
    assert allocator.allocate(1024).total_size == 1024
    allocator.check_invariants()


def test_garbage_is_collected_at_the_next_call() -> None:
    allocator = make(1024)
    allocator.garbage.append(allocator.allocate(1024))
    assert allocator.allocate(1024).total_size == 1024
    assert allocator.stats()["allocation.all.current"] == 1


def test_events_and_statistics() -> None:
    seen: list[MemoryEvent] = []
    allocator = FlexAllocator([MemoryRegion(1, 0, 1, 4096, MemoryType.TENSOR)], on_event=seen.append)
    a, b = allocator.allocate(100), allocator.allocate(200)
    allocator.free(a)
    assert [(e.delta, e.allocated_bytes, e.reserved_bytes) for e in seen] == [
        (128, 128, 4096),
        (256, 384, 4096),
        (-128, 256, 4096),
    ]
    allocator.reset_peak()
    stats = allocator.stats()
    assert (stats["allocated_bytes.all.peak"], stats["allocated_bytes.all.freed"]) == (256, 128)
    allocator.reset_accumulated()
    assert allocator.stats()["allocated_bytes.all.allocated"] == 0
    allocator.free(b)


class Model:
    """Best fit by looking at every byte: one region as a list of 128-byte granules."""

    def __init__(self, size: int) -> None:
        self.used = [False] * (size // 128)

    def holes(self) -> list[tuple[int, int]]:
        found, at = [], 0
        while at < len(self.used):
            end = at
            while end < len(self.used) and not self.used[end]:
                end += 1
            if end > at:
                found.append((end - at, at))
            at = max(end, at + 1)
        return found

    def take(self, granules: int) -> int | None:
        fitting = [hole for hole in self.holes() if hole[0] >= granules]
        if not fitting:
            return None
        _, start = min(fitting)
        self.used[start : start + granules] = [True] * granules
        return start * 128

    def give(self, offset: int, granules: int) -> None:
        start = offset // 128
        self.used[start : start + granules] = [False] * granules


@pytest.mark.sweep(default=20_000, full=1_000_000)
def test_against_brute_force(cases: int) -> None:
    """runtime checklist R27: random allocations and frees place exactly like the model; no tensor below segment 1."""
    rng = random.Random(11)
    sizes = (16 * KIB, 24 * KIB, 8 * KIB)
    allocator = make(*sizes)
    models = {10 + k: Model(size) for k, size in enumerate(sizes)}
    live: list[CompositeAddress] = []
    for step in range(cases):
        if live and rng.random() < 0.5:
            block = live.pop(rng.randrange(len(live)))
            chunk = block.chunks[0]
            models[chunk.addr.region_id].give(chunk.addr.offset, chunk.size // 128)
            allocator.free(block)
        else:
            size = rng.choice((1, 128, 129, 500, 1024, 3000))
            need = align_up(size) // 128
            order = sorted(models, key=lambda r: (-models[r].used.count(False), r))
            expected = None
            for region in order:
                offset = models[region].take(need)
                if offset is not None:
                    expected = (region, offset)
                    break
            if expected is None:
                with pytest.raises(OutOfDeviceMemory):
                    allocator.allocate(size)
                continue
            block = allocator.allocate(size)
            assert (block.chunks[0].addr.region_id, block.chunks[0].addr.offset) == expected
            assert 1 << 34 <= allocator.addresses(block)[0] < 6 << 34
            live.append(block)
        if step % 500 == 0:
            allocator.check_invariants()
    allocator.check_invariants()


@pytest.mark.sweep(default=800, full=10_000)
def test_threads(cases: int) -> None:
    """runtime checklist R36: eight threads lose no statistics and break no invariant."""
    allocator = make(1 << 20, 1 << 20)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        mine: list[CompositeAddress] = []
        try:
            for _ in range(cases):
                if mine and rng.random() < 0.5:
                    allocator.free(mine.pop(rng.randrange(len(mine))))
                else:
                    mine.append(allocator.allocate(rng.randrange(1, 2000)))
                while len(mine) > 60:
                    allocator.free(mine.pop())
            for block in mine:
                allocator.free(block)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    allocator.check_invariants()
    stats = allocator.stats()
    assert stats["allocated_bytes.all.current"] == 0
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] > 0
