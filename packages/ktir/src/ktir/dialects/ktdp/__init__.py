"""The ``ktdp`` dialect: kernels over tiles (KTIR spec 1)."""

from __future__ import annotations

from ktir.context import Dialect
from ktir.dialects.ktdp.memory_space import CT_LOCAL, GLOBAL, MemorySpace, OldMemorySpace
from ktir.layout import Layout

__all__ = ["CT_LOCAL", "DIALECT", "GLOBAL", "MemorySpace", "OldMemorySpace"]

DIALECT = Dialect("ktdp", attributes=(Layout, MemorySpace, OldMemorySpace))
