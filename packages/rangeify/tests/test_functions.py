"""Network functions against NumPy, and the kernels that they become under the reference rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import ShapeError, Tensor
from rangeify import functions as f

Array = np.ndarray[Any, Any]


def array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got: Tensor, want: Array, kernels: int | None = None) -> None:
    schedule = rangeify.schedule(got, config=rangeify.Config(fusion="reference"))
    for order in (None, 1):
        np.testing.assert_allclose(rangeify.run(schedule, order=order)[0], want, rtol=2e-5, atol=2e-6)
    if kernels is not None:
        assert len(schedule.kernels) == kernels, schedule.explain()


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_normalisations() -> None:
    """checklist 24: row softmax and layer norm are three kernels, RMS norm two."""
    a, w, b = array(6, 10), array(10, seed=1), array(10, seed=2)
    close(f.softmax(Tensor(a)), softmax(a), 3)
    close(f.log_softmax(Tensor(a)), np.log(softmax(a)))
    centred = a - a.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b
    close(f.layer_norm(Tensor(a), Tensor(w), Tensor(b)), want, 3)
    close(f.rms_norm(Tensor(a), Tensor(w)), a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-6) * w, 2)


def test_standard_deviation_is_two_kernels() -> None:
    """checklist 24: also where everything is reduced to one number."""
    a = array(3, 4, 5)
    x = Tensor(a)
    difference = x - x.mean(keepdims=True)
    close((difference * difference).mean().sqrt(), a.std(), 2)


def test_activations() -> None:
    a = array(40) * 4
    x = Tensor(a)
    close(f.gelu(x), np.array([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in a], np.float32), 1)
    close(f.silu(x), a / (1 + np.exp(-a)), 1)
    close(f.softplus(x), np.log1p(np.exp(a)), 1)
    big = Tensor(np.array([-1000, 1000], np.float32))
    np.testing.assert_array_equal(f.softplus(big).numpy(), [0, 1000])


@pytest.mark.parametrize("form", ["plain", "causal", "bool mask", "added mask"])
def test_attention_is_four_kernels(form: str) -> None:
    """checklist 24."""
    q, k, v = (array(2, 3, 5, 4, seed=i) for i in range(3))
    scores = q @ k.swapaxes(-1, -2) / 2
    query, key, value = Tensor(q), Tensor(k), Tensor(v)
    match form:
        case "plain":
            out = f.scaled_dot_product_attention(query, key, value)
        case "causal":
            out = f.scaled_dot_product_attention(query, key, value, causal=True)
            scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
        case "bool mask":
            mask = np.arange(25).reshape(5, 5) % 3 > 0
            out = f.scaled_dot_product_attention(query, key, value, mask=Tensor(mask))
            scores = np.where(mask, scores, -np.inf)
        case _:
            mask = array(5, 5, seed=9)
            out = f.scaled_dot_product_attention(query, key, value, mask=Tensor(mask))
            scores = scores + mask
    close(out, softmax(scores) @ v, 4)


def test_linear_and_embedding() -> None:
    a, w, b = array(3, 4), array(5, 4, seed=1), array(5, seed=2)
    close(f.linear(Tensor(a), Tensor(w), Tensor(b)), a @ w.T + b, 1)
    index = np.array([[2, 0], [4, 7]], np.int32)
    want = np.zeros((2, 2, 4), np.float32)
    want[index < 5] = w[index[index < 5]]
    close(f.embedding(Tensor(w), Tensor(index)), want)


def test_rope_rotates_pairs() -> None:
    a = array(6, 8)
    angle = np.arange(6)[:, None] * 10000.0 ** (-2 * np.arange(4) / 8)
    c, s = np.cos(angle), np.sin(angle)
    want = np.concatenate([a[:, :4] * c - a[:, 4:] * s, a[:, 4:] * c + a[:, :4] * s], -1)
    close(f.rope(Tensor(a)), want, 1)
    with pytest.raises(ShapeError, match="odd width"):
        f.rope(Tensor(array(3, 5)))


def test_joins() -> None:
    a, b = array(2, 3), array(2, 3, seed=1)
    close(f.concatenate((Tensor(a), Tensor(b), Tensor(a)), 1), np.concatenate((a, b, a), 1), 1)
    close(f.stack((Tensor(a), Tensor(b) + 1), 1), np.stack((a, b + 1), 1), 1)


def reference_windows(x: Array, size: tuple[int, ...], stride: tuple[int, ...]) -> Array:
    axes = tuple(range(x.ndim - len(size), x.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(x, size, axes)
    lead = (slice(None),) * (x.ndim - len(size))
    return seen[(*lead, *(slice(None, None, s) for s in stride))]


@pytest.mark.parametrize(
    ("size", "stride"), [((2,), (1,)), ((3,), (2,)), ((7,), (1,)), ((2, 3), (1, 2)), ((1, 1), (2, 2))]
)
def test_windows(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    a = array(2, 6, 7)
    close(f.windows(Tensor(a), size, stride) * 1, reference_windows(a, size, stride), 1)


def test_pooling_and_convolution() -> None:
    """checklist 30: convolution with relu is one kernel."""
    a, w, b = array(2, 3, 7, 8), array(4, 3, 3, 2, seed=1), array(4, seed=2)
    close(f.max_pool(Tensor(a), (2, 3)), reference_windows(a, (2, 3), (2, 3)).max((-1, -2)), 1)
    close(f.avg_pool(Tensor(a), (3, 3), (1, 2)), reference_windows(a, (3, 3), (1, 2)).mean((-1, -2)), 1)
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (2, 2)))
    want = np.einsum("bchwij,ocij->bohw", reference_windows(padded, (3, 2), (2, 1)), w) + b.reshape(4, 1, 1)
    got = f.conv2d(Tensor(a), Tensor(w), Tensor(b), stride=(2, 1), padding=(1, 2))
    close(got.relu(), np.maximum(want, 0), 1)
    with pytest.raises(ShapeError, match="channels"):
        f.conv2d(Tensor(a), Tensor(array(4, 2, 3, 3)))
    with pytest.raises(ShapeError, match="3 channels in 2 groups"):
        f.conv2d(Tensor(a), Tensor(w), groups=2)
    with pytest.raises(ShapeError, match="window of 9"):
        f.max_pool(Tensor(a), (9, 1))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1), (2, 3)])
def test_grouped_and_dilated_convolution(groups: int, dilation: tuple[int, int]) -> None:
    a, w = array(2, 4, 9, 10), array(8, 4 // groups, 3, 2, seed=1)
    dh, dw = dilation
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (0, 0)))
    seen = reference_windows(padded, (2 * dh + 1, dw + 1), (1, 2))[..., ::dh, ::dw]
    parts = np.split(seen, groups, axis=1), np.split(w, groups)
    want = np.concatenate([np.einsum("bchwij,ocij->bohw", s, k) for s, k in zip(*parts, strict=True)], 1)
    got = f.conv2d(Tensor(a), Tensor(w), stride=(1, 2), padding=(1, 0), dilation=dilation, groups=groups)
    close(got, want, 1)


def test_padded_pooling() -> None:
    a = array(2, 5, 6) - 3
    wide = np.pad(a, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    close(
        f.max_pool(Tensor(a), (3, 3), (2, 2), (1, 1)),
        reference_windows(wide, (3, 3), (2, 2)).max((-1, -2)),
        1,
    )
    wide = np.pad(a, ((0, 0), (1, 1), (0, 0)))
    close(
        f.avg_pool(Tensor(a), (3, 2), None, (1, 0)), reference_windows(wide, (3, 2), (3, 2)).mean((-1, -2)), 1
    )
    ints = np.arange(-12, 0, dtype=np.int8).reshape(3, 4)
    padded = np.pad(ints, 1, constant_values=-128)
    got = f.max_pool(Tensor(ints), (2, 2), (1, 1), (1, 1)).numpy()
    np.testing.assert_array_equal(got, reference_windows(padded, (2, 2), (1, 1)).max((-1, -2)))


def test_attention_with_fewer_heads_of_keys() -> None:
    q, k, v = array(2, 6, 5, 4), array(2, 2, 7, 4, seed=1), array(2, 2, 7, 3, seed=2)
    wide_k, wide_v = (np.repeat(x, 3, axis=1) for x in (k, v))
    want = softmax(q @ wide_k.swapaxes(-1, -2) / 2) @ wide_v
    close(f.scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v)), want, 4)
    with pytest.raises(ShapeError, match="6 heads of query for 4"):
        f.scaled_dot_product_attention(Tensor(q), Tensor(array(2, 4, 7, 4)), Tensor(array(2, 4, 7, 3)))
