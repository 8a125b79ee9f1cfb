"""Gangs and cohorts of a program, as they stand at its start."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dfsched import image as im
from spyresim.engine.activity import Activity
from spyresim.engine.races import Races
from spyresim.engine.state import Cohort, Gang, Mark, Queue
from spyresim.errors import ControlFault, Site

COPY_QUEUE_DEPTH = 4
"""Copies that a unit may have outstanding (dataflowir spec 5.3)."""


class Builder:
    """Makes the gangs and cohorts of a program."""

    def __init__(
        self, image: im.Image, program: im.Program, cells: npt.NDArray[np.int64], start: int, races: bool
    ) -> None:
        self.image = image
        self.program = program
        self.cells = cells
        self.start = start
        self.races = races
        self.place: dict[int, tuple[int, int, int]] = {}
        """unit id -> (unit program, core, position among the units of that core)"""
        for number, unit_program in enumerate(program.unit_programs):
            met: dict[int, int] = {}
            for unit in unit_program.units:
                core = image.units[unit].core
                if unit in self.place:
                    raise ControlFault(
                        f"unit {image.units[unit].name} is programmed twice", site=Site(unit=program.name)
                    )
                self.place[unit] = (number, core, met.get(core, 0))
                met[core] = met.get(core, 0) + 1

    def cohorts(self) -> list[Cohort]:
        """Cores with the same units run together, unless a unit talks to another core."""
        if not self.program.unit_programs:
            return []
        groups = self._grouped() if self._within_cores() else None
        return [self._scalar()] if groups is None else [self._batched(cores) for cores in groups]

    def _unit_columns(self, unit_program: im.UnitProgram) -> set[int]:
        return {
            number
            for instruction in unit_program.code
            for _, role, number in im.operands(instruction)
            if role is im.Role.UNIT_COLUMN
        }

    def _memories(self, unit_program: im.UnitProgram) -> Iterator[tuple[int, im.Memory]]:
        """The core of a unit, and a memory that it has a view of, for all of both."""
        for instruction in unit_program.code:
            if isinstance(instruction, im.MakeView):
                for row, unit in enumerate(unit_program.units):
                    index = instruction.memory.index
                    if isinstance(instruction.memory, im.Column):
                        index = int(self.cells[unit_program.cell(row, index)])
                    if 0 <= index < len(self.image.memories):
                        yield self.image.units[unit].core, self.image.memories[index]

    def _within_cores(self) -> bool:
        for unit_program in self.program.unit_programs:
            for core, memory in self._memories(unit_program):
                if memory.memory_class is im.MemoryClass.SCRATCHPAD and memory.core != core:
                    return False
            for column in self._unit_columns(unit_program):
                targets: dict[int, set[tuple[int, int]]] = {}
                for row, unit in enumerate(unit_program.units):
                    _, core, position = self.place[unit]
                    target = int(self.cells[unit_program.cell(row, column)])
                    if target not in self.place:
                        return False
                    number, other_core, other_position = self.place[target]
                    if other_core != core:
                        return False
                    targets.setdefault(position, set()).add((number, other_position))
                if any(len(found) > 1 for found in targets.values()):
                    return False
        return True

    def _grouped(self) -> list[list[int]]:
        counts: dict[int, list[int]] = {}
        for number, core, _ in self.place.values():
            counts.setdefault(core, [0] * len(self.program.unit_programs))[number] += 1
        groups: dict[tuple[int, ...], list[int]] = {}
        for core in sorted(counts):
            groups.setdefault(tuple(counts[core]), []).append(core)
        return list(groups.values())

    def _batched(self, cores: list[int]) -> Cohort:
        gangs: list[Gang] = []
        for unit_program in self.program.unit_programs:
            rows_of: dict[int, list[int]] = {}
            wanted = set(cores)
            for row, unit in enumerate(unit_program.units):
                _, core, position = self.place[unit]
                if core in wanted:
                    rows_of.setdefault(position, []).append(row)
            for position in sorted(rows_of):
                by_core = {self.image.units[unit_program.units[row]].core: row for row in rows_of[position]}
                rows = [by_core[core] for core in sorted(by_core)]
                gangs.append(self._gang(len(gangs), unit_program, rows))
        return self._joined(gangs, tuple(sorted(cores)))

    def _scalar(self) -> Cohort:
        gangs: list[Gang] = []
        for unit_program in self.program.unit_programs:
            for row in range(len(unit_program.units)):
                gangs.append(self._gang(len(gangs), unit_program, [row]))
        return self._joined(gangs, None)

    def _gang(self, index: int, unit_program: im.UnitProgram, rows: list[int]) -> Gang:
        units = np.array([unit_program.units[row] for row in rows], np.int64)
        first = self.image.units[int(units[0])]
        count = len(rows)
        copies = any(isinstance(instruction, im.Dma) for instruction in unit_program.code)
        zero = np.full(count, self.start, np.int64)
        return Gang(
            index,
            unit_program,
            units,
            np.array(rows, np.int64),
            np.array([self.image.units[int(u)].core for u in units], np.int64),
            first.kind,
            first.corelet,
            [None] * unit_program.scalar_registers,
            [None] * unit_program.vector_registers,
            [None] * unit_program.view_registers,
            {},
            zero.copy(),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            copy_room=deque(Mark(zero.copy()) for _ in range(COPY_QUEUE_DEPTH)),
            copy_end=zero.copy(),
            moving=np.zeros(count, np.int64),
            activity=Activity(waited=np.zeros(count, np.int64)) if copies else None,
        )

    def _joined(self, gangs: list[Gang], cores: tuple[int, ...] | None) -> Cohort:
        actors = 2 * len(gangs)
        for gang in gangs:
            gang.clock = np.zeros(actors, np.int64)
            gang.copy_clock = np.zeros(actors, np.int64)
        cohort = Cohort(gangs, Races(cores) if self.races else None)
        home = {int(unit): gang.index for gang in gangs for unit in gang.units}
        for fifo in self.image.fifos:
            if fifo.source in home and fifo.target in home:
                key = (home[fifo.source], home[fifo.target])
                if key not in cohort.queues:
                    name = f"{self.image.units[fifo.source].name}->{self.image.units[fifo.target].name}"
                    cohort.queues[key] = Queue(name, fifo.depth, fifo.size_bytes, unused=fifo.depth)
        return cohort
