"""What every instruction does: one function an instruction, by class.

A handler changes the gang (and what is between gangs) and returns True, or sets `gang.blocked`, changes
nothing else and returns False.  It may raise `Diverged` before it has changed anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dfsched import image as im
from spyresim.engine.instructions import control, copies, lanes, memory, queues

Handler = Callable[..., bool]
"""``(executor, cohort, gang, instruction)``."""

HANDLERS: Mapping[type[im.Instruction], Handler] = {
    **control.HANDLERS,
    **copies.HANDLERS,
    **lanes.HANDLERS,
    **memory.HANDLERS,
    **queues.HANDLERS,
}

__all__ = ["HANDLERS", "Handler"]
