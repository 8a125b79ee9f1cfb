"""The IR contracts at the borders between pass groups (scheduler spec 2.3), as verifiers.

A violation is a bug of a pass, never of the input; it is reported with every place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from dfsched.architecture import Architecture
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import (
    DataTransfer,
    FifoSlotType,
    Pipeline,
    ReserveSize,
    Stage,
)
from dfsched.errors import DfschedError
from dfsched.passes.base import Group
from dfsched.passes.ir_tools import Definitions
from ktir.dialects import func, ktdp, linalg, memref, scf
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic
from ktir.grid import grid_of
from ktir.types import MemRefType

__all__ = ["ContractError", "check_contract"]


@frozen(str=False)
class ContractError(DfschedError):
    """IR at a border does not keep the contract; `group` is the group before the border."""

    group: Group
    diagnostics: tuple[Diagnostic, ...]

    def __str__(self) -> str:
        lines = "\n".join(str(diagnostic) for diagnostic in self.diagnostics)
        return f"contract after the {self.group.value} group is broken:\n{lines}"


def check_contract(module: Module, group: Group, architecture: Architecture) -> None:
    """Check what must hold after a group; `ContractError` lists all violations."""
    rules = {Group.FRONTEND: _after_frontend, Group.SCHEDULER: _after_scheduler}
    rule: Callable[[Module, Architecture], Iterator[Diagnostic]] | None = rules.get(group)
    if rule is None:
        return
    findings = tuple(rule(module, architecture))
    if findings:
        raise ContractError(group, findings)


def _programs(module: Module) -> Iterator[func.Func]:
    for op in module.operations:
        if isinstance(op, Module) and op.sym_name is not None:
            yield from (inner for inner in op.operations if isinstance(inner, func.Func))


def _after_frontend(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    for op in module.walk():
        if isinstance(op, ktdp.Load | ktdp.Store):
            yield Diagnostic(f"'{op.name}' is left", op.location)
    for program in _programs(module):
        for op in program.walk():
            if isinstance(op, ktdp.ConstructAccessTile):
                yield Diagnostic(f"'{op.name}' is left", op.location)
        if not any(isinstance(op, Pipeline) for op in program.walk()):
            yield Diagnostic("a program without a pipeline", program.location)
        for op in program.walk():
            if not isinstance(op, Pipeline):
                continue
            if len(op.stages) != 3:
                yield Diagnostic(f"a pipeline of {len(op.stages)} stages instead of 3", op.location)
            named = [stage for stage in op.stages if stage.units is not None]
            if len(named) != 1:
                yield Diagnostic(f"{len(named)} stages name units instead of the compute stage", op.location)


def _after_scheduler(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    definitions = Definitions(module)
    for op in module.walk():
        match op:
            case func.Func() if not op.is_declaration:
                if len(grid_of(op) or ()) != 1:
                    yield Diagnostic("the grid must have one entry", op.location)
            case ReserveSize() | memref.Dealloc():
                yield Diagnostic(f"'{op.name}' is left", op.location)
            case memref.Alloc():
                type = op.memref.type
                if isinstance(type, MemRefType) and type.memory_space is not None:
                    yield Diagnostic("a buffer without an address is left", op.location)
            case ktdp.GetComputeTileId() if len(op.results) != 1:
                yield Diagnostic("the tile id must have one result", op.location)
            case Stage():
                yield from _stage(op, architecture)
            case linalg.Generic():
                yield from _generic(op, definitions)
            case scf.For() if op.inits and not any(isinstance(a, Stage) for a in definitions.ancestors(op)):
                yield Diagnostic("a loop with loop-carried values outside of a stage", op.location)


def _stage(stage: Stage, architecture: Architecture) -> Iterator[Diagnostic]:
    if stage.units is None:
        yield Diagnostic("a stage without units", stage.location)
        return
    for unit in stage.units:
        if not architecture.is_unit(unit):
            yield Diagnostic(f"the device has no unit '{unit}'", stage.location)
            return
    nested = any(isinstance(op, Pipeline) for op in stage.walk())
    if nested:
        return
    if len(stage.units) != 1:
        yield Diagnostic("a leaf stage must name exactly one unit", stage.location)
        return
    unit = stage.units[0]
    for op in stage.walk():
        if isinstance(op, DataTransfer):
            yield from _transfer(op, unit, architecture)


def _transfer(op: DataTransfer, unit: str, architecture: Architecture) -> Iterator[Diagnostic]:
    for value, neighbours, verb in (
        (op.source, architecture.reads(unit), "read"),
        (op.dest, architecture.writes(unit), "write"),
    ):
        match value.type:
            case MemRefType(memory_space=space) if space is not None:
                if kind_of(space) not in neighbours:
                    yield Diagnostic(f"{unit} cannot {verb} {space}", op.location)
            case FifoSlotType() as slot:
                ends = [kind_of(end) for end in slot.ends]
                if unit not in ends:
                    yield Diagnostic(f"{unit} is no end of the queue {slot}", op.location)
            case other:
                yield Diagnostic(f"a transfer of {other}", op.location)


def _generic(op: linalg.Generic, definitions: Definitions) -> Iterator[Diagnostic]:
    if not any(isinstance(ancestor, Stage) for ancestor in definitions.ancestors(op)):
        yield Diagnostic("a computation outside of a stage", op.location)
    elif all(kind == "parallel" for kind in op.iterators) and not all(map.is_identity for map in op.maps):
        yield Diagnostic("an operand that does not fill the vector", op.location)
