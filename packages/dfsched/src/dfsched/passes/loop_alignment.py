"""Which loops of the generics of a compute group run over the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from dfsched.passes.ir_tools import Definitions
from ktir.affine import AffineMap, Dim
from ktir.dialects import linalg
from ktir.ir import Value

__all__ = ["Alignment", "Axis"]

Axis = tuple[linalg.Generic, int]
"""A loop of a generic."""


@define(eq=False)
class Alignment:
    """Loops of different generics that run over the same thing, as classes; each has a representative."""

    generics: Sequence[linalg.Generic]
    definitions: Definitions
    parents: dict[Axis, Axis] = field(factory=dict)
    walked: set[Axis] = field(factory=set)

    @classmethod
    def of(cls, generics: Sequence[linalg.Generic], definitions: Definitions) -> Alignment:
        """Align by results that are read, then by loads that are shared where this merges no two loops of one
        generic."""
        found = cls(generics, definitions)
        for op in generics:
            for dim in range(len(op.iterators)):
                found.parents[op, dim] = (op, dim)
        for op in generics:
            for value, map in zip((*op.inputs, *op.outputs), op.maps, strict=True):
                producer = definitions.definer(value)
                if isinstance(producer, linalg.Generic) and producer in generics:
                    found._feed(producer, op, map)
        known: dict[tuple[Value, int], list[Axis]] = {}
        for op in generics:
            for value, map in zip(op.inputs, op.maps, strict=False):
                for position, expr in enumerate(map.results):
                    if isinstance(expr, Dim):
                        known.setdefault((value, position), []).append((op, expr.position))
        for axes in known.values():
            for axis in axes[1:]:
                if not found._clash(axes[0], axis):
                    found._unite(axes[0], axis)
        found._classify()
        return found

    def root(self, axis: Axis) -> Axis:
        """The representative of a loop's class."""
        while self.parents[axis] != axis:
            axis = self.parents[axis]
        return axis

    def is_outer(self, axis: Axis) -> bool:
        return self.root(axis) not in self.walked

    def walk(self, axes: Iterable[Axis]) -> None:
        """Walk loops that were outer ones."""
        self.walked.update(self.root(axis) for axis in axes)

    def _unite(self, a: Axis, b: Axis) -> None:
        a, b = self.root(a), self.root(b)
        if a == b:
            return
        if b in self.walked:
            self.walked.add(a)
        self.parents[b] = a

    def _members(self, axis: Axis) -> list[Axis]:
        root = self.root(axis)
        return [other for other in self.parents if self.root(other) == root]

    def _clash(self, a: Axis, b: Axis) -> bool:
        if self.root(a) == self.root(b):
            return False
        mine = {op for op, _ in self._members(a)}
        return any(op in mine for op, _ in self._members(b))

    def _feed(self, producer: linalg.Generic, user: linalg.Generic, map: AffineMap) -> None:
        out = producer.maps[-1]
        for made, read in zip(out.results, map.results, strict=True):
            assert isinstance(made, Dim)
            if isinstance(read, Dim):
                self._unite((producer, made.position), (user, read.position))
            else:
                self.walked.add(self.root((producer, made.position)))
                for dim in read.dims():
                    self.walked.add(self.root((user, dim)))

    def _classify(self) -> None:
        self.walked = {self.root(axis) for axis in self.walked}
        for axis in list(self.parents):
            members = self._members(axis)
            owners = [op for op, _ in members]
            reduced = any(op.iterators[dim] != "parallel" for op, dim in members)
            if reduced or len(set(owners)) != len(owners) or len(owners) != len(self.generics):
                self.walked.add(self.root(axis))
