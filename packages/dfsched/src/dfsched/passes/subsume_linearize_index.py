"""`subsume-linearize-index`: linearised indices move into the maps of transfers (scheduler spec 3.19).

Takes and leaves any module. An index of a transfer that is a `ktdf.tiling.linearize_index` whose strides
are all constants is replaced by the sum in the map; one with an open stride stays. A `linearize_index`
without uses goes.

Before::

    %j = ktdf.tiling.linearize_index [%aj : %c2], [%bj : %c1] : index
    ktdf.data_transfer from %p[%i, %j * 64] size [1, 64] to ...

After::

    ktdf.data_transfer from %p[%i, %aj * 128 + %bj * 64] size [1, 64] to ...

>>> from dfsched.passes.examples import example
>>> example("subsume-linearize-index", '''
... %c1 = arith.constant 1 : index
... %c4 = arith.constant 4 : index
... %i = ktdf.tiling.linearize_index [%a : %c4], [%b : %c1] : index
... %x = memref.alloc() : memref<64xf16, "DDR">
... %y = memref.alloc() : memref<64xf16, "L1">
... ktdf.data_transfer from %x[%i] size [1] to %y[%i] size [1] : memref<64xf16, "DDR">, memref<64xf16, "L1">
... ''', arguments="%a: index, %b: index")
%alloc = memref.alloc() : memref<64xf16, "DDR">
%alloc_0 = memref.alloc() : memref<64xf16, "L1">
ktdf.data_transfer from %alloc[%a * 4 + %b] size [1] to %alloc_0[%a * 4 + %b] size [1] :
    memref<64xf16, "DDR">, memref<64xf16, "L1">
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.dialects.ktdf import DataTransfer, LinearizeIndex
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from dfsched.passes.normalize_scf_for_loops import with_subscripts
from ktir.affine import AffineExpr, Const, Dim
from ktir.dialects.builtin import Module
from ktir.ir import Operation, Value
from ktir.transforms import dce

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Fold every linearised index that can be folded."""
    definitions = Definitions(module)

    def replacement(value: Value) -> tuple[AffineExpr, tuple[Value, ...]] | None:
        op = definitions.definer(value)
        if not isinstance(op, LinearizeIndex):
            return None
        strides = [constant_value(stride, definitions) for stride in op.strides]
        total: AffineExpr = Const(0)
        for position, stride in enumerate(strides):
            if stride is None:
                return None
            total = total + Dim(position) * stride
        return total, tuple(op.variables)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [
            with_subscripts(op, lambda s: s.replaced(replacement)) if isinstance(op, DataTransfer) else op
            for op in operations
        ]

    new = dce(rewrite_blocks(module, rewrite))
    assert isinstance(new, Module)
    return new


PASS = Pass("subsume-linearize-index", Group.SCHEDULER, run, "fold linearised indices into subscripts")
