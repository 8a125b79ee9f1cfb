"""An image as text for people: hardware, symbols, programs with their tables, instructions, descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from dfsched.image.fields import Choice, Role
from dfsched.image.instructions import PLACED_FIELDS, Instruction, ScalarBinary
from dfsched.image.model import (
    AddressGenerator,
    BoxLanes,
    Coordinator,
    Image,
    MemoryClass,
    Side,
    UnitProgram,
)

__all__ = ["instruction_text", "listing"]

_PREFIX = {
    Role.SCALAR: "s",
    Role.SCALAR_DEF: "s",
    Role.VECTOR: "v",
    Role.VECTOR_DEF: "v",
    Role.VIEW: "w",
    Role.VIEW_DEF: "w",
    Role.VIEW_DESCRIPTOR: "view",
    Role.GENERATOR: "agen",
    Role.CONSTANT: "const",
    Role.SHUFFLE: "shuffle",
    Role.OPAQUE: "opaque",
    Role.PROGRAM: "program",
}
_DEFINITIONS = (Role.SCALAR_DEF, Role.VECTOR_DEF, Role.VIEW_DEF)


def instruction_text(instruction: Instruction, position: int = 0) -> str:
    """One instruction, such as ``v0 = vld w1, agen3``; branch targets are absolute from `position`."""
    target, arguments = "", []
    for item in PLACED_FIELDS[type(instruction)]:
        value = getattr(instruction, item.name)
        role = item.spec.role
        if value is None:
            continue
        if isinstance(item.spec.where, Choice):
            arguments.append(str(value))
        elif role in _DEFINITIONS:
            target = f"{_PREFIX[role]}{value} = "
        elif role in _PREFIX:
            arguments.append(f"{_PREFIX[role]}{value}")
        elif role in (Role.COLUMN, Role.UNIT_COLUMN):
            arguments.append(f"[{value}]")
        elif role is Role.TARGET:
            arguments.append(f"@{position + value}")
        elif isinstance(value, IntEnum):
            arguments.append(value.name.lower())
        elif isinstance(value, bool):
            arguments += [item.name] if value else []
        else:
            arguments.append(f"{item.name}={value}" if item.name not in ("value",) else str(value))
    mnemonic = instruction.op.name.lower() if isinstance(instruction, ScalarBinary) else instruction.mnemonic
    return f"{target}{mnemonic} {', '.join(arguments)}".rstrip()


def listing(image: Image, expressions: Sequence[str] = ()) -> str:
    """The whole image.  `expressions` says for every symbol how the host computes it."""
    return "\n".join(_lines(image, expressions)) + "\n"


def _lines(image: Image, expressions: Sequence[str]) -> Iterator[str]:
    digest = image.architecture_digest[:12]
    yield f"kernel {image.kernel} for {image.architecture} ({digest}), grid {image.grid}"
    yield f"f16 is {image.f16_format}"
    yield ""
    yield "memories"
    for number, memory in enumerate(image.memories):
        size = f"{memory.used_bytes} of {memory.size_bytes} bytes" if memory.size_bytes else "no size"
        yield f"  mem{number} {memory.name} ({memory.kind}, {memory.memory_class.name.lower()}): {size}"
    for pinned in image.pinned:
        yield f"  pinned: bytes {pinned.low} to {pinned.high} of every {pinned.kind}"
    yield "units"
    for number, unit in enumerate(image.units):
        yield f"  {number} {unit.name} ({unit.kind}, core {unit.core}, corelet {unit.corelet})"
    yield "queues"
    for fifo in image.fifos:
        names = f"{image.units[fifo.source].name} -> {image.units[fifo.target].name}"
        size = f", {fifo.size_bytes} bytes" if fifo.size_bytes else ""
        yield f"  {names}: depth {fifo.depth}{size}"
    yield "symbols"
    for slot, symbol in enumerate(image.symbols):
        uses = sum(relocation.slot == slot for relocation in image.relocations)
        meaning = f" = {expressions[slot]}" if slot < len(expressions) else ""
        yield f"  {symbol.id}{meaning} (slot {slot}, {symbol.name}, {uses} cells)"
    yield ""
    yield "coordinator"
    yield from _coordinator(image, image.coordinator)
    for number, program in enumerate(image.programs):
        yield ""
        parameters = f" ({', '.join(program.parameters)})" if program.parameters else ""
        yield f"program{number} {program.name}{parameters}"
        for unit_program in program.unit_programs:
            yield from _unit_program(image, unit_program)
    yield ""
    yield from _descriptors(image)


def _cell(image: Image, index: int) -> str:
    slot = {relocation.cell: relocation.slot for relocation in image.relocations}.get(index)
    return str(image.cells[index]) if slot is None else f"symbol {image.symbols[slot].id}"


def _coordinator(image: Image, main: Coordinator) -> Iterator[str]:
    for column in range(main.columns):
        yield f"  [{column}] {_cell(image, main.first_cell + column)}"
    yield from _code(main.code)


def _unit_program(image: Image, program: UnitProgram) -> Iterator[str]:
    registers = f"{program.scalar_registers} s, {program.vector_registers} v, {program.view_registers} w"
    yield f"  {program.label}: {len(program.units)} units, {registers}"
    for column in range(program.columns):
        cells = [_cell(image, program.cell(row, column)) for row in range(len(program.units))]
        shown = cells[0] if len(set(cells)) == 1 else ", ".join(cells)
        yield f"    [{column}] {shown}"
    for line in _code(program.code):
        yield f"  {line}"


def _code(code: Sequence[Instruction]) -> Iterator[str]:
    depth = 0
    for position, instruction in enumerate(code):
        depth -= instruction.mnemonic == "end"
        yield f"  {position:4} {'  ' * depth}{instruction_text(instruction, position)}"
        depth += instruction.mnemonic == "for"


def _descriptors(image: Image) -> Iterator[str]:
    for number, view in enumerate(image.views):
        terms = _sum([(c, f"i{position}") for position, c in enumerate(view.coefficients)], view.constant)
        shape = "x".join(str(extent) for extent in view.shape)
        start = "words" if view.symbolic else "units"
        unit = f"start in {start} of {view.start_unit} bytes"
        yield f"view{number} {shape or 'scalar'} {view.element.mlir}: {terms}, {unit}"
    for number, generator in enumerate(image.generators):
        yield f"agen{number} {_generator(generator)}"
    for number, constant in enumerate(image.constants):
        patterns = constant.patterns()
        shown = [hex(p) for p in (patterns[:1] if len(set(patterns)) == 1 else patterns)]
        yield f"const{number} {constant.lanes} x {constant.element.mlir}: {', '.join(shown)}"
    for number, shuffle in enumerate(image.shuffles):
        variables = "".join(f", s{register}" for register in shuffle.variables)
        mask = "" if shuffle.mask is None else f", mask v{shuffle.mask}"
        picks = list(shuffle.indices)
        yield f"shuffle{number} {shuffle.element.mlir} {picks} x {shuffle.repetition}{variables}{mask}"
    for number, opaque in enumerate(image.opaques):
        operands = [
            f"{o.name} at {o.offset_bytes}: {o.lanes} x {o.element.mlir}"
            for o in (*opaque.inputs, *opaque.outputs)
        ]
        parameters = "".join(f", {name} = {value}" for name, value in opaque.parameters)
        memory = image.memories[opaque.memory]
        assert memory.memory_class is MemoryClass.REGISTER
        yield f"opaque{number} {opaque.function} in {memory.name}: {'; '.join(operands)}{parameters}"


def _generator(generator: AddressGenerator) -> str:
    sides = " -> ".join(_side(side) for side in generator.sides)
    times = f", times {list(generator.time_extents)}" if generator.time_extents else ""
    return f"{generator.kind.name.lower()} {sides}{times}"


def _side(side: Side) -> str:
    subscripts = []
    for position, base in enumerate(side.base):
        terms = [(c, f"s{r}") for c, r in zip(side.coefficients[position], side.registers, strict=True)]
        terms += [(c, f"t{time}") for time, c in enumerate(side.time_coefficients[position])]
        subscripts.append(_sum(terms, base))
    match side.lanes:
        case BoxLanes(extents, order) if order == tuple(range(len(order))):
            lanes = "x".join(str(extent) for extent in extents)
        case BoxLanes(extents, order):
            lanes = "x".join(str(extent) for extent in extents) + f" in order {list(order)}"
        case explicit:
            lanes = f"{explicit.lanes} points"
    return f"[{', '.join(subscripts)}] box {lanes} {side.element.mlir}"


def _sum(terms: Sequence[tuple[int, str]], constant: int) -> str:
    parts = [name if factor == 1 else f"{factor}*{name}" for factor, name in terms if factor]
    if constant or not parts:
        parts.append(str(constant))
    return " + ".join(parts)
