"""How many bytes the slab of a compute group takes at least in the memories on its way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dfsched.architecture import Architecture, Kind
from dfsched.passes.base import PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.memory_accesses import tile_of, view_of
from dfsched.passes.slab_nests import SlabNest
from dfsched.passes.slab_pipelines import SlabPipeline
from dfsched.passes.tile_addresses import TileAddresses
from ktir.dialects import ktdp, linalg
from ktir.ir import Operation, Value
from ktir.types import TensorType, bit_width

__all__ = ["overflows", "tensor_bytes"]


def tensor_bytes(value: Value) -> int:
    """Bytes of a tensor of static shape; 0 for anything else."""
    match value.type:
        case TensorType() as type if type.is_static:
            return type.num_elements() * _element_bytes(value)
        case _:
            return 0


def overflows(group: Sequence[Operation], definitions: Definitions, context: PassContext) -> bool:
    """Whether a memory is surely too small for the slab of a group, whatever the plan.

    All buffers of a pipeline are live together. Counted are what it loads and stores, in each memory on the
    way, and the largest result that only the group itself uses. Not where a group has no slab nest.
    """
    architecture = context.architecture
    try:
        nest = SlabNest(
            group, definitions, TileAddresses(definitions, context, Emitter(group[0].location)), context
        )
        needed = [_needed(nest, SlabPipeline(nest, part, {})) for part in nest.parts()]
    except ScheduleError:
        return False
    sizes = {memory.kind: memory.size for memory in architecture.memories}
    return any(
        (size := sizes.get(kind)) is not None and total > size
        for found in needed
        for kind, total in found.items()
    )


def _needed(nest: SlabNest, pipeline: SlabPipeline) -> Counter[Kind]:
    """Bytes by memory of the pipeline of one part."""
    architecture, definitions = nest.architecture, nest.definitions
    found: Counter[Kind] = Counter()
    reads: set[tuple[Operation, tuple[int, ...]]] = set()
    for op in nest.generics:
        for value, map in zip(op.inputs, op.maps, strict=False):
            load = definitions.definer(value)
            shape = pipeline.shape(op, map)
            if isinstance(load, ktdp.Load) and (load, shape) not in reads:
                reads.add((load, shape))
                for kind in _way(load, architecture, definitions):
                    found[kind] += math.prod(shape) * _element_bytes(value)
    stored: dict[linalg.Generic, tuple[Kind, ...]] = {}
    for store in nest.stores:
        op, map = nest.stored(store)
        stored[op] = _way(store, architecture, definitions)
        for kind in stored[op]:
            found[kind] += math.prod(pipeline.shape(op, map)) * _element_bytes(store.data_tile)
    used = {value for op in nest.generics for value in op.inputs}
    kept = [op for op in nest.generics if op not in stored and op.results[0] in used]
    ends = {way[0] for way in stored.values() if way}
    if kept and len(ends) == 1:
        found[ends.pop()] += max(
            math.prod(pipeline.shape(op, op.maps[-1])) * _element_bytes(op.results[0]) for op in kept
        )
    return found


def _way(
    access: ktdp.Load | ktdp.Store, architecture: Architecture, definitions: Definitions
) -> tuple[Kind, ...]:
    """The memories between the one of an access and the compute unit, in the order of the data."""
    unit = architecture.compute_unit
    assert unit is not None
    assert unit.kind is not None
    memory = view_of(tile_of(access, definitions), definitions).memory_space
    if isinstance(access, ktdp.Load):
        route = architecture.route(memory, unit.kind)
        return () if route is None else route.memories[1:]
    route = architecture.route(unit.kind, memory)
    return () if route is None else route.memories[:-1]


def _element_bytes(value: Value) -> int:
    assert isinstance(value.type, TensorType)
    return -(-bit_width(value.type.element) // 8)
