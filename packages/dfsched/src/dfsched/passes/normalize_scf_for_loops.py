"""`normalize-scf-for-loops`: lower bound 0 and step 1 for every loop (scheduler spec 3.7, 3.0.2).

Takes any module. Leaves loops ``0 to ceildiv(ub - lb, step) step 1``; in the maps of transfers the loop
variable becomes ``lb + iv * step``, other uses get index arithmetic at the start of the body. Loops that
are normal already stay as they are.

Before::

    scf.for %j = %c0 to %c256 step %c64 { ... data_transfer from %p[%i, %j] ... }

After::

    scf.for %j = %c0 to %c4 step %c1 { ... data_transfer from %p[%i, %j * 64] ... }

>>> from dfsched.passes.examples import example
>>> example("normalize-scf-for-loops", '''
... %c3 = arith.constant 3 : index
... %c17 = arith.constant 17 : index
... %c4 = arith.constant 4 : index
... scf.for %i = %c3 to %c17 step %c4 {
...   "use"(%i) : (index) -> ()
... }
... ''')
%c3 = arith.constant 3 : index
%c4 = arith.constant 4 : index
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c4_0 = arith.constant 4 : index
scf.for %arg0 = %c0 to %c4_0 step %c1 {
  %0 = arith.muli %arg0, %c4 : index
  %1 = arith.addi %0, %c3 : index
  "use"(%1) : (index) -> ()
}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfsched.dialects.ktdf import Cell, DataTransfer
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.subscripts import Subscripts
from ktir.affine import AffineExpr, Dim
from ktir.dialects import arith, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.transforms import dce
from ktir.types import INDEX, IndexType

__all__ = ["PASS", "run", "with_subscripts"]

Replacement = tuple[AffineExpr, tuple[Value, ...]]


def run(module: Module, context: PassContext) -> Module:
    """Normalise every loop over index values, inner ones first."""
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [new for op in operations for new in _normalised(op, definitions)]

    new = dce(rewrite_blocks(module, rewrite))
    assert isinstance(new, Module)
    return new


PASS = Pass("normalize-scf-for-loops", Group.SCHEDULER, run, "loops from 0 with step 1")


def with_subscripts(transfer: DataTransfer, change: Callable[[Subscripts], Subscripts]) -> DataTransfer:
    """The transfer with its subscripts changed on both sides, in canonical form."""

    def cell(old: Cell) -> Cell:
        if old.map is None:
            return old
        new = change(Subscripts.of_map(old.map, old.indices)).canonical()
        return Cell(old.value, new.map, new.values, old.sizes, old.dynamic_sizes)

    source, dest = cell(transfer.source_cell), cell(transfer.dest_cell)
    if (source, dest) == (transfer.source_cell, transfer.dest_cell):
        return transfer
    return transfer.with_cells(source, dest)


def _normalised(op: Operation, definitions: Definitions) -> list[Operation]:
    if not isinstance(op, scf.For) or not isinstance(op.lower.type, IndexType) or op.inits:
        return [op]
    lower, upper, step = (constant_value(v, definitions) for v in (op.lower, op.upper, op.step))
    if lower == 0 and step == 1:
        return [op]
    before = Emitter(op.location)
    zero, one = before.constant(0), before.constant(1)
    if lower is not None and upper is not None and step is not None:
        trips = before.constant(max(0, -(-(upper - lower) // step)))
    else:
        span = op.upper if lower == 0 else before.binary(arith.SubI, op.upper, op.lower)
        trips = span if step == 1 else before.binary(arith.CeilDivSI, span, op.step)
    old = op.induction_variable
    variable = BlockArgument(INDEX, old.name, old.location)
    inside = Emitter(op.location)
    scaled = variable if step == 1 else inside.binary(arith.MulI, variable, op.step)
    value = scaled if lower == 0 else inside.binary(arith.AddI, scaled, op.lower)
    if step is None:
        replacement: Replacement = (Dim(0), (value,))
    elif lower is None:
        replacement = (Dim(0) * step + Dim(1), (variable, op.lower))
    else:
        replacement = (Dim(0) * step + lower, (variable,))

    def in_transfers(operations: Sequence[Operation]) -> list[Operation]:
        return [
            with_subscripts(inner, lambda s: s.replaced(lambda v: replacement if v is old else None))
            if isinstance(inner, DataTransfer)
            else inner
            for inner in operations
        ]

    block = op.body.block
    body = block.replace(operations=in_transfers(block.operations))
    loop = rewrite_blocks(op.replace(regions=[Region((body,))]), in_transfers)
    inner = loop.regions[0].block.operations
    changed = [substitute(nested, {old: value}) for nested in inner]
    new = op.replace(
        operands=[zero, trips, one],
        regions=[Region((block.replace(arguments=[variable], operations=[*inside.operations, *changed]),))],
    )
    return [*before.operations, new]
