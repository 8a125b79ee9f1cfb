"""A tensor program as text, and shares of programs that do what is worth testing."""

from __future__ import annotations

import attrs

Shape = tuple[int, ...]


@attrs.frozen
class Input:
    """An array of small integers: ``rng(seed)`` fills `shape`."""

    shape: Shape
    dtype: str
    seed: int


@attrs.frozen
class Symbol:
    """The integer ``p`` of a program: 0 <= p <= high. ``value``: when the text runs; ``other``: what a schedule is
    bound to afterwards."""

    high: int
    value: int
    other: int


@attrs.frozen
class Program:
    """``lines`` use ``load(i)`` for input i and ``p`` for the symbol. ``names``: what is alive at the end.
    ``outputs``: what is scheduled together. ``pauses``: after line i, name n is realised, in the run that realises in
    another order; ``order`` is that of the names at the end.
    """

    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    order: tuple[str, ...]
    pauses: tuple[tuple[int, str], ...]
    symbol: Symbol | None
    seed: int
    write_after_read: bool
    two_live_views: bool

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@attrs.define
class Shares:
    """How many of the programs have a property."""

    programs: int = 0
    having: dict[str, int] = attrs.field(factory=dict)
    largest: int = 0

    def add(self, program: Program, **facts: bool) -> None:
        self.programs += 1
        self.largest = max(self.largest, *(d for i in program.inputs for d in i.shape), 0)
        own = {
            "write after read": program.write_after_read,
            "two live views": program.two_live_views,
            "symbolic": program.symbol is not None,
            "bit-casts": "bitcast" in program.text,
            "devices": "cpu:1" in program.text,
        }
        for name, holds in {**own, **{k.replace("_", " "): v for k, v in facts.items()}}.items():
            self.having[name] = self.having.get(name, 0) + holds

    def percent(self, name: str) -> float:
        return 100 * self.having[name] / self.programs

    def __str__(self) -> str:
        parts = [f"{name} {self.percent(name):.0f} %" for name in sorted(self.having)]
        return f"{self.programs} programs: {', '.join(parts)}; dimensions up to {self.largest}"
