"""Parts of pipelines that several passes need: places of accesses, queues, types."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dfsched.dialects.ktdf import FifoAllocate, FifoSlotType, Pipeline, Private
from dfsched.passes.ir_tools import Definitions, substitute
from dfsched.passes.memory_accesses import Root, is_injective, root_of, tile_of, view_of
from ktir.dialects import ktdp, linalg
from ktir.ir import Operation, OpResult, Region, Value
from ktir.types import FloatType, IntegerType, MemRefType, Type

__all__ = ["Place", "allocations", "element_of", "place_of", "scalar_types", "without_unused"]


@frozen
class Place:
    """Which elements an access touches: the same place is the same elements in the same order.

    `overlaps`: two indices of the view may be one element.
    """

    root: Root
    access: tuple[object, ...]
    overlaps: bool


def place_of(op: ktdp.Load | ktdp.Store, definitions: Definitions) -> Place:
    """The place of a load or store."""
    tile = tile_of(op, definitions)
    view = view_of(tile, definitions)
    access = (
        view.offset,
        view.static_sizes,
        view.static_strides,
        view.result.type,
        tile.indices,
        tile.base_map,
        tile.access_tile_set,
        tile.access_tile_order,
    )
    overlaps = not is_injective(view.static_sizes.values, view.static_strides.values)
    return Place(root_of(view, definitions), access, overlaps)


def element_of(memref: Value) -> Type:
    """The element type of a memref."""
    type = memref.type
    assert isinstance(type, MemRefType)
    return type.element


def allocations(slots: Sequence[OpResult]) -> list[Operation]:
    """One allocation per queue, all its slots in order of the results."""
    queues: dict[object, list[OpResult]] = {}
    for slot in slots:
        assert isinstance(slot.type, FifoSlotType)
        queues.setdefault(slot.type.ends, []).append(slot)
    return [FifoAllocate((), tuple(group)) for group in queues.values()]


def scalar_types(generic: linalg.Generic) -> list[Type]:
    """Types of all numbers in a body (indices left out), with repetitions."""
    found: list[Type] = []
    for region in generic.regions:
        found += [argument.type for argument in region.block.arguments]
        for op in region.block.operations:
            found += [value.type for value in (*op.results, *op.operands)]
    return [type for type in found if isinstance(type, FloatType | IntegerType)]


def without_unused(pipeline: Pipeline, stages: Sequence[Operation]) -> Pipeline:
    """The pipeline with other stages; resources that none uses are dropped (scheduler spec 3.0.4)."""
    private = pipeline.private
    if private is None:
        return pipeline.replace(regions=[Region.of(stages)])
    used = {value for stage in stages for op in stage.walk() for value in op.operands}
    pairs = [(r, v) for r, v in zip(private.results, private.yielded, strict=True) if r in used]
    wanted = {value for _, value in pairs}
    kept: list[Operation] = []
    for op in reversed(private.body.block.operations[:-1]):
        if not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(value for inner in op.walk() for value in inner.operands)
    new = Private.of(kept[::-1], [value for _, value in pairs])
    mapping: dict[Value, Value] = {old: result for (old, _), result in zip(pairs, new.results, strict=True)}
    return pipeline.replace(regions=[Region.of([new, *(substitute(stage, mapping) for stage in stages)])])
