"""Every function of the standard beside array-api-strict; names and signatures."""

from __future__ import annotations

import inspect
import types
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from array_api_cases.comparison import function, run, same
from array_api_cases.drawing import STANDARD_STRATEGIES
from array_api_cases.table import CASES, ELSEWHERE
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import array_api as xp
from rangeify.array_api import linalg
from rangeify.array_api.coverage import LINALG, STANDARD, table
from rangeify.array_api.missing import MISSING, MISSING_LINALG
from uopgraph import DType


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@pytest.mark.sweep(default=12, full=400)
def test_functions(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    call = case.draw(data.draw)
    same(run(xp, name, call), run(strict, name, call), case, call, f"{name}{call}")


#: Names that the oracle has from a later version of the standard.
LATER = ("isin", "broadcast_shapes")


def test_every_name_of_the_standard_is_there_or_says_why() -> None:
    ours = {n for n in xp.__all__ if callable(getattr(xp, n)) and n not in ("Array", "linalg")}
    ours = {n for n in ours if not isinstance(getattr(xp, n), DType)}
    ours |= {f"linalg.{n}" for n in linalg.__all__}
    assert ours == set(CASES) | ELSEWHERE
    standard = {n for names in STANDARD.values() for n in names}
    assert standard - set(MISSING) == set(xp.__all__) - {"Array", "linalg", "__array_api_version__"}
    assert set(LINALG) - set(MISSING_LINALG) == set(linalg.__all__)
    assert standard >= set(MISSING)
    assert "| `unique_all`" in table().replace("|  |", "|")
    for name in strict.__all__:
        if name.startswith(("set_array_api", "get_array_api", "reset_array_api", "ArrayAPIStrict", "Device")):
            continue
        if name in MISSING:
            with pytest.raises(AttributeError, match=f"unsupported: rangeify.array_api.{name}"):
                getattr(xp, name)
            with pytest.raises(rangeify.UnsupportedError):
                getattr(xp, name)
        elif not name.startswith("__array_api_strict") and name not in ("__version__", *LATER):
            assert hasattr(xp, name), name
    for name in strict.linalg.__all__:
        assert hasattr(linalg, name) != (name in MISSING_LINALG), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        xp.nothing  # noqa: B018


def parameters(function: Any) -> list[tuple[str, Any]]:
    return [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]


def test_signatures() -> None:
    """Names and kinds of parameters are those of the oracle."""
    checked = 0
    for here, there in ((xp, strict), (linalg, strict.linalg)):
        for name in here.__all__:
            ours = getattr(here, name)
            if isinstance(ours, types.FunctionType):
                assert parameters(ours) == parameters(getattr(there, name)), name
                checked += 1
    assert checked > 130
    theirs = type(strict.ones(1))
    for name, method in vars(theirs).items():
        if (
            isinstance(method, types.FunctionType)
            and name.startswith("__")
            and name not in ("__buffer__", "__iter__")
        ):
            mine = getattr(xp.Array, name)
            if name not in ("__init__", "__new__"):
                assert [n for n, _ in parameters(mine)] == [n for n, _ in parameters(method)], name


def test_what_is_no_array_is_refused_by_name() -> None:
    checked = 0
    for name in CASES:
        ours = function(xp, name)
        first = next(iter(inspect.signature(ours).parameters.values()))
        if first.name in ("x", "x1", "condition"):
            more = [xp.ones(3)] if len(parameters(ours)) > 1 and parameters(ours)[1][0] == "x2" else []
            with pytest.raises(
                TypeError, match=f"^{name.split('.')[-1]}(: 'x1?'|: 'condition' must be| needs arrays)"
            ):
                ours([1.0, 2.0], *more)
            checked += 1
    assert checked > 100


@given(data=st.data())
@pytest.mark.sweep(default=8, full=200)
def test_strategies_of_the_standard(data: st.DataObject) -> None:
    """Hypothesis builds arrays for any namespace of the standard; with set-item, one element at a time."""
    kinds = st.one_of(STANDARD_STRATEGIES.real_dtypes(), STANDARD_STRATEGIES.boolean_dtypes())
    dtype = data.draw(kinds)
    x = data.draw(STANDARD_STRATEGIES.arrays(dtype, STANDARD_STRATEGIES.array_shapes(min_dims=0, max_side=4)))
    assert x.dtype is dtype
    key = data.draw(STANDARD_STRATEGIES.indices(x.shape, allow_newaxis=True))
    np.testing.assert_array_equal(np.asarray(x[key]), np.asarray(x)[key])
