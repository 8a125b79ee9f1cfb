"""`generalize-linalg`: every computation on tensors becomes a `linalg.generic` (scheduler spec 3.4 step 1).

Takes named `linalg` operations, `tensor.generate`, and element-wise `arith` and `math` operations on ranked
tensors. Leaves generics with the same maps and bodies; the outs of those made from `arith`, `math` and
`tensor.generate` are fresh `tensor.empty`s. Fills and copies become generics too, and so do constants of
different elements: these are chosen by index. An output of extent 1 at subscript 0 (what keeps the rank of a
reduction's result) leaves the generic and comes back as a `tensor.expand_shape`. Everything else stays.

Before::

    %y = linalg.add ins(%x, %x : ...) outs(%e : tensor<4x64xf16>) -> tensor<4x64xf16>
    %z = math.exp %y : tensor<4x64xf16>

After::

    %y = linalg.generic {indexing_maps = [#id, #id, #id], ...} ins(%x, %x ...) outs(%e ...) { arith.addf }
    %f = tensor.empty() : tensor<4x64xf16>
    %z = linalg.generic {indexing_maps = [#id, #id], ...} ins(%y ...) outs(%f ...) { math.exp }

>>> from dfsched.passes.examples import example
>>> example("generalize-linalg", '''
... %y = arith.addf %x, %x : tensor<4xf16>
... "use"(%y) : (tensor<4xf16>) -> ()
... ''', arguments="%x: tensor<4xf16>")
#map = affine_map<(d0) -> (d0)>
%0 = tensor.empty() : tensor<4xf16>
%1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%x,
    %x : tensor<4xf16>, tensor<4xf16>) outs(%0 : tensor<4xf16>) {
^bb0(%in: f16, %in_0: f16, %out: f16):
  %2 = arith.addf %in, %in_0 : f16
  linalg.yield %2 : f16
} -> tensor<4xf16>
"use"(%1) : (tensor<4xf16>) -> ()
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.constant_tables import is_table, of_table
from dfsched.passes.generics import element_type, make_generic
from dfsched.passes.ir_tools import clone_all, rewrite_blocks
from ktir.affine import AffineMap, Const
from ktir.attributes import ArrayAttr, DenseArrayAttr, DenseElementsAttr, IntegerAttr
from ktir.dialects import arith, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, OpResult, Region, Value
from ktir.types import I64, INDEX, TensorType, Type

__all__ = ["PASS", "as_generic", "is_element_wise_scalar_op", "of_places", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Rewrite every block of the module."""
    new = rewrite_blocks(module, lambda ops: [new for op in ops for new in _generalized(op)])
    assert isinstance(new, Module)
    return new


PASS = Pass("generalize-linalg", Group.FRONTEND, run, "named and tensor-level operations become generics")


def _generalized(op: Operation) -> list[Operation]:
    match op:
        case linalg.LinalgOp():
            return _with_subscripts_of_loops(as_generic(op))
        case tensor.Generate() | arith.Constant():
            return of_places(op)
        case _ if is_element_wise_scalar_op(op):
            return _of_scalar_op(op)
        case _:
            return [op]


def of_places(op: Operation) -> list[Operation]:
    """A tensor whose elements come from where they stand as a generic without inputs; others as they are."""
    match op:
        case tensor.Generate():
            type = op.result.type
            return _of_generate(op) if isinstance(type, TensorType) and type.is_static else [op]
        case arith.Constant(value=DenseElementsAttr(splat=False) as dense) if is_table(dense):
            return of_table(op, dense) or [op]
        case _:
            return [op]


def is_element_wise_scalar_op(op: Operation) -> bool:
    """Whether an `arith` or `math` operation works element by element on ranked tensors of one shape."""
    if op.name.partition(".")[0] not in ("arith", "math") or not op.operands or len(op.results) != 1:
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    shapes = {type.shape for type in types if isinstance(type, TensorType)}
    return all(isinstance(type, TensorType) for type in types) and len(shapes) == 1


def as_generic(op: linalg.LinalgOp) -> linalg.Generic:
    """A structured operation in its general form, with the same results."""
    if isinstance(op, linalg.Generic):
        return op
    body = op.regions[0]
    missing = len(op.input_values) + len(op.output_values) - len(body.block.arguments)
    if missing:  # linalg.map has no block arguments for its outs
        extra = [BlockArgument(element_type(value), "out") for value in op.output_values[-missing:]]
        body = Region((body.block.replace(arguments=(*body.block.arguments, *extra)),))
    generic = linalg.Generic.build(
        op.input_values, op.output_values, op.maps, op.iterators, body, location=op.location
    )
    return generic.replace(results=op.results)


def _with_subscripts_of_loops(op: linalg.Generic) -> list[Operation]:
    """A generic whose outputs have no dimension of extent 1 at the constant subscript 0."""
    first = len(op.inputs)
    kept = [_kept(value.type, map) for value, map in zip(op.outputs, op.maps[first:], strict=True)]
    if all(len(dims) == map.num_results for dims, map in zip(kept, op.maps[first:], strict=True)):
        return [op]
    before: list[Operation] = []
    after: list[Operation] = []
    maps, outputs, results = list(op.maps), list(op.outputs), list(op.results)
    for number, dims in enumerate(kept):
        type, map = outputs[number].type, maps[first + number]
        if len(dims) == map.num_results:
            continue
        assert isinstance(type, TensorType)
        narrow = TensorType(tuple(type.shape[dim] for dim in dims), type.element)
        groups = {"reassociation": _reassociation(dims, type.rank)}
        collapse = tensor.CollapseShape.create([outputs[number]], [narrow], groups, location=op.location)
        before.append(collapse)
        maps[first + number] = AffineMap(map.num_dims, 0, tuple(map.results[dim] for dim in dims))
        outputs[number], results[number] = collapse.result, OpResult(narrow)
        wide = {**groups, "static_output_shape": DenseArrayAttr(I64, type.static_shape())}
        expand = tensor.ExpandShape.create([results[number]], [type], wide, location=op.location)
        after.append(expand.replace(results=(op.results[number],)))
    new = linalg.Generic.build(op.inputs, outputs, maps, op.iterators, op.body, location=op.location)
    return [*before, new.replace(results=tuple(results)), *after]


def _kept(type: Type, map: AffineMap) -> list[int]:
    """The dimensions of an output that loops walk."""
    if not isinstance(type, TensorType) or not type.is_static:
        return list(range(map.num_results))
    extents = type.static_shape()
    return [dim for dim, expr in enumerate(map.results) if expr != Const(0) or extents[dim] != 1]


def _reassociation(kept: Sequence[int], rank: int) -> ArrayAttr:
    """Groups of neighbouring dimensions with one in each that is kept."""
    edges = [0, *kept[1:], rank] if kept else []
    return ArrayAttr(
        tuple(
            ArrayAttr(tuple(IntegerAttr(dim, I64) for dim in range(start, end)))
            for start, end in pairwise(edges)
        )
    )


def _of_scalar_op(op: Operation) -> list[Operation]:
    type = op.results[0].type
    assert isinstance(type, TensorType)
    empty = tensor.Empty.create((), [type], location=op.location)
    arguments = [BlockArgument(element_type(value), "in") for value in op.operands]
    scalar = op.__class__.create(arguments, [type.element], op.attributes, location=op.location)
    maps: Sequence[AffineMap] = [AffineMap.identity(type.rank)] * (len(op.operands) + 1)
    generic = make_generic(
        op.operands,
        empty.result,
        maps,
        [*arguments, BlockArgument(type.element, "out")],
        [scalar],
        scalar.results[0],
        op.location,
    )
    return [empty, generic.replace(results=op.results)]


def _of_generate(op: tensor.Generate) -> list[Operation]:
    """A generic without inputs whose body computes from the indices of its loops."""
    type = op.result.type
    assert isinstance(type, TensorType)
    empty = tensor.Empty.create((), [type], location=op.location)
    block = op.body.block
    mapping: dict[Value, Value] = {}
    indices = []
    for dim, argument in enumerate(block.arguments):
        index = linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(dim)}, location=op.location)
        mapping[argument] = index.result
        indices.append(index)
    body = clone_all(block.operations[:-1], mapping)
    yielded = block.terminator.operands[0]
    generic = make_generic(
        (),
        empty.result,
        [AffineMap.identity(type.rank)],
        [BlockArgument(type.element, "out")],
        [*indices, *body],
        mapping.get(yielded, yielded),
        op.location,
    )
    return [empty, generic.replace(results=op.results)]
