"""No pass is written for one device: each changes programs of two devices that share no name and no number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dfsched
import ktir
from dfsched.passes import affine_min_canonicalization, materialize_registers
from dfsched.passes.base import PassContext
from dfsched.pipeline import PASSES
from ktir.types import F16, F32
from repository import ROOT
from spyresim.testing.compute_kernels import KERNELS
from spyresim.testing.text import dims, function, load, store, tile, view

QUAD = str(ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir")
REGISTERS = {"sample": "SFU_REG", QUAD: "VREG"}
SHAPES = ROOT / "integration" / "kernels" / "shapes"
ELSEWHERE = {
    "ensure-device-declaration": "compilations start with the declaration; it is read on every device",
    "ktir-legality-check": "changes nothing by definition",
    "affine-min-canonicalization": "its form comes from loops that were tiled elsewhere; below",
    "materialize-registers": "its form comes from patterns of a device; below",
}


def stored_and_loaded() -> str:
    """A row that is stored, loaded again and stored elsewhere."""
    shape, row = (8, 100), (4, 100)
    lines = [
        "%t = ktdp.get_compute_tile_id : index",
        view("av", "a", shape),
        view("bv", "b", shape),
        view("cv", "c", shape),
        *(tile(f"{n}t", f"{n}v", "%t * 4, 0", shape, row) for n in "abc"),
        load("x", "at", row),
        f"%y = arith.addf %x, %x : tensor<{dims(row)}f16>",
        store("y", "bt", row),
        load("z", "bt", row),
        f"%u = arith.mulf %z, %x : tensor<{dims(row)}f16>",
        store("u", "ct", row),
    ]
    return function("%a: index, %b: index, %c: index", lines, [2])


def several_grids() -> str:
    shape, row = (8, 96), (4, 48)
    lines = [
        "%t:2 = ktdp.get_compute_tile_id : index, index",
        view("av", "a", shape),
        tile("at", "av", "%t#0 * 4, %t#1 * 48", shape, row),
        load("x", "at", row),
        f"%y = arith.addf %x, %x : tensor<{dims(row)}f16>",
        store("y", "at", row),
    ]
    return function("%a: index", lines, [2, 2])


def carried_offset() -> str:
    shape, row = (8, 96), (1, 96)
    lines = [
        *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 4)),
        view("av", "a", shape),
        "%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%p = %c0) -> (index) {",
        tile("at", "av", "%p, 0", shape, row),
        load("x", "at", row),
        f"%y = arith.addf %x, %x : tensor<{dims(row)}f16>",
        store("y", "at", row),
        "%n = arith.addi %p, %c2 : index",
        "scf.yield %n : index",
        "}",
    ]
    return function("%a: index", lines, [1])


def compilations(device: str) -> Iterator[tuple[str, dfsched.Options]]:
    """Programs and options that give every pass something to do."""
    plain = dfsched.Options(emit="dfir")
    for name in ("row sums", "layer norm", "a range over tiles", "column sums"):
        yield KERNELS[name], plain
    accumulator = {"accumulator": REGISTERS[device]}
    yield KERNELS["row sums"], dfsched.Options(emit="dfir", pins=accumulator)
    pieces = {"reduction-dim-chunking.num-chunks": "2"}
    yield KERNELS["row sums"], dfsched.Options(emit="dfir", settings=pieces)
    yield stored_and_loaded(), plain
    yield several_grids(), plain
    yield carried_offset(), plain
    yield several_grids(), dfsched.Options(emit="dfir", pins={"tile_sizes": (2, 1)})
    tiles = (SHAPES / "access_tiles.mlir").read_text()
    yield tiles, dfsched.Options(emit="dfir", kernel="every_second")
    yield tiles, dfsched.Options(emit="dfir", kernel="band")
    yield (SHAPES / "symbolic_extents.mlir").read_text(), dfsched.Options(emit="dfir", kernel="scale_rows")
    loop = (ROOT / "integration" / "kernels" / "dynamic_add.mlir").read_text()
    yield loop, dfsched.Options(emit="dfir", kernel="dynamic_add")


@pytest.mark.parametrize("device", REGISTERS, ids=["sample", "quad"])
def test_every_pass_works_on_both_devices(device: str) -> None:
    changed: set[str] = set()
    for text, options in compilations(device):
        compiled = dfsched.compile(ktir.parse(text), device, options)
        before = compiled.source
        for result in compiled.passes:
            if result.module is not before and ktir.print_module(result.module) != ktir.print_module(before):
                changed.add(result.name)
            before = result.module
    assert {item.name for item in PASSES} - changed == ELSEWHERE.keys()


@pytest.mark.parametrize("device", REGISTERS, ids=["sample", "quad"])
def test_forms_that_come_from_elsewhere(device: str) -> None:
    context = PassContext(dfsched.load_architecture(device))
    rest = ktir.parse(
        "func.func @k(%v: index) {\n%c5 = arith.constant 5 : index\n%c17 = arith.constant 17 : index\n"
        "%a = arith.addi %v, %c5 : index\n%m = arith.minsi %a, %c17 : index\n"
        '%r = affine.apply affine_map<()[s0, s1] -> (s1 - s0)>()[%v, %m]\n"use"(%r) : (index) -> ()\nreturn\n}'
    )
    assert "affine.min" in ktir.print_module(affine_min_canonicalization.run(rest, context))
    registers = REGISTERS[device]
    cells = f'memref<f16, "{registers}">'
    body = ktir.parse(
        "func.func @k(%x: tensor<64xf16>, %e: tensor<64xf16>) {\n"
        "%y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], "
        'iterator_types = ["parallel"]} ins(%x : tensor<64xf16>) outs(%e : tensor<64xf16>) {\n'
        f"^bb0(%p: f16, %q: f16):\n%i = memref.alloca() : {cells}\nmemref.store %p, %i[] : {cells}\n"
        f'%o = memref.alloca() : {cells}\nktdf.opaque "twice" ins(%i : {cells}) outs(%o : {cells})\n'
        f"%r = memref.load %o[] : {cells}\nlinalg.yield %r : f16\n}} -> tensor<64xf16>\n"
        '"use"(%y) : (tensor<64xf16>) -> ()\nreturn\n}'
    )
    text = ktir.print_module(materialize_registers.run(body, context))
    assert f'memref.alloca() : memref<64xf16, "{registers}">' in text


def test_the_devices_share_nothing() -> None:
    """Other names, three levels of memory, four corelets, other vectors."""
    first, second = (dfsched.load_architecture(device) for device in REGISTERS)
    assert not {u.kind for u in first.units} & {u.kind for u in second.units}
    assert not {m.kind for m in first.memories} & {m.kind for m in second.memories}
    assert len({m.kind for m in second.memories if not second.is_private(m.kind)}) == 3
    unit = second.compute_unit
    assert unit is not None
    assert len(second.instances_of(unit.kind)) == 4
    for type in (F16, F32):
        assert first.lanes(type) != second.lanes(type)


def test_the_file_is_where_tests_look() -> None:
    assert Path(QUAD).is_file()
