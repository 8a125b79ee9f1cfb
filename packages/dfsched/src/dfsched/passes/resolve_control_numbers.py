"""`resolve-control-numbers`: numbers that control flow hands on become arithmetic.

Takes KTIR. A number (index or integer) that a loop carries and that grows by the same amount in every
iteration is its initial value plus the iterations done times that amount; one that a condition yields is
selected. Leaves loops and conditions without such values; other values that they hand on stay. Integers wrap
as before.

Before::

    %r = scf.for %i = %c0 to %n step %c1 iter_args(%at = %start) -> (index) {
      ktdp.construct_access_tile %view[%at] ...
      %next = arith.addi %at, %c64
      scf.yield %next
    }

After::

    scf.for %i = %c0 to %n step %c1 {
      %at = %start + %i * 64
      ktdp.construct_access_tile %view[%at] ...
    }

>>> from dfsched.passes.examples import example
>>> example("resolve-control-numbers", '''
... %c0 = arith.constant 0 : index
... %c2 = arith.constant 2 : index
... %c8 = arith.constant 8 : index
... %r = scf.for %i = %c0 to %c8 step %c2 iter_args(%at = %n) -> (index) {
...   "use"(%at) : (index) -> ()
...   %next = arith.addi %at, %c8 : index
...   scf.yield %next : index
... }
... "use"(%r) : (index) -> ()
... ''', arguments="%n: index")
%c0 = arith.constant 0 : index
%c2 = arith.constant 2 : index
%c8 = arith.constant 8 : index
scf.for %arg0 = %c0 to %c8 step %c2 {
  %c4 = arith.constant 4 : index
  %1 = arith.muli %arg0, %c4 : index
  %2 = arith.addi %n, %1 : index
  "use"(%2) : (index) -> ()
}
%c32 = arith.constant 32 : index
%0 = arith.addi %n, %c32 : index
"use"(%0) : (index) -> ()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field

from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.ir_tools import clone_all, post_order, rewrite_kernels, substitute, without_unused
from ktir.analysis import is_pure
from ktir.attributes import IntegerAttr
from ktir.dialects import affine, arith, func, scf
from ktir.dialects.builtin import Module
from ktir.ir import Block, Operation, Region, Value
from ktir.location import Location
from ktir.types import I1, INDEX, IndexType, IntegerType, Type

__all__ = ["PASS", "is_number", "run"]

MOVABLE = (
    *(affine.Apply, arith.AddI, arith.SubI, arith.MulI, arith.Select, arith.CmpI),
    *(arith.MinSI, arith.MinUI, arith.MaxSI, arith.MaxUI, arith.AndI, arith.OrI, arith.XOrI),
    *(arith.Constant, arith.IndexCast, arith.IndexCastUI, arith.ExtSI, arith.ExtUI, arith.TruncI),
)
"""Scalar operations that mean the same where they run although nobody asks for their result."""

DIVISIONS = (
    *(arith.DivSI, arith.DivUI, arith.RemSI, arith.RemUI),
    *(arith.FloorDivSI, arith.CeilDivSI, arith.CeilDivUI),
)


def run(module: Module, context: PassContext) -> Module:
    """Resolve the numbers of every kernel."""
    if context.options.profile is Profile.V1:
        return module
    return rewrite_kernels(module, _kernel)


PASS = Pass(
    "resolve-control-numbers", Group.FRONTEND, run, "numbers that control flow hands on become arithmetic"
)


def is_number(type: Type) -> bool:
    """Whether values of the type are numbers that count and find places."""
    return isinstance(type, IndexType | IntegerType) and type != I1


def _kernel(kernel: func.Func) -> func.Func:
    hands_on = (
        op
        for op in kernel.walk()
        if isinstance(op, scf.For | scf.If) and any(is_number(result.type) for result in op.results)
    )
    if next(hands_on, None) is None:
        return kernel
    block = kernel.body.block
    operations = _Resolver().block(block.operations)
    new = kernel.replace(regions=[Region((block.replace(operations=operations),))])
    clean = without_unused(new, _may_go)
    assert isinstance(clean, func.Func)
    return clean


def _may_go(op: Operation) -> bool:
    """Whether nothing is lost with an operation whose results nobody needs."""
    return isinstance(op, (*MOVABLE, *DIVISIONS)) or (isinstance(op, scf.For | scf.If) and is_pure(op))


@define(eq=False)
class _Arithmetic:
    """Emits arithmetic on numbers of any type, without what a constant operand makes needless."""

    definers: dict[Value, Operation]
    location: Location
    operations: list[Operation] = field(factory=list)

    def add(self, op: Operation) -> Value:
        self.operations.append(op)
        self.definers[op.results[0]] = op
        return op.results[0]

    def constant(self, number: int, type: Type) -> Value:
        return self.add(arith.Constant.of(IntegerAttr(number, type)).replace(location=self.location))

    def number(self, value: Value) -> int | None:
        """The number behind a constant."""
        match self.definers.get(value):
            case arith.Constant(value=IntegerAttr(value=number)):
                return number
            case _:
                return None

    def binary(self, op: type[Operation], left: Value, right: Value) -> Value:
        return self.add(op.create([left, right], [left.type], location=self.location))

    def plus(self, left: Value, right: Value) -> Value:
        if self.number(left) == 0:
            return right
        return left if self.number(right) == 0 else self.binary(arith.AddI, left, right)

    def minus(self, left: Value, right: Value) -> Value:
        a, b = self.number(left), self.number(right)
        if a is not None and b is not None and isinstance(left.type, IndexType):
            return self.constant(a - b, left.type)
        return left if b == 0 else self.binary(arith.SubI, left, right)

    def times(self, left: Value, right: Value) -> Value:
        if self.number(right) == 0:
            return right
        a, b = self.number(left), self.number(right)
        if a is not None and b is not None and isinstance(left.type, IndexType):
            return self.constant(a * b, left.type)
        return left if b == 1 else self.binary(arith.MulI, left, right)

    def cast(self, value: Value, type: Type) -> Value:
        """The number as one of another type; between integers by way of an index value."""
        if value.type == type:
            return value
        if not isinstance(value.type, IndexType) and not isinstance(type, IndexType):
            value = self.cast(value, INDEX)
        return self.add(arith.IndexCast.create([value], [type], location=self.location))


@define(eq=False)
class _Resolver:
    """`definers` knows the operations of the new kernel, `replaced` what stands for values that go."""

    definers: dict[Value, Operation] = field(factory=dict)
    replaced: dict[Value, Value] = field(factory=dict)

    def block(self, operations: Sequence[Operation]) -> list[Operation]:
        """The operations of a block, nested ones included."""
        found: list[Operation] = []
        for op in operations:
            op = op.replace(operands=[self.replaced.get(value, value) for value in op.operands])
            if op.regions:
                op = op.replace(
                    regions=[
                        Region(tuple(b.replace(operations=self.block(b.operations)) for b in region.blocks))
                        for region in op.regions
                    ]
                )
            match op:
                case scf.For() if op.results:
                    found += self._loop(op)
                case scf.If() if op.results:
                    found += self._condition(op)
                case _:
                    self._note(op)
                    found.append(op)
        return found

    def _note(self, op: Operation) -> None:
        for result in op.results:
            self.definers[result] = op

    # -- loops

    def _loop(self, op: scf.For) -> list[Operation]:
        inside = set(_defined(op))
        before, within, behind = (_Arithmetic(self.definers, op.location) for _ in range(3))
        block = op.body.block
        steps: dict[int, Value] = {}
        for position, (carried, yielded) in enumerate(
            zip(op.carried, block.terminator.operands, strict=True)
        ):
            if is_number(carried.type) and op.unsigned_cmp is None:
                step = self._step(carried, yielded, inside, before)
                if step is not None:
                    steps[position] = step
        if not steps:
            self._note(op)
            return [op]
        values: dict[Value, Value] = {}
        for position, step in steps.items():
            init, carried, result = op.inits[position], op.carried[position], op.results[position]
            values[carried] = within.plus(init, self._grown(op, step, within))
            trips = behind.cast(self._trips(op, behind), result.type)
            self.replaced[result] = behind.plus(init, behind.times(trips, step))
        kept = [position for position in range(len(op.inits)) if position not in steps]
        body = [substitute(inner, values) for inner in _ending(block, kept).operations]
        block = block.replace(
            arguments=[op.induction_variable, *(op.carried[position] for position in kept)],
            operations=[*within.operations, *body],
        )
        new = op.replace(
            operands=[op.lower, op.upper, op.step, *(op.inits[position] for position in kept)],
            results=[op.results[position] for position in kept],
            regions=[Region((block,))],
        )
        self._note(new)
        for inner in new.walk():
            self._note(inner)
        return [*before.operations, new, *behind.operations]

    def _step(self, carried: Value, yielded: Value, inside: set[Value], before: _Arithmetic) -> Value | None:
        """By how much a carried value grows in every iteration, computed in front of the loop.

        None if that is not the same amount every time.
        """
        more, less = [], []
        value = yielded
        while value is not carried:
            match self.definers.get(value):
                case arith.AddI() as op if value in inside:
                    left, right = op.operands
                    grows = carried in self._sources(left, inside)
                    value, other = (left, right) if grows else (right, left)
                    more.append(other)
                case arith.SubI() as op if value in inside:
                    value, other = op.operands
                    less.append(other)
                case _:
                    return None
        terms = [*more, *less]
        if not all(self._can_move(term, inside) for term in terms):
            return None
        moved = {term: self._moved(term, inside, before) for term in terms}
        total = before.constant(0, carried.type)
        for term in more:
            total = before.plus(total, moved[term])
        for term in less:
            total = before.minus(total, moved[term])
        return total

    def _sources(self, value: Value, inside: set[Value]) -> list[Value]:
        """The value and all values that it is computed from in the loop."""
        return list(post_order(value, lambda current: self._operands(current, inside)))

    def _operands(self, value: Value, inside: set[Value]) -> tuple[Value, ...]:
        op = self.definers.get(value)
        return () if op is None or value not in inside else op.operands

    def _can_move(self, value: Value, inside: set[Value]) -> bool:
        """Whether a value is the same in every iteration, and can be computed in front of the loop."""
        return all(
            source not in inside or (source in self.definers and self._is_movable(self.definers[source]))
            for source in self._sources(value, inside)
        )

    def _is_movable(self, op: Operation) -> bool:
        if isinstance(op, DIVISIONS):
            match self.definers.get(op.operands[1]):
                case arith.Constant(value=IntegerAttr(value=number)):
                    return number not in (0, -1)
                case _:
                    return False
        return isinstance(op, MOVABLE) or (not op.operands and not op.regions and is_pure(op))

    def _moved(self, value: Value, inside: set[Value], before: _Arithmetic) -> Value:
        """The value in front of the loop: what it needs of the body is computed there once more."""
        needed = [source for source in self._sources(value, inside) if source in inside]
        mapping: dict[Value, Value] = {}
        for source in needed:
            if source not in mapping:
                for copy in clone_all([self.definers[source]], mapping):
                    before.operations.append(copy)
                    self._note(copy)
        return mapping.get(value, value)

    def _grown(self, op: scf.For, step: Value, emitter: _Arithmetic) -> Value:
        """By how much a value has grown at the start of an iteration."""
        passed = emitter.minus(op.induction_variable, op.lower)
        by, each = emitter.number(step), emitter.number(op.step)
        if by is not None and each is not None and each > 0 and by % each == 0:
            return emitter.times(emitter.cast(passed, step.type), emitter.constant(by // each, step.type))
        if each != 1:
            passed = emitter.binary(arith.DivUI, passed, op.step)
        return emitter.times(emitter.cast(passed, step.type), step)

    def _trips(self, op: scf.For, emitter: _Arithmetic) -> Value:
        """How many iterations a loop has."""
        lower, upper, step = (emitter.number(value) for value in (op.lower, op.upper, op.step))
        if lower is not None and upper is not None and step is not None and step > 0:
            return emitter.constant(max(0, -((lower - upper) // step)), op.lower.type)
        span = emitter.minus(op.upper, op.lower)
        some = emitter.binary(arith.MaxSI, span, emitter.constant(0, span.type))
        return some if step == 1 else emitter.binary(arith.CeilDivUI, some, op.step)

    # -- conditions

    def _condition(self, op: scf.If) -> list[Operation]:
        before = _Arithmetic(self.definers, op.location)
        inside = set(_defined(op))
        ends = [region.block.terminator for region in op.regions]
        kept: list[int] = []
        for position, result in enumerate(op.results):
            values = [end.operands[position] for end in ends]
            if not is_number(result.type) or not all(self._can_move(value, inside) for value in values):
                kept.append(position)
                continue
            yes, no = (self._moved(value, inside, before) for value in values)
            self.replaced[result] = before.add(
                arith.Select.create([op.condition, yes, no], [result.type], location=op.location)
            )
        new = op.replace(
            results=[op.results[position] for position in kept],
            regions=[Region((_ending(region.block, kept),)) for region in op.regions],
        )
        self._note(new)
        return [*before.operations, new]


def _ending(block: Block, kept: Sequence[int]) -> Block:
    """The block with only some of the values that its end hands on."""
    end = block.terminator
    return block.replace(
        operations=[*block.operations[:-1], end.replace(operands=[end.operands[p] for p in kept])]
    )


def _defined(op: Operation) -> Iterator[Value]:
    """Every value that the regions of an operation define."""
    for region in op.regions:
        for block in region.blocks:
            yield from block.arguments
            for inner in block.operations:
                yield from inner.results
                yield from _defined(inner)
