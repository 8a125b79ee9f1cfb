"""Schedules by hand and by rule: the same bytes at every level, and the cycles that they are for (issue 4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from levels import assert_same, random_arguments

import dfsched
import ktir
from dfsched import policies
from dfsched.dialects.agen import CompositeLoadAndStore
from dfsched.dialects.dataflow import GetUnit, ProgramUnit
from dfsched.dialects.ktdf import Parallel, Pipeline
from dfsched.dialects.ktdf_lowering import Await, Signal
from dfsched.dialects.uniform import DefImmutableMapping, QueryMap
from dfsched.passes.select_plan import program_facts
from dfsched.tapering import Part, makespan
from ktir.analysis import DefUse
from ktir.dialects import func, scf
from ktir.ir import Value, symbol_name
from spyresim import run_dataflow, run_device, run_ktir
from spyresim.dataflow_level import prepare_dataflow
from spyresim.engine import Options
from spyresim.testing.compute_kernels import SOFTMAX, chain, reduction, row_kernel

DEVICES = ("spyre", "sample")

Arrays = Mapping[str, Any]


def box(shape: tuple[int, ...]) -> str:
    names = ", ".join(f"d{d}" for d in range(len(shape)))
    rules = ", ".join(f"d{d} >= 0, -d{d} + {n - 1} >= 0" for d, n in enumerate(shape))
    return f"affine_set<({names}) : ({rules})>"


def kernel(shape: tuple[int, ...], body: str, inputs: str = "ab", grid: int = 1, loop: int = 1) -> str:
    """`body` computes %z from %a, %b, ... of `shape`; `grid` tiles and a loop of `loop` trips take blocks of rows."""
    names = [*inputs, "o"]
    whole = (shape[0] * grid * loop, *shape[1:])
    dims, all = "x".join(map(str, shape)), "x".join(map(str, whole))
    strides = [int(np.prod(whole[d + 1 :])) for d in range(len(whole))]
    order = ", ".join(f"d{d}" for d in range(len(shape)))
    start = ", ".join(["%r", *["%c0"] * (len(shape) - 1)])
    text = [
        f"func.func @k({', '.join(f'%p{n}: index' for n in names)}) attributes {{grid = [{grid}]}} {{",
        f"%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%trips = arith.constant {loop} : index",
        f"%rows = arith.constant {shape[0]} : index\n%t = ktdp.get_compute_tile_id : index",
        "%first = arith.muli %t, %trips : index",
        *(
            f"%v{n} = ktdp.construct_memory_view %p{n}, sizes: {list(whole)}, strides: {strides} {{coordinate_set = "
            f"{box(whole)}, memory_space = #ktdp.memory_space<global>}} : memref<{all}xf16>"
            for n in names
        ),
        "scf.for %l = %c0 to %trips step %c1 {",
        "%n = arith.addi %first, %l : index\n%r = arith.muli %n, %rows : index",
        *(
            f"%t{n} = ktdp.construct_access_tile %v{n}[{start}] {{access_tile_set = {box(shape)}, access_tile_order = "
            f"affine_map<({order}) -> ({order})>}} : memref<{all}xf16> -> !ktdp.access_tile<{dims}xindex>"
            for n in names
        ),
        *(f"%{n} = ktdp.load %t{n} : <{dims}xindex> -> tensor<{dims}xf16>" for n in inputs),
        body.replace("T", f"tensor<{dims}xf16>"),
        f"ktdp.store %z, %to : tensor<{dims}xf16>, <{dims}xindex>\n}}\nreturn\n}}",
    ]
    return "\n".join(text)


ADD = "%z = arith.addf %a, %b : T"
CHAIN = (
    "%w = arith.mulf %a, %b : T\n%x = arith.addf %w, %c : T\n%y = arith.subf %x, %d : T\n"
    "%u = arith.maximumf %y, %a : T\n%z = arith.mulf %u, %c : T"
)


def compiled(text: str, device: str | dfsched.Architecture = "spyre", **pins: object) -> dfsched.Compiled:
    return dfsched.compile(ktir.parse(text), device, dfsched.Options(pins=pins))


def expected(made: dfsched.Compiled, arguments: Arrays) -> Arrays:
    return run_ktir(made.source, made.kernel, arguments, made.architecture.machine()).outputs


def right_in_every_order(
    made: dfsched.Compiled, arguments: Arrays, wanted: Arrays, seeds: Sequence[int | None], what: str = ""
) -> None:
    """The DataflowIR gives what is wanted, whichever ready unit goes first."""
    prepared = prepare_dataflow(made, arguments)
    for seed in seeds:
        outputs = prepared.run(Options(seed=seed)).outputs
        assert_same(outputs, wanted, f"{what}DataflowIR, order {seed}")


def cycles(made: dfsched.Compiled, **options: Any) -> int:
    """Simulated cycles; the result must be right."""
    arguments = random_arguments(made.source, 5)
    result = run_dataflow(made, arguments, options=Options(**options))
    assert_same(result.outputs, expected(made, arguments), "DataflowIR")
    assert result.report.cycles is not None
    return int(result.report.cycles)


PLANS: list[dict[str, object]] = [
    {},
    {"tile_sizes": (3, 2)},
    {"tile_sizes": (3, 3), "buffer_depths": 1},
    {"tile_sizes": (2, 5), "buffer_depths": 3},
    {"tile_sizes": (5, 1), "buffer_depths": (1, 2, 4)},
    {"tile_sizes": (4, 2), "loop_order": (1, 0)},
    {"tile_sizes": (3, 2), "instances": 1},
    {"tile_sizes": (3, 3), "instance_loop": 1},
    {"tile_sizes": (4, 2), "sunk_loops": 1},
    {"parts": (4, 3), "part_sizes": (3, 2), "tile_sizes": (3, 2)},
    {"parts": (1, 5, 1), "part_sizes": (4, 2, 1), "buffer_depths": 3},
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", range(len(PLANS)))
def test_plans(number: int, device: str) -> None:
    """Tiles that do not divide, every depth, one and two instances; units in any order; image and text."""
    made = compiled(kernel((7, 320), ADD, grid=2), device, **PLANS[number])
    arguments = random_arguments(made.source, number)
    wanted = expected(made, arguments)
    right_in_every_order(made, arguments, wanted, (None, 0, 1, 2))
    assert_same(run_device(made.spyrecode, arguments, device=device).outputs, wanted, "device")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pins", [{}, {"tile_sizes": (2, 1)}, {"tile_sizes": (3, 2), "buffer_depths": 3}])
@pytest.mark.parametrize("columns", [128, 100])
def test_loops_of_the_kernel_around_tiles(columns: int, pins: dict[str, object], device: str) -> None:
    """A phase that starts over, or goes on, with every iteration of a loop around it overwrites nothing too early."""
    made = compiled(kernel((5, columns), ADD, grid=2, loop=3), device, **pins)
    arguments = random_arguments(made.source, 3)
    wanted = expected(made, arguments)
    right_in_every_order(made, arguments, wanted, (None, 0, 1, 2))


TWO_RESULTS = """%none = arith.constant dense<0.0> : tensor<6xf16>
%z = arith.mulf %a, %a : T
%m = linalg.reduce { arith.maximumf } ins(%z : T) outs(%none : tensor<6xf16>) dimensions = [1]
%vm = ktdp.construct_memory_view %pn, sizes: [6], strides: [1] {coordinate_set = BOX, memory_space = #ktdp.memory_space<global>} : memref<6xf16>
%tm = ktdp.construct_access_tile %vm[%c0] {access_tile_set = BOX, access_tile_order = affine_map<(d0) -> (d0)>} : memref<6xf16> -> !ktdp.access_tile<6xindex>
ktdp.store %m, %tm : tensor<6xf16>, <6xindex>""".replace("BOX", box((6,)))


@pytest.mark.parametrize("depths", list(itertools.product((1, 2, 3), repeat=2)))
def test_buffers_of_different_depth_between_the_same_units(depths: tuple[int, int]) -> None:
    """Two results of one computation, each with its own number of copies: the smaller one limits how far ahead."""
    text = kernel((6, 127), TWO_RESULTS, "a").replace("%po: index", "%po: index, %pn: index")
    made = compiled(text, tile_sizes=1, buffer_depths=(2, *depths), instances=1)
    arguments = random_arguments(made.source, 4)
    wanted = expected(made, arguments)
    right_in_every_order(made, arguments, wanted, (None, 1))


def test_tiles_overlap() -> None:
    """Two copies of the buffers are at least 1.25 times faster than one, at the same tiles; and the tiles of the
    plan, which get smaller, are faster than equal ones.
    """
    text = kernel((64, 512), ADD)
    sizes = {"tile_sizes": (13, 8)}
    equal = cycles(compiled(text, **sizes))
    assert cycles(compiled(text, **sizes, buffer_depths=1)) >= 1.25 * equal
    assert equal > 1.03 * cycles(compiled(text))


def test_the_policy_knows_the_time_of_tiles() -> None:
    """On one core of `spyre` the estimate for tiles of any sizes is what the simulator takes, within 2 %."""
    text = kernel((64, 512), ADD)
    made = compiled(text)
    (program,) = (op for op in _program(made).operations if isinstance(op, func.Func))
    facts = program_facts(program, lanes=64)
    assert facts.nests[0].trips == (64, 8)
    estimate = policies.Estimate.of(facts.nests[0], facts, made.architecture)
    for parts in ((34, 20, 10), (24, 20, 20), (40, 24), (64,)):
        sizes = tuple(-(-part * 3 // 5) // 2 * 2 for part in parts)
        found = cycles(compiled(text, parts=parts, part_sizes=sizes), races=False)
        tiles = [size for part, first in zip(parts, sizes, strict=True) for size in Part(part, first).tiles]
        wanted = makespan(tiles, lambda size: estimate.times((size, 8)), len(tiles)) / policies.TICKS
        assert abs(found - wanted) <= 0.02 * found, (parts, sizes)


def _program(made: dfsched.Compiled) -> ktir.Module:
    """The program behind the pass in front of `select-plan`."""
    names = [result.name for result in made.passes]
    module = made.passes[names.index("select-plan") - 1].module
    return next(op for op in module.operations if isinstance(op, ktir.Module) and symbol_name(op) is not None)


EXP = "%x = math.exp %a : T\n%y = math.exp %x : T\n%z = math.exp %y : T"


def test_three_copies_hide_what_two_do_not(tmp_path: Path) -> None:
    """With a latency of 1,000 cycles and tiles of different sizes, a load unit that runs two tiles ahead is
    faster than one that waits for the computation of every tile.
    """
    text = files("dfsched").joinpath("devices/spyre.mlir").read_text(encoding="utf-8")
    slow = tmp_path / "slow.mlir"
    slow.write_text(text.replace("ktdf_ext.latency = 100", "ktdf_ext.latency = 1000"))
    device = dfsched.load_architecture(slow)
    made = [
        compiled(kernel((256, 320), EXP, "a"), device, tile_sizes=(64, 4), buffer_depths=depth)
        for depth in (2, 3)
    ]
    two, three = (cycles(one, races=False) for one in made)
    assert two > 1.03 * three


@pytest.mark.sweep(default=4, full=150)
def test_credits_of_random_plans(cases: int) -> None:
    """Depths from 3 on, tiles that do or do not divide, more copies than tiles, loops around: races are faults."""
    rng = np.random.default_rng(17)
    awaited = 0
    for number in range(cases):
        rows, columns = (int(n) for n in rng.integers(1, 9, 2))
        text = kernel((rows, 64 * columns), ADD, grid=int(rng.integers(1, 3)), loop=int(rng.integers(1, 4)))
        depths = tuple(int(n) for n in rng.integers(3, 6, 3))
        sizes = tuple(int(n) for n in rng.integers(1, 4, 2))
        made = compiled(text, DEVICES[number % 2], tile_sizes=sizes, buffer_depths=depths)
        awaited += sum(isinstance(op, Await) for result in made.passes for op in result.module.walk())
        arguments = random_arguments(made.source, number)
        wanted = expected(made, arguments)
        right_in_every_order(made, arguments, wanted, (None, 0, 1), f"{text} {sizes} {depths} ")
    assert awaited >= 2 * cases


def in_place(shape: tuple[int, ...], loop: int, load: int, store: int, grid: int = 1) -> str:
    """``a = a + b`` by blocks of rows; blocks are loaded from, and stored to, some rows further down."""
    text = kernel(shape, ADD, grid=grid, loop=loop)
    text = text.replace(", %po: index", "").replace("construct_memory_view %po", "construct_memory_view %pa")
    shifts = [
        f"%d{n} = arith.constant {n} : index\n%r{n} = arith.addi %r, %d{n} : index" for n in {load, store}
    ]
    row = "%r = arith.muli %n, %rows : index"
    text = text.replace(row, "\n".join([row, *shifts]))
    text = text.replace("%va[%r", f"%va[%r{load}").replace("%vo[%r", f"%vo[%r{store}")
    rows = shape[0] * grid * loop
    return (
        text.replace(f"{rows}x", f"{rows + 4}x")
        .replace(f"[{rows},", f"[{rows + 4},")
        .replace(f"-d0 + {rows - 1} >= 0", f"-d0 + {rows + 3} >= 0")
    )


def meetings(made: dfsched.Compiled) -> int:
    """How often the unit that copies out meets the one that copies in."""
    module = next(r.module for r in made.passes if r.name == "ktdf-to-ktdflowering")
    uses = DefUse(module)
    found = 0
    for op in module.walk():
        if isinstance(op, Signal):
            kinds = {mapped_kind(unit, uses) for unit in op.units}
            found += kinds == {"mnilu", "mnisu"}
    return found


def mapped_kind(unit: Value, uses: DefUse) -> str:
    query = uses.definer(unit)
    assert isinstance(query, QueryMap)
    mapping = uses.definer(query.map)
    assert isinstance(mapping, DefImmutableMapping)
    handle = uses.definer(mapping.values[0])
    assert isinstance(handle, GetUnit)
    return handle.kind.value


SMALL, DEEP = {"tile_sizes": (2, 1)}, {"tile_sizes": (3, 2), "buffer_depths": 3}


@pytest.mark.parametrize(
    ("loop", "load", "store", "pins"),
    [(1, 0, 0, DEEP), (3, 0, 0, SMALL), (3, 1, 1, SMALL), (3, 0, 4, SMALL), (3, 4, 0, DEEP)],
)
def test_in_place(loop: int, load: int, store: int, pins: dict[str, object]) -> None:
    """What every iteration changes in place waits for no other one; what it hands to another one does."""
    made = compiled(in_place((4, 256), loop, load, store), "spyre", **pins)
    arguments = random_arguments(made.source, 3)
    wanted = expected(made, arguments)
    right_in_every_order(made, arguments, wanted, (None, 0))
    if load == store and (loop == 1 or pins["tile_sizes"] == (2, 1)):
        assert meetings(made) == 0
    elif load != store:
        assert meetings(made) > 0


def test_both_corelets_work() -> None:
    """Their busy times are within a tenth of each other; with one of them computation takes longer."""
    made = compiled(kernel((64, 512), CHAIN, "abcd"))
    arguments = random_arguments(made.source, 5)
    report = run_dataflow(made, arguments).report.details.report
    busy = {unit.unit: unit.busy for unit in report.units if unit.kind == "SFP"}
    assert sorted(busy) == ["C0-sfp-CL0", "C0-sfp-CL1"]
    assert max(busy.values()) <= 1.1 * min(busy.values())
    assert cycles(compiled(kernel((64, 512), CHAIN, "abcd"), instances=1)) > 1.2 * report.cycles


FIVE = ["%a = arith.addf %x, %w : T<f16>", "%b = arith.mulf %a, %w : T<f16>", "%c = arith.subf %b, %x : T<f16>",
        "%d = arith.maximumf %c, %w : T<f16>", "%y = arith.mulf %d, %x : T<f16>"]  # fmt: skip

RAGGED: Mapping[str, Callable[[int], str]] = {
    "add": lambda n: chain("f16", (64, n), ["%y = arith.addf %x, %w : T<f16>"], tiles=1),
    "five operations": lambda n: chain("f16", (64, n), FIVE, tiles=1),
    "softmax": lambda n: row_kernel(SOFTMAX, (64, n)),
    "row sums": lambda n: reduction((64, n), [1], tiles=1),
    "column sums": lambda n: reduction((256, n), [0], tiles=1),
}


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_rows_cost_little(name: str) -> None:
    """Rows of 65, 67 and 127 elements take at most 1.3 times the cycles of 128 (one core)."""
    found: dict[int, int] = {}
    for columns in (128, 65, 67, 127):
        made = compiled(RAGGED[name](columns))
        report = run_dataflow(made, random_arguments(made.source, 5)).report
        assert report.cycles is not None
        found[columns] = int(report.cycles)
    assert max(found.values()) <= 1.3 * found[128], found


@pytest.mark.parametrize("shape", [(1,), (5,), (65,), (1, 1), (3, 2), (1, 300), (2, 3, 5, 67)])
def test_small_and_odd_shapes(shape: tuple[int, ...]) -> None:
    cycles(compiled(kernel(shape, ADD)))


CENTRED = """%low = arith.constant 0xFC00 : f16
%lows = tensor.splat %low : tensor<8xf16>
%e = tensor.empty() : T
%m = linalg.reduce ins(%a : T) outs(%lows : tensor<8xf16>) dimensions = [1] (%in: f16, %acc: f16) {
  %g = arith.maximumf %in, %acc : f16
  linalg.yield %g : f16
}
%mb = linalg.broadcast ins(%m : tensor<8xf16>) outs(%e : T) dimensions = [1]
%z = arith.subf %a, %mb : T"""


@pytest.mark.parametrize(("columns", "requests"), [(200, 1), (127, 1), (191, 2)])
def test_rows_that_are_no_whole_vectors_are_copied_by_the_tile(columns: int, requests: int) -> None:
    """Equal pieces of all rows are one request a tile, full vectors and a rest of every row two; none a row."""
    made = compiled(kernel((8, columns), CENTRED, "a"), tile_sizes=4)
    cycles(made)
    units = [op for m in made.dataflow_ir.values() for op in m.walk() if isinstance(op, ProgramUnit)]
    counts = sorted(sum(isinstance(o, CompositeLoadAndStore) for o in unit.walk()) for unit in units)
    assert counts[-2:] == [requests, requests]
    for unit in units:
        for loop in (op for op in unit.walk() if isinstance(op, scf.For)):
            inside = [op for op in loop.walk() if isinstance(op, scf.For)]
            has_copies = any(isinstance(op, CompositeLoadAndStore) for op in loop.walk())
            assert not has_copies or len(inside) == 1  # the loop over tiles, and no loop over rows in it


def test_the_same_program_and_plan_give_the_same_bytes() -> None:
    text = kernel((64, 512), ADD, grid=4)
    one, two = compiled(text), compiled(text)
    assert one.spyrecode.digest == two.spyrecode.digest
    assert one.plans == two.plans
    nests = len(one.plans[0].nests)
    assert len([op for op in one.schedule_ir.walk() if isinstance(op, Pipeline)]) == 2 * nests
    assert len([op for op in one.schedule_ir.walk() if isinstance(op, Parallel)]) == nests


def test_compilation_does_not_grow_with_extents() -> None:
    """The IR of a kernel on 64 times as many elements has as many operations."""

    def operations(rows: int) -> int:
        made = dfsched.compile(
            ktir.parse(kernel((rows, 1024), ADD, grid=4)), "spyre", dfsched.Options(emit="dfir")
        )
        return sum(1 for module in made.dataflow_ir.values() for _ in module.walk())

    assert operations(4096) <= operations(64)
