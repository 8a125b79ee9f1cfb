"""Random element-wise kernels: KTIR text, arguments, and the expected result straight from NumPy.

The oracle shares no code with the interpreter: it evaluates the same steps on whole arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from spyresim.testing import text as t

__all__ = ["FEATURES", "Operand", "RandomKernel", "Step", "random_kernels"]

Array: TypeAlias = npt.NDArray[Any]

FEATURES = (
    "ragged",
    "several sticks",
    "f32",
    "broadcast first",
    "broadcast middle",
    "broadcast last",
    "loop",
    "scalar",
)
"""What a kernel may have; `RandomKernel.features` says which of them it does."""

SHIFT_ROOM = 2
"""Rows by which the first operand is longer where a scalar argument shifts it."""


@attrs.frozen
class Operand:
    """An input: which dimensions of the whole it has; the others are kept with extent 1, or dropped."""

    dims: tuple[bool, ...]
    keep: bool = True

    @property
    def is_full(self) -> bool:
        return all(self.dims)

    def of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Its shape, where the whole has `shape`."""
        return tuple(n if has else 1 for n, has in zip(shape, self.dims, strict=True) if has or self.keep)

    def widened(self, array: Array) -> Array:
        """The array with an axis for every dimension of the whole."""
        if self.keep:
            return array
        extents = iter(array.shape)
        return array.reshape([next(extents) if has else 1 for has in self.dims])

    @property
    def map(self) -> str:
        names = [f"d{i}" for i in range(len(self.dims))]
        results = [n if has else "0" for n, has in zip(names, self.dims, strict=True) if has or self.keep]
        return f"affine_map<({', '.join(names)}) -> ({', '.join(results)})>"


@attrs.frozen
class Step:
    """One operation on earlier values (inputs first, then the results of the steps)."""

    kind: str
    left: int
    right: int


@attrs.frozen
class _Kind:
    operands: int
    lines: tuple[str, ...]
    oracle: Callable[[Array, Array], Array]


def _largest(a: Array, b: Array) -> Array:
    first = (a > b) | ((a == b) & ~np.signbit(a))
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), np.where(first, a, b))


def _through_f64(function: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, _: function(a.astype(np.float64)).astype(a.dtype)


_KINDS: dict[str, _Kind] = {
    "add": _Kind(2, ("{out} = arith.addf {a}, {b} : {type}",), np.add),
    "sub": _Kind(2, ("{out} = arith.subf {a}, {b} : {type}",), np.subtract),
    "mul": _Kind(2, ("{out} = arith.mulf {a}, {b} : {type}",), np.multiply),
    "div": _Kind(2, ("{out} = arith.divf {a}, {b} : {type}",), np.divide),
    "max": _Kind(2, ("{out} = arith.maximumf {a}, {b} : {type}",), _largest),
    "min": _Kind(2, ("{out} = arith.minimumf {a}, {b} : {type}",), lambda a, b: -_largest(-a, -b)),
    "neg": _Kind(1, ("{out} = arith.negf {a} : {type}",), lambda a, _: -a),
    "abs": _Kind(1, ("{out} = math.absf {a} : {type}",), lambda a, _: np.abs(a)),
    "exp": _Kind(1, ("{out} = math.exp {a} : {type}",), _through_f64(np.exp)),
    "tanh": _Kind(1, ("{out} = math.tanh {a} : {type}",), _through_f64(np.tanh)),
    "scale": _Kind(
        1,
        ("{k} = arith.constant 0.625 : {type}", "{out} = arith.mulf {a}, {k} : {type}"),
        lambda a, _: a * a.dtype.type(0.625),
    ),
    "relu": _Kind(
        1,
        ("{k} = arith.constant 0.0 : {type}", "{out} = arith.maximumf {a}, {k} : {type}"),
        lambda a, _: _largest(a, np.zeros_like(a)),
    ),
    "pick": _Kind(
        2,
        (
            "{k} = arith.cmpf olt, {a}, {b} : {type}",
            "{out} = arith.select {k}, {b}, {a} : {type}",
        ),
        lambda a, b: np.where(a < b, b, a),
    ),
}


@attrs.frozen
class RandomKernel:
    """A kernel over a grid of tiles.

    `block` is what one tile computes; the grid divides the first dimension and, if it has two entries, the
    last. With `loop` a tile does its rows one by one, with `shift` a scalar argument shifts the rows of the
    inputs. `fused` writes all steps into one body, otherwise each is an operation of its own.
    """

    dtype: str
    block: tuple[int, ...]
    grid: tuple[int, ...]
    operands: tuple[Operand, ...]
    steps: tuple[Step, ...]
    loop: bool
    shift: bool
    fused: bool

    # -- shapes

    @property
    def rank(self) -> int:
        return len(self.block)

    @property
    def shape(self) -> tuple[int, ...]:
        """The output."""
        shape = list(self.block)
        shape[0] *= self.grid[0]
        if len(self.grid) == 2:
            shape[-1] *= self.grid[1]
        return tuple(shape)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype({"f16": np.float16, "f32": np.float32}[self.dtype])

    def input_shape(self, operand: Operand) -> tuple[int, ...]:
        """The array of an operand."""
        shape = list(self.shape)
        if self.shift and operand.dims[0]:
            shape[0] += SHIFT_ROOM
        return operand.of(shape)

    @property
    def features(self) -> frozenset[str]:
        """Which of `FEATURES` the kernel has."""
        lanes = 128 // self.numpy_dtype.itemsize
        found = {"f32"} if self.dtype == "f32" else set()
        if self.shape[-1] % lanes:
            found.add("ragged")
        if self.shape[-1] > lanes:
            found.add("several sticks")
        live = [self.operands[n] for n in self._live if n < len(self.operands)]
        for operand in live:
            missing = [d for d, has in enumerate(operand.dims) if not has and self.shape[d] > 1]
            if 0 in missing and self.rank > 1:
                found.add("broadcast first")
            if self.rank - 1 in missing:
                found.add("broadcast last")
            if any(0 < d < self.rank - 1 for d in missing):
                found.add("broadcast middle")
        if self.loop:
            found.add("loop")
        if self.shift:
            found.add("scalar")
        return frozenset(found)

    @property
    def _live(self) -> frozenset[int]:
        """Values that the result needs."""
        count = len(self.operands)
        needed = {count + len(self.steps) - 1}
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            if count + number in needed:
                needed.update([step.left, step.right][: _KINDS[step.kind].operands])
        return frozenset(needed)

    # -- text

    @property
    def text(self) -> str:
        """The KTIR of the kernel ``@kernel(%in0, ..., %out[, %shift])``."""
        live = self._live
        inputs = [n for n in range(len(self.operands)) if n in live]
        block = (1, *self.block[1:]) if self.loop else self.block
        names = (
            [f"%in{n}: index" for n in inputs] + ["%out: index"] + (["%shift: index"] if self.shift else [])
        )
        ids = ", ".join(["index"] * len(self.grid))
        head = [
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            f"%rows = arith.constant {self.block[0]} : index",
            f"%cols = arith.constant {self.block[-1]} : index",
            f"%id:{len(self.grid)} = ktdp.get_compute_tile_id : {ids}",
            "%base = arith.muli %id#0, %rows : index",
        ]
        if len(self.grid) == 2:
            head.append("%col = arith.muli %id#1, %cols : index")
        body = (
            ["%out_row = arith.addi %base, %i : index"]
            if self.loop
            else ["%out_row = arith.addi %base, %c0 : index"]
        )
        body.append(f"%in_row = arith.addi %out_row, {'%shift' if self.shift else '%c0'} : index")
        for n in inputs:
            operand = self.operands[n]
            body += self._access(f"in{n}", operand, self.input_shape(operand), operand.of(block), "%in_row")
            body.append(t.load(f"x{n}", f"t_in{n}", operand.of(block), self.dtype))
        full = Operand((True,) * self.rank)
        tensor = f"tensor<{t.dims(block)}{self.dtype}>"
        body.append(f"%e = tensor.empty() : {tensor}")
        result = self._fused(tensor, block) if self.fused else self._chain(tensor, block)
        body += result
        body += self._access("out", full, self.shape, block, "%out_row")
        body.append(t.store("result", "t_out", block, self.dtype))
        if self.loop:
            body = ["scf.for %i = %c0 to %rows step %c1 {", *body, "}"]
        return t.function(", ".join(names), [*head, *body], self.grid)

    def _access(
        self, name: str, operand: Operand, shape: Sequence[int], extents: Sequence[int], row: str
    ) -> list[str]:
        subscripts = []
        for dim, has in enumerate(operand.dims):
            if not has and not operand.keep:
                continue
            if has and dim == 0:
                subscripts.append(row)
            elif has and dim == self.rank - 1 and len(self.grid) == 2:
                subscripts.append("%col")
            else:
                subscripts.append("%c0")
        return [
            t.view(f"v_{name}", name, shape, self.dtype),
            t.tile(f"t_{name}", f"v_{name}", ", ".join(subscripts), shape, extents, self.dtype),
        ]

    def _generic(
        self, out: str, ins: Sequence[int], lines: Sequence[str], tensor: str, block: Sequence[int]
    ) -> str:
        full = Operand((True,) * self.rank)
        operands = [self.operands[n] if n < len(self.operands) else full for n in ins]
        maps = ", ".join([*(o.map for o in operands), full.map])
        iterators = ", ".join(['"parallel"'] * self.rank)
        types = ", ".join(f"tensor<{t.dims(o.of(block))}{self.dtype}>" for o in operands)
        arguments = ", ".join([*(f"%a{n}: {self.dtype}" for n in ins), f"%o: {self.dtype}"])
        values = ", ".join(f"%x{n}" for n in ins)
        inner = "\n    ".join(lines)
        return (
            f"{out} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} "
            f"ins({values} : {types}) outs(%e : {tensor}) {{\n  ^bb0({arguments}):\n    {inner}\n  }} "
            f"-> {tensor}"
        )

    def _fused(self, tensor: str, block: Sequence[int]) -> list[str]:
        count, live = len(self.operands), self._live
        lines = []
        for number, step in enumerate(self.steps):
            if count + number in live:
                lines += self._lines(step, f"%a{count + number}", "%a", number, self.dtype)
        lines.append(f"linalg.yield %a{count + len(self.steps) - 1} : {self.dtype}")
        return [self._generic("%result", [n for n in range(count) if n in live], lines, tensor, block)]

    def _chain(self, tensor: str, block: Sequence[int]) -> list[str]:
        count, live = len(self.operands), self._live
        body: list[str] = []
        for number, step in enumerate(self.steps):
            if count + number not in live:
                continue
            last = number == len(self.steps) - 1
            out = "%result" if last else f"%x{count + number}"
            used = [step.left, step.right][: _KINDS[step.kind].operands]
            full = all(n >= count or self.operands[n].is_full for n in used)
            if full and number % 2 and "{k}" not in "".join(_KINDS[step.kind].lines):
                body += self._lines(step, out, "%x", number, tensor)
            else:
                lines = self._lines(step, "%y", "%a", number, self.dtype)
                lines.append(f"linalg.yield %y : {self.dtype}")
                body.append(self._generic(out, list(dict.fromkeys(used)), lines, tensor, block))
        return body

    def _lines(self, step: Step, out: str, prefix: str, number: int, type: str) -> list[str]:
        a, b = f"{prefix}{step.left}", f"{prefix}{step.right}"
        return [
            line.format(out=out, a=a, b=b, k=f"%k{number}", type=type) for line in _KINDS[step.kind].lines
        ]

    # -- values

    def arguments(self, seed: int) -> dict[str, Any]:
        """Inputs by name; mostly moderate numbers, some zeros, infinities and NaNs; and the scalar."""
        rng = np.random.default_rng(seed)
        given: dict[str, Any] = {}
        for n, operand in enumerate(self.operands):
            if n in self._live:
                given[f"in{n}"] = self._numbers(rng, self.input_shape(operand))
        if self.shift:
            given["shift"] = int(rng.integers(0, SHIFT_ROOM + 1))
        return given

    def _numbers(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        values = rng.normal(scale=2.0, size=shape).astype(self.numpy_dtype)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0], self.numpy_dtype)
        where = rng.random(shape) < 0.02
        return np.where(where, rng.choice(special, shape), values)

    def expected(self, arguments: dict[str, Any]) -> Array:
        """The output for these arguments."""
        first = int(arguments.get("shift", 0))
        values: list[Array] = []
        for n, operand in enumerate(self.operands):
            if n not in self._live:
                values.append(np.zeros(self.shape, self.numpy_dtype))
                continue
            array = operand.widened(arguments[f"in{n}"])
            if operand.dims[0]:
                array = array[first : first + self.shape[0]]
            values.append(np.broadcast_to(array, self.shape))
        with np.errstate(all="ignore"):
            for step in self.steps:
                values.append(np.asarray(_KINDS[step.kind].oracle(values[step.left], values[step.right])))
        assert values[-1].dtype == self.numpy_dtype
        return values[-1]

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return math.prod(self.shape)


@st.composite
def random_kernels(draw: st.DrawFn) -> RandomKernel:
    """Element-wise kernels in which every entry of `FEATURES` is common.

    The shares of element types, extents, broadcasts, loops and scalars come from a seed, because Hypothesis
    by itself prefers some choices; rows, grids and steps are drawn (and shrink) one by one.
    """
    dice = Random(draw(st.integers(0, 2**32 - 1)))
    dtype = dice.choice(["f16", "f32"])
    rank = dice.choice([1, 2, 2, 3, 3, 3])
    last = dice.choice([3, 8, 36, 64, 64, 65, 72, 100, 128, 128, 136, 192, 200])
    loop, shift = dice.random() < 0.35, dice.random() < 0.35
    rows = draw(st.integers(2 if loop else 1, 3))
    block = (rows, *(dice.choice([1, 2, 2, 3]) for _ in range(rank - 2)), last)[-rank:]
    two = rank > 1 and draw(st.booleans())
    grid = (draw(st.integers(1, 4)), draw(st.integers(1, 2))) if two else (draw(st.integers(1, 5)),)
    operands = [Operand((True,) * rank)]
    for _ in range(dice.choice([0, 1, 2, 2])):
        missing = dice.randrange(rank + 1)  # one past the last: none
        dims = tuple(d != missing and dice.random() < 0.8 for d in range(rank))
        operands.append(Operand(dims, dice.random() < 0.5 or not any(dims)))
    count = len(operands)
    steps = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(sorted(_KINDS)))
        other = draw(st.integers(0, count - 1 + number))
        left = 0 if number == 0 else count + number - 1
        steps.append(Step(kind, left, (number + 1) % count if number < count - 1 else other))
    return RandomKernel(
        dtype, block, grid, tuple(operands), tuple(steps), loop and rank > 1, shift, draw(st.booleans())
    )
