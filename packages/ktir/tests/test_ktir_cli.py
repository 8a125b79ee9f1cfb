"""The command line: messages and exit codes of the design."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from ktir.cli import main

GOOD = "func.func @f(%a: index) -> index { return %a : index }\n"


def run(*arguments: str, input: str | bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, arguments, input=input)
    return result.exit_code, result.stdout, result.stderr


def test_check_good(tmp_path: Path) -> None:
    file = tmp_path / "good.mlir"
    file.write_text(GOOD)
    assert run("check", str(file)) == (0, "", "")
    assert run("check", "-", input=GOOD) == (0, "", "")


def test_check_names_the_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.mlir"
    file.write_text("func.func @f() {\n  return %x : index\n}\n")
    code, out, err = run("check", str(file))
    assert (code, out) == (1, "")
    assert err == f"{file}:2:10: error: use of undeclared SSA value name\n  return %x : index\n         ^\n"


def test_check_verifies_and_reports_all_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.mlir", tmp_path / "b.mlir"
    first.write_text("func.func @f() -> index { return }\n")
    second.write_text("module {\n")
    code, _, err = run("check", str(first), str(second))
    assert code == 1
    assert f"{first}:1:27: error: 'func.return' op has 0 operands" in err
    assert f"{second}:2:1: error: expected '}}' to end a region" in err


def test_check_json(tmp_path: Path) -> None:
    file = tmp_path / "bad.mlir"
    file.write_text("func.func @f() -> index { return }\n")
    code, out, err = run("check", "--json", str(file))
    (finding,) = json.loads(out)
    assert (code, err) == (1, "")
    assert (finding["file"], finding["line"], finding["column"], finding["severity"]) == (
        str(file),
        1,
        27,
        "error",
    )


def test_missing_file_is_a_bad_call(tmp_path: Path) -> None:
    code, _, err = run("check", str(tmp_path / "none.mlir"))
    assert code == 2
    assert "No such file or directory" in err


def test_binary_file(tmp_path: Path) -> None:
    file = tmp_path / "x.mlir"
    file.write_bytes(b"module {}\n\xff\xfe")
    code, _, err = run("check", str(file))
    assert code == 1
    assert f"{file}:2:1: error: not UTF-8 text" in err


def test_fmt_is_a_fixed_point() -> None:
    code, once, _ = run("fmt", "-", input=GOOD)
    assert code == 0
    assert run("fmt", "-", input=once) == (0, once, "")
    code, generic, _ = run("fmt", "--generic", "-", input=GOOD)
    assert code == 0
    assert '"func.return"(%a) : (index) -> ()' in generic
    assert run("fmt", "-", input=generic) == (0, once, "")


def test_fmt_of_bad_text() -> None:
    code, out, err = run("fmt", "-", input="module {")
    assert (code, out) == (1, "")
    assert err.startswith("<stdin>:1:9: error: expected '}' to end a region")


def test_unknown_command_is_a_bad_call() -> None:
    assert run("frobnicate")[0] == 2


def test_stats(tmp_path: Path) -> None:
    assert run("stats", "-", input=GOOD) == (
        0,
        "<stdin>: 3 operations (builtin 1, func 2)\n"
        "  @f\n"
        "    grid: none\n"
        "    operations: func 1\n"
        "    bytes loaded per tile: 0\n"
        "    bytes stored per tile: 0\n",
        "",
    )
    example = Path(__file__).parents[1] / "examples" / "matmul.mlir"
    code, out, _ = run("stats", str(example))
    assert code == 0
    assert "    grid: 4 x 2\n" in out
    assert "    bytes loaded per tile: global 30,720\n" in out
    code, out, _ = run("stats", "--json", str(example), "-", input=GOOD)
    first, second = json.loads(out)
    assert (code, first["file"], second["file"]) == (0, str(example), "<stdin>")
    (function,) = first["functions"]
    assert function["grid"] == [4, 2]
    assert function["loaded_bytes_per_tile"] == {"global": {"low": 30720, "high": 30720}}


def test_stats_of_what_does_not_verify() -> None:
    code, out, err = run("stats", "-", input="func.func @f() -> index { return }\n")
    assert (code, out) == (1, "")
    assert err.startswith("<stdin>:1:27: error: 'func.return' op has 0 operands")
    code, _, err = run("stats", "-", input="func.func @f() attributes {grid = [0]} { return }\n")
    assert (code, "Grid size must be positive (got 0)" in err) == (1, True)


def test_graph() -> None:
    code, whole, err = run("graph", "-", input=GOOD)
    assert (code, err) == (0, "")
    assert whole.startswith("digraph ktir {\n")
    assert '[label="builtin.module"]' in whole
    code, part, _ = run("graph", "--function", "f", "-", input=GOOD)
    assert (code, "builtin.module" in part, "func.func @f" in part) == (0, False, True)
    code, _, err = run("graph", "--function", "g", "-", input=GOOD)
    assert (code, "has no function 'g'" in err) == (2, True)
    assert run("graph", "-", input="module {")[0] == 1
