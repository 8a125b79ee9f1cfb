"""`spyresim run` and `spyresim verify`: results, messages, exit codes."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from click.testing import CliRunner, Result

import dfsched
import ktir
import spyresim
from dfsched import pipeline
from ktir.dialects import arith
from spyresim.cli import main
from spyresim.testing import text as k
from spyresim.testing.compute_kernels import KERNELS

RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(100, 256)).astype(np.float16), RNG.normal(size=(96, 256)).astype(np.float16)
ARGUMENTS = ["-a", "a=@a.npy", "-a", "b=@b.npy", "-a", "shift=3"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with add.mlir, a.npy and b.npy; it is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "add.mlir").write_text(k.shifted_add())
    np.save("a.npy", A)
    np.save("b.npy", B)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


class TestRun:
    @pytest.mark.parametrize("level", ["ktir", "dataflow", "device"])
    def test_every_level(self, here: Path, level: str) -> None:
        result = call(
            "run", "add.mlir", "--level", level, "--device", "sample", *ARGUMENTS, "--save", "c=c.npy"
        )
        assert result.exit_code == 0, result.output
        assert f"shifted_add at level {level}: 32 tiles" in result.output
        assert np.array_equal(np.load("c.npy"), A[3:99] + B)

    def test_messages_stand_at_their_place(self, here: Path) -> None:
        """Errors that know a place show it once, with the line; files that are no arrays are named as such."""
        for arguments, message in (
            (("--function", "foo"), "no function named 'foo'"),
            (("--level", "dataflow"), "the module declares no device"),
        ):
            result = call("run", "add.mlir", *arguments)
            assert result.exit_code == 1
            first, line, caret = result.stderr.splitlines()[:3]
            assert re.fullmatch(rf"add\.mlir:1:\d+: error: {message}.*", first), result.stderr
            assert line == (here / "add.mlir").read_text().splitlines()[0]
            assert caret.strip() == "^"
        for content in (b"", b"1, 2, 3\n", b"\x80\x04N."):
            (here / "text.npy").write_bytes(content)
            result = call("run", "add.mlir", "-a", "a=@text.npy")
            assert result.exit_code == 1
            assert "cannot read an array from 'text.npy': it is no .npy file" in result.stderr

    def test_time_only(self, here: Path) -> None:
        """The cycles are those of a run with values, without any array."""
        device = ["--device", "sample", "-a", "shift=3"]
        full = call("run", "add.mlir", "--level", "dataflow", "--device", "sample", *ARGUMENTS)
        found = call("run", "add.mlir", "--time-only", *device, "--trace", "t.json", "--report", "r.html")
        assert found.exit_code == 0, found.output
        assert found.output.splitlines()[0] == full.output.splitlines()[0]
        assert "c:" not in found.output
        assert json.loads((here / "t.json").read_text())["traceEvents"]
        assert "<svg" in (here / "r.html").read_text()
        for bad in (["--level", "device"], ["--save", "c=c.npy"], ["--level", "ktir"]):
            assert call("run", "add.mlir", "--time-only", *device, *bad).exit_code == 2

    @pytest.mark.parametrize("option", ["--save", "--trace", "--report"])
    def test_files_that_cannot_be_written(
        self, here: Path, option: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Before the run where that can be known (exit code 2), after it where it cannot (1)."""
        target = {"--save": "c.npy", "--trace": "t.json", "--report": "r.html"}[option]
        level = ["--level", "dataflow", "--device", "sample"]

        def write(target: str) -> Result:
            value = f"c={target}" if option == "--save" else target
            return call("run", "add.mlir", *level, *ARGUMENTS, option, value)

        result = write(f"nowhere/{target}")
        assert result.exit_code == 2
        assert f"cannot write 'nowhere/{target}': No such file or directory" in result.output
        assert "shifted_add" not in result.output

        def full(*arguments: Any, **options: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(np, "save", full)
        monkeypatch.setattr(Path, "write_text", full)
        result = write(target)
        assert result.exit_code == 1
        assert f"error: cannot write '{target}': No space left on device" in result.output

    @pytest.mark.parametrize("grid", ['"four"', "4 : index"])
    def test_a_grid_is_an_array(self, here: Path, grid: str) -> None:
        text = re.sub(r"grid = \[[^]]*\]", f"grid = {grid}", k.shifted_add())
        (here / "add.mlir").write_text(text)
        result = call("run", "add.mlir", *ARGUMENTS)
        assert result.exit_code == 1
        assert "error: the grid must be an array of integers" in result.output

    def test_arrays_larger_than_the_device_memory(self, here: Path) -> None:
        view = (
            "{{coordinate_set = affine_set<(d0) : (d0 >= 0, -d0 + {last} >= 0)>, "
            "memory_space = #ktdp.memory_space<global>}} : memref<{size}xf32>"
        )
        size = 1 << 60
        (here / "huge.mlir").write_text(
            "func.func @huge(%a: index) attributes {grid = [1]} {\n%c0 = arith.constant 0 : index\n"
            f"%v = ktdp.construct_memory_view %a, sizes: [{size}], strides: [1] "
            + view.format(last=size - 1, size=size)
            + "\n%t = ktdp.construct_access_tile %v[%c0] {access_tile_order = affine_map<(d0) -> (d0)>, "
            "access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>} "
            f": memref<{size}xf32> -> !ktdp.access_tile<64xindex>\n"
            "%x = ktdp.load %t : !ktdp.access_tile<64xindex> -> tensor<64xf32>\n"
            "ktdp.store %x, %t : tensor<64xf32>, !ktdp.access_tile<64xindex>\nreturn\n}\n"
        )
        result = call("run", "huge.mlir", "--random", "1")
        assert result.exit_code == 2
        assert f"array 'a' of shape ({size},) takes {4 * size} bytes, the device memory has" in result.output

    def test_the_host_runs_out_of_memory(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def exhausted(*arguments: Any) -> None:
            raise MemoryError("Unable to allocate 745. GiB")

        monkeypatch.setattr("spyresim.cli._run_ktir", exhausted)
        result = call("run", "add.mlir", *ARGUMENTS)
        assert result.exit_code == 1
        assert "error: the arrays of this run do not fit into memory: Unable to allocate" in result.output

    def test_folder(self, here: Path) -> None:
        """DataflowIR and images from what `dfsched compile` wrote, in the folder or the one above."""
        dfsched.compile(ktir.load("add.mlir"), "sample").write("out/shifted_add")
        np.save("expected.npy", A[3:99] + B)
        for path, extra in (("out", []), ("out/shifted_add", ["--level", "dataflow"])):
            result = call("run", path, *ARGUMENTS, *extra, "--expect", "c=expected.npy")
            assert result.exit_code == 0, result.output
        device = (files("dfsched") / "devices" / "sample.mlir").read_text()
        Path("own.mlir").write_text(device.replace("@sample_device", "@own"))
        dfsched.compile(ktir.load("add.mlir"), "own.mlir").write("own/shifted_add")
        for extra in (["--level", "dataflow"], ["--time-only"], []):
            result = call("run", "own", *ARGUMENTS, *extra)
            assert result.exit_code == 2
            assert "the launch spec is for device 'own'" in result.stderr
            result = call("run", "own", *ARGUMENTS, *extra, "--device", "own.mlir")
            assert result.exit_code == 0, result.output
        refused = call("run", "out", "--level", "ktir")
        assert refused.exit_code == 2
        assert "a compiled folder holds no KTIR; levels: dataflow, device" in refused.stderr
        unknown = call("run", "out", "--function", "mul")
        assert unknown.exit_code == 2
        assert "holds no kernel 'mul'; kernels: shifted_add" in unknown.stderr

    def test_expectation_that_fails(self, here: Path) -> None:
        wrong = A[3:99] + B
        wrong[1, 7] += 1
        np.save("expected.npy", wrong)
        result = call("run", "add.mlir", *ARGUMENTS, "--expect", "c=expected.npy")
        assert result.exit_code == 1
        assert "error: output 'c' at [1, 7]: expected" in result.stderr
        assert "(1 of 24576 elements differ)" in result.stderr
        assert call("run", "add.mlir", *ARGUMENTS, "--expect", "c=expected.npy", "--atol", "2").exit_code == 0

    @pytest.mark.parametrize(
        ("expected", "message"),
        [
            (np.zeros((3, 256), np.float16), "output 'c' has shape [96, 256], the expected array [3, 256]"),
            (np.zeros((96, 256), complex), "cannot be compared with an array of dtype complex128"),
            (np.full((96, 256), "x"), "cannot be compared with an array of dtype <U1"),
            (np.full((96, 256), np.nan), "output 'c' at [0, 0]: expected nan, got "),
        ],
    )
    def test_expectations_that_cannot_hold(self, here: Path, expected: Any, message: str) -> None:
        """Exit code 1: the comparison fails, whatever is in the file."""
        np.save("expected.npy", expected)
        result = call(
            "run", "add.mlir", *ARGUMENTS, "--expect", "c=expected.npy", "--rtol", "9", "--atol", "9"
        )
        assert result.exit_code == 1
        assert message in result.stderr

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"no array",
            b"\x93NUMPY\x01\x00garbage",
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f2', 'fortran_order': False, 'shape': (100, 256), }".ljust(
                128
            ),
            b"PK\x03\x04 no archive",
        ],
    )
    @pytest.mark.parametrize("option", ["--arg", "--expect"])
    def test_files_without_an_array(self, here: Path, content: bytes, option: str) -> None:
        """The call is good, the file is not: exit code 1."""
        Path("x.npy").write_bytes(content)
        given = ["--arg", "a=@x.npy"] if option == "--arg" else [*ARGUMENTS, "--expect", "c=x.npy"]
        result = call("run", "add.mlir", *given)
        assert result.exit_code == 1
        assert "error: cannot read an array from 'x.npy': " in result.stderr
        assert "Traceback" not in result.stderr

    def test_byte_order_and_memory_order_of_a_file(self, here: Path) -> None:
        np.save("a.npy", np.asfortranarray(A).astype(">f2"))
        np.save("expected.npy", A[3:99] + B)
        assert call("run", "add.mlir", *ARGUMENTS, "--expect", "c=expected.npy").exit_code == 0

    def test_cost_schedule_strict(self, here: Path) -> None:
        result = call("run", "add.mlir", *ARGUMENTS, "--cost", "--schedule", "sequential", "--strict")
        assert result.exit_code == 0, result.stderr
        assert "shifted_add at level ktir: 32 tiles, 1164 cycles (limited by memory)" in result.output
        assert "Roofline" in result.output
        refused = call("run", "add.mlir", "--level", "device", "--device", "sample", *ARGUMENTS, "--cost")
        assert refused.exit_code == 2
        assert "--strict, --schedule, --cost and --proposed are for level ktir" in refused.stderr

    def test_report_and_trace(self, here: Path) -> None:
        result = call(
            "run", "add.mlir", "--level", "dataflow", "--device", "sample", *ARGUMENTS,
            "--report", "r.json", "--trace", "t.json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        document = json.loads(Path("r.json").read_text())
        assert document["level"] == "dataflow"
        assert document["cycles"] > 0
        assert document["engine"]["units"]
        trace = json.loads(Path("t.json").read_text())
        assert any(event["ph"] == "X" for event in trace["traceEvents"])
        assert call("run", "add.mlir", *ARGUMENTS, "--report", "r.html").exit_code == 0
        assert "<h1>shifted_add at level ktir</h1>" in Path("r.html").read_text()

    def test_trace_of_a_level_without_time(self, here: Path) -> None:
        result = call("run", "add.mlir", *ARGUMENTS, "--trace", "t.json")
        assert result.exit_code == 1
        assert (
            "error: unsupported: a trace of level ktir; levels dataflow and device have time" in result.stderr
        )

    def test_random_arguments(self, here: Path) -> None:
        first = call("run", "add.mlir", "--random", "4", "-a", "shift=0", "--save", "c=one.npy")
        again = call("run", "add.mlir", "--random", "4", "-a", "shift=0", "--save", "c=two.npy")
        assert first.exit_code == again.exit_code == 0
        assert np.array_equal(np.load("one.npy"), np.load("two.npy"))

    def test_fault_with_its_place(self, here: Path) -> None:
        result = call("run", "add.mlir", "-a", "a=@a.npy", "-a", "b=@b.npy", "-a", "shift=30")
        assert result.exit_code == 1
        lines = result.stderr.split("\n")
        assert lines[0].startswith("add.mlir:13:8: error: coordinate (101, 255) is outside the view of shape")
        assert lines[1].lstrip().startswith("%x = ktdp.load")
        assert lines[2].strip() == "^"

    def test_syntax_error(self, here: Path) -> None:
        Path("bad.mlir").write_text("func.func @f( {\n")
        result = call("run", "bad.mlir")
        assert result.exit_code == 1
        assert result.stderr.startswith("bad.mlir:1:")

    def test_verifier_error(self, here: Path) -> None:
        Path("bad.mlir").write_text(k.shifted_add().replace("sizes: [100, 256]", "sizes: [100]"))
        result = call("run", "bad.mlir", *ARGUMENTS)
        assert result.exit_code == 1
        assert (
            "'ktdp.construct_memory_view' op static_sizes and static_strides must have equal length"
            in result.stderr
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["missing.mlir"], "does not exist"),
            (["add.mlir", "-a", "a=@a.npy", "-a", "b=@a.npy", "-a", "shift=0"],
             "error: argument 'b' of 'shifted_add' must have shape (96, 256), but the array has shape (100, 256)"),
            (["add.mlir"], "error: argument 'shift' of 'shifted_add' (scalar int64) is missing"),
            (["add.mlir", "-a", "shift"], "--arg takes name=value, not 'shift'"),
            (["add.mlir", "-a", "shift=x"], "'x' is neither a number nor @file.npy"),
            (["add.mlir", "-a", "a=@none.npy"], "cannot read an array from 'none.npy'"),
            (["add.mlir", "--random", "-1"], "Invalid value for '--random'"),
            (["add.mlir", *ARGUMENTS, "--rtol", "-1"], "Invalid value for '--rtol'"),
            (["add.mlir", "-a", "a=@a.npy", "-a", "b=@b.npy", "-a", f"shift={10**30}"],
             f"argument 'shift' of 'shifted_add': {10**30} does not fit index"),
            (["add.mlir", "--device", "nothing", "--level", "device", *ARGUMENTS], "no device 'nothing'"),
            (["add.mlir", *ARGUMENTS, "--save", "z=z.npy"], "error: there is no output 'z'; outputs: c"),
            (["add.mlir", *ARGUMENTS, "--save", "a=z.npy"], "error: there is no output 'a'; outputs: c"),
        ],
    )  # fmt: skip
    def test_bad_calls(self, here: Path, arguments: list[str], message: str) -> None:
        result = call("run", *arguments)
        assert result.exit_code == 2, result.output
        assert message in result.stderr

    @pytest.mark.parametrize(
        ("level", "compiled"),
        [("ktir", False), ("dataflow", False), ("device", False), ("dataflow", True), ("device", True)],
    )
    def test_unknown_outputs_are_told_before_the_run(self, here: Path, level: str, compiled: bool) -> None:
        """Without arguments a run would fail first."""
        path = "add.mlir"
        if compiled:
            dfsched.compile(ktir.load(path), "sample").write("folder")
            path = "folder"
        result = call("run", path, "--level", level, "--device", "sample", "--save", "z=z.npy")
        assert result.exit_code == 2, result.output
        assert "error: there is no output 'z'; outputs: c" in result.stderr

    def test_unknown_function(self, here: Path) -> None:
        result = call("run", "add.mlir", "-f", "mul", *ARGUMENTS)
        assert result.exit_code == 1
        assert "no function named 'mul', functions with a body: shifted_add" in result.stderr


class TestVerify:
    def test_agreement(self, here: Path) -> None:
        result = call("verify", "add.mlir", "--device", "sample", "--seeds", "2")
        assert result.exit_code == 0, result.output
        assert "shifted_add seed 1: at level device" in result.output
        assert "after pass 'path-expansion'" in result.output
        assert "2 runs, all levels agree" in result.output

    def test_chosen_passes(self, here: Path) -> None:
        """`--only` executes what it names, `--stop-after` nothing behind a pass; unknown names are bad calls."""
        base = ["verify", "add.mlir", "--device", "sample"]

        def executed(*options: str) -> list[str]:
            result = call(*base, *options)
            assert result.exit_code == 0, result.output
            return re.findall(r"seed 0: (?:after pass '(.*?)'|at level (\S+)) ", result.output)

        def flat(*options: str) -> list[str]:
            return [a or b for a, b in executed(*options)]

        everything = flat()
        assert everything[0] == "ktir"
        assert everything[-2:] == ["dataflow", "device"]
        assert flat("--only", "path-expansion", "--only", "device") == ["ktir", "path-expansion", "device"]
        assert flat("--only", "dataflow") == ["ktir", "dataflow"]
        stopped = flat("--stop-after", "path-expansion")
        assert stopped == everything[: len(stopped)]
        assert stopped[-1] == "path-expansion"
        for options in (["--only", "nothing"], ["--stop-after", "nothing"]):
            result = call(*base, *options)
            assert result.exit_code == 2
            assert "no pass 'nothing'; passes: " in result.stderr

    def test_a_pass_that_breaks_the_kernel_is_not_hidden_by_others(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        breaks(monkeypatch, "path-expansion", subtract)
        result = call("verify", "add.mlir", "--device", "sample", "--only", "device", "--quiet")
        assert result.exit_code == 1
        assert "at level device: output 'c' at [0, 0]: expected" in result.stderr

    def test_reductions_are_reordered_by_a_pass(self) -> None:
        """What is compared bit for bit behind it is what that pass computes, whatever else is chosen."""
        for only in (("device",), ("path-expansion", "dataflow")):
            (one,) = spyresim.verify(ktir.parse(KERNELS["row sums"]), "sample", only=only)
            assert one.ok, one.first
            found = [outcome.after or outcome.level for outcome in one.outcomes]
            assert len(found) == len(only) + 2
            assert found[0] == "ktir"
            assert [name for name in found if name in only] == list(only)

    def test_progress_on_a_terminal(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is being executed is said before it is, and gone afterwards; not in files and not with --quiet."""
        options = ["verify", "add.mlir", "--device", "sample", "--only", "device"]
        assert "..." not in call(*options).stderr
        monkeypatch.setattr("spyresim.cli._on_a_terminal", lambda: True)
        shown = call(*options).stderr
        assert re.findall(r"seed 0: (.*?) \.\.\.", shown) == ["at level ktir", "at level device"]
        assert shown.endswith("\r\x1b[K")
        assert call(*options, "--quiet").stderr == ""

    def test_device_of_the_file(self, here: Path) -> None:
        """A file that declares its device needs no --device; constant base addresses work (reading 4)."""
        text = k.shifted_add()
        text = text.replace("%a: index, %b: index, %c: index, %shift: index", "%shift: index")
        text = text.replace(
            "%c0 = arith.constant 0 : index",
            "%c0 = arith.constant 0 : index\n  %a = arith.constant 0 : index\n"
            "  %b = arith.constant 32768 : index\n  %c = arith.constant 65536 : index",
            1,
        )
        Path("fixed.mlir").write_text(f'module {{ ktdf_arch.device @sample_device import("sample")\n{text}}}')
        result = call("verify", "fixed.mlir", "--quiet")
        assert result.exit_code == 0, result.output + result.stderr

    def test_unknown_device(self, here: Path) -> None:
        result = call("verify", "add.mlir", "--device", "nothing")
        assert result.exit_code == 2
        assert "no device 'nothing'" in result.stderr

    def test_no_device(self, here: Path) -> None:
        result = call("verify", "add.mlir")
        assert result.exit_code == 1
        assert "error:" in result.stderr

    @pytest.mark.parametrize(
        ("name", "where"),
        [
            ("path-expansion", "after pass 'path-expansion'"),
            ("ktdflowering-to-dfir", "after pass 'ktdflowering-to-dfir'"),
            ("wrap-program-dfir", "after pass 'wrap-program-dfir'"),
        ],
    )
    def test_a_pass_that_breaks_the_kernel(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str
    ) -> None:
        """The first pass that differs, the smallest differing element, and what wrote it are named."""
        breaks(monkeypatch, name, subtract)
        result = call("verify", "add.mlir", "--device", "sample", "--quiet")
        assert result.exit_code == 1
        assert f"kernel 'shifted_add' (seed 0) {where}: output 'c' at [0, 0]: expected" in result.stderr
        assert re.search(r"\(24\d\d\d elements differ\); written by '", result.stderr)
        writer = result.stderr.split("; written by ")[1].splitlines()[0]
        assert re.search(r"tile 0.* at .*:\d+:\d+$", writer), writer
        if name == "path-expansion":
            assert writer.startswith("'ktdf.data_transfer'"), writer
        else:
            assert writer.startswith("'agen.composite_load_and_store', tile 0, unit C0-mnisu"), writer

    @pytest.mark.parametrize("name", ["path-expansion", "ktdflowering-to-dfir"])
    def test_a_pass_whose_result_cannot_be_executed(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Not executable is not verified: the level fails, whatever comes after it."""
        original = next(p for p in pipeline.PASSES if p.name == name)
        foreign: list[Any] = []

        def broken(module: Any, context: Any) -> Any:
            good = original.run(module, context)
            foreign.append(good)
            return good

        breaks(monkeypatch, name, lambda module: module)
        from spyresim import dataflow_level, repetition, schedule_level, verification

        def refuse(*arguments: Any, **options: Any) -> Any:
            if options.get("module") is not None and wanted(options["module"]):
                raise IndexError("list index out of range")
            return runner(*arguments, **options)

        def wanted(module: Any) -> bool:
            return verification.is_sequential(module) == (name == "path-expansion")

        if name == "path-expansion":
            runner = schedule_level.run_schedule
            monkeypatch.setattr(verification, "run_schedule", refuse)
        else:
            runner = dataflow_level.prepare_dataflow
            monkeypatch.setattr(repetition, "prepare_dataflow", refuse)
        result = call("verify", "add.mlir", "--device", "sample", "--quiet")
        assert result.exit_code == 1
        assert "not executable: IndexError: list index out of range" in result.stderr

    @pytest.mark.parametrize("damaged", [True, False])
    def test_a_pass_that_fails_behind_one_that_breaks_the_kernel(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
    ) -> None:
        """The first one to blame is named; a pass that fails by itself is, too."""

        def fail(module: Any) -> Any:
            raise LookupError("no such thing")

        if damaged:
            breaks(monkeypatch, "path-expansion", subtract)
        breaks(monkeypatch, "address-assignment", fail)
        result = call("verify", "add.mlir", "--device", "sample", "--quiet")
        assert result.exit_code == 1
        where = "after pass 'path-expansion': output 'c' at [0, 0]: expected"
        if not damaged:
            where = "after pass 'address-assignment': the pass fails: LookupError: no such thing"
        assert f"kernel 'shifted_add' (seed 0) {where}" in result.stderr


def breaks(monkeypatch: pytest.MonkeyPatch, name: str, damage: Any) -> None:
    """Replace a pass by one that damages its result."""
    original = next(p for p in pipeline.PASSES if p.name == name)

    def broken(module: Any, context: Any) -> Any:
        return damage(original.run(module, context))

    passes = tuple(attrs.evolve(p, run=broken) if p is original else p for p in pipeline.PASSES)
    monkeypatch.setattr(pipeline, "PASSES", passes)


def subtract(module: Any) -> Any:
    """The module with subtractions in place of additions."""
    with ktir.edit(module) as editor:
        for node in list(editor.walk(arith.AddF)):
            a, b = node.operands
            new = arith.SubF.create((a, b), (a.type,))
            editor.insert_before(node, new)
            editor.replace(node, list(new.results))
        if not list(editor.walk(arith.SubF)):
            text = ktir.print_module(module)
            assert "binary_operator add" in text
            return ktir.parse(text.replace("binary_operator add", "binary_operator sub"))
    return editor.module


def test_device_level_without_the_interpreter(here: Path) -> None:
    """A process that runs an image imports neither the KTIR interpreter nor the DataflowIR reader."""
    dfsched.compile(ktir.load("add.mlir"), "sample").write("out")
    code = """
import sys
import numpy as np
import spyresim
out = spyresim.run_device("out", {"a": np.load("a.npy"), "b": np.load("b.npy"), "shift": 3}).outputs["c"]
np.save("c.npy", out)
found = [m for m in sys.modules if m.startswith(("spyresim.ktir_level", "spyresim.sequential",
         "spyresim.schedule_level", "spyresim.dataflow"))]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    assert np.array_equal(np.load("c.npy"), A[3:99] + B)
