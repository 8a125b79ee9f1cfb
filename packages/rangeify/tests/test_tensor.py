"""The Tensor: operators, functions, promotion, conversions, errors, against NumPy."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import BroadcastError, PromotionError, ShapeError, Tensor, UnsupportedDtype, UnsupportedError
from rangeify import array_api as xp
from uopgraph import UOp

FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "uint8", "int16", "int32", "int64", "uint32"]


def sample(dtype: str, seed: int = 0, n: int = 64) -> np.ndarray[Any, Any]:
    """Values of every kind: small, extreme, and for floats nan, infinities and signed zeros."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTS:
        info = np.iinfo(dtype)
        return np.concatenate(
            [
                rng.integers(info.min, info.max, n - 4, dtype=dtype, endpoint=True),
                np.array([0, 1, info.min, info.max], dtype),
            ]
        )
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, np.finfo(dtype).max], dtype)
    return np.concatenate([(rng.standard_normal(n - 8) * 3).astype(dtype), special])


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_operators_are_exact(name: str, dtype: str) -> None:
    """Reading 34: nan, infinities and wrap-around as in NumPy, with tensors and Python numbers on either
    side.
    """
    a, b = sample(dtype), sample(dtype, 1)
    f = BINARY[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(f(Tensor(a), Tensor(b)).numpy(), f(a, b))
        same(f(Tensor(a), 3).numpy(), f(a, np.array(3, dtype)))
        same(f(3, Tensor(a)).numpy(), f(np.array(3, dtype), a))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_operators(dtype: str) -> None:
    """Floor division and remainder round to minus infinity; division by zero gives 0 and the dividend."""
    a, b = sample(dtype), sample(dtype, 1)
    b[b == 0] = 1
    with np.errstate(all="ignore"):
        for f in (operator.floordiv, operator.mod, operator.and_, operator.or_, operator.xor):
            same(f(Tensor(a), Tensor(b)).numpy(), f(a, b))
        same((~Tensor(a)).numpy(), ~a)
        same((-Tensor(a)).numpy(), -a)
        same(abs(Tensor(a)).numpy(), abs(a))
        same(Tensor(a).minimum(Tensor(b)).numpy(), np.minimum(a, b))
        same(Tensor(a).maximum(Tensor(b)).numpy(), np.maximum(a, b))


def test_bool_operators() -> None:
    a, b = sample("bool"), sample("bool", 1)
    for f in (operator.and_, operator.or_, operator.xor, operator.eq, operator.ne):
        same(f(Tensor(a), Tensor(b)).numpy(), f(a, b))
    same((~Tensor(a)).numpy(), ~a)
    same((Tensor(a) + Tensor(b)).numpy(), a + b)
    for bad in (lambda: Tensor(a) - Tensor(b), lambda: -Tensor(a)):
        with pytest.raises(UnsupportedError):
            bad()


FUNCTIONS = ["exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "floor", "ceil", "trunc"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float_functions(name: str, dtype: str) -> None:
    a = sample(dtype)
    with np.errstate(all="ignore"):
        same(getattr(Tensor(a), name)().numpy(), getattr(np, name)(a))


@pytest.mark.parametrize("dtype", FLOATS)
def test_more_float_functions(dtype: str) -> None:
    import math

    a, b = sample(dtype), sample(dtype, 1)
    with np.errstate(all="ignore"):
        same((Tensor(a) / Tensor(b)).numpy(), a / b)
        same((2 / Tensor(a)).numpy(), np.array(2, dtype) / a)
        same(Tensor(a).round().numpy(), np.rint(a))
        same(Tensor(a).reciprocal().numpy(), np.reciprocal(a))
        same(Tensor(a).rsqrt().numpy(), (1 / np.sqrt(a.astype(np.float64))).astype(dtype))
        same(Tensor(a).erf().numpy(), np.array([math.erf(x) for x in a]).astype(dtype))
        same(Tensor(a).maximum(Tensor(b)).numpy(), np.maximum(a, b))
        same(Tensor(a).minimum(Tensor(b)).numpy(), np.minimum(a, b))
        same(Tensor(a).relu().numpy(), np.maximum(a, np.array(0, dtype)))
        positive = abs(Tensor(a)).numpy()
        same(positive, abs(a))
        assert not np.signbit(positive[~np.isnan(positive)]).any()
        same((Tensor(a) < 0).where(Tensor(b), 1.5).numpy(), np.where(a < 0, b, np.array(1.5, dtype)))
        np.testing.assert_allclose(Tensor(a).sigmoid().numpy(), 1 / (1 + np.exp(-a)), rtol=1e-2)


def test_integers_become_floats_in_functions() -> None:
    a = np.array([1, 4, 9], np.int32)
    same(Tensor(a).sqrt().numpy(), np.array([1, 2, 3], np.float32))
    same((Tensor(a) / 2).numpy(), np.array([0.5, 2, 4.5], np.float32))
    same(Tensor(a).floor().numpy(), a)


LATTICE = [
    ("int8", "uint8", "int16"),
    ("uint8", "uint16", "uint16"),
    ("int32", "int64", "int64"),
    ("uint32", "int32", "int64"),
    ("bool", "int8", "int8"),
    ("int64", "float16", "float16"),
    ("float16", "bfloat16", "float32"),
    ("float16", "float32", "float32"),
    ("float32", "float64", "float64"),
]


@pytest.mark.parametrize(("a", "b", "result"), LATTICE)
def test_promotion_lattice(a: str, b: str, result: str) -> None:
    """Reading 35: the lattice of graph spec 4, in both orders."""
    x, y = Tensor.zeros(3, dtype=a), Tensor.zeros(3, dtype=b)
    assert (x + y).dtype.name == (y + x).dtype.name == result


def test_python_numbers_follow_and_weak_results_are_committed() -> None:
    x = Tensor(np.ones(2, np.int8))
    assert (x + 1).dtype.name == "int8"
    assert (x + 0.5).dtype.name == "float32"
    assert (Tensor(np.ones(2, np.float16)) + 1).dtype.name == "float16"
    assert (Tensor(2) + Tensor(3)).item() == 5
    with pytest.raises(PromotionError, match="int64 and uint64") as caught:
        Tensor.zeros(2, dtype="uint64") + Tensor.zeros(2, dtype="int64")
    assert caught.value.dtypes == ("int64", "uint64")


@pytest.mark.parametrize("new", [*FLOATS, "int8", "int32", "uint8", "bool"])
@pytest.mark.parametrize("old", ["float16", "float32", "int32", "uint8", "bool"])
def test_casts(old: str, new: str) -> None:
    """Floats round, integers wrap, bool is "not zero"."""
    a = np.array([0, 1, 2.5, 100, 7], dtype=old)
    same(Tensor(a).cast(new).numpy(), a.astype(new))
    if old == "int32":
        wide = np.array([300, -1, 2**20 + 5], np.int32)
        with np.errstate(all="ignore"):
            same(Tensor(wide).cast(new).numpy(), wide.astype(new))


def test_bfloat16_needs_no_special_treatment() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(8).astype(ml_dtypes.bfloat16)
    got = (Tensor(a) * 1.5 + 1).numpy()
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got.astype(np.float32), np.arange(8) * 1.5 + 1)


def test_reductions_accumulate_wide() -> None:
    a = np.full(4096, 1.0, np.float16)
    assert Tensor(a).sum().numpy() == np.float16(4096)
    b = np.full(300, 100, np.int8)
    same(Tensor(b).sum().numpy(), np.array(30000, np.int32))
    c = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in (None, 0, -1, (0, 2)):
        for keepdims in (False, True):
            got = Tensor(c)
            same(got.sum(axis, keepdims).numpy(), c.sum(axis, keepdims=keepdims))
            same(got.max(axis, keepdims).numpy(), c.max(axis, keepdims=keepdims))
            same(got.min(axis, keepdims).numpy(), c.min(axis, keepdims=keepdims))
            np.testing.assert_allclose(
                got.mean(axis, keepdims).numpy(), c.mean(axis, keepdims=keepdims), rtol=1e-6
            )
    same(Tensor(np.array([3, -7, 5], np.int32)).min().numpy(), np.array(-7, np.int32))
    same(Tensor(np.array([2, 3, 4], np.int32)).prod().numpy(), np.array(24, np.int32))


def test_matmul_shapes() -> None:
    rng = np.random.default_rng(0)
    for left, right in (
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (3, 4, 2)),
    ):
        a, b = rng.integers(-4, 5, left).astype(np.float32), rng.integers(-4, 5, right).astype(np.float32)
        same((Tensor(a) @ Tensor(b)).numpy(), np.asarray(a @ b))
    with pytest.raises(ShapeError, match="matmul"):
        Tensor.zeros(3, 4) @ Tensor.zeros(3, 4)


KEYS = [
    0,
    -1,
    slice(1, None),
    slice(None, None, -1),
    slice(4, 0, -2),
    None,
    Ellipsis,
    (slice(None), 1),
    (..., 2),
    (0, None, slice(1, 3)),
]


@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
def test_basic_indexing(keys: list[Any]) -> None:
    a = np.arange(120, dtype=np.float32).reshape(5, 6, 4)
    x: Any = Tensor(a)
    for key in keys:
        try:
            a = a[key]
        except IndexError:
            with pytest.raises(IndexError):
                x[key]
            return
        x = x[key]
    same(x.numpy(), np.asarray(a))


def test_movement() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = Tensor(a)
    same(x.permute(2, 0, 1).numpy(), a.transpose(2, 0, 1))
    same(x.transpose().numpy(), a.swapaxes(-1, -2))
    same(x.flip(0, 2).numpy(), a[::-1, :, ::-1])
    same(x.pad(((1, 0), (0, 2), (0, 0)), 7).numpy(), np.pad(a, ((1, 0), (0, 2), (0, 0)), constant_values=7))
    same(x.reshape(4, -1).numpy(), a.reshape(4, -1))
    same(x.unsqueeze(1).expand(2, 5, 3, 4).numpy(), np.broadcast_to(a[:, None], (2, 5, 3, 4)))
    same(x.flatten().numpy(), a.reshape(-1))
    assert len(x) == 2
    assert x.T.shape == (4, 3, 2)


def test_python_conversions_realise() -> None:
    """Design 9: bool, int, float, index, print, np.asarray."""
    x = Tensor(np.array([3], np.int32)) + 1
    assert int(x) == 4
    assert float(x) == 4.0
    assert bool(x > 3)
    assert [10, 11, 12, 13, 14][x] == 14
    assert np.asarray(Tensor([1.0, 2.0]) * 2).tolist() == [2.0, 4.0]
    assert repr(Tensor([1, 2]) + 1) == "Tensor(array([2, 3], dtype=int32))"
    assert Tensor([[1, 2]]).tolist() == [[1, 2]]
    with pytest.raises(ShapeError):
        Tensor([1, 2]).item()
    with pytest.raises(TypeError):
        len(Tensor(1.0))


def test_data_is_copied() -> None:
    a = np.ones(3, np.float32)
    x = Tensor(a)
    a[0] = 9
    assert x.numpy()[0] == 1
    out = x.numpy()
    out[1] = 9
    assert x.numpy()[1] == 1


def test_a_realised_value_is_shared_by_all_that_hold_it() -> None:
    x = Tensor(np.ones(3, np.float32)) + 1
    y = x * 2
    x.realize()
    assert rangeify.schedule(x).kernels == ()
    assert len(rangeify.schedule(y).kernels) == 1
    node = y.uop
    y.realize()
    assert y.uop is not node


def test_bad_input_is_named() -> None:
    with pytest.raises(UnsupportedDtype, match="complex64"):
        Tensor(np.ones(2, np.complex64))
    with pytest.raises(UnsupportedDtype, match="float99"):
        Tensor(1.0, dtype="float99")
    with pytest.raises(TypeError):
        Tensor(1.0) + "x"
    with pytest.raises(BroadcastError):
        Tensor.zeros(2, 3) + Tensor.zeros(4)
    with pytest.raises(ShapeError, match="axis 3"):
        Tensor.zeros(2, 3).sum(3)
    for bad in (
        lambda: Tensor([1.5]) // 2,
        lambda: ~Tensor([1.5]),
        lambda: Tensor([1]).where(1, 2),
        lambda: Tensor([1.0]) & 1,
    ):
        with pytest.raises(UnsupportedError):
            bad()
    assert Tensor(Tensor([1.0]), device="other").device == "other"


def test_storage_without_contents() -> None:
    """It is written in place, takes an array when a schedule runs, and is no silent zero."""
    x = Tensor.empty(3, 2)
    assert (x.shape, x.dtype.name, x.device, x.has_storage) == ((3, 2), "float32", "cpu", True)
    schedule = rangeify.schedule(x * 2)
    np.testing.assert_array_equal(
        rangeify.run(schedule, [np.ones((3, 2), np.float32)])[0], np.full((3, 2), 2)
    )
    with pytest.raises(rangeify.InputError, match="no contents"):
        (x * 2).numpy()
    x[...] = 4
    np.testing.assert_array_equal(x.numpy(), np.full((3, 2), 4))


@pytest.mark.parametrize("to", ["uint8", "int16", "float32", "int32", "uint64", "float64", "int64"])
@pytest.mark.parametrize("kind", ["constant", "one element", "data", "expression", "counter"])
def test_bit_casts(kind: str, to: str) -> None:
    """To every item size, of what is computed by kernels and of what has no storage, as one value and as a part."""
    x, a = {
        "constant": lambda: (Tensor.full((3, 4), -5), np.full((3, 4), -5, np.int32)),
        "one element": lambda: (Tensor.full((1, 2), 7), np.full((1, 2), 7, np.int32)),
        "data": lambda: (Tensor(np.arange(8).reshape(2, 4)), np.arange(8).reshape(2, 4)),
        "expression": lambda: (
            Tensor(np.arange(8, dtype=np.float32)) * 3,
            np.arange(8, dtype=np.float32) * 3,
        ),
        "counter": lambda: (Tensor.arange(6), np.arange(6, dtype=np.int32)),
    }[kind]()
    want = a.view(to)
    for got in (x.bitcast(to), x.bitcast(to)[..., 1:]):
        np.testing.assert_array_equal(rangeify.run(rangeify.schedule(got))[0], want)
        np.testing.assert_array_equal(got.numpy(), want)
        want = want[..., 1:]
    again = x.bitcast(to).bitcast("uint8").bitcast(to)
    np.testing.assert_array_equal(again.contiguous().numpy(), a.view(to))


def test_iteration_over_the_first_axis() -> None:
    """A Tensor without dimensions is no empty sequence; slices are views."""
    x = Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    for i, row in enumerate(x):
        row += i
    np.testing.assert_array_equal(x.numpy(), [[0, 1], [3, 4], [6, 7]])
    assert list(Tensor.zeros(0, 2)) == []
    first, second = xp.asarray([[1, 2], [3, 4]])
    np.testing.assert_array_equal(np.asarray(first + second), [4, 6])
    with pytest.raises(ShapeError, match="without dimensions"):
        list(Tensor(1.0))
    with pytest.raises(TypeError, match="without dimensions"):
        list(xp.asarray(1))
    with pytest.raises(UnsupportedError, match="symbolic"):
        list(x[: UOp.variable("n", 1, 3).bind(2)])
