"""What public functions are given: wrong Python types become typed errors that name the argument."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from spyrert.errors import ArgumentTypeError, ArgumentValueError
from spyrert.execution import Stream
from spyrert.spyrecode import Layout, LinearLayout, StickLayout
from spyrert.tensor import DeviceTensor

T = TypeVar("T")


def expect(value: object, kind: type[T], what: str) -> T:
    """``value`` itself if it is of this type, else ``ArgumentTypeError``."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"{what} must be a {kind.__name__}, not {_described(value)}")
    return value


def integer(value: object, what: str, least: int | None = None) -> int:
    """A whole number (``bool`` and floats are none). Raises ``ArgumentTypeError``, ``ArgumentValueError``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"{what} must be an integer, not {_described(value)}") from None
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be an integer, not {value}")
    if least is not None and number < least:
        raise ArgumentValueError(f"{what} must be at least {least}, not {number}")
    return number


def shape(value: object, what: str = "shape") -> tuple[int, ...]:
    """A tuple of sizes that are not negative."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise ArgumentTypeError(f"{what} must be a sequence of integers, not {_described(value)}")
    sizes = tuple(integer(size, f"a size in {what}") for size in value)
    if any(size < 0 for size in sizes):
        raise ArgumentValueError(f"{what} {sizes} has a negative size")
    return sizes


def tensor(value: object, what: str = "tensor") -> DeviceTensor:
    return expect(value, DeviceTensor, what)


def layout(value: object) -> Layout | None:
    if value is None or isinstance(value, (StickLayout, LinearLayout)):
        return value
    raise ArgumentTypeError(f"layout must be a StickLayout or LinearLayout, not {_described(value)}")


def stream(value: object) -> Stream:
    return expect(value, Stream, "stream")


def items(value: object, what: str) -> Sequence[Any]:
    """A list or tuple (or another sequence, not text)."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ArgumentTypeError(f"{what} must be a sequence, not {_described(value)}")
    return value


def names(value: object, what: str) -> Mapping[str, Any]:
    """A mapping from names."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ArgumentTypeError(f"{what} must be a mapping from names, not {_described(value)}")
    return value


def _described(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    return f"a {type(value).__name__}"
