r"""`fuse-linalg`: one generic per stored value and per reduction (scheduler spec 3.4 step 2).

Takes functions whose compute is `linalg.generic` (what `generalize-linalg` leaves), constants, splats and
changes of tensor shape. Every stored value and every reduction is rebuilt backwards: element-wise
generics are inlined through their indexing maps, a value that is used twice is computed once per
distinct subscripts, splat constants become scalar constants in the body, reshapes become subscripts and,
where these are quotients and remainders, more loops. Where a slice takes a part of a load that loops could
not tell from the whole, the part is loaded by itself; a part of a reduction is a reduction by itself.
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

from collections.abc import Container, Mapping, Sequence, Set

from attrs import define, field

from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.errors import Findings, UnsupportedKernel
from dfsched.passes.fusion import Fusion
from dfsched.passes.generics import element_type, make_generic
from dfsched.passes.ir_tools import Definitions, rewrite_blocks
from dfsched.passes.loop_splitting import SplitLoops
from dfsched.passes.narrowed_loads import NarrowedLoads, linear_in_loop, part_of
from ktir.affine import AffineMap, Const, Dim, FloorDiv, Mod, simplify
from ktir.attributes import ArrayAttr, IntegerAttr
from ktir.dialects import ktdp, linalg, tensor
from ktir.dialects.builtin import Module
from ktir.ir import BlockArgument, Operation, Region, Value
from ktir.location import Location
from ktir.transforms import dce
from ktir.types import I64, TensorType, Type

__all__ = ["PASS", "run"]


def run(module: Module, context: PassContext) -> Module:
    """Fuse in every function that stores."""
    rebuilt = _Rebuilt(Definitions(module))
    findings = Findings()

    def rewrite(operations: Sequence[Operation]) -> list[Operation]:
        return [new for op in operations for new in findings.attempt(fused, [op])]

    def fused(operations: list[Operation]) -> list[Operation]:
        result: list[Operation] = []
        for op in operations:
            match op:
                case ktdp.Store():
                    new, value = _element_wise(op, rebuilt)
                    result += [*new, op.replace(operands=[value, *op.operands[1:]])]
                case linalg.Generic() if "reduction" in op.iterators:
                    for number in range(len(op.results)):
                        result += rebuilt.reduction(op, number)
                case _:
                    result.append(op)
        return result

    new = rewrite_blocks(module, rewrite)
    findings.check()
    parts = rebuilt.parts
    if parts:
        new = rewrite_blocks(new, lambda operations: _with_parts(operations, parts))
    new = dce(new)
    if parts:
        loads = {op for ops in parts.values() for op in ops} | rebuilt.loads.behind.keys()
        used = {value for op in new.walk() for value in op.operands}
        new = dce(rewrite_blocks(new, lambda operations: _without_unread(operations, loads, used)))
    assert isinstance(new, Module)
    return new


def _with_parts(
    operations: Sequence[Operation], parts: Mapping[Value, Sequence[Operation]]
) -> list[Operation]:
    """The operations of a block, with what makes parts of a tensor behind what makes all of it."""
    return [
        new for op in operations for new in (op, *(part for r in op.results for part in parts.get(r, ())))
    ]


def _without_unread(
    operations: Sequence[Operation], loads: Container[Operation], used: Set[Value]
) -> list[Operation]:
    """The operations of a block without those of the loads that nothing reads."""
    return [
        op
        for op in operations
        if not (isinstance(op, ktdp.Load) and op in loads and used.isdisjoint(op.results))
    ]


DEEPEST = 16
"""Reductions that slices of each other's results may reach back over: each makes parts of all before it."""

PASS = Pass("fuse-linalg", Group.FRONTEND, run, "one generic per stored value and reduction")


def _producer_location(store: ktdp.Store, definitions: Definitions) -> Location:
    producer = definitions.definer(store.data_tile)
    return store.location if producer is None else producer.location


def _element_wise(store: ktdp.Store, rebuilt: _Rebuilt) -> tuple[list[Operation], Value]:
    """A stored tensor as one element-wise generic, or as the reduction that it is."""
    value = store.data_tile
    if value in rebuilt.replaced:
        return [], rebuilt.replaced[value].results[0]
    location = _producer_location(store, rebuilt.definitions)
    type = value.type
    assert isinstance(type, TensorType)
    if not type.is_static:
        raise UnsupportedKernel.at(location, "tensors of dynamic shape are not supported")
    fusion = Fusion(rebuilt.definitions, location, type.static_shape(), rebuilt.replaced)
    result = fusion.scalar(value, AffineMap.identity(type.rank))
    loops = SplitLoops.of([map for _, map in fusion.leaves], type.static_shape())
    made = rebuilt.computed(fusion, result, loops, type.element)
    made += _collapsed(made[-1], loops, type)
    return made, made[-1].results[0]


def _collapsed(made: Operation, loops: SplitLoops, type: TensorType) -> list[Operation]:
    """What makes a tensor of the old shape of one with a dimension for each of the split loops."""
    if len(loops.digits) == len(loops.extents):
        return []
    groups = ArrayAttr(
        tuple(
            ArrayAttr(tuple(IntegerAttr(number, I64) for number, _ in loops.digits[dim]))
            for dim in range(type.rank)
        )
    )
    attributes = {"reassociation": groups}
    return [tensor.CollapseShape.create(made.results, [type], attributes, location=made.location)]


@define(eq=False)
class _Rebuilt:
    """What became of the loads and reductions of a module.

    `replaced` gives for a result of a reduction what makes it now, `parts` for a tensor what makes only
    parts of it.
    """

    definitions: Definitions
    loads: NarrowedLoads = field(init=False)
    replaced: dict[Value, Operation] = field(factory=dict)
    _whole: dict[Value, tuple[linalg.Generic, int]] = field(factory=dict)
    _behind: dict[Value, list[Operation]] = field(factory=dict)
    _made: dict[tuple[Value, tuple[tuple[int, int, int], ...]], Value] = field(factory=dict)
    _depth: int = 0

    def __attrs_post_init__(self) -> None:
        self.loads = NarrowedLoads(self.definitions)

    @property
    def parts(self) -> Mapping[Value, Sequence[Operation]]:
        return self._behind | {load.results[0]: ops for load, ops in self.loads.behind.items()}

    def operand(
        self, value: Value, map: AffineMap, extents: Sequence[int], location: Location
    ) -> tuple[Value, AffineMap]:
        """A leaf read at `map` by loops of these extents: of a part of it alone where they read a part.

        A part of a reduction is a reduction by itself; the whole one goes if nothing else reads it.
        """
        if value not in self._whole:
            return self.loads.operand(value, map, extents, location)
        type = value.type
        assert isinstance(type, TensorType)
        shape = type.static_shape()
        still = [Const(0) if extent == 1 else Dim(d) for d, extent in enumerate(extents)]
        exprs = tuple(e if isinstance(e, Dim) else simplify(e.replace(still, ())) for e in map.results)
        map = AffineMap(map.num_dims, 0, exprs)
        for expr in exprs:
            if any(isinstance(part, FloorDiv | Mod) for part in expr.walk()):
                raise UnsupportedKernel.at(
                    location, f"a reduction is read by the subscript {expr}, which is not linear"
                )
        reads_all = [
            found is None or (*found[:2], extents[found[2]]) == (0, 1, extent)
            for found, extent in zip((linear_in_loop(expr) for expr in map.results), shape, strict=True)
        ]
        if all(reads_all):
            return value, map
        parts = [part_of(expr, extents, extent) for expr, extent in zip(map.results, shape, strict=True)]
        key = value, tuple((part.start, part.step, part.extent) for part in parts)
        if key not in self._made:
            if self._depth == DEEPEST:
                raise UnsupportedKernel.at(
                    location, f"slices of more than {DEEPEST} reductions of each other are not supported"
                )
            self._depth += 1
            try:
                new, _ = self._reduction(*self._whole[value], dict(enumerate(key[1])))
            finally:
                self._depth -= 1
            self._behind.setdefault(value, []).extend(new)
            self._made[key] = new[-1].results[0]
        return self._made[key], AffineMap(map.num_dims, 0, tuple(part.subscript for part in parts))

    def computed(self, fusion: Fusion, result: Value, loops: SplitLoops, element: Type) -> list[Operation]:
        """An element-wise generic and its `tensor.empty`."""
        location = fusion.location
        made = TensorType(loops.extents, element)
        empty = tensor.Empty.create((), [made], location=location)
        operands = self._operands(fusion, loops)
        generic = make_generic(
            [value for (value, _), _ in operands],
            empty.result,
            [*(map for (_, map), _ in operands), AffineMap.identity(made.rank)],
            [*(argument for _, argument in operands), BlockArgument(element, "out")],
            loops.body(fusion.body, location),
            result,
            location,
        )
        return [empty, generic]

    def _operands(self, fusion: Fusion, loops: SplitLoops) -> list[Leaf]:
        return [
            (self.operand(value, loops.map(map), loops.extents, fusion.location), argument)
            for (value, map), argument in fusion.leaves.items()
        ]

    def reduction(self, op: linalg.Generic, number: int) -> list[Operation]:
        """One result of a reduction: what it starts with, the reduction with what feeds it, its old shape."""
        type = op.results[number].type
        assert isinstance(type, TensorType)
        made, loops = self._reduction(op, number, {})
        self._whole[made[-1].results[0]] = op, number
        made += _collapsed(made[-1], loops, type)
        self.replaced[op.results[number]] = made[-1]
        return made

    def _reduction(
        self, op: linalg.Generic, number: int, parts: Mapping[int, tuple[int, int, int]]
    ) -> tuple[list[Operation], SplitLoops]:
        """One result, or `parts` of what it is over the split loops, with the loops of its dimensions."""
        type = op.results[number].type
        assert isinstance(type, TensorType)
        old = op.maps[len(op.inputs) + number]
        if not old.is_projected_permutation or not type.is_static:
            raise UnsupportedKernel.at(op.location, f"a reduction into the subscripts {old} is not supported")
        kept = [expr.position for expr in old.results if isinstance(expr, Dim)]
        extents = _extents(op)
        _check_separate(op, number)
        start = Fusion(self.definitions, op.location, type.static_shape(), self.replaced)
        first = start.scalar(op.outputs[number], AffineMap.identity(type.rank))
        accumulator = BlockArgument(type.element, "acc")
        fusion, result = self._folded(op, number, extents, accumulator)
        started = [map.compose(old) for _, map in start.leaves]
        loops = SplitLoops.of([*(map for _, map in fusion.leaves), *started], extents)
        numbers = loops.numbers(kept)
        begin = loops.only(kept).narrowed(parts)
        loops = loops.narrowed({numbers[place]: part for place, part in parts.items()})
        made = self.computed(start, first, begin, type.element)
        initial = made[-1].results[0]
        leaves = self._operands(fusion, loops)
        out = AffineMap(len(loops.extents), 0, tuple(Dim(n) for n in numbers))
        window = _window(leaves, out, loops.extents, op)
        if window is not None:
            made.append(window[0])
            leaves.append(((window[0].results[0], window[1]), BlockArgument(type.element, "window")))
        body = loops.body(_needed(fusion.body, result), op.location)
        generic = linalg.Generic.build(
            [value for (value, _), _ in leaves],
            [initial],
            [*(map for (_, map), _ in leaves), out],
            [kind for d, kind in enumerate(op.iterators) for _ in loops.digits[d]],
            Region.of(
                [*body, linalg.Yield.create([result], location=op.location)],
                [*(argument for _, argument in leaves), accumulator],
            ),
            location=op.location,
        )
        return [*made, generic], begin

    def _folded(
        self, op: linalg.Generic, number: int, extents: tuple[int, ...], accumulator: Value
    ) -> tuple[Fusion, Value]:
        """The body of a reduction with what feeds it, and what it yields for one result."""
        block = op.body.block
        fusion = Fusion(self.definitions, op.location, extents, self.replaced)
        mapping: dict[Value, Value] = {block.arguments[len(op.inputs) + number]: accumulator}
        used = {value for inner in block.operations for value in inner.operands}
        for operand, map, argument in zip(op.inputs, op.maps, block.arguments, strict=False):
            if argument not in used:
                continue
            if isinstance(operand.type, TensorType):
                mapping[argument] = fusion.scalar(operand, map)
            else:
                mapping[argument] = fusion.outer(operand, op)
        fusion.inline(op, mapping, [Dim(d) for d in range(len(extents))])
        yielded = block.terminator.operands[number]
        return fusion, mapping.get(yielded, yielded)


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
