"""Small tools over frozen IR that passes share: definitions, substitution, cloning, rebuilding."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from dfsched.passes.errors import Findings, UnsupportedKernel
from ktir.analysis import DefUse
from ktir.dialects import func
from ktir.dialects.builtin import Module
from ktir.errors import Diagnostic
from ktir.ir import Block, Operation, Region, Value
from ktir.transforms import clone

__all__ = [
    "Definitions",
    "captured",
    "check_structured",
    "clone_all",
    "post_order",
    "rewrite_blocks",
    "rewrite_kernels",
    "substitute",
    "without_unused",
]


T = TypeVar("T", bound=Hashable)


class Definitions(DefUse):
    """Definitions, uses and parents below a root, with the questions that passes ask of values."""

    def region_owner(self, argument: Value) -> Operation | None:
        """The operation in whose region a block argument stands; None for results and outside values."""
        if self.definer(argument) is not None or not self.is_defined(argument):
            return None
        block = self.defining_block(argument)
        return None if block is None else self.owner(block)


def post_order(
    root: T, children: Callable[[T], Iterable[T]], known: Container[T] = frozenset()
) -> Iterator[T]:
    """`root` and everything below it that is not `known`, each once, children first; depth is no limit."""
    seen: set[T] = set()
    stack: list[tuple[T, Iterator[T]]] = []

    def enter(node: T) -> None:
        if node not in seen and node not in known:
            seen.add(node)
            stack.append((node, iter(children(node))))

    enter(root)
    while stack:
        node, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            stack.pop()
            yield node
        else:
            enter(following)


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


def check_structured(root: Operation) -> None:
    """`UnsupportedKernel` with every operation whose blocks branch to each other."""
    found = tuple(
        Diagnostic(f"'{op.name}' holds several blocks, which is not supported", op.location)
        for op in root.walk()
        if any(len(region.blocks) > 1 for region in op.regions)
    )
    if found:
        raise UnsupportedKernel(found)


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
    copies: list[Operation] = []
    for op in operations:
        copy, extended = clone(op, mapping)
        mapping.update(extended)
        copies.append(copy)
    return copies


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


def without_unused(op: Operation, may_go: Callable[[Operation], bool]) -> Operation:
    """An operation without those inside that nobody needs and that may go; everything else stays.

    Unlike dead-code elimination: what is wrong with a kernel must still be there to be said.
    """
    inner = list(op.walk())
    goes = {candidate for candidate in inner if candidate is not op and may_go(candidate)}
    definers: dict[Value, Operation] = {
        result: candidate for candidate in goes for result in candidate.results
    }
    pending = [value for other in inner if other not in goes for value in other.operands]
    needed: set[Operation] = set()
    while pending:
        definer = definers.get(pending.pop())
        if definer is not None and definer not in needed:
            needed.add(definer)
            pending += definer.operands
    unused = goes - needed
    return rewrite_blocks(op, lambda ops: [o for o in ops if o not in unused]) if unused else op


def rewrite_kernels(module: Module, rewrite: Callable[[func.Func], func.Func]) -> Module:
    """The module with every function that has a body rewritten; the same one if none changed.

    What is wrong with several functions is raised at once.
    """
    findings = Findings()
    operations = [
        findings.attempt(rewrite, op) if isinstance(op, func.Func) and not op.is_declaration else op
        for op in module.operations
    ]
    findings.check()
    if all(new is old for new, old in zip(operations, module.operations, strict=True)):
        return module
    return module.with_operations(tuple(operations))
