"""Every command of the four command lines is given every kind of file and folder.

What it does not take it names, with commands that do take it: these are run, too. Nothing binary is printed,
nothing ends in a traceback.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from test_command_lines import GOOD, MAINS

import dfsched
import ktir

KINDS = {
    "k.mlir": "KTIR",
    "schedule.mlir": "ScheduleIR",
    "out/double/global.mlir": "DataflowIR",
    "device.mlir": "a device description",
    "out/double": "the folder of a compiled kernel",
    "out": "a folder of compiled kernels",
    "code": "a SpyreCode artefact",
    "k.spyrecode": "a SpyreCode artefact",
    "code/spyrecode.json": "a file of a SpyreCode artefact",
    "a.npy": "a NumPy array",
    "a.npz": "an archive of NumPy arrays",
    "r.json": "JSON text",
    "r.html": "an HTML page",
    "binary.bin": "binary data",
    "empty": "a folder",
    "words.txt": "",
    "gone": "",
}
MLIR = {"k.mlir", "schedule.mlir", "device.mlir", "out/double/global.mlir"}
FOLDERS = {"out/double", "code", "k.spyrecode"}
WITHOUT_COMPILER = dict.fromkeys(MLIR, "MLIR text") | dict.fromkeys(
    ("a.npz", "r.json", "r.html", "binary.bin", "empty", "words.txt"), "no SpyreCode artefact"
)
"""What spyrert, which knows no compiler, calls them."""
TAKES = {
    "ktir check {}": MLIR,
    "ktir fmt {}": MLIR,
    "ktir stats {}": MLIR,
    "ktir graph {}": MLIR,
    "dfsched compile {} --device spyre": {"k.mlir"},
    "dfsched compile k.mlir --device {}": {"device.mlir", "schedule.mlir"},
    "dfsched opt {} --device spyre --pass path-expansion": MLIR,
    "dfsched check {}": {"out/double", "out/double/global.mlir"},
    "dfsched device {}": {"device.mlir", "schedule.mlir"},
    "dfsched disasm {}": FOLDERS,
    "spyrert inspect {}": FOLDERS,
    "spyrert pack {} packed.zip": FOLDERS,
    "spyrert unpack {} unpacked": FOLDERS,
    "spyrert verify {} -i a.npy -o a2.npy --device spyresim:SimDevice": FOLDERS,
    "spyresim run {} --arg a=@a.npy": {"k.mlir", "out", *FOLDERS},
    "spyresim run k.mlir --arg a=@{}": {"a.npy"},
    "spyresim verify {} --device spyre --quiet": {"k.mlir"},
}
COMPLETED = {
    "dfsched compile": "dfsched compile {} --device spyre",
    "dfsched compile --device": "dfsched compile k.mlir --device {}",
    "dfsched opt": "dfsched opt {} --device spyre --pass path-expansion",
    "spyresim run": "spyresim run {} --arg a=@a.npy",
    "spyresim run --arg": "spyresim run k.mlir --arg a=@{}",
    "spyresim verify": "spyresim verify {} --device spyre --quiet",
    "spyrert verify --input": "spyrert verify out/double --input {} --expected a2.npy --device spyresim:SimDevice",
}


TRIED: set[str] = set()
"""Command lines that a message named, and that work."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("kinds")
    (here / "k.mlir").write_text(GOOD)
    compiled = dfsched.compile(ktir.parse(GOOD), "spyre")
    kernel = here / "out" / "double"
    compiled.write(kernel)
    (here / "schedule.mlir").write_text((kernel / "schedule.mlir").read_text())
    (here / "device.mlir").write_text((resources.files("dfsched") / "devices" / "sample.mlir").read_text())
    (kernel / "spyreCodeDir").rename(here / "code")
    compiled.write(kernel)
    a = np.zeros((4, 72), np.float16)
    np.save(here / "a.npy", a)
    np.save(here / "a2.npy", a + a)
    np.savez(here / "a.npz", a=a)
    (here / "r.json").write_text('{"a": 1}\n')
    (here / "r.html").write_text("<!doctype html><html></html>\n")
    (here / "words.txt").write_text("Dear Sir or Madam,\n")
    (here / "binary.bin").write_bytes(bytes(range(256)))
    (here / "empty").mkdir()
    assert call(here, "spyrert pack out/double k.spyrecode").exit_code == 0
    return here


def call(folder: Path, line: str) -> Result:
    command, *rest = line.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(MAINS[command], rest)


@pytest.mark.parametrize("line", TAKES)
def test_every_kind(folder: Path, line: str) -> None:
    for path, name in KINDS.items():
        result = call(folder, line.format(path))
        what = (line.format(path), result.stderr)
        assert result.exception is None or isinstance(result.exception, SystemExit), what
        assert result.exit_code == 0 if path in TAKES[line] else result.exit_code in (1, 2), what
        if result.exit_code == 0:
            continue
        assert result.stderr.replace("\n", "").replace("\t", "").isprintable(), what
        assert path in result.stderr, what
        text = " ".join(result.stderr.split())
        wanted = WITHOUT_COMPILER.get(path, name) if line.startswith("spyrert") else name
        assert wanted in text or "no device" in text, what
        for command in re.findall(r"`([a-z -]+)`(?= takes?| and|,)", text):
            other = COMPLETED.get(command, command + " {}").format(path)
            if other not in TRIED:
                TRIED.add(other)
                assert call(folder, other).exit_code == 0, (command, *what)
