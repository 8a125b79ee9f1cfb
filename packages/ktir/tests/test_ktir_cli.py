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
