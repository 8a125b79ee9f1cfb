"""Device memory: addresses, regions, the allocator. Knows nothing of tensors."""

from spyrert.memory.addresses import EMPTY, Chunk, CompositeAddress, LogicalAddress, decode, dmva
from spyrert.memory.allocator import (
    AllocationDirective,
    FlexAllocator,
    MemoryEvent,
    PlacementPolicy,
    RegionOrder,
)
from spyrert.memory.region import MemoryRegion

__all__ = [
    "EMPTY",
    "AllocationDirective",
    "Chunk",
    "CompositeAddress",
    "FlexAllocator",
    "LogicalAddress",
    "MemoryEvent",
    "MemoryRegion",
    "PlacementPolicy",
    "RegionOrder",
    "decode",
    "dmva",
]
