"""Questions about `linalg.generic`, and its construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfsched.passes.build import Emitter
from dfsched.passes.errors import Findings
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from ktir.affine import AffineMap, Dim
from ktir.attribute import Attribute
from ktir.attributes import DenseElementsAttr, FloatAttr, IntegerAttr, wrap_integer
from ktir.dialects import linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import Location
from ktir.types import FloatType, ShapedType, TensorType, Type

__all__ = [
    "element_type",
    "element_wise_copy",
    "is_element_wise",
    "is_window",
    "loop_extents",
    "make_generic",
    "operands_of",
    "rewrite_generics",
    "splat_value",
]


def element_type(value: Value) -> Type:
    """The element type of a shaped value."""
    assert isinstance(value.type, ShapedType)
    return value.type.element


def is_element_wise(op: linalg.LinalgOp) -> bool:
    """Whether every loop is parallel and every output a tensor that permutes the loops."""
    outputs = op.maps[len(op.input_values) :]
    return (
        all(kind == "parallel" for kind in op.iterators)
        and all(isinstance(value.type, TensorType) for value in op.output_values)
        and all(map.is_permutation for map in outputs)
    )


def is_window(definer: Operation | None) -> bool:
    """Whether an input is a tensor without contents, which only says how far loops run."""
    return isinstance(definer, tensor.Empty)


def operands_of(
    generic: linalg.Generic, definitions: Definitions
) -> list[tuple[Value, AffineMap, BlockArgument]]:
    """The inputs that are read, with their subscripts and their names in the body: all but windows."""
    return [
        (value, map, argument)
        for value, map, argument in zip(
            generic.inputs, generic.maps, generic.body.block.arguments, strict=False
        )
        if not is_window(definitions.definer(value))
    ]


def make_generic(
    inputs: Sequence[Value],
    output: Value,
    maps: Sequence[AffineMap],
    arguments: Sequence[BlockArgument],
    body: Sequence[Operation],
    result: Value,
    location: Location,
) -> linalg.Generic:
    """An element-wise generic with one result; `arguments` are the block's, the output's last."""
    terminator = linalg.Yield.create([result], location=location)
    region = Region.of([*body, terminator], arguments)
    iterators = ["parallel"] * maps[-1].num_dims
    return linalg.Generic.build(inputs, [output], maps, iterators, region, location=location)


def element_wise_copy(source: Value, emitter: Emitter) -> Value:
    """A tensor as it is, through an element-wise generic: the compute unit moves it."""
    type = source.type
    assert isinstance(type, TensorType)
    empty = emitter.add(tensor.Empty.create((), [type], location=emitter.location))
    value, out = BlockArgument(type.element, "in"), BlockArgument(type.element, "out")
    identity = AffineMap.identity(type.rank)
    copy = linalg.Generic.build(
        [source],
        [empty],
        [identity, identity],
        ["parallel"] * type.rank,
        Region.of([linalg.Yield.create([value])], [value, out]),
        location=emitter.location,
    )
    return emitter.add(copy)


def rewrite_generics(
    module: Module,
    chosen: Callable[[linalg.Generic], bool],
    replaced: Callable[[linalg.Generic], Sequence[Operation]],
) -> Module:
    """The module with other operations in place of chosen generics; `ScheduleError` with all that fails."""
    findings = Findings()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            if isinstance(op, linalg.Generic) and chosen(op):
                with findings.noting():
                    result += replaced(op)
            else:
                result.append(op)
        return result

    new = rewrite_blocks(module, rewrite)
    findings.check()
    assert isinstance(new, Module)
    return new


def splat_value(dense: DenseElementsAttr) -> Attribute:
    """The one element of a splat constant as a scalar attribute."""
    assert isinstance(dense.type, ShapedType)
    element = dense.type.element
    bits = int.from_bytes(dense.data, "little")
    if isinstance(element, FloatType):
        return FloatAttr(bits, element)
    return IntegerAttr(wrap_integer(bits, element), element)


def loop_extents(generic: linalg.Generic) -> dict[int, int]:
    """Extents of the loops by the shapes of the operands (linear subscripts give none)."""
    found: dict[int, int] = {}
    for value, map in zip((*generic.inputs, *generic.outputs), generic.maps, strict=True):
        if not isinstance(value.type, ShapedType):
            continue
        for expr, extent in zip(map.results, value.type.static_shape(), strict=True):
            if isinstance(expr, Dim):
                found[expr.position] = extent
    return found
