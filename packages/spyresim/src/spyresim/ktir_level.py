"""The KTIR level: what a kernel means (ktir spec 4, 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any, TypedDict

import numpy as np

from ktir.analysis import DefUse
from ktir.attributes import StringAttr
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.errors import Diagnostic
from ktir.interface import constant_buffers, find_function, pointers_of_views, signature
from ktir.ir import Operation, Value
from ktir.machine import Machine
from ktir.transforms import flatten
from spyresim.arguments import Binding, bind
from spyresim.cost import profile_of
from spyresim.errors import (
    ConflictFault,
    ExecutionFault,
    Site,
    UnsupportedError,
    one_of,
    require,
    require_arguments,
)
from spyresim.report import Counters, Report, Result
from spyresim.sequential.basic import BASIC
from spyresim.sequential.checks import STRICT, Checks, OutOfRange, Unwritten
from spyresim.sequential.clocks import Clocks
from spyresim.sequential.inter_tile import INTER_TILE
from spyresim.sequential.interpreter import DEFAULT_BUDGET, Frame, Handlers, Interpreter, grid_of
from spyresim.sequential.intrinsics import INTRINSICS
from spyresim.sequential.kernels import KERNELS
from spyresim.sequential.live import LiveTensors
from spyresim.sequential.memory import Bank, DeviceMemory
from spyresim.sequential.memrefs import MEMREFS
from spyresim.sequential.order import Hazard, OrderShadow
from spyresim.sequential.proposed import PROPOSED
from spyresim.sequential.structured import STRUCTURED
from spyresim.sequential.tensors import TENSORS
from spyresim.sequential.turns import Schedule, Turns
from spyresim.sequential.work import Work
from spyresim.watch import Watch

__all__ = ["KTIR_HANDLERS", "RunOptions", "run_bound", "run_ktir", "with_switches"]

KTIR_HANDLERS = BASIC.extended(KERNELS, INTER_TILE, PROPOSED, TENSORS, STRUCTURED, MEMREFS, INTRINSICS)


class RunOptions(TypedDict, total=False):
    """What `run_ktir` and `Session.run` take besides; `run_ktir` says what each means."""

    strict: bool
    schedule: Schedule | str
    seed: int
    budget: int
    out_of_range: OutOfRange | str
    unwritten: Unwritten | str
    check_scratchpad: bool


def run_ktir(
    module: Module,
    function: str | None = None,
    args: Mapping[str, object] | None = None,
    machine: Machine | None = None,
    *,
    strict: bool = False,
    schedule: Schedule | str = Schedule.LOCKSTEP,
    seed: int = 0,
    budget: int = DEFAULT_BUDGET,
    out_of_range: OutOfRange | str = OutOfRange.ERROR,
    unwritten: Unwritten | str = Unwritten.ERROR,
    check_scratchpad: bool = False,
    scratchpad: Bank | None = None,
    first_address: int | None = None,
) -> Result:
    """Execute one kernel of a KTIR module.

    Args:
        function: name of the kernel; may be left out if the module has only one public function.
        args: arrays and numbers by argument name; arrays of role output may be left out.
        machine: default `ktir.Machine()`; the module's own switches win.
        strict: whether two tiles that touch the same bytes, ordered by the schedule only, are an error
            (`ConflictFault`); otherwise they are a warning in the report.
        schedule: how tiles advance: all together (``"lockstep"``), one after another (``"sequential"``), or
            one operation of a tile drawn at random (``"random"``, by `seed`).
        budget: dynamic operations after which the run is given up (of all tiles together in lockstep, else of
            one tile).
        out_of_range: what coordinates behind the end of a view do: ``"error"``, or ``"zero"`` (reads give 0,
            writes are dropped).
        unwritten: whether reading memory that nobody has written is a fault (``"error"``) or gives the fill
            byte 0xCD (``"fill"``).
        check_scratchpad: whether the tensors that are alive at once must fit into the scratchpad of a tile,
            together with its views (`ScratchpadFault` has the table).
        scratchpad: the scratchpads to use, one instance a tile (see `Session`); default fresh ones.
        first_address: where buffers begin in device memory, in bytes.

    Returns:
        outputs (and input-outputs) by argument name, in the dtype of the array that was given, or else of
        the view; and the report.

    Raises:
        ktir.SignatureError: the interface of the kernel cannot be derived.
        ArgumentError: the arguments do not fit.
        ExecutionFault: the program did something that has no meaning.
        UnsupportedError: an operation that this level does not execute.
        CallError: an argument of another type.
    """
    require("run_ktir", "module", module, Module)
    require("run_ktir", "function", function, str, NoneType)
    require_arguments("run_ktir", args)
    require("run_ktir", "machine", machine, Machine, NoneType)
    require("run_ktir", "seed", seed, int)
    require("run_ktir", "budget", budget, int)
    schedule = one_of("run_ktir", "schedule", schedule, Schedule)
    checks = Checks(
        one_of("run_ktir", "out_of_range", out_of_range, OutOfRange),
        one_of("run_ktir", "unwritten", unwritten, Unwritten),
        check_scratchpad,
    )
    module = flatten(module)
    machine = (machine or Machine()).for_module(module.attributes)
    module = with_switches(module, machine)
    kernel = find_function(module, function)
    binding = bind(
        kernel.symbol,
        signature(module, kernel),
        constant_buffers(module, kernel),
        args or {},
        machine,
        first_address,
    )

    def watch(run: Interpreter, tiles: int) -> None:
        addresses = {buffer.name: buffer.address for buffer in binding.buffers}
        for view, position in pointers_of_views(module, kernel).items():
            run.homes[view] = run.device.only(addresses[binding.arguments[position].name])
        for bank in (run.scratchpad, *run.device.banks):
            shadow = OrderShadow(
                bank, run.clocks, lambda hazard: _hazard(run, hazard, strict), _SCHEDULES[schedule]
            )
            bank.order = shadow if tiles > 1 else None
            bank.forgiving = checks.unwritten is Unwritten.FILL
            bank.meter = run.work.meter(device=bank is not run.scratchpad)

    turns = None if schedule is Schedule.LOCKSTEP else Turns[Any](schedule, seed)
    return run_bound(
        module,
        kernel,
        binding,
        KTIR_HANDLERS,
        "ktir",
        budget,
        watch,
        scratchpad=scratchpad,
        turns=turns,
        checks=checks,
    )


_SCHEDULES = {
    Schedule.LOCKSTEP: "lockstep",
    Schedule.SEQUENTIAL: "the sequential schedule",
    Schedule.RANDOM: "the random schedule",
}


def _hazard(run: Interpreter, hazard: Hazard, strict: bool) -> None:
    if not strict:
        run.warn(str(Diagnostic(hazard.message, hazard.second.location, "warning")))
        return
    raise ConflictFault(
        hazard.message,
        site=hazard.second,
        memory=hazard.memory,
        address=hazard.address,
        first=hazard.first,
        second=hazard.second,
    )


def with_switches(module: Module, machine: Machine) -> Module:
    """The module with the machine's switches as attributes, so that every reader of it agrees."""
    switches = {
        "ktdp.address_unit": machine.address_unit,
        "ktdp.grid_order": machine.grid_order,
        "ktdp.f16_format": machine.f16_format,
    }
    standard = Machine()
    changes = {
        name: StringAttr(str(value))
        for name, value in switches.items()
        if name not in module.attributes and value != getattr(standard, name.removeprefix("ktdp."))
    }
    return module.replace(attributes=changes) if changes else module


def run_bound(
    module: Module,
    kernel: Func,
    binding: Binding,
    handlers: Handlers,
    level: str,
    budget: int,
    prepare: Callable[[Interpreter, int], None] | None = None,
    grain: int | None = None,
    scratchpad: Bank | None = None,
    turns: Turns[Any] | None = None,
    checks: Checks = STRICT,
    watch: Watch | None = None,
) -> Result:
    """Execute a kernel on bound arguments with a table of handlers.

    `prepare` gets the interpreter and the number of tiles before anything runs; `grain` is the granularity in
    bytes of who owns what in the scratchpads (default: a stick).
    """
    machine = binding.machine
    grid = grid_of(kernel) or (1,)
    tiles = math.prod(grid)
    if tiles > machine.tiles:
        raise ExecutionFault(
            f"the grid {list(grid)} has {tiles} compute tiles, the machine has {machine.tiles}",
            site=Site(kernel.name, kernel.location),
        )
    device = DeviceMemory(stick=machine.stick_bytes)
    for buffer in binding.buffers:
        if buffer.resident is not None:
            device.attach(buffer.name, buffer.address, buffer.resident.bank)
            continue
        try:
            bank = device.allocate(buffer.name, buffer.address, max(buffer.size, 1))
        except ValueError as error:
            raise UnsupportedError(f"views at constant addresses that overlap: {error}") from error
        if buffer.data is not None:
            bank.write_bytes(0, 0, buffer.data)
    watched = None if watch is None else watch.locate(binding.buffers)
    if watch is not None and watched is not None and watch.address is not None:
        device.allocation(watched.name).bank.watched = watch.address - watched.address
    structure = _Structure(module)
    if scratchpad is None:
        scratchpad = Bank("scratchpad", tiles, machine.scratchpad_bytes, machine.stick_bytes, grain=grain)
    run = Interpreter(
        machine=machine,
        handlers=handlers,
        device=device,
        scratchpad=scratchpad,
        lookup=structure.lookup,
        definer=structure.defuse.definer,
        loop_of=structure.loop_of,
        counters=Counters(),
        clocks=Clocks(tiles),
        work=Work(tiles, machine.stick_bytes, profile_of(machine.cost_profile)),
        level=level,
        budget=budget,
        checks=checks,
        live=LiveTensors(machine.scratchpad_bytes) if checks.scratchpad else None,
    )
    if prepare is not None:
        prepare(run, tiles)
    everyone = np.arange(tiles, dtype=np.int64)
    if turns is None:
        run.call(kernel, binding.values, Frame(everyone, grid))
    else:
        turns.run(
            [partial(_one_tile, run.alone(turns), kernel, binding, grid, tile) for tile in range(tiles)]
        )
    outputs = {
        buffer.name: binding.output(buffer, device.allocation(buffer.name).bank.read_bytes(0, 0, buffer.size))
        for buffer in binding.buffers
        if buffer.is_output and buffer.resident is None
    }
    if watch is not None and watched is not None:
        watch.writer = device.allocation(watched.name).bank.writer
    run.counters.operations.update(run.work.executed())
    work = run.work if level == "ktir" else None
    cost = work.cost() if work is not None else None
    cycles = None if cost is None else cost.cycles
    warnings = tuple(run.warnings)
    report = Report(level, kernel.symbol, tiles, run.counters, warnings, cycles, work=work, cost=cost)
    return Result(outputs, report)


def _one_tile(run: Interpreter, kernel: Func, binding: Binding, grid: tuple[int, ...], tile: int) -> None:
    run.call(kernel, binding.values, Frame(np.array([tile], np.int64), grid))


class _Structure:
    """Who calls, defines and contains what in a module."""

    def __init__(self, module: Module) -> None:
        self.defuse = DefUse(module)
        self._bodies: dict[str, list[Func]] = {}
        for op in module.walk():
            if isinstance(op, Func) and not op.is_declaration:
                self._bodies.setdefault(op.symbol, []).append(op)

    def lookup(self, at: Operation, name: str) -> Func:
        """The body of a called function: the nearest symbol, or the definition behind a declaration."""
        short = name.rsplit("::", 1)[-1]
        found = self.defuse.symbol(at, short)
        if isinstance(found, Func) and not found.is_declaration:
            return found
        bodies = self._bodies.get(short, [])
        if len(bodies) != 1:
            raise UnsupportedError(
                f"call of '{name}', which has {len(bodies)} definitions", Site(at.name, at.location)
            )
        return bodies[0]

    def loop_of(self, value: Value) -> Operation | None:
        """The operation whose block has `value` as an argument."""
        if self.defuse.definer(value) is not None:
            return None
        block = self.defuse.defining_block(value)
        return None if block is None else self.defuse.owner(block)
