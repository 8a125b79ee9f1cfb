"""Level S for values: results that a program computes and drops (KTIR spec 8, item 29)."""

from __future__ import annotations

from collections.abc import Iterator

from ktir.dialects.linalg import LinalgOp
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation
from ktir.strict.facts import Facts

__all__ = ["check"]


def check(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    """A structured operation on tensors changes nothing but its result."""
    if isinstance(op, LinalgOp) and op.results and not any(facts.defuse.uses(r) for r in op.results):
        yield finding(
            "result is never used",
            "tensors are values: 'outs' gives the initial value and is not changed; use the result",
        )
