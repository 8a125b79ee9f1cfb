"""Reductions of reshaped tensors, and reshapes and slices of what reductions make, against NumPy."""

from __future__ import annotations

import math
import os
import random

import numpy as np
import pytest
from test_slices import DEVICES, Case, Shape, compute, cut, kernel, largest, load, normal, store, tensor

import dfsched
import ktir
import spyresim

SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
ALL_DEVICES = (*DEVICES, "sample_h")

ROWS, FLAT = (2, 3, 67), (6, 67)
X = np.rint(normal(*ROWS))


def collapse(result: str, source: str, shape: Shape, groups: str, made: Shape) -> str:
    return f"%{result} = tensor.collapse_shape %{source} {groups} : {tensor(shape)} into {tensor(made)}"


def expand(result: str, source: str, shape: Shape, groups: str, made: Shape) -> str:
    return (
        f"%{result} = tensor.expand_shape %{source} {groups} output_shape {list(made)} "
        f": {tensor(shape)} into {tensor(made)}"
    )


def broadcast(result: str, source: str, shape: Shape, made: Shape, dim: int) -> str:
    return (
        f"%{result}e = tensor.empty() : {tensor(made)}\n%{result} = linalg.broadcast ins(%{source} : {tensor(shape)}) "
        f"outs(%{result}e : {tensor(made)}) dimensions = [{dim}]"
    )


def total(result: str, source: str, shape: Shape, dims: list[int], start: str = "") -> str:
    """The sum over dimensions, from 0 or a tensor on."""
    kept = tensor(tuple(extent for dim, extent in enumerate(shape) if dim not in dims))
    first = "" if start else f"%{result}z = arith.constant dense<0.0> : {kept}\n"
    return (
        f"{first}%{result} = linalg.reduce {{ arith.addf }} ins(%{source} : {tensor(shape)}) "
        f"outs(%{start or result + 'z'} : {kept}) dimensions = {dims}"
    )


def view_sum() -> Case:
    """x.view(-1, C).sum(0)"""
    text = kernel(
        "xo",
        *(load("x", ROWS), collapse("f", "xl", ROWS, "[[0, 1], [2]]", FLAT)),
        *(total("m", "f", FLAT, [0]), store("m", "o", (67,))),
    )
    return text, {"x": X}, {"o": X.reshape(FLAT).sum(axis=0)}


def below_largest() -> Case:
    """Rows less their largest elements, in the shape that was loaded and as the two rows that are reduced."""
    text = kernel(
        "xop",
        *(load("x", ROWS), collapse("f", "xl", ROWS, "[[0, 1], [2]]", FLAT), largest("m", "f", FLAT, 1)),
        *(broadcast("b", "m", (6,), FLAT, 1), compute("d", "subf", "f", "b", FLAT)),
        *(expand("r", "d", FLAT, "[[0, 1], [2]]", ROWS), store("r", "o", ROWS), store("m", "p", (6,))),
    )
    flat = X.reshape(FLAT)
    most = flat.max(axis=1)
    return text, {"x": X}, {"o": (flat - most[:, None]).reshape(ROWS), "p": most}


def expanded(dim: int) -> Case:
    """A row as a matrix with the elements of another one that lies turned; along rows it was wrong once."""
    shape = (4, 33)
    x, w = normal(132), normal(33, 4)
    made = shape[1 - dim : 2 - dim]
    text = kernel(
        "xwo",
        *(load("x", (132,)), load("w", (33, 4)), expand("m", "xl", (132,), "[[0, 1]]", shape)),
        f"%te = tensor.empty() : {tensor(shape)}\n%t = linalg.transpose ins(%wl : {tensor((33, 4))}) "
        f"outs(%te : {tensor(shape)}) permutation = [1, 0]",
        *(compute("s", "addf", "m", "t", shape), largest("r", "s", shape, dim), store("r", "o", made)),
    )
    return text, {"x": x, "w": w}, {"o": (x.reshape(shape) + w.T).max(axis=dim)}


def slices() -> Case:
    """Two slices, the whole, and an element of the largest of rows; both at places that are not the first."""
    x, w = normal(12, 67), normal(4)
    first, second = slice(0, 4), slice(3, 10, 2)
    text = kernel(
        "xwopq",
        *(load("x", (12, 67)), load("w", (4,)), largest("m", "xl", (12, 67), 1)),
        *(cut("a", "m", (12,), (first,)), cut("b", "m", (12,), (second,))),
        *(compute("s", "subf", "a", "b", (4,)), store("s", "o", (4,)), store("m", "p", (12,))),
        "%two = arith.constant 2 : index\n%e = tensor.extract %m[%two] : tensor<12xf16>",
        f"%es = tensor.splat %e : {tensor((4,))}",
        *(compute("t", "mulf", "wl", "es", (4,)), store("t", "q", (4,))),
    )
    m = x.max(axis=1)
    return text, {"x": x, "w": w}, {"o": m[first] - m[second], "p": m, "q": w * m[2]}


def reshaped_slice() -> Case:
    """Elements 2 to 7 as a matrix, and one element along a row."""
    x = normal(12, 67)
    text = kernel(
        "xop",
        *(load("x", (12, 67)), largest("m", "xl", (12, 67), 1), cut("a", "m", (12,), (slice(2, 8),))),
        *(expand("b", "a", (6,), "[[0, 1]]", (2, 3)), store("b", "o", (2, 3))),
        *(cut("c", "m", (12,), (slice(5, 6),)), broadcast("d", "c", (1,), (1, 40), 1)),
        store("d", "p", (1, 40)),
    )
    m = x.max(axis=1)
    return text, {"x": x}, {"o": m[2:8].reshape(2, 3), "p": np.full((1, 40), m[5])}


def steps_of_a_slice() -> Case:
    """A slice of every second row of a matrix of sums: no vector goes along the rows."""
    x, w = np.rint(normal(4, 6, 5)), normal(2, 1, 3)
    parts, made = (slice(0, 2), slice(0, 1), slice(0, 5, 2)), (2, 1, 3)
    text = kernel(
        "xwo",
        *(load("x", (4, 6, 5)), load("w", made), total("m", "xl", (4, 6, 5), [2])),
        expand("f", "m", (4, 6), "[[0, 1], [2]]", (2, 2, 6)),
        *(cut("a", "f", (2, 2, 6), parts), compute("s", "addf", "a", "wl", made), store("s", "o", made)),
    )
    return text, {"x": x, "w": w}, {"o": x.sum(axis=2).reshape(2, 2, 6)[parts] + w}


def reductions_of_slices() -> Case:
    """A sum over slices of a sum, from another slice on, and of that a slice."""
    x = np.rint(normal(6, 2, 67))
    first, second = (slice(0, 5), slice(1, 66)), (slice(1, 6), slice(2, 3))
    text = kernel(
        "xo",
        *(load("x", (6, 2, 67)), total("m", "xl", (6, 2, 67), [1])),
        *(cut("a", "m", (6, 67), first), cut("b", "m", (6, 67), second, (5,))),
        *(total("n", "a", (5, 65), [1], "b"), cut("r", "n", (5,), (slice(1, 4, 2),)), store("r", "o", (2,))),
    )
    m = x.sum(axis=1)
    return text, {"x": x}, {"o": (m[first].sum(axis=1) + m[:, 2][1:])[1:4:2]}


CASES = (
    *(view_sum(), below_largest(), expanded(0), expanded(1)),
    *(slices(), reshaped_slice(), steps_of_a_slice(), reductions_of_slices()),
)


def agrees(case: Case, device: str, levels: bool) -> None:
    text, arguments, expected = case
    module = ktir.parse(text)
    if levels:
        (found,) = spyresim.verify(module, device, args=arguments)
        assert found.ok, found.first
    outputs = spyresim.run_device(dfsched.compile(module, device), arguments).outputs
    for name, want in expected.items():
        np.testing.assert_array_equal(outputs[name], want, strict=True)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_parts_of_reductions(number: int) -> None:
    for device in ALL_DEVICES if SWEEPS else [ALL_DEVICES[number % 4]]:
        agrees(CASES[number], device, SWEEPS)


def test_a_slice_over_the_ends_of_rows_is_refused() -> None:
    """Rows 1 to 5 of 6 that are 2 times 3: no loops go over them."""
    lines = [load("x", ROWS), collapse("f", "xl", ROWS, "[[0, 1], [2]]", FLAT), largest("m", "f", FLAT, 1)]
    lines += [cut("a", "m", (6,), (slice(1, 6),)), store("a", "o", (5,))]
    with pytest.raises(
        dfsched.UnsupportedKernel, match=r"error: a reduction is read by the subscript"
    ) as found:
        dfsched.compile(ktir.parse(kernel("xo", *lines)), "sample")
    assert "(d0 + 1) floordiv 3, which is not linear" in str(found.value)


def test_slices_of_too_many_reductions_are_refused() -> None:
    """Each is of the one before it, without its first element."""
    lines, source = [load("x", (30, 2)), largest("m30", "xl", (30, 2), 1)], "m30"
    for size in range(29, 10, -1):
        lines.append(cut(f"a{size}", source, (size + 1,), (slice(1, size + 1),)))
        lines.append(broadcast(f"b{size}", f"a{size}", (size,), (size, 2), 1))
        lines.append(largest(source := f"m{size}", f"b{size}", (size, 2), 1))
    text = kernel("xo", *lines, store(source, "o", (11,)))
    with pytest.raises(
        dfsched.UnsupportedKernel, match="error: slices of more than 16 reductions of each other"
    ):
        dfsched.compile(ktir.parse(text), "sample")


@pytest.mark.sweep(default=1, full=300)
def test_any_chain(cases: int) -> None:
    """Chains of reshapes, slices, reductions and broadcasts: right, or refused at a place."""
    refused: list[str] = []
    for seed in range(cases):
        case = chain(random.Random(seed))
        try:
            agrees(case, ALL_DEVICES[seed % 4], False)
        except dfsched.UnsupportedKernel as error:
            refused.append(str(error))
    assert all(text.startswith("<string>:") for text in refused)
    assert len(refused) < 1 + cases / 4


def chain(rng: random.Random) -> Case:
    """A kernel that reduces what it loads, perhaps more than once."""
    shape: Shape = (rng.choice((2, 3)), rng.choice((4, 6)), rng.choice((5, 65, 67)))
    x = np.random.default_rng(rng.randrange(99)).integers(-40, 40, shape).astype(np.float16)
    lines, value = [load("x", shape)], x
    names = (f"v{number}" for number in range(99))
    source = "xl"
    changes = (collapsed, expanded_by, sliced, reduced)
    for change in (
        *rng.choices(changes, (2, 2, 3, 3), k=3),
        reduced,
        *rng.choices(changes, (3, 2, 3, 1), k=2),
    ):
        name = next(names)
        made = change(rng, name, source, value)
        if made is not None:
            line, value = made
            lines.append(line)
            source = name
    if not value.shape:
        lines.append(expand("last", source, (), "[]", (1,)))
        source, value = "last", value.reshape(1)
    lines.append(store(source, "o", value.shape))
    return kernel("xo", *lines), {"x": x}, {"o": value}


Change = tuple[str, np.ndarray] | None


def collapsed(rng: random.Random, name: str, source: str, value: np.ndarray) -> Change:
    if value.ndim < 2:
        return None
    at = rng.randrange(value.ndim - 1)
    groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d] for d in range(at + 2, value.ndim)]
    made = tuple(math.prod(value.shape[d] for d in group) for group in groups)
    return collapse(name, source, value.shape, str(groups), made), value.reshape(made)


def expanded_by(rng: random.Random, name: str, source: str, value: np.ndarray) -> Change:
    places = [(d, n) for d, extent in enumerate(value.shape) for n in range(1, extent) if extent % n == 0]
    if not places or value.ndim > 3:
        return None
    at, inner = rng.choice(places)
    made = (*value.shape[:at], value.shape[at] // inner, inner, *value.shape[at + 1 :])
    groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d] for d in range(at + 2, len(made))]
    return expand(name, source, value.shape, str(groups), made), value.reshape(made)


def sliced(rng: random.Random, name: str, source: str, value: np.ndarray) -> Change:
    if not value.shape:
        return None
    parts = []
    for extent in value.shape:
        start, step = rng.choice((0, 0, min(2, extent - 1))), rng.choice((1, 1, 2))
        size = rng.randint(1, (extent - start - 1) // step + 1)
        whole = rng.random() < 0.5
        parts.append(slice(0, extent) if whole else slice(start, start + (size - 1) * step + 1, step))
    return cut(name, source, value.shape, tuple(parts)), value[tuple(parts)]


def reduced(rng: random.Random, name: str, source: str, value: np.ndarray) -> Change:
    if not value.shape:
        return None
    dim = rng.randrange(value.ndim)
    return largest(name, source, value.shape, dim), value.max(axis=dim, initial=np.float16(-50))
