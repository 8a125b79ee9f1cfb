"""Executing the instructions of gangs (dataflowir spec 5.3 to 5.11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from dfsched import image as im
from ktir.attributes import DictAttr
from ktir.machine import F16Format
from spyresim.engine import scalars as scalar_ops
from spyresim.engine.access import Patterns, addresses, base_index
from spyresim.engine.attributes import parse_parameters
from spyresim.engine.costs import CostModel, is_slow
from spyresim.engine.faults import queue_fault, undefined_register
from spyresim.engine.memories import GlobalMemory, Registers, Scratchpads, load_global, store_global
from spyresim.engine.races import Clock, join
from spyresim.engine.state import Blocked, Cohort, Copy, Gang, Item, Loop, Mark, Queue, Signals, ViewValue
from spyresim.engine.trace import Event, Trace
from spyresim.engine.values import (
    TICKS_PER_CYCLE,
    Array,
    Scalar,
    Ticks,
    Vector,
    simplify,
    spread,
)
from spyresim.engine.vectors import SLOW_UNARY, Lanes
from spyresim.errors import BudgetFault, ControlFault, OutOfRangeFault, Site

T = TypeVar("T")


class Diverged(Exception):
    """Control flow differs between the rows of a gang: `groups` are the sets of rows that agree."""

    def __init__(self, groups: list[npt.NDArray[np.intp]]) -> None:
        self.groups = groups
        super().__init__(f"{len(groups)} groups")


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
    epoch: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    port_free: dict[str, int] = attrs.Factory(dict)
    """Tick from which the port of a global memory is free."""


def uniform(value: Scalar) -> int:
    """The one value of all rows; `Diverged` if they differ."""
    if isinstance(value, int):
        return value
    raise Diverged([np.flatnonzero(value == known) for known in np.unique(value)])


class Executor:
    """Runs instructions; stateless but for counters, so that cohorts can be split at any time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.lanes = Lanes(context.f16_format)
        self.instructions = 0
        self._opaque_attributes: dict[int, DictAttr] = {}
        self._constants: dict[tuple[int, int], Vector] = {}
        self._run: dict[type[im.Instruction], Callable[[Cohort, Gang, im.Instruction], bool]] = {
            im.Halt: self._halt,
            im.LoadImmediate: self._load_immediate,
            im.LoadColumn: self._load_column,
            im.Move: self._move,
            im.ScalarBinary: self._scalar_binary,
            im.ScalarCompare: self._scalar_compare,
            im.ScalarSelect: self._scalar_select,
            im.For: self._for,
            im.EndFor: self._end_for,
            im.BranchIfZero: self._branch_if_zero,
            im.Branch: self._branch,
            im.MakeView: self._make_view,
            im.VectorLoad: self._vector_load,
            im.VectorStore: self._vector_store,
            im.Dma: self._dma,
            im.Send: self._send,
            im.Receive: self._receive,
            im.SyncSend: self._sync_send,
            im.SyncReceive: self._sync_receive,
            im.VectorBinary: self._vector_binary,
            im.VectorUnary: self._vector_unary,
            im.VectorMultiplyAdd: self._vector_multiply_add,
            im.VectorCompare: self._vector_compare,
            im.VectorSelect: self._vector_select,
            im.VectorCast: self._vector_cast,
            im.Shuffle: self._shuffle,
            im.VectorConstant: self._vector_constant,
            im.VectorRotate: self._vector_rotate,
            im.VectorMove: self._vector_move,
            im.CallOpaque: self._opaque,
        }

    # -- the loop

    def count(self, number: int, limit: int) -> None:
        """Count instructions; `BudgetFault` beyond the limit."""
        self.instructions += number
        if self.instructions > limit:
            raise BudgetFault(f"more than {limit} instructions", limit=limit)

    def advance(self, cohort: Cohort, gang: Gang, horizon: int | None, limit: int) -> None:
        """Run a gang until it halts or blocks, or (without `horizon`: after one step with a cost) until its
        time passes that of the next one."""
        code = gang.program.code
        while not gang.halted and gang.blocked is None:
            if gang.pc >= len(code):
                raise ControlFault("the program ends without 'halt'", site=self.site(gang))
            instruction = code[gang.pc]
            run = self._run.get(type(instruction))
            if run is None:
                from spyresim.errors import UnsupportedError

                raise UnsupportedError(f"instruction {instruction.mnemonic}", self.site(gang))
            before = gang.time
            if run(cohort, gang, instruction):
                self.count(1, limit)
            if gang.time is not before and (horizon is None or int(gang.time.min()) > horizon):
                return

    def can_go_on(self, cohort: Cohort, gang: Gang) -> bool:
        """Whether what a blocked gang waits for is there now."""
        instruction = gang.program.code[gang.pc]
        match instruction:
            case im.Send():
                queue = self._queue(cohort, gang, instruction.unit, outgoing=True)
                vector = gang.vectors[instruction.source]
                return bool(queue.room) and vector is not None and self._fits(queue, vector)
            case im.Receive():
                return bool(self._queue(cohort, gang, instruction.unit, outgoing=False).items)
            case im.SyncReceive():
                return bool(self._signals(cohort, gang, instruction.unit, outgoing=False).pending)
            case im.Dma():
                return bool(gang.copy_room)
            case _:
                return not gang.copies

    def site(self, gang: Gang) -> Site:
        """The place of the instruction that the gang is at."""
        image = self.context.image
        code = gang.program.code
        name = code[gang.pc].mnemonic if gang.pc < len(code) else None
        unit = image.units[int(gang.units[0])].name
        return Site(name, unit=f"{unit} ({gang.program.label})", tile=int(gang.cores[0]), instance=gang.pc)

    # -- registers

    def _s(self, gang: Gang, register: int) -> Scalar:
        value = gang.scalars[register]
        if value is None:
            raise undefined_register("s", register, self.site(gang))
        return value

    def _v(self, gang: Gang, register: int) -> Vector:
        value = gang.vectors[register]
        if value is None:
            raise undefined_register("v", register, self.site(gang))
        return value

    def _w(self, gang: Gang, register: int) -> ViewValue:
        value = gang.views[register]
        if value is None:
            raise undefined_register("w", register, self.site(gang))
        return value

    def _mask(self, gang: Gang, register: int | None) -> Vector | None:
        return None if register is None else self._v(gang, register)

    def cell(self, gang: Gang, column: int) -> Scalar:
        """The value of a column of the table, for every row."""
        program = gang.program
        found = self.context.cells[program.first_cell + gang.rows * program.columns + column]
        return simplify(found)

    # -- scalars and control

    def _halt(self, cohort: Cohort, gang: Gang, instruction: im.Instruction) -> bool:
        gang.halted = True
        return True

    def _load_immediate(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.LoadImmediate)
        gang.scalars[i.dst] = i.value
        gang.pc += 1
        return True

    def _load_column(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.LoadColumn)
        gang.scalars[i.dst] = self.cell(gang, i.column)
        gang.pc += 1
        return True

    def _move(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.Move)
        gang.scalars[i.dst] = self._s(gang, i.source)
        gang.pc += 1
        return True

    def _scalar_binary(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.ScalarBinary)
        right = i.b.value if isinstance(i.b, im.Immediate) else self._s(gang, i.b.index)
        gang.scalars[i.dst] = scalar_ops.binary(i.op, self._s(gang, i.a), right, self.site(gang))
        gang.pc += 1
        return True

    def _scalar_compare(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.ScalarCompare)
        gang.scalars[i.dst] = scalar_ops.compare(i.predicate, self._s(gang, i.a), self._s(gang, i.b))
        gang.pc += 1
        return True

    def _scalar_select(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.ScalarSelect)
        condition = self._s(gang, i.condition)
        gang.scalars[i.dst] = scalar_ops.select(condition, self._s(gang, i.a), self._s(gang, i.b))
        gang.pc += 1
        return True

    def _for(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.For)
        if i.step <= 0:
            raise ControlFault(f"loop step is {i.step}, not positive", site=self.site(gang))
        lower, upper = uniform(self._s(gang, i.lower)), uniform(self._s(gang, i.upper))
        if lower >= upper:
            gang.pc += i.end + 1
            return True
        gang.scalars[i.iv] = lower
        gang.loops.append(Loop(gang.pc, lower, upper, i.step))
        gang.pc += 1
        return True

    def _end_for(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        loop = gang.loops[-1]
        loop.value += loop.step
        if loop.value >= loop.upper:
            gang.loops.pop()
            gang.pc += 1
            return True
        head = gang.program.code[loop.head]
        assert isinstance(head, im.For)
        gang.scalars[head.iv] = loop.value
        gang.pc = loop.head + 1
        return True

    def _branch_if_zero(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.BranchIfZero)
        condition = self._s(gang, i.condition)
        flag = condition if isinstance(condition, int) else simplify((condition != 0).astype(np.int64))
        gang.pc += i.target if uniform(flag) == 0 else 1
        return True

    def _branch(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.Branch)
        gang.pc += i.target
        return True

    # -- order and time

    @staticmethod
    def _tick(gang: Gang) -> Clock:
        """The gang's clock after one more event, as others will see it."""
        gang.clock[2 * gang.index] += 1
        return gang.clock.copy()

    def _spend(self, gang: Gang, start: Ticks, cost: int, reason: str, name: str) -> None:
        """From `start` on (waiting until then counts as `reason`), the gang is busy for `cost` ticks."""
        waited = start - gang.time
        if waited.any():
            known = gang.stall.get(reason)
            gang.stall[reason] = waited if known is None else known + waited
        gang.time = start + cost
        gang.busy = gang.busy + cost
        self._record(gang, name, "", start, gang.time)

    def _record(self, gang: Gang, name: str, track: str, start: Ticks, end: Ticks, size: int = 0) -> None:
        trace = self.context.trace
        if trace is not None:
            trace.add(Event(name, track, tuple(gang.units.tolist()), start, end, size))

    # -- memory

    def _make_view(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.MakeView)
        view = self.context.image.views[i.descriptor]
        memory: Scalar = (
            i.memory.index if isinstance(i.memory, im.MemoryId) else self.cell(gang, i.memory.index)
        )
        start = (
            self.cell(gang, i.start.index) if isinstance(i.start, im.Column) else self._s(gang, i.start.index)
        )
        gang.views[i.dst] = ViewValue(memory, start * view.start_unit, view)
        gang.pc += 1
        return True

    def _memory(self, gang: Gang, view: ViewValue) -> tuple[im.Memory, int, npt.NDArray[np.int64]]:
        """The memory of a view: description of the first row's, its index, and the core of every row."""
        memories = self.context.image.memories
        if isinstance(view.memory, int):
            if not 0 <= view.memory < len(memories):
                raise ControlFault(f"memory {view.memory} does not exist", site=self.site(gang))
            memory = memories[view.memory]
            return memory, view.memory, np.full(len(gang), memory.core, np.int64)
        if (view.memory < 0).any() or (view.memory >= len(memories)).any():
            raise ControlFault("a memory in the table does not exist", site=self.site(gang))
        held = [memories[int(index)] for index in view.memory]
        if len({(m.kind, m.memory_class) for m in held}) > 1:
            raise ControlFault("memories of different kinds in one view", site=self.site(gang))
        return held[0], int(view.memory[0]), np.array([m.core for m in held], np.int64)

    def _noted(
        self,
        cohort: Cohort,
        gang: Gang,
        view: ViewValue,
        base: npt.NDArray[np.int64],
        offsets: Array,
        step: int,
        writing: bool,
        copying: bool,
        site: Site,
    ) -> None:
        """Tell the race detector of an access."""
        if cohort.races is None:
            return
        memory, index, cores = self._memory(gang, view)
        actor = 2 * gang.index + copying
        clock = gang.copy_clock if copying else gang.clock
        clock[actor] += 1
        match memory.memory_class:
            case im.MemoryClass.GLOBAL:
                races = cohort.races
                races.device_memory(actor, clock, gang.cores, base, offsets, step, writing, site)
            case im.MemoryClass.SCRATCHPAD:
                cohort.races.scratchpad(
                    self._pad_number(index),
                    memory.kind,
                    actor,
                    clock,
                    cores,
                    base,
                    offsets,
                    step,
                    writing,
                    site,
                )
            case _:
                pass

    def _pad_number(self, index: int) -> int:
        """One number for the scratchpads of one kind (whatever the core)."""
        memories = self.context.image.memories
        kind = memories[index].kind
        return next(i for i, m in enumerate(memories) if m.kind == kind)

    def _read(
        self, gang: Gang, view: ViewValue, base: npt.NDArray[np.int64], offsets: Array, step: int, site: Site
    ) -> Array:
        memory, index, cores = self._memory(gang, view)
        match memory.memory_class:
            case im.MemoryClass.GLOBAL:
                self.context.bytes_read += len(gang) * len(offsets) * step
                return load_global(self.context.memory, base, offsets, step)
            case im.MemoryClass.SCRATCHPAD:
                pad = self.context.scratchpads[index]
                return pad.load(cores, base, offsets, step, self.context.epoch, site)
            case _:
                return self._registers(gang, index).load(base, offsets, step, site)

    def _write(
        self,
        gang: Gang,
        view: ViewValue,
        base: npt.NDArray[np.int64],
        offsets: Array,
        step: int,
        data: Array,
        site: Site,
    ) -> None:
        memory, index, cores = self._memory(gang, view)
        match memory.memory_class:
            case im.MemoryClass.GLOBAL:
                self.context.bytes_written += len(gang) * len(offsets) * step
                store_global(self.context.memory, base, offsets, step, data)
            case im.MemoryClass.SCRATCHPAD:
                pad = self.context.scratchpads[index]
                pad.store(cores, base, offsets, step, data, self.context.epoch, site)
            case _:
                self._registers(gang, index).store(base, offsets, step, data, site)

    def _registers(self, gang: Gang, index: int) -> Registers:
        found = gang.registers.get(index)
        if found is None:
            memory = self.context.image.memories[index]
            size = memory.size_bytes or memory.used_bytes
            found = gang.registers[index] = Registers(len(gang), size, memory.name)
        return found

    def _drained(self, gang: Gang) -> bool:
        """Whether no copy of the gang is outstanding; otherwise it blocks."""
        if not gang.copies:
            return True
        gang.blocked = Blocked("copies", f"{len(gang.copies)} outstanding", gang.index)
        return False

    def _access_cost(self, gang: Gang, view: ViewValue, size: int, writing: bool) -> int:
        memory, _, _ = self._memory(gang, view)
        if memory.memory_class is im.MemoryClass.REGISTER:
            return TICKS_PER_CYCLE
        return self.context.costs.link_time(gang.kind, memory.kind, size, writing)

    def _vector_load(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorLoad)
        if not self._drained(gang):
            return False
        view, site = self._w(gang, i.view), self.site(gang)
        side = self.context.image.generators[i.generator].sides[0]
        shape = self.context.patterns.get(i.generator, 0, view.view)
        indices = base_index(side, gang.scalars, site)
        base = addresses(view, indices, shape, len(gang), self.context.strict, site)
        join(gang.clock, gang.copy_clock)
        self._noted(cohort, gang, view, base, shape.offsets, shape.step, False, False, site)
        data = self._read(gang, view, base, shape.offsets, shape.step, site)
        gang.vectors[i.dst] = self.lanes.from_bytes(view.view.element, data, site)
        size = len(shape.offsets) * shape.step
        start = np.maximum(gang.time, gang.copy_end)
        self._spend(gang, start, self._access_cost(gang, view, size, False), "copies", "load")
        gang.pc += 1
        return True

    def _vector_store(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorStore)
        if not self._drained(gang):
            return False
        view, site = self._w(gang, i.view), self.site(gang)
        vector = self._v(gang, i.source)
        side = self.context.image.generators[i.generator].sides[0]
        shape = self.context.patterns.get(i.generator, 0, view.view)
        if shape.lanes * shape.steps != vector.lanes or vector.element.bits != view.view.element.bits:
            raise ControlFault(
                f"set has {shape.lanes * shape.steps} points of {view.view.element.mlir} but vector has "
                f"{vector.lanes} lanes of {vector.element.mlir}",
                site=site,
            )
        indices = base_index(side, gang.scalars, site)
        base = addresses(view, indices, shape, len(gang), self.context.strict, site)
        join(gang.clock, gang.copy_clock)
        self._noted(cohort, gang, view, base, shape.offsets, shape.step, True, False, site)
        self._write(gang, view, base, shape.offsets, shape.step, self.lanes.to_bytes(vector), site)
        size = len(shape.offsets) * shape.step
        start = np.maximum(gang.time, gang.copy_end)
        self._spend(gang, start, self._access_cost(gang, view, size, True), "copies", "store")
        gang.pc += 1
        return True

    # -- copies

    def _dma(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.Dma)
        if not gang.copy_room:
            gang.blocked = Blocked("copy queue full", f"{len(gang.copies)} outstanding", gang.index)
            return False
        site = self.site(gang)
        source, target = self._w(gang, i.source), self._w(gang, i.target)
        sides = self.context.image.generators[i.generator].sides
        bases = (
            base_index(sides[0], gang.scalars, site),
            base_index(sides[1], gang.scalars, site),
        )
        room = gang.copy_room.popleft()
        join(gang.clock, room.clock)
        start = np.maximum(gang.time, room.time)
        self._spend(gang, start, TICKS_PER_CYCLE, "copy queue full", "issue copy")
        gang.copies.append(Copy(i, source, target, bases, gang.time, gang.pc, self._tick(gang)))
        gang.copies_issued += 1
        gang.pc += 1
        return True

    def perform_copy(self, cohort: Cohort, gang: Gang) -> None:
        """Do the oldest outstanding copy of a gang."""
        copy = gang.copies[0]
        site = attrs.evolve(self.site(gang), operation="dma", instance=copy.index)
        generator = copy.instruction.generator
        source = self.context.patterns.get(generator, 0, copy.source.view)
        target = self.context.patterns.get(generator, 1, copy.target.view)
        if source.step != target.step or len(source.offsets) != len(target.offsets):
            raise ControlFault(
                f"copy of {len(source.offsets)} elements of {source.step} bytes to {len(target.offsets)} of "
                f"{target.step}",
                site=site,
            )
        rows, strict = len(gang), self.context.strict
        a = addresses(copy.source, copy.bases[0], source, rows, strict, site)
        b = addresses(copy.target, copy.bases[1], target, rows, strict, site)
        join(gang.copy_clock, copy.clock)
        self._noted(cohort, gang, copy.source, a, source.offsets, source.step, False, True, site)
        self._noted(cohort, gang, copy.target, b, target.offsets, target.step, True, True, site)
        data = self._read(gang, copy.source, a, source.offsets, source.step, site)
        self._write(gang, copy.target, b, target.offsets, target.step, data, site)
        size = len(source.offsets) * source.step
        start = np.maximum(copy.issued, gang.copy_end)
        end = self._copy_end(gang, copy, start, source.lanes * source.step, source.steps)
        gang.copies.popleft()
        gang.copy_room.append(Mark(end, gang.copy_clock.copy()))
        gang.copy_end = end
        gang.copy_busy = gang.copy_busy + (end - start)
        self._record(gang, "copy", "copies", start, end, size)

    def _copy_end(self, gang: Gang, copy: Copy, start: Ticks, step_bytes: int, steps: int) -> Ticks:
        costs = self.context.costs
        latency = 0
        link = 0
        end = start
        for view, writing in ((copy.source, False), (copy.target, True)):
            memory, _, _ = self._memory(gang, view)
            if memory.memory_class is im.MemoryClass.REGISTER:
                continue
            link = max(link, costs.link_time(gang.kind, memory.kind, step_bytes, writing) * steps)
            if memory.memory_class is im.MemoryClass.GLOBAL:
                latency += costs.memory_latency(memory.kind)
                size = costs.beats(gang.kind, memory.kind, step_bytes, writing) * steps
                end = np.maximum(end, self._port(memory.kind, start, costs.port_time(memory.kind, size)))
        return np.maximum(end, start + link) + latency

    def _port(self, memory: str, arrival: Ticks, service: int) -> Ticks:
        """When requests that arrive at these times leave the port that all cores share, first come first
        served; requests of one batch are ordered by arrival, then by core."""
        if service == 0:
            return arrival
        order = np.argsort(arrival, kind="stable")
        positions = np.arange(len(arrival), dtype=np.int64)
        free = self.context.port_free.get(memory, 0)
        ready = np.maximum(arrival[order], free)
        done = np.maximum.accumulate(ready - positions * service) + (positions + 1) * service
        self.context.port_free[memory] = int(done[-1])
        out = np.empty_like(done)
        out[order] = done
        return out

    # -- communication

    def _target(self, cohort: Cohort, gang: Gang, column: int) -> Gang:
        value = self.cell(gang, column)
        unit = value if isinstance(value, int) else int(value[0])
        for other in cohort.gangs:
            if unit in other.units:
                return other
        image = self.context.image
        name = image.units[unit].name if 0 <= unit < len(image.units) else str(unit)
        raise ControlFault(f"unit {name} takes no part in this program", site=self.site(gang))

    def _queue(self, cohort: Cohort, gang: Gang, column: int, *, outgoing: bool) -> Queue:
        other = self._target(cohort, gang, column)
        key = (gang.index, other.index) if outgoing else (other.index, gang.index)
        found = cohort.queues.get(key)
        if found is None:
            a, b = (gang, other) if outgoing else (other, gang)
            name = f"{self._name(a)}->{self._name(b)}"
            raise queue_fault(f"there is no FIFO {name}", name, self.site(gang))
        return found

    def _signals(self, cohort: Cohort, gang: Gang, column: int, *, outgoing: bool) -> Signals:
        other = self._target(cohort, gang, column)
        key = (gang.index, other.index) if outgoing else (other.index, gang.index)
        found = cohort.signals.get(key)
        if found is None:
            a, b = (gang, other) if outgoing else (other, gang)
            found = cohort.signals[key] = Signals(f"{self._name(a)}->{self._name(b)}")
        return found

    def _name(self, gang: Gang) -> str:
        return self.context.image.units[int(gang.units[0])].name

    @staticmethod
    def _bytes(vector: Vector) -> int:
        return vector.lanes * vector.element.storage_bits // 8

    def _fits(self, queue: Queue, vector: Vector) -> bool:
        return queue.size_bytes == 0 or queue.held_bytes + self._bytes(vector) <= queue.size_bytes

    def _send(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.Send)
        queue = self._queue(cohort, gang, i.unit, outgoing=True)
        vector = self._v(gang, i.source)
        if queue.size_bytes and self._bytes(vector) > queue.size_bytes:
            raise queue_fault(
                f"an item of {self._bytes(vector)} bytes does not fit FIFO {queue.name} of "
                f"{queue.size_bytes}",
                queue.name,
                self.site(gang),
            )
        if not queue.room or not self._fits(queue, vector):
            other = self._target(cohort, gang, i.unit)
            gang.blocked = Blocked("queue full", queue.name, other.index)
            return False
        room = queue.room.popleft()
        join(gang.clock, room.clock)
        start = np.maximum(gang.time, room.time)
        self._spend(gang, start, TICKS_PER_CYCLE, "queue full", "send")
        queue.items.append(Item(vector, gang.time + self.context.costs.queue_latency, self._tick(gang)))
        queue.held_bytes += self._bytes(vector)
        queue.high_water = max(queue.high_water, len(queue.items))
        gang.pc += 1
        return True

    def _receive(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.Receive)
        queue = self._queue(cohort, gang, i.unit, outgoing=False)
        if not queue.items:
            other = self._target(cohort, gang, i.unit)
            gang.blocked = Blocked("queue empty", queue.name, other.index)
            return False
        item = queue.items.popleft()
        value = item.value
        if value.element is not i.element or value.lanes != i.lanes:
            raise queue_fault(
                f"type mismatch on FIFO {queue.name}: sent {value.lanes}x{value.element.mlir}, received "
                f"{i.lanes}x{i.element.mlir}",
                queue.name,
                self.site(gang),
            )
        queue.held_bytes -= self._bytes(value)
        gang.vectors[i.dst] = value
        start = np.maximum(gang.time, item.visible)
        self._spend(gang, start, TICKS_PER_CYCLE, "queue empty", "receive")
        join(gang.clock, item.clock)
        queue.room.append(Mark(gang.time, self._tick(gang)))
        gang.pc += 1
        return True

    def _sync_send(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.SyncSend)
        if i.wait and not self._drained(gang):
            return False
        start = np.maximum(gang.time, gang.copy_end) if i.wait else gang.time
        if i.wait:
            join(gang.clock, gang.copy_clock)
        self._spend(gang, start, TICKS_PER_CYCLE, "copies", "signal")
        signals = self._signals(cohort, gang, i.unit, outgoing=True)
        signals.pending.append(Mark(gang.time + self.context.costs.signal_latency, self._tick(gang)))
        gang.pc += 1
        return True

    def _sync_receive(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.SyncReceive)
        signals = self._signals(cohort, gang, i.unit, outgoing=False)
        if not signals.pending:
            other = self._target(cohort, gang, i.unit)
            gang.blocked = Blocked("signal", signals.name, other.index)
            return False
        signal = signals.pending.popleft()
        join(gang.clock, signal.clock)
        start = np.maximum(gang.time, signal.time)
        self._spend(gang, start, TICKS_PER_CYCLE, "signal", "wait for signal")
        gang.pc += 1
        return True

    # -- vectors

    def _computed(self, gang: Gang, dst: int, value: Vector, name: str, slow: bool = False) -> bool:
        gang.vectors[dst] = value
        cost = self.context.costs.compute(gang.kind, value.element, value.lanes, slow)
        self._spend(gang, gang.time, cost, "", name)
        gang.pc += 1
        return True

    def _vector_binary(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorBinary)
        a, b, mask = self._v(gang, i.a), self._v(gang, i.b), self._mask(gang, i.mask)
        value = self.lanes.binary(i.op, a, b, mask, self.site(gang))
        return self._computed(gang, i.dst, value, i.op.name.lower())

    def _vector_unary(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorUnary)
        value = self.lanes.unary(i.op, self._v(gang, i.a), self._mask(gang, i.mask), self.site(gang))
        return self._computed(gang, i.dst, value, i.op.name.lower(), i.op in SLOW_UNARY)

    def _vector_multiply_add(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorMultiplyAdd)
        a, b, c = self._v(gang, i.a), self._v(gang, i.b), self._v(gang, i.c)
        mask, site = self._mask(gang, i.mask), self.site(gang)
        product = self.lanes.binary(im.BinaryOperator.MUL, a, b, None, site)
        total = self.lanes.binary(im.BinaryOperator.ADD, product, c, None, site)
        if mask is not None:
            total = Vector(total.element, np.where(mask.data.astype(np.bool_), total.data, a.data))
        return self._computed(gang, i.dst, total, "multiply-add")

    def _vector_compare(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorCompare)
        a, b, mask = self._v(gang, i.a), self._v(gang, i.b), self._mask(gang, i.mask)
        value = self.lanes.compare(i.op, a, b, mask, self.site(gang))
        return self._computed(gang, i.dst, value, f"compare {i.op.name.lower()}")

    def _vector_select(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorSelect)
        condition, a, b = self._v(gang, i.condition), self._v(gang, i.a), self._v(gang, i.b)
        data = np.where(condition.data.astype(np.bool_), a.data, b.data)
        return self._computed(gang, i.dst, Vector(a.element, data), "select")

    def _vector_cast(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorCast)
        value = self.lanes.cast(self._v(gang, i.a), i.element, self.site(gang))
        return self._computed(gang, i.dst, value, f"cast to {i.element.mlir}")

    def _shuffle(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.Shuffle)
        descriptor = self.context.image.shuffles[i.descriptor]
        picked = [self._s(gang, register) for register in descriptor.variables]
        mask = self._mask(gang, descriptor.mask)
        value = self.lanes.shuffle(self._v(gang, i.a), descriptor, picked, mask, self.site(gang))
        return self._computed(gang, i.dst, value, "shuffle")

    def _vector_constant(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorConstant)
        key = (i.constant, len(gang))
        if key not in self._constants:
            constant = self.context.image.constants[i.constant]
            self._constants[key] = self.lanes.constant(
                constant.element, constant.patterns(), len(gang), self.site(gang)
            )
        gang.vectors[i.dst] = self._constants[key]
        gang.pc += 1
        return True

    def _vector_rotate(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorRotate)
        vector = self._v(gang, i.a)
        amounts = spread(self._s(gang, i.amount), len(gang)) * (-1 if i.left else 1)
        lanes = (np.arange(vector.lanes)[None, :] - amounts[:, None]) % vector.lanes
        data = np.take_along_axis(vector.data, lanes, axis=1)
        return self._computed(gang, i.dst, Vector(vector.element, data), "rotate")

    def _vector_move(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.VectorMove)
        gang.vectors[i.dst] = self._v(gang, i.a)
        gang.pc += 1
        return True

    def _opaque(self, cohort: Cohort, gang: Gang, i: im.Instruction) -> bool:
        assert isinstance(i, im.CallOpaque)
        site = self.site(gang)
        opaque = self.context.image.opaques[i.descriptor]
        if len(opaque.outputs) != 1:
            raise OutOfRangeFault(
                f"opaque operation {opaque.function} with {len(opaque.outputs)} results", site=site
            )
        registers = self._registers(gang, opaque.memory)
        zero = np.zeros(len(gang), np.int64)
        inputs: list[Vector] = []
        for operand in opaque.inputs:
            step = operand.element.storage_bits // 8
            offsets = operand.offset_bytes + np.arange(operand.lanes, dtype=np.int64) * step
            data = registers.load(zero, offsets, step, site)
            inputs.append(self.lanes.from_bytes(operand.element, data, site))
        if i.descriptor not in self._opaque_attributes:
            self._opaque_attributes[i.descriptor] = parse_parameters(opaque.parameters, site)
        out = opaque.outputs[0]
        value = self.lanes.named(
            opaque.function, inputs, out.element, self._opaque_attributes[i.descriptor], site
        )
        step = out.element.storage_bits // 8
        offsets = out.offset_bytes + np.arange(out.lanes, dtype=np.int64) * step
        registers.store(zero, offsets, step, self.lanes.to_bytes(value), site)
        cost = self.context.costs.compute(gang.kind, out.element, out.lanes, is_slow(opaque.function))
        self._spend(gang, gang.time, cost, "", opaque.function)
        gang.pc += 1
        return True
