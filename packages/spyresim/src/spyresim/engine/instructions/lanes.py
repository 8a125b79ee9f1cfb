"""Lane-wise computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dfsched import image as im
from spyresim.engine.attributes import parse_parameters
from spyresim.engine.costs import is_slow
from spyresim.engine.footprint import Footprint
from spyresim.engine.state import Cohort, Gang
from spyresim.engine.values import Vector, spread
from spyresim.engine.vectors import SLOW_UNARY, check_mask, require_same
from spyresim.errors import ControlFault, OutOfRangeFault, UnsupportedError

if TYPE_CHECKING:
    from spyresim.engine.process import Executor


def computed(x: Executor, gang: Gang, dst: int, value: Vector, name: str, slow: bool = False) -> bool:
    gang.vectors[dst] = value
    cost = x.context.costs.compute(gang.kind, value.element, value.lanes, slow)
    x.spend(gang, gang.time, cost, "", name)
    x.count_lanes(gang, value.element, value.lanes)
    gang.pc += 1
    return True


def vector_binary(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorBinary) -> bool:
    a, b, mask = x.vector(gang, i.a), x.vector(gang, i.b), x.mask(gang, i.mask)
    value = x.lanes.binary(i.op, a, b, mask, x.site(gang))
    return computed(x, gang, i.dst, value, i.op.name.lower())


def vector_unary(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorUnary) -> bool:
    value = x.lanes.unary(i.op, x.vector(gang, i.a), x.mask(gang, i.mask), x.site(gang))
    return computed(x, gang, i.dst, value, i.op.name.lower(), i.op in SLOW_UNARY)


def vector_multiply_add(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorMultiplyAdd) -> bool:
    a, b, c = x.vector(gang, i.a), x.vector(gang, i.b), x.vector(gang, i.c)
    mask, site = x.mask(gang, i.mask), x.site(gang)
    product = x.lanes.binary(im.BinaryOperator.MUL, a, b, None, site)
    total = x.lanes.binary(im.BinaryOperator.ADD, product, c, None, site)
    if mask is not None:
        check_mask(mask, total, site)
        total = Vector(total.element, np.where(mask.data.astype(np.bool_), total.data, a.data))
    return computed(x, gang, i.dst, total, "multiply-add")


def vector_compare(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorCompare) -> bool:
    a, b, mask = x.vector(gang, i.a), x.vector(gang, i.b), x.mask(gang, i.mask)
    value = x.lanes.compare(i.op, a, b, mask, x.site(gang))
    return computed(x, gang, i.dst, value, f"compare {i.op.name.lower()}")


def vector_select(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorSelect) -> bool:
    condition, a, b = x.vector(gang, i.condition), x.vector(gang, i.a), x.vector(gang, i.b)
    require_same(a, b, x.site(gang))
    check_mask(condition, a, x.site(gang))
    data = np.where(condition.data.astype(np.bool_), a.data, b.data)
    return computed(x, gang, i.dst, Vector(a.element, data), "select")


def vector_cast(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorCast) -> bool:
    source = x.vector(gang, i.a)
    if source.lanes != i.lanes:
        raise UnsupportedError(f"a cast of {source.lanes} lanes to {i.lanes}", x.site(gang))
    value = x.lanes.cast(source, i.element, x.site(gang))
    return computed(x, gang, i.dst, value, f"cast to {i.element.mlir}")


def shuffle(x: Executor, cohort: Cohort, gang: Gang, i: im.Shuffle) -> bool:
    descriptor = x.context.image.shuffles[i.descriptor]
    picked = [x.scalar(gang, register) for register in descriptor.variables]
    mask = x.mask(gang, descriptor.mask)
    value = x.lanes.shuffle(x.vector(gang, i.a), descriptor, picked, mask, x.site(gang))
    gang.vectors[i.dst] = value
    x.spend(gang, gang.time, x.context.costs.shuffle(gang.kind, value.element, value.lanes), "", "shuffle")
    gang.pc += 1
    return True


def vector_constant(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorConstant) -> bool:
    key = (i.constant, len(gang))
    if key not in x.constants:
        constant = x.context.image.constants[i.constant]
        x.constants[key] = x.lanes.constant(constant.element, constant.patterns(), len(gang), x.site(gang))
    gang.vectors[i.dst] = x.constants[key]
    gang.pc += 1
    return True


def vector_rotate(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorRotate) -> bool:
    vector = x.vector(gang, i.a)
    amounts = spread(x.scalar(gang, i.amount), len(gang)) % vector.lanes * (-1 if i.left else 1)
    lanes = (np.arange(vector.lanes)[None, :] - amounts[:, None]) % vector.lanes
    data = np.take_along_axis(vector.data, lanes, axis=1)
    return computed(x, gang, i.dst, Vector(vector.element, data), "rotate")


def vector_scan(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorScan) -> bool:
    """``out[n] = out[n - gap] op in[n]``, or the mirror image of it; `gap` lanes at a time."""
    vector, site = x.vector(gang, i.a), x.site(gang)
    if not i.gap > 0:
        raise ControlFault(f"the gap of a scan is {i.gap}, not positive", site=site)
    data = vector.data[:, ::-1].copy() if i.right_to_left else vector.data.copy()
    for first in range(i.gap, vector.lanes, i.gap):
        end = min(first + i.gap, vector.lanes)
        before = Vector(vector.element, data[:, first - i.gap : end - i.gap])
        here = Vector(vector.element, data[:, first:end])
        data[:, first:end] = x.lanes.binary(i.op, before, here, None, site).data
    value = Vector(vector.element, data[:, ::-1] if i.right_to_left else data)
    return computed(x, gang, i.dst, value, "scan")


def vector_move(x: Executor, cohort: Cohort, gang: Gang, i: im.VectorMove) -> bool:
    gang.vectors[i.dst] = x.vector(gang, i.a)
    gang.pc += 1
    return True


def opaque(x: Executor, cohort: Cohort, gang: Gang, i: im.CallOpaque) -> bool:
    site = x.site(gang)
    opaque = x.context.image.opaques[i.descriptor]
    results = [operand for operand in opaque.outputs if operand.name.startswith("out")]
    if len(results) != 1:
        raise OutOfRangeFault(f"opaque operation {opaque.function} with {len(results)} results", site=site)
    registers = x.registers_of(gang, opaque.memory)
    inputs: list[Vector] = []
    for operand in opaque.inputs:
        if not operand.name.startswith("in"):  # what only the template itself needs
            continue
        data = registers.load(operand.offset_bytes, _footprint(x, operand), site)
        inputs.append(x.lanes.from_bytes(operand.element, data, site))
    if i.descriptor not in x.opaque_attributes:
        x.opaque_attributes[i.descriptor] = parse_parameters(opaque.parameters, site)
    (out,) = results
    value = x.lanes.named(opaque.function, inputs, out.element, x.opaque_attributes[i.descriptor], site)
    if value.lanes != out.lanes:
        raise UnsupportedError(f"{opaque.function} of {value.lanes} lanes to {out.lanes}", site)
    registers.store(out.offset_bytes, _footprint(x, out), x.lanes.to_bytes(value), site)
    cost = x.context.costs.compute(gang.kind, out.element, out.lanes, is_slow(opaque.function))
    x.spend(gang, gang.time, cost, "", opaque.function)
    x.count_lanes(gang, out.element, out.lanes)
    gang.pc += 1
    return True


def _footprint(x: Executor, operand: im.OpaqueOperand) -> Footprint:
    """The lanes of an operand, one after the other."""
    key = operand.lanes, operand.element
    if key not in x.dense:
        step = operand.element.storage_bits // 8
        x.dense[key] = Footprint(np.arange(operand.lanes, dtype=np.int64) * step, step)
    return x.dense[key]


HANDLERS: dict[type[im.Instruction], Callable[..., bool]] = {
    im.VectorBinary: vector_binary,
    im.VectorUnary: vector_unary,
    im.VectorMultiplyAdd: vector_multiply_add,
    im.VectorCompare: vector_compare,
    im.VectorSelect: vector_select,
    im.VectorCast: vector_cast,
    im.Shuffle: shuffle,
    im.VectorConstant: vector_constant,
    im.VectorRotate: vector_rotate,
    im.VectorScan: vector_scan,
    im.VectorMove: vector_move,
    im.CallOpaque: opaque,
}
