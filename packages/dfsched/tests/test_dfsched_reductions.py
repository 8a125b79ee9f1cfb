"""Reductions and groups of generics: fusion, slabs, exposed loops, lanes, indices; text in, text out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dfsched
import ktir
from dfsched.dialects.dataflow import GetUnit
from dfsched.dialects.ktdf import Parallel
from dfsched.dialects.ktdf_lowering import Signal
from dfsched.passes import generalize_linalg, narrow_index_lanes
from dfsched.passes.base import PassContext
from dfsched.passes.reductions import combine_of, neutral_element
from ktir.analysis import DefUse
from ktir.dialects import linalg
from ktir.ir import Value

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")
DEVICES = ["sample", "spyre", "sample_h", QUAD]


def reduction(shape: tuple[int, int], over: int, op: str = "arith.addf", init: str = "0.0") -> str:
    """A reduction of a 2-d f16 array, on one tile."""
    kept = shape[1 - over]
    rows, columns = shape
    return f"""
    #x = affine_set<(d0, d1) : (d0 >= 0, -d0 + {rows - 1} >= 0, d1 >= 0, -d1 + {columns - 1} >= 0)>
    #y = affine_set<(d0) : (d0 >= 0, -d0 + {kept - 1} >= 0)>
    #i2 = affine_map<(d0, d1) -> (d0, d1)>
    #i1 = affine_map<(d0) -> (d0)>
    func.func @k(%a: index, %b: index) attributes {{grid = [1]}} {{
      %c0 = arith.constant 0 : index
      %av = ktdp.construct_memory_view %a, sizes: [{rows}, {columns}], strides: [{columns}, 1]
            {{coordinate_set = #x, memory_space = #ktdp.memory_space<global>}} : memref<{rows}x{columns}xf16>
      %bv = ktdp.construct_memory_view %b, sizes: [{kept}], strides: [1]
            {{coordinate_set = #y, memory_space = #ktdp.memory_space<global>}} : memref<{kept}xf16>
      %at = ktdp.construct_access_tile %av[%c0, %c0] {{access_tile_set = #x, access_tile_order = #i2}}
            : memref<{rows}x{columns}xf16> -> !ktdp.access_tile<{rows}x{columns}xindex>
      %bt = ktdp.construct_access_tile %bv[%c0] {{access_tile_set = #y, access_tile_order = #i1}}
            : memref<{kept}xf16> -> !ktdp.access_tile<{kept}xindex>
      %x = ktdp.load %at : <{rows}x{columns}xindex> -> tensor<{rows}x{columns}xf16>
      %i = arith.constant dense<{init}> : tensor<{kept}xf16>
      %y = linalg.reduce {{ {op} }} ins(%x : tensor<{rows}x{columns}xf16>) outs(%i : tensor<{kept}xf16>)
           dimensions = [{over}]
      ktdp.store %y, %bt : tensor<{kept}xf16>, <{kept}xindex>
      return
    }}
    """


def after(name: str, text: str, device: str) -> str:
    """The module after the last run of a pass."""
    compiled = dfsched.compile(ktir.parse(text), device, dfsched.Options(emit="schedule"))
    found = next(result for result in reversed(compiled.passes) if result.name == name)
    return ktir.print_module(found.module)


def lanes(device: str) -> int:
    return dfsched.load_architecture(device).vector_length(["f16"])


@pytest.mark.parametrize("device", DEVICES)
def test_columns_are_a_slab(device: str) -> None:
    """scheduler checklist T4: no loop for the reduced dimension; it is in the load box and the slot, not in the store."""
    text = after("construct-three-stage-pipeline", reduction((32, 128), 0), device)
    n = lanes(device)
    assert text.count("scf.for") == 1
    assert f"[0, %arg0] size [32, {n}]" in text
    assert f", {32 * n}xf16>" in text
    assert re.search(rf"to %\w+\[%arg0\] size \[{n}\] : !ktdf.fifo.slot<", text)
    assert "ktdf.reassociated" not in text  # lanes are not reduced: the order is that of the kernel


@pytest.mark.parametrize("device", DEVICES)
def test_rows_are_reduced_in_vectors(device: str) -> None:
    """The order of vectors is marked where lanes are reduced and rounding depends on it (readings 16)."""
    n = lanes(device)
    text = after("construct-three-stage-pipeline", reduction((8, 2 * n), 1), device)
    assert f"ktdf.reassociated, ktdf.vector = array<i64: 1, {n}>" in text
    text = after(
        "construct-three-stage-pipeline", reduction((8, 2 * n), 1, "arith.maximumf", "0xFC00"), device
    )
    assert "ktdf.reassociated" not in text


@pytest.mark.parametrize("device", DEVICES)
def test_exposed_loops(device: str) -> None:
    """scheduler checklist R6: slots of one vector, loops marked, one write and one store behind the loop."""
    n = lanes(device)
    text = after("reduction-loop-exposure", reduction((8, 4 * n), 1), device)
    assert f", {n}xf16>" in text
    assert f", {4 * n}xf16>" not in text
    assert (
        text.count("loop_type = #ktdf.loop_type<reduction_loop>") == 2
    )  # in the loading and the computing stage
    compute = text[text.index("iter_args") :]
    assert compute.index("reduction_loop") < compute.index("ktdf.write_to_fifo")
    assert text.count("ktdf.write_to_fifo") == 1


@pytest.mark.parametrize(
    ("op", "start"),
    [
        ("arith.addf", "dense<-0.000000e+00>"),
        ("arith.mulf", "dense<1.000000e+00>"),
        ("arith.maximumf", "dense<0xFC00>"),
        ("arith.minimumf", "dense<0x7C00>"),
    ],
)
def test_lanes_start_with_the_neutral_element(op: str, start: str) -> None:
    """scheduler checklist R9: minus infinity for a maximum, one for a product."""
    text = after("reduction-loop-exposure", reduction((4, 256), 1, op, "2.0"), "sample")
    assert start in text
    assert "arith.constant 2.000000e+00 : f16" in text  # the initial value is combined with the lanes


@pytest.mark.parametrize("device", DEVICES)
def test_short_vectors_are_filled_and_masked(device: str) -> None:
    n = lanes(device)
    text = after("reduction-loop-exposure", reduction((4, n + 3), 1), device)
    masks = dfsched.load_architecture(device).lanes("i1") >= n
    assert ('transfer_mode = "pad"' in text) == masks
    assert ("arith.select" in text) == masks


@pytest.mark.parametrize("device", ["sample", "spyre", QUAD])
def test_devices_map_lane_reductions(device: str) -> None:
    """The instruction comes from a device pattern (readings 13); without one, lanes are folded one by one."""
    text = after("apply-device-patterns", reduction((4, 128), 1), device)
    assert text.count("ktdf_arch.maps_to") == 1
    assert "ktdf_arch.maps_to" not in after("apply-device-patterns", reduction((4, 128), 1), "sample_h")


def test_what_combines() -> None:
    bodies = {
        "%r = arith.addf %acc, %x : f16": "arith.addf",
        "%r = arith.mulf %x, %acc : f16": "arith.mulf",
        "%r = arith.subf %acc, %x : f16": None,
        "%p = arith.addf %acc, %x : f16\n%r = arith.addf %p, %acc : f16": None,
        "%p = arith.addf %acc, %x : f16\n%r = arith.negf %p : f16": None,
    }
    for body, wanted in bodies.items():
        module = ktir.parse(
            f"""func.func @f(%a: tensor<4xf16>, %b: tensor<f16>) {{
            %y = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
              iterator_types = ["reduction"]}} ins(%a : tensor<4xf16>) outs(%b : tensor<f16>) {{
            ^bb0(%x: f16, %acc: f16):
              {body}
              linalg.yield %r : f16
            }} -> tensor<f16>
            return }}"""
        )
        (op,) = (o for o in module.walk() if isinstance(o, linalg.Generic))
        found = combine_of(op)
        assert (None if found is None else found.op.name) == wanted
        if found is not None:
            assert str(neutral_element(found.op)).startswith("-0.0" if wanted == "arith.addf" else "1.0")


def test_matrix_products_are_another_issue() -> None:
    """Located, by name."""
    text = reduction((8, 8), 0).replace(
        "%y = linalg.reduce { arith.addf } ins(%x : tensor<8x8xf16>) outs(%i : tensor<8xf16>)\n"
        "           dimensions = [0]",
        "%e = tensor.empty() : tensor<8x8xf16>\n"
        "%m = linalg.matmul ins(%x, %x : tensor<8x8xf16>, tensor<8x8xf16>) outs(%e : tensor<8x8xf16>)"
        " -> tensor<8x8xf16>\n"
        "%y = linalg.reduce { arith.addf } ins(%m : tensor<8x8xf16>) outs(%i : tensor<8xf16>) dimensions = [0]",
    )
    with pytest.raises(
        dfsched.UnsupportedKernel, match=r"'linalg\.matmul': matrix products are not supported yet"
    ):
        dfsched.compile(ktir.parse(text), "sample")


def centred(rows: int, columns: int) -> str:
    """Rows less their sums: two pipelines in sequence, on one tile."""
    tile = f"{rows}x{columns}"
    return f"""
    #x = affine_set<(d0, d1) : (d0 >= 0, -d0 + {rows - 1} >= 0, d1 >= 0, -d1 + {columns - 1} >= 0)>
    #i2 = affine_map<(d0, d1) -> (d0, d1)>
    #i1 = affine_map<(d0, d1) -> (d0)>
    func.func @k(%a: index, %b: index) attributes {{grid = [1]}} {{
      %c0 = arith.constant 0 : index
      %av = ktdp.construct_memory_view %a, sizes: [{rows}, {columns}], strides: [{columns}, 1]
            {{coordinate_set = #x, memory_space = #ktdp.memory_space<global>}} : memref<{tile}xf16>
      %bv = ktdp.construct_memory_view %b, sizes: [{rows}, {columns}], strides: [{columns}, 1]
            {{coordinate_set = #x, memory_space = #ktdp.memory_space<global>}} : memref<{tile}xf16>
      %at = ktdp.construct_access_tile %av[%c0, %c0] {{access_tile_set = #x, access_tile_order = #i2}}
            : memref<{tile}xf16> -> !ktdp.access_tile<{tile}xindex>
      %bt = ktdp.construct_access_tile %bv[%c0, %c0] {{access_tile_set = #x, access_tile_order = #i2}}
            : memref<{tile}xf16> -> !ktdp.access_tile<{tile}xindex>
      %x = ktdp.load %at : <{tile}xindex> -> tensor<{tile}xf16>
      %i = arith.constant dense<0.0> : tensor<{rows}xf16>
      %s = linalg.reduce {{ arith.addf }} ins(%x : tensor<{tile}xf16>) outs(%i : tensor<{rows}xf16>)
           dimensions = [1]
      %e = tensor.empty() : tensor<{tile}xf16>
      %y = linalg.generic {{indexing_maps = [#i2, #i1, #i2], iterator_types = ["parallel", "parallel"]}}
           ins(%x, %s : tensor<{tile}xf16>, tensor<{rows}xf16>) outs(%e : tensor<{tile}xf16>) {{
        ^bb0(%p: f16, %q: f16, %o: f16):
          %r = arith.subf %p, %q : f16
          linalg.yield %r : f16
        }} -> tensor<{tile}xf16>
      ktdp.store %y, %bt : tensor<{tile}xf16>, <{tile}xindex>
      return
    }}
    """


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("device", ["sample", "spyre", QUAD])
def test_only_units_of_one_instance_meet_inside_of_a_parallel(device: str, rows: int) -> None:
    """Instances run different iterations, and not always as many: who meets must be in one of them."""
    compiled = dfsched.compile(ktir.parse(centred(rows, 256)), device)
    lowered = next(r.module for r in compiled.passes if r.name == "ktdf-to-ktdflowering")
    uses = DefUse(lowered)
    checked = 0
    for signal in lowered.walk():
        if isinstance(signal, Signal) and any(isinstance(op, Parallel) for op in uses.ancestors(signal)):
            corelets = {corelets_of(value, uses) for value in signal.operands}
            assert len(corelets) == 1
            checked += 1
    assert checked or not any(isinstance(op, Parallel) for op in lowered.walk())


def corelets_of(value: Value, uses: DefUse) -> frozenset[int]:
    """The corelets of the units that a query may give."""
    query = uses.definer(value)
    assert query is not None
    mapping = uses.definer(query.operands[0])
    assert mapping is not None
    units = [uses.definer(operand) for operand in mapping.operands]
    return frozenset(u.corelet for u in units if isinstance(u, GetUnit) and u.corelet is not None)


KEPT_RANK = """func.func @f(%a: tensor<4x70xf32>, %i: tensor<{extents}xf32>) -> tensor<{extents}xf32> {{
  %y = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ({subscripts})>],
    iterator_types = [{kinds}]}} ins(%a : tensor<4x70xf32>) outs(%i : tensor<{extents}xf32>) {{
  ^bb0(%x: f32, %acc: f32):
    %r = arith.addf %acc, %x : f32
    linalg.yield %r : f32
  }} -> tensor<{extents}xf32>
  return %y : tensor<{extents}xf32>
}}"""


@pytest.mark.parametrize(
    ("extents", "subscripts", "kinds", "groups"),
    [
        ("4x1", "d0, 0", '"parallel", "reduction"', "[[0, 1]]"),
        ("1x70", "0, d1", '"reduction", "parallel"', "[[0, 1]]"),
        ("1x1", "0, 0", '"reduction", "reduction"', "[]"),
        ("1x4x1x1", "0, d0, 0, 0", '"parallel", "reduction"', "[[0, 1, 2, 3]]"),
        ("4x1x70x1", "d0, 0, d1, 0", '"parallel", "parallel"', "[[0, 1], [2, 3]]"),
    ],
)
def test_dimensions_that_no_loop_walks_leave_the_generic(
    extents: str, subscripts: str, kinds: str, groups: str
) -> None:
    """Results that keep the rank of what is reduced: collapsed in front, expanded behind, same places."""
    module = ktir.parse(KEPT_RANK.format(extents=extents, subscripts=subscripts, kinds=kinds))
    new = generalize_linalg.run(module, PassContext(dfsched.load_architecture("spyre")))
    ktir.verify(new)
    text = ktir.print_module(new)
    assert f"tensor.collapse_shape %i {groups} :" in text
    assert f"{groups} output_shape [{extents.replace('x', ', ')}] :" in text
    (op,) = (o for o in new.walk() if isinstance(o, linalg.Generic))
    assert op.maps[-1].is_projected_permutation
    again = generalize_linalg.run(new, PassContext(dfsched.load_architecture("spyre")))
    assert ktir.print_module(again) == text


def test_an_element_of_a_longer_dimension_stays() -> None:
    """Subscript 0 of an extent above 1 names one element of several; it is refused where it is fused."""
    module = ktir.parse(KEPT_RANK.format(extents="4x2", subscripts="d0, 0", kinds='"parallel", "reduction"'))
    new = generalize_linalg.run(module, PassContext(dfsched.load_architecture("spyre")))
    assert "collapse_shape" not in ktir.print_module(new)


COMPARED = """#m = affine_map<(d0, d1) -> (d0, d1)>
func.func @f(%n: index, %a: tensor<4x70xf16>, %e: tensor<4x70xf16>) -> tensor<4x70xf16> {{
  %y = linalg.generic {{indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]}}
      ins(%a : tensor<4x70xf16>) outs(%e : tensor<4x70xf16>) {{
  ^bb0(%x: f16, %o: f16):
    %j = linalg.index 1 : index
    {body}
    %s = arith.select %c, %x, %o : f16
    linalg.yield %s : f16
  }} -> tensor<4x70xf16>
  return %y : tensor<4x70xf16>
}}"""


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        ("%c = arith.cmpi slt, %j, %n : index", ("minsi 70", "maxsi -1")),
        ("%c = arith.cmpi sge, %n, %j : index", ("minsi 70", "maxsi -1")),
        ("%c = arith.cmpi eq, %j, %n : index", ("minsi 70", "maxsi -1")),
        ("%c = arith.cmpi ult, %j, %n : index", ("minui 70",)),
        ("%t = arith.addi %j, %j : index\n%c = arith.cmpi sle, %t, %n : index", ("minsi 139", "maxsi -1")),
        ("%k = arith.cmpi slt, %j, %n : index\n%c = arith.cmpi ult, %j, %n : index", ()),
        ("%t = arith.addi %j, %n : index\n%c = arith.cmpi slt, %t, %j : index", ()),
    ],
)
def test_what_is_only_compared_needs_no_bounds(body: str, ends: tuple[str, ...]) -> None:
    """An index argument is brought to just outside of what it is compared with; other uses are refused."""
    module = ktir.parse(COMPARED.format(body=body))
    context = PassContext(dfsched.load_architecture("spyre"))
    if not ends:
        with pytest.raises(dfsched.UnsupportedKernel, match="nothing bounds it to 32 bits"):
            narrow_index_lanes.run(module, context)
        return
    new = narrow_index_lanes.run(module, context)
    ktir.verify(new)
    text = ktir.print_module(new)
    found = re.findall(r"arith\.(m\w+) %\w+, %c([-\w]+) : index", text)
    assert tuple(f"{op} {end}" for op, end in found) == ends


WIDE = {
    "arithmetic and a comparison": (
        "%k = arith.muli %w, %c3 : i64\n%p = arith.addi %k, %w : i64\n%c = arith.cmpi slt, %p, %c99 : i64",
        True,
    ),
    "a selection and a narrower type": (
        "%q = arith.cmpi sge, %w, %c3 : i64\n%p = arith.select %q, %w, %c3 : i64\n"
        "%t = arith.trunci %p : i64 to i32\n%z = arith.constant 4 : i32\n%c = arith.cmpi eq, %t, %z : i32",
        True,
    ),
    "there and back": (
        "%p = arith.addi %w, %c3 : i64\n%i = arith.index_cast %p : i64 to index\n%c = arith.cmpi sle, %i, %j : index",
        True,
    ),
    "bits": ("%p = arith.shli %w, %c3 : i64\n%c = arith.cmpi slt, %p, %c99 : i64", False),
    "more than 32 bits": ("%p = arith.muli %w, %big : i64\n%c = arith.cmpi slt, %p, %c99 : i64", None),
}


@pytest.mark.parametrize("name", WIDE)
def test_positions_in_i64_are_narrow_too(name: str) -> None:
    """Where they are computed of indices in ways that a narrow type can follow, and stay in its range."""
    body, narrows = WIDE[name]
    head = (
        "%c3 = arith.constant 3 : i64\n%c99 = arith.constant 99 : i64\n%big = arith.constant 4294967296 : i64\n"
        "%w = arith.index_cast %j : index to i64\n"
    )
    module = ktir.parse(COMPARED.format(body=head + body))
    context = PassContext(dfsched.load_architecture("spyre"))
    if narrows is None:
        with pytest.raises(dfsched.UnsupportedKernel, match="nothing bounds it to 32 bits"):
            narrow_index_lanes.run(module, context)
        return
    new = narrow_index_lanes.run(module, context)
    ktir.verify(new)
    assert ("i64" not in ktir.print_module(new)) == narrows
