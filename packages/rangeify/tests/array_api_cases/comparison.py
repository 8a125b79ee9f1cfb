"""The same call on both namespaces, and when two results are the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from array_api_cases.calls import Case
from array_api_cases.drawing import Call, Named
from rangeify import array_api as xp
from uopgraph import DType


def converted(namespace: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return namespace.asarray(value)
    if isinstance(value, Named):
        return getattr(namespace, value.name)
    if isinstance(value, list) and any(isinstance(v, np.ndarray) for v in value):
        return [converted(namespace, v) for v in value]
    return value


def function(namespace: Any, name: str) -> Any:
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def run(namespace: Any, name: str, call: Call) -> Any:
    args, how = call
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(namespace, name)(
                *(converted(namespace, a) for a in args),
                **{k: converted(namespace, v) for k, v in how.items()},
            )
        except Exception as e:  # noqa: BLE001
            return e


NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def inputs(value: Any) -> set[str]:
    if isinstance(value, np.ndarray):
        return {value.dtype.name}
    if isinstance(value, Named):
        return {value.name}
    return set().union(*(inputs(v) for v in value)) if isinstance(value, list | tuple) else set()


def same(ours: Any, theirs: Any, case: Case, call: Call, why: str) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{why}: {ours!r}, not {theirs!r}"
        assert not isinstance(theirs, TypeError) or isinstance(ours, TypeError | ValueError), (
            f"{why}: {ours!r}"
        )
        return
    if isinstance(ours, Exception):
        raise AssertionError(f"{why}: {ours!r}, not {theirs!r}") from ours
    if isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs), why
        assert len(ours) == len(theirs), why
        for o, t in zip(ours, theirs, strict=True):
            same(o, t, case, call, why)
        return
    if isinstance(ours, DType):
        assert ours.name == str(theirs).rsplit(".", 1)[-1], why
        return
    if isinstance(theirs, bool):
        assert ours is theirs, why
        return
    assert isinstance(ours, xp.Array), why
    want = np.asarray(theirs)
    with np.errstate(all="ignore"):
        got = np.asarray(ours)
    name = want.dtype.name
    if case.places:
        assert name == "int64"
        name = "int32"
    if (
        case.defaults
        and name in NARROW
        and name not in inputs(list(call[0])) | inputs(list(call[1].values()))
    ):
        name = NARROW[name]
    assert ours.dtype.name == name, f"{why}: dtype {ours.dtype.name}, not {name}"
    assert got.shape == want.shape == ours.shape, f"{why}: shape {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        want = np.asarray(case.standard(call[0], want.astype(name)))
    if want.dtype.kind != "f":
        assert np.array_equal(got, want), f"{why}: {got}, not {want}"
    elif case.relative:
        assert np.allclose(got, want, rtol=case.relative, atol=case.relative, equal_nan=True), (
            f"{why}: {got}, not {want}"
        )
    elif case.ulps:
        np.testing.assert_array_max_ulp(*(np.where(np.isnan(want), 0, v) for v in (got, want)), case.ulps)
        assert np.array_equal(np.isnan(got), np.isnan(want)), f"{why}: {got}, not {want}"
    else:
        assert np.array_equal(got, want, equal_nan=True), f"{why}: {got}, not {want}"
        signs = np.isnan(want) | (np.signbit(got) == np.signbit(want)) | (not case.signed_zeros)
        assert np.all(signs), f"{why}: signs of {got}, not {want}"
