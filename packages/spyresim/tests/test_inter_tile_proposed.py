"""Proposed deliveries against NumPy: split, concatenate, permute (ktir spec 1.13.5)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ktir
from spyresim import ExecutionFault, run_ktir
from spyresim.cli import main
from spyresim.testing import text as k

RNG = np.random.default_rng(11)
CONTEXT = ktir.Context(proposed=True)
TILES, GROUPS, SIZE = 8, 2, 4
SHAPE = (8, 12)
PARTIAL = "tensor<8x12xf32>"
TEAM = f"affine_set<(i)[g] : (i - {SIZE} * g >= 0, -i + {SIZE} * g + {SIZE - 1} >= 0)>"
FIRST = f"affine_set<(i)[g] : (i - {SIZE} * g - 1 == 0)>"
STRIDED = f"affine_set<(i)[g] : ((i - g) mod 2 == 0, i - g >= 0, -i + g + {TILES - 2} >= 0)>"
GROUP_SET = f"affine_set<(g) : (g >= 0, -g + {GROUPS - 1} >= 0)>"
FUTURE = f"<({PARTIAL}), groups = {GROUP_SET}>"


def kernel(delivery: str, result: tuple[int, ...], producers: str = TEAM) -> ktir.Module:
    """Every tile publishes its piece of `p` and stores what it gets to `q`."""
    out = (TILES, *result)
    lines = [
        "%c0 = arith.constant 0 : index",
        f"%zero = arith.constant dense<0.0> : {PARTIAL}",
        "%t = ktdp.get_compute_tile_id : index",
        k.view("pv", "p", (TILES, *SHAPE), "f32"),
        k.view("qv", "q", out, "f32"),
        k.tile("pt", "pv", "%t, %c0, %c0", (TILES, *SHAPE), (1, *SHAPE), "f32"),
        k.tile("qt", "qv", "%t, %c0, %c0", out, (1, *result), "f32"),
        k.load("whole", "pt", (1, *SHAPE), "f32"),
        f"%x = tensor.collapse_shape %whole [[0, 1], [2]] : tensor<1x8x12xf32> into {PARTIAL}",
        f"%f = ktdp.inter_tile_produce producer_tiles_per_group = {producers} -> {FUTURE} {{\n"
        f"^bb0(%g: index):\nktdp.yield_partial %x : {PARTIAL}\n}}",
        delivery,
        f"%y = tensor.expand_shape %r [[0, 1], [2]] output_shape [1, {result[0]}, {result[1]}] : "
        f"tensor<{result[0]}x{result[1]}xf32> into tensor<1x{result[0]}x{result[1]}xf32>",
        k.store("y", "qt", (1, *result), "f32"),
    ]
    module = ktir.parse(k.function("%p: index, %q: index", lines, [TILES]), CONTEXT)
    assert not [d for d in ktir.check(module, "V") if d.severity == "error"]
    return module


def delivery(name: str, axes: str, result: tuple[int, ...], more: str = "", consumers: str = TEAM) -> str:
    return (
        f"%r = ktdp.inter_tile_{name}(%f) consumer_tiles_per_group = {consumers}, {axes}{more} : {FUTURE} -> "
        f"tensor<{result[0]}x{result[1]}xf32>"
    )


def reduce_scatter(axes: str, result: tuple[int, ...], consumers: str = TEAM) -> str:
    made = delivery("reduce_scatter", axes, result, f", identity(%zero : {PARTIAL})", consumers)
    return (
        f"{made} {{\n^bb0(%a: {PARTIAL}, %b: {PARTIAL}):\n%s = arith.addf %a, %b : {PARTIAL}\n"
        f"ktdp.yield_reduced %s : {PARTIAL}\n}}"
    )


def outputs(module: ktir.Module, p: Any) -> Any:
    """What is in `q` afterwards, the same under every schedule."""
    found = [run_ktir(module, args={"p": p}, schedule=s).outputs["q"] for s in ("lockstep", "sequential")]
    assert np.array_equal(found[0], found[1])
    return found[0]


def data() -> Any:
    return RNG.integers(-50, 50, (TILES, *SHAPE)).astype(np.float32)


def teams(strided: bool = False) -> list[list[int]]:
    if strided:
        return [list(range(g, TILES, GROUPS)) for g in range(GROUPS)]
    return [list(range(g * SIZE, g * SIZE + SIZE)) for g in range(GROUPS)]


@pytest.mark.parametrize(
    ("axes", "result"), [([0], (2, 12)), ([1], (8, 3)), ([0, 1], (2, 12))], ids=["rows", "columns", "both"]
)
@pytest.mark.parametrize("strided", [False, True])
def test_reduce_scatter(axes: list[int], result: tuple[int, int], strided: bool) -> None:
    """The sum of the group, cut into four parts; the place in the group decides, not the tile's number."""
    p, expected = data(), np.zeros((TILES, *result), np.float32)
    for team in teams(strided):
        total = p[team].sum(axis=0)
        for place, tile in enumerate(team):
            if axes == [0, 1]:
                expected[tile] = total.reshape(SIZE, -1)[place].reshape(result)
            else:
                expected[tile] = np.split(total, SIZE, axis=axes[0])[place]
    tiles = STRIDED if strided else TEAM
    module = kernel(reduce_scatter(f"scatter_dimensions = {axes}", result, tiles), result, tiles)
    assert np.array_equal(outputs(module, p), expected)


@pytest.mark.parametrize(("axis", "result"), [(0, (32, 12)), (1, (8, 48))])
def test_gather(axis: int, result: tuple[int, int]) -> None:
    """All contributions in ascending order."""
    p, expected = data(), np.zeros((TILES, *result), np.float32)
    for team in teams():
        expected[team] = np.concatenate(list(p[team]), axis=axis)
    module = kernel(delivery("gather", f"gather_dimensions = [{axis}]", result), result)
    assert np.array_equal(outputs(module, p), expected)


def test_gather_from_the_producers_that_a_consumer_names() -> None:
    """Tile 2k and 2k + 1 get each other's contributions."""
    pairs = "affine_set<(p)[c] : ((p floordiv 2) - (c floordiv 2) == 0, p >= 0, -p + 7 >= 0)>"
    p = data()
    more = f", producer_dependency_per_consumer = {pairs}"
    module = kernel(delivery("gather", "gather_dimensions = [0]", (16, 12), more), (16, 12))
    expected = np.stack([np.concatenate([p[t // 2 * 2], p[t // 2 * 2 + 1]]) for t in range(TILES)])
    assert np.array_equal(outputs(module, p), expected)


@pytest.mark.parametrize(
    ("split", "joined", "result"), [(0, 1, (2, 48)), (1, 0, (32, 3)), (0, 0, (8, 12)), (1, 1, (8, 12))]
)
def test_all_to_all(split: int, joined: int, result: tuple[int, int]) -> None:
    """Every consumer's part of every contribution; along one axis a transposition of tiles and parts."""
    p, expected = data(), np.zeros((TILES, *result), np.float32)
    for team in teams():
        for place, tile in enumerate(team):
            parts = [np.split(p[source], SIZE, axis=split)[place] for source in team]
            expected[tile] = np.concatenate(parts, axis=joined)
    axes = f"split_dimensions = [{split}], concat_dimensions = [{joined}]"
    module = kernel(delivery("all_to_all", axes, result), result)
    assert np.array_equal(outputs(module, p), expected)


def test_scatter() -> None:
    """Tile 1 of each group hands out its rows."""
    p, expected = data(), np.zeros((TILES, 2, 12), np.float32)
    for team in teams():
        expected[team] = np.split(p[team[1]], SIZE)
    module = kernel(delivery("scatter", "scatter_dimensions = [0]", (2, 12)), (2, 12), FIRST)
    assert np.array_equal(outputs(module, p), expected)


def test_scatter_needs_one_producer() -> None:
    module = kernel(delivery("scatter", "scatter_dimensions = [0]", (2, 12)), (2, 12))
    with pytest.raises(
        ExecutionFault, match="depends on 4 producers; inter_tile_scatter divides the contribution"
    ):
        run_ktir(module, args={"p": data()})


def test_parts_must_fit() -> None:
    """What the types promise is what is delivered."""
    three = f"affine_set<(i)[g] : (i - {SIZE} * g >= 0, -i + {SIZE} * g + 2 >= 0)>"
    module = kernel(reduce_scatter("scatter_dimensions = [0]", (2, 12), three), (2, 12))
    with pytest.raises(ExecutionFault, match=r"extent 8 along axes \[0\] is not divisible by 3 consumers"):
        run_ktir(module, args={"p": data()})
    module = kernel(delivery("gather", "gather_dimensions = [0]", (16, 12)), (16, 12))
    with pytest.raises(ExecutionFault, match=r"32 elements along axes \[0\] do not fill the result"):
        run_ktir(module, args={"p": data()})


def test_reduce_scatter_then_gather_is_reduce() -> None:
    """The two halves of an all-reduce."""
    p = data()
    total = np.zeros_like(p)
    for team in teams():
        total[team] = p[team].sum(axis=0)
    scattered = outputs(kernel(reduce_scatter("scatter_dimensions = [0]", (2, 12)), (2, 12)), p)
    joined = np.zeros_like(p)
    for team in teams():
        joined[team] = np.concatenate(list(scattered[team]))
    assert np.array_equal(joined, total)
    assert math.prod(scattered.shape) * SIZE == math.prod(p.shape)


def test_command_line(tmp_path: Path) -> None:
    """``spyresim run --proposed`` takes files with them; without, the message says how."""
    module = kernel(delivery("gather", "gather_dimensions = [0]", (32, 12)), (32, 12))
    (tmp_path / "k.mlir").write_text(ktir.print_module(module))
    p = data()
    np.save(tmp_path / "p.npy", p)
    call = [
        "run",
        str(tmp_path / "k.mlir"),
        "-a",
        f"p=@{tmp_path / 'p.npy'}",
        "--save",
        f"q={tmp_path / 'q.npy'}",
    ]
    refused = CliRunner().invoke(main, call)
    assert refused.exit_code == 1
    assert "--proposed" in refused.stderr
    done = CliRunner().invoke(main, [*call, "--proposed"])
    assert done.exit_code == 0, done.output
    assert np.array_equal(np.load(tmp_path / "q.npy"), outputs(module, p))
    assert CliRunner().invoke(main, [*call, "--proposed", "--level", "device"]).exit_code == 2
