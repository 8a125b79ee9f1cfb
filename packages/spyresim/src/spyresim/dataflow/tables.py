"""The tables of an image under construction: units, memories, queues, descriptors, cells."""

from __future__ import annotations

from typing import TypeVar

import attrs

from dfsched import image as im
from dfsched.architecture import Architecture
from dfsched.dialects.dataflow import GetUnit
from ktir.machine import F16Format
from spyresim.errors import Site, UnsupportedError

T = TypeVar("T")

REGISTER_FILE_BYTES = 64 * 1024
"""Size of a register memory for which the description states none."""


@attrs.frozen
class ConstantStarts:
    """What a constant start address of a view counts: elements of the view, or bytes (dataflowir spec 5.4).

    By default elements in device memory and bytes in scratchpads and registers. Symbols always count words.
    """

    device_elements: bool = True
    local_elements: bool = False

    def unit(self, memory: im.Memory, element: im.ElementType) -> int:
        """Bytes that one step of the address is."""
        is_global = memory.memory_class is im.MemoryClass.GLOBAL
        counts_elements = self.device_elements if is_global else self.local_elements
        return element.storage_bits // 8 if counts_elements else 1


USUAL_STARTS = ConstantStarts()
"""What dfsched writes."""


class Interned(list[T]):
    """A list that holds equal items once."""

    def index_of(self, item: T) -> int:
        """The position of an item, appended if it is new."""
        for position, known in enumerate(self):
            if known == item:
                return position
        self.append(item)
        return len(self) - 1


class Tables:
    """Everything that all programs of one kernel share."""

    def __init__(self, architecture: Architecture, constants: ConstantStarts, f16_format: F16Format) -> None:
        self.architecture = architecture
        self.f16_format = f16_format
        self.constant_starts = constants
        self.units: list[im.Unit] = []
        self.memories: list[im.Memory] = []
        self.fifos: list[im.Fifo] = []
        self.cells: list[int] = []
        self.views: Interned[im.View] = Interned()
        self.generators: list[im.AddressGenerator] = []
        self.constants: Interned[im.Constant] = Interned()
        self.shuffles: list[im.ShuffleDescriptor] = []
        self.opaques: list[im.Opaque] = []
        self._unit_ids: dict[str, int] = {}
        self._memory_ids: dict[str, int] = {}
        self._fifo_pairs: set[tuple[int, int]] = set()
        self._kinds = {
            str(r.kind).lower(): str(r.kind) for r in (*architecture.units, *architecture.memories)
        }

    def kind(self, handle: GetUnit) -> str:
        """The architecture's spelling of a handle's kind (labels are lower case)."""
        found = self._kinds.get(handle.kind.value.lower())
        if found is None:
            raise UnsupportedError(
                f"unit kind '{handle.kind.value}', which device '{self.architecture.name}' does not have",
                Site(handle.name, handle.location),
            )
        return found

    def unit(self, handle: GetUnit) -> int:
        """The id of an execution unit."""
        name = handle.unit_name.value
        if name not in self._unit_ids:
            core = -1 if handle.core is None else handle.core
            corelet = -1 if handle.corelet is None else handle.corelet
            self._unit_ids[name] = len(self.units)
            self.units.append(im.Unit(name, self.kind(handle), core, corelet))
        return self._unit_ids[name]

    def memory(self, handle: GetUnit) -> int:
        """The id of a memory."""
        name = handle.unit_name.value
        if name not in self._memory_ids:
            kind = self.kind(handle)
            architecture = self.architecture
            size = architecture.memory(kind).size or 0
            if architecture.is_global(kind):
                memory = im.Memory(name, kind, im.MemoryClass.GLOBAL, -1, -1, size)
            elif handle.core is None or architecture.is_private(kind):
                memory = im.Memory(name, kind, im.MemoryClass.REGISTER, -1, -1, size or REGISTER_FILE_BYTES)
            else:
                corelet = -1 if handle.corelet is None else handle.corelet
                memory = im.Memory(name, kind, im.MemoryClass.SCRATCHPAD, handle.core, corelet, size)
            self._memory_ids[name] = len(self.memories)
            self.memories.append(memory)
        return self._memory_ids[name]

    def memory_named(self, name: str) -> int | None:
        """The id of a memory by its name, if some handle has named it."""
        return self._memory_ids.get(name)

    def connect(self, source: int, target: int) -> None:
        """Make the FIFO between two units, with the depth of the description."""
        if (source, target) in self._fifo_pairs:
            return
        self._fifo_pairs.add((source, target))
        queue = self.architecture.queue(self.units[source].kind, self.units[target].kind)
        assert queue.depth is not None
        self.fifos.append(im.Fifo(source, target, queue.depth, queue.size or 0))
