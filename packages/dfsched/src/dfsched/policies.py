"""Policies: rules that turn the facts of a program into a `Plan`."""

from __future__ import annotations

from dfsched.architecture import Architecture, kind_text
from dfsched.plan import NestFacts, NestPlan, Plan, ProgramFacts

__all__ = ["heuristic"]


def heuristic(facts: ProgramFacts, architecture: Architecture) -> Plan:
    """The default: loops as they stand, one vector a step, single buffers, nothing hoisted or distributed."""
    unit = architecture.compute_unit
    return Plan(
        facts.program,
        "" if unit is None else kind_text(unit.kind),
        tuple(_nest(nest) for nest in facts.nests),
    )


def _nest(nest: NestFacts) -> NestPlan:
    loops = len(nest.trips)
    return NestPlan(
        loop_order=tuple(range(loops)),
        tile_sizes=(1,) * loops,
        buffer_depths=(1,) * len(nest.operands),
    )
