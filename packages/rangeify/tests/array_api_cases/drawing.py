"""Drawing arrays and axes: dtypes of the standard, values with their special cases, shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

from rangeify import array_api as xp

STANDARD_STRATEGIES = make_strategies_namespace(xp, api_version="2024.12")

Draw: TypeAlias = Callable[[Any], Any]
Call: TypeAlias = "tuple[list[Any], dict[str, Any]]"

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
NUMERIC = INTS + FLOATS
ALL = ["bool", *NUMERIC]


@attrs.frozen
class Named:
    """A dtype argument, by its name in either namespace."""

    name: str


# drawing arrays ---------------------------------------------------------------------------------


def values(dtype: str, small: bool = False) -> st.SearchStrategy[Any]:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return st.booleans()
    if kind.kind == "f":
        info = np.finfo(kind)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, math.inf, -math.inf, math.nan, 1e-3, 7.25]
        if not small:
            special += [float(v) for v in (info.max, -info.max, info.smallest_subnormal, info.eps, info.tiny)]
        return st.one_of(st.sampled_from(special), st.floats(-100, 100, width=32))
    info_i = np.iinfo(kind)
    low, high = (max(info_i.min, -9), min(info_i.max, 9)) if small else (info_i.min, info_i.max)
    return st.one_of(
        st.integers(low, high), st.integers(max(info_i.min, -4), 4), st.sampled_from([low, high])
    )


SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 0]), max_size=3).map(tuple)
FILLED = st.lists(st.sampled_from([1, 2, 3, 4]), max_size=3).map(tuple)


def array(draw: Draw, dtypes: list[str], shape: Any = None, small: bool = False) -> Any:
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(
        SHAPES if shape is None else shape if isinstance(shape, st.SearchStrategy) else st.just(shape)
    )
    n = math.prod(shape)
    flat = draw(st.lists(values(dtype, small), min_size=n, max_size=n))
    return np.array(flat, dtype=dtype).reshape(shape)


def partner(draw: Draw, x: Any, same_kind: list[list[str]], small: bool = False) -> Any:
    """An array (or a number) of the same kind of dtype whose shape broadcasts with x's."""
    dtypes = next(k for k in same_kind if x.dtype.name in k)
    shape = tuple(draw(st.sampled_from([s, 1])) for s in x.shape)[draw(st.integers(0, x.ndim)) :]
    if draw(st.integers(0, 5)) == 0:
        return array(draw, [x.dtype.name], (), small).item()
    return array(draw, dtypes, shape, small)


KINDS = [[*SIGNED], [*UNSIGNED], FLOATS, ["bool"]]


def axis_of(draw: Draw, x: Any, none: bool = True) -> Any:
    options: list[Any] = [*range(-x.ndim, x.ndim)]
    return draw(st.sampled_from([*options, None] if none or not options else options))


def axes_of(draw: Draw, x: Any) -> Any:
    if x.ndim and draw(st.booleans()):
        return tuple(draw(st.lists(st.sampled_from(range(x.ndim)), unique=True, max_size=x.ndim)))
    return axis_of(draw, x)
