"""Views, vector loads and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine.access import addresses, base_index
from spyresim.engine.activity import BANDWIDTH
from spyresim.engine.instructions.ports import has_turn, served, service_time
from spyresim.engine.races import join
from spyresim.engine.state import Cohort, Gang, ViewValue
from spyresim.engine.values import TICKS_PER_CYCLE, Scalar, Ticks, times
from spyresim.errors import ControlFault

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


COPIES = "copies"
"""What a gang waits for whose own copies are not done."""


def make_view(x: Executor, cohort: Cohort, gang: Gang, i: im.MakeView) -> bool:
    view = x.context.image.views[i.descriptor]
    memory: Scalar = i.memory.index if isinstance(i.memory, im.MemoryId) else x.cell(gang, i.memory.index)
    start = x.cell(gang, i.start.index) if isinstance(i.start, im.Column) else x.scalar(gang, i.start.index)
    gang.views[i.dst] = ViewValue(memory, times(start, view.start_unit), view)
    gang.pc += 1
    return True


def vector_load(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorLoad) -> bool:
    view, site = x.view(gang, i.view), x.site(gang)
    if not x.drained(gang) or not has_turn(x, gang, view):
        return False
    side = x.context.image.generators[i.generator].sides[0]
    shape = x.context.patterns.get(i.generator, 0, view.view)
    indices = base_index(side, gang.scalars, site)
    base = addresses(view, indices, shape, x.context.strict, site)
    join(gang.clock, gang.copy_clock)
    x.note_access(cohort, gang, view, base, shape.footprint, False, site)
    data = x.read(gang, view, base, shape.footprint, site)
    gang.vectors[i.dst] = x.lanes.from_bytes(view.view.element, data, site)
    start = spend_access(x, gang, view, shape.footprint.size, False, "load")
    x.record_access(gang, view, base, shape.footprint, False, start, gang.time)
    gang.pc += 1
    return True


def vector_store(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorStore) -> bool:
    view, site = x.view(gang, i.view), x.site(gang)
    if not x.drained(gang) or not has_turn(x, gang, view):
        return False
    vector = x.vector(gang, i.source)
    side = x.context.image.generators[i.generator].sides[0]
    shape = x.context.patterns.get(i.generator, 0, view.view)
    if shape.lanes * shape.steps != vector.lanes or vector.element.bits != view.view.element.bits:
        raise ControlFault(
            f"set has {shape.lanes * shape.steps} points of {view.view.element.mlir} but vector has "
            f"{vector.lanes} lanes of {vector.element.mlir}",
            site=site,
        )
    indices = base_index(side, gang.scalars, site)
    base = addresses(view, indices, shape, x.context.strict, site)
    join(gang.clock, gang.copy_clock)
    data = x.lanes.to_bytes(vector)
    x.note_access(cohort, gang, view, base, shape.footprint, False, site, data)
    x.write(gang, view, base, shape.footprint, data, site)
    start = spend_access(x, gang, view, shape.footprint.size, True, "store")
    x.record_access(gang, view, base, shape.footprint, True, start, gang.time)
    gang.pc += 1
    return True


def spend_access(x: Executor, gang: Gang, view: ViewValue, size: int, writing: bool, name: str) -> Ticks:
    """The time of an access to memory by a gang whose copies are all done; when it starts."""
    place = x.place_of(gang, view)
    start = gang.time if gang.activity is None else np.maximum(gang.time, gang.copy_end)
    if place.memory.memory_class is im.MemoryClass.REGISTER:
        x.spend(gang, start, TICKS_PER_CYCLE, COPIES, name)
        return start
    cost = x.context.costs.link_time(gang.kind, place.memory.kind, size, writing)
    service = service_time(x, place, size)
    gang.link += max(cost, service)
    x.wait(gang, start, COPIES)
    if service:
        cost = max(cost, service)
        start = np.maximum(start, served(x, place, start, service) - cost)
    x.spend(gang, start, cost, BANDWIDTH, name)
    return start


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.MakeView: make_view,
    im.VectorLoad: vector_load,
    im.VectorStore: vector_store,
}
