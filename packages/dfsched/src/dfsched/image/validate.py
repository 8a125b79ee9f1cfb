"""The rules of a valid image, checked before encoding and after decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfsched.image.fields import Role
from dfsched.image.instructions import (
    Branch,
    BranchIfZero,
    Dma,
    EndFor,
    For,
    Halt,
    Instruction,
    Launch,
    LoadColumn,
    LoadImmediate,
    Move,
    Predicate,
    ScalarBinary,
    ScalarCompare,
    ScalarSelect,
    VectorLoad,
    VectorStore,
    operands,
)
from dfsched.image.model import (
    AddressGenerator,
    BoxLanes,
    Coordinator,
    GeneratorKind,
    Image,
    MemoryClass,
    Side,
    UnitProgram,
)

__all__ = ["MAX_LANES", "problems"]

MAX_LANES = 65536
"""Upper bound of the lanes of one vector."""

_SCALAR_CODE = (
    Halt,
    LoadImmediate,
    LoadColumn,
    Move,
    ScalarBinary,
    ScalarCompare,
    ScalarSelect,
    For,
    EndFor,
    BranchIfZero,
    Branch,
)
_KINDS = {VectorLoad: GeneratorKind.LOAD, VectorStore: GeneratorKind.STORE, Dma: GeneratorKind.DMA}
assert len(Predicate) == 10


def problems(image: Image) -> Iterator[str]:
    """What is wrong with an image, one text each; nothing for a valid one."""
    yield from _header(image)
    yield from _hardware(image)
    yield from _descriptors(image)
    yield from _symbols(image)
    yield from _tables(image)
    for program in image.programs:
        seen: set[int] = set()
        for unit in program.unit_programs:
            for member in unit.units:
                if member >= len(image.units):
                    yield f"{unit.label}: unit {member} does not exist"
                elif member in seen:
                    yield f"unit {image.units[member].name} is programmed twice"
                seen.add(member)
            yield from _unit_program(image, unit, len(program.parameters))
    yield from _coordinator(image, image.coordinator)
    for entry in image.debug:
        if entry.unit_program >= len(image.unit_programs) or entry.index >= len(
            image.unit_programs[entry.unit_program].code
        ):
            yield f"debug entry for instruction {entry.index} of unit program {entry.unit_program}"


def _duplicates(what: str, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not name:
            yield f"a {what} has no name"
    for name in dict.fromkeys(n for n in names if names.count(n) > 1) if len(set(names)) < len(names) else ():
        yield f"two {what}s are named '{name}'"


def _header(image: Image) -> Iterator[str]:
    if not image.kernel:
        yield "the kernel has no name"
    if image.grid < 1 or image.grid >= 1 << 32:
        yield f"grid size {image.grid} is not in 1..2**32-1"
    digest = image.architecture_digest
    if len(digest) != 64 or digest.strip("0123456789abcdef"):
        yield f"architecture digest {digest!r} is not 64 hexadecimal digits"
    if image.f16_format not in ("ieee", "dlfloat"):
        yield f"f16 format {image.f16_format!r} is neither 'ieee' nor 'dlfloat'"
    for extra in image.extra:
        if len(extra.tag) != 4 or not extra.tag.isascii() or "\0" in extra.tag:
            yield f"section tag {extra.tag!r} is not four ASCII characters"


def _hardware(image: Image) -> Iterator[str]:
    yield from _duplicates("memory", [memory.name for memory in image.memories])
    yield from _duplicates("unit", [unit.name for unit in image.units])
    yield from _duplicates("program", [program.name for program in image.programs])
    for memory in image.memories:
        if memory.size_bytes and memory.used_bytes > memory.size_bytes:
            yield f"memory '{memory.name}' needs {memory.used_bytes} bytes but has {memory.size_bytes}"
        if memory.memory_class is MemoryClass.SCRATCHPAD and memory.core < 0:
            yield f"scratchpad '{memory.name}' has no core"
    for pinned in image.pinned:
        if not pinned.kind or not 0 <= pinned.low < pinned.high < 1 << 64:
            yield f"bytes {pinned.low} to {pinned.high} of '{pinned.kind}' are no range to pin"
    pairs = [(fifo.source, fifo.target) for fifo in image.fifos]
    if len(set(pairs)) < len(pairs):
        yield "two FIFOs join the same units"
    for fifo in image.fifos:
        if max(fifo.source, fifo.target) >= len(image.units):
            yield f"FIFO {fifo.source} -> {fifo.target} joins a unit that does not exist"
        if fifo.depth < 1:
            yield f"FIFO {fifo.source} -> {fifo.target} has depth {fifo.depth}"


def _descriptors(image: Image) -> Iterator[str]:
    for index, view in enumerate(image.views):
        if len(view.shape) != len(view.coefficients):
            yield f"view {index} has {len(view.shape)} extents and {len(view.coefficients)} coefficients"
        if any(extent < 0 for extent in view.shape):
            yield f"view {index} has a negative extent"
        if view.start_unit < 1:
            yield f"view {index} has start unit {view.start_unit}"
    for index, generator in enumerate(image.generators):
        for problem in _generator(generator):
            yield f"address generator {index}: {problem}"
    for index, constant in enumerate(image.constants):
        width = (constant.element.bits + 7) // 8
        if not 1 <= constant.lanes <= MAX_LANES or len(constant.data) != width * constant.lanes:
            yield f"constant {index} has {len(constant.data)} bytes for {constant.lanes} lanes"
        elif constant.element.bits % 8 and any(byte >> constant.element.bits for byte in constant.data):
            yield f"constant {index} has bits outside its lanes"
    for index, shuffle in enumerate(image.shuffles):
        if not 1 <= shuffle.lanes <= MAX_LANES or shuffle.repetition < 1:
            yield f"shuffle {index} has {shuffle.lanes} lanes"
        if any(pick < -len(shuffle.variables) or pick >= MAX_LANES for pick in shuffle.indices):
            yield f"shuffle {index}: out of bounds indices element"
    for index, opaque in enumerate(image.opaques):
        if not opaque.function:
            yield f"opaque {index} has no function name"
        if opaque.memory >= len(image.memories):
            yield f"opaque {index}: memory {opaque.memory} does not exist"
        elif image.memories[opaque.memory].memory_class is not MemoryClass.REGISTER:
            yield f"opaque {index}: memory '{image.memories[opaque.memory].name}' is no register file"
        for operand in (*opaque.inputs, *opaque.outputs):
            if not 1 <= operand.lanes <= MAX_LANES:
                yield f"opaque {index}: operand '{operand.name}' has {operand.lanes} lanes"
        names = [name for name, _ in opaque.parameters]
        if names != sorted(set(names)):
            yield f"opaque {index}: parameters are not sorted by name"


def _generator(generator: AddressGenerator) -> Iterator[str]:
    expected = 2 if generator.kind is GeneratorKind.DMA else 1
    if len(generator.sides) != expected:
        yield f"{len(generator.sides)} sides, not {expected}"
        return
    if generator.kind is not GeneratorKind.DMA and generator.time_extents:
        yield "a single access has time dimensions"
    if any(extent < 1 for extent in generator.time_extents):
        yield "a time extent is not positive"
    if len({side.lanes.lanes for side in generator.sides}) > 1:
        yield "source and target have different lane counts"
    if len({side.element for side in generator.sides}) > 1:
        yield "source and target have different element types"
    for side in generator.sides:
        yield from _side(side, len(generator.time_extents))


def _side(side: Side, times: int) -> Iterator[str]:
    rank = side.rank
    if len(side.coefficients) != rank or any(len(row) != len(side.registers) for row in side.coefficients):
        yield "coefficients do not fit the rank and the registers"
    if len(side.time_coefficients) != rank or any(len(row) != times for row in side.time_coefficients):
        yield "time coefficients do not fit the rank and the time dimensions"
    if not 1 <= side.lanes.lanes <= MAX_LANES:
        yield f"{side.lanes.lanes} lanes"
    match side.lanes:
        case BoxLanes(extents, order):
            if len(extents) != rank or sorted(order) != list(range(rank)) or any(e < 1 for e in extents):
                yield "the lane box does not fit the rank"
        case _ as explicit:
            if any(len(point) != rank for point in explicit.offsets):
                yield "a lane offset does not fit the rank"


def _symbols(image: Image) -> Iterator[str]:
    ids = [symbol.id for symbol in image.symbols]
    if any(number >= 0 for number in ids) or ids != sorted(set(ids), reverse=True):
        yield "symbols are not ordered by decreasing negative id"
    if any(symbol.unit < 1 for symbol in image.symbols):
        yield "a symbol's unit is not positive"
    cells = [relocation.cell for relocation in image.relocations]
    if cells != sorted(set(cells)):
        yield "relocations are not sorted by cell, once each"
    used = set()
    for relocation in image.relocations:
        if relocation.cell >= len(image.cells) or relocation.slot >= len(ids):
            yield f"relocation of cell {relocation.cell} with slot {relocation.slot} is out of range"
            continue
        used.add(relocation.slot)
        if image.cells[relocation.cell] != ids[relocation.slot]:
            yield f"cell {relocation.cell} does not hold the id of its symbol {ids[relocation.slot]}"
    for slot, number in enumerate(ids):
        if slot not in used:
            yield f"symbol {number} is not used by any relocation"


def _tables(image: Image) -> Iterator[str]:
    cursor = 0
    for unit in image.unit_programs:
        if unit.first_cell != cursor:
            yield f"{unit.label}: table starts at cell {unit.first_cell}, not {cursor}"
        cursor += unit.columns * len(unit.units)
    if image.coordinator.first_cell != cursor:
        yield f"coordinator: table starts at cell {image.coordinator.first_cell}, not {cursor}"
    cursor += image.coordinator.columns
    if cursor != len(image.cells):
        yield f"{len(image.cells)} cells, but the tables have {cursor}"
    if any(not -(2**63) <= cell < 2**63 for cell in image.cells):
        yield "a cell does not fit in 64 bits"


def _unit_program(image: Image, unit: UnitProgram, parameters: int) -> Iterator[str]:
    where = unit.label
    if not unit.units:
        yield f"{where}: no unit runs it"
    if unit.scalar_registers < parameters:
        yield f"{where}: {parameters} parameters do not fit in {unit.scalar_registers} scalar registers"
    if max(unit.scalar_registers, unit.vector_registers, unit.view_registers) > 65536:
        yield f"{where}: more than 65536 registers"
    limits = {
        Role.SCALAR: unit.scalar_registers,
        Role.SCALAR_DEF: unit.scalar_registers,
        Role.VECTOR: unit.vector_registers,
        Role.VECTOR_DEF: unit.vector_registers,
        Role.VIEW: unit.view_registers,
        Role.VIEW_DEF: unit.view_registers,
        Role.COLUMN: unit.columns,
        Role.UNIT_COLUMN: unit.columns,
        Role.VIEW_DESCRIPTOR: len(image.views),
        Role.GENERATOR: len(image.generators),
        Role.CONSTANT: len(image.constants),
        Role.SHUFFLE: len(image.shuffles),
        Role.OPAQUE: len(image.opaques),
        Role.MEMORY: len(image.memories),
    }
    for index, instruction in enumerate(unit.code):
        place = f"{where}: instruction {index} ({instruction.mnemonic})"
        if isinstance(instruction, Launch):
            yield f"{place}: only the coordinator launches programs"
        bad = False
        for name, role, number in operands(instruction):
            if role in limits and not 0 <= number < limits[role]:
                yield f"{place}: {name} {number} is out of range"
                bad = True
            elif role is Role.LANES and not 1 <= number <= MAX_LANES:
                yield f"{place}: {number} lanes"
        if not bad:
            for problem in _references(image, unit, instruction):
                yield f"{place}: {problem}"
    yield from _control(unit.code, where)


def _references(image: Image, unit: UnitProgram, instruction: Instruction) -> Iterator[str]:
    match instruction:
        case VectorLoad(generator=index) | VectorStore(generator=index) | Dma(generator=index):
            generator = image.generators[index]
            if generator.kind is not _KINDS[type(instruction)]:
                yield f"address generator {index} is a {generator.kind.name.lower()}"
            if any(r >= unit.scalar_registers for side in generator.sides for r in side.registers):
                yield f"address generator {index} reads a register that does not exist"
    for name, role, number in operands(instruction):
        if role is Role.SHUFFLE:
            shuffle = image.shuffles[number]
            if any(r >= unit.scalar_registers for r in shuffle.variables) or (
                shuffle.mask is not None and shuffle.mask >= unit.vector_registers
            ):
                yield f"shuffle {number} reads a register that does not exist"
        known = {Role.UNIT_COLUMN: len(image.units)}.get(role)
        if name == "memory" and role is Role.COLUMN:
            known = len(image.memories)
        if known is not None:
            for row in range(len(unit.units)):
                cell = unit.cell(row, number)
                if cell < len(image.cells) and not 0 <= image.cells[cell] < known:
                    yield f"{name} column {number} holds {image.cells[cell]}, which does not exist"


def _coordinator(image: Image, main: Coordinator) -> Iterator[str]:
    limits = {
        Role.SCALAR: main.scalar_registers,
        Role.SCALAR_DEF: main.scalar_registers,
        Role.COLUMN: main.columns,
        Role.PROGRAM: len(image.programs),
    }
    for index, instruction in enumerate(main.code):
        place = f"coordinator: instruction {index} ({instruction.mnemonic})"
        if not isinstance(instruction, (*_SCALAR_CODE, Launch)):
            yield f"{place}: not for the coordinator"
            continue
        for name, role, number in operands(instruction):
            if isinstance(instruction, Launch) and role is Role.SCALAR:
                continue
            if role in limits and not 0 <= number < limits[role]:
                yield f"{place}: {name} {number} is out of range"
        if isinstance(instruction, Launch) and 0 <= instruction.program < len(image.programs):
            end = instruction.first + len(image.programs[instruction.program].parameters)
            if end > main.scalar_registers:
                yield f"{place}: parameters end behind the last register"
    yield from _control(main.code, "coordinator")


def _control(code: tuple[Instruction, ...], where: str) -> Iterator[str]:
    """Loops nest, branches go forward and stay in their loop, the last instruction is a halt."""
    if not code or not isinstance(code[-1], Halt):
        yield f"{where}: the last instruction is not a halt"
    loop_of: list[int] = []  # the head of the innermost loop around each instruction; -1 outside
    open_loops: list[int] = []
    for index, instruction in enumerate(code):
        loop_of.append(open_loops[-1] if open_loops else -1)
        match instruction:
            case For(end=end, step=step):
                if step <= 0:
                    yield f"{where}: instruction {index}: step {step} is not positive"
                tail = code[index + end] if 0 < end < len(code) - index else None
                if not isinstance(tail, EndFor) or tail.head != -end:
                    yield f"{where}: instruction {index}: FOR without END"
                    return
                open_loops.append(index)
            case EndFor(head=head):
                if not open_loops or open_loops[-1] != index + head:
                    yield f"{where}: instruction {index}: END without FOR"
                    return
                open_loops.pop()
            case Halt() if open_loops:
                yield f"{where}: instruction {index}: halt inside a loop"
    if open_loops:
        yield f"{where}: instruction {open_loops[-1]}: FOR without END"
        return
    for index, instruction in enumerate(code):
        match instruction:
            case Branch(target=target) | BranchIfZero(target=target):
                goal = index + target
                if target <= 0 or goal >= len(code) or loop_of[goal] != loop_of[index]:
                    yield f"{where}: instruction {index}: branch target {goal} is out of range"
