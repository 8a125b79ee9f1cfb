"""Order of stages: token graphs of pipelines, and the graph over all leaf stages (dataflowir spec 2.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dfsched.dialects.ktdf import Pipeline, Stage
from dfsched.lowering.errors import LoweringError

__all__ = ["Edge", "global_edges", "leaves", "local_edges", "roots", "topological"]

Edge = tuple[Stage, Stage]


def local_edges(pipeline: Pipeline) -> list[Edge]:
    """Producer to consumer among the direct stages, in program order of producer, then consumer."""
    stages = pipeline.stages
    edges = [
        (producer, consumer)
        for producer in stages
        for consumer in stages
        if any(token in consumer.depends_in for token in producer.depends_out)
    ]
    topological(pipeline, edges)
    return edges


def topological(pipeline: Pipeline, edges: Iterable[Edge]) -> list[Stage]:
    """The direct stages in dependency order, text order where that leaves a choice."""
    waiting: dict[Stage, set[Stage]] = {stage: set() for stage in pipeline.stages}
    for producer, consumer in edges:
        waiting[consumer].add(producer)
    order: list[Stage] = []
    queue = [stage for stage, before in waiting.items() if not before]
    while queue:
        stage = queue.pop(0)
        order.append(stage)
        for other, before in waiting.items():
            if stage in before:
                before.discard(stage)
                if not before:
                    queue.append(other)
    if len(order) < len(waiting):
        raise LoweringError.at(pipeline.location, "Circular token dependency detected in pipeline")
    return order


def _nested(stage: Stage) -> list[Pipeline]:
    """Pipelines directly below a stage (not inside another pipeline), in program order."""
    found: list[Pipeline] = []
    pending = [op for region in stage.regions for block in region.blocks for op in block.operations]
    while pending:
        op = pending.pop(0)
        if isinstance(op, Pipeline):
            found.append(op)
        else:
            pending = [o for r in op.regions for b in r.blocks for o in b.operations] + pending
    return found


def roots(stage: Stage) -> tuple[Stage, ...]:
    """The leaf stages with which a stage begins."""
    return _ends(stage, first=True)


def leaves(stage: Stage) -> tuple[Stage, ...]:
    """The leaf stages with which a stage ends."""
    return _ends(stage, first=False)


def _ends(stage: Stage, first: bool) -> tuple[Stage, ...]:
    nested = _nested(stage)
    if not nested:
        return (stage,)
    pipeline = nested[0] if first else nested[-1]
    edges = local_edges(pipeline)
    inner = {consumer for _, consumer in edges} if first else {producer for producer, _ in edges}
    found: dict[Stage, None] = {}
    for child in pipeline.stages:
        if child not in inner:
            found.update(dict.fromkeys(_ends(child, first)))
    if not found:
        raise LoweringError.at(stage.location, "failed to build global stage DAG")
    return tuple(found)


def global_edges(pipelines: Sequence[Pipeline]) -> list[tuple[Edge, Edge]]:
    """All edges between leaf stages, each with the edge between direct stages that it comes from."""
    found: list[tuple[Edge, Edge]] = []
    for pipeline in pipelines:
        for producer, consumer in local_edges(pipeline):
            found += [((p, c), (producer, consumer)) for p in leaves(producer) for c in roots(consumer)]
    return found


def order_key(stages: Sequence[Stage]) -> Mapping[Stage, int]:
    """Position of every stage in program order."""
    return {stage: position for position, stage in enumerate(stages)}
