"""The ``ktdp`` dialect: kernels over tiles (KTIR spec 1)."""

from __future__ import annotations

from ktir.context import Dialect
from ktir.layout import Layout

DIALECT = Dialect("ktdp", attributes=(Layout,))
