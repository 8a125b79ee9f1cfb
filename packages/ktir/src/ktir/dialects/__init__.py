"""The dialects that ktir ships, one module each."""

from __future__ import annotations

from ktir.context import Dialect

DIALECTS: tuple[Dialect, ...] = ()
