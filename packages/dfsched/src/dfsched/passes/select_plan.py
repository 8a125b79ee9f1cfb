"""`select-plan`: ask the policy once per program and put its `Plan` on the program.

Takes programs with three-stage pipelines. Leaves the attribute ``ktdf.plan`` on every program function that
has pipelines, and marks what the plan speaks of: ``ktdf.nest`` on pipelines, ``ktdf.loop`` on their loops,
``ktdf.operand`` on the transfers of loads and stores. Fields pinned in the options override the policy's,
in every nest, or in one (``"local_schedule_0[1].tile_sizes"``); what depends on a pinned field and is not
pinned itself is decided again. Sizes beyond a trip count are clipped with a remark, and there
is one for a field of a nest that is not there. A decision for which the pass that carries it out is not
built is an error that names it. Nests for which the plan names parts are cut (`nest_parts`), and the plan
on the program has an entry for each part.

After::

    func.func @local_schedule_0(...) attributes {ktdf.plan = {nests = [...], ...}}

>>> from dfsched.passes.examples import after, kernel
>>> after("select-plan", kernel(),
... r"ktdf.loop = |ktdf.nest = ")
} {ktdf.nest = 0 : i64}
} {ktdf.loop = [0, 1], loop_type = #ktdf.loop_type<parallel_loop>}
} {ktdf.loop = [0, 0], loop_type = #ktdf.loop_type<parallel_loop>}
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from dfsched import policies
from dfsched.architecture import Architecture, kind_text
from dfsched.architecture.kinds import kind_of
from dfsched.dialects.ktdf import DataTransfer, FifoSlotType, Pipeline
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.capacity import bytes_text
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.generics import loop_extents
from dfsched.passes.ir_tools import Definitions
from dfsched.passes.loop_nests import LOOP, NEST, OPERAND, LoopTag, nest_loops, nest_pipelines, read_plan
from dfsched.passes.nest_parts import cut_in_parts
from dfsched.passes.pinned_ranges import pinned_ranges
from dfsched.passes.simplify_loops import static_trips
from dfsched.plan import PLAN, NestFacts, NestPlan, OperandFacts, Plan, ProgramFacts
from ktir.attribute import Attribute
from ktir.attributes import IntegerAttr
from ktir.dialects import func, linalg, scf
from ktir.dialects.builtin import Module
from ktir.grid import grid_of
from ktir.ir import Block, Operation, Region, Value
from ktir.types import I64, MemRefType, TensorType, Type, bit_width

__all__ = ["PASS", "plans_of", "program_facts", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Plan every program, nested modules included."""
    free = _free_scratchpad(module, context.architecture)
    findings = Findings()
    new = _in_module(
        module, lambda program: findings.attempt(lambda op: _planned(op, context, free), program)
    )
    findings.check()
    _report_unused_pins(new, context)
    return new


def _report_unused_pins(planned: Module, context: PassContext) -> None:
    """Warn about fields pinned in nests that are not there."""
    programs = [op for op in planned.walk() if isinstance(op, func.Func) and PLAN in op.attributes]
    nests = {p.symbol: len(plan.nests) for p in programs if (plan := read_plan(p)) is not None}
    for key in context.options.pins:
        match = _PIN.fullmatch(key)
        if not programs or match is None or match["program"] is None:
            continue
        if int(match["nest"]) >= nests.get(match["program"], 0):
            known = ", ".join(f"{name}[{i}]" for name, count in nests.items() for i in range(count))
            context.warn(programs[0].location, f"'{key}' pins nothing; the nests are {known}")


def _in_module(module: Module, plan: Callable[[func.Func], func.Func]) -> Module:
    operations: list[Operation] = []
    for op in module.operations:
        match op:
            case Module():
                op = _in_module(op, plan)
            case func.Func() if any(isinstance(inner, Pipeline) for inner in op.walk()):
                op = plan(op)
        operations.append(op)
    return module.with_operations(tuple(operations))


def _planned(program: func.Func, context: PassContext, free: int) -> func.Func:
    """The program with its plan, and with the marks that the plan speaks of."""
    cut, plan = cut_in_parts(program, _plan(program, context, free), context)
    return _marked(cut).replace(attributes={PLAN: plan.to_attribute()})


PASS = Pass("select-plan", Group.FRONTEND, run, "ask the policy for the decisions of each program")


def plans_of(module: Operation) -> tuple[Plan, ...]:
    """The plans that stand on the programs of a module, in order; `ScheduleError` at what is none."""
    return tuple(plan for op in module.walk() if (plan := read_plan(op)) is not None)


def _free_scratchpad(module: Module, architecture: Architecture) -> int:
    """Bytes of the largest range of the scratchpad that the kernel does not use itself."""
    pad = architecture.scratchpad
    if pad is None or pad.size is None:
        return 0
    end, largest = 0, 0
    for low, high in (*pinned_ranges(module, architecture).get(pad.kind, ()), (pad.size, pad.size)):
        largest = max(largest, min(low, pad.size) - end)
        end = max(end, high)
    return largest


def _plan(function: func.Func, context: PassContext, free: int) -> Plan:
    elements = {
        value.type.element
        for op in function.walk()
        if isinstance(op, linalg.Generic)
        for value in (*op.inputs, *op.results)
        if isinstance(value.type, TensorType)
    }
    lanes = context.architecture.vector_length(elements)
    facts = attrs.evolve(program_facts(function, lanes), scratchpad_bytes=free)
    plan = context.options.policy(facts, context.architecture)
    if not isinstance(plan, Plan) or not all(isinstance(nest, NestPlan) for nest in plan.nests):
        given = type(plan).__name__
        raise ScheduleError.at(function.location, f"the policy gave a {given} instead of a plan")
    if len(plan.nests) != len(facts.nests):
        raise ScheduleError.at(
            function.location, f"the policy planned {len(plan.nests)} nests of {len(facts.nests)}"
        )
    pins = _Pins.of(context.options.pins, function)
    nests = tuple(
        pins.applied(nest, fact, number, context)
        for number, (nest, fact) in enumerate(zip(plan.nests, facts.nests, strict=True))
    )
    for nest, fact in zip(nests, facts.nests, strict=True):
        _check(function, nest, fact, context.architecture)
    return attrs.evolve(plan, nests=nests)


_PIN = re.compile(r"(?:(?P<program>[^\[]+)\[(?P<nest>\d+)\]\.)?(?P<field>\w+)")
"""A field of all nests, or ``program[nest].field``."""


@frozen
class _Pins:
    """Fields given by hand, for all nests of a program and for single ones."""

    function: func.Func
    everywhere: Mapping[str, object]
    single: Mapping[int, Mapping[str, object]]

    @classmethod
    def of(cls, pins: Mapping[str, object], function: func.Func) -> _Pins:
        known = sorted(entry.name for entry in attrs.fields(NestPlan))
        everywhere: dict[str, object] = {}
        single: dict[int, dict[str, object]] = {}
        for key, value in pins.items():
            match = _PIN.fullmatch(key)
            name = key if match is None else match["field"]
            if match is None or name not in known:
                raise ScheduleError.at(
                    function.location, f"a plan has no field '{name}'; fields of a nest: {', '.join(known)}"
                )
            if match["program"] is None:
                everywhere[name] = value
            elif match["program"] == function.symbol:
                single.setdefault(int(match["nest"]), {})[name] = value
        return cls(function, everywhere, single)

    def applied(self, nest: NestPlan, facts: NestFacts, number: int, context: PassContext) -> NestPlan:
        """A nest's plan with the pinned fields; fields that follow from them decided again."""
        pins: dict[str, Any] = {**self.everywhere, **self.single.get(number, {})}
        loops, operands = len(facts.trips), len(facts.operands)
        for name, count in (("tile_sizes", loops), ("buffer_depths", operands)):
            if isinstance(pins.get(name), int):
                pins[name] = (pins[name],) * count
        pins = {name: tuple(v) if isinstance(v, list) else v for name, v in pins.items()}
        if "tile_sizes" in pins:
            sizes = _numbers(self.function, "tile_sizes", pins["tile_sizes"], loops)
            clipped = tuple(min(size, trip or size) for size, trip in zip(sizes, facts.trips, strict=True))
            if clipped != sizes:
                context.warn(
                    self.function.location,
                    f"tile sizes {list(sizes)} of nest {number} are clipped to its trips: {list(clipped)}",
                )
            pins["tile_sizes"] = clipped
            again = policies.tiled_plan(facts, clipped, context.architecture, limit="pinned")
            nest = attrs.evolve(
                nest,
                sunk_loops=again.sunk_loops,
                instance_loop=again.instance_loop,
                instances=again.instances,
                limit=again.limit,
            )
        if "buffer_depths" in pins:
            depths = _numbers(self.function, "buffer_depths", pins["buffer_depths"], operands)
            sizes = _numbers(self.function, "tile_sizes", pins.get("tile_sizes", nest.tile_sizes), loops)
            tiles = math.prod(-(-trip // size) for trip, size in zip(facts.trips, sizes, strict=True))
            useful = tuple(min(depth, max(tiles, policies.OVERLAPPED)) for depth in depths)
            if useful != depths:
                context.warn(
                    self.function.location,
                    f"buffer depths {list(depths)} of nest {number} are clipped to {list(useful)}: "
                    f"it has {tiles} tiles",
                )
            pins["buffer_depths"] = useful
        if not pins.keys().isdisjoint(_TILING):
            nest = attrs.evolve(nest, parts=(), part_sizes=())
        return attrs.evolve(nest, **pins)


_TILING = ("tile_sizes", "buffer_depths", "loop_order", "sunk_loops", "instances", "instance_loop")
"""Fields that leave a nest whole when they are given by hand."""


def _numbers(function: func.Func, name: str, value: object, count: int) -> tuple[int, ...]:
    """A field of the plan as so many positive numbers; `ScheduleError` otherwise."""
    numbers = tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else ()
    if not isinstance(value, tuple) or len(numbers) != len(value) or any(number < 1 for number in numbers):
        raise ScheduleError.at(
            function.location, f"plan field '{name}' must hold positive numbers, not {value}"
        )
    if len(numbers) != count:
        raise ScheduleError.at(
            function.location, f"plan field '{name}' has {len(numbers)} entries, but the nest has {count}"
        )
    return numbers


def _check_types(function: func.Func, nest: NestPlan) -> None:
    """Fields hold what their declaration says, wherever they come from."""
    counted = ("tile_sizes", "buffer_depths", "parts", "part_sizes")  # checked with their lengths
    wrong = [name for name in nest.mistyped() if name not in counted]
    if wrong:
        values = ", ".join(f"'{name}' is {str(getattr(nest, name))[:40]}" for name in wrong)
        raise ScheduleError.at(function.location, f"fields of a plan that hold something else: {values}")


def _check(function: func.Func, nest: NestPlan, facts: NestFacts, architecture: Architecture) -> None:
    """The plan fits the nest, and everything in it is built."""
    _check_types(function, nest)
    loops = len(facts.trips)
    sizes = _numbers(function, "tile_sizes", nest.tile_sizes, loops)
    depths = _numbers(function, "buffer_depths", nest.buffer_depths, len(facts.operands))
    _check_copies(function, policies.copies_bytes(facts, sizes, depths, architecture), depths, architecture)
    if sorted(nest.loop_order) != list(range(loops)):
        raise ScheduleError.at(
            function.location,
            f"plan field 'loop_order' must order the loops 0 to {loops - 1}, not {list(nest.loop_order)}",
        )
    parts = _numbers(function, "parts", nest.parts, len(nest.parts) if isinstance(nest.parts, tuple) else 0)
    _numbers(function, "part_sizes", nest.part_sizes, len(parts))
    if parts and (not facts.trips or sum(parts) != facts.trips[0]):
        raise ScheduleError.at(
            function.location,
            f"plan field 'parts' must add up to the trips of the outermost loop, "
            f"{facts.trips[0] if facts.trips else 1}, not to {sum(parts)}",
        )
    points = sum(size > 1 for size in sizes)
    if not 0 <= nest.sunk_loops <= loops:
        raise ScheduleError.at(
            function.location,
            f"plan field 'sunk_loops' is {nest.sunk_loops}, but the nest has {points} point loops",
        )
    if nest.instances < 1 or not (nest.instance_loop is None or 0 <= nest.instance_loop < loops):
        raise ScheduleError.at(
            function.location,
            f"the plan spreads loop {nest.instance_loop} of {loops} over {nest.instances} instances",
        )
    loads = {number for number, operand in enumerate(facts.operands) if not operand.is_store}
    if not isinstance(nest.hoisted, tuple) or not loads.issuperset(nest.hoisted):
        raise ScheduleError.at(
            function.location,
            f"plan field 'hoisted' must name loads of the nest, {sorted(loads)}, not {nest.hoisted}",
        )
    if nest.accumulator is not None:
        unit = architecture.compute_unit
        memory = None if unit is None or unit.kind is None else architecture.local_memory(unit.kind)
        known = "none" if memory is None else kind_text(memory)
        if nest.accumulator != known:
            raise ScheduleError.at(
                function.location,
                f"plan field 'accumulator' must name the memory beside the compute unit, {known}, "
                f"not {nest.accumulator}",
            )


def _check_copies(
    function: func.Func, needed: Sequence[int], depths: Sequence[int], architecture: Architecture
) -> None:
    """The copies of no operand alone outgrow the scratchpad: thousands of buffers are not worth placing."""
    pad = architecture.scratchpad
    if pad is None or pad.size is None:
        return
    for number, (size, depth) in enumerate(zip(needed, depths, strict=True)):
        if depth > policies.OVERLAPPED and size > pad.size:
            raise ScheduleError.at(
                function.location,
                f"plan field 'buffer_depths': {depth} copies of the buffer of operand {number} need "
                f"{bytes_text(size)} of {kind_text(pad.kind)}, {bytes_text(pad.size)} available",
            )


def _marked(function: func.Func) -> func.Func:
    """The function with the numbers of nests, loops and operands on what they stand for."""
    definitions = Definitions(function)
    nests: dict[Block, int] = {}
    loops: dict[Value, LoopTag] = {}
    operands: dict[Operation, int] = {}
    for number, pipeline in enumerate(nest_pipelines(function, definitions)):
        nests[pipeline.body.block] = number
        for position, loop in enumerate(nest_loops(pipeline, definitions)):
            loops[loop.induction_variable] = LoopTag(number, position)
        operands.update({op: i for i, (_, op) in enumerate(_memory_transfers(pipeline))})
    marks: dict[Operation, dict[str, Attribute]] = {}
    for op in function.walk():
        match op:
            case Pipeline() if op.body.block in nests:
                marks[op] = {NEST: IntegerAttr(nests[op.body.block], I64)}
            case scf.For() if op.induction_variable in loops:
                marks[op] = {LOOP: loops[op.induction_variable].attribute()}
            case DataTransfer() if op in operands:
                marks[op] = {OPERAND: IntegerAttr(operands[op], I64)}
    return _with_attributes(function, marks)


def _with_attributes(function: func.Func, marks: Mapping[Operation, Mapping[str, Attribute]]) -> func.Func:
    def rebuilt(op: Operation) -> Operation:
        regions = [
            Region(
                tuple(
                    block.replace(operations=[rebuilt(inner) for inner in block.operations])
                    for block in region.blocks
                )
            )
            for region in op.regions
        ]
        return op.replace(attributes=marks.get(op, {}), regions=regions)

    new = rebuilt(function)
    assert isinstance(new, func.Func)
    return new


def _top(op: Operation, definitions: Definitions) -> Operation:
    """The operation of the function's body that holds an operation."""
    path = [op, *definitions.ancestors(op)]
    return path[-2] if len(path) > 1 else op


def program_facts(function: func.Func, lanes: int = 1) -> ProgramFacts:
    """What a policy is told about a program with three-stage pipelines; `lanes`: elements of a vector."""
    definitions = Definitions(function)
    pipelines = nest_pipelines(function, definitions)
    top = [_top(op, definitions) for op in pipelines]
    nests = tuple(
        attrs.evolve(_nest_facts(op, definitions, lanes), live_nests=top.count(above))
        for op, above in zip(pipelines, top, strict=True)
    )
    return ProgramFacts(function.symbol, grid_of(function) or (1,), nests)


def _nest_facts(pipeline: Pipeline, definitions: Definitions, lanes: int) -> NestFacts:
    loops = nest_loops(pipeline, definitions)
    variables = [loop.induction_variable for loop in loops]
    operands = []
    tile: tuple[int, ...] = ()
    for is_store, transfer in _memory_transfers(pipeline):
        cell = transfer.dest_cell if is_store else transfer.source_cell
        type = cell.value.type
        assert isinstance(type, MemRefType)
        assert type.memory_space is not None
        box = cell.static_sizes
        if is_store:
            tile = box
        operands.append(
            OperandFacts(
                cell.value.name or "",
                is_store,
                kind_text(kind_of(type.memory_space)),
                str(type.element),
                tuple(i for i, variable in enumerate(variables) if variable in cell.indices),
                box,
                cell.num_elements * ((bit_width(type.element) + 7) // 8),
            )
        )
    trips = tuple(static_trips(loop, definitions) or 0 for loop in loops)
    work, scratch = 0, 0
    for op in pipeline.walk():
        if isinstance(op, linalg.Generic):
            points = math.prod(loop_extents(op).values())
            work += max(1, len(op.body.block.operations) - 1) * -(-points // lanes)
            scratch += sum(_bytes(r.type) for r in op.results if _is_read_again(r, definitions))
    return NestFacts(trips, tile, tuple(operands), max(1, work), scratch)


def _is_read_again(value: Value, definitions: Definitions) -> bool:
    return any(isinstance(user, linalg.Generic) for user in definitions.users(value))


def _bytes(type: Type) -> int:
    if not isinstance(type, TensorType) or not type.is_static:
        return 0
    return type.num_elements() * ((bit_width(type.element) + 7) // 8)


def _memory_transfers(pipeline: Pipeline) -> Iterator[tuple[bool, DataTransfer]]:
    for stage in pipeline.stages:
        for op in stage.body.block.operations:
            if isinstance(op, DataTransfer):
                yield isinstance(op.source.type, FifoSlotType), op
