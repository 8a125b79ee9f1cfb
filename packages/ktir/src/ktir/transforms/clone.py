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
    return _clone(op, table, {}), table


def _clone(op: Operation, table: dict[Value, Value], labels: dict[Label, Label]) -> Operation:
    results = tuple(OpResult(result.type, result.name) for result in op.results)
    table.update(zip(op.results, results, strict=True))
    for region in op.regions:
        for block in region.blocks:
            labels[block.label] = Label(block.label.name)
            for argument in block.arguments:
                table[argument] = BlockArgument(argument.type, argument.name, argument.location)
    regions: list[Region] = []
    for region in op.regions:
        blocks: list[Block] = []
        for block in region.blocks:
            arguments = [table[argument] for argument in block.arguments]
            operations = tuple(_clone(inner, table, labels) for inner in block.operations)
            blocks.append(
                Block(
                    tuple(a for a in arguments if isinstance(a, BlockArgument)),
                    operations,
                    labels[block.label],
                )
            )
        regions.append(Region(tuple(blocks)))
    return attrs.evolve(
        op,
        operands=tuple(table.get(value, value) for value in op.operands),
        results=results,
        regions=tuple(regions),
        successors=tuple(labels.get(label, label) for label in op.successors),
    )
