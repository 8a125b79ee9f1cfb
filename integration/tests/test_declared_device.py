"""A kernel that declares its device, and kernels at constant addresses, on the whole road."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from levels import DeviceProcess, assert_same, check_levels, device_process, numbers

import dfsched.cli
import ktir
import ktir.cli
import spyresim.cli
from spyresim import run_dataflow, run_ktir

SAMPLE = Path(dfsched.__file__).parent / "devices" / "sample.mlir"
DECLARATION = (
    "ktdf_arch.device @sample_device attributes {mem_space_mapping = #ktdf_arch.map<"
    '#ktdp.memory_space<global> = "DDR", #ktdp.memory_space<ct_local> = "L1">} import("../x/sample_device.mlir")'
)
ARGUMENTS = "%a: index, %b: index, %c: index"
CONSTANTS = """\
  %a = arith.constant 1024 : index
    %b = arith.constant 65536 : index
    %c = arith.constant 131072 : index
  """
KERNEL = """\
#all = affine_set<(r, c) : (r >= 0, 5 - r >= 0, c >= 0, 129 - c >= 0)>
#part = affine_set<(r, c) : (r >= 0, 2 - r >= 0, c >= 0, 129 - c >= 0)>
#rows = affine_map<(r, c) -> (r, c)>
module {
DECLARATION
  func.func @add(ARGUMENTS) attributes {grid = [2]} {
  CONSTANTS  %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %id = ktdp.get_compute_tile_id : index
    %row = arith.muli %id, %c3 : index
    %av = ktdp.construct_memory_view %a, sizes: [6, 130], strides: [130, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<6x130xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [6, 130], strides: [130, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<6x130xf16>
    %cv = ktdp.construct_memory_view %c, sizes: [6, 130], strides: [130, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<6x130xf16>
    %at = ktdp.construct_access_tile %av[%row, %c0] {access_tile_order = #rows, access_tile_set = #part}
        : memref<6x130xf16> -> !ktdp.access_tile<3x130xindex>
    %bt = ktdp.construct_access_tile %bv[%row, %c0] {access_tile_order = #rows, access_tile_set = #part}
        : memref<6x130xf16> -> !ktdp.access_tile<3x130xindex>
    %ct = ktdp.construct_access_tile %cv[%row, %c0] {access_tile_order = #rows, access_tile_set = #part}
        : memref<6x130xf16> -> !ktdp.access_tile<3x130xindex>
    %x = ktdp.load %at : <3x130xindex> -> tensor<3x130xf16>
    %y = ktdp.load %bt : <3x130xindex> -> tensor<3x130xf16>
    %z = arith.addf %x, %y : tensor<3x130xf16>
    ktdp.store %z, %ct : tensor<3x130xf16>, <3x130xindex>
    return
  }
}
"""


def kernel(declared: bool, constants: bool) -> str:
    text = KERNEL.replace("DECLARATION\n", f"{DECLARATION}\n" if declared else "")
    text = text.replace("ARGUMENTS", "" if constants else ARGUMENTS)
    return text.replace("CONSTANTS", CONSTANTS if constants else "")


@pytest.fixture(params=[False, True], ids=["arguments", "constants"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """``k/kernel.mlir``, whose device is ``x/sample_device.mlir``."""
    (tmp_path / "x").mkdir()
    (tmp_path / "k").mkdir()
    shutil.copy(SAMPLE, tmp_path / "x" / "sample_device.mlir")
    path = tmp_path / "k" / "kernel.mlir"
    path.write_text(kernel(declared=True, constants=request.param))
    return path


@pytest.fixture(scope="module")
def process() -> Iterator[DeviceProcess]:
    with device_process() as started:
        yield started


def good(result: Result) -> str:
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_check_with_dfsched(file: Path) -> None:
    good(CliRunner().invoke(ktir.cli.main, ["check", str(file)]))


def test_check_and_fmt_without_dfsched(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The declaration is kept to the letter where nobody knows its dialect."""
    monkeypatch.setattr(ktir.cli, "Context", partial(ktir.Context, installed=False))
    good(CliRunner().invoke(ktir.cli.main, ["check", str(file)]))
    text = good(CliRunner().invoke(ktir.cli.main, ["fmt", str(file)]))
    assert text.count(DECLARATION) == 1
    assert good(CliRunner().invoke(ktir.cli.main, ["fmt", "-"], input=text)) == text


def test_compile_without_naming_a_device(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    good(CliRunner().invoke(dfsched.cli.main, ["compile", str(file), "-o", str(out)]))
    made = {path.name for path in (out / "add").iterdir()}
    assert made >= {"global.mlir", "launch_spec.json", "spyreCodeDir", "schedule.mlir"}


def test_verify(file: Path) -> None:
    output = good(CliRunner().invoke(spyresim.cli.main, ["verify", str(file), "--seeds", "2"]))
    assert "2 runs, all levels agree" in output


def test_declaration_beside_the_module(tmp_path: Path) -> None:
    """The declaration in front of ``module { ... }``: the file compiles to the same as with it inside."""
    shutil.copy(SAMPLE, tmp_path / "sample_device.mlir")
    device = DECLARATION.replace("../x/", "")
    inside = kernel(declared=False, constants=False).replace("module {\n", f"module {{\n{device}\n")
    beside = kernel(declared=False, constants=False).replace("module {\n", f"{device}\nmodule {{\n")
    made = {}
    for name, text in (("inside", inside), ("beside", beside)):
        path = tmp_path / f"{name}.mlir"
        path.write_text(text)
        good(CliRunner().invoke(dfsched.cli.main, ["compile", str(path), "-o", str(tmp_path / name)]))
        made[name] = (tmp_path / name / "add" / "global.mlir").read_text()
        output = good(CliRunner().invoke(spyresim.cli.main, ["verify", str(path), "--seeds", "1"]))
        assert "all levels agree" in output
    assert made["inside"] == made["beside"]


def test_import_that_leads_nowhere(file: Path) -> None:
    """Where the declaration stands, and which file is missing."""
    (file.parent.parent / "x" / "sample_device.mlir").unlink()
    for main, command in ((dfsched.cli.main, "compile"), (spyresim.cli.main, "verify")):
        result = CliRunner().invoke(main, [command, str(file)])
        assert result.exit_code == 1
        assert f"{file}:5:1: error: unable to import device graph: " in result.stderr
        assert "sample_device.mlir: No such file or directory" in result.stderr


def test_constant_addresses_mean_the_same_as_arguments(process: DeviceProcess, tmp_path: Path) -> None:
    """Buffers are named by byte address; the artefact has one implicit argument that spans them all.

    Offsets are elements of f16, so 1024 is byte 0x800 (readings 4, 5).
    """
    rng = np.random.default_rng(1)
    a, b = (numbers(rng, (6, 130), "float16") for _ in range(2))
    module = ktir.parse(kernel(declared=False, constants=False))
    expected = check_levels(module, "sample", {"a": a, "b": b}, process, tmp_path)["c"]
    constant = ktir.parse(kernel(declared=False, constants=True))
    outputs = run_ktir(constant, "add", {"@0x800": a, "@0x20000": b}).outputs
    assert_same(outputs, {"@0x40000": expected}, "KTIR at constant addresses")

    compiled = dfsched.compile(constant, "sample")
    spec = compiled.spyrecode.launch
    assert spec is not None
    assert compiled.spyrecode.addressing.value == "baked"
    (arg,) = spec.args
    (size,) = (int(extent) for extent in arg.shape)
    start = int(arg.name.removeprefix("@"), 16)
    data = np.zeros(size, np.uint8)
    for address, array in ((0x800, a), (0x20000, b)):
        raw = array.reshape(-1).view(np.uint8)
        data[address - start : address - start + raw.size] = raw
    folder = compiled.write(tmp_path / "constant")
    for where, got in (
        ("DataflowIR", run_dataflow(compiled, {arg.name: data}).outputs[arg.name]),
        ("device", process.launch(folder, "sample", {arg.name: data})[arg.name]),
    ):
        raw = got.reshape(-1).view(np.uint8)[0x40000 - start :][: expected.nbytes]
        assert_same({"c": raw.view(np.float16).reshape(6, 130)}, {"c": expected}, where)
