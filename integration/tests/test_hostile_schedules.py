"""Damaged IR of every stage through `dfsched opt` and `dfsched check`: errors with a place, in bounded time and memory.

The commands take IR of other tools as well, so no pass may rely on what an earlier pass of its pipeline leaves.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from random import Random

import pytest
from hostile_commands import DEVICES, LOCATED, SECONDS, TooSlow, limited, wrong_with
from mutated_ir import damaged_module
from mutated_texts import mutated

import dfsched
import ktir
from dfsched.dataflow_check import check_dataflow
from dfsched.errors import DfschedError
from dfsched.passes.base import PassContext
from dfsched.passes.errors import UnsupportedKernel
from dfsched.pipeline import OTHER_PASSES, PASSES, run_pipeline
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
        module = ktir.parse(source, file="kernel.mlir")
        options = dfsched.Options(emit="dfir", kernel=dfsched.kernels(module)[0])
        compiled = dfsched.compile(module, DEVICES[device], options)
    except UnsupportedKernel:
        return ()
    names = [result.name for result in compiled.passes]
    return tuple(zip([*names, ""], [compiled.source, *(r.module for r in compiled.passes)], strict=True))


def damaged(module: Module, dice: Random) -> str:
    """The damaged text of a module, rather one that parses and verifies."""
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


def drawn(number: int) -> tuple[str, Stages]:
    """A device, and a compilation for it."""
    dice = Random(number)
    while True:
        device = dice.choice(sorted(DEVICES))
        found = stages(dice.choice(SOURCES), device)
        if found:
            return device, found


def outcomes(folder: Path, seed: int) -> tuple[str, str | None]:
    """One damaged file, drawn by a seed: its text, and what is wrong."""
    device, found = drawn(seed // SHARED)
    dice = Random(seed)
    kind = files if dice.random() < 0.25 else passes
    return kind(folder, dice, found, device)


@pytest.mark.sweep(default=8, full=2_000)
def test_damaged_schedules(tmp_path: Path, cases: int) -> None:
    """Each is taken or refused at a line and column."""
    for seed in range(cases):
        text, wrong = outcomes(tmp_path, seed)
        assert wrong is None, f"seed {seed}: {wrong}\n{text}"


# -- valid modules that no pass makes


def place(number: int, found: Stages) -> int:
    """Where the pass that gets module `number` stands in the pipeline."""
    name = found[number][0]
    alike = [position for position, item in enumerate(PASSES) if item.name == name]
    return alike[sum(other == name for other, _ in found[:number])]


def wrong_with_module(module: Module, number: int, found: Stages, device: str, dice: Random) -> str | None:
    """What is wrong with how some passes in sequence, or the check of DataflowIR, treat a valid module."""
    architecture = dfsched.load_architecture(DEVICES[device])
    try:
        with limited():
            if number == len(found) - 1:
                check_dataflow(split(module), architecture)
            else:
                first = place(number, found)
                chosen = PASSES[first : first + dice.choice([1, 1, 1, 2, 4])]
                run_pipeline(module, PassContext(architecture), chosen)
    except TooSlow:
        return f"more than {SECONDS} s"
    except (DfschedError, KtirError) as error:
        located = all(LOCATED.search(str(d)) for d in getattr(error, "diagnostics", ()))
        return None if located else f"no place: {error}"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return f"{type(error).__name__}: {error}"
    return None


def outcomes_of_modules(seed: int) -> tuple[str, str | None]:
    """One valid module of any stage that no pass makes, drawn by a seed: its text, and what is wrong."""
    device, found = drawn(seed // (6 * SHARED))
    dice = Random(seed)
    number = dice.randrange(len(found))
    module = damaged_module(found[number][1], dice)
    return ktir.print_module(module), wrong_with_module(module, number, found, device, dice)


@pytest.mark.sweep(default=20, full=20_000)
def test_foreign_modules(cases: int) -> None:
    """Each is taken or refused, whatever operations stand where."""
    for seed in range(cases):
        text, wrong = outcomes_of_modules(seed)
        assert wrong is None, f"seed {seed}: {wrong}\n{text}"
