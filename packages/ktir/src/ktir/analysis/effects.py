"""Memory effects, as far as transformations need them."""

from __future__ import annotations

from ktir.ir import Operation
from ktir.opdef import CSE_OPAQUE, PURE, RECURSIVE_EFFECTS, TERMINATOR


def is_pure(op: Operation) -> bool:
    """Whether the operation (with everything in its regions) has no effect and may be moved or dropped."""
    stack = [op]
    while stack:
        current = stack.pop()
        if current.definition_has(PURE) or current.definition_has(CSE_OPAQUE):
            continue
        if current is not op and current.definition_has(TERMINATOR):
            continue
        if not current.definition_has(RECURSIVE_EFFECTS):
            return False
        stack += [
            inner for region in current.regions for block in region.blocks for inner in block.operations
        ]
    return True


def has_effects(op: Operation) -> bool:
    """The opposite of `is_pure`: unknown operations count as having effects."""
    return not is_pure(op)
