"""`map-reduction-partials`: accumulators of reductions live in registers beside the compute unit (spec 3.13).

Takes compute stages whose loops carry tensors (`reduction-loop-exposure`). Leaves buffers in the one memory
that sits beside the stage's unit: each chain of loop-carried values becomes one buffer, which its initial
value is written to in front of the loop; the computations of the stage read and write buffers; loops carry
nothing. The start of a reduction stays what it was: nothing is assumed about identities except where a loop
starts with an empty tensor, which holds the neutral element of its body then. Masks and constants of whole
vectors become part of the bodies that use them.

In the pipeline only nests whose plan names an accumulator memory are changed (`NestPlan.accumulator`);
without one, accumulators stay values, which cost no loads and stores. Where there is no plan, every stage is
changed.

Before::

    %f = scf.for %k = %c0 to %c32 step %c1 iter_args(%acc = %e) -> (tensor<1x64xf16>) {
      %x = ktdf.read_from_fifo %q : <"L1LU" -> "SFU", 64xf16> -> tensor<1x64xf16>
      %y = linalg.generic ... ins(%x, %acc) outs(%o) -> tensor<1x64xf16>
      scf.yield %y : tensor<1x64xf16>
    }
    ktdf.write_to_fifo %f, %r : tensor<1x64xf16>, <"SFU" -> "L1SU", 64xf16>

After::

    %acc = memref.alloc() : memref<1x64xf16, "SFU_REG">
    linalg.fill ins(%zero) outs(%acc)
    scf.for %k = %c0 to %c32 step %c1 {
      %x = ktdf.read_from_fifo %q : <"L1LU" -> "SFU", 64xf16> -> memref<1x64xf16>
      linalg.generic ... ins(%x, %acc) outs(%acc)
    }
    ktdf.write_to_fifo %acc, %r : memref<1x64xf16, "SFU_REG">, <"SFU" -> "L1SU", 64xf16>

>>> from dfsched.passes.examples import example
>>> example("map-reduction-partials", '''
... %c0 = arith.constant 0 : index
... %c1 = arith.constant 1 : index
... %c4 = arith.constant 4 : index
... ktdf.pipeline {
...   %q:2 = ktdf.private
...          -> (!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>) {
...     %i = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>
...     %o = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>
...     ktdf.private_yield %i, %o
...         : !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>
...   }
...   ktdf.stage depends_in(none) depends_out(none) {
...     %z = arith.constant dense<0.0> : tensor<64xf16>
...     %f = scf.for %k = %c0 to %c4 step %c1 iter_args(%acc = %z) -> (tensor<64xf16>) {
...       %x = ktdf.read_from_fifo %q#0 : <"L1LU" -> "SFU", 64xf16> -> tensor<64xf16>
...       %e = tensor.empty() : tensor<64xf16>
...       %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
...            affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
...            ins(%x, %acc : tensor<64xf16>, tensor<64xf16>)
...            outs(%e : tensor<64xf16>) {
...       ^bb0(%l: f16, %m: f16, %n: f16):
...         %s = arith.addf %l, %m : f16
...         linalg.yield %s : f16
...       } -> tensor<64xf16>
...       scf.yield %y : tensor<64xf16>
...     }
...     ktdf.write_to_fifo %f, %q#1 : tensor<64xf16>, <"SFU" -> "L1SU", 64xf16>
...   } {applicable_units = ["SFU"]}
... }
... ''')
#map = affine_map<(d0) -> (d0)>
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c4 = arith.constant 4 : index
ktdf.pipeline {
  %0:2 = ktdf.private -> (!ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"SFU" ->
      "L1SU", 64xf16>) {
    %1 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>
    %2 = ktdf.fifo.allocate() -> !ktdf.fifo.slot<"SFU" -> "L1SU", 64xf16>
    ktdf.private_yield %1, %2 : !ktdf.fifo.slot<"L1LU" -> "SFU", 64xf16>, !ktdf.fifo.slot<"SFU"
        -> "L1SU", 64xf16>
  }
  ktdf.stage depends_in(none) depends_out(none) {
    %alloc = memref.alloc() : memref<64xf16, "SFU_REG">
    %cst = arith.constant 0.000000e+00 : f16
    linalg.fill ins(%cst : f16) outs(%alloc : memref<64xf16, "SFU_REG">)
    scf.for %arg0 = %c0 to %c4 step %c1 {
      %1 = ktdf.read_from_fifo %0#0 : <"L1LU" -> "SFU", 64xf16> -> memref<64xf16>
      linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%1,
          %alloc : memref<64xf16>, memref<64xf16, "SFU_REG">) outs(%alloc : memref<64xf16,
          "SFU_REG">) {
      ^bb0(%in: f16, %in_0: f16, %out: f16):
        %2 = arith.addf %in, %in_0 : f16
        linalg.yield %2 : f16
      }
    }
    ktdf.write_to_fifo %alloc, %0#1 : memref<64xf16, "SFU_REG">, <"SFU" -> "L1SU", 64xf16>
  } {applicable_units = ["SFU"]}
}
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from dfsched.architecture import Architecture, kind_text
from dfsched.dialects.ktdf import Pipeline, ReadFromFifo, Stage, WriteToFifo
from dfsched.passes import build
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.ir_tools import Definitions, clone_all, rewrite_blocks
from dfsched.passes.loop_nests import nest_number, plan_of
from dfsched.passes.reductions import combine_of, neutral_element
from dfsched.passes.scalar_constants import leading_lanes, scalar_of
from dfsched.passes.tile_addresses import memory_attribute
from ktir.affine import AffineMap
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, IntegerAttr
from ktir.dialects import arith, linalg, memref, scf, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.types import I1, INDEX, IntegerType, MemRefType, TensorType

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Map the partial results of every stage that wants it; `ScheduleError` at what cannot be mapped."""
    definitions = Definitions(module)
    wanted = {op for op in module.walk() if isinstance(op, Stage) and _is_wanted(op, definitions)}
    if not wanted:
        return module
    findings = Findings()

    def mapped(stage: Stage) -> Stage:
        return _Mapping(stage, context.architecture).result()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [
            findings.attempt(mapped, op) if isinstance(op, Stage) and op in wanted else op
            for op in operations
        ]

    new = rewrite_blocks(module, rewrite)
    findings.check()
    assert isinstance(new, Module)
    return new


PASS = Pass(
    "map-reduction-partials", Group.SCHEDULER, run, "accumulators into registers where the plan says so"
)


def _is_wanted(stage: Stage, definitions: Definitions) -> bool:
    """A leaf stage with a loop that carries tensors, of a nest whose plan has an accumulator memory."""
    loops = [op for op in stage.walk() if isinstance(op, scf.For)]
    carries = any(isinstance(value.type, TensorType) for loop in loops for value in loop.inits)
    if not carries or any(isinstance(op, Pipeline) for op in stage.walk()):
        return False
    plan = plan_of(stage, definitions)
    if plan is None:
        return True
    numbers = [nest_number(op) for op in definitions.ancestors(stage) if isinstance(op, Pipeline)]
    known = [number for number in numbers if number is not None]
    nests = [plan.nests[number] for number in known if number < len(plan.nests)] or plan.nests
    return all(nest.accumulator is not None for nest in nests)


@define(eq=False)
class _Mapping:
    """One stage. `homes`: the buffers that tensors became, `targets`: where results have to go."""

    stage: Stage
    architecture: Architecture
    space: Attribute = field(init=False)
    buffers: list[Operation] = field(factory=list)
    homes: dict[Value, Value] = field(factory=dict)
    targets: dict[Value, Value] = field(factory=dict)
    constants: dict[Value, arith.Constant] = field(factory=dict)
    empties: set[Value] = field(factory=set)
    branches: dict[Value, scf.If] = field(factory=dict)
    definitions: Definitions = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.definitions = Definitions(self.stage)
        units = self.stage.units or ()
        if len(units) != 1:
            raise ScheduleError.at(
                self.stage.location, f"a stage with accumulators must name one unit, not {len(units)}"
            )
        memory = self.architecture.local_memory(units[0])
        if memory is None:
            raise ScheduleError.at(
                self.stage.location,
                f"device '{self.architecture.name}' has no single memory beside {units[0]} for accumulators",
            )
        self.space = memory_attribute(memory)

    def result(self) -> Stage:
        """The stage on buffers."""
        operations = self._block(self.stage.body.block.operations)
        body = Region.of([*self.buffers, *operations])
        new = self.stage.replace(regions=[body])
        assert isinstance(new, Stage)
        return new

    def _buffer(self, type: TensorType) -> Value:
        buffer = OpResult(MemRefType(type.shape, type.element, None, self.space))
        self.buffers.append(build.alloc(buffer))
        return buffer

    # -- operations

    def _block(self, operations: Sequence[Operation]) -> list[Operation]:
        return [new for op in operations for new in self._operation(op)]

    def _operation(self, op: Operation) -> list[Operation]:
        match op:
            case tensor.Empty():
                self.empties.add(op.results[0])
                return []
            case arith.Constant() if isinstance(op.result.type, TensorType):
                self.constants[op.result] = op
                return []
            case ReadFromFifo(data=data) if isinstance(data.type, TensorType):
                new = OpResult(MemRefType(data.type.shape, data.type.element))
                self.homes[data] = new
                return [op.replace(results=[new])]
            case WriteToFifo():
                return [op.replace(operands=[self._home(op.data, op), op.slot])]
            case linalg.Generic():
                return self._generic(op)
            case scf.For() if op.inits:
                return self._loop(op)
            case scf.If() if op.results:
                self.branches.update(dict.fromkeys(op.results, op))  # written where a loop starts with it
                return []
            case _ if any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results)):
                raise ScheduleError.at(op.location, f"'{op.name}' on a tensor cannot work on buffers")
            case _ if op.regions:
                regions = [
                    Region(tuple(b.replace(operations=self._block(b.operations)) for b in region.blocks))
                    for region in op.regions
                ]
                return [op.replace(regions=regions)]
            case _:
                return [op]

    def _home(self, value: Value, op: Operation) -> Value:
        if value not in self.homes:
            raise ScheduleError.at(op.location, f"'{op.name}' uses a tensor that is in no buffer")
        return self.homes[value]

    # -- loops

    def _loop(self, op: scf.For) -> list[Operation]:
        """The loop without what it carried."""
        before: list[Operation] = []
        block = op.body.block
        terminator = block.terminator
        for number, (init, argument, result) in enumerate(
            zip(op.inits, block.arguments[1:], op.results, strict=True)
        ):
            if not isinstance(init.type, TensorType):
                raise ScheduleError.at(op.location, "a loop in a stage carries something that is no tensor")
            home = self.homes.get(init)
            if home is None or self._is_queue(home) or len(self.definitions.users(init)) > 1:
                home = self._buffer(init.type)
                before += self._initialised(init, home, op)
            self.homes[argument] = self.homes[result] = home
            self.targets[terminator.operands[number]] = home
        inside = self._block(block.operations[:-1])
        for value in terminator.operands:
            if self.homes.get(value) is not self.targets[value]:
                raise ScheduleError.at(
                    terminator.location, "a loop in a stage carries on a value that its body does not compute"
                )
        new = scf.For.build(
            op.lower, op.upper, op.step, inside, op.induction_variable, dict(op.attributes), op.location
        )
        return [*before, new]

    def _is_queue(self, buffer: Value) -> bool:
        """Whether a buffer is what a read from a queue gave."""
        type = buffer.type
        return isinstance(type, MemRefType) and type.memory_space is None

    def _initialised(self, init: Value, home: Value, loop: scf.For) -> list[Operation]:
        """Write an initial value to an accumulator."""
        location = loop.location
        if init in self.homes:
            return [memref.Copy.create([self.homes[init], home], location=location)]
        if init in self.constants:
            number = scalar_of(self.constants[init].value)
            if number is not None:
                return self._filled(number, home, loop)
        elif init in self.empties:
            return self._filled(self._neutral(loop), home, loop)
        elif init in self.branches:
            branch = self.branches[init]
            position = branch.results.index(init)
            arms: list[Region] = []
            for region in (branch.then_region, branch.else_region):
                block = region.block
                inside = self._block(block.operations[:-1])
                inside += self._initialised(block.terminator.operands[position], home, loop)
                arms.append(Region.of([*inside, scf.Yield.create(location=location)]))
            return [scf.If.create([branch.condition], regions=arms, location=branch.location)]
        definer = self.definitions.definer(init)
        raise ScheduleError.at(
            location if definer is None else definer.location,
            "a partial result must start with tensor.empty, ktdf.read_from_fifo, a computation, "
            "a constant of one number, or an scf.if of these",
        )

    def _filled(self, number: Attribute, home: Value, loop: scf.For) -> list[Operation]:
        constant = arith.Constant.of(number).replace(location=loop.location)
        return [constant, linalg.Fill.build([constant.results[0]], [home], location=loop.location)]

    def _neutral(self, loop: scf.For) -> Attribute:
        """What a reduction starts with that has no initial value."""
        for op in loop.walk():
            combine = combine_of(op) if isinstance(op, linalg.Generic) else None
            if combine is not None:
                return neutral_element(combine.op)
        raise ScheduleError.at(
            loop.location, "the body of the reduction has no neutral element, so it needs an initial value"
        )

    # -- computations

    def _generic(self, op: linalg.Generic) -> list[Operation]:
        """The generic on buffers; it reads and writes an accumulator in its place."""
        if len(op.results) != 1:
            raise ScheduleError.at(op.location, "a computation with accumulators must have one result")
        inputs: list[Value] = []
        maps: list[AffineMap] = []
        arguments: list[BlockArgument] = []
        inner: list[Operation] = []
        mapping: dict[Value, Value] = {}
        block = op.body.block
        for value, map, argument in zip(op.inputs, op.maps, block.arguments, strict=False):
            if value in self.constants:
                made = self._constant(op, value, map)
                inner += made
                mapping[argument] = made[-1].results[0]
                continue
            inputs.append(self._home(value, op))
            maps.append(map)
            arguments.append(BlockArgument(argument.type, argument.name, argument.location))
            mapping[argument] = arguments[-1]
        (out,) = op.outputs
        home = self.homes.get(out)
        result = op.results[0]
        if home is None:
            assert isinstance(result.type, TensorType)
            home = self.targets[result] if result in self.targets else self._buffer(result.type)
        accumulator = BlockArgument(block.arguments[-1].type, block.arguments[-1].name)
        mapping[block.arguments[-1]] = accumulator
        body = [*inner, *clone_all(block.operations, mapping)]
        self.homes[result] = home
        attributes = {
            name: value
            for name, value in op.attributes.items()
            if name not in ("indexing_maps", "iterator_types", "operandSegmentSizes")
        }
        return [
            linalg.Generic.build(
                inputs,
                [home],
                [*maps, op.maps[-1]],
                op.iterators,
                Region.of(body, [*arguments, accumulator]),
                attributes,
                op.location,
            )
        ]

    def _constant(self, op: linalg.Generic, value: Value, map: AffineMap) -> list[Operation]:
        """Operations in a body whose last one gives an element of a constant tensor."""
        attribute = self.constants[value].value
        number = scalar_of(attribute)
        if number is not None:
            return [arith.Constant.of(number)]
        active = leading_lanes(attribute) if isinstance(attribute, DenseElementsAttr) else None
        if active is None or not map.is_identity:
            raise ScheduleError.at(op.location, "a table of numbers in a computation on buffers")
        position = linalg.Index.create((), [INDEX], {"dim": IntegerAttr(map.num_results - 1)})
        lane_type = self._lane_type(op)
        lane = arith.IndexCast.create([position.results[0]], [lane_type])
        bound = arith.Constant.of(IntegerAttr(active, lane_type))
        less = {"predicate": IntegerAttr(arith.CmpIPredicate.SLT)}
        mask = arith.CmpI.create([lane.results[0], bound.result], [I1], less)
        return [position, lane, bound, mask]

    def _lane_type(self, op: linalg.Generic) -> IntegerType:
        """The narrowest integer that the unit has as many lanes of as the vectors have elements."""
        type = op.results[0].type
        assert isinstance(type, TensorType)
        for width in (16, 32):
            if self.architecture.lanes(IntegerType(width)) >= type.num_elements():
                return IntegerType(width)
        raise ScheduleError.at(
            op.location,
            f"{kind_text((self.stage.units or ('?',))[0])} has no integers for a mask of its lanes",
        )
