"""Bodies on vectors: masks, splats, loops that carry accumulators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dfsched.dialects.ktdf import (
    LoopKind,
    LoopTypeAttr,
)
from dfsched.passes.build import Emitter
from dfsched.passes.reductions import combine_of, neutral_element
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr
from ktir.dialects import arith, linalg, scf
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.types import I1, INDEX, FloatType, IntegerType, TensorType, bit_width

__all__ = ["carrying_loop", "masked", "renumbered", "splat"]


def renumbered(operations: Sequence[Operation], loops: Mapping[int, int]) -> list[Operation]:
    """A body whose loops have other numbers."""
    return [
        op.replace(attributes={"dim": IntegerAttr(loops[op.dim.value])})
        if isinstance(op, linalg.Index)
        else op
        for op in operations
    ]


def carrying_loop(
    emitter: Emitter,
    trips: int,
    carried: list[Value],
    body: Callable[[Value, list[Value], Emitter], list[Value]],
) -> list[Value]:
    """A reduction loop around `body`, which gets the variable and the carried values."""
    variable = BlockArgument(INDEX)
    inner = Emitter(emitter.location)
    arguments = [BlockArgument(value.type, "acc") for value in carried]
    values = body(variable, list(arguments), inner)
    bounds = [emitter.constant(0), emitter.constant(trips), emitter.constant(1)]
    loop = scf.For.create(
        [*bounds, *carried],
        [value.type for value in carried],
        {"loop_type": LoopTypeAttr(LoopKind.REDUCTION)},
        [Region.of([*inner.operations, scf.Yield.create(values)], [variable, *arguments])],
        location=emitter.location,
    )
    emitter.operations.append(loop)
    return list(loop.results)


def masked(
    op: linalg.Generic,
    body: Sequence[Operation],
    inner: Mapping[Value, Value],
    active: int,
    shape: tuple[int, ...],
) -> tuple[list[Operation], arith.Constant, BlockArgument]:
    """A body that combines the neutral element in lanes from `active` on, the mask, its block argument."""
    combine = combine_of(op)
    assert combine is not None
    lanes = math.prod(shape)
    data = bytes([1] * active + [0] * (lanes - active))
    mask = arith.Constant.of(DenseElementsAttr(data, TensorType(shape, I1), False))
    argument = BlockArgument(I1, "mask")
    value = inner.get(combine.value, combine.value)
    neutral = arith.Constant.of(neutral_element(combine.op))
    select = arith.Select.create([argument, value, neutral.result], [value.type], location=op.location)
    new = inner[combine.op.results[0]]
    result: list[Operation] = []
    for operation in body:
        if new in operation.results:
            result += [neutral, select]
            operands = [select.results[0] if v is value else v for v in operation.operands]
            operation = operation.replace(operands=operands)
        result.append(operation)
    return result, mask, argument


def splat(attribute: Attribute, type: TensorType) -> arith.Constant:
    """A constant tensor of one number."""
    match attribute:
        case FloatAttr(bits=bits, type=FloatType() as element):
            data = bits.to_bytes((element.width + 7) // 8, "little")
        case IntegerAttr(value=number, type=IntegerType() as integer):
            width = max(1, (bit_width(integer) + 7) // 8)
            data = (number & ((1 << bit_width(integer)) - 1)).to_bytes(width, "little")
        case _:
            raise AssertionError(attribute)
    return arith.Constant.of(DenseElementsAttr(data, type, True))
