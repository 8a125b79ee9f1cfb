"""Time comes from the device description: editing it changes the cycles in the expected direction."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import dfsched
import ktir
from spyresim import run_dataflow
from spyresim.engine import Outcome

KERNEL = """
#all = affine_set<(r, c) : (r >= 0, 15 - r >= 0, c >= 0, 255 - c >= 0)>
#part = affine_set<(r, c) : (r >= 0, 1 - r >= 0, c >= 0, 255 - c >= 0)>
#id = affine_map<(r, c) -> (r, c)>
func.func @add(%a: index, %b: index, %c: index) attributes {grid = [8]} {
  %c2 = arith.constant 2 : index
  %tile = ktdp.get_compute_tile_id : index
  %row = arith.muli %tile, %c2 : index
  %av = ktdp.construct_memory_view %a, sizes: [16, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<16x256xf16>
  %bv = ktdp.construct_memory_view %b, sizes: [16, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<16x256xf16>
  %cv = ktdp.construct_memory_view %c, sizes: [16, 256], strides: [256, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<16x256xf16>
  %at = ktdp.construct_access_tile %av[%row, 0] {access_tile_order = #id, access_tile_set = #part} : memref<16x256xf16> -> !ktdp.access_tile<2x256xindex>
  %bt = ktdp.construct_access_tile %bv[%row, 0] {access_tile_order = #id, access_tile_set = #part} : memref<16x256xf16> -> !ktdp.access_tile<2x256xindex>
  %ct = ktdp.construct_access_tile %cv[%row, 0] {access_tile_order = #id, access_tile_set = #part} : memref<16x256xf16> -> !ktdp.access_tile<2x256xindex>
  %x = ktdp.load %at : <2x256xindex> -> tensor<2x256xf16>
  %y = ktdp.load %bt : <2x256xindex> -> tensor<2x256xf16>
  %z = arith.addf %x, %y : tensor<2x256xf16>
  ktdp.store %z, %ct : tensor<2x256xf16>, <2x256xindex>
  return
}
"""
SPYRE = files("dfsched").joinpath("devices/spyre.mlir").read_text(encoding="utf-8")
RNG = np.random.default_rng(5)
A, B = (RNG.standard_normal((16, 256)).astype(np.float16) for _ in range(2))


def cycles(tmp_path: Path, *edits: tuple[str, str]) -> int:
    """Simulated cycles of the kernel on `spyre` with some of its text replaced; the result must be right."""
    text = SPYRE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    device = tmp_path / "device.mlir"
    device.write_text(text)
    plain = dfsched.Options(pins={"tile_sizes": 1, "buffer_depths": 1})  # one vector at a time
    compiled = dfsched.compile(ktir.parse(KERNEL), dfsched.load_architecture(device), plain)
    result = run_dataflow(compiled, {"a": A, "b": B})
    np.testing.assert_array_equal(result.outputs["c"], A + B)
    assert result.report.cycles is not None
    return int(result.report.cycles)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> int:
    return cycles(tmp_path_factory.mktemp("baseline"))


def test_bandwidth_of_device_memory(baseline: int, tmp_path: Path) -> None:
    """A sixteenth of the bandwidth of device memory costs cycles, more of it does not (readings 19)."""
    bandwidth = "ktdf_ext.bandwidth = [1024, 5]"
    assert cycles(tmp_path, (bandwidth, "ktdf_ext.bandwidth = [64, 5]")) > baseline * 1.2
    assert cycles(tmp_path, (bandwidth, "ktdf_ext.bandwidth = [4096, 5]")) <= baseline


def test_bandwidth_of_links(baseline: int, tmp_path: Path) -> None:
    assert cycles(tmp_path, ("ktdf_arch.bandwidth = 128", "ktdf_arch.bandwidth = 4")) > baseline


def test_depth_of_queues(baseline: int, tmp_path: Path) -> None:
    """With room for one vector the load unit waits for the compute unit."""
    shallow = cycles(tmp_path, ("depth = 16", "depth = 1"))
    assert shallow > baseline
    assert cycles(tmp_path, ("depth = 16", "depth = 64")) <= baseline


def test_lanes_of_the_compute_unit(baseline: int, tmp_path: Path) -> None:
    """Half the lanes make twice the vectors."""
    assert cycles(tmp_path, ("f16 = 64, bf16 = 64", "f16 = 32, bf16 = 64")) > baseline * 1.5


def test_latency_of_device_memory(baseline: int, tmp_path: Path) -> None:
    assert cycles(tmp_path, ("ktdf_ext.latency = 100", "ktdf_ext.latency = 1000")) > baseline


def test_bandwidth_of_a_scratchpad(baseline: int, tmp_path: Path) -> None:
    """A scratchpad that has a bandwidth of its own is one port for both corelets and all copies; without one
    only its links count (decision 14)."""
    pad = 'kind = "LX", size'
    ample = (pad, 'kind = "LX", ktdf_ext.bandwidth = 4096, size')
    scarce = (pad, 'kind = "LX", ktdf_ext.bandwidth = 8, size')
    assert baseline <= cycles(tmp_path, ample) <= baseline * 1.05
    found = cycles(tmp_path, scarce)
    moved = 6 * 2 * 256 * 2  # bytes a core: in and out of the scratchpad, two inputs and a result
    assert found > moved / 8
    assert found > baseline * 1.2


def test_bounds_of_a_run(tmp_path: Path) -> None:
    """What links and ports of scratchpads take at least (readings 19): 128 bytes a cycle on a link."""
    text = SPYRE.replace('kind = "LX", size', 'kind = "LX", ktdf_ext.bandwidth = 64, size')
    device = tmp_path / "device.mlir"
    device.write_text(text)
    for architecture, port in (
        (dfsched.load_architecture("spyre"), None),
        (dfsched.load_architecture(device), 64),
    ):
        compiled = dfsched.compile(ktir.parse(KERNEL), architecture)
        outcome = run_dataflow(compiled, {"a": A, "b": B}).report.details
        assert isinstance(outcome, Outcome)
        report = outcome.report
        rows = 2 * 256 * 2  # bytes of each array a core
        assert report.link_bound_cycles >= 2 * rows / 128
        assert report.scratchpad_bound_cycles == (None if port is None else 6 * rows / port)
        assert report.bound_cycles is not None
        bounds = report.bound_cycles, report.link_bound_cycles, report.scratchpad_bound_cycles or 0
        assert report.ideal_cycles == max(*bounds, report.compute_bound_cycles)
        assert report.ideal_cycles <= report.cycles
