"""The schedule level: ScheduleIR after any pass, and KTDFLow (design 5)."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType

import attrs

from dfsched.architecture import Architecture
from dfsched.architecture.loading import DeviceManager
from dfsched.compilation import Compiled
from ktir.dialects.builtin import Module
from ktir.interface import (
    Argument,
    ConstantBuffer,
    constant_buffers,
    find_function,
    signature,
)
from ktir.machine import Machine
from spyresim.arguments import bind
from spyresim.errors import ArgumentError, require, require_arguments
from spyresim.ktir_level import KTIR_HANDLERS, run_bound, with_switches
from spyresim.report import Result
from spyresim.sequential.interpreter import DEFAULT_BUDGET, Interpreter
from spyresim.sequential.schedule import SCHEDULE, Hardware
from spyresim.watch import Watch

__all__ = ["SCHEDULE_HANDLERS", "Interface", "interface_of", "run_schedule"]

SCHEDULE_HANDLERS = KTIR_HANDLERS.extended(SCHEDULE)
OWNERSHIP_BYTES = 2
"""Granularity in which scratchpad temporaries of different programs are told apart."""


@attrs.frozen
class Interface:
    """What a kernel receives; it is derived from the KTIR and holds after every pass."""

    kernel: str
    arguments: tuple[Argument, ...]
    constants: tuple[ConstantBuffer, ...]


def interface_of(module: Module, function: str | None = None) -> Interface:
    """The interface of a kernel of a KTIR module; `ktir.SignatureError` if it cannot be derived."""
    kernel = find_function(module, function)
    return Interface(kernel.symbol, signature(module, kernel), constant_buffers(module, kernel))


def run_schedule(
    program: Compiled | Module,
    args: Mapping[str, object] | None = None,
    *,
    module: Module | None = None,
    interface: Interface | None = None,
    architecture: Architecture | None = None,
    machine: Machine | None = None,
    budget: int = DEFAULT_BUDGET,
    watch: Watch | None = None,
) -> Result:
    """Execute ScheduleIR or KTDFLow sequentially.

    Args:
        program: a compiled kernel, or a module by itself.
        args: as in `run_ktir`.
        module: of a compiled kernel, the module to run (the result of one of its passes); default its
            ScheduleIR.
        interface: what the kernel receives; needed for a module by itself in which the views have already
            moved into programs.
        architecture: default that of the compiled kernel, or the device that the module declares.
        machine: default that of the architecture; the module's own switches win.
        watch: is told who writes an element.

    Raises:
        what `run_ktir` raises; `dfsched.ArchitectureError` if there is no device.
    """
    require("run_schedule", "program", program, Compiled, Module)
    require_arguments("run_schedule", args)
    require("run_schedule", "module", module, Module, NoneType)
    require("run_schedule", "interface", interface, Interface, NoneType)
    require("run_schedule", "architecture", architecture, Architecture, NoneType)
    require("run_schedule", "machine", machine, Machine, NoneType)
    require("run_schedule", "budget", budget, int)
    if isinstance(program, Compiled):
        module = program.schedule_ir if module is None else module
        architecture = program.architecture if architecture is None else architecture
        interface = interface_of(program.source, program.kernel) if interface is None else interface
    else:
        module = program
        if architecture is None:
            architecture = DeviceManager(module).require()
        if interface is None:
            interface = _own_interface(module)
    machine = (machine or architecture.machine()).for_module(module.attributes)
    module = with_switches(module, machine)
    binding = bind(interface.kernel, interface.arguments, interface.constants, args or {}, machine)
    device = architecture

    def prepare(run: Interpreter, tiles: int) -> None:
        run.cache[Hardware] = Hardware(device, run, tiles)

    kernel = find_function(module, interface.kernel)
    return run_bound(
        module,
        kernel,
        binding,
        SCHEDULE_HANDLERS,
        "schedule",
        budget,
        prepare,
        OWNERSHIP_BYTES,
        watch=watch,
    )


def _own_interface(module: Module) -> Interface:
    if any("ktdf.arguments" in op.attributes for op in module.walk()):
        raise ArgumentError(
            "the views of this module have moved into programs; give the interface of the kernel "
            "(spyresim.schedule_level.interface_of of its KTIR)"
        )
    return interface_of(module)
