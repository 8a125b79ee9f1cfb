"""What grows while a kernel is encoded: pools of descriptors, hardware tables, tables of unit programs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

from dfsched.architecture import Architecture
from dfsched.codegen.errors import CodegenError
from dfsched.dialects.dataflow import GetUnit
from dfsched.errors import ArchitectureError
from dfsched.image import (
    AddressGenerator,
    Constant,
    Fifo,
    Memory,
    MemoryClass,
    Opaque,
    ShuffleDescriptor,
    Unit,
    View,
)
from ktir.ir import Operation
from ktir.machine import F16Format

__all__ = ["Cell", "Hardware", "Pool", "Pools", "SymbolCell", "Table"]

H = TypeVar("H", bound=Hashable)


@define
class Pool(Generic[H]):
    """Equal items once, in order of first use."""

    _numbers: dict[H, int] = field(factory=dict)

    def intern(self, item: H) -> int:
        """Position of the item."""
        return self._numbers.setdefault(item, len(self._numbers))

    @property
    def items(self) -> tuple[H, ...]:
        return tuple(self._numbers)


@define
class Pools:
    """Descriptors of a kernel; `f16_format`: what its 16-bit floats are."""

    f16_format: F16Format = F16Format.IEEE
    views: Pool[View] = field(factory=Pool)
    generators: Pool[AddressGenerator] = field(factory=Pool)
    constants: Pool[Constant] = field(factory=Pool)
    shuffles: Pool[ShuffleDescriptor] = field(factory=Pool)
    opaques: Pool[Opaque] = field(factory=Pool)


@frozen
class SymbolCell:
    """A table cell that the value of a symbol will fill."""

    id: int


Cell = int | SymbolCell


@define
class Table:
    """The table of one unit program (or, with one row, of the coordinator): equal columns once."""

    rows: int
    columns: Pool[tuple[Cell, ...]] = field(factory=Pool)

    def column(self, cells: Sequence[Cell]) -> int:
        """Number of a column with one cell per row."""
        assert len(cells) == self.rows
        return self.columns.intern(tuple(cells))

    def same(self, cell: Cell) -> int:
        """Number of the column that is `cell` in every row."""
        return self.column((cell,) * self.rows)

    def cells(self) -> list[Cell]:
        """All cells, row-major."""
        return [column[row] for row in range(self.rows) for column in self.columns.items]


@define
class Hardware:
    """Units, memories and FIFOs that the kernel mentions, numbered by first use."""

    architecture: Architecture
    _units: dict[str, tuple[int, Unit]] = field(factory=dict)
    _memories: dict[str, tuple[int, Memory]] = field(factory=dict)
    _used: dict[int, int] = field(factory=dict)
    _fifos: dict[tuple[int, int], Fifo] = field(factory=dict)

    def is_memory(self, op: GetUnit) -> bool:
        """Whether the handle is one of a memory."""
        return self.architecture.is_memory(self.kind(op))

    def kind(self, op: GetUnit) -> str:
        """Resource kind of a handle: its ``type`` in upper case; memory-space tags are resolved."""
        return resource_kind(self.architecture, op.kind.value)

    def unit(self, op: GetUnit) -> int:
        """Number of an execution unit."""
        name = op.unit_name.value
        if name not in self._units:
            kind = self.kind(op)
            if not self.architecture.is_unit(kind):
                raise CodegenError.at(
                    op.location, f"device '{self.architecture.name}' has no unit of kind '{kind}'"
                )
            core = -1 if op.core is None else op.core
            self._units[name] = (len(self._units), Unit(name, kind, core, op.corelet))
        return self._units[name][0]

    def memory(self, op: GetUnit) -> int:
        """Number of a memory."""
        name = op.unit_name.value
        if name not in self._memories:
            kind = self.kind(op)
            architecture = self.architecture
            if architecture.is_global(kind):
                memory_class = MemoryClass.GLOBAL
            elif architecture.is_private(kind):
                memory_class = MemoryClass.REGISTER
            else:
                memory_class = MemoryClass.SCRATCHPAD
            core = -1 if op.core is None else op.core
            size = architecture.memory(kind).size or 0
            memory = Memory(name, kind, memory_class, core, op.corelet, size)
            self._memories[name] = (len(self._memories), memory)
        return self._memories[name][0]

    def memory_at(self, number: int) -> Memory:
        """A memory by number."""
        return next(memory for position, memory in self._memories.values() if position == number)

    def use(self, memory: int, end: int) -> None:
        """Remember that a range up to byte `end` of a memory is used."""
        self._used[memory] = max(self._used.get(memory, 0), end)

    def connect(self, op: Operation, source: int, target: int) -> None:
        """Remember that unit `source` sends to unit `target`; the queue comes from the architecture."""
        if (source, target) in self._fifos:
            return
        kinds = {number: unit.kind for number, unit in self._units.values()}
        try:
            queue = self.architecture.queue(kinds[source], kinds[target])
        except ArchitectureError as error:
            raise CodegenError.at(op.location, str(error)) from None
        self._fifos[source, target] = Fifo(source, target, queue.depth or 16, queue.size or 0)

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(unit for _, unit in self._units.values())

    @property
    def memories(self) -> tuple[Memory, ...]:
        from attrs import evolve

        return tuple(
            evolve(memory, used_bytes=self._used.get(number, 0)) for number, memory in self._memories.values()
        )

    @property
    def fifos(self) -> tuple[Fifo, ...]:
        return tuple(self._fifos[pair] for pair in sorted(self._fifos))


def resource_kind(architecture: Architecture, tag: str) -> str:
    """The kind behind a ``type`` tag: upper case, or the memory that a memory-space tag is mapped to.

    ``hbm`` and ``lx`` are the tags of the memory spaces ``global`` and ``ct_local``, unless the device
    has a resource of that very kind.
    """
    kind = tag.upper()
    if architecture.resource(kind) is None and tag in ("hbm", "lx"):
        wanted = "global" if tag == "hbm" else "ct_local"
        for space, target in architecture.mem_space_mapping:
            if f"<{wanted}>" in str(space):
                return str(target)
    return kind
