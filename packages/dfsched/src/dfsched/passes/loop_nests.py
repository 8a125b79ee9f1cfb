"""Loop nests around pipelines: their shape, and the plan that says what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from dfsched.dialects.ktdf import LoopKind, LoopTypeAttr, Pipeline
from dfsched.passes.errors import ScheduleError
from dfsched.passes.index_arithmetic import constant_value
from dfsched.passes.ir_tools import Definitions
from dfsched.plan import PLAN, NestPlan, Plan
from ktir.attribute import Attribute
from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import arith, func, scf
from ktir.errors import Diagnostic
from ktir.ir import Operation
from ktir.types import I64

__all__ = [
    "LOOP",
    "NEST",
    "OPERAND",
    "LoopTag",
    "check_plans",
    "is_normal",
    "is_parallel",
    "loop_tag",
    "nest_loops",
    "nest_number",
    "nest_pipelines",
    "nest_plan",
    "perfect_nest",
    "pipeline_scope",
    "plan_of",
    "read_plan",
]

NEST = "ktdf.nest"
"""Attribute of a pipeline: the number of its nest in the program's plan."""

LOOP = "ktdf.loop"
"""Attribute of a loop or an open tile size: numbers of the nest and of the loop in it."""

OPERAND = "ktdf.operand"
"""Attribute of a transfer from or to an operand of the nest: the operand's number."""


@frozen
class LoopTag:
    """Which loop of which nest of the plan."""

    nest: int
    loop: int

    def attribute(self) -> Attribute:
        """The value of the attribute `LOOP`."""
        return ArrayAttr((IntegerAttr(self.nest, I64), IntegerAttr(self.loop, I64)))


def loop_tag(op: Operation) -> LoopTag | None:
    """The tag of a loop or an open tile size, None where the plan does not know it."""
    match op.attributes.get(LOOP):
        case ArrayAttr(elements=(IntegerAttr(value=nest), IntegerAttr(value=loop))):
            return LoopTag(nest, loop)
        case _:
            return None


def nest_number(pipeline: Operation) -> int | None:
    """The nest of a pipeline in the program's plan."""
    match pipeline.attributes.get(NEST):
        case IntegerAttr(value=number):
            return number
        case _:
            return None


def plan_of(op: Operation, definitions: Definitions) -> Plan | None:
    """The plan that stands on the function around an operation."""
    function = next((o for o in (op, *definitions.ancestors(op)) if isinstance(o, func.Func)), None)
    return None if function is None else read_plan(function)


def read_plan(function: Operation) -> Plan | None:
    """The plan that stands on a function; `ScheduleError` if what stands there is none."""
    attribute = function.attributes.get(PLAN)
    try:
        return None if attribute is None else Plan.from_attribute(attribute)
    except ValueError as error:
        raise ScheduleError.at(function.location, f"'{PLAN}': {error}") from None


def check_plans(module: Operation) -> None:
    """`ScheduleError` with every plan that is none, and every mark for which the plan has no place."""
    found: list[Diagnostic] = []
    for function in module.walk():
        if not isinstance(function, func.Func) or PLAN not in function.attributes:
            continue
        try:
            plan = read_plan(function)
        except ScheduleError as error:
            found += error.diagnostics
            continue
        if plan is not None:
            found += (
                Diagnostic(text, op.location) for op in function.walk() for text in _misplaced(op, plan)
            )
    if found:
        raise ScheduleError(tuple(found))


def _misplaced(op: Operation, plan: Plan) -> Iterator[str]:
    nests = len(plan.nests)
    number, tag = nest_number(op), loop_tag(op)
    if number is not None and not 0 <= number < nests:
        yield f"'{NEST}' is {number}, but the plan of the function has {nests} nests"
    if tag is not None and not 0 <= tag.nest < nests:
        yield f"'{LOOP}' is of nest {tag.nest}, but the plan of the function has {nests} nests"
    elif tag is not None and not 0 <= tag.loop < len(plan.nests[tag.nest].tile_sizes):
        yield (
            f"'{LOOP}' is loop {tag.loop}, but nest {tag.nest} of the plan has "
            f"{len(plan.nests[tag.nest].tile_sizes)} loops"
        )
    if isinstance(op, Pipeline) and number is not None and 0 <= number < nests:
        operands = len(plan.nests[number].buffer_depths)
        for transfer in op.walk():
            operand = transfer.attributes.get(OPERAND)
            if isinstance(operand, IntegerAttr) and not 0 <= operand.value < operands:
                yield (
                    f"'{OPERAND}' is {operand.value} in this pipeline, but nest {number} of the plan has "
                    f"{operands} operands"
                )


def nest_plan(op: Operation, nest: int | None, definitions: Definitions) -> NestPlan | None:
    """The plan of one nest of the function around an operation."""
    plan = plan_of(op, definitions)
    if plan is None or nest is None or nest >= len(plan.nests):
        return None
    return plan.nests[nest]


def is_parallel(loop: Operation) -> bool:
    """Whether a loop is marked as parallel; one without a mark is not."""
    kind = loop.attributes.get("loop_type")
    return isinstance(kind, LoopTypeAttr) and kind.kind is LoopKind.PARALLEL


def is_normal(loop: scf.For, definitions: Definitions) -> bool:
    """Whether a loop starts at 0, counts by 1 and carries no values."""
    return (
        constant_value(loop.lower, definitions) == 0
        and constant_value(loop.step, definitions) == 1
        and not loop.inits
    )


def perfect_nest(root: scf.For) -> tuple[scf.For, ...]:
    """The loop and all that are nested in it with nothing beside them but constants."""
    nest = [root]
    while True:
        inner = [op for op in nest[-1].body.block.operations[:-1] if not isinstance(op, arith.Constant)]
        if len(inner) != 1 or not isinstance(inner[0], scf.For):
            return tuple(nest)
        nest.append(inner[0])


def pipeline_scope(pipeline: Pipeline, definitions: Definitions) -> tuple[scf.For, ...]:
    """Loops that repeat this pipeline and no other, innermost first (scheduler spec 4.7).

    Ends at what is no `scf.for`, and at a loop that holds another pipeline.
    """
    scope: list[scf.For] = []
    path: Operation = pipeline
    for ancestor in definitions.ancestors(pipeline):
        if not isinstance(ancestor, scf.For):
            break
        beside = (op for op in ancestor.body.block.operations if op is not path)
        if any(isinstance(inner, Pipeline) for op in beside for inner in op.walk()):
            break
        scope.append(ancestor)
        path = ancestor
    return tuple(scope)


def nest_loops(pipeline: Pipeline, definitions: Definitions) -> list[scf.For]:
    """The loops of a pipeline's nest, outermost first."""
    loops: list[scf.For] = []
    for ancestor in definitions.ancestors(pipeline):
        if not isinstance(ancestor, scf.For) or not isinstance(
            ancestor.attributes.get("loop_type"), LoopTypeAttr
        ):
            break
        loops.append(ancestor)
    return loops[::-1]


def nest_pipelines(function: Operation, definitions: Definitions) -> list[Pipeline]:
    """The pipelines of a program that are in no other, in program order."""
    return [
        op
        for op in function.walk()
        if isinstance(op, Pipeline) and not any(isinstance(a, Pipeline) for a in definitions.ancestors(op))
    ]


def outermost_loops(operations: Sequence[Operation]) -> Iterator[scf.For]:
    """Loops that are in no other loop, in program order; loops themselves are not entered."""
    for op in operations:
        if isinstance(op, scf.For):
            yield op
        else:
            for region in op.regions:
                for block in region.blocks:
                    yield from outermost_loops(block.operations)
