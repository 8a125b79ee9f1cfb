"""Index arithmetic of movement, the decisions of range assignment, and worked examples down to the indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import Config, Tensor
from rangeify.callify import transform_to_call
from rangeify.executor.blocks import is_gated
from rangeify.executor.kernel import run_kernel
from rangeify.kernels import store_of
from rangeify.prepare import prepare
from rangeify.ranges import run_rangeify
from rangeify.report import ranges_table
from uopgraph import KernelInfo, Ops, UOp, dtypes, infix
from uopgraph.movement import apply_movement_op

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
SHAPES = [s for rank in range(1, 5) for s in itertools.product((1, 2, 3), repeat=rank)]


def moved(node: UOp, source: UOp) -> Array:
    """What a kernel reads at the indices that a movement operation gives for its own ranges."""
    ranges = tuple(UOp.range(int(n), i) if n != 1 else UOp.const(0) for i, n in enumerate(node.shape))
    at = apply_movement_op(node.op, source.shape, node.marg, ranges)
    target = UOp.param(0, dtypes.int32, tuple(map(int, node.shape)), "cpu")
    effect = target.index(*ranges).store(source.index(*at)).end(*(r for r in ranges if r.op is Ops.RANGE))
    out = np.full(node.shape, -1, np.int32)
    run_kernel(effect.sink(arg=KernelInfo("moved")), [out, contents(source.shape)])
    return out


def contents(shape: Any) -> Array:
    return np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)


def cuts(n: int) -> list[tuple[int, int]]:
    return [(lo, hi) for lo in range(n) for hi in range(lo + 1, n + 1)]


def movements(shape: Shape, x: UOp, a: Array) -> Iterator[tuple[UOp, Array]]:
    rank = len(shape)
    for order in itertools.permutations(range(rank)):
        yield x.movement(Ops.PERMUTE, order), a.transpose(order)
    for mask in itertools.product((False, True), repeat=rank):
        yield x.movement(Ops.FLIP, mask), np.flip(a, [i for i, m in enumerate(mask) if m])
    # axes are cut and padded independently: all pairs where there are two, one at a time where there are more
    every = (
        itertools.product(*map(cuts, shape)) if rank <= 2 else _one_axis([(0, n) for n in shape], shape, cuts)
    )
    for cut in every:
        yield x.shrink(cut), a[tuple(slice(*c) for c in cut)]
    pads = [(0, 0), (1, 0), (0, 2), (1, 1)]
    wider = (
        itertools.product(pads, repeat=rank)
        if rank <= 2
        else _one_axis([(0, 0)] * rank, shape, lambda n: pads)
    )
    for pad in wider:
        yield x.pad(pad), np.pad(a, pad)
    for new in ((2,), (3, 2)):
        yield x.expand((*new, *shape)), np.broadcast_to(a, (*new, *shape))
    for other in SHAPES:
        if math.prod(other) == math.prod(shape):
            yield x.reshape(other), a.reshape(other)


def _one_axis(rest: list[Any], shape: Shape, options: Any) -> Iterator[tuple[Any, ...]]:
    for axis, n in enumerate(shape):
        for option in options(n):
            yield (*rest[:axis], option, *rest[axis + 1 :])


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.sweep(default=8, full=1000)
def test_ranges_of_every_movement_operation_equal_numpy(rank: int, cases: int) -> None:
    """rangeify checklist 13: all small shapes with SWEEPS=1, a share of those of three and four dimensions else."""
    shapes = [s for s in SHAPES if len(s) == rank]
    step = max(1, len(shapes) // cases)
    count = 0
    for shape in shapes[::step]:
        x = UOp.param(1, dtypes.int32, shape, "cpu")
        for node, want in movements(shape, x, contents(shape)):
            if node is x:
                continue
            assert np.array_equal(moved(node, x), want), (node.op, node.marg, shape)
            count += 1
    assert count >= 10 * len(shapes[::step])


def test_a_reshape_there_and_back_gives_the_same_ranges() -> None:
    """rangeify checklist 14: the very objects, from up to three dimensions by way of up to four."""
    for shape in (s for s in SHAPES if len(s) <= 3):
        x = UOp.param(1, dtypes.int32, shape, "cpu")
        ranges = tuple(UOp.range(n, i) if n != 1 else UOp.const(0) for i, n in enumerate(shape))
        for other in SHAPES:
            if math.prod(other) != math.prod(shape):
                continue
            y = x.reshape(other).reshape(shape)
            if y.op is not Ops.RESHAPE or y.src[0].op is not Ops.RESHAPE:
                continue
            between = apply_movement_op(y.op, y.src[0].shape, y.marg, ranges)
            back = apply_movement_op(y.src[0].op, x.shape, y.src[0].marg, between)
            assert all(b is r for b, r in zip(back, ranges, strict=True)), (shape, other)


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32))


def loads(value: Tensor) -> tuple[list[str], list[str]]:
    """The names of the kernels under the reference rules, and the indices of all loads of the last one."""
    schedule = rangeify.schedule(value, config=Config(fusion="reference"))
    stored = store_of(schedule.kernels[-1].body).src[1]
    found = [n for n in stored.toposort() if n.op is Ops.INDEX]
    texts = [", ".join(infix(i) for i in n.src[1:]) for n in found]
    (result,) = rangeify.run(schedule)
    np.testing.assert_array_equal(result, value.numpy())
    return [k.name for k in schedule.kernels], texts


def test_a_product_summed_over_a_reshape() -> None:
    """rangeify checklist E1: one kernel; a buffer keeps its two dimensions, so its flat range is split."""
    names, indices = loads((tensor(2, 3).reshape(6) * tensor(6, seed=1)).sum())
    assert names == ["r_6"]
    assert sorted(indices) == ["r0", "r0//3, r0%3"]


def test_a_pad_is_a_gated_index_and_a_zero() -> None:
    """rangeify checklist E6, 16."""
    x = tensor(3, 4)
    value = x.pad(((1, 1), (0, 2))) + 1
    schedule = rangeify.schedule(value)
    names, indices = loads(value)
    assert names == ["E_5_6"]
    assert len(indices) == 1
    assert "r0-1" in indices[0].replace(" ", "")
    gates = [n for n in schedule.kernels[0].body.toposort() if is_gated(n)]
    assert gates
    want = np.pad(x.numpy(), ((1, 1), (0, 2))) + 1
    np.testing.assert_array_equal(value.numpy(), want)


def test_a_flipped_slice_counts_down() -> None:
    """rangeify checklist E7: x[2:6].flip(0) * 3 reads x[5 - r0]."""
    names, indices = loads(tensor(8)[2:6].flip(0) * 3)
    assert names == ["E_4"]
    assert indices == ["r0*(-1) + 5"] or [i.replace(" ", "") for i in indices] == ["r0*(-1)+5"]


TABLES = {
    "nothing between": lambda: [(tensor(4, 4) + 1).T * 2],
    "a maximum that is repeated": lambda: [(lambda x: (x - x.max(1, keepdims=True)).sum(1))(tensor(4, 8))],
    "read in two directions": lambda: [(lambda z: z * z.T)(tensor(4, 4) + tensor(4, 4, seed=1))],
    "marked": lambda: [(lambda z: z * z.T)((tensor(4, 4) + 1).contiguous())],
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table_marks_exactly_what_is_stored(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """rangeify checklist 36: one line a node with ranges, and what ``Config.debug_ranges`` tells is that table."""
    outputs = TABLES[name]()
    config = Config(fusion="reference", debug_ranges=True, schedule_cache=0)
    body = transform_to_call(UOp.make_sink(*(t.uop for t in outputs)), frozenset()).call.src[0]
    prepared = prepare(body, config)
    _, found = run_rangeify(prepared, config)
    table = ranges_table(prepared, found)
    lines = table.splitlines()
    with_ranges = [x for x in reversed(list(prepared.toposort(enter_calls=False))) if x in found.inputs]
    assert len(lines) == len(with_ranges)
    for line, x in zip(lines, with_ranges, strict=True):
        assert line.startswith("***") == (x in found.realized)
        assert line[3:].split()[1] == x.op.name
    assert sum(line.startswith("***") for line in lines) == len(found.realized) >= 1
    rangeify.schedule(*outputs, config=config)
    assert capsys.readouterr().err.strip() == table.strip()
