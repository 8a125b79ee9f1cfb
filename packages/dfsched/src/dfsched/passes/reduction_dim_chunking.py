"""`reduction-dim-chunking`: reductions over more than fits are done in pieces (scheduler spec 3.11, 4.12).

Takes KTIR after fusion. A reduction moves all that it reduces at a time (`construct-three-stage-pipeline`);
where that is more bytes than the threshold, or than half of a scratchpad on the way, the reduced dimensions
are cut into equal pieces. The first piece starts with the initial value, every other one with what the pieces
before have stored; partial results lie where the result goes. Pieces come in the order of the elements, so
that the meaning stays the same to the bit. Leaves KTIR with a loop over the other pieces.

The number of pieces is the least one that divides the extent and makes pieces small enough, of the outermost
reduced dimension first; `num-chunks` gives a number for each reduced dimension instead. A result that is
used again (a mean, a softmax along columns) gets a place in the scratchpad first where the group does not fit
as it is (`reused_reductions`): the program folds into it, then loads it and computes the rest. Reductions
whose pieces cannot be told apart (operands that are no loads of boxes, results that are written over an
operand) are left alone, and so are results that are used again in the v1 profile.

Before (a sum over 16384 rows)::

    %x = ktdp.load %xt : <16384x64xindex> -> tensor<16384x64xf16>
    %y = linalg.generic ... ins(%x) outs(%init) -> tensor<64xf16>
    ktdp.store %y, %yt

After::

    %x0 = ktdp.load %xt0 : <8192x64xindex> -> tensor<8192x64xf16>
    %y0 = linalg.generic ... ins(%x0) outs(%init) -> tensor<64xf16>
    ktdp.store %y0, %yt
    scf.for %k = %c1 to %c2 step %c1 {
      %xk = ktdp.load %xtk : <8192x64xindex> -> tensor<8192x64xf16>
      %p = ktdp.load %yt : <64xindex> -> tensor<64xf16>
      %yk = linalg.generic ... ins(%xk) outs(%p) -> tensor<64xf16>
      ktdp.store %yk, %yt
    }

>>> from dfsched.passes.examples import SUM, after
>>> after("reduction-dim-chunking", SUM,
... r"scf.for|ktdp.load|ktdp.store", num_chunks="2")
%6 = ktdp.load %5 : <2x128xindex> -> tensor<2x128xf16>
ktdp.store %7, %2 : tensor<2xf16>, <2xindex>
scf.for %arg0 = %c1 to %c2 step %c1 {
%10 = ktdp.load %9 : <2x128xindex> -> tensor<2x128xf16>
%11 = ktdp.load %2 : <2xindex> -> tensor<2xf16>
ktdp.store %14, %2 : tensor<2xf16>, <2xindex>
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import define, frozen

from dfsched.options import Profile
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext, Setting, numbers
from dfsched.passes.build import Emitter
from dfsched.passes.generics import element_wise_copy, is_window, loop_extents
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks
from dfsched.passes.memory_accesses import may_alias, tile_of
from dfsched.passes.pipeline_parts import place_of
from dfsched.passes.reduction_pieces import Limits, piece_counts, reads_pieces, room
from dfsched.passes.reused_reductions import with_places
from dfsched.passes.vector_lanes import shift_indices
from ktir.affine import AffineExpr, AffineMap, AffineSet, Dim
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.dialects import arith, ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.transforms import dce
from ktir.types import I32, INDEX, TensorType

__all__ = ["NUM_CHUNKS", "PASS", "THRESHOLD", "run"]

NAME = "reduction-dim-chunking"

NUM_CHUNKS: Setting[tuple[int, ...]] = Setting(NAME, "num-chunks", (), numbers)
"""Pieces per reduced dimension; none: as many as the threshold asks for."""

THRESHOLD: Setting[int] = Setting(NAME, "chunk-size-threshold", 1 << 20, int)
"""Bytes of operands that a reduction may move at a time."""


def run(module: Module, context: PassContext) -> Module:
    """Cut the reductions of every block; `ScheduleError` if `num-chunks` has the wrong count."""
    if not any(isinstance(op, linalg.Generic) and "reduction" in op.iterators for op in module.walk()):
        return module
    architecture = context.architecture
    limit = min(context.setting(THRESHOLD), room(architecture) // 2)
    limits = Limits(architecture, limit, context.setting(NUM_CHUNKS))
    places: Collection[ktdp.ConstructAccessTile] = ()
    if context.options.profile is not Profile.V1:
        module, places = with_places(module, limits, context)
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        plans: dict[Operation, _Plan] = {}
        for op in operations:
            if isinstance(op, ktdp.Store):
                plan = _plan(op, operations, definitions, limits, places)
                if plan is not None:
                    plans[op] = plan
        replaced = {plan.generic for plan in plans.values()}
        result: list[Operation] = []
        for op in operations:
            if op in plans:
                result += _Chunks(plans[op], definitions).result()
            elif op not in replaced and not _feeds_only(op, replaced, definitions):
                result.append(op)
        return result

    new = rewrite_blocks(module, rewrite)
    if new is module:
        return module
    pruned = dce(new)
    assert isinstance(pruned, Module)
    return pruned


PASS = Pass(
    NAME,
    Group.FRONTEND,
    run,
    "reductions over more than fits in pieces",
    settings=(NUM_CHUNKS, THRESHOLD),
)


def _feeds_only(op: Operation, users: set[linalg.Generic], definitions: Definitions) -> bool:
    """Whether an operation is a load for some computations and nothing else."""
    if not users or not isinstance(op, ktdp.Load):
        return False
    found = definitions.users(op.result)
    return bool(found) and all(user in users for user in found)


# -- how many pieces


@frozen
class _Plan:
    """A store, the reduction behind it, and the pieces of its reduced dimensions (those with several)."""

    store: ktdp.Store
    generic: linalg.Generic
    counts: Mapping[int, int]


def _plan(
    store: ktdp.Store,
    block: Sequence[Operation],
    definitions: Definitions,
    limits: Limits,
    places: Collection[ktdp.ConstructAccessTile],
) -> _Plan | None:
    """What to cut for a store; None to leave it alone."""
    generic = definitions.definer(store.data_tile)
    if not isinstance(generic, linalg.Generic) or "reduction" not in generic.iterators:
        return None
    counts = piece_counts(generic, limits)
    if counts is None:
        return None
    plan = _Plan(store, generic, counts)
    return plan if _can_cut(plan, block, definitions, places) else None


def _can_cut(
    plan: _Plan,
    block: Sequence[Operation],
    definitions: Definitions,
    places: Collection[ktdp.ConstructAccessTile],
) -> bool:
    """Whether the operands are loads of boxes that nothing writes, and the result is stored, no more.

    Nothing stands between the loads of a fold and the store to its place, and nothing else writes a place.
    """
    generic = plan.generic
    if len(generic.results) != 1 or list(definitions.users(generic.results[0])) != [plan.store]:
        return False
    stores = [op for op in block if isinstance(op, ktdp.Store)]
    for value, map in zip(generic.inputs, generic.maps, strict=False):
        load = definitions.definer(value)
        if is_window(load):
            continue
        if not isinstance(load, ktdp.Load) or load not in block:
            return False
        own = tile_of(plan.store, definitions) in places or tile_of(load, definitions) in places
        read = place_of(load, definitions).root
        if not own and any(may_alias(read, place_of(store, definitions).root) for store in stores):
            return False
        if not reads_pieces(load, map, plan.counts, definitions):
            return False
    return True


# -- pieces


@define(eq=False)
class _Chunks:
    """The pieces of one reduction."""

    plan: _Plan
    definitions: Definitions

    def result(self) -> list[Operation]:
        """What stands in the place of the store: the first piece, and loops over all others."""
        emitter = Emitter(self.plan.store.location)
        dims = list(self.plan.counts)
        self._piece({}, True, emitter)
        for j in reversed(range(len(dims))):
            self._loops(dims[j:], 1, {}, emitter)
        return emitter.operations

    def _loops(self, dims: Sequence[int], first: int, places: Mapping[int, Value], emitter: Emitter) -> None:
        """Pieces from `first` on of a dimension, all pieces of those behind it."""
        if not dims:
            self._piece(places, False, emitter)
            return
        variable = BlockArgument(INDEX)
        inner = Emitter(emitter.location)
        self._loops(dims[1:], 0, {**places, dims[0]: variable}, inner)
        count = self.plan.counts[dims[0]]
        bounds = (emitter.constant(first), emitter.constant(count), emitter.constant(1))
        emitter.operations.append(
            build.for_loop(bounds, variable, inner.operations, None, self.plan.generic.location)
        )

    def _piece(self, places: Mapping[int, Value], is_first: bool, emitter: Emitter) -> None:
        """Load a piece, go on from the initial value or from what is stored, and store."""
        generic, store = self.plan.generic, self.plan.store
        extents = loop_extents(generic)
        sizes = {d: extents[d] // n for d, n in self.plan.counts.items()}
        starts = {
            d: emitter.binary(arith.MulI, place, emitter.constant(sizes[d])) for d, place in places.items()
        }
        inputs = [
            self._load(value, map, sizes, starts, emitter)
            for value, map in zip(generic.inputs, generic.maps, strict=False)
        ]
        start = generic.outputs[0] if is_first else self._partial(emitter)
        mapping: dict[Value, Value] = {}
        block = generic.body.block
        arguments = [BlockArgument(a.type, a.name, a.location) for a in block.arguments]
        mapping.update(zip(block.arguments, arguments, strict=True))
        body = clone_all(shift_indices(block.operations, starts, emitter), mapping)
        piece = linalg.Generic.build(
            inputs,
            [start],
            generic.maps,
            generic.iterators,
            Region.of(body, arguments),
            {n: a for n, a in generic.attributes.items() if n not in _OWN},
            generic.location,
        )
        emitter.operations.append(piece)
        emitter.operations.append(store.replace(operands=[piece.results[0], store.access_tile]))

    def _load(
        self,
        value: Value,
        map: AffineMap,
        sizes: Mapping[int, int],
        starts: Mapping[int, Value],
        emitter: Emitter,
    ) -> Value:
        load = self.definitions.definer(value)
        type = value.type
        assert isinstance(type, TensorType)
        if is_window(load):
            return emitter.add(
                tensor.Empty.create((), [_piece_of(type, map, sizes)], location=self.plan.generic.location)
            )
        assert isinstance(load, ktdp.Load)
        tile = tile_of(load, self.definitions)
        shape = list(type.static_shape())
        results: list[AffineExpr] = list(tile.base_map.map.results)
        indices = list(tile.indices)
        for position, expr in enumerate(map.results):
            if isinstance(expr, Dim) and expr.position in sizes:
                shape[position] = sizes[expr.position]
                if expr.position in starts:
                    results[position] = results[position] + Dim(len(indices))
                    indices.append(starts[expr.position])
        access = ktdp.ConstructAccessTile.create(
            [tile.base, *indices],
            [ktdp.AccessTileType(tuple(shape))],
            {
                **tile.attributes,
                "access_tile_set": AffineSetAttr(AffineSet.box(*shape)),
                "base_map": AffineMapAttr(AffineMap(len(indices), 0, tuple(results))),
                OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, len(indices), 0)),
            },
            location=tile.location,
        )
        piece = ktdp.Load.create(
            [emitter.add(access)],
            [TensorType(tuple(shape), type.element)],
            load.attributes,
            location=load.location,
        )
        return emitter.add(piece)

    def _partial(self, emitter: Emitter) -> Value:
        """What the pieces before have stored, as the start of a reduction."""
        store = self.plan.store
        type = store.data_tile.type
        assert isinstance(type, TensorType)
        stored = emitter.add(ktdp.Load.create([store.access_tile], [type], location=store.location))
        return element_wise_copy(stored, emitter)


def _piece_of(window: TensorType, map: AffineMap, sizes: Mapping[int, int]) -> TensorType:
    """A window over one piece of the dimensions that are cut."""
    shape = [
        sizes.get(expr.position, extent) if isinstance(expr, Dim) else extent
        for expr, extent in zip(map.results, window.static_shape(), strict=True)
    ]
    return TensorType(tuple(shape), window.element)


_OWN = ("indexing_maps", "iterator_types", OPERAND_SEGMENTS)
"""Attributes that a generic is built with."""
