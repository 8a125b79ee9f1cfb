"""What the scheduler made of a kernel, for people and tools."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import attrs
from attrs import frozen

from dfsched.architecture import Architecture, kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import DataTransfer, Pipeline, Stage
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.simplify_loops import static_trips
from ktir.dialects import func, scf
from ktir.dialects.builtin import Module, UnrealizedConversionCast
from ktir.errors import Diagnostic
from ktir.grid import grid_of
from ktir.ir import Operation
from ktir.types import MemRefType, bit_width

__all__ = ["BufferReport", "PipelineReport", "ProgramReport", "Report", "report_of"]


@frozen
class BufferReport:
    """A buffer: memory kind, byte address, size in bytes."""

    memory: str
    address: int
    size: int


@frozen
class PipelineReport:
    """A pipeline: iterations per tile (None if only known at run time), units in order of their stages.

    `bytes_moved` counts, per unit and iteration, what its transfers read.
    """

    iterations: int | None
    units: tuple[str, ...]
    bytes_moved: tuple[int, ...]
    buffers: tuple[BufferReport, ...]


@frozen
class ProgramReport:
    """A program: its name, number of tiles, what its arguments are, its pipelines in order."""

    name: str
    tiles: int
    arguments: tuple[str, ...]
    pipelines: tuple[PipelineReport, ...]


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
            lines.append(f"  program {program.name}: {program.tiles} tiles")
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
    return ProgramReport(function.symbol, tiles, names, pipelines)


def _pipeline(pipeline: Pipeline, definitions: Definitions) -> PipelineReport:
    units: list[str] = []
    moved: list[int] = []
    for stage in pipeline.stages:
        units += stage.units or ()
        moved += [_moved(stage)] * len(stage.units or ())
    buffers = tuple(_buffers(pipeline, definitions))
    return PipelineReport(_iterations(pipeline, definitions), tuple(units), tuple(moved), buffers)


def _iterations(pipeline: Pipeline, definitions: Definitions) -> int | None:
    total = 1
    for ancestor in definitions.ancestors(pipeline):
        match ancestor:
            case scf.For():
                trips = static_trips(ancestor, definitions)
                if trips is None:
                    return None
                total *= trips
            case scf.If():
                return None
    return total


def _moved(stage: Stage) -> int:
    return sum(
        op.source_cell.num_elements * _element_bytes(op)
        for op in stage.body.block.operations
        if isinstance(op, DataTransfer)
    )


def _element_bytes(op: DataTransfer) -> int:
    element = op.source.type.element  # type: ignore[attr-defined]
    return (bit_width(element) + 7) // 8


def _buffers(pipeline: Operation, definitions: Definitions) -> Iterator[BufferReport]:
    for op in pipeline.walk():
        if not isinstance(op, UnrealizedConversionCast):
            continue
        type = op.outputs[0].type
        address = constant_value(op.inputs[0], definitions)
        if isinstance(type, MemRefType) and type.memory_space is not None and address is not None:
            size = type.num_elements() * ((bit_width(type.element) + 7) // 8)
            yield BufferReport(kind_text(kind_of(type.memory_space)), address, size)
