"""`Architecture`: one device, frozen, with every question that a pass asks about hardware."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import attrs
from attrs import frozen

from dfsched.architecture.description import Description, PatternBlock, Timing
from dfsched.architecture.features import Access, AddressBuffer, Features, Queue, RegisterFile, Simd, Transfer
from dfsched.architecture.kinds import Kind, kind_text
from dfsched.architecture.memory_tree import MemoryTree, build_memory_tree
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Resource, Switch, Unit
from dfsched.architecture.routing import Route, RoutingGraph, build_routing_graph
from dfsched.errors import ArchitectureError
from ktir.dialects.ktdp import CT_LOCAL, GLOBAL
from ktir.machine import Machine

__all__ = ["Architecture", "Instances", "Scope", "element_name"]

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


def element_name(element_type: object) -> str:
    """The key of a scalar type in lane tables: its MLIR text, dialect prefix removed (``"df16"``)."""
    text = str(element_type)
    return text.rsplit(".", 1)[-1] if text.startswith("!") else text


@frozen(slots=False, cache_hash=True)
class Architecture(Description):
    """A device (contract of the border hardware -> scheduler): its description and every view of it.

    Views are derived on first use and kept. Where a question takes a memory kind, a kernel's memory space is
    accepted too and translated by the mapping.
    """

    # -- memory spaces -------------------------------------------------------------------------------

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

        Without datapaths means on any memory of the kind, with a unit in the same group. Indirect address
        buffers are not private memories.
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
        """Elements per vector of an operation on these scalar types: the least of their lanes, at least 1."""
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

    def register_bytes(self, memory: Kind) -> int:
        """Bytes of a register, the widest vector, in a memory that is private to a unit; 1 in any other."""
        kind = self.memory_kind(memory)
        units = list(self.units_beside(self.memory(kind))) if self.is_private(kind) else []
        widths = [
            count * -(-_bits(name) // 8)
            for unit in units
            if unit.features.simd is not None
            for name, count in unit.features.simd.lanes
        ]
        return max(widths, default=1)

    @property
    def device_memory(self) -> Memory | None:
        """The memory that KTIR's `global` denotes: by the mapping, else the first root."""
        return self._space_memory(GLOBAL, self.is_global)

    @property
    def scratchpad(self) -> Memory | None:
        """The memory that KTIR's `ct_local` denotes: by the mapping, else the first per-core scratchpad."""
        return self._space_memory(CT_LOCAL, self.is_per_core_scratchpad)

    def _space_memory(self, space: Kind, fits: Callable[[Kind], bool]) -> Memory | None:
        if self.is_memory(space):
            return self.memory(space)
        return next((m for m in self.memories if fits(m.kind)), None)

    def machine(self) -> Machine:
        """What the meaning of a KTIR program depends on; sizes that the device leaves open are the defaults.

        Raises `ArchitectureError` if the device has no device memory or no scratchpad.
        """
        device_memory, scratchpad = self.device_memory, self.scratchpad
        if device_memory is None or scratchpad is None:
            missing = "device memory" if device_memory is None else "per-core scratchpad"
            raise ArchitectureError(f"device '{self.name}' has no {missing}")
        standard = Machine()
        return Machine(
            tiles=self.cores,
            stick_bytes=self.stick_bytes,
            scratchpad_bytes=scratchpad.size or standard.scratchpad_bytes,
            scratchpad_reserved_bytes=scratchpad.reserved,
            device_memory_bytes=device_memory.size or standard.device_memory_bytes,
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything the description says; equal descriptions have equal digests."""
        return hashlib.sha256(_canonical(self).encode()).hexdigest()


def _canonical(value: object) -> str:
    match value:
        case (
            Resource()
            | Architecture()
            | Features()
            | Timing()
            | Endpoint()
            | Transfer()
            | Simd()
            | Queue()
            | Access()
            | AddressBuffer()
            | RegisterFile()
        ):
            fields = (f"{a.name}={_canonical(getattr(value, a.name))}" for a in attrs.fields(type(value)))
            return f"{type(value).__name__}({','.join(fields)})"
        case PatternBlock(text=text):
            return repr(text)
        case tuple():
            return f"[{','.join(map(_canonical, value))}]"
        case str():
            return repr(value)
        case _:
            return str(value)


def _bits(element_type: str) -> int:
    """The width that the name of a scalar type ends in."""
    return int(element_type.lstrip("abcdefghijklmnopqrstuvwxyz"))
