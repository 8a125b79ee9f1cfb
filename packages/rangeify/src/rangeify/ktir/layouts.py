"""Device layouts of a schedule's buffers, chosen so that every kernel finds its operands in matching sticks
(planning spec 1.5 and 1.9)."""

from __future__ import annotations

import attrs

from ktir.layout import SPARSE
from ktir.types import Type
from rangeify.errors import UnsupportedError
from rangeify.ktir.access import Access, KernelAccesses
from rangeify.ktir.layout import DeviceLayout, device_layout
from rangeify.schedule_types import Role, Schedule

_Order = tuple[int, ...]


@attrs.frozen
class Storage:
    """Device storage of a schedule's buffer in one layout."""

    buffer: int
    layout: DeviceLayout


@attrs.frozen(eq=False)
class Chosen:
    """``storages``: first one per buffer of the schedule, in its order, then further layouts of inputs.
    ``arguments``: per kernel the storages of its function's arguments. ``accesses``: per kernel, with slots
    renumbered to argument positions."""

    storages: tuple[Storage, ...]
    arguments: tuple[tuple[int, ...], ...]
    accesses: tuple[KernelAccesses, ...]


def choose_layouts(
    schedule: Schedule, accesses: tuple[KernelAccesses, ...], elements: tuple[Type, ...]
) -> Chosen:
    """The layouts of every buffer; `elements[i]` is what buffer i stores on the device.

    Kernels are visited from the last to the first: a buffer that nothing constrains has the default order,
    the stick variable of a kernel follows from its output's layout, and each operand must then have that
    variable (or none) inside its sticks. An input that is needed in several layouts is uploaded in each; for
    other buffers :class:`UnsupportedError` tells where two kernels disagree.
    """
    orders: dict[int, list[_Order]] = {}
    wanted: list[dict[Access, _Order]] = []
    for kernel, access in reversed(list(zip(schedule.kernels, accesses, strict=True))):
        target = kernel.buffers[0]
        known = orders.setdefault(target, [_default(schedule.buffers[target].shape)])
        stick = stick_loop(access.store, known[0])
        mine: dict[Access, _Order] = {access.store: known[0]}
        for load in access.loads.values():
            buffer = kernel.buffers[load.slot]
            have = orders.setdefault(buffer, [])
            fitting = next((o for o in have if _fits(load, o, stick)), None)
            if fitting is None:
                fitting = _order_with(load, stick)
                if have and (schedule.buffers[buffer].role is not Role.INPUT or load.slot == 0):
                    raise UnsupportedError(
                        f"buffer {schedule.buffers[buffer].name} in two device layouts "
                        f"(orders {list(have[0])} and {list(fitting)}): restickify",
                        f"kernel {kernel.function_name}",
                    )
                have.append(fitting)
            mine[load] = fitting
        wanted.append(mine)
    return _numbered(schedule, accesses, elements, orders, wanted[::-1])


def _numbered(
    schedule: Schedule,
    accesses: tuple[KernelAccesses, ...],
    elements: tuple[Type, ...],
    orders: dict[int, list[_Order]],
    wanted: list[dict[Access, _Order]],
) -> Chosen:
    places = [(i, (orders.get(i) or [_default(b.shape)])[0]) for i, b in enumerate(schedule.buffers)]
    places += [(i, order) for i in sorted(orders) for order in orders[i][1:]]
    number = {place: n for n, place in enumerate(places)}
    arguments, renumbered = [], []
    for kernel, access, mine in zip(schedule.kernels, accesses, wanted, strict=True):
        used = sorted(mine, key=lambda a: a.slot)
        own = list(dict.fromkeys(number[kernel.buffers[a.slot], mine[a]] for a in used))
        position = {a: own.index(number[kernel.buffers[a.slot], order]) for a, order in mine.items()}
        loads = {n: attrs.evolve(a, slot=position[a]) for n, a in access.loads.items()}
        arguments.append(tuple(own))
        renumbered.append(KernelAccesses(access.extents, access.store, loads))
    storages = tuple(Storage(i, device_layout(schedule.buffers[i].shape, elements[i], o)) for i, o in places)
    return Chosen(storages, tuple(arguments), tuple(renumbered))


def _default(shape: tuple[int, ...]) -> _Order:
    return tuple(range(len(shape)))


def stick_loop(access: Access, order: _Order) -> int | None:
    """The loop that runs inside the sticks of an access; None when the stick coordinate is constant."""
    if not order or order[-1] == SPARSE:
        return None
    return access.coordinates[order[-1]].loop


def _order_with(access: Access, stick: int | None) -> _Order:
    """The order of an operand's dimensions that puts loop `stick` inside the sticks: the default one if it
    does, else the default with that dimension last, else sticks with one useful element."""
    default = tuple(range(len(access.coordinates)))
    if _fits(access, default, stick):
        return default
    for axis, coordinate in enumerate(access.coordinates):
        if stick is not None and coordinate.loop == stick:
            return (*(d for d in default if d != axis), axis)
    return (*default, SPARSE)


def _fits(access: Access, order: _Order, stick: int | None) -> bool:
    """Whether an operand in this order has loop `stick` in its sticks, or no loop there and not elsewhere."""
    own = stick_loop(access, order)
    if own is not None or stick is None:
        return own == stick
    return all(c.loop != stick for c in access.coordinates)
