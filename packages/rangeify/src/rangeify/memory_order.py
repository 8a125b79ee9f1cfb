"""An order of kernels that keeps few temporaries alive (``Config.order = "memory"``).

Among the orders that respect all edges a beam search looks for one with a low peak of live bytes; a plan of
the arena then decides between it and the first-in-first-out order, so that the result is never larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from rangeify.kernels import storage_of
from rangeify.memory import lifetimes, place
from rangeify.storage import nbytes
from uopgraph import Ops, UOp

#: Partial orders that are kept at each step.
BEAM: Final = 12
#: Above this number of kernels one partial order is kept.
MANY: Final = 500
_ALIGNMENT: Final = 256


@attrs.frozen(eq=False)
class _State:
    """A partial order: its peak and its live bytes, what is done, and what is ready by now."""

    peak: int
    live: int
    order: tuple[int, ...]
    done: frozenset[int]
    ready: tuple[int, ...]


def _temporaries(kernel: UOp) -> tuple[UOp, ...]:
    """The call-local storage that a kernel call touches."""
    found: dict[UOp, None] = {}
    for argument in kernel.src[1:]:
        if argument.op not in (Ops.CONST, Ops.PARAM):
            found.update({n: None for n in storage_of(argument).toposort() if n.op is Ops.ALLOC})
    return tuple(found)


class _Problem:
    """Kernels by number: who comes before whom, which temporaries each touches, and how large those are."""

    def __init__(self, kernels: Sequence[UOp], edges: Mapping[UOp, Iterable[UOp]]) -> None:
        number = {k: i for i, k in enumerate(kernels)}
        self.after = [[number[s] for s in edges[k]] for k in kernels]
        self.before: list[set[int]] = [set() for _ in kernels]
        for i, after in enumerate(self.after):
            for j in after:
                self.before[j].add(i)
        buffers: dict[UOp, int] = {}
        self.touches = [[buffers.setdefault(a, len(buffers)) for a in _temporaries(k)] for k in kernels]
        self.users: list[set[int]] = [set() for _ in buffers]
        for i, touched in enumerate(self.touches):
            for b in touched:
                self.users[b].add(i)
        self.sizes = [-(-nbytes(a) // _ALIGNMENT) * _ALIGNMENT for a in buffers]

    def start(self) -> _State:
        return _State(0, 0, (), frozenset(), tuple(i for i, b in enumerate(self.before) if not b))

    def step(self, state: _State, kernel: int) -> _State:
        """`state` after one more kernel."""
        done = state.done | {kernel}
        touched = self.touches[kernel]
        live = state.live + sum(self.sizes[b] for b in touched if not self.users[b] & state.done)
        dead = sum(self.sizes[b] for b in touched if self.users[b] <= done)
        woken = (k for k in self.after[kernel] if self.before[k] <= done)
        ready = (*(k for k in state.ready if k != kernel), *woken)
        return _State(max(state.peak, live), live - dead, (*state.order, kernel), done, ready)

    def search(self, width: int) -> tuple[int, ...]:
        """The best complete order that a beam of `width` partial orders finds."""
        beam = [self.start()]
        for _ in self.after:
            found: dict[frozenset[int], _State] = {}
            for state in beam:
                for kernel in state.ready:
                    new = self.step(state, kernel)
                    old = found.get(new.done)
                    if old is None or new.peak < old.peak:
                        found[new.done] = new
            beam = sorted(found.values(), key=lambda s: (s.peak, s.live, s.order))[:width]
        return beam[0].order

    def arena(self, order: Sequence[int]) -> int:
        """The bytes of the planned arena of an order."""
        sizes = dict(enumerate(self.sizes))
        return place(lifetimes((self.touches[k] for k in order), sizes), _ALIGNMENT).nbytes


def memory_order(kernels: Sequence[UOp], edges: Mapping[UOp, Iterable[UOp]]) -> list[UOp]:
    """`kernels`, given in an order that respects `edges` (kernel -> those that come later), in one that
    needs an arena of at most the same size."""
    problem = _Problem(kernels, edges)
    given = tuple(range(len(kernels)))
    widths = (1, BEAM) if len(kernels) <= MANY else (1,)
    orders = [given, *(problem.search(w) for w in widths)]
    best = min(orders, key=lambda order: (problem.arena(order), orders.index(order)))
    return [kernels[i] for i in best]
