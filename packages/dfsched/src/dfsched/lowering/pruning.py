"""What a unit's program does not need: unused pure operations, control flow without effects."""

from __future__ import annotations

from collections.abc import Sequence

from ktir.dialects import scf
from ktir.ir import Operation, Region, Value
from ktir.opdef import PURE

__all__ = ["prune"]


def prune(operations: Sequence[Operation]) -> list[Operation]:
    """Drop pure operations without uses and control flow without effects, to a fixed point."""
    current = list(operations)
    while True:
        used = {value for op in current for inner in op.walk() for value in inner.operands}
        smaller = _pruned(current, used)
        if smaller is current:
            return current
        current = smaller


def _pruned(operations: list[Operation], used: set[Value]) -> list[Operation]:
    kept: list[Operation] = []
    changed = False
    for op in operations:
        dead = used.isdisjoint(op.results)
        if dead and op.definition_has(PURE) and not op.regions and op.results:
            changed = True
            continue
        if isinstance(op, scf.For | scf.If):
            if dead and not _has_effect(op):
                changed = True
                continue
            regions = []
            for region in op.regions:
                blocks = []
                for block in region.blocks:
                    inner = _pruned(list(block.operations), used)
                    changed = (
                        changed
                        or len(inner) != len(block.operations)
                        or any(a is not b for a, b in zip(inner, block.operations, strict=False))
                    )
                    blocks.append(block.replace(operations=inner))
                regions.append(Region(tuple(blocks)))
            op = op.replace(regions=regions)
        kept.append(op)
    return kept if changed else operations


def _has_effect(op: Operation) -> bool:
    return any(
        not inner.definition_has(PURE) and not isinstance(inner, scf.For | scf.If)
        for inner in op.walk()
        if inner is not op
    )
