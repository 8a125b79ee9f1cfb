"""Sorting and searching along long axes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from rangeify import array_api as xp
from rangeify.array_api import sorting


@pytest.mark.parametrize(
    ("dtype", "shape"), [("int32", (3, 11)), ("float32", (13, 2)), ("uint64", (9,)), ("uint8", (5,))]
)
def test_sorting_by_a_network(dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken for long axes: stable, nan behind everything, no length that is a power of two needed."""
    monkeypatch.setattr(sorting, "SHORT", 4)
    axis = int(np.argmax(shape))
    a = np.random.default_rng(len(shape)).integers(0, 6, shape).astype(dtype)
    if dtype == "float32":
        a.flat[::4] = np.resize([np.nan, -np.inf, -0.0, np.inf, 0.0], a.flat[::4].shape)
    x = xp.asarray(a)
    assert np.array_equal(np.asarray(xp.argsort(x, axis=axis)), np.argsort(a, axis=axis, kind="stable"))
    ordered = np.asarray(xp.sort(x, axis=axis))
    assert np.array_equal(ordered, np.sort(a, axis=axis), equal_nan=dtype == "float32")
    if dtype == "int32":
        falling = np.asarray(xp.argsort(x, axis=axis, descending=True))
        assert np.array_equal(falling, np.argsort(-a, axis=axis, kind="stable"))


@pytest.mark.sweep(default=0, full=1)
def test_sorting_an_axis_that_is_really_long(cases: int) -> None:
    """Above the length up to which an axis is compared as a whole; no power of two, equal values far apart."""
    n = sorting.SHORT + 1808
    a = np.random.default_rng(5).integers(-50, 50, n).astype(np.float32)
    a[::97], a[::31] = np.nan, -0.0
    x = xp.asarray(a)
    assert np.array_equal(np.asarray(xp.sort(x)), np.sort(a), equal_nan=True)
    assert np.array_equal(np.asarray(xp.argsort(x)), np.argsort(a, kind="stable"))


def test_search_in_a_long_vector() -> None:
    """Bit by bit, with values that are there several times, beyond both ends, and nan."""
    a = np.sort(np.random.default_rng(2).integers(0, 300, 700).astype(np.float32))
    v = np.array([[-1, 0, 5.5], [299, 300, np.nan], [7, 7, 120]], np.float32)
    for vector in (a, a[::3].copy(), np.append(a[::5], np.float32(np.nan))):
        for side in ("left", "right"):
            found = np.asarray(xp.searchsorted(xp.asarray(vector), xp.asarray(v), side=side))
            assert np.array_equal(found, np.searchsorted(vector, v, side=side))


def test_long_scans_and_sorts() -> None:
    """Longer than one block, against NumPy."""
    rng = np.random.default_rng(0)
    ints = rng.integers(-100, 100, (2, 700)).astype(np.int32)
    assert np.array_equal(np.asarray(xp.cumulative_sum(xp.asarray(ints), axis=1)), np.cumsum(ints, axis=1))
    odd = (ints | 1).astype(np.int64)
    with np.errstate(over="ignore"):
        assert np.array_equal(
            np.asarray(xp.cumulative_prod(xp.asarray(odd), axis=1)), np.cumprod(odd, axis=1)
        )
    assert np.array_equal(np.asarray(xp.sort(xp.asarray(ints), axis=1)), np.sort(ints, axis=1))
    order = np.asarray(xp.argsort(xp.asarray(ints), axis=1, descending=True))
    assert np.array_equal(order, np.argsort(-ints, axis=1, kind="stable"))
