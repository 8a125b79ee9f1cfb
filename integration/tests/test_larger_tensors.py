"""Tensors that are larger than a kernel was compiled for: only what dfsched proves independent is cut into tiles.

A softmax along the cut dimension, a use of `linalg.index` or of neighbours would give wrong values: such dimensions
are declared as not tileable (runtime spec 3.14).  The others give what the kernel means for the larger size.
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np
import pytest

import dfsched
import ktir
import spyrert
import spyresim
from dfsched.codegen.launch import launch_plan
from spyrert.errors import TilingError

SIZES = {"R": 16, "C": 64}


def kernel(
    body: str, reads: str = "[0, 0]", writes: str = "[0, 0]", result: str = "%y", head: str = ""
) -> str:
    """A kernel of RxC tensors %a, %b (read), %w (C values, read) and %o (written); capital letters are sizes."""

    def view(name: str, sizes: str, strides: str, type: str, set: str) -> str:
        return (
            f"  %{name}v = ktdp.construct_memory_view %{name}, sizes: [{sizes}], strides: [{strides}] "
            f"{{coordinate_set = {set}, memory_space = #ktdp.memory_space<global>}} : memref<{type}xf32>\n"
        )

    def tile(name: str, at: str, type: str, set: str, order: str) -> str:
        return (
            f"  %{name}t = ktdp.construct_access_tile %{name}v{at} {{access_tile_order = {order}, "
            f"access_tile_set = {set}}} : memref<{type}xf32> -> !ktdp.access_tile<{type}xindex>\n"
        )

    whole = "RxC"
    return (
        "#all = affine_set<(r, c) : (r >= 0, R - 1 - r >= 0, c >= 0, C - 1 - c >= 0)>\n"
        "#one = affine_set<(c) : (c >= 0, C - 1 - c >= 0)>\n"
        "#id = affine_map<(r, c) -> (r, c)>\n#col = affine_map<(r, c) -> (c)>\n#row = affine_map<(r, c) -> (r)>\n"
        "#line = affine_map<(c) -> (c)>\n"
        "func.func @k(%a: index, %b: index, %w: index, %o: index) attributes {grid = [1]} {\n"
        + view("a", "R, C", "C, 1", whole, "#all")
        + view("b", "R, C", "C, 1", whole, "#all")
        + view("w", "C", "1", "C", "#one")
        + view("o", "R, C", "C, 1", whole, "#all")
        + head
        + tile("a", "[0, 0]", whole, "#all", "#id")
        + tile("b", reads, whole, "#all", "#id")
        + tile("w", "[0]", "C", "#one", "#line")
        + tile("o", writes, whole, "#all", "#id")
        + "  %x = ktdp.load %at : <RxCxindex> -> tensor<RxCxf32>\n"
        "  %z = ktdp.load %bt : <RxCxindex> -> tensor<RxCxf32>\n"
        "  %u = ktdp.load %wt : <Cxindex> -> tensor<Cxf32>\n"
        "  %e = tensor.empty() : tensor<RxCxf32>\n"
        + body
        + f"\n  ktdp.store {result}, %ot : tensor<RxCxf32>, <RxCxindex>\n  return\n}}\n"
    )


def sized(text: str, **sizes: int) -> str:
    """The text for some sizes."""
    text = text.replace("RxC", "Rx{C}".format(**sizes))
    return re.sub(r"(?<![A-Za-z_%#@])(R|C)(?=\b|x)", lambda found: str(sizes[found[1]]), text)


ADD_ALL = """
  %y = linalg.generic {indexing_maps = [#id, #id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %z, %u : tensor<RxCxf32>, tensor<RxCxf32>, tensor<Cxf32>) outs(%e : tensor<RxCxf32>) {
  ^bb0(%p: f32, %q: f32, %v: f32, %out: f32):
    %s = arith.addf %p, %q : f32
    %t = arith.mulf %s, %v : f32
    linalg.yield %t : f32
  } -> tensor<RxCxf32>"""
INDEXED = """
  %y = linalg.generic {indexing_maps = [#id, #id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %z, %u : tensor<RxCxf32>, tensor<RxCxf32>, tensor<Cxf32>) outs(%e : tensor<RxCxf32>) {
  ^bb0(%p: f32, %q: f32, %v: f32, %out: f32):
    %r = linalg.index DIM : index
    %i = arith.index_cast %r : index to i32
    %f = arith.sitofp %i : i32 to f32
    %s = arith.addf %p, %f : f32
    %t = arith.addf %s, %q : f32
    %g = arith.addf %t, %v : f32
    linalg.yield %g : f32
  } -> tensor<RxCxf32>"""
FOLDED = """
  %zero = arith.constant dense<0.0> : tensor<ALONGxf32>
  %f = linalg.generic {indexing_maps = [#id, #MAP], iterator_types = [KINDS]} ins(%x : tensor<RxCxf32>) outs(%zero : tensor<ALONGxf32>) {
  ^bb0(%p: f32, %q: f32):
    %t = arith.addf %p, %q : f32
    linalg.yield %t : f32
  } -> tensor<ALONGxf32>
  %y = linalg.generic {indexing_maps = [#id, #MAP, #id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f, %z, %u : tensor<RxCxf32>, tensor<ALONGxf32>, tensor<RxCxf32>, tensor<Cxf32>) outs(%e : tensor<RxCxf32>) {
  ^bb0(%p: f32, %q: f32, %m: f32, %v: f32, %out: f32):
    %t = arith.subf %p, %q : f32
    %s = arith.addf %t, %m : f32
    %g = arith.addf %s, %v : f32
    linalg.yield %g : f32
  } -> tensor<RxCxf32>"""  # fmt: skip
ROWS, COLUMNS = frozenset({"a.0"}), frozenset({"a.1"})
BODIES: dict[str, tuple[str, frozenset[str]]] = {
    "element by element": (kernel(ADD_ALL), ROWS | COLUMNS),
    "on tensors": (kernel("  %m = arith.mulf %x, %z : tensor<RxCxf32>\n  %n = math.absf %m : tensor<RxCxf32>\n"
            "  %d = linalg.broadcast ins(%u : tensor<Cxf32>) outs(%e : tensor<RxCxf32>) dimensions = [0]\n"
            "  %y = arith.addf %n, %d : tensor<RxCxf32>"), ROWS | COLUMNS),
    "with the number of the row": (kernel(INDEXED.replace("DIM", "0")), COLUMNS),
    "with the number of the column": (kernel(INDEXED.replace("DIM", "1")), ROWS),
    "less the sum of the row": (
        kernel(FOLDED.replace("ALONG", "R").replace("MAP", "row").replace("KINDS", '"parallel", "reduction"')),
        ROWS,
    ),
    "less the sum of the column": (
        kernel(FOLDED.replace("ALONG", "C").replace("MAP", "col").replace("KINDS", '"reduction", "parallel"')),
        COLUMNS,
    ),
}  # fmt: skip


def compiled(text: str) -> tuple[ktir.Module, Any]:
    module = ktir.parse(text)
    ktir.verify(module)
    code = dfsched.compile(module, "spyre").spyrecode
    assert code is not None
    assert code.launch is not None
    return module, code


def tileable(code: Any) -> set[str]:
    return {name for arg in code.launch.args for name in arg.dims if code.launch.dim(name).tileable}


@pytest.mark.parametrize("name", BODIES)
def test_larger_tensors(name: str) -> None:
    """What is declared as tileable is, by the meaning of the same text with the larger size; the rest is refused."""
    text, expected = BODIES[name]
    _, code = compiled(sized(text, **SIZES))
    assert {f"a.{axis}" for axis in (0, 1) if code.launch.args[0].dims[axis] in tileable(code)} == expected
    rng = np.random.default_rng(3)
    with spyrert.Runtime(device_factory=spyresim.SimDevice) as rt:
        plan = rt.prepare_kernel(code)
        for rows, columns in ((1, 1), (2, 1), (1, 2), (3, 2)):
            sizes = {"R": SIZES["R"] * rows, "C": SIZES["C"] * columns}
            both, line = (sizes["R"], sizes["C"]), (sizes["C"],)
            given = {
                n: rng.integers(-4, 4, s).astype(np.float32)
                for n, s in (("a", both), ("b", both), ("w", line))
            }
            layouts = {arg.name: arg.layout for arg in plan.args}
            out = rt.empty(both, "float32", layouts["o"])
            tensors = [*(rt.to_device(value, layout=layouts[n]) for n, value in given.items()), out]
            wanted = {f"a.{axis}" for axis, times in enumerate((rows, columns)) if times > 1}
            if not wanted <= expected:
                with pytest.raises(TilingError, match=r"may not be tiled"):
                    rt.launch(plan, tensors, allow_staging=True)
                continue
            rt.launch(plan, tensors, allow_staging=True).wait()
            meant = spyresim.run_ktir(ktir.parse(sized(text, **sizes)), "k", given).outputs["o"]
            np.testing.assert_array_equal(rt.to_host(out), meant)


def test_matching_positions_count() -> None:
    """Rows that are read one further down, or columns in the other's place, run along no common dimension."""
    small = "#most = affine_set<(r, c) : (r >= 0, 14 - r >= 0, c >= 0, 63 - c >= 0)>\n"
    shifted = small + sized(kernel(ADD_ALL, reads="[1, 0]"), **SIZES)
    for sign in ("#all} : memref<16x64xf32> -> !ktdp.access_tile<16x64xindex>",):
        shifted = shifted.replace(sign, "#most} : memref<16x64xf32> -> !ktdp.access_tile<15x64xindex>")
    shifted = shifted.replace("tensor<16x64xf32>", "tensor<15x64xf32>").replace(
        "<16x64xindex> ->", "<15x64xindex> ->"
    )
    shifted = shifted.replace("tensor<15x64xf32>, <16x64xindex>", "tensor<15x64xf32>, <15x64xindex>")
    ktir.verify(ktir.parse(shifted))
    _, code = compiled(shifted)
    assert {n for n in tileable(code) if n.endswith(".0")} == set()
    assert code.launch.args[0].dims[1] in tileable(code)


PLAIN = """
#all = affine_set<(r, c) : (r >= 0, 63 - r >= 0, c >= 0, 63 - c >= 0)>
#id = affine_map<(r, c) -> (r, c)>
#flip = affine_map<(r, c) -> (c, r)>
#some = affine_set<(r, c) : (r >= 0, 15 - r >= 0, c >= 0, 15 - c >= 0)>
func.func @k(%a: index LAYOUT, %o: index, %first: index) attributes {grid = [GRID]} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %tile = ktdp.get_compute_tile_id : index
  %av = ktdp.construct_memory_view %a, sizes: [64, 64], strides: [STRIDES] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf32>
  %ov = ktdp.construct_memory_view %o, sizes: [64, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf32>
  BEFORE
  %at = ktdp.construct_access_tile %av[READ] {access_tile_order = #ORDER, access_tile_set = #some} : memref<64x64xf32> -> !ktdp.access_tile<16x16xindex>
  %ot = ktdp.construct_access_tile %ov[WRITE] {access_tile_order = #id, access_tile_set = #some} : memref<64x64xf32> -> !ktdp.access_tile<16x16xindex>
  %x = ktdp.load %at : <16x16xindex> -> tensor<16x16xf32>
  BODY
  ktdp.store %y, %ot : tensor<16x16xf32>, <16x16xindex>
  AFTER
  return
}
"""
TWICE = "%y = arith.addf %x, %x : tensor<16x16xf32>"
LOOP = "scf.for %j = %zero to %four step %one {"
SPLIT = "(%tile floordiv 4) * 16, (%tile mod 4) * 16"
LOOPS = "scf.for %i = %zero to %four step %one {\n scf.for %j = %zero to %four step %one {"
NUMBERED = """%n = arith.index_cast %tile : index to i32
  %f = arith.sitofp %n : i32 to f32
  %s = tensor.splat %f : tensor<16x16xf32>
  %y = arith.addf %x, %s : tensor<16x16xf32>"""
CONDITION = "%c = arith.cmpi eq, %tile, %zero : index\n  scf.if %c {"
FLIPPED = """%e = tensor.empty() : tensor<16x16xf32>
  %t = linalg.transpose ins(%x : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) permutation = [1, 0]
  %y = arith.addf %x, %t : tensor<16x16xf32>"""
DENSE = f"%d = arith.constant dense<[{', '.join(['[' + ', '.join(map(str, range(16))) + ']'] * 16)}]> : tensor<16x16xf32>\n  %y = arith.addf %x, %d : tensor<16x16xf32>".replace(
    "0,", "0.0,"
)
DENSE = re.sub(r"(?<![\d.x])(\d+)(?=[,\]])", r"\1.0", DENSE)
PLACES: dict[str, tuple[dict[str, str], set[str]]] = {
    "one tile per core": (
        {"READ": "%tile * 16, %j * 16", "WRITE": "%tile * 16, %j * 16", "BEFORE": LOOP, "AFTER": "}"}, {"a.0", "a.1"}
    ),
    "other rows are read": (
        {"READ": "%tile * 16 + 16, %j * 16", "WRITE": "%tile * 16, %j * 16", "BEFORE": LOOP, "AFTER": "}"}, {"a.1"}
    ),
    "other columns are read": ({"READ": "%tile * 16, 16", "WRITE": "%tile * 16, 0"}, {"a.0"}),
    "some columns": ({"READ": "%tile * 16, 0", "WRITE": "%tile * 16, 0"}, {"a.0"}),
    "some columns and rows": ({}, set()),
    "every second block of rows": ({"READ": "%tile * 32, 0", "WRITE": "%tile * 32, 0", "GRID": "2"}, set()),
    "overlapping rows": ({"READ": "%tile * 8, 0", "WRITE": "%tile * 8, 0", "GRID": "7"}, {"a.0"}),
    "the diagonal": ({"READ": "%tile * 16, %tile * 16", "WRITE": "%tile * 16, %tile * 16"}, set()),
    "all blocks by one number": ({"READ": SPLIT, "WRITE": SPLIT, "GRID": "16"}, {"a.0", "a.1"}),
    "rows that the launch chooses": ({"READ": "%first, 0", "WRITE": "%first, 0"}, set()),
    "two loops": ({"READ": "%i * 16, %j * 16", "WRITE": "%i * 16, %j * 16", "BEFORE": LOOPS, "AFTER": "}\n}"}, {"a.0", "a.1"}),
    "loops exchanged": ({"READ": "%i * 16, %j * 16", "WRITE": "%j * 16, %i * 16", "BEFORE": LOOPS, "AFTER": "}\n}"}, set()),
    "the tile's number is added": ({"BODY": NUMBERED}, set()),
    "one tile of many": ({"BEFORE": CONDITION, "AFTER": "}"}, set()),
    "a tile and its transpose": ({"BODY": FLIPPED}, set()),
    "an order that turns": ({"ORDER": "flip"}, set()),
    "a view that turns": ({"STRIDES": "1, 64"}, set()),
    "a table": ({"BODY": DENSE}, set()),
    "bounds of the core": ({"READ": "%i * 16, %j * 16", "WRITE": "%i * 16, %j * 16", "BEFORE": LOOPS.replace("%four", "%tile", 1), "AFTER": "}\n}"}, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_matching_places(name: str) -> None:
    """A dimension is cut where every argument is touched at the same places, which nothing else depends on, and
    where the stores fill it from end to end: a part of a longer one is none of its parts.
    """
    changes, expected = PLACES[name]
    usual = {
        "LAYOUT": "", "GRID": "4", "STRIDES": "64, 1", "BEFORE": "", "AFTER": "", "READ": "0, 0", "WRITE": "0, 0",
        "ORDER": "id", "BODY": TWICE,
    }  # fmt: skip
    text = re.sub("|".join(usual), lambda found: {**usual, **changes}[found[0]], PLAIN)
    module = ktir.parse(text)
    ktir.verify(module)
    spec = launch_plan(module, "k", dfsched.load_architecture("spyre")).spec
    assert {dim.name for dim in spec.dims if dim.tileable} == expected


def test_declared_dimensions_are_cut() -> None:
    """Who knows better says so in the launch spec."""
    text, _ = BODIES["with the number of the row"]
    _, code = compiled(sized(text, **SIZES))
    args = tuple(
        attrs.evolve(arg, dims=("columns",) if arg.name == "w" else ("rows", "columns"))
        for arg in code.launch.args
    )
    code = attrs.evolve(code, launch=attrs.evolve(code.launch, args=args, dims=()))
    with spyrert.Runtime(device_factory=spyresim.SimDevice) as rt:
        plan = rt.prepare_kernel(code)
        layout = plan.args[0].layout
        zeros, w = np.zeros((32, 64), np.float32), np.zeros(64, np.float32)
        out = rt.empty(zeros.shape, "float32", layout)
        inputs = [rt.to_device(v, layout=layout) for v in (zeros, zeros)]
        ticket = rt.launch(plan, [*inputs, rt.to_device(w, layout=plan.args[2].layout), out])
        ticket.wait()
        assert ticket.tiles == 2
        np.testing.assert_array_equal(rt.to_host(out)[:, 0], np.tile(np.arange(16), 2))
