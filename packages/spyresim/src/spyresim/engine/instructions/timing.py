"""What instructions cost, without what they compute: vectors have a type and lanes, and no values.

Control, queues and signals are the same as with values.  Each function here must spend exactly what the one
of the same name spends that computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dfsched import image as im
from spyresim.engine.costs import is_slow
from spyresim.engine.instructions.lanes import computed
from spyresim.engine.instructions.memory import spend_access
from spyresim.engine.instructions.ports import has_turn
from spyresim.engine.state import Cohort, Gang
from spyresim.engine.vectors import SLOW_UNARY

if TYPE_CHECKING:
    from spyresim.engine.time_only import TimeExecutor


def vector_load(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorLoad) -> bool:
    view = x.view(gang, i.view)
    if not x.drained(gang) or not has_turn(x, gang, view):
        return False
    shape = x.context.patterns.get(i.generator, 0, view.view)
    gang.vectors[i.dst] = x.ghost(view.view.element, len(shape.footprint), len(gang))
    size = shape.footprint.size
    x.count_traffic(gang, view, size, writing=False)
    spend_access(x, gang, view, size, False, "load")
    gang.pc += 1
    return True


def vector_store(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorStore) -> bool:
    view = x.view(gang, i.view)
    if not x.drained(gang) or not has_turn(x, gang, view):
        return False
    size = x.context.patterns.get(i.generator, 0, view.view).footprint.size
    x.count_traffic(gang, view, size, writing=True)
    spend_access(x, gang, view, size, True, "store")
    gang.pc += 1
    return True


def vector_binary(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorBinary) -> bool:
    return computed(x, gang, i.dst, x.vector(gang, i.a), i.op.name.lower())


def vector_unary(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorUnary) -> bool:
    return computed(x, gang, i.dst, x.vector(gang, i.a), i.op.name.lower(), i.op in SLOW_UNARY)


def vector_multiply_add(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorMultiplyAdd) -> bool:
    return computed(x, gang, i.dst, x.vector(gang, i.a), "multiply-add")


def vector_compare(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorCompare) -> bool:
    value = x.ghost(im.ElementType.I1, x.vector(gang, i.a).lanes, len(gang))
    return computed(x, gang, i.dst, value, f"compare {i.op.name.lower()}")


def vector_select(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorSelect) -> bool:
    return computed(x, gang, i.dst, x.vector(gang, i.a), "select")


def vector_cast(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorCast) -> bool:
    value = x.ghost(i.element, i.lanes, len(gang))
    return computed(x, gang, i.dst, value, f"cast to {i.element.mlir}")


def vector_rotate(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorRotate) -> bool:
    return computed(x, gang, i.dst, x.vector(gang, i.a), "rotate")


def vector_scan(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorScan) -> bool:
    return computed(x, gang, i.dst, x.vector(gang, i.a), "scan")


def shuffle(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.Shuffle) -> bool:
    described = x.context.image.shuffles[i.descriptor]
    lanes = len(described.indices) * described.repetition
    value = gang.vectors[i.dst] = x.ghost(described.element, lanes, len(gang))
    x.spend(gang, gang.time, x.context.costs.shuffle(gang.kind, value.element, value.lanes), "", "shuffle")
    gang.pc += 1
    return True


def vector_constant(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.VectorConstant) -> bool:
    constant = x.context.image.constants[i.constant]
    gang.vectors[i.dst] = x.ghost(constant.element, len(constant.patterns()), len(gang))
    gang.pc += 1
    return True


def opaque(x: TimeExecutor, cohort: Cohort, gang: Gang, i: im.CallOpaque) -> bool:
    described = x.context.image.opaques[i.descriptor]
    out = described.outputs[0]
    cost = x.context.costs.compute(gang.kind, out.element, out.lanes, is_slow(described.function))
    x.spend(gang, gang.time, cost, "", described.function)
    x.count_lanes(gang, out.element, out.lanes)
    gang.pc += 1
    return True


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.VectorLoad: vector_load,
    im.VectorStore: vector_store,
    im.VectorBinary: vector_binary,
    im.VectorUnary: vector_unary,
    im.VectorMultiplyAdd: vector_multiply_add,
    im.VectorCompare: vector_compare,
    im.VectorSelect: vector_select,
    im.VectorCast: vector_cast,
    im.VectorRotate: vector_rotate,
    im.VectorScan: vector_scan,
    im.Shuffle: shuffle,
    im.VectorConstant: vector_constant,
    im.CallOpaque: opaque,
}
