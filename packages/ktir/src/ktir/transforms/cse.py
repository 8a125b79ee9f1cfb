"""Common subexpression elimination over structured control flow."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterator
from typing import TypeVar

from ktir.editor import EditOp, Editor
from ktir.ir import Operation, UnregisteredOp, Value
from ktir.opdef import COMMUTATIVE, CONSTANT_LIKE, CSE_OPAQUE, ISOLATED, PURE

O = TypeVar("O", bound=Operation)


def cse(root: O, *, constants_only: bool = False) -> O:
    """Use one operation where several equal, pure, region-less ones stand.

    An operation is replaced by an equal one in the same block or in a block around it; different blocks of
    one region do not share, nor do operations that are never the same value twice (`CSE_OPAQUE`).  With
    `constants_only` just constants are merged.
    """
    editor = Editor(root)
    numbers: dict[Value, int] = {}
    # Depth first, so that a nested block sees just what stands in front of its operation, without a copy.
    stack: list[tuple[Iterator[EditOp], ChainMap[Hashable, EditOp]]] = []

    def enter(op: EditOp, known: ChainMap[Hashable, EditOp]) -> None:
        isolated = op.origin.definition_has(ISOLATED)
        for region in reversed(op.regions):
            for block in reversed(region.blocks):
                stack.append((iter(block.operations()), ChainMap() if isolated else known.new_child()))

    enter(editor.root, ChainMap())
    while stack:
        operations, known = stack[-1]
        op = next(operations, None)
        if op is None:
            stack.pop()
            continue
        key = _key(op, numbers, constants_only)
        if key is not None:
            first = known.get(key)
            if first is not None:
                editor.replace(op, first.results)
                continue
            known[key] = op
        if op.regions:
            enter(op, known)
    frozen = editor.freeze()
    assert isinstance(frozen, type(root))
    return frozen


def _key(op: EditOp, numbers: dict[Value, int], constants_only: bool) -> Hashable | None:
    origin = op.origin
    if op.regions or not op.results or isinstance(origin, UnregisteredOp):
        return None
    if not origin.definition_has(CONSTANT_LIKE if constants_only else PURE):
        return None
    if origin.definition_has(CSE_OPAQUE):
        return None
    operands = [numbers.setdefault(value, len(numbers)) for value in op.operands]
    if origin.definition_has(COMMUTATIVE):
        operands.sort()
    return (
        type(origin),
        tuple(operands),
        tuple(sorted(op.attributes.items(), key=lambda item: item[0])),
        tuple(result.type for result in op.results),
    )
