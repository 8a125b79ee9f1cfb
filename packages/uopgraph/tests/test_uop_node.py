"""Interning, memory, traversal."""

from __future__ import annotations

import gc
import math
import pickle
import subprocess
import sys
import threading

import pytest

from uopgraph import (
    BoundError,
    DTypeError,
    Ops,
    UnsupportedError,
    UOp,
    checking,
    consumer_map,
    dtypes,
    from_json,
    graph_rewrite,
    live_nodes,
    node,
    order_key,
    symbolic,
    to_json,
)
from uopgraph.order import compare


def chain(n: int, name: str = "a") -> UOp:
    a, b = UOp.variable(name, 0, 3), UOp.variable("b", 0, 3)
    x = a
    for _ in range(n):
        x = x + b
    return x


def test_same_fields_same_object() -> None:
    """uopgraph checklist 1, 2."""
    a, b = UOp.variable("a", 0, 3), UOp.variable("b", 0, 3)
    assert a + b is a + b
    assert (a + b).replace() is a + b
    assert (a + b).replace(src=(a, b), arg=None) is a + b
    with pytest.raises(AssertionError):
        a.replace(colour=1)


def test_tag_is_identity_but_not_content() -> None:
    """uopgraph checklist 3."""
    x = UOp.variable("a", 0, 3) * 2
    assert x.rtag("t") is not x
    assert x.rtag("t").key == x.key


def test_constants() -> None:
    """uopgraph checklist 4, 5."""
    assert UOp.const(0.0) is not UOp.const(-0.0)
    assert UOp.const(math.nan) is UOp.const(-math.nan)
    one = [UOp.const(1), UOp.const(True), UOp.const(1.0)]
    assert len(set(one)) == 3
    assert [c.dtype for c in one] == [dtypes.weakint, dtypes.bool, dtypes.weakfloat]
    assert UOp.const(-1, dtypes.uint8).arg == 255
    assert UOp.const(1, dtypes.float32) is UOp.const(1.0, dtypes.float32)
    assert UOp.const(0.1, dtypes.float16).arg == 0.0999755859375


def test_round_trips_give_live_objects() -> None:
    """uopgraph checklist 6."""
    x = (chain(5) * 3).maximum(UOp.range(4, 0)).rtag((1, "t"))
    assert pickle.loads(pickle.dumps(x)) is x
    assert from_json(to_json(x)) is x


#: Every derived fact that a module registers, and what nodes keep besides.
FACTS = sorted(node._rules)


def _properties(x: UOp) -> None:
    for n in x.toposort():
        for fact in FACTS:
            n._derive(fact)
        _ = n.src_ops, n.ranges, n.ended_ranges, n.const_factor()
    for n in [n for n in x.toposort() if n.dtype is dtypes.bool] + list(x.toposort())[-5:]:
        _ = n.backward_slice, n.bool_slice, n.variables(), n.simplify(), n.consumer_map()
        _ = sorted([n, *n.src], key=order_key)


def self_holding(x: UOp) -> UOp:
    """A graph on `x` of nodes that belong to one of their own facts: ranges, conditions, sizes."""
    n = UOp.variable("rows", 1, 9)
    r = UOp.range(n, 0)
    p = UOp.param(0, dtypes.float32, (n,), "cpu")
    read = p.index((x < r).where(r, n).valid((r < x) & (n < 5)))
    return UOp.make_sink(read.load(), p.reshape(n, 1).expand(n, 4), x)


@pytest.mark.parametrize("use", [lambda x: None, _properties, lambda x: x.simplify(), lambda x: x.toposort()])
def test_nodes_are_freed_by_counting(use: object) -> None:
    """uopgraph checklist 7, 8, 9."""
    self_holding(chain(10)).simplify()
    gc.collect()
    gc.disable()
    try:
        start = live_nodes()
        x = self_holding(chain(10_000))
        assert callable(use)
        use(x)
        assert live_nodes() > start + 10_000
        del x
        assert live_nodes() == start
    finally:
        gc.enable()


def test_rewrite_frees_its_nodes() -> None:
    """uopgraph checklist 9."""
    gc.disable()
    try:
        start = live_nodes()
        x = graph_rewrite(chain(1000) * 0, symbolic)
        assert x is UOp.const(0)
        del x
        assert live_nodes() <= start + 1
    finally:
        gc.enable()


def test_deep_chain() -> None:
    """uopgraph checklist 12."""
    assert sys.getrecursionlimit() <= 1000
    with checking(1):
        x = chain(20_000)
    assert (x.shape, x.vmax, len(x.key), x.depth) == ((), 60_003, 32, 20_001)
    assert compare(x, chain(20_000, "c")) == -compare(chain(20_000, "c"), x) != 0
    assert len(x.toposort()) == 20_003
    assert len(repr(x)) > 1000
    assert pickle.loads(pickle.dumps(x)) is x
    b = UOp.variable("b", 0, 3)
    assert x.substitute({b: UOp.variable("c", 0, 3)}).vmax == 60_003
    with checking(1):
        assert graph_rewrite(x, symbolic) is UOp.variable("a", 0, 3) + b * 20_000
    before = live_nodes()
    del x
    assert live_nodes() < before - 19_000


def test_threads_build_the_same_objects() -> None:
    """uopgraph checklist 13."""
    results: list[UOp] = []
    gate = threading.Barrier(4)

    def build() -> None:
        gate.wait()
        results.append(chain(2000, "threaded"))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4
    assert all(r is results[0] for r in results)


def test_toposort() -> None:
    """uopgraph checklist 26, 27, 28."""
    a, b = UOp.variable("a", 0, 3), UOp.variable("b", 0, 3)
    x = (a + b) * (a + b + 1)
    order = list(x.toposort())
    assert len(order) == len(set(order))
    place = {n: i for i, n in enumerate(order)}
    assert all(place[s] < place[n] for n in order for s in n.src)
    inner = (a + 1) * b
    outer = inner + a
    kept = outer.toposort(gate=lambda n: n is not inner)
    assert inner not in kept
    assert b not in kept
    assert a in kept
    call = inner.call(a)
    assert inner not in call.toposort(enter_calls=False)
    assert a in call.toposort(enter_calls=False)
    top = UOp.make_sink(x, call, x, outer, *(x + i for i in range(50)), call)
    for enter in (True, False):  # with and without a gate: one order, the first source first
        assert list(top.toposort(enter_calls=enter)) == list(top.toposort(lambda n: True, enter))


def test_toposort_is_the_same_in_every_process() -> None:
    """uopgraph checklist 26."""
    code = (
        "from uopgraph import *\n"
        "a, b = UOp.variable('a', 0, 3), UOp.variable('b', 0, 3)\n"
        "p = UOp.param(0, dtypes.float32, (4, 4), 'cpu')\n"
        "x = (a + b) * (b + a * 3).maximum(a) % 7\n"
        "root = p.index(x, a).store(p.index(a, x).load() + 1.0).sink(b.sink())\n"
        "assert list(root.toposort()) == list(root.toposort())\n"
        "print([(n.op.name, n.key.hex()) for n in root.toposort()])\n"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
    assert runs.pop().count("ADD") == 3


def test_consumer_map() -> None:
    """uopgraph checklist 29."""
    a = UOp.variable("a", 0, 3)
    square = a * a
    assert list(consumer_map((square + a).toposort())[a]) == [square, square + a]


def test_order_is_total_and_stable() -> None:
    """uopgraph checklist 30, 69."""
    code = (
        "from uopgraph import *\n"
        "a, b, r = UOp.variable('a', 0, 3), UOp.variable('b', 0, 9), UOp.range(4, 1)\n"
        "ns = [a, b, r, a + b, b + a, a * 3, a * 4, UOp.const(1), UOp.const(1.5)]\n"
        "ns += [UOp.invalid(), (a < b), a.rtag(1)]\n"
        "print([infix(n) for n in in_order(ns)], [n.key.hex() for n in ns])\n"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    a, b = UOp.variable("a", 0, 3), UOp.variable("b", 0, 9)
    nodes = [a, b, a + b, b + a, a * 3, a * 4, a < b, UOp.const(1), a.rtag(1), (a + b) * 2, (b + a) * 2]
    for x in nodes:
        for y in nodes:
            assert (compare(x, y) == 0) == (x is y)
            assert compare(x, y) == -compare(y, x)
    backwards = nodes[::-1]
    assert sorted(nodes, key=order_key) == sorted(backwards, key=order_key)


def test_variables() -> None:
    """graph spec 7"""
    v = UOp.variable("n", 2, 32, multiple_of=2)
    assert v.bind(4).unbound() is v
    for bad in (1, 34, 3):
        with pytest.raises(BoundError):
            v.bind(bad)
    assert [x.expr for x in (UOp.variable("z", 0, 1) + v.bind(4) * v).variables()] == ["n", "z"]
    assert int(UOp.const(3) * 4) == 12
    with pytest.raises(BoundError):
        int(v)


def test_out_of_scope_operations() -> None:
    """reading: program-stage operations raise"""
    with pytest.raises(UnsupportedError, match="SPECIAL"):
        UOp(Ops.SPECIAL, dtypes.int32, (UOp.const(4),), "g0")
    with pytest.raises(DTypeError):
        UOp.new_buffer("cpu", 4, dtypes.weakint)
