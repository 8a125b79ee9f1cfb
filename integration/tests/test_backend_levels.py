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
