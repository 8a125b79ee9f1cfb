"""Deep graphs: nothing recurses on depth. SWEEPS=1 takes 100,000 levels."""

from __future__ import annotations

import gc
import pickle
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from uopgraph import (
    AddrSpace,
    Ops,
    ParamArg,
    PatternMatcher,
    UOp,
    UPat,
    checking,
    dtypes,
    dump,
    from_json,
    graph_rewrite,
    live_nodes,
    order_key,
    to_json,
    type_verify,
)
from uopgraph.spec import full_spec

#: Seconds of processor time that each operation may take at 100,000 levels.
LIMIT = 10.0


def leaf(name: str, dtype: Any = dtypes.float32) -> UOp:
    return UOp.storage(Ops.PARAM, ParamArg(-1, dtype, name=name, addrspace=AddrSpace.ALU), ())


def unary(n: int) -> UOp:
    x = leaf("x")
    for i in range(n):
        x = x.sin() if i % 2 else x.exp()
    return x


def alternating(n: int, dtype: Any) -> UOp:
    weak = dtype is dtypes.weakint
    x = UOp.variable("x", 0, 5) if weak else leaf("x", dtype)
    y = UOp.variable("y", 0, 9) if weak else leaf("y", dtype)
    p = leaf("p", dtypes.bool)
    for i in range(n):
        x = x + y if i % 3 == 0 else x.maximum(y) if i % 3 == 1 else p.where(x, y)
    return x


def diamond(n: int) -> UOp:
    x = leaf("x")
    for _ in range(n // 3):
        x = x.sin() * x.exp()
    return x


def squares(n: int, dtype: Any) -> UOp:
    x = UOp.variable("x", 0, 5) if dtype is dtypes.weakint else leaf("x", dtype)
    for _ in range(n):
        x = x * x
    return x


GRAPHS: dict[str, Callable[[int], UOp]] = {
    "unary": unary,
    "alternating_float": lambda n: alternating(n, dtypes.float32),
    "alternating_index": lambda n: alternating(n, dtypes.weakint),
    "diamond": diamond,
    "squares_float": lambda n: squares(n, dtypes.float32),
    "squares_index": lambda n: squares(n, dtypes.weakint),
}

RULES = PatternMatcher(
    [
        (UPat(Ops.SIN, src=(UPat.var("x"),)), lambda x: x.cos()),
        (UPat(Ops.MAX, dtypes.floats, (UPat.var("x"), UPat.var("y"))), lambda x, y: x + y),
    ]
)


@contextmanager
def within(what: str, n: int) -> Iterator[None]:
    start = time.process_time()
    yield
    spent = time.process_time() - start
    assert spent < LIMIT * max(n / 100_000, 0.2), f"{what}: {spent:.2f} s for {n} levels"


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.sweep(default=2_500, full=100_000)
def test_deep_graphs(name: str, cases: int) -> None:
    """uopgraph checklist 12."""
    n = cases
    assert sys.getrecursionlimit() <= 1000
    with checking(1):
        gc.collect()
        start = live_nodes()
        with within("build", n):
            x = GRAPHS[name](n)
        assert x.depth > n // 3
        with within("dump", n):
            assert len(dump(x)) < 200 * len(x.toposort())
        with within("repr", n):
            assert repr(x).startswith("UOp(")
        with within("JSON", n):
            assert from_json(to_json(x)) is x
        with within("key", n):
            assert len(x.key) == 32
        with within("bounds", n):
            assert x.vmin <= x.vmax
        with within("shape", n):
            assert (x.shape, x.device, x.axis, dict(x.ranges)) == ((), None, None, {})
        with within("pickle", n):
            assert pickle.loads(pickle.dumps(x)) is x
        with within("order", n):
            assert sorted([x, x.src[0]], key=order_key)
        with within("substitute", n):
            old = next(v for v in x.toposort() if v.op is Ops.PARAM)
            new = UOp.variable("z", 0, 5) if old.dtype is dtypes.weakint else leaf("z", old.dtype)
            y = x.substitute({old: new})
            assert new in y.toposort()
            assert x.substitute({old: new}, walk=True) is y
        with within("rewrite", n):
            y = graph_rewrite(x, RULES)
            assert all(v.op is not Ops.SIN for v in y.toposort())
        with within("simplify", n):
            y = x.simplify()
            assert y.simplify() is y
        with within("verify", n):
            type_verify(x, full_spec)
        with within("free", n):
            del x, y, old, new
            assert live_nodes() <= start + 2
    # kilobytes; the peak of this whole process, so of every graph up to here
    if n >= 100_000:
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20


@pytest.mark.parametrize("shuffled", [False, True])
def test_long_sums(shuffled: bool) -> None:
    """5,000 distinct variables in under 2 s"""
    variables = [UOp.variable(f"v{i:04}", 0, 9) for i in range(5000)]
    terms = list(variables)
    if shuffled:
        random.Random(0).shuffle(terms)
    with checking(1):
        x = terms[0].usum(*terms[1:])
        start = time.process_time()
        y = x.simplify()
        assert time.process_time() - start < 2
        assert y is variables[0].usum(*variables[1:])


def test_nested_remainders() -> None:
    """14 levels of (x*3+i)//2 % 1000 in under 50 ms (the best of three)"""
    spent = []
    with checking(1):
        for name in ("u", "v", "w", "z"):  # the first compiles the rules
            x = UOp.variable(name, 0, 10**6)
            for i in range(14):
                x = (x * 3 + i) // 2 % 1000
            start = time.process_time()
            y = x.simplify()
            spent.append(time.process_time() - start)
            assert y.simplify() is y
            assert y.vmax == 999
    assert min(spent[1:]) < 0.05
