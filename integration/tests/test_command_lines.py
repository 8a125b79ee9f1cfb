"""The command lines of the design: every kind of error with its message and its exit code; the good path.

Exit codes: 0 good, 1 the input is bad, 2 the call is bad. The console scripts themselves are run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dfsched.cli
import ktir.cli
import spyrert.cli
import spyresim.cli

MAINS = {"ktir": ktir.cli.main, "dfsched": dfsched.cli.main, "spyrert": spyrert.cli.main, "spyresim": spyresim.cli.main}  # fmt: skip
PIPELINES = Path(__file__).parents[1] / "pipelines"

GOOD = """\
#all = affine_set<(r, c) : (r >= 0, 3 - r >= 0, c >= 0, 71 - c >= 0)>
#rows = affine_map<(r, c) -> (r, c)>
module {
  func.func @double(%a: index, %b: index) attributes {grid = [1]} {
    %c0 = arith.constant 0 : index
    %av = ktdp.construct_memory_view %a, sizes: [4, 72], strides: [72, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x72xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [4, 72], strides: [72, 1]
        {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x72xf16>
    %at = ktdp.construct_access_tile %av[%c0, %c0] {access_tile_order = #rows, access_tile_set = #all}
        : memref<4x72xf16> -> !ktdp.access_tile<4x72xindex>
    %bt = ktdp.construct_access_tile %bv[%c0, %c0] {access_tile_order = #rows, access_tile_set = #all}
        : memref<4x72xf16> -> !ktdp.access_tile<4x72xindex>
    %x = ktdp.load %at : <4x72xindex> -> tensor<4x72xf16>
    %y = arith.addf %x, %x : tensor<4x72xf16>
    ktdp.store %y, %bt : tensor<4x72xf16>, <4x72xindex>
    return
  }
}
"""
SYNTAX = GOOD.replace("arith.addf %x, %x :", "arith.addf %x %x :")
VERIFIER = GOOD.replace("arith.addf %x, %x : tensor<4x72xf16>", "arith.addf %x, %x : tensor<4x71xf16>")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Good and bad files, arrays, and a compiled kernel."""
    for name, text in {"good": GOOD, "syntax": SYNTAX, "verifier": VERIFIER, "empty": "module {}\n"}.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    (tmp_path / "binary.mlir").write_bytes(b"module {}\n\xff\xfe")
    (tmp_path / "device.mlir").write_text("ktdf_arch.device @d {\n  nonsense\n}\n")
    np.save(tmp_path / "a.npy", np.arange(288, dtype=np.float16).reshape(4, 72))
    np.save(tmp_path / "wrong.npy", np.zeros((4, 71), np.float16))
    (tmp_path / "text.npy").write_text("no array\n")
    return tmp_path


def call(folder: Path, line: str | Sequence[str]) -> Result:
    """Run a command line; ``@/`` stands for the folder."""
    words = line.split() if isinstance(line, str) else line
    command, *rest = (word.replace("@/", f"{folder}/") for word in words)
    return CliRunner().invoke(MAINS[command], rest)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        # bad file
        ("ktir check @/gone.mlir", 2, "cannot read '{folder}/gone.mlir': No such file or directory"),
        ("ktir fmt @/gone.mlir", 2, "cannot read '{folder}/gone.mlir': No such file or directory"),
        ("dfsched compile @/gone.mlir --device spyre -o @/out", 2, "'{folder}/gone.mlir' does not exist"),
        ("spyrert inspect @/gone", 1, "{folder}/gone: error: "),
        ("spyrert inspect @/good.mlir", 1, "{folder}/good.mlir: error: "),
        ("spyresim run @/gone.mlir", 2, "'{folder}/gone.mlir' does not exist"),
        ("spyresim verify @/gone.mlir", 2, "'{folder}/gone.mlir' does not exist"),
        ("ktir check @/binary.mlir", 1, "{folder}/binary.mlir:2:1: error: not UTF-8 text"),
        ("ktir fmt @/binary.mlir", 1, "{folder}/binary.mlir:2:1: error: not UTF-8 text"),
        ("dfsched compile @/binary.mlir --device spyre", 1, "error: not UTF-8 text"),
        ("spyresim run @/binary.mlir", 1, "error: not UTF-8 text"),
        ("spyresim verify @/binary.mlir", 1, "error: not UTF-8 text"),
        ("dfsched compile @/empty.mlir --device spyre", 1, "error: the module has no kernel"),
        ("spyresim run @/empty.mlir", 1, "error: "),
        ("spyresim verify @/empty.mlir --device spyre", 1, "a file without a public kernel"),
        # syntax error
        *(
            (line, 1, "{folder}/syntax.mlir:15:24: error: ")
            for line in (
                "ktir check @/syntax.mlir",
                "ktir fmt @/syntax.mlir",
                "dfsched compile @/syntax.mlir --device spyre",
                "spyresim run @/syntax.mlir",
                "spyresim verify @/syntax.mlir --device spyre",
            )
        ),
        # verifier error
        *(
            (line, 1, "{folder}/verifier.mlir:15:")
            for line in (
                "ktir check @/verifier.mlir",
                "dfsched compile @/verifier.mlir --device spyre",
                "spyresim run @/verifier.mlir",
                "spyresim verify @/verifier.mlir --device spyre",
            )
        ),
        # unknown device, bad device
        ("dfsched compile @/good.mlir --device nowhere", 2, "no device 'nowhere'"),
        ("dfsched device nowhere", 2, "no device 'nowhere'"),
        ("spyresim run @/good.mlir --level device --device nowhere --random 1", 2, "no device 'nowhere'"),
        ("spyresim verify @/good.mlir --device nowhere", 2, "no device 'nowhere'"),
        ("dfsched compile @/good.mlir --device @/device.mlir", 1, "{folder}/device.mlir:2:"),
        ("spyresim verify @/good.mlir --device @/device.mlir", 1, "{folder}/device.mlir:2:"),
        ("dfsched device @/device.mlir", 1, "{folder}/device.mlir:2:"),
        ("dfsched compile @/good.mlir", 1, "the module declares no device and none is given"),
        ("spyresim verify @/good.mlir", 1, "the module declares no device and none is given"),
        # unknown pass, kernel, level, command
        ("dfsched compile @/good.mlir --device spyre --print-ir-after x", 2, "error: no pass 'x'; passes: "),
        ("dfsched compile @/good.mlir --device spyre --disable x", 2, "error: no pass 'x'; passes: "),
        ("dfsched compile @/good.mlir --device spyre --kernel x", 1, "no kernel 'x'; kernels: double"),
        ("dfsched compile @/good.mlir --device spyre --emit x", 2, "Invalid value for '--emit'"),
        ("dfsched passes --profile x", 2, "Invalid value for '--profile'"),
        ("spyresim run @/good.mlir --level x", 2, "Invalid value for '--level'"),
        ("spyresim run @/good.mlir --function x --arg a=@@/a.npy", 1, "no function named 'x'"),
        ("ktir explode", 2, "No such command 'explode'"),
        ("dfsched explode", 2, "No such command 'explode'"),
        ("spyrert explode", 2, "No such command 'explode'"),
        ("spyresim explode", 2, "No such command 'explode'"),
        # arguments
        *(
            (f"spyresim run @/good.mlir --device spyre --level {level} {rest}", 2, message)
            for level in ("ktir", "dataflow", "device")
            for rest, message in (
                ("--arg a=@@/wrong.npy", "argument 'a'"),
                ("", "argument 'a'"),
                ("--arg a=@@/a.npy --arg x=1", "no argument 'x'"),
                ("--arg a=@@/a.npy --save x=@/x.npy", "there is no output 'x'; outputs: b"),
            )
        ),
        ("spyresim run @/good.mlir --arg a=@@/text.npy", 1, "cannot read an array from '{folder}/text.npy'"),
        ("spyresim run @/good.mlir --arg a=@@/gone.npy", 2, "cannot read an array from '{folder}/gone.npy'"),
        ("spyresim run @/good.mlir --arg a", 2, "--arg takes name=value, not 'a'"),
        ("spyresim run @/good.mlir --arg a=b", 2, "'b' is neither a number nor @file.npy"),
    ],
)  # fmt: skip
def test_errors(folder: Path, line: str, code: int, message: str) -> None:
    """One line that names the place, no traceback, the exit code of the design."""
    result = call(folder, line)
    assert message.format(folder=folder) in result.stderr
    assert result.exit_code == code
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_diagnostics_show_the_line_and_a_caret(folder: Path) -> None:
    line = "    %y = arith.addf %x %x : tensor<4x72xf16>"
    for command in ("ktir check", "dfsched compile --device spyre", "spyresim run"):
        lines = call(folder, f"{command} @/syntax.mlir").stderr.splitlines()
        assert lines[1:3] == [line, " " * 23 + "^"], command


def test_the_good_path(folder: Path) -> None:
    """check, fmt, compile, inspect, run at every level from file and folder, verify."""
    assert call(folder, "ktir check @/good.mlir").exit_code == 0
    assert call(folder, "ktir fmt @/good.mlir").stdout.startswith("#")
    result = call(folder, "dfsched compile @/good.mlir --device spyre -o @/out --print-ir-after all")
    assert result.exit_code == 0, result.stderr
    passes = [line.split()[1] for line in call(folder, "dfsched passes").stdout.splitlines() if line.strip()]
    assert len(passes) > 15
    assert result.stdout.count("IR after") > 15
    assert "spyre" in call(folder, "dfsched device spyre").stdout
    inspected = call(folder, "spyrert inspect @/out/double")
    assert inspected.exit_code == 0, inspected.stderr
    assert "double" in inspected.stdout
    a = np.load(folder / "a.npy")
    places = [("@/good.mlir --device spyre", level) for level in ("ktir", "dataflow", "device")]
    places += [("@/out", level) for level in ("dataflow", "device")]
    for number, (place, level) in enumerate(places):
        line = f"spyresim run {place} --level {level} --arg a=@@/a.npy --save b=@/b{number}.npy"
        line += "" if level == "ktir" else f" --trace @/t{number}.json"
        result = call(folder, line)
        assert result.exit_code == 0, (line, result.stderr)
        np.testing.assert_array_equal(np.load(folder / f"b{number}.npy"), a + a)
        if level != "ktir":
            assert json.loads((folder / f"t{number}.json").read_text())["traceEvents"]
    verified = call(folder, "spyresim verify @/good.mlir --device spyre")
    assert verified.exit_code == 0, verified.stderr
    assert "all levels agree" in verified.stdout


@pytest.mark.parametrize("command", sorted(MAINS))
def test_console_scripts(command: str) -> None:
    """What is installed runs: `--help` and `--version`."""
    script = Path(sys.executable).with_name(command)
    for option in ("--help", "--version"):
        done = subprocess.run([script, option], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert command in done.stdout
