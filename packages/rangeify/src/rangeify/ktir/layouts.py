"""One device layout per buffer of a schedule, chosen so that every kernel finds its operands in matching
sticks (planning spec 1.5 and 1.9)."""

from __future__ import annotations

from ktir.layout import SPARSE
from ktir.types import Type
from rangeify.errors import UnsupportedError
from rangeify.ktir.access import Access, KernelAccesses
from rangeify.ktir.layout import DeviceLayout, device_layout
from rangeify.schedule_types import Schedule

_Order = tuple[int, ...]


def choose_layouts(
    schedule: Schedule, accesses: tuple[KernelAccesses, ...], elements: tuple[Type, ...]
) -> tuple[DeviceLayout, ...]:
    """The layout of every buffer; `elements[i]` is what buffer i stores on the device.

    Kernels are visited from the last to the first: a buffer that nothing constrains has the default order,
    the stick variable of a kernel follows from its output's layout, and each operand must then have that
    variable (or none) inside its sticks. Raises :class:`UnsupportedError` where two kernels disagree.
    """
    orders: dict[int, _Order] = {}
    for kernel, access in reversed(list(zip(schedule.kernels, accesses, strict=True))):
        target = kernel.buffers[0]
        order = orders.setdefault(target, _default(schedule.buffers[target].shape))
        stick = stick_loop(access.store, order)
        for load in access.loads.values():
            buffer = kernel.buffers[load.slot]
            wanted = _order_with(load, stick)
            if orders.setdefault(buffer, wanted) != wanted and not _fits(load, orders[buffer], stick):
                raise UnsupportedError(
                    f"buffer {schedule.buffers[buffer].name} in two device layouts "
                    f"(orders {list(orders[buffer])} and {list(wanted)}): restickify",
                    f"kernel {kernel.function_name}",
                )
    return tuple(
        device_layout(b.shape, elements[i], orders.get(i, _default(b.shape)))
        for i, b in enumerate(schedule.buffers)
    )


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
