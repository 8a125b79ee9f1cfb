"""What the rules of level S ask about a module: constants, grids, sets, what differs between tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ktir.affine import AffineError, AffineSet
from ktir.analysis import DefUse
from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr
from ktir.dialects.func import Func
from ktir.dialects.ktdp import ConstructMemoryView
from ktir.dialects.ktdp.types import AccessTileType
from ktir.grid import GridError, grid_of
from ktir.ir import Operation, UnregisteredOp, Value
from ktir.machine import Machine, MachineError
from ktir.strict.uniformity import varying_values

POINT_LIMIT = 1 << 16
"""Points of a set that a rule enumerates at most; a rule about a larger set that is no box is skipped."""

_FOLDED_OPERANDS = 8

Span = tuple[int, int]
"""First and last coordinate along a dimension."""


class Facts:
    """A snapshot of one verified module."""

    def __init__(self, module: Operation, machine: Machine) -> None:
        self.module = module
        self.defuse = DefUse(module)
        self._machine = machine
        self._machines: dict[Operation | None, Machine] = {}

    # -- surroundings

    def function(self, op: Operation) -> Func | None:
        """The function around an operation (or itself)."""
        around = (op, *self.defuse.ancestors(op))
        return next((a for a in around if isinstance(a, Func)), None)

    def grid(self, op: Operation) -> tuple[int, ...] | None:
        """The grid of the function around an operation; None without one, or where it is malformed."""
        function = self.function(op)
        try:
            return None if function is None else grid_of(function)
        except GridError:
            return None

    def machine(self, op: Operation) -> Machine:
        """The machine, with the switches of the modules around an operation."""
        function = self.function(op)
        known = self._machines.get(function)
        if known is None:
            known = self._machines[function] = self._switched(op)
        return known

    def _switched(self, op: Operation) -> Machine:
        attributes: dict[str, Attribute] = {}
        for around in reversed(self.defuse.ancestors(op)):
            attributes.update(around.attributes)
        try:
            return self._machine.for_module(attributes)
        except MachineError:  # the verifier has reported it
            return self._machine

    def uses_name(self, value: Value) -> str:
        """How the text names a value, for messages."""
        return f"%{value.name}" if value.name else "a value"

    # -- constants

    @cached_property
    def _constants(self) -> Mapping[Value, IntegerAttr]:
        found: dict[Value, IntegerAttr] = {}
        for op in self.module.walk():
            if isinstance(op, UnregisteredOp) or len(op.results) != 1 or len(op.operands) > _FOLDED_OPERANDS:
                continue
            known = [found.get(operand) for operand in op.operands]
            if None in known:
                continue
            match op.fold(known):
                case (IntegerAttr() as value,):
                    found[op.results[0]] = value
        return found

    def constant(self, value: int | Value) -> int | None:
        """The number that a value always is, if that can be seen."""
        if isinstance(value, int):
            return value
        known = self._constants.get(value)
        return None if known is None else known.value

    def constants(self, values: Sequence[int | Value]) -> tuple[int, ...] | None:
        """All of several values, None where one of them is not constant."""
        numbers = [self.constant(value) for value in values]
        known = [number for number in numbers if number is not None]
        return tuple(known) if len(known) == len(numbers) else None

    # -- views and sets

    def view(self, value: Value) -> ConstructMemoryView | None:
        """The operation that constructs a view, if `value` is directly its result."""
        op = self.defuse.definer(value)
        return op if isinstance(op, ConstructMemoryView) else None

    def spans(self, set: AffineSet, symbols: Sequence[int] | None) -> tuple[Span, ...] | None:
        """The box around a set; None if the set is empty, unknown (open symbols) or not bounded."""
        if symbols is None or len(symbols) != set.num_symbols:
            return None
        try:
            return set.bounding_box(symbols, limit=POINT_LIMIT)
        except AffineError:
            return None

    def base(self, tile: Value) -> Value | None:
        """The memref or tensor whose coordinates an access tile holds."""
        op = self.defuse.definer(tile)
        if op is None or not isinstance(tile.type, AccessTileType) or not op.operands:
            return None
        return op.operands[0]

    # -- differences between tiles

    @cached_property
    def varying(self) -> frozenset[Value]:
        """Values that may differ between compute tiles, because they depend on the tile id."""
        return varying_values(self.module)
