"""The machine: runs the coordinator of an image, and the processes of each program that it launches.

The processes of a program run as `spyresim.engine.schedule` says.  Units meet in queues and signals only;
copies of a unit run one after the other, beside it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from dfsched import image as im
from dfsched.architecture import Architecture
from ktir.machine import F16Format
from spyresim.engine.access import Patterns
from spyresim.engine.build import Builder
from spyresim.engine.costs import CostModel
from spyresim.engine.fit import check_fit
from spyresim.engine.forward import Forwarder
from spyresim.engine.launches import Numbers, Signature, added, signature
from spyresim.engine.memories import GlobalMemory, Scratchpads
from spyresim.engine.process import Context, Executor
from spyresim.engine.races import check_device_memory
from spyresim.engine.report import FastForward, Report, UnitReport, Work, bound, cycles_of
from spyresim.engine.scalars import binary, compare, select
from spyresim.engine.schedule import Schedule
from spyresim.engine.state import Cohort, Gang
from spyresim.engine.time_only import TimeExecutor
from spyresim.engine.trace import Event, Trace
from spyresim.engine.values import TICKS_PER_CYCLE, Scalar, Ticks
from spyresim.errors import ControlFault, QueueFault, Site, UnsupportedError
from spyresim.watch import Watch

BUSY = ""
"""What a unit does that does not wait, among its reasons to wait."""


@attrs.frozen
class Options:
    """How to run.

    `strict`: indices must lie in their view.  `seed`: pick ready gangs at random (timing is then void).
    `max_instructions`, and `max_bytes` that they read and write on all cores, bound the work.  `trace`:
    record events.  `races`: accesses that nothing orders are faults.

    `time_only`: nothing is computed and no memory touched; outputs then are nothing, times are the same.
    `fast_forward`: with `time_only` (and without `seed`), periods that repeat are skipped.
    """

    strict: bool = True
    seed: int | None = None
    max_instructions: int = 200_000_000
    max_bytes: int = 1 << 44
    trace: bool = False
    races: bool = True
    time_only: bool = False
    fast_forward: bool = True


DEFAULT_OPTIONS = Options()

NO_SOURCES: Mapping[str, Sequence[Site]] = {}


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
        sources: Mapping[str, Sequence[Site]] = NO_SOURCES,
        watch: Watch | None = None,
    ) -> Outcome:
        """Run a kernel whose relocated `cells` are filled in.

        `sources` names what the instructions of unit programs were made from, by label, for faults; `watch`
        is told who writes its element.

        Raises `spyresim.SpyresimError` subclasses for everything that goes wrong, and whatever `memory`
        raises for illegal accesses.
        """
        check_fit(image, self.architecture)
        return _Run(self, image, cells, memory, options, sources, watch).run()

    def scratchpad(self, image: im.Image, memory: im.Memory) -> Scratchpads:
        """The scratchpads of a kind and corelet, of the size that the device has, made at first use.

        What the image pins there, its programs may hand to each other.
        """
        key = memory.kind, memory.corelet
        found = self.scratchpads.get(key)
        if found is None:
            size = self.architecture.memory(memory.kind).size or 0
            found = self.scratchpads[key] = Scratchpads(memory.kind, self.architecture.cores, size)
        found.pin(tuple((held.low, held.high) for held in image.pinned if held.kind == memory.kind))
        return found


class _Run:
    def __init__(
        self,
        machine: Machine,
        image: im.Image,
        cells: Sequence[int],
        memory: GlobalMemory,
        options: Options,
        sources: Mapping[str, Sequence[Site]],
        watch: Watch | None,
    ) -> None:
        self.machine = machine
        self.image = image
        self.cells = np.asarray(cells, np.int64)
        self.options = options
        self.trace = Trace(time_only=options.time_only) if options.trace else None
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
            sources,
            watch,
        )
        kind = TimeExecutor if options.time_only else Executor
        self.executor = kind(self.context, options.max_instructions, options.max_bytes)
        self.skipped: list[FastForward] = []
        self.known_launches: dict[Signature, Numbers] = {}
        self.now = 0
        self.launched = 0
        self.unit_times: dict[int, dict[str, int]] = {}
        """Ticks by unit, then by what it did."""
        self.links: dict[int, int] = {}
        """Ticks that the links of units were taken."""

    # -- the coordinator

    def run(self) -> Outcome:
        coordinator = self.image.coordinator
        scalars: list[Scalar | None] = [None] * coordinator.scalar_registers
        loops: list[list[int]] = []
        pc = 0
        code = coordinator.code
        while pc < len(code):
            self.executor.instructions += 1
            self.executor.check_budget()
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
        options = self.options
        if not (options.time_only and options.fast_forward and options.seed is None):
            self._run_program(program, parameters, None)
            return
        key = signature(program, self.cells, parameters)
        known = self.known_launches.get(key)
        if known is not None:
            self._repeat(program, known)
            return
        before = self._numbers()
        self._run_program(program, parameters, Forwarder(self.executor, self.skipped))
        self.known_launches[key] = added(before, self._numbers())

    def _run_program(self, program: im.Program, parameters: list[int], forwarder: Forwarder | None) -> None:
        races = self.options.races and not self.options.time_only
        cohorts = Builder(self.image, program, self.cells, self.now, races).cohorts()
        for cohort in cohorts:
            for gang in cohort.gangs:
                gang.scalars[: len(parameters)] = parameters
        schedule = Schedule(self.executor, program, cohorts, self.random, forwarder)
        schedule.run()
        self._finish(schedule.cohorts, program)

    def _repeat(self, program: im.Program, known: Numbers) -> None:
        """A launch that is like an earlier one: add what that one added."""
        start = self.now
        self._add(known)
        self.executor.check_budget()
        ticks = self.now - start
        self.skipped.append(FastForward(cycles_of(start), cycles_of(self.now), 1, ticks / TICKS_PER_CYCLE))
        if self.trace is not None:
            units = tuple(unit for part in program.unit_programs for unit in part.units)
            begin = np.full(len(units), start, np.int64)
            self.trace.events.append(Event("as an earlier launch", "", units, begin, begin + ticks))

    def _numbers(self) -> Numbers:
        """All counters."""
        context = self.context
        found: Numbers = {
            ("now",): self.now,
            ("instructions",): self.executor.instructions,
            ("read",): context.bytes_read,
            ("written",): context.bytes_written,
        }
        found |= {("time", u, what): t for u, times in self.unit_times.items() for what, t in times.items()}
        found |= {("link", unit): ticks for unit, ticks in self.links.items()}
        found |= {("lanes", kind): count for kind, count in context.lane_operations.items()}
        for name, busy in context.ports.busy.items():
            found |= {("port", name, core): ticks for core, ticks in enumerate(busy.tolist())}
        return found

    def _add(self, numbers: Numbers) -> None:
        """Add to all counters."""
        context = self.context
        for key, number in numbers.items():
            match key:
                case ("now",):
                    self.now += number
                case ("instructions",):
                    self.executor.instructions += number
                case ("read",):
                    context.bytes_read += number
                case ("written",):
                    context.bytes_written += number
                case ("time", int(unit), str(what)):
                    self.unit_times[unit][what] += number
                case ("link", int(unit)):
                    self.links[unit] += number
                case ("lanes", kind):
                    context.lane_operations[kind] += number  # type: ignore[index]
                case ("port", name, int(core)):
                    context.ports.busy[name][core] += number  # type: ignore[index]

    def _finish(self, cohorts: list[Cohort], program: im.Program) -> None:
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
        """Add up what the units of a gang did in a program."""
        stalls: Mapping[str, Ticks] = gang.stall
        busy = np.full(len(gang), gang.busy, np.int64)
        if gang.activity is not None:
            busy, stalls = gang.activity.busy(gang.busy, gang.moving), gang.activity.stalls(gang.stall)
        for row, unit in enumerate(gang.units.tolist()):
            self.links[unit] = self.links.get(unit, 0) + gang.link
            times = self.unit_times.setdefault(unit, {})
            times[BUSY] = times.get(BUSY, 0) + int(busy[row])
            for reason, ticks in stalls.items():
                times[reason] = times.get(reason, 0) + int(ticks[row])

    def _unit_report(self, index: int) -> UnitReport:
        """One unit's times in whole cycles that add up to those of the run."""
        unit, times = self.image.units[index], self.unit_times.get(index, {})
        reasons = [reason for reason in sorted(times) if reason != BUSY and times[reason]]
        passed = ticks = 0
        whole: list[int] = []
        for reason in (BUSY, *reasons):
            ticks += times.get(reason, 0)
            whole.append(cycles_of(ticks) - passed)
            passed = cycles_of(ticks)
        stall = tuple(zip(reasons, whole[1:], strict=True))
        return UnitReport(
            unit.name, unit.kind, unit.core, unit.corelet, whole[0], stall, cycles_of(self.now) - passed
        )

    def _report(self) -> Report:
        units = tuple(self._unit_report(index) for index in range(len(self.image.units)))
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
            tuple(self.skipped),
            self._link_bound(),
            self._port_bound(),
        )

    def _link_bound(self) -> int:
        """What the links of the busiest unit take for all that it moves."""
        return cycles_of(max(self.links.values(), default=0))

    def _port_bound(self) -> int | None:
        """What the port of the busiest scratchpad takes; None if no description limits one."""
        ports = self.context.ports.busy
        local = [ports[key] for key in ports if not self.machine.architecture.is_global(key[0])]
        return cycles_of(max(int(busy.max()) for busy in local)) if local else None

    def _work(self) -> tuple[Work, ...]:
        counts = sorted(self.context.lane_operations.items(), key=lambda item: (item[0][0], item[0][1].mlir))
        units = Counter(unit.kind for unit in self.image.units)
        return tuple(
            Work(kind, element.mlir, done, units[kind] * self.machine.costs.lanes_per_cycle(kind, element))
            for (kind, element), done in counts
        )


__all__ = ["DEFAULT_OPTIONS", "Machine", "Options", "Outcome"]
