"""What constructors and readers refuse, and how operands of different dtypes meet."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from uopgraph import (
    ArityError,
    BoundError,
    DTypeError,
    EncodingError,
    Invalid,
    KernelInfo,
    Ops,
    ShapeError,
    SpecError,
    UOp,
    UOpError,
    checking,
    dtypes,
    from_json,
    full_spec,
    least_upper_dtype,
    to_json,
    type_verify,
)
from uopgraph.ops import ARITY

N = UOp.variable("n", 1, 8)
F = UOp.variable("f", 0, 3, dtypes.float32)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: UOp.range(-1, 0), ShapeError, "RANGE: negative size -1"),
        (lambda: UOp.range(2.5, 0), ShapeError, "RANGE: a size must be an integer, got 2.5"),
        (lambda: UOp.range(True, 0), ShapeError, "must be an integer"),
        (lambda: UOp.range(F, 0), ShapeError, "must be an integer"),
        (lambda: UOp.range("4", 0), ShapeError, "must be an integer, got '4'"),
        (lambda: UOp.new_buffer("cpu", -4, dtypes.int8), ShapeError, "BUFFER: negative size -4"),
        (lambda: UOp.alloc((2, -1), dtypes.int8, "cpu"), ShapeError, "ALLOC: negative size -1"),
        (lambda: UOp.param(0, dtypes.int8, (3, -2)), ShapeError, "PARAM: negative size -2"),
        (lambda: UOp.param(0, dtypes.int8, (1.5,)), ShapeError, "PARAM: a size must be an integer"),
        (lambda: UOp.param(0, dtypes.weakint, (4,)), DTypeError, "cannot store the weak dtype weakint"),
        (lambda: UOp.variable("v", 3, 2), BoundError, r"\[3, 2\] is empty"),
        (lambda: UOp.variable("v", 0, 300, dtypes.int8), BoundError, "leaves int8"),
        (lambda: UOp.variable("v", -1, 3, dtypes.uint8), BoundError, "leaves uint8"),
        (lambda: UOp.variable("v", 0, 8, multiple_of=0), BoundError, "no multiple of 0"),
        (lambda: N.bind(2.5), BoundError, "n = 2.5 is no integer"),  # type: ignore[arg-type]
        (lambda: N.bind(True), BoundError, "no integer"),
        (lambda: N.bind(9), BoundError, r"n = 9 is not in \[1, 8\]"),
        (lambda: F << 1, DTypeError, "SHL needs integers"),
        (lambda: N.where(F, F), DTypeError, "condition of WHERE"),
        (lambda: UOp(Ops.PARAM, None, (UOp.const(4),), "p"), DTypeError, "needs a ParamArg"),
        (lambda: UOp(Ops.ADD, None, [N, N]), SpecError, "src must be a tuple"),  # type: ignore[arg-type]
        (lambda: UOp(Ops.CUSTOM, dtypes.int32, (), [1]), SpecError, "hashable"),
    ],
)
def test_bad_input_names_its_place(make: Callable[[], Any], error: type[UOpError], message: str) -> None:
    for level in (0, 2):
        with checking(level), pytest.raises(error, match=message):
            make()


@pytest.mark.parametrize("op", sorted(ARITY), ids=lambda op: op.name)
def test_every_operation_checks_its_number_of_sources(op: Ops) -> None:
    least, most = ARITY[op]
    wrong = [least - 1] if least else []
    wrong += [] if most is None else [most + 1]
    for n in wrong:
        with checking(0), pytest.raises(ArityError, match=f"{op.name} takes .* sources, not {n}") as e:
            UOp(op, dtypes.weakint, (N,) * n, 1)
        assert (e.value.op, e.value.given) == (op.name, n)
    with checking(0), pytest.raises((ArityError, DTypeError)):
        UOp(op, None, (N,) * (wrong[0]), dtypes.int8)


STRONG = [dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
SUGAR: dict[str, Callable[[UOp, UOp], UOp]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "-": lambda a, b: a - b,
    "max": lambda a, b: a.maximum(b),
    "min": lambda a, b: a.minimum(b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "!=": lambda a, b: a.ne(b),
    "/": lambda a, b: a / b,
    "where": lambda a, b: (N < 3).where(a, b),
}


@pytest.mark.parametrize("name", SUGAR)
def test_operands_of_different_dtypes_meet_in_their_promotion(name: str) -> None:
    """Sugar casts strong operands to the promotion of both: what it builds every specification accepts."""
    for a, b in itertools.product([*STRONG, dtypes.weakint, dtypes.weakfloat], repeat=2):
        if name == "-" and dtypes.bool in (a, b):
            continue
        x, y = (UOp.variable(n, 0, 1, d) for n, d in (("x", a), ("y", b)))
        out = SUGAR[name](x, y)
        type_verify(out, full_spec)
        common = least_upper_dtype(a, b)
        if name in ("+", "*", "max", "where"):
            assert out.dtype is common
        if name in ("<", "!="):
            kept = {s.dtype for s in out.src if not s.dtype.is_weak}
            assert kept <= {common}
    x = UOp.variable("x", 0, 1, dtypes.int8)
    lesser = UOp.const(3, dtypes.uint8).minimum(UOp.const(5, dtypes.int16))
    assert lesser.simplify() is UOp.const(3, dtypes.int16)
    assert (N < 3).where(x, Invalid).src[1] is x
    assert (x << UOp.variable("k", 0, 3, dtypes.int64)).src[1].dtype is dtypes.uint32


def document() -> dict[str, Any]:
    p = UOp.param(0, dtypes.float32, (4, N), "cpu")
    i, j = UOp.range(4, 0), UOp.range(N, 1)
    body = p.index(i, j.valid(j < 5)).store(p.index(i, j).load() * 2.5 + 1).end(i, j)
    call = body.sink(arg=KernelInfo("k")).call(UOp.new_buffer("cpu", 24, dtypes.float32, slot=3))
    return json.loads(to_json(call.sink()))  # type: ignore[no-any-return]


def damaged(value: Any, rng: random.Random) -> Any:
    """JSON data with one place changed."""
    junk: list[Any] = [
        None,
        True,
        -1,
        0,
        1,
        99,
        2.5,
        "",
        "ADD",
        "int8",
        [],
        [0],
        {},
        {"int": "x"},
        {"record": ["ParamArg", {}]},
    ]
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if rng.random() < 0.15:
            return [*value[:at], *value[at + 1 :]]
        return [*value[:at], damaged(value[at], rng), *value[at + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        return {**value, key: damaged(value[key], rng)}
    return rng.choice(junk)


@pytest.mark.sweep(default=300, full=20_000)
def test_damaged_documents_are_refused_or_good(cases: int) -> None:
    """A reader of JSON text raises EncodingError and nothing else; what it accepts passes the specification."""
    whole = document()
    refused = 0
    for seed in range(cases):
        text = json.dumps({**whole, "rows": damaged(whole["rows"], random.Random(seed))})
        with checking(1):
            try:
                node = from_json(text)
            except EncodingError:
                refused += 1
                continue
        type_verify(node, full_spec)
        assert from_json(to_json(node)) is node
    assert refused > cases // 2


def test_constants_of_every_dtype_round_trip() -> None:
    for d in dtypes.all:
        assert from_json(to_json(UOp.const(1, d))) is UOp.const(1, d)
