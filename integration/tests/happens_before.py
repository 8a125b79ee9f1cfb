"""An independent reading of an image: what its units access, what they exchange, and what is ordered before what.

Control flow of an image never depends on vector data, so what each unit does can be listed without simulating
anything: accesses with their bytes, sends and receives with where the value comes from, signals. Those lists and
the rules of queues, signals and copies give a partial order. `meaning` is equal for two images exactly if their units
do the same accesses and exchanges, and every two accesses that conflict are ordered the same way in both. Units and
register memories are known by name: their numbers differ between two images of one kernel where one exchanges less.

Nothing of the simulator is used.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import attrs

from dfsched import image as im

COPY_QUEUE_DEPTH = 4
STICK = 128
MAX_EVENTS = 50_000

Value: TypeAlias = int
"""A number that stands for how a vector was computed; equal only for equal computations."""
MemoryKey: TypeAlias = tuple[str, int, int]
"""Kind, core and corelet; -1 where there is one for all."""
Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""From the first byte to behind the last one."""
UnitName: TypeAlias = str


_REGISTER = "register "
"""Begins the kind of memories that only their unit accesses."""


class Stuck(Exception):
    """Some unit waits for something that nobody does."""


@attrs.frozen
class Access:
    """Bytes read or written (as sorted, disjoint ranges), and of what is written how it was computed."""

    memory: MemoryKey
    ranges: Ranges
    writing: bool
    value: Value = 0


@attrs.frozen
class Copy:
    """An asynchronous copy: what it reads, then what it writes."""

    accesses: tuple[Access, Access]


@attrs.frozen
class Send:
    other: str
    value: Value


@attrs.frozen
class Receive:
    other: str


@attrs.frozen
class Signal:
    other: str
    after_copies: bool


@attrs.frozen
class Wait:
    other: str


Event: TypeAlias = Access | Copy | Send | Receive | Signal | Wait


# -- what a unit does


class _Reader:
    """Lists the events of one unit in one launch."""

    def __init__(
        self,
        image: im.Image,
        cells: Sequence[int],
        program: im.UnitProgram,
        row: int,
        parameters: Sequence[int],
    ) -> None:
        self.image, self.cells, self.program, self.row = image, cells, program, row
        self.unit = image.units[program.units[row]]
        self.scalars = dict(enumerate(parameters))
        self.vectors: dict[int, Value] = {}
        self.views: dict[int, tuple[int, int, im.View]] = {}
        self.register_memory: dict[tuple[str, int], Value] = {}  # by byte
        self.received: dict[UnitName, int] = defaultdict(int)
        self.events: list[Event] = []
        self.loads = 0

    def column(self, index: int) -> int:
        return self.cells[self.program.cell(self.row, index)]

    def partner(self, index: int) -> UnitName:
        return self.image.units[self.column(index)].name

    def run(self) -> list[Event]:
        for instruction in steps(self.program.code, self.scalars, self.column):
            self._do(instruction)
            if len(self.events) > MAX_EVENTS:
                raise Stuck(f"{self.unit.name} does more than {MAX_EVENTS} things")
        return self.events

    def _do(self, i: im.Instruction) -> None:
        match i:
            case im.MakeView():
                memory = i.memory.index if isinstance(i.memory, im.MemoryId) else self.column(i.memory.index)
                start = (
                    self.column(i.start.index)
                    if isinstance(i.start, im.Column)
                    else self.scalars[i.start.index]
                )
                view = self.image.views[i.descriptor]
                self.views[i.dst] = (memory, start * view.start_unit, view)
            case im.VectorLoad():
                self.vectors[i.dst] = self._load(*self._bytes(i.view, i.generator, 0))
            case im.VectorStore():
                self._store(*self._bytes(i.view, i.generator, 0), self.vectors[i.source])
            case im.Dma():
                key, ranges = self._bytes(i.source, i.generator, 0)
                to_key, to_ranges = self._bytes(i.target, i.generator, 1)
                lanes = hash((key, ranges))
                pair = (Access(key, merged(ranges), False), Access(to_key, merged(to_ranges), True, lanes))
                self.events.append(Copy(pair))
            case im.Send():
                self.events.append(Send(self.partner(i.unit), self.vectors[i.source]))
            case im.Receive():
                other = self.partner(i.unit)
                self.events.append(Receive(other))
                self.vectors[i.dst] = hash(("received", other, self.received[other], i.element, i.lanes))
                self.received[other] += 1
            case im.SyncSend():
                self.events.append(Signal(self.partner(i.unit), i.wait))
            case im.SyncReceive():
                self.events.append(Wait(self.partner(i.unit)))
            case im.CallOpaque():
                called = self.image.opaques[i.descriptor]
                registers = self.image.memories[called.memory].name
                read = tuple(self._from_registers(registers, _lanes_at(o)) for o in called.inputs)
                for output in called.outputs:
                    made = hash((called.function, called.parameters, output.name, read))
                    self._to_registers(registers, _lanes_at(output), made)
            case _:
                self._compute(i)

    def _compute(self, i: im.Instruction) -> None:
        """Any lane-wise instruction: its result is what it is and what its operands are."""
        target: int | None = None
        parts: list[object] = [i.mnemonic]
        for name, role, value in im.operands(i):
            parts.append(name)
            match role:
                case im.Role.VECTOR_DEF:
                    target = value
                case im.Role.VECTOR:
                    parts.append(self.vectors[value])
                case im.Role.SCALAR:
                    parts.append(self.scalars[value])
                case im.Role.CONSTANT:
                    parts.append(self.image.constants[value])
                case im.Role.SHUFFLE:
                    shuffle = self.image.shuffles[value]
                    parts += [shuffle, *(self.scalars[v] for v in shuffle.variables)]
                    parts.append(None if shuffle.mask is None else self.vectors[shuffle.mask])
                case _:
                    parts.append(value)
        if target is not None:
            self.vectors[target] = hash(tuple(parts))

    def _bytes(self, register: int, generator: int, side_number: int) -> tuple[MemoryKey, Ranges]:
        """The memory, and the byte range of every element in the order of lanes."""
        memory_index, start, view = self.views[register]
        memory = self.image.memories[memory_index]
        described = self.image.generators[generator]
        side = described.sides[side_number]
        width = view.element.storage_bits // 8
        base = [
            constant + sum(c * self.scalars[r] for r, c in zip(side.registers, row, strict=True) if c)
            for constant, row in zip(side.base, side.coefficients, strict=True)
        ]
        ranges = []
        for time in itertools.product(*map(range, described.time_extents)):
            moved = [
                b + sum(c * t for c, t in zip(row, time, strict=True))
                for b, row in zip(base, side.time_coefficients, strict=True)
            ]
            for point in side.lanes.points():
                index = [m + p for m, p in zip(moved, point, strict=True)]
                element = view.constant + sum(c * n for c, n in zip(view.coefficients, index, strict=True))
                at = start + element * width
                ranges.append((at, at + width))
        if memory.memory_class is im.MemoryClass.REGISTER:
            return (f"{_REGISTER}{memory.name}", -1, -1), tuple(ranges)
        if memory.memory_class is im.MemoryClass.GLOBAL:
            return (memory.kind, -1, -1), tuple(ranges)
        return (memory.kind, memory.core, memory.corelet), tuple(ranges)

    def _from_registers(self, memory: str, ranges: Ranges) -> Value:
        """What stands in the bytes, whether one store or several left it there."""
        cells = (self.register_memory.get((memory, at), 0) for low, high in ranges for at in range(low, high))
        return hash(tuple(cells))

    def _to_registers(self, memory: str, ranges: Ranges, value: Value) -> None:
        for lane, (low, high) in enumerate(ranges):
            for at in range(low, high):
                self.register_memory[memory, at] = hash((value, lane, at - low))

    def _load(self, key: MemoryKey, ranges: Ranges) -> Value:
        if key[0].startswith(_REGISTER):
            return self._from_registers(key[0].removeprefix(_REGISTER), ranges)
        self.events.append(Access(key, merged(ranges), False))
        self.loads += 1
        return hash((key, ranges, self.loads))

    def _store(self, key: MemoryKey, ranges: Ranges, value: Value) -> None:
        if key[0].startswith(_REGISTER):
            self._to_registers(key[0].removeprefix(_REGISTER), ranges, value)
        else:
            self.events.append(Access(key, merged(ranges), True, hash((value, ranges))))


def _lanes_at(operand: im.OpaqueOperand) -> Ranges:
    width = operand.element.storage_bits // 8
    start = operand.offset_bytes
    return tuple((start + lane * width, start + (lane + 1) * width) for lane in range(operand.lanes))


def merged(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Sorted ranges; those that touch or overlap become one."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def steps(
    code: Sequence[im.Instruction], scalars: dict[int, int], column: Callable[[int], int]
) -> Iterator[im.Instruction]:
    """Run the control flow of a program: yields every instruction that is neither scalar nor control."""
    pc = 0
    loops: list[tuple[int, int]] = []
    while pc < len(code):
        i = code[pc]
        pc += 1
        match i:
            case im.Halt():
                return
            case im.LoadImmediate():
                scalars[i.dst] = i.value
            case im.LoadColumn():
                scalars[i.dst] = column(i.column)
            case im.Move():
                scalars[i.dst] = scalars[i.source]
            case im.ScalarBinary():
                right = i.b.value if isinstance(i.b, im.Immediate) else scalars[i.b.index]
                scalars[i.dst] = _scalar(i.op, scalars[i.a], right)
            case im.ScalarCompare():
                scalars[i.dst] = int(_compare(i.predicate, scalars[i.a], scalars[i.b]))
            case im.ScalarSelect():
                scalars[i.dst] = scalars[i.a] if scalars[i.condition] else scalars[i.b]
            case im.For():
                scalars[i.iv], last = scalars[i.lower], scalars[i.upper]
                if scalars[i.iv] >= last:
                    pc += i.end
                else:
                    loops.append((pc - 1, last))
            case im.EndFor():
                head, last = loops[-1]
                loop = code[head]
                assert isinstance(loop, im.For)
                scalars[loop.iv] += loop.step
                if scalars[loop.iv] < last:
                    pc = head + 1
                else:
                    loops.pop()
            case im.BranchIfZero():
                pc = pc if scalars[i.condition] else pc - 1 + i.target
            case im.Branch():
                pc = pc - 1 + i.target
            case _:
                yield i


def _scalar(op: im.ScalarOp, a: int, b: int) -> int:
    match op:
        case im.ScalarOp.ADD:
            return a + b
        case im.ScalarOp.SUB:
            return a - b
        case im.ScalarOp.MUL:
            return a * b
        case im.ScalarOp.FLOORDIVS:
            return a // b
        case im.ScalarOp.CEILDIVS:
            return -(-a // b)
        case im.ScalarOp.DIVS | im.ScalarOp.DIVU if a >= 0 and b > 0:
            return a // b
        case im.ScalarOp.REMS | im.ScalarOp.REMU if a >= 0 and b > 0:
            return a % b
        case im.ScalarOp.MINS:
            return min(a, b)
        case im.ScalarOp.MAXS:
            return max(a, b)
        case im.ScalarOp.AND:
            return a & b
        case im.ScalarOp.OR:
            return a | b
        case im.ScalarOp.XOR:
            return a ^ b
        case _:
            raise NotImplementedError(f"{op.name} of {a} and {b}")


def _compare(predicate: im.Predicate, a: int, b: int) -> bool:
    match predicate.name.removeprefix("S").removeprefix("U"):
        case "EQ":
            return a == b
        case "NE":
            return a != b
        case "LT":
            return a < b
        case "LE":
            return a <= b
        case "GT":
            return a > b
        case "GE":
            return a >= b
        case other:
            raise NotImplementedError(other)


# -- launches


def launches(image: im.Image, cells: Sequence[int]) -> Iterator[dict[UnitName, list[Event]]]:
    """The events of every unit, in the order of names, for each program that the coordinator launches."""
    scalars: dict[int, int] = {}
    first = image.coordinator.first_cell
    for i in steps(image.coordinator.code, scalars, lambda column: cells[first + column]):
        assert isinstance(i, im.Launch)
        program = image.programs[i.program]
        parameters = [scalars[i.first + k] for k in range(len(program.parameters))]
        found = {
            image.units[unit].name: _Reader(image, cells, part, row, parameters).run()
            for part in program.unit_programs
            for row, unit in enumerate(part.units)
        }
        yield dict(sorted(found.items()))


# -- order


@attrs.define
class _Graph:
    """Things that happen, and what must have happened before each of them."""

    before: list[list[int]] = attrs.Factory(list)
    accesses: list[tuple[int, Access]] = attrs.Factory(list)

    def add(self, *before: int | None) -> int:
        self.before.append([node for node in before if node is not None])
        return len(self.before) - 1

    def ancestors(self) -> list[int]:
        """For every node the set (as bits) of what is ordered before it; `Stuck` if the order has a cycle."""
        following: list[list[int]] = [[] for _ in self.before]
        missing = [len(set(nodes)) for nodes in self.before]
        for node, nodes in enumerate(self.before):
            for earlier in set(nodes):
                following[earlier].append(node)
        ready = [node for node, count in enumerate(missing) if not count]
        found = [0] * len(self.before)
        done = 0
        while ready:
            node = ready.pop()
            done += 1
            for later in following[node]:
                found[later] |= found[node] | 1 << node
                missing[later] -= 1
                if not missing[later]:
                    ready.append(later)
        if done < len(self.before):
            raise Stuck("units wait for one another")
        return found


def _graph(image: im.Image, events: dict[UnitName, list[Event]]) -> _Graph:
    graph = _Graph()
    sends: dict[tuple[UnitName, UnitName], list[int]] = defaultdict(list)
    receives: dict[tuple[UnitName, UnitName], list[int]] = defaultdict(list)
    signals: dict[tuple[UnitName, UnitName], list[int]] = defaultdict(list)
    waits: dict[tuple[UnitName, UnitName], list[int]] = defaultdict(list)
    for unit, mine in events.items():
        last: int | None = None
        copied: list[int] = []
        for event in mine:
            match event:
                case Copy(accesses=accesses):
                    room = copied[-COPY_QUEUE_DEPTH] if len(copied) >= COPY_QUEUE_DEPTH else None
                    last = graph.add(last, room)
                    done = graph.add(last, copied[-1] if copied else None)
                    copied.append(done)
                    graph.accesses += [(done, access) for access in accesses]
                case Access():
                    last = graph.add(last, copied[-1] if copied else None)
                    graph.accesses.append((last, event))
                case Send(other=other):
                    last = graph.add(last)
                    sends[unit, other].append(last)
                case Receive(other=other):
                    last = graph.add(last)
                    receives[other, unit].append(last)
                case Signal(other=other, after_copies=after):
                    last = graph.add(last, copied[-1] if after and copied else None)
                    signals[unit, other].append(last)
                case Wait(other=other):
                    last = graph.add(last)
                    waits[other, unit].append(last)
    names = [unit.name for unit in image.units]
    depths = {(names[fifo.source], names[fifo.target]): fifo.depth for fifo in image.fifos}
    for made, taken in ((sends, receives), (signals, waits)):
        for key in made.keys() | taken.keys():
            if len(made[key]) != len(taken[key]):
                raise Stuck(f"{len(made[key])} from {key[0]} to {key[1]}, and {len(taken[key])} taken")
            for earlier, later in zip(made[key], taken[key], strict=True):
                graph.before[later].append(earlier)
    for key, nodes in sends.items():
        for earlier, later in zip(receives[key], nodes[depths[key] :], strict=False):
            graph.before[later].append(earlier)
    return graph


def _conflicts(accesses: Sequence[tuple[int, Access]]) -> Iterator[tuple[int, int]]:
    """Pairs of positions of accesses to common bytes, one of which writes."""
    sticks: dict[tuple[MemoryKey, int], list[int]] = defaultdict(list)
    for position, (_, access) in enumerate(accesses):
        touched = {s for low, high in access.ranges for s in range(low // STICK, -(-high // STICK))}
        for stick in touched:
            sticks[access.memory, stick].append(position)
    seen = set()
    for positions in sticks.values():
        for a, b in itertools.combinations(positions, 2):
            x, y = accesses[a][1], accesses[b][1]
            if (x.writing or y.writing) and (a, b) not in seen and _overlap(x.ranges, y.ranges):
                seen.add((a, b))
                yield a, b


def _overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    return any(low < high2 and low2 < high for low, high in a for low2, high2 in b)


@attrs.frozen
class LaunchMeaning:
    """What the units do, and the conflicting accesses with the first before the second (else unordered)."""

    events: tuple[tuple[UnitName, tuple[Event, ...]], ...]
    ordered: frozenset[tuple[int, int]]
    unordered: frozenset[tuple[int, int]]


def meaning(image: im.Image, cells: Sequence[int]) -> tuple[LaunchMeaning, ...]:
    """What an image does and in which order, a launch after the other.

    Events without signals: those only make order. Raises `Stuck` where units would wait for ever.
    """
    found = []
    for events in launches(image, cells):
        graph = _graph(image, events)
        ancestors = graph.ancestors()
        ordered, unordered = set(), set()
        for a, b in _conflicts(graph.accesses):
            x, y = graph.accesses[a][0], graph.accesses[b][0]
            if x == y or ancestors[y] >> x & 1:
                ordered.add((a, b))
            elif ancestors[x] >> y & 1:
                ordered.add((b, a))
            else:
                unordered.add((a, b))
        done = tuple(
            (u, tuple(e for e in mine if not isinstance(e, Signal | Wait))) for u, mine in events.items()
        )
        found.append(LaunchMeaning(done, frozenset(ordered), frozenset(unordered)))
    return tuple(found)
