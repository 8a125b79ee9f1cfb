"""Hypothesis strategies that grow whole programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from tensor_programs import statements as s
from tensor_programs.growing import Growing
from tensor_programs.program import Program

Statement = Callable[[Growing], object]

#: Statements by weight.
_PLAIN: Final[tuple[tuple[Statement, int], ...]] = (
    (s.binary, 6),
    (s.unary, 3),
    (s.cast, 1),
    (s.movement, 4),
    (s.view, 2),
    (s.reduction, 3),
    (s.product, 1),
    (s.stored, 1),
    (s.write, 3),
    (s.in_place, 3),
    (s.exchange, 1),
    (s.gather, 1),
    (s.bit_cast, 2),
    (s.elsewhere, 2),
    (s.forget, 1),
)
_TABLE: Final = tuple(f for f, weight in _PLAIN for _ in range(weight))
#: What a program is sure to have with a probability in percent.
_EPISODES: Final[tuple[tuple[Statement, int], ...]] = (
    (s.two_views, 35),
    (s.write, 45),
    (s.chain, 75),
    (s.symbolic, 20),
)

_LENGTHS: Final = (1, 2, 3, 4, 5, 6, 8, 9, 12, 17, 64, 70)


def _inputs(g: Growing) -> None:
    dtype = g.pick(("int32", "float32"))
    rows, columns = g.pick(_LENGTHS), g.pick(_LENGTHS)
    for shape in ((rows, columns), (columns,), (rows, 1), (columns, rows), (2, rows, 3))[: 1 + g.choose(5)]:
        g.load(shape, dtype if g.chance(85) else "int32")


def grow(choose: Callable[[int], int]) -> Program:
    """A program made of the numbers that `choose` gives (each below its argument)."""
    g = Growing(choose)
    _inputs(g)
    todo = [g.pick(_TABLE) for _ in range(2 + g.choose(7))]
    for episode, percent in _EPISODES:
        if g.chance(percent):
            todo.insert(g.choose(len(todo) + 1), episode)
    for statement in todo:
        statement(g)
    names = tuple(g.names)
    outputs = list(dict.fromkeys((*g.wanted, *(g.pick(names) for _ in range(1 + g.choose(3))))))
    g.finish(outputs)
    rest = list(names)
    order = tuple(rest.pop(g.choose(len(rest))) for _ in names)
    return Program(
        tuple(g.inputs),
        tuple(g.lines),
        names,
        tuple(outputs),
        order,
        _pauses(g),
        g.symbol,
        g.choose(1000),
        g.write_after_read,
        g.two_live_views,
    )


def _pauses(g: Growing) -> tuple[tuple[int, str], ...]:
    """Lines after which a name that is there (and stays) is realised."""
    made = {name: facts.made for name, facts in g.names.items()}
    out = []
    for _ in range(g.choose(3)):
        at = g.choose(len(g.lines))
        there = [n for n, m in made.items() if m <= at]
        if there:
            out.append((at, g.pick(there)))
    return tuple(out)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of 2 to about 30 lines."""
    return grow(lambda n: draw(st.integers(0, n - 1)))
