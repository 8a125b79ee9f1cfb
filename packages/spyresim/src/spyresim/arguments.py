"""Binding of host values to the arguments of a kernel, for every level.

Arrays go to device memory in their argument's layout, at increasing stick-aligned addresses in argument order
from `Machine.first_address`; views at constant addresses are buffers of their own, named by byte address.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from ktir.dtypes import element_bytes
from ktir.errors import KtirError
from ktir.interface import Argument, ConstantBuffer, Role, find_argument
from ktir.layout import Layout, LinearLayout, from_device_bytes, to_device_bytes
from ktir.machine import AddressUnit, Machine
from ktir.reporting import diagnostics_of
from ktir.types import FloatType, Type
from spyresim.errors import ArgumentError
from spyresim.meaning.formats import Array, float_format, held_dtype

if TYPE_CHECKING:
    from spyresim.sequential.memory import Bank

__all__ = ["Binding", "Buffer", "Resident", "bind"]


@attrs.frozen(eq=False)
class Resident:
    """An array that stays in device memory: its byte address, layout, and the memory behind it."""

    address: int
    layout: Layout
    bank: Bank


@attrs.frozen(eq=False)
class Buffer:
    """A piece of device memory that the host fills or reads.

    `address` in bytes; `data` the initial device bytes, None if the host gives none; `dtype` the wanted host
    dtype of the result (None: that of the format); `resident` memory that exists already.
    """

    name: str
    address: int
    layout: Layout
    role: Role
    data: npt.NDArray[np.uint8] | None
    dtype: np.dtype[Any] | None
    resident: Resident | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.layout.device_bytes

    @property
    def is_output(self) -> bool:
        return self.role is not Role.INPUT


@attrs.frozen(eq=False)
class Binding:
    """`values` are what the function receives, one scalar array (shape ``(1,)``) an argument."""

    arguments: tuple[Argument, ...]
    values: tuple[Array, ...]
    buffers: tuple[Buffer, ...]
    machine: Machine

    def output(self, buffer: Buffer, data: npt.NDArray[np.uint8]) -> Array:
        """The host array in the device bytes of a buffer."""
        return from_device_bytes(data, buffer.layout, buffer.dtype, self.machine.f16_format)


def bind(
    function: str,
    arguments: Sequence[Argument],
    constants: Sequence[ConstantBuffer],
    args: Mapping[str, object],
    machine: Machine,
    first_address: int | None = None,
) -> Binding:
    """Fit host values to arguments.

    Args:
        args: arrays and numbers by argument name (``argN`` works, too) or by buffer name (``@0x800``). Arrays
            of role output may be left out. A `Resident` stands for the array that it holds.
        first_address: where buffers begin, in bytes; default `Machine.first_address`.

    Raises:
        ArgumentError: unknown, missing, or misfitting values; `argument` names the one.
    """
    given = _by_argument(function, arguments, constants, args)
    scalars = {
        a.name: _scalar(function, a, given.get(a.name), machine) for a in arguments if not a.is_pointer
    }
    address = machine.first_address if first_address is None else first_address
    fixed: list[Buffer] = []
    for constant in constants:
        layout: Layout = LinearLayout(constant.shape, constant.element)
        data, dtype = _array(
            function, constant.name, constant.role, layout, given.get(constant.name), machine
        )
        fixed.append(Buffer(constant.name, constant.address, layout, constant.role, data, dtype))
        address = max(address, _aligned(constant.address + layout.device_bytes, machine))
    buffers: list[Buffer] = []
    values: list[Array] = []
    for argument in arguments:
        if not argument.is_pointer:
            values.append(scalars[argument.name])
            continue
        assert argument.role is not None
        layout = argument.layout or LinearLayout(_shape(function, argument, scalars), argument.element)
        unit = 1 if machine.address_unit is AddressUnit.BYTE else element_bytes(argument.element)
        value = given.get(argument.name)
        if argument.is_open:
            layout = _open_layout(function, argument, layout, value)
        if isinstance(value, Resident):
            buffers.append(_resident(function, argument.name, argument.role, layout, value))
            values.append(np.array([value.address // unit], np.int64))
            continue
        data, dtype = _array(function, argument.name, argument.role, layout, value, machine)
        buffers.append(Buffer(argument.name, address, layout, argument.role, data, dtype))
        values.append(np.array([address // unit], np.int64))
        address = _aligned(address + max(layout.device_bytes, 1), machine)
    return Binding(tuple(arguments), tuple(values), (*fixed, *buffers), machine)


def _resident(function: str, name: str, role: Role, layout: Layout, value: Resident) -> Buffer:
    if value.layout != layout:
        raise ArgumentError(
            f"argument '{name}' of '{function}' must have layout {layout}, but the resident array has "
            f"{value.layout}",
            name,
            function,
        )
    return Buffer(name, value.address, layout, role, None, None, value)


def _open_layout(function: str, argument: Argument, least: Layout, value: object) -> Layout:
    """The layout of an array whose size the kernel does not state: its own, if it holds what a view needs."""
    what = f"argument '{argument.name}' of '{function}'"
    elements = math.prod(least.shape)
    match value:
        case Resident(layout=LinearLayout(shape=shape) as layout) if layout.element == argument.element:
            pass
        case np.ndarray(shape=shape):
            layout = LinearLayout(shape, argument.element)
        case _:
            return least
    if math.prod(shape) < elements:
        raise ArgumentError(
            f"{what} must have at least {elements} elements, but the array has shape {shape}",
            argument.name,
            function,
        )
    return layout


def _aligned(address: int, machine: Machine) -> int:
    return -(-address // machine.stick_bytes) * machine.stick_bytes


def _by_argument(
    function: str,
    arguments: Sequence[Argument],
    constants: Sequence[ConstantBuffer],
    args: Mapping[str, object],
) -> dict[str, object]:
    given: dict[str, object] = {}
    fixed = {c.name for c in constants}
    for name, value in args.items():
        if name in fixed:
            found = name
        else:
            try:
                found = find_argument(arguments, name).name
            except KeyError:
                known = ", ".join([*(a.name for a in arguments), *sorted(fixed)]) or "none"
                raise ArgumentError(
                    f"'{function}' has no argument '{name}'; its arguments: {known}", name, function
                ) from None
        if found in given:
            raise ArgumentError(f"argument '{found}' of '{function}' is given twice", found, function)
        given[found] = value
    return given


def _shape(function: str, argument: Argument, scalars: Mapping[str, Array]) -> tuple[int, ...]:
    assert argument.shape is not None
    shape = tuple(n if isinstance(n, int) else int(scalars[n][0]) for n in argument.shape)
    if any(extent < 0 for extent in shape):
        raise ArgumentError(
            f"argument '{argument.name}' of '{function}' cannot have shape {shape}", argument.name, function
        )
    return shape


def _scalar(function: str, argument: Argument, value: object, machine: Machine) -> Array:
    what = f"argument '{argument.name}' of '{function}'"
    if value is None:
        raise ArgumentError(f"{what} (scalar {argument.dtype}) is missing", argument.name, function)
    if isinstance(value, int) and not isinstance(argument.element, FloatType):
        value = _fitting(what, argument.name, function, value, argument.element)
    array = np.asarray(value)
    if array.ndim != 0 or (array.dtype.kind not in "iufb" and not isinstance(argument.element, FloatType)):
        raise ArgumentError(f"{what} must be a number, not {value!r}", argument.name, function)
    if isinstance(argument.element, FloatType):
        number = float_format(argument.element, machine.f16_format)
        return number.narrow(np.asarray([float(array)], np.float64))
    if array.dtype.kind == "f":
        raise ArgumentError(f"{what} must be an integer, not {value!r}", argument.name, function)
    _check_promise(what, argument, int(array), function)
    return np.array([_fitting(what, argument.name, function, int(array), argument.element)])


def _fitting(what: str, name: str, function: str, value: int, element: Type) -> np.generic[Any]:
    held = held_dtype(element)
    limits = (0, 1) if held == np.bool_ else (int(np.iinfo(held).min), int(np.iinfo(held).max))
    if not limits[0] <= value <= limits[1]:
        raise ArgumentError(f"{what}: {value} does not fit {element}", name, function)
    scalar: np.generic[Any] = held.type(value)
    return scalar


def _check_promise(what: str, argument: Argument, value: int, function: str) -> None:
    if argument.upperbound is not None and not 0 <= value <= argument.upperbound:
        raise ArgumentError(
            f"{what} is promised to be at most {argument.upperbound}, but is {value}", argument.name, function
        )
    if value % argument.granularity:
        raise ArgumentError(
            f"{what} is promised to be a multiple of {argument.granularity}, but is {value}",
            argument.name,
            function,
        )


def _array(
    function: str, name: str, role: Role, layout: Layout, value: object, machine: Machine
) -> tuple[npt.NDArray[np.uint8] | None, np.dtype[Any] | None]:
    """The device bytes of an array, and its dtype."""
    what = f"argument '{name}' of '{function}'"
    if value is None:
        if role is Role.OUTPUT:
            return None, None
        raise ArgumentError(
            f"{what} ({role}, {layout.element} of shape {layout.shape}) is missing", name, function
        )
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"{what} must be an array, not {type(value).__name__}", name, function)
    if value.shape != layout.shape:
        raise ArgumentError(
            f"{what} must have shape {layout.shape}, but the array has shape {value.shape}", name, function
        )
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    try:
        return to_device_bytes(value, layout, machine.f16_format), value.dtype
    except KtirError as error:
        raise ArgumentError(f"{what}: {diagnostics_of(error)[0].message}", name, function) from error
