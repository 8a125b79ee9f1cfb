"""The main job as people call it: its tables, its artefacts, its traces."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dfsched
from spyrert.spyrecode import SpyreCode

PIPELINES = Path(__file__).parents[1] / "pipelines"
KERNELS = ("shifted_add", "fused_chain", "fused_chain_sticks")


def python(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that one run of the demo has filled, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    done = python(PIPELINES / "demo.py", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_tables(out: tuple[Path, str]) -> None:
    """Stage, artefact, size, time; programs, units, cycles, bytes and the bound; agreement with NumPy."""
    folder, text = out
    for title in (
        "stage",
        "artefact",
        "bytes",
        "ms",
        "programs",
        "units",
        "cycles",
        "bound",
        "against NumPy",
    ):
        assert title in text
    for stage in ("KTIR", "ScheduleIR", "DataflowIR", "SpyreCode", "Schedule", "Program"):
        assert f"│ {stage} " in text
    assert text.count("bit for bit") + text.count("within") >= len(KERNELS) + 1
    assert "WRONG" not in text
    assert str(folder) in text
    assert "Perfetto" in text


def test_artefacts(out: tuple[Path, str]) -> None:
    folder, _ = out
    specs = sorted(folder.rglob("artefact/launch_spec.json"))
    assert {spec.parent.parent.name for spec in specs} > set(KERNELS)
    assert len(specs) == len(KERNELS) + 1
    for spec in specs:
        assert sorted(path.name for path in spec.parent.iterdir()) == ["launch_spec.json", "spyreCodeDir"]
        SpyreCode.read(spec.parent).validate()
        made = {path.name for path in spec.parent.parent.iterdir()}
        assert made >= {"kernel.mlir", "schedule.mlir", "global.mlir", "spyreCodeDir"}


def test_traces(out: tuple[Path, str]) -> None:
    """Chrome trace events: one named track per unit and core, and slices on every track."""
    folder, _ = out
    traces = sorted(folder.rglob("*.trace.json"))
    assert len(traces) == len(KERNELS) + 1
    units = {unit.name for unit in dfsched.image.decode(image_of(traces[0].parent)).units}
    for path in traces:
        events = json.loads(path.read_text())["traceEvents"]
        tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        assert {name.split()[0] for name in tracks.values()} >= units
        slices = [event for event in events if event["ph"] == "X"]
        assert {(event["pid"], event["tid"]) for event in slices} <= set(tracks)
        assert len({(event["pid"], event["tid"]) for event in slices}) >= 32
        assert all(event["dur"] >= 0 for event in slices)


def image_of(folder: Path) -> bytes:
    from spyrert.spyrecode import Image

    code = SpyreCode.read(folder / "artefact")
    (transfer,) = code.init_transfers()
    return Image.decode(code.file(transfer.file)).payload


def test_the_launcher_takes_the_artefact_alone(out: tuple[Path, str], tmp_path: Path) -> None:
    """A folder that also holds IR is refused."""
    folder, _ = out
    shutil.copytree(folder / "shifted_add" / "artefact", tmp_path / "artefact")
    shutil.copy(folder / "shifted_add" / "kernel.mlir", tmp_path / "artefact")
    done = python(
        PIPELINES / "launcher.py",
        tmp_path / "artefact",
        "spyre",
        folder / "shifted_add" / "inputs.npz",
        tmp_path / "o.npz",
    )
    assert done.returncode != 0
    assert "kernel.mlir" in done.stderr
