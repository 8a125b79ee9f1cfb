"""The machine: runs the coordinator of an image, and the processes of each program that it launches.

Scheduling is event driven: of all gangs that can go on, the one with the earliest time does (or, with a
seed, a random one: results must not depend on it).  A gang runs until it blocks or falls behind somebody.
Units meet in queues and signals only; copies of a unit run one after the other, beside it.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from dfsched import image as im
from dfsched.architecture import Architecture
from ktir.machine import F16Format
from spyresim.engine.access import Patterns
from spyresim.engine.costs import CostModel
from spyresim.engine.fit import check_fit
from spyresim.engine.instructions.copies import perform_copy
from spyresim.engine.memories import GlobalMemory, Scratchpads
from spyresim.engine.process import Context, Executor
from spyresim.engine.races import Races, check_device_memory
from spyresim.engine.report import Report, UnitReport, Work, bound, cycles_of
from spyresim.engine.scalars import binary, compare, select
from spyresim.engine.state import Blocked, Cohort, Diverged, Gang, Mark, Queue
from spyresim.engine.trace import Trace
from spyresim.engine.values import Scalar
from spyresim.errors import ControlFault, DeadlockFault, QueueFault, Site, UnsupportedError

COPY_QUEUE_DEPTH = 4
"""Copies that a unit may have outstanding (dataflowir spec 5.3)."""


@attrs.frozen
class Options:
    """How to run.

    `strict`: indices must lie in their view.  `seed`: pick ready gangs at random (timing is then void).
    `max_instructions` bounds the work.  `trace`: record events.  `races`: accesses that nothing orders
    are faults.
    """

    strict: bool = True
    seed: int | None = None
    max_instructions: int = 200_000_000
    trace: bool = False
    races: bool = True


DEFAULT_OPTIONS = Options()


@attrs.frozen(eq=False)
class Outcome:
    """What a run leaves besides memory: the report and, if asked for, the trace."""

    report: Report
    trace: Trace | None


class Machine:
    """One device (architecture, scratchpads) that runs images on a global memory.

    Scratchpads keep their contents from run to run; `epoch` numbers the programs that ran, so that reading
    what another program left behind is noticed.
    """

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.costs = CostModel(architecture)
        self.scratchpads: dict[tuple[str, int], Scratchpads] = {}
        self.epoch = 0

    def run(
        self,
        image: im.Image,
        cells: Sequence[int],
        memory: GlobalMemory,
        options: Options = DEFAULT_OPTIONS,
    ) -> Outcome:
        """Run a kernel whose relocated `cells` are filled in.

        Raises `spyresim.SpyresimError` subclasses for everything that goes wrong, and whatever `memory`
        raises for illegal accesses.
        """
        check_fit(image, self.architecture)
        return _Run(self, image, cells, memory, options).run()

    def scratchpad(self, image: im.Image, memory: im.Memory) -> Scratchpads:
        """The scratchpads of a kind and corelet, of the size that the device has, made at first use."""
        key = memory.kind, memory.corelet
        found = self.scratchpads.get(key)
        if found is None:
            size = self.architecture.memory(memory.kind).size or 0
            found = self.scratchpads[key] = Scratchpads(memory.kind, self.architecture.cores, size)
        return found


@attrs.define(eq=False)
class _Entry:
    """A schedulable thing: a gang, or the copies of a gang."""

    cohort: Cohort
    gang: Gang
    copies: bool

    @property
    def key(self) -> tuple[int, int, bool]:
        return (id(self.cohort), self.gang.index, self.copies)


class _Run:
    def __init__(
        self,
        machine: Machine,
        image: im.Image,
        cells: Sequence[int],
        memory: GlobalMemory,
        options: Options,
    ) -> None:
        self.machine = machine
        self.image = image
        self.cells = np.asarray(cells, np.int64)
        self.options = options
        self.trace = Trace() if options.trace else None
        self.random = None if options.seed is None else random.Random(options.seed)
        self.context = Context(
            image,
            self.cells,
            memory,
            machine.costs,
            {
                index: machine.scratchpad(image, held)
                for index, held in enumerate(image.memories)
                if held.memory_class is im.MemoryClass.SCRATCHPAD
            },
            Patterns(image.generators),
            F16Format(image.f16_format),
            options.strict,
            self.trace,
        )
        self.executor = Executor(self.context)
        self.now = 0
        self.launched = 0
        self.unit_times: dict[int, tuple[int, dict[str, int]]] = {}

    # -- the coordinator

    def run(self) -> Outcome:
        coordinator = self.image.coordinator
        scalars: list[Scalar | None] = [None] * coordinator.scalar_registers
        loops: list[list[int]] = []
        pc = 0
        code = coordinator.code
        while pc < len(code):
            self.executor.count(1, self.options.max_instructions)
            pc = self._coordinate(code[pc], pc, scalars, loops)
        return Outcome(self._report(), self.trace)

    def _coordinate(
        self, instruction: im.Instruction, pc: int, scalars: list[Scalar | None], loops: list[list[int]]
    ) -> int:
        site = Site(instruction.mnemonic, unit="coordinator", instance=pc)

        def value(register: int) -> int:
            found = scalars[register]
            if not isinstance(found, int):
                raise ControlFault(f"register s{register} is read before it is written", site=site)
            return found

        match instruction:
            case im.Halt():
                return len(self.image.coordinator.code)
            case im.LoadImmediate(dst=dst, value=number):
                scalars[dst] = number
            case im.LoadColumn(dst=dst, column=column):
                scalars[dst] = int(self.cells[self.image.coordinator.first_cell + column])
            case im.Move(dst=dst, source=source):
                scalars[dst] = value(source)
            case im.ScalarBinary(op=op, dst=dst, a=a, b=b):
                right = b.value if isinstance(b, im.Immediate) else value(b.index)
                scalars[dst] = binary(op, value(a), right, site)
            case im.ScalarCompare(predicate=predicate, dst=dst, a=a, b=b):
                scalars[dst] = compare(predicate, value(a), value(b))
            case im.ScalarSelect(dst=dst, condition=condition, a=a, b=b):
                scalars[dst] = select(value(condition), value(a), value(b))
            case im.For(iv=iv, lower=lower, upper=upper, step=step, end=end):
                if step <= 0:
                    raise ControlFault(f"loop step is {step}, not positive", site=site)
                first, last = value(lower), value(upper)
                if first >= last:
                    return pc + end + 1
                scalars[iv] = first
                loops.append([pc, first, last, step])
            case im.EndFor():
                loop = loops[-1]
                loop[1] += loop[3]
                if loop[1] < loop[2]:
                    head = self.image.coordinator.code[loop[0]]
                    assert isinstance(head, im.For)
                    scalars[head.iv] = loop[1]
                    return loop[0] + 1
                loops.pop()
            case im.BranchIfZero(condition=condition, target=target):
                return pc + target if value(condition) == 0 else pc + 1
            case im.Branch(target=target):
                return pc + target
            case im.Launch(program=program, first=first_register):
                launched = self.image.programs[program]
                parameters = [value(first_register + i) for i in range(len(launched.parameters))]
                self._launch(launched, parameters)
            case _:
                raise UnsupportedError(f"instruction {instruction.mnemonic} in the coordinator", site)
        return pc + 1

    # -- programs

    def _launch(self, program: im.Program, parameters: list[int]) -> None:
        self.machine.epoch += 1
        self.context.epoch = self.machine.epoch
        self.launched += 1
        cohorts = Builder(self.image, program, self.cells, self.now, self.options.races).cohorts()
        for cohort in cohorts:
            for gang in cohort.gangs:
                gang.scalars[: len(parameters)] = parameters
        _Schedule(self, program, cohorts).run()

    def finish(self, cohorts: list[Cohort], program: im.Program) -> None:
        """After all have halted: check what is left over, note times."""
        end = self.now
        check_device_memory([cohort.races for cohort in cohorts if cohort.races is not None])
        for cohort in cohorts:
            for queue in cohort.queues.values():
                if queue.items:
                    raise QueueFault(
                        f"residual data in FIFO {queue.name} ({len(queue.items)} items)",
                        site=Site(unit=program.name),
                        queue=queue.name,
                    )
            for signals in cohort.signals.values():
                if signals.pending:
                    raise QueueFault(
                        f"unmatched signal {signals.name} ({len(signals.pending)})",
                        site=Site(unit=program.name),
                        queue=signals.name,
                    )
            for gang in cohort.gangs:
                end = max(end, int(gang.time.max()), int(gang.copy_end.max()))
                self._note(gang)
        self.now = end

    def _note(self, gang: Gang) -> None:
        for row, unit in enumerate(gang.units.tolist()):
            busy, stall = self.unit_times.setdefault(unit, (0, {}))
            busy += max(int(gang.busy[row]), int(gang.copy_busy[row]))
            for reason, time in gang.stall.items():
                stall[reason] = stall.get(reason, 0) + int(time[row])
            self.unit_times[unit] = (busy, stall)

    def _report(self) -> Report:
        units = tuple(
            UnitReport(
                unit.name,
                unit.kind,
                unit.core,
                unit.corelet,
                cycles_of(self.unit_times.get(index, (0, {}))[0]),
                tuple(
                    (reason, cycles_of(time))
                    for reason, time in sorted(self.unit_times.get(index, (0, {}))[1].items())
                ),
            )
            for index, unit in enumerate(self.image.units)
        )
        context = self.context
        kinds = [m.kind for m in self.image.memories if m.memory_class is im.MemoryClass.GLOBAL]
        bandwidth = self.machine.costs.global_bandwidth(kinds[0]) if kinds else None
        moved = context.bytes_read + context.bytes_written
        return Report(
            self.image.kernel,
            cycles_of(self.now),
            self.launched,
            units,
            context.bytes_read,
            context.bytes_written,
            bound(moved, bandwidth),
            self.executor.instructions,
            self._work(),
            None if bandwidth is None else float(bandwidth),
        )

    def _work(self) -> tuple[Work, ...]:
        counts = sorted(self.context.lane_operations.items(), key=lambda item: (item[0][0], item[0][1].mlir))
        units = Counter(unit.kind for unit in self.image.units)
        return tuple(
            Work(kind, element.mlir, done, units[kind] * self.machine.costs.lanes_per_cycle(kind, element))
            for (kind, element), done in counts
        )


class _Schedule:
    """The event loop of one program."""

    def __init__(self, run: _Run, program: im.Program, cohorts: list[Cohort]) -> None:
        self.outer = run
        self.program = program
        self.cohorts = cohorts
        self.heap: list[tuple[int, int, int, _Entry]] = []
        self.queued: set[tuple[int, int, bool]] = set()
        self.count = 0

    def run(self) -> None:
        for cohort in self.cohorts:
            for gang in cohort.gangs:
                self._push(cohort, gang)
        executor, options = self.outer.executor, self.outer.options
        while (entry := self._pop()) is not None:
            cohort, gang = entry.cohort, entry.gang
            horizon = self.heap[0][0] if self.heap and self.outer.random is None else None
            try:
                if entry.copies:
                    perform_copy(executor, cohort, gang)
                else:
                    executor.advance(cohort, gang, horizon, options.max_instructions)
            except Diverged as diverged:
                self._split(cohort, diverged.groups)
                continue
            self._push(cohort, gang)
            self._wake(cohort, gang)
        waiting = [g for cohort in self.cohorts for g in cohort.gangs if not g.halted]
        if waiting:
            self._deadlock(waiting)
        self.outer.finish(self.cohorts, self.program)

    def _push(self, cohort: Cohort, gang: Gang) -> None:
        if gang.copies:
            start = int(np.minimum.reduce(np.maximum(gang.copies[0].issued, gang.copy_end)))
            self._add(start, _Entry(cohort, gang, True))
        if not gang.halted and gang.blocked is None:
            self._add(int(gang.time.min()), _Entry(cohort, gang, False))

    def _add(self, key: int, entry: _Entry) -> None:
        if entry.key in self.queued:
            return
        self.queued.add(entry.key)
        self.count += 1
        tie = entry.gang.index
        if self.outer.random is not None:
            key, tie = self.outer.random.getrandbits(30), 0
        heapq.heappush(self.heap, (key, tie, self.count, entry))

    def _pop(self) -> _Entry | None:
        """The next entry that still holds: its cohort was not split, and there is something to do."""
        while self.heap:
            *_, entry = heapq.heappop(self.heap)
            self.queued.discard(entry.key)
            gang = entry.gang
            live = bool(gang.copies) if entry.copies else gang.blocked is None and not gang.halted
            if live and any(entry.cohort is known for known in self.cohorts):
                return entry
        return None

    def _wake(self, cohort: Cohort, ran: Gang) -> None:
        """Gangs that waited for the one that just ran, and can go on now."""
        for gang in cohort.gangs:
            if gang.blocked is None or gang.blocked.other not in (None, ran.index):
                continue
            if self.outer.executor.can_go_on(cohort, gang):
                gang.blocked = None
                self._add(int(gang.time.min()), _Entry(cohort, gang, False))

    def _split(self, cohort: Cohort, groups: list[npt.NDArray[np.intp]]) -> None:
        self.cohorts = [known for known in self.cohorts if known is not cohort]
        for rows in groups:
            part = cohort.select(rows)
            self.cohorts.append(part)
            for gang in part.gangs:
                self._push(part, gang)

    def _deadlock(self, waiting: list[Gang]) -> None:
        image = self.outer.image
        lines: list[str] = []
        for gang in waiting:
            blocked = gang.blocked or Blocked("not scheduled", "")
            unit = image.units[int(gang.units[0])].name
            lines.append(f"{unit} at {gang.program.label}[{gang.pc}]: {blocked.reason} {blocked.on}".rstrip())
        cycle = cycles_of(max(int(gang.time.max()) for gang in waiting))
        raise DeadlockFault(
            f"deadlock at cycle {cycle}: " + "; ".join([*lines, self._circle(waiting)]),
            site=Site(unit=self.program.name),
            waiting=tuple(lines),
        )

    def _circle(self, waiting: list[Gang]) -> str:
        """One cycle of the wait-for graph, or who waits for a unit that has ended."""
        by_index = {gang.index: gang for gang in waiting}
        seen: list[int] = []
        current: int | None = waiting[0].index
        while current is not None and current in by_index and current not in seen:
            seen.append(current)
            blocked = by_index[current].blocked
            current = None if blocked is None else blocked.other
        names = [self.outer.image.units[int(by_index[i].units[0])].name for i in seen]
        if current in seen:
            start = seen.index(current) if current is not None else 0
            return "cycle of waits: " + " -> ".join([*names[start:], names[start]])
        return "waits for a unit that has ended: " + " -> ".join(names)


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
            np.zeros(count, np.int64),
            {},
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            copy_room=deque(Mark(zero.copy()) for _ in range(COPY_QUEUE_DEPTH)),
            copy_end=zero.copy(),
            copy_busy=np.zeros(count, np.int64),
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


__all__ = ["DEFAULT_OPTIONS", "Machine", "Options", "Outcome"]
