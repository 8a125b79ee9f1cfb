"""What the namespace can do: capabilities, devices, dtypes."""

from __future__ import annotations

from typing import Any

import attrs

from rangeify.array_api import dtypes
from rangeify.array_api.array import MAX_DIMENSIONS, is_default
from rangeify.errors import UnsupportedError
from rangeify.storage import DEFAULT_DEVICE
from uopgraph import DType


@attrs.frozen
class NamespaceInfo:
    """Answers about the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """No boolean-mask indexing, no shapes that depend on data, the greatest number of dimensions."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": MAX_DIMENSIONS}

    def default_device(self) -> str:
        """The device of arrays that are made without one."""
        return DEFAULT_DEVICE

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of Python numbers and of indices; there is no complex one."""
        _known(device)
        return {
            "real floating": dtypes.DEFAULT_FLOAT,
            "integral": dtypes.DEFAULT_INT,
            "indexing": dtypes.DEFAULT_INT,
        }

    def devices(self) -> list[str]:
        """The devices on which functions of the namespace create arrays."""
        return [DEFAULT_DEVICE]

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The dtypes of a kind (all by default) by name."""
        _known(device)
        return {d.name: d for d in dtypes.ALL if kind is None or dtypes.isdtype(d, kind)}


def _known(device: Any) -> None:
    if not is_default(device):
        raise UnsupportedError(f"device {device!r}")


def __array_namespace_info__() -> NamespaceInfo:
    """Capabilities, devices and dtypes of the namespace."""
    return NamespaceInfo()


__all__ = ["__array_namespace_info__"]
