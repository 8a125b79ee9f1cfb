"""Which values depend on the tile id, and so may differ between the compute tiles of a kernel."""

from __future__ import annotations

from ktir.analysis import DefUse
from ktir.dialects import scf
from ktir.dialects.func import Func
from ktir.dialects.ktdp import GetComputeTileId, InterTileReduce
from ktir.ir import Operation, Value

__all__ = ["varying_values"]


def varying_values(module: Operation) -> frozenset[Value]:
    """A forward closure from `ktdp.get_compute_tile_id` over operands, block arguments and regions.

    What an all-reduce delivers is the same for its whole group, so it ends the dependence. Loads depend on
    the tile if their coordinates do.
    """
    defuse = DefUse(module)
    found: set[Value] = set()
    work: list[Value] = []

    def add(values: tuple[Value, ...]) -> None:
        for value in values:
            if value not in found:
                found.add(value)
                work.append(value)

    for op in module.walk():
        if isinstance(op, GetComputeTileId):
            add(op.results)
    while work:
        value = work.pop()
        for use in defuse.uses(value):
            add(_reached(use.op, use.index))
            if use.op.successors or not use.op.results:
                add(_through_terminator(use.op, use.index, defuse))
    return frozenset(found)


def _reached(op: Operation, operand: int) -> tuple[Value, ...]:
    """What a varying operand makes vary, apart from what a terminator hands out."""
    match op:
        case InterTileReduce() | Func():
            return ()
        case scf.For():
            if operand < 3:  # how often it runs
                return (*op.results, *op.body.block.arguments)
            position = operand - 3
            return (op.results[position], op.body.block.arguments[1 + position])
        case _:
            inner = (a for r in op.regions for b in r.blocks for a in b.arguments)
            return (*op.results, *inner)


def _through_terminator(op: Operation, operand: int, defuse: DefUse) -> tuple[Value, ...]:
    parent = defuse.parent(op)
    match parent:
        case None | Func():
            return ()
        case scf.For():
            if operand < len(parent.results):
                return (parent.results[operand], parent.body.block.arguments[1 + operand])
            return ()
        case InterTileReduce():
            return ()
        case _:
            inner = (a for r in parent.regions for b in r.blocks for a in b.arguments)
            return (*parent.results, *inner)
