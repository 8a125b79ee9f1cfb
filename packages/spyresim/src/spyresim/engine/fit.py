"""Whether an image fits the device that shall run it.

A valid image can still name hardware that the device does not have, or describe accesses of a size that no
memory could serve; both are refused before anything is allocated for them.
"""

from __future__ import annotations

import math

from dfsched import image as im
from dfsched.architecture import Architecture
from spyresim.errors import Site, UnsupportedError

MAX_ACCESS_ELEMENTS = 1 << 21
"""Elements that one access (all time steps of a copy) may have."""

MAX_LANES = 1 << 16
"""Lanes of a vector."""

MAX_TIME_DIMENSIONS = 32

MAX_REGISTERS = 65536

MAX_REGISTER_BYTES = 1 << 20
"""Greatest register memory, if the description states no size."""


def check_fit(image: im.Image, architecture: Architecture) -> None:
    """Raise `UnsupportedError` for the first thing that the device cannot have."""
    for unit in image.units:
        _require(architecture.is_unit(unit.kind), unit.name, f"there is no unit of kind '{unit.kind}'")
        _require(-1 <= unit.core < architecture.cores, unit.name, f"there is no core {unit.core}")
    for memory in image.memories:
        _memory(memory, architecture)
    for pinned in image.pinned:
        where = f"pinned range {pinned.low} to {pinned.high}"
        _require(architecture.is_memory(pinned.kind), where, f"there is no memory of kind '{pinned.kind}'")
    registers = image.coordinator.scalar_registers
    _require(registers <= MAX_REGISTERS, "coordinator", f"{registers} registers, more than {MAX_REGISTERS}")
    for number, generator in enumerate(image.generators):
        dimensions = len(generator.time_extents)
        where = f"address generator {number}"
        _require(dimensions <= MAX_TIME_DIMENSIONS, where, f"{dimensions} time dimensions")
        lanes = max((side.lanes.lanes for side in generator.sides), default=0)
        elements = lanes * math.prod(generator.time_extents)
        _require(
            elements <= MAX_ACCESS_ELEMENTS,
            where,
            f"{elements} elements in one access, more than {MAX_ACCESS_ELEMENTS}",
        )
        if generator.kind is not im.GeneratorKind.DMA:
            _lanes(elements, where)

    for number, shuffle in enumerate(image.shuffles):
        _lanes(len(shuffle.indices) * shuffle.repetition, f"shuffle {number}")
    for number, opaque in enumerate(image.opaques):
        for operand in (*opaque.inputs, *opaque.outputs):
            _lanes(operand.lanes, f"operand '{operand.name}' of opaque operation {number}")
    for program in image.programs:
        for unit_program in program.unit_programs:
            for instruction in unit_program.code:
                if isinstance(instruction, im.VectorCast | im.Receive):
                    _lanes(instruction.lanes, f"{instruction.mnemonic} in {unit_program.label}")


def _lanes(lanes: int, where: str) -> None:
    _require(lanes <= MAX_LANES, where, f"a vector of {lanes} lanes, more than {MAX_LANES}")


def _memory(memory: im.Memory, architecture: Architecture) -> None:
    where = memory.name
    _require(architecture.is_memory(memory.kind), where, f"there is no memory of kind '{memory.kind}'")
    is_global = memory.memory_class is im.MemoryClass.GLOBAL
    _require(
        is_global == architecture.is_global(memory.kind),
        where,
        f"a {memory.memory_class.name.lower()} memory of kind '{memory.kind}'",
    )
    size = architecture.memory(memory.kind).size
    match memory.memory_class:
        case im.MemoryClass.SCRATCHPAD:
            _require(0 <= memory.core < architecture.cores, where, f"there is no core {memory.core}")
        case im.MemoryClass.REGISTER:
            limit = size or MAX_REGISTER_BYTES
            needed = max(memory.size_bytes, memory.used_bytes)
            _require(needed <= limit, where, f"{needed} bytes of registers, more than {limit}")
        case _:
            pass


def _require(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise UnsupportedError(message, Site(unit=where))
