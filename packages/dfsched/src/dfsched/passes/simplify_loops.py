"""Loops of one trip are opened, loops of no trip vanish, constants enter transfer maps and leave phases.

A loop whose bounds are constants and that runs once is replaced by its body, with the variable equal to
the lower bound; one that never runs is removed. Constant subscripts of transfers move into the maps,
which become canonical (every value once, in order of appearance). Part of what `canonicalize` means in
scheduler spec 2.2.

Before::

    scf.for %j = %c0 to %c1 step %c1 { data_transfer from %p[%i, %j * 8 + 192] ... }

After::

    data_transfer from %p[%i, 192] ...
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.dialects.ktdf import BufferPhase, DataTransfer
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.normalize_scf_for_loops import with_subscripts
from ktir.dialects import scf
from ktir.dialects.builtin import Module
from ktir.ir import Operation, Value
from ktir.transforms import dce

__all__ = ["simplify_loops", "static_trips"]


def simplify_loops(module: Module) -> Module:
    """Open and remove loops, then fold constants into subscripts."""
    definitions = Definitions(module)
    opened = rewrite_blocks(module, lambda ops: [new for op in ops for new in _opened(op, definitions)])
    definitions = Definitions(opened)

    def fold(operations: Sequence[Operation]) -> list[Operation]:
        return [_folded(op, definitions) for op in operations]

    new = dce(rewrite_blocks(opened, fold))
    assert isinstance(new, Module)
    return new


def static_trips(loop: scf.For, definitions: Definitions) -> int | None:
    """The number of iterations where all three bounds are constants (scheduler spec 3.0.1)."""
    lower, upper, step = (constant_value(v, definitions) for v in (loop.lower, loop.upper, loop.step))
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return max(0, -(-(upper - lower) // step))


def _opened(op: Operation, definitions: Definitions) -> list[Operation]:
    if not isinstance(op, scf.For) or op.inits:
        return [op]
    trips = static_trips(op, definitions)
    if trips == 0:
        return []
    if trips != 1:
        return [op]
    mapping: dict[Value, Value] = {op.induction_variable: op.lower}
    return [substitute(inner, mapping) for inner in op.body.block.operations[:-1]]


def _folded(op: Operation, definitions: Definitions) -> Operation:
    match op:
        case DataTransfer():
            return _folded_transfer(op, definitions)
        case BufferPhase():
            varying = [value for value in op.indices if constant_value(value, definitions) is None]
            return op.replace(operands=varying) if 0 < len(varying) < len(op.indices) else op
        case _:
            return op


def _folded_transfer(transfer: DataTransfer, definitions: Definitions) -> DataTransfer:
    constants = {
        value: number
        for value in (*transfer.source_indices, *transfer.dest_indices)
        if (number := constant_value(value, definitions)) is not None
    }
    return with_subscripts(transfer, lambda subscripts: subscripts.with_constants(constants))
