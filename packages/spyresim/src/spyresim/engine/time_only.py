"""Running programs for their time alone: no memory is touched, no value computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from dfsched import image as im
from spyresim.engine.access import Pattern
from spyresim.engine.instructions import HANDLERS, Handler
from spyresim.engine.instructions.timing import HANDLERS as TIMED
from spyresim.engine.process import Context, Executor
from spyresim.engine.state import Cohort, Copy, Gang, ViewValue
from spyresim.engine.values import Vector
from spyresim.errors import Site


class TimeExecutor(Executor):
    """Spends what an `Executor` spends.  What only values show (wrong addresses, reads of what nobody wrote,
    races) is not noticed; deadlocks, wrong types in queues and left-over items are."""

    handlers: ClassVar[Mapping[type[im.Instruction], Handler]] = {**HANDLERS, **TIMED}

    def __init__(self, context: Context, limit: int, most_bytes: int) -> None:
        super().__init__(context, limit, most_bytes)
        self._ghosts: dict[tuple[im.ElementType, int, int], Vector] = {}

    def ghost(self, element: im.ElementType, lanes: int, rows: int) -> Vector:
        """A vector without values; one and the same for the same type and size."""
        key = element, lanes, rows
        found = self._ghosts.get(key)
        if found is None:
            nothing = np.broadcast_to(np.zeros(1, np.uint8), (rows, lanes))
            found = self._ghosts[key] = Vector(element, nothing)
        return found

    def count_traffic(self, gang: Gang, view: ViewValue, size: int, *, writing: bool) -> None:
        """Count the bytes of an access to device memory."""
        if self.place_of(gang, view).memory.memory_class is im.MemoryClass.GLOBAL:
            if writing:
                self.context.bytes_written += len(gang) * size
            else:
                self.context.bytes_read += len(gang) * size

    def transfer(
        self, cohort: Cohort, gang: Gang, copy: Copy, source: Pattern, target: Pattern, site: Site
    ) -> None:
        self.count_traffic(gang, copy.source, source.footprint.size, writing=False)
        self.count_traffic(gang, copy.target, target.footprint.size, writing=True)
