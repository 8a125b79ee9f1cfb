"""Damaged kernels and device files through `dfsched compile`: errors with a place, in bounded time and memory."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

import pytest
from click.testing import CliRunner
from mutated_texts import mutated

import dfsched
from dfsched.cli import main
from repository import ROOT
from spyresim.testing.compute_kernels import KERNELS

SECONDS = 20
"""CPU time that one file may take; the slowest takes about two seconds."""
BYTES = 2**31
"""Address space that one file may need beyond what the process has."""

DEVICES = {
    path.stem: path
    for path in (
        *sorted((Path(dfsched.__file__).parent / "devices").glob("*.mlir")),
        ROOT / "packages" / "dfsched" / "tests" / "devices" / "quad.mlir",
    )
}
SOURCES = (
    *KERNELS.values(),
    *(p.read_text() for p in sorted((ROOT / "packages" / "ktir" / "examples").glob("*.mlir"))),
    *(p.read_text() for p in sorted((ROOT / "integration" / "pipelines").glob("*.mlir"))),
)
LOCATED = re.compile(r"^[^\s:]+\.mlir:\d+:\d+: error: ", re.MULTILINE)


class TooSlow(BaseException):
    """Not an `Exception`: nothing that is tested catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """CPU time and address space of the block are bounded."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def compile_file(file: Path, device: object) -> str | None:
    """What is wrong with how `dfsched compile` treats a file; None if nothing is."""
    try:
        with limited():
            done = CliRunner().invoke(main, ["compile", str(file), "--device", str(device)])
    except TooSlow:
        return f"more than {SECONDS} s"
    if done.exit_code == 0:
        return None
    if not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {done.exception}"
    if done.exit_code != 1:
        return f"exit code {done.exit_code}: {done.output}"
    return None if LOCATED.search(done.stderr) else f"no place: {done.stderr}"


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


@pytest.mark.sweep(default=120, full=10_000)
def test_damaged_files(tmp_path: Path, cases: int) -> None:
    """Each is compiled or refused at a line and column."""
    for seed in range(cases):
        text, wrong = outcomes(tmp_path, seed)
        assert wrong is None, f"seed {seed}: {wrong}\n{text}"
