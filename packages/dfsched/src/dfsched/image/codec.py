"""`encode` and `decode`: the image model and its bytes (DFBIN version 1; dataflowir spec 6.2).

Layout: a header of 128 bytes, a section table (32 bytes an entry), sections at multiples of 128 bytes, all
little-endian, gaps zero.  The sections, in this order: ``STRT`` strings, ``MMAP`` memories, ``UNIT``,
``FIFO``, ``PGMT`` programs, ``PARM`` their parameters, ``PROG`` unit programs, ``ROST`` their units,
``CODE``, ``KERN`` the coordinator's code, ``UTAB`` cells, ``VIEW``, ``AGEN``, ``CNST``, ``SHUF``, ``OPAQ``,
``SYMT``, ``RELO``, ``DBUG``, ``PINS`` pinned ranges of scratchpads.  Sections of other tags follow; they are
kept when their flag bit 0 is clear, refused when it is set.

The mapping is one to one: `decode` accepts exactly the bytes that `encode` makes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from dfsched.image.elements import ElementType
from dfsched.image.errors import InvalidImage
from dfsched.image.instructions import Instruction, decode_instruction, encode_instruction
from dfsched.image.model import (
    AddressGenerator,
    BoxLanes,
    Constant,
    Coordinator,
    DebugEntry,
    ExplicitLanes,
    ExtraSection,
    Fifo,
    GeneratorKind,
    Image,
    Memory,
    MemoryClass,
    Opaque,
    OpaqueOperand,
    PinnedRange,
    Program,
    Relocation,
    ShuffleDescriptor,
    Side,
    Symbol,
    Unit,
    UnitProgram,
    View,
)
from dfsched.image.stream import ALIGNMENT, Out, Source, Strings, align
from dfsched.image.validate import problems

__all__ = ["MAGIC", "VERSION", "decode", "encode"]

MAGIC = b"DFBIN\x00\x01\n"
VERSION = 1
SECTIONS = (
    "STRT", "MMAP", "UNIT", "FIFO", "PGMT", "PARM", "PROG", "ROST", "CODE", "KERN", "UTAB", "VIEW", "AGEN",
    "CNST", "SHUF", "OPAQ", "SYMT", "RELO", "DBUG", "PINS",
)  # fmt: skip
_HEADER = struct.Struct("<8sIIQII32sIII52x")
_ENTRY = struct.Struct("<4sIQQII")
_HAS_SYMBOLS, _HAS_DEBUG, _DLFLOAT = 1, 2, 4
_NONE = 0xFFFFFFFF
assert _HEADER.size == 128
assert _ENTRY.size == 32

T = TypeVar("T")


# -- encoding --------------------------------------------------------------------------------------


def encode(image: Image) -> bytes:
    """The bytes of an image (a multiple of 128); `InvalidImage` if it breaks a rule."""
    for problem in problems(image):
        raise InvalidImage(problem)
    strings = Strings()
    kernel, architecture = strings.offset(image.kernel), strings.offset(image.architecture)
    sections = {tag: Out(strings) for tag in SECTIONS[1:]}
    _put_hardware(image, sections)
    _put_programs(image, sections)
    _put_descriptors(image, sections)
    for symbol in image.symbols:
        out = sections["SYMT"]
        out.put("qII", symbol.id, symbol.unit, _NONE if symbol.argument is None else symbol.argument)
        out.text(symbol.name)
        out.pad()
        out.count += 1
    for relocation in image.relocations:
        sections["RELO"].put("II", relocation.cell, relocation.slot)
        sections["RELO"].count += 1
    for entry in image.debug:
        sections["DBUG"].put("II", entry.unit_program, entry.index)
        sections["DBUG"].text(entry.file)
        sections["DBUG"].put("I", entry.line)
        sections["DBUG"].count += 1
    for pinned in image.pinned:
        sections["PINS"].text(pinned.kind)
        sections["PINS"].put("QQ", pinned.low, pinned.high)
        sections["PINS"].count += 1
    parts = [("STRT", bytes(strings.data), 0)]
    parts += [(tag, bytes(out.data), out.count) for tag, out in sections.items()]
    parts += [(extra.tag, extra.data, 0) for extra in image.extra]
    offset = align(_HEADER.size + _ENTRY.size * len(parts))
    table, body = bytearray(), bytearray()
    for tag, data, count in parts:
        table += _ENTRY.pack(tag.encode("ascii"), 0, offset + len(body), len(data), count, 0)
        body += data.ljust(align(len(data)), b"\0")
    flags = (
        (_HAS_SYMBOLS if image.symbols else 0)
        | (_HAS_DEBUG if image.debug else 0)
        | (_DLFLOAT if image.f16_format == "dlfloat" else 0)
    )
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        len(parts),
        offset + len(body),
        flags,
        len(image.symbols),
        bytes.fromhex(image.architecture_digest),
        kernel,
        image.grid,
        architecture,
    )
    return (header + table).ljust(offset, b"\0") + bytes(body)


def _put_hardware(image: Image, sections: dict[str, Out]) -> None:
    for memory in image.memories:
        out = sections["MMAP"]
        out.put("BBHiiI", memory.memory_class, 0, 0, memory.core, memory.corelet, 0)
        out.put("QQ", memory.size_bytes, memory.used_bytes)
        out.text(memory.name)
        out.text(memory.kind)
        out.count += 1
    for unit in image.units:
        out = sections["UNIT"]
        out.put("ii", unit.core, unit.corelet)
        out.text(unit.name)
        out.text(unit.kind)
        out.count += 1
    for fifo in image.fifos:
        sections["FIFO"].put("HHIQ", fifo.source, fifo.target, fifo.depth, fifo.size_bytes)
        sections["FIFO"].count += 1


def _put_code(out: Out, code: tuple[Instruction, ...], where: str) -> None:
    for index, instruction in enumerate(code):
        try:
            out.data += encode_instruction(instruction)
        except OverflowError as error:
            raise InvalidImage(f"{where}: instruction {index}: {instruction.mnemonic}: {error}") from None
        out.count += 1


def _put_programs(image: Image, sections: dict[str, Out]) -> None:
    for program in image.programs:
        out = sections["PGMT"]
        out.text(program.name)
        out.put("III", len(program.unit_programs), len(program.parameters), 0)
        out.count += 1
        for name in program.parameters:
            sections["PARM"].text(name)
            sections["PARM"].count += 1
        for unit in program.unit_programs:
            out = sections["PROG"]
            out.text(unit.label)
            out.text(unit.precision)
            out.put("IIII", len(unit.units), len(unit.code), unit.first_cell, unit.columns)
            out.put("IIII", unit.scalar_registers, unit.vector_registers, unit.view_registers, 0)
            out.count += 1
            sections["ROST"].put(f"{len(unit.units)}H", *unit.units)
            sections["ROST"].count += len(unit.units)
            _put_code(sections["CODE"], unit.code, unit.label)
    kernel = sections["KERN"]
    main = image.coordinator
    kernel.put("IIII", len(main.code), main.first_cell, main.columns, main.scalar_registers)
    _put_code(kernel, main.code, "coordinator")
    sections["UTAB"].put(f"{len(image.cells)}q", *image.cells)
    sections["UTAB"].count = len(image.cells)


def _put_descriptors(image: Image, sections: dict[str, Out]) -> None:
    for view in image.views:
        out = sections["VIEW"]
        out.put("IHHIIq", view.element, len(view.shape), view.symbolic, view.start_unit, 0, view.constant)
        out.put(f"{len(view.shape)}q", *view.shape)
        out.put(f"{len(view.coefficients)}q", *view.coefficients)
        out.count += 1
    for generator in image.generators:
        out = sections["AGEN"]
        out.put("HHHH", generator.kind, len(generator.sides), len(generator.time_extents), 0)
        for side in generator.sides:
            _put_side(out, side)
        out.put(f"{len(generator.time_extents)}q", *generator.time_extents)
        out.count += 1
    for constant in image.constants:
        out = sections["CNST"]
        out.put("II", constant.element, constant.lanes)
        out.data += constant.data
        out.pad()
        out.count += 1
    for shuffle in image.shuffles:
        out = sections["SHUF"]
        mask = _NONE if shuffle.mask is None else shuffle.mask
        out.put(
            "IIIII", shuffle.element, len(shuffle.indices), shuffle.repetition, len(shuffle.variables), mask
        )
        out.put(f"{len(shuffle.indices)}i", *shuffle.indices)
        out.put(f"{len(shuffle.variables)}H", *shuffle.variables)
        out.pad()
        out.count += 1
    for opaque in image.opaques:
        out = sections["OPAQ"]
        out.text(opaque.function)
        out.put("I", opaque.memory)
        out.put("III", len(opaque.inputs), len(opaque.outputs), len(opaque.parameters))
        for operand in (*opaque.inputs, *opaque.outputs):
            out.text(operand.name)
            out.put("III", operand.offset_bytes, operand.element, operand.lanes)
        for name, value in opaque.parameters:
            out.text(name)
            out.text(value)
        out.pad()
        out.count += 1


def _put_side(out: Out, side: Side) -> None:
    box = isinstance(side.lanes, BoxLanes)
    out.put("HHHHII", side.rank, len(side.registers), not box, 0, side.element, side.lanes.lanes)
    out.put(f"{len(side.registers)}H", *side.registers)
    out.pad()
    out.put(f"{side.rank}q", *side.base)
    for row in (*side.coefficients, *side.time_coefficients):
        out.put(f"{len(row)}q", *row)
    match side.lanes:
        case BoxLanes(extents, order):
            out.put(f"{side.rank}q", *extents)
            out.put(f"{side.rank}H", *order)
            out.pad()
        case ExplicitLanes(offsets):
            for point in offsets:
                out.put(f"{side.rank}q", *point)


# -- decoding --------------------------------------------------------------------------------------


def decode(data: bytes | bytearray | memoryview) -> Image:
    """The image in `data`, from the bytes alone.

    `InvalidImage` for anything that `encode` would not have written: truncation, bad tags, ranges,
    registers, branches, nesting, relocations, and bytes in other than canonical form.
    """
    data = bytes(data)
    if len(data) < _HEADER.size:
        raise InvalidImage(f"{len(data)} bytes are too few for a header")
    magic, version, count, size, flags, _, digest, kernel, grid, architecture = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise InvalidImage("bad magic")
    if version != VERSION:
        raise InvalidImage(f"version {version} is not supported")
    if size != len(data):
        raise InvalidImage(f"header says {size} bytes, but there are {len(data)}")
    raw, counts, extra = _sections(data, count)
    strings = raw["STRT"]
    sources = {tag: Source(raw[tag], tag, strings) for tag in SECTIONS}
    names = Source(struct.pack("<II", kernel, architecture), "header", strings)

    def read(tag: str, record: Callable[[Source], T]) -> tuple[T, ...]:
        return tuple(record(sources[tag]) for _ in range(_plausible(counts[tag], raw[tag], tag)))

    try:
        image = Image(
            names.text(),
            names.text(),
            digest.hex(),
            grid,
            read("MMAP", _memory),
            read("UNIT", _unit),
            read("FIFO", _fifo),
            _programs(sources, _plausible(counts["PGMT"], raw["PGMT"], "PGMT")),
            _coordinator(sources["KERN"]),
            sources["UTAB"].many("q", len(raw["UTAB"]) // 8),
            read("VIEW", _view),
            read("AGEN", _generator),
            read("CNST", _constant),
            read("SHUF", _shuffle),
            read("OPAQ", _opaque),
            read("SYMT", _symbol),
            read("RELO", lambda source: Relocation(*source.take("II"))),
            "dlfloat" if flags & _DLFLOAT else "ieee",
            read("DBUG", _debug),
            read("PINS", lambda source: PinnedRange(source.text(), *source.take("QQ"))),
            extra,
        )
    except ValueError as error:
        raise InvalidImage(str(error)) from None
    if encode(image) != data:
        raise InvalidImage("bytes are not in canonical form")
    return image


def _sections(data: bytes, count: int) -> tuple[dict[str, bytes], dict[str, int], tuple[ExtraSection, ...]]:
    if _HEADER.size + count * _ENTRY.size > len(data):
        raise InvalidImage(f"{count} sections do not fit in the file")
    raw: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    extra: list[ExtraSection] = []
    for index in range(count):
        tag_bytes, flags, offset, size, entries, _ = _ENTRY.unpack_from(
            data, _HEADER.size + index * _ENTRY.size
        )
        try:
            tag = tag_bytes.decode("ascii")
        except UnicodeDecodeError:
            raise InvalidImage(f"section {index} has a bad tag") from None
        if offset % ALIGNMENT or offset + size > len(data):
            raise InvalidImage(f"section {tag} does not lie in the file")
        content = data[offset : offset + size]
        if index < len(SECTIONS):
            if tag != SECTIONS[index]:
                raise InvalidImage(f"section {index} is {tag}, not {SECTIONS[index]}")
            raw[tag], counts[tag] = content, entries
        elif flags & 1:
            raise InvalidImage(f"section {tag} must be understood, but is not")
        else:
            extra.append(ExtraSection(tag, content))
    if count < len(SECTIONS):
        raise InvalidImage(f"section {SECTIONS[count]} is missing")
    return raw, counts, tuple(extra)


def _plausible(count: int, data: bytes, tag: str) -> int:
    if count > len(data):
        raise InvalidImage(f"section {tag} cannot hold {count} records")
    return count


def _memory(source: Source) -> Memory:
    kind, _, _, core, corelet, _ = source.take("BBHiiI")
    size, used = source.take("QQ")
    return Memory(source.text(), source.text(), MemoryClass(kind), core, corelet, size, used)


def _unit(source: Source) -> Unit:
    core, corelet = source.take("ii")
    return Unit(source.text(), source.text(), core, corelet)


def _fifo(source: Source) -> Fifo:
    return Fifo(*source.take("HHIQ"))


def _code(source: Source, count: int, where: str) -> tuple[Instruction, ...]:
    code = []
    for index in range(count):
        try:
            code.append(decode_instruction(source.raw(16)))
        except ValueError as error:
            raise InvalidImage(f"{where}: instruction {index}: {error}") from None
    return tuple(code)


def _programs(sources: dict[str, Source], count: int) -> tuple[Program, ...]:
    table, roster = sources["PROG"], sources["ROST"]
    programs = []
    for _ in range(count):
        name = sources["PGMT"].text()
        unit_count, parameter_count, _ = sources["PGMT"].take("III")
        units: list[UnitProgram] = []
        for _ in range(unit_count):
            label, precision = table.text(), table.text()
            rows, length, first, columns = table.take("IIII")
            scalars, vectors, views, _ = table.take("IIII")
            members = roster.many("H", rows)
            code = _code(sources["CODE"], length, label)
            units.append(
                UnitProgram(label, members, code, first, columns, scalars, vectors, views, precision)
            )
        parameters = tuple(sources["PARM"].text() for _ in range(parameter_count))
        programs.append(Program(name, tuple(units), parameters))
    return tuple(programs)


def _coordinator(source: Source) -> Coordinator:
    length, first, columns, registers = source.take("IIII")
    return Coordinator(_code(source, length, "coordinator"), first, columns, registers)


def _view(source: Source) -> View:
    element, rank, symbolic, unit, _, constant = source.take("IHHIIq")
    shape, coefficients = source.many("q", rank), source.many("q", rank)
    return View(ElementType(element), shape, coefficients, constant, unit, bool(symbolic))


def _generator(source: Source) -> AddressGenerator:
    kind, sides, times, _ = source.take("HHHH")
    read = tuple(_side(source, times) for _ in range(sides))
    return AddressGenerator(GeneratorKind(kind), read, source.many("q", times))


def _side(source: Source, times: int) -> Side:
    rank, registers, explicit, _, element, lanes = source.take("HHHHII")
    numbers = source.many("H", registers)
    source.pad()
    base = source.many("q", rank)
    coefficients = tuple(source.many("q", registers) for _ in range(rank))
    time_coefficients = tuple(source.many("q", times) for _ in range(rank))
    points: BoxLanes | ExplicitLanes
    if explicit:
        if rank == 0 and lanes > 1:
            raise InvalidImage("a side of rank 0 has several lanes")
        points = ExplicitLanes(tuple(source.many("q", rank) for _ in range(lanes)))
    else:
        points = BoxLanes(source.many("q", rank), source.many("H", rank))
        source.pad()
    return Side(ElementType(element), numbers, base, coefficients, time_coefficients, points)


def _constant(source: Source) -> Constant:
    element, lanes = source.take("II")
    kind = ElementType(element)
    data = source.raw(lanes * ((kind.bits + 7) // 8))
    source.pad()
    return Constant(kind, lanes, data)


def _shuffle(source: Source) -> ShuffleDescriptor:
    element, count, repetition, variables, mask = source.take("IIIII")
    indices = source.many("i", count)
    registers = source.many("H", variables)
    source.pad()
    return ShuffleDescriptor(
        ElementType(element), indices, repetition, registers, None if mask == _NONE else mask
    )


def _opaque(source: Source) -> Opaque:
    function = source.text()
    memory, inputs, outputs, parameters = source.take("IIII")

    def operand(_: int) -> OpaqueOperand:
        name = source.text()
        offset, element, lanes = source.take("III")
        return OpaqueOperand(name, offset, ElementType(element), lanes)

    result = Opaque(
        function,
        memory,
        tuple(map(operand, range(inputs))),
        tuple(map(operand, range(outputs))),
        tuple((source.text(), source.text()) for _ in range(parameters)),
    )
    source.pad()
    return result


def _symbol(source: Source) -> Symbol:
    number, unit, argument = source.take("qII")
    name = source.text()
    source.pad()
    return Symbol(number, unit, None if argument == _NONE else argument, name)


def _debug(source: Source) -> DebugEntry:
    unit_program, index = source.take("II")
    file = source.text()
    return DebugEntry(unit_program, index, file, source.one("I"))
