"""A whole program: its text, arguments for a launch, and what NumPy says it leaves in its buffers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .numbers import DTYPES, Array, from_integers, is_float
from .places import Buffer, View, c_strides, emit_view
from .values import Environment, Statement, Style, Text, Value, comma


@dataclass
class Program:
    grid: tuple[int, ...]
    last_fastest: bool
    style: Style
    buffers: list[Buffer]
    body: list[Statement]
    tables: dict[str, tuple[int, bool]]  # name of an index table: rows that it may name, whether they differ
    outputs: list[str]
    plain: bool  # data without NaN and infinities
    features: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Program of {comma(self.features)}\n{self.text()}"

    def text(self) -> str:
        out = Text(self.style)
        arguments = [f"%{b.name}: index" for b in self.buffers] + ["%n: index"]
        ids = [f"%tile{d}" for d in range(len(self.grid))]
        order = ' attributes {ktdp.grid_order = "last_fastest"}' if self.last_fastest else ""
        head = [
            f"module{order} {{",
            f"  func.func @kernel({comma(arguments)}) attributes {{grid = [{comma(self.grid)}]}} {{",
        ]
        out(f"{comma(ids)} = ktdp.get_compute_tile_id : {comma('index' for _ in ids)}")
        flat = ids[-1]
        for name, extent in zip(reversed(ids[:-1]), reversed(self.grid[:-1]), strict=True):
            width, scaled, next = out.index(extent), out.fresh("scaled"), out.fresh("flat")
            out(f"{scaled} = arith.muli {flat}, {width} : index")
            out(f"{next} = arith.addi {scaled}, {name} : index")
            flat = next
        zero = out.index(0)
        out(f"%flat = arith.addi {flat}, {zero} : index")
        for buffer in self.buffers:  # tells the host's shape
            emit_view(out, f"%{buffer.name}", View(buffer.shape, c_strides(buffer.shape)), buffer.element)
        for statement in self.body:
            statement.emit(out)
        out("return")
        aliases = [f"{alias} = {text}" for text, alias in out.aliases.items()]
        return (" " if self.style.one_line else "\n").join([*aliases, *head, *out.lines, "  }", "}"]) + "\n"

    @property
    def tiles(self) -> int:
        return math.prod(self.grid)

    def arguments(self, seed: int) -> dict[str, object]:
        """Arrays for every buffer and the number `n`."""
        rng = np.random.default_rng(seed)
        found: dict[str, object] = {"n": int(rng.integers(1, 6))}
        for buffer in self.buffers:
            if buffer.name in self.tables:
                found[buffer.name] = self._table(rng, buffer)
            else:
                found[buffer.name] = random_array(rng, buffer.element, buffer.shape, self.plain)
        return found

    def _table(self, rng: np.random.Generator, buffer: Buffer) -> Array:
        rows, differ = self.tables[buffer.name]
        if differ:
            picked = [rng.permutation(rows)[: buffer.shape[1]] for _ in range(buffer.shape[0])]
        else:
            picked = [rng.integers(0, rows, buffer.shape[1]) for _ in range(buffer.shape[0])]
        return np.array(picked).astype(DTYPES[buffer.element])

    def expected(self, arguments: dict[str, object]) -> dict[str, Array]:
        """What stands in the output buffers afterwards."""
        memory = {name: np.array(value).reshape(-1).copy() for name, value in arguments.items()}
        environments = []
        for reversed_coordinates in itertools.product(*(range(n) for n in reversed(self.grid))):
            coordinates = tuple(reversed(reversed_coordinates))
            row, number = (
                number_of(coordinates, self.grid, False),
                number_of(coordinates, self.grid, self.last_fastest),
            )
            env = Environment(number, coordinates, memory)
            env[Value("%flat", "index")] = np.array(row, np.int64)
            for d, x in enumerate(coordinates):
                env[Value(f"%tile{d}", "index")] = np.array(x, np.int64)
            environments.append(env)
        with np.errstate(all="ignore"):
            for statement in self.body:
                statement.run_all(environments)
        shapes = {b.name: b.shape for b in self.buffers}
        return {name: memory[name].reshape(shapes[name]) for name in self.outputs}


def number_of(coordinates: Sequence[int], grid: Sequence[int], last_fastest: bool) -> int:
    pairs = list(zip(coordinates, grid, strict=True))
    number = 0
    for x, n in pairs if last_fastest else reversed(pairs):
        number = number * n + x
    return number


def random_array(rng: np.random.Generator, element: str, shape: tuple[int, ...], plain: bool) -> Array:
    if is_float(element):
        values = rng.normal(0, 4, shape)
        kinds = rng.integers(0, 24, shape)
        values = np.where(kinds < 6, np.round(values), values)
        if not plain:
            special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 6e4, -3e38], shape)
            values = np.where(kinds == 23, special, values)
        with np.errstate(all="ignore"):
            return np.asarray(values.astype(DTYPES[element]))
    wide = rng.integers(-(2**62), 2**62, shape)
    small = rng.integers(-9, 10, shape)
    chosen = np.where(rng.integers(0, 2, shape) == 0, small, wide)
    return from_integers([int(x) for x in chosen.reshape(-1)], element, shape)
