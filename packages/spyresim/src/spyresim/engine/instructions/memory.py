"""Views, vector loads and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine.access import addresses, base_index
from spyresim.engine.races import join
from spyresim.engine.state import Cohort, Gang, ViewValue
from spyresim.engine.values import TICKS_PER_CYCLE, Scalar, Ticks, times
from spyresim.errors import ControlFault

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


def make_view(x: Executor, cohort: Cohort, gang: Gang, i: im.MakeView) -> bool:
    view = x.context.image.views[i.descriptor]
    memory: Scalar = i.memory.index if isinstance(i.memory, im.MemoryId) else x.cell(gang, i.memory.index)
    start = x.cell(gang, i.start.index) if isinstance(i.start, im.Column) else x.scalar(gang, i.start.index)
    gang.views[i.dst] = ViewValue(memory, times(start, view.start_unit), view)
    gang.pc += 1
    return True


def vector_load(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorLoad) -> bool:
    if not x.drained(gang):
        return False
    view, site = x.view(gang, i.view), x.site(gang)
    side = x.context.image.generators[i.generator].sides[0]
    shape = x.context.patterns.get(i.generator, 0, view.view)
    indices = base_index(side, gang.scalars, site)
    base = addresses(view, indices, shape, x.context.strict, site)
    join(gang.clock, gang.copy_clock)
    x.note_access(cohort, gang, view, base, shape.footprint, False, site)
    data = x.read(gang, view, base, shape.footprint, site)
    gang.vectors[i.dst] = x.lanes.from_bytes(view.view.element, data, site)
    size = shape.footprint.size
    start = after_copies(gang)
    x.spend(gang, start, access_cost(x, gang, view, size, False), "copies", "load")
    x.record_access(gang, view, base, shape.footprint, False, start, gang.time)
    gang.pc += 1
    return True


def vector_store(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorStore) -> bool:
    if not x.drained(gang):
        return False
    view, site = x.view(gang, i.view), x.site(gang)
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
    size = shape.footprint.size
    start = after_copies(gang)
    x.spend(gang, start, access_cost(x, gang, view, size, True), "copies", "store")
    x.record_access(gang, view, base, shape.footprint, True, start, gang.time)
    gang.pc += 1
    return True


def after_copies(gang: Gang) -> Ticks:
    """When a gang whose copies are all done can go on."""
    return gang.time if gang.activity is None else np.maximum(gang.time, gang.copy_end)


def access_cost(x: Executor, gang: Gang, view: ViewValue, size: int, writing: bool) -> int:
    memory = x.place_of(gang, view).memory
    if memory.memory_class is im.MemoryClass.REGISTER:
        return TICKS_PER_CYCLE
    return x.context.costs.link_time(gang.kind, memory.kind, size, writing)


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.MakeView: make_view,
    im.VectorLoad: vector_load,
    im.VectorStore: vector_store,
}
