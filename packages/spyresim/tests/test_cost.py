"""Counters of every tile, and the cost of profile ``sim`` (planning spec 7.2, device spec 5.2)."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import ktir
from ktir.builder import Kernel
from ktir.machine import Machine
from spyresim import UnsupportedError, run_ktir
from spyresim.cost import PROFILES, Bottleneck, TileCost, profile_of
from spyresim.report import Report
from spyresim.testing import text as k


def run(module: ktir.Module, machine: Machine | None = None, **args: Any) -> Report:
    ktir.verify(module)
    return run_ktir(module, args=args, machine=machine).report


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float16)


def test_ridge() -> None:
    """planning checklist 74: 256 operations a byte for profile sim."""
    assert profile_of("sim").ridge == 256
    assert PROFILES["sim"].name == "sim"
    with pytest.raises(UnsupportedError, match="cost profile 'moon'; profiles: sim"):
        run(one_row(1), Machine(cost_profile="moon"), x=zeros(1, 64))


def one_row(tiles: int, width: int = 64, step: int = 1) -> ktir.Module:
    """Every tile loads a row of `width`, every `step`-th element, and stores it elsewhere."""
    kernel = Kernel("rows", grid=(tiles,))
    x = kernel.view(kernel.pointer("x"), (tiles, width), "f16")
    y = kernel.view(kernel.pointer("y"), (tiles, width // step), "f16")
    (tile,) = kernel.tile_id()
    y[tile : tile + 1].store(x[tile : tile + 1, slice(0, width, step)].load())
    return kernel.build()


class TestTraffic:
    def test_raw_bytes_and_whole_sticks(self) -> None:
        """Every eighth of 512 elements: 128 bytes of elements, but all 8 sticks that they lie in."""
        work = run(one_row(3, 512, 8), x=zeros(3, 512)).work
        assert work is not None
        document: Any = work.to_json()
        assert document["bytes_read"] == {"device memory": [128] * 3}
        assert document["stick_bytes_read"] == {"device memory": [1024] * 3}
        assert document["bytes_written"] == document["stick_bytes_written"] == {"device memory": [128] * 3}
        assert document["operations"]["ktdp.load"] == [1, 1, 1]

    def test_rows_that_share_sticks(self) -> None:
        """Rows of 20 elements begin anywhere in a stick: 40 bytes that lie in one stick or in two."""
        work = run(one_row(8, 20), x=zeros(8, 20)).work
        assert work is not None
        sticks: Any = work.to_json()["stick_bytes_read"]
        expected = [128 * ((40 * t + 39) // 128 - 40 * t // 128 + 1) for t in range(8)]
        assert sticks == {"device memory": expected}

    def test_each_access_counts(self) -> None:
        """The same row twice is charged twice; one that all tiles load is charged to each."""
        kernel = Kernel("shared", grid=(4,))
        x, y = (kernel.view(kernel.pointer(n), (4, 64), "f16") for n in "xy")
        (tile,) = kernel.tile_id()
        y[tile : tile + 1].store(x[0:1].load() + x[0:1].load())
        work = run(kernel.build(), x=zeros(4, 64)).work
        assert work is not None
        document: Any = work.to_json()
        assert document["stick_bytes_read"] == {"device memory": [256] * 4}
        assert document["flops"] == {"vector": [64] * 4}

    def test_a_gather_pays_for_its_index_view(self) -> None:
        text = k.function(
            "%p: index, %i: index, %q: index",
            [
                "%c0 = arith.constant 0 : index",
                k.view("v", "p", (9, 64)),
                k.view("t", "i", (4,), "i32"),
                k.view("w", "q", (4, 64)),
                "%g = ktdp.construct_indirect_access_tile intermediate_variables(%r, %l) %v[ind(%t[%r]), (%l)] "
                f"{{variables_space_set = {k.box((4, 64))}, variables_space_order = {k.identity(2)}}} "
                ": memref<9x64xf16>, memref<4xi32> -> !ktdp.access_tile<4x64xindex>",
                k.tile("wt", "w", "%c0, %c0", (4, 64), (4, 64)),
                k.load("x", "g", (4, 64)),
                k.store("x", "wt", (4, 64)),
            ],
        )
        work = run(ktir.parse(text), p=zeros(9, 64), i=np.int32([3, 1, 3, 8])).work
        assert work is not None
        sticks: Any = work.to_json()["stick_bytes_read"]
        assert sticks == {"device memory": [128 + 3 * 128]}, "row 3 twice, but in one access"

    def test_scratchpads_are_free_and_the_ring_is_not(self) -> None:
        """Tile 1 loads what tile 0 has: 128 bytes, 2 cycles of the ring; its own costs nothing."""
        text = k.function(
            "%q: index",
            [
                "%c0 = arith.constant 0 : index",
                "%t = ktdp.get_compute_tile_id : index",
                "%e = arith.constant dense<1.0> : tensor<64xf16>",
                k.view("own", "c0", (64,), "f16", k.LOCAL),
                k.view("first", "c0", (64,), "f16", "#ktdp.memory_space<ct_local, ct_id = 0>"),
                k.tile("ot", "own", "%c0", (64,), (64,)),
                k.tile("ft", "first", "%c0", (64,), (64,)),
                k.store("e", "ot", (64,)),
                k.load("x", "ft", (64,)),
            ],
            [2],
        )
        report = run(ktir.parse(text), q=0)
        assert report.work is not None
        assert report.cost is not None
        document: Any = report.work.to_json()
        assert document["bytes_read"] == {"scratchpad": [128, 0], "scratchpad of another tile": [0, 128]}
        assert report.cost.tiles == (TileCost(0, 0, 0, 0), TileCost(0, 0, 0, 2))
        assert report.cost.bottleneck is Bottleneck.RING


def test_units() -> None:
    """Functions take four steps; a product of five rows takes as long as one of eight."""
    kernel = Kernel("units", grid=(1,))
    x, y, z = (
        kernel.view(kernel.pointer(n), s, "f32") for n, s in (("x", (5, 64)), ("y", (64, 32)), ("z", (5, 32)))
    )
    z[:].store((x[:].load().matmul(y[:].load(), kernel.full((5, 32), 0, "f32")) + 1).exp())
    report = run(kernel.build(), x=np.zeros((5, 64), np.float32), y=np.zeros((64, 32), np.float32))
    assert report.work is not None
    assert report.cost is not None
    assert report.work.to_json()["flops"] == {
        "matrix": [2 * 5 * 64 * 32],
        "transcendental": [160],
        "vector": [160],
    }
    assert report.cost.slowest.matrix == 2 * 8 * 64 * 32 // 1024
    assert report.cost.slowest.vector == 3 + 3 * 4


def test_slowest_tile_and_shared_bandwidth() -> None:
    """Two of four tiles do nothing: the others still have a quarter of the bandwidth each."""
    kernel = Kernel("half", grid=(4,))
    x, y = (kernel.view(kernel.pointer(n), (2, 64), "f16") for n in "xy")
    (tile,) = kernel.tile_id()
    with kernel.loop(tile, 2) as loop:
        y[loop.index : loop.index + 1].store(x[loop.index : loop.index + 1].load())
    report = run(kernel.build(), x=zeros(2, 64))
    assert report.cost is not None
    assert [tile.memory for tile in report.cost.tiles] == [4 * 4, 4 * 2, 0, 0]
    assert report.cycles == 16


def test_report_as_json_and_as_a_table() -> None:
    report = run(one_row(2), x=zeros(2, 64))
    document = json.loads(json.dumps(report.to_json()))
    assert document["cycles"] == document["cost"]["cycles"] == 4
    assert document["cost"]["bottleneck"] == "memory"
    assert document["cost"]["coverage"] == 2 / 32
    assert document["per_tile"]["bytes_read"] == {"device memory": [128, 128]}
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(report.table())
    shown = console.export_text()
    assert "profile sim" in shown
    assert "bottleneck" in shown
    assert "2 of 32" in shown


def test_a_kernel_that_does_nothing() -> None:
    report = run(ktir.parse(k.function("%n: index", [], [2])), n=1)
    assert (report.cycles, report.bottleneck) == (0, "nothing")
    assert report.cost is not None
    assert report.cost.attained is None
    assert report.cost.intensity is None
