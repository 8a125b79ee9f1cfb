"""Programs that say the same as the one before are not executed again, all others are."""

from __future__ import annotations

import numpy as np
import pytest

import dfsched
import ktir
from spyresim import run_dataflow, verify
from spyresim.repetition import DataflowRuns, says_the_same
from spyresim.testing import text as k

ROWS = np.arange(25600).reshape(100, 256).astype(np.float16)
ARGUMENTS = {"a": ROWS, "b": ROWS[:96], "shift": 2}
FUNCTION = """
func.func @f(%a: index, %b: index) -> index {
  %c = arith.constant 3 : index
  %d = arith.addi %a, %c : index
  %e = arith.muli %d, %b {note = "x"} : index
  return %e : index
}
"""


def test_only_names_and_places_may_differ() -> None:
    module = ktir.parse(FUNCTION)
    assert says_the_same(
        module, ktir.parse("\n\n" + FUNCTION.replace("%d", "%other").replace("%a", "%first"))
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant 3", "constant 4"),
        ("%a, %c : index", "%c, %a : index"),
        ("%a, %c : index", "%b, %c : index"),
        ("arith.muli", "arith.addi"),
        ('"x"', '"y"'),
        ("return %e", "return %d"),
        ("@f", "@g"),
        ("  return", "  %h = arith.constant 0 : index\n  return"),
    ],
)
def test_whatever_else_differs_is_another_program(old: str, new: str) -> None:
    assert FUNCTION.count(old) == 1
    assert not says_the_same(ktir.parse(FUNCTION), ktir.parse(FUNCTION.replace(old, new)))


def test_verification_executes_an_image_once() -> None:
    """The last pass of the lowering gives bodies a function of their own; what it splits is what it made."""
    module = ktir.parse(k.shifted_add())
    (found,) = verify(module, "sample", args=ARGUMENTS)
    assert found.ok
    at_dataflow = [outcome for outcome in found.outcomes if outcome.level == "dataflow"]
    assert [outcome.after for outcome in at_dataflow] == ["ktdflowering-to-dfir", "wrap-program-dfir", None]
    assert [outcome.executed for outcome in at_dataflow] == [True, False, False]
    compiled = dfsched.compile(module, "sample")
    modules = {result.name: result.module for result in compiled.passes}
    for outcome in at_dataflow:
        executed = run_dataflow(compiled, ARGUMENTS, module=modules.get(outcome.after or ""))
        assert executed.report.cycles == outcome.cycles


def test_another_image_is_executed() -> None:
    """An addition that becomes a multiplication between two runs is seen."""
    compiled = dfsched.compile(ktir.parse(k.shifted_add()), "sample")
    runs = DataflowRuns(compiled, ARGUMENTS)
    last = compiled.passes[-1].module
    text = ktir.print_module(last)
    assert "binary_operator add" in text
    first = runs.run(None, last)
    assert not runs.repeated
    same = runs.run(None, ktir.parse(text))
    assert runs.repeated
    assert np.array_equal(same.outputs["c"], first.outputs["c"])
    broken = runs.run(None, ktir.parse(text.replace("binary_operator add", "binary_operator mul")))
    assert not runs.repeated
    assert not np.array_equal(broken.outputs["c"], first.outputs["c"])
