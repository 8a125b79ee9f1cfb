"""Damaged kernels and device files through `dfsched compile`: errors with a place, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hostile_commands import DEVICES, wrong_with
from mutated_texts import mutated

from repository import ROOT
from spyresim.testing.compute_kernels import KERNELS

SOURCES = (
    *KERNELS.values(),
    *(p.read_text() for p in sorted((ROOT / "packages" / "ktir" / "examples").glob("*.mlir"))),
    *(p.read_text() for p in sorted((ROOT / "integration" / "pipelines").glob("*.mlir"))),
)


def compile_file(file: Path, device: object) -> str | None:
    """What is wrong with how `dfsched compile` treats a file, the image included; None if nothing is."""
    return wrong_with(["compile", file, "--device", device, "-o", file.parent / "compiled"])


def outcomes(folder: Path, seed: int) -> tuple[str, str | None]:
    """One damaged file, drawn by a seed: its text, and what is wrong."""
    dice = Random(seed)
    if dice.random() < 0.3:
        text = mutated(DEVICES[dice.choice(sorted(DEVICES))].read_text(), dice)
        device = folder / "device.mlir"
        device.write_text(text)
        kernel = folder / "kernel.mlir"
        kernel.write_text(dice.choice(SOURCES))
        return text, compile_file(kernel, device)
    text = mutated(dice.choice(SOURCES), dice)
    kernel = folder / "kernel.mlir"
    kernel.write_text(text)
    return text, compile_file(kernel, DEVICES[dice.choice(sorted(DEVICES))])


@pytest.mark.sweep(default=60, full=10_000)
def test_damaged_files(tmp_path: Path, cases: int) -> None:
    """Each is compiled or refused at a line and column."""
    for seed in range(cases):
        text, wrong = outcomes(tmp_path, seed)
        assert wrong is None, f"seed {seed}: {wrong}\n{text}"


FORMS = [
    path
    for path in sorted((ROOT / "packages" / "ktir" / "tests" / "corpus" / "valid").glob("*.mlir"))
    if "loc(" not in path.read_text()  # whose places are in other files
]
"""Every operation and spelling that KTIR has, scheduled or not."""


@pytest.mark.parametrize("number", range(len(FORMS)), ids=[path.stem for path in FORMS])
def test_all_forms(tmp_path: Path, number: int) -> None:
    """What cannot be scheduled is refused at a line and column, whatever operation of KTIR it is."""
    kernel = tmp_path / "kernel.mlir"
    kernel.write_text(FORMS[number].read_text())
    assert compile_file(kernel, DEVICES[sorted(DEVICES)[number % len(DEVICES)]]) is None


@pytest.mark.sweep(default=20, full=5_000)
def test_damaged_forms(tmp_path: Path, cases: int) -> None:
    """The same for damaged texts of all operations."""
    for seed in range(cases):
        dice = Random(seed)
        kernel = tmp_path / "kernel.mlir"
        kernel.write_text(mutated(dice.choice(FORMS).read_text(), dice))
        wrong = compile_file(kernel, DEVICES[dice.choice(sorted(DEVICES))])
        assert wrong is None, f"seed {seed}: {wrong}\n{kernel.read_text()}"
