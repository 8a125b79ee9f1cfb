"""The memory view: which memories are global, per core or below the scratchpad (device spec 3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from attrs import frozen

from dfsched.architecture.kinds import Kind, kind_text
from dfsched.architecture.resources import Endpoint, Group, Memory

if TYPE_CHECKING:
    from dfsched.architecture.architecture import Architecture

__all__ = ["MemoryNode", "MemoryTree"]


@frozen
class MemoryNode:
    """One memory: dense id in textual order; ``resource`` is its index in the architecture."""

    id: int
    kind: Kind
    resource: int
    parent: int | None
    children: tuple[int, ...]
    capacity: int | None
    reserved: int | None
    alias: Kind | None = None


@frozen(slots=False)
class MemoryTree:
    """All memories of a device; ``aliases`` maps the keys of the memory-space mapping to kinds.

    Queries by name accept a kind or, where stated, an alias. Where several memories have one kind, the last
    one in textual order answers for it.
    """

    nodes: tuple[MemoryNode, ...]
    aliases: tuple[tuple[Kind, Kind], ...] = ()

    @cached_property
    def _by_kind(self) -> dict[Kind, int]:
        return {node.kind: node.id for node in self.nodes}

    @cached_property
    def _by_alias(self) -> dict[Kind, int]:
        return {key: self._by_kind[value] for key, value in self.aliases if value in self._by_kind}

    def node(self, name: int | Kind) -> MemoryNode | None:
        """The node with that id or canonical kind (aliases are not consulted), or None."""
        if isinstance(name, int):
            return self.nodes[name] if 0 <= name < len(self.nodes) else None
        found = self._by_kind.get(name)
        return None if found is None else self.nodes[found]

    def find(self, resource: Kind) -> int | None:
        """The id of a memory by canonical kind, then by alias, or None."""
        found = self._by_kind.get(resource)
        return found if found is not None else self._by_alias.get(resource)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.nodes if node.parent is None)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.nodes if not node.children)

    def depth(self, node: int) -> int:
        """Distance to the root."""
        return len(self._ancestry(node)) - 1

    def at_depth(self, depth: int) -> tuple[int, ...]:
        """Ids at that depth, ascending."""
        return tuple(node.id for node in self.nodes if self.depth(node.id) == depth)

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """Ids from ``source`` up to the nearest common ancestor and down to ``target``.

        Empty when the two are unrelated or unknown. An ancestor of the other is its own common ancestor.
        """
        count = len(self.nodes)
        if not (0 <= source < count and 0 <= target < count):
            return ()
        up, down = self._ancestry(source), self._ancestry(target)
        for steps, node in enumerate(up):
            if node in down:
                return (*up[:steps], *reversed(down[: down.index(node) + 1]))
        return ()

    def is_descendant(self, node: int, ancestor: int) -> bool:
        """Whether ``node`` lies strictly below ``ancestor``; False for unknown ids."""
        count = len(self.nodes)
        return 0 <= node < count and 0 <= ancestor < count and ancestor in self._ancestry(node)[1:]

    def capacity(self, kind: Kind) -> int | None:
        """Bytes of a canonical kind; None if unknown, an alias, or without a size."""
        node = self.node(kind)
        return None if node is None else node.capacity

    def reserved(self, kind: Kind) -> int | None:
        """Reserved bytes of a canonical kind; None if unknown, an alias, or without a size."""
        node = self.node(kind)
        return None if node is None else node.reserved

    def available(self, kind: Kind) -> int | None:
        """Capacity minus reserved bytes of a canonical kind; None without a capacity."""
        node = self.node(kind)
        if node is None or node.capacity is None:
            return None
        return node.capacity - (node.reserved or 0)

    @cached_property
    def with_capacity(self) -> tuple[Kind, ...]:
        """Kinds that have a size, by first occurrence."""
        return tuple(dict.fromkeys(node.kind for node in self.nodes if node.capacity is not None))

    def are_aliases(self, a: Kind, b: Kind) -> bool:
        """Whether two names are equal or denote one memory."""
        found = self.find(a)
        return a == b or (found is not None and found == self.find(b))

    def names(self, resource: Kind) -> tuple[Kind, ...]:
        """Canonical kind and its alias; only the name itself when unknown."""
        found = self.find(resource)
        if found is None:
            return (resource,)
        node = self.nodes[found]
        return (node.kind,) if node.alias is None else (node.kind, node.alias)

    def is_global(self, resource: Kind) -> bool:
        """Whether a kind or alias names a root."""
        return any(resource in (self.nodes[i].kind, self.nodes[i].alias) for i in self.roots) or (
            (found := self._by_alias.get(resource)) is not None and found in self.roots
        )

    def is_per_core_scratchpad(self, resource: Kind) -> bool:
        """Whether a kind or alias names a memory of depth 1."""
        found = self.find(resource)
        return found is not None and self.depth(found) == 1

    def is_below_scratchpad(self, resource: Kind) -> bool:
        """Whether a kind or alias names a strict descendant of a memory of depth 1."""
        found = self.find(resource)
        return found is not None and self.depth(found) >= 2

    def _ancestry(self, node: int) -> list[int]:
        chain = [node]
        while (parent := self.nodes[chain[-1]].parent) is not None:
            chain.append(parent)
        return chain

    def __str__(self) -> str:
        lines = ["Memory Hierarchy Tree:"]

        def show(index: int, level: int) -> None:
            node = self.nodes[index]
            kind = f'"{node.kind}"' if isinstance(node.kind, str) else kind_text(node.kind)
            alias = "" if node.alias is None else f" [alias: {node.alias}]"
            size = ""
            if node.capacity is not None:
                size = f" (capacity: {node.capacity} bytes, reserved: {node.reserved or 0} bytes)"
            lines.append(f"{'  ' * level}- {kind}{alias}{size}")
            for child in node.children:
                show(child, level + 1)

        for root in self.roots:
            show(root, 1)
        return "\n".join(lines) if self.nodes else "\n".join([*lines, "  (empty)"])


def build_memory_tree(architecture: Architecture) -> MemoryTree:
    """The memory tree of a device (see `MemoryTree`).

    The parent of a memory is the first memory captured by the nearest enclosing group that captures any;
    captures through any number of groups are resolved.
    """
    found: list[tuple[Memory, int | None]] = []

    def visit(indices: Iterable[int], parent: Endpoint | None) -> None:
        for index in indices:
            match architecture.resources[index]:
                case Memory() as memory:
                    found.append((memory, None if parent is None else parent.resource))
                case Group() as group:
                    visit(group.children, group.captures[0] if group.captures else parent)

    visit(architecture.roots, None)
    ids = {memory.index: number for number, (memory, _) in enumerate(found)}
    children: dict[int, list[int]] = {}
    for number, (_, parent) in enumerate(found):
        if parent is not None:
            children.setdefault(ids[parent], []).append(number)
    last = {memory.kind: number for number, (memory, _) in enumerate(found)}
    alias: dict[int, Kind] = {
        last[value]: key for key, value in architecture.mem_space_mapping if value in last
    }
    nodes = tuple(
        MemoryNode(
            number,
            memory.kind,
            memory.index,
            None if parent is None else ids[parent],
            tuple(children.get(number, ())),
            memory.size,
            None if memory.size is None else memory.reserved,
            alias.get(number),
        )
        for number, (memory, parent) in enumerate(found)
    )
    return MemoryTree(nodes, architecture.mem_space_mapping)
