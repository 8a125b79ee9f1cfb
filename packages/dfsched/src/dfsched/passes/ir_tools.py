"""Small tools over frozen IR that passes share: definitions, substitution, cloning, dead code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import define, field

from ktir.ir import Block, BlockArgument, Operation, OpResult, Region, UnregisteredOp, Value
from ktir.opdef import PURE

__all__ = [
    "Definitions",
    "captured",
    "clone_all",
    "is_pure",
    "prune",
    "rewrite_blocks",
    "substitute",
]


@define
class Definitions:
    """Which operation defines a value, and which operation encloses another, below a root."""

    root: Operation
    _definers: dict[Value, Operation] = field(init=False, factory=dict)
    _parents: dict[Operation, Operation] = field(init=False, factory=dict)
    _owners: dict[Value, Operation] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for op in self.root.walk():
            for result in op.results:
                self._definers[result] = op
            for region in op.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        self._owners[argument] = op
                    for inner in block.operations:
                        self._parents[inner] = op

    def definer(self, value: Value) -> Operation | None:
        """The operation whose result the value is, None for block arguments and outside values."""
        return self._definers.get(value)

    def owner(self, argument: Value) -> Operation | None:
        """The operation in whose region the block argument stands."""
        return self._owners.get(argument)

    def parent(self, op: Operation) -> Operation | None:
        """The enclosing operation, None for the root."""
        return self._parents.get(op)

    def ancestors(self, op: Operation) -> Iterator[Operation]:
        """Enclosing operations, innermost first."""
        current = self._parents.get(op)
        while current is not None:
            yield current
            current = self._parents.get(current)


def is_pure(op: Operation) -> bool:
    """Whether an operation (declared pure) may be duplicated, moved and removed when unused."""
    return not isinstance(op, UnregisteredOp) and op.definition.has(PURE)


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


def prune(op: Operation, keep: Callable[[Operation], bool] = lambda _: False) -> Operation:
    """Remove pure operations without uses below `op`, to a fixed point; `keep` protects some."""
    while True:
        used = {value for inner in op.walk() for value in inner.operands}
        dead = [
            inner
            for inner in op.walk()
            if inner is not op and is_pure(inner) and not keep(inner) and used.isdisjoint(inner.results)
        ]
        if not dead:
            return op
        doomed = set(dead)
        op = rewrite_blocks(op, lambda ops: [inner for inner in ops if inner not in doomed])


def rewrite_blocks(
    op: Operation, rewrite: Callable[[Sequence[Operation]], Sequence[Operation]]
) -> Operation:
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
