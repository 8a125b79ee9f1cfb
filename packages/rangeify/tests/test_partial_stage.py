"""``Config.partial_stage``: which axes of a value are staged (scheduler spec 7.4 and 8.2)."""

from __future__ import annotations

import numpy as np
import pytest
from peer.backends import Ours
from peer.programs import PROGRAMS
from peer.random_programs import random_program

import rangeify
from rangeify import Config, Tensor
from rangeify import functions as f


def run(outputs: list[Tensor], config: Config, order: int | None) -> list[np.ndarray]:  # type: ignore[type-arg]
    schedule = rangeify.schedule(*outputs, config=config)
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1, 1, schedule.buffers[i].shape).astype(np.float32) for i in schedule.inputs]
    return list(rangeify.run(schedule, inputs, order=order))


@pytest.mark.sweep(default=15, full=500)
def test_the_values_are_the_same_at_every_level(cases: int) -> None:
    """checklist 35: random programs at levels 0 to 3, under both ways of fusion, in one block and in many."""
    for seed in range(cases):
        want = run(random_program(seed, Ours()), Config(fusion="reference"), None)
        for fusion in ("reference", "rows"):
            for level in (1, 2, 3):
                config = Config(fusion=fusion, partial_stage=level)
                got = run(random_program(seed, Ours()), config, seed % 2 or None)
                for a, b in zip(got, want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=str((seed, config)))


@pytest.mark.parametrize(
    "name", ["softmax", "masked_attention", "diamond_of_four", "residual_rms", "two_convs"]
)
def test_the_values_of_programs_with_disagreeing_readers(name: str) -> None:
    """checklist 35."""
    want = run(PROGRAMS[name](Ours()), Config(fusion="reference"), None)
    for level in (1, 2, 3):
        got = run(PROGRAMS[name](Ours()), Config(fusion="reference", partial_stage=level), None)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_softmax_of_rows_is_one_kernel_at_level_three() -> None:
    """checklist 35: the maximum and the sum are kept inside of the loops over rows."""
    kernels = [
        len(
            rangeify.schedule(
                f.softmax(Ours().t(32, 32)), config=Config(fusion="reference", partial_stage=n)
            ).kernels
        )
        for n in range(4)
    ]
    assert kernels[0] == 3
    assert kernels[3] == 1


def test_only_the_axis_that_disagrees_is_staged_at_level_one() -> None:
    """checklist 35: four buffers, read straight and reversed along the second axis."""

    def value() -> Tensor:
        t = [Ours().t(6, 8) for _ in range(4)]
        z = t[0] + t[1] * t[2] - t[3]
        return z + z.flip(1)

    whole = rangeify.schedule(value(), config=Config(fusion="reference"))
    partly = rangeify.schedule(value(), config=Config(fusion="reference", partial_stage=1))
    assert [k.name for k in whole.kernels] == ["E_6_8", "E_6_8"]
    assert [k.name for k in partly.kernels] == ["E_6_8"]


def test_a_residual_with_a_norm_is_two_kernels_and_recomputes_the_sum() -> None:
    """checklist E12: both kernels read both terms of the residual sum."""
    a, b = Ours().t(8, 32), Ours().t(8, 32)
    first, second = rangeify.schedule(f.rms_norm(a + b), config=Config(fusion="reference")).kernels
    assert len(first.reads) == 2
    assert set(first.reads) < set(second.reads)
