"""Ten kernels in the text of users (`integration/kernels`): parse, verify, print, run, and compare with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ktir
import spyresim
from repository import ROOT

Arrays = dict[str, np.ndarray]
Case = tuple[dict[str, object], Arrays, float]
"""Arguments of the launch, expected outputs, and the tolerance relative to the largest expected value."""

KERNELS = ROOT / "integration" / "kernels"
FILES = sorted(KERNELS.glob("*.mlir"))
SEEDS = range(3)


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def softmax_long_rows(seed: int) -> Case:
    rows, columns = ((6, 1000), (1, 257), (5, 1024))[seed]
    x = random(seed).normal(0, 4, (rows, 1024)).astype(np.float16)
    y = np.full((rows, 1024), 7, np.float16)
    expected = y.copy()
    expected[:, : -(-columns // 256) * 256] = 0  # the last piece is stored whole
    expected[:, :columns] = softmax(x[:, :columns].astype(np.float64)).astype(np.float16)
    arguments = {"x_ptr": x, "y_ptr": y, "n_rows": rows, "n_cols": columns}
    by_position = {f"arg{i}": value for i, value in enumerate(arguments.values())}
    return dict(by_position), {"arg1": expected}, 2**-10


def layer_norm(seed: int) -> Case:
    r = random(seed)
    x = r.normal(40 * seed, 3, (48, 320)).astype(np.float16)
    weight, bias = (r.normal(0, 1, 320).astype(np.float32) for _ in range(2))
    f = x.astype(np.float64)
    centred = f - f.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    arguments = {"x": x, "weight": weight, "bias": bias, "eps": 1e-5}
    return arguments, {"y": expected.astype(np.float16)}, 2**-10


def rope_arguments(seed: int) -> tuple[dict[str, object], np.ndarray, np.ndarray, np.ndarray]:
    r = random(seed)
    q = r.normal(0, 1, (16, 4, 64)).astype(np.float16)
    angle = np.arange(128)[:, None] / 10000 ** (np.arange(32) / 32)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    pos = r.integers(0, 128, 16).astype(np.int32)
    arguments: dict[str, object] = {"q": q, "cos": cos, "sin": sin, "pos": pos}
    return arguments, q.astype(np.float32), cos[pos][:, None], sin[pos][:, None]


def rope_halves(seed: int) -> Case:
    arguments, q, cos, sin = rope_arguments(seed)
    lo, hi = q[..., :32], q[..., 32:]
    turned = np.concatenate([lo * cos - hi * sin, hi * cos + lo * sin], axis=-1)
    return arguments, {"o": turned.astype(np.float16)}, 0


def rope_pairs(seed: int) -> Case:
    arguments, q, cos, sin = rope_arguments(seed)
    turned = np.empty_like(q)
    turned[..., ::2] = q[..., ::2] * cos - q[..., 1::2] * sin
    turned[..., 1::2] = q[..., 1::2] * cos + q[..., ::2] * sin
    return arguments, {"o": turned.astype(np.float16)}, 0


def swiglu_ffn(seed: int) -> Case:
    r = random(seed)
    x = r.normal(0, 1, (8, 64)).astype(np.float16)
    gate, up = (r.normal(0, 1 / 8, (64, 256)).astype(np.float16) for _ in range(2))
    down = r.normal(0, 1 / 16, (256, 64)).astype(np.float16)
    g = x.astype(np.float64) @ gate
    expected = (g / (1 + np.exp(-g)) * (x.astype(np.float64) @ up)) @ down
    return {"x": x, "wg": gate, "wu": up, "wd": down}, {"y": expected.astype(np.float16)}, 2**-10


def paged_attention(seed: int) -> Case:
    r = random(seed)
    lengths = np.array([(40, 17, 1), (8, 0, 39), (9, 9, 16)][seed], np.int32)
    q = r.normal(0, 1, (3, 2, 32)).astype(np.float16)
    k, v = (r.normal(0, 1, (24, 8, 2, 32)).astype(np.float16) for _ in range(2))
    table = r.permutation(24)[:15].reshape(3, 5).astype(np.int32)
    expected = np.zeros((3, 2, 32))
    for b, length in enumerate(lengths):
        keys, values = (
            pool[table[b]].reshape(40, 2, 32)[:length].astype(np.float64) for pool in (k, v)
        )  # tokens, heads, lanes
        for h in range(2):
            if length:
                weights = softmax(keys[:, h] @ q[b, h].astype(np.float64) / np.sqrt(32))
                expected[b, h] = weights @ values[:, h]
    arguments = {"q": q, "k": k, "v": v, "table": table, "lengths": lengths}
    return dict(arguments), {"o": expected.astype(np.float16)}, 2**-10


def block(b: int) -> tuple[slice, slice]:
    return slice(6 * b, 6 * b + 6), slice(6 * b, 6 * b + 6)


def pack_lower(seed: int) -> Case:
    x = random(seed).normal(0, 1, (24, 24)).astype(np.float32)
    return {"x": x}, {"p": np.stack([x[block(b)][np.tril_indices(6)] for b in range(4)])}, 0


def symmetrise(seed: int) -> Case:
    x = random(seed).normal(0, 1, (24, 24)).astype(np.float32)
    expected = x.copy()
    for b in range(4):
        part = x[block(b)]
        expected[block(b)] = np.triu(part) + np.triu(part, 1).T
    return {"x": x}, {"x": expected}, 0


def causal_softmax(seed: int) -> Case:
    x = random(seed).normal(0, 3, (24, 24)).astype(np.float32)
    y = np.zeros((24, 24), np.float32)
    expected = y.copy()
    for b in range(4):
        masked = np.where(np.tri(6, dtype=bool), x[block(b)].astype(np.float64), -np.inf)
        expected[block(b)] = softmax(masked)
    return {"x": x, "y": y}, {"y": expected}, 2**-21


def ring_sum(seed: int) -> Case:
    x = random(seed).normal(0, 1, (8, 64)).astype(np.float32)
    expected = np.empty_like(x)
    for tile in range(8):  # the order of additions differs from tile to tile
        total = x[tile]
        for step in range(1, 4):
            total = total + x[(tile - 2 * step) % 8]
        expected[tile] = total
    return {"x": x}, {"y": expected}, 0


def group_sum(seed: int) -> Case:
    x = random(seed).integers(-99, 99, (8, 64)).astype(np.float32)
    return {"x": x}, {"y": np.stack([x[::2].sum(axis=0), x[1::2].sum(axis=0)])}, 0


def index_add(seed: int) -> Case:
    r = random(seed)
    t, u = (r.normal(0, 1, (rows, 128)).astype(np.float32) for rows in (40, 24))
    i = r.integers(0, 10, 24)
    expected = t.copy()
    np.add.at(expected, i, u)
    return {"t": t, "u": u, "i": i}, {"t": expected}, 0


def index_add_unique(seed: int) -> Case:
    r = random(seed)
    t, u = (r.normal(0, 1, (rows, 128)).astype(np.float32) for rows in (40, 24))
    i = r.permutation(40)[:24].astype(np.int32)
    expected = t.copy()
    expected[i] += u
    return {"t": t, "u": u, "i": i}, {"t": expected}, 0


def by_order(seed: int) -> Case:
    pitch = (48, 64, 51)[seed]
    s = random(seed).normal(0, 1, 2560).astype(np.float32)
    rows = s[: 40 * pitch].reshape(40, pitch)
    return {"s": s, "pitch": pitch}, {"d": rows[::2, 1:48:2].T}, 0


def by_operation(seed: int) -> Case:
    s = random(seed).normal(0, 1, (40, 64)).astype(np.float32)
    return {"s": s}, {"d": s[::2, 1:48:2].T}, 0


def dynamic_add(seed: int) -> Case:
    n = (1000, 1, 128)[seed]
    a, b = (random(seed + k).normal(0, 1, n).astype(np.float16) for k in (0, 9))
    arguments = {"arg0": a, "arg1": b, "arg2": np.zeros(n, np.float16), "arg3": n}
    return dict(arguments), {"arg2": a + b}, 0


def bounded_add(seed: int) -> Case:
    n = (8, 4096, 1032)[seed]
    a, b, o = (random(seed + k).normal(0, 1, 4096).astype(ml_dtypes.bfloat16) for k in (0, 9, 18))
    expected = o.copy()
    expected[:n] = a[:n] + b[:n]
    return {"a": a, "b": b, "o": o, "n": n}, {"o": expected}, 0


REFERENCES: Mapping[str, Callable[[int], Case]] = {
    function.__name__: function
    for function in (
        softmax_long_rows, layer_norm, rope_halves, rope_pairs, swiglu_ffn, paged_attention, pack_lower,
        symmetrise, causal_softmax, ring_sum, group_sum, index_add, index_add_unique, by_order, by_operation,
        dynamic_add, bounded_add,
    )
}  # fmt: skip


def functions(module: ktir.Module) -> list[str]:
    return [name for name in REFERENCES if f"@{name}(" in ktir.print_module(module)]


def test_every_kernel_has_its_numpy() -> None:
    assert len(FILES) == 10
    found = [name for path in FILES for name in functions(ktir.load(path))]
    assert sorted(found) == sorted(REFERENCES)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_print_and_read_again(path: Path) -> None:
    """ktir checklist 98, 99."""
    module = ktir.load(path)
    ktir.verify(module)
    custom, generic = (ktir.print_module(module, generic=generic) for generic in (False, True))
    for text in (custom, generic):
        again = ktir.parse(text)
        ktir.verify(again)
        assert ktir.print_module(again) == custom
        assert ktir.print_module(again, generic=True) == generic
    assert "spyre_memory_space" not in custom


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", REFERENCES)
def test_numbers(name: str, seed: int) -> None:
    """Each kernel computes what NumPy computes, from its own text and from its text printed and read again."""
    (path,) = (path for path in FILES if f"@{name}(" in path.read_text())
    module = ktir.load(path)
    arguments, expected, tolerance = REFERENCES[name](seed)
    copies = {key: np.array(value) for key, value in arguments.items()}
    again = ktir.parse(ktir.print_module(module, generic=True))
    results = [spyresim.run_ktir(m, name, arguments) for m in (module, again)]
    for schedule in ("sequential", "random"):  # nothing depends on lockstep
        results.append(spyresim.run_ktir(module, name, arguments, schedule=schedule, seed=seed, strict=True))
    for key, value in arguments.items():
        np.testing.assert_array_equal(value, copies[key], err_msg=f"the launch changed {key}")
    assert not results[0].report.warnings
    for key, want in expected.items():
        got, *others = (result.outputs[key] for result in results)
        for other in others:
            np.testing.assert_array_equal(got, other)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        atol = tolerance * float(np.abs(want.astype(np.float64)).max())
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=atol)
