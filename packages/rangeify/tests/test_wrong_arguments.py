"""Every public function, method and operator with wrong arguments of many kinds: errors of this package only."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import Tensor, array_api, functions
from rangeify.array_api import linalg
from uopgraph import UOp

#: What a function may get from somebody who misread its documentation.
WRONG: dict[str, object] = {
    "None": None,
    "text": "a",
    "empty text": "",
    "negative": -7,
    "huge": 10**20,
    "fraction": 1.5,
    "nan": float("nan"),
    "empty list": [],
    "list": [1, 2],
    "ragged": [[1], [2, 3]],
    "texts": ("a",),
    "dict": {},
    "object": object(),
    "floats": np.array([1.5]),
    "array of text": np.array(["a"]),
    "true": True,
    "no step": slice(None, None, 0),
    "complex": 1j,
    "bytes": b"x",
    "class": int,
    "date": np.datetime64("2020"),
    "Tensor": Tensor([1.0, 2.0, 3.0]),
    "Array": array_api.asarray([1, 2]),
}

ARRAY = array_api.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
IMAGE = Tensor(np.ones((1, 1, 4, 4), np.float32))
MATRIX = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))

#: Arguments that are right, by the name of the parameter.
RIGHT: dict[str, object] = {
    "shape": (2, 2),
    "axis": 0,
    "axes": (1, 0),
    "dtype": "float32",
    "device": "cpu",
    "devices": ("a:0", "a:1"),
    "start": 1,
    "stop": 3,
    "num": 3,
    "n_rows": 2,
    "n": 4,
    "fill_value": 1,
    "value": 1,
    "obj": 1,
    "data": [1],
    "source": 0,
    "destination": 1,
    "shift": 1,
    "repeats": 2,
    "repetitions": (2,),
    "kind": "bool",
    "key": 0,
    "before_after": ((1, 1), (1, 1)),
    "size": (2, 2),
    "stride": (1, 1),
    "axis1": 0,
    "indices": array_api.asarray([0]),
    "condition": ARRAY > 2,
}
for _name in ("type", "from_", "to"):
    RIGHT[_name] = array_api.float32


def parameters(function: Callable[..., Any], skip: int) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[skip:]


def calls(
    function: Callable[..., Any], right: dict[str, object], skip: int = 0
) -> Iterator[Callable[..., Any]]:
    """For each parameter a call that takes an argument for it; the others are right or left out."""
    all_of_them = parameters(function, skip)
    for wrong in all_of_them:
        if wrong.kind is wrong.VAR_KEYWORD:
            continue

        def call(value: object, wrong: inspect.Parameter = wrong) -> object:
            args, kwargs = [], {}
            for p in all_of_them:
                if p is not wrong and (
                    p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
                ):
                    if (
                        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
                        and wrong.kind is p.POSITIONAL_ONLY
                    ):
                        args.append(p.default)
                    continue
                given = value if p is wrong else right[p.name]
                if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.kind is not p.POSITIONAL_ONLY:
                    kwargs[p.name] = given
                else:
                    args.append(given)
            return function(*args, **kwargs)

        call.__name__ = wrong.name
        yield call


def assert_own(call: Callable[[object], object], name: str, allowed: type[Exception] | None = None) -> None:
    """Each wrong argument is taken, or refused by an error of the package with a readable text."""
    for label, value in WRONG.items():
        try:
            call(value)
        except rangeify.RangeifyError as error:
            text = str(error)
            assert text, f"{name} of {label}"
            assert "UOp(" not in text, f"{name} of {label}: {text}"
            assert len(text) < 250, f"{name} of {label}: {text}"
        except Exception as error:  # noqa: BLE001
            if allowed is None or not isinstance(error, allowed):
                pytest.fail(f"{name} of {label}: {type(error).__name__}: {error}")


NETWORK = [
    f for n, f in vars(functions).items() if inspect.isfunction(f) and f.__module__ == functions.__name__
]


@pytest.mark.parametrize(
    "function", [f for f in NETWORK if not f.__name__.startswith("_")], ids=lambda f: f.__name__
)
def test_network_functions(function: Callable[..., Any]) -> None:
    window = any(word in function.__name__ for word in ("conv", "pool", "windows"))
    right = {**dict.fromkeys(p.name for p in parameters(function, 0)), **RIGHT}
    right.update(
        dict.fromkeys(("x", "weight", "table", "query", "key", "value"), IMAGE if window else MATRIX)
    )
    right.update(parts=[MATRIX, MATRIX], index=Tensor(np.array([1, 0])))
    for call in calls(function, right):
        assert_own(call, f"{function.__name__}({call.__name__}=)")


STANDARD = [
    (f"{module.__name__.rpartition('.')[2]}.{name}", function)
    for module in (array_api, linalg)
    for name, function in sorted(vars(module).items())
    if inspect.isfunction(function) and name in module.__all__
]


@pytest.mark.parametrize(("name", "function"), STANDARD, ids=[name for name, _ in STANDARD])
def test_functions_of_the_standard(name: str, function: Callable[..., Any]) -> None:
    right = {**dict.fromkeys(p.name for p in parameters(function, 0)), **RIGHT, "dtype": array_api.float32}
    right.update(dict.fromkeys(("x", "x1", "x2"), ARRAY), arrays=[ARRAY, ARRAY])
    for call in calls(function, right):
        assert_own(call, f"{name}({call.__name__}=)")


METHODS = {n: m for c in Tensor.__mro__[1::-1] for n, m in vars(c).items()}
OPERATORS = [n for n in METHODS if n.startswith("__") and callable(getattr(Tensor, n))]
#: Python's own names, and what is checked by Python before it gets there.
PYTHONS = {
    "__init__",
    "__getattr__",
    "__hash__",
    "__len__",
    "__repr__",
    "__array__",
    "__dlpack__",
    "__dlpack_device__",
} | {*("__bool__", "__int__", "__float__", "__index__", "__module__", "__slots__", "__doc__", "__weakref__")}


def test_methods_of_tensors() -> None:
    """rangeify checklist 82."""
    right = {**RIGHT, "other": MATRIX, "then": MATRIX, "otherwise": MATRIX}
    for name, method in METHODS.items():
        if (name.startswith("_") and name not in OPERATORS) or name in PYTHONS - {"__init__"}:
            continue
        if isinstance(method, classmethod):
            for call in calls(getattr(Tensor, name), right):
                assert_own(call, f"Tensor.{name}({call.__name__}=)")
        elif inspect.isfunction(method):

            def bound(*args: Any, _method: Callable[..., Any] = method, **kwargs: Any) -> object:
                fresh = Tensor.__new__(Tensor) if _method is Tensor.__init__ else Tensor(MATRIX)
                return _method(fresh, *args, **kwargs)

            bound.__signature__ = inspect.Signature(parameters(method, 1))  # type: ignore[attr-defined]
            in_place = TypeError if name.startswith("__i") and name != "__init__" else None
            for call in calls(bound, right):
                assert_own(call, f"Tensor.{name}({call.__name__}=)", in_place)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.reshape("a"), "RESHAPE: a size must be an integer, got 'a'"),
        (lambda x: x.permute(0, "b"), "axis: an axis is an integer, not 'b'"),
        (lambda x: x[5], "INDEX: index 5 is out of range for size 2"),
        (lambda x: x[0, 0, 0], "INDEX: 3 indices for 2 dimensions"),
        (lambda x: x[1.5], "1.5 is no index"),
        (lambda x: x.to(""), "a device is named like 'cpu' or 'cpu:1', not ''"),
        (lambda x: x.shard(("cpu:0", "cpu 1")), "a device is named like 'cpu' or 'cpu:1', not 'cpu 1'"),
        (lambda x: Tensor.ones(2, -1), "a size is an integer from 0 on below 2**63, not -1"),
        (lambda x: x.cast(3), "a dtype is a uopgraph.DType, its name or a NumPy dtype, not 3"),
        (lambda x: x.sum(keepdims=2), "sum: 'keepdims' must be bool, not int"),
        (lambda x: functions.softmax([1.0]), "softmax: 'x' must be Tensor, not [1.0]"),
        (lambda x: array_api.concat([x]), "concat: 'arrays' must be Sequence[Array], not [Tensor"),
        (lambda x: array_api.sum(x), "sum: 'x' must be Array, not Tensor"),
        (
            lambda x: array_api.sum(ARRAY, axis="a"),
            "sum: 'axis' must be int | tuple[int, ...] | None, not 'a'",
        ),
    ],
)
def test_what_errors_say(call: Callable[[Tensor], object], text: str) -> None:
    with pytest.raises(rangeify.RangeifyError) as caught:
        call(Tensor(MATRIX))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        *(
            functools.partial(getattr, MATRIX, name)
            for name in ("backward", "grad", "requires_grad", "nonzero", "unique", "imag")
        ),
        lambda: MATRIX[MATRIX > 2],
        lambda: Tensor(np.ones(2, np.complex64)),
        lambda: MATRIX.cast("complex64"),
        lambda: MATRIX.to("disk:/tmp/x"),
        lambda: Tensor([1.0], device="DISK"),
        lambda: MATRIX.shard(("disk:0", "disk:1"), 0),
    ],
)
def test_what_is_out_of_scope_says_so(call: Callable[[], object]) -> None:
    with pytest.raises(
        rangeify.UnsupportedError, match=r"unsupported: (Tensor\.|reading|dtype complex|the disk)"
    ):
        call()


def test_kinds_of_errors() -> None:
    """Python's own classes are bases, so that code that knows nothing of this package catches them."""
    for wrong, base in [(5, IndexError), ((0, 0, 0), IndexError), (1.5, IndexError), ("a", IndexError)]:
        with pytest.raises(rangeify.IndexingError) as caught:
            MATRIX[wrong]
        assert isinstance(caught.value, base)
    assert [row.tolist() for row in MATRIX] == MATRIX.tolist()  # type: ignore[attr-defined]


def test_sizes_as_one_sequence() -> None:
    for shape in ((2, 3), [2, 3]):
        assert Tensor.ones(shape).shape == Tensor.zeros(shape).shape == Tensor.empty(shape).shape == (2, 3)
        assert Tensor.ones(2, 3).shape == Tensor.full(shape, 1).shape


def test_symbolic_sizes_are_readable_in_messages() -> None:
    n = UOp.variable("n", 1, 8).bind(3)
    long = Tensor(np.zeros(8, np.float32))[:n]
    with pytest.raises(rangeify.BroadcastError, match=r"ADD: shapes \(n,\) and \(5,\) do not broadcast"):
        long + Tensor(np.zeros(5, np.float32))


def test_a_tensor_as_an_array_of_the_standard() -> None:
    """It shares the value, without computing it, and is not written through."""
    lazy = MATRIX * 2
    array = array_api.asarray(lazy)
    array += 1
    np.testing.assert_array_equal(np.asarray(array), MATRIX.numpy() * 2 + 1)
    np.testing.assert_array_equal(lazy.numpy(), MATRIX.numpy() * 2)
