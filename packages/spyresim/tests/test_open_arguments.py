"""Kernels whose views lie where only the run knows: `base + program * block`, as Triton's scalar arithmetic has it."""

from __future__ import annotations

import numpy as np
import pytest

import ktir
import spyresim
from ktir.layout import LinearLayout
from ktir.types import F16
from spyresim import Session
from spyresim.errors import ArgumentError, ExecutionFault, OutOfRangeFault

MOVING = """
#set = affine_set<(d0) : (d0 >= 0, -d0 + 31 >= 0)>
#map = affine_map<(d0) -> (d0)>
module {
  func.func @twice(%x: index, %y: index, %block: index) attributes {grid = [3]} {
    %pid = ktdp.get_compute_tile_id : index
    %at = arith.muli %pid, %block : index
    %xp = arith.addi %x, %at : index
    %yp = arith.addi %y, %at : index
    %xv = ktdp.construct_memory_view %xp, sizes: [32], strides: [1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
    %yv = ktdp.construct_memory_view %yp, sizes: [32], strides: [1] {coordinate_set = #set, memory_space = #ktdp.memory_space<global>} : memref<32xf16>
    %xt = ktdp.construct_access_tile %xv[0] {access_tile_order = #map, access_tile_set = #set} : memref<32xf16> -> !ktdp.access_tile<32xindex>
    %yt = ktdp.construct_access_tile %yv[0] {access_tile_order = #map, access_tile_set = #set} : memref<32xf16> -> !ktdp.access_tile<32xindex>
    %d = ktdp.load %xt : <32xindex> -> tensor<32xf16>
    %s = arith.addf %d, %d : tensor<32xf16>
    ktdp.store %s, %yt : tensor<32xf16>, <32xindex>
    return
  }
}
"""


@pytest.mark.parametrize(("shape", "block"), [((96,), 32), ((3, 32), 32), ((4, 50), 64), ((160,), 40)])
def test_any_array_that_is_large_enough(shape: tuple[int, ...], block: int) -> None:
    """The array keeps its own shape; what no tile writes keeps its value."""
    x = np.arange(np.prod(shape)).reshape(shape).astype(np.float16)
    y = np.full(shape, -1, np.float16)
    expected = y.copy().reshape(-1)
    for pid in range(3):
        piece = slice(pid * block, pid * block + 32)
        expected[piece] = 2 * x.reshape(-1)[piece]
    outputs = spyresim.run_ktir(ktir.parse(MOVING), args={"x": x, "y": y, "block": block}).outputs
    np.testing.assert_array_equal(outputs["y"], expected.reshape(shape))


def test_resident_arrays_may_be_larger_too() -> None:
    session = Session()
    x = session.place(np.arange(96).astype(np.float16))
    y = session.allocate(LinearLayout((2, 48), F16))
    session.run(ktir.parse(MOVING), args={"x": x, "y": y, "block": 32})
    np.testing.assert_array_equal(session.fetch(y).reshape(-1), 2 * np.arange(96))


def test_too_small_an_array() -> None:
    """Smaller than one view: refused at the call; smaller than what the tiles touch: a fault that names the place."""
    x = np.zeros(31, np.float16)
    with pytest.raises(ArgumentError, match=r"'x' of 'twice' must have at least 32 elements, but .* \(31,\)"):
        spyresim.run_ktir(ktir.parse(MOVING), args={"x": x, "block": 32})
    x = np.zeros(96, np.float16)
    with pytest.raises(ExecutionFault, match="tile 2"):
        spyresim.run_ktir(ktir.parse(MOVING), args={"x": x, "y": x[:64], "block": 32})


@pytest.mark.parametrize("schedule", ["lockstep", "sequential"])
@pytest.mark.parametrize(
    ("elements", "block", "low"), [(64, 32, 0x10080), (64, 64, 0x10080), (96, -32, 0xFFC0)]
)
def test_no_view_reaches_the_buffer_of_another_argument(
    elements: int, block: int, low: int, schedule: str
) -> None:
    """Where `x` ends, `y` begins (and memory before `x` may be another's): no access through `x` gets there."""
    x, y = np.ones(elements, np.float16), np.zeros(192, np.float16)
    module = ktir.parse(
        MOVING.replace("@twice(%x: index, %y: index", "@twice(%y: index, %x: index") if block < 0 else MOVING
    )
    args = {"x": x, "y": y, "block": block}
    with pytest.raises(OutOfRangeFault, match="which leaves 'x' at") as caught:
        spyresim.run_ktir(module, args=args, schedule=schedule)
    base = 0x10000 if block > 0 else 0x10000 + 2 * 192
    assert caught.value.address == low - 0x10000 + base
    assert caught.value.site.operation == "ktdp.load"
