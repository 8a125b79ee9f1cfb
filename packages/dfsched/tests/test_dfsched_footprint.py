"""Arguments that do not fit into the device memory together: an error at the kernel, with a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import dfsched
import ktir
from dfsched.cli import main


def kernel(rows: int, outputs: int = 1, layout: str = "") -> str:
    """Copies of (rows, 64) f16, one input and some outputs."""
    views, stores = "", ""
    for n in range(outputs + 1):
        views += (
            f"  %v{n} = ktdp.construct_memory_view %a{n}, sizes: [{rows}, 64], strides: [64, 1] "
            "{coordinate_set = #all, memory_space = #ktdp.memory_space<global>} "
            f": memref<{rows}x64xf16>\n"
            f"  %t{n} = ktdp.construct_access_tile %v{n}[0, 0] {{access_tile_order = #id, access_tile_set = #tile}} "
            f": memref<{rows}x64xf16> -> !ktdp.access_tile<4x64xindex>\n"
        )
        stores += "" if n == 0 else f"  ktdp.store %x, %t{n} : tensor<4x64xf16>, <4x64xindex>\n"
    arguments = ", ".join(f"%a{n}: index{layout}" for n in range(outputs + 1))
    return (
        f"#all = affine_set<(r, c) : (r >= 0, {rows - 1} - r >= 0, c >= 0, 63 - c >= 0)>\n"
        "#tile = affine_set<(r, c) : (r >= 0, 3 - r >= 0, c >= 0, 63 - c >= 0)>\n"
        "#id = affine_map<(r, c) -> (r, c)>\n"
        f"func.func @k({arguments}) attributes {{grid = [1]}} {{\n{views}"
        f"  %x = ktdp.load %t0 : <4x64xindex> -> tensor<4x64xf16>\n{stores}  return\n}}\n"
    )


ROW = 128
SPYRE = 120259084288
SAMPLE = 1 << 30


@pytest.mark.parametrize(("device", "size"), [("spyre", SPYRE), ("sample", SAMPLE)])
def test_the_sum_counts(device: str, size: int) -> None:
    """Each array fits; together they may fill the memory, and not take a row more."""
    rows = size // ROW // 2
    dfsched.compile(ktir.parse(kernel(rows)), device, dfsched.Options(emit="schedule"))
    with pytest.raises(dfsched.ScheduleError) as caught:
        dfsched.compile(ktir.parse(kernel(rows + 1)), device)
    (diagnostic,) = caught.value.diagnostics
    assert f"'k' take {size + 2 * ROW} bytes of " in diagnostic.message
    assert f"{size} bytes available" in diagnostic.message
    with pytest.raises(
        dfsched.ScheduleError, match="take 3.0 GiB of" if device == "sample" else "take 336.0 GiB of"
    ):
        dfsched.compile(ktir.parse(kernel(2 * rows, 2)), device)


def test_the_table(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(kernel(1 << 23, 2))
    result = CliRunner().invoke(main, ["compile", str(path), "--device", "sample"])
    assert result.exit_code == 1
    lines = [line.split(": ", 1)[1] for line in result.stderr.splitlines() if line.startswith(str(path))]
    assert lines == [
        "error: the arguments of 'k' take 3.0 GiB of DDR, 1.0 GiB available:",
        "note:    1.0 GiB  %a0: float16 of 8388608x64, input",
        "note:    1.0 GiB  %a1: float16 of 8388608x64, output",
        "note:    1.0 GiB  %a2: float16 of 8388608x64, output",
    ]


def test_padding_counts() -> None:
    """What a layout takes, not what the host array has: every row of 128 bytes stands 256 bytes from the next."""
    rows = SAMPLE // ROW // 2
    layout = (
        f" {{ktdp.layout = #ktdp.layout<shape = [{rows}, 64], device_size = [1, {rows}, 64], "
        f"stride_map = [64, 64, 1], device_strides = [{256 * rows}, 256, 2], element = f16>}}"
    )
    with pytest.raises(dfsched.ScheduleError, match=r"the arguments of 'k' take 2\.0 GiB of DDR, "):
        dfsched.compile(ktir.parse(kernel(rows, 1, layout)), "sample")


@pytest.mark.parametrize("unit", ["element", "byte"])
def test_constant_addresses_behind_the_end(unit: str) -> None:
    """The last byte of the device memory may be used, and none behind it: told at the view."""
    bytes_per_unit = 1 if unit == "byte" else 2
    head, rest = kernel(4).split("(%a0: index, %a1: index) attributes {grid = [1]} {\n")

    def compiled(address: int) -> None:
        constants = (
            f"  %a0 = arith.constant {address // bytes_per_unit} : index\n  %a1 = arith.constant 0 : index\n"
        )
        attributes = f'module attributes {{ktdp.address_unit = "{unit}"}} {{\n'
        sets, function = head.rsplit("\n", 1)
        text = f"{sets}\n{attributes}{function}() attributes {{grid = [1]}} {{\n{constants}{rest}}}\n"
        dfsched.compile(ktir.parse(text), "sample", dfsched.Options(emit="schedule"))

    compiled(SAMPLE - 4 * ROW)
    with pytest.raises(dfsched.UnsupportedKernel) as caught:
        compiled(SAMPLE - 3 * ROW)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == f"this buffer ends at byte {SAMPLE + ROW} of DDR, which has {SAMPLE}"
    assert diagnostic.location is not None
    assert diagnostic.location.line == 8
