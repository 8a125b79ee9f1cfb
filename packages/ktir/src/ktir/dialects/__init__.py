"""The dialects that ktir ships, one module each."""

from __future__ import annotations

from ktir.context import Dialect
from ktir.dialects import arith, builtin, func, ktdp, math

DIALECTS: tuple[Dialect, ...] = (arith.DIALECT, builtin.DIALECT, func.DIALECT, ktdp.DIALECT, math.DIALECT)
