"""The device allocator (runtime spec 3.3).

All regions are made at construction. An allocation with operations in flight that is freed goes to a
quarantine and returns to its free list when the last of them ends. Thread-safe; finalisers only append to
:attr:`FlexAllocator.garbage`, so that the garbage collector may run anywhere.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import attrs

from spyrert.constants import DEVICE_ALIGNMENT, align_up
from spyrert.device.protocol import MemoryType
from spyrert.errors import DirectiveError, InvalidFree, OutOfDeviceMemory
from spyrert.memory.addresses import EMPTY, Chunk, CompositeAddress, LogicalAddress, dmva
from spyrert.memory.region import MemoryRegion


class PlacementPolicy(enum.Enum):
    """Which domains an allocation may use (runtime spec 3.3.2)."""

    DEFAULT = "default"
    BIND = "bind"
    PREFERRED = "preferred"
    INTERLEAVE = "interleave"


class RegionOrder(enum.Enum):
    """Which region is tried first."""

    MOST_FREE = "most_free"
    LEAST_FREE = "least_free"


@attrs.frozen
class AllocationDirective:
    """Where an allocation should go.

    Args:
        policy: ``DEFAULT`` any domain; ``BIND`` exactly ``domain_ids``; ``PREFERRED`` those first;
            ``INTERLEAVE`` spread over ``domain_ids`` (all if empty).
        near: use the domains of that address instead of ``domain_ids``.
        chunk_alignment: bytes; a positive multiple of 128.
    """

    policy: PlacementPolicy = PlacementPolicy.DEFAULT
    domain_ids: tuple[int, ...] = ()
    near: CompositeAddress | None = None
    memory_type: MemoryType = MemoryType.TENSOR
    chunk_alignment: int = DEVICE_ALIGNMENT


@attrs.define
class _Block:
    """A live allocation: where it is and which operations touch it."""

    address: CompositeAddress
    pending: set[int] = attrs.field(factory=set)
    freed: bool = False


@attrs.define
class _Counter:
    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def add(self, amount: int) -> None:
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def remove(self, amount: int) -> None:
        self.current -= amount
        self.freed += amount


@attrs.frozen
class MemoryEvent:
    """One allocation or release, for profilers: ``delta`` bytes, then the totals after it."""

    token: int
    delta: int
    allocated_bytes: int
    reserved_bytes: int


class FlexAllocator:
    """Allocates byte ranges in the regions of one device.

    Args:
        regions: all regions, made by the caller.
        order: which region of the candidates is tried first.
        on_event: called for each allocation and release, without any lock held.
    """

    def __init__(
        self,
        regions: Sequence[MemoryRegion],
        order: RegionOrder = RegionOrder.MOST_FREE,
        on_event: Callable[[MemoryEvent], None] | None = None,
    ) -> None:
        self.regions = tuple(regions)
        self.garbage: deque[CompositeAddress] = deque()
        self._by_id = {region.region_id: region for region in regions}
        self._domains = sorted({region.domain_id for region in regions})
        self._order = order
        self._on_event = on_event
        self._lock = threading.RLock()
        self._blocks: dict[tuple[int, int], _Block] = {}
        self._owners: dict[int, list[_Block]] = {}
        self._bytes = _Counter()
        self._count = _Counter()
        self._deferred = 0
        self._ooms = 0

    # -- allocate ------------------------------------------------------------------------------

    def allocate(
        self, nbytes: int, directive: AllocationDirective | None = None, host_bytes: int | None = None
    ) -> CompositeAddress:
        """Reserve ``nbytes`` (rounded up to 128); 0 gives the empty address.

        Raises ``ValueError`` (negative), ``DirectiveError``, ``OutOfDeviceMemory``; nothing has changed then.
        ``host_bytes`` is the size of the tensor on the host, for the message.
        """
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        directive = directive or AllocationDirective()
        with self._lock:
            self._drain()
            domains = self._check(directive)
            if nbytes == 0:
                return EMPTY
            if directive.policy is PlacementPolicy.INTERLEAVE:
                chunks = self._interleave(nbytes, directive, domains)
            else:
                chunks = self._single(align_up(nbytes, directive.chunk_alignment), directive, domains)
            if chunks is None:
                self._ooms += 1
                self._out_of_memory(nbytes, directive, domains, host_bytes)
            address = CompositeAddress(tuple(chunks), True)
            self._blocks[_key(address)] = _Block(address)
            self._bytes.add(address.total_size)
            self._count.add(1)
            event = self._event(address, address.total_size)
        if self._on_event is not None:
            self._on_event(event)
        return address

    def _check(self, directive: AllocationDirective) -> tuple[int, ...]:
        alignment, policy = directive.chunk_alignment, directive.policy
        if alignment <= 0 or alignment % DEVICE_ALIGNMENT:
            raise DirectiveError(f"chunk alignment {alignment} is not a positive multiple of 128")
        ids = directive.domain_ids
        if directive.near is not None:
            ids = tuple(dict.fromkeys(chunk.domain_id for chunk in directive.near.chunks))
        if len(set(ids)) != len(ids):
            raise DirectiveError(f"domains {list(ids)} are not distinct")
        unknown = [domain for domain in ids if domain not in self._domains]
        if unknown:
            raise DirectiveError(f"unknown memory domain {unknown[0]}, there are {self._domains}")
        if policy in (PlacementPolicy.BIND, PlacementPolicy.PREFERRED) and not ids:
            raise DirectiveError(f"policy {policy.value} needs domains")
        if policy is PlacementPolicy.DEFAULT or not ids:
            return tuple(self._domains)
        return ids

    def _candidates(self, memory_type: MemoryType, domains: Iterable[int]) -> list[MemoryRegion]:
        wanted = set(domains)
        sign = -1 if self._order is RegionOrder.MOST_FREE else 1
        fitting = [r for r in self.regions if r.memory_type is memory_type and r.domain_id in wanted]
        return sorted(fitting, key=lambda r: (sign * r.free, r.region_id))

    def _place(self, need: int, directive: AllocationDirective, domains: Iterable[int]) -> Chunk | None:
        for region in self._candidates(directive.memory_type, domains):
            if region.largest_free < need:
                continue
            offset = region.take(need, directive.chunk_alignment)
            if offset is not None:
                return Chunk(LogicalAddress(region.region_id, offset), need, region.domain_id)
        return None

    def _single(
        self, need: int, directive: AllocationDirective, domains: tuple[int, ...]
    ) -> list[Chunk] | None:
        rounds = [domains]
        if directive.policy is PlacementPolicy.PREFERRED:
            rounds.append(tuple(d for d in self._domains if d not in domains))
        for targets in rounds:
            chunk = self._place(need, directive, targets)
            if chunk is not None:
                return [chunk]
        return None

    def _interleave(
        self, nbytes: int, directive: AllocationDirective, domains: tuple[int, ...]
    ) -> list[Chunk] | None:
        need = align_up(nbytes)
        size = align_up(-(-need // len(domains)), directive.chunk_alignment)
        count = -(-need // size)
        sizes = [size] * (count - 1) + [need - size * (count - 1)]
        chunks: list[Chunk] = []
        for length, domain in zip(sizes, domains, strict=False):
            chunk = self._place(length, directive, (domain,))
            if chunk is None:
                for placed in chunks:
                    self._by_id[placed.addr.region_id].give(placed.addr.offset, placed.size)
                return None
            chunks.append(chunk)
        return chunks

    def _out_of_memory(
        self, nbytes: int, directive: AllocationDirective, domains: tuple[int, ...], host_bytes: int | None
    ) -> NoReturn:
        need = align_up(nbytes, directive.chunk_alignment)
        regions = [r for r in self.regions if r.memory_type is directive.memory_type]
        if directive.policy is not PlacementPolicy.PREFERRED:
            regions = [r for r in regions if r.domain_id in domains]
        if need > max((r.size for r in regions), default=0):
            reason = "too_large_for_any_region"
        elif sum(r.free for r in regions) >= need:
            reason = "fragmented"
        else:
            reason = "exhausted"
        text = f"out of device memory ({reason}): {nbytes} bytes requested, {need} after rounding"
        if host_bytes:
            text += (
                f"; the tensor has {host_bytes} bytes on the host and {nbytes} on the device (padding "
                f"factor {nbytes / host_bytes:.1f})"
            )
        for region in regions:
            text += (
                f"\n  region {region.region_id} (segment {region.segment}, domain {region.domain_id}): "
                f"{region.free} of {region.size} bytes free, largest block {region.largest_free}"
            )
        if self._deferred:
            text += f"\n  {self._deferred} bytes wait for operations in flight"
        raise OutOfDeviceMemory(
            text,
            requested=nbytes,
            aligned=need,
            policy=directive.policy,
            domains=domains,
            regions=tuple((r.region_id, r.domain_id, r.size, r.free, r.largest_free) for r in regions),
            reason=reason,
        )

    # -- free ----------------------------------------------------------------------------------

    def free(self, address: CompositeAddress) -> None:
        """Give a block back; with operations in flight it waits in the quarantine.

        Raises ``InvalidFree`` for a view, a foreign address, or a block that was freed before.
        """
        if not address.chunks and address.is_owner:
            return
        with self._lock:
            block = self._blocks.get(_key(address)) if address.chunks else None
            if not address.is_owner or block is None or block.freed or block.address is not address:
                raise InvalidFree(f"{address} is not a live allocation of this device")
            event = self._free(block)
        if self._on_event is not None:
            self._on_event(event)

    def _free(self, block: _Block) -> MemoryEvent:
        size = block.address.total_size
        block.freed = True
        self._bytes.remove(size)
        self._count.remove(1)
        if block.pending:
            self._deferred += size
        else:
            self._recycle(block)
        return self._event(block.address, -size)

    def _recycle(self, block: _Block) -> None:
        del self._blocks[_key(block.address)]
        for chunk in block.address.chunks:
            self._by_id[chunk.addr.region_id].give(chunk.addr.offset, chunk.size)

    def _drain(self) -> None:
        """Free what finalisers have left."""
        while self.garbage:
            address = self.garbage.popleft()
            block = self._blocks.get(_key(address)) if address.chunks else None
            if block is not None and block.address is address and not block.freed:
                self._free(block)

    def hold(self, address: CompositeAddress, op_id: int) -> None:
        """An operation that was enqueued touches this allocation."""
        self.hold_all(((address, op_id),))

    def hold_all(self, uses: Iterable[tuple[CompositeAddress, int]]) -> None:
        """:meth:`hold` for several (address, operation); on an error those before it are held."""
        with self._lock:
            for address, op_id in uses:
                if not address.chunks:
                    continue
                block = self._blocks.get(_key(address))
                if block is None or block.address is not address:
                    raise InvalidFree(f"{address} is not a live allocation of this device")
                block.pending.add(op_id)
                self._owners.setdefault(op_id, []).append(block)

    def release(self, op_id: int) -> None:
        """An operation is over: what it touched and was freed meanwhile returns to the free lists."""
        with self._lock:
            for block in self._owners.pop(op_id, ()):
                block.pending.discard(op_id)
                if block.freed and not block.pending:
                    self._deferred -= block.address.total_size
                    self._recycle(block)

    def is_live(self, address: CompositeAddress) -> bool:
        """Whether the address is an allocation that was not freed."""
        if not address.chunks:
            return True
        with self._lock:
            block = self._blocks.get(_key(address))
            return block is not None and block.address is address and not block.freed

    # -- questions -----------------------------------------------------------------------------

    def segment_of(self, region_id: int) -> int:
        return self._by_id[region_id].segment

    def region(self, region_id: int) -> MemoryRegion:
        return self._by_id[region_id]

    def addresses(self, address: CompositeAddress) -> tuple[int, ...]:
        """One virtual device address per chunk (runtime spec 3.2.2)."""
        return tuple(dmva(self.segment_of(c.addr.region_id), c.addr.offset) for c in address.chunks)

    def find(self, address: int) -> tuple[CompositeAddress, int] | None:
        """The live single-chunk allocation that holds a DMVA, and the offset in it."""
        with self._lock:
            for block in self._blocks.values():
                if block.freed or len(block.address.chunks) != 1:
                    continue
                start = self.addresses(block.address)[0]
                if start <= address < start + block.address.total_size:
                    return block.address, address - start
        return None

    def quarantined(self) -> bool:
        """Whether freed blocks wait for operations in flight."""
        with self._lock:
            self._drain()
            return self._deferred > 0

    def live(self) -> list[CompositeAddress]:
        """Allocations that were not freed, in order of allocation."""
        with self._lock:
            self._drain()
            return [block.address for block in self._blocks.values() if not block.freed]

    def stats(self) -> dict[str, Any]:
        """Counters in bytes (rounded sizes) and numbers of allocations (runtime spec 3.3.6)."""
        with self._lock:
            self._drain()
            free = sum(region.free for region in self.regions)
            largest = max((region.largest_free for region in self.regions), default=0)
            result: dict[str, Any] = {}
            for name, counter in (("allocated_bytes", self._bytes), ("allocation", self._count)):
                for field in ("current", "peak", "allocated", "freed"):
                    result[f"{name}.all.{field}"] = getattr(counter, field)
            return result | {
                "reserved_bytes.all.current": sum(region.size for region in self.regions),
                "deferred_bytes": self._deferred,
                "num_ooms": self._ooms,
                "largest_free_block": largest,
                "total_free": free,
                "fragmentation": 1 - largest / free if free else 0.0,
            }

    def reset_peak(self) -> None:
        with self._lock:
            self._bytes.peak, self._count.peak = self._bytes.current, self._count.current

    def reset_accumulated(self) -> None:
        with self._lock:
            for counter in (self._bytes, self._count):
                counter.allocated = counter.freed = 0

    def check_invariants(self) -> None:
        """Raise ``AssertionError`` unless blocks and free lists tile every region (for tests and
        debugging)."""
        with self._lock:
            self._drain()
            used: dict[int, list[tuple[int, int]]] = {region.region_id: [] for region in self.regions}
            for block in self._blocks.values():
                for chunk in block.address.chunks:
                    used[chunk.addr.region_id].append((chunk.addr.offset, chunk.size))
            for region in self.regions:
                spans = [(o, s, True) for o, s in used[region.region_id]]
                spans += [(o, s, False) for o, s in region.free_blocks]
                at, was_free = 0, False
                for offset, size, taken in sorted(spans):
                    assert offset == at, f"gap or overlap at {at} of region {region.region_id}"
                    assert offset % DEVICE_ALIGNMENT == size % DEVICE_ALIGNMENT == 0
                    assert taken or not was_free, f"adjacent free blocks at {offset}"
                    at, was_free = offset + size, not taken
                assert at == region.size
                assert region.free == sum(size for _, size in region.free_blocks)
            live = sum(b.address.total_size for b in self._blocks.values() if not b.freed)
            assert live == self._bytes.current, "statistics do not match the blocks"
            held = sum(b.address.total_size for b in self._blocks.values() if b.freed)
            assert held == self._deferred, "quarantine statistics do not match"

    def _event(self, address: CompositeAddress, delta: int) -> MemoryEvent:
        reserved = sum(region.size for region in self.regions)
        return MemoryEvent(address.token, delta, self._bytes.current, reserved)


def _key(address: CompositeAddress) -> tuple[int, int]:
    first = address.chunks[0].addr
    return first.region_id, first.offset
