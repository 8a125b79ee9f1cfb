"""`parallelize-loops-across-instances`: a parallel loop spread over equal hardware (scheduler spec 3.16).

Takes pipelines whose stages name their units. Where all units of a pipeline sit in a group of the device
that has equal siblings (the corelets of a core), one parallel loop around the pipeline becomes a
`ktdf.parallel` over all of them. Which loop and how many instances the plan says; without a plan (and in
the v1 profile): the outermost loop with a constant trip count that the instances divide, else one with at
least as many trips, else one without a constant trip count. A pipeline of the same units that has no such
loop runs on the first instance only.

Before::

    scf.for %b = %c0 to %c12 step %c1 { ktdf.pipeline { ... } } {loop_type = #ktdf.loop_type<parallel_loop>}

After::

    ktdf.parallel (%b, %instance) = (%c0) to (%c12) step (%c1) distribute(num_instances = 2) {
      ktdf.pipeline { ... }
    }

>>> from dfsched.passes.examples import after, kernel
>>> after("parallelize-loops-across-instances", kernel(),
... r"ktdf.parallel")
ktdf.parallel (%arg0, %arg1) = (%c0) to (%c2) step (%c1) distribute(num_instances = 2) {
ktdf.parallel_yield
"""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.dialects.ktdf import Parallel, ParallelYield, Pipeline
from dfsched.options import Profile
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, ScheduleError
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from dfsched.passes.loop_nests import is_parallel, loop_tag, nest_plan, pipeline_scope
from dfsched.passes.simplify_loops import static_trips
from ktir.attributes import DenseArrayAttr, IntegerAttr
from ktir.dialects import scf
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.opdef import OPERAND_SEGMENTS
from ktir.types import I32, I64, INDEX

__all__ = ["PASS", "run", "units_of"]


def run(module: Module, context: PassContext) -> Module:
    """Spread a loop of every pipeline for which the device has instances."""
    definitions = Definitions(module)
    chosen: dict[Value, int] = {}
    findings = Findings()
    for op in module.walk():
        if not isinstance(op, Pipeline):
            continue
        with findings.noting():
            found = _choice(op, definitions, context)
            inner = [other for other in op.walk() if isinstance(other, Pipeline) and other is not op]
            if found is None or any(_choice(other, definitions, context) for other in inner):
                continue  # instances of instances do not exist: the inner one is spread
            loop, instances = found
            chosen[loop.induction_variable] = instances
    findings.check()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [
            _parallel(op, chosen[op.induction_variable])
            if isinstance(op, scf.For) and op.induction_variable in chosen
            else op
            for op in operations
        ]

    if not chosen:
        return module
    new = rewrite_blocks(module, rewrite)
    assert isinstance(new, Module)
    return new


PASS = Pass(
    "parallelize-loops-across-instances", Group.SCHEDULER, run, "spread parallel loops over equal hardware"
)


def units_of(pipeline: Pipeline) -> tuple[str, ...]:
    """Units of the direct stages, in order; `ScheduleError` at a stage without."""
    units: dict[str, None] = {}
    for stage in pipeline.stages:
        if stage.units is None:
            raise ScheduleError.at(stage.location, "the stage names no unit (applicable_units)")
        units.update(dict.fromkeys(stage.units))
    return tuple(units)


def _choice(pipeline: Pipeline, definitions: Definitions, context: PassContext) -> tuple[scf.For, int] | None:
    """The loop to spread and over how many instances."""
    instances = context.architecture.instances_for(units_of(pipeline))
    if instances is None:
        return None
    scope = [
        loop
        for loop in reversed(pipeline_scope(pipeline, definitions))
        if is_parallel(loop) and not loop.inits
    ]
    if context.options.profile is not Profile.V1:
        for loop in scope:
            tag = loop_tag(loop)
            plan = None if tag is None else nest_plan(loop, tag.nest, definitions)
            if tag is None or plan is None:
                continue
            if plan.instance_loop == tag.loop and plan.instances > 1:
                if plan.instances > instances.count:
                    raise ScheduleError.at(
                        pipeline.location,
                        f"the plan spreads a loop over {plan.instances} instances, but the device has "
                        f"{instances.count}",
                    )
                return loop, plan.instances
        if any((tag := loop_tag(loop)) and nest_plan(loop, tag.nest, definitions) for loop in scope):
            return None
    count = instances.count
    trips = {loop: static_trips(loop, definitions) for loop in scope}
    for fits in (
        lambda n: n is not None and n >= count and n % count == 0,
        lambda n: n is not None and n >= count,
        lambda n: n is None,
    ):
        found = next((loop for loop in scope if fits(trips[loop])), None)
        if found is not None:
            return found, count
    return None


def _parallel(loop: scf.For, instances: int) -> Parallel:
    instance = BlockArgument(INDEX)
    body = (*loop.body.block.operations[:-1], ParallelYield.create())
    return Parallel.create(
        [loop.lower, loop.upper, loop.step],
        (),
        {
            OPERAND_SEGMENTS: DenseArrayAttr(I32, (1, 1, 1)),
            "num_instances": IntegerAttr(instances, I64),
        },
        [Region.of(body, (loop.induction_variable, instance))],
        location=loop.location,
    )
