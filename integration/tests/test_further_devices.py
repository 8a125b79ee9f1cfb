"""Devices with two memories of a core on the way to the compute unit, and with none on it."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfsched
import ktir
import spyresim
from spyresim.testing.text import function, load, store, tile, view

UNITS = """
ktdf_arch.device @further attributes {
  mem_space_mapping = #ktdf_arch.map<#ktdp.memory_space<global> = "DRAM"%s>
} {
  %%dram = memory { kind = "DRAM", size = 1048576 }
  group { kind = "core" } share(%%dram) {
%s
    %%feed = exec_unit { kind = "FEED", ktdf_arch.features = {
      ktdf_arch.feature.load, ktdf_arch.feature.simd = { splat } } }
    %%drain = exec_unit { kind = "DRAIN", ktdf_arch.features = { ktdf_arch.feature.store } }
    %%alu = exec_unit { kind = "ALU", ktdf_arch.features = {
      ktdf_arch.feature.compute,
      ktdf_arch.feature.simd = { lanes = #ktdf_arch.map<f16 = 16, f32 = 8, i16 = 16, i1 = 16> } } }
    datapath { ktdf_arch.transfer_granularity = array<i64: 32, 4, 2>,
               ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 4, ordered } } }
      %%feed to %%alu : exec_unit, exec_unit
    datapath { ktdf_arch.transfer_granularity = array<i64: 32, 4, 2>,
               ktdf_arch.features = { ktdf_arch.feature.queue = { depth = 4, ordered } } }
      %%alu to %%drain : exec_unit, exec_unit
%s
  }
}
"""


def exec_unit(name: str, feature: str) -> str:
    return (
        f'    %{name} = exec_unit {{ kind = "{name.upper()}", '
        f"ktdf_arch.features = {{ ktdf_arch.feature.{feature} }} }}\n"
    )


def path(*names: str) -> str:
    kinds = ["exec_unit" if name in WORKERS else "memory" for name in names]
    steps = zip(names, names[1:], kinds, kinds[1:], strict=False)
    return "".join(f"    datapath %{a} to %{b} : {x}, {y}\n" for a, b, x, y in steps)


WORKERS = {"in": "load", "inl": "load", "out": "store", "outl": "store", "feed": "load", "drain": "store"}
TWO = UNITS % (
    ', #ktdp.memory_space<ct_local> = "PAD"',
    '    %l2 = memory { kind = "L2", size = 65536 }\n    %pad = memory { kind = "PAD", size = 16384 }\n'
    + "".join(exec_unit(name, WORKERS[name]) for name in ("in", "inl", "out", "outl")),
    path("dram", "in", "l2", "inl", "pad", "feed") + path("drain", "pad", "outl", "l2", "out", "dram"),
)
NONE = UNITS % (
    ', #ktdp.memory_space<ct_local> = "PAD"',
    '    %pad = memory { kind = "PAD", size = 16384 }\n',
    path("dram", "feed") + path("drain", "dram"),
)

FULL = (6, 40)
F, R = "tensor<6x40xf16>", "tensor<40xf16>"
WIDE = [
    f"%e = tensor.empty() : {F}",
    f"%w = linalg.broadcast ins(%s : {R}) outs(%e : {F}) dimensions = [0]",
]
SUM = [
    f"%i = arith.constant dense<0.0> : {R}",
    f"%s = linalg.reduce {{ arith.addf }} ins(%x : {F}) outs(%i : {R}) dimensions = [0]",
]
KERNELS = {
    "element-wise": (FULL, [f"%r = arith.addf %x, %x : {F}"]),
    "column sums": (
        (1, 40),
        [
            *SUM,
            f"%d = arith.addf %s, %s : {R}",
            f"%r = tensor.expand_shape %d [[0, 1]] output_shape [1, 40] : {R} into tensor<1x40xf16>",
        ],
    ),
    "distances from column sums": (FULL, [*SUM, *WIDE, f"%r = arith.subf %x, %w : {F}"]),
}
"""What is stored for each block, and what makes %r of its %x."""


def kernel(name: str) -> ktir.Module:
    """%b = f(%a), in a loop over two blocks."""
    shape, body = KERNELS[name]
    rows, columns = shape
    whole = (2 * rows, columns)
    module = ktir.parse(
        function(
            "%a: index, %b: index",
            [
                *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2)),
                view("av", "a", (12, 40)),
                view("bv", "b", whole),
                "scf.for %t = %c0 to %c2 step %c1 {",
                tile("at", "av", "%t * 6, 0", (12, 40), FULL),
                tile("bt", "bv", f"%t * {rows}, 0", whole, shape),
                load("x", "at", FULL),
                *body,
                store("r", "bt", shape),
                "}",
            ],
            [1],
        )
    )
    ktir.verify(module)
    return module


def device(folder: Path, text: str) -> Path:
    file = folder / "further.mlir"
    file.write_text(text)
    return file


@pytest.mark.parametrize(("name", "tiles"), [*((name, None) for name in KERNELS), ("element-wise", 2)])
def test_two_memories_of_a_core(tmp_path: Path, name: str, tiles: int | None) -> None:
    """Tiles that are larger than a vector stand whole in each memory on the way; both memories have addresses
    from 0 on."""
    pins = {} if tiles is None else {"tile_sizes": (tiles, 1)}
    (found,) = spyresim.verify(kernel(name), device(tmp_path, TWO), options=dfsched.Options(pins=pins))
    assert found.ok, found.first


@pytest.mark.parametrize("name", KERNELS)
def test_no_memory_of_a_core(tmp_path: Path, name: str) -> None:
    """What is computed at once needs none; intermediate results have no place then and are refused."""
    file = device(tmp_path, NONE)
    if name != "element-wise":
        with pytest.raises(
            dfsched.DfschedError, match='would have to stand in "DRAM", which is device memory'
        ):
            dfsched.compile(kernel(name), file)
    else:
        (found,) = spyresim.verify(kernel(name), file)
        assert found.ok, found.first
