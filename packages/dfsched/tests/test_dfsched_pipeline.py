"""The pipeline as a whole: its list, contracts, options, and the command lines `compile` and `passes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

import dfsched
import ktir
from dfsched.cli import main
from dfsched.contracts import MILESTONES, ContractError, check_contract
from dfsched.passes.base import Group, Pass, PassContext
from dfsched.passes.ir_tools import rewrite_blocks
from dfsched.pipeline import PASSES, V1, find_passes, pipeline, run_pipeline

QUAD = str(Path(__file__).parent / "devices" / "quad.mlir")

KERNEL = """\
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 71 >= 0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @double(%a: index, %b: index) attributes {grid = [1]} {
  %c0 = arith.constant 0 : index
  %va = ktdp.construct_memory_view %a, sizes: [4, 72], strides: [72, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x72xf16>
  %vb = ktdp.construct_memory_view %b, sizes: [4, 72], strides: [72, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x72xf16>
  %ta = ktdp.construct_access_tile %va[%c0, %c0] {access_tile_set = #all, access_tile_order = #id} : memref<4x72xf16> -> !ktdp.access_tile<4x72xindex>
  %tb = ktdp.construct_access_tile %vb[%c0, %c0] {access_tile_set = #all, access_tile_order = #id} : memref<4x72xf16> -> !ktdp.access_tile<4x72xindex>
  %x = ktdp.load %ta : <4x72xindex> -> tensor<4x72xf16>
  %y = arith.addf %x, %x : tensor<4x72xf16>
  ktdp.store %y, %tb : tensor<4x72xf16>, <4x72xindex>
  return
}
"""

SCHEDULE = dfsched.Options(emit="schedule")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.mlir"
    path.write_text(KERNEL)
    return path


# -- the list


PUBLISHED = """\
ensure-device-declaration driver
ktir-legality-check frontend
compute-group-extraction frontend
construct-three-stage-pipeline frontend
ktdfarch-apply-patterns{groups=pre_scheduling} scheduler
path-expansion scheduler
scalar-broadcast-legalization scheduler
normalize-scf-for-loops scheduler
canonicalize scheduler
tile-scf-for-loops scheduler
canonicalize scheduler
loop-invariant-code-motion scheduler
stage-coarsening scheduler
reduction-dim-chunking scheduler
reduction-loop-exposure scheduler
map-reduction-partials scheduler
broadcast-promotion scheduler
double-buffering scheduler
parallelize-loops-across-instances scheduler
tile-size-selection scheduler
canonicalize scheduler
affine-min-canonicalization scheduler
subsume-linearize-index scheduler
address-assignment scheduler
normalize-grid-to-1d scheduler
ktdf-to-ktdflowering backend
ktdflowering-to-dfir backend
wrap-program-dfir backend
emit-split-dfir driver
"""


def test_the_published_list() -> None:
    """Checklist P1: numbers, names, groups and order of scheduler spec 2.2."""
    lines = [line.split() for line in run("passes", "--profile", "v1").stdout.splitlines()]
    assert "".join(f"{name} {group}\n" for _, name, group, *_ in lines) == PUBLISHED
    assert [int(number) for number, *_ in lines] == list(range(29))
    options = {name: line[3:] for line in lines if len(line) > 3 for name in [line[1]]}
    assert options["stage-coarsening"] == ["loop-nest-depth=2"]
    assert options["reduction-dim-chunking"][:2] == ["num-chunks=[],", "chunk-size-threshold=1048576"]
    missing = [line[1] for line in lines if line[-3:] == ["not", "built", "yet"]]
    assert missing == [row.name for row in V1 if not row.is_built]


def test_where_the_later_passes_are() -> None:
    """Every row of the published list has its place in the default one; what that adds is marked, and what moved."""
    lines = [line.split()[:4] for line in run("passes").stdout.splitlines()]
    rows = [row for *_, row in lines]
    published = {int(row.rstrip("~")) for row in rows if row != "+"}
    assert published == {number for number, row in enumerate(V1) if row.built_as and row.is_built}
    later = [name for _, name, _, row in lines if row == "+"]
    assert {"forward-stores", "select-plan", "narrow-index-lanes", "split-transfers"} <= set(later)
    assert later.count("apply-device-patterns") == 3  # the fourth checkpoint is the published one
    unmoved = [int(row) for row in rows if row.isdigit()]
    assert unmoved == sorted(unmoved)
    moved = {name for _, name, _, row in lines if row.endswith("~")}
    assert moved == {"reduction-dim-chunking", "reduction-loop-exposure", "map-reduction-partials"}
    assert not set(later) & {row.name for row in V1} - {"canonicalize"}


def test_the_default_list() -> None:
    """`dfsched passes` prints what runs; groups follow each other."""
    lines = run("passes").stdout.splitlines()
    assert [line.split()[1] for line in lines] == [item.name for item in PASSES]
    order = [Group.DRIVER, Group.FRONTEND, Group.SCHEDULER, Group.BACKEND]
    positions = [order.index(item.group) for item in PASSES]
    assert positions == sorted(positions)
    assert all(item.summary for item in PASSES)
    assert find_passes("ktdfarch-apply-patterns") == find_passes("apply-device-patterns")


@pytest.mark.parametrize("item", PASSES, ids=lambda item: item.name)
def test_every_pass_says_what_it_does(item: object) -> None:
    """A pass file says what it takes and leaves, and shows it."""
    module = __import__(item.run.__module__, fromlist=["x"])  # type: ignore[attr-defined]
    text = module.__doc__ or ""
    assert item.name in text  # type: ignore[attr-defined]
    assert "::\n\n    " in text
    assert any(word in text for word in ("Takes", "Leaves", "After"))


@pytest.mark.parametrize("device", ["sample", "spyre", QUAD])
def test_passes_are_pure_and_deterministic(device: str) -> None:
    """The same input gives the same text; no pass touches the module that it was given."""
    first = dfsched.compile(ktir.parse(KERNEL), device, SCHEDULE)
    before = [ktir.print_module(result.module) for result in first.passes]
    second = dfsched.compile(ktir.parse(KERNEL), device, SCHEDULE)
    assert before == [ktir.print_module(result.module) for result in second.passes]
    assert before == [ktir.print_module(result.module) for result in first.passes]
    for text in before:
        assert ktir.print_module(ktir.parse(text)) == text


@pytest.mark.parametrize("name", sorted({p.name for p in PASSES if p.group in (Group.SCHEDULER,)}))
def test_every_scheduler_pass_can_be_switched_off(name: str) -> None:
    """Checklist P4."""
    options = evolve(SCHEDULE, disabled=[name], verify=False)
    assert name not in [item.name for item in pipeline(options)]
    module = ktir.parse(KERNEL)
    try:
        compiled = dfsched.compile(module, "sample", options)
    except dfsched.DfschedError:
        return  # a later pass may well need it; that is a located error and no crash
    assert name not in [result.name for result in compiled.passes]


# -- contracts


def test_contracts_hold_and_are_checked() -> None:
    """Checklist P7, P8: what must hold at the borders is verified."""
    compiled = dfsched.compile(ktir.parse(KERNEL), "sample", SCHEDULE)
    architecture = compiled.architecture
    frontend = next(r.module for r in reversed(compiled.passes) if r.group is Group.FRONTEND)
    check_contract(frontend, Group.FRONTEND, architecture)
    check_contract(compiled.schedule_ir, Group.SCHEDULER, architecture)
    with pytest.raises(ContractError) as caught:
        check_contract(frontend, Group.SCHEDULER, architecture)
    messages = {d.message for d in caught.value.diagnostics}
    assert "a stage without units" in messages
    with pytest.raises(ContractError, match=r"'ktdp\.load' is left"):
        check_contract(ktir.parse(KERNEL), Group.FRONTEND, architecture)
    with pytest.raises(ContractError):
        check_contract(compiled.schedule_ir, Group.SCHEDULER, dfsched.load_architecture("spyre"))


def test_a_pass_that_breaks_the_ir_is_caught() -> None:
    """Every pass is verified: a broken one cannot hide behind the next."""

    def broken(module: ktir.Module, context: PassContext) -> ktir.Module:
        return rewrite_blocks(module, lambda ops: [op for op in ops if op.name != "arith.constant"])  # type: ignore[return-value]

    context = PassContext(dfsched.load_architecture("sample"))
    passes = (*pipeline(SCHEDULE, Group.FRONTEND)[:3], Pass("broken", Group.FRONTEND, broken, "breaks"))
    with pytest.raises(ktir.VerifyError, match="not defined"):
        run_pipeline(ktir.parse(KERNEL), context, passes)


def test_milestones_are_checked_after_each_pass() -> None:
    """`verify_each`: what a pass establishes is kept by all later ones, and the one that does not is named."""
    options = evolve(SCHEDULE, verify_each=True)
    context = PassContext(dfsched.load_architecture("sample"), options)

    def broken(module: ktir.Module, context: PassContext) -> ktir.Module:
        text = ktir.print_module(module).replace('{applicable_units = ["MNILU"]}', "")
        return ktir.parse(text)

    upto = pipeline(evolve(options, stop_after="canonicalize"))
    run_pipeline(ktir.parse(KERNEL), context, upto)
    passes = (*upto, Pass("broken", Group.SCHEDULER, broken, "breaks"))
    with pytest.raises(
        ContractError, match=r"after the pass 'broken' is broken:\n.*error: a stage without units"
    ):
        run_pipeline(ktir.parse(KERNEL), context, passes)
    assert {m.after for m in MILESTONES} | {m.until for m in MILESTONES} <= {p.name for p in PASSES}


def test_nothing_of_the_scheduler_is_left_behind_the_back_end() -> None:
    """The contract of DataflowIR."""
    compiled = dfsched.compile(ktir.parse(KERNEL), "sample")
    check_contract(compiled.passes[-1].module, Group.BACKEND, compiled.architecture)
    with pytest.raises(ContractError, match=r"'ktdf\.pipeline' is left"):
        check_contract(compiled.schedule_ir, Group.BACKEND, compiled.architecture)
    with pytest.raises(ContractError, match="the module declares no device"):
        check_contract(ktir.parse(KERNEL), Group.DRIVER, compiled.architecture)


# -- passes alone


LOOPS = """
func.func @f(%a: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c8 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      "use"(%i, %j) : (index, index) -> ()
    }
  }
  return
}
"""


def test_passes_run_alone(tmp_path: Path) -> None:
    """Checklist I5: any pass on any module, with its options; those of the published version exist."""
    path = tmp_path / "loops.mlir"
    path.write_text(LOOPS)

    def opt(*chosen: str) -> Result:
        return run("opt", path, "--device", "sample", *(part for name in chosen for part in ("--pass", name)))

    tiled = opt("tile-scf-for-loops{tile-sizes=3,2}")
    assert tiled.exit_code == 0
    assert tiled.stdout.count("scf.for") == 4
    mined = opt("strip-mine-scf-for-loops{strip-mine-size=4}", "canonicalize").stdout
    assert mined.count("scf.for") == 4
    assert mined.count("ktdf.tiling.linearize_index") == 2
    assert opt("strip-mine-scf-for-loops").stdout.count("scf.for") == 2  # neither loop is alone
    assert "must be positive" in opt("strip-mine-scf-for-loops{strip-mine-size=0}").stderr
    assert (
        "the nest has 2 loops, but 1 tile sizes are given" in opt("tile-scf-for-loops{tile-sizes=3}").stderr
    )
    for chosen, message in (
        ("no-such-pass", "no pass 'no-such-pass'"),
        ("canonicalize{depth=1}", "no pass option 'canonicalize.depth'; options: "),
        (
            "tile-scf-for-loops{tile-sizes=x}",
            "'x' is no value of the pass option 'tile-scf-for-loops.tile-sizes'",
        ),
        ("tile-scf-for-loops{3", "is not PASS{OPTION=VALUE}"),
        ("tile-scf-for-loops{tile-sizes}", "is not PASS.OPTION=VALUE"),
    ):
        result = opt(chosen)
        assert result.exit_code == 2
        assert message in result.stderr


def test_options_of_passes(file: Path) -> None:
    """Listed, set for a compilation, and checked."""
    listed = run("passes", "--options").stdout.split()
    assert "stage-coarsening.loop-nest-depth=2" in listed
    arguments = ("compile", file, "--device", "sample", "--emit", "schedule", "--profile", "v1")
    assert run(*arguments, "--set", "stage-coarsening.loop-nest-depth=1").exit_code == 0
    wrong = run(*arguments, "--set", "stage-coarsening.depth=1")
    assert wrong.exit_code == 2
    assert "no pass option 'stage-coarsening.depth'" in wrong.stderr


PATTERN = """
  patterns [GROUPS] {
    pdl.pattern : benefit(1) {
      %op = operation "test.old"
      rewrite {
        %new = operation "test.new"
        replace %op with %new
      }
    }
  }
"""


@pytest.mark.parametrize(
    ("groups", "asked", "applied"),
    [
        ("", "", True),
        ('"pre_scheduling"', "", False),
        ('"pre_scheduling"', "{groups=pre_scheduling}", True),
        ('"pre_scheduling"', "{groups=post_lowering,pre_scheduling}", True),
        ('"pre_scheduling"', "{groups=post_lowering}", False),
    ],
)
def test_pattern_groups(tmp_path: Path, groups: str, asked: str, applied: bool) -> None:
    """Checklist P5: without groups exactly the sets that have none."""
    device = (Path(dfsched.__file__).parent / "devices" / "sample_h.mlir").read_text().rstrip()
    assert device.endswith("}")
    path, kernel = tmp_path / "device.mlir", tmp_path / "kernel.mlir"
    path.write_text(device[:-1] + PATTERN.replace("GROUPS", groups) + "}\n")
    kernel.write_text('func.func @f() {\n  "test.old"() : () -> ()\n  return\n}\n')
    result = run("opt", kernel, "--device", path, "--pass", f"ktdfarch-apply-patterns{asked}")
    assert result.exit_code == 0, result.stderr
    assert ("test.new" in result.stdout) == applied


def test_checkpoints_see_programs(tmp_path: Path) -> None:
    """Checklist P6: at `pre_scheduling` functions of nested modules, and none that stand on top."""
    device = (Path(dfsched.__file__).parent / "devices" / "sample_h.mlir").read_text().rstrip()
    path = tmp_path / "device.mlir"
    path.write_text(device[:-1] + PATTERN.replace("GROUPS", '"pre_scheduling"') + "}\n")
    context = PassContext(dfsched.load_architecture(path))
    (checkpoint,) = (p for p in find_passes("apply-device-patterns") if "pre_scheduling" in p.summary)
    old = 'func.func @f() {\n"test.old"() : () -> ()\nreturn\n}\n'
    text = ktir.print_module(checkpoint.run(ktir.parse(old + "module @program {\n" + old + "}\n"), context))
    assert text.index("test.old") < text.index("module @program") < text.index("test.new")
    assert text.count("test.old") == text.count("test.new") == 1


# -- kernels and devices


def test_which_kernel() -> None:
    """Readings item 21: one kernel at a time."""
    both = ktir.parse(
        KERNEL + KERNEL.split("func.func")[1].join(["func.func", ""]).replace("@double", "@other")
    )
    assert dfsched.kernels(both) == ("double", "other")
    with pytest.raises(dfsched.ScheduleError, match="several kernels"):
        dfsched.compile(both, "sample", SCHEDULE)
    compiled = dfsched.compile(both, "sample", evolve(SCHEDULE, kernel="other"))
    assert compiled.kernel == "other"
    assert "@double" not in ktir.print_module(compiled.schedule_ir)
    with pytest.raises(dfsched.ScheduleError, match="no kernel 'third'; kernels: double, other"):
        dfsched.compile(both, "sample", evolve(SCHEDULE, kernel="third"))
    with pytest.raises(dfsched.ScheduleError, match="the module has no kernel"):
        dfsched.compile(ktir.parse("module {}"), "sample", SCHEDULE)


def test_the_module_names_its_device(tmp_path: Path) -> None:
    """A module that declares and imports a device needs no other, and its declaration wins."""
    device = tmp_path / "x" / "sample_device.mlir"
    device.parent.mkdir()
    package = Path(dfsched.__file__).parent / "devices" / "sample.mlir"
    device.write_text(package.read_text())
    declaration = (
        "ktdf_arch.device @sample_device attributes {mem_space_mapping = #ktdf_arch.map<"
        '#ktdp.memory_space<global> = "DDR", #ktdp.memory_space<ct_local> = "L1">} '
        'import("../x/sample_device.mlir")\n'
    )
    folder = tmp_path / "k"
    folder.mkdir()
    file = folder / "kernel.mlir"
    file.write_text(declaration + KERNEL)
    compiled = dfsched.compile(ktir.load(file), None, SCHEDULE)
    assert compiled.architecture.name == "sample_device"
    assert dfsched.compile(ktir.load(file), "spyre", SCHEDULE).architecture.name == "sample_device"
    result = run("compile", file, "--emit", "schedule")
    assert result.exit_code == 0
    assert "kernel double for device sample_device" in result.stdout


def test_report_and_files(tmp_path: Path) -> None:
    """`Compiled.write` and the report."""
    compiled = dfsched.compile(ktir.parse(KERNEL), "sample", SCHEDULE)
    (program,) = compiled.report.programs
    assert program.tiles == 1
    tiles, vectors, rest = program.pipelines  # 64 columns: tiles and vectors; 8 columns of 4 rows: one vector
    assert [p.iterations for p in program.pipelines] == [1, 4, 1]
    assert tiles.units == ("MNILU", "MNISU")
    assert tiles.bytes_moved == (4 * 128, 4 * 128)
    assert vectors.units == ("L1LU", "SFU", "L1SU")
    assert vectors.bytes_moved == (128, 0, 128)
    assert rest.units == ("MNILU", "L1LU", "SFU", "L1SU", "MNISU")
    assert [nest.tile_sizes for nest in program.nests] == [(4, 1), (1, 1)]
    assert program.memory_bytes == (("L1", max(b.address + b.size for b in program.buffers)),)
    assert "nest 0: tiles of 4 x 1, 2 copies of a buffer, loop 0 over 2 instances" in str(compiled.report)
    compiled.write(tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["kernel"] == "double"
    text = (tmp_path / "out" / "schedule.mlir").read_text()
    assert ktir.print_module(ktir.parse(text)) == text


# -- command line


def test_compile_prints_and_writes(file: Path, tmp_path: Path) -> None:
    """IR after one pass, after all, and a folder per kernel."""
    one = run(
        "compile", file, "--device", "sample", "--emit", "schedule", "--print-ir-after", "path-expansion"
    )
    assert one.exit_code == 0
    assert one.stdout.count("IR after") == 1
    assert 'applicable_units = ["MNILU"]' in one.stdout
    every = run("compile", file, "--device", "sample", "--emit", "schedule", "--print-ir-after", "all")
    assert every.stdout.count("IR after") == len(pipeline(SCHEDULE, Group.SCHEDULER))
    written = run("compile", file, "--device", QUAD, "--emit", "schedule", "-o", tmp_path / "out")
    assert written.exit_code == 0
    assert (tmp_path / "out" / "double" / "schedule.mlir").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--device", "nowhere"), 2, "error: no device 'nowhere'"),
        (("--device", "sample", "--disable", "no-such-pass"), 2, "error: no pass 'no-such-pass'; passes: "),
        (("--device", "sample", "--print-ir-after", "nothing"), 2, "error: no pass 'nothing'"),
        (("--device", "sample", "--emit", "poem"), 2, "Invalid value for '--emit'"),
        (("--device", "sample", "--kernel", "other"), 1, "the module has no kernel 'other'; kernels: double"),
        ((), 1, "the module declares no device and none is given"),
    ],
)
def test_bad_calls(file: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    """Messages and exit codes: 1 the input is bad, 2 the call is bad."""
    result = run("compile", file, "--emit", "schedule", *arguments)
    assert result.exit_code == code
    assert message in result.stderr


def test_bad_files(tmp_path: Path) -> None:
    """Missing files, bytes that are no text, syntax, verifier and scheduling errors, each at its place."""
    assert run("compile", tmp_path / "missing.mlir").exit_code == 2
    path = tmp_path / "bad.mlir"

    def error(content: bytes | str) -> str:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        result = run("compile", path, "--device", "sample", "--emit", "schedule")
        assert result.exit_code == 1
        return result.stderr

    assert "error: not UTF-8 text" in error(b"\xff\xfe")
    assert f"{path}:1:8: error: " in error("module 7 {}")
    verifier = error(KERNEL.replace("tensor<4x72xf16>, <4x72xindex>", "tensor<4x72xf16>, <4x70xindex>"))
    assert f"{path}:" in verifier
    illegal = error(
        KERNEL.replace(
            "arith.addf %x, %x : tensor<4x72xf16>",
            "arith.addf %x, %x : tensor<4x72xf16>\n"
            "  %w = tensor.insert_slice %x into %x[0, 0] [4, 72] [1, 1] : tensor<4x72xf16> into tensor<4x72xf16>",
        )
    )
    assert (
        f"{path}:11:8: error: 'tensor.insert_slice': tensors that are put together are not supported yet"
        in illegal
    )
    assert "\n       ^" in illegal
