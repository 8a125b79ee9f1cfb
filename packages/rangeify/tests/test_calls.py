"""Nested calls: inline, lowered once, flattened (scheduler spec 3.6, 6.1, 13)."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import rangeify
from rangeify import ScheduleError, Tensor
from rangeify.callify import transform_to_call
from rangeify.lowering import clear_schedule_cache, statistics
from uopgraph import KernelInfo, Ops, UOp, dtypes


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, dtypes.float32, shape, "cpu")


def block() -> UOp:
    """(x.T * 2).contiguous().T + y over two parameters."""
    return (param(0, 4, 4).permute(1, 0) * 2.0).contiguous().permute(1, 0) + param(1, 4, 4)


@pytest.mark.parametrize("precompile", [False, True])
def test_a_call_of_a_value_is_its_body(precompile: bool) -> None:
    """checklist 60: calls of calls, one of them with its arguments exchanged."""
    a, b = array(4, 4), array(4, 4, seed=1)
    x, y = Tensor(a), Tensor(b)
    inner = block().call(x.uop, y.uop, precompile=precompile).gettuple(0)
    outer = block().call(y.uop, inner, precompile=precompile).gettuple(0)
    schedule = rangeify.schedule(Tensor(outer) + 1)
    for order in (None, 1):
        np.testing.assert_array_equal(rangeify.run(schedule, order=order)[0], 2 * b + (2 * a + b) + 1)
    assert all(k.body.op is Ops.SINK for k in schedule.kernels)
    loaded = rangeify.Schedule.from_json(schedule.to_json())
    np.testing.assert_array_equal(rangeify.run(loaded, [b, a])[0], 2 * b + (2 * a + b) + 1)


def test_a_body_that_calls_another() -> None:
    """checklist 60: inner positions shadow outer ones."""
    twice = (param(0, 4, 4) * 2.0).call(param(1, 4, 4), precompile=True).gettuple(0)
    outer = twice + param(0, 4, 4)
    a, b = array(4, 4), array(4, 4, seed=1)
    value = outer.call(Tensor(a).uop, Tensor(b).uop, precompile=True).gettuple(0)
    np.testing.assert_array_equal(Tensor(value).numpy(), 2 * b + a)


def test_two_results_and_a_lowered_body_is_reused() -> None:
    """checklist 10: a second invocation of one body is not lowered again and has other temporaries."""
    p = param(0, 4, 4)
    body = UOp.make_tuple((p.permute(1, 0) + 1.0).contiguous().permute(1, 0) * 3.0, p.sum(0))
    a, b = array(4, 4), array(4, 4, seed=1)
    values = []
    for array_in in (a, b):
        call = UOp(Ops.CALL, dtypes.void, (body, Tensor(array_in).uop), body.call(precompile=True).arg)
        values += [Tensor(call.gettuple(0)), Tensor(call.gettuple(1))]
    clear_schedule_cache()
    before = statistics.misses
    schedule = rangeify.schedule(*values)
    assert statistics.misses == before + 2
    got = rangeify.run(schedule)
    for value, want in zip(got, ((a + 1) * 3, a.sum(0), (b + 1) * 3, b.sum(0)), strict=True):
        np.testing.assert_array_equal(value, want)
    written = [k.buffers[0] for k in schedule.kernels]
    assert len(set(written)) == len(written)


def test_scalar_arguments_are_positions() -> None:
    """checklist 60: a positional scalar of an inner call is bound to the Variable that the outer one passes."""
    step = UOp.variable("step", 0, 3)
    scalar = step.param_like(1)
    inner = param(0, 4, 4).shrink(((scalar, scalar + 1), (0, 4))) * 2.0
    a = array(4, 4)
    for precompile in (False, True):
        value = inner.call(Tensor(a).uop, step.bind(2), precompile=precompile).gettuple(0)
        schedule = rangeify.schedule(Tensor(value))
        assert [v.name for v in schedule.variables] == ["step"]
        for row in (0, 2, 3):
            got = rangeify.run(schedule, bindings={"step": row})[0]
            np.testing.assert_array_equal(got, a[row : row + 1] * 2)


def test_arguments_that_do_not_fit_are_named() -> None:
    good = Tensor(array(4, 4)).uop
    for wrong, message in (
        (Tensor(array(4, 3)).uop, r"arg 1 shape mismatch: \(4, 3\) for \(4, 4\)"),
        (Tensor(array(4, 4).astype(np.float16)).uop, "arg 1 dtype mismatch"),
    ):
        with pytest.raises(ScheduleError, match=message):
            rangeify.schedule(Tensor(block().call(good, wrong).gettuple(0)))
    with pytest.raises(ScheduleError, match="arg 1 is missing: the call has 1"):
        rangeify.schedule(Tensor(block().call(good).gettuple(0)))


def test_storage_of_a_body_is_numbered_in_its_own_scope() -> None:
    """checklist 9: the slots of call-local storage count from -1 in every body, so that equal ones are equal."""

    def graph(x: Tensor) -> UOp:
        def local(value: UOp) -> UOp:
            place = UOp.alloc((4, 4), dtypes.float32, "cpu")
            return place.after(place.store(value))

        body = local(param(0, 4, 4) + 1.0) * 2.0
        inner = body.call(x.uop, precompile=True).gettuple(0)
        return local(inner) + local(x.uop * 2.0)

    a = array(4, 4)
    calls = [transform_to_call(UOp.make_sink(graph(Tensor(a)))).call for _ in range(2)]
    assert calls[0].src[0] is calls[1].src[0]
    slots = [n.arg.slot for n in calls[0].src[0].toposort(enter_calls=False) if n.op is Ops.ALLOC]
    assert sorted(slots) == [-2, -1]
    (nested,) = [n for n in calls[0].src[0].toposort(enter_calls=False) if n.op is Ops.CALL]
    assert [n.arg.slot for n in nested.src[0].toposort() if n.op is Ops.ALLOC] == [-1]
    np.testing.assert_array_equal(Tensor(graph(Tensor(a))).numpy(), (a + 1) * 2 + a * 2)


def hand_written(out: UOp, *arguments: UOp) -> UOp:
    """A kernel that adds its second and third argument, written by hand over flat parameters."""
    places = [UOp.param(i, dtypes.float32, (16,), "cpu") for i in range(3)]
    r = UOp.range(16, 0)
    effect = places[0].index(r).store(places[1].index(r) + places[2].index(r)).end(r)
    return effect.sink(arg=KernelInfo("add_by_hand")).call(out, *arguments)


def test_arguments_of_a_hand_written_kernel_are_storage() -> None:
    """checklist 31: a computed argument is stored and not removed; a buffer or a reshape of one needs no kernel."""
    a, b = array(16), array(16, seed=1)
    x, y = Tensor(a), Tensor(b)
    for argument, extra, want in (
        (x.uop, 0, a + b),
        (Tensor(a.reshape(4, 4)).uop.reshape(16), 0, a + b),
        ((x * 2).uop, 1, 2 * a + b),
        (Tensor(np.concatenate([a, a])).uop.shrink(((16, 32),)), 1, a + b),
    ):
        out = rangeify.storage.new_buffer((16,), dtypes.float32, "cpu")
        value = Tensor(out.after(hand_written(out, argument, y.uop)))
        rangeify.storage.set_contents(out, np.zeros(16, np.float32))
        schedule = rangeify.schedule(value)
        assert len(schedule.kernels) == 1 + extra
        assert schedule.kernels[-1].name == "add_by_hand"
        np.testing.assert_array_equal(rangeify.run(schedule)[0], want)


def spread(slot: int, axis: int | None, devices: tuple[str, ...]) -> UOp:
    """A parameter of (8, 8) that is cut along `axis`, or whole on every device."""
    p = UOp.param(slot, dtypes.float32, (8, 8), devices)
    return p.replace(arg=attrs.evolve(p.arg, axis=axis))


@pytest.mark.parametrize(("n", "precompile"), [(2, False), (2, True), (4, True)])
def test_calls_of_sharded_values(n: int, precompile: bool) -> None:
    """rangeify checklist 60, 77: bodies over parts, over parts and wholes, with all-reduces, with storage, nested."""
    devices = tuple(f"cpu:{i}" for i in range(n))
    a, b = array(8, 8), array(8, 8, seed=1)
    values = {axis: (Tensor(a).shard(devices, axis), Tensor(b).shard(devices, axis)) for axis in (0, 1, None)}
    for axis in (0, 1):
        p, q, whole = spread(0, axis, devices), spread(1, axis, devices), spread(1, None, devices)
        (x, y), w = values[axis], values[None][1]
        double = (p * 2.0).call(x.uop, precompile=precompile).gettuple(0)
        inner = (p + 1.0).call(q, precompile=precompile).gettuple(0)
        cases = [
            ((p * 2.0 + q).call(x.uop, y.uop, precompile=precompile), a * 2 + b),
            ((p * 2.0 + whole).call(x.uop, w.uop, precompile=precompile), a * 2 + b),
            ((p * 2.0).sum((0,)).call(x.uop, precompile=precompile), a.sum(0) * 2),
            ((p * 2.0).sum((1,)).call(x.uop, precompile=precompile), a.sum(1) * 2),
            (((p * 2.0).contiguous() + 1.0).call(x.uop, precompile=precompile), a * 2 + 1),
            ((p + q).call(double, y.uop, precompile=precompile), a * 2 + b),
            ((inner * p).call(x.uop, y.uop, precompile=precompile), (b + 1) * a),
        ]
        for call, want in cases:
            schedule = rangeify.schedule(Tensor(call.gettuple(0)) + 1)
            for order in (None, 1):
                np.testing.assert_array_equal(rangeify.run(schedule, order=order)[0], want + 1)
        with pytest.raises(ScheduleError, match=rf"arg 0 axis mismatch: {1 - axis} for {axis}"):
            rangeify.schedule(
                Tensor((p * 2.0).call(values[1 - axis][0].uop, precompile=precompile).gettuple(0))
            )
