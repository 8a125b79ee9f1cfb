"""`address-assignment`: a fixed byte address for every buffer (scheduler spec 3.20).

Takes programs with `memref.alloc`s in memory spaces of the device. Leaves ``arith.constant ADDRESS`` and
``builtin.unrealized_conversion_cast`` in place of each, and no `memref.dealloc` of them. Addresses in a
scratchpad and below start afresh in every program; memories above keep counting over the programs. No
buffer touches a range that the kernel pins: any view in the memory at a constant address, and the module
attribute ``ktdp.scratchpad_keepout``. Addresses are aligned so that every unit may use any access to the
buffer. Allocations without a memory space stay.

Before::

    %b = memref.alloc() : memref<1x64xf16, "L1">

After::

    %a = arith.constant 128 : index
    %b = builtin.unrealized_conversion_cast %a : index to memref<1x64xf16, "L1">
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dfsched.architecture import Architecture, Kind, MemoryTracker
from dfsched.architecture.kinds import kind_of
from dfsched.errors import AddressError, ArchitectureError
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import index_constant
from dfsched.passes.errors import ScheduleError, UnsupportedKernel
from dfsched.passes.index_arithmetic import expand
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from ktir.affine import interval
from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import func, ktdp, memref
from ktir.dialects.builtin import Module, UnrealizedConversionCast
from ktir.errors import Diagnostic
from ktir.grid import grid_of
from ktir.ir import Operation, Value
from ktir.types import MemRefType, bit_width

__all__ = ["PASS", "pinned_ranges", "run"]

KEEPOUT = "ktdp.scratchpad_keepout"


def run(module: Module, context: PassContext) -> Module:
    """Assign all addresses; `ScheduleError` lists every buffer that does not fit."""
    architecture = context.architecture
    pinned = pinned_ranges(module, architecture)
    shared = MemoryTracker(architecture, pinned)
    findings: list[Diagnostic] = []
    new = _in_module(module, architecture, pinned, shared, findings)
    if findings:
        total = f"{len(findings)} buffers could not be given an address"
        raise ScheduleError((*findings, Diagnostic(total, module.location)))
    return new


PASS = Pass("address-assignment", Group.SCHEDULER, run, "a fixed address for every buffer")

Pinned = dict[Kind, list[tuple[int, int]]]


def _in_module(
    module: Module,
    architecture: Architecture,
    pinned: Pinned,
    shared: MemoryTracker,
    findings: list[Diagnostic],
) -> Module:
    operations: list[Operation] = []
    for op in module.operations:
        match op:
            case Module():
                op = _in_module(op, architecture, pinned, shared, findings)
            case func.Func():
                own = MemoryTracker(architecture, pinned)
                op = _in_function(op, architecture, own, shared, findings)
        operations.append(op)
    return module.with_operations(tuple(operations))


def _in_function(
    function: func.Func,
    architecture: Architecture,
    own: MemoryTracker,
    shared: MemoryTracker,
    findings: list[Diagnostic],
) -> func.Func:
    assigned: dict[Value, list[Operation]] = {}
    for op in function.walk():
        if not isinstance(op, memref.Alloc):
            continue
        type = op.memref.type
        assert isinstance(type, MemRefType)
        if type.memory_space is None:
            continue
        try:
            address = _address(op, type, architecture, own, shared)
        except (AddressError, ArchitectureError) as error:
            findings.append(Diagnostic(str(error), op.location))
            continue
        constant = index_constant(address).replace(location=op.location)
        cast = UnrealizedConversionCast((constant.result,), (op.memref,), location=op.location)
        assigned[op.memref] = [constant, cast]

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            match op:
                case memref.Alloc() if op.memref in assigned:
                    result += assigned[op.memref]
                case memref.Dealloc() if op.memref in assigned:
                    pass
                case _:
                    result.append(op)
        return result

    new = rewrite_blocks(function, rewrite)
    assert isinstance(new, func.Func)
    return new


def _address(
    op: memref.Alloc,
    type: MemRefType,
    architecture: Architecture,
    own: MemoryTracker,
    shared: MemoryTracker,
) -> int:
    assert type.memory_space is not None
    kind = kind_of(type.memory_space)
    if not type.is_static:
        raise UnsupportedKernel.at(op.location, "buffers of dynamic size are not supported")
    size = type.num_elements() * ((bit_width(type.element) + 7) // 8)
    tracker = shared if architecture.is_global(kind) else own
    return tracker.allocate(kind, size, architecture.access_alignment(kind))


def pinned_ranges(module: Module, architecture: Architecture) -> Pinned:
    """Byte ranges of the scratchpad that the kernel itself uses, by memory kind.

    `UnsupportedKernel` when a view's place in the scratchpad is not known at compile time.
    """
    pinned: Pinned = {}
    definitions = Definitions(module)
    for op in module.walk():
        if not isinstance(op, ktdp.ConstructMemoryView):
            continue
        if not architecture.is_per_core_scratchpad(op.memory_space):
            continue
        pinned.setdefault(architecture.memory_kind(op.memory_space), []).append(_view_range(op, definitions))
    for low, high in _keepout(module.attributes.get(KEEPOUT)):
        for memory in architecture.memories:
            if architecture.is_per_core_scratchpad(memory.kind):
                pinned.setdefault(memory.kind, []).append((low, high))
    return {kind: sorted(set(ranges)) for kind, ranges in pinned.items()}


def _view_range(view: ktdp.ConstructMemoryView, definitions: Definitions) -> tuple[int, int]:
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
    return low * size, (high + last + 1) * size


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
