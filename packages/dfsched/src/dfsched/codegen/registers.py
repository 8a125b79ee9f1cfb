"""Register allocation: virtual registers of straight code with structured loops, by linear scan.

Code generation emits instructions with virtual register numbers, one per value; loop-carried values share
one.  A value lives from its first to its last mention; if it was there before a loop and is read inside, it
lives to the loop's end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import define, field, frozen

from dfsched.image import AddressGenerator, EndFor, For, Instruction, Launch, Register, ShuffleDescriptor
from dfsched.image.fields import Role
from dfsched.image.instructions import PLACED_FIELDS, operands

__all__ = ["Allocated", "VirtualCode"]

_FILES = {
    Role.SCALAR: "s",
    Role.SCALAR_DEF: "s",
    Role.VECTOR: "v",
    Role.VECTOR_DEF: "v",
    Role.VIEW: "w",
    Role.VIEW_DEF: "w",
}


@frozen
class Allocated:
    """Code with real registers; `counts` per file (``s``, ``v``, ``w``)."""

    code: tuple[Instruction, ...]
    generators: tuple[AddressGenerator, ...]
    shuffles: tuple[ShuffleDescriptor, ...]
    counts: Mapping[str, int]


@define
class VirtualCode:
    """Instructions with virtual registers; generators and shuffles are numbered locally.

    Registers ``s0 .. s(fixed - 1)`` are what they say (launch parameters) and live from the start.
    """

    fixed: int = 0
    code: list[Instruction] = field(factory=list)
    generators: list[AddressGenerator] = field(factory=list)
    shuffles: list[ShuffleDescriptor] = field(factory=list)

    def references(self, instruction: Instruction) -> Iterator[tuple[str, int]]:
        """Every register that an instruction mentions, those of its descriptors included."""
        if isinstance(instruction, Launch):  # reads its window, which is fixed
            yield from (("s", register) for register in range(self.fixed))
            return
        for _, role, number in operands(instruction):
            if role in _FILES:
                yield _FILES[role], number
            elif role is Role.GENERATOR:
                for side in self.generators[number].sides:
                    yield from (("s", register) for register in side.registers)
            elif role is Role.SHUFFLE:
                shuffle = self.shuffles[number]
                yield from (("s", register) for register in shuffle.variables)
                if shuffle.mask is not None:
                    yield "v", shuffle.mask

    def allocate(self) -> Allocated:
        """The same code with as few registers as linear scan needs."""
        intervals = self._intervals()
        numbers: dict[tuple[str, int], int] = {}
        counts = {}
        for name in ("s", "v", "w"):
            mine = {key[1]: span for key, span in intervals.items() if key[0] == name}
            fixed = self.fixed if name == "s" else 0
            assigned, counts[name] = _scan(mine, fixed)
            numbers.update({(name, virtual): real for virtual, real in assigned.items()})
        return Allocated(
            tuple(_renumber(instruction, numbers) for instruction in self.code),
            tuple(_renumber_generator(generator, numbers) for generator in self.generators),
            tuple(_renumber_shuffle(shuffle, numbers) for shuffle in self.shuffles),
            counts,
        )

    def _intervals(self) -> dict[tuple[str, int], tuple[int, int]]:
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        mentions: dict[tuple[str, int], list[int]] = {}

        def mention(key: tuple[str, int], position: int) -> None:
            mentions.setdefault(key, []).append(position)
            first, last = spans.get(key, (position, position))
            spans[key] = (min(first, position), max(last, position))

        for register in range(self.fixed):
            mention(("s", register), -1)
        loops: list[tuple[int, int]] = []
        for position, instruction in enumerate(self.code):
            for key in self.references(instruction):
                mention(key, position)
            match instruction:
                case For(end=end):
                    loops.append((position, position + end))
                case EndFor(head=head):
                    loop = self.code[position + head]
                    assert isinstance(loop, For)
                    mention(("s", loop.iv), position)
        # Outer loops last, so that an extension into an inner loop is carried on to the outer one.
        for head, end in sorted(loops, key=lambda loop: loop[1] - loop[0]):
            for key, positions in mentions.items():
                first, last = spans[key]
                if first < head and last < end and any(head < position < end for position in positions):
                    spans[key] = (first, end)
        return spans


def _scan(intervals: Mapping[int, tuple[int, int]], fixed: int) -> tuple[dict[int, int], int]:
    """Real numbers for the virtual registers of one file, and how many there are."""
    assigned: dict[int, int] = {number: number for number in range(fixed)}
    active: list[tuple[int, int]] = [(intervals[n][1], n) for n in range(fixed)]
    heapq.heapify(active)
    free: list[int] = []
    count = fixed
    for virtual, (first, last) in sorted(intervals.items(), key=lambda item: (item[1], item[0])):
        if virtual < fixed:
            continue
        while active and active[0][0] <= first:
            heapq.heappush(free, heapq.heappop(active)[1])
        if free:
            real = heapq.heappop(free)
        else:
            real, count = count, count + 1
        assigned[virtual] = real
        heapq.heappush(active, (last, real))
    return assigned, count


Numbers = Mapping[tuple[str, int], int]


def _renumber(instruction: Instruction, numbers: Numbers) -> Instruction:
    if isinstance(instruction, Launch):
        return instruction
    changes: dict[str, Any] = {}
    roles = {name: (role, number) for name, role, number in operands(instruction)}
    for item in PLACED_FIELDS[type(instruction)]:
        role, number = roles.get(item.name, (Role.PLAIN, 0))
        if role in _FILES:
            real = numbers[_FILES[role], number]
            old = getattr(instruction, item.name)
            changes[item.name] = Register(real) if isinstance(old, Register) else real
    return attrs.evolve(instruction, **changes)


def _renumber_generator(generator: AddressGenerator, numbers: Numbers) -> AddressGenerator:
    sides = tuple(
        attrs.evolve(side, registers=_map("s", side.registers, numbers)) for side in generator.sides
    )
    return attrs.evolve(generator, sides=sides)


def _renumber_shuffle(shuffle: ShuffleDescriptor, numbers: Numbers) -> ShuffleDescriptor:
    mask = None if shuffle.mask is None else numbers["v", shuffle.mask]
    return attrs.evolve(shuffle, variables=_map("s", shuffle.variables, numbers), mask=mask)


def _map(name: str, registers: Iterable[int], numbers: Numbers) -> tuple[int, ...]:
    return tuple(numbers[name, register] for register in registers)


def parallel_copy(moves: Sequence[tuple[int, int]], temporary: int) -> list[tuple[int, int]]:
    """Moves ``(target, source)`` that happen at once, as a sequence; cycles go through `temporary`.

    >>> parallel_copy([(1, 2), (2, 1)], 9)
    [(9, 1), (1, 2), (2, 9)]
    """
    pending = [(target, source) for target, source in moves if target != source]
    sequence: list[tuple[int, int]] = []
    while pending:
        sources = {source for _, source in pending}
        ready = next((move for move in pending if move[0] not in sources), None)
        if ready is None:  # only cycles are left: save one target and read the copy instead
            target = pending[0][0]
            sequence.append((temporary, target))
            pending = [(t, temporary if s == target else s) for t, s in pending]
            continue
        sequence.append(ready)
        pending.remove(ready)
    return sequence
