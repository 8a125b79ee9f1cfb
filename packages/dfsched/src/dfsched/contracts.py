"""The IR contracts at the borders between pass groups (scheduler spec 2.3), as verifiers.

A violation is a bug of a pass, never of the input; it is reported with every place. Besides the borders there
are milestones: what a pass establishes and all later passes must keep, which is checked after each pass where
that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

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
from dfsched.dialects.ktdf_arch import DeviceOp
from dfsched.errors import DfschedError
from dfsched.passes.base import Group
from dfsched.passes.ir_tools import Definitions
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, func, ktdp, linalg, memref, scf
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic
from ktir.grid import grid_of
from ktir.ir import Operation, Value
from ktir.types import MemRefType

__all__ = ["MILESTONES", "ContractError", "Milestone", "check_contract", "check_milestones"]

Rule = Callable[[Module, Architecture], Iterator[Diagnostic]]


@frozen(str=False)
class ContractError(DfschedError):
    """IR at a border does not keep the contract; `group` is the group before the border.

    `broken_by`: the pass after which a milestone is not kept.
    """

    group: Group
    diagnostics: tuple[Diagnostic, ...]
    broken_by: str | None = None

    def __str__(self) -> str:
        lines = "\n".join(str(diagnostic) for diagnostic in self.diagnostics)
        where = f"{self.group.value} group" if self.broken_by is None else f"pass '{self.broken_by}'"
        return f"contract after the {where} is broken:\n{lines}"


def check_contract(module: Module, group: Group, architecture: Architecture) -> None:
    """Check what must hold after a group; `ContractError` lists all violations."""
    rules: dict[Group, Rule] = {
        Group.DRIVER: _after_driver,
        Group.FRONTEND: _after_frontend,
        Group.SCHEDULER: _after_scheduler,
        Group.BACKEND: _after_backend,
    }
    findings = tuple(rules[group](module, architecture))
    if findings:
        raise ContractError(group, findings)


def check_milestones(
    module: Module, done: Collection[str], last: str, group: Group, architecture: Architecture
) -> None:
    """Check what the passes that are done have established; `ContractError` names the `last` one."""
    findings: list[Diagnostic] = []
    for milestone in MILESTONES:
        if milestone.after in done and milestone.until not in done:
            findings += milestone.rule(module, architecture)
    if findings:
        raise ContractError(group, tuple(findings), last)


def _after_driver(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    if not any(isinstance(op, DeviceOp) for op in module.operations):
        yield Diagnostic("the module declares no device", module.location)


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
                    yield Diagnostic(UNPLACED, op.location)
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


UNPLACED = "a buffer without an address is left"


def _after_backend(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    for op in module.walk():
        if op.name.partition(".")[0] in ("ktdf", "ktdf_lowering", "ktdp", "linalg", "memref", "tensor"):
            yield Diagnostic(f"'{op.name}' is left", op.location)
        elif isinstance(op, scf.For) and "loop_type" in op.attributes:
            yield Diagnostic("the annotation 'loop_type' is left", op.location)


# -- milestones: what a pass establishes and all later ones keep


@frozen
class Milestone:
    """A rule that holds behind the pass `after`, up to the pass `until`."""

    after: str
    until: str
    rule: Rule


def _leaf_stages(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    for op in module.walk():
        if isinstance(op, Stage):
            yield from _stage(op, architecture)


def _normal_loops(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    definitions = Definitions(module)

    def number(value: Value) -> int | None:
        match definitions.definer(value):
            case arith.Constant(value=IntegerAttr(value=found)):
                return found
            case _:
                return None

    for program in _programs(module):
        for op in program.walk():
            if isinstance(op, scf.For) and (number(op.lower), number(op.step)) != (0, 1):
                yield Diagnostic("a loop that does not count from 0 in steps of 1", op.location)


def _only_generics(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    for op in module.walk():
        if op.name.partition(".")[0] == "linalg" and not isinstance(
            op, linalg.Generic | linalg.Yield | linalg.Index | linalg.Fill
        ):
            yield Diagnostic(f"'{op.name}' is left", op.location)


def _left(*kinds: type[Operation]) -> Rule:
    def rule(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
        for op in module.walk():
            if isinstance(op, kinds):
                yield Diagnostic(f"'{op.name}' is left", op.location)

    return rule


def _one_grid_entry(module: Module, architecture: Architecture) -> Iterator[Diagnostic]:
    for op in module.walk():
        if isinstance(op, func.Func) and not op.is_declaration and len(grid_of(op) or ()) != 1:
            yield Diagnostic("the grid must have one entry", op.location)


_LOWERED = "ktdf-to-ktdflowering"

MILESTONES: tuple[Milestone, ...] = (
    Milestone("construct-three-stage-pipeline", "path-expansion", _after_frontend),
    Milestone("generalize-linalg", _LOWERED, _only_generics),
    Milestone("path-expansion", _LOWERED, _leaf_stages),
    Milestone("normalize-scf-for-loops", _LOWERED, _normal_loops),
    Milestone("tile-size-selection", _LOWERED, _left(ReserveSize)),
    Milestone("address-assignment", _LOWERED, _left(ReserveSize, memref.Dealloc)),
    Milestone("normalize-grid-to-1d", "wrap-program-dfir", _one_grid_entry),
    Milestone(_LOWERED, "wrap-program-dfir", _left(Stage)),
)
"""In the order of the passes."""
