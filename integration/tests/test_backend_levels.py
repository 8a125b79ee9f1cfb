"""Kernels whose back end has something to order: every level agrees, on devices of two and three memory levels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfsched
import ktir
import spyresim
from spyresim.device_level import run_device
from spyresim.engine.machine import Options

QUAD = str(Path(__file__).parents[2] / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
DEVICES = ["sample", "spyre", QUAD]
HEAD = """
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 7 >= 0, d1 >= 0, -d1 + 71 >= 0)>
#row = affine_set<(d0, d1) : (d0 == 0, d1 >= 0, -d1 + 71 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
"""
TILE = "{access_tile_set = #row, access_tile_order = #id} : memref<8x72xf16> -> !ktdp.access_tile<1x72xindex>"


def view(name: str) -> str:
    return f"%{name}v = ktdp.construct_memory_view %{name}, sizes: [8, 72], strides: [72, 1] {{coordinate_set = #all, memory_space = #ktdp.memory_space<global>}} : memref<8x72xf16>"


def load(name: str, tile: str) -> str:
    return f"%{name} = ktdp.load {tile} : !ktdp.access_tile<1x72xindex> -> tensor<1x72xf16>"


def store(name: str, tile: str) -> str:
    return f"ktdp.store %{name}, {tile} : tensor<1x72xf16>, !ktdp.access_tile<1x72xindex>"


ACCUMULATE = f"""{HEAD}
func.func @accumulate(%x: index, %sum: index, %n: index) attributes {{grid = [4]}} {{
  %c2 = arith.constant 2 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tid = ktdp.get_compute_tile_id : index
  %base = arith.muli %tid, %c2 : index
  {view("x")}
  {view("sum")}
  scf.for %k = %c0 to %n step %c1 {{
    scf.for %i = %c0 to %c2 step %c1 {{
      %r = arith.addi %base, %i : index
      %xt = ktdp.construct_access_tile %xv[%r, %c0] {TILE}
      %st = ktdp.construct_access_tile %sumv[%r, %c0] {TILE}
      {load("a", "%xt")}
      {load("b", "%st")}
      %c = arith.addf %a, %b : tensor<1x72xf16>
      {store("c", "%st")}
    }}
  }}
  return
}}
"""
BRANCHES = f"""{HEAD}
func.func @branches(%x: index, %y: index, %n: index) attributes {{grid = [4]}} {{
  %c2 = arith.constant 2 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %tid = ktdp.get_compute_tile_id : index
  %base = arith.muli %tid, %c2 : index
  {view("x")}
  {view("y")}
  scf.for %i = %c0 to %c2 step %c1 {{
    %r = arith.addi %base, %i : index
    %xt = ktdp.construct_access_tile %xv[%r, %c0] {TILE}
    %yt = ktdp.construct_access_tile %yv[%r, %c0] {TILE}
    %small = arith.cmpi slt, %r, %n : index
    scf.if %small {{
      {load("a", "%xt")}
      %c = arith.addf %a, %a : tensor<1x72xf16>
      {store("c", "%yt")}
    }} else {{
      {load("a", "%xt")}
      %c = arith.mulf %a, %a : tensor<1x72xf16>
      {store("c", "%yt")}
    }}
  }}
  return
}}
"""


LINE = """
#all = affine_set<(d0) : (d0 >= 0, -d0 + %d >= 0)>
#id = affine_map<(d0) -> (d0)>
"""
MIXED = (
    LINE % 127
    + """
func.func @mixed(%a: index, %o: index, %p: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %av = ktdp.construct_memory_view %a, sizes: [128], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<128xf16>
  %ov = ktdp.construct_memory_view %o, sizes: [128], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<128xf32>
  %pv = ktdp.construct_memory_view %p, sizes: [128], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<128xi32>
  %at = ktdp.construct_access_tile %av[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<128xf16> -> !ktdp.access_tile<128xindex>
  %ot = ktdp.construct_access_tile %ov[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<128xf32> -> !ktdp.access_tile<128xindex>
  %pt = ktdp.construct_access_tile %pv[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<128xi32> -> !ktdp.access_tile<128xindex>
  %x = ktdp.load %at : !ktdp.access_tile<128xindex> -> tensor<128xf16>
  %k = ktdp.load %pt : !ktdp.access_tile<128xindex> -> tensor<128xi32>
  %y = arith.extf %x : tensor<128xf16> to tensor<128xf32>
  %kf = arith.sitofp %k : tensor<128xi32> to tensor<128xf32>
  %z = arith.addf %y, %kf : tensor<128xf32>
  %w = arith.divf %z, %kf : tensor<128xf32>
  %l = math.tanh %w : tensor<128xf32>
  %c = arith.cmpf ult, %l, %y : tensor<128xf32>
  %s = arith.select %c, %l, %z : tensor<128xi1>, tensor<128xf32>
  ktdp.store %s, %ot : tensor<128xf32>, !ktdp.access_tile<128xindex>
  return
}
"""
)
INTEGERS = (
    LINE % 99
    + """
func.func @ints(%a: index, %b: index, %o: index, %q: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %av = ktdp.construct_memory_view %a, sizes: [100], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<100xi32>
  %bv = ktdp.construct_memory_view %b, sizes: [100], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<100xi32>
  %ov = ktdp.construct_memory_view %o, sizes: [100], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<100xi32>
  %qv = ktdp.construct_memory_view %q, sizes: [100], strides: [1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<100xf16>
  %at = ktdp.construct_access_tile %av[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<100xi32> -> !ktdp.access_tile<100xindex>
  %bt = ktdp.construct_access_tile %bv[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<100xi32> -> !ktdp.access_tile<100xindex>
  %ot = ktdp.construct_access_tile %ov[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<100xi32> -> !ktdp.access_tile<100xindex>
  %qt = ktdp.construct_access_tile %qv[%c0] {access_tile_set = #all, access_tile_order = #id} : memref<100xf16> -> !ktdp.access_tile<100xindex>
  %x = ktdp.load %at : !ktdp.access_tile<100xindex> -> tensor<100xi32>
  %y = ktdp.load %bt : !ktdp.access_tile<100xindex> -> tensor<100xi32>
  %s = arith.addi %x, %y : tensor<100xi32>
  %m = arith.muli %s, %x : tensor<100xi32>
  %t = arith.xori %m, %y : tensor<100xi32>
  %u = arith.minsi %t, %x : tensor<100xi32>
  %v = arith.maxui %u, %y : tensor<100xi32>
  %w = arith.subi %v, %m : tensor<100xi32>
  %c = arith.cmpi slt, %w, %x : tensor<100xi32>
  %d = arith.cmpi ult, %w, %y : tensor<100xi32>
  %e = arith.andi %c, %d : tensor<100xi1>
  %f = arith.select %e, %w, %x : tensor<100xi1>, tensor<100xi32>
  %g = arith.uitofp %e : tensor<100xi1> to tensor<100xf16>
  ktdp.store %f, %ot : tensor<100xi32>, !ktdp.access_tile<100xindex>
  ktdp.store %g, %qt : tensor<100xf16>, !ktdp.access_tile<100xindex>
  return
}
"""
)


def module(text: str) -> ktir.Module:
    parsed = ktir.parse(text)
    ktir.verify(parsed)
    return parsed


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", [ACCUMULATE, BRANCHES], ids=["accumulate", "branches"])
@pytest.mark.parametrize("n", [0, 3])
def test_every_level(device: str, text: str, n: int) -> None:
    """Loops that store what they load next, loops that run not at all, conditions on tile and scalar."""
    for found in spyresim.verify(module(text), device, args={"n": n}):
        assert found.ok, found.first


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [None, 1])
def test_any_order_of_units(device: str, seed: int | None) -> None:
    """Whichever unit goes first, a program that is ordered by its signals gives the same."""
    architecture = dfsched.load_architecture(device)
    compiled = dfsched.compile(module(ACCUMULATE), architecture)
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (8, 72)).astype(np.float16)
    start = rng.integers(-3, 4, (8, 72)).astype(np.float16)
    result = run_device(
        compiled.spyrecode, {"x": x, "sum": start, "n": 5}, device=architecture, options=Options(seed=seed)
    )
    np.testing.assert_array_equal(result.outputs["sum"], start + 5 * x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", [MIXED, INTEGERS], ids=["mixed", "integers"])
def test_element_types(device: str, text: str) -> None:
    """Vectors of the shortest length among all types, casts, several outputs, operations over registers."""
    for found in spyresim.verify(module(text), device):
        assert found.ok, found.first
