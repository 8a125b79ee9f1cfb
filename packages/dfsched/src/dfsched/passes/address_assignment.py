"""`address-assignment`: a fixed byte address for every buffer (scheduler spec 3.20).

Takes programs with `memref.alloc`s in memory spaces of the device. Leaves ``arith.constant ADDRESS`` and
``builtin.unrealized_conversion_cast`` in place of each, and no `memref.dealloc` of them. Addresses in a
scratchpad and below start afresh in every program; memories above keep counting over the programs. No
buffer touches a range that the kernel pins: any view in the memory at a constant address, and the module
attribute ``ktdp.scratchpad_keepout``. Addresses are aligned so that every unit may use any access to the
buffer. Every buffer has its own place as long as there is room; otherwise buffers that are never live at
the same time share space. Allocations without a memory space stay. The module tells the pinned ranges
(`dfsched.pinned.PINNED`), where there are any.

Before::

    %b = memref.alloc() : memref<1x64xf16, "L1">

After::

    %a = arith.constant 128 : index
    %b = builtin.unrealized_conversion_cast %a : index to memref<1x64xf16, "L1">

>>> from dfsched.passes.examples import example
>>> example("address-assignment", '''
... %a = memref.alloc() : memref<4x64xf16, "L1">
... %b = memref.alloc() : memref<64xf16, "L1">
... "use"(%a, %b) : (memref<4x64xf16, "L1">, memref<64xf16, "L1">) -> ()
... memref.dealloc %a : memref<4x64xf16, "L1">
... ''')
%c0 = arith.constant 0 : index
%0 = builtin.unrealized_conversion_cast %c0 : index to memref<4x64xf16, "L1">
%c512 = arith.constant 512 : index
%1 = builtin.unrealized_conversion_cast %c512 : index to memref<64xf16, "L1">
"use"(%0, %1) : (memref<4x64xf16, "L1">, memref<64xf16, "L1">) -> ()
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.architecture import Architecture, Kind, MemoryTracker, kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import DeriveSize
from dfsched.errors import AddressError, ArchitectureError
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.buffer_packing import Buffer, live_ranges, packed
from dfsched.passes.build import index_constant
from dfsched.passes.capacity import overflow, place_of_buffer
from dfsched.passes.errors import ScheduleError
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from dfsched.passes.pinned_ranges import pinned_ranges
from dfsched.pinned import Pinned, with_pinned
from ktir.affine import Sym, linear
from ktir.attributes import IntegerAttr
from ktir.dialects import affine, arith, func, memref
from ktir.dialects.builtin import Module, UnrealizedConversionCast
from ktir.errors import Diagnostic
from ktir.ir import Operation, Value
from ktir.types import MemRefType, bit_width

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Assign all addresses; `ScheduleError` lists every buffer that does not fit."""
    architecture = context.architecture
    pinned = pinned_ranges(module, architecture)
    shared = MemoryTracker(architecture, pinned)
    findings: list[Diagnostic] = []
    new = _in_module(module, architecture, pinned, shared, findings)
    if findings:
        failed = sum(not finding.notes for finding in findings)  # those with notes are about memories
        total = f"{failed} buffers could not be given an address"
        raise ScheduleError((*findings, Diagnostic(total, module.location)))
    return with_pinned(new, pinned)


PASS = Pass("address-assignment", Group.SCHEDULER, run, "a fixed address for every buffer")


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
    definitions = Definitions(function)
    kinds: dict[Kind, list[tuple[memref.Alloc, int]]] = {}
    for op in function.walk():
        if not isinstance(op, memref.Alloc):
            continue
        type = op.memref.type
        assert isinstance(type, MemRefType)
        if type.memory_space is None:
            continue
        size = _size(type, op, definitions)
        if size is None:
            message = "buffers of dynamic size are not supported: no upper bound of the size is known"
            findings.append(Diagnostic(message, op.location))
            continue
        kinds.setdefault(kind_of(type.memory_space), []).append((op, size))
    for kind, buffers in kinds.items():
        try:
            tracker = shared if architecture.is_global(kind) else own
            addresses = _addresses(function, kind, buffers, architecture, tracker, definitions, findings)
        except ArchitectureError as error:
            findings += [Diagnostic(str(error), op.location) for op, _ in buffers]
            continue
        for (op, _), address in zip(buffers, addresses, strict=True):
            if address is not None:
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


def _size(type: MemRefType, op: memref.Alloc, definitions: Definitions) -> int | None:
    """Bytes of a buffer, for its largest extents; None if an extent has no known bound."""
    sizes = iter(op.sizes)
    total = (bit_width(type.element) + 7) // 8
    for extent in type.shape:
        known = _bound(next(sizes), definitions) if extent is None else extent
        if known is None:
            return None
        total *= known
    return total


def _bound(value: Value, definitions: Definitions) -> int | None:
    """A number that a size does not exceed."""
    match definitions.definer(value):
        case arith.Constant(value=IntegerAttr(value=number)):
            return number
        case DeriveSize() as size:
            return _bound(size.tile_sizes[-1], definitions)
        case affine.Min() as least:
            rows = [linear(expr) for expr in least.map.map.results]
            bounds = [row.constant for row in rows if row is not None and not row.terms]
            for expr in least.map.map.results:
                if isinstance(expr, Sym):
                    known = _bound(least.symbols[expr.position], definitions)
                    bounds += [] if known is None else [known]
            return min(bounds, default=None)
        case arith.MinSI() | arith.MinUI() as smaller:
            sides = [_bound(operand, definitions) for operand in smaller.operands]
            return min((side for side in sides if side is not None), default=None)
        case _:
            return None


def _addresses(
    function: func.Func,
    kind: Kind,
    buffers: Sequence[tuple[memref.Alloc, int]],
    architecture: Architecture,
    tracker: MemoryTracker,
    definitions: Definitions,
    findings: list[Diagnostic],
) -> list[int | None]:
    """One address per buffer, each for itself; where that does not fit, buffers that are never live at the
    same
    time share space (not in device memory). None where there is no room either: `findings` tells."""
    alignment = max(architecture.access_alignment(kind), architecture.register_bytes(kind))
    found: list[int | None] = []
    errors: list[tuple[int, AddressError]] = []
    for number, (_, size) in enumerate(buffers):
        try:
            found.append(tracker.allocate(kind, size, alignment))
        except AddressError as error:
            found.append(None)
            errors.append((number, error))
    capacity = architecture.memory(architecture.memory_kind(kind)).size
    if not errors:
        return found
    live = live_ranges(function, [op for op, _ in buffers], definitions)
    ranges = [Buffer(size, *live[op]) for op, size in buffers]
    if capacity is not None and not architecture.is_global(kind):
        shared = packed(ranges, capacity, alignment, tracker.pinned(kind))
        failed = {number for number, address in enumerate(shared) if address is None}
        known = dict(errors)
        errors = [
            (
                number,
                known.get(number, AddressError(kind_text(kind), ranges[number].size, alignment, capacity)),
            )
            for number in sorted(failed)
        ]
        found = shared
    if errors and capacity is not None:
        allocs = [op for op, _ in buffers]
        numbers = [number for number, _ in errors]
        pinned = tracker.pinned(kind)
        findings.append(overflow(function, kind, allocs, ranges, numbers, capacity, pinned, definitions))
    for number, failure in errors:
        op, _ = buffers[number]
        findings.append(Diagnostic(str(failure), place_of_buffer(op, function, definitions)))
    return found
