"""`Architecture`: one device, frozen, with every question that a pass asks about hardware.

The description (resources and attributes) is data; all views are derived from it on first use and kept.
Questions by *kind* are answered by the kind's exemplar: the first resource of that kind in post-order
(nested resources before the group around them; device spec 3.4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import attrs
from attrs import field, frozen

from dfsched.architecture.features import Features, Queue
from dfsched.architecture.kinds import Kind, kind_text
from dfsched.architecture.memory_tree import MemoryTree, build_memory_tree
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Resource, Switch, Unit
from dfsched.architecture.routing import Route, RoutingGraph, build_routing_graph
from dfsched.errors import ArchitectureError

__all__ = ["Architecture", "Instances", "Scope", "Timing", "element_name"]

R = TypeVar("R", bound=Resource)

DEFAULT_QUEUE_DEPTH = 16


class Scope(Enum):
    """How many copies of a resource the hardware has (reading: memory identity).

    DEVICE: one. CORE: one per core. CORELET: one per core and instance of a replicated group inside it.
    """

    DEVICE = "device"
    CORE = "core"
    CORELET = "corelet"


@frozen
class Instances:
    """A group of hardware and its equal siblings, over which a loop can be spread."""

    group: Group
    members: tuple[Group, ...]

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def distributable(self) -> bool:
        """Whether there are at least two, inside one core."""
        return self.count >= 2


@frozen
class Timing:
    """Latencies in cycles and the clock in Hz, for time models (`ktdf_ext.` attributes of the device)."""

    clock_hz: int = 1_000_000_000
    sync_latency: int = 2
    fifo_latency: int = 1
    memory_latency: int = 100


def element_name(element_type: object) -> str:
    """The key of a scalar type in lane tables: its MLIR text, dialect prefix removed (``"df16"``)."""
    text = str(element_type)
    return text.rsplit(".", 1)[-1] if text.startswith("!") else text


@frozen(slots=False, cache_hash=True)
class Architecture:
    """A device (contract of the border hardware -> scheduler).

    ``resources`` are all parts in textual pre-order, each at its own index; ``roots`` those directly in the
    device. ``mem_space_mapping`` maps memory spaces of kernels to memory kinds, in order. ``attributes`` are the
    remaining attributes of the device, sorted by name. ``patterns`` are the device's pattern blocks; they take no part in
    equality of the hardware's structure but do count for equality and the digest.
    """

    name: str
    resources: tuple[Resource, ...]
    version: int | None = None
    mem_space_mapping: tuple[tuple[Kind, Kind], ...] = ()
    attributes: tuple[tuple[str, object], ...] = ()
    patterns: tuple[object, ...] = field(default=(), repr=False)
    timing: Timing = Timing()
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
        """The exemplar of a kind, or None."""
        return self.exemplars.get(kind)

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
            if group is not None:
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

    # -- memory spaces -------------------------------------------------------------------------------

    @cached_property
    def _mapping(self) -> dict[Kind, Kind]:
        return dict(self.mem_space_mapping)

    def memory_kind(self, space: Kind) -> Kind:
        """A kernel's memory space as a device kind (device spec 1.9 item 5).

        Exact key first, then the key without ``ct_id``; targets that are no strings are ignored, and what is not
        mapped stays as it is.
        """
        for key in (space, _without_tile(space)):
            target = self._mapping.get(key)
            if isinstance(target, str):
                return target
        return space

    def is_global(self, space: Kind) -> bool:
        """Whether the space denotes a root memory."""
        return self.memory_tree.is_global(self.memory_kind(space))

    def is_per_core_scratchpad(self, space: Kind) -> bool:
        """Whether the space denotes a memory of depth 1 that is no indirect address buffer."""
        kind = self.memory_kind(space)
        return self.memory_tree.is_per_core_scratchpad(kind) and not self.is_address_buffer(kind)

    def is_below_scratchpad(self, space: Kind) -> bool:
        return self.memory_tree.is_below_scratchpad(self.memory_kind(space))

    def is_address_buffer(self, space: Kind) -> bool:
        """Whether the memory carries the indirect-address-buffer feature (a class of its own)."""
        found = self.resource(self.memory_kind(space))
        return isinstance(found, Memory) and found.features.address_buffer is not None

    def is_private(self, space: Kind) -> bool:
        """Whether a memory is private to one unit: a register file, or a memory without datapaths.

        Without datapaths means on any memory of the kind, with a unit in the same group. Indirect address buffers
        are not private memories.
        """
        memory = self.memory(space)
        if memory.features.address_buffer is not None:
            return False
        if memory.features.register_file is not None:
            return True
        linked = any(self.links(m) for m in self.instances_of(memory.kind))
        return not linked and bool(self.units_beside(memory))

    def units_beside(self, memory: Memory) -> tuple[Unit, ...]:
        """Units that sit directly in the memory's own group."""
        if memory.parent is None:
            return ()
        return tuple(u for u in self.units if u.parent == memory.parent)

    def shared_memories(self, first: Kind, second: Kind) -> tuple[Kind, ...]:
        """Memory kinds that unit kind ``first`` writes and ``second`` reads, in textual order."""
        readable = self.reads(second)
        return tuple(kind for kind in self.writes(first) if kind in readable)

    def scope(self, kind: Kind) -> Scope:
        """How often the kind's exemplar exists: per device, per core, or per replicated group in a core."""
        resource = self.resource(self.memory_kind(kind))
        if resource is None:
            raise ArchitectureError(f"device '{self.name}' has no resource of kind '{kind_text(kind)}'")
        groups = self.enclosing(resource)
        if not groups:
            return Scope.DEVICE
        replicated = any(self.instances(group).distributable for group in groups)
        return Scope.CORELET if replicated else Scope.CORE

    # -- views ---------------------------------------------------------------------------------------

    @cached_property
    def routing(self) -> RoutingGraph:
        """Nodes and datapaths for route search."""
        return build_routing_graph(self)

    @cached_property
    def memory_tree(self) -> MemoryTree:
        return build_memory_tree(self)

    @cached_property
    def _local_memories(self) -> dict[Kind, tuple[Kind, ...]]:
        table: dict[Kind, tuple[Kind, ...]] = {}
        for group in self.post_order:
            if not isinstance(group, Group):
                continue
            inside = [self.resources[index] for index in group.children]
            memories = tuple(dict.fromkeys(m.kind for m in inside if isinstance(m, Memory)))
            for kind in dict.fromkeys(u.kind for u in inside if isinstance(u, Unit) and u.kind is not None):
                known = table.get(kind, memories)
                table[kind] = tuple(memory for memory in known if memory in memories)
        return table

    def local_memory(self, unit: Kind) -> Kind | None:
        """The one memory kind that sits beside every unit of that kind, or None if unknown or not unique."""
        memories = self._local_memories.get(unit, ())
        return memories[0] if len(memories) == 1 else None

    # -- links ---------------------------------------------------------------------------------------

    @cached_property
    def _links(self) -> dict[int, tuple[Datapath, ...]]:
        table: dict[int, list[Datapath]] = {}
        for link in self.datapaths:
            ends = (self.endpoint(link.source).resource, self.endpoint(link.target).resource)
            for index in dict.fromkeys(ends):
                table.setdefault(index, []).append(link)
        return {index: tuple(links) for index, links in table.items()}

    def _resolve(self, what: Kind | Resource) -> Resource | None:
        return what if isinstance(what, Resource) else self.resource(self.memory_kind(what))

    def links(self, node: Kind | Resource) -> tuple[Datapath, ...]:
        """All datapaths at a node (a resource, or the exemplar of a kind), in textual order.

        Links are followed through captures and yields; an unknown kind has none.
        """
        resource = self._resolve(node)
        return () if resource is None else self._links.get(resource.index, ())

    def links_from(self, node: Kind | Resource) -> tuple[Datapath, ...]:
        """Outgoing datapaths of a node."""
        resource = self._resolve(node)
        if resource is None:
            return ()
        return tuple(link for link in self.links(resource) if self.node(link.source) is resource)

    def links_to(self, node: Kind | Resource) -> tuple[Datapath, ...]:
        """Incoming datapaths of a node."""
        resource = self._resolve(node)
        if resource is None:
            return ()
        return tuple(link for link in self.links(resource) if self.node(link.target) is resource)

    def links_between(self, source: Kind | Resource, target: Kind | Resource) -> tuple[Datapath, ...]:
        """Datapaths from one node to another (resources, or exemplars of kinds)."""
        end = self._resolve(target)
        return tuple(
            link for link in self.links_from(source) if end is not None and self.node(link.target) is end
        )

    def link(self, source: Kind | Resource, target: Kind | Resource) -> Datapath | None:
        """The unique datapath from one node to another; None for none or several."""
        links = self.links_between(source, target)
        return links[0] if len(links) == 1 else None

    def incoming(self, node: Kind | Resource) -> Datapath | None:
        """The unique incoming datapath, None for none or several."""
        links = self.links_to(node)
        return links[0] if len(links) == 1 else None

    def outgoing(self, node: Kind | Resource) -> Datapath | None:
        """The unique outgoing datapath, None for none or several."""
        links = self.links_from(node)
        return links[0] if len(links) == 1 else None

    def _across_switches(self, resource: Resource, forward: bool) -> tuple[Resource, ...]:
        """Memories and units one step away, looking through switches."""
        found: dict[int, None] = {}
        seen: set[Endpoint] = set()
        queue: list[Endpoint] = [
            self.endpoint(link.target if forward else link.source)
            for link in (self.links_from(resource) if forward else self.links_to(resource))
        ]
        while queue:
            end = queue.pop(0)
            node = self.resources[end.resource]
            if not isinstance(node, Switch):
                found.setdefault(end.resource)
                continue
            if end in seen:
                continue
            seen.add(end)
            for port in range(node.ports):
                ok = node.connectivity[end.result][port] if forward else node.connectivity[port][end.result]
                if ok:
                    here = Endpoint(end.resource, port)
                    for link in self.links_from(node) if forward else self.links_to(node):
                        near, far = (link.source, link.target) if forward else (link.target, link.source)
                        if self.endpoint(near) == here:
                            queue.append(self.endpoint(far))
        return tuple(self.resources[index] for index in found)

    def successors(self, node: Kind | Resource) -> tuple[Resource, ...]:
        """Memories and units that the node's outgoing links reach (switches are looked through)."""
        resource = self._resolve(node)
        return () if resource is None else self._across_switches(resource, True)

    def predecessors(self, node: Kind | Resource) -> tuple[Resource, ...]:
        """Memories and units whose outgoing links reach the node (switches are looked through)."""
        resource = self._resolve(node)
        return () if resource is None else self._across_switches(resource, False)

    def reads(self, unit: Kind) -> tuple[Kind, ...]:
        """Memory kinds at the source of the unit exemplar's incoming links (dataflowir spec 2.10)."""
        self.unit(unit)
        return tuple(dict.fromkeys(m.kind for m in self.predecessors(unit) if isinstance(m, Memory)))

    def writes(self, unit: Kind) -> tuple[Kind, ...]:
        """Memory kinds at the target of the unit exemplar's outgoing links."""
        self.unit(unit)
        return tuple(dict.fromkeys(m.kind for m in self.successors(unit) if isinstance(m, Memory)))

    # -- routes --------------------------------------------------------------------------------------

    def route(self, source: Kind, target: Kind) -> Route | None:
        """The shortest route between two kinds (or kernel memory spaces), None if there is none."""
        return self.routing.route(self.memory_kind(source), self.memory_kind(target))

    def movers(self, source: Kind, target: Kind) -> tuple[Kind, ...]:
        """Kinds of the units that move data from one memory directly to another, in textual order."""
        a, b = self.memory_kind(source), self.memory_kind(target)
        kinds = dict.fromkeys(u.kind for u in self.units if u.moves and u.kind is not None)
        return tuple(kind for kind in kinds if a in self.reads(kind) and b in self.writes(kind))

    def operand_memories(self, unit: Kind) -> tuple[Kind, ...]:
        """Memories from which operands reach a compute unit without passing another memory."""
        return self._nearest_memories(self.unit(unit), self.predecessors)

    def result_memories(self, unit: Kind) -> tuple[Kind, ...]:
        """Memories that results of a compute unit reach without passing another memory."""
        return self._nearest_memories(self.unit(unit), self.successors)

    def _nearest_memories(
        self, start: Unit, step: Callable[[Resource], tuple[Resource, ...]]
    ) -> tuple[Kind, ...]:
        found: dict[Kind, None] = {}
        seen = {start.index}
        queue: list[Resource] = [start]
        while queue:
            for neighbour in step(queue.pop(0)):
                if isinstance(neighbour, Memory):
                    found.setdefault(neighbour.kind)
                elif neighbour.index not in seen and isinstance(neighbour, Unit) and not neighbour.computes:
                    seen.add(neighbour.index)
                    queue.append(neighbour)
        return tuple(found)

    # -- instances -----------------------------------------------------------------------------------

    def is_wrapper(self, group: Group, resource: Resource) -> bool:
        """Whether a group merely releases the resource: one of its results resolves to it."""
        return any(self.node(value) is resource for value in group.results)

    def enclosing_group(self, units: Sequence[Kind]) -> Group | None:
        """The smallest group that contains the exemplars of all unit kinds; wrapper groups do not count.

        None for an unknown kind, a unit outside any group, or units without a common group.
        """
        result: Group | None = None
        for kind in units:
            resource = self.resource(kind)
            if resource is None:
                return None
            group = self.parent(resource)
            while group is not None and self.is_wrapper(group, resource):
                group = self.parent(group)
            if group is None:
                return None
            if result is None:
                result = group
                continue
            inner = {g.index for g in (group, *self.enclosing(group))}
            candidates = (result, *self.enclosing(result))
            result = next((g for g in candidates if g.index in inner), None)
            if result is None:
                return None
        return result

    def instances(self, group: Group) -> Instances:
        """A group and its siblings of equal kind, in textual order (device spec 3.7).

        Groups directly in the device are never counted as instances of each other: the kernel's grid already
        spreads over the cores. Groups without a kind are equal only if their contents are.
        """
        if group.parent is None:
            return Instances(group, (group,))
        siblings = (self.resources[index] for index in self._children(group.parent))
        members = tuple(
            sibling
            for sibling in siblings
            if isinstance(sibling, Group)
            and sibling.kind == group.kind
            and (group.kind is not None or self._content(sibling) == self._content(group))
        )
        return Instances(group, members)

    def instances_for(self, units: Sequence[Kind]) -> Instances | None:
        """The instances over which a pipeline on these unit kinds can be spread.

        None when the units have no common group, or that group has no equal sibling.
        """
        group = self.enclosing_group(units)
        if group is None:
            return None
        instances = self.instances(group)
        return instances if instances.distributable else None

    def _children(self, group: int) -> tuple[int, ...]:
        resource = self.resources[group]
        assert isinstance(resource, Group)
        return resource.children

    def _content(self, group: Group) -> tuple[object, ...]:
        inside = (self.resources[index] for index in group.children)
        return tuple((r.mnemonic, r.kind, self._content(r) if isinstance(r, Group) else ()) for r in inside)

    # -- numbers -------------------------------------------------------------------------------------

    def lanes(self, element_type: object, unit: Kind | None = None) -> int:
        """SIMD lanes of a unit (default: the compute unit) for a scalar type (its text, or a type).

        0 means that the type is not supported.
        """
        resource = self.compute_unit if unit is None else self.unit(unit)
        simd = None if resource is None else resource.features.simd
        return 0 if simd is None else simd.lanes_of(element_name(element_type))

    def vector_length(self, element_types: Iterable[object], unit: Kind | None = None) -> int:
        """Elements per vector for an operation on these scalar types: the minimum of their lanes, at least 1."""
        return max(1, min((self.lanes(t, unit) for t in element_types), default=1))

    def queue(self, source: Kind, target: Kind) -> Queue:
        """The queue between two units; depth 16 where the link states none.

        Raises `ArchitectureError` if there is no unique link.
        """
        link = self.link(source, target)
        if link is None:
            raise ArchitectureError(
                f"device '{self.name}' has no unique link from '{kind_text(source)}' to '{kind_text(target)}'"
            )
        stated = link.features.queue or Queue(ordered=True)
        return attrs.evolve(stated, depth=DEFAULT_QUEUE_DEPTH) if stated.depth is None else stated

    def bandwidth(self, source: Kind, target: Kind) -> Fraction | None:
        """Bytes per cycle of the unique link between two nodes, None if there is none or it states none."""
        link = self.link(source, target)
        return None if link is None else link.bandwidth

    def word_size(self, unit: Kind, memory: Kind) -> int:
        """Bytes per word when that unit addresses that memory (kind or kernel memory space)."""
        return self.unit(unit).word_size(self.memory_kind(memory))

    def access_alignment(self, memory: Kind) -> int:
        """Bytes to which a buffer in that memory is aligned so that every unit may use any access to it."""
        kind = self.memory_kind(memory)
        alignment = 1
        for unit in self.units:
            for transfer in (unit.features.load, unit.features.store):
                for access in (transfer and transfer.access_list(kind)) or ():
                    assert transfer is not None
                    alignment = max(alignment, access.align_in_words * transfer.word_size(kind))
        return alignment

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything the description says; equal descriptions have equal digests."""
        return hashlib.sha256(_canonical(self).encode()).hexdigest()


def _without_tile(space: Kind) -> Kind:
    """A memory space with its compute-tile id removed (``ct_local, ct_id = 3`` becomes ``ct_local``)."""
    if attrs.has(type(space)) and getattr(space, "ct_id", None) is not None:
        return attrs.evolve(space, ct_id=None)  # type: ignore[misc]
    return space


def _canonical(value: object) -> str:
    match value:
        case Resource() | Architecture() | Features() | Timing() | Endpoint():
            fields = (f"{a.name}={_canonical(getattr(value, a.name))}" for a in attrs.fields(type(value)))
            return f"{type(value).__name__}({','.join(fields)})"
        case tuple():
            return f"[{','.join(map(_canonical, value))}]"
        case str():
            return repr(value)
        case _ if attrs.has(type(value)) and type(value).__module__.startswith("dfsched.architecture"):
            fields = (f"{a.name}={_canonical(getattr(value, a.name))}" for a in attrs.fields(type(value)))
            return f"{type(value).__name__}({','.join(fields)})"
        case _:
            return str(value)
