r"""`forward-stores`: what a compute group loads after it has stored it is taken from the computation.

Takes programs (`compute-group-extraction`). Vectors of a group are loaded before its results are stored, so
a group cannot load what it has stored itself. A load of exactly the elements that an earlier store of the
same block wrote, with no other store to them in between, gives the stored tensor; the store stays. Loads of
which that cannot be said are left (and refused later, at their place).

Before::

    ktdp.store %y, %t
    %z = ktdp.load %t
    %u = arith.addf %z, %x

After::

    ktdp.store %y, %t
    %u = arith.addf %y, %x

>>> from dfsched.passes.examples import after, kernel
>>> after("forward-stores", kernel("%s = arith.addf %a, %a : TENSOR\n"
... "ktdp.store %s, %yt : TENSOR, <2x256xindex>\n"
... "%l = ktdp.load %yt : <2x256xindex> -> TENSOR\n%r = arith.mulf %l, %a : TENSOR"),
... r"ktdp.load|ktdp.store|arith.*tensor")
%4 = ktdp.load %1 : <2x256xindex> -> tensor<2x256xf16>
%5 = arith.addf %4, %4 : tensor<2x256xf16>
ktdp.store %5, %3 : tensor<2x256xf16>, <2x256xindex>
%6 = arith.mulf %5, %4 : tensor<2x256xf16>
ktdp.store %6, %3 : tensor<2x256xf16>, <2x256xindex>
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.compute_groups import is_control
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.memory_accesses import accesses, are_disjoint, conflict, may_alias
from dfsched.passes.pipeline_parts import place_of
from ktir.dialects import ktdp
from ktir.dialects.builtin import Module
from ktir.ir import Operation, Value

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Forward in every block that stores and loads."""
    if not any(isinstance(op, ktdp.Store) for op in module.walk()):
        return module
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        found = _forwarded(operations, definitions)
        if not found:
            return list(operations)
        values: dict[Value, Value] = {}
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, ktdp.Load) and op in found:
                data = found[op]
                values[op.result] = values.get(data, data)
            else:
                result.append(substitute(op, values))
        return result

    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


PASS = Pass("forward-stores", Group.FRONTEND, run, "a group takes what it has stored from its computation")


def _forwarded(operations: Sequence[Operation], definitions: Definitions) -> dict[ktdp.Load, Value]:
    """The tensor that each load gives, for loads of what a store of the block has written."""
    stores: list[ktdp.Store] = []
    found: dict[ktdp.Load, Value] = {}
    for op in operations:
        match op:
            case ktdp.Store():
                stores.append(op)
            case ktdp.Load() if stores:
                data = _stored(op, stores, definitions)
                if data is not None:
                    found[op] = data
            case _ if is_control(op):
                inner = list(accesses(op))
                if any(conflict(store, access, definitions) for store in stores for access in inner):
                    stores = []  # what is in memory is no longer what the block itself has stored
    return found


def _stored(load: ktdp.Load, stores: Sequence[ktdp.Store], definitions: Definitions) -> Value | None:
    """What the last store that may touch the elements of a load has put there, if it wrote just them."""
    read = place_of(load, definitions)
    for store in reversed(stores):
        written = place_of(store, definitions)
        if not may_alias(read.root, written.root) or are_disjoint(load, store, definitions):
            continue
        same = read.access == written.access and not written.overlaps
        return store.data_tile if same and store.data_tile.type == load.result.type else None
    return None
