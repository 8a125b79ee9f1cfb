"""Random valid programs (`kernel_language`): print and read again, and run against a direct NumPy evaluation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from kernel_language.numbers import same
from kernel_language.program import Program
from kernel_language.strategies import programs

import ktir
from spyresim import run_ktir

SEEN: Counter[str] = Counter()


@pytest.mark.sweep(default=60, full=2000)
@given(program=programs())
def test_text_and_numbers(program: Program) -> None:
    """ktir checklist 98, 99, 102.

    Printing is a fixed point in both forms, and the kernel leaves in its buffers what NumPy computes, bit by bit.
    """
    SEEN.update(set(program.features))
    module = ktir.parse(program.text())
    ktir.verify(module)
    custom, generic = (ktir.print_module(module, generic=generic) for generic in (False, True))
    for text in (custom, generic):
        again = ktir.parse(text)
        assert ktir.print_module(again) == custom
        assert ktir.print_module(again, generic=True) == generic
    arguments = program.arguments(1)
    expected = program.expected(arguments)
    got = run_ktir(module, "kernel", arguments, strict=True).outputs
    for name, want in expected.items():
        assert same(got[name], want), f"{name}:\n{got[name]}\nNumPy:\n{want}"
    again = run_ktir(ktir.parse(generic), "kernel", arguments, strict=True).outputs
    for name, array in got.items():
        np.testing.assert_array_equal(again[name], array)
