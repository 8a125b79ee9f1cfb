r"""`fuse-linalg`: one generic per stored value and per reduction (scheduler spec 3.4 step 2).

Takes functions whose compute is `linalg.generic` (what `generalize-linalg` leaves), constants, splats and
changes of tensor shape. Every stored value and every reduction is rebuilt backwards: element-wise
generics are inlined through their indexing maps, a value that is used twice is computed once per
distinct subscripts, splat constants become scalar constants in the body, reshapes become subscripts. Where a
slice takes a part of a load that loops could not tell from the whole, the part is loaded by itself.
Leaves one element-wise generic per store (identity map, a fresh `tensor.empty` as its out) and one generic
per reduction and result, whose inputs are loads or results of earlier reductions, each distinct (value,
map) once. What a reduction starts with is an element-wise generic of its own. Nothing element-wise is
shared between two of them (it is computed again), so producers disappear.

Before::

    %p = linalg.generic ... ins(%x, %y) { arith.mulf }
    %q = linalg.generic ... ins(%p, %p) { arith.addf }
    ktdp.store %q, %t

After::

    %q = linalg.generic ... ins(%x, %y) { %0 = arith.mulf  %1 = arith.addf %0, %0 }
    ktdp.store %q, %t

>>> from dfsched.passes.examples import after, kernel
>>> after("fuse-linalg", kernel("%b = arith.addf %a, %a : TENSOR\n%r = arith.mulf %b, %a : TENSOR"),
... r"linalg.generic|arith.*f16$")
%6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
    ins(%4 : tensor<2x256xf16>) outs(%5 : tensor<2x256xf16>) {
%7 = arith.addf %in, %in : f16
%8 = arith.mulf %7, %in : f16
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.build import Emitter
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.fusion import Fusion
from dfsched.passes.generics import element_type, make_generic
from dfsched.passes.ir_tools import Definitions, rewrite_blocks, substitute
from dfsched.passes.loop_splitting import Digits, digits_of, split_map
from dfsched.passes.narrowed_loads import NarrowedLoads
from ktir.affine import AffineExpr, AffineMap, Const, Dim
from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import Location
from ktir.transforms import dce
from ktir.types import I64, INDEX, TensorType

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Fuse in every function that stores."""
    definitions = Definitions(module)
    replaced: dict[Value, Value] = {}
    narrowed = NarrowedLoads(definitions)
    findings = Findings()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [new for op in operations for new in findings.attempt(fused, [op])]

    def fused(operations: list[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            match op:
                case ktdp.Store():
                    new, value = _element_wise(
                        op.data_tile, _producer_location(op, definitions), narrowed, replaced
                    )
                    result += [*new, op.replace(operands=[value, *op.operands[1:]])]
                case linalg.Generic() if "reduction" in op.iterators:
                    for number in range(len(op.results)):
                        new = _reduction(op, number, narrowed, replaced)
                        replaced[op.results[number]] = new[-1].results[0]
                        result += new
                case _:
                    result.append(op)
        return result

    new = dce(rewrite_blocks(module, rewrite))
    findings.check()
    if narrowed.behind:
        used = {value for op in new.walk() for value in op.operands}
        new = dce(rewrite_blocks(new, lambda operations: _with_parts(operations, narrowed, used)))
    assert isinstance(new, Module)
    return new


def _with_parts(
    operations: Sequence[Operation], narrowed: NarrowedLoads, used: Set[Value]
) -> list[Operation]:
    """The operations of a block with the narrowed loads in it, without those that these stand for alone."""
    result: list[Operation] = []
    for op in operations:
        parts = narrowed.behind.get(op, ())
        if not parts or not used.isdisjoint(op.results):
            result.append(op)
        result += parts
    return result


PASS = Pass("fuse-linalg", Group.FRONTEND, run, "one generic per stored value and reduction")


def _producer_location(store: ktdp.Store, definitions: Definitions) -> Location:
    producer = definitions.definer(store.data_tile)
    return store.location if producer is None else producer.location


def _element_wise(
    value: Value,
    location: Location,
    narrowed: NarrowedLoads,
    replaced: dict[Value, Value],
    fresh: bool = False,
) -> tuple[list[Operation], Value]:
    """A tensor as one element-wise generic (or, unless it must be `fresh`, as the reduction that it is)."""
    if value in replaced and not fresh:  # a reduction that is stored as it is
        return [], replaced[value]
    type = value.type
    assert isinstance(type, TensorType)
    if not type.is_static:
        raise UnsupportedKernel.at(location, "tensors of dynamic shape are not supported")
    fusion = Fusion(narrowed.definitions, location, type.static_shape(), replaced)
    result = fusion.scalar(value, AffineMap.identity(type.rank))
    leaves = list(fusion.leaves.items())
    digits, extents = digits_of([map for (_, map), _ in leaves], type.static_shape())
    if fresh or len(extents) == type.rank:
        digits, extents = digits_of((), type.static_shape())
    made = TensorType(extents, type.element)
    empty = tensor.Empty.create((), [made], location=location)
    operands = [
        narrowed.operand(value, split_map(map, digits), extents, location) for (value, map), _ in leaves
    ]
    generic = make_generic(
        [value for value, _ in operands],
        empty.result,
        [*(map for _, map in operands), AffineMap.identity(made.rank)],
        [*(argument for _, argument in leaves), BlockArgument(type.element, "out")],
        with_split_indices(fusion.body, digits, location),
        result,
        location,
    )
    if made.rank == type.rank:
        return [empty, generic], generic.results[0]
    groups = ArrayAttr(
        tuple(
            ArrayAttr(tuple(IntegerAttr(number, I64) for number, _ in digits[dim]))
            for dim in range(type.rank)
        )
    )
    collapse = tensor.CollapseShape.create(
        [generic.results[0]], [type], {"reassociation": groups}, location=location
    )
    return [empty, generic, collapse], collapse.results[0]


def _reduction(
    op: linalg.Generic,
    number: int,
    narrowed: NarrowedLoads,
    replaced: dict[Value, Value],
) -> list[Operation]:
    """One result of a reduction: what it starts with, then the reduction with what feeds it."""
    type = op.results[number].type
    assert isinstance(type, TensorType)
    out = op.maps[len(op.inputs) + number]
    if not out.is_projected_permutation or not type.is_static:
        raise UnsupportedKernel.at(op.location, f"a reduction into the subscripts {out} is not supported")
    extents = _extents(op)
    block = op.body.block
    folded = block.arguments[len(op.inputs) :]
    _check_separate(op, number)
    start, initial = _element_wise(op.outputs[number], op.location, narrowed, replaced, fresh=True)
    fusion = Fusion(narrowed.definitions, op.location, extents, replaced)
    accumulator = BlockArgument(type.element, "acc")
    mapping: dict[Value, Value] = {folded[number]: accumulator}
    used = {value for inner in block.operations for value in inner.operands}
    for operand, map, argument in zip(op.inputs, op.maps, block.arguments, strict=False):
        if argument not in used:
            continue
        if isinstance(operand.type, TensorType):
            mapping[argument] = fusion.scalar(operand, map)
        else:
            mapping[argument] = fusion.outer(operand, op)
    loops = [Dim(d) for d in range(len(extents))]
    fusion.inline(op, mapping, loops)
    yielded = block.terminator.operands[number]
    leaves: list[Leaf] = [
        (narrowed.operand(value, map, extents, op.location), argument)
        for (value, map), argument in fusion.leaves.items()
    ]
    window = _window(leaves, out, extents, op)
    if window is not None:
        start.append(window[0])
        leaves.append(((window[0].results[0], window[1]), BlockArgument(type.element, "window")))
    maps = [*(map for (_, map), _ in leaves), out]
    generic = linalg.Generic.build(
        [value for (value, _), _ in leaves],
        [initial],
        maps,
        op.iterators,
        Region.of(
            [
                *_needed(fusion.body, mapping.get(yielded, yielded)),
                linalg.Yield.create([mapping.get(yielded, yielded)], location=op.location),
            ],
            [*(argument for _, argument in leaves), accumulator],
        ),
        location=op.location,
    )
    return [*start, generic]


Leaf = tuple[tuple[Value, AffineMap], BlockArgument]


def _window(
    leaves: Sequence[Leaf], out: AffineMap, extents: Sequence[int], op: linalg.Generic
) -> tuple[tensor.Empty, AffineMap] | None:
    """An operand that says how often a reduction folds along dimensions that none of its operands has.

    Like the window of a pooling it is a tensor without contents: no body reads it, nothing is loaded for it.
    """
    used = [*(map for (_, map), _ in leaves), out]
    present = {expr.position for map in used for expr in map.results if isinstance(expr, Dim)}
    missing = [d for d in range(len(extents)) if d not in present]
    if not missing:
        return None
    shape = TensorType(tuple(extents[d] for d in missing), element_type(op.outputs[0]))
    empty = tensor.Empty.create((), [shape], location=op.location)
    return empty, AffineMap(len(extents), 0, tuple(Dim(d) for d in missing))


def with_split_indices(body: Sequence[Operation], digits: Digits, location: Location) -> list[Operation]:
    """A body whose loop indices are put together from those of the new loops."""
    result: list[Operation] = []
    mapping: dict[Value, Value] = {}
    for op in body:
        if isinstance(op, linalg.Index):
            emitter = Emitter(location)
            places = digits[op.dim.value]
            parts = [
                emitter.add(linalg.Index.create((), (INDEX,), {"dim": IntegerAttr(number)}))
                for number, _ in places
            ]
            total: AffineExpr = Const(0)
            for position, (_, stride) in enumerate(places):
                total = total + Dim(position) * stride
            mapping[op.result] = emitter.affine(total, parts)
            result += emitter.operations
        else:
            result.append(substitute(op, mapping))
    return result


def _needed(body: Sequence[Operation], result: Value) -> list[Operation]:
    """The operations of a body that a value needs."""
    wanted = {result}
    kept: list[Operation] = []
    for op in reversed(body):
        if not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(op.operands)
    return kept[::-1]


def _check_separate(op: linalg.Generic, number: int) -> None:
    """A result may only depend on its own accumulator."""
    block = op.body.block
    depends: dict[Value, set[int]] = {
        argument: {position} for position, argument in enumerate(block.arguments[len(op.inputs) :])
    }
    for inner in block.operations[:-1]:
        found = set().union(*(depends.get(value, set()) for value in inner.operands))
        depends.update((result, found) for result in inner.results)
    if not depends.get(block.terminator.operands[number], set()) <= {number}:
        raise UnsupportedKernel.at(
            op.location, "a reduction whose results depend on each other is not supported"
        )


def _extents(op: linalg.Generic) -> tuple[int, ...]:
    found: dict[int, int] = {}
    for value, map in zip((*op.inputs, *op.outputs), op.maps, strict=True):
        if not isinstance(value.type, TensorType):
            continue
        if not value.type.is_static:
            raise UnsupportedKernel.at(op.location, "tensors of dynamic shape are not supported")
        for expr, extent in zip(map.results, value.type.static_shape(), strict=True):
            if isinstance(expr, Dim):
                found[expr.position] = extent
    return tuple(found[d] for d in range(len(op.iterators)))
