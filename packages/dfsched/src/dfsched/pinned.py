"""The ranges of scratchpads that programs of a kernel share, as they travel to the image.

`address-assignment` puts them on the module, DataflowIR files carry them, and the image has them: what stands
there may be read by every program, while anything else that a program leaves behind may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from dfsched.architecture import Kind, kind_text
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, DictAttr, IntegerAttr
from ktir.dialects.builtin import Module
from ktir.types import I64

__all__ = ["PINNED", "Pinned", "pinned_of", "with_pinned"]

PINNED = "dataflow.pinned"
"""Attribute of a module: by memory kind, ``[first byte, last byte and one]`` of each range."""

Pinned: TypeAlias = Mapping[Kind, tuple[tuple[int, int], ...]]
"""Sorted byte ranges by memory kind."""


def with_pinned(module: Module, pinned: Pinned) -> Module:
    """The module with its pinned ranges told; as it is where there are none."""
    if not any(pinned.values()):
        return module
    entries = {
        kind_text(kind): ArrayAttr(
            tuple(ArrayAttr((IntegerAttr(low, I64), IntegerAttr(high, I64))) for low, high in ranges)
        )
        for kind, ranges in pinned.items()
    }
    return module.replace(attributes={PINNED: DictAttr(entries)})


def pinned_of(module: Module) -> Mapping[str, tuple[tuple[int, int], ...]]:
    """What `with_pinned` told; ValueError if the attribute is something else."""
    found = module.attributes.get(PINNED)
    if found is None:
        return {}
    if not isinstance(found, DictAttr):
        raise ValueError(f"'{PINNED}' must be a dictionary of ranges by memory kind")
    return {kind: tuple(_range(entry) for entry in _entries(value)) for kind, value in found.items()}


def _entries(value: Attribute) -> tuple[Attribute, ...]:
    if not isinstance(value, ArrayAttr):
        raise ValueError(f"'{PINNED}' must hold lists of ranges, not {value}")
    return value.elements


def _range(entry: Attribute) -> tuple[int, int]:
    match entry:
        case ArrayAttr(elements=(IntegerAttr(value=low), IntegerAttr(value=high))) if 0 <= low < high:
            return low, high
        case _:
            raise ValueError(f"'{PINNED}' must hold ranges of bytes, not {entry}")
