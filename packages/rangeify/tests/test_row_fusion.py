"""Row fusion: several reductions over one row in one kernel (design 10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import Config, Schedule, Tensor
from rangeify import functions as f
from rangeify.classes import axis_classes
from rangeify.explain import operations


def t(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def attention(causal: bool = False, mask: Tensor | None = None, tokens: int = 6) -> Tensor:
    q, k, v = (t(2, 2, tokens, 4, seed=i) for i in range(3))
    return f.scaled_dot_product_attention(q, k, v, mask=mask, causal=causal)


def layer(tokens: int, width: int) -> Tensor:
    """A transformer layer with one head."""

    def w(*shape: int) -> Tensor:
        return t(*shape, seed=sum(shape)) * 0.1

    x = t(tokens, width)
    h = f.layer_norm(x, w(width), w(width))
    q, k, v = (h @ w(width, width) for _ in range(3))
    x = x + f.scaled_dot_product_attention(q, k, v) @ w(width, width)
    h = f.layer_norm(x, w(width), w(width))
    return x + f.gelu(h @ w(width, 4 * width)) @ w(4 * width, width)


def bytes_moved(schedule: Schedule) -> int:
    return sum(sum(schedule.buffers[b].nbytes for b in (*k.reads, k.buffers[0])) for k in schedule.kernels)


def work(schedule: Schedule) -> int:
    return sum(operations(k.body) for k in schedule.kernels)


def both(value: Tensor, **config: int) -> tuple[Schedule, Schedule]:
    """The schedules of both modes; their results are equal, also in random block order."""
    reference = rangeify.schedule(value, config=Config(fusion="reference"))
    rows = rangeify.schedule(value, config=Config(fusion="rows", **config))  # type: ignore[arg-type]
    want = rangeify.run(reference)[0]
    for order in (None, 1):
        np.testing.assert_allclose(rangeify.run(rows, order=order)[0], want, rtol=1e-5, atol=1e-6)
    return reference, rows


CASES: dict[str, tuple[Callable[[], Tensor], int]] = {
    "softmax": (lambda: f.softmax(t(8, 12)), 1),
    "log softmax": (lambda: f.log_softmax(t(8, 12)), 1),
    "layer norm": (lambda: f.layer_norm(t(8, 12), t(12), t(12, seed=1)), 1),
    "rms norm": (lambda: f.rms_norm(t(8, 12), t(12)), 1),
    "softmax over rows of a product": (lambda: f.softmax(t(5, 6) @ t(6, 7, seed=1)), 1),
    "attention": (attention, 1),
    "causal attention": (lambda: attention(causal=True), 1),
    "masked attention": (lambda: attention(mask=t(6, 6, seed=7)), 1),
    "layer": (lambda: layer(16, 64), 11),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_bytes_and_operations(name: str) -> None:
    """One kernel that reads its input once; never more bytes or operations than the reference rules."""
    make, most = CASES[name]
    reference, rows = both(make())
    assert len(rows.kernels) <= most
    assert len(rows.kernels) < len(reference.kernels)
    assert bytes_moved(rows) <= bytes_moved(reference)
    assert work(rows) <= work(reference)
    for kernel in rows.kernels:
        assert len(set(kernel.buffers)) == len(kernel.buffers)


def test_a_row_that_does_not_fit_is_not_merged() -> None:
    """``Config.row_bytes`` bounds the lets and loads of one row; then the reference rules hold exactly."""
    for make in (lambda: f.softmax(t(8, 12)), lambda: f.layer_norm(t(8, 12)), attention):
        reference, rows = both(make(), row_bytes=40)
        assert [k.body for k in rows.kernels] == [k.body for k in reference.kernels]
    _, rows = both(attention(), row_bytes=240)
    assert 1 < len(rows.kernels) <= 3


def test_values_that_several_kernels_read_are_not_merged() -> None:
    x = t(6, 8)
    total = x.sum(1, keepdims=True)
    schedule = rangeify.schedule(x / total, (x.T * total.T).sum(1), config=Config(fusion="rows"))
    assert len(schedule.kernels) == 3


def test_what_agrees_about_no_row_stays_apart() -> None:
    """A whole value read at two permutations, a reduction to one number."""
    z = t(4, 4) + t(4, 4, seed=1) + t(4, 4, seed=2) + t(4, 4, seed=3)
    assert len(both(z + z.T)[1].kernels) == 2
    x = t(4, 6)
    centred = x - x.mean()
    assert len(both((centred * centred).mean().sqrt())[1].kernels) == 2


def test_marked_values_stay_stored() -> None:
    x = t(4, 6)
    total = x.sum(1, keepdims=True).contiguous()
    assert len(both(x / total)[1].kernels) == 2


def test_one_axis_walked_twice_is_one_class() -> None:
    """Softmax walks its row three times: in the maximum, in the sum, and in the store."""
    (kernel,) = both(f.softmax(t(8, 12)))[1].kernels
    classes = axis_classes(kernel.body)
    assert len(classes) == 4
    assert len(set(classes.values())) == 2
    square = t(5, 6) @ t(5, 6).T
    (kernel,) = rangeify.schedule(square).kernels
    assert len(set(axis_classes(kernel.body).values())) == 3


@given(
    st.integers(1, 5),
    st.integers(1, 6),
    st.lists(st.sampled_from("smcelrn"), min_size=1, max_size=5),
    st.integers(0, 400),
)
@pytest.mark.sweep(default=40, full=1000)
def test_random_row_programs(rows: int, columns: int, steps: list[str], row_bytes: int) -> None:
    """Chains of row operations, with any bound on the row."""
    value = t(rows, columns)
    for step in steps:
        match step:
            case "s":
                value = f.softmax(value)
            case "m":
                value = value - value.max(1, keepdims=True)
            case "c":
                value = value - value.mean(1, keepdims=True)
            case "e":
                value = (value * 0.5).exp()
            case "l":
                value = f.layer_norm(value)
            case "r":
                value = value + value.sum(0, keepdims=True)
            case _:
                value = value.T @ value @ t(columns, columns, seed=3)
    both(value * 1.5, row_bytes=row_bytes)
