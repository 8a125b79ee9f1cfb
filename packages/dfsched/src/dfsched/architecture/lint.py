"""What is legal in a device description but probably not meant (device spec 1.10, end)."""

from __future__ import annotations

from collections.abc import Iterator

from dfsched.architecture.architecture import Architecture
from dfsched.architecture.kinds import kind_text
from dfsched.architecture.resources import Group, Memory, Resource, Unit

__all__ = ["lint"]


def lint(architecture: Architecture) -> tuple[str, ...]:
    """Remarks about a device, in order of its resources; empty if there is nothing to say."""
    return (
        *_spelling(architecture),
        *_dissimilar(architecture),
        *_compute(architecture),
        *_memories(architecture),
    )


def _spelling(architecture: Architecture) -> Iterator[str]:
    """Kinds become lower-case tags and are recovered by upper-casing."""
    for kind, resource in architecture.exemplars.items():
        if isinstance(resource, Memory | Unit) and isinstance(kind, str) and kind != kind.upper():
            yield f"kind '{kind}' is not in upper case; later stages cannot recover it from its tag"


def _dissimilar(architecture: Architecture) -> Iterator[str]:
    """One exemplar stands for all resources of its kind."""
    for kind, exemplar in architecture.exemplars.items():
        if kind is None:
            continue
        for resource in architecture.instances_of(kind):
            if _signature(architecture, resource) != _signature(architecture, exemplar):
                yield f"resources of kind '{kind_text(kind)}' differ; the first one is taken for all"
                break


def _signature(architecture: Architecture, resource: Resource) -> object:
    content: tuple[object, ...] = ()
    if isinstance(resource, Group):
        inside = (architecture.resources[index] for index in resource.children)
        content = tuple(_signature(architecture, r) for r in inside if r.mnemonic != "datapath")
    size = resource.size if isinstance(resource, Memory) else None
    return (resource.mnemonic, resource.kind, resource.features, size, content)


def _compute(architecture: Architecture) -> Iterator[str]:
    units = architecture.compute_units
    if not units:
        yield "no execution unit has the compute feature; nothing can be scheduled"
    if len(units) > 1:
        names = ", ".join(kind_text(unit.kind) for unit in units)
        yield f"several compute kinds ({names}); which one to use must be chosen"
    for unit in units:
        if unit.moves:
            yield f"compute unit '{unit.label}' also loads or stores; routes treat it as a mover"
        if architecture.incoming(unit) is None:
            yield f"compute unit '{unit.label}' has no unique incoming link"
        if architecture.outgoing(unit) is None:
            yield f"compute unit '{unit.label}' has no unique outgoing link"


def _memories(architecture: Architecture) -> Iterator[str]:
    for kind in dict.fromkeys(memory.kind for memory in architecture.memories):
        for neighbour in (*architecture.successors(kind), *architecture.predecessors(kind)):
            if isinstance(neighbour, Memory):
                yield f"memory '{kind_text(kind)}' is linked directly to memory '{neighbour.label}'"
                break
