"""Making an `Architecture` in Python, with the scoping rules of the text form (device spec 1.4).

device = DeviceBuilder("toy")
bulk = device.memory("BULK", size=4 << 20)
with device.group("cell", share=[bulk]) as cell:
    feed = cell.unit("FEED", features=Features(load=Transfer()))
    mac = cell.unit("MAC", features=Features(compute=True, simd=Simd({"f32": 8})))
    cell.datapath(bulk, feed)
    cell.datapath(feed, mac, features=Features(queue=Queue(ordered=True, depth=4)))
    cell.release(mac)
(alu,) = cell.results
architecture = device.build()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

import attrs

from dfsched.architecture.architecture import Architecture
from dfsched.architecture.kinds import Kind
from dfsched.architecture.numbers import description_findings, resource_findings
from dfsched.architecture.resources import Datapath, Endpoint, Group, Memory, Resource, Switch, Unit
from dfsched.errors import ArchitectureError

__all__ = ["DeviceBuilder", "GroupBuilder"]


class _Scope:
    """A body under construction: the device or a group. Resources are numbered in textual order."""

    def __init__(self, device: DeviceBuilder, group: int | None) -> None:
        self._device = device
        self._group = group
        self._visible: set[Endpoint] = set()

    def _add(self, cls: type[Resource], results: int, fields: Mapping[str, Any]) -> tuple[Endpoint, ...]:
        resources = self._device.resources
        index = len(resources)
        resource = cls(index=index, parent=self._group, **_plain(fields))
        for finding in resource_findings(resource):
            raise ArchitectureError(finding, resource.label)
        if resource.id is not None and resource.id in self._device.ids:
            raise ArchitectureError(f'resource with id "{resource.id}" redefined', resource.label)
        if resource.id is not None:
            self._device.ids.add(resource.id)
        resources.append(resource)
        values = tuple(Endpoint(index, number) for number in range(results))
        self._visible.update(values)
        return values

    def _check(self, value: Endpoint) -> Endpoint:
        if value not in self._visible:
            resource = self._device.resources[value.resource]
            raise ArchitectureError(
                "value is not visible in this scope (memories are captured with share)", resource.label
            )
        return value

    def memory(self, kind: Kind, **fields: Any) -> Endpoint:
        """Add a memory; keywords are the fields of `Memory` (sizes in bytes)."""
        (value,) = self._add(Memory, 1, {"kind": kind, **fields})
        return value

    def unit(self, kind: Kind | None = None, **fields: Any) -> Endpoint:
        """Add an execution unit; keywords are the fields of `Unit`."""
        (value,) = self._add(Unit, 1, {"kind": kind, **fields})
        return value

    def switch(
        self, ports: int, connectivity: Sequence[Sequence[bool]] | None = None, **fields: Any
    ) -> tuple[Endpoint, ...]:
        """Add a switch with that many ports, by default all connected to all."""
        matrix = connectivity if connectivity is not None else [[True] * ports] * ports
        if len(matrix) != ports or any(len(row) != ports for row in matrix):
            raise ArchitectureError(f"expected connectivity shape {ports}x{ports}")
        rows = tuple(tuple(bool(cell) for cell in row) for row in matrix)
        return self._add(Switch, ports, {"ports": ports, "connectivity": rows, **fields})

    def datapath(self, source: Endpoint, target: Endpoint, **fields: Any) -> Datapath:
        """Add a one-way link; keywords are the fields of `Datapath` (granularity in bytes)."""
        self._check(source)
        self._check(target)
        index = len(self._device.resources)
        if self._device.resolve(source) == self._device.resolve(target):
            raise ArchitectureError(
                "can't link resource to itself", self._device.resources[source.resource].label
            )
        self._add(Datapath, 0, {"source": source, "target": target, **fields})
        link = self._device.resources[index]
        assert isinstance(link, Datapath)
        return link

    def group(self, kind: Kind | None = None, share: Iterable[Endpoint] = (), **fields: Any) -> GroupBuilder:
        """Open a group that captures memories; use as a context manager, results exist on exit."""
        captures = tuple(self._check(value) for value in share)
        for value in captures:
            if not isinstance(self._device.resources[value.resource], Memory):
                raise ArchitectureError(
                    "only memories are captured", self._device.resources[value.resource].label
                )
        index = len(self._device.resources)
        self._add(Group, 0, {"kind": kind, "captures": captures, **fields})
        return GroupBuilder(self._device, index, captures, self)


class GroupBuilder(_Scope, AbstractContextManager["GroupBuilder"]):
    """The body of a group; `results` are the released units as seen from outside."""

    def __init__(
        self, device: DeviceBuilder, index: int, captures: tuple[Endpoint, ...], outer: _Scope
    ) -> None:
        super().__init__(device, index)
        self._visible.update(captures)
        self._index = index
        self._outer = outer
        self._released: tuple[Endpoint, ...] = ()
        self.results: tuple[Endpoint, ...] = ()

    def release(self, *units: Endpoint) -> tuple[Endpoint, ...]:
        """Yield units to the enclosing scope; returns them as seen from there (also in `results`)."""
        for value in units:
            node = self._device.resources[self._device.resolve(self._check(value)).resource]
            if not isinstance(node, Unit):
                raise ArchitectureError("only execution units are released", node.label)
        self._released = units
        self.results = tuple(Endpoint(self._index, number) for number in range(len(units)))
        group = self._device.resources[self._index]
        assert isinstance(group, Group)
        self._device.resources[self._index] = attrs.evolve(group, results=units)
        return self.results

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._outer._visible.update(self.results)


class DeviceBuilder(_Scope):
    """The body of a device."""

    def __init__(self, name: str, **fields: Any) -> None:
        """Keywords are the fields of `Architecture` other than its resources."""
        super().__init__(self, None)
        self.name = name
        self.resources: list[Resource] = []
        self.ids: set[str] = set()
        self._fields = fields

    def resolve(self, value: Endpoint) -> Endpoint:
        """The node endpoint behind a value."""
        while isinstance(group := self.resources[value.resource], Group):
            value = group.results[value.result]
        return value

    def build(self) -> Architecture:
        """The frozen device; `ArchitectureError` for numbers and memory spaces that make no sense."""
        children: dict[int, list[int]] = {}
        for resource in self.resources:
            if resource.parent is not None:
                children.setdefault(resource.parent, []).append(resource.index)
        resources = tuple(
            attrs.evolve(r, children=tuple(children.get(r.index, ()))) if isinstance(r, Group) else r
            for r in self.resources
        )
        fields = dict(self._fields)
        mapping = fields.pop("mem_space_mapping", ())
        pairs = tuple(mapping.items()) if isinstance(mapping, Mapping) else tuple(mapping)
        device = Architecture(name=self.name, resources=resources, mem_space_mapping=pairs, **_plain(fields))
        for finding in description_findings(device):
            raise ArchitectureError(finding, f"@{self.name}")
        return device


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Normalise keyword values: bandwidths to fractions, sequences to tuples."""
    plain = dict(fields)
    if plain.get("bandwidth") is not None:
        plain["bandwidth"] = Fraction(plain["bandwidth"])
    for name in ("granularity", "overlaps", "attributes"):
        if plain.get(name) is not None:
            plain[name] = tuple(plain[name])
    return plain
