"""`compile`: one kernel from KTIR to ScheduleIR, DataflowIR and SpyreCode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import NoneType

from attrs import field, frozen

import ktir
from dfsched.architecture import Architecture
from dfsched.codegen import Generated, generate
from dfsched.errors import require
from dfsched.footprint import check_footprint
from dfsched.options import Emit, Options
from dfsched.passes.base import Group, PassContext
from dfsched.passes.ensure_device_declaration import declare
from dfsched.passes.errors import ScheduleError
from dfsched.passes.pinned_ranges import keep_out, pinned_ranges
from dfsched.passes.select_plan import plans_of
from dfsched.pipeline import PassResult, pipeline, run_pipeline
from dfsched.plan import Plan
from dfsched.report import Report, report_of
from dfsched.split import split, write_split
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.errors import Diagnostic
from ktir.transforms import flatten
from spyrert.spyrecode import SpyreCode

__all__ = ["Compiled", "compile", "isolate_kernel", "kernels"]


@frozen(slots=False)
class Compiled:
    """A compiled kernel: the IR after every pass and everything that was made from it.

    `passes` is in order of execution; `remarks` are warnings of passes, with locations. `source` is the KTIR
    that was compiled (this kernel alone, with its device).
    """

    kernel: str
    architecture: Architecture
    options: Options
    passes: tuple[PassResult, ...]
    source: Module
    remarks: tuple[Diagnostic, ...] = field(default=())

    @property
    def schedule_ir(self) -> Module:
        """The module after the scheduler group (scheduler spec 2.3)."""
        return next(r.module for r in reversed(self.passes) if r.group is not Group.BACKEND)

    @cached_property
    def dataflow_ir(self) -> Mapping[str, Module]:
        """DataflowIR by file name: ``global.mlir`` and one module a program.

        `ScheduleError` if the compilation stopped before.
        """
        if self.options.stop_after is not None:
            raise ScheduleError.at(
                self.source.location,
                f"compiled up to '{self.options.stop_after}' only, there is no DataflowIR",
            )
        if self.options.emit is Emit.SCHEDULE:
            raise ScheduleError.at(
                self.source.location, "compiled to ScheduleIR only, there is no DataflowIR"
            )
        return split(self.passes[-1].module)

    @cached_property
    def generated(self) -> Generated:
        """The device image, the launch spec, and the artefact that packs them."""
        return generate(self.dataflow_ir, self.source, self.kernel, self.architecture)

    @property
    def spyrecode(self) -> SpyreCode:
        """The artefact for the runtime."""
        return self.generated.code

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The decisions, one plan per program."""
        return plans_of(self.schedule_ir)

    @cached_property
    def report(self) -> Report:
        """Programs with their routes, buffers and bytes."""
        return report_of(self.kernel, self.schedule_ir, self.architecture, self.remarks)

    def write(self, directory: str | Path) -> Path:
        """Write what was made into a directory.

        ``schedule.mlir`` and ``report.json``; from DataflowIR on ``global.mlir`` and one file a program; with
        SpyreCode ``launch_spec.json`` and ``spyreCodeDir/``. Returns the directory; it is made if it does not
        exist.
        """
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        (target / "schedule.mlir").write_text(ktir.print_module(self.schedule_ir), encoding="utf-8")
        (target / "report.json").write_text(self.report.to_json(), encoding="utf-8")
        if self.options.stop_after is not None:
            return target
        if self.options.emit is not Emit.SCHEDULE:
            write_split(dict(self.dataflow_ir), target)
        if self.options.emit is Emit.SPYRECODE:
            self.spyrecode.write(target)
        return target


def kernels(module: Module) -> tuple[str, ...]:
    """Names of the public functions with a body, in order; modules without a name count as their contents."""
    require("kernels", "module", module, Module)
    return tuple(
        op.symbol
        for op in flatten(module).operations
        if isinstance(op, Func) and op.is_public and not op.is_declaration
    )


def isolate_kernel(module: Module, name: str | None) -> tuple[Module, str]:
    """The module with one kernel only, and that kernel's name.

    `ScheduleError` when there is no kernel of that name, or none or several to choose from.
    """
    found = kernels(module)
    if name is None:
        if len(found) != 1:
            what = f"several kernels ({', '.join(found)}); name one" if found else "no kernel"
            raise ScheduleError.at(module.location, f"the module has {what}")
        name = found[0]
    elif name not in found:
        known = f"; kernels: {', '.join(found)}" if found else ""
        raise ScheduleError.at(module.location, f"the module has no kernel '{name}'{known}")
    others = set(found) - {name}
    flat = flatten(module)
    operations = tuple(op for op in flat.operations if not (isinstance(op, Func) and op.symbol in others))
    return flat.with_operations(operations), name


def compile(
    module: Module, device: Architecture | str | Path | None = None, options: Options | None = None
) -> Compiled:
    """Compile one kernel of a verified KTIR module.

    `device` is an architecture, a package device or a file; None takes the device that the module declares
    (which always wins). Raises `ScheduleError` (with locations) for what cannot be scheduled,
    `ArchitectureError` or `DeviceNotFound` for the device, `ktir.VerifyError` for invalid input, `CallError`
    for arguments of other types.
    """
    require("compile", "module", module, Module)
    require("compile", "device", device, Architecture, str, Path, NoneType)
    require("compile", "options", options, Options, NoneType)
    chosen = Options() if options is None else options
    if chosen.verify:
        ktir.verify(module)
    alone, kernel = isolate_kernel(module, chosen.kernel)
    declared, architecture = declare(alone, device)
    declared = _keep_out_of_others(module, declared, architecture)
    check_footprint(declared, kernel, architecture)
    context = PassContext(architecture, chosen)
    last = Group.SCHEDULER if chosen.emit is Emit.SCHEDULE else Group.BACKEND
    results = run_pipeline(declared, context, pipeline(chosen, last))
    compiled = Compiled(kernel, architecture, chosen, results, declared, tuple(context.remarks))
    if chosen.stop_after is not None:
        return compiled
    if chosen.emit is Emit.DFIR:
        _ = compiled.dataflow_ir
    elif chosen.emit is Emit.SPYRECODE:
        _ = compiled.generated
    return compiled


def _keep_out_of_others(module: Module, alone: Module, architecture: Architecture) -> Module:
    """The kernel, kept out of what other kernels of its module use in the scratchpad (readings, item 8)."""
    if len(kernels(module)) < 2:
        return alone
    ranges = pinned_ranges(module, architecture).values()
    return keep_out(alone, {entry for entries in ranges for entry in entries})


def texts(compiled: Compiled) -> Mapping[str, str]:
    """The IR after every pass as text, by ``NN-pass-name``."""
    return {
        f"{number:02}-{result.name}": ktir.print_module(result.module)
        for number, result in enumerate(compiled.passes)
    }
