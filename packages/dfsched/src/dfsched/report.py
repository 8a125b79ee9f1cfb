"""What the scheduler made of a kernel, for people and tools."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import attrs
from attrs import frozen

from dfsched.architecture import Architecture, kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import DataTransfer, DeriveSize, Parallel, Pipeline, Stage
from dfsched.passes.index_arithmetic import buffer_address, constant_value
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.loop_nests import read_plan
from dfsched.passes.simplify_loops import static_trips
from ktir.dialects import func, scf
from ktir.dialects.builtin import Module, UnrealizedConversionCast
from ktir.errors import Diagnostic
from ktir.grid import grid_of
from ktir.ir import Operation
from ktir.types import MemRefType, bit_width

__all__ = ["BufferReport", "NestReport", "PipelineReport", "ProgramReport", "Report", "report_of"]


@frozen
class BufferReport:
    """A buffer: memory kind, byte address, size in bytes."""

    memory: str
    address: int
    size: int


@frozen
class PipelineReport:
    """A pipeline: iterations per tile of the grid (None if only known at run time), units of its leaf stages.

    `bytes_moved` counts, per unit and iteration, what its transfers read. Stages that hold a pipeline of
    their own are not listed here; that pipeline has a report of its own. `buffers` are those that it does
    not rotate.
    """

    iterations: int | None
    units: tuple[str, ...]
    bytes_moved: tuple[int, ...]
    buffers: tuple[BufferReport, ...]


@frozen
class NestReport:
    """What was chosen for a nest, and what kept its tiles from being larger."""

    tile_sizes: tuple[int, ...]
    buffer_depths: tuple[int, ...]
    instances: int
    instance_loop: int | None
    limit: str

    def __str__(self) -> str:
        depths = sorted(set(self.buffer_depths))
        parts = [
            f"tiles of {' x '.join(map(str, self.tile_sizes)) or 'one vector'}",
            f"{' or '.join(map(str, depths)) or 'no'} copies of a buffer",
        ]
        if self.instances > 1:
            parts.append(f"loop {self.instance_loop} over {self.instances} instances")
        return ", ".join(parts) + (f" ({self.limit})" if self.limit else "")


@frozen
class ProgramReport:
    """A program: its name, number of tiles, what its arguments are, its pipelines and nests in order.

    `buffers` are all that have an address, `memory_bytes` how far each memory is used.
    """

    name: str
    tiles: int
    arguments: tuple[str, ...]
    pipelines: tuple[PipelineReport, ...]
    nests: tuple[NestReport, ...] = ()
    buffers: tuple[BufferReport, ...] = ()
    memory_bytes: tuple[tuple[str, int], ...] = ()


@frozen
class Report:
    """A kernel: programs in order, remarks of passes as text."""

    kernel: str
    device: str
    programs: tuple[ProgramReport, ...]
    remarks: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Stable JSON text."""
        return json.dumps(attrs.asdict(self), indent=2, sort_keys=True) + "\n"

    def __str__(self) -> str:
        lines = [f"kernel {self.kernel} for device {self.device}"]
        for program in self.programs:
            used = "".join(f", {size} bytes of {memory}" for memory, size in program.memory_bytes)
            lines.append(f"  program {program.name}: {program.tiles} tiles{used}")
            lines += [f"    nest {number}: {nest}" for number, nest in enumerate(program.nests)]
            for pipeline in program.pipelines:
                trips = "?" if pipeline.iterations is None else str(pipeline.iterations)
                route = " -> ".join(
                    f"{unit} ({size} B)"
                    for unit, size in zip(pipeline.units, pipeline.bytes_moved, strict=True)
                )
                lines.append(f"    {trips} x {route}")
        return "\n".join([*lines, *self.remarks])


def report_of(
    kernel: str, schedule: Module, architecture: Architecture, remarks: Sequence[Diagnostic]
) -> Report:
    """The report of a scheduled kernel."""
    programs = tuple(
        _program(op)
        for module in schedule.operations
        if isinstance(module, Module) and module.sym_name is not None
        for op in module.operations
        if isinstance(op, func.Func)
    )
    return Report(kernel, architecture.name, programs, tuple(str(remark) for remark in remarks))


def _program(function: func.Func) -> ProgramReport:
    definitions = Definitions(function)
    tiles = math.prod(grid_of(function) or ())
    pipelines = tuple(_pipeline(op, definitions) for op in function.walk() if isinstance(op, Pipeline))
    names = tuple(argument.name or "" for argument in function.arguments)
    plan = read_plan(function)
    planned = () if plan is None else plan.nests
    nests = tuple(
        NestReport(n.tile_sizes, n.buffer_depths, n.instances, n.instance_loop, n.limit) for n in planned
    )
    buffers = tuple(_buffers(function, definitions))
    used: dict[str, int] = {}
    for buffer in buffers:
        used[buffer.memory] = max(used.get(buffer.memory, 0), buffer.address + buffer.size)
    return ProgramReport(
        function.symbol, tiles, names, pipelines, nests, buffers, tuple(sorted(used.items()))
    )


def _pipeline(pipeline: Pipeline, definitions: Definitions) -> PipelineReport:
    units: list[str] = []
    moved: list[int] = []
    buffers: list[BufferReport] = []
    for stage in pipeline.stages:
        if any(isinstance(op, Pipeline) for op in stage.walk()):
            continue
        units += stage.units or ()
        moved += [_moved(stage, definitions)] * len(stage.units or ())
    if pipeline.private is not None:
        buffers += _buffers(pipeline.private, definitions)
    return PipelineReport(_iterations(pipeline, definitions), tuple(units), tuple(moved), tuple(buffers))


def _iterations(op: Operation, definitions: Definitions, below: Operation | None = None) -> int | None:
    """How often an operation runs inside of another one (None: in all of the program)."""
    total = 1
    for ancestor in definitions.ancestors(op):
        if ancestor is below:
            break
        match ancestor:
            case scf.For():
                trips = static_trips(ancestor, definitions)
            case Parallel():
                bounds = [
                    constant_value(v, definitions) for v in (*ancestor.lower, *ancestor.upper, *ancestor.step)
                ]
                known = [bound for bound in bounds if bound is not None]
                trips = -(-(known[1] - known[0]) // known[2]) if len(known) == 3 == len(bounds) else None
            case scf.If():
                trips = None
            case _:
                trips = 1
        if trips is None:
            return None
        total *= trips
    return total


def _moved(stage: Stage, definitions: Definitions) -> int:
    """Bytes that the transfers of a stage read in one iteration; of the largest tile where tiles differ."""
    total = 0
    for op in stage.walk():
        if isinstance(op, DataTransfer):
            times = _iterations(op, definitions, stage)
            if times is None:
                times = _most(op, definitions, stage)
            total += op.source_cell.num_elements * _element_bytes(op) * times
    return total


def _most(op: Operation, definitions: Definitions, below: Operation) -> int:
    """An upper bound of how often an operation runs: tiles count as full ones, other unknown loops as one."""
    total = 1
    for ancestor in definitions.ancestors(op):
        if ancestor is below:
            break
        if isinstance(ancestor, scf.For):
            trips = static_trips(ancestor, definitions)
            size = definitions.definer(ancestor.upper)
            if trips is None and isinstance(size, DeriveSize):
                trips = constant_value(size.tile_sizes[-1], definitions)
            total *= 1 if trips is None else trips
    return total


def _element_bytes(op: DataTransfer) -> int:
    element = op.source.type.element  # type: ignore[attr-defined]
    return (bit_width(element) + 7) // 8


def _buffers(root: Operation, definitions: Definitions) -> Iterator[BufferReport]:
    for op in root.walk():
        if not isinstance(op, UnrealizedConversionCast):
            continue
        address = buffer_address(op, definitions)
        type = op.outputs[0].type if op.outputs else None
        if (
            isinstance(type, MemRefType)
            and type.is_static
            and type.memory_space is not None
            and address is not None
        ):
            size = type.num_elements() * ((bit_width(type.element) + 7) // 8)
            yield BufferReport(kind_text(kind_of(type.memory_space)), address, size)
