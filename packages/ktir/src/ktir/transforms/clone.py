"""Copies of operations with fresh results."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ktir.ir import Block, BlockArgument, Label, Operation, OpResult, Region, Value


def clone(
    op: Operation, mapping: Mapping[Value, Value] | None = None
) -> tuple[Operation, dict[Value, Value]]:
    """A copy of `op` (with everything inside) that defines new values.

    Operands found in `mapping` are replaced.  Returns the copy and the mapping extended by old to new results
    and block arguments, so that a sequence of operations can be cloned one after another.
    """
    table: dict[Value, Value] = dict(mapping or {})
    labels: dict[Label, Label] = {}
    everything = list(op.walk())
    for inner in everything:
        table.update((result, OpResult(result.type, result.name)) for result in inner.results)
        for block in (block for region in inner.regions for block in region.blocks):
            labels[block.label] = Label(block.label.name)
            table.update((a, BlockArgument(a.type, a.name, a.location)) for a in block.arguments)
    copies: dict[Operation, Operation] = {}
    for inner in reversed(everything):  # what is inside an operation comes before it
        copies[inner] = _copy(inner, table, labels, copies)
    return copies[op], table


def _copy(
    op: Operation,
    table: Mapping[Value, Value],
    labels: Mapping[Label, Label],
    copies: Mapping[Operation, Operation],
) -> Operation:
    def block_copy(block: Block) -> Block:
        arguments = tuple(a for a in map(table.get, block.arguments) if isinstance(a, BlockArgument))
        return Block(arguments, tuple(copies[inner] for inner in block.operations), labels[block.label])

    return attrs.evolve(
        op,
        operands=tuple(table.get(value, value) for value in op.operands),
        results=tuple(r for r in map(table.get, op.results) if isinstance(r, OpResult)),
        regions=tuple(Region(tuple(map(block_copy, region.blocks))) for region in op.regions),
        successors=tuple(labels.get(label, label) for label in op.successors),
    )
