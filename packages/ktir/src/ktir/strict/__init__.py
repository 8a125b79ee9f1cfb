"""Level S: contradictions that the verifier lets pass (KTIR spec 0.2 and the S rules of sections 1 and 4).

A program may verify and still contradict itself: a view whose type has other extents than its sizes, a tile
whose extents do not fit its set, a grid larger than the machine. Each finding is a warning with a note that
says what would be right; ``strict=True`` makes them errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from ktir.errors import Diagnostic, KtirError
from ktir.ir import Operation, UnregisteredOp
from ktir.machine import Machine
from ktir.strict import communication, functions, tiles, values, views
from ktir.strict.facts import Facts

__all__ = ["strict_findings"]

_RULES: tuple[Callable[[Operation, Facts], Iterator[Diagnostic]], ...] = (
    functions.check,
    views.check,
    tiles.check,
    communication.check,
    values.check,
)


def strict_findings(module: Operation, machine: Machine | None = None) -> tuple[Diagnostic, ...]:
    """Everything suspicious in a verified module, in program order, as warnings.

    `machine` is what the program is to run on (default: `ktir.Machine()`); the module's own switches
    override its. A rule is skipped where it cannot be decided: values that are not constant, sets without
    finite bounds.
    """
    facts = Facts(module, machine or Machine())
    found: list[Diagnostic] = []
    for op in module.walk():
        if isinstance(op, UnregisteredOp):
            continue
        for rule in _RULES:
            try:
                found += [_placed(op, finding) for finding in rule(op, facts)]
            except KtirError as error:  # a helper refused the operation: that is a finding, not a crash
                found.append(_placed(op, Diagnostic(str(error))))
    return tuple(found)


def _placed(op: Operation, finding: Diagnostic) -> Diagnostic:
    """With the operation's place and name where the finding has none, and as a warning."""
    if finding.location is None:
        finding = attrs.evolve(finding, message=f"'{op.name}' op {finding.message}", location=op.location)
    return attrs.evolve(finding, severity="warning")
