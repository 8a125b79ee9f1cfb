"""Level S for values: results that are dropped, operands that mean something else than their name says."""

from __future__ import annotations

from collections.abc import Iterator

from ktir.dialects import spyreop
from ktir.dialects.linalg import LinalgOp
from ktir.errors import Diagnostic, finding
from ktir.ir import Operation
from ktir.strict.facts import Facts

__all__ = ["check"]


def check(op: Operation, facts: Facts) -> Iterator[Diagnostic]:
    """KTIR spec 8, item 29, and 2.5."""
    match op:
        case LinalgOp():
            yield from _unused(op, facts)
        case spyreop.LayerNormNorm():
            yield from _mean(op, facts)


def _unused(op: LinalgOp, facts: Facts) -> Iterator[Diagnostic]:
    """A structured operation on tensors changes nothing but its result."""
    if op.results and not any(facts.defuse.uses(r) for r in op.results):
        yield finding(
            "result is never used",
            "tensors are values: 'outs' gives the initial value and is not changed; use the result",
        )


def _mean(op: spyreop.LayerNormNorm, facts: Facts) -> Iterator[Diagnostic]:
    """The operand named `squares` is subtracted: it takes the mean."""
    definer = facts.defuse.definer(op.squares)
    if isinstance(definer, spyreop.Exx2) and op.squares is definer.squares:
        yield finding(
            "operand 'squares' takes the mean, but this is the mean of squares",
            "pass the first result of spyreop.exx2: (x - squares) * scale * weight + bias is computed",
        )
