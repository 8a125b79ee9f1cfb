"""Communication between tiles (ktir checklist 75, 85, 87 to 89)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ktir
from spyresim import DeadlockFault, run_ktir
from spyresim.testing import text as k

RNG = np.random.default_rng(2)


def outputs(module: Any, p: Any) -> Any:
    """What is in `q` afterwards, the same under every schedule."""
    found = [
        run_ktir(module, args={"p": p}, schedule=s).outputs["q"] for s in ("lockstep", "sequential", "random")
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    return found[0]


def kernel(tiles: int, *middle: str, result: str = "r") -> Any:
    """Every tile loads 32 numbers as `%x` and stores `%result`."""
    lines = [
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c3 = arith.constant 3 : index",
        "%zero = arith.constant dense<0.0> : tensor<1x32xf32>",
        "%t = ktdp.get_compute_tile_id : index",
        k.view("pv", "p", (tiles, 32), "f32"),
        k.view("qv", "q", (tiles, 32), "f32"),
        k.tile("pt", "pv", "%t, %c0", (tiles, 32), (1, 32), "f32"),
        k.tile("qt", "qv", "%t, %c0", (tiles, 32), (1, 32), "f32"),
        k.load("x", "pt", (1, 32), "f32"),
        *middle,
        k.store(result, "qt", (1, 32), "f32"),
    ]
    module = ktir.parse(k.function("%p: index, %q: index", lines, [tiles]))
    ktir.verify(module)
    return module


def future(groups: int) -> str:
    return f"<(tensor<1x32xf32>), groups = affine_set<(g) : (g >= 0, -g + {groups - 1} >= 0)>>"


def produce(name: str, value: str, tiles: str, groups: int) -> str:
    return (
        f"%{name} = ktdp.inter_tile_produce producer_tiles_per_group = {tiles} -> {future(groups)} {{\n"
        f"^bb0(%g{name}: index):\nktdp.yield_partial %{value} : tensor<1x32xf32>\n}}"
    )


def reduce(name: str, source: str, tiles: str, groups: int, op: str = "arith.addf") -> str:
    return (
        f"%{name} = ktdp.inter_tile_reduce(%{source}) consumer_tiles_per_group = {tiles}, "
        f"identity(%zero : tensor<1x32xf32>) : {future(groups)} -> tensor<1x32xf32> {{\n"
        f"^bb0(%a{name}: tensor<1x32xf32>, %b{name}: tensor<1x32xf32>):\n"
        f"%s{name} = {op} %a{name}, %b{name} : tensor<1x32xf32>\n"
        f"ktdp.yield_reduced %s{name} : tensor<1x32xf32>\n}}"
    )


def numbers(tiles: int) -> Any:
    return RNG.normal(size=(tiles, 32)).astype(np.float32)


def fold(rows: Any) -> Any:
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def test_group_maxima() -> None:
    """checklist 75: six tiles, groups of three, the maximum in every tile"""
    triple = "affine_set<(i)[g] : (i - 3 * g >= 0, -i + 3 * g + 2 >= 0)>"
    module = kernel(6, produce("f", "x", triple, 2), reduce("r", "f", triple, 2, "arith.maximumf"))
    p = numbers(6)
    expected = np.repeat(p.reshape(2, 3, 32).max(axis=1), 3, axis=0)
    assert np.array_equal(outputs(module, p), expected)


def test_ring_shift() -> None:
    """checklist 85: every tile gets its right neighbour's tensor"""
    four = "affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>"
    after = "affine_set<(p)[c] : ((p - c - 1) mod 4 == 0, p >= 0, -p + 3 >= 0)>"
    module = kernel(
        4,
        produce("f", "x", four, 1),
        f"%r = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = {four}, "
        f"producer_dependency_per_consumer = {after} : {future(1)} -> tensor<1x32xf32>",
    )
    p = numbers(4)
    assert np.array_equal(outputs(module, p), np.roll(p, -1, axis=0))


def test_strided_groups_fold_from_left_to_right() -> None:
    """checklist 87; ktir spec 5.4: ascending tiles, one rounding a combination"""
    odd_even = "affine_set<(i)[g] : ((i - g) mod 2 == 0, i - g >= 0, -i + g + 6 >= 0)>"
    module = kernel(8, produce("f", "x", odd_even, 2), reduce("r", "f", odd_even, 2))
    p = numbers(8)
    expected = np.stack([fold(p[t % 2 :: 2]) for t in range(8)])
    assert np.array_equal(outputs(module, p), expected)


ALL = "affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>"


def test_reduce_inside_a_loop() -> None:
    """checklist 88: three rounds on four tiles"""
    module = kernel(
        4,
        "%r = scf.for %i = %c0 to %c3 step %c1 iter_args(%v = %x) -> (tensor<1x32xf32>) {",
        produce("f", "v", ALL, 1),
        reduce("s", "f", ALL, 1),
        "scf.yield %s : tensor<1x32xf32>",
        "}",
    )
    p = RNG.integers(-4, 4, (4, 32)).astype(np.float32)
    expected = np.broadcast_to(p.sum(axis=0) * 16, (4, 32))
    assert np.array_equal(outputs(module, p), expected)


@pytest.mark.parametrize("schedule", ["lockstep", "sequential", "random"])
def test_deadlock_under_a_condition_that_differs(schedule: str) -> None:
    """checklist 88"""
    module = kernel(
        4,
        "%odd = arith.cmpi eq, %t, %c1 : index",
        "scf.if %odd {",
        produce("f", "x", ALL, 1),
        reduce("s", "f", ALL, 1),
        "}",
        result="x",
    )
    with pytest.raises(DeadlockFault, match="tile 1 waits for tile 0, which has not produced here") as caught:
        run_ktir(module, args={"p": numbers(4)}, schedule=schedule)
    assert caught.value.waiting == tuple(f"tile 1 waits for tile {p}" for p in (0, 2, 3))


def test_a_delivery_orders_memory() -> None:
    """ktir spec 1.13.7: a hand-over through memory behind a full barrier is in order."""
    module = kernel(
        4,
        k.tile("own", "qv", "%t, %c0", (4, 32), (1, 32), "f32"),
        k.store("x", "own", (1, 32), "f32"),
        produce("f", "x", ALL, 1),
        reduce("s", "f", ALL, 1),
        k.tile("first", "qv", "%c0, %c0", (4, 32), (1, 32), "f32"),
        k.load("y", "first", (1, 32), "f32"),
        produce("f2", "x", ALL, 1),
        reduce("s2", "f2", ALL, 1),
        result="y",
    )
    p = numbers(4)
    result = run_ktir(module, args={"p": p, "q": np.zeros_like(p)}, strict=True)
    assert np.array_equal(result.outputs["q"], np.broadcast_to(p[0], (4, 32)))
