"""Kernels over unusual shapes (`integration/kernels/shapes`): every level agrees with the others and with NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dfsched
import ktir
import ktir.affine
import spyresim
from repository import ROOT
from spyrert.errors import SymbolBindingError, TilingError

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
FOLDER = ROOT / "integration" / "kernels" / "shapes"
QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ("spyre", "sample", QUAD)

Arguments = dict[str, object]
Outputs = dict[str, np.ndarray]
Case = tuple[Arguments, Outputs]


def normal(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return np.random.default_rng(shape).normal(0, 2, shape).astype(dtype)


def check(file: str, kernel: str, case: Case, device: str, levels: bool) -> None:
    """The device computes what NumPy computes, and all levels and the state after every pass agree with it."""
    module = ktir.load(FOLDER / f"{file}.mlir")
    arguments, expected = case
    if levels:
        (found,) = spyresim.verify(module, device, kernel=kernel, args=arguments)
        assert found.ok, found.first
    compiled = dfsched.compile(module, device, dfsched.Options(kernel=kernel))
    outputs = spyresim.run_device(compiled, arguments).outputs
    assert outputs.keys() == expected.keys()
    for name, want in expected.items():
        np.testing.assert_array_equal(outputs[name], want, strict=True)


def pairs(cases: Mapping[str, list[Case]], most: int) -> list[object]:
    """Every case on the devices in turn, the case `most` of every second kernel at all levels; with SWEEPS=1 every
    case on all devices at all levels.
    """
    found: list[object] = []
    number = 0
    for kernel, (name, items) in enumerate(cases.items()):
        for place, case in enumerate(items):
            chosen = DEVICES if SWEEPS else [DEVICES[number % len(DEVICES)]]
            levels = SWEEPS or (kernel % 2 == 0 and place == most)
            number += 1
            for device in chosen:
                label = f"{name}-{place}-{os.path.basename(device)}"
                found.append(pytest.param(name, case, device, levels, id=label))
    return found


# -- extents that only the launch knows


def scale_rows(n: int) -> Case:
    x, w = normal(n, 40), normal(40)
    return {"x": x, "w": w, "n": n}, {"y": x * w}


def row_max(n: int) -> Case:
    x = normal(n, 40, dtype=np.float32)
    return {"x": x, "n": n}, {"y": x.max(axis=1)}


def add_lanes(n: int) -> Case:
    a, b = normal(n, dtype=np.float32), normal(n, dtype=np.float32)[::-1].copy()
    return {"a": a, "b": b, "n": n}, {"o": (a + b) + np.arange(n, dtype=np.float32)}


def double_columns(n: int) -> Case:
    x = normal(5, 48)
    expected = x.copy()
    expected[:, :n] *= 2
    return {"x": x, "n": n}, {"x": expected}


def copy_rows(n: int) -> Case:
    x = normal(n, 40)
    return {"x": x, "n": n}, {"y": x}


def column_sums(n: int) -> Case:
    x = np.rint(normal(n, 40))
    expected = np.ones(40, np.float16)
    for row in x:
        expected += row * row
    return {"x": x, "n": n}, {"y": expected}


def largest(n: int) -> Case:
    x, y = normal(n, dtype=np.float32), np.full((), 1.5, np.float32)
    return {"x": x, "y": y, "n": n}, {"y": np.maximum(x.max(), y)}


def outer(n: int, m: int) -> Case:
    a, b, o = normal(n), normal(m + 1)[1:], normal(n, 40)
    expected = o.copy()
    expected[:, :m] = a[:, None] * b
    return {"a": a, "b": b, "o": o, "n": n, "m": m}, {"o": expected}


def below_largest(n: int) -> Case:
    x = normal(n, 40)
    return {"x": x, "n": n}, {"y": x - x.max(axis=0), "l": x.max(axis=0)}


def ordered_sum(n: int) -> Case:
    x, total = normal(5, 48), np.zeros((), np.float16)
    for value in x[:, :n].flat:
        total = total + value
    return {"x": x, "n": n}, {"y": np.asarray(total)}


def bound(make: Callable[[int], Case], *values: int) -> list[Case]:
    return [make(n) for n in values]


SYMBOLIC = {
    "scale_rows": bound(scale_rows, 4, 12, 24),
    "row_max": bound(row_max, 1, 11, 24),
    "add_lanes": bound(add_lanes, 1, 67, 200),
    "double_columns": bound(double_columns, 6, 30, 48),
    "copy_rows": bound(copy_rows, 1, 7, 30),
    "column_sums": bound(column_sums, 1, 11, 30),
    "largest": bound(largest, 1, 73, 200),
    "below_largest": bound(below_largest, 1, 19) if SWEEPS else [below_largest(19)],
    "outer": [outer(1, 40), outer(11, 12)] if SWEEPS else [outer(11, 12)],
    "ordered_sum": [ordered_sum(29)],
}


@pytest.mark.parametrize(("name", "case", "device", "levels"), pairs(SYMBOLIC, 1))
def test_symbolic_extents(name: str, case: Case, device: str, levels: bool) -> None:
    """Both bounds, and extents that no tile divides; one compilation serves all of them."""
    check("symbolic_extents", name, case, device, levels)


def test_a_launch_keeps_the_promise() -> None:
    """Values beyond the bound or off the granularity are refused, and so are tensors of another size."""
    module = ktir.load(FOLDER / "symbolic_extents.mlir")
    compiled = dfsched.compile(module, "sample", dfsched.Options(kernel="scale_rows"))
    assert compiled.spyrecode.launch is not None
    assert [arg.shape for arg in compiled.spyrecode.launch.args] == [("n", 40), (40,), ("n", 40)]
    (symbol,) = compiled.spyrecode.launch.symbols
    assert (symbol.bounds.min, symbol.bounds.max, symbol.bounds.granularity) == (4, 24, 4)
    for n, message in ((28, "may not be tiled"), (6, "not a multiple of its granularity 4")):
        arguments, _ = scale_rows(n)
        with pytest.raises(spyresim.ArgumentError, match=message) as caught:
            spyresim.run_device(compiled, arguments)
        assert isinstance(caught.value.__cause__, SymbolBindingError | TilingError)
    arguments, _ = scale_rows(8)
    with pytest.raises(spyresim.ArgumentError):
        spyresim.run_device(compiled, {**arguments, "n": 12})


def test_one_artefact_serves_every_extent() -> None:
    module = ktir.load(FOLDER / "symbolic_extents.mlir")
    compiled = dfsched.compile(module, "sample", dfsched.Options(kernel="add_lanes"))
    for n in (1, 2, 63, 64, 65, 127, 199):
        arguments, expected = add_lanes(n)
        outputs = spyresim.run_device(compiled.spyrecode, arguments, device="sample").outputs
        np.testing.assert_array_equal(outputs["o"], expected["o"])


# -- access tiles that are no boxes


def every_second() -> Case:
    x = normal(20, 150)
    return {"x": x}, {"y": x[:, 1:135:2] * 2}


def turned() -> Case:
    x, y = normal(20, 150), normal(67, 20)
    expected = np.empty_like(y)
    for i in range(2):
        expected[:, i::2] = x[10 * i : 10 * i + 10, 0:133:2].T * 2
    return {"x": x, "y": y}, {"y": expected}


def skewed() -> Case:
    x = normal(20, 150)
    return {"x": x}, {"y": np.stack([np.maximum(x[r, r + 3 : r + 70], 0) for r in range(20)])}


def max_of_second() -> Case:
    x = normal(20, 150)
    return {"x": x}, {"y": x[:, 1:135:2].max(axis=1)}


def lower_in_place() -> Case:
    x = normal(10, 20)
    lower = np.tile(np.tri(10, dtype=bool), (1, 2))
    return {"x": x}, {"x": np.where(lower, x + x, x)}


def pack_upper() -> Case:
    x = normal(11, 40, dtype=np.float32)
    return {"x": x}, {"p": np.concatenate([x[: c + 1, c] ** 2 for c in range(11)])}


def band() -> Case:
    x, y = normal(12, 12), normal(12, 12)[::-1].copy()
    inside = np.tri(12, k=2, dtype=bool) & np.tri(12, k=2, dtype=bool).T
    return {"x": x, "y": y}, {"y": np.where(inside, x, y)}


def below_largest_of_lower() -> Case:
    x, y = normal(6, 6), normal(6, 6)[::-1].copy()
    lower = np.tri(6, dtype=bool)
    largest = x[lower].max()
    return {"x": x, "y": y}, {"y": np.where(lower, x - largest, y), "l": largest[None]}


def sum_of_lower() -> Case:
    x, total = normal(12, 12, dtype=np.float32), np.ones((), np.float32)
    for value in x[np.tri(12, dtype=bool)]:
        total = total + value
    return {"x": x}, {"s": np.asarray(total)}


def numbered_lower() -> Case:
    x, y = normal(6, 6, dtype=np.float32), np.zeros((6, 6), np.float32)
    lower = np.tri(6, dtype=bool)
    values = x[lower] + np.arange(21, dtype=np.float32)
    values[1::3] *= 2
    y[lower] = values
    return {"x": x, "y": np.zeros_like(y)}, {"y": y}


def sum_of_some() -> Case:
    x, total = normal(12, 12, dtype=np.float32), np.zeros((), np.float32)
    for number, value in enumerate(x.T[np.tri(12, dtype=bool)]):
        total = total + (value if number % 5 else np.float32(0))
    return {"x": x}, {"s": np.asarray(total)}


TILES = {
    make.__name__: [make()]
    for make in (
        *(skewed, every_second, pack_upper, turned, lower_in_place, max_of_second, band, sum_of_lower),
        *(below_largest_of_lower, sum_of_some, numbered_lower),
    )
}


@pytest.mark.parametrize(("name", "case", "device", "levels"), pairs(TILES, 0))
def test_access_tiles(name: str, case: Case, device: str, levels: bool) -> None:
    """Strided, skewed, transposed and triangular sets; extents of 67 and 11 that no vector divides."""
    check("access_tiles", name, case, device, levels)


SHAPE = 9


@st.composite
def point_sets(draw: st.DrawFn) -> str:
    """A set of points in a square: up to two half planes and a step."""
    parts = [f"r >= 0, -r + {SHAPE - 1} >= 0, c >= 0, -c + {SHAPE - 1} >= 0"]
    for _ in range(draw(st.integers(0, 2))):
        a, b, k = (draw(st.integers(*ends)) for ends in ((-2, 2), (-2, 2), (0, SHAPE)))
        parts.append(f"{a} * r + {b} * c + {k} >= 0")
    if draw(st.booleans()):
        parts.append(f"{draw(st.sampled_from('rc'))} mod {draw(st.integers(2, 3))} == 0")
    return f"affine_set<(r, c) : ({', '.join(parts)})>"


@pytest.mark.sweep(default=16, full=500)
@given(
    points=point_sets(),
    order=st.sampled_from(["(r, c)", "(c, r)"]),
    packed=st.booleans(),
    numbered=st.booleans(),
)
def test_any_set_means_the_same_in_parts(points: str, order: str, packed: bool, numbered: bool) -> None:
    """A copy through any set of points, to the same places or packed: the passes keep what it means.

    `numbered`: with a number that the indices of an element make added to it.
    """
    found = ktir.affine.affine_set(points)
    count = found.count()
    assume(count > 0)
    factors = found.factors()
    shape = f"{count}x1"
    if factors is not None and all(isinstance(factor, range) for factor in factors):
        shape = "x".join(str(len(factors["rc".index(name)])) for name in order if name in "rc")
    tile = (
        f"%xt = ktdp.construct_access_tile %xv[0, 0] {{access_tile_set = {points}, access_tile_order = "
        f"affine_map<(r, c) -> {order}>}} : memref<{SHAPE}x{SHAPE}xf32> -> !ktdp.access_tile<{shape}xindex>"
    )
    lines = [
        memory("xv", "x", (SHAPE, SHAPE)),
        memory("yv", "y", (count,) if packed else (SHAPE, SHAPE)),
        tile,
        f"%v = ktdp.load %xt : <{shape}xindex> -> tensor<{shape}xf32>",
    ]
    if numbered:
        lines[-1] = lines[-1].replace("%v", "%u")
        lines.append(plus_number("v", "u", f"tensor<{shape}xf32>"))
    if packed:
        lines += [
            f"%f = tensor.collapse_shape %v [[0, 1]] : tensor<{shape}xf32> into tensor<{count}xf32>",
            f"%yt = ktdp.construct_access_tile %yv[0] {{access_tile_set = {affine_box(count)}, "
            f"access_tile_order = affine_map<(i) -> (i)>}} : memref<{count}xf32> -> "
            f"!ktdp.access_tile<{count}xindex>",
            f"ktdp.store %f, %yt : tensor<{count}xf32>, <{count}xindex>",
        ]
    else:
        lines += [
            tile.replace("%xt", "%yt").replace("%xv", "%yv"),
            f"ktdp.store %v, %yt : tensor<{shape}xf32>, <{shape}xindex>",
        ]
    body = "\n".join(lines)
    module = ktir.parse(f"func.func @k(%x: index, %y: index) {{\n{body}\nreturn\n}}")
    x, y = (
        normal(SHAPE, SHAPE, dtype=np.float32),
        np.zeros((count,) if packed else (SHAPE, SHAPE), np.float32),
    )
    try:
        compiled = dfsched.compile(
            module, "sample", dfsched.Options(stop_after="construct-three-stage-pipeline")
        )
    except dfsched.UnsupportedKernel as error:
        assume("along one dimension" not in str(error))
        raise
    expected = spyresim.run_ktir(module, "k", {"x": x, "y": y}).outputs["y"]
    for result in compiled.passes:
        if result.name in ("split-access-tiles", "construct-three-stage-pipeline"):
            got = spyresim.run_schedule(compiled, {"x": x, "y": y}, module=result.module).outputs["y"]
            np.testing.assert_array_equal(got, expected)


def plus_number(result: str, source: str, type: str) -> str:
    """Each element plus five times its first index plus its second one."""
    same = "affine_map<(i, j) -> (i, j)>"
    return f"""%e = tensor.empty() : {type}
        %{result} = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = ["parallel", "parallel"]}}
          ins(%{source} : {type}) outs(%e : {type}) {{
        ^bb0(%a: f32, %o: f32):
          %i = linalg.index 0 : index
          %j = linalg.index 1 : index
          %five = arith.constant 5 : index
          %m = arith.muli %i, %five : index
          %n = arith.addi %m, %j : index
          %w = arith.index_cast %n : index to i32
          %f = arith.sitofp %w : i32 to f32
          %s = arith.addf %a, %f : f32
          linalg.yield %s : f32
        }} -> {type}"""


def affine_box(*extents: int) -> str:
    return f"affine_set<{ktir.affine.AffineSet.box(*extents)}>"


def memory(name: str, base: str, shape: tuple[int, ...]) -> str:
    strides = [shape[1], 1] if len(shape) == 2 else [1]
    return (
        f"%{name} = ktdp.construct_memory_view %{base}, sizes: {list(shape)}, strides: {strides} {{coordinate_set = "
        f"{affine_box(*shape)}, memory_space = #ktdp.memory_space<global>}} : "
        f"memref<{'x'.join(map(str, shape))}xf32>"
    )
