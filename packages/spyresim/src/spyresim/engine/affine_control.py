"""Whether a gang does again and again what it did in one period, and how often.

Control depends on scalars only, and scalars on nothing but scalars.  A period is run again with every scalar
as a function ``a + b * n`` of the number n of the period: a comparison that decides the same in periods
0, 1, ... up to some bound limits how often the period repeats; a scalar that does not grow evenly ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from dfsched import image as im
from dfsched.image import Predicate, ScalarOp
from spyresim.engine.scalars import binary
from spyresim.engine.state import Gang
from spyresim.engine.values import Scalar, simplify
from spyresim.errors import ArithmeticFault, Site

if TYPE_CHECKING:
    from spyresim.engine.process import Executor

MOST_PERIODS = 1 << 40
"""More than any loop of a simulation has."""

SAFE = 1 << 62
"""Numbers below do not wrap around, nor do their sums."""

DIVISIONS = {ScalarOp.DIVS, ScalarOp.DIVU, ScalarOp.FLOORDIVS}
REMAINDERS = {ScalarOp.REMS, ScalarOp.REMU}


class NotRepeated(Exception):
    """The period cannot be shown to repeat."""


@attrs.frozen
class Affine:
    """``start + slope * n``, one of each a row (or one for all)."""

    start: tuple[int, ...]
    slope: tuple[int, ...]

    @property
    def is_constant(self) -> bool:
        return not any(self.slope)

    def at(self, period: int) -> Scalar:
        """The value in a period."""
        values = [a + b * period for a, b in zip(self.start, self.slope, strict=True)]
        return values[0] if len(values) == 1 else simplify(np.array(values, np.int64))


Value: TypeAlias = Affine | None
"""None: not known."""


def _row(value: Scalar) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value.tolist())


def between(before: Scalar, after: Scalar) -> Affine:
    """What is `before` in period 0 and `after` in period 1."""
    a, b = _spread(_row(before), _row(after))
    return Affine(a, tuple(y - x for x, y in zip(a, b, strict=True)))


def _spread(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rows = max(len(a), len(b))
    return (a * rows if len(a) == 1 else a), (b * rows if len(b) == 1 else b)


@attrs.define
class _Loop:
    head: int
    value: Affine
    upper: Affine
    step: int


class Replay:
    """One gang's period, run with scalars as functions of the number of the period.

    `periods` is how many periods (from 0 on) are known to take the same way.
    """

    def __init__(
        self, executor: Executor, gang: Gang, pc: int, scalars: list[Value], loops: list[_Loop]
    ) -> None:
        self.executor = executor
        self.gang = gang
        self.pc = pc
        self.scalars = scalars
        self.loops = loops
        self.periods = MOST_PERIODS

    def run(self, instructions: int) -> None:
        """`NotRepeated` where a decision depends on what is not known."""
        code = self.gang.program.code
        for _ in range(instructions):
            self._step(code[self.pc])

    def _known(self, register: int) -> Affine:
        value = self.scalars[register]
        if value is None:
            raise NotRepeated
        return value

    def _step(self, instruction: im.Instruction) -> None:
        match instruction:
            case im.LoadImmediate(dst=dst, value=number):
                self.scalars[dst] = Affine((number,), (0,))
            case im.LoadColumn(dst=dst, column=column):
                row = _row(self.executor.cell(self.gang, column))
                self.scalars[dst] = Affine(row, (0,) * len(row))
            case im.Move(dst=dst, source=source):
                self.scalars[dst] = self.scalars[source]
            case im.ScalarBinary(op=op, dst=dst, a=a, b=b):
                right = Affine((b.value,), (0,)) if isinstance(b, im.Immediate) else self.scalars[b.index]
                self.scalars[dst] = self._binary(op, self.scalars[a], right)
            case im.ScalarCompare(predicate=predicate, dst=dst, a=a, b=b):
                self.scalars[dst] = self._compare(predicate, self.scalars[a], self.scalars[b])
            case im.ScalarSelect(dst=dst, condition=condition, a=a, b=b):
                self.scalars[dst] = self._select(self.scalars[condition], self.scalars[a], self.scalars[b])
            case im.For(iv=iv, lower=lower, upper=upper, step=step, end=end):
                first, last = self._known(lower), self._known(upper)
                if self._uniform(Predicate.SGE, first, last):
                    self.pc += end + 1
                    return
                self.scalars[iv] = first
                self.loops.append(_Loop(self.pc, first, last, step))
            case im.EndFor():
                self._end()
                return
            case im.BranchIfZero(condition=condition, target=target):
                zero = self._uniform(Predicate.EQ, self._known(condition), Affine((0,), (0,)))
                self.pc += target if zero else 1
                return
            case im.Branch(target=target):
                self.pc += target
                return
            case im.Halt():
                raise NotRepeated
            case _:
                pass
        self.pc += 1

    def _end(self) -> None:
        loop = self.loops[-1]
        loop.value = Affine(tuple(a + loop.step for a in loop.value.start), loop.value.slope)
        if self._uniform(Predicate.SGE, loop.value, loop.upper):
            self.loops.pop()
            self.pc += 1
            return
        head = self.gang.program.code[loop.head]
        assert isinstance(head, im.For)
        self.scalars[head.iv] = loop.value
        self.pc = loop.head + 1

    # -- arithmetic

    def _binary(self, op: ScalarOp, a: Value, b: Value) -> Value:
        if a is None or b is None:
            return None
        rows = _aligned(a, b)
        found = [self._one(op, *row) for row in rows]
        if any(pair is None or abs(pair[0]) >= SAFE for pair in found):
            return None
        pairs = [pair for pair in found if pair is not None]
        for start, slope in pairs:
            if slope:
                self.periods = min(self.periods, (SAFE - abs(start)) // abs(slope))
        return Affine(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))

    def _one(self, op: ScalarOp, a: int, da: int, b: int, db: int) -> tuple[int, int] | None:
        """Start and slope of ``(a + da * n) op (b + db * n)``."""
        if da == 0 and db == 0:
            try:
                found = binary(op, a, b, Site())
            except ArithmeticFault:
                return None
            assert isinstance(found, int)
            return found, 0
        match op:
            case ScalarOp.ADD:
                return a + b, da + db
            case ScalarOp.SUB:
                return a - b, da - db
            case ScalarOp.MUL if db == 0:
                return a * b, da * b
            case ScalarOp.MUL if da == 0:
                return a * b, a * db
            case ScalarOp.MINS | ScalarOp.MAXS:
                first = self._decide(Predicate.SLE, a - b, da - db) == (op is ScalarOp.MINS)
                return (a, da) if first else (b, db)
            case _ if db == 0 and b > 0 and da % b == 0 and a >= 0 and (op in DIVISIONS or op in REMAINDERS):
                self._decide(Predicate.SGE, a, da)  # as long as the dividend is not negative
                return (a // b, da // b) if op in DIVISIONS else (a % b, 0)
            case _:
                return None

    def _compare(self, predicate: Predicate, a: Value, b: Value) -> Value:
        if a is None or b is None:
            return None
        truths = tuple(int(self._holds(predicate, *row)) for row in _aligned(a, b))
        return Affine(truths, (0,) * len(truths))

    def _select(self, condition: Value, a: Value, b: Value) -> Value:
        if condition is None or a is None or b is None:
            return None
        rows = max(len(condition.start), len(a.start), len(b.start))
        starts, slopes = [], []
        for row in range(rows):
            c, x, y = (v if len(v.start) == 1 else _of(v, row) for v in (condition, a, b))
            picked = y if self._holds(Predicate.EQ, c.start[0], c.slope[0], 0, 0) else x
            starts.append(picked.start[0])
            slopes.append(picked.slope[0])
        return Affine(tuple(starts), tuple(slopes))

    # -- decisions

    def _uniform(self, predicate: Predicate, a: Affine, b: Affine) -> bool:
        """A decision, which is the same in all rows."""
        truths = {self._holds(predicate, *row) for row in _aligned(a, b)}
        if len(truths) != 1:
            raise NotRepeated
        return truths.pop()

    def _holds(self, predicate: Predicate, a: int, da: int, b: int, db: int) -> bool:
        signed = _SIGNED.get(predicate)
        if signed is not None:
            if min(a, b) < 0:
                raise NotRepeated
            self._decide(Predicate.SGE, a, da)
            self._decide(Predicate.SGE, b, db)
            predicate = signed
        return self._decide(predicate, a - b, da - db)

    def _decide(self, predicate: Predicate, start: int, slope: int) -> bool:
        """Whether ``start + slope * n`` compares so with 0 for n = 0; limits `periods` to where it does."""
        holds = _TRUTH[predicate](start)
        if slope:
            self.periods = min(self.periods, _first_change(predicate, start, slope))
        return holds


def _first_change(predicate: Predicate, start: int, slope: int) -> int:
    """The first n at which the truth of ``start + slope * n`` against 0 is not that of n = 0."""
    if slope < 0:
        start, slope, predicate = -start, -slope, _MIRRORED[predicate]
    # the sign of a growing number: negative below `zero`, zero there at most, positive above
    first_not_negative = max(0, -(start // slope)) if start < 0 else 0
    candidates = sorted({1, first_not_negative, first_not_negative + 1, max(0, first_not_negative - 1)})
    truth = _TRUTH[predicate]
    for n in candidates:
        if n > 0 and truth(start + slope * n) != truth(start):
            return n
    return MOST_PERIODS


_TRUTH: dict[Predicate, Callable[[int], bool]] = {
    Predicate.EQ: lambda d: d == 0,
    Predicate.NE: lambda d: d != 0,
    Predicate.SLT: lambda d: d < 0,
    Predicate.SLE: lambda d: d <= 0,
    Predicate.SGT: lambda d: d > 0,
    Predicate.SGE: lambda d: d >= 0,
}
_MIRRORED = {
    Predicate.EQ: Predicate.EQ,
    Predicate.NE: Predicate.NE,
    Predicate.SLT: Predicate.SGT,
    Predicate.SLE: Predicate.SGE,
    Predicate.SGT: Predicate.SLT,
    Predicate.SGE: Predicate.SLE,
}
_SIGNED = {
    Predicate.ULT: Predicate.SLT,
    Predicate.ULE: Predicate.SLE,
    Predicate.UGT: Predicate.SGT,
    Predicate.UGE: Predicate.SGE,
}


def _aligned(a: Affine, b: Affine) -> list[tuple[int, int, int, int]]:
    rows = max(len(a.start), len(b.start))
    return [(*_of_pair(a, row), *_of_pair(b, row)) for row in range(rows)]


def _of_pair(value: Affine, row: int) -> tuple[int, int]:
    row = 0 if len(value.start) == 1 else row
    return value.start[row], value.slope[row]


def _of(value: Affine, row: int) -> Affine:
    start, slope = _of_pair(value, row)
    return Affine((start,), (slope,))


@attrs.frozen
class ControlState:
    """Where a gang stands: position, scalars, loops, and how many instructions it has done."""

    pc: int
    scalars: tuple[Scalar | None, ...]
    loops: tuple[tuple[int, int, int, int], ...]
    executed: int

    @staticmethod
    def of(gang: Gang) -> ControlState:
        loops = tuple((loop.head, loop.value, loop.upper, loop.step) for loop in gang.loops)
        return ControlState(gang.pc, tuple(gang.scalars), loops, gang.executed)


@attrs.frozen
class Repetition:
    """A period that repeats: so many times (the one that was run included), scalars and loops as functions
    of the number of the period."""

    periods: int
    scalars: tuple[Value, ...]
    loops: tuple[Affine, ...]


def repetition(executor: Executor, gang: Gang, before: ControlState) -> Repetition | None:
    """How often the way from `before` to where the gang is now repeats; None if that cannot be told."""
    now = ControlState.of(gang)
    if len(now.loops) != len(before.loops):
        return None
    loops = [between(a[1], b[1]) for a, b in zip(before.loops, now.loops, strict=True)]
    unknown: set[int] = set()
    while True:
        scalars: list[Value] = [
            None if a is None or b is None or r in unknown else between(a, b)
            for r, (a, b) in enumerate(zip(before.scalars, now.scalars, strict=True))
        ]
        open_loops = [
            _Loop(head, value, Affine((upper,), (0,)), step)
            for value, (head, _, upper, step) in zip(loops, before.loops, strict=True)
        ]
        replay = Replay(executor, gang, before.pc, list(scalars), open_loops)
        try:
            replay.run(now.executed - before.executed)
        except NotRepeated:
            return None
        if replay.pc != now.pc or not _same_loops(replay.loops, loops, now):
            return None
        wrong = {
            r
            for r, (given, found) in enumerate(zip(scalars, replay.scalars, strict=True))
            if given is not None and (found is None or not _follows(given, found))
        }
        if not wrong:
            break
        unknown |= wrong
    lost = any(value is not None and given is None for value, given in zip(now.scalars, scalars, strict=True))
    return None if lost else Repetition(replay.periods, tuple(scalars), tuple(loops))


def _follows(given: Affine, found: Affine) -> bool:
    """Whether a value of period n that is found after it is the one that period n + 1 begins with."""
    rows = _aligned(given, found)
    return all(a + da == b and da == db for a, da, b, db in rows)


def _same_loops(found: Sequence[_Loop], given: Sequence[Affine], now: ControlState) -> bool:
    if len(found) != len(given):
        return False
    return all(
        loop.head == head
        and loop.step == step
        and all(row == (upper, 0, upper, 0) for row in _aligned(loop.upper, Affine((upper,), (0,))))
        and _follows(value, loop.value)
        for loop, value, (head, _, upper, step) in zip(found, given, now.loops, strict=True)
    )


def advance(gang: Gang, repeated: Repetition, periods: int) -> None:
    """Put a gang that stands at the beginning of period 1 where it stands so many periods later."""
    for register, value in enumerate(repeated.scalars):
        if value is not None:
            gang.scalars[register] = value.at(1 + periods)
    for loop, function in zip(gang.loops, repeated.loops, strict=True):
        at = function.at(1 + periods)
        assert isinstance(at, int)
        loop.value = at


__all__ = ["ControlState", "Repetition", "advance", "repetition"]
