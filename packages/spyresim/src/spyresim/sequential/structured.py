"""Structured operations (``linalg``): the body on whole iteration domains (ktir spec 3.5, readings 16).

The domain's axes stand behind the batch axis.  Reductions are left folds in lexicographic order; only what
depends on the accumulator is done point by point.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ktir.affine import AffineMap, Const, Dim
from ktir.dialects import linalg
from ktir.ir import Block, Operation, Value
from ktir.types import FloatType, element_or_self
from spyresim.errors import ExecutionFault, Site, UnsupportedError, unsupported
from spyresim.meaning.formats import Array, float_format, held_dtype
from spyresim.sequential.access import Nest
from spyresim.sequential.folds import fold
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.kernels import load_view, store_view
from spyresim.sequential.values import View

__all__ = ["STRUCTURED", "whole"]

STRUCTURED = Handlers()

_CONTRACTIONS = (linalg.Matmul, linalg.BatchMatmul, linalg.Matvec, linalg.Vecmat, linalg.Dot)


def whole(run: Interpreter, frame: Frame, op: Operation, value: Value) -> Array:
    """A tensor or scalar operand, or the contents of a memref."""
    found = frame[value]
    if isinstance(found, View):
        return load_view(run, frame, op, found, np.zeros(1, np.int64), Nest(found.sizes, found.strides))
    assert isinstance(found, np.ndarray)
    return found


def _extents(op: linalg.LinalgOp, operands: Sequence[Array]) -> tuple[int, ...]:
    extents: list[int | None] = [None] * len(op.iterators)
    for array, map in zip(operands, op.maps, strict=True):
        for expr, extent in zip(map.results, array.shape[1:], strict=True):
            if isinstance(expr, Dim):
                known = extents[expr.position]
                if known is not None and known != extent:
                    raise ExecutionFault(
                        f"loop {expr.position} has extents {known} and {extent}",
                        site=Site(op.name, op.location),
                    )
                extents[expr.position] = extent
    if None in extents:
        raise unsupported(op, f"loop {extents.index(None)} of a structured operation has no extent")
    return tuple(extent for extent in extents if extent is not None)


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


def from_domain(array: Array, map: AffineMap, extents: Sequence[int], shape: Sequence[int]) -> Array:
    """The inverse for an output: every element is written once."""
    permutation = [expr.position for expr in map.results if isinstance(expr, Dim)]
    full = np.broadcast_to(array, (array.shape[0], *extents))
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
    inputs = [whole(run, frame, op, value) for value in op.input_values]
    outputs = [_initial(run, frame, op, value) for value in op.output_values]
    extents = _extents(op, [*inputs, *outputs])
    run.counters.count(op.name, frame.batch)
    domain = [to_domain(a, m, extents) for a, m in zip([*inputs, *outputs], op.maps, strict=True)]
    run.domains.append(extents)
    try:
        if "reduction" in op.iterators:
            results = _fold(run, frame, op, domain[: len(inputs)], domain[len(inputs) :], extents)
        else:
            frame.bind(op.regions[0].block.arguments, domain)
            results = [_array(value) for value in run.run_block(op.regions[0].block, frame)]
    finally:
        run.domains.pop()
    return _finish(run, frame, op, results, outputs, extents)


def _array(value: object) -> Array:
    assert isinstance(value, np.ndarray)
    return value


def _initial(run: Interpreter, frame: Frame, op: linalg.LinalgOp, value: Value) -> Array:
    """The initial value of an output; a memref is only read if the body looks at it."""
    found = frame[value]
    if not isinstance(found, View):
        return _array(found)
    position = len(op.input_values) + op.output_values.index(value)
    argument = op.regions[0].block.arguments[position]
    if any(argument in inner.operands for inner in op.walk()):
        return whole(run, frame, op, value)
    held = held_dtype(found.element, run.machine.f16_format)
    return np.broadcast_to(np.zeros((1,), held).reshape(1, *([1] * len(found.sizes))), (1, *found.sizes))


def _finish(
    run: Interpreter,
    frame: Frame,
    op: linalg.LinalgOp,
    results: Sequence[Array],
    outputs: Sequence[Array],
    extents: Sequence[int],
) -> Results:
    given: list[Array] = []
    maps = op.maps[len(op.input_values) :]
    for value, array, map, initial in zip(op.output_values, results, maps, outputs, strict=True):
        rank = len(extents)
        if array.ndim != rank + 1:
            array = array.reshape(array.shape + (1,) * (rank + 1 - array.ndim))
        data = from_domain(array, map, extents, initial.shape[1:])
        view = frame[value]
        if isinstance(view, View):
            nest = Nest(view.sizes, view.strides)
            store_view(run, frame, op, view, np.zeros(1, np.int64), nest, data)
        else:
            given.append(data)
    return given


def _fold(
    run: Interpreter,
    frame: Frame,
    op: linalg.LinalgOp,
    inputs: Sequence[Array],
    accumulators: Sequence[Array],
    extents: Sequence[int],
) -> list[Array]:
    """Point after point of the reduction loops; parallel loops are axes of the arrays."""
    block = op.regions[0].block
    reduced = [d for d, kind in enumerate(op.iterators) if kind != "parallel"]
    folded = block.arguments[len(inputs) :]
    early, late = _split(block, folded)
    frame.bind(block.arguments[: len(inputs)], inputs)
    for inner in early:
        frame.bind(inner.results, run.execute(inner, frame))
    short = _short_fold(run, frame, folded, accumulators, late, extents, reduced)
    if short is not None:
        return [short]
    needed = _needed(late, block)
    loose = {value: frame.array(value) for value in needed if value not in folded}
    current: list[Array] = list(accumulators)
    for point in itertools.product(*(range(extents[d]) for d in reduced)):
        where = dict(zip(reduced, point, strict=True))
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
    whole = np.broadcast_to(values, (batch, *np.broadcast_shapes(values.shape[1:], tuple(extents))))
    start = np.broadcast_to(accumulators[0], (batch, *accumulators[0].shape[1:]))
    kept = [1 if d in reduced else extents[d] for d in range(len(extents))]
    start = np.broadcast_to(start, (batch, *kept))
    axes = [1 + d for d in reduced]
    found = fold(type(op), op.results[0].type, start, whole, axes, run.machine.f16_format)
    if found is not None:
        run.counters.count(op.name, frame.batch)
    return found


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
    """16-bit floats accumulate in f32 and are rounded once (ktir spec 5.5); other types run the body."""
    element = element_or_self(op.outputs[0].type)
    if not isinstance(element, FloatType) or element.width > 16:
        return structured(run, frame, op)
    inputs = [whole(run, frame, op, value) for value in op.inputs]
    initial = whole(run, frame, op, op.outputs[0])
    extents = _extents(op, [*inputs, initial])
    run.counters.count(op.name, frame.batch)
    wide = [
        to_domain(
            float_format(value.type, run.machine.f16_format).widen(array).astype(np.float32), map, extents
        )
        for value, array, map in zip(op.operands, [*inputs, initial], op.maps, strict=True)
    ]
    (loop,) = (d for d, kind in enumerate(op.iterators) if kind != "parallel")
    total = wide[2]
    with np.errstate(all="ignore"):
        for k in range(extents[loop]):
            total = total + _at(wide[0], {loop: k}) * _at(wide[1], {loop: k})
    out = float_format(element, run.machine.f16_format)
    return _finish(run, frame, op, [out.narrow(total)], [initial], extents)


@STRUCTURED.executes(linalg.Index)
def loop_index(run: Interpreter, frame: Frame, op: linalg.Index) -> Results:
    extents = run.domains[-1]
    shape = [1] * (len(extents) + 1)
    shape[op.dim.value + 1] = extents[op.dim.value]
    return [np.arange(extents[op.dim.value], dtype=np.int64).reshape(shape)]
