"""Running gangs: registers, memories, queues and time (dataflowir spec 5.3 to 5.11).

What each instruction does stands in `spyresim.engine.instructions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from dfsched import image as im
from ktir.attributes import DictAttr
from ktir.machine import F16Format
from spyresim.engine.access import Pattern, Patterns, addresses
from spyresim.engine.activity import EXECUTING
from spyresim.engine.costs import CostModel
from spyresim.engine.faults import queue_fault, undefined_register
from spyresim.engine.footprint import Footprint
from spyresim.engine.instructions import HANDLERS, Handler
from spyresim.engine.memories import (
    GlobalMemory,
    Registers,
    Scratchpads,
    at_site,
    load_global,
    slice_of,
    store_global,
)
from spyresim.engine.races import Clock, Deed, join
from spyresim.engine.state import Blocked, Cohort, Copy, Gang, Place, Ports, Queue, Signals, ViewValue
from spyresim.engine.trace import Access, Event, Flow, Level, Trace
from spyresim.engine.values import (
    Array,
    Scalar,
    Ticks,
    Vector,
    simplify,
    spread,
)
from spyresim.engine.vectors import Lanes
from spyresim.errors import BudgetFault, ControlFault, Site, UnsupportedError
from spyresim.watch import Watch


@attrs.define(eq=False)
class Context:
    """What all processes of a run share."""

    image: im.Image
    cells: npt.NDArray[np.int64]
    memory: GlobalMemory
    costs: CostModel
    scratchpads: dict[int, Scratchpads]
    patterns: Patterns
    f16_format: F16Format
    strict: bool
    trace: Trace | None
    sources: Mapping[str, Sequence[Site]] = attrs.Factory(dict)
    """What every instruction of a unit program was made from, by its label, where that is known."""
    watch: Watch | None = None
    epoch: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    lane_operations: dict[tuple[str, im.ElementType], int] = attrs.Factory(dict)
    """Operations on single lanes, by kind of unit and element type."""
    ports: Ports = attrs.Factory(Ports)


class Executor:
    """Runs instructions; stateless but for counters, so that cohorts can be split at any time."""

    handlers: ClassVar[Mapping[type[im.Instruction], Handler]] = HANDLERS

    def __init__(self, context: Context, limit: int, most_bytes: int) -> None:
        self.context = context
        self.limit = limit
        self.most_bytes = most_bytes
        self.moved = 0
        self.decoded: dict[int, list[tuple[Handler | None, im.Instruction]]] = {}
        self.lanes = Lanes(context.f16_format)
        self.instructions = 0
        self.opaque_attributes: dict[int, DictAttr] = {}
        self.constants: dict[tuple[int, int], Vector] = {}
        self.pad_numbers: dict[int, int] = {}
        self.dense: dict[tuple[int, im.ElementType], Footprint] = {}

    def check_budget(self) -> None:
        """`BudgetFault` if more instructions were run than the limit."""
        if self.instructions > self.limit:
            raise BudgetFault(f"more than {self.limit} instructions", limit=self.limit)

    def advance(self, cohort: Cohort, gang: Gang, steps: int) -> None:
        """Run a gang until it halts or blocks, or has done that many instructions."""
        program = gang.program
        code = self.decoded.get(id(program))
        if code is None:
            code = self.decoded[id(program)] = [(self.handlers.get(type(i)), i) for i in program.code]
        length, done = len(code), 0
        try:
            while done < steps:
                if gang.pc >= length:
                    raise ControlFault("the program ends without 'halt'", site=self.site(gang))
                handler, instruction = code[gang.pc]
                if handler is None:
                    raise UnsupportedError(f"instruction {instruction.mnemonic}", self.site(gang))
                if not handler(self, cohort, gang, instruction):
                    return
                done += 1
                if gang.halted:
                    return
        finally:
            gang.executed += done
            self.instructions += done

    def can_go_on(self, cohort: Cohort, gang: Gang) -> bool:
        """Whether what a blocked gang waits for is there now."""
        instruction = gang.program.code[gang.pc]
        match instruction:
            case im.Send():
                queue = self.queue(cohort, gang, instruction.unit, outgoing=True)
                vector = gang.vectors[instruction.source]
                return vector is not None and queue.has_room(self.bytes_of(vector))
            case im.Receive():
                return bool(self.queue(cohort, gang, instruction.unit, outgoing=False).items)
            case im.SyncReceive():
                return bool(self.signals(cohort, gang, instruction.unit, outgoing=False).pending)
            case im.Dma():
                return bool(gang.copy_room)
            case _ if gang.blocked is not None and gang.blocked.reason == "port":
                return False
            case _:
                return not gang.copies

    def site(self, gang: Gang) -> Site:
        """The place of the instruction that the gang is at."""
        return gang.sites.get(gang.pc) or self.site_at(gang, gang.pc)

    def site_at(self, gang: Gang, pc: int) -> Site:
        """The place of an instruction of the gang's program."""
        found = gang.sites.get(pc)
        if found is None:
            program = gang.program
            source = self.context.sources.get(program.label, ())
            name, location = program.code[pc].mnemonic if pc < len(program.code) else None, None
            if pc < len(source):
                name, location = source[pc].operation, source[pc].location
            found = gang.sites[pc] = Site(
                name, location, tile=int(gang.cores[0]), unit=self.row_names(gang)[0], instance=pc
            )
        return found

    def row_names(self, gang: Gang) -> tuple[str, ...]:
        """The unit of every row, with the label of its program."""
        if not gang.names:
            units = self.context.image.units
            gang.names = tuple(f"{units[u].name} ({gang.program.label})" for u in gang.units.tolist())
        return gang.names

    def scalar(self, gang: Gang, register: int) -> Scalar:
        """The value of a scalar register; a fault if nobody has written it."""
        value = gang.scalars[register]
        if value is None:
            raise undefined_register("s", register, self.site(gang))
        return value

    def vector(self, gang: Gang, register: int) -> Vector:
        """The value of a vector register; a fault if nobody has written it."""
        value = gang.vectors[register]
        if value is None:
            raise undefined_register("v", register, self.site(gang))
        return value

    def view(self, gang: Gang, register: int) -> ViewValue:
        """The value of a view register; a fault if nobody has written it."""
        value = gang.views[register]
        if value is None:
            raise undefined_register("w", register, self.site(gang))
        return value

    def mask(self, gang: Gang, register: int | None) -> Vector | None:
        """The value of an optional mask register."""
        return None if register is None else self.vector(gang, register)

    def cell(self, gang: Gang, column: int) -> Scalar:
        """The value of a column of the table, for every row."""
        known = gang.cells.get(column)
        if known is None:
            program = gang.program
            rows = self.context.cells[program.first_cell + gang.rows * program.columns + column]
            known = gang.cells[column] = simplify(rows)
        return known

    @staticmethod
    def tick(gang: Gang) -> Clock:
        """The gang's clock after one more event, as others will see it."""
        gang.clock[2 * gang.index] += 1
        return gang.clock.copy()

    def wait(self, gang: Gang, until: Ticks, reason: str) -> None:
        """The gang waits until then."""
        if until is gang.time:
            return
        waited = until - gang.time
        known = gang.stall.get(reason)
        if known is None:
            gang.stall[reason] = waited
        else:
            known += waited
        if gang.activity is not None:
            gang.activity.process(reason, gang.time, until, bool(gang.copies))
        gang.time = until

    def spend(self, gang: Gang, start: Ticks, cost: int, reason: str, name: str) -> None:
        """From `start` on (waiting until then counts as `reason`), the gang is busy for `cost` ticks."""
        self.wait(gang, start, reason)
        end = gang.time = start + cost
        gang.busy += cost
        if gang.activity is not None:
            gang.activity.process(EXECUTING, start, end, bool(gang.copies))
        if self.context.trace is not None:
            self.record(gang, name, "", start, end)

    def count_lanes(self, gang: Gang, element: im.ElementType, lanes: int) -> None:
        """Count one lane-wise operation of a gang."""
        counts = self.context.lane_operations
        key = gang.kind, element
        counts[key] = counts.get(key, 0) + lanes * len(gang)

    def record(self, gang: Gang, name: str, track: str, start: Ticks, end: Ticks, size: int = 0) -> None:
        """Add an event to the trace, if there is one."""
        trace = self.context.trace
        if trace is not None:
            trace.events.append(Event(name, track, tuple(gang.units.tolist()), start, end, size))

    def record_access(
        self,
        gang: Gang,
        view: ViewValue,
        base: Scalar,
        footprint: Footprint,
        writing: bool,
        start: Ticks,
        end: Ticks,
    ) -> None:
        """Add an access to a scratchpad to the trace, if there is one."""
        trace = self.context.trace
        if trace is None:
            return
        place = self.place_of(gang, view)
        memory = place.memory
        if memory.memory_class is im.MemoryClass.SCRATCHPAD and len(footprint):
            low = spread(base, len(gang)) + footprint.low
            high = low + footprint.high - footprint.low
            name = memory.kind if memory.corelet < 0 else f"{memory.kind} of corelet {memory.corelet}"
            trace.accesses.append(Access(name, place.cores, low, high, start, end, writing))

    def record_item(self, source: Gang, target: Gang, time: Ticks, change: int) -> None:
        """Add a change of a FIFO's level to the trace, if there is one."""
        trace = self.context.trace
        if trace is not None:
            ends = tuple(source.units.tolist()), tuple(target.units.tolist())
            trace.levels.append(Level(*ends, time, change))

    def record_flow(self, source: Gang, target: Gang, sent: Ticks, received: Ticks) -> None:
        """Add the way of an item through a FIFO to the trace, if there is one."""
        trace = self.context.trace
        if trace is not None:
            ends = tuple(source.units.tolist()), tuple(target.units.tolist())
            trace.flows.append(Flow(*ends, sent, received))

    def place_of(self, gang: Gang, view: ViewValue) -> Place:
        """Where a view lies; the faults of a view that lies nowhere."""
        if view.place is None:
            view.place = self._place(gang, view)
        return view.place

    def _place(self, gang: Gang, view: ViewValue) -> Place:
        memories = self.context.image.memories
        if isinstance(view.memory, int):
            if not 0 <= view.memory < len(memories):
                raise ControlFault(f"memory {view.memory} does not exist", site=self.site(gang))
            memory = memories[view.memory]
            cores = np.full(len(gang), memory.core, np.int64)
            return Place(memory, view.memory, self.pad_number(view.memory), cores, slice_of(cores))
        if (view.memory < 0).any() or (view.memory >= len(memories)).any():
            raise ControlFault("a memory in the table does not exist", site=self.site(gang))
        held = [memories[int(index)] for index in view.memory]
        if len({(m.kind, m.memory_class, m.corelet) for m in held}) > 1:
            raise ControlFault("memories of different kinds in one view", site=self.site(gang))
        first = int(view.memory[0])
        cores = np.array([m.core for m in held], np.int64)
        return Place(held[0], first, self.pad_number(first), cores, slice_of(cores))

    def note_access(
        self,
        cohort: Cohort,
        gang: Gang,
        view: ViewValue,
        base: Scalar,
        footprint: Footprint,
        copying: bool,
        site: Site,
        data: Array | None = None,
    ) -> None:
        """Tell the race detector of an access; `data` (rows, bytes) is what it writes, None if it reads."""
        races = cohort.races
        if races is None:
            return
        place = self.place_of(gang, view)
        actor = 2 * gang.index + copying
        clock = gang.copy_clock if copying else gang.clock
        clock[actor] += 1
        memory_class = place.memory.memory_class
        if memory_class is im.MemoryClass.REGISTER:
            return
        first = base if isinstance(base, int) else int(base[0])
        iteration = gang.copies[0].iteration if copying else gang.iteration
        names = self.row_names(gang)
        deed = Deed(site, names, iteration, data is not None, first + footprint.low, first + footprint.high)
        if memory_class is im.MemoryClass.SCRATCHPAD:
            races.scratchpad(place, actor, clock, base, footprint, deed)
            return
        before = None
        if data is not None:
            with at_site(site):
                before = load_global(self.context.memory, base, len(gang), footprint, observing=True)
        races.device_memory(actor, clock, gang.cores, base, footprint, deed, data, before)

    def pad_number(self, index: int) -> int:
        """One number for the memories of one kind and corelet (whatever the core)."""
        known = self.pad_numbers.get(index)
        if known is None:
            memories = self.context.image.memories
            wanted = memories[index].kind, memories[index].corelet
            known = next(i for i, m in enumerate(memories) if (m.kind, m.corelet) == wanted)
            self.pad_numbers[index] = known
        return known

    def _move(self, size: int) -> None:
        self.moved += size
        if self.moved > self.most_bytes:
            raise BudgetFault(f"more than {self.most_bytes} bytes moved", limit=self.most_bytes)

    def read(self, gang: Gang, view: ViewValue, base: Scalar, footprint: Footprint, site: Site) -> Array:
        """What a footprint holds from every row's base on: uint8 of shape (rows, bytes)."""
        place = self.place_of(gang, view)
        self._move(len(gang) * footprint.size)
        match place.memory.memory_class:
            case im.MemoryClass.GLOBAL:
                self.context.bytes_read += len(gang) * footprint.size
                with at_site(site):
                    return load_global(self.context.memory, base, len(gang), footprint)
            case im.MemoryClass.SCRATCHPAD:
                pad = self.context.scratchpads[place.index]
                return pad.load(place.cores, place.core_slice, base, footprint, self.context.epoch, site)
            case _:
                return self.registers_of(gang, place.index).load(base, footprint, site)

    def write(
        self, gang: Gang, view: ViewValue, base: Scalar, footprint: Footprint, data: Array, site: Site
    ) -> None:
        """Store uint8 of shape (rows, bytes) from every row's base on."""
        place = self.place_of(gang, view)
        self._move(len(gang) * footprint.size)
        match place.memory.memory_class:
            case im.MemoryClass.GLOBAL:
                self.context.bytes_written += len(gang) * footprint.size
                with at_site(site):
                    store_global(self.context.memory, base, footprint, data)
                self._watch(gang, base, footprint, site)
            case im.MemoryClass.SCRATCHPAD:
                pad = self.context.scratchpads[place.index]
                pad.store(place.cores, place.core_slice, base, footprint, data, self.context.epoch, site)
            case _:
                self.registers_of(gang, place.index).store(base, footprint, data, site)

    def _watch(self, gang: Gang, base: Scalar, footprint: Footprint, site: Site) -> None:
        """Note who writes the watched bytes last."""
        watch = self.context.watch
        if watch is None or watch.address is None:
            return
        starts = spread(base, len(gang))
        for run in footprint.runs:
            low = starts + run.offset
            for row in np.flatnonzero((low <= watch.address) & (watch.address < low + run.size)).tolist():
                name = self.row_names(gang)[row]
                watch.writer = attrs.evolve(site, unit=name, tile=int(gang.cores[row]))

    def transfer(
        self, cohort: Cohort, gang: Gang, copy: Copy, source: Pattern, target: Pattern, site: Site
    ) -> tuple[tuple[ViewValue, Scalar, Footprint, bool], ...] | None:
        """Move the bytes of a copy; what was accessed: view, base address, bytes, whether written."""
        strict = self.context.strict
        a = addresses(copy.source, copy.bases[0], source, strict, site)
        b = addresses(copy.target, copy.bases[1], target, strict, site)
        join(gang.copy_clock, copy.clock)
        self.note_access(cohort, gang, copy.source, a, source.footprint, True, site)
        data = self.read(gang, copy.source, a, source.footprint, site)
        self.note_access(cohort, gang, copy.target, b, target.footprint, True, site, data)
        self.write(gang, copy.target, b, target.footprint, data, site)
        return (copy.source, a, source.footprint, False), (copy.target, b, target.footprint, True)

    def registers_of(self, gang: Gang, index: int) -> Registers:
        """The gang's private registers in register memories of one kind, made at first use.

        Every core may have its own name for them.
        """
        index = self.pad_number(index)
        found = gang.registers.get(index)
        if found is None:
            memory = self.context.image.memories[index]
            size = memory.size_bytes or memory.used_bytes
            found = gang.registers[index] = Registers(len(gang), size, memory.name)
        return found

    def drained(self, gang: Gang) -> bool:
        """Whether no copy of the gang is outstanding; otherwise it blocks."""
        if not gang.copies:
            return True
        gang.blocked = Blocked("copies", f"{len(gang.copies)} outstanding", gang.index)
        return False

    def target(self, cohort: Cohort, gang: Gang, column: int) -> Gang:
        """The gang of the units in a column."""
        index = gang.targets.get(column)
        if index is not None:
            return cohort.gangs[index]
        value = self.cell(gang, column)
        unit = value if isinstance(value, int) else int(value[0])
        for other in cohort.gangs:
            if unit in other.units:
                gang.targets[column] = other.index
                return other
        image = self.context.image
        name = image.units[unit].name if 0 <= unit < len(image.units) else str(unit)
        raise ControlFault(f"unit {name} takes no part in this program", site=self.site(gang))

    def queue(self, cohort: Cohort, gang: Gang, column: int, *, outgoing: bool) -> Queue:
        """The FIFO to (or from) the units in a column."""
        other = self.target(cohort, gang, column)
        key = (gang.index, other.index) if outgoing else (other.index, gang.index)
        found = cohort.queues.get(key)
        if found is None:
            a, b = (gang, other) if outgoing else (other, gang)
            name = f"{self.unit_name(a)}->{self.unit_name(b)}"
            raise queue_fault(f"there is no FIFO {name}", name, self.site(gang))
        return found

    def signals(self, cohort: Cohort, gang: Gang, column: int, *, outgoing: bool) -> Signals:
        """The signals to (or from) the units in a column."""
        other = self.target(cohort, gang, column)
        key = (gang.index, other.index) if outgoing else (other.index, gang.index)
        found = cohort.signals.get(key)
        if found is None:
            a, b = (gang, other) if outgoing else (other, gang)
            found = cohort.signals[key] = Signals(f"{self.unit_name(a)}->{self.unit_name(b)}")
        return found

    def unit_name(self, gang: Gang) -> str:
        """The name of the gang's first unit."""
        return self.context.image.units[int(gang.units[0])].name

    @staticmethod
    def bytes_of(vector: Vector) -> int:
        """Bytes that a vector takes in a queue, per row."""
        return vector.lanes * vector.element.storage_bits // 8
