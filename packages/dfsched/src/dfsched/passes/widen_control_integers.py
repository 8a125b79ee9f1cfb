"""`widen-control-integers`: what counts loops and finds places is computed in index values.

Takes KTIR. Front ends count in i32. Leaves loops with index bounds, and the arithmetic in i32 and i64 that
leads to bounds, subscripts and conditions in index values, which are what units compute with. Numbers that
also take part in computations on tensors keep their type there. A count that leaves the range of its type has
no meaning here (dataflowir spec 3.12): it does not wrap. What takes a number of fewer bits than an index as
unsigned gets those bits, unless it is certainly not negative. Shifts by constants are products and
quotients. Conditions that are passed at launch are compared with zero.

Before::

    %i0 = arith.muli %id, %c128_i32 : i32
    scf.for %i = %i0 to %n step %c512_i32 : i32 { %r = arith.index_cast %i : i32 to index ... }

After::

    %m = arith.index_cast %n : i32 to index
    %j0 = arith.muli %id_index, %c128 : index
    scf.for %r = %j0 to %m step %c512 { ... }

>>> from dfsched.passes.examples import example
>>> example("widen-control-integers", '''
... %c4 = arith.constant 4 : i32
... %m = arith.muli %i, %c4 : i32
... %k = arith.index_cast %m : i32 to index
... %x = memref.load %b[%k] : memref<8xf16>
... "use"(%x) : (f16) -> ()
... ''', arguments="%i: i32, %b: memref<8xf16>")
%0 = arith.index_cast %i : i32 to index
%c4 = arith.constant 4 : index
%1 = arith.muli %0, %c4 : index
%2 = memref.load %b[%1] : memref<8xf16>
"use"(%2) : (f16) -> ()
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import index_constant
from dfsched.passes.ir_tools import rewrite_kernels, substitute, without_unused
from ktir.analysis import is_pure
from ktir.attributes import IntegerAttr
from ktir.dialects import arith, func, ktdp, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import Location
from ktir.types import I1, INDEX, IndexType, IntegerType

__all__ = ["PASS", "run"]

ARITHMETIC = (
    arith.AddI,
    arith.SubI,
    arith.MulI,
    arith.DivSI,
    arith.DivUI,
    arith.FloorDivSI,
    arith.CeilDivSI,
    arith.CeilDivUI,
    arith.RemSI,
    arith.RemUI,
    arith.MinSI,
    arith.MinUI,
    arith.MaxSI,
    arith.MaxUI,
    arith.AndI,
    arith.OrI,
    arith.XOrI,
)
"""Operations that give the index value of their result from those of their operands: numbers are extended
with their sign, which keeps the order of unsigned numbers as well."""

UNSIGNED = (arith.DivUI, arith.CeilDivUI, arith.RemUI)
SHIFTS = (arith.ShLI, arith.ShRSI, arith.ShRUI)
WIDTHS = (32, 64)

KEEP_NATURAL = (
    *(arith.AddI, arith.MulI, arith.DivSI, arith.DivUI, arith.FloorDivSI, arith.CeilDivSI, arith.CeilDivUI),
    *(arith.RemSI, arith.RemUI, arith.MinSI, arith.MinUI, arith.MaxSI, arith.MaxUI, arith.AndI, arith.OrI),
    *(arith.XOrI, arith.IndexCast, arith.IndexCastUI, arith.ExtSI, arith.ExtUI, arith.ShRSI, arith.ShRUI),
)
"""Operations on natural numbers that give natural numbers."""


def run(module: Module, context: PassContext) -> Module:
    """Widen the control of every kernel."""
    if context.options.profile is Profile.V1:
        return module
    return rewrite_kernels(module, _kernel)


PASS = Pass(
    "widen-control-integers", Group.FRONTEND, run, "what counts loops and finds places is an index value"
)


def _kernel(kernel: func.Func) -> func.Func:
    if not any(_is_control(op) for op in kernel.walk()):
        return kernel
    widening = _Widening()
    block = kernel.body.block
    start = widening.arguments(block.arguments)
    operations = [substitute(op, widening.replaced) for op in widening.block(block.operations)]
    body = block.replace(operations=[*start, *operations])
    new = without_unused(kernel.replace(regions=[Region((body,))]), _is_number)
    assert isinstance(new, func.Func)
    return new


def _is_control(op: Operation) -> bool:
    """Whether an operation uses numbers that are no index values to find places or to decide."""
    match op:
        case scf.For():
            return not isinstance(op.lower.type, IndexType)
        case arith.IndexCast() | arith.CmpI() | arith.TruncI():
            return _is_wide(op.operands[0])
        case arith.IndexCastUI():
            return isinstance(op.operands[0].type, IntegerType) and op.operands[0].type != I1
        case _ if isinstance(op, SHIFTS):
            return isinstance(op.results[0].type, IndexType)
        case func.Func():
            return any(argument.type == I1 for argument in op.arguments)
        case _:
            return False


def _is_number(op: Operation) -> bool:
    """Whether an operation does nothing but compute numbers."""
    numbers = all(isinstance(result.type, IndexType | IntegerType) for result in op.results)
    return bool(op.results) and numbers and not op.regions and is_pure(op)


def _width(value: Value) -> int:
    """Bits of a number; an index has 64, what is no number 0."""
    match value.type:
        case IndexType():
            return 64
        case IntegerType(width=width):
            return width
        case _:
            return 0


def _is_wide(value: Value) -> bool:
    return isinstance(value.type, IntegerType) and value.type.width in WIDTHS


@define(eq=False)
class _Widening:
    """`twins` gives the index value of a number, `replaced` what stands for a value that goes, `naturals` are
    values that are certainly not negative, `constants` the numbers of constants."""

    twins: dict[Value, Value] = field(factory=dict)
    replaced: dict[Value, Value] = field(factory=dict)
    naturals: set[Value] = field(factory=set)
    constants: dict[Value, int] = field(factory=dict)

    def arguments(self, arguments: Sequence[BlockArgument]) -> list[Operation]:
        """Index values of what the launch passes."""
        found: list[Operation] = []
        for argument in arguments:
            if _is_wide(argument):
                cast = arith.IndexCast.create([argument], [INDEX])
                found.append(cast)
                self.twins[argument] = cast.results[0]
            elif argument.type == I1:
                number = arith.IndexCastUI.create([argument], [INDEX])
                zero = index_constant(0)
                flag = arith.CmpI.create(
                    [number.results[0], zero.result], [I1], {"predicate": IntegerAttr(arith.CmpIPredicate.NE)}
                )
                found += [number, zero, flag]
                self.replaced[argument] = flag.result
        return found

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        """The operations of a block, with the twins of their results behind them."""
        found: list[Operation] = []
        for op in operations:
            self._look(op)
            found += self._operation(op)
        return found

    def _look(self, op: Operation) -> None:
        """Remember what an operation says about its result."""
        match op:
            case arith.Constant(value=IntegerAttr(value=number)):
                self.constants[op.result] = number
                natural = number >= 0
            case ktdp.GetComputeTileId() | ktdp.RuntimeArgExtract():
                natural = True
            case scf.For() if op.lower in self.naturals:
                self.naturals.add(op.induction_variable)
                natural = False
            case arith.Select():
                natural = all(value in self.naturals for value in op.operands[1:])
            case _:
                natural = isinstance(op, KEEP_NATURAL) and all(v in self.naturals for v in op.operands)
        if natural:
            self.naturals.update(op.results)

    def _emit(self, kind: type[Operation], values: Sequence[Value], location: Location) -> Operation:
        """An operation on index values."""
        op = kind.create(values, [INDEX], location=location)
        self._look(op)
        return op

    def _number(self, number: int) -> arith.Constant:
        constant = index_constant(number)
        self._look(constant)
        return constant

    def _bits(self, value: Value, width: int, location: Location) -> list[Operation]:
        """The lower bits of an index value, as the result of the last operation."""
        mask = self._number(2**width - 1)
        bits = self._emit(arith.AndI, [value, mask.result], location)
        self.naturals.update(bits.results)
        return [mask, bits]

    def _unsigned(self, value: Value, location: Location) -> tuple[list[Operation], Value]:
        """The index value of a number that is taken as unsigned."""
        twin, width = self.twins[value], _width(value)
        if twin in self.naturals or width >= 64:
            return [], twin
        found = self._bits(twin, width, location)
        return found, found[-1].results[0]

    def _with_sign(self, value: Value, width: int, location: Location) -> tuple[list[Operation], Value]:
        """The index value of the number that has the lower bits of an index value."""
        half = self._number(1 << (width - 1))
        moved = self._emit(arith.AddI, [value, half.result], location)
        bits = self._bits(moved.results[0], width, location)
        back = self._emit(arith.SubI, [bits[-1].results[0], half.result], location)
        return [half, moved, *bits, back], back.results[0]

    def _operation(self, op: Operation) -> list[Operation]:
        match op:
            case scf.For() if not isinstance(op.lower.type, IndexType) and not op.inits:
                return self._loop(op)
            case scf.For() | scf.If():
                regions = [
                    Region(tuple(b.replace(operations=self.block(b.operations)) for b in region.blocks))
                    for region in op.regions
                ]
                return [op.replace(regions=regions)]
            case arith.IndexCast() if op.operands[0] in self.twins:
                self._replace(op, self.twins[op.operands[0]])
                return []
            case arith.IndexCastUI() if op.operands[0] in self.twins or 1 < _width(op.operands[0]) < 32:
                cast = self._known(op.operands[0], op.location)
                found, value = self._unsigned(op.operands[0], op.location)
                self._replace(op, value)
                return [*cast, *found]
            case arith.TruncI() if op.operands[0] in self.twins and _width(op.results[0]) > 1:
                width = _width(op.results[0])
                found, value = self._with_sign(self.twins[op.operands[0]], width, op.location)
                self.twins[op.results[0]] = value
                return [op, *found]
            case _ if isinstance(op, SHIFTS) and isinstance(op.results[0].type, IndexType):
                shifted = self._shift(op, op.operands[0])
                if not shifted:
                    return [op]
                self._replace(op, shifted[-1].results[0])
                return shifted
            case arith.CmpI() if all(value in self.twins for value in op.operands):
                return [op.replace(operands=[self.twins[value] for value in op.operands])]
            case _:
                twin = self._twin(op)
                return [op] if twin is None else [op, *twin]

    def _replace(self, op: Operation, value: Value) -> None:
        """Let a value stand for the result of an operation."""
        self.replaced[op.results[0]] = value
        if value in self.naturals:
            self.naturals.update(op.results)

    def _shift(self, op: Operation, value: Value) -> list[Operation]:
        """What a shift by a constant makes of an index value, its result last; nothing for others."""
        distance = self.constants.get(op.operands[1], -1)
        if not 0 <= distance < 63:
            return []
        kinds: dict[type[Operation], type[Operation]]
        kinds = {arith.ShLI: arith.MulI, arith.ShRSI: arith.FloorDivSI, arith.ShRUI: arith.DivUI}
        factor = self._number(1 << distance)
        return [factor, self._emit(kinds[type(op)], [value, factor.result], op.location)]

    def _twin(self, op: Operation) -> list[Operation] | None:
        """Operations that compute the index value of a number."""
        if len(op.results) != 1 or not _is_wide(op.results[0]):
            return None
        result, operands = op.results[0], op.operands
        match op:
            case arith.Constant(value=IntegerAttr(value=number)):
                constant = self._number(number)
                self.twins[result] = constant.result
                return [constant]
            case arith.IndexCast() | arith.IndexCastUI() if isinstance(operands[0].type, IndexType):
                self.twins[result] = operands[0]
                return []
            case arith.ExtSI() if operands[0].type != I1:
                cast = self._known(operands[0], op.location)
                self.twins[result] = self.twins[operands[0]]
                return cast
            case arith.ExtUI() if operands[0].type != I1:
                cast = self._known(operands[0], op.location)
                found, self.twins[result] = self._unsigned(operands[0], op.location)
                return [*cast, *found]
            case _ if isinstance(op, (*UNSIGNED, *SHIFTS)) and all(value in self.twins for value in operands):
                return self._unsigned_or_shift(op)
            case arith.ExtUI() | arith.ExtSI() if operands[0].type == I1:
                yes, no = index_constant(1 if isinstance(op, arith.ExtUI) else -1), index_constant(0)
                select = arith.Select.create(
                    [operands[0], yes.result, no.result], [INDEX], location=op.location
                )
                self.twins[result] = select.result
                return [yes, no, select]
            case arith.Select() if all(value in self.twins for value in operands[1:]):
                values = [operands[0], *(self.twins[value] for value in operands[1:])]
            case _ if isinstance(op, ARITHMETIC) and all(value in self.twins for value in operands):
                values = [self.twins[value] for value in operands]
            case _:
                return self._leaf(result, op.location)
        twin = self._emit(op.__class__, values, op.location)
        self.twins[result] = twin.results[0]
        return [twin]

    def _unsigned_or_shift(self, op: Operation) -> list[Operation]:
        """The twin of a division of unsigned numbers or of a shift by a constant."""
        result = op.results[0]
        found: list[Operation] = []
        if isinstance(op, arith.ShLI | arith.ShRSI):
            values = [self.twins[op.operands[0]]]
        else:
            parts = [
                self._unsigned(v, op.location) for v in op.operands[: 1 if isinstance(op, SHIFTS) else 2]
            ]
            found, values = [made for ops, _ in parts for made in ops], [value for _, value in parts]
        if isinstance(op, SHIFTS):
            shifted = self._shift(op, values[0])
            if not shifted:
                return self._leaf(result, op.location)
            found += shifted
        else:
            found.append(self._emit(op.__class__, values, op.location))
        value: Value = found[-1].results[0]
        if _width(result) < 64 and not self._keeps_sign(op):
            signed, value = self._with_sign(value, _width(result), op.location)
            found += signed
        self.twins[result] = value
        return found

    def _keeps_sign(self, op: Operation) -> bool:
        """Whether the result of a twin of unsigned or shifted numbers is within its type."""
        right = op.operands[1]
        if all(self.twins[value] in self.naturals for value in op.operands):
            return True
        match op:
            case arith.RemUI():
                return self.twins[right] in self.naturals  # less than the divisor
            case arith.DivUI() | arith.CeilDivUI():
                return self.constants.get(right, 1) > 1
            case arith.ShRUI():
                return self.constants[right] > 0
            case _:
                return True  # counts do not wrap

    def _known(self, value: Value, location: Location) -> list[Operation]:
        """What makes the index value of a number that has none yet."""
        return [] if value in self.twins else self._leaf(value, location)

    def _leaf(self, value: Value, location: Location) -> list[Operation]:
        cast = self._emit(arith.IndexCast, [value], location)
        self.twins[value] = cast.results[0]
        return [cast]

    def _loop(self, op: scf.For) -> list[Operation]:
        """A loop over index values; in its body the old variable is a cast of the new one."""
        before: list[Operation] = []
        bounds = []
        for value in (op.lower, op.upper, op.step):
            if value not in self.twins:
                cast = arith.IndexCast.create([value], [INDEX], location=op.location)
                before.append(cast)
                self.twins[value] = cast.results[0]
            bounds.append(self.twins[value])
        old = op.induction_variable
        variable = BlockArgument(INDEX, old.name, old.location)
        number = arith.IndexCast.create([variable], [old.type], location=op.location)
        block = op.body.block
        self.twins[number.results[0]] = variable
        if old in self.naturals:
            self.naturals.update((variable, number.results[0]))
        inner = self.block([substitute(nested, {old: number.results[0]}) for nested in block.operations])
        body = block.replace(arguments=[variable], operations=[number, *inner])
        return [*before, op.replace(operands=bounds, regions=[Region((body,))])]
