"""Which bytes of the scratchpads a kernel uses itself (readings, item 8).

These are the views that start at an address known at compile time, and what the module attribute
``ktdp.scratchpad_keepout`` keeps for residents of other kernels. Buffers of programs stay out of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dfsched.architecture import Architecture, Kind
from dfsched.passes.errors import UnsupportedKernel
from dfsched.passes.index_arithmetic import expand
from dfsched.passes.ir_tools import Definitions
from dfsched.pinned import Pinned
from ktir.affine import interval
from ktir.attributes import ArrayAttr, IntegerAttr, StringAttr
from ktir.dialects import func, ktdp
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic
from ktir.grid import grid_of
from ktir.ir import Operation
from ktir.types import I64, MemRefType, bit_width

__all__ = ["counts_bytes", "keep_out", "pinned_ranges"]

KEEPOUT = "ktdp.scratchpad_keepout"


def pinned_ranges(module: Module, architecture: Architecture) -> Pinned:
    """Byte ranges of the scratchpad that the kernel itself uses, by memory kind.

    `UnsupportedKernel` lists the views whose place in the scratchpad is not known at compile time.
    """
    pinned: dict[Kind, list[tuple[int, int]]] = {}
    findings: list[Diagnostic] = []
    definitions = Definitions(module)
    for op in module.walk():
        if not isinstance(op, ktdp.ConstructMemoryView):
            continue
        if not architecture.is_per_core_scratchpad(op.memory_space):
            continue
        try:
            found = _view_range(op, definitions, counts_bytes(module))
        except UnsupportedKernel as error:
            findings += error.diagnostics
            continue
        pinned.setdefault(architecture.memory_kind(op.memory_space), []).append(found)
    if findings:
        raise UnsupportedKernel(tuple(findings))
    for low, high in _keepout(module.attributes.get(KEEPOUT)):
        for memory in architecture.memories:
            if architecture.is_per_core_scratchpad(memory.kind):
                pinned.setdefault(memory.kind, []).append((low, high))
    return {kind: _merged(ranges) for kind, ranges in pinned.items()}


def counts_bytes(module: Module) -> bool:
    """Whether views of a module start at bytes (``ktdp.address_unit``) instead of elements."""
    return module.attributes.get("ktdp.address_unit") == StringAttr("byte")


def keep_out(module: Module, ranges: Iterable[tuple[int, int]]) -> Module:
    """The module with further ranges (bytes) that no buffer may touch."""
    known = _merged([*_keepout(module.attributes.get(KEEPOUT)), *ranges])
    if not known:
        return module
    entries = [ArrayAttr((IntegerAttr(low, I64), IntegerAttr(high, I64))) for low, high in known]
    return module.replace(attributes={KEEPOUT: ArrayAttr(tuple(entries))})


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted ranges; those that touch or overlap become one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def _view_range(view: ktdp.ConstructMemoryView, definitions: Definitions, in_bytes: bool) -> tuple[int, int]:
    type = view.result.type
    assert isinstance(type, MemRefType)
    size = (bit_width(type.element) + 7) // 8
    expr, leaves = expand(view.offset, definitions)
    bounds = []
    for leaf in leaves:
        if not isinstance(definitions.definer(leaf), ktdp.GetComputeTileId):
            raise UnsupportedKernel.at(
                view.location, "a view in the scratchpad must start at an address known at compile time"
            )
        bounds.append((0, _tiles(view, definitions) - 1))
    low, high = interval(expr, bounds)
    last = sum(
        max(0, extent - 1) * stride
        for extent, stride in zip(view.static_sizes, view.static_strides, strict=True)
    )
    unit = 1 if in_bytes else size
    return low * unit, high * unit + (last + 1) * size


def _tiles(view: Operation, definitions: Definitions) -> int:
    return math.prod(
        math.prod(grid_of(ancestor) or ())
        for ancestor in definitions.ancestors(view)
        if isinstance(ancestor, func.Func)
    )


def _keepout(attribute: object) -> Iterable[tuple[int, int]]:
    if not isinstance(attribute, ArrayAttr):
        return
    for entry in attribute:
        match entry:
            case ArrayAttr(elements=(IntegerAttr(value=low), IntegerAttr(value=high))):
                yield low, high
