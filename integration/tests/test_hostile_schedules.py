"""Damaged IR of every stage through `dfsched opt` and `dfsched check`: errors with a place, in bounded time and memory.

The commands take IR of other tools as well, so no pass may rely on what an earlier pass of its pipeline leaves.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from random import Random

import pytest
from hostile_commands import DEVICES, wrong_with
from mutated_ir import damaged_module
from mutated_texts import mutated

import dfsched
import ktir
from dfsched.passes.errors import UnsupportedKernel
from dfsched.pipeline import OTHER_PASSES, PASSES
from dfsched.split import split
from ktir.dialects.builtin import Module
from ktir.errors import KtirError
from repository import ROOT
from spyresim.testing.compute_kernels import KERNELS

SHAPES = ROOT / "integration" / "kernels" / "shapes"
SOURCES = (*KERNELS.values(), (SHAPES / "symbolic_extents.mlir").read_text())
SHARED = 10
"""So many neighbouring seeds damage the same compilation."""
DRAWS = 4
"""Texts that no longer parse end early: so many are drawn for one that does."""


Stages = tuple[tuple[str, Module], ...]


@lru_cache(maxsize=2)
def stages(source: str, device: str) -> Stages:
    """The name of every pass that a compilation runs, and the module that it gets; the last module with ``""``.

    Nothing if the device does not have what the kernel needs.
    """
    try:
        module = ktir.parse(source)
        options = dfsched.Options(emit="dfir", kernel=dfsched.kernels(module)[0])
        compiled = dfsched.compile(module, DEVICES[device], options)
    except UnsupportedKernel:
        return ()
    names = [result.name for result in compiled.passes]
    return tuple(zip([*names, ""], [compiled.source, *(r.module for r in compiled.passes)], strict=True))


def damaged(module: Module, dice: Random) -> str:
    """A mutant, rather one that parses and verifies: of the module, or of its text."""
    if dice.random() < 0.6:
        return damaged_module(module, dice)
    text = ktir.print_module(module)
    for _ in range(DRAWS):
        mutant = mutated(text, dice)
        try:
            ktir.verify(ktir.parse(mutant))
        except KtirError:
            continue
        break
    return mutant


def passes(folder: Path, dice: Random, found: Stages, device: str) -> tuple[str, str | None]:
    """A damaged module before a pass: through that pass, through some other one, or through all that follow."""
    number = dice.randrange(len(found) - 1)
    chosen = [found[number][0]]
    kind = dice.random()
    if kind < 0.25:
        chosen = [dice.choice([*PASSES, *OTHER_PASSES]).name]
    elif kind < 0.5:
        chosen = [name for name, _ in found[number:-1]]
    text = damaged(found[number][1], dice)
    file = folder / "module.mlir"
    file.write_text(text)
    arguments = [part for name in chosen for part in ("--pass", name)]
    return text, wrong_with(["opt", file, "--device", DEVICES[device], *arguments])


def files(folder: Path, dice: Random, found: Stages, device: str) -> tuple[str, str | None]:
    """DataflowIR with one damaged file."""
    whole = found[-1][1]
    target = folder / "dataflow"
    target.mkdir(exist_ok=True)
    modules = {"module.mlir": whole} if dice.random() < 0.3 else split(whole)
    victim = dice.choice(sorted(modules))
    texts = {name: ktir.print_module(module) for name, module in modules.items() if name != victim}
    texts[victim] = damaged(modules[victim], dice)
    for name, text in texts.items():
        (target / name).write_text(text)
    path = target if len(texts) > 1 else target / victim
    return texts[victim], wrong_with(["check", path, "--device", DEVICES[device]])


def outcomes(folder: Path, seed: int) -> tuple[str, str | None]:
    """One damaged file, drawn by a seed: its text, and what is wrong."""
    dice = Random(seed // SHARED)
    found: Stages = ()
    while not found:
        device = dice.choice(sorted(DEVICES))
        found = stages(dice.choice(SOURCES), device)
    dice = Random(seed)
    kind = files if dice.random() < 0.25 else passes
    return kind(folder, dice, found, device)


@pytest.mark.sweep(default=12, full=5_000)
def test_damaged_schedules(tmp_path: Path, cases: int) -> None:
    """Each is taken or refused at a line and column."""
    for seed in range(cases):
        text, wrong = outcomes(tmp_path, seed)
        assert wrong is None, f"seed {seed}: {wrong}\n{text}"
