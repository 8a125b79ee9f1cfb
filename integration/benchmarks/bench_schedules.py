"""How good schedules are: simulated cycles against what memory allows, and the time that compiling takes.

``./nox -s bench`` times each compilation and prints cycles, the share of the bound (see `bound`), and for
one core the same kernel with single buffers, and with the choices of the first published version (tiles of
2, single buffers), in the same simulator.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dfsched
import ktir
from ktir.interface import Role
from spyresim import run_dataflow
from spyresim.engine import Options

FIRST_VERSION = {"tile_sizes": 2, "buffer_depths": 1, "instances": 1, "instance_loop": 0}


def kernel(rows: int, columns: int, grid: int, inputs: str, body: str) -> str:
    """`body` computes %z from %a, %b, ...; every tile of the grid takes a block of rows."""
    own = rows // grid

    def box(height: int) -> str:
        return f"affine_set<(r, c) : (r >= 0, -r + {height - 1} >= 0, c >= 0, -c + {columns - 1} >= 0)>"

    names = [*inputs, "o"]
    tile, whole = f"{own}x{columns}", f"{rows}x{columns}"
    lines = [
        f"func.func @k({', '.join(f'%p{n}: index' for n in names)}) attributes {{grid = [{grid}]}} {{",
        f"%c0 = arith.constant 0 : index\n%own = arith.constant {own} : index",
        "%t = ktdp.get_compute_tile_id : index\n%r = arith.muli %t, %own : index",
    ]
    for n in names:
        lines += [
            f"%v{n} = ktdp.construct_memory_view %p{n}, sizes: [{rows}, {columns}], strides: [{columns}, 1] "
            f"{{coordinate_set = {box(rows)}, memory_space = #ktdp.memory_space<global>}} : "
            f"memref<{whole}xf16>",
            f"%t{n} = ktdp.construct_access_tile %v{n}[%r, %c0] {{access_tile_set = {box(own)}, "
            f"access_tile_order = affine_map<(r, c) -> (r, c)>}} : memref<{whole}xf16> -> "
            f"!ktdp.access_tile<{tile}xindex>",
        ]
    lines += [f"%{n} = ktdp.load %t{n} : <{tile}xindex> -> tensor<{tile}xf16>" for n in inputs]
    lines += [body.replace("TILE", f"tensor<{tile}xf16>").replace("ROWS", f"tensor<{own}xf16>")]
    lines += [f"ktdp.store %z, %to : tensor<{tile}xf16>, <{tile}xindex>", "return", "}"]
    return "\n".join(lines)


ADD = "%z = arith.addf %a, %b : TILE"
CHAIN = """%w = arith.mulf %a, %b : TILE
%x = arith.addf %w, %c : TILE
%y = arith.subf %x, %d : TILE
%u = arith.maximumf %y, %e : TILE
%z = arith.addf %u, %f : TILE"""
SOFTMAX = """%low = arith.constant 0xFC00 : f16
%zero = arith.constant 0.0 : f16
%lows = tensor.splat %low : ROWS
%zeros = tensor.splat %zero : ROWS
%empty = tensor.empty() : TILE
%m = linalg.reduce ins(%a : TILE) outs(%lows : ROWS) dimensions = [1] (%in: f16, %acc: f16) {
  %g = arith.maximumf %in, %acc : f16
  linalg.yield %g : f16
}
%mb = linalg.broadcast ins(%m : ROWS) outs(%empty : TILE) dimensions = [1]
%d = arith.subf %a, %mb : TILE
%x = math.exp %d : TILE
%s = linalg.reduce ins(%x : TILE) outs(%zeros : ROWS) dimensions = [1] (%in: f16, %acc: f16) {
  %g = arith.addf %in, %acc : f16
  linalg.yield %g : f16
}
%sb = linalg.broadcast ins(%s : ROWS) outs(%empty : TILE) dimensions = [1]
%z = arith.divf %x, %sb : TILE"""

KERNELS = {
    "add": ("ab", ADD),
    "chain of 5": ("abcdef", CHAIN),
    "softmax": ("a", SOFTMAX),
}
CASES = [
    ("add", 4096, 1024, 32, 0.85),
    ("chain of 5", 4096, 1024, 32, 0.85),
    ("softmax", 4096, 1024, 32, 0.85),
    ("add", 128, 1024, 1, 0.7),
    ("chain of 5", 128, 1024, 1, 0.7),
]


def bound(made: dfsched.Compiled, rows: int, columns: int, grid: int, inputs: int) -> int:
    """Cycles that memory takes at least: the slowest of device memory, its links, the ports of scratchpads.

    One core's link to device memory moves its inputs, one link its output; a corelet's load unit takes the
    inputs through one port, its store unit the output.
    """
    device = made.architecture
    memory = device.device_memory
    assert memory is not None
    assert memory.bandwidth is not None
    size = rows * columns * 2
    pair = 2  # corelets
    times = [
        (inputs + 1) * size / memory.bandwidth,
        inputs * size / grid / 128,
        inputs * size / grid / pair / 128,
    ]
    return math.ceil(max(times))


def simulated(made: dfsched.Compiled) -> Any:
    """The engine's report of one run on random arguments."""
    rng = np.random.default_rng(3)
    arguments: dict[str, Any] = {}
    for argument in ktir.signature(made.source, made.kernel):
        if argument.role is not Role.OUTPUT:
            assert argument.layout is not None
            arguments[argument.name] = rng.normal(size=argument.layout.shape).astype(argument.dtype)
    return run_dataflow(made, arguments, options=Options(races=False)).report.details.report


def cycles(made: dfsched.Compiled) -> int:
    return int(simulated(made).cycles)


def imbalance(report: Any) -> float:
    """The busiest compute unit's time over that of the least busy one."""
    busy = [unit.busy for unit in report.units if unit.kind == "SFP"]
    return float(max(busy) / min(busy))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}x{case[2]} on {case[3]}")
def bench_kernel(
    benchmark: Any, case: tuple[str, int, int, int, float], capsys: pytest.CaptureFixture[str]
) -> None:
    """KTIR to SpyreCode is what is timed; the table has the simulated cycles."""
    name, rows, columns, grid, wanted = case
    inputs, body = KERNELS[name]
    module = ktir.parse(kernel(rows, columns, grid, inputs, body))
    made = benchmark.pedantic(lambda: dfsched.compile(module, "spyre"), rounds=3, warmup_rounds=1)
    report = simulated(made)
    least, taken = bound(made, rows, columns, grid, len(inputs)), int(report.cycles)
    text = (
        f"{name:10} {rows:5}x{columns} on {grid:2}: {taken:7} cycles, {100 * least / taken:5.1f} % of bound"
    )
    if name != "softmax" and grid == 1:
        single = cycles(dfsched.compile(module, "spyre", dfsched.Options(pins={"buffer_depths": 1})))
        first = cycles(dfsched.compile(module, "spyre", dfsched.Options(pins=FIRST_VERSION)))
        text += f"; single buffers {single / taken:.2f} x, choices of the first version {first / taken:.2f} x"
        assert single >= 1.25 * taken
        assert imbalance(report) <= 1.1
    with capsys.disabled():
        print(f"\n{text}")
    assert least >= wanted * taken
