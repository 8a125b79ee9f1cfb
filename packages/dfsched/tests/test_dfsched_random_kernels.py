"""Random element-wise kernels: ScheduleIR after every pass, executed in NumPy, equals the kernel's meaning."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_oracle import DTYPES, Pointer, execute, row_major

import dfsched
import ktir
from dfsched.passes.base import Group

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")


# -- random kernels


@attrs.frozen
class Operand:
    """An input: which dimensions it has, and whether the others are kept with extent 1 or dropped."""

    dims: tuple[bool, ...]
    keep: bool


@attrs.frozen
class Case:
    """A kernel: block of one tile, grid, inputs, and a chain of steps on values 0 (first input), 1, ..."""

    dtype: str
    block: tuple[int, ...]
    grid: tuple[int, ...]
    operands: tuple[Operand, ...]
    steps: tuple[tuple[str, int, int], ...]
    loop: int
    shift: int | None

    @property
    def live(self) -> set[int]:
        """Values that the last one needs; a load that nobody needs is an error."""
        count = len(self.operands)
        needed = {count + len(self.steps) - 1}
        for number in reversed(range(len(self.steps))):
            kind, a, b = self.steps[number]
            if count + number in needed:
                needed.update([a] if kind in ("neg", "const") else [a, b])
        return needed

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole tensor: the grid splits the first and (if it has two entries) the last dimension."""
        shape = list(self.block)
        shape[0] *= self.grid[0]
        if len(self.grid) == 2:
            shape[-1] *= self.grid[1]
        return tuple(shape)


BINARY = {"add": np.add, "mul": np.multiply, "max": np.maximum, "sub": np.subtract}
SCALAR = {"add": "arith.addf", "mul": "arith.mulf", "max": "arith.maximumf", "sub": "arith.subf"}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 4))
    last = draw(st.sampled_from([1, 3, 8, 36, 63, 64, 65, 72, 100, 136]))
    block = (*(draw(st.integers(1, 4 if rank < 3 else 2)) for _ in range(rank - 1)), last)
    grid = (draw(st.integers(1, 3)),) if rank == 1 or draw(st.booleans()) else (2, draw(st.integers(1, 2)))
    count = draw(st.integers(1, 3))
    operands = [Operand((True,) * rank, True)]
    for _ in range(count - 1):
        dims = tuple(draw(st.booleans()) for _ in range(rank))
        operands.append(Operand(dims, draw(st.booleans()) or not any(dims)))
    steps = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([*BINARY, "neg", "const"]))
        other = draw(st.integers(0, count - 1 + number))
        steps.append((kind, count - 1 + number if number else 0, other))
    loop = draw(st.sampled_from([0, 0, 1])) if block[0] > 1 else 0
    shift = draw(st.sampled_from([None, None, 0, 2]))
    return Case(draw(st.sampled_from(["f16", "f16", "f16", "f32"])), block, grid, tuple(operands),
                tuple(steps), loop, shift)  # fmt: skip


def box(shape: tuple[int, ...]) -> str:
    names = ", ".join(f"d{i}" for i in range(len(shape)))
    rules = ", ".join(f"d{i} >= 0, -d{i} + {n - 1} >= 0" for i, n in enumerate(shape))
    return f"affine_set<({names}) : ({rules})>"


def dims_text(rank: int) -> str:
    return ", ".join(f"d{i}" for i in range(rank))


class Writer:
    """The KTIR text of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.lines: list[str] = []
        self.values: list[tuple[str, Operand]] = []
        rank = len(case.block)
        self.identity = f"affine_map<({dims_text(rank)}) -> ({dims_text(rank)})>"
        block = (1, *case.block[1:]) if case.loop else case.block
        self.tensor = f"tensor<{'x'.join(map(str, block))}x{case.dtype}>"
        self.block = block

    def stored(self, operand: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
        picked = [n if has else 1 for n, has in zip(shape, operand.dims, strict=True)]
        return tuple(n for n, has in zip(picked, operand.dims, strict=True) if has or operand.keep)

    def map(self, operand: Operand) -> str:
        rank = len(operand.dims)
        results = [f"d{i}" if has else "0" for i, has in enumerate(operand.dims) if has or operand.keep]
        return f"affine_map<({dims_text(rank)}) -> ({', '.join(results)})>"

    def tile(self, name: str, operand: Operand, shifted: bool) -> tuple[str, str]:
        """View and access tile; their name and the tile's shape."""
        case = self.case
        shape = self.view_shape(operand, shifted)
        block = self.stored(operand, self.block)
        memref = f"memref<{'x'.join(map(str, shape))}x{case.dtype}>"
        indices = []
        rank = len(case.block)
        for dim, has in enumerate(operand.dims):
            if not has and not operand.keep:
                continue
            index = "%c0"
            if has and dim == 0:
                index = "%in_row" if shifted else "%out_row"
                if rank == 1 and len(case.grid) == 2:
                    raise AssertionError
            elif has and dim == rank - 1 and len(case.grid) == 2:
                index = "%col"
            indices.append(index)
        order = f"affine_map<({dims_text(len(shape))}) -> ({dims_text(len(shape))})>"
        text = "x".join(map(str, block))
        self.lines += [
            f"%v_{name} = ktdp.construct_memory_view %{name}, sizes: {list(shape)}, "
            f"strides: {list(row_major(shape))} {{coordinate_set = {box(shape)}, "
            f"memory_space = #ktdp.memory_space<global>}} : {memref}",
            f"%t_{name} = ktdp.construct_access_tile %v_{name}[{', '.join(indices)}] "
            f"{{access_tile_set = {box(block)}, access_tile_order = {order}}} : {memref} -> "
            f"!ktdp.access_tile<{text}xindex>",
        ]
        return f"%t_{name}", text

    def view_shape(self, operand: Operand, shifted: bool) -> tuple[int, ...]:
        shape = list(self.case.shape)
        if shifted and self.case.shift is not None:
            shape[0] += 2
        return self.stored(operand, tuple(shape))

    def text(self) -> str:
        case = self.case
        for number, operand in enumerate(case.operands):
            self.values.append((f"%x{number}", operand))
            if number not in case.live:
                continue
            tile, shape = self.tile(f"in{number}", operand, True)
            self.lines.append(
                f"%x{number} = ktdp.load {tile} : !ktdp.access_tile<{shape}xindex> -> "
                f"tensor<{shape}x{case.dtype}>"
            )
        full = Operand((True,) * len(case.block), True)
        self.lines.append(f"%e = tensor.empty() : {self.tensor}")
        for number, (kind, a, b) in enumerate(case.steps):
            if len(case.operands) + number in case.live:
                self.step(f"%s{number}", kind, self.values[a], self.values[b], number)
            self.values.append((f"%s{number}", full))
        tile, shape = self.tile("out", full, False)
        self.lines.append(
            f"ktdp.store {self.values[-1][0]}, {tile} : {self.tensor}, !ktdp.access_tile<{shape}xindex>"
        )
        return self.kernel()

    def step(self, name: str, kind: str, a: tuple[str, Operand], b: tuple[str, Operand], number: int) -> None:
        dtype, whole = self.case.dtype, self.tensor
        if kind == "neg":
            self.lines.append(f"{name} = arith.negf {a[0]} : {whole}")
        elif kind == "const":
            self.lines += [
                f"%k{number} = arith.constant dense<1.5> : {whole}",
                f"{name} = arith.addf {a[0]}, %k{number} : {whole}",
            ]
        elif all(b[1].dims) and number % 2:
            self.lines.append(f"{name} = {SCALAR[kind]} {a[0]}, {b[0]} : {whole}")
        elif all(b[1].dims):
            self.lines.append(
                f"{name} = linalg.{kind} ins({a[0]}, {b[0]} : {whole}, {whole}) outs(%e : {whole}) -> {whole}"
            )
        else:
            shape = "x".join(map(str, self.stored(b[1], self.block)))
            iterators = ", ".join(['"parallel"'] * len(self.block))
            self.lines.append(
                f"{name} = linalg.generic {{indexing_maps = [{self.identity}, {self.map(b[1])}, "
                f"{self.identity}], iterator_types = [{iterators}]}} "
                f"ins({a[0]}, {b[0]} : {whole}, tensor<{shape}x{dtype}>) outs(%e : {whole}) {{\n"
                f"^bb0(%p: {dtype}, %q: {dtype}, %r: {dtype}):\n"
                f"%y = {SCALAR[kind]} %p, %q : {dtype}\nlinalg.yield %y : {dtype}\n}} -> {whole}"
            )

    def kernel(self) -> str:
        case = self.case
        names = [f"%in{i}: index" for i in range(len(case.operands))] + ["%out: index"]
        if case.shift is not None:
            names.append("%shift: index")
        ids = ", ".join(["index"] * len(case.grid))
        head = [
            "%c0 = arith.constant 0 : index",
            f"%rows = arith.constant {case.block[0]} : index",
            f"%cols = arith.constant {case.block[-1]} : index",
            f"%id:{len(case.grid)} = ktdp.get_compute_tile_id : {ids}",
            "%base = arith.muli %id#0, %rows : index",
        ]
        if len(case.grid) == 2:
            head.append("%col = arith.muli %id#1, %cols : index")
        row = (
            ["%out_row = arith.addi %base, %i : index"]
            if case.loop
            else ["%out_row = arith.addi %base, %c0 : index"]
        )
        shifted = "%shift" if case.shift is not None else "%c0"
        row.append(f"%in_row = arith.addi %out_row, {shifted} : index")
        body = [*row, *self.lines]
        if case.loop:
            head.append("%one = arith.constant 1 : index")
            body = ["scf.for %i = %c0 to %rows step %one {", *body, "}"]
        lines = "\n".join([*head, *body])
        return f"func.func @kernel({', '.join(names)}) attributes {{grid = {list(case.grid)}}} {{\n{lines}\nreturn\n}}\n"


def expected(case: Case, inputs: list[np.ndarray]) -> np.ndarray:
    """The meaning of the case on whole arrays (inputs in keepdims form, shifted already)."""
    shape = case.shape
    values = [np.broadcast_to(x, shape) for x in inputs]
    for kind, a, b in case.steps:
        match kind:
            case "neg":
                values.append(-values[a])
            case "const":
                values.append(values[a] + values[a].dtype.type(1.5))
            case _:
                values.append(BINARY[kind](values[a], values[b]))
    return values[-1]


def check(case: Case, device: str, stages: bool) -> None:
    writer = Writer(case)
    module = ktir.parse(writer.text())
    compiled = dfsched.compile(module, device, dfsched.Options(emit="schedule"))
    rng = np.random.default_rng(7)
    dtype = DTYPES[case.dtype]
    arguments: dict[str, Any] = {}
    inputs = []
    for number, operand in enumerate(case.operands):
        stored = writer.view_shape(operand, True)
        array = rng.integers(-4, 5, stored).astype(dtype)
        arguments[f"in{number}"] = Pointer(array.reshape(-1))
        whole = Operand(operand.dims, True)
        keep = array.reshape(
            [n if has else 1 for n, has in zip(writer.view_shape(whole, True), operand.dims, strict=True)]
        )
        if operand.dims[0] and case.shift is not None:
            keep = keep[case.shift : case.shift + case.shape[0]]
        inputs.append(keep)
    if case.shift is not None:
        arguments["shift"] = case.shift
    wanted = expected(case, inputs)
    first = next(i for i, r in enumerate(compiled.passes) if r.name == "construct-three-stage-pipeline")
    results = compiled.passes[first:] if stages else compiled.passes[-1:]
    done: list[ktir.Module] = []
    for result in results:
        if result.group is Group.BACKEND:
            break
        if any(result.module is module for module in done):
            continue
        done.append(result.module)
        out = np.full(math.prod(case.shape) + 64, 99, dtype)
        arguments["out"] = Pointer(out)
        execute(result.module, "kernel", arguments)
        got = out[:-64].reshape(case.shape)
        np.testing.assert_array_equal(got, wanted, err_msg=result.name)
        assert (out[-64:] == 99).all()


@pytest.mark.sweep(default=5, full=200)
@pytest.mark.parametrize("device", ["sample", "spyre", QUAD])
@given(case=cases())
def test_random_kernels(device: str, case: Case) -> None:
    """Checklist C8 in spirit: every pass keeps the meaning; broadcasts, ragged rows, loops and scalars."""
    check(case, device, stages=True)
