"""The command line: output, messages with their place, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spyrert.cli import main
from spyrert.spyrecode import SpyreCode
from spyrert.spyrecode.locate import locate


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def folder(code: SpyreCode, tmp_path: Path) -> Path:
    return code.write(tmp_path / "add")


def test_inspect(folder: Path) -> None:
    result = call("inspect", folder)
    assert result.exit_code == 0, result.output
    for part in ("kernel add", "symbolic", "0x80", "OP_LIST", "input", "float16", "compute"):
        assert part in result.stdout


def test_inspect_json(folder: Path, code: SpyreCode) -> None:
    for path in (folder, folder / "spyreCodeDir"):
        result = call("inspect", path, "--json")
        assert result.exit_code == 0
        document = json.loads(result.stdout)
        assert document["digest"] == code.digest
        assert [arg["name"] for arg in document["args"]] == ["a", "b", "c"]
        assert document["host_symbols"][0] == {"id": -1, "expr": ["addr", 0], "unit": 1}


def test_bad_input(folder: Path, tmp_path: Path) -> None:
    """Exit code 1, message with file, line and column, the line and a caret."""
    assert call("inspect", tmp_path / "gone").exit_code == 1
    manifest = folder / "spyreCodeDir" / "spyrecode.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"job_bin_ptr": "120259084672"', '"job_bin_ptr": "12"'))
    result = call("inspect", folder)
    assert result.exit_code == 1
    line = next(n for n, row in enumerate(manifest.read_text().splitlines(), 1) if '"job_bin_ptr"' in row)
    first, source, caret = result.stderr.splitlines()
    assert first.startswith(f"{manifest}:{line}:")
    assert "error: Failed to parse SpyreCode command: address 0xc is out of program segment bounds" in first
    assert source[caret.index("^")] == '"'
    manifest.write_text(text[:300])
    result = call("inspect", folder)
    assert result.exit_code == 1
    assert "spyrecode.json:" in result.stderr
    assert "error: Failed to parse spyrecode.json" in result.stderr


def test_bad_call(folder: Path) -> None:
    assert call("inspect").exit_code == 2
    assert call("inspect", folder, "--verify", "maybe").exit_code == 2
    assert call("explode").exit_code == 2
    assert call("inspect", "--help").exit_code == 0


def test_warnings_are_shown(folder: Path) -> None:
    manifest = folder / "spyreCodeDir" / "spyrecode.json"
    document = json.loads(manifest.read_text()) | {"colour": "red"}
    manifest.write_text(json.dumps(document))
    result = call("inspect", folder, "--verify", "size")
    assert result.exit_code == 0
    assert "warning: " in result.stderr
    assert "colour" in result.stderr


def test_pack_and_unpack(folder: Path, tmp_path: Path, code: SpyreCode) -> None:
    assert call("pack", folder, tmp_path / "add.spyrecode").exit_code == 0
    assert call("unpack", tmp_path / "add.spyrecode", tmp_path / "again").exit_code == 0
    assert SpyreCode.read(tmp_path / "again") == code
    (tmp_path / "bad.spyrecode").write_bytes(b"PK\x03\x04 nonsense")
    assert call("unpack", tmp_path / "bad.spyrecode", tmp_path / "x").exit_code == 1


def test_locate() -> None:
    text = '{\n  "a": [10, {"b/c": true}],\n  "d": "x"\n}'
    assert (locate(text, "/a/1/b~1c").line, locate(text, "/d").column) == (2, 8)
    assert locate(text, "/a/7").column == 8
    assert locate(text, "").line == 1
