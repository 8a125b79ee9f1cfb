"""Lowering of a Schedule to a KTIR Program (planning spec 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import ktir
from ktir.layout import STICK_BYTES
from ktir.machine import Machine
from ktir.types import Type
from rangeify.errors import UnsupportedDtype, UnsupportedError
from rangeify.ktir.access import kernel_accesses
from rangeify.ktir.emit import emit_function
from rangeify.ktir.layout import DeviceLayout
from rangeify.ktir.layouts import Chosen, choose_layouts
from rangeify.ktir.plan import plan_kernel
from rangeify.ktir.program import Launch, Place, Program, ProgramBuffer
from rangeify.ktir.scalar import STORAGE_TYPES
from rangeify.memory import lifetimes, place
from rangeify.schedule_types import Buffer, Kernel, Role, Schedule
from rangeify.signatures import checked


@checked
def lower(schedule: Schedule, machine: Machine) -> Program:
    """The kernels of `schedule` as KTIR for `machine`, with device layouts and a plan of device memory.

    Every kernel is divided over the machine's tiles by whole sticks and rows. Kernels with equal bodies and
    layouts share one module. Raises :class:`rangeify.UnsupportedError` naming the kernel and the operation
    for what has no lowering yet, and :class:`rangeify.UnsupportedDtype` naming the buffer.
    """
    if machine.stick_bytes != STICK_BYTES:
        raise UnsupportedError(f"a machine with sticks of {machine.stick_bytes} bytes")
    several = next((i for i in schedule.items if not isinstance(i, Kernel) or i.others), None)
    if several is not None:
        name = several.name if isinstance(several, Kernel) else "a copy between devices"
        raise UnsupportedError("lowering for several devices", name)
    elements = tuple(_element(b) for b in schedule.buffers)
    accesses = tuple(kernel_accesses(k) for k in schedule.kernels)
    chosen = choose_layouts(schedule, accesses, elements)
    modules: dict[str, ktir.Module] = {}
    items = []
    for kernel, access, arguments in zip(schedule.kernels, chosen.accesses, chosen.arguments, strict=True):
        mine = [chosen.storages[a].layout for a in arguments]
        name = function_name(kernel, mine)
        if name not in modules:
            plan = plan_kernel(access, mine, machine.tiles, f"kernel {name}")
            names = ["out", *(f"in{i}" for i in range(1, len(mine)))]
            text = emit_function(name, kernel, plan, mine, names)
            head = _module_attributes(machine)
            modules[name] = ktir.parse(f"module{head} {{\n{text}\n}}\n", file=name)
            ktir.verify(modules[name])
        items.append(Launch(name, modules[name], arguments))
    return _program(schedule, tuple(items), chosen, machine)


def function_name(kernel: Kernel, layouts: Sequence[DeviceLayout]) -> str:
    """The kernel's function name (reading 41); where a layout is not the default one, the layouts count as
    part of the body."""
    if all(layout.is_default for layout in layouts):
        return kernel.function_name
    digest = hashlib.sha256(kernel.body.key + repr([x.order for x in layouts]).encode()).hexdigest()
    return f"{kernel.body.arg.function_name}_{digest[:8]}"


def _element(buffer: Buffer) -> Type:
    element = STORAGE_TYPES.get(buffer.dtype)
    if element is None:
        raise UnsupportedDtype(buffer.dtype.name, f"buffer {buffer.name}")
    return element


def _module_attributes(machine: Machine) -> str:
    """The switches of `machine` that differ from what a module means without them (reading 5, 7)."""
    plain = Machine()
    changed = {
        f"ktdp.{field}": str(getattr(machine, field))
        for field in ("address_unit", "f16_format", "grid_order")
        if getattr(machine, field) != getattr(plain, field)
    }
    if not changed:
        return ""
    return " attributes {" + ", ".join(f'{k} = "{v}"' for k, v in changed.items()) + "}"


def _program(schedule: Schedule, items: tuple[Launch, ...], chosen: Chosen, machine: Machine) -> Program:
    planned = {
        i: chosen.storages[i].layout.stick.device_bytes
        for i, b in enumerate(schedule.buffers)
        if b.role is Role.TEMPORARY
    }
    placement = place(lifetimes((k.buffers for k in items), planned), machine.stick_bytes)
    buffers = []
    for i, storage in enumerate(chosen.storages):
        b = schedule.buffers[storage.buffer]
        kind = Place.ARENA if b.role is Role.TEMPORARY else Place(b.role.value)
        source = storage.buffer if i >= len(schedule.buffers) else None
        name = b.name if source is None else f"{b.name}_{i}"
        layout = storage.layout.stick
        buffers.append(
            ProgramBuffer(name, b.shape, b.dtype.name, layout, kind, placement.offsets.get(i), source)
        )
    return Program(
        items, tuple(buffers), schedule.inputs, schedule.outputs, placement.nbytes, schedule.variables
    )
