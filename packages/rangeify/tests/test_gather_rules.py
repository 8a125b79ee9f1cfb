"""Sums that pick one element become loads: equal bits, no loop, and never a place outside a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import Config, Tensor
from rangeify import functions as f

Array = np.ndarray[Any, Any]

SPECIAL = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, np.float32(1e-45), np.float32(3.4e38)]


def bits(a: Array) -> Array:
    return np.ascontiguousarray(a).view(np.uint32 if a.dtype.itemsize == 4 else np.uint16)


def both(value: Tensor) -> tuple[list[str], Array, Array]:
    """Names of the kernels with loads; the value with loads and with loops."""
    loads = rangeify.schedule(value, config=Config(fusion="reference"))
    loops = rangeify.schedule(value, config=Config(fusion="reference", collapse_gathers=False))
    assert [k.name.partition("_")[0] for k in loops.kernels].count("r") >= 1
    direct = rangeify.run(loads)[0]
    for order in (1, 2):
        assert np.array_equal(rangeify.run(loads, order=order)[0], direct, equal_nan=True)
    return [k.name for k in loads.kernels], direct, rangeify.run(loops)[0]


@pytest.mark.parametrize("name", ["take a line", "embedding", "two axes", "behind a function"])
def test_gathers_have_no_loop_over_positions(name: str) -> None:
    """rangeify checklist 40: negative indices count from the end."""
    a = np.arange(60, dtype=np.float32).reshape(12, 5)
    x, i, j = Tensor(a), np.array([3, -1, 0, 7], np.int32), np.array([4, 0, -5, 2], np.int32)
    value, want = {
        "take a line": lambda: (x[i] + 1, a[i] + 1),
        "embedding": lambda: (f.embedding(x, Tensor(abs(i))) * 2, a[abs(i)] * 2),
        "two axes": lambda: (x[i, j] + 1, a[i, j] + 1),
        "behind a function": lambda: ((x * x - 1)[i] * 2, (a * a - 1)[i] * 2),
    }[name]()
    names, direct, looped = both(value)
    assert names
    assert all(n.startswith("E_") for n in names)
    np.testing.assert_array_equal(direct, want)
    np.testing.assert_array_equal(looped, want)


@given(
    st.lists(st.integers(-6, 9), min_size=1, max_size=6),
    st.integers(-3, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["none", "outer", "inner"]),
    st.integers(0, 2**16),
)
@pytest.mark.sweep(default=40, full=2000)
def test_forms_of_one_hot_sums_are_bit_equal(
    index: list[int], shift: int, turned: bool, negated: bool, extra: str, seed: int
) -> None:
    """rangeify checklist 40: any index, a shift of the positions, both sides, both polarities, a further condition;
    floats with their special values."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    table = Tensor(rng.choice(SPECIAL, (n, 3)).astype(np.float32)).reshape(1, n, 3)
    wanted = Tensor(np.array(index, np.int32)).reshape(len(index), 1, 1)
    places = (Tensor.arange(n) + shift).reshape(1, n, 1)
    hit = (places == wanted) if turned else (wanted == places)
    if extra != "none":
        hit = hit & ((wanted < 4) if extra == "outer" else (places < 4))
        negated = False
    picked = (~hit).where(0.0, table) if negated else hit.where(table, 0.0)
    names, direct, looped = both(picked.sum(1))
    assert all(n.startswith("E_") for n in names)
    same = (bits(direct) == bits(looped)) | (np.isnan(direct) & np.isnan(looped))
    assert same.all()


def test_other_sums_keep_their_loops() -> None:
    """Two hits, a position that is not counted by ones, a value in place of zero."""
    x, i = Tensor(np.arange(6, dtype=np.float32)), Tensor(np.array([2, 4], np.int32)).reshape(2, 1)
    p = Tensor.arange(6).reshape(1, 6)
    for value in (
        (p < i).where(x.reshape(1, 6), 0.0).sum(1),
        (p * 2 == i).where(x.reshape(1, 6), 0.0).sum(1),
        (p == i).where(x.reshape(1, 6), 1.0).sum(1),
        (p == i).where(x.reshape(1, 6), 0.0).max(1),
    ):
        names, direct, looped = both(value)
        assert names[-1].startswith("r_")
        np.testing.assert_array_equal(direct, looped)
