"""What is legal KTIR but not scheduled yet is refused by name, at its place."""

from __future__ import annotations

import pytest

import dfsched
import ktir

HEADER = """\
#id1 = affine_map<(i) -> (i)>
#id2 = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#g2 = affine_set<(g) : (g >= 0, -g + 1 >= 0)>
#four = affine_set<(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @k(%v: memref<96xf16>, %table: memref<5x3xi32>, %pool: memref<12x8x16xf16>, %i: index, %p: i1,
             %x: tensor<8x8xf16>, %e: tensor<8x8xf16>, %w: tensor<8xf16>, %s: tensor<f16>,
             %stick: tensor<64xf16>) {
"""

FUTURE = "!ktdp.tile_future<tensor<8xf16>, groups = #g2>"
PRODUCE = """\
  %f = ktdp.inter_tile_produce producer_tiles_per_group = #four -> <(tensor<8xf16>), groups = #g2> {
  ^bb0(%g: index):
    ktdp.yield_partial %w : tensor<8xf16>
  }
"""
PRODUCED = "communication between tiles is", "ktdp.inter_tile_produce", 0, 8
T = "tensor<8x8xf16>"

# Body, then what is refused: subject, operation, line within the body, column.
CASES: dict[str, tuple[str, list[tuple[str, str, int, int]]]] = {
    "matrix products": (
        f"  %y = linalg.matmul ins(%x, %x : {T}, {T}) outs(%e : {T}) -> {T}\n",
        [("matrix products are", "linalg.matmul", 0, 8)],
    ),
    "a matrix and a vector": (
        f"  %y = linalg.matvec ins(%x, %w : {T}, tensor<8xf16>) outs(%w : tensor<8xf16>) -> tensor<8xf16>\n"
        f"  %z = linalg.vecmat ins(%w, %x : tensor<8xf16>, {T}) outs(%w : tensor<8xf16>) -> tensor<8xf16>\n",
        [("matrix products are", "linalg.matvec", 0, 8), ("matrix products are", "linalg.vecmat", 1, 8)],
    ),
    "inner products": (
        "  %y = linalg.dot ins(%w, %w : tensor<8xf16>, tensor<8xf16>) outs(%s : tensor<f16>) -> tensor<f16>\n",
        [("matrix products are", "linalg.dot", 0, 8)],
    ),
    "contractions": (
        '  %y = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", '
        f'"reduction"]}} ins(%x, %x : {T}, {T}) outs(%e : {T}) {{\n'
        "  ^bb0(%l: f16, %r: f16, %acc: f16):\n"
        "    %m = arith.mulf %l, %r : f16\n"
        "    %n = arith.addf %acc, %m : f16\n"
        "    linalg.yield %n : f16\n"
        f"  }} -> {T}\n",
        [("matrix products are", "linalg.generic", 0, 8)],
    ),
    "loop-carried tensors": (
        f"  %y = scf.for %j = %i to %i step %i iter_args(%c = %x) -> ({T}) {{\n    scf.yield %c : {T}\n  }}\n",
        [("loop-carried values are", "scf.for", 0, 8)],
    ),
    "loops with conditions": (
        "  scf.while : () -> () {\n    scf.condition(%p)\n  } do {\n    scf.yield\n  }\n",
        [("loops with conditions are", "scf.while", 0, 3)],
    ),
    "distributed views": (
        "  %d = ktdp.construct_distributed_memory_view"
        "(%v, %v : memref<96xf16>, memref<96xf16>) : memref<192xf16>\n",
        [("distributed memory views are", "ktdp.construct_distributed_memory_view", 0, 8)],
    ),
    "indirect access": (
        "  %t = ktdp.construct_indirect_access_tile intermediate_variables (%m, %l) "
        "%pool[ind(%table[%i, %m floordiv 8]), (%m mod 8), (%l)] "
        "{variables_space_set = affine_set<(t, l) : (t >= 0, -t + 23 >= 0, l >= 0, -l + 15 >= 0)>, "
        "variables_space_order = #id2} : memref<12x8x16xf16>, memref<5x3xi32> -> "
        "!ktdp.access_tile<24x16xindex>\n",
        [("indirect access is", "ktdp.construct_indirect_access_tile", 0, 8)],
    ),
    "reductions over tiles": (
        PRODUCE + "  %r = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #four, "
        "identity(%w : tensor<8xf16>) : <(tensor<8xf16>), groups = #g2> -> tensor<8xf16> {\n"
        "  ^bb0(%m: tensor<8xf16>, %n: tensor<8xf16>):\n"
        "    %o = arith.addf %m, %n : tensor<8xf16>\n"
        "    ktdp.yield_reduced %o : tensor<8xf16>\n  }\n",
        [PRODUCED, ("communication between tiles is", "ktdp.inter_tile_reduce", 4, 8)],
    ),
    "exchange between tiles": (
        PRODUCE + "  %r = ktdp.inter_tile_consume(%f) consumer_tiles_per_group = #four, "
        "producer_dependency_per_consumer = "
        "affine_set<(p)[c] : ((p - c - 1) mod 4 == 0, p >= 0, -p + 3 >= 0)> "
        ": <(tensor<8xf16>), groups = #g2> -> tensor<8xf16>\n",
        [PRODUCED, ("communication between tiles is", "ktdp.inter_tile_consume", 4, 8)],
    ),
    "moments of rows": (
        '  %m, %q = linalg.generic {indexing_maps = [#id2, #row, #row], iterator_types = ["parallel", '
        f'"reduction"]}} ins(%x : {T}) outs(%w, %w : tensor<8xf16>, tensor<8xf16>) {{\n'
        "  ^bb0(%l: f16, %o: f16, %p2: f16):\n"
        "    %a, %b = spyreop.exx2 %l : f16\n"
        "    linalg.yield %a, %b : f16, f16\n"
        "  } -> (tensor<8xf16>, tensor<8xf16>)\n",
        [("moments of rows are", "spyreop.exx2", 2, 14)],
    ),
    "reductions within a stick": (
        "  %y = spyreop.slice_reduction %stick {reduction_kind = #spyreop.reduction_kind<add>, "
        "reduction_scope = #spyreop.reduction_scope<in_slice>} : tensor<64xf16> -> tensor<64xf16>\n",
        [("reductions within a stick are", "spyreop.slice_reduction", 0, 8)],
    ),
    "tensors that are put together": (
        f"  %y = tensor.insert_slice %x into %x[0, 0] [8, 8] [1, 1] : {T} into {T}\n",
        [("tensors that are put together are", "tensor.insert_slice", 0, 8)],
    ),
    "conditions with results": (
        f"  %y = scf.if %p -> ({T}) {{\n    scf.yield %x : {T}\n  }} else {{\n    scf.yield %e : {T}\n  }}\n",
        [("conditions with results are", "scf.if", 0, 8)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_at_its_place(name: str) -> None:
    """Checklist L2: the message names what is missing; file, line and column are those of the operation."""
    body, expected = CASES[name]
    module = ktir.parse(HEADER + body + "  return\n}\n", file="kernel.mlir")
    ktir.verify(module)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        dfsched.compile(module, "sample")
    first = HEADER.count("\n") + 1
    found = [(d.message, d.location.file_line_column()) for d in caught.value.diagnostics if d.location]
    assert found == [
        (f"'{op}': {subject} not supported yet", ("kernel.mlir", first + line, column))
        for subject, op, line, column in expected
    ]
    assert str(caught.value).startswith(f"kernel.mlir:{first + expected[0][2]}:{expected[0][3]}: error: ")


def test_matrices_and_vectors_in_generics_are_reductions() -> None:
    """What has no two parallel loops of its own is no matrix product."""
    text = (
        '  %y = linalg.generic {indexing_maps = [#m, #n, #o], iterator_types = ["parallel", "reduction"]} '
        f"ins(%x, %w : {T}, tensor<8xf16>) outs(%w : tensor<8xf16>) {{\n"
        "  ^bb0(%l: f16, %r: f16, %acc: f16):\n"
        "    %m = arith.mulf %l, %r : f16\n"
        "    %n = arith.addf %acc, %m : f16\n"
        "    linalg.yield %n : f16\n"
        "  } -> tensor<8xf16>\n"
    )
    maps = (
        "#m = affine_map<(d0, d1) -> (d0, d1)>\n#n = affine_map<(d0, d1) -> (d1)>\n"
        "#o = affine_map<(d0, d1) -> (d0)>\n"
    )
    module = ktir.parse(maps + HEADER + text + "  return\n}\n")
    dfsched.compile(module, "sample", dfsched.Options(stop_after="ktir-legality-check"))


def test_any_body_of_a_reduce_is_legal_in_the_first_version() -> None:
    """Checklist L5: `linalg.reduce` may combine by a maximum."""
    text = (
        f"  %y = linalg.reduce {{ arith.maximumf }} ins(%x : {T}) outs(%w : tensor<8xf16>) dimensions = [1]\n"
    )
    module = ktir.parse(HEADER + text + "  return\n}\n")
    dfsched.compile(module, "sample", dfsched.Options(stop_after="ktir-legality-check", profile="v1"))


def test_named_operations_are_refused_at_their_place() -> None:
    """What a device has no instruction for is told at the operation that stands for it."""
    text = """#s = affine_set<(i) : (i >= 0, -i + 63 >= 0)>
func.func @k(%p: index) {
  %c0 = arith.constant 0 : index
  %v = ktdp.construct_memory_view %p, sizes: [64], strides: [1] {coordinate_set = #s,
      memory_space = #ktdp.memory_space<global>} : memref<64xf16>
  %t = ktdp.construct_access_tile %v[%c0] {access_tile_set = #s, access_tile_order = affine_map<(i) -> (i)>}
      : memref<64xf16> -> !ktdp.access_tile<64xindex>
  %x = ktdp.load %t : <64xindex> -> tensor<64xf16>
  %y = linalg.rsqrt ins(%x : tensor<64xf16>) outs(%x : tensor<64xf16>) -> tensor<64xf16>
  ktdp.store %y, %t : tensor<64xf16>, <64xindex>
  return
}"""
    with pytest.raises(dfsched.DfschedError, match=r":9:8: error: .*'math.rsqrt'"):
        dfsched.compile(ktir.parse(text), "sample_h")
