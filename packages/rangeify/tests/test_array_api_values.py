"""Python values in and out of arrays: exact numbers, one element at a time, sharing, and the most dimensions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from array_api_cases.drawing import ALL, FILLED, FLOATS, INTS, NUMERIC, Draw, array, values
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import array_api as xp
from uopgraph import UOp


def bits(x: Any) -> Any:
    return (
        np.asarray(x).view(f"u{np.asarray(x).itemsize}") if np.asarray(x).dtype.kind == "f" else np.asarray(x)
    )


@given(data=st.data())
@pytest.mark.sweep(default=30, full=500)
def test_lists_are_exact(data: st.DataObject) -> None:
    """Every number of a dtype survives ``asarray`` of a nested list, whatever stands beside it."""
    name = data.draw(st.sampled_from(ALL))
    x = array(data.draw, [name], data.draw(FILLED))
    made = xp.asarray(x.tolist(), dtype=getattr(xp, name))
    assert (made.dtype.name, made.shape) == (name, x.shape)
    np.testing.assert_array_equal(bits(made), bits(x))


def test_lists_of_extreme_integers() -> None:
    """float64 does not hold what uint64 and int64 hold beside small numbers."""
    for name in INTS:
        info = np.iinfo(name)
        numbers = [int(info.max), 0, 1, int(info.min), int(info.max) - 1]
        assert np.asarray(xp.asarray(numbers, dtype=getattr(xp, name))).tolist() == numbers
        for beyond in (int(info.max) + 1, int(info.min) - 1, 10**30):
            with pytest.raises(rangeify.ConstantError, match="out of range"):
                xp.asarray([0, beyond, 1], dtype=getattr(xp, name))
    assert np.asarray(xp.asarray([2**62 + 1, 0.5], dtype=xp.int64)).tolist() == [2**62 + 1, 0]
    beyond_all = [rangeify.Tensor(v).numpy for v in (10**30, -(10**30), 2**40, 2**31)]
    for call in (lambda: xp.asarray([10**400], dtype=xp.float64), *beyond_all):
        with pytest.raises(rangeify.ConstantError, match="out of range"):
            call()
    assert xp.asarray([np.int64(3), np.int64(4)]).dtype is xp.int64


def expressions(draw: Draw) -> list[tuple[str, Any]]:
    """Arrays of one element each: parts of stored, computed and written values, and operations on them."""
    x = array(draw, NUMERIC, draw(FILLED))
    a = xp.asarray(x)
    index = tuple(draw(st.integers(-s, s - 1)) for s in x.shape)
    number = draw(values(x.dtype.name, small=True))
    computed = xp.maximum(a, xp.asarray(number, dtype=a.dtype)) + a
    written = xp.asarray(x)
    written[index] = number
    parts = [
        a[index],
        computed[index],
        xp.flip(computed)[index],
        written[index],
        xp.permute_dims(a, (*range(x.ndim),))[index],
    ]
    out = [("part", p) for p in parts]
    out += [("sum", p + p) for p in parts] + [("equal", parts[0] == p) for p in parts]
    if x.dtype.kind == "f":
        out += [
            ("nan", xp.isnan(parts[1])),
            ("quotient", parts[1] // parts[0]),
            ("rest", parts[0] % parts[1]),
        ]
    out += [("total", xp.sum(a)), ("kept", xp.reshape(xp.broadcast_to(parts[0], (1, 1)), ()))]
    return out


@given(data=st.data())
@pytest.mark.sweep(default=15, full=400)
def test_one_element_is_the_same_with_and_without_a_schedule(data: st.DataObject) -> None:
    """``float(x[i])`` of little work is computed at once; a schedule of the same gives the same bits."""
    for name, x in expressions(data.draw):
        at_once = x.tensor.item()
        scheduled = rangeify.run(rangeify.schedule(rangeify.Tensor(x.node).contiguous()))
        want = np.asarray(scheduled[0])
        assert np.array_equal(bits(np.asarray(at_once, dtype=want.dtype)), bits(want)), name


def test_elements_of_a_value_compute_it_once() -> None:
    """The whole that an element was cut from is stored when one element was asked for; a large one is not."""
    x = xp.asarray(np.arange(12.0).reshape(3, 4))
    y = xp.sin(x) @ xp.matrix_transpose(x)
    row = y[1]
    assert float(row[2]) == float(np.asarray(y)[1, 2])
    assert y.tensor.has_storage
    large = xp.ones((300, 300)) + xp.asarray(1.0)
    assert float(large[7, 7]) == 2
    assert not large.tensor.has_storage
    kept, part = y + 1.0, (y + 1.0)[0, 0]
    before = float(kept[0, 0])
    late = kept[0, 0]
    kept[0, 0] = 50.0
    assert (float(late), float(part), float(kept[0, 0])) == (before, before, 50.0)


def test_an_array_that_must_not_be_copied_is_shared() -> None:
    for share in (xp.asarray, xp.from_dlpack):
        x = xp.asarray([1.0, 2.0, 3.0])
        shared, own = share(x, copy=False), share(x, copy=True)
        x[0] = 7.0
        shared[2] = 9.0
        assert [np.asarray(v).tolist() for v in (x, shared, own)] == [[7, 2, 9], [7, 2, 9], [1, 2, 3]]
    with pytest.raises(BufferError, match="ndarray") as error:
        xp.from_dlpack(np.ones(3), copy=False)
    assert isinstance(error.value, rangeify.SharingError)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(xp.ones(3), dtype=xp.float64, copy=False)


def test_numbers_without_a_dtype_have_the_default_one() -> None:
    """One element is what the array of it holds."""
    for value in (0.1, 1e300, 3, True, -7):
        x = rangeify.Tensor(value)
        assert x.item() == x.numpy().item()
        assert x.numpy().dtype == np.asarray(xp.asarray(value)).dtype
    with pytest.raises(rangeify.ConstantError):
        rangeify.Tensor(2**40).item()


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    ("value", "error"), [("nan", ValueError), ("inf", OverflowError), ("-inf", OverflowError)]
)
def test_no_integer(name: str, value: str, error: type[Exception]) -> None:
    x = xp.asarray(float(value), dtype=getattr(xp, name))
    for number in (x, x.tensor):
        with pytest.raises(rangeify.RangeifyError, match="is no integer") as raised:
            int(number)
        assert isinstance(raised.value, error)


def test_the_most_dimensions() -> None:
    """Every function takes as many dimensions as the namespace says, and one more is an error."""
    most = xp.__array_namespace_info__().capabilities()["max dimensions"]
    x = xp.reshape(xp.asarray([2.0, 1.0]), (2, *(1,) * (most - 1)))
    index = xp.astype(x, xp.int32) - 1
    for y in (
        *(xp.sort(x, axis=0), xp.cumulative_sum(x, axis=0), xp.take(x, xp.asarray([1, 0]), axis=0)),
        *(
            xp.take_along_axis(x, index, axis=0),
            xp.tile(x, (2,) * 3),
            xp.repeat(x, 2, axis=5),
            x + x,
            x @ x.mT,
        ),
        *(
            xp.flip(x),
            xp.roll(x, 1),
            xp.concat([x, x], axis=-1),
            xp.diff(x, axis=0),
            xp.triu(x),
            xp.argmax(x),
        ),
        *(
            xp.sum(x),
            xp.var(x, axis=(0, 3)),
            xp.linalg.vector_norm(x),
            xp.vecdot(x, x),
            xp.searchsorted(x[:, *(0,) * (most - 1)], x),
        ),
    ):
        assert np.asarray(y).size > 0
    for call in (lambda: xp.expand_dims(x), lambda: xp.stack([x, x]), lambda: xp.zeros((1,) * (most + 1))):
        with pytest.raises(rangeify.ShapeError, match=f"at most {most} dimensions"):
            call()


@pytest.mark.parametrize(
    "other", [np.ones(3), np.float32(2), np.float64(2), np.int64(1), np.dtype("int8"), np.array("s")]
)
def test_what_belongs_to_numpy_does_not_mix(other: Any) -> None:
    """The result would be no array of this namespace."""
    x = xp.asarray([1.0, 2.0, 3.0])
    for f in (
        operator.add,
        operator.truediv,
        operator.floordiv,
        operator.lt,
        operator.iadd,
        operator.matmul,
        operator.eq,
    ):
        with pytest.raises(TypeError, match="of NumPy beside an array: use asarray") as error:
            f(x, other)
        assert isinstance(error.value, rangeify.RangeifyError)
    if not isinstance(other, np.dtype):
        with pytest.raises(TypeError):
            other + x
    assert float(x[0]) == 1


def test_errors_of_values_and_places() -> None:
    """What NumPy or Python would refuse in their own words."""
    x = xp.asarray([2, 3])
    n = UOp.variable("n", 1, 5)
    own: list[tuple[type[Exception], Any]] = [
        *(
            (ValueError, lambda f=f: np.asarray(f(xp.asarray(x), xp.asarray([1, -1]))))
            for f in (xp.pow, operator.pow, operator.ipow)
        ),
        *(
            (TypeError, lambda d=d: np.asarray(x).astype(x.__array__(d).dtype))
            for d in (x, 3.5, "none", {1: 2})
        ),
        (ValueError, lambda: np.asarray(x, copy=False)),
        (NotImplementedError, lambda: xp.zeros(n)),
        (NotImplementedError, lambda: xp.ones((2, n))),
        *(
            (rangeify.RangeifyError, lambda f=f: f(xp.ones((2, 2)), axis=n))
            for f in (xp.sum, xp.any, xp.flip, xp.squeeze)
        ),
        *((NotImplementedError, lambda d=d: xp.zeros(2, device=d)) for d in (np.ones(3), ("cpu",), "gpu", 0)),
        (IndexError, lambda: xp.take(xp.zeros((0,)), xp.asarray([0]))),
    ]
    for kind, call in own:
        with pytest.raises(rangeify.RangeifyError) as error:
            call()
        assert isinstance(error.value, kind)
