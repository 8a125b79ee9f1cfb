"""A program that is being written: what its names stand for, and what was done to storage so far."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

import attrs

from tensor_programs.program import Input, Shape, Symbol

T = TypeVar("T")

#: Where the inputs are.
HOME = "cpu"
#: Most elements of a value.
LARGEST = 5000


@attrs.define
class Name:
    """What a name stands for now. ``storage``: the number of the storage that it is, or is a slice of; None for an
    expression. ``slice_of``: likewise, for a slice only. ``made`` and ``read``: numbers of lines. ``device``: where it
    is."""

    shape: Shape
    dtype: str
    storage: int | None = None
    slice_of: int | None = None
    made: int = 0
    read: int = 0
    device: str = HOME

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@attrs.define
class Growing:
    """``choose(n)`` draws a number below n. ``names`` are alive, in order of creation;
    ``wanted`` are to be outputs."""

    choose: Callable[[int], int]
    inputs: list[Input] = attrs.field(factory=list)
    lines: list[str] = attrs.field(factory=list)
    names: dict[str, Name] = attrs.field(factory=dict)
    wanted: list[str] = attrs.field(factory=list)
    symbol: Symbol | None = None
    write_after_read: bool = False
    two_live_views: bool = False
    _count: int = 0
    _read: set[int] = attrs.field(factory=set)
    _slices: dict[int, list[Name]] = attrs.field(factory=dict)

    def chance(self, percent: int) -> bool:
        return self.choose(100) < percent

    def pick(self, options: Sequence[T]) -> T:
        return options[self.choose(len(options))]

    def name(self, wanted: Callable[[Name], bool] = lambda n: True, beside: str | None = None) -> str | None:
        """A live name with a property, rather a late one; one that is on the device of `beside`."""
        here = None if beside is None else self.names[beside].device
        fitting = [n for n, facts in self.names.items() if wanted(facts) and here in (None, facts.device)]
        if not fitting:
            return None
        return self.pick(fitting[-4:] if self.chance(60) else fitting)

    def load(self, shape: Shape, dtype: str) -> str:
        """A new input."""
        self.inputs.append(Input(shape, dtype, self.choose(1000)))
        at = len(self.inputs) - 1
        return self.add(f"load({at})", shape, dtype, storage=at)

    def add(
        self,
        text: str,
        shape: Shape,
        dtype: str,
        storage: int | None = None,
        slice_of: int | None = None,
        device: str | None = None,
    ) -> str:
        """``name = text``; it is where what it is made of is, unless a device is given."""
        new = f"v{self._count}"
        self._count += 1
        if device is None:
            device = next((self.names[n].device for n in re.findall(r"v\d+", text)), HOME)
        facts = Name(shape, dtype, storage, slice_of, len(self.lines), len(self.lines), device)
        self.names[new] = facts
        self.lines.append(f"{new} = {text}")
        if slice_of is not None:
            self._slices.setdefault(slice_of, []).append(facts)
        return new

    def read(self, *names: str) -> None:
        """The next line reads these."""
        for name in names:
            facts = self.names[name]
            facts.read = len(self.lines)
            if facts.storage is not None:
                self._read.add(facts.storage)

    def write(self, name: str, text: str, part: bool = True) -> None:
        """A line that writes to `name`; an expression of which a part is written becomes storage."""
        facts = self.names[name]
        if facts.storage is not None:
            self.write_after_read |= facts.storage in self._read
        elif part:
            facts.storage = len(self.inputs) + len(self.lines)
        self.lines.append(text)

    def drop(self, name: str) -> None:
        del self.names[name]
        self.wanted = [w for w in self.wanted if w != name]
        self.lines.append(f"del {name}")

    def finish(self, outputs: Sequence[str]) -> None:
        """`outputs` are read at the end; finds out about slices of one storage that are alive together."""
        self.read(*outputs)
        for slices in self._slices.values():
            for a, b in combinations(slices, 2):
                self.two_live_views |= max(a.made, b.made) < min(a.read, b.read)
