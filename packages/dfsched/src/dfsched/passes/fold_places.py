"""Groups that run in parts and use again what they fold: each such result lies in the scratchpad.

A pass that cuts a group into parts (over a symbolic extent, over the rows of a triangle) goes on with a
reduction from part to part in memory. Where the result is only stored, that is where it is stored. Where the
group computes further with it, the group is split in two: the first folds and stores, the second loads what
the first has stored and computes the rest, the elements of the operands once more::

    %x = ktdp.load %t                                 %x = ktdp.load %t
    %s = linalg.reduce ins(%x) outs(%z)               %s = linalg.reduce ins(%x) outs(%z)
    %b = linalg.broadcast ins(%s)                     ktdp.store %s, %place      // a view of the scratchpad
    %y = arith.divf %x, %b                            %x2 = ktdp.load %t
    ktdp.store %y, %u                                 %s2 = ktdp.load %place
                                                      %b = linalg.broadcast ins(%s2)
                                                      %y = arith.divf %x2, %b
                                                      ktdp.store %y, %u

Places are taken from the end of the scratchpad, outside of what kernels keep for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import define, field

from dfsched.architecture import Architecture
from dfsched.passes.build import Emitter
from dfsched.passes.compute_groups import check_order, compute_groups
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.group_parts import own_stores
from dfsched.passes.ir_tools import Definitions, captured, clone_all, post_order, rewrite_blocks, substitute
from dfsched.passes.pinned_ranges import counts_bytes, pinned_ranges
from dfsched.passes.regrouping import replace_groups
from ktir.affine import AffineMap, AffineSet
from ktir.attributes import AffineMapAttr, AffineSetAttr, DenseArrayAttr
from ktir.dialects import func, ktdp, linalg
from ktir.dialects.builtin import Module
from ktir.ir import Operation, Value
from ktir.location import Location
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, I64, MemRefType, TensorType, bit_width

__all__ = ["Places", "with_fold_places"]

Folds = Callable[[Sequence[Operation], Definitions], Sequence[linalg.LinalgOp]]
"""The operations of a group that fold from part to part."""


@define(eq=False)
class Places:
    """Room in the scratchpad that neither the kernel nor residents of other kernels use, from its end on.

    `tiles`: the access tiles that cover the places.
    """

    module: Module
    architecture: Architecture
    tiles: set[ktdp.ConstructAccessTile] = field(factory=set)
    _taken: list[tuple[int, int]] = field(factory=list)

    @property
    def counts_bytes(self) -> bool:
        """Whether views of the module start at bytes instead of elements."""
        return counts_bytes(self.module)

    def take(self, size: int, location: Location) -> int:
        """The first of `size` bytes; `UnsupportedKernel` if there is no room."""
        memory = self.architecture.scratchpad
        if memory is None or memory.size is None:
            raise UnsupportedKernel.at(
                location, "a result that is folded in parts and used again needs a scratchpad to lie in"
            )
        alignment = math.lcm(self.architecture.stick_bytes, self.architecture.access_alignment(memory.kind))
        pinned = pinned_ranges(self.module, self.architecture).get(memory.kind, ())
        end = memory.size
        for low, high in sorted([*pinned, *self._taken], reverse=True):
            if (end - size) // alignment * alignment >= high:
                break
            end = min(end, low)
        start = (end - size) // alignment * alignment
        if start < 0:
            raise UnsupportedKernel.at(
                location,
                f"a result of {size} bytes that is folded in parts and used again finds no room beside what "
                "the kernel keeps in the scratchpad",
            )
        self._taken.append((start, start + size))
        return start


def with_fold_places(kernel: func.Func, folds: Folds, places: Places) -> func.Func:
    """The kernel with every group split behind those of its folds whose results are used again.

    The same kernel if there is none. `ScheduleError` with everything that stands against it.
    """
    definitions = Definitions(kernel)
    findings = Findings()

    def rewrite(operations: Sequence[Operation]) -> Sequence[Operation]:
        if not any(isinstance(op, linalg.LinalgOp) and "reduction" in op.iterators for op in operations):
            return operations
        groups: list[Sequence[Operation]] = []
        split: list[list[Operation]] = []
        with findings.noting():
            for group in compute_groups(operations, definitions):
                again = [op for op in folds(group, definitions) if own_stores(op, definitions) is None]
                if again:
                    groups.append(group)
                    split.append(_Phases(group, again, definitions, places).operations())
            check_order(operations, groups, -1, definitions)
        if not split or findings.errors:
            return operations
        return replace_groups(operations, operations, groups, split)

    new = rewrite_blocks(kernel, rewrite)
    findings.check()
    assert isinstance(new, func.Func)
    return new


@define(eq=False)
class _Phases:
    """One group and its folds whose results are used again."""

    group: Sequence[Operation]
    folds: Sequence[linalg.LinalgOp]
    definitions: Definitions
    places: Places
    lying: dict[Value, ktdp.ConstructAccessTile] = field(factory=dict)

    def operations(self) -> list[Operation]:
        """Groups that fold and store, in order, and one that computes the rest."""
        found: list[Operation] = []
        for fold in self.folds:
            needed = self._needed([fold])
            loads, mapping = self._loaded(needed)
            found += [*loads, *clone_all(needed, mapping)]
            for result in fold.results:
                emitter = Emitter(fold.location)
                place = self._place(result, emitter)
                emitter.operations.append(
                    ktdp.Store.create([mapping[result], place.result], location=fold.location)
                )
                found += emitter.operations
                self.lying[result] = place
        rest = self._needed([op for op in self.group if isinstance(op, ktdp.Store)])
        loads, mapping = self._loaded(rest)
        return [*found, *loads, *(substitute(op, mapping) for op in rest)]

    def _needed(self, roots: Sequence[Operation]) -> list[Operation]:
        """The operations of the group that some of them need, in order; not what already lies in memory."""
        inside = set(self.group)

        def producers(op: Operation) -> list[Operation]:
            values = [value for value in captured(op) if value not in self.lying]
            definers = [self.definitions.definer(value) for value in values]
            return [definer for definer in definers if definer is not None and definer in inside]

        needed: set[Operation] = set()
        for root in roots:
            needed.update(post_order(root, producers, needed))
        return [op for op in self.group if op in needed]

    def _loaded(self, operations: Sequence[Operation]) -> tuple[list[Operation], dict[Value, Value]]:
        """Loads of what these operations use and what lies in memory."""
        mapping: dict[Value, Value] = {}
        loads: list[Operation] = []
        for value in dict.fromkeys(value for op in operations for value in captured(op)):
            if value in self.lying:
                load = ktdp.Load.create(
                    [self.lying[value].result], [value.type], location=operations[0].location
                )
                loads.append(load)
                mapping[value] = load.results[0]
        return loads, mapping

    def _place(self, result: Value, emitter: Emitter) -> ktdp.ConstructAccessTile:
        """A view of the scratchpad in the shape of a result, and the tile that covers it."""
        type = result.type
        assert isinstance(type, TensorType)
        if not type.is_static:
            raise UnsupportedKernel.at(
                emitter.location,
                f"a reduction of a symbolic extent to {type}, which is used again, is not supported",
            )
        shape = type.static_shape()
        element = max(1, (bit_width(type.element) + 7) // 8)
        start = self.places.take(type.num_elements() * element, emitter.location)
        strides = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
        view = ktdp.ConstructMemoryView.create(
            [emitter.constant(start if self.places.counts_bytes else start // element)],
            [MemRefType(shape, type.element, None, None)],
            {
                "static_sizes": DenseArrayAttr(I64, shape),
                "static_strides": DenseArrayAttr(I64, strides),
                "coordinate_set": AffineSetAttr(AffineSet.box(*shape)),
                "memory_space": ktdp.MemorySpace(ktdp.Space.CT_LOCAL),
                OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, 0, 0)),
            },
            location=emitter.location,
        )
        origin = [emitter.constant(0)] * len(shape)
        tile = ktdp.ConstructAccessTile.create(
            [emitter.add(view), *origin],
            [ktdp.AccessTileType(shape)],
            {
                "access_tile_set": AffineSetAttr(AffineSet.box(*shape)),
                "access_tile_order": AffineMapAttr(AffineMap.identity(len(shape))),
                "base_map": AffineMapAttr(AffineMap.identity(len(shape))),
                OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, len(shape), 0)),
            },
            location=emitter.location,
        )
        emitter.operations.append(tile)
        self.places.tiles.add(tile)
        return tile
