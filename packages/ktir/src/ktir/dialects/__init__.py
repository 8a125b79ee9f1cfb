"""The dialects that ktir ships, one module each."""

from __future__ import annotations

from ktir.context import Dialect
from ktir.dialects import builtin, func

DIALECTS: tuple[Dialect, ...] = (builtin.DIALECT, func.DIALECT)
