"""Level L: rules over a whole module that go beyond the verifier (KTIR spec 1.13.6, 1.14).

Verified IR may use any dialect and any pattern of communication; what back ends take is less: a fixed list of
dialects, futures with exactly one use, and deliveries whose sources and destinations fit together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktir.affine import AffineSet
from ktir.analysis import DefUse
from ktir.attributes import AffineSetAttr
from ktir.dialects.ktdp import InterTileConsume, InterTileProduce, InterTileReduce
from ktir.dialects.ktdp.inter_tile import group_numbers, members
from ktir.errors import Diagnostic, VerifyError
from ktir.ir import Operation

__all__ = ["LEGAL", "LEGAL_UPSTREAM", "check_legality", "legality"]

LEGAL_UPSTREAM: frozenset[str] = frozenset(
    ("arith", "builtin", "func", "ktdp", "linalg", "math", "memref", "scf", "tensor")
)
"""The dialects that the reference front end takes."""
LEGAL: frozenset[str] = LEGAL_UPSTREAM | {"spyreop", "affine.apply"}
"""Ours: the same, the device intrinsics and ``affine.apply``."""


def legality(module: Operation, legal: Collection[str] = LEGAL) -> tuple[Diagnostic, ...]:
    """Every violation in program order; `legal` holds names of dialects and of single operations.

    The module must verify.
    """
    defuse = DefUse(module)
    found: list[Diagnostic] = []
    for op in module.walk():
        if op.name.partition(".")[0] not in legal and op.name not in legal:
            found.append(Diagnostic(f"'{op.name}' op is not legal in a KTIR program", op.location))
        found += [
            Diagnostic(f"'{op.name}' op {message}", op.location) for message in _communication(op, defuse)
        ]
    return tuple(found)


def check_legality(module: Operation, legal: Collection[str] = LEGAL) -> None:
    """Raise `ktir.VerifyError` with every violation."""
    found = legality(module, legal)
    if found:
        raise VerifyError(found)


def _communication(op: Operation, defuse: DefUse) -> Iterator[str]:
    match op:
        case InterTileProduce():
            if len(defuse.uses(op.future)) != 1:
                yield "future result must have exactly one use"
        case InterTileReduce() | InterTileConsume():
            produce = defuse.definer(op.future)
            if isinstance(produce, InterTileProduce):
                yield from _delivery(op, produce)


def _delivery(op: InterTileReduce | InterTileConsume, produce: InterTileProduce) -> Iterator[str]:
    dependency = op.producer_dependency_per_consumer
    for group in group_numbers(produce.future_type.groups):
        producers = members(produce.producer_tiles_per_group.set, [group])
        consumers = members(op.consumer_tiles_per_group.set, [group])
        if producers is None or consumers is None:
            continue  # without finite bounds the rules cannot be checked
        if isinstance(op, InterTileReduce):
            yield from _reduction(group, producers, consumers)
        elif dependency is None and len(producers) > 1:
            yield (
                f"group {group} has {len(producers)} producers, so producer_dependency_per_consumer is "
                "required to name each consumer tile's single source"
            )
        if dependency is not None:
            yield from _dependencies(op, dependency, group, producers, consumers)


def _reduction(group: int, producers: tuple[int, ...], consumers: tuple[int, ...]) -> Iterator[str]:
    if not set(consumers) <= set(producers):
        yield (
            f"consumer_tiles_per_group for group {group} is not a subset of producer_tiles_per_group (a "
            "consumer tile that did not produce is unsupported; see open question Q1)"
        )
    elif len(consumers) > 1 and set(consumers) != set(producers):
        yield (
            f"consumer_tiles_per_group for group {group} is a strict subset of producer_tiles_per_group with "
            "more than one tile (reduce-to-subset is unsupported; only all-reduce and reduce-to-one are "
            "supported)"
        )


def _dependencies(
    op: InterTileReduce | InterTileConsume,
    dependency: AffineSetAttr,
    group: int,
    producers: tuple[int, ...],
    consumers: tuple[int, ...],
) -> Iterator[str]:
    covered: set[int] = set()
    for consumer in consumers:
        sources = _sources(dependency.set, consumer, group)
        if sources is None:
            return
        covered.update(sources)
        for source in sources:
            if source not in producers:
                yield (
                    f"producer_dependency_per_consumer for consumer {consumer} group {group} references "
                    f"producer tile {source} which is not in producer_tiles_per_group"
                )
        if isinstance(op, InterTileConsume) and len(sources) != 1:
            yield (
                f"consumer {consumer} of group {group} depends on {len(sources)} producers; "
                "inter_tile_consume delivers one contribution per consumer tile, so exactly one is required"
            )
    for producer in producers:
        if producer not in covered:
            yield (
                f"producer_dependency_per_consumer for group {group} does not cover producer tile {producer} "
                "(no consumer has it as a dependency)"
            )


def _sources(dependency: AffineSet, consumer: int, group: int) -> tuple[int, ...] | None:
    return members(dependency, [consumer, group][: dependency.num_symbols])
