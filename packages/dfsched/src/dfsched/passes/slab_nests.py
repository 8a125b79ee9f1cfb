"""Compute groups with reductions: one pipeline whose compute stage holds a slab (readings, item 14).

A group of generics that feed each other has dimensions of two kinds. *Outer* dimensions are parallel in
every generic of the group and all generics have them; they become loops around the pipeline. All others
(what any generic reduces, and what some generic lacks) are *walked*: the pipeline moves them in full, so
the compute stage holds a slab and computes every generic on it, in order. Data is loaded once however
often the generics read it. `reduction-loop-exposure` later walks the slab in vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from dfsched.architecture import Architecture
from dfsched.dialects.ktdf import (
    LoopKind,
)
from dfsched.passes import build
from dfsched.passes.base import PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import UnsupportedKernel
from dfsched.passes.generics import loop_extents
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.loop_alignment import Alignment, Axis
from dfsched.passes.memory_accesses import are_disjoint, may_alias, overwritten
from dfsched.passes.pipeline_parts import place_of, scalar_types
from dfsched.passes.slab_pipelines import Part, SlabPipeline
from dfsched.passes.slab_shapes import collapsed, elements_in_a_row
from dfsched.passes.tile_addresses import TileAddresses
from dfsched.passes.vector_lanes import check_lanes
from ktir.affine import AffineMap, Const, Dim, linear
from ktir.dialects import ktdp, linalg, tensor
from ktir.ir import BlockArgument, Operation
from ktir.types import INDEX, TensorType

__all__ = ["SlabNest", "is_slab_group", "slab_nests"]


def generics_of(group: Sequence[Operation]) -> list[linalg.Generic]:
    """The generics of a group, in order."""
    return [op for op in group if isinstance(op, linalg.Generic)]


def is_slab_group(group: Sequence[Operation], definitions: Definitions) -> bool:
    """Whether a group needs a slab.

    Its generics feed each other, reduce, have different shapes, or read by subscripts that are computed.
    """
    generics = generics_of(group)
    if any("reduction" in op.iterators for op in generics):
        return True
    if any(isinstance(op, tensor.CollapseShape) for op in group):
        return True
    if any(not isinstance(e, Dim | Const) for op in generics for map in op.maps for e in map.results):
        return True
    shapes = {tuple(sorted(loop_extents(op).items())) for op in generics}
    return len(shapes) > 1 or any(
        isinstance(definitions.definer(value), linalg.Generic) for op in generics for value in op.inputs
    )


def slab_nests(
    group: Sequence[Operation], definitions: Definitions, addresses: TileAddresses, context: PassContext
) -> list[Operation]:
    """The nests of one group (addresses are emitted in front)."""
    nest = SlabNest(group, definitions, addresses, context)
    nest.check_hazards()
    for part in nest.parts():
        nest.build(part)
    return addresses.emitter.operations


@define(eq=False)
class SlabNest:
    """One group, analysed."""

    group: Sequence[Operation]
    definitions: Definitions
    addresses: TileAddresses
    context: PassContext
    generics: list[linalg.Generic] = field(init=False)
    stores: list[ktdp.Store] = field(init=False)
    alignment: Alignment = field(init=False)
    extents: dict[linalg.Generic, dict[int, int]] = field(init=False)
    lanes: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.generics = generics_of(self.group)
        self.stores = [op for op in self.group if isinstance(op, ktdp.Store)]
        self.extents = {op: loop_extents(op) for op in self.generics}
        self.alignment = Alignment.of(self.generics, self.definitions)
        for op in self.generics:
            for value in op.inputs:
                if not isinstance(self.definitions.definer(value), ktdp.Load | linalg.Generic | tensor.Empty):
                    raise UnsupportedKernel.at(op.location, "an input of the fused computation is not a load")
        self.lanes = self._lanes()
        while leaving_out := self._leaving_out():
            self.alignment.walk(leaving_out)

    def tile(self, axis: Axis, part: Part) -> int:
        """Elements of a loop that one pipeline iteration of a part holds."""
        if not self.alignment.is_outer(axis):
            return self.extents[axis[0]][axis[1]]
        same = part.vector is not None and self.alignment.root(part.vector) == self.alignment.root(axis)
        return part.tile if same else 1

    def _leaving_out(self) -> list[Axis]:
        """Outer loops of a subscript in memory that leaves out elements while they are outer ones.

        A dimension that was expanded is read by ``d0 * 65 + d1``. If only ``d0`` were walked, it would be in
        steps of 65.
        """
        moved = [
            *(
                (op, map)
                for op in self.generics
                for value, map in zip(op.inputs, op.maps, strict=False)
                if isinstance(self.definitions.definer(value), ktdp.Load)
            ),
            *(self.stored(store) for store in self.stores),
        ]
        several = [(op, expr) for op, map in moved for expr in map.results if len(expr.dims()) > 1]
        for part in self.parts() if several else ():
            for op, expr in several:
                flat = linear(expr)
                outer = [(op, dim) for dim in expr.dims() if self.alignment.is_outer((op, dim))]
                if flat is None or not flat.is_linear or not outer:
                    continue
                if elements_in_a_row(flat, {dim: self.tile((op, dim), part) for dim in expr.dims()}) is None:
                    return outer
        return []

    @property
    def emitter(self) -> Emitter:
        return self.addresses.emitter

    @property
    def architecture(self) -> Architecture:
        return self.context.architecture

    def _lanes(self) -> int:
        types = dict.fromkeys(type for op in self.generics for type in scalar_types(op))
        check_lanes(types, self.architecture, self.generics[0].location)
        return self.architecture.vector_length(types)

    # -- hazards

    def check_hazards(self) -> None:
        """A slab is loaded before it is stored; slabs come one after another in the order of the loops."""
        order = {op: position for position, op in enumerate(self.group)}
        for number, store in enumerate(self.stores):
            written = place_of(store, self.definitions)
            generic, out = self.stored(store)
            for op in self.generics:
                for value, map in zip(op.inputs, op.maps, strict=False):
                    load = self.definitions.definer(value)
                    if not isinstance(load, ktdp.Load):
                        continue
                    read = place_of(load, self.definitions)
                    if not may_alias(read.root, written.root) or are_disjoint(load, store, self.definitions):
                        continue
                    if order[load] > order[store]:
                        raise UnsupportedKernel.at(
                            load.location, "the compute group loads memory that it has stored to before"
                        )
                    if (
                        read.access != written.access
                        or written.overlaps
                        or not self._same_slabs(op, map, generic, out)
                    ):
                        raise overwritten(load, store)
            for other in self.stores[:number]:
                a = place_of(other, self.definitions)
                apart = are_disjoint(other, store, self.definitions)
                if may_alias(a.root, written.root) and a.access != written.access and not apart:
                    raise UnsupportedKernel.at(store.location, "two stores of one compute group overlap")

    def _same_slabs(self, op: linalg.Generic, map: AffineMap, stored: linalg.Generic, out: AffineMap) -> bool:
        """Whether reading by `map` takes an element from the slab that `stored` later writes it in."""
        for written, read in zip(out.results, map.results, strict=True):
            if not isinstance(written, Dim):
                return False
            axis = (stored, written.position)
            if not self.alignment.is_outer(axis):
                continue
            same = isinstance(read, Dim) and self.alignment.root((op, read.position)) == self.alignment.root(
                axis
            )
            if not same:
                return False
        return True

    def stored(self, store: ktdp.Store) -> tuple[linalg.Generic, AffineMap]:
        """The generic whose result is stored, and where the elements of its loops go in the tile."""
        definer = self.definitions.definer(store.data_tile)
        if isinstance(definer, tensor.CollapseShape):
            generic = self.definitions.definer(definer.operands[0])
        else:
            generic = definer
        if not isinstance(generic, linalg.Generic):
            raise UnsupportedKernel.at(
                store.location, "the stored value is not computed by one element-wise operation after fusion"
            )
        out = generic.maps[-1]
        if isinstance(definer, tensor.CollapseShape):
            out = collapsed(definer, out)
        return generic, out

    # -- which vectors

    def parts(self) -> Iterator[Part]:
        """Parts with full and with short vectors along an outer loop, if vectors lie along one."""
        vector = self._outer_vector()
        if vector is None:
            yield Part(None)
            return
        extent = self.extents[vector[0]][vector[1]]
        full = extent // self.lanes * self.lanes
        if full:
            yield Part(vector, 0, full, self.lanes)
        if extent != full:
            yield Part(vector, full, extent - full, extent - full)

    def _outer_vector(self) -> Axis | None:
        """The outer loop along which memory is contiguous, if that is an outer one."""
        best: tuple[int, Axis] | None = None
        stored = {self.stored(store)[0].results[0] for store in self.stores}
        for op in self.generics:
            values = [*op.inputs, *(result for result in op.results if result in stored)]
            maps = [*op.maps[: len(op.inputs)], *op.maps[-1:]]
            for value, map in zip(values, maps, strict=False):
                is_load = isinstance(self.definitions.definer(value), ktdp.Load)
                if not (is_load or value in stored) or not map.results:
                    continue
                type = value.type
                assert isinstance(type, TensorType)
                last = map.results[-1]
                if isinstance(last, Dim) and (best is None or type.num_elements() > best[0]):
                    best = type.num_elements(), (op, last.position)
        if best is None:
            return None
        axis = best[1]
        wide = self.extents[axis[0]][axis[1]] > 1
        return axis if wide and self.alignment.is_outer(axis) else None

    # -- construction

    def build(self, part: Part) -> None:
        """Emit the loops and the pipeline of one part."""
        lead, _ = self.stored(self.stores[-1])
        dims = [dim for dim in range(len(lead.iterators)) if self.alignment.is_outer((lead, dim))]
        variables = {self.alignment.root((lead, dim)): BlockArgument(INDEX) for dim in dims}
        body: list[Operation] = [SlabPipeline(self, part, variables).result()]
        for dim in reversed(dims):
            root = self.alignment.root((lead, dim))
            is_vector = part.vector is not None and self.alignment.root(part.vector) == root
            low = part.offset if is_vector else 0
            high = low + (part.extent if is_vector else self.extents[lead][dim])
            step = part.tile if is_vector else 1
            bounds = (self.emitter.constant(low), self.emitter.constant(high), self.emitter.constant(step))
            body = [build.for_loop(bounds, variables[root], body, LoopKind.PARALLEL, lead.location)]
        self.emitter.operations += body
