"""On which level of the road a module stands: KTIR, ScheduleIR, DataflowIR, or a device description.

The command lines ask, so that a file of another level is named as what it is, with the command that takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

import ktir
from dfsched.dialects.ktdf_arch import DeviceOp
from dfsched.errors import DfschedError
from ktir.errors import Diagnostic
from ktir.ir import Operation
from ktir.location import Location
from ktir.recognition import Kind, recognise

__all__ = [
    "DATAFLOW_IR",
    "DEVICE",
    "KTIR",
    "SCHEDULE_IR",
    "WrongKind",
    "kind_of",
    "kind_of_path",
    "require_kind",
]

KTIR: Final = Kind("KTIR", ("dfsched compile", "spyresim run", "spyresim verify"))
SCHEDULE_IR: Final = Kind("ScheduleIR", ("dfsched opt",))
DATAFLOW_IR: Final = Kind("DataflowIR", ("dfsched check",))
DEVICE: Final = Kind("a device description", ("dfsched device", "dfsched compile --device"))

_DATAFLOW: Final = frozenset({"dataflow", "agen", "vectorchain", "uniform", "symbol"})
_SCHEDULE: Final = frozenset({"ktdf", "ktdf_lowering"})


@attrs.frozen(str=False)
class WrongKind(DfschedError):
    """A module of another level than the one that is `wanted`; `kind` is None for an empty module."""

    kind: Kind | None
    wanted: Kind
    location: Location | None = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong, at its place."""
        kind = self.kind or Kind("an empty module")
        return (Diagnostic(kind.instead_of(self.wanted.name), self.location),)

    def __str__(self) -> str:
        return str(*self.diagnostics)


def kind_of(module: Operation) -> Kind | None:
    """The lowest level of which a module has an operation; None if it has no code and no device."""
    dialects = {op.name.partition(".")[0] for op in _code(module)}
    if dialects & _DATAFLOW:
        return DATAFLOW_IR
    if dialects & _SCHEDULE:
        return SCHEDULE_IR
    if dialects - {"builtin"}:
        return KTIR
    return DEVICE if any(isinstance(op, DeviceOp) for op in module.walk()) else None


def _code(op: Operation) -> Iterator[Operation]:
    """An operation and those inside, without what stands in device descriptions."""
    pending = [op]
    while pending:
        current = pending.pop()
        if isinstance(current, DeviceOp):
            continue
        yield current
        pending += (
            inner for region in current.regions for block in region.blocks for inner in block.operations
        )


def require_kind(module: Operation, wanted: Kind) -> None:
    """`WrongKind` if a module stands on another level; an empty one may pass."""
    kind = kind_of(module)
    if kind not in (None, wanted):
        raise WrongKind(kind, wanted, module.location)


def kind_of_path(path: str | Path) -> Kind | None:
    """What a file or folder holds, text of MLIR by its level; None if that cannot be told."""
    found = recognise(path)
    if found is not None:
        return found
    try:
        return kind_of(ktir.load(path))
    except (ktir.KtirError, OSError):
        return None
