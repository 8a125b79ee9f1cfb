r"""`narrow-index-lanes`: index values in computations become integers that the compute unit has.

Takes functions whose compute is `linalg.generic` with static extents. An index in a body (`linalg.index`,
a loop variable from outside, arithmetic on them) has 64 bits, which no vector unit computes on. Leaves
bodies in which each `linalg.index` is followed by one `arith.index_cast` to the narrowest integer type
(of 16 and 32 bits) that the compute unit has lanes for and in which no value of the body can overflow; all
other operations work on that type. Values from outside are cast in front of the generic; one that nothing
bounds (an argument) and that is only compared is first brought to where no comparison notices it. Positions
that the body computes of indices in i64 are indices, too.

Before::

    %i = linalg.index 1 : index
    %p = arith.cmpi slt, %i, %c100 : index

After::

    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i16
    %p = arith.cmpi slt, %n, %c100_i16 : i16

>>> from dfsched.passes.examples import after, generic, kernel
>>> after("narrow-index-lanes", kernel(generic("(d0, d1) -> (d0, d1)",
... "%i = linalg.index 1 : index\n%k = arith.constant 9 : index\n%z = arith.constant 0.0 : f16\n"
... "%c = arith.cmpi slt, %i, %k : index\n%s = arith.select %c, %p, %z : f16")),
... r"linalg.index|index_cast|cmpi")
%7 = linalg.index 1 : index
%8 = arith.index_cast %7 : index to i16
%9 = arith.cmpi slt, %8, %c9_i16 : i16
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field, frozen

from dfsched.architecture import Architecture
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.fusion import captures
from dfsched.passes.generics import loop_extents, rewrite_generics
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions, post_order
from dfsched.passes.wide_positions import with_index_positions
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, ktdp, linalg, scf
from ktir.dialects.builtin import Module
from ktir.dialects.func import Func
from ktir.grid import grid_of
from ktir.ir import Operation, Region, Value
from ktir.location import Location
from ktir.types import I16, I32, INDEX, IntegerType

__all__ = ["PASS", "run"]

Range = tuple[int, int]

CANDIDATES = (I16, I32)


def run(module: Module, context: PassContext) -> Module:
    """Narrow the indices of every generic; `UnsupportedKernel` with all that cannot be narrowed."""
    if not any(isinstance(op, linalg.Index) for op in module.walk()) and not _captures_indices(module):
        return module
    definitions = Definitions(module)
    return rewrite_generics(
        module,
        _has_indices,
        lambda op: _Narrowing(with_index_positions(op), definitions, context.architecture).result(),
    )


PASS = Pass(
    "narrow-index-lanes", Group.FRONTEND, run, "indices in computations become integers that units compute on"
)


def _has_indices(op: linalg.Generic) -> bool:
    values = [value for inner in op.body.block.operations for value in (*inner.operands, *inner.results)]
    return any(value.type == INDEX for value in values)


def _captures_indices(module: Module) -> bool:
    return any(isinstance(op, linalg.Generic) and _has_indices(op) for op in module.walk())


_SIGNED = (
    arith.CmpIPredicate.SLT,
    arith.CmpIPredicate.SLE,
    arith.CmpIPredicate.SGT,
    arith.CmpIPredicate.SGE,
)


@frozen
class _Clamp:
    """The range that an index is brought into in front of a computation."""

    low: int
    high: int
    signed: bool

    def operations(self, value: Value, location: Location) -> list[Operation]:
        """What computes the value between the ends, which are elements of the range; the result is last."""
        high = arith.Constant.of(IntegerAttr(self.high, INDEX))
        least = arith.MinSI if self.signed else arith.MinUI
        cut = least.create([value, high.result], (INDEX,), location=location)
        if not self.signed:
            return [high, cut]
        low = arith.Constant.of(IntegerAttr(self.low, INDEX))
        return [high, cut, low, arith.MaxSI.create([cut.result, low.result], (INDEX,), location=location)]


def _fits(bounds: Range | None, type: IntegerType) -> bool:
    limit = 1 << (type.width - 1)
    return bounds is not None and -limit <= bounds[0] and bounds[1] < limit


@define(eq=False)
class _Narrowing:
    """One generic."""

    generic: linalg.Generic
    definitions: Definitions
    architecture: Architecture
    ranges: dict[Value, Range | None] = field(factory=dict)
    clamped: dict[Value, _Clamp] = field(factory=dict)

    def result(self) -> list[Operation]:
        """Casts of outside values and the new generic."""
        block = self.generic.body.block
        outside = [value for value in captures(self.generic) if value.type == INDEX]
        for value in outside:
            self.ranges[value] = value_range(value, self.definitions)
        for op in block.operations[:-1]:
            if any(value.type == INDEX for value in (*op.operands, *op.results)):
                self._bound(op)
        self._clamp(outside)
        target = self._type()
        before: list[Operation] = []
        mapping: dict[Value, Value] = {}
        for value in outside:
            inside = value
            if value in self.clamped:
                operations = self.clamped[value].operations(value, self.generic.location)
                before += operations
                inside = operations[-1].results[0]
            cast = arith.IndexCast.create([inside], (target,), location=self.generic.location)
            before.append(cast)
            mapping[value] = cast.results[0]
        body: list[Operation] = []
        for op in block.operations:
            body += self._narrowed(op, mapping, target)
        return [*before, self.generic.replace(regions=[Region((block.replace(operations=body),))])]

    def _type(self) -> IntegerType:
        known = [bounds for value, bounds in self.ranges.items() if value.type == INDEX]
        for type in CANDIDATES:
            if all(_fits(bounds, type) for bounds in known) and self.architecture.lanes(type):
                return type
        findings = Findings()
        for value, bounds in self.ranges.items():
            if value.type == INDEX and not _fits(bounds, I32):
                op = self.definitions.definer(value)
                with findings.noting():
                    raise UnsupportedKernel.at(
                        self.generic.location if op is None else op.location,
                        "an index takes part in a computation, but nothing bounds it to 32 bits",
                    )
        findings.check()
        names = " or ".join(str(type) for type in CANDIDATES)
        raise UnsupportedKernel.at(
            self.generic.location,
            f"indices take part in a computation, but the compute unit has no lanes of {names} for them",
        )

    # -- ranges

    def _clamp(self, outside: Sequence[Value]) -> None:
        """Bound outside values of unknown range by what they are compared with, if nothing else uses them."""
        loose = [value for value in outside if not _fits(self.ranges[value], I32)]
        for value in loose:
            clamp = self._comparisons(value)
            if clamp is not None:
                self.clamped[value] = clamp
        for value, clamp in self.clamped.items():
            self.ranges[value] = clamp.low, clamp.high

    def _comparisons(self, value: Value) -> _Clamp | None:
        """The clamp that no use of a value notices; None if there is a use that would."""
        others: list[Range] = []
        signed: set[bool] = set()
        for op in self.generic.body.block.operations:
            if value not in op.operands:
                continue
            if not isinstance(op, arith.CmpI):
                return None
            bounds = self._of(op.rhs if op.lhs is value else op.lhs)
            if bounds is None:
                return None
            others.append(bounds)
            if op.comparison not in (arith.CmpIPredicate.EQ, arith.CmpIPredicate.NE):
                signed.add(op.comparison in _SIGNED)
        low, high = min(low for low, _ in others), max(high for _, high in others)
        if False not in signed:
            return _Clamp(low - 1, high + 1, signed=True)
        if True in signed or low < 0:
            return None
        return _Clamp(0, high + 1, signed=False)

    def _of(self, value: Value) -> Range | None:
        if value in self.ranges:
            return self.ranges[value]
        if isinstance(value.type, IntegerType):
            width = value.type.width
            return (0, 1) if width == 1 else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
        return None

    def _bound(self, op: Operation) -> None:
        if op.results and op.results[0].type == INDEX:
            self.ranges[op.results[0]] = self._range(op)

    def _range(self, op: Operation) -> Range | None:
        match op:
            case linalg.Index():
                return 0, max(0, self._extent(op.dim.value) - 1)
            case arith.Constant(value=IntegerAttr(value=number)):
                return number, number
            case arith.IndexCast():
                return self._of(op.operands[0])
        bounds = [self._of(value) for value in op.operands]
        if None in bounds:
            return None
        return combined(op, [b for b in bounds if b is not None])

    def _extent(self, dim: int) -> int:
        return loop_extents(self.generic)[dim]

    # -- rewriting

    def _narrowed(self, op: Operation, mapping: dict[Value, Value], target: IntegerType) -> list[Operation]:
        operands = [mapping.get(value, value) for value in op.operands]
        match op:
            case linalg.Index():
                cast = arith.IndexCast.create([op.result], (target,), location=op.location)
                mapping[op.result] = cast.results[0]
                return [op, cast]
            case arith.Constant(value=IntegerAttr(value=number)) if op.result.type == INDEX:
                constant = arith.Constant.of(IntegerAttr(number, target))
                mapping[op.result] = constant.result
                return [constant]
            case arith.IndexCast():
                return self._recast(op, operands[0], mapping, target)
            case arith.IndexCastUI():
                raise UnsupportedKernel.at(op.location, f"'{op.name}' in a computation is not supported")
        touched = any(value.type == INDEX for value in (*op.operands, *op.results))
        if not touched:
            if operands == list(op.operands):
                return [op]
            return [op.replace(operands=operands)]
        types = [target if r.type == INDEX else r.type for r in op.results]
        new = op.__class__.create(operands, types, op.attributes, location=op.location)
        mapping.update(zip(op.results, new.results, strict=True))
        return [new]

    def _recast(
        self, op: arith.IndexCast, value: Value, mapping: dict[Value, Value], target: IntegerType
    ) -> list[Operation]:
        wanted = target if op.results[0].type == INDEX else op.results[0].type
        assert isinstance(wanted, IntegerType)
        assert isinstance(value.type, IntegerType)
        if value.type == wanted:
            mapping[op.results[0]] = value
            return []
        cast = arith.ExtSI if wanted.width > value.type.width else arith.TruncI
        new = cast.create([value], (wanted,), location=op.location)
        mapping[op.results[0]] = new.results[0]
        return [new]


def combined(op: Operation, bounds: Sequence[Range]) -> Range | None:
    """The range of an operation on ranges; None if it is not known."""
    match op:
        case arith.AddI():
            return bounds[0][0] + bounds[1][0], bounds[0][1] + bounds[1][1]
        case arith.SubI():
            return bounds[0][0] - bounds[1][1], bounds[0][1] - bounds[1][0]
        case arith.MulI():
            products = [a * b for a in bounds[0] for b in bounds[1]]
            return min(products), max(products)
        case arith.DivUI() | arith.DivSI() | arith.FloorDivSI() if bounds[0][0] >= 0 and bounds[1][0] > 0:
            return bounds[0][0] // bounds[1][1], bounds[0][1] // bounds[1][0]
        case arith.CeilDivUI() | arith.CeilDivSI() if bounds[0][0] >= 0 and bounds[1][0] > 0:
            return 0, -(-bounds[0][1] // bounds[1][0])
        case arith.RemUI() | arith.RemSI() if bounds[0][0] >= 0 and bounds[1][0] > 0:
            return 0, min(bounds[0][1], bounds[1][1] - 1)
        case arith.MinSI():
            return min(bounds[0][0], bounds[1][0]), min(bounds[0][1], bounds[1][1])
        case arith.MaxSI():
            return max(bounds[0][0], bounds[1][0]), max(bounds[0][1], bounds[1][1])
        case arith.MinUI() | arith.MaxUI() if bounds[0][0] >= 0 and bounds[1][0] >= 0:
            return min(bounds[0][0], bounds[1][0]), max(bounds[0][1], bounds[1][1])
        case arith.Select():
            return min(bounds[1][0], bounds[2][0]), max(bounds[1][1], bounds[2][1])
        case _:
            return None


def value_range(value: Value, definitions: Definitions) -> Range | None:
    """The range of an index outside of computations: constants, tile ids, loop variables, arithmetic."""

    def inputs(current: Value) -> Sequence[Value]:
        op = definitions.definer(current)
        if op is not None:
            return op.operands if len(op.results) == 1 and not op.regions else ()
        owner = definitions.region_owner(current)
        loop = isinstance(owner, scf.For) and current is owner.induction_variable
        return (owner.lower, owner.upper) if loop else ()  # type: ignore[union-attr]

    known: dict[Value, Range | None] = {}
    for current in post_order(value, inputs):
        known[current] = _outer_range(current, definitions, known)
    return known[value]


def _outer_range(value: Value, definitions: Definitions, known: dict[Value, Range | None]) -> Range | None:
    number = constant_value(value, definitions)
    if number is not None:
        return number, number
    op = definitions.definer(value)
    match op:
        case None:
            owner = definitions.region_owner(value)
            if not isinstance(owner, scf.For) or value is not owner.induction_variable:
                return None
            low, high = known[owner.lower], known[owner.upper]
            return None if low is None or high is None else (low[0], max(low[0], high[1] - 1))
        case ktdp.GetComputeTileId():
            return 0, max(0, _tiles(op, definitions) - 1)
        case _ if op.regions or len(op.results) != 1:
            return None
    bounds = [known[operand] for operand in op.operands]
    if isinstance(op, arith.MinSI | arith.MaxSI):  # one known end may be enough
        bounds = [_WORD if b is None else b for b in bounds]
    return None if None in bounds else combined(op, [b for b in bounds if b is not None])


_WORD: Range = (-(1 << 63), (1 << 63) - 1)
"""Every index value."""


def _tiles(op: Operation, definitions: Definitions) -> int:
    for ancestor in definitions.ancestors(op):
        if isinstance(ancestor, Func) and (grid := grid_of(ancestor)) is not None:
            return math.prod(grid)
    return 1
