"""Reductions over more than fits whose results are used again: a place in the scratchpad for each.

A mean, a softmax or a layer norm along columns uses what it folds for more than a store. Where the slab of
such a group is too large for a memory on its way (or `num-chunks` asks for pieces), the group is split with
`fold_places`: each reduction folds into a place of its own, what is computed further loads from there and is
element by element. `reduction-dim-chunking` then cuts the folds like any reduction that is only stored.

A group stays as it is, and is refused as before, where this cannot help: an operand of a reduction is no
load of a box, or the results would fill more than a quarter of the scratchpad.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import define

from dfsched.passes.base import PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import ScheduleError
from dfsched.passes.fold_places import Places, with_fold_places
from dfsched.passes.generics import element_wise_copy, is_window
from dfsched.passes.group_parts import own_stores
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from dfsched.passes.reduction_pieces import Limits, piece_counts, reads_pieces, room
from dfsched.passes.slab_sizes import overflows, tensor_bytes
from ktir.dialects import func, ktdp, linalg
from ktir.dialects.builtin import Module
from ktir.ir import Operation
from ktir.transforms import dce

__all__ = ["PLACES_SHARE", "with_places"]

PLACES_SHARE = 4
"""The part of the scratchpad that results of one group may take: one in so many."""


def with_places(
    module: Module, limits: Limits, context: PassContext
) -> tuple[Module, Collection[ktdp.ConstructAccessTile]]:
    """The module with results stored before they are used again, and the tiles that cover their places.

    The same module and no tiles where nothing is to be done. `ScheduleError` if there are other than one
    given number of pieces for each reduced dimension.
    """
    split = _Split(limits, context, Places(module, context.architecture))
    placed = rewrite_blocks(module, split.block)
    if placed is module:
        return module, ()
    tiles = split.places.tiles
    definitions = Definitions(placed)

    def with_copies(operations: Sequence[Operation]) -> list[Operation]:
        """A result that is stored as it is, too, goes from its place through the compute unit."""
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, ktdp.Store):
                load = definitions.definer(op.data_tile)
                if isinstance(load, ktdp.Load) and definitions.definer(load.access_tile) in tiles:
                    emitter = Emitter(op.location)
                    op = op.replace(operands=[element_wise_copy(op.data_tile, emitter), op.access_tile])
                    result += emitter.operations
            result.append(op)
        return result

    new = dce(rewrite_blocks(placed, with_copies))
    assert isinstance(new, Module)
    return new, tiles


@define(eq=False)
class _Split:
    """Splits the groups of functions; those that cannot be split stay as they are."""

    limits: Limits
    context: PassContext
    places: Places

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        return [
            self._function(op) if isinstance(op, func.Func) and not op.is_declaration else op
            for op in operations
        ]

    def _function(self, function: func.Func) -> func.Func:
        reductions = _reductions(function.walk())
        if not reductions or not self._may_be_split(function, reductions):
            return function
        try:
            return with_fold_places(function, self._folds, self.places)
        except ScheduleError:
            return function

    def _may_be_split(self, function: func.Func, reductions: Sequence[linalg.Generic]) -> bool:
        """A first look that costs little: numbers are given, or the function moves more than a memory."""
        if self.limits.given:
            counts = [piece_counts(op, self.limits) for op in reductions]
            return any(counts)
        moved = sum(
            tensor_bytes(op.result if isinstance(op, ktdp.Load) else op.data_tile)
            for op in function.walk()
            if isinstance(op, ktdp.Load | ktdp.Store)
        )
        return moved >= room(self.context.architecture)

    def _folds(self, group: Sequence[Operation], definitions: Definitions) -> Sequence[linalg.Generic]:
        """The reductions of a group to store before anything uses them; none to leave the group alone."""
        reductions = _reductions(group)
        if all(own_stores(op, definitions) is not None for op in reductions):
            return ()
        counts = {op: piece_counts(op, self.limits) or {} for op in reductions}
        if self.limits.given:
            if not any(counts.values()):
                return ()
        elif not overflows(group, definitions, self.context):
            return ()
        if not all(_can_be_split(op, counts[op], definitions) for op in reductions):
            return ()
        scratchpad = self.context.architecture.scratchpad
        share = 0 if scratchpad is None else (scratchpad.size or 0) // PLACES_SHARE
        return reductions if sum(tensor_bytes(op.results[0]) for op in reductions) <= share else ()


def _reductions(operations: Iterable[Operation]) -> list[linalg.Generic]:
    return [op for op in operations if isinstance(op, linalg.Generic) and "reduction" in op.iterators]


def _can_be_split(generic: linalg.Generic, counts: Mapping[int, int], definitions: Definitions) -> bool:
    """Whether pieces can be loaded, all else comes from reductions before or from nothing, and the result is
    only stored or an input of other generics."""
    if len(generic.results) != 1:
        return False
    for user in definitions.users(generic.results[0]):
        match user:
            case ktdp.Store():
                pass
            case linalg.Generic():
                if generic.results[0] in user.outputs:
                    return False
            case _:
                return False
    for value, map in zip(generic.inputs, generic.maps, strict=False):
        match definitions.definer(value):
            case linalg.Generic() as definer if "reduction" in definer.iterators:
                pass
            case ktdp.Load() as load:
                if not reads_pieces(load, map, counts, definitions):
                    return False
            case definer if not is_window(definer):
                return False
    return True
