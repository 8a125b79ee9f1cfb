"""How good schedules are: simulated cycles against what memory allows, and the time that compiling takes.

``./nox -s bench`` times each compilation and prints cycles, the share of the bound (see `bound`), and beside
them the same kernel with single buffers, and with the choices of the first published version (tiles of 2,
single buffers, one instance), in the same simulator.
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
    """`body` computes %z from %a, %b, ...; every tile of the grid takes a block of rows.

    %z of `ROW_SUMS` has one element for each row.
    """
    reduces = body == ROW_SUMS
    own = rows // grid
    arguments = ", ".join(f"%p{n}: index" for n in [*inputs, "o"])
    lines = [
        f"func.func @k({arguments}) attributes {{grid = [{grid}]}} {{",
        f"%c0 = arith.constant 0 : index\n%own = arith.constant {own} : index",
        "%t = ktdp.get_compute_tile_id : index\n%r = arith.muli %t, %own : index",
    ]
    for n in inputs:
        lines += access(n, (rows, columns), own)
    lines += access("o", (rows,) if reduces else (rows, columns), own)
    tile = f"{own}x{columns}"
    result = str(own) if reduces else tile
    lines += [f"%{n} = ktdp.load %t{n} : <{tile}xindex> -> tensor<{tile}xf16>" for n in inputs]
    lines += [body.replace("TILE", f"tensor<{tile}xf16>").replace("ROWS", f"tensor<{own}xf16>")]
    lines += [f"ktdp.store %z, %to : tensor<{result}xf16>, <{result}xindex>", "return", "}"]
    return "\n".join(lines)


def access(name: str, shape: tuple[int, ...], own: int) -> list[str]:
    """A view of an argument, and the access tile of the `own` rows from %r on."""

    def box(extents: tuple[int, ...]) -> str:
        bounds = (f"{d} >= 0, -{d} + {n - 1} >= 0" for d, n in zip("rc", extents, strict=False))
        return f"affine_set<({dims}) : ({', '.join(bounds)})>"

    dims = ", ".join("rc"[: len(shape)])
    whole = "x".join(map(str, shape))
    tile = "x".join(map(str, (own, *shape[1:])))
    sizes, strides = list(shape), [*shape[1:], 1]
    start = ", ".join(("%r", "%c0")[: len(shape)])
    return [
        f"%v{name} = ktdp.construct_memory_view %p{name}, sizes: {sizes}, strides: {strides} "
        f"{{coordinate_set = {box(shape)}, memory_space = #ktdp.memory_space<global>}} : memref<{whole}xf16>",
        f"%t{name} = ktdp.construct_access_tile %v{name}[{start}] "
        f"{{access_tile_set = {box((own, *shape[1:]))}, "
        f"access_tile_order = affine_map<({dims}) -> ({dims})>}} : memref<{whole}xf16> -> "
        f"!ktdp.access_tile<{tile}xindex>",
    ]


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

ROW_SUMS = """%zero = arith.constant 0.0 : f16
%zeros = tensor.splat %zero : ROWS
%z = linalg.reduce ins(%a : TILE) outs(%zeros : ROWS) dimensions = [1] (%in: f16, %acc: f16) {
  %g = arith.addf %in, %acc : f16
  linalg.yield %g : f16
}"""

KERNELS = {
    "add": ("ab", ADD),
    "chain of 5": ("abcdef", CHAIN),
    "softmax": ("a", SOFTMAX),
    "row sums": ("a", ROW_SUMS),
}
CASES = [
    ("add", 4096, 1024, 32, 0.85),
    ("chain of 5", 4096, 1024, 32, 0.85),
    ("softmax", 4096, 1024, 32, 0.85),
    ("row sums", 4096, 1024, 32, 0.85),
    ("add", 128, 1024, 1, 0.7),
    ("chain of 5", 128, 1024, 1, 0.7),
]


def bound(made: dfsched.Compiled, rows: int, columns: int, grid: int, inputs: int, outputs: int) -> int:
    """Cycles that memory takes at least: the slowest of device memory, its links, the ports of scratchpads.

    One core's link to device memory moves its inputs, one link its output; a corelet's load unit takes the
    inputs through one port, its store unit the output. `outputs`: stored elements.
    """
    device = made.architecture
    memory = device.device_memory
    assert memory is not None
    assert memory.bandwidth is not None
    size = rows * columns * 2
    pair = 2  # corelets
    times = [
        (inputs * size + outputs * 2) / memory.bandwidth,
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


def cycles(module: ktir.ir.Operation, **pins: int) -> int:
    """Simulated cycles of a kernel with some choices made by hand."""
    made = dfsched.compile(module, "spyre", dfsched.Options(pins=pins))
    return int(run_dataflow(made, {}, options=Options(time_only=True)).report.details.report.cycles)


def imbalance(report: Any) -> float:
    """The busiest compute unit's time over that of the least busy one."""
    busy = [unit.busy for unit in report.units if unit.kind == "SFP"]
    return float(max(busy) / min(busy))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}x{case[2]} on {case[3]}")
def test_kernel(
    benchmark: Any, case: tuple[str, int, int, int, float], capsys: pytest.CaptureFixture[str]
) -> None:
    """KTIR to SpyreCode is what is timed; the table has the simulated cycles."""
    name, rows, columns, grid, wanted = case
    inputs, body = KERNELS[name]
    module = ktir.parse(kernel(rows, columns, grid, inputs, body))
    made = benchmark.pedantic(lambda: dfsched.compile(module, "spyre"), rounds=3, warmup_rounds=1)
    report = simulated(made)
    outputs = rows if body == ROW_SUMS else rows * columns
    least, taken = bound(made, rows, columns, grid, len(inputs), outputs), int(report.cycles)
    single, first = cycles(module, buffer_depths=1), cycles(module, **FIRST_VERSION)
    with capsys.disabled():
        print(
            f"\n{name:10} {rows:5}x{columns} on {grid:2}: {taken:7} cycles, "
            f"{100 * least / taken:5.1f} % of bound; single buffers {single / taken:.2f} x, "
            f"choices of the first version {first / taken:.2f} x"
        )
    if grid == 1:
        assert single >= 1.25 * taken
        assert imbalance(report) <= 1.1
    assert least >= wanted * taken
