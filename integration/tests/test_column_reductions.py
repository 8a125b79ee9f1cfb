"""Reductions in pieces whose results are used again: means over rows, over several dimensions, over everything."""

from __future__ import annotations

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from repository import ROOT

QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")


def dims(count: int) -> str:
    return ", ".join(f"d{d}" for d in range(count))


def memory(name: str, shape: tuple[int, ...], element: str) -> str:
    """A view of the whole tensor behind an argument, and the tile that covers it."""
    bounds = ", ".join(f"d{d} >= 0, -d{d} + {extent - 1} >= 0" for d, extent in enumerate(shape)) or "0 == 0"
    box = f"affine_set<({dims(len(shape))}) : ({bounds})>"
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    full = "".join(f"{extent}x" for extent in shape)
    order = f"affine_map<({dims(len(shape))}) -> ({dims(len(shape))})>"
    return (
        f"%{name}v = ktdp.construct_memory_view %{name}, sizes: {list(shape)}, strides: {strides} "
        f"{{coordinate_set = {box}, memory_space = #ktdp.memory_space<global>}} : memref<{full}{element}>\n"
        f"%{name}t = ktdp.construct_access_tile %{name}v[{', '.join(['%c0'] * len(shape))}] "
        f"{{access_tile_set = {box}, access_tile_order = {order}}} "
        f": memref<{full}{element}> -> !ktdp.access_tile<{full}index>\n"
    )


def half_of(shape: tuple[int, ...], over: tuple[int, ...], op: str = "addf", element: str = "f16") -> str:
    """y = 0.5 * (y op every x along some dimensions)."""
    kept = tuple(extent for d, extent in enumerate(shape) if d not in over)
    full, part = "".join(f"{n}x" for n in shape), "".join(f"{n}x" for n in kept)
    return (
        "func.func @k(%x: index, %y: index) attributes {grid = [1]} {\n%c0 = arith.constant 0 : index\n"
        + memory("x", shape, element)
        + memory("y", kept, element)
        + f"%a = ktdp.load %xt : <{full}index> -> tensor<{full}{element}>\n"
        f"%i = ktdp.load %yt : <{part}index> -> tensor<{part}{element}>\n"
        f"%r = linalg.reduce {{ arith.{op} }} ins(%a : tensor<{full}{element}>) "
        f"outs(%i : tensor<{part}{element}>) dimensions = {list(over)}\n"
        f"%h = arith.constant dense<0.5> : tensor<{part}{element}>\n"
        f"%m = arith.mulf %r, %h : tensor<{part}{element}>\n"
        f"ktdp.store %m, %yt : tensor<{part}{element}>, <{part}index>\nreturn\n}}"
    )


@pytest.mark.parametrize(
    ("shape", "over", "op", "element", "chunks"),
    [
        ((12, 64), (0,), "addf", "f16", "4"),
        ((13, 40), (0,), "maximumf", "f32", "13"),
        ((4, 6, 64), (0, 1), "addf", "f16", "4,3"),
        ((8, 6, 40), (0,), "addf", "f16", "2"),
        ((8, 64), (0, 1), "addf", "f32", "8,2"),
    ],
)
def test_pieces_of_results_that_are_used_again(
    shape: tuple[int, ...], over: tuple[int, ...], op: str, element: str, chunks: str
) -> None:
    """Every level gives what the kernel means, on all devices; ragged extents, rank 0, a loaded initial value."""
    module = ktir.parse(half_of(shape, over, op, element))
    options = dfsched.Options(settings={"reduction-dim-chunking.num-chunks": chunks})
    for device in ("spyre", "sample", QUAD):
        (found,) = spyresim.verify(module, device, options=options)
        assert found.ok, found.first


@pytest.mark.parametrize(
    ("shape", "over"), [((32767, 64), (0,)), ((512, 64, 64), (0, 1)), ((4096, 1024), (0, 1))]
)
def test_more_than_a_scratchpad_holds(shape: tuple[int, ...], over: tuple[int, ...]) -> None:
    """Operands of 4 and 8 MiB on one core."""
    for device in ("spyre", "sample"):
        dfsched.compile(ktir.parse(half_of(shape, over)), device)
