"""Levels of checking, each for a different question about a program (KTIR spec 0.2).

The text parses (P); every operation keeps its own rules (V); the module as a whole uses only what back ends
take (L); it does not contradict itself (S); the first version of the scheduler takes it (D). The same program
may pass one level and fail the next, so each is asked for by itself.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

import attrs

from ktir.errors import Diagnostic, KtirError, VerifyError
from ktir.ir import Operation
from ktir.legality import LEGAL, legality
from ktir.machine import Machine
from ktir.scheduler_profile import scheduler_v1
from ktir.strict import strict_findings
from ktir.verifier import collect

__all__ = ["Level", "check", "levels_of"]


class Level(enum.StrEnum):
    """What is checked; the value is the letter of the level."""

    PARSE = "P"
    VERIFY = "V"
    LEGAL = "L"
    STRICT = "S"
    SCHEDULER = "D"


def levels_of(letters: str | Iterable[Level]) -> tuple[Level, ...]:
    """The levels named by letters such as ``"VLS"`` or ``"L,S"``; `KtirError` for a letter that is none."""
    found: set[Level] = set()
    for letter in letters:
        if letter in ", ":
            continue
        try:
            found.add(Level(letter))
        except ValueError:
            known = ", ".join(f"{level} ({level.name.lower()})" for level in Level)
            raise KtirError(f"no level '{letter}'; levels: {known}") from None
    return tuple(level for level in Level if level in found)


def check(
    module: Operation,
    levels: str | Iterable[Level] = (Level.VERIFY,),
    *,
    strict: bool = False,
    legal: Collection[str] = LEGAL,
    machine: Machine | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything that the levels find in a module, level by level in program order.

    Levels above V assume what V ensures: they include it, and are only asked if it finds no error. A module
    is the outcome of level P, so that adds nothing. Findings of level S are warnings unless `strict`; `legal`
    is what level L allows (dialects and operations), `machine` what level S takes the program to run on.
    """
    wanted = levels_of(levels)
    found: list[Diagnostic] = []
    if any(level is not Level.PARSE for level in wanted):
        found += collect(module)
    if any(diagnostic.severity == "error" for diagnostic in found):
        return tuple(found)
    if Level.LEGAL in wanted:
        found += legality(module, legal)
    if Level.STRICT in wanted:
        severity = "error" if strict else "warning"
        found += [attrs.evolve(d, severity=severity) for d in strict_findings(module, machine)]
    if Level.SCHEDULER in wanted:
        found += scheduler_v1(module)
    return tuple(found)


def check_or_raise(module: Operation, levels: str | Iterable[Level], *, strict: bool = False) -> None:
    """`check`, as an exception: raises `VerifyError` with every error."""
    errors = tuple(d for d in check(module, levels, strict=strict) if d.severity == "error")
    if errors:
        raise VerifyError(errors)
