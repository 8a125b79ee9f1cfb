"""`dfsched check`: DataflowIR written by hand, right and wrong, in one file and as a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import dfsched
import ktir
from dfsched.cli import main
from dfsched.dataflow_check import check_dataflow

FOREIGN = """\
// Two tiles double a row of 64 numbers each; names and order as another tool might write them.
#row = affine_set<(r, c) : (r == 0, c >= 0, -c + 63 >= 0)>
#once = affine_set<(t) : (t == 0)>
#flat = affine_map<(r, c) -> (r * 64 + c)>
#same = affine_map<(r, c) -> (r, c)>
#one = affine_map<(t) -> (t)>
#rest = affine_map<(t) -> (0, 0)>
module {
  func.func @twice(%in: index, %out: index) attributes {grid = [1]} {
    symbol.create_id %in {symbol_id = -1 : si64} : index
    symbol.create_id %out {symbol_id = -2 : si64} : index
    call @work(%in, %out) : (index, index) -> ()
    return
  }
  func.func @work(%in: index, %out: index) {
    %word = arith.constant 64 : index
    symbol.create_id %in {symbol_id = -1 : si64} : index
    symbol.create_id %out {symbol_id = -2 : si64} : index
    %a = arith.divsi %in, %word : index
    symbol.create_id %a {symbol_id = -3 : si64} : index
    %b = arith.divsi %out, %word : index
    symbol.create_id %b {symbol_id = -4 : si64} : index
    call @work_body() : () -> ()
    return
  }
  func.func private @work_body()
}
"""
BODY = """\
#row = affine_set<(r, c) : (r == 0, c >= 0, -c + 63 >= 0)>
#once = affine_set<(t) : (t == 0)>
#flat = affine_map<(r, c) -> (r * 64 + c)>
#same = affine_map<(r, c) -> (r, c)>
#one = affine_map<(t) -> (t)>
#rest = affine_map<(t) -> (0, 0)>
module {
  func.func @work_body() attributes {grid = [1]} {
    %near = arith.constant 0 : index
    %far = arith.constant 128 : index
    %dram = dataflow.get_unit {type = "ddr", name = "dram"} : index
    %pad = dataflow.get_unit {type = "l1", name = "pad 0", core = 0 : i32} : index
    %fetch = dataflow.get_unit {type = "mnilu", name = "fetch", core = 0 : i32, corelet = 0 : i32} : index
    %feed = dataflow.get_unit {type = "l1lu", name = "feed", core = 0 : i32, corelet = 0 : i32} : index
    %alu = dataflow.get_unit {type = "sfu", name = "alu", core = 0 : i32, corelet = 0 : i32} : index
    %keep = dataflow.get_unit {type = "l1su", name = "keep", core = 0 : i32, corelet = 0 : i32} : index
    %flush = dataflow.get_unit {type = "mnisu", name = "flush", core = 0 : i32, corelet = 0 : i32} : index
    dataflow.program_unit %fetch : {
      %start = symbol.create_symbol {SymbolId = -3 : i64} : index
      %src = dataflow.get_logical_memory_view %dram, %start {layout_map = #flat} : index, index, memref<1x64xf16>
      %dst = dataflow.get_logical_memory_view %pad, %near {layout_map = #flat} : index, index, memref<1x64xf16>
      agen.composite_load_and_store src:%src[0, 0] dst:%dst[0, 0] time_symbols(), load_iv(%v:vector<64xf16>)
        {load_order = #same, load_set = #row, load_time_addr_map = #rest, store_order = #same, store_set = #row,
         store_time_addr_map = #rest, time_order = #one, time_set = #once}
      { agen.yield } : memref<1x64xf16>, memref<1x64xf16>
      dataflow.sync_send %feed {wait_immediately_for_async_transfers = true} : index
    }
    dataflow.program_unit %feed : {
      %src = dataflow.get_logical_memory_view %pad, %near {layout_map = #flat} : index, index, memref<1x64xf16>
      dataflow.sync_recv %fetch : index
      %x = agen.vector_load %src[0, 0] {load_order = #same, load_set = #row} : memref<1x64xf16>, vector<64xf16>
      dataflow.send %alu, %x : vector<64xf16>
    }
    dataflow.program_unit %alu : {
      %x = dataflow.receive %feed : vector<64xf16>
      %y = vectorchain.binary %x, %x {binary_op = #vectorchain<binary_operator add>, op_specific_map = #one} : vector<64xf16>, vector<64xf16>, vector<64xf16>
      dataflow.send %keep, %y : vector<64xf16>
    }
    dataflow.program_unit %keep : {
      %dst = dataflow.get_logical_memory_view %pad, %far {layout_map = #flat} : index, index, memref<1x64xf16>
      %y = dataflow.receive %alu : vector<64xf16>
      agen.vector_store %y, %dst[0, 0] {store_order = #same, store_set = #row} : memref<1x64xf16>, vector<64xf16>
      dataflow.sync_send %flush {wait_immediately_for_async_transfers = true} : index
    }
    dataflow.program_unit %flush : {
      %end = symbol.create_symbol {SymbolId = -4 : i64} : index
      %src = dataflow.get_logical_memory_view %pad, %far {layout_map = #flat} : index, index, memref<1x64xf16>
      %dst = dataflow.get_logical_memory_view %dram, %end {layout_map = #flat} : index, index, memref<1x64xf16>
      dataflow.sync_recv %keep : index
      agen.composite_load_and_store src:%src[0, 0] dst:%dst[0, 0] time_symbols(), load_iv(%v:vector<64xf16>)
        {load_order = #same, load_set = #row, load_time_addr_map = #rest, store_order = #same, store_set = #row,
         store_time_addr_map = #rest, time_order = #one, time_set = #once}
      { agen.yield } : memref<1x64xf16>, memref<1x64xf16>
    }
    return
  }
}
"""


def folder(where: Path, shared: str = FOREIGN, body: str | None = BODY) -> Path:
    (where / "global.mlir").write_text(shared)
    if body is not None:
        (where / "work.mlir").write_text(body)
    return where


def invoke(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["check", str(path), *options])


def test_a_foreign_folder_is_accepted(tmp_path: Path) -> None:
    """Handles of other names, the bare form of program units, no maps."""
    for options in ((), ("--device", "sample")):
        result = invoke(folder(tmp_path), *options)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.endswith(": 1 program file, nothing wrong\n")


def test_one_file_with_everything(tmp_path: Path) -> None:
    body = BODY[BODY.index("  func.func @work_body") : BODY.rindex("}")]
    text = FOREIGN.replace("  func.func private @work_body()\n", body)
    path = tmp_path / "all.mlir"
    path.write_text(text)
    result = invoke(path, "--device", "sample")
    assert result.exit_code == 0, result.stderr


def test_what_the_compiler_writes_is_sound() -> None:
    text = """
    func.func @k(%a: index, %b: index, %n: index) attributes {grid = [2]} {
      %v = ktdp.construct_memory_view %a, sizes: [9, 70], strides: [70, 1] {coordinate_set =
        affine_set<(r, c) : (r >= 0, -r + 8 >= 0, c >= 0, -c + 69 >= 0)>,
        memory_space = #ktdp.memory_space<global>} : memref<9x70xf16>
      %w = ktdp.construct_memory_view %b, sizes: [9, 70], strides: [70, 1] {coordinate_set =
        affine_set<(r, c) : (r >= 0, -r + 8 >= 0, c >= 0, -c + 69 >= 0)>,
        memory_space = #ktdp.memory_space<global>} : memref<9x70xf16>
      %s = ktdp.construct_access_tile %v[%n, 0] {access_tile_set =
        affine_set<(r, c) : (r >= 0, -r + 3 >= 0, c >= 0, -c + 69 >= 0)>,
        access_tile_order = affine_map<(r, c) -> (r, c)>} : memref<9x70xf16> -> !ktdp.access_tile<4x70xindex>
      %t = ktdp.construct_access_tile %w[0, 0] {access_tile_set =
        affine_set<(r, c) : (r >= 0, -r + 3 >= 0, c >= 0, -c + 69 >= 0)>,
        access_tile_order = affine_map<(r, c) -> (r, c)>} : memref<9x70xf16> -> !ktdp.access_tile<4x70xindex>
      %x = ktdp.load %s : <4x70xindex> -> tensor<4x70xf16>
      %y = math.exp %x : tensor<4x70xf16>
      ktdp.store %y, %t : tensor<4x70xf16>, <4x70xindex>
      return
    }
    """
    for device in ("sample", str(Path(__file__).parent / "devices" / "quad.mlir")):
        compiled = dfsched.compile(ktir.parse(text), device)
        assert check_dataflow(compiled.dataflow_ir, compiled.architecture) == ()


WRONG: dict[str, tuple[str, str, str, str]] = {
    "sent, never received": (
        "body",
        "      %x = dataflow.receive %feed : vector<64xf16>\n",
        "      %x = arith.constant dense<1.0> : vector<64xf16>\n",
        "program 'work': feed sends to alu, which never receives from it",
    ),
    "received, never sent": (
        "body",
        "      dataflow.send %keep, %y : vector<64xf16>\n",
        "",
        "program 'work': keep receives from alu, which never sends to it",
    ),
    "waited for, never signalled": (
        "body",
        "      dataflow.sync_send %flush {wait_immediately_for_async_transfers = true} : index\n",
        "",
        "program 'work': flush waits for keep, which never signals it",
    ),
    "signalled, never waited for": (
        "body",
        "      dataflow.sync_recv %fetch : index\n",
        "",
        "program 'work': fetch signals feed, which never waits for it",
    ),
    "a unit that the device lacks": ("body", 'type = "sfu"', 'type = "gpu"', "gpu"),
    "a core that the device lacks": ("body", 'name = "alu", core = 0', 'name = "alu", core = 999', "999"),
    "a symbol without meaning": (
        "shared",
        "    symbol.create_id %b {symbol_id = -4 : si64} : index\n",
        "",
        "symbol -4 is not defined by any symbol.create_id",
    ),
    "a symbol with two meanings": (
        "shared",
        "%b {symbol_id = -4 : si64}",
        "%b {symbol_id = -3 : si64}",
        "symbol -3 is declared with two meanings",
    ),
    "something of an earlier level": (
        "body",
        "    %near = arith.constant 0 : index\n",
        "    %near = arith.constant 0 : index\n    %t = tensor.empty() : tensor<4xf16>\n",
        "DataflowIR still contains 'tensor.empty'",
    ),
    "a verifier's finding": (
        "body",
        "load_set = #row, load_time_addr_map",
        "load_set = #once, load_time_addr_map",
        "agen.composite_load_and_store",
    ),
    "a type that nobody has": ("body", "%x, %x {binary_op", "%x, %far {binary_op", "vector"),
    "a program that nobody calls": (
        "shared",
        "    call @work(%in, %out) : (index, index) -> ()\n",
        "",
        "the kernel calls no program with dataflow.program_unit",
    ),
    "two calls of one program": (
        "shared",
        "    call @work(%in, %out) : (index, index) -> ()\n",
        "    call @work(%in, %out) : (index, index) -> ()\n    call @work(%in, %out) : (index, index) -> ()\n",
        "program 'work' is called more than once",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str, tmp_path: Path) -> None:
    where, old, new, message = WRONG[name]
    texts = {"shared": FOREIGN, "body": BODY}
    assert texts[where].count(old) >= 1
    texts[where] = texts[where].replace(old, new, 1)
    result = invoke(folder(tmp_path, texts["shared"], texts["body"]), "--device", "sample")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_without_its_files(tmp_path: Path) -> None:
    result = invoke(tmp_path)
    assert result.exit_code == 1
    assert "holds no global.mlir" in result.stderr
    result = invoke(folder(tmp_path, body=None))
    assert result.exit_code == 1
    assert "holds no work.mlir, the body of 'work'" in result.stderr
    assert invoke(tmp_path, "--device", "nowhere").exit_code in (1, 2)
