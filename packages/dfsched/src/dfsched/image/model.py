"""The data model of a device image: everything that a device needs to run one kernel.

Indices refer to the tuples of `Image`; sizes named ``_bytes`` are bytes, everything else that counts data
counts elements or lanes.  `dfsched.image.encode` and `decode` map it to bytes and back, one to one.
"""

from __future__ import annotations

import enum
import math

import attrs

from dfsched.image.elements import ElementType
from dfsched.image.instructions import Instruction

__all__ = [
    "AddressGenerator",
    "BoxLanes",
    "Constant",
    "Coordinator",
    "DebugEntry",
    "ExplicitLanes",
    "ExtraSection",
    "Fifo",
    "GeneratorKind",
    "Image",
    "Memory",
    "MemoryClass",
    "Opaque",
    "OpaqueOperand",
    "Program",
    "Relocation",
    "ShuffleDescriptor",
    "Side",
    "Symbol",
    "Unit",
    "UnitProgram",
    "View",
]


class MemoryClass(enum.IntEnum):
    """How often a memory exists and who sees it."""

    GLOBAL = 0
    """one, seen by all units"""
    SCRATCHPAD = 1
    """one per core (`corelet` -1), or per core and corelet"""
    REGISTER = 2
    """private to each executing unit (its `core` and `corelet` are -1)"""


@attrs.frozen
class Memory:
    """One memory of the memory map.

    `kind` is the resource kind in the architecture (``"DDR"``), `name` the name of its ``get_unit``
    (``"C0-l1"``).  `size_bytes` 0 means not limited; `used_bytes` is the end of the highest range that a
    view with a constant start touches.
    """

    name: str
    kind: str
    memory_class: MemoryClass
    core: int
    corelet: int
    size_bytes: int
    used_bytes: int = 0


@attrs.frozen
class Unit:
    """An execution unit: resource kind (``"SFU"``), name of its ``get_unit`` (``"C0-sfu"``), place."""

    name: str
    kind: str
    core: int
    corelet: int


@attrs.frozen
class Fifo:
    """The queue from unit `source` to unit `target`: at most `depth` vectors and `size_bytes` bytes in
    flight (0: not limited)."""

    source: int
    target: int
    depth: int
    size_bytes: int = 0


@attrs.frozen
class UnitProgram:
    """One ``dataflow.program_unit``: a code sequence that each unit of `units` runs.

    The table has one row per unit (in the order of `units`) of `columns` cells, row-major from
    `first_cell` of `Image.cells`.  `registers` counts scalars, vectors and views.
    """

    label: str
    units: tuple[int, ...]
    code: tuple[Instruction, ...]
    first_cell: int
    columns: int
    scalar_registers: int
    vector_registers: int
    view_registers: int
    precision: str = ""

    def cell(self, row: int, column: int) -> int:
        """Index into `Image.cells`."""
        return self.first_cell + row * self.columns + column


@attrs.frozen
class Program:
    """What one launch of the coordinator runs: all unit programs start together.

    The values of `parameters` (names, in order) arrive in ``s0``, ``s1``, … of every unit.
    """

    name: str
    unit_programs: tuple[UnitProgram, ...]
    parameters: tuple[str, ...] = ()


@attrs.frozen
class Coordinator:
    """The sequential program that launches the others; scalar instructions and `Launch` only.

    Its table has one row: `columns` cells from `first_cell`.
    """

    code: tuple[Instruction, ...]
    first_cell: int
    columns: int
    scalar_registers: int


@attrs.frozen
class View:
    """How index vectors name elements: ``offset = constant + sum(coefficients * index)``, in elements.

    The start operand of `MakeView` counts units of `start_unit` bytes (the word of the unit for a symbolic
    start, one element for constants in global memory, one byte elsewhere).  `symbolic`: the start
    operand is a symbol.
    """

    element: ElementType
    shape: tuple[int, ...]
    coefficients: tuple[int, ...]
    constant: int = 0
    start_unit: int = 1
    symbolic: bool = False


@attrs.frozen
class BoxLanes:
    """Lanes are the points of a box at the origin.

    Lane order is lexicographic with dimension `order[0]` slowest; `extents` in dimension order.
    """

    extents: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def lanes(self) -> int:
        return math.prod(self.extents)

    def points(self) -> list[tuple[int, ...]]:
        """The offset vector of every lane."""
        points: list[tuple[int, ...]] = []
        for lane in range(self.lanes):
            rest, point = lane, [0] * len(self.extents)
            for dimension in reversed(self.order):
                rest, point[dimension] = divmod(rest, self.extents[dimension])
            points.append(tuple(point))
        return points


@attrs.frozen
class ExplicitLanes:
    """One offset vector per lane."""

    offsets: tuple[tuple[int, ...], ...]

    @property
    def lanes(self) -> int:
        return len(self.offsets)

    def points(self) -> list[tuple[int, ...]]:
        """The offset vector of every lane."""
        return list(self.offsets)


class GeneratorKind(enum.IntEnum):
    LOAD = 0
    STORE = 1
    DMA = 2


@attrs.frozen
class Side:
    """One end of an access.  Lane l of time step t touches the index vector

    ``base + coefficients @ s[registers] + time_coefficients @ t + points[l]``

    with `base` of length rank, `coefficients` rank x registers, `time_coefficients` rank x time
    dimensions.
    """

    element: ElementType
    registers: tuple[int, ...]
    base: tuple[int, ...]
    coefficients: tuple[tuple[int, ...], ...]
    time_coefficients: tuple[tuple[int, ...], ...]
    lanes: BoxLanes | ExplicitLanes

    @property
    def rank(self) -> int:
        return len(self.base)


@attrs.frozen
class AddressGenerator:
    """An access: one side for loads and stores, source and target for copies.

    Time steps run lexicographically over `time_extents`, slowest first (no dimension: one step).
    """

    kind: GeneratorKind
    sides: tuple[Side, ...]
    time_extents: tuple[int, ...] = ()


@attrs.frozen
class Constant:
    """A vector constant: little-endian bit patterns, whole bytes per lane."""

    element: ElementType
    lanes: int
    data: bytes

    @classmethod
    def of(cls, element: ElementType, patterns: list[int]) -> Constant:
        """From one bit pattern per lane."""
        width = (element.bits + 7) // 8
        return cls(element, len(patterns), b"".join(p.to_bytes(width, "little") for p in patterns))

    def patterns(self) -> list[int]:
        """The bit pattern of every lane."""
        width = (self.element.bits + 7) // 8
        return [int.from_bytes(self.data[i * width : (i + 1) * width], "little") for i in range(self.lanes)]


@attrs.frozen
class ShuffleDescriptor:
    """``out[r * len(indices) + k] = pick(indices[k])`` for r below `repetition`.

    ``pick(i >= 0)`` is lane i of the input; -1, -2, … are the scalar registers `variables` in order (the
    low bits are the lane's bit pattern).  `mask` is a vector register or None: where it is 0 the lane keeps
    the input's lane of the same number (0 if there is none).
    """

    element: ElementType
    indices: tuple[int, ...]
    repetition: int
    variables: tuple[int, ...] = ()
    mask: int | None = None

    @property
    def lanes(self) -> int:
        return len(self.indices) * self.repetition


@attrs.frozen
class OpaqueOperand:
    """A vector in the register file: byte offset, element type, lanes."""

    name: str
    offset_bytes: int
    element: ElementType
    lanes: int


@attrs.frozen
class Opaque:
    """A call of the operation `function` (the name of the KTIR operation whose meaning it has).

    Operands and results stand in register memory `memory` of the executing unit; `parameters` are the
    operation's attributes as MLIR text, sorted by name.
    """

    function: str
    memory: int
    inputs: tuple[OpaqueOperand, ...]
    outputs: tuple[OpaqueOperand, ...]
    parameters: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Symbol:
    """A value that is known only at launch; its position in `Image.symbols` is its slot.

    The host computes it (host compute metadata, same position); the slot's value is already divided by
    `unit` bytes.  `argument` is the kernel position of the argument that it depends on, None if there is
    none.
    """

    id: int
    unit: int
    argument: int | None
    name: str


@attrs.frozen
class Relocation:
    """Cell `cell` receives the value of symbol slot `slot`.  Until then it holds the symbol's id."""

    cell: int
    slot: int


@attrs.frozen
class PinnedRange:
    """Bytes `low` to below `high` of every scratchpad of a kind: what a program leaves there, others may
    read."""

    kind: str
    low: int
    high: int


@attrs.frozen
class DebugEntry:
    """Instruction `index` of unit program `unit_program` (in order over all programs) comes from
    `file`:`line`."""

    unit_program: int
    index: int
    file: str
    line: int


@attrs.frozen
class ExtraSection:
    """A section of a later minor version, kept as it is."""

    tag: str
    data: bytes


@attrs.frozen
class Image:
    """One kernel for one architecture; see the module docstring.

    `architecture_digest` is the SHA-256 (hex) of the architecture; a device with another one refuses the
    image.  `f16_format` is ``"ieee"`` or ``"dlfloat"``.  `grid` is the number of compute tiles (cores).
    """

    kernel: str
    architecture: str
    architecture_digest: str
    grid: int
    memories: tuple[Memory, ...] = ()
    units: tuple[Unit, ...] = ()
    fifos: tuple[Fifo, ...] = ()
    programs: tuple[Program, ...] = ()
    coordinator: Coordinator = Coordinator((), 0, 0, 0)
    cells: tuple[int, ...] = ()
    views: tuple[View, ...] = ()
    generators: tuple[AddressGenerator, ...] = ()
    constants: tuple[Constant, ...] = ()
    shuffles: tuple[ShuffleDescriptor, ...] = ()
    opaques: tuple[Opaque, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    f16_format: str = "ieee"
    debug: tuple[DebugEntry, ...] = ()
    pinned: tuple[PinnedRange, ...] = ()
    extra: tuple[ExtraSection, ...] = ()

    @property
    def unit_programs(self) -> tuple[UnitProgram, ...]:
        """The unit programs of all programs, in order."""
        return tuple(unit for program in self.programs for unit in program.unit_programs)
