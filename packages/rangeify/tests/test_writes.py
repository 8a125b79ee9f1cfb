"""Assignment and set-item: value semantics in any order of realisation (design 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import AssignError, Tensor
from rangeify.tensor import live_tensors


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def names(*tensors: Tensor) -> list[str]:
    return [k.name for k in rangeify.schedule(*tensors).kernels]


def test_a_tensor_made_before_a_write_keeps_the_old_value() -> None:
    """checklist 53, 85: whichever is realised first."""
    for first in (0, 1):
        a = array(3, 4)
        x = Tensor(a)
        before = x + 1
        x[1] = 5
        x += 1
        pair = [before, x]
        pair[first].realize()
        want = a.copy()
        want[1] = 5
        np.testing.assert_array_equal(x.numpy(), want + 1)
        np.testing.assert_array_equal(before.numpy(), a + 1)


def test_views_write_through_to_their_base_and_to_nothing_else() -> None:
    a = array(4, 6)
    x = Tensor(a)
    other = x[2:4]
    view = x[1:3]
    view += 10
    inner = x[1:3][0]
    inner.assign(7)
    want = a.copy()
    want[1:3] += 10
    want[1] = 7
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(view.numpy(), a[1:3] + 10)
    np.testing.assert_array_equal(other.numpy(), a[2:4])
    np.testing.assert_array_equal(inner.numpy(), np.full(6, 7))


EXPRESSIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Any], Any]]] = {
    "product": (lambda x: x * 2, lambda a: a * 2),
    "transpose": (lambda x: x.T, lambda a: a.T.copy()),
    "sum": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "stored": (lambda x: (x + 1).contiguous(), lambda a: a + 1),
    "cast": (lambda x: x.cast("int32"), lambda a: a.astype(np.int32)),
    "bits": (lambda x: x.bitcast("int32"), lambda a: a.view(np.int32).copy()),
    "constant": (lambda x: Tensor.ones(4, 4), lambda a: np.ones((4, 4), np.float32)),
    "counter": (lambda x: Tensor.arange(4), lambda a: np.arange(4, dtype=np.int32)),
    "gather": (lambda x: x[np.array([3, 0, 3, 1])], lambda a: a[np.array([3, 0, 3, 1])]),
    "copy": (lambda x: x.to("cpu:1"), lambda a: a.copy()),
    "shards": (lambda x: x.shard(("cpu:0", "cpu:1"), 1) + 1, lambda a: a + 1),
    "whole": (lambda x: x[:], lambda a: a),
}


@pytest.mark.parametrize("realised", ["nothing", "expression", "all"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_views_of_expressions_write_through(name: str, realised: str) -> None:
    """Nothing is dropped, whatever was computed before the write and between write and read (design 9)."""
    make, want = EXPRESSIONS[name]
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    x = Tensor(a)
    value, expected = make(x), np.array(want(a.copy()))
    before, old = value + 1, expected.copy() + 1
    view, inner, other = value[1:3], value[0:3][1], value[1:]
    kept = expected[1:].copy()
    for tensor in {"nothing": [], "expression": [value]}.get(realised, [value, view, inner, other, before]):
        tensor.realize()
    view += 3
    expected[1:3] += 3
    inner.assign(9)
    expected[1] = 9
    view[1:] = 7
    expected[2] = 7
    for tensor, result in [
        (value, expected), (view, expected[1:3]), (inner, expected[1]), (before, old), (other, kept)
    ]:  # fmt: skip
        np.testing.assert_array_equal(tensor.numpy(), result)
    if name == "whole":
        a = expected
    np.testing.assert_array_equal(x.numpy(), a)


def test_a_slice_of_a_tensor_that_is_gone_is_a_value_of_its_own() -> None:
    a = array(4, 6)
    part = (Tensor(a) * 2)[1:3]
    part += 1
    np.testing.assert_array_equal(part.numpy(), a[1:3] * 2 + 1)
    inner = Tensor(a)[0:3][1]
    inner[2:] = 0
    np.testing.assert_array_equal(inner.numpy(), [*a[1, :2], 0, 0, 0, 0])


def test_a_reshape_is_a_value_of_its_own() -> None:
    a = array(4, 6)
    x = Tensor(a)
    flat = x.reshape(24)
    flat[0] = 99
    np.testing.assert_array_equal(x.numpy(), a)
    assert flat.numpy()[0] == 99


def test_writes_into_values_without_storage_are_not_dropped() -> None:
    """checklist 11: an expression, a permuted tensor, a constant."""
    a = array(3, 4)
    value = Tensor(a) * 2
    value[1:2] = 0
    want = a * 2
    want[1] = 0
    np.testing.assert_array_equal(value.numpy(), want)
    turned = Tensor(a).T
    turned[0] = 1
    want = a.T.copy()
    want[0] = 1
    np.testing.assert_array_equal(turned.numpy(), want)
    constant = Tensor.zeros(2, 3)
    constant[:, 1] = Tensor(array(2))
    want = np.zeros((2, 3), np.float32)
    want[:, 1] = array(2)
    np.testing.assert_array_equal(constant.numpy(), want)


def test_a_write_nobody_else_sees_is_in_place() -> None:
    """checklist 55, 56, 84: one store kernel for a part of a large buffer, on the same buffer."""
    cache = Tensor(np.zeros((64, 8), np.float32))
    cache[3:4] = Tensor(array(1, 8))
    schedule = rangeify.schedule(cache)
    assert [k.name for k in schedule.kernels] == ["E_8"]
    assert schedule.buffers[schedule.kernels[0].buffers[0]].role is rangeify.Role.INPUT_OUTPUT
    total = cache[:4].sum()
    assert names(total) == ["E_8", "r_4_8"]
    np.testing.assert_array_equal(total.numpy(), array(1, 8).sum())
    for i in range(5):
        cache[i * 2 : i * 2 + 1] = i
    assert names(cache) == ["E_8"] * 5


def test_in_place_execution_keeps_the_inputs_of_run() -> None:
    """``run`` changes nothing but what it returns, also where a kernel works in place."""
    a = array(4, 4)
    x = Tensor(a)
    x[0] = 1
    schedule = rangeify.schedule(x)
    for _ in range(2):
        np.testing.assert_array_equal(rangeify.run(schedule)[0][1:], a[1:])
    given_array = array(4, 4, seed=3)
    rangeify.run(schedule, [given_array])
    np.testing.assert_array_equal(given_array, array(4, 4, seed=3))


def test_self_reads_that_move_elements_are_staged() -> None:
    """checklist 81: overlapping shifts in both directions, a transpose, a flip, in any block order."""
    a = array(6, 6)
    moves: list[tuple[Any, Any]] = [
        ((slice(0, 5),), lambda x: x[1:6]),
        ((slice(1, 6),), lambda x: x[0:5]),
        ((slice(0, 6), slice(0, 3)), lambda x: x.T[:, 0:3]),
        ((slice(0, 3),), lambda x: x[::-1][0:3]),
        ((slice(0, 3),), lambda x: x[0:3] * 2),
        # the value is the storage as it stands, and the target is what moves
        ((slice(None, None, -1),), lambda x: x),
        ((slice(None), slice(None, None, -1)), lambda x: x + 1),
        ((slice(0, 1),), lambda x: x.sum(0, keepdims=True)),
        ((slice(None, None, -1), slice(1, 6)), lambda x: x[::-1, 1:6] * 2),
    ]
    for key, move in moves:
        x = Tensor(a)
        x[key] = move(x)
        want = a.copy()
        want[key] = move(a.copy())
        schedule = rangeify.schedule(x)
        for order in (None, 1, 2, 3):
            np.testing.assert_array_equal(rangeify.run(schedule, order=order)[0], want)


def test_simultaneous_update() -> None:
    a, b = array(5), array(5, seed=1)
    x, y = Tensor(a), Tensor(b)
    for _ in range(3):
        total, product = x + y, x * y
        x.assign(total)
        y.assign(product)
        a, b = a + b, a * b
    rangeify.realize(y, x)
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(y.numpy(), b)


def test_swapped_slices() -> None:
    a = array(4, 3)
    x = Tensor(a)
    top, bottom = x[0:2], x[2:4]
    x[0:2] = bottom
    x[2:4] = top
    np.testing.assert_array_equal(x.numpy(), np.concatenate([a[2:], a[:2]]))


@pytest.mark.parametrize("key", [slice(0, 2), np.array([0, 3, 0]), "mask"])
def test_writes_through_a_view_leave_the_rest_of_it_alone(key: Any) -> None:
    """What the key does not name keeps what the base holds now, not what the view was made of."""
    a = array(6, 3)
    x, want = Tensor(a), a.copy()
    view = x[1:5]
    x[2:4] = 50
    want[2:4] = 50
    if isinstance(key, str):
        view[view < 1] = 7  # the condition reads the view, the rest is the base's
        want[1:5][a[1:5] < 1] = 7
    else:
        view[key] = 7
        want[1:5][key] = 7
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(view.numpy(), want[1:5])


@pytest.mark.parametrize("first", ["flipped", "value", "reader"])
def test_storage_that_a_value_got_by_another_name_is_not_overwritten(first: str) -> None:
    """Realising a view of an expression gives the expression storage; a pending write to it must not take that
    storage while a reader of the old value is alive."""
    a = array(6, 2)
    value = abs(Tensor(a))
    reader, flipped = value + 1, value.flip(1)
    value[1:5] = -2
    {"flipped": flipped, "value": value, "reader": reader}[first].realize()
    want = abs(a)
    want[1:5] = -2
    np.testing.assert_array_equal(value.numpy(), want)
    np.testing.assert_array_equal(reader.numpy(), abs(a) + 1)
    np.testing.assert_array_equal(flipped.numpy(), abs(a)[:, ::-1])


def test_a_written_view_of_storage_that_moves_nothing_is_a_copy() -> None:
    """Flipping an axis of one element is no movement, but the flipped Tensor is a value of its own."""
    a = array(4, 1)
    x = Tensor(a)
    turned = x.flip(1)
    turned[0] = 9
    turned.realize()
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(turned.numpy(), np.concatenate([[[9]], a[1:]]))


def test_mismatches_are_named() -> None:
    """checklist 82."""
    x = Tensor(array(3, 4))
    with pytest.raises(AssignError, match="float16 to float32"):
        x[0] = Tensor(np.ones(4, np.float16))
    with pytest.raises(AssignError, match="dtype mismatch"):
        x.assign(Tensor(np.ones(4, np.int32)))
    with pytest.raises(Exception, match="expand"):
        x[0] = Tensor(array(5))


SLICES = [slice(None), slice(1, 3), slice(0, 2), slice(None, None, 2), slice(None, None, -1), 0, 2]
Write = tuple[int, int, int, int, int, bool]
writes = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(0, 6),
        st.integers(0, 6),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


class Model:
    """NumPy arrays under the same rules: every slice is copied; a view of storage knows its base."""

    def __init__(self, value: np.ndarray[Any, Any], base: tuple[Model, Any] | None = None) -> None:
        self.value = np.array(value)
        self.base = base

    def write(self, key: Any, value: Any) -> None:
        if self.base is None:
            new = np.array(self.value)
            new[key] = value
            self.value = new
        else:
            base, outer = self.base
            part = np.array(base.value[outer])
            part[key] = value
            base.write(outer, part)
            self.value = np.array(base.value[outer])


def program(steps: list[Write], realise: str) -> tuple[list[Tensor], list[Model]]:
    """Run a program of reads, views and writes on Tensors and on the model."""
    tensors = [Tensor(array(4, 4, seed=i)) for i in range(2)]
    models = [Model(array(4, 4, seed=i)) for i in range(2)]
    for kind, i, j, k, l, now in steps:
        n = len(tensors)
        i, j = i % n, j % n
        key = (SLICES[k], SLICES[l])
        x, y, a, b = tensors[i], tensors[j], models[i], models[j]
        if kind == 0:
            tensors.append(x + y if a.value.shape == b.value.shape else x * 2)
            models.append(Model(a.value + b.value if a.value.shape == b.value.shape else a.value * 2))
        elif kind == 1 and a.value.ndim == 2 and min(a.value.shape) > 2:
            tensors.append(x[key])
            models.append(Model(np.array(a.value[key]), (a, key)))
        elif kind == 2 and a.value.ndim == 2 and min(a.value.shape) > 2:
            x[key] = float(j)
            a.write(key, float(j))
        elif kind == 3 and a.value.ndim == 2 and min(a.value.shape) > 2:
            source_t, source_m = x[key], a.value[key].copy()
            x[key] = source_t * 2 - 1
            a.write(key, source_m * 2 - 1)
        elif kind == 4 and a.value.shape == (4, 4) == b.value.shape:
            x[0:3] = y[1:4]
            a.write(slice(0, 3), b.value[1:4].copy())
        elif kind == 5:
            x += 1
            a.write(..., np.array(a.value + 1))
        if realise == "now" and now:
            tensors[j].realize()
    return tensors, models


@given(writes, st.sampled_from(["now", "forward", "backward", "together"]))
@pytest.mark.sweep(default=90, full=2000)
def test_random_writes_equal_the_model(steps: list[Write], realise: str) -> None:
    """checklist 59: reads, views, writes through views, realised at any time and in any order."""
    tensors, models = program(steps, realise)
    if realise == "together":
        rangeify.realize(*tensors)
    for i in range(len(tensors))[:: -1 if realise == "backward" else 1]:
        np.testing.assert_array_equal(tensors[i].numpy(), models[i].value)


@given(writes)
@pytest.mark.sweep(default=30, full=1000)
def test_pure_schedules_of_writes_equal_the_model_in_any_block_order(steps: list[Write]) -> None:
    """checklist 51, 52, 70: one schedule of everything, blocks in random order."""
    tensors, models = program(steps, "never")
    schedule = rangeify.schedule(*tensors)
    for order in (None, 1, 2):
        for got, model in zip(rangeify.run(schedule, order=order), models, strict=True):
            np.testing.assert_array_equal(got, model.value)


def test_the_table_of_live_tensors_does_not_keep_them() -> None:
    before = len(live_tensors())
    x = Tensor(array(2)) + 1
    assert len(live_tensors()) == before + 1
    del x
    assert len(live_tensors()) == before
