"""Plans of element-wise kernels: executing them tile by tile in device layout gives what the schedule
gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from ktir.types import F32
from rangeify import Tensor, UnsupportedError
from rangeify.executor.alu import apply, constant
from rangeify.kernels import store_of
from rangeify.ktir.access import kernel_accesses
from rangeify.ktir.layout import DeviceLayout, Part
from rangeify.ktir.layouts import choose_layouts
from rangeify.ktir.plan import KernelPlan, Operand, plan_kernel
from rangeify.schedule_types import Kernel, Schedule


def places(layout: DeviceLayout) -> tuple[np.ndarray[Any, Any], ...]:
    """The device coordinates of every host element, from the parts alone."""
    size = math.prod(layout.shape)
    index = np.indices(layout.shape).reshape(len(layout.shape), size)
    none = np.zeros(size, np.int64)
    out = []
    for dim in layout.dims:
        i = none if dim.host is None else index[dim.host]
        out.append({Part.WHOLE: i, Part.TILE: i // layout.lanes, Part.LANE: i % layout.lanes}[dim.part])
    return tuple(out)


def to_device(array: np.ndarray[Any, Any], layout: DeviceLayout) -> np.ndarray[Any, Any]:
    out = np.full(layout.device_size, 99, array.dtype)  # padding is garbage
    out[places(layout)] = array.reshape(-1)
    return out


def to_host(array: np.ndarray[Any, Any], layout: DeviceLayout) -> np.ndarray[Any, Any]:
    return array[places(layout)].reshape(layout.shape)


def window(operand: Operand, ids: tuple[int, ...]) -> tuple[slice, ...]:
    starts = [(0 if d.grid is None else ids[d.grid] * d.step) + d.offset for d in operand.tile]
    return tuple(slice(s, s + d.size) for s, d in zip(starts, operand.tile, strict=True))


def spread(tile: np.ndarray[Any, Any], operand: Operand, rank: int) -> np.ndarray[Any, Any]:
    """A tile placed on the axes that it follows, broadcastable to the tile loops."""
    axes = [d.axis for d in operand.tile]
    kept = [i for i, a in enumerate(axes) if a is not None]
    picked = tile[tuple(slice(None) if i in kept else 0 for i in range(len(axes)))]
    order = sorted(range(len(kept)), key=lambda k: axes[kept[k]] or 0)
    moved = picked.transpose(order)
    shape = [1] * rank
    for k, n in zip(order, moved.shape, strict=True):
        shape[axes[kept[k]] or 0] = n
    return moved.reshape(shape)


def execute(kernel: Kernel, plan: KernelPlan, memory: list[np.ndarray[Any, Any]]) -> None:
    value, rank = store_of(kernel.body).src[1], len(plan.tile_shape)
    written = np.zeros(memory[0].shape, bool)
    for ids in np.ndindex(*plan.grid):
        known = {n: spread(memory[o.slot][window(o, ids)], o, rank) for n, o in plan.loads.items()}
        for node in value.toposort(gate=lambda n: n not in known):  # noqa: B023
            known[node] = (
                constant(node) if node.op.name == "CONST" else apply(node, [known[s] for s in node.src])
            )
        target = window(plan.store, ids)
        assert [s.stop - s.start for s in target] == list(plan.tile_shape)
        assert not written[target].any(), "two tiles write one element"
        written[target] = True
        memory[0][target] = np.broadcast_to(known[value], plan.tile_shape)
    assert written.all(), "no tile writes some element"


def check(schedule: Schedule, cores: int) -> None:
    accesses = tuple(kernel_accesses(k) for k in schedule.kernels)
    chosen = choose_layouts(schedule, accesses, (F32,) * len(schedule.buffers))
    given_arrays = rangeify.executor.execute.bind_inputs(schedule, None)
    memory = [
        to_device(given_arrays[s.buffer], s.layout)
        if s.buffer in given_arrays
        else np.full(s.layout.device_size, 77, np.float32)
        for s in chosen.storages
    ]
    for kernel, access, arguments in zip(schedule.kernels, chosen.accesses, chosen.arguments, strict=True):
        layouts = [chosen.storages[a].layout for a in arguments]
        plan = plan_kernel(access, layouts, cores, kernel.name)
        assert np.prod(plan.grid) <= cores
        execute(kernel, plan, [memory[a] for a in arguments])
    host = rangeify.executor.execute.execute(schedule)
    for i, buffer in enumerate(schedule.buffers):
        if buffer.role.value == "output":
            np.testing.assert_array_equal(to_host(memory[i], chosen.storages[i].layout), host[i])


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


CASES: dict[str, Callable[[], Tensor]] = {
    "demo": lambda: (Tensor(array(6, 70)) * Tensor(array(70)) + Tensor(array(6, 1))).relu() * 0.5,
    "ragged": lambda: Tensor(array(5, 45)) + Tensor(array(45)),
    "three dimensions": lambda: Tensor(array(3, 4, 67)) * Tensor(array(4, 1)) + Tensor(array(3, 1, 67)),
    "transposed input": lambda: Tensor(array(46, 35)).T + Tensor(array(35, 46)),
    "column vector": lambda: Tensor(array(6)).reshape(6, 1) + Tensor(array(6, 40)),
    "scalar input": lambda: Tensor(array()) * Tensor(array(3, 33)),
    "one element": lambda: Tensor(array(1, 1)) + 1,
    "no dimensions": lambda: Tensor(array()) + 1,
    "column result": lambda: Tensor(array(6, 1)) * 2 + Tensor(array(6, 1, seed=1)),
    "row slice": lambda: Tensor(array(8, 36))[2:7] * 2,
    "stick slice": lambda: Tensor(array(3, 100))[:, 32:90] * 2,
    "two kernels": lambda: (Tensor(array(36, 40)) + 1).contiguous().T * 2 + Tensor(array(40, 36, seed=2)),
    "input in two layouts": lambda: (x := Tensor(array(40, 40))) + x.T * 2,
    "input as column and row": lambda: (x := Tensor(array(36))).reshape(36, 1) * x,
    "copy": lambda: Tensor(array(36, 5)).T.contiguous(),
    "four dimensions": lambda: Tensor(array(2, 3, 4, 50)) + Tensor(array(3, 1, 50)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cores", [1, 3, 32])
def test_plans_compute_the_schedule(case: str, cores: int) -> None:
    """Planning spec 1.4, 2.4, 6.1, 6.2: broadcasts, permutes, slices, several kernels."""
    check(rangeify.schedule(CASES[case]()), cores)


dims = st.integers(1, 6)
wide = st.integers(1, 3) | st.sampled_from([32, 33, 64, 70])


@given(dims, dims, wide, st.lists(st.integers(0, 7), min_size=1, max_size=4), st.integers(1, 12))
@pytest.mark.sweep(default=60, full=1000)
def test_random_broadcasts(a: int, b: int, c: int, masks: list[int], cores: int) -> None:
    """Operands with any subset of dimensions of size 1, over any number of cores."""
    value = Tensor(array(a, b, c))
    for seed, mask in enumerate(masks):
        shape = tuple(1 if mask >> i & 1 else d for i, d in enumerate((a, b, c)))
        value = value * Tensor(array(*shape, seed=seed)) + seed
    check(rangeify.schedule(value), cores)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor(array(4, 8)).sum(1), r"reduction \(REDUCE ADD\) \(in kernel r_4_8_"),
        (lambda: Tensor(array(8)).flip(0) + 1, r"access at index .* \(in kernel E_8_"),
        (lambda: Tensor(array(4, 6)).reshape(6, 4) + Tensor(array(6, 4)), "access at index"),
        (lambda: Tensor(array(3, 82))[:, 2:79] * 2, "2 elements into a stick"),
        (lambda: Tensor(array(4, 4)) + Tensor(array(4, 4, seed=1)).T + Tensor(array(4, 4, seed=1)), None),
        (lambda: (x := (Tensor(array(5, 5)) + 1).contiguous()) + x.T, "two device layouts"),
        (lambda: Tensor(array(3)).pad(((1, 0),)) + 1, "access at index"),
    ],
)
def test_what_sticks_cannot_express_is_a_located_error(
    make: Callable[[], Tensor], message: str | None
) -> None:
    """Planning spec 1.4: reject, naming kernel and operation; a layout per input makes transposes legal."""
    schedule = rangeify.schedule(make())
    if message is None:
        check(schedule, 4)
        return
    with pytest.raises(UnsupportedError, match=message):
        check(schedule, 4)
