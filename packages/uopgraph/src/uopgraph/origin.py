"""Where nodes come from: a side table of what a user called or wrote, no part of the identity of a node.

Entries go when their nodes go. A node has one origin; the first one stays unless it is replaced on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

from uopgraph.node import UOp

_origins: Final[WeakKeyDictionary[UOp, str]] = WeakKeyDictionary()


def set_origin(node: UOp, origin: str, replace: bool = False) -> UOp:
    """Note where `node` comes from, and return it. An origin that is there stays unless with `replace`."""
    if replace or node not in _origins:
        _origins[node] = origin
    return node


def origin_of(node: UOp) -> str | None:
    """What was noted for this very node."""
    return _origins.get(node)


def origins_below(root: UOp) -> Iterator[tuple[UOp, str]]:
    """The nodes of a graph that have an origin, sources first."""
    for node in root.toposort():
        found = _origins.get(node)
        if found is not None:
            yield node, found
