"""Reads and writes of Tensors by integer arrays and masks, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangeify import AssignError, ShapeError, Tensor, UnsupportedError, run, schedule

SIZES = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4).map(tuple)


def draw_key(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index with at least one integer array, which may stand beside everything else."""
    broadcast = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2).map(tuple))
    first = draw(st.integers(0, len(shape) - 1))
    items: list[Any] = []
    for i, n in enumerate(shape):
        kind = "array" if i == first else draw(st.sampled_from(["array", "slice", "int", "slice"]))
        if kind == "array":
            own = tuple(draw(st.sampled_from([s, 1])) for s in broadcast)
            count = math.prod(own)
            values = draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count))
            items.append(
                np.array(values, dtype=draw(st.sampled_from(["int8", "int32", "int64"]))).reshape(own)
            )
        elif kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        else:
            start, stop = (draw(st.one_of(st.none(), st.integers(-n, n))) for _ in range(2))
            items.append(slice(start, stop, draw(st.sampled_from([None, 1, -1, 2]))))
    while len(items) > first + 1 and draw(st.booleans()):
        items.pop()
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
        full = sum(k is not Ellipsis for k in items)
        if full == len(shape) and draw(st.booleans()):
            items = [k for k in items if k is not Ellipsis]
    return tuple(items)


def legal(x: Any, key: Any) -> Any:
    try:
        return x[key]
    except IndexError:
        return None


@given(data=st.data())
@pytest.mark.sweep(default=25, full=3_000)
def test_reads_and_writes(data: st.DataObject) -> None:
    """The same index on a Tensor and on an array; Tensors made before a write keep their value."""
    shape = data.draw(SIZES)
    dtype = data.draw(st.sampled_from(["float32", "int16", "bool", "uint8"]))
    x = (np.arange(math.prod(shape)).reshape(shape) % 251).astype(dtype)
    key = data.draw(st.builds(lambda: None).flatmap(lambda _: st.just(draw_key(data.draw, shape))))
    want = legal(x, key)
    if want is None:
        return
    t = Tensor(x)
    ours = tuple(Tensor(k) if isinstance(k, np.ndarray) and data.draw(st.booleans()) else k for k in key)
    got = t[ours if len(ours) > 1 else ours[0]]
    assert got.shape == want.shape, key
    assert np.array_equal(got.numpy(), want), key
    value_shape = data.draw(st.sampled_from([want.shape, want.shape[1:], ()]))
    value = (np.arange(math.prod(value_shape)).reshape(value_shape) + 100).astype(dtype)
    early = t[ours]
    y = x.copy()
    y[key] = value
    t[ours] = Tensor(value)
    assert np.array_equal(t.numpy(), y), key
    assert np.array_equal(early.numpy(), want), key


@given(data=st.data())
@pytest.mark.sweep(default=20, full=1_000)
def test_writes_by_a_mask(data: st.DataObject) -> None:
    shape = data.draw(SIZES)
    used = data.draw(st.integers(1, len(shape)))
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    n = math.prod(shape[:used])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))).reshape(shape[:used])
    value_shape = data.draw(st.sampled_from([shape[used:], ()]))
    value = np.full(value_shape, -1.5, dtype=np.float32)
    t, y = Tensor(x), x.copy()
    t[Tensor(mask) if data.draw(st.booleans()) else mask] = Tensor(value)
    y[mask] = value
    assert np.array_equal(t.numpy(), y)


def test_writes_through_a_view() -> None:
    """A Tensor that was made by basic indexing writes through to its base."""
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    t, y = Tensor(x), x.copy()
    rows = t[1:3]
    rows[Tensor(np.array([1, 0, 1])), 2] = Tensor(np.array([7, 8, 9], dtype=np.int32))
    y[1:3][np.array([1, 0, 1]), 2] = [7, 8, 9]
    assert np.array_equal(t.numpy(), y)
    assert np.array_equal(rows.numpy(), y[1:3])
    t[Tensor(y > 20)] = 0
    assert np.array_equal(t.numpy(), np.where(y > 20, 0, y))


def test_every_bit_survives() -> None:
    x = np.array([-0.0, np.nan, np.inf, 5e-324, 1.0])
    picked = Tensor(x)[Tensor(np.array([0, 1, 2, 3, 0]))].numpy()
    assert picked.tobytes() == x[[0, 1, 2, 3, 0]].tobytes()


def test_the_schedule_is_static() -> None:
    """Where to read is data: one schedule serves every index."""
    table, index = Tensor(np.arange(20, dtype=np.float32).reshape(5, 4)), Tensor(np.array([4, 0, 2]))
    plan = schedule(table[index])
    assert len(plan.kernels) == 1
    (out,) = run(plan)
    assert np.array_equal(out, np.arange(20).reshape(5, 4)[[4, 0, 2]])


def test_what_is_refused() -> None:
    t = Tensor(np.zeros((3, 4), np.float32))
    with pytest.raises(UnsupportedError, match="boolean mask"):
        t[Tensor(np.zeros((3, 4), bool))]
    with pytest.raises(UnsupportedError, match="each element of a boolean mask"):
        t[np.ones((3, 4), bool)] = np.zeros(12, np.float32)
    with pytest.raises(ShapeError, match="mask of shape"):
        t[np.ones(4, bool)] = 0
    with pytest.raises(IndexError, match="float32"):
        t[np.zeros(2, np.float32)]
    with pytest.raises(IndexError, match="3 indices for 2 dimensions"):
        t[np.array([0]), 0, 0]
    with pytest.raises(IndexError, match="out of range"):
        t[np.array([0]), 4]
    with pytest.raises(AssignError, match="dtype"):
        t[np.array([0])] = Tensor(np.zeros(4, np.int32))


def test_dlpack() -> None:
    """design 9: ``__dlpack__`` realises"""
    t = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)) * 2
    assert np.array_equal(np.from_dlpack(t), np.arange(6).reshape(2, 3) * 2)
    with pytest.raises(ValueError, match="stream"):
        t.__dlpack__(stream=1)


def test_an_index_beyond_its_axis_reads_nothing_and_writes_nothing() -> None:
    """In no axis does it reach a neighbour, however far beyond it is: zero bits are read, no byte is written."""
    a = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    for i, j in [(3, 0), (-4, 0), (-7, 1), (0, 5), (1, -6), (2, 9), (0, -11), (100, -100)]:
        x = Tensor(a)
        key = (np.array([1, i], np.int32), np.array([2, j], np.int32))
        np.testing.assert_array_equal(x[key].numpy(), [a[1, 2], 0])
        x[key] = 50
        want = a.copy()
        want[1, 2] = 50
        np.testing.assert_array_equal(x.numpy(), want)
    for i in (3, -4, -7, 100):
        np.testing.assert_array_equal(Tensor(a)[np.array([i], np.int32)].numpy(), np.zeros((1, 5)))
