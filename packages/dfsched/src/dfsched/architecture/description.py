"""`Description`: one device as data, its parts, and which resource stands for a kind.

Questions by *kind* are answered by the kind's exemplar: the first resource of that kind in post-order
(nested resources before the group around them; device spec 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeVar

import attrs
from attrs import field, frozen

from dfsched.architecture.kinds import Kind, kind_of, kind_text
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Resource, Switch, Unit
from dfsched.dialects.ktdf_arch import PatternsOp
from dfsched.errors import ArchitectureError
from ktir.attribute import Attribute
from ktir.dialects.ktdp import MemorySpace

__all__ = ["Description", "PatternBlock", "Timing"]

R = TypeVar("R", bound=Resource)


@frozen
class PatternBlock:
    """One ``patterns`` block: its checkpoints (none: always on), its text, and the operation itself.

    Blocks are equal if their texts are.
    """

    checkpoints: tuple[str, ...]
    text: str = field(repr=False)
    operation: PatternsOp = field(eq=False, repr=False)


@frozen
class Timing:
    """Latencies in cycles and the clock in Hz, for time models."""

    clock_hz: int = 1_000_000_000
    sync_latency: int = 2
    fifo_latency: int = 1
    memory_latency: int = 100


DEFAULT_TIMING = Timing()


@frozen(slots=False, cache_hash=True)
class Description:
    """What a description file says: the parts of a device and its attributes.

    ``resources`` are all parts in textual pre-order, each at its own index. ``mem_space_mapping`` maps memory
    spaces of kernels to memory kinds, in order. ``attributes`` are the remaining attributes of the device,
    sorted by name, ``patterns`` its pattern blocks. ``cores``, ``stick_bytes``, ``core_span_bytes`` and
    ``timing`` come from `ktdf_ext.` attributes.
    """

    name: str
    resources: tuple[Resource, ...]
    version: int | None = None
    mem_space_mapping: tuple[tuple[Kind, Kind], ...] = ()
    attributes: tuple[tuple[str, object], ...] = ()
    patterns: tuple[PatternBlock, ...] = field(default=(), repr=False)
    timing: Timing = DEFAULT_TIMING
    cores: int = 32
    stick_bytes: int = 128
    core_span_bytes: int | None = None

    # -- parts ---------------------------------------------------------------------------------------

    def _of(self, cls: type[R]) -> tuple[R, ...]:
        return tuple(r for r in self.resources if isinstance(r, cls))

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Indices of the resources directly in the device, in textual order."""
        return tuple(r.index for r in self.resources if r.parent is None)

    @cached_property
    def memories(self) -> tuple[Memory, ...]:
        return self._of(Memory)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return self._of(Unit)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return self._of(Group)

    @cached_property
    def switches(self) -> tuple[Switch, ...]:
        return self._of(Switch)

    @cached_property
    def datapaths(self) -> tuple[Datapath, ...]:
        return self._of(Datapath)

    @cached_property
    def post_order(self) -> tuple[Resource, ...]:
        """All resources, the content of a group before the group."""
        order: list[Resource] = []

        def visit(indices: Iterable[int]) -> None:
            for index in indices:
                resource = self.resources[index]
                if isinstance(resource, Group):
                    visit(resource.children)
                order.append(resource)

        visit(self.roots)
        return tuple(order)

    @cached_property
    def ids(self) -> Mapping[str, Resource]:
        """Resources by id (written ``@id``)."""
        return {r.id: r for r in self.resources if r.id is not None}

    def endpoint(self, value: Endpoint) -> Endpoint:
        """The node endpoint behind a value: results of groups are followed to what the group yields."""
        while isinstance(group := self.resources[value.resource], Group):
            value = group.results[value.result]
        return value

    def node(self, value: Endpoint) -> Resource:
        """The memory, unit or switch behind a value."""
        return self.resources[self.endpoint(value).resource]

    def parent(self, resource: Resource) -> Group | None:
        """The nearest enclosing group."""
        if resource.parent is None:
            return None
        group = self.resources[resource.parent]
        assert isinstance(group, Group)
        return group

    def enclosing(self, resource: Resource) -> tuple[Group, ...]:
        """All enclosing groups, innermost first."""
        chain: list[Group] = []
        group = self.parent(resource)
        while group is not None:
            chain.append(group)
            group = self.parent(group)
        return tuple(chain)

    # -- kinds ---------------------------------------------------------------------------------------

    @cached_property
    def exemplars(self) -> Mapping[Kind | None, Resource]:
        """The exemplar of each kind in order of first sight; None stands for "no kind"."""
        table: dict[Kind | None, Resource] = {}
        for resource in self.post_order:
            table.setdefault(resource.kind, resource)
        return table

    def resource(self, kind: Kind) -> Resource | None:
        """The exemplar of a kind (a string attribute counts as its string), or None."""
        return self.exemplars.get(_named(kind))

    def unit(self, kind: Kind) -> Unit:
        """The exemplar of a unit kind; `ArchitectureError` if there is no unit of that kind."""
        found = self.resource(kind)
        if not isinstance(found, Unit):
            raise ArchitectureError(f"device '{self.name}' has no execution unit of kind '{kind_text(kind)}'")
        return found

    def memory(self, space: Kind) -> Memory:
        """The exemplar of a memory kind or of a kernel's memory space (translated by the mapping).

        Raises `ArchitectureError` if there is no such memory.
        """
        found = self.resource(self.memory_kind(space))
        if not isinstance(found, Memory):
            raise ArchitectureError(f"device '{self.name}' has no memory of kind '{kind_text(space)}'")
        return found

    def is_unit(self, kind: Kind) -> bool:
        return isinstance(self.resource(kind), Unit)

    def is_memory(self, space: Kind) -> bool:
        return isinstance(self.resource(self.memory_kind(space)), Memory)

    def instances_of(self, kind: Kind) -> tuple[Resource, ...]:
        """All resources of a kind, in textual order."""
        return tuple(r for r in self.resources if r.kind == kind)

    def parent_kinds(self, kind: Kind) -> tuple[Kind, ...]:
        """The nearest enclosing kinds over all resources of a kind, in order of first sight."""
        nearest: dict[Kind, None] = {}
        for resource in self.instances_of(kind):
            group = next((g for g in self.enclosing(resource) if g.kind is not None), None)
            if group is not None and group.kind is not None:
                nearest.setdefault(group.kind)
        return tuple(nearest)

    def ancestors(self, kind: Kind) -> tuple[Kind, ...]:
        """All enclosing kinds of a kind, transitively, nearest first."""
        found: dict[Kind, None] = {}
        queue = list(self.parent_kinds(kind))
        while queue:
            nearest = queue.pop(0)
            if nearest not in found:
                found[nearest] = None
                queue.extend(self.parent_kinds(nearest))
        return tuple(found)

    @cached_property
    def compute_units(self) -> tuple[Unit, ...]:
        """Exemplars of all unit kinds with the compute feature, in post-order."""
        return tuple(r for r in self.exemplars.values() if isinstance(r, Unit) and r.computes)

    @property
    def compute_unit(self) -> Unit | None:
        """The only compute unit kind's exemplar, None if there is none.

        Raises `ArchitectureError` ("found second compute resource") if there are several kinds.
        """
        if len(self.compute_units) > 1:
            first, second = self.compute_units[:2]
            raise ArchitectureError(
                f"found second compute resource '{second.label}' beside '{first.label}'", second.label
            )
        return self.compute_units[0] if self.compute_units else None

    @property
    def compute_kind(self) -> Kind | None:
        """Kind of `compute_unit`."""
        unit = self.compute_unit
        return None if unit is None else unit.kind

    @cached_property
    def _mapping(self) -> dict[Kind, Kind]:
        return dict(self.mem_space_mapping)

    def memory_kind(self, space: Kind) -> Kind:
        """A kernel's memory space as a device kind (device spec 1.9 item 5).

        Exact key first, then the key without ``ct_id``; targets that are no strings are ignored, and what is
        not mapped stays as it is.
        """
        kind = _named(space)
        for key in (kind, _without_tile(kind)):
            target = self._mapping.get(key)
            if isinstance(target, str):
                return target
        return kind


def _named(kind: Kind) -> Kind:
    return kind_of(kind) if isinstance(kind, Attribute) else kind


def _without_tile(space: Kind) -> Kind:
    """A memory space with its compute-tile id removed (``ct_local, ct_id = 3`` becomes ``ct_local``)."""
    return attrs.evolve(space, ct_id=None) if isinstance(space, MemorySpace) else space
