"""Random kernels of every kind of computation: chains of up to eight operations on up to four dimensions.

A value has some of the dimensions of its kernel, in any order, and an element type. Where whole numbers stay
exact the generator knows how large they can be, so it sums and multiplies only what is exact in every order:
with the arguments of `RandomComputation.arguments` all levels must agree bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any, TypeAlias

import attrs
import ml_dtypes
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from spyresim.testing import text as t
from spyresim.testing.random_steps import LIMITS, Grower, Layout, Step, Value

__all__ = ["FEATURES", "LONGEST_CHAIN", "RandomComputation", "random_computations"]

Array: TypeAlias = npt.NDArray[Any]

LONGEST_CHAIN = 8

FEATURES = (
    *("rank 1", "rank 2", "rank 3", "rank 4", "ragged", "grid of two", "loop", "scalar", "several results"),
    *("reduction", "broadcast", "cast", "compare", "transposed", "index", "f16", "bf16", "f32", "i32", "i8"),
)
"""What a computation may have; `RandomComputation.features` says which of them it does."""

_NUMPY: Mapping[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
    "i8": np.dtype(np.int8),
}
_EXTENTS = (1, 3, 8, 33, 36, 64, 64, 65, 67, 70, 96, 100, 127, 128, 128, 130, 160)
_MOST_ELEMENTS = 520
_MOST_SINGLE_ELEMENTS = 130
"""Of one share where values stand in memory in different orders: there accesses take elements one by one."""
SHIFT_ROOM = 2
"""Rows by which inputs are longer where a scalar argument shifts the rows that are read."""


@attrs.frozen(slots=False)
class RandomComputation:
    """A kernel that follows from a seed; with fewer operations it is a part of itself, so failures shrink."""

    seed: int
    operations: int

    def __str__(self) -> str:
        return f"{self!r}\n{self.text}"

    @cached_property
    def _layout(self) -> Layout:
        return _layout(Random(self.seed))

    @cached_property
    def _grower(self) -> Grower:
        grower = Grower(self._layout)
        for number in range(self.operations):
            grower.grow(Random(f"{self.seed} {number}"))
        grower.finish(Random(f"{self.seed} outputs"))
        return grower

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        """The steps that outputs need, in order."""
        needed = {value.name for value in self._grower.outputs}
        kept = []
        for step in reversed(self._grower.steps):
            if step.result.name in needed:
                needed.update(value.name for value in step.operands)
                kept.append(step)
        return tuple(reversed(kept))

    @property
    def _inputs(self) -> tuple[Step, ...]:
        return tuple(step for step in self._steps if step.kind == "input")

    @cached_property
    def features(self) -> frozenset[str]:
        """Which of `FEATURES` the kernel has."""
        layout, found = self._layout, {f"rank {len(self._layout.block)}"}
        values = [step.result for step in self._steps]
        found.update(value.type for value in values if value.type in _NUMPY)
        found.update(step.kind for step in self._steps)
        if len(self._grower.outputs) > 1:
            found.add("several results")
        if any(n % 32 for value in values for n in layout.extents(value)[-1:]):
            found.add("ragged")
        if len(layout.grid) > 1:
            found.add("grid of two")
        if layout.trips > 1:
            found.add("loop")
        if layout.count_argument or self._scalars:
            found.add("scalar")
        if any(list(value.dims) != sorted(value.dims) for value in values):
            found.add("transposed")
        return frozenset(found & set(FEATURES))

    @property
    def is_plain(self) -> bool:
        """Whether it is meant for devices with f16 lanes only."""
        return self._layout.plain

    @property
    def operation_count(self) -> int:
        """Operations that outputs need; broadcasts of their operands and constants are not counted."""
        return sum(step.kind not in ("input", "constant", "broadcast") for step in self._steps)

    # -- text

    @property
    def _scalars(self) -> dict[str, str]:
        """Scalar arguments that are used, with their types."""
        scalars = {name: type for step in self._steps for name, type in step.scalars}
        if self._layout.shift and any(0 in step.result.dims for step in self._inputs):
            scalars["shift"] = "index"
        if self._layout.count_argument:
            scalars["count"] = "index"
        return scalars

    @cached_property
    def text(self) -> str:
        """The KTIR of the kernel ``@kernel(%in..., %out..., scalars)``."""
        layout = self._layout
        scalars = self._scalars
        body = list(self._body(scalars))
        if layout.trips > 1:
            bound = "%count" if layout.count_argument else "%trips"
            body = [f"scf.for %i = %c0 to {bound} step %c1 {{", *body, "}"]
        names = [f"%{step.result.name[1:]}_p: index" for step in self._inputs]
        names += [f"%out{n}: index" for n in range(len(self._grower.outputs))]
        names += [f"%{name}: {type}" for name, type in scalars.items()]
        ids = ", ".join(["index"] * len(layout.grid))
        head = [
            *(f"%c{n} = arith.constant {n} : index" for n in (0, 1)),
            f"%trips = arith.constant {layout.trips} : index",
            f"%tile:{len(layout.grid)} = ktdp.get_compute_tile_id : {ids}",
        ]
        return t.function(", ".join(names), [*head, *body], layout.grid)

    def _body(self, scalars: Mapping[str, str]) -> Iterator[str]:
        layout = self._layout
        yield from layout.positions()
        if "shift" in scalars:
            yield "%read0 = arith.addi %pos0, %shift : index"
        for step in self._steps:
            if step.kind == "input":
                yield from self._load(step.result, "shift" in scalars)
            else:
                yield from step.lines
        for number, value in enumerate(self._grower.outputs):
            yield from self._store(number, value)

    def _load(self, value: Value, shifted: bool) -> Iterator[str]:
        name, extents = value.name[1:], self._layout.extents(value)
        starts = [f"%pos{d}" if d in self._layout.split else "%c0" for d in value.dims]
        if shifted and 0 in value.dims:
            starts[value.dims.index(0)] = "%read0"
        shape = self._input_shape(value)
        yield t.view(f"{name}_v", f"{name}_p", shape, value.type)
        yield t.tile(f"{name}_t", f"{name}_v", ", ".join(starts), shape, extents, value.type)
        yield t.load(name, f"{name}_t", extents, value.type)

    def _input_shape(self, value: Value) -> tuple[int, ...]:
        room = SHIFT_ROOM if self._layout.shift else 0
        return tuple(self._layout.whole(d) + (room if d == 0 else 0) for d in value.dims)

    def _store(self, number: int, value: Value) -> Iterator[str]:
        """Where tiles are spread over a dimension that a value lacks, it gets one of extent 1."""
        layout = self._layout
        missing = [d for d in layout.split if d not in value.dims]
        extents = layout.extents(value)
        starts = [f"%pos{d}" if d in layout.split else "%c0" for d in value.dims]
        shape = [layout.whole(d) for d in value.dims]
        name, stored, whole = value.name, extents, shape
        if missing:
            chunks, ones = [layout.chunks(d) for d in missing], [1] * len(missing)
            numbers = [f"%num{d}" for d in missing]
            groups: list[list[int]]
            if layout.units_last and extents:
                stored, whole, starts = (*extents, *ones), [*shape, *chunks], [*starts, *numbers]
                groups = [[d] for d in range(len(extents) - 1)]
                groups.append(list(range(len(extents) - 1, len(stored))))
            else:
                stored, whole, starts = (*ones, *extents), [*chunks, *shape], [*numbers, *starts]
                groups = [list(range(len(ones) + 1))] if extents else []
                groups += [[d + len(ones)] for d in range(1, len(extents))]
            name = f"%s{number}"
            yield (
                f"{name} = tensor.expand_shape {value.name} {groups} output_shape {list(stored)} : "
                f"tensor<{t.dims(extents)}{value.type}> into tensor<{t.dims(stored)}{value.type}>"
            )
        yield t.view(f"out{number}_v", f"out{number}", whole, value.type)
        yield t.tile(f"out{number}_t", f"out{number}_v", ", ".join(starts), whole, stored, value.type)
        yield t.store(name[1:], f"out{number}_t", stored, value.type)

    # -- values

    def arguments(self, seed: int) -> dict[str, Any]:
        """Small whole numbers in the inputs, and the scalars; outputs are left to the caller."""
        rng = np.random.default_rng(seed)
        given: dict[str, Any] = {}
        for step in self._inputs:
            value = step.result
            bound = value.bound or 0
            numbers = rng.integers(-bound, bound, self._input_shape(value), endpoint=True)
            given[f"{value.name[1:]}_p"] = numbers.astype(_NUMPY[value.type])
        for name, type in self._scalars.items():
            low, high = {"shift": (0, SHIFT_ROOM), "count": (1, self._layout.trips)}.get(name, (-2, 2))
            number = int(rng.integers(low, high, endpoint=True))
            given[name] = number if type.startswith("i") else float(number)
        return given


def _layout(dice: Random) -> Layout:
    rank = dice.choice([1, 2, 2, 2, 3, 3, 4])
    loop = dice.random() < 0.35
    inner = [dice.choice([1, 2, 2, 3]) for _ in range(rank)]
    mixed = rank > 1 and dice.random() < 0.35
    long = dice.randrange(rank) if mixed else rank - 1
    most = _MOST_SINGLE_ELEMENTS if mixed else _MOST_ELEMENTS
    room = most // math.prod(n for d, n in enumerate(inner) if d != long)
    inner[long] = dice.choice([n for n in _EXTENTS if n <= room])
    grid: tuple[int, ...] = (dice.randint(1, 3),)
    if rank > 1 and dice.random() < 0.4:
        grid = (dice.randint(1, 2), dice.randint(1, 2))
    plain = dice.random() < 0.3
    return Layout(
        block=tuple(inner),
        grid=grid,
        trips=dice.randint(2, 3) if loop else 1,
        count_argument=loop and dice.random() < 0.3,
        shift=dice.random() < 0.25,
        units_last=dice.random() < 0.5,
        mixed=mixed,
        types=("f16",) if plain else tuple(dice.sample(sorted(LIMITS), dice.randint(1, 3))),
        plain=plain,
    )


@st.composite
def random_computations(draw: st.DrawFn) -> RandomComputation:
    """Kernels in which every entry of `FEATURES` is common."""
    return RandomComputation(draw(st.integers(0, 2**64)), draw(st.integers(1, LONGEST_CHAIN)))
