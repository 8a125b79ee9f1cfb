"""Tiles, coarse stages, rotating buffers, instances: pass by pass, and executed with many plans."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from schedule_oracle import Pointer, Tile, elementwise, execute

import dfsched
import ktir
from dfsched.dialects.ktdf import (
    BufferPhase,
    DataTransfer,
    DeriveSize,
    LinearizeIndex,
    Parallel,
    Pipeline,
    ReserveSize,
    SelectMemref,
    Stage,
)
from dfsched.passes import (
    affine_min_canonicalization,
    canonicalize,
    double_buffering,
    parallelize_loops,
    stage_coarsening,
    subsume_linearize_index,
    tile_scf_for_loops,
    tile_size_selection,
)
from dfsched.passes.base import Group, PassContext
from dfsched.passes.stage_grouping import stage_groups
from dfsched.passes.tile_scf_for_loops import tile_statically
from ktir.dialects import func, memref, scf

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
DEVICES = ["sample", "spyre", QUAD]
V1 = dfsched.Options(profile="v1")
PARALLEL = "{loop_type = #ktdf.loop_type<parallel_loop>}"
CONSTANTS = "".join(f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 2, 3, 4, 5, 8, 9, 12, 17))


def context(device: str = "sample", options: dfsched.Options | None = None) -> PassContext:
    return PassContext(dfsched.load_architecture(device), dfsched.Options() if options is None else options)


def parsed(body: str, arguments: str = "") -> ktir.Module:
    module = ktir.parse(f"func.func @f({arguments}) {{\n{CONSTANTS}{body}return\n}}")
    ktir.verify(module)
    return module


def checked(module: ktir.Module) -> ktir.Module:
    ktir.verify(module)
    assert ktir.print_module(ktir.parse(ktir.print_module(module))) == ktir.print_module(module)
    return module


def found(module: ktir.Module, *classes: type[ktir.Operation]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, classes)]


def nest(trips: tuple[int, ...], inner: str, mark: str = PARALLEL) -> str:
    """Loops %i0, %i1, ... around some text."""
    head = "".join(f"scf.for %i{d} = %c0 to %n{d} step %c1 {{\n" for d in range(len(trips)))
    sizes = "".join(f"%n{d} = arith.constant {n} : index\n" for d, n in enumerate(trips))
    return f"{sizes}{head}{inner}" + f"}} {mark}\n" * len(trips)


def move(rank: int) -> str:
    """A pipeline of one transfer of the element at the loop variables."""
    at = ", ".join(f"%i{d}" for d in range(rank))
    type = f'memref<{"32x" * rank}f16, "DDR">'
    return (
        "ktdf.pipeline { ktdf.stage depends_in(none) depends_out(none) {\n"
        f"ktdf.data_transfer from %p[{at}] size [{', '.join('1' * rank)}] to %b[0] size [1] : {type}, "
        'memref<1xf16, "L1">\n} {applicable_units = ["MNILU"]} }\n'
    )


def arguments(rank: int) -> str:
    return f'%p: memref<{"32x" * rank}f16, "DDR">, %b: memref<1xf16, "L1">'


class Visits(Tile):
    """Records the subscripts of transfers instead of moving data."""

    def __init__(self, module: ktir.Module, tile_size: int = 3) -> None:
        super().__init__(0, (1,), {})
        self.tile_size = tile_size
        self.seen: list[tuple[int, ...]] = []
        (function,) = found(module, func.Func)
        self.run(function.body.block.operations)

    def transfer(self, op: DataTransfer) -> None:
        cell = op.source_cell
        self.seen.append(tuple(cell.map.evaluate([self.env[v] for v in cell.indices])))


# -- tiling


def test_dynamic_tiling() -> None:
    """scheduler checklist I1, I3. Open sizes, tile loops, derived sizes, point loops, linearised indices."""
    module = checked(tile_scf_for_loops.run(parsed(nest((8, 4), move(2)), arguments(2)), context(options=V1)))
    sizes = found(module, ReserveSize)
    assert [(op.divisibility.value, op.min_value.value) for op in sizes] == [(1, 1), (1, 1)]
    loops = found(module, scf.For)
    assert len(loops) == 4
    assert all("loop_type" in loop.attributes for loop in loops)
    body = loops[1].body.block.operations
    assert [type(op) for op in body[:3]] == [DeriveSize, DeriveSize, scf.For]
    lines = [line.strip() for line in ktir.print_module(module).splitlines() if "linearize_index" in line]
    assert [re.sub(r"%\w+", "%", line) for line in lines] == [
        "% = ktdf.tiling.linearize_index [% : %], [% : %] : index"
    ] * 2
    for index, tile, point in zip(found(module, LinearizeIndex), (1, 0), (3, 2), strict=True):
        assert index.variables == (loops[tile].induction_variable, loops[point].induction_variable)
    by_tiles = sorted(itertools.product(range(8), range(4)), key=lambda p: (p[0] // 3, p[1] // 3, p))
    assert Visits(module, 3).seen == by_tiles


def test_what_is_not_tiled_without_a_plan() -> None:
    """scheduler checklist I2. Single loops, loops that are not parallel, nests without a pipeline."""
    for body, names in (
        (nest((8,), move(1)), arguments(1)),
        (nest((8, 4), move(2), ""), arguments(2)),
        (nest((8, 4), '"use"(%i0, %i1) : (index, index) -> ()\n'), ""),
    ):
        module = parsed(body, names)
        assert tile_scf_for_loops.run(module, context(options=V1)) is module


def test_tiles_of_tiles() -> None:
    """scheduler checklist I4. Two rounds give pairs of two and then three; every index comes once."""
    module = parsed(nest((7, 5), move(2)), arguments(2))
    once = tile_scf_for_loops.run(module, context(options=V1))
    twice = checked(tile_scf_for_loops.run(once, context(options=V1)))
    assert {len(op.variables) for op in found(twice, LinearizeIndex)} == {3}
    assert {len(op.loop_variables) for op in found(twice, DeriveSize)} == {1, 2}
    for size in (1, 2, 3):
        assert sorted(Visits(twice, size).seen) == list(itertools.product(range(7), range(5)))


def test_static_sizes() -> None:
    """scheduler checklist I5."""
    module = parsed(nest((8, 4), move(2)), arguments(2))
    with pytest.raises(dfsched.ScheduleError, match="the nest has 2 loops, but 1 tile sizes are given"):
        tile_statically(module, [2])
    with pytest.raises(dfsched.ScheduleError, match="tile size 1 must be positive, but is 0"):
        tile_statically(module, [2, 0])


def test_every_index_once_and_in_order() -> None:
    """scheduler checklist I6. All trip counts and tile sizes from 1 to 20."""
    for trips in range(1, 21):
        module = parsed(nest((trips,), move(1)), arguments(1))
        for size in range(1, 21):
            assert Visits(tile_statically(module, [size])).seen == [(i,) for i in range(trips)], (trips, size)


# -- kernels that are executed after every pass


def run_everywhere(
    text: str, shape: tuple[int, ...], device: str, grid: int = 1, **pins: object
) -> dfsched.Compiled:
    """Compile with pins, execute after every pass of the scheduler, compare with NumPy."""
    options = dfsched.Options(emit="schedule", pins=pins, verify_each=True)
    compiled = dfsched.compile(ktir.parse(text), device, options)
    rng = np.random.default_rng(7)
    full = (shape[0] * grid, *shape[1:])
    broadcast = "linalg.broadcast" in text
    a = rng.integers(-8, 9, full).astype(np.float16)
    b = rng.integers(-8, 9, full[1:] if broadcast else full).astype(np.float16)
    seen: list[ktir.Module] = []
    names = [result.name for result in compiled.passes]
    for result in compiled.passes[names.index("construct-three-stage-pipeline") :]:
        if result.group is Group.BACKEND or any(result.module is module for module in seen):
            continue
        seen.append(result.module)
        o = np.zeros(full, np.float16)
        values = {"a": a.copy(), "b": b.copy(), "o": o}
        execute(result.module, "k", {n: Pointer(v.reshape(-1)) for n, v in values.items()})
        np.testing.assert_array_equal(o, a * b + a, err_msg=f"after {result.name}")
    return compiled


PLANS: list[dict[str, object]] = [
    {},
    {"tile_sizes": 1},
    {"tile_sizes": 2, "buffer_depths": 1},
    {"tile_sizes": (3, 2)},
    {"tile_sizes": (5, 1), "buffer_depths": 3},
    {"tile_sizes": (2, 100), "buffer_depths": (1, 2, 3)},
    {"tile_sizes": (4, 2), "loop_order": (1, 0)},
    {"tile_sizes": (4, 2), "instances": 1},
    {"tile_sizes": (4, 2), "instance_loop": 1},
    {"tile_sizes": (4, 2), "sunk_loops": 1},
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", range(len(PLANS)))
def test_plans(number: int, device: str) -> None:
    """scheduler checklist C8. Whatever the plan says, the meaning stays; also of tiles that do not divide."""
    if device == QUAD and number == 8:
        return  # its four instances are more than the loop has iterations
    shape = (7, 5 * dfsched.load_architecture(device).lanes("f16"))
    run_everywhere(elementwise(shape), shape, device, **PLANS[number])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "shape", [(1, 1), (3,), (64,), (1000,), (1, 127), (67, 3), (5, 65), (2, 3, 4, 70), (3, 1, 200)]
)
def test_shapes(shape: tuple[int, ...], device: str) -> None:
    """Single loops, deep nests, extents that nothing divides, less than a vector (issue 4, point 4)."""
    run_everywhere(elementwise(shape), shape, device)


@pytest.mark.parametrize("device", DEVICES)
def test_broadcast_rows(device: str) -> None:
    """scheduler checklist C3. The buffer of a row that is used for all rows has no dimension for them."""
    lanes = dfsched.load_architecture(device).lanes("f16")
    shape = (6, 3 * lanes)
    compiled = run_everywhere(elementwise(shape, 2, True), shape, device, 2, tile_sizes=(4, 3))
    coarse = next(r.module for r in compiled.passes if r.name == "stage-coarsening")
    pad = dfsched.load_architecture(device).scratchpad.kind
    types = [op.memref.type for op in found(coarse, memref.Alloc)]
    ranks = sorted(type.rank for type in types if str(type.memory_space) == f'"{pad}"')
    assert ranks == [1 + 1, 2 + 2, 2 + 2]  # a vector of b and its loop, vectors of a and o and both loops


# -- stages


BLEND = elementwise((8, 256))


def after(name: str, device: str = "sample", **pins: object) -> ktir.Module:
    options = dfsched.Options(emit="schedule", pins=pins)
    compiled = dfsched.compile(ktir.parse(BLEND), device, options)
    return next(r.module for r in compiled.passes if r.name == name)


def test_groups() -> None:
    """scheduler checklist C1. What shares a queue or a memory below the scratchpad stays together."""
    (pipeline,) = found(after("path-expansion"), Pipeline)
    groups = stage_groups(pipeline.stages, dfsched.load_architecture("sample"))
    assert [[stage.units[0] for stage in group] for group in groups] == [
        ["MNILU"],
        ["L1LU", "SFU", "L1SU"],
        ["MNISU"],
    ]
    (pipeline,) = found(after("path-expansion", QUAD, tile_sizes=2), Pipeline)
    groups = stage_groups(pipeline.stages, dfsched.load_architecture(QUAD))
    units = [[stage.units[0] for stage in group] for group in groups]
    assert units == [["DIN"], ["FILL", "FETCH", "VPU", "PUT", "DRAIN"], ["DOUT"]]


def test_coarse_stages() -> None:
    """scheduler checklist C2, C4, C5. Three stages outside, the coupled ones inside with their queues."""
    module = after("stage-coarsening", tile_sizes=(2, 2))
    outer, inner = found(module, Pipeline)
    assert [stage.units for stage in outer.stages] == [("MNILU",), ("L1LU", "SFU", "L1SU"), ("MNISU",)]
    assert [stage.units for stage in inner.stages] == [("L1LU",), ("SFU",), ("L1SU",)]
    assert inner in list(outer.stages[1].walk())
    text = ktir.print_module(module)
    slots = [str(r.type) for r in inner.private.results]
    assert sum("fifo.slot" in slot for slot in slots) == 3
    assert not any("fifo.slot" in str(r.type) for r in outer.private.results)
    assert text.count("memref<?x?x1x64xf16") > 0
    for transfer in found(module, DataTransfer):
        for cell in (transfer.source_cell, transfer.dest_cell):
            if cell.is_memory and str(cell.value.type).startswith("memref<?x?"):
                assert cell.sizes == (1, 1, 1, 64)
                assert cell.map.num_results == 4
    assert all("ktdf.operand" in op.attributes for op in found(outer.stages[2], DataTransfer))


def test_what_is_not_sunk() -> None:
    """scheduler checklist C6, C7. A loop with a second pipeline stays; a depth of one sinks one loop."""
    pipeline = move(2)
    both = parsed(nest((8, 4), pipeline + pipeline), arguments(2))
    assert stage_coarsening.run(both, context()) is both
    shallow = evolve(context(), options=dfsched.Options(settings={"stage-coarsening.loop-nest-depth": "1"}))
    module = checked(stage_coarsening.run(parsed(nest((8, 4), pipeline), arguments(2)), shallow))
    (outer,) = found(module, scf.For)[:1]
    assert isinstance(outer.body.block.operations[0], Pipeline)
    assert len(found(module, scf.For)) == 2


# -- rotating buffers


def buffered(
    memory: str, more: str = "", order: str = "MNILU", tokens: bool = True, loop: bool = True
) -> str:
    """A pipeline that hands a buffer from one stage to another."""
    type = f"memref<64xf16, {memory}>"
    out, wait = ("%v#1", "%v#1") if tokens else ("none", "none")
    text = (
        f"ktdf.pipeline {{\n%v:2 = ktdf.private -> ({type}, !ktdf.token) {{\n%b = memref.alloc() : {type}\n"
        f"%t = ktdf.create_token : !ktdf.token\n{more.replace('TYPE', type)}"
        f"ktdf.private_yield %b, %t : {type}, !ktdf.token\n}}\n"
        f"ktdf.stage depends_in(none) depends_out({out}) {{\n"
        f'ktdf.data_transfer from %p[0] size [64] to %v#0[0] size [64] : memref<64xf16, "DDR">, {type}\n'
        '} {applicable_units = ["MNILU"]}\n'
        f"ktdf.stage depends_in({wait}) depends_out(none) {{\n"
        f'ktdf.data_transfer from %v#0[0] size [64] to %r[0] size [64] : {type}, memref<64xf16, "DDR">\n'
        '} {applicable_units = ["MNISU"]}\n}\n'
    )
    return f"scf.for %i = %c0 to %c4 step %c1 {{\n{text}}}\n" if loop else text


MEMORIES = '%p: memref<64xf16, "DDR">, %r: memref<64xf16, "DDR">'


@pytest.mark.parametrize(
    ("memory", "rotates"),
    [('"L1"', True), ("#ktdp.memory_space<ct_local>", True), ('"DDR"', False), ('"SFU_REG"', False)],
)
def test_which_memories_rotate(memory: str, rotates: bool) -> None:
    """scheduler checklist M1."""
    module = parsed(buffered(memory), MEMORIES)
    new = double_buffering.run(module, context())
    assert (new is not module) == rotates
    assert len(found(checked(new), SelectMemref)) == rotates


def test_buffers_that_stay() -> None:
    """scheduler checklist M2, M4. Second uses, no order, no loop, a pipeline that rotates already."""
    for text in (
        buffered('"L1"', '"use"(%b) : (TYPE) -> ()\n'),
        buffered('"L1"', tokens=False),
        buffered('"L1"', loop=False),
        buffered('"L1"').replace("to %r[0]", "to %v#0[0]").replace(
            'memref<64xf16, "L1">, memref<64xf16, "DDR">', 'memref<64xf16, "L1">, memref<64xf16, "L1">'
        ),
        buffered('"L1"').replace("ktdf.pipeline {", "ktdf.pipeline modulo(size : 2) {"),
    ):  # fmt: skip
        module = parsed(text, MEMORIES)
        assert double_buffering.run(module, context()) is module, text


def test_one_phase_for_all_buffers() -> None:
    """scheduler checklist M3. Two copies each in front of the outermost loop, deallocated behind it."""
    module = after("double-buffering", tile_sizes=(2, 1))
    assert len(found(module, BufferPhase)) == 1
    assert len(found(module, SelectMemref)) == 3
    assert found(module, Pipeline)[0].modulo.value == 2
    program = next(
        f for f in found(module, func.Func) if f.symbol == "local_schedule_0" and not f.is_declaration
    )
    kinds = [type(op) for op in program.body.block.operations]
    loop = kinds.index(scf.For)
    assert kinds[loop + 1 : loop + 7] == [memref.Dealloc] * 6
    assert kinds[:loop].count(memref.Alloc) == 6
    again = double_buffering.run(module, context())
    assert again is module
    deep = after("double-buffering", tile_sizes=(2, 1), buffer_depths=(3, 3, 2))
    assert sorted(op.num_phases.value for op in found(deep, BufferPhase)) == [2, 3]
    assert found(deep, Pipeline)[0].modulo.value == 3


# -- instances


def spread(trips: tuple[object, ...], units: str = '["L1LU"]', mark: str = PARALLEL) -> ktir.Module:
    bounds = ["%n" if n is None else f"%k{n}" for n in trips]
    constants = "".join(
        f"%k{n} = arith.constant {n} : index\n" for n in dict.fromkeys(trips) if n is not None
    )
    head = "".join(f"scf.for %i{d} = %c0 to {b} step %c1 {{\n" for d, b in enumerate(bounds))
    stage = "ktdf.stage depends_in(none) depends_out(none) { }" + (
        f" {{applicable_units = {units}}}" if units else ""
    )
    text = f"{constants}{head}ktdf.pipeline {{\n{stage}\n}}\n" + f"}} {mark}\n" * len(trips)
    return parsed(text, "%n: index")


def test_instances() -> None:
    """scheduler checklist A1. Loops of sub-core units are spread, those of the units that serve all are not."""
    module = after("parallelize-loops-across-instances", tile_sizes=(2, 2))
    (parallel,) = found(module, Parallel)
    assert parallel.num_instances.value == 2
    outer, inner = found(module, Pipeline)
    assert inner in list(parallel.walk())
    assert parallel in list(outer.walk())


@pytest.mark.parametrize(
    ("trips", "chosen"),
    [((3, 8), 1), ((5, 3), 0), ((None, 1), 0), ((1, None), 1), ((1, 1), None), ((4, 4), 0)],
)
def test_which_loop_is_spread(trips: tuple[object, ...], chosen: int | None) -> None:
    """scheduler checklist A2. Divisible first, then large enough, then unknown; the outermost of equals."""
    module = checked(parallelize_loops.run(spread(trips), context()))
    loops = [type(op) for op in found(module, scf.For, Parallel)]
    wanted = [Parallel if number == chosen else scf.For for number in range(len(trips))]
    assert loops == wanted


def test_loops_that_are_never_spread() -> None:
    """scheduler checklist A3, A4. Without a mark or with the other one; a stage without units is an error."""
    for mark in ("", "{loop_type = #ktdf.loop_type<reduction_loop>}"):
        module = spread((8,), mark=mark)
        assert parallelize_loops.run(module, context()) is module
    with pytest.raises(dfsched.ScheduleError, match="the stage names no unit"):
        parallelize_loops.run(spread((8,), units=""), context())


# -- sizes and clean-up


def reserved(totals: tuple[int, ...], divisibility: int = 1, minimum: int = 1) -> ktir.Module:
    lines = [
        f"%s = ktdf.tiling.reserve_size {{divisibility = {divisibility} : index, min_value = {minimum} : index}} : index"
    ]
    for number, total in enumerate(totals):
        lines += [
            f"%t{number} = arith.constant {total} : index",
            f"%m{number} = arith.ceildivui %t{number}, %s : index",
            f"scf.for %i{number} = %c0 to %m{number} step %c1 {{",
            f'"use"(%i{number}) : (index) -> ()',
            "}",
        ]
    lines += ['%b = memref.alloc(%s) : memref<?x64xf16, "L1">', '"use"(%b) : (memref<?x64xf16, "L1">) -> ()']
    return parsed("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("totals", "divisibility", "minimum", "size"),
    [((12,), 1, 1, 2), ((9,), 1, 1, 1), ((12, 9), 1, 1, 1), ((8,), 2, 1, 2), ((8,), 1, 4, 4)],
)
def test_sizes_without_a_plan(totals: tuple[int, ...], divisibility: int, minimum: int, size: int) -> None:
    """scheduler checklist Z1, Z3. The rule of the first version; buffers of open size become static."""
    module = reserved(totals, divisibility, minimum)
    new = checked(canonicalize.run(tile_size_selection.run(module, context(options=V1)), context()))
    (alloc,) = found(new, memref.Alloc)
    assert str(alloc.memref.type) == f'memref<{size}x64xf16, "L1">'
    assert not alloc.sizes
    bounds = [int(n) for n in re.findall(r"scf.for %\w+ = %c0 to %c(\d+)", ktir.print_module(new))]
    trips = [-(-total // size) for total in totals]
    assert bounds == [n for n in trips if n > 1]


def test_sizes_that_cannot_be_picked() -> None:
    """scheduler checklist Z2. Nobody uses it, or nothing divides: all of them are reported."""
    with pytest.raises(dfsched.ScheduleError, match="no loop with a constant trip count uses this tile size"):
        tile_size_selection.run(reserved(()), context())
    with pytest.raises(
        dfsched.ScheduleError, match="no tile size from 4 to 4 that is a multiple of 1 divides 9"
    ):
        tile_size_selection.run(reserved((9,), 1, 4), context())


@pytest.mark.parametrize("least", ["%a, %c17", "%c17, %a"])
@pytest.mark.parametrize("sum", ["%v, %c5", "%c5, %v"])
def test_remainders(least: str, sum: str) -> None:
    """scheduler checklist Z4. Both orders of both operations; a map with a dimension stays."""
    body = f"%a = arith.addi {sum} : index\n%m = arith.minsi {least} : index\n"
    use = '"use"(%r) : (index) -> ()\n'
    rest = "%r = affine.apply affine_map<()[s0, s1] -> (-s0 + s1)>()[%v, %m]\n"
    text = ktir.print_module(
        affine_min_canonicalization.run(parsed(body + rest + use, "%v: index"), context())
    )
    assert "affine.min" in text
    assert "(%v)[%c17, %c5]" in text
    assert "-> (-d0 + s0, s1)" in text
    assert "arith.minsi" not in text
    assert "arith.addi" not in text
    dims = parsed(body + "%r = affine.apply affine_map<(d0)[s0] -> (-d0 + s0)>(%v)[%m]\n" + use, "%v: index")
    assert affine_min_canonicalization.run(dims, context()) is dims


def test_linearised_indices() -> None:
    """scheduler checklist Z5. Constant strides fold into the map, open ones stay, unused operations go."""

    def text(stride: str) -> str:
        body = (
            f"%j = ktdf.tiling.linearize_index [%x : {stride}], [%y : %c1] : index\n"
            "%u = ktdf.tiling.linearize_index [%x : %c2], [%y : %c1] : index\n"
            'ktdf.data_transfer from %p[%j * 64] size [64] to %r[0] size [64] : memref<64xf16, "DDR">, '
            'memref<64xf16, "DDR">\n'
        )
        module = parsed(body, f"%x: index, %y: index, %s: index, {MEMORIES}")
        return ktir.print_module(checked(subsume_linearize_index.run(module, context())))

    folded = text("%c2")
    assert "%p[%x * 128 + %y * 64]" in folded
    assert "linearize_index" not in folded
    open_stride = text("%s")
    assert open_stride.count("linearize_index") == 1


def test_stages_have_units_in_every_plan() -> None:
    """scheduler checklist P8. No open size, no buffer without an address, one entry in the grid at the end."""
    for pins in PLANS:
        module = after("normalize-grid-to-1d", **pins)
        assert not found(module, ReserveSize, memref.Dealloc, memref.Alloc)
        assert all(stage.units for stage in found(module, Stage))
