"""From KTIR to a SpyreCode folder: launch specs, packages, and looking into them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import dfsched
import ktir
from dfsched import image as im
from dfsched.cli import main
from dfsched.codegen import CodegenError, build_image, launch_plan
from dfsched.codegen.inspect import disassemble, images_of
from dfsched.split import read_split
from ktir.dialects.builtin import Module
from spyrert.spyrecode import Addressing, PayloadKind, SpyreCode, StickLayout, assemble

SAMPLE = dfsched.load_architecture("sample")
TILE = "{access_tile_set = #tile, access_tile_order = #id}"


def kernel(
    arguments: str = "%a: index, %n: index, %o: index", head: str = "", row: str = "%n", attributes: str = ""
) -> str:
    """Doubles four rows per tile of a 16x96 tensor, from row `row` on; %a and %o are the bases."""
    view = "ktdp.construct_memory_view {}, sizes: [16, 96], strides: [96, 1] {{coordinate_set = #all, memory_space = #ktdp.memory_space<global>}} : memref<16x96xf16>"
    return f"""
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 15 >= 0, d1 >= 0, -d1 + 95 >= 0)>
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 95 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
module {attributes} {{
  func.func @double({arguments}) attributes {{grid = [2]}} {{
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    {head}
    %tid = ktdp.get_compute_tile_id : index
    %own = arith.muli %tid, %c4 : index
    %row = arith.addi %own, {row} : index
    %av = {view.format("%a")}
    %ov = {view.format("%o")}
    %at = ktdp.construct_access_tile %av[%row, %c0] {TILE} : memref<16x96xf16> -> !ktdp.access_tile<4x96xindex>
    %ot = ktdp.construct_access_tile %ov[%row, %c0] {TILE} : memref<16x96xf16> -> !ktdp.access_tile<4x96xindex>
    %x = ktdp.load %at : !ktdp.access_tile<4x96xindex> -> tensor<4x96xf16>
    %y = arith.addf %x, %x : tensor<4x96xf16>
    ktdp.store %y, %ot : tensor<4x96xf16>, !ktdp.access_tile<4x96xindex>
    return
  }}
}}
"""


BAKED = kernel("", "%a = arith.constant 1024 : index\n%o = arith.constant 4096 : index", "%c0")


def parse(text: str) -> Module:
    module = ktir.parse(text)
    ktir.verify(module)
    return module


# -- launch specs ------------------------------------------------------------------------------------


def test_launch_arguments_are_the_pointers_in_order() -> None:
    plan = launch_plan(parse(kernel()), "double", SAMPLE)
    assert plan.addressing is Addressing.SYMBOLIC
    spec = plan.spec
    assert [(a.name, a.role.value, a.shape, a.dtype, a.kernel_position) for a in spec.args] == [
        ("a", "input", (16, 96), "float16", 0),
        ("o", "output", (16, 96), "float16", 2),
    ]
    assert [(s.name, s.dtype, s.kernel_position) for s in spec.symbols] == [("n", "index", 1)]
    assert spec.bundle_symbolic_args
    assert spec.architecture is not None
    assert (spec.architecture.name, spec.architecture.digest) == (SAMPLE.name, SAMPLE.digest)


def test_layouts_and_names_of_arguments() -> None:
    marked = kernel(
        '%a: index {ktdp.name = "left", ktdp.layout = #ktdp.layout<"shape" = [16, 96], "element" = f16>}, %n: index, %o: index'
    )
    layout = str(StickLayout.default((16, 96), "float16"))
    assert layout
    try:
        module = parse(marked)
    except ktir.KtirError:  # the attribute's text form is ktir's business; its value is what matters here
        from ktir.attributes import ArrayAttr, DictAttr, StringAttr
        from ktir.dialects.func import Func
        from ktir.layout import StickLayout as Sticks
        from ktir.types import F16

        module = parse(kernel())
        function = next(op for op in module.operations if isinstance(op, Func))
        entries = DictAttr({"ktdp.name": StringAttr("left"), "ktdp.layout": Sticks.default((16, 96), F16)})
        named = function.replace(attributes={"arg_attrs": ArrayAttr((entries, DictAttr(), DictAttr()))})
        module = module.with_operations(tuple(named if op is function else op for op in module.operations))
    first, second = launch_plan(module, "double", SAMPLE).spec.args
    assert first.name == "left"
    assert first.layout == StickLayout.default((16, 96), "float16")
    assert second.name == "o"


def test_constant_addresses_are_one_implicit_argument() -> None:
    """readings, item 4."""
    plan = launch_plan(parse(BAKED), "double", SAMPLE)
    assert plan.addressing is Addressing.BAKED
    (argument,) = plan.spec.args
    end = 4096 * 2 + 16 * 96 * 2
    assert (argument.name, argument.shape, argument.dtype, argument.kernel_position) == (
        "@0x0",
        (end,),
        "uint8",
        None,
    )
    assert not plan.spec.bundle_symbolic_args
    far = launch_plan(parse(BAKED.replace("4096", str(1 << 33))), "double", SAMPLE)
    assert [a.name for a in far.spec.args] == ["@0x0", "@0x400000000"]


def test_constants_beside_pointers() -> None:
    mixed = kernel("%o: index", "%a = arith.constant 1024 : index", "%c0")
    with pytest.raises(CodegenError, match="pointer arguments and device memory at constant addresses"):
        launch_plan(parse(mixed), "double", SAMPLE)


def test_f16_format() -> None:
    text = kernel(attributes='attributes {ktdp.f16_format = "dlfloat"}')
    assert launch_plan(parse(text), "double", SAMPLE).spec.f16_format == "dlfloat"
    assert dfsched.compile(parse(text), "sample").generated.built.image.f16_format == "dlfloat"
    formats = {arg.layout.device_dtype for arg in launch_plan(parse(text), "double", SAMPLE).spec.args}
    assert formats == {"df16"}  # copies convert
    plain = launch_plan(parse(kernel()), "double", SAMPLE).spec
    assert {arg.layout.device_dtype for arg in plain.args} == {"float16"}
    assert {arg.dtype for arg in plain.args} == {"float16"}


def test_scalars_are_ieee_numbers() -> None:
    """A launch binds IEEE bit patterns, which a program of DLFloat16 would read as other numbers."""
    attributes = 'attributes {ktdp.f16_format = "dlfloat"}'
    text = kernel("%a: index, %n: index, %s: f16, %o: index", attributes=attributes)
    with pytest.raises(dfsched.DfschedError, match=r"a float16 scalar \('s'\)"):
        launch_plan(parse(text), "double", SAMPLE)


# -- packages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["sample", "sample_h", "spyre"])
def test_folder(tmp_path: Path, device: str) -> None:
    """The folder validates, and its DataflowIR files give the image again."""
    compiled = dfsched.compile(parse(kernel()), device)
    compiled.write(tmp_path)
    code = SpyreCode.read(tmp_path)
    code.validate()
    (image,) = images_of(code)
    assert image == compiled.generated.built.image
    assert image.architecture_digest == compiled.architecture.digest
    assert len(image.programs) == 1
    assert code.launch is not None
    again = build_image(read_split(tmp_path), code.launch, compiled.architecture)
    assert im.encode(again.image) == im.encode(image)
    assert again.symbols == compiled.generated.built.symbols


def test_compiling_twice_gives_equal_bytes(tmp_path: Path) -> None:
    """checklist W8."""
    for name in ("one", "two"):
        dfsched.compile(parse(kernel()), "sample").write(tmp_path / name)
    first = {
        p.relative_to(tmp_path / "one"): p.read_bytes() for p in (tmp_path / "one").rglob("*") if p.is_file()
    }
    second = {
        p.relative_to(tmp_path / "two"): p.read_bytes() for p in (tmp_path / "two").rglob("*") if p.is_file()
    }
    assert first == second
    assert {str(p) for p in first} >= {
        "global.mlir",
        "local_schedule_0.mlir",
        "launch_spec.json",
        "spyreCodeDir/spyrecode.json",
    }


def test_constant_addresses_need_no_correction() -> None:
    """checklist B11."""
    compiled = dfsched.compile(parse(BAKED), "sample")
    assert compiled.generated.built.symbols == ()
    assert list(compiled.spyrecode.host_computes()) == []
    cells = compiled.generated.built.image.cells
    assert 1024 in cells
    assert 4096 in cells


def test_how_far_a_compilation_goes() -> None:
    scheduled = dfsched.compile(parse(kernel()), "sample", dfsched.Options(emit="schedule"))
    with pytest.raises(dfsched.DfschedError, match="there is no DataflowIR"):
        _ = scheduled.dataflow_ir
    lowered = dfsched.compile(parse(kernel()), "sample", dfsched.Options(emit="dfir"))
    assert list(lowered.dataflow_ir) == ["global.mlir", "local_schedule_0.mlir"]
    names = [result.name for result in lowered.passes]
    assert (
        names.index("ktdf-to-ktdflowering")
        < names.index("ktdflowering-to-dfir")
        < names.index("wrap-program-dfir")
    )
    assert names[-1] == "wrap-program-dfir"


# -- looking inside ----------------------------------------------------------------------------------


def test_disassembly(tmp_path: Path) -> None:
    dfsched.compile(parse(kernel()), "sample").write(tmp_path)
    text = disassemble(tmp_path)
    assert re.search(r"^kernel double for sample_device \([0-9a-f]{12}\), grid 2$", text, re.MULTILINE)
    assert "  -1 = n" not in text
    assert "= n (slot 0, n, " in text
    assert re.search(r"-\d+ = a / 64 \(slot 1, a, 2 cells\)", text)
    assert "local_schedule_0/sfu: 4 units" in text
    assert re.search(r"v\d+ = vbin add, v\d+, v\d+", text)
    result = CliRunner().invoke(main, ["disasm", str(tmp_path)])
    assert (result.exit_code, result.output) == (0, text)


def test_disassembling_something_else(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["disasm", str(tmp_path)])
    assert result.exit_code == 1
    assert "spyrecode.json not found" in result.stderr
    assert CliRunner().invoke(main, ["disasm", str(tmp_path / "nowhere")]).exit_code == 2
    launch = launch_plan(parse(kernel()), "double", SAMPLE).spec
    assemble(b"[]", PayloadKind.OP_LIST, launch).write(tmp_path / "foreign")
    foreign = CliRunner().invoke(main, ["disasm", str(tmp_path / "foreign")])
    assert foreign.exit_code == 1
    assert "is no device image of this package" in foreign.stderr
    assemble(b"DFBIN" + bytes(200), PayloadKind.DFBIN, launch).write(tmp_path / "broken")
    broken = CliRunner().invoke(main, ["disasm", str(tmp_path / "broken")])
    assert broken.exit_code == 1
    assert "invalid DFBIN: bad magic" in broken.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../out2/evil", "cannot be written: its folder would have its name"),
        ("/evil", "cannot be written"),
        ("a\\\\b", "cannot be written"),
        ("..", "cannot be written"),
        (".", "cannot be written"),
        ("a\\00b", "cannot be written"),
        ("a\\0Ab", "cannot be written"),
        (
            "x" * 300,
            "kernel has no SpyreCode: spyrecode.json: /kernel_name: a name has 300 bytes, the limit is 255",
        ),
    ],
)
def test_names_that_name_no_folder(tmp_path: Path, name: str, message: str) -> None:
    """The folder of a kernel lies in the output directory, whatever the kernel is called."""
    source = tmp_path / "in" / "k.mlir"
    source.parent.mkdir()
    source.write_text(kernel().replace("@double", f'@"{name}"'))
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["compile", str(source), "--device", "sample", "-o", str(out)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{source}:6:3: error: ")
    assert message in result.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "out"}
    assert not out.exists() or list(out.rglob("*.json")) == []


def test_long_names_of_arguments() -> None:
    """What an artefact cannot hold is an error of the compilation, with a place."""
    long = "a" * 300
    with pytest.raises(CodegenError, match=r"kernel has no SpyreCode: .*/args/0/name: a name has 300 bytes"):
        dfsched.compile(
            parse(
                kernel().replace("%a:", f"%{long}:").replace('"%a"', "").replace("view %a,", f"view %{long},")
            ),
            "sample",
        )


def test_compile_command_writes_everything(tmp_path: Path) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(kernel())
    result = CliRunner().invoke(
        main, ["compile", str(source), "--device", "sample", "-o", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    spec = json.loads((tmp_path / "out" / "double" / "launch_spec.json").read_text())
    assert [argument["name"] for argument in spec["args"]] == ["a", "o"]
    printed = CliRunner().invoke(
        main, ["compile", str(source), "--device", "sample", "--print-ir-after", "ktdflowering-to-dfir"]
    )
    assert "dataflow.program_unit" in printed.output


def test_errors_of_the_back_end_have_places(tmp_path: Path) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(kernel("%o: index", "%a = arith.constant 1024 : index", "%c0"))
    result = CliRunner().invoke(main, ["compile", str(source), "--device", "sample"])
    assert result.exit_code == 1
    assert re.search(
        r"k\.mlir:\d+:\d+: error: code generation: kernel 'double' has pointer arguments", result.stderr
    )


@pytest.mark.parametrize("device", ["sample", "spyre"])
def test_in_place_kernels(device: str) -> None:
    """Loading and storing one tensor: one argument of role input_output, and the two ends meet in every iteration."""
    text = kernel("%a: index, %n: index").replace("construct_access_tile %ov", "construct_access_tile %av")
    text = "\n".join(line for line in text.splitlines() if "%ov" not in line)
    compiled = dfsched.compile(parse(text), device)
    (argument,) = compiled.generated.launch.spec.args
    assert argument.role.value == "input_output"
    (program,) = compiled.generated.built.image.programs
    first, last = program.unit_programs[0], program.unit_programs[-1]
    image = compiled.generated.built.image

    def partners(unit: im.UnitProgram) -> list[str]:
        columns = [i.unit for i in unit.code if isinstance(i, im.SyncSend)]
        return [image.units[image.cells[unit.cell(0, column)]].kind for column in columns]

    loader, storer = (image.units[unit.units[0]].kind for unit in (first, last))
    assert storer in partners(first)
    assert loader in partners(last)
