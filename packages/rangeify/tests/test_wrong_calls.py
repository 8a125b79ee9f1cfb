"""Public functions called with something else than they take: errors of the package that name the argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import rangeify
from uopgraph import BoundError, UOp, dtypes

WRONG: tuple[object, ...] = (3, 1.5, "a", None, [1], {}, object(), rangeify.Config)
CALLS: dict[str, Callable[[object], object]] = {
    "tensors of schedule": lambda wrong: rangeify.schedule(wrong),  # type: ignore[arg-type]
    "tensors of realize": lambda wrong: rangeify.realize(wrong),  # type: ignore[arg-type]
    "schedule of run": lambda wrong: rangeify.run(wrong),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_no_tensor_and_no_schedule(call: Callable[[object], object]) -> None:
    for wrong in WRONG:
        given = repr(wrong) if isinstance(wrong, list | str | dict) else type(wrong).__name__
        with pytest.raises(rangeify.CallError, match=f"must be (Tensor|Schedule), not {re.escape(given)}$"):
            call(wrong)


def test_a_configuration_that_is_none() -> None:
    with pytest.raises(rangeify.CallError, match=r"schedule: 'config' must be Config \| None, not \{\}"):
        rangeify.schedule(rangeify.Tensor([1.0]) + 1, config={})  # type: ignore[arg-type]


ARRAY = np.ones(8, np.float32)
N = UOp.variable("n", 1, 8)
PLAN = rangeify.schedule((rangeify.Tensor(ARRAY)[: N.bind(3)] * 2).sum())


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        (
            "inputs",
            (
                5,
                1.5,
                object(),
                "in0",
                [[1.0]],
                ["a"],
                {"in0": "a"},
                {"in0": [[1], [2, 3]]},
                {"x": ARRAY},
                [None],
            ),
        ),
        ("order", ("a", 1.5, -1, [1], {}, object())),
        (
            "bindings",
            ("a", 5, [1], {3: 4}, {"n": "a"}, {"n": 1.5}, {"n": None}, {"n": 9}, {"m": 1}, object()),
        ),
    ],
)
def test_arguments_of_run(argument: str, wrong: tuple[Any, ...]) -> None:
    for value in wrong:
        with pytest.raises((rangeify.CallError, rangeify.InputError, rangeify.BindError)) as caught:
            rangeify.run(PLAN, **{argument: value})
        assert argument in str(caught.value) or re.search("input|Variable|in0|n = 9", str(caught.value))
    assert rangeify.run(PLAN, [ARRAY], order=np.int64(3), bindings={"n": np.int64(4)})[0] == 8


def test_texts_of_schedules() -> None:
    for wrong in (None, 1, [], {}, object(), b"{}"):
        with pytest.raises(rangeify.CallError, match="from_json: 'text' must be str"):
            rangeify.Schedule.from_json(wrong)  # type: ignore[arg-type]
    for text in ("", "{", "[]", "{}", '{"rangeify": 0}'):
        with pytest.raises(rangeify.ScheduleFormatError):
            rangeify.Schedule.from_json(text)


def test_variables_have_names_and_integer_bounds() -> None:
    for wrong in (None, 3, "", ["n"], {}):
        with pytest.raises(BoundError, match="a Variable is named by a text"):
            UOp.variable(wrong, 0, 4)  # type: ignore[arg-type]
    for bounds in (("a", 4), (0, None), (0, 1.5), (0, 4, dtypes.weakint, "a")):
        with pytest.raises(BoundError, match="bounds and factors are integers"):
            UOp.variable("n", *bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", attrs.fields(rangeify.Config), ids=lambda field: field.name)
def test_fields_hold_what_they_declare(field: attrs.Attribute[object]) -> None:
    """Numbers are no truth values and texts are no numbers."""
    for wrong in ({"int": "a", "bool": "no", "str": 3}[str(field.type)], None, [1], 1.5):
        with pytest.raises(rangeify.ConfigError, match=rf"^Config\.{field.name}: must be {field.type}, not "):
            rangeify.Config(**{field.name: wrong})
    for number in {"int": (-(10**30),), "bool": (), "str": ("",)}[str(field.type)]:
        if field.name not in ("cache_directory", "debug", "ring_threshold"):
            with pytest.raises(rangeify.ConfigError, match=rf"^Config\.{field.name}: "):
                rangeify.Config(**{field.name: number})


@pytest.mark.parametrize("axis", ["a", 1.5, (0, "b"), [1.0], object()], ids=lambda axis: type(axis).__name__)
def test_axes_are_integers(axis: object) -> None:
    x = rangeify.Tensor([[1.0, 2.0]])
    for call in (x.sum, x.max, x.mean, lambda a: x.shard(("cpu:0", "cpu:1"), axis=a)):
        with pytest.raises(rangeify.CallError, match=r"(sum|max|mean|shard): 'axis' must be int"):
            call(axis)  # type: ignore[arg-type]
