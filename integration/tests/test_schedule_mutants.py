"""Schedules that are broken in one place are noticed: as a wrong result, a race, a fault or a deadlock.

Mutants are enumerated and sampled by a fixed seed. One counts as equivalent only if an independent reading of the
image (`happens_before`) finds the same accesses and the same order of all that conflict.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from happens_before import LaunchMeaning, Stuck, meaning
from schedule_mutants import Mutant, mutants

import dfsched
import ktir
from dfsched import image as im
from dfsched.codegen.build import BuiltImage
from spyrert.errors import SpyreError
from spyrert.spyrecode import ArgumentInputs, HostInputs, PayloadKind, assemble, evaluate
from spyresim import run_device
from spyresim.errors import SpyresimError
from spyresim.testing.random_kernels import Operand, RandomKernel, Step

Array = np.ndarray[Any, Any]


def _kernel(steps: tuple[Step, ...], operands: tuple[Operand, ...], **more: Any) -> RandomKernel:
    settings = {"dtype": "f16", "block": (2, 256), "grid": (2,), "fused": True, "loop": True, "shift": False}
    return RandomKernel(steps=steps, operands=operands, **{**settings, **more})


FULL, ROW, COLUMN = Operand((True, True)), Operand((False, True)), Operand((True, False))
PROGRAMS = {
    "add": _kernel((Step("add", 0, 1),), (FULL, FULL)),
    "chain": _kernel((Step("mul", 0, 1), Step("sub", 2, 0), Step("max", 3, 1)), (FULL, FULL)),
    "unfused": _kernel((Step("mul", 0, 1), Step("sub", 2, 0)), (FULL, FULL), fused=False),
    "square": _kernel((Step("mul", 0, 0),), (FULL,)),
    "row": _kernel((Step("mul", 0, 1),), (FULL, ROW)),
    "column": _kernel((Step("mul", 0, 1),), (FULL, COLUMN)),
    "outer": _kernel((Step("mul", 0, 1), Step("add", 2, 0)), (ROW, COLUMN)),
    "ragged": _kernel((Step("mul", 0, 1), Step("sub", 2, 1)), (FULL, ROW), block=(2, 130)),
    "shifted": _kernel((Step("sub", 0, 1),), (FULL, ROW), shift=True),
    "single": _kernel((Step("add", 0, 1), Step("min", 2, 0)), (FULL, FULL), dtype="f32"),
}
"""Ten programs, one for each way in which operands meet."""

CREDITS = "credits"
"""A further program, whose load and store units run ahead over three copies of every buffer."""
PROGRAMS[CREDITS] = _kernel((Step("sub", 0, 1),), (FULL, FULL), block=(14, 128), grid=(1,), loop=False)
PINS = {CREDITS: {"tile_sizes": (2, 2), "buffer_depths": 3, "instances": 1}}


@attrs.frozen(eq=False)
class Subject:
    compiled: dfsched.Compiled
    arguments: dict[str, Any]
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
        scalars = {name: value for name, value in self.arguments.items() if isinstance(value, int)}
        inputs = HostInputs(arguments, scalars)
        values = [evaluate(symbol.expr, inputs) // symbol.unit for symbol in built.symbols]
        return meaning(built.image, im.patch(built.image, values))

    def is_equivalent(self, built: BuiltImage) -> bool:
        try:
            return self.meaning(built) == self.meaning(self.compiled.generated.built)
        except Stuck:
            return False


def subject(name: str) -> Subject:
    kernel = PROGRAMS[name]
    pins: Mapping[str, object] = PINS.get(name, {})
    compiled = dfsched.compile(ktir.parse(kernel.text), "spyre", dfsched.Options(pins=pins))
    arguments = kernel.arguments(np.random.default_rng(7))
    expected = run_device(compiled.spyrecode, arguments, device=compiled.architecture).outputs
    return Subject(compiled, arguments, expected)


@pytest.fixture(scope="module")
def subjects() -> dict[str, Subject]:
    return {name: subject(name) for name in PROGRAMS}


def sampled(subjects: dict[str, Subject], count: int) -> Iterator[tuple[str, Mutant]]:
    """Mutants of all programs in an order drawn by a fixed seed, the first `count`."""
    found = [(name, mutant) for name, s in subjects.items() for mutant in mutants(s.compiled)]
    random.Random(11).shuffle(found)
    yield from found[:count]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_reading_of_a_right_program(name: str, subjects: dict[str, Subject]) -> None:
    """Every two accesses that conflict are ordered; reading twice gives the same."""
    built = subjects[name].compiled.generated.built
    found = subjects[name].meaning(built)
    assert found
    for launch in found:
        assert launch.ordered
        assert not launch.unordered
    assert subjects[name].is_equivalent(built)
    assert not subjects[name].is_noticed(built)


@pytest.mark.sweep(default=40, full=400)
def test_mutants(subjects: dict[str, Subject], cases: int) -> None:
    """At least 95 % of those that are not equivalent are noticed; every kind of mutant is among them."""
    noticed, equivalent, missed = 0, [], []
    kinds = set()
    for name, mutant in sampled(subjects, cases):
        built = mutant.make()
        if built is None:
            continue
        kinds.add(mutant.what.split(" ")[0])
        if subjects[name].is_noticed(built):
            noticed += 1
        elif subjects[name].is_equivalent(built):
            equivalent.append(f"{name}: {mutant.what}")
        else:
            missed.append(f"{name}: {mutant.what}")
    assert noticed >= 0.95 * (noticed + len(missed)), missed
    assert {"signal", "sends", "start"} <= kinds
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


def test_what_is_noticed_is_not_equivalent(subjects: dict[str, Subject]) -> None:
    """The two ways to judge a mutant agree: no wrong result, race or deadlock comes from an equal meaning."""
    for name, mutant in sampled(subjects, 25):
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
