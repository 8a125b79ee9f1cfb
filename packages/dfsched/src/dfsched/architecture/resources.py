"""The parts of a device: memories, units, switches, groups and the datapaths that join them.

A device is a tree of groups; every resource has a dense ``index`` in textual (pre-)order, which is its
identity within one `Architecture`. Results of resources are named by `Endpoint`s. What a datapath
says about its ends is kept as written (a result of a group stays a result of that group);
`Architecture.endpoint` resolves it to the node (device spec 1.5).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from attrs import field, frozen

from dfsched.architecture.features import NO_FEATURES, Features
from dfsched.architecture.kinds import Kind, kind_text

__all__ = ["Datapath", "Endpoint", "Group", "Memory", "Node", "Resource", "Switch", "Unit"]


@frozen
class Endpoint:
    """Result number ``result`` of the resource with index ``resource``."""

    resource: int
    result: int = 0


@frozen(kw_only=True)
class Resource:
    """What all parts have in common.

    ``parent`` is the index of the enclosing group, None directly in the device. ``overlaps`` are mutex
    names; ``attributes`` are all further attributes (of any prefix), sorted by name.
    """

    index: int
    parent: int | None = None
    id: str | None = None
    kind: Kind | None = None
    features: Features = NO_FEATURES
    overlaps: tuple[object, ...] = ()
    attributes: tuple[tuple[str, object], ...] = ()

    mnemonic = "resource"

    @property
    def label(self) -> str:
        """A name for diagnostics: the id, else the kind, else mnemonic and index."""
        if self.id is not None:
            return f"@{self.id}"
        return f"{self.mnemonic} {self.index}" if self.kind is None else kind_text(self.kind)

    def attribute(self, name: str) -> object | None:
        """A further attribute by name, or None."""
        return next((value for key, value in self.attributes if key == name), None)

    def has(self, name: str) -> bool:
        """Whether a further attribute of that name is present."""
        return any(key == name for key, _ in self.attributes)


@frozen(kw_only=True)
class Memory(Resource):
    """A place for data. ``size`` and ``reserved`` are bytes, ``bandwidth`` bytes per cycle of all its
    ports together, ``latency`` cycles (the last three from `ktdf_ext.` attributes).

    ``reserved`` bytes are not for the front end to pin; the scheduler may use them.
    """

    kind: Kind
    size: int | None = None
    reserved: int = 0
    bandwidth: Fraction | None = None
    latency: int | None = None

    mnemonic = "memory"


@frozen(kw_only=True)
class Unit(Resource):
    """An execution unit: computes and/or moves data.

    ``double_buffer_last``: rotating buffers toggle at the top of the loop, starting from buffer 1.
    """

    double_buffer_last: bool = False

    mnemonic = "exec_unit"

    @property
    def moves(self) -> bool:
        """Whether the unit loads or stores."""
        return self.features.load is not None or self.features.store is not None

    @property
    def computes(self) -> bool:
        return self.features.compute

    def word_size(self, memory: Kind) -> int:
        """Bytes per word of ``memory`` for this unit: its load feature, else its store feature, else 1."""
        transfer = self.features.load or self.features.store
        return 1 if transfer is None else transfer.word_size(memory)


@frozen(kw_only=True)
class Switch(Resource):
    """N ports; ``connectivity[i][j]`` tells whether data entering port i may leave by port j."""

    ports: int
    connectivity: tuple[tuple[bool, ...], ...]

    mnemonic = "switch"


@frozen(kw_only=True)
class Group(Resource):
    """A private sub-graph: ``captures`` are memories from outside, ``results`` released units."""

    captures: tuple[Endpoint, ...] = ()
    children: tuple[int, ...] = ()
    results: tuple[Endpoint, ...] = ()

    mnemonic = "group"


@frozen(kw_only=True)
class Datapath(Resource):
    """A one-way link. ``granularity`` lists the permitted sizes of one beat in bytes (a transfer is any
    number of beats), None if nothing is said; ``bandwidth`` is bytes per cycle."""

    source: Endpoint
    target: Endpoint
    granularity: tuple[int, ...] | None = None
    bandwidth: Fraction | None = field(default=None)

    mnemonic = "datapath"

    @property
    def ordered_queue(self) -> bool:
        return self.features.queue is not None and self.features.queue.ordered

    @property
    def depth(self) -> int | None:
        """Transfers in flight if the link is a queue that says so."""
        return None if self.features.queue is None else self.features.queue.depth


Node: TypeAlias = Memory | Unit | Switch
