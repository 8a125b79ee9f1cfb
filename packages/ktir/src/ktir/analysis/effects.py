"""Memory effects, as far as transformations need them."""

from __future__ import annotations

from ktir.ir import Operation
from ktir.opdef import CSE_OPAQUE, PURE, RECURSIVE_EFFECTS


def is_pure(op: Operation) -> bool:
    """Whether the operation (with everything in its regions) has no effect and may be moved or dropped."""
    if op.definition_has(PURE) or op.definition_has(CSE_OPAQUE):
        return True
    if op.definition_has(RECURSIVE_EFFECTS):
        from ktir.opdef import TERMINATOR

        inner = (o for r in op.regions for b in r.blocks for o in b.operations)
        return all(is_pure(o) or o.definition_has(TERMINATOR) for o in inner)
    return False


def has_effects(op: Operation) -> bool:
    """The opposite of `is_pure`: unknown operations count as having effects."""
    return not is_pure(op)
