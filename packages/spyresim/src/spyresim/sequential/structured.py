"""Structured operations (``linalg``): the body on whole iteration domains (ktir spec 3.5, readings 16).

The domain's axes stand behind the batch axis.  Reductions are left folds in lexicographic order; only what
depends on the accumulator is done point by point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from dfsched.passes.reductions import combine_of, neutral_element
from dfsched.passes.vector_lanes import REASSOCIATED, vector_of
from ktir.affine import AffineMap, Const, Dim
from ktir.dialects import linalg
from ktir.ir import Block, Operation, Value
from ktir.types import FloatType, ShapedType, element_or_self
from spyresim.errors import ExecutionFault, Site, UnsupportedError, unsupported
from spyresim.meaning.constants import constant_array
from spyresim.meaning.folds import fold
from spyresim.meaning.formats import Array, float_format, held_dtype, stretch
from spyresim.sequential.access import nest
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.transfers import load_view, store_view
from spyresim.sequential.values import View

__all__ = ["STRUCTURED", "whole"]

STRUCTURED = Handlers()

_CONTRACTIONS = (linalg.Matmul, linalg.BatchMatmul, linalg.Matvec, linalg.Vecmat, linalg.Dot)


def whole(run: Interpreter, frame: Frame, op: Operation, value: Value) -> Array:
    """A tensor or scalar operand, or the contents of a memref."""
    found = frame[value]
    if isinstance(found, View):
        return load_view(run, frame, op, found, 0, nest(found.sizes, found.strides))
    assert isinstance(found, np.ndarray)
    return found


@attrs.frozen(eq=False)
class _Plan:
    """What executing a structured operation needs to know and its tiles do not change.

    `same` says which operands have the shape of the iteration domain, `axes` which axis of which operand has
    the extent of which loop; `looks` which outputs the body reads; `copied` the argument that the body hands
    on, if it does nothing else; `early` and `late` its operations without and with the accumulators (and the
    terminator).
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    maps: tuple[AffineMap, ...]
    same: tuple[bool, ...]
    loops: int
    axes: tuple[tuple[int, int, int], ...]
    reduced: tuple[int, ...]
    block: Block
    looks: tuple[bool, ...]
    copied: int | None
    early: tuple[Operation, ...]
    late: tuple[Operation, ...]

    @classmethod
    def of(cls, op: linalg.LinalgOp) -> _Plan:
        inputs, outputs, maps, iterators = op.input_values, op.output_values, op.maps, op.iterators
        block = op.regions[0].block
        arguments = block.arguments
        used = {value for inner in op.walk() for value in inner.operands} if op.regions else set()
        copied = None
        if len(block.operations) == 1 and len(outputs) == 1 and block.terminator.operands[0] in arguments:
            copied = arguments.index(block.terminator.operands[0])
        early, late = _split(block, arguments[len(inputs) :])
        for value, map in zip(outputs, maps[len(inputs) :], strict=True):
            if not _is_written_whole(value, map):
                raise unsupported(op, f"an output of type {value.type} with indexing map {map}")
        return cls(
            inputs,
            outputs,
            maps,
            tuple(map.is_identity for map in maps),
            len(iterators),
            tuple(
                (number, axis, expr.position)
                for number, map in enumerate(maps)
                for axis, expr in enumerate(map.results)
                if isinstance(expr, Dim)
            ),
            tuple(d for d, kind in enumerate(iterators) if kind != "parallel"),
            block,
            tuple(argument in used for argument in arguments[len(inputs) :]) or (False,) * len(outputs),
            copied,
            tuple(early),
            tuple(late),
        )

    def extents(self, op: linalg.LinalgOp, operands: Sequence[Array]) -> tuple[int, ...]:
        """Of the loops, from the shapes of the operands."""
        extents: list[int | None] = [None] * self.loops
        for number, axis, loop in self.axes:
            extent, known = operands[number].shape[axis + 1], extents[loop]
            if known is not None and known != extent:
                raise ExecutionFault(
                    f"loop {loop} has extents {known} and {extent}", site=Site(op.name, op.location)
                )
            extents[loop] = extent
        if None in extents:
            raise unsupported(op, f"loop {extents.index(None)} of a structured operation has no extent")
        return tuple(extent for extent in extents if extent is not None)


def _is_written_whole(output: Value, map: AffineMap) -> bool:
    """Whether constant subscripts of an output are the only ones that its dimension has."""
    if not isinstance(output.type, ShapedType):
        return True
    return all(
        expr == Const(0) and extent == 1
        for expr, extent in zip(map.results, output.type.shape, strict=True)
        if isinstance(expr, Const)
    )


def to_domain(array: Array, map: AffineMap, extents: Sequence[int]) -> Array:
    """An operand over the iteration domain: shape (batch, *extents), extents 1 where it does not vary."""
    fixed = [axis for axis, expr in enumerate(map.results) if isinstance(expr, Const)]
    if fixed:
        index = tuple(expr.value if isinstance(expr, Const) else slice(None) for expr in map.results)
        array = array[(slice(None), *index)]
        map = map.select([axis for axis in range(map.num_results) if axis not in fixed])
    positions = [expr.position for expr in map.results if isinstance(expr, Dim)]
    if len(positions) == map.num_results and len(set(positions)) == len(positions):
        order = sorted(range(len(positions)), key=positions.__getitem__)
        moved = array.transpose(0, *(1 + axis for axis in order))
        shape = [1] * len(extents)
        for axis in order:
            shape[positions[axis]] = array.shape[1 + axis]
        return moved.reshape(array.shape[0], *shape)
    grids = [
        np.arange(n, dtype=np.int64).reshape([n if i == d else 1 for i in range(len(extents))])
        for d, n in enumerate(extents)
    ]
    subscripts = [np.asarray(v, np.int64) for v in map.evaluate(grids)]
    filled = np.broadcast_arrays(*subscripts, np.empty(tuple(extents)))[:-1]
    where: tuple[Any, ...] = (slice(None), *filled)
    return np.asarray(array[where])


def from_domain(array: Array, map: AffineMap, extents: Sequence[int]) -> Array:
    """The inverse for an output: every element is written once, a constant subscript is an axis of one."""
    fixed = [axis for axis, expr in enumerate(map.results) if isinstance(expr, Const)]
    if fixed:
        walked = map.select([axis for axis in range(map.num_results) if axis not in fixed])
        return np.expand_dims(from_domain(array, walked, extents), tuple(1 + axis for axis in fixed))
    permutation = [expr.position for expr in map.results if isinstance(expr, Dim)]
    full = stretch(array, (array.shape[0], *extents))
    if len(permutation) == map.num_results and sorted(permutation) == list(range(len(extents))):
        return full.transpose(0, *(1 + d for d in permutation))
    if len(permutation) == map.num_results and len(set(permutation)) == len(permutation):
        rest = [d for d in range(len(extents)) if d not in permutation]
        kept = full[tuple([slice(None)] + [0 if d in rest else slice(None) for d in range(len(extents))])]
        ranks = sorted(permutation)
        return kept.transpose(0, *(1 + ranks.index(d) for d in permutation))
    raise UnsupportedError(f"an output with indexing map {map}")


@STRUCTURED.executes(
    linalg.Generic,
    linalg.Reduce,
    linalg.Broadcast,
    linalg.Transpose,
    linalg.Map,
    *(op for op in linalg.DIALECT.operations if issubclass(op, linalg.NamedOp) and op not in _CONTRACTIONS),
)
def structured(run: Interpreter, frame: Frame, op: linalg.LinalgOp) -> Results:
    plan = run.plan(op, _Plan.of)
    inputs = [whole(run, frame, op, value) for value in plan.inputs]
    outputs = [
        _initial(run, frame, op, value, looks) for value, looks in zip(plan.outputs, plan.looks, strict=True)
    ]
    operands = [*inputs, *outputs]
    extents = plan.extents(op, operands)
    run.count(op, frame)
    if plan.copied is not None and not plan.reduced:
        results = [to_domain(operands[plan.copied], plan.maps[plan.copied], extents)]
        return _finish(run, frame, op, plan, results, extents)
    domain = [
        array if same else to_domain(array, map, extents)
        for array, map, same in zip(operands, plan.maps, plan.same, strict=True)
    ]
    run.domains.append(extents)
    run.reductions.append(plan.reduced)
    product = isinstance(op, _CONTRACTIONS)
    run.elements.append(0 if product else math.prod(extents))
    if product:
        _count_product(run, frame, plan, extents)
    try:
        if plan.reduced:
            results = _fold(run, frame, op, plan, domain[: len(inputs)], domain[len(inputs) :], extents)
        else:
            arguments = plan.block.arguments  # a map has none for its output
            frame.bind(arguments, domain[: len(arguments)])
            results = [_array(value) for value in run.run_block(plan.block, frame)]
    finally:
        run.domains.pop()
        run.reductions.pop()
        run.elements.pop()
    return _finish(run, frame, op, plan, results, extents)


def _array(value: object) -> Array:
    assert isinstance(value, np.ndarray)
    return value


def _initial(run: Interpreter, frame: Frame, op: linalg.LinalgOp, value: Value, looks: bool) -> Array:
    """The initial value of an output; a memref is only read if the body looks at it."""
    found = frame[value]
    if not isinstance(found, View):
        return _array(found)
    if looks:
        return whole(run, frame, op, value)
    held = held_dtype(found.element, run.machine.f16_format)
    return np.broadcast_to(np.zeros((1,), held).reshape(1, *([1] * len(found.sizes))), (1, *found.sizes))


def _finish(
    run: Interpreter,
    frame: Frame,
    op: linalg.LinalgOp,
    plan: _Plan,
    results: Sequence[Array],
    extents: tuple[int, ...],
) -> Results:
    given: list[Array] = []
    rank = len(extents)
    maps, same = plan.maps[len(plan.inputs) :], plan.same[len(plan.inputs) :]
    for value, array, map, plain in zip(plan.outputs, results, maps, same, strict=True):
        if array.ndim != rank + 1:
            array = array.reshape(array.shape + (1,) * (rank + 1 - array.ndim))
        if not plain:
            data = from_domain(array, map, extents)
        else:
            data = stretch(array, (array.shape[0], *extents))
        view = frame[value]
        if isinstance(view, View):
            store_view(run, frame, op, view, 0, nest(view.sizes, view.strides), data)
        else:
            given.append(data)
    return given


def _fold(
    run: Interpreter,
    frame: Frame,
    op: linalg.LinalgOp,
    plan: _Plan,
    inputs: Sequence[Array],
    accumulators: Sequence[Array],
    extents: Sequence[int],
) -> list[Array]:
    """Point after point of the reduction loops; parallel loops are axes of the arrays."""
    folded, late = plan.block.arguments[len(inputs) :], plan.late
    frame.bind(plan.block.arguments[: len(inputs)], inputs)
    for inner in plan.early:
        frame.bind(inner.results, run.execute(inner, frame))
    if REASSOCIATED in op.attributes:
        return [_fold_in_vectors(run, frame, op, accumulators, extents, plan.reduced)]
    short = _short_fold(run, frame, folded, accumulators, late, extents, plan.reduced)
    if short is not None:
        return [short]
    needed = _needed(late, plan.block)
    loose = {value: frame.array(value) for value in needed if value not in folded}
    if len(late) == 1 and all(extents):  # the last point decides
        frame.bind(folded, accumulators)
        last = {d: extents[d] - 1 for d in plan.reduced}
        return [_at(loose[v], last) if v in loose else frame.array(v) for v in late[0].operands]
    current: list[Array] = list(accumulators)
    run.elements[-1] = min(
        run.elements[-1], math.prod(n for d, n in enumerate(extents) if d not in plan.reduced)
    )
    for point in itertools.product(*(range(extents[d]) for d in plan.reduced)):
        where = dict(zip(plan.reduced, point, strict=True))
        for value, array in loose.items():
            frame[value] = _at(array, where)
        frame.bind(folded, current)
        for inner in late[:-1]:
            frame.bind(inner.results, run.execute(inner, frame))
        current = [frame.array(value) for value in late[-1].operands]
    return current


def _short_fold(
    run: Interpreter,
    frame: Frame,
    folded: Sequence[Value],
    accumulators: Sequence[Array],
    late: Sequence[Operation],
    extents: Sequence[int],
    reduced: Sequence[int],
) -> Array | None:
    """The result if all that depends on the accumulator is one operation on it and a value."""
    if len(late) != 2 or len(folded) != 1 or len(late[0].operands) != 2 or not all(extents):
        return None
    op, terminator = late
    others = [value for value in op.operands if value is not folded[0]]
    if len(others) != 1 or terminator.operands != op.results:
        return None
    values = frame.array(others[0])
    if values.ndim != len(extents) + 1:
        return None
    batch = max(values.shape[0], accumulators[0].shape[0])
    whole = stretch(values, (batch, *extents))
    kept = [1 if d in reduced else extents[d] for d in range(len(extents))]
    start = stretch(accumulators[0], (batch, *kept))
    axes = [1 + d for d in reduced]
    found = fold(type(op), op.results[0].type, start, whole, axes, run.machine.f16_format)
    if found is not None:
        run.count(op, frame)
        run.work.vector(op, run.elements[-1], frame.tiles)
    return found


def _fold_in_vectors(
    run: Interpreter,
    frame: Frame,
    op: linalg.LinalgOp,
    accumulators: Sequence[Array],
    extents: Sequence[int],
    reduced: Sequence[int],
) -> Array:
    """The order of a vectorised reduction (readings, item 16): every lane by itself, then the lanes in order.

    A loop is cut into vectors; lane i combines the i-th elements, starting with what leaves them as they are.
    """
    assert isinstance(op, linalg.Generic)
    combine, vector = combine_of(op), vector_of(op)
    if combine is None or vector is None or vector[0] not in reduced:
        raise unsupported(op, "a reassociated reduction that is no fold of one operation in vectors")
    loop, lanes = vector
    element = combine.op.results[0].type
    format = run.machine.f16_format
    values = frame.array(combine.value)
    batch = max(values.shape[0], accumulators[0].shape[0])
    values = np.broadcast_to(values, (batch, *extents))
    neutral = constant_array(neutral_element(combine.op), format)
    axis, rest = 1 + loop, -extents[loop] % lanes
    if rest:
        shape = list(values.shape)
        shape[axis] = rest
        values = np.concatenate([values, np.full(shape, neutral, values.dtype)], axis=axis)
    values = values.reshape(*values.shape[:axis], -1, lanes, *values.shape[axis + 1 :])
    values = np.moveaxis(values, axis + 1, -1)
    axes = [1 + d for d in reduced]
    start = np.full([1 if i in axes else n for i, n in enumerate(values.shape)], neutral, values.dtype)
    partial = fold(type(combine.op), element, start, values, axes, format)
    kept = [1 if d in reduced else extents[d] for d in range(len(extents))]
    first = np.broadcast_to(accumulators[0], (batch, *kept))[..., None]
    total = None
    if partial is not None:
        total = fold(type(combine.op), element, first, partial, [partial.ndim - 1], format)
    if total is None:
        raise unsupported(op, f"a reassociated reduction with '{combine.op.name}' of {element}")
    run.count(combine.op, frame)
    return np.asarray(total[..., 0])


def _split(block: Block, folded: Sequence[Value]) -> tuple[list[Operation], list[Operation]]:
    """Operations that do not depend on the accumulators, and those that do (with the terminator)."""
    dependent = set(folded)
    early: list[Operation] = []
    late: list[Operation] = []
    for op in block.operations[:-1]:
        if op.regions or any(value in dependent for value in op.operands):
            dependent.update(op.results)
            late.append(op)
        else:
            early.append(op)
    return early, [*late, block.terminator]


def _needed(late: Sequence[Operation], block: Block) -> list[Value]:
    """Values that the late operations take from outside of themselves but inside of the body."""
    inside = set(block.arguments) | {value for op in block.operations for value in op.results}
    made = {value for op in late for value in op.results}
    used = dict.fromkeys(value for op in late for value in op.operands)
    return [value for value in used if value in inside and value not in made]


def _at(array: Array, where: dict[int, int]) -> Array:
    """The array at one point of the reduction loops (their axes stay, with extent 1)."""
    index: list[slice] = [slice(None)] * array.ndim
    for loop, position in where.items():
        if loop + 1 < array.ndim and array.shape[loop + 1] != 1:
            index[loop + 1] = slice(position, position + 1)
    return array[tuple(index)]


@STRUCTURED.executes(*_CONTRACTIONS)
def contraction(run: Interpreter, frame: Frame, op: linalg.Matmul) -> Results:
    """Products step by step: 16-bit floats accumulate in f32 and are rounded once (ktir spec 5.5), other
    floats in their own type; integers run the body.
    """
    element = element_or_self(op.outputs[0].type)
    plan = run.plan(op, _Plan.of)
    if not isinstance(element, FloatType):
        return structured(run, frame, op)
    inputs = [whole(run, frame, op, value) for value in plan.inputs]
    initial = whole(run, frame, op, plan.outputs[0])
    extents = plan.extents(op, [*inputs, initial])
    run.count(op, frame)
    _count_product(run, frame, plan, extents)
    out = float_format(element, run.machine.f16_format)
    wide = out.wide if element.width > 16 else np.dtype(np.float32)
    factors = [
        to_domain(float_format(value.type, run.machine.f16_format).widen(array).astype(wide), map, extents)
        for value, array, map in zip(op.operands, [*inputs, initial], plan.maps, strict=True)
    ]
    (loop,) = plan.reduced
    total = factors[2]
    with np.errstate(all="ignore"):
        for k in range(extents[loop]):
            total = total + _at(factors[0], {loop: k}) * _at(factors[1], {loop: k})
    return _finish(run, frame, op, plan, [out.narrow(total)], extents)


def _count_product(run: Interpreter, frame: Frame, plan: _Plan, extents: Sequence[int]) -> None:
    """The rows of a product are the loops of its left factor alone."""
    left, right = (set(map.results) for map in plan.maps[:2])
    rows = math.prod(extents[e.position] for e in left - right if isinstance(e, Dim))
    run.work.matrix(rows, math.prod(extents) // rows if rows else 0, frame.tiles)


@STRUCTURED.executes(linalg.Index)
def loop_index(run: Interpreter, frame: Frame, op: linalg.Index) -> Results:
    extents = run.domains[-1]
    shape = [1] * (len(extents) + 1)
    shape[op.dim.value + 1] = extents[op.dim.value]
    return [np.arange(extents[op.dim.value], dtype=np.int64).reshape(shape)]
