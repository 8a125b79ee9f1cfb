"""Slices of loaded tensors at any offset, size and stride, among others of the same tensor, at every level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfsched
import ktir
import spyresim
from ktir.affine import AffineMap, AffineSet
from repository import ROOT

QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ("spyre", "sample", QUAD)

Shape = tuple[int, ...]
Slice = tuple[slice, ...]


def tensor(shape: Shape) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}f16>"


def tile(name: str, shape: Shape, points: str = "", order: str = "", extents: Shape = ()) -> str:
    """A view of an argument and a tile of it (all of it unless `points` are given)."""
    view = "x".join(map(str, shape))
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    box = AffineSet.box(*shape)
    tile = "x".join(map(str, extents or shape))
    return f"""
      %{name}v = ktdp.construct_memory_view %{name}, sizes: {list(shape)}, strides: {strides} {{
        coordinate_set = affine_set<{box}>, memory_space = #ktdp.memory_space<global> }} : memref<{view}xf16>
      %{name}t = ktdp.construct_access_tile %{name}v[{", ".join("0" for _ in shape)}] {{
        access_tile_set = affine_set<{points or box}>,
        access_tile_order = affine_map<{order or AffineMap.identity(len(shape))}> }}
        : memref<{view}xf16> -> !ktdp.access_tile<{tile}xindex>"""


def load(name: str, shape: Shape, points: str = "", order: str = "", extents: Shape = ()) -> str:
    made = extents or shape
    lines = tile(name, shape, points, order, extents)
    return f"{lines}\n%{name}l = ktdp.load %{name}t : <{'x'.join(map(str, made))}xindex> -> {tensor(made)}"


def store(value: str, name: str, shape: Shape) -> str:
    lines = tile(name, shape)
    return f"{lines}\nktdp.store %{value}, %{name}t : {tensor(shape)}, <{'x'.join(map(str, shape))}xindex>"


def cut(result: str, source: str, shape: Shape, parts: Slice, made: Shape = ()) -> str:
    """`tensor.extract_slice`; `made` is the shape without some dimensions of one element."""
    sizes = [len(range(*part.indices(extent))) for part, extent in zip(parts, shape, strict=True)]
    return (
        f"%{result} = tensor.extract_slice %{source}{[part.start for part in parts]} {sizes} "
        f"{[part.step or 1 for part in parts]} : {tensor(shape)} to {tensor(made or tuple(sizes))}"
    )


def compute(result: str, name: str, a: str, b: str, shape: Shape) -> str:
    return f"%{result} = arith.{name} %{a}, %{b} : {tensor(shape)}"


def largest(result: str, source: str, shape: Shape, dim: int) -> str:
    kept = tensor(shape[:dim] + shape[dim + 1 :])
    return (
        f"%{result}z = arith.constant dense<-50.0> : {kept}\n%{result} = linalg.reduce {{ arith.maximumf }} "
        f"ins(%{source} : {tensor(shape)}) outs(%{result}z : {kept}) dimensions = [{dim}]"
    )


def kernel(arguments: str, *lines: str) -> str:
    names = ", ".join(f"%{name}: index" for name in arguments)
    body = "\n".join(lines)
    return f"func.func @k({names}) attributes {{grid = [1]}} {{\n{body}\nreturn\n}}"


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(0, 2, shape).astype(np.float16)


X = normal(6, 128)
WIDE = (6, 128)
LOW, HIGH = (slice(0, 6), slice(0, 64)), (slice(0, 6), slice(64, 128))
HALF = (6, 64)
PART = (5, 67)
COS, SIN = normal(6, 64), normal(64, 6).T.copy()
HALVES = (load("x", WIDE), cut("lo", "xl", WIDE, LOW), cut("hi", "xl", WIDE, HIGH))

Case = tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]]


def rotary() -> Case:
    """Both halves of the rotary embedding."""
    text = kernel(
        "xcsop",
        *HALVES,
        *(load("c", HALF), load("s", HALF)),
        *(compute("lc", "mulf", "lo", "cl", HALF), compute("hs", "mulf", "hi", "sl", HALF)),
        *(compute("hc", "mulf", "hi", "cl", HALF), compute("ls", "mulf", "lo", "sl", HALF)),
        *(compute("r", "subf", "lc", "hs", HALF), compute("q", "addf", "hc", "ls", HALF)),
        *(store("r", "o", HALF), store("q", "p", HALF)),
    )
    low, high = X[LOW], X[HIGH]
    return text, {"x": X, "c": COS, "s": SIN}, {"o": low * COS - high * SIN, "p": high * COS + low * SIN}


def whole_and_part() -> Case:
    """A load that is also read as a whole stays."""
    parts = slice(0, 5), slice(0, 67)
    text = kernel(
        "xop",
        *(load("x", WIDE), cut("lo", "xl", WIDE, parts)),
        *(compute("r", "addf", "lo", "lo", PART), compute("q", "mulf", "xl", "xl", WIDE)),
        *(store("r", "o", PART), store("q", "p", WIDE)),
    )
    return text, {"x": X}, {"o": X[parts] * 2, "p": X * X}


def folded() -> Case:
    """A reduction of a slice folds no element beside it, one of a slice at an offset neither."""
    low, high = (slice(1, 6), slice(0, 67)), (slice(1, 6), slice(61, 128))
    text = kernel(
        "xop",
        *(load("x", WIDE), cut("lo", "xl", WIDE, low), cut("hi", "xl", WIDE, high)),
        *(largest("m", "lo", PART, 1), compute("d", "mulf", "lo", "hi", PART), largest("n", "d", PART, 1)),
        *(store("m", "o", (5,)), store("n", "p", (5,))),
    )
    x = X
    return text, {"x": x}, {"o": x[low].max(axis=1), "p": (x[low] * x[high]).max(axis=1)}


def of_a_strided_turned_tile() -> Case:
    """The tile has every second column, turned: y = x[r, 2c] for c, r."""
    points = "(r, c) : (r >= 0, -r + 5 >= 0, c >= 0, -c + 126 >= 0, c mod 2 == 0)"
    low, high = (slice(0, 60, 2), slice(0, 4)), (slice(3, 63, 2), slice(2, 6))
    made = (30, 4)
    text = kernel(
        "xo",
        load("x", WIDE, points, "(r, c) -> (c, r)", (64, 6)),
        *(cut("lo", "xl", (64, 6), low), cut("hi", "xl", (64, 6), high)),
        *(compute("r", "mulf", "lo", "hi", made), store("r", "o", made)),
    )
    turned = X[:, ::2].T
    return text, {"x": X}, {"o": turned[low] * turned[high]}


def collapsed_afterwards() -> Case:
    """The loop is split where the slice begins a row."""
    parts, made = (slice(0, 3), slice(0, 64)), (192,)
    text = kernel(
        "xwo",
        *(load("x", WIDE), load("w", made), cut("lo", "xl", WIDE, parts)),
        f"%f = tensor.collapse_shape %lo [[0, 1]] : {tensor((3, 64))} into {tensor(made)}",
        *(compute("r", "mulf", "f", "wl", made), store("r", "o", made)),
    )
    w = normal(192)
    return text, {"x": X, "w": w}, {"o": X[parts].reshape(192) * w}


def without_a_dimension() -> Case:
    first, third = (slice(0, 1), slice(0, 67)), (slice(2, 3), slice(30, 97))
    text = kernel(
        "xo",
        *(load("x", WIDE), cut("lo", "xl", WIDE, first, (67,)), cut("hi", "xl", WIDE, third, (67,))),
        *(compute("r", "mulf", "lo", "hi", (67,)), store("r", "o", (67,))),
    )
    return text, {"x": X}, {"o": X[0, :67] * X[2, 30:97]}


def stored_into_what_was_loaded() -> Case:
    """The part is computed in place: its load covers what its store does."""
    low = tile("y", WIDE, str(AffineSet.box(*HALF)), "", HALF).replace("%y,", "%x,")
    text = kernel(
        "x",
        *(load("x", WIDE), cut("lo", "xl", WIDE, LOW), compute("r", "addf", "lo", "lo", HALF), low),
        f"ktdp.store %r, %yt : {tensor(HALF)}, <6x64xindex>",
    )
    expected = X.copy()
    expected[LOW] *= 2
    return text, {"x": X}, {"x": expected}


CASES = (
    *(rotary, whole_and_part, folded, of_a_strided_turned_tile, collapsed_afterwards),
    *(without_a_dimension, stored_into_what_was_loaded),
)


def agrees(case: Case, device: str) -> None:
    text, arguments, expected = case
    module = ktir.parse(text)
    (found,) = spyresim.verify(module, device, args=arguments)
    assert found.ok, found.first
    outputs = spyresim.run_device(dfsched.compile(module, device), arguments).outputs
    for name, want in expected.items():
        np.testing.assert_array_equal(outputs[name], want, strict=True)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[make.__name__ for make in CASES])
def test_slices(number: int) -> None:
    agrees(CASES[number](), DEVICES[number % len(DEVICES)])


@st.composite
def two_slices(draw: st.DrawFn) -> tuple[Shape, Slice, Slice]:
    """Two slices of the same sizes of a tensor of any rank, offset 0 and stride 1 more often than others."""
    shape: list[int] = []
    pair: tuple[list[slice], list[slice]] = ([], [])
    rank = draw(st.integers(1, 3))
    for dim in range(rank):
        size = draw(st.sampled_from([1, 3, 4] if dim < rank - 1 else [5, 32, 67]))
        ends = [size]
        for parts in pair:
            start, step = draw(st.sampled_from([0, 0, 1, 4])), draw(st.sampled_from([1, 1, 1, 2]))
            parts.append(slice(start, start + (size - 1) * step + 1, step))
            ends.append(parts[-1].stop)
        shape.append(max(ends) + draw(st.integers(0, 2)))
    return tuple(shape), tuple(pair[0]), tuple(pair[1])


@pytest.mark.sweep(default=3, full=150)
@given(slices=two_slices(), folds=st.booleans(), device=st.sampled_from(DEVICES))
def test_any_two_slices(slices: tuple[Shape, Slice, Slice], folds: bool, device: str) -> None:
    """Their product, or the largest element of it along the last dimension."""
    shape, first, second = slices
    x = normal(*shape)
    product = x[first] * x[second]
    made = product.shape
    folds = folds and len(made) > 1
    lines = [load("x", shape), cut("a", "xl", shape, first), cut("b", "xl", shape, second)]
    lines.append(compute("p", "mulf", "a", "b", made))
    if folds:
        lines += [largest("m", "p", made, len(made) - 1), store("m", "o", made[:-1])]
        product = product.max(axis=-1, initial=np.float16(-50))
    else:
        lines.append(store("p", "o", made))
    agrees((kernel("xo", *lines), {"x": x}, {"o": product}), device)
