"""How front-end decisions look in KTIR, executed: work division, stick layouts, tiling, residency, relayout,
reduction over tiles, gathers, run-time shapes (ktir spec 6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ktir
from ktir.machine import Machine
from spyresim import run_ktir
from spyresim.testing import text as k

RNG = np.random.default_rng(105)
SCHEDULES = ("lockstep", "sequential")


def outputs(text: str, machine: Machine | None = None, **args: Any) -> dict[str, Any]:
    """The outputs, the same in lockstep and tile by tile; nothing may depend on the order of tiles."""
    module = ktir.parse(text)
    ktir.verify(module)
    first, second = (
        run_ktir(module, args=args, machine=machine, strict=True, schedule=schedule).outputs
        for schedule in SCHEDULES
    )
    for name, array in first.items():
        assert np.array_equal(array, second[name], equal_nan=True)
    return first


def half(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float16)


def test_work_division() -> None:
    """ktir checklist 105 (6.1). A product of [32, 40] and [40, 96] over a grid of 2 x 3 blocks."""
    text = k.function(
        "%a: index, %b: index, %c: index",
        [
            "%z = arith.constant 0 : index",
            "%n16 = arith.constant 16 : index",
            "%n32 = arith.constant 32 : index",
            "%i, %j = ktdp.get_compute_tile_id : index, index",
            "%row = arith.muli %i, %n16 : index",
            "%col = arith.muli %j, %n32 : index",
            k.view("av", "a", (32, 40)),
            k.view("bv", "b", (40, 96)),
            k.view("cv", "c", (32, 96)),
            k.tile("at", "av", "%row, %z", (32, 40), (16, 40)),
            k.tile("bt", "bv", "%z, %col", (40, 96), (40, 32)),
            k.tile("ct", "cv", "%row, %col", (32, 96), (16, 32)),
            k.load("x", "at", (16, 40)),
            k.load("y", "bt", (40, 32)),
            "%f = arith.constant 0.0 : f16",
            "%e = tensor.empty() : tensor<16x32xf16>",
            "%o = linalg.fill ins(%f : f16) outs(%e : tensor<16x32xf16>) -> tensor<16x32xf16>",
            "%p = linalg.matmul ins(%x, %y : tensor<16x40xf16>, tensor<40x32xf16>) outs(%o : tensor<16x32xf16>) "
            "-> tensor<16x32xf16>",
            k.store("p", "ct", (16, 32)),
        ],
        [2, 3],
    )
    a, b = half(32, 40), half(40, 96)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.allclose(outputs(text, a=a, b=b)["c"], expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("order", ["first_fastest", "last_fastest"])
def test_flat_numbers_of_tiles(order: str) -> None:
    """ktir checklist 24. On a grid of 3 x 2 the slot of tile (x, y) is x + 3 y; its scratchpad has its flat number."""
    text = k.function(
        "%q: index, %r: index",
        [
            "%z = arith.constant 0 : index",
            "%n3 = arith.constant 3 : index",
            "%x, %y = ktdp.get_compute_tile_id : index, index",
            "%m = arith.muli %y, %n3 : index",
            "%slot = arith.addi %x, %m : index",
            "%i = arith.index_cast %slot : index to i32",
            "%d = tensor.splat %i : tensor<1xi32>",
            k.view("qv", "q", (6,), "i32"),
            k.view("rv", "r", (6,), "i32"),
            k.tile("qt", "qv", "%slot", (6,), (1,), "i32"),
            k.tile("rt", "rv", "%slot", (6,), (1,), "i32"),
            k.store("d", "qt", (1,), "i32"),
            k.view("mine", "z", (1,), "i32", k.LOCAL),
            k.view("fourth", "z", (1,), "i32", "#ktdp.memory_space<ct_local, ct_id = 4>"),
            k.tile("mt", "mine", "%z", (1,), (1,), "i32"),
            k.tile("ft", "fourth", "%z", (1,), (1,), "i32"),
            k.store("d", "mt", (1,), "i32"),
            "%one = arith.constant dense<1.0> : tensor<1xf16>",
            "%future = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <(tensor<1xf16>), groups = #g> {",
            "^bb0(%group: index):",
            "ktdp.yield_partial %one : tensor<1xf16>",
            "}",
            "%sum = ktdp.inter_tile_reduce(%future) consumer_tiles_per_group = #all, "
            "identity(%one : tensor<1xf16>) : <(tensor<1xf16>), groups = #g> -> tensor<1xf16> {",
            "^bb0(%a: tensor<1xf16>, %b: tensor<1xf16>):",
            "%s = arith.addf %a, %b : tensor<1xf16>",
            "ktdp.yield_reduced %s : tensor<1xf16>",
            "}",
            k.load("of", "ft", (1,), "i32"),
            k.store("of", "rt", (1,), "i32"),
        ],
        [3, 2],
    )
    sets = "#all = affine_set<(i)[g] : (i >= 0, -i + 5 >= 0)>\n#g = affine_set<(g) : (g == 0)>\n"
    got = outputs(sets + text, Machine(grid_order=order))  # type: ignore[arg-type]  # the converter takes it
    assert got["q"].tolist() == list(range(6))
    # flat number 4 is tile (1, 1) if x is fastest, else tile (2, 0)
    assert set(got["r"].tolist()) == {1 + 3 * 1 if order == "first_fastest" else 2 + 3 * 0}


def test_stick_layout_and_access_order() -> None:
    """ktir checklist 105 (6.2). Columns 64 to 191 of a [12, 256] matrix that is kept stick by stick."""
    text = k.function(
        "%w: index, %dst: index",
        [
            "%z = arith.constant 0 : index",
            "%one = arith.constant 1 : index",
            k.view("wv", "w", (4, 12, 64)),
            k.view("dv", "dst", (12, 128)),
            k.tile("wt", "wv", "%one, %z, %z", (4, 12, 64), (2, 12, 64),
                   order="affine_map<(s, r, l) -> (r, s, l)>", result=(12, 2, 64)),
            k.load("x", "wt", (12, 2, 64)),
            "%y = tensor.collapse_shape %x [[0], [1, 2]] : tensor<12x2x64xf16> into tensor<12x128xf16>",
            k.tile("dt", "dv", "%z, %z", (12, 128), (12, 128)),
            k.store("y", "dt", (12, 128)),
        ],
        [1],
    )  # fmt: skip
    logical = half(12, 256)
    sticks = logical.reshape(12, 4, 64).transpose(1, 0, 2).copy()
    assert np.array_equal(outputs(text, w=sticks)["dst"], logical[:, 64:192])


def test_columns_as_quotient_and_remainder() -> None:
    """ktir checklist 105, 67. Section (6.2): The same read through direct subscripts only; `%r` shadows the value `%r`."""
    text = k.function(
        "%w: index, %dst: index",
        [
            "%r = arith.constant 11 : index",
            "%z = arith.constant 0 : index",
            k.view("wv", "w", (4, 12, 64)),
            k.view("dv", "dst", (12, 256)),
            "%wt = ktdp.construct_indirect_access_tile intermediate_variables(%r, %c) "
            "%wv[(%c floordiv 64), (%r), (%c mod 64)] "
            f"{{variables_space_set = {k.box((12, 256))}, variables_space_order = {k.identity(2)}}} "
            ": memref<4x12x64xf16> -> !ktdp.access_tile<12x256xindex>",
            k.load("x", "wt", (12, 256)),
            k.tile("dt", "dv", "%z, %z", (12, 256), (12, 256)),
            k.store("x", "dt", (12, 256)),
        ],
    )
    logical = half(12, 256)
    sticks = logical.reshape(12, 4, 64).transpose(1, 0, 2).copy()
    assert np.array_equal(outputs(text, w=sticks)["dst"], logical)


def test_coarse_tiling() -> None:
    """ktir checklist 105 (6.3). Row sums of [24, 384], 64 columns at a time, twelve rows a tile."""
    text = k.function(
        "%g: index, %o: index",
        [
            "%z = arith.constant 0 : index",
            "%n = arith.constant 384 : index",
            "%step = arith.constant 64 : index",
            "%n12 = arith.constant 12 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%row = arith.muli %t, %n12 : index",
            k.view("gv", "g", (24, 384), "f32"),
            k.view("ov", "o", (24,), "f32"),
            "%start = arith.constant dense<0.0> : tensor<12xf32>",
            "%sum = scf.for %c = %z to %n step %step iter_args(%acc = %start) -> (tensor<12xf32>) {",
            k.tile("gt", "gv", "%row, %c", (24, 384), (12, 64), "f32"),
            k.load("x", "gt", (12, 64), "f32"),
            "%next = linalg.reduce { arith.addf } ins(%x : tensor<12x64xf32>) outs(%acc : tensor<12xf32>) "
            "dimensions = [1]",
            "scf.yield %next : tensor<12xf32>",
            "}",
            k.tile("ot", "ov", "%row", (24,), (12,), "f32"),
            k.store("sum", "ot", (12,), "f32"),
        ],
        [2],
    )
    g = RNG.integers(-50, 50, (24, 384)).astype(np.float32)
    assert np.array_equal(outputs(text, g=g)["o"], g.sum(axis=1))


def test_scratchpad_residency() -> None:
    """ktir checklist 105, 108. Section (6.4): What a tile keeps at byte 6144 of its scratchpad it finds there again."""
    text = k.function(
        "%src: index, %dst: index",
        [
            "%z = arith.constant 0 : index",
            "%n = arith.constant 48 : index",
            "%at = arith.constant 3072 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%p = arith.muli %t, %n : index",
            k.view("sv", "src", (192,)),
            k.view("dv", "dst", (192,)),
            k.view("hv", "at", (48,), "f16", k.LOCAL),
            k.tile("st", "sv", "%p", (192,), (48,)),
            k.tile("ht", "hv", "%z", (48,), (48,)),
            k.tile("dt", "dv", "%p", (192,), (48,)),
            k.load("x", "st", (48,)),
            "%sq = arith.mulf %x, %x : tensor<48xf16>",
            k.store("sq", "ht", (48,)),
            k.load("h", "ht", (48,)),
            "%y = arith.subf %h, %x : tensor<48xf16>",
            k.store("y", "dt", (48,)),
        ],
        [4],
    )
    x = half(192)
    assert np.array_equal(outputs(text, src=x)["dst"], x * x - x)


RELAYOUT_SETS = """
#top = affine_set<(r, c) : (r >= 0, -r + 3 >= 0, c >= 0, -c + 63 >= 0)>
#bottom = affine_set<(r, c) : (r - 4 >= 0, -r + 7 >= 0, c >= 0, -c + 63 >= 0)>
#left = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c >= 0, -c + 31 >= 0)>
#right = affine_set<(r, c) : (r >= 0, -r + 7 >= 0, c - 32 >= 0, -c + 63 >= 0)>
#both = affine_set<(i)[g] : (i >= 0, -i + 1 >= 0)>
#one = affine_set<(g) : (g == 0)>
"""
BARRIER = [
    "%token = arith.constant dense<0.0> : tensor<1xf16>",
    "%future = ktdp.inter_tile_produce producer_tiles_per_group = #both -> <(tensor<1xf16>), groups = #one> {",
    "^bb0(%g: index):",
    "ktdp.yield_partial %token : tensor<1xf16>",
    "}",
    "%all = ktdp.inter_tile_reduce(%future) consumer_tiles_per_group = #both, identity(%token : tensor<1xf16>) : "
    "<(tensor<1xf16>), groups = #one> -> tensor<1xf16> {",
    "^bb0(%a: tensor<1xf16>, %b: tensor<1xf16>):",
    "%s = arith.addf %a, %b : tensor<1xf16>",
    "ktdp.yield_reduced %s : tensor<1xf16>",
    "}",
]


def relayout(barrier: bool) -> str:
    """[8, 64] on two tiles: from four rows each to 32 columns each, through both scratchpads."""

    def part(name: str, at: str, shape: tuple[int, int], set: str, tile: int) -> str:
        sizes = f"sizes: {list(shape)}, strides: [{shape[1]}, 1]"
        space = f"#ktdp.memory_space<ct_local, ct_id = {tile}>"
        return (
            f"%{name} = ktdp.construct_memory_view %{at}, {sizes} {{coordinate_set = {set}, memory_space = "
            f"{space}}} : memref<{shape[0]}x{shape[1]}xf16>"
        )

    def joined(name: str, parts: tuple[str, str], type: str) -> str:
        values = ", ".join(f"%{p}" for p in parts)
        return (
            f"%{name} = ktdp.construct_distributed_memory_view({values} : {type}, {type}) : memref<8x64xf16>"
        )

    return RELAYOUT_SETS + k.function(
        "%src: index, %dst: index",
        [
            "%z = arith.constant 0 : index",
            "%later = arith.constant 2048 : index",
            "%n4 = arith.constant 4 : index",
            "%n32 = arith.constant 32 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%row = arith.muli %t, %n4 : index",
            "%col = arith.muli %t, %n32 : index",
            k.view("sv", "src", (8, 64)),
            k.view("dv", "dst", (8, 64)),
            part("p0", "z", (4, 64), "#top", 0),
            part("p1", "z", (4, 64), "#bottom", 1),
            joined("rows", ("p0", "p1"), "memref<4x64xf16>"),
            part("q0", "later", (8, 32), "#left", 0),
            part("q1", "later", (8, 32), "#right", 1),
            joined("cols", ("q0", "q1"), "memref<8x32xf16>"),
            k.tile("st", "sv", "%row, %z", (8, 64), (4, 64)),
            k.tile("rt", "rows", "%row, %z", (8, 64), (4, 64)),
            k.load("x", "st", (4, 64)),
            k.store("x", "rt", (4, 64)),
            *(BARRIER if barrier else ()),
            k.tile("ct", "rows", "%z, %col", (8, 64), (8, 32)),
            k.tile("nt", "cols", "%z, %col", (8, 64), (8, 32)),
            k.tile("dt", "dv", "%z, %col", (8, 64), (8, 32)),
            k.load("y", "ct", (8, 32)),
            k.store("y", "nt", (8, 32)),
            k.load("w", "nt", (8, 32)),
            k.store("w", "dt", (8, 32)),
        ],
        [2],
    )


def test_relayout() -> None:
    """ktir checklist 105, 39. Section (6.5): One load that crosses tiles, one store into another distribution."""
    x = half(8, 64)
    assert np.array_equal(outputs(relayout(barrier=True), src=x)["dst"], x)


def test_relayout_without_a_barrier() -> None:
    """ktir checklist 106. Lockstep gives the right numbers and a warning; tile by tile nobody has written yet."""
    from spyresim.errors import UnwrittenReadFault

    x, module = half(8, 64), ktir.parse(relayout(barrier=False))
    result = run_ktir(module, args={"src": x})
    assert np.array_equal(result.outputs["dst"], x)
    assert any("only lockstep orders that" in warning for warning in result.report.warnings)
    with pytest.raises(UnwrittenReadFault, match="scratchpad of core 1 at 0x0") as caught:
        run_ktir(module, args={"src": x}, schedule="sequential")
    assert caught.value.site.tile == 0


def test_reduction_over_tiles() -> None:
    """ktir checklist 75, 105. Example 6.6: eight tiles in two groups, everybody gets the least of its group."""
    sets = (
        "#team = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>\n"
        "#groups = affine_set<(g) : (g >= 0, -g + 1 >= 0)>\n"
    )
    text = sets + k.function(
        "%src: index, %dst: index",
        [
            "%z = arith.constant 0 : index",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("sv", "src", (8, 40)),
            k.view("dv", "dst", (8, 40)),
            k.tile("st", "sv", "%t, %z", (8, 40), (1, 40)),
            k.tile("dt", "dv", "%t, %z", (8, 40), (1, 40)),
            k.load("x", "st", (1, 40)),
            "%most = arith.constant dense<0x7C00> : tensor<1x40xf16>",
            "%f = ktdp.inter_tile_produce producer_tiles_per_group = #team -> <(tensor<1x40xf16>), groups = #groups> {",
            "^bb0(%g: index):",
            "ktdp.yield_partial %x : tensor<1x40xf16>",
            "}",
            "%m = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #team, identity(%most : tensor<1x40xf16>) : "
            "<(tensor<1x40xf16>), groups = #groups> -> tensor<1x40xf16> {",
            "^bb0(%a: tensor<1x40xf16>, %b: tensor<1x40xf16>):",
            "%s = arith.minimumf %a, %b : tensor<1x40xf16>",
            "ktdp.yield_reduced %s : tensor<1x40xf16>",
            "}",
            k.store("m", "dt", (1, 40)),
        ],
        [8],
    )
    x = half(8, 40)
    expected = np.repeat(x.reshape(2, 4, 40).min(axis=1), 4, axis=0)
    assert np.array_equal(outputs(text, src=x)["dst"], expected)


def test_value_and_place_of_the_largest() -> None:
    """ktir checklist 89. Two roles: the largest of five rows for every column, and which row has it first."""
    sets = "#all = affine_set<(i)[g] : (i >= 0, -i + 4 >= 0)>\n#g = affine_set<(g) : (g == 0)>\n"
    value, place = "tensor<1x24xf32>", "tensor<1x24xi32>"
    text = sets + k.function(
        "%src: index, %best: index, %where: index",
        [
            "%z = arith.constant 0 : index",
            "%t = ktdp.get_compute_tile_id : index",
            "%t32 = arith.index_cast %t : index to i32",
            f"%mine = tensor.splat %t32 : {place}",
            k.view("sv", "src", (5, 24), "f32"),
            k.view("bv", "best", (5, 24), "f32"),
            k.view("wv", "where", (5, 24), "i32"),
            k.tile("st", "sv", "%t, %z", (5, 24), (1, 24), "f32"),
            k.tile("bt", "bv", "%t, %z", (5, 24), (1, 24), "f32"),
            k.tile("wt", "wv", "%t, %z", (5, 24), (1, 24), "i32"),
            k.load("x", "st", (1, 24), "f32"),
            f"%least = arith.constant dense<0xFF800000> : {value}",
            f"%none = arith.constant dense<-1> : {place}",
            f"%f = ktdp.inter_tile_produce producer_tiles_per_group = #all -> <({value}, {place}), groups = #g> {{",
            "^bb0(%g: index):",
            f"ktdp.yield_partial %x, %mine : {value}, {place}",
            "}",
            "%v, %p = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #all, "
            f"identity(%least, %none : {value}, {place}) : <({value}, {place}), groups = #g> -> {value}, {place} {{",
            f"^bb0(%va: {value}, %pa: {place}, %vb: {value}, %pb: {place}):",
            f"%more = arith.cmpf ogt, %vb, %va : {value}",
            f"%vs = arith.select %more, %vb, %va : tensor<1x24xi1>, {value}",
            f"%ps = arith.select %more, %pb, %pa : tensor<1x24xi1>, {place}",
            f"ktdp.yield_reduced %vs, %ps : {value}, {place}",
            "}",
            k.store("v", "bt", (1, 24), "f32"),
            k.store("p", "wt", (1, 24), "i32"),
        ],
        [5],
    )
    x = RNG.integers(-3, 4, (5, 24)).astype(np.float32)
    got = outputs(text, src=x)
    assert np.array_equal(got["best"], np.broadcast_to(x.max(axis=0), (5, 24)))
    assert np.array_equal(got["where"], np.broadcast_to(x.argmax(axis=0), (5, 24)))


def test_paged_rows() -> None:
    """ktir checklist 105, 54. Section (6.7): Pages of four rows, three for every sequence, in any order."""
    text = k.function(
        "%pool: index, %table: index, %dst: index",
        [
            "%z = arith.constant 0 : index",
            "%seq = ktdp.get_compute_tile_id : index",
            k.view("pv", "pool", (7, 4, 24)),
            k.view("tv", "table", (3, 3), "i32"),
            k.view("dv", "dst", (3, 12, 24)),
            "%g = ktdp.construct_indirect_access_tile intermediate_variables(%t, %l) "
            "%pv[ind(%tv[%seq, %t floordiv 4]), (%t mod 4), (%l)] "
            f"{{variables_space_set = {k.box((12, 24))}, variables_space_order = {k.identity(2)}}} "
            ": memref<7x4x24xf16>, memref<3x3xi32> -> !ktdp.access_tile<12x24xindex>",
            k.load("rows", "g", (12, 24)),
            "%wide = tensor.expand_shape %rows [[0, 1], [2]] output_shape [1, 12, 24] : tensor<12x24xf16> into "
            "tensor<1x12x24xf16>",
            k.tile("dt", "dv", "%seq, %z, %z", (3, 12, 24), (1, 12, 24)),
            k.store("wide", "dt", (1, 12, 24)),
        ],
        [3],
    )
    pool, table = half(7, 4, 24), RNG.integers(0, 7, (3, 3)).astype(np.int32)
    expected = pool[table].reshape(3, 12, 24)
    assert np.array_equal(outputs(text, pool=pool, table=table)["dst"], expected)


def test_scalar_through_an_index() -> None:
    """ktir checklist 64. No intermediate variable at all: one element, chosen by the tile and by a table."""
    text = k.function(
        "%p: index, %i: index, %q: index",
        [
            "%z = arith.constant 0 : index",
            "%t = ktdp.get_compute_tile_id : index",
            k.view("pv", "p", (9, 4), "f32"),
            k.view("iv", "i", (4, 2), "i32"),
            k.view("qv", "q", (4,), "f32"),
            "%g = ktdp.construct_indirect_access_tile intermediate_variables() %pv[ind(%iv[%t, 0]), (%t)] "
            "{variables_space_order = affine_map<() -> ()>, variables_space_set = affine_set<() : (0 == 0)>} "
            ": memref<9x4xf32>, memref<4x2xi32> -> !ktdp.access_tile<index>",
            k.load("x", "g", (), "f32"),
            "%s = tensor.extract %x[] : tensor<f32>",
            "%y = tensor.splat %s : tensor<1xf32>",
            k.tile("qt", "qv", "%t", (4,), (1,), "f32"),
            k.store("y", "qt", (1,), "f32"),
        ],
        [4],
    )
    p, i = RNG.normal(size=(9, 4)).astype(np.float32), RNG.integers(0, 9, (4, 2)).astype(np.int32)
    assert np.array_equal(outputs(text, p=p, i=i)["q"], p[i[:, 0], np.arange(4)])


@pytest.mark.parametrize("rows", [0, 1, 5, 8])
def test_rows_known_at_launch(rows: int) -> None:
    """ktir checklist 105, 34. Section (6.9): Three tiles copy the first rows of a matrix, as many as the host says."""
    dom = "affine_set<(r, c)[n] : (r >= 0, -r + n - 1 >= 0, c >= 0, -c + 63 >= 0)>"
    text = k.function(
        "%src: index, %dst: index, %m: index",
        [
            "%z = arith.constant 0 : index",
            "%n3 = arith.constant 3 : index",
            "%t = ktdp.get_compute_tile_id : index",
            *(
                f"%{name}v = ktdp.construct_memory_view %{name}, sizes: [%m, 64], strides: [64, 1] {{coordinate_set "
                f"= {dom}, memory_space = {k.GLOBAL}}} : memref<?x64xf16>"
                for name in ("src", "dst")
            ),
            "scf.for %r = %t to %m step %n3 {",
            *(
                f"%{name}t = ktdp.construct_access_tile %{name}v[%r, %z] {{access_tile_set = {k.box((1, 64))}, "
                f"access_tile_order = {k.identity(2)}}} : memref<?x64xf16> -> !ktdp.access_tile<1x64xindex>"
                for name in ("src", "dst")
            ),
            k.load("x", "srct", (1, 64)),
            k.store("x", "dstt", (1, 64)),
            "}",
        ],
        [3],
    )
    src = half(rows, 64)
    assert np.array_equal(outputs(text, src=src, m=rows)["dst"], src)
