"""The command line: output, messages with their place, exit codes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from spyrert import verification
from spyrert.cli import main
from spyrert.runtime import Runtime
from spyrert.spyrecode import SpyreCode
from spyrert.spyrecode.locate import locate
from spyrert.verification import Values


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


def test_places_that_cannot_be_written(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error with the name of the place, not a traceback: before the work, or where the writing fails."""
    packed, file = tmp_path / "add.spyrecode", tmp_path / "file"
    assert call("pack", recorded, packed).exit_code == 0
    file.write_text("")
    for target, *command in (
        (tmp_path / "missing" / "x.zip", "pack", recorded),
        (tmp_path, "pack", recorded),
        (file, "unpack", packed),
        (file / "below", "unpack", packed),
        (file / "below", "verify", recorded, "--save-output"),
    ):
        result = call(*command, target)
        assert result.exit_code == 2
        assert f"cannot write '{target}': " in result.stderr
    assert [path.name for path in tmp_path.glob(".spyrecode-*")] == []

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", full)
    result = call("verify", recorded, "--save-output", tmp_path / "out")
    assert result.exit_code == 1
    assert f"error: cannot write '{tmp_path / 'out'}': No space left on device" in result.stderr


@pytest.fixture
def recorded(folder: Path) -> Path:
    a = np.arange(280, dtype=np.float16).reshape(4, 70)
    verification.record(folder, Values({0: a, 1: a}, {2: a * 4}, {"n": np.int64(2)}))
    return folder


def test_verify(recorded: Path, tmp_path: Path) -> None:
    """runtime checklist R24: exit codes, counts, the greatest difference with its place."""
    result = call("verify", recorded)
    assert (result.exit_code, result.stdout) == (0, "add: 1 outputs agree\n"), result.output
    result = call("verify", recorded, "--bind", "n=3", "--save-output", tmp_path / "out")
    assert result.exit_code == 1
    assert (
        "output 2 ('c'): 279 of 280 elements differ (99.6 %), greatest difference 558 absolute"
        in result.stderr
    )
    assert "at (3, 69)" in result.stderr
    assert np.load(tmp_path / "out" / "output2.npy")[0, 1] == 6
    files = [recorded / "verify" / f"{name}.npy" for name in ("arg0", "arg1", "expected2")]
    assert (
        call(
            "verify", recorded, "-i", files[0], "-i", files[1], "-o", files[2], "--bind", "n=2", "--exact"
        ).exit_code
        == 0
    )
    np.load(files[0]).tofile(tmp_path / "a.bin")
    assert (
        call(
            "verify", recorded, "-i", tmp_path / "a.bin", "-i", files[1], "-o", files[2], "--bind", "n=2"
        ).exit_code
        == 0
    )


def test_verify_refusals(recorded: Path, tmp_path: Path) -> None:
    """runtime checklist R23, R24; fault M13: what cannot be launched says why."""
    files = [recorded / "verify" / f"{name}.npy" for name in ("arg0", "arg1", "expected2")]

    def refuse(text: str, *options: object) -> None:
        result = call("verify", recorded, *options)
        assert result.exit_code == 1
        assert text in result.stderr

    np.save(tmp_path / "t.npy", np.load(files[0]).T)
    refuse(
        "of shape (70, 4), but 'a' is float16 of shape (4, 70)",
        "-i",
        tmp_path / "t.npy",
        "-i",
        files[1],
        "-o",
        files[2],
    )
    np.save(tmp_path / "f.npy", np.load(files[0]).astype(np.float32))
    refuse(
        "float32 of shape (4, 70), but 'a' is float16",
        "-i",
        tmp_path / "f.npy",
        "-i",
        files[1],
        "-o",
        files[2],
    )
    refuse("2 inputs, got 1 files", "-i", files[0], "-o", files[2])
    refuse("'n' of kernel 'add' is not bound", "-i", files[0], "-i", files[1], "-o", files[2])
    refuse("below its minimum", "--bind", "n=-1")
    (tmp_path / "x.bin").write_bytes(b"abc")
    refuse("3 bytes, but 'a' has 280 elements", "-i", tmp_path / "x.bin", "-i", files[1], "-o", files[2])
    refuse("does not exist", "-i", tmp_path / "none.npy", "-i", files[1], "-o", files[2])
    (tmp_path / "junk.npy").write_bytes(b"junk")
    refuse("not a .npy file", "-i", tmp_path / "junk.npy", "-i", files[1], "-o", files[2])
    (tmp_path / "a.txt").write_text("")
    refuse(".npy and .bin", "-i", tmp_path / "a.txt", "-i", files[1], "-o", files[2])
    assert call("verify", recorded, "--bind", "n").exit_code == 2


def test_unknown_names(recorded: Path) -> None:
    """A bound name that the kernel does not have is an error that lists those it has, recorded or given."""
    files = [recorded / "verify" / f"{name}.npy" for name in ("arg0", "arg1", "expected2")]
    for given in ((), ("-i", files[0], "-i", files[1], "-o", files[2], "--bind", "n=2")):
        result = call("verify", recorded, *given, "--bind", "m=3")
        assert result.exit_code == 2
        assert "--bind: kernel 'add' has no symbol 'm'; symbols: n" in " ".join(result.stderr.split())
    (recorded / "verify" / "bindings.json").write_text('{"n": 2, "m": 3}')
    result = call("verify", recorded)
    assert result.exit_code == 1
    assert "kernel 'add' has no symbol 'm' (known: n)" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere:Device", "cannot be imported"),
        ("numpy", "cannot be imported"),
        ("numpy:nothing", "cannot be imported"),
        (":", "cannot be imported"),
        ("numpy:array", "makes no device: ndarray has no "),
        ("numpy:pi", "makes no device: it cannot be called"),
        ("json:loads", "makes no device: the JSON object must be"),
        ("builtins:exec", "makes no device: "),
        ("pathlib:Path", "makes no device: "),
        ("os:getcwd", "makes no device: str has no "),
    ],
)
def test_devices_that_are_none(recorded: Path, text: str, message: str) -> None:
    result = call("verify", recorded, "--device", text)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert f"--device {text!r} {message}" in " ".join(result.stderr.split())


def test_factories_of_no_device() -> None:
    """The library says it, too, at first use."""
    with (
        Runtime(lambda index: object()) as runtime,
        pytest.raises(TypeError, match="'object', which is no device"),
    ):
        runtime.device(0)


def test_comparison() -> None:
    """runtime spec 1.11: asymmetric criterion, NaN, infinities, integers."""

    def count(
        a: list[float], e: list[float], rtol: float = 0.0, atol: float = 0.0, dtype: str = "float32"
    ) -> int:
        return verification.compare(np.array(a, dtype), np.array(e, dtype), rtol, atol).mismatches

    nan, inf = float("nan"), float("inf")
    assert count([1, 2, 3], [1, 2, 3]) == 0
    assert count([1, 2.1, 3], [1, 2, 3.5], 0.06) == 1
    assert count([nan, nan, 1], [nan, 1, nan], 1e9) == 2
    assert count([inf, -inf, inf], [inf, inf, 1], 1.0, 1.0) == 2
    assert count([0, 1e-9], [0, 0], 0, 1e-8) == 0
    big = 2**62
    result = verification.compare(np.array([big + 1]), np.array([big]), 0, 0)
    assert result.mismatches == 1
    assert not result.good


def test_check_functions(code: SpyreCode) -> None:
    """runtime checklist R23: the two cases that upstream lets pass silently."""
    assert code.launch is not None
    good = np.zeros((4, 70), np.float16)
    assert verification.check_launch_spec(code.launch, [good] * 3) == []
    assert verification.check_launch_spec(code.launch, [good] * 2) == ["add takes 3 tensors, got 2"]
    assert verification.check_launch_spec(code.launch, [good.T, good, good.astype(np.float32)]) == [
        "argument 0 ('a'): expected shape (4, 70), got (70, 4)",
        "argument 2 ('c'): expected dtype float16, got float32",
    ]
    assert verification.check_launch_values(code.launch, [good], [good]) == []
    assert "1 outputs" in verification.check_launch_values(code.launch, [], [good])[0]
    assert verification.check_launch_values(code.launch, [good.T], [good]) == [
        "output 2 ('c'): shape (70, 4), expected (4, 70)"
    ]


def test_locate() -> None:
    text = '{\n  "a": [10, {"b/c": true}],\n  "d": "x"\n}'
    assert (locate(text, "/a/1/b~1c").line, locate(text, "/d").column) == (2, 8)
    assert locate(text, "/a/7").column == 8
    assert locate(text, "").line == 1
