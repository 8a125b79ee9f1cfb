"""An interpreter of ScheduleIR in NumPy, for tests.

It knows only ScheduleIR: memories, queues, loops; pipelines run stage by stage. It checks bounds of every access,
and that scratchpad buffers at their assigned addresses do not disturb each other.
"""

from __future__ import annotations

import math
from collections import deque
from functools import cache
from typing import Any

import attrs
import numpy as np

from dfsched.dialects.ktdf import (
    BufferPhase,
    Cell,
    CreateToken,
    DataTransfer,
    DeriveSize,
    FifoAllocate,
    FifoSlotType,
    LinearizeIndex,
    Parallel,
    ParallelYield,
    Pipeline,
    Private,
    ReadFromFifo,
    ReserveSize,
    SelectMemref,
    Stage,
    WriteToFifo,
)
from ktir.affine import Const, Dim
from ktir.attributes import ArrayAttr, FloatAttr, IntegerAttr, StringAttr
from ktir.dialects import arith, func, ktdp, linalg, memref, scf, tensor
from ktir.dialects import math as math_dialect
from ktir.dialects.builtin import Module, UnrealizedConversionCast
from ktir.ir import Operation, Value
from ktir.types import MemRefType, TensorType

DTYPES = {"f16": np.float16, "f32": np.float32}
Memories = dict[str, bytearray]


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
        base = self.offset + sum(i * stride for i, stride in zip(start, self.strides, strict=True))
        index = base + offsets(box, self.strides)
        assert index.size == 0 or (index.min() >= 0 and index.max() < self.array.size)
        return index


@cache
def offsets(box: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Elements of a box at the origin, relative to its first one."""
    index = np.zeros(box, dtype=np.int64)
    for dim, grid in enumerate(np.indices(box)):
        index += grid * strides[dim]
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
    arith.CeilDivUI: lambda a, b: -(-a // b),
}
FLOATS = {
    arith.AddF: np.add,
    arith.SubF: np.subtract,
    arith.MulF: np.multiply,
    arith.MaximumF: np.maximum,
    arith.MinimumF: np.minimum,
    arith.NegF: np.negative,
    math_dialect.AbsF: np.abs,
    math_dialect.Exp: np.exp,
    arith.DivF: np.divide,
}


class Tile:
    """Runs one program for one tile."""

    def __init__(
        self, tile: int, grid: tuple[int, ...], memories: Memories, device: bytearray | None = None
    ) -> None:
        self.device = bytearray() if device is None else device
        self.tile = tile
        self.grid = grid
        self.memories = memories
        self.env: dict[Value, Any] = {}
        self.loops: dict[Value, tuple[int, int]] = {}
        self.tile_size = 3  # what open sizes are while they are open

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
                start = self.start(env[op.offset], op)
                env[op.result] = Memory(
                    start.array, start.offset, tuple(op.static_strides), tuple(op.static_sizes)
                )
            case memref.MemorySpaceCast():
                source = env[op.source]
                if source.array.size == 0:  # a view in the scratchpad: now its memory kind is known
                    element = DTYPES[str(op.dest.type.element)]
                    source = attrs.evolve(source, array=np.frombuffer(self.memory(op.dest.type), element))
                env[op.dest] = source
            case memref.ReinterpretCast():
                source = env[op.source]
                offset = env[op.offsets[0]] if op.offsets else op.static_offsets.values[0]
                env[op.result] = Memory(
                    source.array, source.offset + offset, tuple(op.static_strides), tuple(op.static_sizes)
                )
            case memref.Alloc():
                sizes = iter([env[size] for size in op.sizes])
                shape = tuple(next(sizes) if extent is None else extent for extent in op.memref.type.shape)
                array = np.full(math.prod(shape), np.nan, DTYPES[str(op.memref.type.element)])
                env[op.memref] = Memory(array, 0, row_major(shape), shape)
            case UnrealizedConversionCast():
                type = op.outputs[0].type
                shape = type.static_shape()
                dtype = DTYPES[str(type.element)]
                array = np.frombuffer(self.memory(type), dtype, math.prod(shape), env[op.inputs[0]])
                env[op.outputs[0]] = Memory(array, 0, row_major(shape), shape)
            case scf.For():
                values = range(env[op.lower], env[op.upper], env[op.step])
                for number, i in enumerate(values):
                    env[op.induction_variable] = i
                    self.loops[op.induction_variable] = (number, len(values))
                    self.run(op.body.block.operations)
            case Parallel():
                values = range(env[op.lower[0]], env[op.upper[0]], env[op.step[0]])
                chunk = -(-len(values) // op.num_instances.value)
                for number, i in enumerate(values):
                    env[op.induction_variables[0]], env[op.instance] = i, number // chunk
                    self.run(op.body.block.operations)
            case ReserveSize():
                step = op.divisibility.value
                env[op.size] = -(-max(self.tile_size, op.min_value.value) // step) * step
            case DeriveSize():
                rest = env[op.total_size]
                for variable, size in zip(op.loop_variables, op.tile_sizes, strict=True):
                    rest = min(max(rest - env[variable] * env[size], 0), env[size])
                env[op.size] = rest
            case LinearizeIndex():
                env[op.index] = sum(env[v] * env[s] for v, s in zip(op.variables, op.strides, strict=True))
            case BufferPhase():
                count = 0
                for variable in op.indices:
                    number, trips = self.loops[variable]
                    count = count * trips + number
                env[op.phase] = count % op.num_phases.value
            case SelectMemref():
                env[op.selected] = env[op.candidates[env[op.phase]]]
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
            case scf.Yield() | func.Return() | ParallelYield() | memref.Dealloc():
                pass
            case _:
                raise NotImplementedError(op.name)

    def start(self, value: Any, view: ktdp.ConstructMemoryView) -> Pointer:
        """Where a view starts: constants are elements of the device memory or of the scratchpad."""
        if isinstance(value, Pointer):
            return value
        if view.memory_space == ktdp.CT_LOCAL:
            return Pointer(np.zeros(0), value)
        return Pointer(np.frombuffer(self.device, DTYPES[str(view.result.type.element)]), value)

    def memory(self, type: MemRefType) -> bytearray:
        """The tile's memory of the kind that a type names."""
        assert isinstance(type.memory_space, StringAttr)
        return self.memories.setdefault(type.memory_space.value, bytearray(b"\xcd" * (1 << 16)))

    def transfer(self, op: DataTransfer) -> None:
        source, dest = cells(op)
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
                case arith.ExtF() | arith.TruncF():
                    scalars[inner.out] = scalars[inner.source].astype(DTYPES[str(inner.out.type)])
                case _:
                    scalars[inner.results[0]] = FLOATS[inner.__class__](*(scalars[v] for v in inner.operands))
        (value,) = block.operations[-1].operands
        dtype = DTYPES[str(type.element)]
        self.env[op.results[0]] = np.broadcast_to(scalars[value], type.static_shape()).astype(dtype)


@cache
def cells(op: DataTransfer) -> tuple[Cell, Cell]:
    return op.source_cell, op.dest_cell


def execute(module: Module, kernel: str, arguments: dict[str, Any], device: bytearray | None = None) -> None:
    """Run the coordinator; every call runs its program for all tiles, one after another.

    Scratchpads start filled with 0xCD and are kept from program to program; `device` is the memory that constant
    addresses mean.
    """
    inner = next(op for op in module.operations if isinstance(op, Module) and op.sym_name is None)
    main = inner.lookup(kernel)
    assert isinstance(main, func.Func)
    host = Tile(0, (1,), {})
    host.env.update({argument: arguments[argument.name] for argument in main.arguments})
    scratchpads: dict[int, Memories] = {}

    def run(operations: tuple[Operation, ...]) -> None:
        for op in operations:
            match op:
                case func.Call():
                    home = module.lookup(op.callee.root)
                    assert isinstance(home, Module)
                    program = home.lookup(op.callee.root)
                    assert isinstance(program, func.Func)
                    launch(program, [host.env[v] for v in op.operands], scratchpads, device)
                case scf.For():
                    for i in range(host.env[op.lower], host.env[op.upper], host.env[op.step]):
                        host.env[op.induction_variable] = i
                        run(op.body.block.operations)
                case scf.If():
                    region = op.then_region if host.env[op.condition] else op.else_region
                    for block in region.blocks:
                        run(block.operations)
                case _:
                    host.step(op)

    run(main.body.block.operations)


def launch(
    program: func.Func, values: list[Any], scratchpads: dict[int, Memories], device: bytearray | None
) -> None:
    grid = program.attributes.get("grid")
    extents = tuple(e.value for e in grid) if isinstance(grid, ArrayAttr) else (1,)
    for number in range(math.prod(extents)):
        tile = Tile(number, extents, scratchpads.setdefault(number, {}), device)
        tile.env.update(zip(program.arguments, values, strict=True))
        tile.run(program.body.block.operations)


def elementwise(shape: tuple[int, ...], grid: int = 1, broadcast: bool = False) -> str:
    """``o = a * b + a`` on rows of `grid` tiles; with `broadcast` b is one row."""
    rank = len(shape)
    view = (shape[0] * grid, *shape[1:])

    def box(extents: tuple[int, ...]) -> str:
        names = ", ".join(f"d{d}" for d in range(len(extents)))
        rules = ", ".join(f"d{d} >= 0, -d{d} + {n - 1} >= 0" for d, n in enumerate(extents))
        return f"affine_set<({names}) : ({rules})>"

    def dims(extents: tuple[int, ...], element: str) -> str:
        return "x".join([*map(str, extents), element])

    lines = [f"%rows = arith.constant {shape[0]} : index", "%zero = arith.constant 0 : index"]
    lines += ["%t = ktdp.get_compute_tile_id : index", "%r = arith.muli %t, %rows : index"]
    for name in ("a", "b", "o"):
        own, tile = (shape[1:], shape[1:]) if broadcast and name == "b" else (view, shape)
        strides = [int(np.prod(own[d + 1 :])) for d in range(len(own))]
        start = ", ".join((["%r"] if len(own) == rank else []) + ["%zero"] * (rank - 1))
        ids = ", ".join(f"d{d}" for d in range(len(own)))
        lines += [
            f"%v{name} = ktdp.construct_memory_view %{name}, sizes: {list(own)}, strides: {strides} "
            f"{{coordinate_set = {box(own)}, memory_space = #ktdp.memory_space<global>}} : memref<{dims(own, 'f16')}>",
            f"%t{name} = ktdp.construct_access_tile %v{name}[{start}] {{access_tile_set = {box(tile)}, "
            f"access_tile_order = affine_map<({ids}) -> ({ids})>}} : memref<{dims(own, 'f16')}> -> "
            f"!ktdp.access_tile<{dims(tile, 'index')}>",
        ]
        if name != "o":
            lines.append(
                f"%{name}x = ktdp.load %t{name} : <{dims(tile, 'index')}> -> tensor<{dims(tile, 'f16')}>"
            )
    whole = f"tensor<{dims(shape, 'f16')}>"
    operand = "%bx"
    if broadcast:
        lines += [
            f"%e = tensor.empty() : {whole}",
            f"%bb = linalg.broadcast ins(%bx : tensor<{dims(shape[1:], 'f16')}>) outs(%e : {whole}) dimensions = [0]",
        ]
        operand = "%bb"
    lines += [
        f"%p = arith.mulf %ax, {operand} : {whole}",
        f"%q = arith.addf %p, %ax : {whole}",
        f"ktdp.store %q, %to : {whole}, <{dims(shape, 'index')}>",
    ]
    body = "\n".join(lines)
    return (
        f"func.func @k(%a: index, %b: index, %o: index) attributes {{grid = [{grid}]}} {{\n{body}\nreturn\n}}"
    )
