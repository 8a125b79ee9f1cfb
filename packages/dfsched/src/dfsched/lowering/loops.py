"""Loops of one program unit: plain ones, tiles, loops over instances, rotating buffers (dataflowir spec 3.8
to 3.10).

A rotating buffer of two copies travels through the loops of its phase as a loop-carried start address that
toggles once per iteration; with more copies the number of the phase travels and picks the address.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from dfsched.dialects.ktdf import (
    BufferPhase,
    DataTransfer,
    DeriveSize,
    LinearizeIndex,
    Parallel,
    SelectMemref,
)
from dfsched.dialects.ktdf_lowering import ExecuteOn
from dfsched.lowering.errors import LoweringError, UnsupportedLowering
from dfsched.lowering.values import Buffer, Known, Meaning, Nothing, Rotating, Runtime, Shifted, Vector
from dfsched.options import Profile
from dfsched.passes.index_arithmetic import buffer_address
from ktir.attributes import IntegerAttr, index_attr
from ktir.dialects import arith, memref, scf
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.types import I1, INDEX, Type, VectorType

if TYPE_CHECKING:
    from dfsched.lowering.program_unit import ProgramUnitBuilder

__all__ = ["Loops", "Tile"]


@frozen
class Tile:
    """The trip count of a point loop: `full`, or `rest` in the last tile; `is_full` is a value of the
    program.
    """

    is_full: Value
    full: int
    rest: int


@define(eq=False)
class _Carry:
    """A rotating buffer on its way through loops: start addresses in phase order, what is carried now.

    `first` counts phases from buffer 0 and toggles behind the body; otherwise it toggles in front of it.
    """

    variables: tuple[Value, ...]
    starts: tuple[int, ...]
    first: bool
    current: Value | None = None

    @property
    def is_address(self) -> bool:
        return len(self.starts) == 2

    def initial(self) -> int:
        """What goes into the outermost loop."""
        if self.is_address:
            return self.starts[0] if self.first else self.starts[1]
        return 0 if self.first else len(self.starts) - 1


@define
class Loops:
    """The loops of one program unit."""

    unit: ProgramUnitBuilder
    tiles: dict[Value, Tile] = field(factory=dict)
    _carries: dict[Value, list[_Carry]] = field(factory=dict)
    _by_select: dict[Operation, _Carry] = field(factory=dict)

    # -- plain loops

    def loop(self, op: scf.For) -> None:
        bounds = [self.unit.scalar(value, op) for value in op.operands[:3]]
        inits = [self.unit.carried(value, op) for value in op.inits]
        carries = self._carries.get(op.induction_variable, [])
        entering = [self._entering(carry, op) for carry in carries]
        iv = BlockArgument(op.induction_variable.type, op.induction_variable.name)
        carried = [BlockArgument(new.type, old.name) for old, new in zip(op.carried, inits, strict=True)]
        rotating = [BlockArgument(INDEX) for _ in carries]
        self.unit.meanings[op.induction_variable] = Runtime(iv)
        self.unit.meanings.update({old: _held(new) for old, new in zip(op.carried, carried, strict=True)})

        def body() -> None:
            inner = [carry for carry in carries if carry.variables[-1] is op.induction_variable]
            for carry, argument in zip(carries, rotating, strict=True):
                carry.current = argument
            for carry in inner:
                if not carry.first:
                    carry.current = self._toggled(carry)
            self.unit.walk(op.body.block.operations[:-1])
            yielded = [self.unit.carried(value, op) for value in op.body.block.terminator.operands]
            for carry in carries:
                if carry in inner and carry.first:
                    carry.current = self._toggled(carry)
                assert carry.current is not None
                yielded.append(carry.current)
            self.unit.emit(scf.Yield.create(yielded))

        operations = self.unit.nested(body)
        loop = scf.For.create(
            (*bounds, *inits, *entering),
            [value.type for value in (*inits, *rotating)],
            regions=(Region.of(operations, (iv, *carried, *rotating)),),
            location=op.location,
        )
        self.unit.emit(loop)
        count = len(op.outputs)
        for carry, result in zip(carries, loop.outputs[count:], strict=True):
            carry.current = result
        outputs = zip(op.outputs, loop.outputs[:count], strict=True)
        self.unit.meanings.update({old: _held(new) for old, new in outputs})

    # -- rotating buffers

    def prepare(self, work: Sequence[Operation]) -> None:
        """Find the rotating buffers that this unit uses, and the loops that carry them."""
        uses = self.unit.kinds.uses
        for root in work:
            for op in root.walk():
                if isinstance(op, SelectMemref) and any(
                    self._is_own(user) for user in uses.users(op.selected)
                ):
                    phase = uses.definer(op.phase)
                    if isinstance(phase, BufferPhase):
                        self._prepare(op, phase)

    def _is_own(self, user: Operation) -> bool:
        """Whether the unit is among those that run an operation."""
        kinds = self.unit.kinds
        around = next((a for a in kinds.uses.ancestors(user) if isinstance(a, ExecuteOn)), None)
        return around is None or kinds.runs(self.unit.kind, around.units)

    def _prepare(self, select: SelectMemref, phase: BufferPhase) -> None:
        uses = self.unit.kinds.uses
        if self.unit.shared.profile is Profile.V1:
            _check_two_phases(select, phase)
        variables = [v for v in phase.indices if not isinstance(uses.definer(v), arith.Constant)]
        if not variables:
            raise LoweringError.at(phase.location, "buffer_phase must have at least one IV")
        around = [a for a in uses.ancestors(select) if isinstance(a, scf.For | Parallel)]
        loops = around[: len(variables)][::-1]
        ivs = [loop.induction_variable if isinstance(loop, scf.For) else None for loop in loops]
        if len(ivs) != len(variables) or any(a is not b for a, b in zip(ivs, variables, strict=True)):
            raise LoweringError.at(phase.location, "buffer_phase loops do not enclose the select directly")
        self._by_select[select] = carry = _Carry(tuple(variables), (), self._is_buffer_first())
        for variable in variables:
            self._carries.setdefault(variable, []).append(carry)

        copies = [self._copy(candidate, select) for candidate in select.candidates]
        if len({type for _, type in copies}) > 1:
            raise LoweringError.at(
                select.location, "get_logical_memory_view operations must match except for offset"
            )
        carry.starts = tuple(start for start, _ in copies)

    def _copy(self, candidate: Value, select: SelectMemref) -> tuple[int, Type]:
        """Address and type of one copy of a rotating buffer."""
        uses = self.unit.kinds.uses
        cast = uses.definer(candidate)
        while isinstance(cast, memref.Cast):
            candidate = cast.source
            cast = uses.definer(candidate)
        address = buffer_address(cast, uses)
        if address is None:
            raise LoweringError.at(
                select.location, "select_memref operands must be get_logical_memory_view operations"
            )
        return address, candidate.type

    def _is_buffer_first(self) -> bool:
        architecture = self.unit.shared.architecture
        return not architecture.unit(self.unit.kind.name).double_buffer_last

    def _entering(self, carry: _Carry, op: scf.For) -> Value:
        if carry.variables[0] is op.induction_variable:
            return self.unit.shared.constant(carry.initial())
        assert carry.current is not None
        return carry.current

    def _toggled(self, carry: _Carry) -> Value:
        """The address or phase of the next iteration."""
        constant = self.unit.shared.constant
        assert carry.current is not None
        if carry.is_address:
            both = constant(sum(carry.starts))
            return self.unit.emit(arith.SubI.create((both, carry.current), (INDEX,)))
        next = self.unit.emit(arith.AddI.create((carry.current, constant(1)), (INDEX,)))
        return self.unit.emit(arith.RemUI.create((next, constant(len(carry.starts))), (INDEX,)))

    def select(self, op: SelectMemref) -> None:
        """The view of this iteration's copy."""
        carry = self._by_select.get(op)
        if carry is None:
            self.unit.meanings[op.selected] = Nothing()
            return
        buffer = self.unit.meaning(op.candidates[0], op)
        if not isinstance(buffer, Buffer):
            raise LoweringError.at(
                op.location, "select_memref operands must be get_logical_memory_view operations"
            )
        start = self._address(carry)
        view = self.unit.views.at_runtime(buffer, Runtime(start))
        self.unit.meanings[op.selected] = Rotating(view, buffer, start)

    def _address(self, carry: _Carry) -> Value:
        assert carry.current is not None
        if carry.is_address:
            return carry.current
        constant, emit = self.unit.shared.constant, self.unit.emit
        starts = carry.starts
        steps = {b - a for a, b in itertools.pairwise(starts)}
        if len(steps) == 1:
            offset = emit(arith.MulI.create((carry.current, constant(steps.pop())), (INDEX,)))
            return emit(arith.AddI.create((offset, constant(starts[0])), (INDEX,)))
        found = constant(starts[-1])
        for number, start in enumerate(starts[:-1]):
            found = self._pick(carry.current, number, constant(start), found)
        return found

    def _pick(self, value: Value, number: int, yes: Value, no: Value) -> Value:
        flag = self._compare(arith.CmpIPredicate.EQ, value, self.unit.shared.constant(number))
        return self.unit.emit(arith.Select.create((flag, yes, no), (INDEX,)))

    def _compare(self, predicate: arith.CmpIPredicate, a: Value, b: Value) -> Value:
        entries = {"predicate": IntegerAttr(predicate)}
        return self.unit.emit(arith.CmpI.create((a, b), (I1,), entries))

    # -- tiles

    def derive(self, op: DeriveSize) -> None:
        """The trip count of a point loop."""
        pairs = list(zip(op.loop_variables, op.tile_sizes, strict=True))
        total = self.unit.meaning(op.total_size, op)
        known = [self.unit.meaning(value, op) for value in op.operands]
        if all(isinstance(meaning, Known) for meaning in known):
            rest: Meaning = total
            for variable, size in pairs:
                rest = self._rest(rest, self.unit.meaning(variable, op), self.unit.meaning(size, op))
            self.unit.meanings[op.size] = rest
            return
        whole, part = _uniform(total), _uniform(self.unit.meaning(pairs[-1][1], op))
        if len(pairs) == 1 and whole and part:
            self._single(op, whole, part)
            return
        rest = total
        for variable, tile in pairs:
            rest = self._rest(rest, self.unit.meaning(variable, op), self.unit.meaning(tile, op))
        self.unit.meanings[op.size] = rest

    def _single(self, op: DeriveSize, total: int, size: int) -> None:
        if total % size == 0:
            self.unit.meanings[op.size] = Known((size,) * self.unit.rows)
            return
        variable = self.unit.scalar(op.loop_variables[0], op)
        constant = self.unit.shared.constant
        full = self._compare(arith.CmpIPredicate.SLT, variable, constant(total // size))
        rest = constant(total % size)
        value = self.unit.emit(arith.Select.create((full, constant(size), rest), (INDEX,)))
        self.unit.meanings[op.size] = Runtime(value)
        self.tiles[op.size] = Tile(full, size, total % size)

    def _rest(self, rest: Meaning, variable: Meaning, size: Meaning) -> Meaning:
        """``clamp(rest - variable * size, 0, size)``."""
        used = self.compute(arith.MulI, variable, size)
        left = self.compute(arith.SubI, rest, used)
        zero = Known((0,) * self.unit.rows)
        return self.compute(arith.MinSI, self.compute(arith.MaxSI, left, zero), size)

    def linearize(self, op: LinearizeIndex) -> None:
        total: Meaning = Known((0,) * self.unit.rows)
        for variable, stride in zip(op.variables, op.strides, strict=True):
            term = self.compute(arith.MulI, self.unit.meaning(variable, op), self.unit.meaning(stride, op))
            total = self.compute(arith.AddI, total, term)
        self.unit.meanings[op.index] = total

    def compute(self, cls: type[Operation], a: Meaning, b: Meaning) -> Meaning:
        """A binary index operation on two numbers; on known ones at once."""
        if isinstance(a, Known) and isinstance(b, Known):
            op = cls.create((self.unit.iter_arg, self.unit.iter_arg), (INDEX,))
            return Known(tuple(_folded(op, x, y) for x, y in zip(a.values, b.values, strict=True)))
        if cls in _NEUTRAL and _uniform(b) == _NEUTRAL[cls]:
            return a
        if cls in (arith.AddI, arith.MulI) and _uniform(a) == _NEUTRAL[cls]:
            return b
        values = (self.unit.runtime(a).value, self.unit.runtime(b).value)
        return Runtime(self.unit.emit(cls.create(values, (INDEX,))))

    # -- instances

    def parallel(self, op: Parallel) -> None:
        """A loop over the chunk of the executing instance (the unit's corelet)."""
        if len(op.lower) != 1:
            raise UnsupportedLowering.at(
                op.location, "Expect 1 dimensional ktdf.parallel (with exactly 2 block arguments)"
            )
        if self.unit.shared.profile is Profile.V1:
            self._equal_chunks(op)
            return
        instances = op.num_instances.value
        lower, upper, step = (
            self.unit.meaning(value, op) for value in (op.lower[0], op.upper[0], op.step[0])
        )
        corelets = Known(tuple(max(unit.corelet, 0) for unit in self.unit.kind.units))
        count = Known((instances,) * self.unit.rows)
        span = self.compute(arith.SubI, upper, lower)
        points = self.compute(arith.CeilDivUI, span, step)
        chunk = self.compute(arith.MulI, self.compute(arith.CeilDivUI, points, count), step)
        start = self.compute(arith.AddI, lower, self.compute(arith.MulI, chunk, corelets))
        end = self.compute(arith.MinSI, self.compute(arith.AddI, start, chunk), upper)
        (variable,) = op.induction_variables
        iv = BlockArgument(INDEX, variable.name)
        self.unit.meanings[variable] = Runtime(iv)
        self.unit.meanings[op.instance] = corelets
        bounds = [self.unit.runtime(meaning).value for meaning in (start, end, step)]
        body = self.unit.nested(lambda: self.unit.walk(op.body.block.operations[:-1]))
        self.unit.emit(scf.For.build(bounds[0], bounds[1], bounds[2], body, iv, location=op.location))

    def _equal_chunks(self, op: Parallel) -> None:
        """As the first published version does: all count from 0, and views start at the chunk."""
        uses = self.unit.kinds.uses
        (variable,) = op.induction_variables
        if uses.users(op.instance):
            raise LoweringError.at(
                op.location, "instance_id expected to have no uses for lowering to scf.for"
            )
        if not all(isinstance(user, DataTransfer) for user in uses.users(variable)):
            raise LoweringError.at(
                op.location, "loop_iv can only be used in agen.vector_load/store operations"
            )
        upper = _uniform(self.unit.meaning(op.upper[0], op))
        if upper is None:
            raise LoweringError.at(op.location, "Upper bound must be a constant for lowering")
        if [_uniform(self.unit.meaning(v, op)) for v in (op.lower[0], op.step[0])] != [0, 1]:
            raise LoweringError.at(op.location, "Lower bound and step must be 0 and 1 for lowering")
        chunk, rest = divmod(upper, op.num_instances.value)
        if rest:
            raise LoweringError.at(op.location, "Upper bound must be evenly divisible by num_instances")
        iv = BlockArgument(INDEX, variable.name)
        starts = tuple(max(unit.corelet, 0) * chunk for unit in self.unit.kind.units)
        self.unit.meanings[variable] = Shifted(iv, starts)
        body = self.unit.nested(lambda: self.unit.walk(op.body.block.operations[:-1]))
        bounds = [self.unit.shared.constant(number) for number in (0, chunk, 1)]
        self.unit.emit(scf.For.build(bounds[0], bounds[1], bounds[2], body, iv, location=op.location))


def _check_two_phases(select: SelectMemref, phase: BufferPhase) -> None:
    """What the first published version takes."""
    if phase.num_phases.value != 2:
        raise LoweringError.at(phase.location, "buffer_phase must have num_phases = 2 for double buffering")
    if len(select.candidates) != 2:
        raise LoweringError.at(select.location, "select_memref must have exactly 2 candidate memrefs")


def _held(value: Value) -> Meaning:
    """What a carried value of the new program is."""
    return Vector(value) if isinstance(value.type, VectorType) else Runtime(value)


_NEUTRAL: dict[type[Operation], int] = {arith.AddI: 0, arith.SubI: 0, arith.MulI: 1, arith.CeilDivUI: 1}
"""Right operands that change nothing."""


def _folded(op: Operation, a: int, b: int) -> int:
    """The value of an index operation on two numbers; 0 for a division by zero."""
    folded = op.fold((index_attr(a), index_attr(b)))
    return folded[0].value if folded and isinstance(folded[0], IntegerAttr) else 0


def _uniform(meaning: Meaning) -> int | None:
    return meaning.uniform if isinstance(meaning, Known) else None
