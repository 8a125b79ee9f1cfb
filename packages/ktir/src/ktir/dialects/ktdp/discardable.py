"""The ``ktdp.*`` attributes that modules and function arguments carry.

On a module: ``ktdp.address_unit``, ``ktdp.grid_order`` and ``ktdp.f16_format`` (see `ktir.machine`), and
``ktdp.scratchpad_keepout``, an array of ``[low, high]`` byte ranges that belong to other kernels. On an
argument: ``ktdp.layout`` and ``ktdp.name``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, IntegerAttr, StringAttr
from ktir.dialects.func import Func
from ktir.errors import Diagnostic, Note, finding
from ktir.ir import Operation
from ktir.layout import Layout
from ktir.machine import AddressUnit, F16Format, GridOrder

__all__ = ["KEEPOUT", "LAYOUT", "NAME", "keepout_ranges", "verify_function", "verify_module"]

LAYOUT = "ktdp.layout"
NAME = "ktdp.name"
KEEPOUT = "ktdp.scratchpad_keepout"
_SWITCHES = {"ktdp.address_unit": AddressUnit, "ktdp.grid_order": GridOrder, "ktdp.f16_format": F16Format}


def verify_module(module: Operation) -> Iterator[str | Diagnostic]:
    """What is wrong with the ``ktdp.*`` attributes of a module."""
    attributes = module.attributes
    for name, values in _SWITCHES.items():
        found = attributes.get(name)
        if found is not None and not (isinstance(found, StringAttr) and found.value in list(values)):
            allowed = " or ".join(f'"{v}"' for v in values)
            yield finding(
                f"attribute '{name}' must be {allowed}, but got {found}",
                f'leave it out for "{next(iter(values))}"',
            )
    keepout = attributes.get(KEEPOUT)
    if keepout is not None:
        try:
            keepout_ranges(keepout)
        except ValueError as error:
            yield finding(
                f"attribute '{KEEPOUT}' {error}",
                "for example [[0, 4096]]: bytes of every scratchpad that other kernels keep",
            )


def verify_function(function: Operation) -> Iterator[str | Diagnostic]:
    """What is wrong with the ``ktdp.*`` attributes of a function's arguments; located at the argument."""
    if not isinstance(function, Func):
        return
    for position, argument in enumerate(function.arguments):
        attributes = function.argument_attributes(position)
        layout, name = attributes.get(LAYOUT), attributes.get(NAME)
        if layout is not None and not isinstance(layout, Layout):
            yield Diagnostic(
                f"attribute '{LAYOUT}' must be a #ktdp.layout<...>, but got {layout}",
                argument.location,
                notes=(Note("leave it out for C order"),),
            )
        if name is not None and not (isinstance(name, StringAttr) and name.value):
            yield Diagnostic(
                f"attribute '{NAME}' must be a non-empty string, but got {name}",
                argument.location,
                notes=(Note("leave it out for the argument's own name"),),
            )


def keepout_ranges(attribute: Attribute | None) -> tuple[tuple[int, int], ...]:
    """The byte ranges ``[low, high)`` of a ``ktdp.scratchpad_keepout``; ValueError if it is malformed."""
    if attribute is None:
        return ()
    ranges: list[tuple[int, int]] = []
    for item in attribute if isinstance(attribute, ArrayAttr) else (attribute,):
        match item:
            case ArrayAttr(elements=(IntegerAttr(value=low), IntegerAttr(value=high))) if 0 <= low < high:
                ranges.append((low, high))
            case _:
                raise ValueError(
                    f"must hold ranges [low, high] of bytes with 0 <= low < high, but got {item}"
                )
    return tuple(ranges)
