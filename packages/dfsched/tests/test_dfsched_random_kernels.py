"""Random element-wise kernels: ScheduleIR after every pass, executed in NumPy, equals the kernel's meaning.

The interpreter below knows only ScheduleIR: memories, queues, loops, pipelines run stage by stage. It checks bounds
of every access, and that scratchpad buffers at their assigned addresses do not disturb each other.
"""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
from dfsched.dialects.ktdf import (
    CreateToken,
    DataTransfer,
    FifoAllocate,
    FifoSlotType,
    Pipeline,
    Private,
    ReadFromFifo,
    Stage,
    WriteToFifo,
)
from dfsched.passes.base import Group
from ktir.affine import Const, Dim
from ktir.attributes import ArrayAttr, FloatAttr, IntegerAttr
from ktir.dialects import arith, func, ktdp, linalg, memref, scf, tensor
from ktir.dialects import math as math_dialect
from ktir.dialects.builtin import Module, UnrealizedConversionCast
from ktir.ir import Operation, Value
from ktir.types import TensorType

DTYPES = {"f16": np.float16, "f32": np.float32}
QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")


# -- an interpreter of ScheduleIR


@attrs.frozen
class Pointer:
    """An address: an array of elements and an offset."""

    array: np.ndarray
    offset: int = 0

    def __add__(self, other: int) -> Pointer:
        return Pointer(self.array, self.offset + other)


@attrs.frozen
class Memory:
    """A memref at run time: array, offset and strides in elements, extents."""

    array: np.ndarray
    offset: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    def places(self, start: tuple[int, ...], box: tuple[int, ...]) -> np.ndarray:
        for first, size, extent in zip(start, box, self.shape, strict=True):
            assert 0 <= first <= first + size <= extent, (start, box, self.shape)
        index = np.full(box, self.offset, dtype=np.int64)
        for dim, grid in enumerate(np.indices(box)):
            index += (grid + start[dim]) * self.strides[dim]
        assert index.size == 0 or (index.min() >= 0 and index.max() < self.array.size)
        return index


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


INTEGERS = {
    arith.AddI: lambda a, b: a + b,
    arith.SubI: lambda a, b: a - b,
    arith.MulI: lambda a, b: a * b,
    arith.DivUI: lambda a, b: a // b,
    arith.RemUI: lambda a, b: a % b,
    arith.CeilDivSI: lambda a, b: -(-a // b),
}
FLOATS = {
    arith.AddF: np.add,
    arith.SubF: np.subtract,
    arith.MulF: np.multiply,
    arith.MaximumF: np.maximum,
    arith.MinimumF: np.minimum,
    arith.NegF: np.negative,
    math_dialect.AbsF: np.abs,
}


class Tile:
    """Runs one program for one tile."""

    def __init__(self, tile: int, grid: tuple[int, ...], scratchpad: bytearray) -> None:
        self.tile = tile
        self.grid = grid
        self.scratchpad = scratchpad
        self.env: dict[Value, Any] = {}

    def run(self, operations: tuple[Operation, ...]) -> None:
        for op in operations:
            self.step(op)

    def step(self, op: Operation) -> None:
        env = self.env
        match op:
            case arith.Constant(value=IntegerAttr(value=value)):
                env[op.result] = value
            case _ if op.__class__ in INTEGERS:
                env[op.results[0]] = INTEGERS[op.__class__](*(env[v] for v in op.operands))
            case arith.CmpI():
                a, b = (env[v] for v in op.operands)
                env[op.results[0]] = [a == b, a != b, a < b, a <= b, a > b, a >= b][op.predicate.value]
            case ktdp.GetComputeTileId():
                rest = self.tile
                for result, extent in zip(op.results, self.grid, strict=True):
                    env[result], rest = rest % extent, rest // extent
            case ktdp.ConstructMemoryView():
                start = env[op.offset]
                env[op.result] = Memory(
                    start.array, start.offset, tuple(op.static_strides), tuple(op.static_sizes)
                )
            case memref.MemorySpaceCast():
                env[op.dest] = env[op.source]
            case memref.ReinterpretCast():
                source = env[op.source]
                offset = env[op.offsets[0]] if op.offsets else op.static_offsets.values[0]
                env[op.result] = Memory(
                    source.array, source.offset + offset, tuple(op.static_strides), tuple(op.static_sizes)
                )
            case memref.Alloc():
                shape = op.memref.type.static_shape()
                array = np.full(math.prod(shape), np.nan, DTYPES[str(op.memref.type.element)])
                env[op.memref] = Memory(array, 0, row_major(shape), shape)
            case UnrealizedConversionCast():
                type = op.outputs[0].type
                shape = type.static_shape()
                dtype = DTYPES[str(type.element)]
                array = np.frombuffer(self.scratchpad, dtype, math.prod(shape), env[op.inputs[0]])
                env[op.outputs[0]] = Memory(array, 0, row_major(shape), shape)
            case scf.For():
                for i in range(env[op.lower], env[op.upper], env[op.step]):
                    env[op.induction_variable] = i
                    self.run(op.body.block.operations)
            case scf.If():
                region = op.then_region if env[op.condition] else op.else_region
                for block in region.blocks:
                    self.run(block.operations)
            case Pipeline():
                self.run(op.body.block.operations)
            case Private():
                self.run(op.body.block.operations[:-1])
                for result, value in zip(op.results, op.yielded, strict=True):
                    env[result] = env[value]
            case FifoAllocate():
                for slot in op.slots:
                    env[slot] = deque()
            case CreateToken():
                env[op.token] = None
            case Stage():
                self.run(op.body.block.operations)
            case DataTransfer():
                self.transfer(op)
            case ReadFromFifo():
                env[op.data] = env[op.slot].popleft().reshape(op.data.type.static_shape())
            case WriteToFifo():
                env[op.slot].append(env[op.data].reshape(-1))
            case tensor.Empty():
                env[op.result] = None
            case linalg.Generic():
                self.generic(op)
            case scf.Yield() | func.Return():
                pass
            case _:
                raise NotImplementedError(op.name)

    def transfer(self, op: DataTransfer) -> None:
        source, dest = op.source_cell, op.dest_cell
        if isinstance(source.value.type, FifoSlotType):
            data = self.env[source.value].popleft()
        else:
            memory, where = self.place(source)
            data = memory.array[where].reshape(-1).copy()
        if op.mode == "splat":
            data = np.tile(data, dest.num_elements // data.size)
        assert data.size == dest.num_elements
        if isinstance(dest.value.type, FifoSlotType):
            self.env[dest.value].append(data)
        else:
            memory, where = self.place(dest)
            memory.array[where.reshape(-1)] = data

    def place(self, cell: Any) -> tuple[Memory, np.ndarray]:
        memory = self.env[cell.value]
        start = cell.map.evaluate([self.env[v] for v in cell.indices])
        return memory, memory.places(tuple(start), cell.static_sizes)

    def generic(self, op: linalg.Generic) -> None:
        type = op.outputs[0].type
        assert isinstance(type, TensorType)
        grid = np.indices(type.static_shape())
        scalars: dict[Value, Any] = {}
        block = op.body.block
        for value, map, argument in zip(op.inputs, op.maps, block.arguments, strict=False):
            where = tuple(
                grid[e.position] if isinstance(e, Dim) else np.full(grid.shape[1:], e.value)
                for e in map.results
                if isinstance(e, Dim | Const)
            )
            scalars[argument] = self.env[value][where]
        for inner in block.operations[:-1]:
            match inner:
                case arith.Constant(value=FloatAttr() as number):
                    scalars[inner.result] = DTYPES[str(number.type)](number.value)
                case _:
                    scalars[inner.results[0]] = FLOATS[inner.__class__](*(scalars[v] for v in inner.operands))
        (value,) = block.operations[-1].operands
        dtype = DTYPES[str(type.element)]
        self.env[op.results[0]] = np.broadcast_to(scalars[value], type.static_shape()).astype(dtype)


def execute(module: Module, kernel: str, arguments: dict[str, Any]) -> None:
    """Run the coordinator; every call runs its program for all tiles, one after another."""
    inner = next(op for op in module.operations if isinstance(op, Module) and op.sym_name is None)
    main = inner.lookup(kernel)
    assert isinstance(main, func.Func)
    env = {argument: arguments[argument.name] for argument in main.arguments}
    host = Tile(0, (1,), bytearray())
    host.env.update(env)

    def run(operations: tuple[Operation, ...]) -> None:
        for op in operations:
            match op:
                case func.Call():
                    program = module.lookup(op.callee.root).lookup(op.callee.root)
                    launch(program, [host.env[v] for v in op.operands])
                case scf.For():
                    for i in range(host.env[op.lower], host.env[op.upper], host.env[op.step]):
                        host.env[op.induction_variable] = i
                        run(op.body.block.operations)
                case _:
                    host.step(op)

    run(main.body.block.operations)


def launch(program: func.Func, values: list[Any]) -> None:
    grid = program.attributes.get("grid")
    extents = tuple(e.value for e in grid) if isinstance(grid, ArrayAttr) else (1,)
    for number in range(math.prod(extents)):
        tile = Tile(number, extents, bytearray(b"\xcd" * (1 << 16)))
        tile.env.update(zip(program.arguments, values, strict=True))
        tile.run(program.body.block.operations)


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
    last = draw(st.sampled_from([1, 3, 8, 36, 63, 64, 65, 72, 100, 128, 136, 200]))
    block = (*(draw(st.integers(1, 4)) for _ in range(rank - 1)), last)
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
    for result in results:
        if result.group is Group.BACKEND:
            break
        out = np.full(math.prod(case.shape) + 64, 99, dtype)
        arguments["out"] = Pointer(out)
        execute(result.module, "kernel", arguments)
        got = out[:-64].reshape(case.shape)
        np.testing.assert_array_equal(got, wanted, err_msg=result.name)
        assert (out[-64:] == 99).all()


@pytest.mark.sweep(default=12, full=200)
@pytest.mark.parametrize("device", ["sample", "spyre", QUAD])
@given(case=cases())
def test_random_kernels(device: str, case: Case) -> None:
    """Checklist C8 in spirit: every pass keeps the meaning; broadcasts, ragged rows, loops and scalars."""
    check(case, device, stages=True)
