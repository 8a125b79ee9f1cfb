"""Public functions called with something else than they take: errors of the package that name the argument."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

import rangeify

WRONG: tuple[object, ...] = (3, 1.5, "a", None, [1], {}, object(), rangeify.Config)
CALLS: dict[str, Callable[[object], object]] = {
    "tensors of schedule": lambda wrong: rangeify.schedule(wrong),  # type: ignore[arg-type]
    "tensors of realize": lambda wrong: rangeify.realize(wrong),  # type: ignore[arg-type]
    "schedule of run": lambda wrong: rangeify.run(wrong),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_no_tensor_and_no_schedule(call: Callable[[object], object]) -> None:
    for wrong in WRONG:
        with pytest.raises(
            rangeify.CallError, match=f"must be (Tensor|Schedule), not {type(wrong).__name__}"
        ):
            call(wrong)


def test_a_configuration_that_is_none() -> None:
    with pytest.raises(rangeify.CallError, match="schedule: 'config' must be Config, not dict"):
        rangeify.schedule(rangeify.Tensor([1.0]) + 1, config={})  # type: ignore[arg-type]


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
