"""Reading and writing parts of arrays, beside array-api-strict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from array_api_cases.comparison import converted
from array_api_cases.drawing import ALL, Draw, array
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import array_api as xp


def basic_key(draw: Draw, shape: tuple[int, ...]) -> Any:
    items: list[Any] = []
    for n in shape:
        start, stop = (draw(st.one_of(st.none(), st.integers(-n, n))) for _ in range(2))
        step = draw(st.sampled_from([None, 1, 2, -1, -2]))
        options = [st.just(slice(None)), st.just(slice(start, stop, step))]
        items.append(draw(st.one_of(*options, *([st.integers(-n, n - 1)] if n else []))))
    keep = draw(st.integers(0, len(items)))
    if draw(st.booleans()):
        items[keep:] = [Ellipsis]
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    if Ellipsis not in items:
        items.append(Ellipsis)
    return tuple(items)


@given(data=st.data())
@pytest.mark.sweep(default=40, full=2_000)
def test_basic_indexing(data: st.DataObject) -> None:
    """Against NumPy: reading, writing, and that nothing else sees the write."""
    x = array(data.draw, ALL)
    key = basic_key(data.draw, x.shape)
    a = xp.asarray(x)
    before, view = a + a if x.dtype.kind != "b" else a & a, a[key]
    part = x[key]
    assert np.array_equal(np.asarray(view), part, equal_nan=x.dtype.kind == "f")
    writable = tuple(k for k in key if k is not None)
    shape = x[writable].shape
    value = array(data.draw, [x.dtype.name], data.draw(st.sampled_from([shape, ()])))
    want = x.copy()
    want[writable] = value
    with np.errstate(all="ignore"):
        doubled = x + x if x.dtype.kind != "b" else x & x
    a[writable] = xp.asarray(value) if data.draw(st.booleans()) or value.ndim else value.item()
    assert np.array_equal(np.asarray(a), want, equal_nan=x.dtype.kind == "f")
    assert np.array_equal(np.asarray(view), part, equal_nan=x.dtype.kind == "f")
    assert np.array_equal(np.asarray(before), doubled, equal_nan=x.dtype.kind == "f")


@given(data=st.data())
@pytest.mark.sweep(default=25, full=1_000)
def test_integer_array_indexing(data: st.DataObject) -> None:
    """design 9: with integer arrays the last duplicate in row-major order wins, as in NumPy."""
    draw = data.draw
    x = array(draw, ALL, st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3).map(tuple))
    used = draw(st.integers(1, x.ndim))
    shape = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2).map(tuple))
    arrays: list[Any] = []
    for n in x.shape[:used]:
        own = tuple(draw(st.sampled_from([s, 1])) for s in shape)
        flat = draw(st.lists(st.integers(-n, n - 1), min_size=math.prod(own), max_size=math.prod(own)))
        arrays.append(np.array(flat, dtype=np.int64).reshape(own))
    at = draw(st.integers(0, used - 1))
    if used > 1 and draw(st.booleans()):
        arrays[at] = draw(st.integers(-x.shape[at], x.shape[at] - 1))
    a = xp.asarray(x)
    key = tuple(converted(xp, k) for k in arrays)
    want = x[tuple(arrays)]
    got = np.asarray(a[key if used > 1 else key[0]])
    assert np.array_equal(got, want, equal_nan=x.dtype.kind == "f")
    assert got.dtype == want.dtype
    value = array(draw, [x.dtype.name], draw(st.sampled_from([want.shape, ()])))
    y = x.copy()
    y[tuple(arrays)] = value
    a[key] = xp.asarray(value)
    assert np.array_equal(np.asarray(a), y, equal_nan=x.dtype.kind == "f")


@given(data=st.data())
@pytest.mark.sweep(default=10, full=200)
def test_writes_by_a_mask(data: st.DataObject) -> None:
    """Set-item by a boolean array of leading axes: one value for all that it selects."""
    draw = data.draw
    x = array(draw, ALL)
    mask = array(draw, ["bool"], x.shape[: draw(st.integers(0, x.ndim))])
    value = array(draw, [x.dtype.name], ())
    a, y = xp.asarray(x), x.copy()
    y[mask] = value
    a[xp.asarray(mask)] = xp.asarray(value) if draw(st.booleans()) else value.item()
    np.testing.assert_array_equal(np.asarray(a), y)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16])
def test_whatever_is_an_index(kind: type) -> None:
    """Integers of other libraries index as Python integers do."""
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    a = xp.asarray(x)
    for key in ((kind(2), kind(1)), kind(1), slice(kind(0), kind(2)), (..., kind(3)), (slice(None), kind(0))):
        np.testing.assert_array_equal(np.asarray(a[key]), x[key])
        np.testing.assert_array_equal(np.asarray(a.tensor[key]), x[key])
    one = xp.asarray(kind(1))
    for place in (one, one + one - one):
        np.testing.assert_array_equal(np.asarray(a[:, place]), x[:, 1])
        np.testing.assert_array_equal(np.asarray(a[..., place, None]), x[..., 1, None])
        np.testing.assert_array_equal(np.asarray(a[one:, place]), x[1:, 1])
    b = xp.asarray(x)
    b[:, one] = 0
    assert np.asarray(b)[:, 1].tolist() == [0, 0, 0]
    if kind is not np.uint16:
        assert int(a[kind(-1), kind(-2)]) == 10
    with pytest.raises(IndexError, match="out of range"):
        a[kind(7)]


def test_what_indexing_refuses() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    with pytest.raises(rangeify.UnsupportedError, match="boolean mask"):
        x[x > 2]
    with pytest.raises(rangeify.UnsupportedError, match="boolean mask"):
        x[x > 2] = xp.asarray([0, 0, 0])
    with pytest.raises(ValueError, match="a mask of shape"):
        x[xp.asarray([True, False, True])] = 0
    with pytest.raises(rangeify.UnsupportedError, match="beside slices"):
        x[xp.asarray([0]), :]
    for key in (2, (0, 3), (0, 0, 0), -3):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(IndexError, match="integer dtype"):
        x[xp.asarray([0.0])]
    with pytest.raises(IndexError, match="out of range"):
        x[xp.asarray([0]), 5]
    with pytest.raises(TypeError):
        x[0, ...] = 1.5
    with pytest.raises(TypeError):
        x[0, ...] = xp.asarray([1.0, 2.0, 3.0])
    with pytest.raises(OverflowError):
        x[0, ...] = 2**40
