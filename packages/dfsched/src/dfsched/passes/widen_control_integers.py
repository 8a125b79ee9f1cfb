"""`widen-control-integers`: what counts loops and finds places is computed in index values.

Takes KTIR. Front ends count in i32. Leaves loops with index bounds, and the arithmetic in i32 and i64 that
leads to bounds, subscripts and conditions in index values, which are what units compute with. Numbers that
also take part in computations on tensors keep their type there. A count that leaves the range of its type has
no meaning here (dataflowir spec 3.12): it does not wrap. Conditions that are passed at launch are compared
with zero.

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
from ktir.dialects import arith, func, scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
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
)
WIDTHS = (32, 64)


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
        case arith.IndexCast() | arith.IndexCastUI() | arith.CmpI():
            return _is_wide(op.operands[0])
        case func.Func():
            return any(argument.type == I1 for argument in op.arguments)
        case _:
            return False


def _is_number(op: Operation) -> bool:
    """Whether an operation does nothing but compute numbers."""
    numbers = all(isinstance(result.type, IndexType | IntegerType) for result in op.results)
    return bool(op.results) and numbers and not op.regions and is_pure(op)


def _is_wide(value: Value) -> bool:
    return isinstance(value.type, IntegerType) and value.type.width in WIDTHS


@define(eq=False)
class _Widening:
    """`twins` gives the index value of a number, `replaced` what stands for a value that goes."""

    twins: dict[Value, Value] = field(factory=dict)
    replaced: dict[Value, Value] = field(factory=dict)

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
            found += self._operation(op)
        return found

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
            case arith.IndexCast() | arith.IndexCastUI() if op.operands[0] in self.twins:
                self.replaced[op.results[0]] = self.twins[op.operands[0]]
                return []
            case arith.CmpI() if all(value in self.twins for value in op.operands):
                return [op.replace(operands=[self.twins[value] for value in op.operands])]
            case _:
                twin = self._twin(op)
                return [op] if twin is None else [op, *twin]

    def _twin(self, op: Operation) -> list[Operation] | None:
        """Operations that compute the index value of a number."""
        if len(op.results) != 1 or not _is_wide(op.results[0]):
            return None
        result, operands = op.results[0], op.operands
        match op:
            case arith.Constant(value=IntegerAttr(value=number)):
                constant = index_constant(number)
                self.twins[result] = constant.result
                return [constant]
            case arith.IndexCast() | arith.IndexCastUI() if isinstance(operands[0].type, IndexType):
                self.twins[result] = operands[0]
                return []
            case arith.ExtSI() | arith.ExtUI() if operands[0] in self.twins:
                self.twins[result] = self.twins[operands[0]]
                return []
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
                return self._leaf(op)
        twin = op.__class__.create(values, [INDEX], location=op.location)
        self.twins[result] = twin.results[0]
        return [twin]

    def _leaf(self, op: Operation) -> list[Operation]:
        cast = arith.IndexCast.create([op.results[0]], [INDEX], location=op.location)
        self.twins[op.results[0]] = cast.results[0]
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
        inner = self.block([substitute(nested, {old: number.results[0]}) for nested in block.operations])
        body = block.replace(arguments=[variable], operations=[number, *inner])
        return [*before, op.replace(operands=bounds, regions=[Region((body,))])]
