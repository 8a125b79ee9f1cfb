"""Tensors that are larger than a kernel was compiled for: what dfsched compiles is never cut into tiles.

Whether the parts of a result depend on each other, or on where an element stands, is not known at launch: a
softmax over the cut dimension or a use of `linalg.index` would give wrong values. Artefacts that declare their
dimensions tileable are cut (runtime spec 3.14).
"""

from __future__ import annotations

import attrs
import numpy as np
import pytest

import dfsched
import ktir
import spyrert
import spyresim
from spyrert.errors import TilingError

HEAD = """
#all = affine_set<(r, c) : (r >= 0, 127 - r >= 0, c >= 0, 63 - c >= 0)>
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (c)>
func.func @k(%a: index, %b: index) attributes {grid = [1]} {
  %av = ktdp.construct_memory_view %a, sizes: [128, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<128x64xf32>
  %bv = ktdp.construct_memory_view %b, sizes: [128, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<128x64xf32>
  %at = ktdp.construct_access_tile %av[0, 0] {access_tile_order = #id, access_tile_set = #all} : memref<128x64xf32> -> !ktdp.access_tile<128x64xindex>
  %bt = ktdp.construct_access_tile %bv[0, 0] {access_tile_order = #id, access_tile_set = #all} : memref<128x64xf32> -> !ktdp.access_tile<128x64xindex>
  %x = ktdp.load %at : <128x64xindex> -> tensor<128x64xf32>
  %e = tensor.empty() : tensor<128x64xf32>
"""
TAIL = """
  ktdp.store %y, %bt : tensor<128x64xf32>, <128x64xindex>
  return
}
"""
BODIES = {
    "element by element": "  %y = arith.addf %x, %x : tensor<128x64xf32>",
    "with the number of the row": """
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<128x64xf32>) outs(%e : tensor<128x64xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = linalg.index 0 : index
    %i = arith.index_cast %r : index to i32
    %f = arith.sitofp %i : i32 to f32
    %s = arith.addf %p, %f : f32
    linalg.yield %s : f32
  } -> tensor<128x64xf32>""",
    "less the sum of the column": """
  %z = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<128x64xf32>) outs(%z : tensor<64xf32>) {
  ^bb0(%p: f32, %q: f32):
    %t = arith.addf %p, %q : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<128x64xf32>, tensor<64xf32>) outs(%e : tensor<128x64xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.subf %p, %q : f32
    linalg.yield %t : f32
  } -> tensor<128x64xf32>""",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_larger_tensors(body: str) -> None:
    module = ktir.parse(HEAD + BODIES[body] + TAIL)
    ktir.verify(module)
    code = dfsched.compile(module, "spyre").spyrecode
    assert code is not None
    with spyrert.Runtime(device_factory=spyresim.SimDevice) as rt:
        plan = rt.prepare_kernel(code)
        x = np.random.default_rng(3).integers(-4, 4, size=(128, 64)).astype(np.float32)
        out = rt.empty(x.shape, "float32", plan.args[1].layout)
        rt.launch(plan, [rt.to_device(x, layout=plan.args[0].layout), out]).wait()
        meant = spyresim.run_ktir(module, "k", {"a": x}).outputs["b"]
        np.testing.assert_array_equal(rt.to_host(out), meant)
        for shape in ((256, 64), (128, 128), (256, 128), (130, 64)):
            larger = np.ones(shape, np.float32)
            tensors = [
                rt.to_device(larger, layout=plan.args[0].layout),
                rt.empty(shape, "float32", plan.args[1].layout),
            ]
            for staging in (False, True):
                with pytest.raises(TilingError, match=r"dimension 'a\.[01]' may not be tiled"):
                    rt.launch(plan, tensors, allow_staging=staging)


def test_declared_dimensions_are_cut() -> None:
    """Who knows better says so in the launch spec."""
    code = dfsched.compile(ktir.parse(HEAD + BODIES["element by element"] + TAIL), "spyre").spyrecode
    assert code is not None
    assert code.launch is not None
    args = tuple(attrs.evolve(arg, dims=("rows", "columns")) for arg in code.launch.args)
    code = attrs.evolve(code, launch=attrs.evolve(code.launch, args=args, dims=()))
    with spyrert.Runtime(device_factory=spyresim.SimDevice) as rt:
        plan = rt.prepare_kernel(code)
        x = np.random.default_rng(3).normal(size=(384, 64)).astype(np.float32)
        out = rt.empty(x.shape, "float32", plan.args[1].layout)
        ticket = rt.launch(plan, [rt.to_device(x, layout=plan.args[0].layout), out])
        ticket.wait()
        assert ticket.tiles == 3
        np.testing.assert_array_equal(rt.to_host(out), x + x)
