"""Small tools over frozen IR that passes share: definitions, substitution, cloning, dead code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ktir.analysis import DefUse, is_pure
from ktir.ir import Block, BlockArgument, Operation, OpResult, Region, Value

__all__ = [
    "Definitions",
    "captured",
    "clone_all",
    "prune",
    "rewrite_blocks",
    "substitute",
]


class Definitions(DefUse):
    """Definitions, uses and parents below a root, with the questions that passes ask of values."""

    def region_owner(self, argument: Value) -> Operation | None:
        """The operation in whose region a block argument stands; None for results and outside values."""
        if self.definer(argument) is not None or not self.is_defined(argument):
            return None
        block = self.defining_block(argument)
        return None if block is None else self.owner(block)


def captured(op: Operation) -> Iterator[Value]:
    """Values that an operation uses from outside of itself, in order of use (with repetitions)."""
    inside: set[Value] = set()
    for inner in op.walk():
        for value in inner.operands:
            if value not in inside:
                yield value
        inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)


def substitute(op: Operation, mapping: Mapping[Value, Value]) -> Operation:
    """The operation (nested ones included) with operands replaced; results stay the same values."""
    if not mapping:
        return op
    return _rebuilt(op, mapping)


def _rebuilt(op: Operation, mapping: Mapping[Value, Value]) -> Operation:
    operands = tuple(mapping.get(value, value) for value in op.operands)
    regions = tuple(
        Region(
            tuple(
                block.replace(operations=[_rebuilt(inner, mapping) for inner in block.operations])
                for block in region.blocks
            )
        )
        for region in op.regions
    )
    if operands == op.operands and _same(regions, op.regions):
        return op
    return op.replace(operands=operands, regions=regions)


def _same(new: Sequence[Region], old: Sequence[Region]) -> bool:
    return all(
        a is b
        for left, right in zip(new, old, strict=True)
        for x, y in zip(left.blocks, right.blocks, strict=True)
        for a, b in zip(x.operations, y.operations, strict=True)
    )


def clone_all(operations: Iterable[Operation], mapping: dict[Value, Value]) -> list[Operation]:
    """Copies with fresh results and block arguments; `mapping` is used for operands and extended."""
    return [_clone(op, mapping) for op in operations]


def _clone(op: Operation, mapping: dict[Value, Value]) -> Operation:
    regions: list[Region] = []
    for region in op.regions:
        blocks: list[Block] = []
        for block in region.blocks:
            arguments = tuple(BlockArgument(a.type, a.name, a.location) for a in block.arguments)
            mapping.update(zip(block.arguments, arguments, strict=True))
            blocks.append(Block(arguments, tuple(clone_all(block.operations, mapping))))
        regions.append(Region(tuple(blocks)))
    results = tuple(OpResult(result.type, result.name) for result in op.results)
    copy = op.replace(
        operands=[mapping.get(value, value) for value in op.operands], results=results, regions=regions
    )
    mapping.update(zip(op.results, results, strict=True))
    return copy


def prune(op: Operation) -> Operation:
    """Remove pure operations whose results are unused below `op`, to a fixed point."""
    while True:
        used = {value for inner in op.walk() for value in inner.operands}
        dead = {
            inner
            for inner in op.walk()
            if inner is not op and inner.results and is_pure(inner) and used.isdisjoint(inner.results)
        }
        if not dead:
            return op
        op = rewrite_blocks(op, partial(_without, dead))


def _without(dead: set[Operation], operations: Sequence[Operation]) -> list[Operation]:
    return [op for op in operations if op not in dead]


def rewrite_blocks(op: Operation, rewrite: Callable[[Sequence[Operation]], Sequence[Operation]]) -> Operation:
    """Apply `rewrite` to the operations of every block below `op`, inner blocks first."""
    if not op.regions:
        return op
    regions: list[Region] = []
    changed = False
    for region in op.regions:
        blocks: list[Block] = []
        for block in region.blocks:
            inner = [rewrite_blocks(nested, rewrite) for nested in block.operations]
            new = tuple(rewrite(inner))
            same = len(new) == len(block.operations) and all(
                a is b for a, b in zip(new, block.operations, strict=True)
            )
            changed = changed or not same
            blocks.append(block if same else block.replace(operations=new))
        regions.append(Region(tuple(blocks)))
    return op.replace(regions=regions) if changed else op
