"""`reduction-dim-chunking`: reductions over more than fits are done in pieces (scheduler spec 3.11, 4.12).

Takes KTIR after fusion. A reduction moves all that it reduces at a time (`construct-three-stage-pipeline`);
where that is more bytes than the threshold, or than half of a scratchpad on the way, the reduced dimensions
are cut into equal pieces. The first piece starts with the initial value, every other one with what the pieces
before have stored; partial results lie where the result goes. Pieces come in the order of the elements, so
that the meaning stays the same to the bit. Leaves KTIR with a loop over the other pieces.

The number of pieces is the least one that divides the extent and makes pieces small enough, of the outermost
reduced dimension first; `num-chunks` gives a number for each reduced dimension instead. A result that is
used again (a mean, a softmax along columns) gets a place in the scratchpad first (`fold_places`): the
program folds into it, then loads it and computes the rest. Reductions whose pieces cannot be told apart
(operands that are no loads of boxes, results that are written over an operand or fill more than a quarter of
the scratchpad) are left alone, and so are results that are used again in the v1 profile.

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

from collections.abc import Mapping, Sequence

from attrs import define, frozen

from dfsched.architecture import Architecture
from dfsched.options import Profile
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext, Setting, numbers
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError
from dfsched.passes.fold_places import Places, with_fold_places
from dfsched.passes.generics import is_window, loop_extents
from dfsched.passes.group_parts import own_stores
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks
from dfsched.passes.memory_accesses import may_alias, tile_of
from dfsched.passes.pipeline_parts import place_of, scalar_types
from dfsched.passes.reductions import combine_of
from dfsched.passes.tile_lattices import lattice_of
from dfsched.passes.vector_lanes import shift_indices
from ktir.affine import AffineExpr, AffineMap, AffineSet, Dim
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.dialects import arith, func, ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.transforms import dce
from ktir.types import I32, INDEX, TensorType, bit_width

__all__ = ["NUM_CHUNKS", "PASS", "THRESHOLD", "chunk_counts", "divisors", "run"]

NAME = "reduction-dim-chunking"

NUM_CHUNKS: Setting[tuple[int, ...]] = Setting(NAME, "num-chunks", (), numbers)
"""Pieces per reduced dimension; none: as many as the threshold asks for."""

THRESHOLD: Setting[int] = Setting(NAME, "chunk-size-threshold", 1 << 20, int)
"""Bytes of operands that a reduction may move at a time."""

PLACES_SHARE = 4
"""The part of the scratchpad that results of one group may take that are used again: one in so many."""


def run(module: Module, context: PassContext) -> Module:
    """Cut the reductions of every block; `ScheduleError` if `num-chunks` has the wrong count."""
    if not any(isinstance(op, linalg.Generic) and "reduction" in op.iterators for op in module.walk()):
        return module
    limit = min(context.setting(THRESHOLD), _room(context.architecture))
    given = context.setting(NUM_CHUNKS)
    if context.options.profile is not Profile.V1:
        module = _with_places(module, context.architecture, limit, given)
    definitions = Definitions(module)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        plans: dict[Operation, _Plan] = {}
        for op in operations:
            if isinstance(op, ktdp.Store):
                plan = _plan(op, operations, definitions, context.architecture, limit, given)
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


def _room(architecture: Architecture) -> int:
    """Half of the smallest memory between device memory and the compute unit, in bytes."""
    sizes = [
        memory.size
        for memory in architecture.memories
        if memory.size is not None
        and not architecture.is_global(memory.kind)
        and not architecture.is_private(memory.kind)
        and not architecture.is_address_buffer(memory.kind)
    ]
    return min(sizes, default=1 << 62) // 2


# -- how many pieces


@frozen
class _Plan:
    """A store, the reduction behind it, and the pieces of its reduced dimensions (those with several)."""

    store: ktdp.Store
    generic: linalg.Generic
    counts: Mapping[int, int]


def chunk_counts(extents: Sequence[int], total_bytes: int, limit: int) -> tuple[int, ...] | None:
    """The least numbers of pieces, outermost dimension first, that bring `total_bytes` down to `limit`.

    A dimension is only cut after all in front of it are down to one element, which keeps the order of the
    elements. None if even single elements are too much. Of the numbers of pieces only `divisors` are tried.

    >>> chunk_counts([16384], 2 << 20, 1 << 20)
    (2,)
    >>> chunk_counts([12289], 3145984, 1 << 20)
    (12289,)
    >>> chunk_counts([4, 1000], 8000, 500)
    (4, 4)
    """
    counts: list[int] = []
    rest = total_bytes
    for extent in extents:
        counts.append(next((n for n in divisors(extent) if rest // n <= limit), extent))
        rest //= counts[-1]
    return tuple(counts) if rest <= limit else None


def divisors(number: int) -> list[int]:
    """Divisors of a positive number, ascending; in numbers above 2**32, large prime factors count as one.

    >>> divisors(60)
    [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]
    """
    found = [1]
    rest, prime = number, 2
    while prime * prime <= rest and prime < 1 << 16:
        known = len(found)
        while rest % prime == 0:
            rest //= prime
            found += [prime * divisor for divisor in found[-known:]]
        prime += 1
    if rest > 1:
        found += [rest * divisor for divisor in found]
    return sorted(found)


def _plan(
    store: ktdp.Store,
    block: Sequence[Operation],
    definitions: Definitions,
    architecture: Architecture,
    limit: int,
    given: tuple[int, ...],
) -> _Plan | None:
    """What to cut for a store; None to leave it alone."""
    generic = definitions.definer(store.data_tile)
    if not isinstance(generic, linalg.Generic) or "reduction" not in generic.iterators:
        return None
    counts = _counts(generic, architecture, limit, given)
    if counts is None:
        return None
    plan = _Plan(store, generic, counts)
    return plan if _can_cut(plan, block, definitions) else None


def _counts(
    generic: linalg.Generic, architecture: Architecture, limit: int, given: tuple[int, ...]
) -> Mapping[int, int] | None:
    """Pieces of the reduced dimensions that have several; None to leave all of them whole."""
    extents = loop_extents(generic)
    dims = [d for d, kind in enumerate(generic.iterators) if kind == "reduction"]
    if len(extents) != len(generic.iterators):
        return None
    counts: tuple[int, ...] | None
    if given:
        if len(given) != len(dims):
            raise ScheduleError.at(
                generic.location,
                f"the reduction has {len(dims)} dimensions, but {len(given)} numbers of chunks",
            )
        divides = all(n > 0 and extents[d] % n == 0 for d, n in zip(dims, given, strict=True))
        counts = given if divides and _keeps_order(generic, [extents[d] for d in dims], given) else None
    else:
        total = _bytes_at_a_time(generic, extents, architecture)
        counts = chunk_counts([extents[d] for d in dims], total, limit)
    if counts is None or all(n == 1 for n in counts):
        return None
    return {d: n for d, n in zip(dims, counts, strict=True) if n > 1}


def _keeps_order(generic: linalg.Generic, extents: Sequence[int], counts: Sequence[int]) -> bool:
    """Whether pieces in order have the elements in order, or the order does not matter."""
    combine = combine_of(generic)
    if combine is not None and not combine.depends_on_order:
        return True
    cut = max((j for j, n in enumerate(counts) if n > 1), default=0)
    return all(counts[j] == extents[j] for j in range(cut))


def _bytes_at_a_time(generic: linalg.Generic, extents: Mapping[int, int], architecture: Architecture) -> int:
    """What one step of the loops over the other dimensions moves: all operands, a vector along the last."""
    lanes = architecture.vector_length(dict.fromkeys(scalar_types(generic)))
    total = 0
    for value, map in dict(zip(generic.inputs, generic.maps, strict=False)).items():
        type = value.type
        if not isinstance(type, TensorType):
            continue
        count = 1
        for position, expr in enumerate(map.results):
            for dim in expr.dims():
                if generic.iterators[dim] == "reduction":
                    count *= extents[dim]
                elif position == map.num_results - 1:
                    count *= min(lanes, extents[dim])
        total += count * -(-bit_width(type.element) // 8)
    return total


def _can_cut(plan: _Plan, block: Sequence[Operation], definitions: Definitions) -> bool:
    """Whether the operands are loads of boxes that nothing writes, and the result is stored, no more."""
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
        read = place_of(load, definitions).root
        if any(may_alias(read, place_of(store, definitions).root) for store in stores):
            return False
        if not _reads_pieces(load, map, plan.counts, definitions):
            return False
    return True


def _reads_pieces(
    load: ktdp.Load, map: AffineMap, counts: Mapping[int, int], definitions: Definitions
) -> bool:
    """Whether each piece of the cut dimensions reads a box of its own."""
    cut = [expr for expr in map.results if set(expr.dims()) & set(counts)]
    if any(not isinstance(expr, Dim) for expr in cut) or len(set(cut)) != len(cut):
        return False
    return not cut or _is_box(tile_of(load, definitions))


def _is_box(tile: ktdp.ConstructAccessTile) -> bool:
    """A box in row-major order that starts at the subscripts."""
    if tile.symbol_operands or tile.base_map.map.num_symbols:
        return False
    try:
        lattice = lattice_of(tile)
    except ScheduleError:
        return False
    return (
        lattice is not None and not any(lattice.start) and lattice.order == tuple(range(len(lattice.start)))
    )


# -- results that are used again


def _with_places(module: Module, architecture: Architecture, limit: int, given: tuple[int, ...]) -> Module:
    """The module with reductions that are to be cut stored before their results are used again."""
    places = Places(module, architecture)

    def folds(group: Sequence[Operation], definitions: Definitions) -> Sequence[linalg.LinalgOp]:
        return _folds(group, definitions, architecture, limit, given)

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [
            with_fold_places(op, folds, places) if isinstance(op, func.Func) and not op.is_declaration else op
            for op in operations
        ]

    placed = rewrite_blocks(module, rewrite)
    if placed is module:
        return module
    definitions = Definitions(placed)

    def with_copies(operations: Sequence[Operation]) -> list[Operation]:
        """A result that is stored as it is, too, is copied from its place by the compute unit."""
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, ktdp.Store) and isinstance(definitions.definer(op.data_tile), ktdp.Load):
                emitter = Emitter(op.location)
                op = op.replace(operands=[_copy(op.data_tile, emitter), op.access_tile])
                result += emitter.operations
            result.append(op)
        return result

    new = dce(rewrite_blocks(placed, with_copies))
    assert isinstance(new, Module)
    return new


def _folds(
    group: Sequence[Operation],
    definitions: Definitions,
    architecture: Architecture,
    limit: int,
    given: tuple[int, ...],
) -> list[linalg.Generic]:
    """The reductions of a group to store before anything uses them: those to cut, and what these read."""
    reductions = [op for op in group if isinstance(op, linalg.Generic) and "reduction" in op.iterators]
    chosen: set[Operation] = set()
    for op in reductions:
        if (len(reductions) > 1 or own_stores(op, definitions) is None) and (
            counts := _counts(op, architecture, limit, given)
        ):
            earlier = _earlier(op, counts, definitions)
            if earlier is not None:
                chosen |= {op, *earlier}
    found = [op for op in reductions if op in chosen]
    scratchpad = architecture.scratchpad
    room = 0 if scratchpad is None or scratchpad.size is None else scratchpad.size // PLACES_SHARE
    return found if sum(_result_bytes(op) for op in found) <= room else []


def _earlier(
    generic: linalg.Generic, counts: Mapping[int, int], definitions: Definitions
) -> set[Operation] | None:
    """The reductions that one to cut reads, directly or not; None if some operand cannot be cut."""
    found: set[Operation] = set()
    pending = [generic]
    while pending:
        op = pending.pop()
        for value, map in zip(op.inputs, op.maps, strict=False):
            definer = definitions.definer(value)
            match definer:
                case linalg.Generic() if "reduction" in definer.iterators:
                    if definer not in found:
                        found.add(definer)
                        pending.append(definer)
                case ktdp.Load():
                    if op is generic and not _reads_pieces(definer, map, counts, definitions):
                        return None
                case _ if not is_window(definer):
                    return None
    return found


def _result_bytes(generic: linalg.Generic) -> int:
    type = generic.results[0].type
    assert isinstance(type, TensorType)
    return type.num_elements() * -(-bit_width(type.element) // 8)


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
        return _copy(stored, emitter)


def _copy(source: Value, emitter: Emitter) -> Value:
    """A tensor through an element-wise generic, as it is."""
    type = source.type
    assert isinstance(type, TensorType)
    empty = emitter.add(tensor.Empty.create((), [type], location=emitter.location))
    value, out = BlockArgument(type.element, "in"), BlockArgument(type.element, "out")
    identity = AffineMap.identity(type.rank)
    copy = linalg.Generic.build(
        [source],
        [empty],
        [identity, identity],
        ["parallel"] * type.rank,
        Region.of([linalg.Yield.create([value])], [value, out]),
        location=emitter.location,
    )
    return emitter.add(copy)


def _piece_of(window: TensorType, map: AffineMap, sizes: Mapping[int, int]) -> TensorType:
    """A window over one piece of the dimensions that are cut."""
    shape = [
        sizes.get(expr.position, extent) if isinstance(expr, Dim) else extent
        for expr, extent in zip(map.results, window.static_shape(), strict=True)
    ]
    return TensorType(tuple(shape), window.element)


_OWN = ("indexing_maps", "iterator_types", OPERAND_SEGMENTS)
"""Attributes that a generic is built with."""
