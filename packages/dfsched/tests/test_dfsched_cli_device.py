"""`dfsched device`: tables, graph, and the messages and exit codes of its errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dfsched.cli import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["device", *arguments])


def test_list() -> None:
    """Without a name the package devices are listed."""
    result = run()
    assert result.exit_code == 0
    assert result.stdout.split() == ["sample", "sample_h", "spyre"]


def test_tables() -> None:
    """Memories, units, links, routes and instances of `spyre`."""
    result = run("spyre")
    assert result.exit_code == 0
    text = result.stdout
    for part in (
        "device @spyre", "32 cores", "#ktdp.memory_space<global> is HBM", "memories", "units", "links",
        "routes", "instances", "112 GiB", "204.8", "MNILU -> LX -> LXLU",
        "ordered, depth 16", "private to SFP",
        "f16 64", "address buffer", "patterns", "@unary_instructions",
    ):  # fmt: skip
        assert part in text, part
    assert run("spyre").stdout == text
    assert max(map(len, text.splitlines())) <= 110


def test_dot() -> None:
    """The graph has one node per memory and unit, and one edge per datapath."""
    result = run("--dot", "sample")
    assert result.exit_code == 0
    assert result.stdout.startswith('digraph "sample_device" {')
    assert result.stdout.count("shape=") == 6 + 8
    assert result.stdout.count("->") == 12


def test_unknown_device() -> None:
    """An unknown name is a bad call."""
    result = run("nope")
    assert result.exit_code == 2
    assert "error: no device 'nope'" in result.stderr
    assert "sample_h" in result.stderr


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ktdf_arch.device @d {\n  memory oops\n}\n", ":2:10: error: "),
        ('ktdf_arch.device @d {\n  memory {kind = "M", size = 0}\n}\n', ":2:3: error: "),
        ("module { }\n", "error: Unable to import the device specification"),
        ('ktdf_arch.device @d import("missing.mlir")\n', ":1:1: error: unable to import device graph"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, key: str) -> None:
    """A syntax error, a rule, no device, a failing import: located messages with a caret, exit code 1."""
    file = tmp_path / "d.mlir"
    file.write_text(text)
    result = run(str(file))
    assert result.exit_code == 1
    assert key in result.stderr
    if ":" in key.split("error")[0]:
        assert f"{file}{key}" in result.stderr
        assert result.stderr.rstrip().endswith("^")
