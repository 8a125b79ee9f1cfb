"""Inspection, devices, creation from Python values, and that nothing is computed early."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest
from array_api_cases.drawing import ALL, FLOATS, NUMERIC

import rangeify
from rangeify import array_api as xp


def test_inspection() -> None:
    info, other = xp.__array_namespace_info__(), strict.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": 32,
    }
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {"real floating": xp.float32, "integral": xp.int32, "indexing": xp.int32}
    for kind in (
        None,
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        ("bool", "integral"),
    ):
        assert set(info.dtypes(kind=kind)) == set(other.dtypes(kind=kind)) - {"complex64", "complex128"}
    assert info.dtypes(kind="complex floating") == {}
    with pytest.raises(rangeify.UnsupportedError, match="device"):
        info.dtypes(device="gpu")


@pytest.mark.parametrize("name", NUMERIC)
def test_limits(name: str) -> None:
    ours, theirs = ((n.finfo if name in FLOATS else n.iinfo)(getattr(n, name)) for n in (xp, strict))
    fields = ("bits", "max", "min", *(("eps", "smallest_normal") if name in FLOATS else ()))
    for field in fields:
        assert getattr(ours, field) == getattr(theirs, field), field
        assert type(getattr(ours, field)) in (int, float)
    assert ours.dtype is getattr(xp, name)
    with pytest.raises(TypeError):
        (xp.iinfo if name in FLOATS else xp.finfo)(getattr(xp, name))


def test_kinds() -> None:
    kinds = [
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ]
    for name in ALL:
        for kind in kinds:
            assert xp.isdtype(getattr(xp, name), kind) == strict.isdtype(getattr(strict, name), kind)
    assert xp.isdtype(xp.int8, ("bool", xp.int8))
    assert not xp.isdtype(xp.int8, xp.int16)
    with pytest.raises(ValueError, match="unknown kind"):
        xp.isdtype(xp.int8, "integer")


def test_dlpack_and_devices() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]]) * 2.0
    there = np.from_dlpack(x)
    assert np.array_equal(there, [[2, 4], [6, 8]])
    assert x.__dlpack_device__() == (1, 0)
    back = xp.from_dlpack(np.arange(3, dtype=np.int16))
    assert (back.dtype, back.shape) == (xp.int16, (3,))
    assert np.array_equal(np.asarray(back), [0, 1, 2])
    assert np.array_equal(np.asarray(xp.from_dlpack(x)), there)
    assert x.to_device(x.device) is x
    for call in (lambda: x.to_device("cpu", stream=1), lambda: xp.zeros(3, device="gpu")):
        with pytest.raises(rangeify.UnsupportedError):
            call()
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_namespace_of_an_array() -> None:
    x = xp.ones((2, 3))
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="no version"):
        x.__array_namespace__(api_version="2099.01")
    assert xp.__array_api_version__ == "2024.12"
    assert (xp.empty((2, 0)).shape, xp.empty_like(x).dtype) == ((2, 0), xp.float32)
    assert repr(xp.asarray([1, 2])) == "Array([1, 2], dtype=int32)"
    with pytest.raises(TypeError, match="hashable"):
        hash(x)
    assert [xp.e, xp.pi, xp.inf] == [math.e, math.pi, math.inf]
    assert xp.nan != xp.nan
    assert xp.newaxis is None


def test_creation_from_python_values() -> None:
    for value, dtype in (
        (True, "bool"),
        (3, "int32"),
        (2.5, "float32"),
        ([1, 2], "int32"),
        ([1, 2.5], "float32"),
    ):
        assert xp.asarray(value).dtype.name == dtype
    nested = xp.asarray([[xp.asarray(1), 2], [3, 4]])
    assert np.array_equal(np.asarray(nested), [[1, 2], [3, 4]])
    assert xp.asarray([xp.ones(2), xp.zeros(2)]).shape == (2, 2)
    for bad in (2**40, [1, 2**31], -(2**31) - 1):
        with pytest.raises(OverflowError):
            xp.asarray(bad)
    with pytest.raises(OverflowError):
        xp.asarray([300], dtype=xp.uint8)
    for complex_value in (1j, [1j], np.ones(2, dtype=np.complex64)):
        with pytest.raises(rangeify.UnsupportedError, match="complex"):
            xp.asarray(complex_value)
    source = np.ones(3, dtype=np.float32)
    kept = xp.asarray(source)
    source[0] = 7
    assert np.array_equal(np.asarray(kept), [1, 1, 1])
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(source, copy=False)


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    x = xp.asarray(np.arange(6, dtype=np.float32))
    y = xp.sort(xp.cumulative_sum(xp.sin(x) + 1.0) * xp.take(x, xp.asarray([0, 1, 2, 3, 4, 5])))
    assert not y.tensor.has_storage
    schedule = rangeify.schedule(y.tensor)
    assert 1 <= len(schedule.kernels) <= 8
