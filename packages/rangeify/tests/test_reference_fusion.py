"""Kernel counts and stages of the reference rules (scheduler spec 7.6, 8 and 20)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import Config, Tensor
from rangeify import functions as f
from rangeify.unstage import unstage
from uopgraph import BufferizeOpts, Ops, UOp, dtypes


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def names(*tensors: Tensor, **config: Any) -> list[str]:
    schedule = rangeify.schedule(*tensors, config=Config(fusion="reference", **config))
    expected = rangeify.run(schedule)
    for order in (1, 2):
        for a, b in zip(expected, rangeify.run(schedule, order=order), strict=True):
            np.testing.assert_array_equal(a, b)
    return [k.name for k in schedule.kernels]


def test_nothing_to_do_gives_no_kernel() -> None:
    """checklist 1, 4: constants, buffers and views of buffers need no kernel."""
    x = tensor(4, 6)
    assert names(Tensor(3.0), Tensor.full((2, 2), 1.5), x, x.T, x.reshape(24), x[1:3].flip(0)) == []


def test_contiguous_of_a_run_of_storage_is_free() -> None:
    """checklist 2, 3: a reshape, a row slice, a chained slice; an expand, permute, pad, flip, strided
    slice is not.
    """
    x = tensor(4, 6)
    runs = (x, x.reshape(24), x[1:3], x[1:][1:2])
    assert names(*(r.contiguous() for r in runs)) == []
    for view in (x.T, x.flip(0), x[:, ::2], x.pad(((1, 1), (0, 0))), x.reshape(4, 1, 6).expand(4, 5, 6)):
        assert len(names(view.contiguous())) == 1
    assert len(names((x + 1).contiguous().contiguous())) == 1


def test_contiguous_view_of_storage_reads_the_right_bytes() -> None:
    """checklist 2: the free view is the right one."""
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(Tensor(a)[1:3].contiguous().numpy(), a[1:3])


def test_elementwise_chains_are_one_kernel() -> None:
    """checklist 22, E2: any length, through permutes and reshapes."""
    x, y, z = tensor(4, 4), tensor(4, 4, seed=1), tensor(4, 4, seed=2)
    value = x
    for _ in range(30):
        value = (value * y + z).T
    assert names(value) == ["E_4_4"]
    assert names((x + 1).T * 2) == ["E_4_4"]
    assert names((x.reshape(2, 8) + 1).reshape(16)) == ["E_2_8"]


def test_reduce_with_reshaped_operand_is_one_kernel() -> None:
    """E1: the element-wise product is computed inside the reduction."""
    assert names((tensor(2, 3).reshape(6) * tensor(6)).sum()) == ["r_6"]


def test_a_shared_value_read_alike_is_not_staged() -> None:
    """checklist 26, E3."""
    t = tensor(4, 4) + 1
    assert names(t * (t + 2)) == ["E_4_4"]


def test_three_buffers_are_recomputed_and_four_are_stored() -> None:
    """checklist 26, 27, E4: z read at two permutations."""
    parts = [tensor(4, 4, seed=i) for i in range(4)]
    z = parts[0] + parts[1]
    assert names(z + z.T) == ["E_4_4"]
    z = z + parts[2]
    assert names(z + z.T) == ["E_4_4"]
    z = z + parts[3]
    assert names(z + z.T) == ["E_4_4", "E_4_4"]


def test_contiguous_is_never_removed() -> None:
    """rangeify checklist 29, E4: not even where it is cheap; what it requests reaches the kernel that stores it."""
    z = (tensor(4, 4) + 1).contiguous()
    assert names(z + z.T) == ["E_4_4", "E_4_4"]
    asked = (tensor(4, 8) + 1).contiguous(("unroll", 4), ("swap", 0))
    assert names(asked) == ["E_4_8"]
    schedule = rangeify.schedule(asked.T * 2, config=Config(fusion="reference"))
    assert [k.body.arg.opts_to_apply for k in schedule.kernels] == [(("unroll", 4), ("swap", 0)), None]
    assert rangeify.schedule(asked).kernels[0].body is schedule.kernels[0].body


def test_movement_examples_are_one_kernel() -> None:
    """rangeify checklist E6, E7, E8, 18: with the values of NumPy."""
    a, b, c = (tensor(*s, seed=s[0]).numpy() for s in ((3, 4), (8,), (4,)))
    stacked = Tensor(c).uop.stack((Tensor(c) + 1).uop)
    examples = [
        (Tensor(a).pad(((1, 1), (0, 2))) + 1, "E_5_6", np.pad(a, ((1, 1), (0, 2))) + 1),
        (Tensor(b)[2:6].flip(0) * 3, "E_4", b[2:6][::-1] * 3),
        (Tensor(stacked) * 2, "E_2_4", np.stack([c, c + 1]) * 2),
        (Tensor(stacked).permute(1, 0).flip(1) * 2, "E_4_2", np.stack([c + 1, c], 1) * 2),
    ]
    for value, name, want in examples:
        assert names(value) == [name]
        np.testing.assert_array_equal(value.numpy(), want)


def _moved(rng: random.Random, x: Tensor, a: Any) -> tuple[Tensor, Any]:
    """One movement operation on a Tensor and on an array."""
    rank = a.ndim
    match rng.randrange(6):
        case 0:
            order = rng.sample(range(rank), rank)
            return x.permute(*order), a.transpose(order)
        case 1:
            axis = rng.randrange(rank)
            return x.flip(axis), np.flip(a, axis)
        case 2:
            pads = [(rng.randrange(2), rng.randrange(2)) for _ in range(rank)]
            return x.pad(pads), np.pad(a, pads)
        case 3 if min(a.shape) > 1:
            axis, lo = rng.randrange(rank), rng.randrange(2)
            key = tuple(slice(lo, None) if i == axis else slice(None) for i in range(rank))
            return x[key], a[key]
        case 4 if a.size <= 200:
            return x.reshape(1, *x.shape).expand(2, *x.shape), np.broadcast_to(a, (2, *a.shape))
        case _:
            cut = rng.choice([d for d in range(1, a.size + 1) if a.size % d == 0])
            return x.reshape(cut, a.size // cut), a.reshape(cut, a.size // cut)


@pytest.mark.sweep(default=40, full=1000)
def test_chains_of_movement_are_one_kernel(cases: int) -> None:
    """rangeify checklist 15: up to 8 operations over a buffer, with the values of NumPy."""
    for seed in range(cases):
        rng = random.Random(seed)
        a = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
        x = Tensor(a)
        for _ in range(rng.randint(1, 8)):
            x, a = _moved(rng, x, a)
        schedule = rangeify.schedule(x * 2, config=Config(fusion="reference"))
        assert len(schedule.kernels) == 1, seed
        np.testing.assert_array_equal(rangeify.run(schedule)[0], a * 2)


def test_pad_after_a_function_pads_with_zero() -> None:
    """rangeify checklist 16, 17: in a kernel, the pad area of exp2(x) is 0, not exp2(0); shrinking to the pad area gives
    zeros, and a part of it keeps the values."""
    x = tensor(3)
    padded = x.exp2().pad(((1, 2),))
    want = np.pad(np.exp2(x.numpy()), (1, 2))
    for key in (slice(None), slice(4, None), slice(0, 1), slice(2, 5)):
        schedule = rangeify.schedule(padded[key] * 2)
        assert len(schedule.kernels) == 1
        np.testing.assert_array_equal(rangeify.run(schedule)[0], want[key] * 2)


def test_different_pads_of_one_value_share_a_kernel() -> None:
    """checklist 34: the validities are or-ed."""
    a = np.arange(4, dtype=np.float32)
    x = Tensor(a) * 2
    assert len(names(x.pad(((0, 2),)) + x.pad(((2, 0),)))) == 1
    want = np.pad(a * 2, (0, 2)) + np.pad(a * 2, (2, 0))
    np.testing.assert_array_equal((x.pad(((0, 2),)) + x.pad(((2, 0),))).numpy(), want)


def test_reductions() -> None:
    """checklist 23, 24, 25, 28, E5, E10: the counts of the reference rules."""
    x = tensor(4, 8)
    assert names(x.sum(1) * 2 + 1) == ["r_4_8"]
    assert names(x.sum(1).sum(0)) == ["r_4_8"] or len(names(x.sum(1).sum(0))) == 1
    shifted = x - x.max(1, keepdims=True)
    assert names(shifted.sum(1)) == ["r_4_8", "r_4_8"]
    e = shifted.exp()
    assert names(e / e.sum(1, keepdims=True)) == ["r_4_8", "r_4_8", "E_4_8"]


def test_matmul_forms() -> None:
    """checklist 30, E11: matmul with bias and relu one kernel, two matmuls two, an expensive operand
    recomputed.
    """
    a, w, v = tensor(4, 5), tensor(5, 6, seed=1), tensor(6, 3, seed=2)
    assert names(((a @ w) + tensor(6)).relu()) == ["r_4_6_5"]
    assert len(names(a @ w @ v)) == 2
    assert names(a.exp2() @ w) == ["r_4_6_5"]


def test_an_output_that_others_need_is_read_from_its_buffer() -> None:
    """checklist 33, E13."""
    r = tensor(4, 8).sum(1)
    assert names(r, r.exp2()) == ["r_4_8", "E_4"]
    total = tensor(16).sum()
    assert len(names(total + 2, total + 4)) == 2


def test_a_size_one_dimension_has_no_loop() -> None:
    """checklist 19, 20."""
    assert names(tensor(4, 1) + tensor(1, 1, seed=1)) == ["E_4"]
    assert names(tensor(1, 1) + 1) == ["E"]


def test_zero_sizes() -> None:
    """checklist 12: nothing to schedule, empty values; a reduction over nothing is the identity."""
    empty = Tensor(np.zeros((0, 3), np.float32))
    assert names(empty + 1) == []
    assert (empty + 1).numpy().shape == (0, 3)
    np.testing.assert_array_equal(empty.sum(0).numpy(), np.zeros(3))
    assert (empty.max(0).numpy() == -np.inf).all()


def test_slot_zero_is_the_output_and_equal_kernels_are_one_object() -> None:
    """checklist 46, 47, 48."""
    x, y, a, b = (tensor(4, 4, seed=i) for i in range(4))
    schedule = rangeify.schedule((x + y).contiguous() * a.T.contiguous(), (a + b).contiguous())
    bodies = {k.body for k in schedule.kernels if k.name == "E_4_4"}
    assert len(bodies) < len(schedule.kernels)
    for kernel in schedule.kernels:
        assert kernel.buffers[0] not in kernel.reads
        assert kernel.function_name.isidentifier()
        numbers = sorted({r.arg[0] for r in kernel.body.toposort() if r.op.name == "RANGE"})
        assert numbers == list(range(len(numbers)))


def test_fast_math_is_asked_for() -> None:
    """Reading 34: x * 0 is 0 only where nan and infinities do not matter."""
    x = Tensor(np.array([1, np.nan, np.inf], np.float32))
    exact = rangeify.run(rangeify.schedule(x * 0))[0]
    np.testing.assert_array_equal(exact, [0, np.nan, np.nan])
    fast = rangeify.schedule(x * 0, config=Config(fast_math=True))
    assert all(k.reads == () for k in fast.kernels)


@pytest.mark.parametrize(
    ("shape", "axis", "kernels"),
    [
        ((32768,), 0, ["r_256_128", "r_256"]),
        ((32769,), 0, ["r_99_331", "r_99"]),
        ((32767,), 0, ["r_32767"]),
        ((256, 32768), 1, ["r_256_256_128", "r_256_256"]),
        ((32771,), 0, ["r_32771"]),
    ],
)
def test_long_reductions_are_split(shape: tuple[int, ...], axis: int, kernels: list[str]) -> None:
    """checklist 43: the shapes of scheduler spec 6.1; a prime stays whole; the flag turns it off."""
    x = Tensor(np.ones(shape, np.float32))
    assert [k.name for k in rangeify.schedule(x.sum(axis)).kernels] == kernels
    assert len(rangeify.schedule(x.sum(axis), config=Config(split_reduce=False)).kernels) == 1
    np.testing.assert_array_equal(x.sum(axis).numpy(), np.ones(shape).sum(axis))


def test_a_long_sum_over_a_square_needs_three_kernels() -> None:
    x = Tensor(np.ones((4096, 4096), np.float32))
    assert len(rangeify.schedule(x.sum()).kernels) == 3


def test_an_expanded_axis_is_not_split() -> None:
    """checklist 43: the axis that repeats has nothing to read in parallel."""
    x = tensor(64).reshape(64, 1).expand(64, 65536)
    for kernel in rangeify.schedule((x * tensor(64, 65536)).sum(1)).kernels:
        assert kernel.name.startswith("r_")
    repeated = x.max(1)
    assert len(rangeify.schedule(repeated).kernels) <= 1


@pytest.mark.parametrize("most", [4, 8])
def test_kernels_touch_no_more_buffers_than_allowed(most: int) -> None:
    """checklist 44: a sum of 41 buffers; with at most 8 buffers 7 kernels, results equal."""
    parts = [tensor(4, 4, seed=i) for i in range(41)]
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    free = rangeify.schedule(total)
    limited = rangeify.schedule(total, config=Config(max_kernel_buffers=most))
    assert len(free.kernels) == 1
    assert all(len(k.buffers) <= most for k in limited.kernels)
    assert len(limited.kernels) == {4: 20, 8: 7}[most]
    np.testing.assert_array_equal(rangeify.run(free)[0], rangeify.run(limited, order=3)[0])


def test_limits_hold_inside_reductions_too() -> None:
    parts = [tensor(4, 6, seed=i) for i in range(9)]
    total = parts[0]
    for p in parts[1:]:
        total = total * p + 1
    value = total.sum(1) + tensor(4)
    limited = rangeify.schedule(value, config=Config(max_kernel_buffers=5))
    assert all(len(k.buffers) <= 5 for k in limited.kernels)
    np.testing.assert_allclose(rangeify.run(limited)[0], rangeify.run(rangeify.schedule(value))[0], rtol=1e-6)


def test_dead_axes_are_not_stored() -> None:
    """checklist 32: a stage below an expand has the small size."""
    parts = [tensor(4, 1, seed=i) for i in range(4)]
    small = parts[0] + parts[1] + parts[2] + parts[3]
    wide = small.expand(4, 6)
    schedule = rangeify.schedule(wide + wide.flip(0))
    assert [b.shape for b in schedule.buffers if b.role is rangeify.Role.TEMPORARY] == [(4,)]


def test_a_value_that_is_its_source_costs_at_most_a_copy() -> None:
    """rangeify checklist 38."""
    x = tensor(4, 6)
    for value in (x * 1, x + 0, x - 0, (x * 1).reshape(24) * 1):
        assert len(names(value)) <= 1
        np.testing.assert_array_equal(value.numpy(), x.numpy().reshape(value.shape))
    assert names((x * 1) * 2 + 0) == names(x * 2)


def test_constants_are_never_stored() -> None:
    """rangeify checklist 41: neither repeated, nor reduced, nor read in two directions."""
    x = tensor(4, 4)
    c = Tensor.full((4, 4), 2.5)
    assert names(c.T * x + c) == ["E_4_4"]
    assert names(c.sum(0) + x) == ["E_4_4"]
    assert names((c * c.T).contiguous()) == []
    assert names((c * c.T).contiguous().T * x) == ["E_4_4"]
    schedule = rangeify.schedule(c.T * x + c.sum(1, keepdims=True), config=Config(fusion="reference"))
    assert [b.role for b in schedule.buffers] == [rangeify.Role.INPUT, rangeify.Role.OUTPUT]


@pytest.mark.parametrize("removable", [True, False])
def test_a_stage_of_a_constant_is_the_constant(removable: bool) -> None:
    """rangeify checklist 41: also where the stage must stay for other values, and under an index of its own."""
    i, j, k = (UOp.range(4, n) for n in range(3))
    for value in (UOp.const(2.5, dtypes.float32), UOp.const(True)):
        stage = value.stage(i, j, opts=BufferizeOpts("cpu", removable=removable))
        assert unstage(UOp.make_sink(stage.index(k, UOp.const(1)))) is UOp.make_sink(value)
        assert unstage(UOp.make_sink(UOp(Ops.INDEX, value.dtype, (value,)))) is UOp.make_sink(value)


def test_index_arithmetic_is_not_cut_by_the_limit_of_buffers() -> None:
    """rangeify checklist 45: many Variables and ranges, which have no device, count as nothing."""
    x = tensor(40)
    at = UOp.const(0)
    for i in range(8):
        at = at + UOp.variable(f"v{i}", 0, 4).bind(i % 4)
    value = x[at] * 2 + Tensor.arange(6).cast("float32") * Tensor.arange(6).cast("float32")
    limited = rangeify.schedule(value, config=Config(fusion="reference", max_kernel_buffers=4))
    assert [k.name for k in limited.kernels] == ["E_6"]
    want = x.numpy()[sum(i % 4 for i in range(8))] * 2 + np.arange(6, dtype=np.float32) ** 2
    np.testing.assert_array_equal(rangeify.run(limited)[0], want)


def test_a_stack_selects_by_its_leading_range() -> None:
    """checklist E8: stack(a, b + 1) is one kernel that reads b + 1 where the leading index is not 0."""
    a, b = Tensor(np.arange(4, dtype=np.float32)), Tensor(np.arange(4, dtype=np.float32) * 10)
    schedule = rangeify.schedule(f.stack([a, b + 1]))
    (kernel,) = schedule.kernels
    assert kernel.name == "E_2_4"
    (selection,) = [n for n in kernel.body.toposort() if n.op.name == "WHERE"]
    assert {n.op.name for n in selection.src[1:]} == {"ADD", "INDEX"}
    np.testing.assert_array_equal(rangeify.run(schedule)[0], [[0, 1, 2, 3], [1, 11, 21, 31]])
