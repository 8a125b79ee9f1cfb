"""A compute group that runs in parts: what is done before, in every part, and behind them.

An operation *moves* if it works on the elements that are cut. A fold reduces them: it goes on from part to
part with what is stored at the place of its result, where the initial value is stored first. Stores of what
does not move are done once, behind the parts, which may read what they overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import frozen

from dfsched.passes.build import Emitter
from dfsched.passes.ir_tools import Definitions, captured, clone_all, post_order
from ktir.dialects import ktdp, linalg
from ktir.ir import Operation, Value

__all__ = ["GroupParts", "own_stores"]


def own_stores(op: linalg.LinalgOp, definitions: Definitions) -> tuple[ktdp.Store, ...] | None:
    """The store of each result of an operation, if nothing else uses any of them."""
    found: list[ktdp.Store] = []
    for result in op.results:
        users = list(definitions.users(result))
        if len(users) != 1 or not isinstance(users[0], ktdp.Store):
            return None
        found.append(users[0])
    return tuple(found)


@frozen(eq=False)
class GroupParts:
    """A group, which of its operations move, and its folds with the stores of their results."""

    group: Sequence[Operation]
    definitions: Definitions
    moves: Callable[[Operation], bool]
    folds: Mapping[linalg.LinalgOp, tuple[ktdp.Store, ...]]

    def before(self, emitter: Emitter) -> None:
        """Store the initial values of folds where their partial results will lie."""
        for fold, stores in self.folds.items():
            for initial, store in zip(fold.output_values, stores, strict=True):
                definer = self.definitions.definer(initial)
                if isinstance(definer, ktdp.Load) and definer.access_tile is store.access_tile:
                    continue  # it lies there already
                mapping: dict[Value, Value] = {}
                emitter.operations += clone_all(self._needed(self._producers([initial])), mapping)
                value = mapping.get(initial, initial)
                emitter.operations.append(
                    ktdp.Store.create([value, store.access_tile], location=store.location)
                )

    def repeated(self) -> list[Operation]:
        """The operations of every part, in order: not what only makes initial values of folds."""

        def inputs(op: Operation) -> list[Operation]:
            used = op.input_values if op in self.folds and isinstance(op, linalg.LinalgOp) else captured(op)
            return self._producers(used)

        still = set(self._still())
        needed: set[Operation] = set()
        for op in self.group:
            if isinstance(op, ktdp.Store) and op not in still:
                needed.update(post_order(op, inputs, needed))
        return [op for op in self.group if op in needed]

    def partial(self, fold: linalg.LinalgOp, emitter: Emitter) -> list[Value]:
        """What the parts before have stored: the initial values of a fold in this part."""
        loads = [
            ktdp.Load.create([store.access_tile], [value.type], location=store.location)
            for store, value in zip(self.folds[fold], fold.results, strict=True)
        ]
        return [emitter.add(load) for load in loads]

    def behind(self, emitter: Emitter) -> None:
        """Store what does not move."""
        emitter.operations += clone_all(self._needed(self._still()), {})

    def _still(self) -> list[Operation]:
        stores = [op for op in self.group if isinstance(op, ktdp.Store)]
        return [store for store in stores if not any(map(self.moves, self._needed([store])))]

    def _needed(self, roots: Iterable[Operation]) -> list[Operation]:
        """Some operations of the group and what they need of it, in order."""
        needed: set[Operation] = set()
        for root in roots:
            needed.update(post_order(root, lambda op: self._producers(captured(op)), needed))
        return [op for op in self.group if op in needed]

    def _producers(self, values: Iterable[Value]) -> list[Operation]:
        """The operations of the group that define some values."""
        inside = set(self.group)
        definers = (self.definitions.definer(value) for value in values)
        return [definer for definer in definers if definer is not None and definer in inside]
