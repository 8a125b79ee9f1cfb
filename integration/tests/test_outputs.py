"""Every option and argument that names an output: what cannot be written is found before anything is read or run.

The inputs of these calls are no good, so that whatever looks at them first would say so.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from test_command_lines import MAINS

OUTPUTS = {
    "dfsched compile k.mlir --device spyre -o {}": "folder",
    "spyrert pack code {}": "file",
    "spyrert unpack code {}": "folder",
    "spyrert verify code --save-output {}": "folder",
    "spyresim run k.mlir --save c={}.npy": ".npy",
    "spyresim run k.mlir --level dataflow --trace {}.json": ".json",
    "spyresim run k.mlir --report {}.html": ".html",
    "spyresim run k.mlir --report {}.json": ".json",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text("nonsense\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("full", "full.npy", "full.json", "full.html"):
        (tmp_path / name).mkdir()
    return tmp_path


def call(line: str) -> Result:
    command, *rest = line.split()
    return CliRunner().invoke(MAINS[command], rest)


def refused(line: str, reason: str) -> None:
    result = call(line)
    assert result.exit_code == 2, (line, result.output)
    assert reason in " ".join(result.stderr.split()), (line, result.stderr)
    assert sorted(path.name for path in Path().iterdir()) == sorted(
        ["code", "file", "full", "full.html", "full.json", "full.npy", "k.mlir"]
    )


@pytest.mark.parametrize("line", OUTPUTS)
def test_unwritable(here: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing folder (but for folders, which are made), a file in the way, a folder in the way, no permission."""
    kind = OUTPUTS[line]
    refused(line.format("file/below"), "Not a directory")
    if kind == "folder":
        refused(line.format("file"), "cannot write 'file': Not a directory")
        refused(line.format("file/far/below"), "Not a directory")
    else:
        refused(line.format("nowhere/x"), "No such file or directory")
        refused(line.format("full"), "Is a directory")
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    refused(line.format("x"), "Permission denied")


@pytest.mark.parametrize("line", OUTPUTS)
def test_writable(here: Path, line: str) -> None:
    """The output is not to blame: the input is."""
    names = ["new", "new/deep"] if OUTPUTS[line] == "folder" else ["new"]
    for name in names:
        result = call(line.format(name))
        assert result.exit_code == 1
        assert name not in result.stderr.replace("nonsense", ""), result.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("spyresim run k.mlir --report {}", ".html or .htm or .json"),
        ("spyresim run k.mlir --level dataflow --trace {}", ".json"),
        ("spyresim run k.mlir --save c={}", ".npy"),
    ],
)
def test_suffixes(here: Path, line: str, wanted: str) -> None:
    """A name that promises another format than what is written."""
    for name in ("r.pdf", "r", "r.html.gz", "r.txt"):
        refused(line.format(name), f"'{name}' does not end in {wanted}")


def test_no_output_is_forgotten() -> None:
    """What takes a path and does not want it to exist is an output, and stands in the table above."""
    known = {"dfsched compile output", "spyrert pack output", "spyrert unpack directory", "spyrert verify save_output", "spyresim run trace", "spyresim run report"}  # fmt: skip
    found = set()
    for name, main in MAINS.items():
        assert isinstance(main, click.Group)
        for command in main.commands.values():
            for parameter in command.params:
                if type(parameter.type).__name__.startswith("Output"):
                    found.add(f"{name} {command.name} {parameter.name}")
                elif isinstance(parameter.type, click.Path):
                    assert parameter.type.exists or parameter.name in (
                        "directory",
                        "archive",
                        "inputs",
                        "expected",
                    )
    assert found == known
