"""The routing view: which resources can hand data to which, and by which shortest way.

Built in one textual pass over the device (device spec 3.1, scheduler spec 4.9): the second group of a
named kind is not entered, its results become *alias* nodes named after the group's kind; groups without
a kind are always entered. Ports of switches are pairs of nodes (in and out) joined by the
connectivity, and never show in a `Route`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import frozen

from dfsched.architecture.kinds import Kind, kind_text
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Switch, Unit
from dfsched.errors import RouteError

if TYPE_CHECKING:
    from dfsched.architecture.architecture import Architecture

__all__ = ["Hop", "NodeClass", "Route", "RoutingEdge", "RoutingGraph", "RoutingNode"]


class NodeClass(Enum):
    """What a node is to the planner. A unit that loads or stores is LOAD_STORE even if it computes."""

    MEMORY = "Memory"
    COMPUTE = "Compute"
    LOAD_STORE = "LoadStoreUnit"
    PORT = "Port"


@frozen
class RoutingNode:
    """A node: dense id in order of creation, the kind that names it, its class.

    ``resource`` is the index of the memory, unit or switch; for an alias of a skipped group the unit
    behind the group's result. ``capacity`` and ``reserved`` are bytes (memories with a size only).
    """

    id: int
    kind: Kind
    node_class: NodeClass
    resource: int
    alias: bool = False
    capacity: int | None = None
    reserved: int | None = None

    @property
    def is_memory(self) -> bool:
        return self.node_class is NodeClass.MEMORY

    @property
    def is_mover(self) -> bool:
        """Whether this is a load/store unit."""
        return self.node_class is NodeClass.LOAD_STORE

    @property
    def is_compute(self) -> bool:
        return self.node_class is NodeClass.COMPUTE


@frozen
class RoutingEdge:
    """One datapath between two nodes (``datapath`` None inside a switch); every datapath costs 1."""

    source: int
    target: int
    datapath: Datapath | None
    cost: int = 1


@frozen
class Hop:
    """One step of a route between neighbouring memories or units, over one or (by a switch) more links."""

    source: RoutingNode
    target: RoutingNode
    datapaths: tuple[Datapath, ...]

    @property
    def bandwidth(self) -> Fraction | None:
        """Bytes per cycle of the slowest link that states one."""
        stated = [d.bandwidth for d in self.datapaths if d.bandwidth is not None]
        return min(stated) if stated else None


@frozen
class Route:
    """A way through the device: nodes from source to target, and one hop between each two."""

    nodes: tuple[RoutingNode, ...]
    hops: tuple[Hop, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(node.kind for node in self.nodes)

    @property
    def cost(self) -> int:
        """Number of datapaths crossed."""
        return sum(len(hop.datapaths) for hop in self.hops)

    @property
    def bandwidth(self) -> Fraction | None:
        """Bytes per cycle of the slowest link on the way that states one."""
        stated = [b for hop in self.hops if (b := hop.bandwidth) is not None]
        return min(stated) if stated else None

    @property
    def memories(self) -> tuple[Kind, ...]:
        return tuple(node.kind for node in self.nodes if node.is_memory)

    @property
    def movers(self) -> tuple[Kind, ...]:
        """Kinds of the load/store units on the way, in order."""
        return tuple(node.kind for node in self.nodes if node.is_mover)

    def __str__(self) -> str:
        return " -> ".join(map(kind_text, self.kinds))


@frozen(slots=False)
class RoutingGraph:
    """Nodes by id and edges in textual order of the datapaths."""

    nodes: tuple[RoutingNode, ...]
    edges: tuple[RoutingEdge, ...]

    @cached_property
    def _outgoing(self) -> tuple[tuple[RoutingEdge, ...], ...]:
        table: list[list[RoutingEdge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            table[edge.source].append(edge)
        return tuple(map(tuple, table))

    @cached_property
    def _by_kind(self) -> dict[Kind, RoutingNode]:
        table: dict[Kind, RoutingNode] = {}
        for node in self.nodes:
            table.setdefault(node.kind, node)
        return table

    def find(self, kind: Kind) -> RoutingNode | None:
        """The node of a kind: the one with the lowest id, or None."""
        return self._by_kind.get(kind)

    def neighbours(self, node: int) -> tuple[int, ...]:
        """Targets of the node's edges, in textual order of the datapaths."""
        return tuple(edge.target for edge in self._outgoing[node])

    def edge(self, source: int, target: int) -> RoutingEdge | None:
        """The first edge between two nodes, or None."""
        return next((edge for edge in self._outgoing[source] if edge.target == target), None)

    def shortest_path(self, source: int, target: int) -> tuple[int, ...] | None:
        """Node ids with the fewest hops (breadth-first; ties go to the earlier datapath), or None.

        The path from a node to itself is that node. Unknown ids have no path.
        """
        count = len(self.nodes)
        if not (0 <= source < count and 0 <= target < count):
            return None
        came_from = {source: source}
        queue = deque([source])
        while queue and target not in came_from:
            node = queue.popleft()
            for neighbour in self.neighbours(node):
                if neighbour not in came_from:
                    came_from[neighbour] = node
                    queue.append(neighbour)
        if target not in came_from:
            return None
        path = [target]
        while path[-1] != source:
            path.append(came_from[path[-1]])
        return tuple(reversed(path))

    def route(self, source: Kind, target: Kind) -> Route | None:
        """The shortest route between two kinds, or None if a kind is unknown or nothing connects them."""
        first, last = self.find(source), self.find(target)
        if first is None or last is None:
            return None
        path = self.shortest_path(first.id, last.id)
        return None if path is None else self._as_route(path)

    def full_route(self, kinds: Sequence[Kind]) -> Route:
        """The route through several kinds: shortest routes between neighbours, joints written once.

        Raises `RouteError` naming the first pair that is not connected, or fewer than two kinds.
        """
        if len(kinds) < 2:
            only = kind_text(kinds[0]) if kinds else "nothing"
            raise RouteError(only, only, "a route needs at least two resources")
        nodes: list[RoutingNode] = []
        hops: list[Hop] = []
        for source, target in pairwise(kinds):
            part = self.route(source, target)
            if part is None:
                unknown = [kind_text(k) for k in (source, target) if self.find(k) is None]
                reason = f"the device has no {unknown[0]}" if unknown else "no datapaths lead there"
                raise RouteError(kind_text(source), kind_text(target), reason)
            nodes.extend(part.nodes[1:] if nodes else part.nodes)
            hops.extend(part.hops)
        return Route(tuple(nodes), tuple(hops))

    def capacity(self, kind: Kind) -> int | None:
        """Bytes of a memory kind, None if unknown or without a size."""
        node = self.find(kind)
        return None if node is None else node.capacity

    def reserved(self, kind: Kind) -> int | None:
        """Reserved bytes of a memory kind, None if unknown or without a size."""
        node = self.find(kind)
        return None if node is None else node.reserved

    def available(self, kind: Kind) -> int | None:
        """Capacity minus reserved bytes, None unless both are known."""
        capacity, reserved = self.capacity(kind), self.reserved(kind)
        return None if capacity is None or reserved is None else capacity - reserved

    def _as_route(self, path: Iterable[int]) -> Route:
        nodes: list[RoutingNode] = []
        hops: list[Hop] = []
        links: list[Datapath] = []
        previous: int | None = None
        for index in path:
            node = self.nodes[index]
            if previous is not None:
                edge = self.edge(previous, index)
                assert edge is not None
                if edge.datapath is not None:
                    links.append(edge.datapath)
            previous = index
            if node.node_class is NodeClass.PORT:
                continue
            if nodes:
                hops.append(Hop(nodes[-1], node, tuple(links)))
                links = []
            nodes.append(node)
        return Route(tuple(nodes), tuple(hops))

    def __str__(self) -> str:
        lines = ["RoutingGraph {", "  Nodes:"]
        for node in self.nodes:
            size = ""
            if node.capacity is not None:
                size = f" (capacity={node.capacity} bytes, reserved={node.reserved or 0} bytes)"
            lines.append(f"    - {node.id}: {_quoted(node.kind)} [{node.node_class.value}]{size}")
        lines.append("  Edges:")
        for edges in self._outgoing:
            for edge in edges:
                source, target = self.nodes[edge.source], self.nodes[edge.target]
                lines.append(
                    f"    - {source.id}: {_quoted(source.kind)} -> {target.id}: {_quoted(target.kind)}"
                    f" [cost={edge.cost}]"
                )
        return "\n".join([*lines, "}"])


def _quoted(kind: Kind) -> str:
    return f'"{kind}"' if isinstance(kind, str) else str(kind)


def build_routing_graph(architecture: Architecture) -> RoutingGraph:
    """The routing graph of a device (see the module's docstring)."""
    nodes: list[RoutingNode] = []
    edges: list[RoutingEdge] = []
    leaving: dict[Endpoint, int] = {}  # where data that comes out of an endpoint starts
    entering: dict[Endpoint, int] = {}  # where data that goes into an endpoint arrives
    seen: set[Kind] = set()

    def add(kind: Kind, node_class: NodeClass, resource: int, alias: bool = False) -> int:
        nodes.append(RoutingNode(len(nodes), kind, node_class, resource, alias))
        return len(nodes) - 1

    def visit(indices: Iterable[int]) -> None:
        for index in indices:
            match architecture.resources[index]:
                case Memory() as memory:
                    nodes.append(
                        RoutingNode(
                            len(nodes),
                            memory.kind,
                            NodeClass.MEMORY,
                            index,
                            capacity=memory.size,
                            reserved=None if memory.size is None else memory.reserved,
                        )
                    )
                    leaving[Endpoint(index)] = entering[Endpoint(index)] = len(nodes) - 1
                case Unit() as unit:
                    node_class = NodeClass.LOAD_STORE if unit.moves else NodeClass.COMPUTE
                    node = add("exec_unit" if unit.kind is None else unit.kind, node_class, index)
                    leaving[Endpoint(index)] = entering[Endpoint(index)] = node
                case Switch() as switch:
                    name = switch.kind if switch.kind is not None else "switch"
                    for port in range(switch.ports):
                        entering[Endpoint(index, port)] = add(name, NodeClass.PORT, index)
                        leaving[Endpoint(index, port)] = add(name, NodeClass.PORT, index)
                    for i, row in enumerate(switch.connectivity):
                        for j, connected in enumerate(row):
                            if connected:
                                here, there = Endpoint(index, i), Endpoint(index, j)
                                edges.append(RoutingEdge(entering[here], leaving[there], None, 0))
                case Group() as group:
                    skipped = group.kind is not None and group.kind in seen
                    if group.kind is not None:
                        seen.add(group.kind)
                    if not skipped:
                        visit(group.children)
                    for number, inner in enumerate(group.results):
                        outer = Endpoint(index, number)
                        if skipped:
                            assert group.kind is not None
                            behind = architecture.endpoint(inner).resource
                            node = add(group.kind, NodeClass.COMPUTE, behind, alias=True)
                            leaving[outer] = entering[outer] = node
                        else:
                            leaving[outer], entering[outer] = leaving[inner], entering[inner]
                case Datapath() as link:
                    edges.append(RoutingEdge(leaving[link.source], entering[link.target], link))

    visit(architecture.roots)
    return RoutingGraph(tuple(nodes), tuple(edges))
