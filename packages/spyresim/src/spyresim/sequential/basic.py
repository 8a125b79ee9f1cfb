"""Constants, calls and control flow (``arith.constant``, ``func``, ``scf``, ``affine``, casts)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktir.attributes import SymbolRefAttr
from ktir.dialects import affine, arith, builtin, func, scf
from ktir.ir import Value
from ktir.types import IntegerType, Signedness
from spyresim.errors import ControlFault, Site, UnsupportedError
from spyresim.meaning import constant_array
from spyresim.meaning.formats import Array
from spyresim.sequential.interpreter import Frame, Handlers, Interpreter, Results
from spyresim.sequential.values import merge, take, uniform

__all__ = ["BASIC"]

BASIC = Handlers()


@BASIC.executes(arith.Constant)
def constant(run: Interpreter, frame: Frame, op: arith.Constant) -> Results:
    found = run.cache.get(op)
    if found is None:
        found = run.cache[op] = constant_array(op.value, run.machine.f16_format)[None]
    return (found,)


@BASIC.executes(func.Call)
def call(run: Interpreter, frame: Frame, op: func.Call) -> Results:
    callee = run.lookup(op, _symbol(op.callee))
    run.count(op, frame)
    return run.call(callee, [frame[value] for value in op.operands], frame)


def _symbol(reference: SymbolRefAttr) -> str:
    return "::".join((reference.root, *reference.nested))


@BASIC.executes(affine.Apply, affine.Min, affine.Max)
def affine_map(run: Interpreter, frame: Frame, op: affine.Apply | affine.Min | affine.Max) -> Results:
    dims = [frame.array(value) for value in op.dims]
    symbols = [frame.array(value) for value in op.symbols]
    values = [np.atleast_1d(np.asarray(v, np.int64)) for v in op.map.map.evaluate(dims, symbols)]
    match op:
        case affine.Min():
            return (np.minimum.reduce(np.broadcast_arrays(*values)),)
        case affine.Max():
            return (np.maximum.reduce(np.broadcast_arrays(*values)),)
        case _:
            return (values[0],)


# -- if


@BASIC.executes(scf.If)
def branch(run: Interpreter, frame: Frame, op: scf.If) -> Results:
    condition = frame.array(op.condition)
    same = uniform(condition)
    if same is not None:
        return _region(run, frame, op, bool(same[0]))
    parts = []
    for taken in (True, False):
        positions = np.flatnonzero(condition == taken)
        parts.append((positions, _region(run, frame.restrict(positions), op, taken)))
    return merge(frame.batch, parts, Site(op.name, op.location))


def _region(run: Interpreter, frame: Frame, op: scf.If, taken: bool) -> Results:
    region = op.then_region if taken else op.else_region
    return run.run_block(region.block, frame) if region.blocks else ()


# -- loops


@BASIC.executes(scf.For)
def counted_loop(run: Interpreter, frame: Frame, op: scf.For) -> Results:
    lower, upper, step = (_bound(op, frame, value) for value in (op.lower, op.upper, op.step))
    if (step <= 0).any():
        position = int(np.argmax(np.broadcast_to(step <= 0, (frame.batch,))))
        raise ControlFault(
            f"the step of a loop must be positive, not {int(step.min())}",
            site=Site(op.name, op.location, int(frame.tiles[position])),
        )
    bounds = [uniform(bound) for bound in (lower, upper, step)]
    carried: Results = [frame[value] for value in op.inits]
    if all(bound is not None for bound in bounds):
        first, limit, stride = (int(bound[0]) for bound in bounds if bound is not None)
        run.require(op, max(0, -(-(limit - first) // stride)))
        for value in range(first, limit, stride):
            carried = iterate(run, frame, op, np.array([value], lower.dtype), carried)
        return carried
    return _ragged_loop(
        run, frame, op, [np.broadcast_to(b, (frame.batch,)) for b in (lower, upper, step)], carried
    )


def _ragged_loop(
    run: Interpreter, frame: Frame, op: scf.For, bounds: Sequence[Array], carried: Results
) -> Results:
    """Tiles have different bounds: those that still iterate go on together."""
    value, upper, step = bounds[0].copy(), bounds[1], bounds[2]
    while True:
        active = np.flatnonzero(value < upper)
        if not len(active):
            return carried
        if len(active) == frame.batch:
            carried = iterate(run, frame, op, value, carried)
        else:
            inner = frame.restrict(active)
            before = [take(v, active) for v in carried]
            after = iterate(run, inner, op, value[active], before)
            rest = np.flatnonzero(value >= upper)
            parts = [(active, after), (rest, [take(v, rest) for v in carried])]
            carried = merge(frame.batch, parts, Site(op.name, op.location))
        value = value + np.where(value < upper, step, 0).astype(value.dtype)


def iterate(run: Interpreter, frame: Frame, op: scf.For, value: Array, carried: Results) -> Results:
    """One iteration; the values that it hands on."""
    run.step(op)
    run.count(op, frame)
    block = op.body.block
    frame.bind(block.arguments, [value, *carried])
    if run.live is not None:
        run.live.bind(block.arguments, [value, *carried])
    return run.run_block(block, frame)


def _bound(op: scf.For, frame: Frame, value: Value) -> Array:
    array = frame.array(value)
    if op.unsigned_cmp is not None or (
        isinstance(value.type, IntegerType) and value.type.signedness is Signedness.UNSIGNED
    ):
        return array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return array


@BASIC.executes(scf.While)
def while_loop(run: Interpreter, frame: Frame, op: scf.While) -> Results:
    return _while(run, frame, op, [frame[value] for value in op.inits])


def _while(run: Interpreter, frame: Frame, op: scf.While, carried: Results) -> Results:
    """Tiles iterate together as long as they agree; then those that go on form a batch of their own."""
    before, after = op.before.block, op.after.block
    while True:
        run.step(op)
        run.count(op, frame)
        frame.bind(before.arguments, carried)
        condition, *passed = run.run_block(before, frame)
        assert isinstance(condition, np.ndarray)
        same = uniform(condition)
        if same is None:
            break
        if not same[0]:
            return passed
        frame.bind(after.arguments, passed)
        carried = run.run_block(after, frame)
    going, done = np.flatnonzero(condition), np.flatnonzero(~condition)
    inner = frame.restrict(going)
    inner.bind(after.arguments, [take(value, going) for value in passed])
    results = _while(run, inner, op, run.run_block(after, inner))
    parts = [(going, results), (done, [take(value, done) for value in passed])]
    return merge(frame.batch, parts, Site(op.name, op.location))


@BASIC.executes(builtin.UnrealizedConversionCast)
def conversion(run: Interpreter, frame: Frame, op: builtin.UnrealizedConversionCast) -> Results:
    """Types that hold the same thing; an address that becomes a buffer is the schedule's business."""
    if len(op.operands) != len(op.results) or any(
        a.type != b.type for a, b in zip(op.operands, op.results, strict=True)
    ):
        raise UnsupportedError(
            f"conversion of {', '.join(str(v.type) for v in op.operands)} to "
            f"{', '.join(str(v.type) for v in op.results)}",
            Site(op.name, op.location),
        )
    return [frame[value] for value in op.operands]
