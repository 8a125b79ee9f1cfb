"""`tile-size-selection`: numbers for the open tile sizes (scheduler spec 3.17).

Takes placeholders (`ktdf.tiling.reserve_size`). Leaves constants, and buffers whose sizes were open as
static ones, through everything that hands them on. A placeholder of a loop that the plan knows gets the
plan's size. Any other one gets the larger of 2 and its least value that divides the trip counts of all its
loops, else its least value (the rule of the first published version).

Before::

    %s = ktdf.tiling.reserve_size {divisibility = 1 : index, min_value = 1 : index} : index
    %n = arith.ceildivui %c8, %s : index
    %b = memref.alloc(%s) : memref<?x64xf16, "L1">

After::

    %s = arith.constant 2 : index
    %n = arith.ceildivui %c8, %s : index
    %b = memref.alloc() : memref<2x64xf16, "L1">

>>> from dfsched.passes.examples import example
>>> example("tile-size-selection", '''
... %c0 = arith.constant 0 : index
... %c1 = arith.constant 1 : index
... %c12 = arith.constant 12 : index
... %s = ktdf.tiling.reserve_size {divisibility = 1 : index, min_value = 1 : index} : index
... %n = arith.ceildivui %c12, %s : index
... scf.for %a = %c0 to %n step %c1 {
...   %d = ktdf.tiling.derive_size [%a : %s], total_size = %c12 : index
...   %x = memref.alloc(%s) : memref<?x64xf16, "L1">
...   "use"(%d, %x) : (index, memref<?x64xf16, "L1">) -> ()
... }
... ''')
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c12 = arith.constant 12 : index
%c2 = arith.constant 2 : index
%0 = arith.ceildivui %c12, %c2 : index
scf.for %arg0 = %c0 to %0 step %c1 {
  %1 = ktdf.tiling.derive_size [%arg0 : %c2], total_size = %c12 : index
  %alloc = memref.alloc() : memref<2x64xf16, "L1">
  "use"(%1, %alloc) : (index, memref<2x64xf16, "L1">) -> ()
}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from dfsched.dialects.ktdf import Parallel, PrivateYield, ReserveSize, SelectMemref
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import index_constant
from dfsched.passes.errors import ScheduleError
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.loop_nests import loop_tag, nest_plan
from ktir.attributes import DenseArrayAttr
from ktir.dialects import arith, memref, scf
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic
from ktir.ir import Operation, OpResult, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, MemRefType

__all__ = ["LARGEST", "PASS", "run", "static_buffers"]

LARGEST = 2
"""The largest tile that the rule without a plan picks."""


def run(module: Module, context: PassContext) -> Module:
    """Pick all sizes; `ScheduleError` lists placeholders for which there is none."""
    definitions = Definitions(module)
    sizes: dict[ReserveSize, int] = {}
    findings: list[Diagnostic] = []
    for op in module.walk():
        if isinstance(op, ReserveSize):
            try:
                sizes[op] = _size(op, definitions, context)
            except ScheduleError as error:
                findings += error.diagnostics
    if findings:
        raise ScheduleError(tuple(findings))
    if not sizes:
        return module

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [_constant(op, sizes[op]) if isinstance(op, ReserveSize) else op for op in operations]

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return static_buffers(new)


PASS = Pass("tile-size-selection", Group.SCHEDULER, run, "pick the open tile sizes")


def _constant(op: ReserveSize, size: int) -> arith.Constant:
    made = index_constant(size).replace(location=op.location)
    return made.replace(results=op.results)


def _size(op: ReserveSize, definitions: Definitions, context: PassContext) -> int:
    tag = loop_tag(op)
    if tag is not None and context.options.profile is not Profile.V1:
        plan = nest_plan(op, tag.nest, definitions)
        if plan is not None:
            return plan.tile_sizes[tag.loop]
    totals = _totals(op, definitions)
    least, divisor = op.min_value.value, op.divisibility.value
    if not totals:
        raise ScheduleError.at(op.location, "no loop with a constant trip count uses this tile size")
    for size in range(max(LARGEST, least), least - 1, -1):
        if size % divisor == 0 and all(total % size == 0 for total in totals):
            return size
    raise ScheduleError.at(
        op.location,
        f"no tile size from {least} to {max(LARGEST, least)} that is a multiple of {divisor} divides "
        f"{', '.join(map(str, totals))}",
    )


def _totals(op: ReserveSize, definitions: Definitions) -> list[int]:
    """Trip counts that the size cuts: of the loops bounded by ``ceildivui total, size``."""
    totals = []
    for user in definitions.users(op.size):
        if not isinstance(user, arith.CeilDivUI) or user.operands[1] is not op.size:
            continue
        total = constant_value(user.operands[0], definitions)
        bounds = definitions.users(user.results[0])
        if total is not None and any(_is_bound(user.results[0], loop) for loop in bounds):
            totals.append(total)
    return totals


def _is_bound(value: Value, loop: Operation) -> bool:
    match loop:
        case scf.For():
            return loop.upper is value
        case Parallel():
            return value in loop.upper
        case _:
            return False


def static_buffers(module: Module) -> Module:
    """Allocations whose size operands are constants become static, and so does what hands them on."""
    definitions = Definitions(module)
    types: dict[Value, MemRefType] = {}
    for op in module.walk():
        if isinstance(op, memref.Alloc) and op.sizes and not op.symbols:
            sizes = [constant_value(size, definitions) for size in op.sizes]
            type = op.memref.type
            if isinstance(type, MemRefType) and None not in sizes:
                known = iter(sizes)
                shape = tuple(next(known) if extent is None else extent for extent in type.shape)
                types[op.memref] = evolve(type, shape=shape)
    if not types:
        return module
    pending = list(types)
    while pending:
        value = pending.pop()
        for use in definitions.uses(value):
            handed = _handed_on(use.op, use.index, definitions)
            if handed is not None and handed not in types:
                types[handed] = types[value]
                pending.append(handed)
    fresh = {value: OpResult(type, value.name) for value, type in types.items()}

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [_renewed(op, fresh) for op in operations]

    new = substitute(rewrite_blocks(module, rewrite), fresh)
    assert isinstance(new, Module)
    return new


def _handed_on(user: Operation, index: int, definitions: Definitions) -> Value | None:
    """The value that has the type of an operand because of how its user hands it on."""
    match user:
        case PrivateYield():
            private = definitions.parent(user)
            return None if private is None else private.results[index]
        case SelectMemref() if index > 0:
            return user.selected
        case _:
            return None


def _renewed(op: Operation, fresh: Mapping[Value, OpResult]) -> Operation:
    results = [fresh.get(result, result) for result in op.results]
    if all(a is b for a, b in zip(results, op.results, strict=True)):
        return op
    if isinstance(op, memref.Alloc):
        segments = DenseArrayAttr(I32, (0, 0))
        return op.replace(operands=(), results=results, attributes={OPERAND_SEGMENTS: segments})
    return op.replace(results=results)
