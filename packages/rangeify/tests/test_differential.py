"""Random tensor programs: the same text on NumPy arrays, on one schedule before and after planning, and realised in
another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tensor_programs.on_arrays import results
from tensor_programs.on_tensors import tensors
from tensor_programs.program import Program, Shares
from tensor_programs.strategies import programs

import rangeify
from rangeify import Config, Role

Array = np.ndarray[Any, Any]

#: Under which the unplanned schedule of a program is made, one of them each.
SETTINGS: list[dict[str, Any]] = [
    {},
    {"fusion": "reference"},
    {"fusion": "profit"},
    {"order": "memory"},
    {"fusion": "reference", "partial_stage": 1},
    {"fusion": "reference", "partial_stage": 2},
    {"fusion": "reference", "partial_stage": 3},
    {"max_kernel_buffers": 4},
    {"fusion": "reference", "collapse_gathers": False},
]


def assert_equal(got: Array, want: Array, name: str, program: Program) -> None:
    """Bit-equal up to the sign of zero (the maximum of -0.0 and 0.0 has none) and the payload of nan."""
    equal = got.shape == want.shape and got.dtype == want.dtype and np.array_equal(got, want, equal_nan=True)
    assert equal, f"{name} of\n{program.text}\nis\n{got!r}\nnot\n{want!r}"


def rounded_sum(schedule: rangeify.Schedule) -> int:
    """The bytes of all temporaries, each rounded up to the alignment of the arena."""
    step = schedule.arena.alignment
    return sum(-(-b.nbytes // step) * step for b in schedule.buffers if b.role is Role.TEMPORARY)


def one_schedule(program: Program, want: dict[str, Array], shares: Shares) -> None:
    """Everything that is asked for in one schedule: without planning, in one block, under one of the settings; planned,
    in random blocks, by default."""
    made = tensors(program)
    outputs = [made[name] for name in program.outputs]
    settings = SETTINGS[program.seed % len(SETTINGS)]
    plain = rangeify.schedule(*outputs, config=Config(memory_planner=False, **settings))
    for name, value in zip(program.outputs, rangeify.run(plain), strict=True):
        assert_equal(value, want[name], f"{name}, not planned, {settings},", program)
    planned = rangeify.schedule(*outputs)
    for name, value in zip(program.outputs, rangeify.run(planned, order=program.seed), strict=True):
        assert_equal(value, want[name], f"{name}, planned,", program)
    if planned.variables:
        assert program.symbol is not None
        other = results(program, program.symbol.other)
        values = rangeify.run(planned, bindings={"p": program.symbol.other})
        for name, value in zip(program.outputs, values, strict=True):
            assert_equal(value, other[name], f"{name} at another p", program)
    shares.add(
        program,
        three_items=len(planned.items) >= 3,
        smaller_arena=planned.arena.nbytes < rounded_sum(planned),
    )


def another_order(program: Program, want: dict[str, Array]) -> None:
    """Some names are realised while the program runs, the rest one by one in a random order."""
    made = tensors(program, realise=True)
    for name in program.order:
        assert_equal(made[name].numpy(), want[name], f"{name}, realised in another order,", program)


@pytest.mark.sweep(default=200, full=2000)
def test_programs_mean_the_same_everywhere(cases: int) -> None:
    """rangeify checklist 53, 59, 70, 85."""
    shares = Shares()

    @settings(max_examples=cases, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(programs())
    def check(program: Program) -> None:
        want = dict(results(program))
        one_schedule(program, want, shares)
        another_order(program, want)

    check()
    print(shares)
    for name, least in [
        ("write after read", 30),
        ("two live views", 20),
        ("three items", 50),
        ("smaller arena", 30),
        ("symbolic", 10),
        ("bit-casts", 10),
        ("devices", 10),
    ]:
        assert shares.percent(name) >= least, f"{name}: {shares}"
    assert shares.largest == 70
