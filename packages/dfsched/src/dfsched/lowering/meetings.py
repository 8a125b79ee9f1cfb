"""Which units of two parts of a program use the same memory, so that they have to meet in between.

Buffers are told apart by their addresses, views of the kernel by their arguments or addresses; a view in
the scratchpad and a buffer never overlap (`address-assignment` sees to that). What is not known counts as
the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import define

from dfsched.architecture import Architecture
from dfsched.architecture.kinds import Kind, kind_of
from dfsched.dialects.ktdf import DataTransfer, Pipeline, Private, SelectMemref, Stage
from dfsched.lowering.stage_units import components
from dfsched.passes.index_arithmetic import buffer_address
from ktir.analysis import DefUse
from ktir.attributes import IntegerAttr, StringAttr
from ktir.dialects import arith, memref
from ktir.dialects.ktdp import ConstructMemoryView
from ktir.ir import BlockArgument, Operation, Value
from ktir.types import MemRefType, bit_width

__all__ = ["Access", "Accesses", "Meetings", "Memory", "may_alias", "memory_of", "origin"]


def origin(value: Value, uses: DefUse) -> tuple[Value, Operation | None]:
    """The value behind casts and private results, and its definition."""
    while True:
        definer = uses.definer(value)
        match definer:
            case Private():
                value = definer.yielded[definer.results.index(value)]
            case memref.Cast() | memref.MemorySpaceCast() | memref.ReinterpretCast() | memref.SubView():
                value = definer.operands[0]
            case _:
                return value, definer


@define(frozen=True)
class Memory:
    """What is known of a transfer's device memory: argument or constant base, size in elements."""

    base: Value | None
    start: int | None
    elements: int | None


def memory_of(value: Value, uses: DefUse) -> Memory | None:
    """None for scratchpad buffers, which rules 1 and 2 take care of."""
    _, definer = origin(value, uses)
    if not isinstance(definer, ConstructMemoryView):
        return None
    base, start = _base(definer.offset, uses)
    sizes, strides = definer.mixed_sizes, definer.mixed_strides
    elements: int | None = 1
    for size, stride in zip(sizes, strides, strict=True):
        if elements is not None and isinstance(size, int) and isinstance(stride, int):
            elements += (size - 1) * abs(stride)
        else:
            elements = None
    return Memory(base, start, elements)


def _base(value: Value, uses: DefUse) -> tuple[Value | None, int | None]:
    """The argument that an address comes from, or None and the constant (None: not constant)."""
    match uses.definer(value):
        case None:
            return value if isinstance(value, BlockArgument) else None, None
        case arith.Constant(value=IntegerAttr(value=number)):
            return None, number
        case op:
            for operand in op.operands:
                base, _ = _base(operand, uses)
                if base is not None:
                    return base, None
            return None, None


def may_alias(a: Memory | None, b: Memory | None) -> bool:
    if a is None or b is None:
        return False
    if a.base is not None or b.base is not None:
        return a.base is b.base
    if a.start is None or b.start is None or a.elements is None or b.elements is None:
        return True
    return a.start < b.start + b.elements and b.start < a.start + a.elements


@define(frozen=True)
class Access:
    """A use of memory: by a unit kind, of a memory kind (None: unknown).

    `memory` is known of views, `span` (first byte, last byte and one) of buffers; neither of anything else.
    """

    unit: str
    kind: Kind | None
    writes: bool
    memory: Memory | None = None
    span: tuple[int, int] | None = None


Accesses = dict[Value, list[Access]]
"""By query: what the unit behind it does."""


@define
class Meetings:
    """Finds the pairs of units that have to meet."""

    uses: DefUse
    architecture: Architecture

    def accesses(self, op: Operation, units: Mapping[Stage, Sequence[Value]]) -> Accesses:
        """What the units of all leaf stages below an operation do; an entry for every unit."""
        found: Accesses = {}
        for stage in op.walk():
            if not isinstance(stage, Stage) or any(isinstance(o, Pipeline) for o in stage.walk()):
                continue
            kind = components(stage)[0]
            name = kind.value if isinstance(kind, StringAttr) else str(kind)
            own = [access for inner in stage.walk() for access in self._accesses(inner, name)]
            for query in units[stage]:
                found.setdefault(query, []).extend(own)
        return found

    def _accesses(self, op: Operation, unit: str) -> Iterator[Access]:
        if not isinstance(op, DataTransfer):
            return
        for value, writes in ((op.source, False), (op.dest, True)):
            if isinstance(value.type, MemRefType):
                yield from self._of(value, unit, writes)

    def _of(self, value: Value, unit: str, writes: bool) -> Iterator[Access]:
        type = value.type
        assert isinstance(type, MemRefType)
        kind = (
            None if type.memory_space is None else self.architecture.memory_kind(kind_of(type.memory_space))
        )
        _, definer = origin(value, self.uses)
        match definer:
            case SelectMemref():
                for candidate in definer.candidates:
                    yield from self._of(candidate, unit, writes)
            case ConstructMemoryView():
                yield Access(unit, kind, writes, memory_of(value, self.uses))
            case _:
                start = buffer_address(definer, self.uses)
                if start is None or not type.is_static:
                    yield Access(unit, kind, writes)
                    return
                size = type.num_elements() * ((bit_width(type.element) + 7) // 8)
                yield Access(unit, kind, writes, None, (start, start + size))

    def pairs(
        self, before: Accesses, after: Accesses, instances: Mapping[Value, int]
    ) -> list[tuple[Value, ...]]:
        """Pairs of different units, not of different instances, of which one writes what the other uses."""
        found: dict[frozenset[Value], tuple[Value, ...]] = {}
        for u, first in before.items():
            for v, second in after.items():
                if instances.get(u) != instances.get(v):
                    continue
                if u is not v and any(self._conflict(a, b) for a in first for b in second):
                    found.setdefault(frozenset((u, v)), (u, v))
        return list(found.values())

    def _conflict(self, a: Access, b: Access) -> bool:
        if not (a.writes or b.writes) or (a.kind != b.kind and None not in (a.kind, b.kind)):
            return False
        if a.span is not None and b.span is not None:
            return a.span[0] < b.span[1] and b.span[0] < a.span[1]
        if a.memory is not None and b.memory is not None:
            return may_alias(a.memory, b.memory)
        if {a.span is None, b.span is None} == {True, False} and (a.memory or b.memory):
            return False
        shared = self.architecture.shared_memories
        return bool(shared(a.unit, b.unit) or shared(b.unit, a.unit))
