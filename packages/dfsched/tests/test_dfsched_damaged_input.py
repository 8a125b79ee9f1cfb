"""Kernels and devices that are damaged in one place: errors that name the place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import dfsched
from dfsched.cli import main

DEVICES = {
    "sample": Path(dfsched.__file__).parent / "devices" / "sample.mlir",
    "spyre": Path(dfsched.__file__).parent / "devices" / "spyre.mlir",
    "quad": Path(__file__).parent / "devices" / "quad.mlir",
}
SET = "affine_set<(r, c) : (r >= 0, -r + 1 >= 0, c >= 0, -c + 63 >= 0)>"
KERNEL = """func.func @kernel(%x: index, %y: index) {{
  %zero = arith.constant 0 : index
  %v = ktdp.construct_memory_view %x, sizes: [2, 64], strides: [64, 1] {{coordinate_set = {set}, memory_space = #ktdp.memory_space<global>}} : memref<2x64xf16>
  %w = ktdp.construct_memory_view %y, sizes: [2, 64], strides: [64, 1] {{coordinate_set = {set}, memory_space = #ktdp.memory_space<global>}} : memref<2x64xf16>
  %t = ktdp.construct_access_tile %v[%zero, %zero] {{access_tile_set = {tile}, access_tile_order = affine_map<(r, c) -> (r, c)>}} : memref<2x64xf16> -> !ktdp.access_tile<2x64xindex>
  %u = ktdp.construct_access_tile %w[%zero, %zero] {{access_tile_set = {set}, access_tile_order = affine_map<(r, c) -> (r, c)>}} : memref<2x64xf16> -> !ktdp.access_tile<2x64xindex>
  %a = ktdp.load %t : <2x64xindex> -> tensor<2x64xf16>
  %b = math.exp %a : tensor<2x64xf16>
  ktdp.store %b, %u : tensor<2x64xf16>, <2x64xindex>
  return
}}
"""


def run(tmp_path: Path, device: str, kernel: str) -> str:
    """What `dfsched compile` writes to stderr; empty if it compiles."""
    (tmp_path / "device.mlir").write_text(device)
    (tmp_path / "kernel.mlir").write_text(kernel)
    done = CliRunner().invoke(
        main, ["compile", str(tmp_path / "kernel.mlir"), "--device", str(tmp_path / "device.mlir")]
    )
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if done.exit_code:
        assert re.match(r"\S+\.mlir:\d+:\d+: error: ", done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize("kind", ["", "kind = 1 : i64,", "kind = affine_map<() -> ()>,"])
@pytest.mark.parametrize("device", DEVICES)
def test_units_that_no_stage_can_name(device: str, kind: str, tmp_path: Path) -> None:
    """Each unit in turn, without a kind or with one that is no string: no matter only where no route uses it."""
    text = DEVICES[device].read_text()
    kinds = re.findall(r'^#\w+ = \{\s*kind = "(\w+)",\s*ktdf_arch.features', text, re.MULTILINE)
    found = {}
    for old in kinds:
        pattern = re.compile(rf'(^#\w+ = \{{\s*)kind = "{old}",', re.MULTILINE)
        damaged = pattern.sub(lambda match: match[1] + kind, text, count=1)
        assert damaged != text
        found[old] = run(tmp_path, damaged, KERNEL.format(set=SET, tile=SET))
    assert sum(bool(message) for message in found.values()) >= 5, found
    assert any("has no kind of its own" in message for message in found.values())


@pytest.mark.parametrize("kind", ["kind = true,", 'kind = "small",'])
@pytest.mark.parametrize("device", ["sample", "quad"])
def test_memories_that_no_handle_can_name(device: str, kind: str, tmp_path: Path) -> None:
    """Each memory in turn, with a kind that is no upper case name."""
    text = DEVICES[device].read_text()
    kinds = re.findall(r'^#\w+ = \{ kind = "(\w+)",', text, re.MULTILINE)
    assert len(kinds) >= 3
    for old in kinds:
        damaged = re.sub(rf'^(#\w+ = \{{ )kind = "{old}",', rf"\1{kind}", text, count=1, flags=re.MULTILINE)
        spaces = damaged.replace(f'= "{old}"', f"= {kind[7:-1]}")
        for changed in {damaged, spaces}:
            assert changed != text
            run(tmp_path, changed, KERNEL.format(set=SET, tile=SET))


@pytest.mark.parametrize(
    "points",
    ["r >= 0, -r + 1 >= 0, c >= 0", "-r + 1 >= 0, c >= 0, -c + 63 >= 0", "r >= 0, c - r == 0", "r - r == 0"],
)
def test_tiles_without_end(points: str, tmp_path: Path) -> None:
    """A set that is open on some side is refused where the tile is made."""
    kernel = KERNEL.format(set=SET, tile=f"affine_set<(r, c) : ({points})>")
    message = run(tmp_path, DEVICES["spyre"].read_text(), kernel)
    assert "kernel.mlir:5:" in message
    assert "infinite" in message or "no finite bounds" in message or "no known points" in message, message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"ktdf_arch.map_to"', '"map_somewhere"', "no native rewrite function 'map_somewhere' is registered"),
        ('"ktdf_ext.is_one_of"', '"is_some"', "no native constraint function 'is_some' is registered"),
    ],
)
def test_patterns_that_cannot_be_used(old: str, new: str, message: str, tmp_path: Path) -> None:
    """The error stands at the pattern's line in the file of the device, with the line."""
    text = DEVICES["spyre"].read_text()
    assert old in text
    found = run(tmp_path, text.replace(old, new), KERNEL.format(set=SET, tile=SET))
    line = text[: text.index(old)].count("\n") + 1
    assert f"device.mlir:{line}:" in found
    assert message in found
    assert found.rstrip().endswith("^")


@pytest.mark.parametrize("space", ["global", "ct_local"])
@pytest.mark.parametrize("device", DEVICES)
def test_buffers_larger_than_their_memory(device: str, space: str, tmp_path: Path) -> None:
    """Compared before anything is scheduled: one row more than fits is refused at the view, with both numbers."""
    architecture = dfsched.load_architecture(DEVICES[device])
    memory = architecture.device_memory if space == "global" else architecture.scratchpad
    assert memory is not None
    assert memory.size is not None
    rows = memory.size // 128
    kernel = KERNEL.format(set=SET, tile=SET).replace("math.exp", "arith.negf")
    whole = "affine_set<(r, c) : (r >= 0, -r + {last} >= 0, c >= 0, -c + 63 >= 0)>"
    view = f"%v = ktdp.construct_memory_view %x, sizes: [2, 64], strides: [64, 1] {{coordinate_set = {SET}, "
    view += "memory_space = #ktdp.memory_space<global>} : memref<2x64xf16>"
    assert view in kernel

    def sized(count: int) -> str:
        changed = view.replace("sizes: [2, 64]", f"sizes: [{count}, 64]")
        changed = changed.replace(": memref<2x64xf16>", f": memref<{count}x64xf16>")
        changed = changed.replace(SET, whole.format(last=count - 1)).replace("<global>", f"<{space}>")
        if space == "ct_local":
            changed = changed.replace("%x", "%zero")
        tile = "memref<{}x64xf16> -> !ktdp.access_tile<2x64xindex>"
        return kernel.replace(view, changed).replace(tile.format(2), tile.format(count), 1)

    text = DEVICES[device].read_text()
    message = run(tmp_path, text, sized(rows + 1))
    assert f"this buffer takes {(rows + 1) * 128} bytes of {memory.kind}, which has {memory.size}" in message
    assert "kernel.mlir:3:" in message
    if space == "global":
        assert run(tmp_path, text, sized(rows - 2)) == ""  # %y takes two


@pytest.mark.parametrize("device", ["spyre", "quad"])
def test_more_reserved_than_there_is(device: str, tmp_path: Path) -> None:
    text = re.sub(r"ktdf_ext.reserved = \d+", "ktdf_ext.reserved = 2147483648", DEVICES[device].read_text())
    message = run(tmp_path, text, KERNEL.format(set=SET, tile=SET))
    assert "device.mlir" in message
    assert "but is 2147483648" in message
    assert "reserved part ('ktdf_ext.reserved') must be in 0.." in message


@pytest.mark.parametrize("last", [2**63 - 1, 2**63 - 64, 10**40])
def test_tiles_larger_than_a_word_counts(last: int, tmp_path: Path) -> None:
    """A set with more elements than the host's words count cannot be the tile that its type says."""
    tile = f"affine_set<(r, c) : (r >= 0, -r + 1 >= 0, c >= 0, -c + {last} >= 0)>"
    message = run(tmp_path, DEVICES["spyre"].read_text(), KERNEL.format(set=SET, tile=tile))
    assert "kernel.mlir:5:" in message


@pytest.mark.parametrize(("old", "new"), [('kind = "LXLU"', 'kind = "other"')])
def test_devices_that_only_the_back_end_refuses(old: str, new: str, tmp_path: Path) -> None:
    """Names of units that DataflowIR cannot spell: told at the kernel."""
    text = DEVICES["spyre"].read_text()
    assert old in text
    message = run(tmp_path, text.replace(old, new), KERNEL.format(set=SET, tile=SET))
    assert "kernel.mlir:" in message
