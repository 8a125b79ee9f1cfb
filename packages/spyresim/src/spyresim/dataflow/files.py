"""The modules of one kernel: ``global.mlir`` and one file a program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

import ktir
from dfsched.dialects.dataflow import ProgramUnit
from dfsched.image import PinnedRange
from dfsched.pinned import pinned_of
from ktir.attributes import StringAttr
from ktir.dialects.func import Call, Func
from ktir.ir import Operation
from spyresim.errors import UnsupportedError

GLOBAL = "global.mlir"


@attrs.frozen(eq=False)
class DataflowFiles:
    """All functions of a kernel's DataflowIR by name, wherever they stand.

    `kernel` is the function that no other calls; `f16_format` the module attribute (``"ieee"`` without);
    `pinned` are the ranges of scratchpads that its programs share.
    """

    kernel: Func
    functions: Mapping[str, Func]
    f16_format: str
    pinned: tuple[PinnedRange, ...] = ()

    @classmethod
    def of(cls, modules: Mapping[str, ktir.Module]) -> DataflowFiles:
        """From parsed files; UnsupportedError if there is not exactly one kernel."""
        functions: dict[str, Func] = {}
        called: set[str] = set()
        format = "ieee"
        for name in sorted(modules, key=lambda n: (n != GLOBAL, n)):
            found = modules[name].attributes.get("ktdp.f16_format")
            if isinstance(found, StringAttr):
                format = found.value
            for op in modules[name].walk():
                match op:
                    case Func() if not op.is_declaration:
                        functions[op.symbol] = op
                    case Call():
                        called.add(op.callee.root)
                    case _:
                        pass
        roots = [f for name, f in functions.items() if name not in called]
        if len(roots) != 1:
            names = ", ".join(f.symbol for f in roots) or "none"
            raise UnsupportedError(f"DataflowIR with exactly one kernel; found {names}")
        return cls(roots[0], functions, format, _pinned(modules))

    @classmethod
    def load(cls, folder: Path) -> DataflowFiles:
        """From a folder that holds ``global.mlir`` and the program files."""
        try:
            found = (folder / GLOBAL).is_file()
        except (OSError, ValueError):  # no path at all, such as a name that is too long
            found = False
        if not found:
            raise UnsupportedError(f"{folder} holds no {GLOBAL}")
        context = ktir.Context()
        modules = {
            path.name: ktir.load(path, context)
            for path in sorted(folder.glob("*.mlir"))
            if path.name not in ("schedule.mlir", "kernel.mlir")
        }
        return cls.of(modules)


def _pinned(modules: Mapping[str, ktir.Module]) -> tuple[PinnedRange, ...]:
    """What any of the files pins, each range once."""
    found: dict[PinnedRange, None] = {}
    for module in modules.values():
        try:
            pinned = pinned_of(module)
        except ValueError as error:
            raise UnsupportedError(str(error)) from None
        found.update(
            (PinnedRange(kind, low, high), None) for kind, ranges in pinned.items() for low, high in ranges
        )
    return tuple(found)


def is_program(function: Operation) -> bool:
    """Whether a function holds units."""
    return any(isinstance(op, ProgramUnit) for op in function.walk())
