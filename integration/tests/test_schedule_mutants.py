"""Schedules that are broken in one place are noticed: as a wrong result, a race, a fault or a deadlock.

Mutants are enumerated and sampled by a fixed seed. One counts as equivalent only if an independent reading of the
image (`happens_before`) finds the same accesses and the same order of all that conflict.
"""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import pytest
from happens_before import LaunchMeaning, Stuck, meaning
from schedule_mutants import Mutant, mutants
from schedule_programs import CREDITS, PINS, PROGRAMS

import dfsched
import ktir
from dfsched import image as im
from dfsched.codegen.build import BuiltImage
from spyrert.errors import SpyreError
from spyrert.spyrecode import ArgumentInputs, HostInputs, PayloadKind, assemble, evaluate
from spyresim import run_device
from spyresim.errors import SpyresimError

Array = np.ndarray[Any, Any]

FULL_SAMPLE = 400


@attrs.frozen(eq=False)
class Subject:
    compiled: dfsched.Compiled
    arguments: dict[str, Array]
    expected: dict[str, Array]

    def outputs(self, built: BuiltImage) -> dict[str, Array]:
        spec = self.compiled.spyrecode.launch
        assert spec is not None
        image = im.encode(built.image)
        code = assemble(image, PayloadKind.DFBIN, spec, built.symbols, core_count=built.image.grid)
        return run_device(code, self.arguments, device=self.compiled.architecture).outputs

    def is_noticed(self, built: BuiltImage) -> bool:
        try:
            got = self.outputs(built)
        except (SpyresimError, SpyreError, im.InvalidImage):
            return True
        return any(got[name].tobytes() != self.expected[name].tobytes() for name in self.expected)

    def meaning(self, built: BuiltImage) -> tuple[LaunchMeaning, ...]:
        """What the image means, with the arguments far apart in device memory."""
        spec = self.compiled.spyrecode.launch
        assert spec is not None
        arguments = tuple(ArgumentInputs(((number + 1) << 34,)) for number in range(len(spec.args)))
        inputs = HostInputs(arguments, {})
        values = [evaluate(symbol.expr, inputs) // symbol.unit for symbol in built.symbols]
        return meaning(built.image, im.patch(built.image, values))

    @cached_property
    def right_meaning(self) -> tuple[LaunchMeaning, ...]:
        return self.meaning(self.compiled.generated.built)

    def is_equivalent(self, built: BuiltImage) -> bool:
        try:
            return self.meaning(built) == self.right_meaning
        except Stuck:
            return False


def subject(name: str) -> Subject:
    options = dfsched.Options(pins=PINS.get(name, {}))
    compiled = dfsched.compile(ktir.parse(PROGRAMS[name]), "spyre", options)
    spec = compiled.spyrecode.launch
    assert spec is not None
    random = np.random.default_rng(7)
    arguments = {
        arg.name: random.normal(0, 2, [int(n) for n in arg.shape]).astype(arg.dtype) for arg in spec.args
    }
    expected = run_device(compiled.spyrecode, arguments, device=compiled.architecture).outputs
    return Subject(compiled, arguments, expected)


@pytest.fixture(scope="module")
def subjects() -> dict[str, Subject]:
    return {name: subject(name) for name in PROGRAMS}


KINDS = {"signal", "phase", "sends", "start"}


def kind_of(mutant: Mutant) -> str:
    return mutant.what.split(" ")[0]


def enumerated(subjects: dict[str, Subject]) -> list[tuple[str, Mutant]]:
    return [(name, mutant) for name, s in subjects.items() for mutant in mutants(s.compiled)]


def sampled(subjects: dict[str, Subject], count: int) -> list[tuple[str, Mutant]]:
    """Mutants of all programs in an order drawn by a fixed seed, the first `count`."""
    found = enumerated(subjects)
    random.Random(11).shuffle(found)
    return found[:count]


def test_what_is_enumerated(subjects: dict[str, Subject]) -> None:
    """More than the sample takes, of every kind; each program has signals, sends and starts to break."""
    found = enumerated(subjects)
    assert len(subjects) == 10
    assert len(found) > FULL_SAMPLE
    kinds = {name: {kind_of(m) for n, m in found if n == name} for name in subjects}
    assert all(has >= KINDS - {"phase"} for has in kinds.values()), kinds
    assert sum("phase" in has for has in kinds.values()) >= 5


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_reading_of_a_right_program(name: str, subjects: dict[str, Subject]) -> None:
    """Every two accesses that conflict are ordered; reading twice gives the same."""
    built = subjects[name].compiled.generated.built
    found = subjects[name].right_meaning
    assert found
    for launch in found:
        assert launch.ordered
        assert not launch.unordered
    assert subjects[name].is_equivalent(built)  # read once more
    assert not subjects[name].is_noticed(built)


@pytest.mark.sweep(default=24, full=FULL_SAMPLE)
def test_mutants(subjects: dict[str, Subject], cases: int) -> None:
    """At least 95 % of those that are not equivalent are noticed; every kind of mutant is among them."""
    noticed, equivalent, missed = 0, [], []
    kinds = set()
    chosen = sampled(subjects, cases)
    assert len(chosen) == cases
    for name, mutant in chosen:
        built = mutant.make()
        if built is None:
            continue
        if subjects[name].is_noticed(built):
            noticed += 1
            kinds.add(kind_of(mutant))
        elif subjects[name].is_equivalent(built):
            equivalent.append(f"{name}: {mutant.what}")
        else:
            missed.append(f"{name}: {mutant.what}")
    assert noticed >= 0.95 * (noticed + len(missed)), missed
    assert kinds == KINDS
    assert len(equivalent) <= noticed // 2, equivalent


def test_every_credit_matters(subjects: dict[str, Subject]) -> None:
    """Without a post, an await or both, units wait for ever, signals are left over, or copies are overwritten."""
    program = subjects[CREDITS]
    signals = [mutant for mutant in mutants(program.compiled) if mutant.what.startswith("signal")]
    assert len(signals) == 12  # two buffers; full and free; a post, an await and both
    for mutant in signals:
        built = mutant.make()
        assert built is not None
        assert program.is_noticed(built), mutant.what
        assert not program.is_equivalent(built), mutant.what


@pytest.mark.sweep(default=6, full=200)
def test_what_is_noticed_is_not_equivalent(subjects: dict[str, Subject], cases: int) -> None:
    """The two ways to judge a mutant agree: no wrong result, race or deadlock comes from an equal meaning."""
    for name, mutant in sampled(subjects, cases):
        built = mutant.make()
        if built is not None and subjects[name].is_noticed(built):
            assert not subjects[name].is_equivalent(built), f"{name}: {mutant.what}"


def test_the_depth_of_a_fifo_changes_no_result(subjects: dict[str, Subject]) -> None:
    """Half as deep, and depth one: the same bytes."""
    for subject in subjects.values():
        built = subject.compiled.generated.built
        for depth in (8, 1):
            fifos = tuple(attrs.evolve(fifo, depth=depth) for fifo in built.image.fifos)
            assert not subject.is_noticed(attrs.evolve(built, image=attrs.evolve(built.image, fifos=fifos)))
