"""Intrinsics that see more than one element, and fused pairs (ktir spec 2.5, 2.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ktir
from spyresim import run_ktir
from spyresim.meaning.intrinsics import pack, unpack
from spyresim.testing import text as k

RNG = np.random.default_rng(25)


def outputs(text: str, **args: Any) -> dict[str, Any]:
    module = ktir.parse(text)
    ktir.verify(module)
    first, second = (run_ktir(module, args=args, schedule=s).outputs for s in ("lockstep", "sequential"))
    for name, array in first.items():
        assert np.array_equal(array, second[name])
    return first


MAPS = "#all = affine_map<(r, c) -> (r, c)>\n#row = affine_map<(r, c) -> (r)>\n#col = affine_map<(r, c) -> (c)>\n"


def layer_norm(moments: str, scale: str, type: str = "f32") -> str:
    """Three rows of 40 a tile; `moments` yields what a row has, `scale` makes the reciprocal deviation of it."""
    kept = {"plain": [type, type], "fused": [f"!spyreop.{ {'f16': 'fp16', 'f32': 'fp32'}[type] }_fused"]}[
        moments
    ]
    count = len(kept)
    tensors = [f"tensor<3x{t}>" for t in kept]
    reduce_maps = ", ".join(["#all", *["#row"] * count])
    results = "%m" if count == 1 else "%m, %s"
    empties = [f"%e{n} = tensor.empty() : {t}" for n, t in enumerate(tensors)]
    outs = ", ".join(f"%e{n}" for n in range(count))
    body = (
        f"%m1, %m2 = spyreop.exx2 %x : {type}\nlinalg.yield %m1, %m2 : {type}, {type}"
        if count == 2
        else f"%a = spyreop.exx2_fused %x : {type} -> {kept[0]}\nlinalg.yield %a : {kept[0]}"
    )
    joined = tensors[0] if count == 1 else f"({', '.join(tensors)})"
    given = "%m, %s" if count == 2 else "%m, %m"
    second = f"tensor<3x40x{type}>"
    return MAPS + k.function(
        "%p: index, %w: index, %b: index, %q: index",
        [
            "%z = arith.constant 0 : index",
            "%three = arith.constant 3 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%r = arith.muli %t, %three : index",
            k.view("pv", "p", (6, 40), type),
            k.view("wv", "w", (40,), type),
            k.view("bv", "b", (40,), type),
            k.view("qv", "q", (6, 40), type),
            k.tile("pt", "pv", "%r, %z", (6, 40), (3, 40), type),
            k.tile("wt", "wv", "%z", (40,), (40,), type),
            k.tile("bt", "bv", "%z", (40,), (40,), type),
            k.tile("qt", "qv", "%r, %z", (6, 40), (3, 40), type),
            k.load("x", "pt", (3, 40), type),
            k.load("weight", "wt", (40,), type),
            k.load("bias", "bt", (40,), type),
            *empties,
            f"{results} = linalg.generic {{indexing_maps = [{reduce_maps}], iterator_types = "
            f'["parallel", "reduction"]}} ins(%x : {second}) outs({outs} : {", ".join(tensors)}) {{',
            f"^bb0(%x: {type}, {', '.join(f'%o{n}: {t}' for n, t in enumerate(kept))}):".replace(
                "%x:", "%y:"
            ),
            body.replace("%x", "%y"),
            f"}} -> {joined}",
            f"%e = tensor.empty() : {second}",
            "%n = linalg.generic {indexing_maps = [#all, #row, #row, #col, #col, #all], iterator_types = "
            f'["parallel", "parallel"]}} ins(%x, {given}, %weight, %bias : {second}, {tensors[0]}, {tensors[-1]}, '
            f"tensor<40x{type}>, tensor<40x{type}>) outs(%e : {second}) {{",
            f"^bb0(%v: {type}, %mean: {kept[0]}, %squares: {kept[-1]}, %g: {type}, %h: {type}, %o: {type}):",
            *scale.split("\n"),
            f"linalg.yield %done : {type}",
            f"}} -> {second}",
            k.store("n", "qt", (3, 40), type),
        ],
        [2],
    )


PLAIN = (
    "%c = spyreop.layernormscale %mean squares %squares : f32\n"
    "%done = spyreop.layernormnorm %v squares %mean scale %c weight %g bias %h : f32"
)


def test_moments_compose_to_layer_norm() -> None:
    """ktir spec 2.5: exx2 over the reduction loops, then layernormscale and layernormnorm."""
    x, w, b = (RNG.normal(size=s).astype(np.float32) for s in ((6, 40), (40,), (40,)))
    got = outputs(layer_norm("plain", PLAIN), p=x, w=w, b=b)["q"]
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    assert np.allclose(got, (x - mean) / np.sqrt(variance + 1e-5) * w + b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("type", "dtype"), [("f32", np.float32), ("f16", np.float16)])
def test_packed_moments(type: str, dtype: Any) -> None:
    """The pair of a row as one value; its scale is that of the two parts."""
    scale = f"%c = spyreop.layernormscale_fused %mean : {'fp32' if type == 'f32' else 'fp16'} -> {type}"
    scale = scale.replace("fp32", "!spyreop.fp32_fused").replace("fp16", "!spyreop.fp16_fused")
    text = layer_norm("fused", f"{scale}\n%done = arith.mulf %v, %c : {type}", type)
    x = RNG.normal(size=(6, 40)).astype(dtype)
    got = outputs(text, p=x, w=np.ones(40, dtype), b=np.zeros(40, dtype))["q"].astype(np.float64)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    assert np.allclose(got, expected, rtol=1e-4 if type == "f32" else 4e-3)


@pytest.mark.parametrize("held", [np.float16, np.float32, np.uint16])
def test_pairs_are_packed_low_word_first(held: Any) -> None:
    first, second = (np.arange(5).astype(held) + n for n in (1, 7))
    pairs = pack(first, second)
    assert pairs.dtype.itemsize == 2 * first.itemsize
    if np.dtype(held).byteorder != ">":
        assert np.array_equal(pairs.view(held)[::2], first)
    again = unpack(pairs, np.dtype(held))
    assert np.array_equal(again[0], first)
    assert np.array_equal(again[1], second)


def fold(function: Any, values: Any) -> Any:
    total = values[..., 0]
    for lane in range(1, values.shape[-1]):
        total = function(total, values[..., lane]).astype(np.float16)
    return total


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("max", np.maximum),
        ("min", np.minimum),
        ("abs_max", lambda a, b: np.maximum(np.abs(a), np.abs(b))),
    ],
)
@pytest.mark.parametrize("scope", ["in_slice", "across_slice"])
def test_slices_of_a_stick(kind: str, function: Any, scope: str) -> None:
    """ktir spec 2.6: eight slices of eight lanes; left folds with one rounding a step, other lanes stay."""
    text = k.function(
        "%p: index, %q: index",
        [
            "%z = arith.constant 0 : index",
            "%n = arith.constant 64 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%at = arith.muli %t, %n : index",
            k.view("pv", "p", (192,)),
            k.view("qv", "q", (192,)),
            k.tile("pt", "pv", "%at", (192,), (64,)),
            k.tile("qt", "qv", "%at", (192,), (64,)),
            k.load("x", "pt", (64,)),
            f"%y = spyreop.slice_reduction %x {{reduction_kind = #spyreop.reduction_kind<{kind}>, "
            f"reduction_scope = #spyreop.reduction_scope<{scope}>}} : tensor<64xf16> -> tensor<64xf16>",
            k.store("y", "qt", (64,)),
        ],
        [3],
    )
    x = RNG.normal(size=192).astype(np.float16)
    lanes = x.reshape(3, 8, 8)
    expected = lanes.copy()
    if scope == "in_slice":
        expected[:, :, 0] = fold(function, lanes)
    else:
        expected[:, 0, :] = fold(function, lanes.transpose(0, 2, 1))
    assert np.array_equal(outputs(text, p=x)["q"], expected.ravel())
