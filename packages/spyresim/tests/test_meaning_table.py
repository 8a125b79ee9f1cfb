"""How the table of meanings is extended: mistakes are errors where they are made, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ktir.dialects import arith
from ktir.ir import Operation
from ktir.opdef import operand, operation, result
from ktir.types import F32
from spyresim.errors import MeaningError, SpyresimError
from spyresim.meaning import evaluate_named, has_meaning, meaning, named_meaning, table
from spyresim.meaning.table import instruction


@operation("extension.twice")
class Twice(Operation):
    x = operand()
    y = result()


class Plain(Operation):
    """Not declared."""


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """The table as it was."""
    saved = dict(table._BY_NAME), dict(table._BY_CLASS)
    yield
    for now, before in zip((table._BY_NAME, table._BY_CLASS), saved, strict=True):
        now.clear()  # type: ignore[attr-defined]
        now.update(before)  # type: ignore[attr-defined]


def double(call: Any) -> Any:
    return call.operands[0] + call.operands[0]


def triple(call: Any) -> Any:
    return 3 * call.operands[0]


def value() -> float:
    (found,) = evaluate_named("extension.twice", [np.float32([1])], [F32], [F32])
    return float(found[0])


def test_a_second_meaning() -> None:
    assert meaning(Twice)(double) is double
    meaning(Twice)(double)  # the same once more
    for second in (meaning(Twice), meaning(Twice, arith.AddF), instruction("extension.twice")):
        with pytest.raises(MeaningError, match="has a meaning; replace=True replaces it") as caught:
            second(triple)
        assert caught.value.operation == "extension.twice"
        assert value() == 2
    meaning(Twice, replace=True)(triple)
    assert value() == 3


def test_no_operation_changes_if_one_cannot() -> None:
    before = named_meaning("arith.addf")
    with pytest.raises(MeaningError, match=r"arith\.addf: has a meaning"):
        meaning(Twice, arith.AddF)(double)
    assert not has_meaning("extension.twice")
    assert not has_meaning(Twice)
    assert named_meaning("arith.addf") is before


def test_nothing_to_replace() -> None:
    with pytest.raises(MeaningError, match=r"extension\.twice: has no meaning that could be replaced"):
        meaning(Twice, replace=True)(double)
    with pytest.raises(MeaningError, match=r"extension\.no: has no meaning that could be replaced"):
        instruction("extension.no", replace=True)(double)


def test_what_is_no_operation() -> None:
    for wrong in ((), (Plain,), (int,), ("arith.addf",), (None,), (Twice, 3)):
        with pytest.raises(MeaningError):
            meaning(*wrong)  # type: ignore[arg-type]
    for function in (None, 3, "x"):
        with pytest.raises(MeaningError, match="which is no function of a Call"):
            meaning(Twice)(function)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [None, 3.0, "x", [1.0], np.float64([1]), (np.float32([1]), np.float32([2]))]
)
def test_results_that_are_none(wrong: Any) -> None:
    meaning(Twice)(lambda call: wrong)
    with pytest.raises(SpyresimError, match=r"'extension\.twice' gives "):
        value()
