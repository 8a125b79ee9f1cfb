"""Names for all resources of a device, given or assigned (device spec 3.6)."""

from __future__ import annotations

from dfsched.architecture.architecture import Architecture
from dfsched.architecture.resources import Resource

__all__ = ["ResourceIds"]


class ResourceIds:
    """A table of ids that starts with those of the description and can be extended and changed.

    The architecture itself does not change.
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._by_id: dict[str, int] = {id: resource.index for id, resource in architecture.ids.items()}
        self._by_index: dict[int, str] = {index: id for id, index in self._by_id.items()}

    def lookup(self, id: str) -> Resource | None:
        """The resource of that id."""
        index = self._by_id.get(id)
        return None if index is None else self._architecture.resources[index]

    def id_of(self, resource: Resource) -> str | None:
        """The id of a resource, None if it has none or is not of this device."""
        return self._by_index.get(resource.index) if self._owns(resource) else None

    def assign(self, resource: Resource, id: str | None) -> bool:
        """Give a resource an id (None removes it), releasing the old one.

        False if the resource is not of this device or the id belongs to another one.
        """
        if not self._owns(resource):
            return False
        if id is not None and self._by_id.get(id, resource.index) != resource.index:
            return False
        old = self._by_index.pop(resource.index, None)
        if old is not None:
            del self._by_id[old]
        if id is not None:
            self._by_id[id] = resource.index
            self._by_index[resource.index] = id
        return True

    def assign_fresh(self, resource: Resource, prefix: str) -> str | None:
        """The first free of ``prefix``, ``prefix_1``, ``prefix_2``, ...; its own id counts as free.

        None if the resource is not of this device.
        """
        if not self._owns(resource):
            return None
        number, id = 0, prefix
        while self._by_id.get(id, resource.index) != resource.index:
            number += 1
            id = f"{prefix}_{number}"
        self.assign(resource, id)
        return id

    def get_or_assign(self, resource: Resource, prefix: str | None = None) -> str | None:
        """The id of a resource; without one, `assign_fresh` with the prefix, the kind or the mnemonic."""
        known = self.id_of(resource)
        if known is not None:
            return known
        if prefix is None:
            prefix = resource.kind if isinstance(resource.kind, str) else resource.mnemonic
        return self.assign_fresh(resource, prefix)

    def _owns(self, resource: Resource) -> bool:
        resources = self._architecture.resources
        return resource.index < len(resources) and resources[resource.index] is resource
