"""From DataflowIR modules to an image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs
from attrs import define, field, frozen

from dfsched.architecture import Architecture
from dfsched.codegen.coordinator import CoordinatorEmitter, window
from dfsched.codegen.errors import CodegenError, unsupported
from dfsched.codegen.facts import GLOBAL, KernelFacts, ProgramFacts, collect_facts
from dfsched.codegen.registers import Allocated, VirtualCode
from dfsched.codegen.scalars import uses_of
from dfsched.codegen.symbols import SymbolDefinition, define_symbols
from dfsched.codegen.tables import Cell, Hardware, Pools, SymbolCell, Table
from dfsched.codegen.units import UnitEmitter
from dfsched.dialects.dataflow import GetLogicalMemoryView, GetUnit, ProgramUnit, Return
from dfsched.dialects.symbol import CreateId
from dfsched.image import (
    Coordinator,
    Dma,
    Image,
    Instruction,
    PinnedRange,
    Program,
    Relocation,
    Shuffle,
    Symbol,
    UnitProgram,
    VectorLoad,
    VectorStore,
)
from dfsched.pinned import pinned_of
from ktir.affine import AffineError
from ktir.analysis import DefUse
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.errors import TypeQueryError
from ktir.grid import GridError, grid_of
from ktir.ir import Operation
from ktir.machine import F16Format
from ktir.opdef import PURE
from spyrert.spyrecode import HcmSymbol, LaunchSpec

__all__ = ["BuiltImage", "build_image", "labels"]


@frozen
class BuiltImage:
    """An image and the symbols that the host computes for it, in slot order."""

    image: Image
    symbols: tuple[HcmSymbol, ...]


def build_image(modules: Mapping[str, Module], launch: LaunchSpec, architecture: Architecture) -> BuiltImage:
    """Encode one kernel.

    `modules` by file name: ``global.mlir`` and one a program, as `dfsched.split.split` makes them.  The
    launch spec tells which kernel arguments are addresses and which are scalars.  Raises `CodegenError`.
    """
    facts = collect_facts(modules)
    definitions = define_symbols(facts, launch)
    builder = _Builder(architecture, definitions, Pools(F16Format(launch.f16_format)))
    try:
        programs = tuple(builder.program(program) for program in facts.programs)
        coordinator = builder.coordinator(facts)
    except (AffineError, TypeQueryError) as error:
        raise CodegenError.at(facts.kernel.location, str(error)) from error
    cells, symbols, relocations = builder.resolve()
    image = Image(
        facts.kernel.symbol,
        architecture.name,
        architecture.digest,
        tiles_of(facts.kernel),
        builder.hardware.memories,
        builder.hardware.units,
        builder.hardware.fifos,
        programs,
        coordinator,
        cells,
        builder.pools.views.items,
        builder.pools.generators.items,
        builder.pools.constants.items,
        builder.pools.shuffles.items,
        builder.pools.opaques.items,
        tuple(Symbol(s.id, s.unit, s.argument, s.name) for s in symbols),
        relocations,
        launch.f16_format,
        pinned=_pinned(modules[GLOBAL]),
    )
    return BuiltImage(image, tuple(symbol.hcm for symbol in symbols))


def _pinned(module: Module) -> tuple[PinnedRange, ...]:
    """The ranges that ``global.mlir`` pins."""
    try:
        found = pinned_of(module)
    except ValueError as error:
        raise CodegenError.at(module.location, str(error)) from None
    return tuple(PinnedRange(kind, low, high) for kind, ranges in found.items() for low, high in ranges)


def tiles_of(kernel: Func) -> int:
    """Number of compute tiles of a kernel; 1 without a grid."""
    try:
        return math.prod(grid_of(kernel) or ())
    except GridError as error:
        raise CodegenError.at(kernel.location, error.message) from None


def labels(program: str, kinds: Sequence[str]) -> list[str]:
    """Labels of a program's units in order: ``program/kind``, then ``program/kind#2`` and so on."""
    seen: dict[str, int] = {}
    found = []
    for kind in kinds:
        seen[kind] = seen.get(kind, 0) + 1
        found.append(f"{program}/{kind}" + (f"#{seen[kind]}" if seen[kind] > 1 else ""))
    return found


@define
class _Builder:
    """Collects what the programs of one kernel share."""

    architecture: Architecture
    definitions: dict[int, SymbolDefinition]
    pools: Pools
    hardware: Hardware = field(init=False)
    cells: list[Cell] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.hardware = Hardware(self.architecture)

    def program(self, facts: ProgramFacts) -> Program:
        units = [op for op in facts.body.body.block.operations if isinstance(op, ProgramUnit)]
        handles = [_handles(unit, facts.body_uses) for unit in units]
        programmed: set[str] = set()
        for unit, members in zip(units, handles, strict=True):
            for member in members:
                name = member.unit_name.value
                if name in programmed:
                    raise CodegenError.at(unit.location, f"unit {name} is programmed twice")
                programmed.add(name)
        names = labels(facts.name, [members[0].kind.value for members in handles])
        unit_programs = tuple(
            self.unit_program(facts, unit, members, label)
            for unit, members, label in zip(units, handles, names, strict=True)
        )
        return Program(
            facts.name,
            unit_programs,
            tuple(facts.body.arguments[i].name or f"arg{i}" for i in facts.parameters),
        )

    def unit_program(
        self, facts: ProgramFacts, unit: ProgramUnit, handles: tuple[GetUnit, ...], label: str
    ) -> UnitProgram:
        for handle in handles:  # number the units in order of appearance
            self.hardware.unit(handle)
        emitter = UnitEmitter(
            facts.body_uses,
            label,
            Table(len(handles)),
            VirtualCode(len(facts.parameters)),
            hardware=self.hardware,
            pools=self.pools,
            units=handles,
            iter_arg=unit.iter_arg,
            symbol_units={number: symbol.unit for number, symbol in self.definitions.items()},
        )
        for register, position in enumerate(facts.parameters):
            emitter.scalars[facts.body.arguments[position]] = register
        for op in _needed(facts.body, unit):
            emitter.operation(op)
        if not isinstance(unit.body.block.terminator, Return):
            raise unsupported(unit, label, "its body does not end in dataflow.return")
        emitter.block(unit.body.block)
        emitter.finish()
        allocated = emitter.out.allocate()
        first = self._place(emitter.table)
        precision = "" if unit.precision is None else unit.precision.value
        return UnitProgram(
            label,
            tuple(self.hardware.unit(handle) for handle in handles),
            tuple(self._global(instruction, allocated) for instruction in allocated.code),
            first,
            len(emitter.table.columns.items),
            max(allocated.counts["s"], len(facts.parameters)),
            allocated.counts["v"],
            allocated.counts["w"],
            precision,
        )

    def _global(self, instruction: Instruction, allocated: Allocated) -> Instruction:
        """Replace local numbers of generators and shuffles by those of the pools."""
        match instruction:
            case VectorLoad(generator=local) | VectorStore(generator=local) | Dma(generator=local):
                number = self.pools.generators.intern(allocated.generators[local])
                return attrs.evolve(instruction, generator=number)
            case Shuffle(descriptor=local):
                number = self.pools.shuffles.intern(allocated.shuffles[local])
                return attrs.evolve(instruction, descriptor=number)
            case _:
                return instruction

    def coordinator(self, facts: KernelFacts) -> Coordinator:
        inputs = {op.value: op.id for op in facts.kernel.body.block.operations if isinstance(op, CreateId)}
        emitter = CoordinatorEmitter(
            facts.uses,
            "coordinator",
            Table(1),
            VirtualCode(window(facts.programs)),
            facts=facts,
            inputs=inputs,
        )
        emitter.block(facts.kernel.body.block)
        emitter.finish()
        allocated = emitter.out.allocate()
        first = self._place(emitter.table)
        registers = max(allocated.counts["s"], window(facts.programs))
        return Coordinator(allocated.code, first, len(emitter.table.columns.items), registers)

    def _place(self, table: Table) -> int:
        first = len(self.cells)
        self.cells += table.cells()
        return first

    def resolve(self) -> tuple[tuple[int, ...], list[SymbolDefinition], tuple[Relocation, ...]]:
        """Cells as numbers, the symbols that they need by decreasing id, and the relocations."""
        used = sorted({cell.id for cell in self.cells if isinstance(cell, SymbolCell)}, reverse=True)
        for number in used:
            if number not in self.definitions:
                raise CodegenError.about(f"symbol {number} is not defined by any symbol.create_id")
        slots = {number: slot for slot, number in enumerate(used)}
        cells = tuple(cell.id if isinstance(cell, SymbolCell) else cell for cell in self.cells)
        relocations = tuple(
            Relocation(index, slots[cell.id])
            for index, cell in enumerate(self.cells)
            if isinstance(cell, SymbolCell)
        )
        return cells, [self.definitions[number] for number in used], relocations


def _handles(unit: ProgramUnit, uses: DefUse) -> tuple[GetUnit, ...]:
    found = []
    for value in unit.units:
        handle = uses.definer(value)
        if not isinstance(handle, GetUnit):
            raise CodegenError.at(unit.location, "program_unit operand must be defined by dataflow.get_unit")
        found.append(handle)
    if not found:
        raise CodegenError.at(unit.location, "a program_unit names no unit")
    return tuple(found)


def _needed(function: Func, unit: ProgramUnit) -> list[Operation]:
    """Operations of the function, outside of all program units, that one program unit depends on."""
    needed = uses_of([unit])
    found: list[Operation] = []
    for op in reversed(function.body.block.operations):
        wanted = any(result in needed for result in op.results)
        if wanted and (op.definition_has(PURE) or isinstance(op, GetLogicalMemoryView)):
            found.append(op)
            needed |= uses_of([op])
    return found[::-1]
