"""Level L: rules over a whole module that go beyond the verifier (KTIR spec 1.13.6, 1.14).

Verified IR may use any dialect and any pattern of communication; what back ends take is less: a fixed list of
dialects, futures with exactly one use, and deliveries whose sources and destinations fit together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import attrs

from ktir.analysis import DefUse
from ktir.attributes import AffineSetAttr
from ktir.dialects.ktdp import (
    Delivery,
    InterTileConsume,
    InterTileProduce,
    InterTileReduce,
    InterTileScatter,
    ProposedDelivery,
)
from ktir.dialects.ktdp.inter_tile import group_numbers, members
from ktir.errors import Diagnostic, VerifyError, finding
from ktir.ir import Operation
from ktir.types import TensorType

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
            found.append(_located(op, finding("is not legal in a KTIR program", _allowed(legal))))
        found += [_located(op, problem) for problem in _communication(op, defuse)]
    return tuple(found)


def check_legality(module: Operation, legal: Collection[str] = LEGAL) -> None:
    """Raise `ktir.VerifyError` with every violation."""
    found = legality(module, legal)
    if found:
        raise VerifyError(found)


def _allowed(legal: Collection[str]) -> str:
    return f"operations of {', '.join(sorted(legal))} are"


def _located(op: Operation, problem: Diagnostic) -> Diagnostic:
    return attrs.evolve(problem, message=f"'{op.name}' op {problem.message}", location=op.location)


def _communication(op: Operation, defuse: DefUse) -> Iterator[Diagnostic]:
    match op:
        case InterTileProduce():
            uses = len(defuse.uses(op.future))
            if uses != 1:
                yield finding(
                    "future result must have exactly one use",
                    f"it has {uses}; every delivery needs a ktdp.inter_tile_produce of its own",
                )
        case Delivery():
            produce = defuse.definer(op.future)
            if isinstance(produce, InterTileProduce):
                yield from _delivery(op, produce)


@attrs.frozen
class _Group:
    """The tiles of one group on both sides of a delivery; `sources` maps consumers to what they wait for.

    `sources` is None without a dependency attribute, or where that cannot be enumerated.
    """

    number: int
    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    sources: dict[int, tuple[int, ...]] | None


def _groups(op: Delivery, produce: InterTileProduce) -> Iterator[_Group]:
    """The groups whose tiles can be enumerated: without finite bounds the rules cannot be checked."""
    for number in group_numbers(produce.future_type.groups):
        producers = members(produce.producer_tiles_per_group.set, [number])
        consumers = members(op.consumer_tiles_per_group.set, [number])
        if producers is not None and consumers is not None:
            yield _Group(number, producers, consumers, _sources(op, number, consumers))


def _sources(op: Delivery, group: int, consumers: tuple[int, ...]) -> dict[int, tuple[int, ...]] | None:
    dependency = op.producer_dependency_per_consumer
    if not isinstance(dependency, AffineSetAttr):
        return None
    found: dict[int, tuple[int, ...]] = {}
    for consumer in consumers:
        tiles = members(dependency.set, [consumer, group][: dependency.set.num_symbols])
        if tiles is None:
            return None
        found[consumer] = tiles
    return found


def _delivery(op: Delivery, produce: InterTileProduce) -> Iterator[Diagnostic]:
    groups = tuple(_groups(op, produce))
    for group in groups:
        match op:
            case InterTileReduce():
                yield from _reduction(group)
            case InterTileConsume():
                yield from _single_source(group, op.producer_dependency_per_consumer is not None)
            case InterTileScatter():
                yield from _single_producer(group)
        yield from _dependencies(group)
        if isinstance(op, ProposedDelivery):
            yield from _shares(op, group)
    if isinstance(op, ProposedDelivery):
        yield from _equal_groups(groups)


def _reduction(group: _Group) -> Iterator[Diagnostic]:
    """R13 and R14."""
    producers, consumers = set(group.producers), set(group.consumers)
    if not consumers <= producers:
        yield finding(
            f"consumer_tiles_per_group for group {group.number} is not a subset of producer_tiles_per_group "
            "(a consumer tile that did not produce is unsupported; see open question Q1)",
            f"{_tiles(consumers - producers)} of group {group.number} did not produce",
        )
    elif len(consumers) > 1 and consumers != producers:
        yield finding(
            f"consumer_tiles_per_group for group {group.number} is a strict subset of "
            "producer_tiles_per_group with more than one tile (reduce-to-subset is unsupported; only "
            "all-reduce and reduce-to-one are supported)",
            f"let all {len(producers)} producers consume, or exactly one of them",
        )


def _tiles(tiles: Collection[int]) -> str:
    ordered = ", ".join(map(str, sorted(tiles)[:8])) + (", ..." if len(tiles) > 8 else "")
    return f"tile{'' if len(tiles) == 1 else 's'} {ordered or 'none'}"


def _single_source(group: _Group, has_dependency: bool) -> Iterator[Diagnostic]:
    """R8 for a consume."""
    if not has_dependency:
        if len(group.producers) > 1:
            yield finding(
                f"group {group.number} has {len(group.producers)} producers, so "
                "producer_dependency_per_consumer is required to name each consumer tile's single source",
                "add producer_dependency_per_consumer = affine_set<(p)[c] : ...>, one p for every c",
            )
        return
    for consumer, sources in (group.sources or {}).items():
        if len(sources) != 1:
            yield finding(
                f"consumer {consumer} of group {group.number} depends on {len(sources)} producers; "
                "inter_tile_consume delivers one contribution per consumer tile, so exactly one is required",
                f"consumer {consumer} depends on {_tiles(sources)}",
            )


def _single_producer(group: _Group) -> Iterator[Diagnostic]:
    """R8 for a scatter."""
    if len(group.producers) != 1:
        yield finding(
            f"group {group.number} has {len(group.producers)} producers; inter_tile_scatter divides the "
            "contribution of exactly one",
            f"{_tiles(group.producers)} produce in group {group.number}",
        )


def _dependencies(group: _Group) -> Iterator[Diagnostic]:
    """R3 and R4."""
    if group.sources is None:
        return
    covered: set[int] = set()
    for consumer, sources in group.sources.items():
        covered.update(sources)
        for source in sources:
            if source not in group.producers:
                yield finding(
                    f"producer_dependency_per_consumer for consumer {consumer} group {group.number} "
                    f"references producer tile {source} which is not in producer_tiles_per_group",
                    f"the producers of group {group.number} are {_tiles(group.producers)}",
                )
    for producer in group.producers:
        if producer not in covered:
            yield finding(
                f"producer_dependency_per_consumer for group {group.number} does not cover producer tile "
                f"{producer} (no consumer has it as a dependency)",
                "what a tile publishes must reach somebody; leave the tile out of the producers otherwise",
            )


def _equal_groups(groups: tuple[_Group, ...]) -> Iterator[Diagnostic]:
    """R7."""
    counts = {len(group.producers) for group in groups}
    if len(counts) > 1:
        yield finding(
            f"groups have different numbers of producers: {', '.join(map(str, sorted(counts)))}",
            "the results have one type for all groups, so all groups must be equally large",
        )


def _shares(op: ProposedDelivery, group: _Group) -> Iterator[Diagnostic]:
    """R5, R6, R9 and the extents of the results."""
    sources = group.sources
    if sources is not None and op.joined_axes:
        counts = {len(tiles) for tiles in sources.values()}
        if len(counts) > 1:
            yield finding(
                f"consumers of group {group.number} depend on different numbers of producers: "
                f"{', '.join(map(str, sorted(counts)))}",
                "the results have one type for all consumers",
            )
            return
        if sum(map(len, sources.values())) > len({tile for tiles in sources.values() for tile in tiles}):
            yield finding(
                f"dependencies of different consumers in group {group.number} overlap",
                "every producer serves one consumer",
            )
    producers = len(next(iter(sources.values()))) if sources else len(group.producers)
    for number, (partial, output) in enumerate(zip(op.future_type.partials, op.outputs, strict=True)):
        if isinstance(partial, TensorType) and isinstance(output.type, TensorType):
            yield from _extents(op, group, number, partial, output.type, producers)


def _extents(
    op: ProposedDelivery, group: _Group, number: int, partial: TensorType, output: TensorType, producers: int
) -> Iterator[Diagnostic]:
    """What is split is divided by the number of consumers, what is joined multiplied by that of producers."""
    if not (partial.is_static and output.is_static):
        return
    split, joined, consumers = op.split_axes, op.joined_axes, len(group.consumers)
    given, wanted = partial.static_shape(), output.static_shape()
    extent = math.prod(given[axis] for axis in split)
    if split and consumers and extent % consumers:
        yield finding(
            f"extent {extent} of {op.split_by} is not divisible by the {consumers} consumers of group "
            f"{group.number}",
            "every consumer gets an equal part",
        )
        return
    both = sorted({*split, *joined})
    expected = math.prod(given[axis] for axis in both) * (producers if joined else 1)
    expected //= consumers if split and consumers else 1
    found = math.prod(wanted[axis] for axis in both)
    if found != expected:
        yield finding(
            f"result #{number} has {found} elements along the listed axes, but {expected} are delivered in "
            f"group {group.number}",
            f"{producers} producers contribute {partial}, {consumers} consumers receive",
        )
