"""Plans drawn by a seed: whatever a policy decides, programs must compute the same."""

from __future__ import annotations

from random import Random

from dfsched import policies
from dfsched.architecture import Architecture
from dfsched.plan import NestFacts, NestPlan, Plan, Policy, ProgramFacts

__all__ = ["DEEPEST", "random_policy"]

DEEPEST = 3
"""Copies of a buffer at most."""


def random_policy(seed: int) -> Policy:
    """A policy whose tile sizes, order of loops, copies of buffers and instances follow from a seed."""

    def policy(facts: ProgramFacts, architecture: Architecture) -> Plan:
        dice = Random(f"{seed} {facts.program}")
        usual = policies.heuristic(facts, architecture)
        nests = tuple(
            _nest(dice, nest, plan, architecture) for nest, plan in zip(facts.nests, usual.nests, strict=True)
        )
        return Plan(facts.program, usual.compute_unit, nests)

    return policy


def _nest(dice: Random, facts: NestFacts, usual: NestPlan, architecture: Architecture) -> NestPlan:
    """Tiles no larger than those of the usual plan, or with single copies, so that they fit as well."""
    sizes = tuple(dice.choice([1, 2, 3, size, max(1, size // 2)]) for size in usual.tile_sizes)
    sizes = tuple(min(size, most) for size, most in zip(sizes, usual.tile_sizes, strict=True))
    plan = policies.tiled_plan(facts, sizes, architecture)
    loops = len(sizes)
    points = sum(size > 1 for size in sizes)
    order = dice.sample(range(loops), loops) if dice.random() < 0.3 else range(loops)
    spread = dice.random() < 0.7
    return NestPlan(
        loop_order=tuple(order),
        tile_sizes=sizes,
        buffer_depths=tuple(dice.randint(1, DEEPEST) for _ in facts.operands),
        sunk_loops=points if dice.random() < 0.7 else dice.randint(0, points),
        hoisted=tuple(number for number in plan.hoisted if dice.random() < 0.7),
        instance_loop=plan.instance_loop if spread else None,
        instances=plan.instances if spread else 1,
        limit="drawn",
    )
