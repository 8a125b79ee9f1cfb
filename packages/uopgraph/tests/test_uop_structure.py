"""Views, effects, reductions, gated loads, bounds, and the rules of real arithmetic."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from uopgraph import (
    AddrSpace,
    Invalid,
    Ops,
    ParamArg,
    UOp,
    dtypes,
    evaluate,
    graph_rewrite,
    index_rules,
    sym,
)
from uopgraph.dtype import DType
from uopgraph.symbolic import fast_only, foreign_clauses, gated_loads, structure, valid_rules
from uopgraph.trace import profile

I, J, K = UOp.range(4, 0), UOp.range(6, 1), UOp.range(8, 2)
P = UOp.param(0, dtypes.float32, (4, 6), "cpu")
Q = UOp.param(1, dtypes.int32, (4, 6), "cpu")
N = UOp.param(2, dtypes.weakint, (), addrspace=AddrSpace.ALU, vmin_vmax=(0, 9), name="n")


def scalar(name: str, dtype: DType) -> UOp:
    return UOp.storage(Ops.PARAM, ParamArg(-1, dtype, name=name, addrspace=AddrSpace.ALU), ())


C, D = scalar("c", dtypes.bool), scalar("d", dtypes.bool)
X, Y, Z = (scalar(n, dtypes.float32) for n in "xyz")
STORE = P.index(I, J).store(X).end(I, J)


def reduce(x: UOp, *ranges: UOp, op: Ops = Ops.ADD) -> UOp:
    return UOp(Ops.REDUCE, None, (x, *ranges), (op, 0))


def noop() -> UOp:
    return UOp(Ops.NOOP, dtypes.void)


def examples() -> list[tuple[UOp, UOp]]:
    """(before, after) under ``sym``; every rule of structure, valid_rules and gated_loads fires in one of them."""
    b = UOp.new_buffer("cpu", 24, dtypes.float32, slot=900)
    v = b.reshape(4, 6)
    at, load = P.index(I, J), P.index(I, J).load()
    qi = Q.index(I, J).load()
    bad = P.index(UOp.invalid(), J)
    st = UOp(Ops.STACK, None, (X, Y))
    gated = P.index(I, (J - 1).valid(J < 5)).load()
    out = [
        # S28
        (UOp(Ops.RESHAPE, None, (v, UOp.shape_arg((4, 6)))), v),
        (v.reshape(6, 4).reshape(2, 12), b.reshape(2, 12)),
        (v.permute(1, 0).permute(1, 0), v),
        (UOp(Ops.PERMUTE, None, (v,), (0, 1)), v),
        (st.index(1), Y),
        (v.index(I).index(J), v.index(I, J)),
        (UOp(Ops.STACK, None, tuple(v.index(k) for k in range(4))), v),
        # A15
        (UOp(Ops.AFTER, None, (b,)), b),
        (UOp(Ops.END, None, (P.index(I, J).store(X),)), P.index(I, J).store(X)),
        (b.after(UOp.group(STORE, STORE, noop())), b.after(STORE)),
        (b.after(b.after(STORE).reshape(4, 6)), b.after(b.after(STORE))),
        (b.after(UOp.group(STORE, b.index(I).store(X))), b.after(STORE, b.index(I).store(X))),
        # A19
        (UOp(Ops.GROUP, None, (STORE,)), STORE),
        (
            UOp.make_sink(UOp.group(STORE, b.index(I).store(X)), noop()),
            UOp.make_sink(STORE, b.index(I).store(X)),
        ),
        # P10, A18
        (bad.store(X), noop()),
        (bad.load(), UOp.const(0.0, dtypes.float32)),
        (bad.load(Y), Y),
        (at.store(load), noop()),
        (at.store(C.where(X, load)), at.store(X, C)),
        (at.store(UOp.invalid()), noop()),
        (at.store(C.where(X, Invalid)), at.store(X, C)),
        (at.store(C.where(X, Invalid), D), at.store(X, C & D)),
        # A17
        (reduce(qi * Q.index(I, 0).load(), J), reduce(qi, J) * Q.index(I, 0).load()),
        (reduce(J * N, J, op=Ops.MAX), reduce(J, J, op=Ops.MAX) * N),
        (reduce(J * (N - 5), J, op=Ops.MAX), reduce(J * (N - 5), J, op=Ops.MAX)),
        (reduce(load * X, J), reduce(load * X, J)),
        # A11, A3
        (C.where(X, 1.0).cast(dtypes.int32), C.where(X.cast(dtypes.int32), UOp.const(1, dtypes.int32))),
        *(
            ((scalar("x", d) + scalar("y", d)) * -1, scalar("x", d) * -1 + scalar("y", d) * -1)
            for d in dtypes.ints
        ),
        # V1, V2
        ((I < 2) & (I < 3), I < 2),
        ((I % 2).valid(I < 2), I.valid(I < 2)),
        # V4
        ((J < 5).where(P.index(I, J).load(), 0.0), P.index(I.valid(J < 5), J).load()),
        ((J < 5).where(0.0, P.index(I, J).load()), P.index(I.valid((J < 5).logical_not()), J).load()),
        ((K < 5).where(P.index(I, J).load(), 0.0), (K < 5).where(P.index(I, J).load(), 0.0)),
    ]
    assert gated.src[0].src[2].get_valid() is (J < 5)
    return out


def test_every_structural_rule_fires() -> None:
    """uopgraph checklist 54, 56, 65, 68."""
    with profile() as p:
        for before, after in examples():
            got = graph_rewrite(before, sym)
            want = graph_rewrite(after, sym)
            assert got is want, f"{before!r}\n-> {got!r}\nnot {want!r}"
        graph_rewrite((I % 2).valid((I < 2) & (K < 3)), index_rules + foreign_clauses)
    fired = {rule for rule, s in p.stats.items() if s.hits}
    rules = (*structure.rules, *valid_rules.rules, *gated_loads.rules, *foreign_clauses.rules)
    silent = [f"{r.location} {r.pattern}" for r in rules if r not in fired]
    assert not silent


def test_a_gated_load_keeps_its_validity() -> None:
    """uopgraph checklist 64: no access is created outside the index's own validity"""
    own = P.index(I.valid(I < 3), J).load()
    out = graph_rewrite((I < 3).where(own, 0.0), sym)
    assert out is own
    both = graph_rewrite((J < 5).where(own, 0.0), sym)
    valid = both.src[0].src[1].get_valid()
    assert set(valid.split_uop(Ops.AND)) == {I < 3, J < 5}
    data = graph_rewrite((Q.index(I, J).load() < 3).where(own, 0.0), sym)
    assert data.op is Ops.WHERE


def test_foreign_clauses() -> None:
    """uopgraph checklist 65."""
    idx = I.valid((I < 3) & (K < 5))
    assert graph_rewrite(idx, index_rules) is idx.simplify()
    assert graph_rewrite(idx, index_rules + foreign_clauses) is I.valid(I < 3)


def test_closure_folding_leaves_reads_alone() -> None:
    """uopgraph checklist 67."""
    c = I < 2
    assert c.where(c.where(X, Y) + Z, Y).simplify() is c.where(X + Z, Y)
    read = P.index(c.where(I, J), J)
    kept = c.where(read, X)
    assert kept.simplify().src[1] is read


# bounds ----------------------------------------------------------------------------------------------------

INTERVALS = [(0, 0), (0, 3), (1, 5), (-4, -1), (-3, 3), (-2, 0), (7, 7), (-1, -1), (2, 12)]
BINARY = [
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV),
    *(Ops.CMOD, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.SHL, Ops.SHR),
]


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.weakint, dtypes.int8], ids=lambda d: d.name)
def test_bounds_of_every_operation(op: Ops, dtype: DType) -> None:
    """uopgraph checklist 62: graph spec 8, every pair of intervals, and the interval is exact where the table says so"""
    for (a, b), (c, d) in itertools.product(INTERVALS, repeat=2):
        x = UOp.variable("x", a, b, dtype)
        y = UOp.const(c, dtype) if c == d else UOp.variable("y", c, d, dtype)
        node = x.alu(op, y)
        values = []
        for p, q in itertools.product(range(a, b + 1), range(c, d + 1)):
            if (q == 0 and op in (Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD)) or (
                q < 0 and op in (Ops.SHL, Ops.SHR)
            ):
                continue
            values.append(evaluate(node, lambda n, p=p, q=q: p if n.expr == "x" else q))
        assert all(node.vmin <= v <= node.vmax for v in values), (op, (a, b), (c, d), node.vmin, node.vmax)
        if dtype is dtypes.int8:
            continue  # what wraps has the full range
        if op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX) or (op is Ops.FLOORDIV and (c > 0 or d < 0)):
            assert (node.vmin, node.vmax) == (min(values), max(values))


def test_bounds_that_wrap_or_saturate() -> None:
    """reading "Values" """
    x = UOp.variable("x", 100, 120, dtypes.int8)
    assert ((x + 10).vmin, (x + 10).vmax) == (-128, 127)
    assert ((x + 5).vmin, (x + 5).vmax) == (105, 125)
    u = UOp.variable("u", 0, 3, dtypes.uint8)
    assert (u * -1).vmax == 255
    huge = UOp.const(2**799)
    assert (huge + 5).simplify() is UOp.const(2**799 + 5)
    assert (huge < huge + 1).vmin is False
    wide = scalar("w", dtypes.weakint)
    assert (wide + 1).vmax == 2**799
    assert ((wide % 7).vmin, (wide % 7).vmax) == (0, 6)
    assert (wide * 2 < wide * 2 + 1).vmin is False
    beyond = UOp.variable("b", 0, 2**799 + 1)
    assert beyond.vmax == 2**799
    assert C.where(beyond, beyond * 2).vmax == 2**799  # no bound, not the bound of one branch
    assert UOp.range(beyond, 7).vmax == 2**799
    empty = UOp.range(0, 5)
    assert (empty.vmin, empty.vmax) == (0, -1)
    assert (empty // 4).vmin <= (empty // 4).vmax


@pytest.mark.parametrize(
    "dtype", [*dtypes.ints, dtypes.bool, dtypes.float16, dtypes.weakint], ids=lambda d: d.name
)
def test_bounds_of_casts(dtype: DType) -> None:
    """uopgraph checklist 62."""
    for a, b in [*INTERVALS, (200, 300), (-40000, 5), (-(2**31), 2**31 - 1)]:
        node = UOp.variable("x", a, b).cast(dtype)
        for v in {a, b, (a + b) // 2}:
            got = evaluate(node, lambda n, v=v: v)
            assert node.vmin <= got <= node.vmax


# real arithmetic ---------------------------------------------------------------------------------------------


def fast_examples() -> list[tuple[UOp, UOp]]:
    f = dtypes.float32
    load = P.index(I, J).load()
    one, zero = UOp.const(1.0, f), UOp.const(0.0, f)
    return [
        (UOp.const(0.0, f).exp(), one),
        (X + 0.0, X),
        (X * 0.0, zero),
        (X / X, one),
        ((X * Y) / Y, X),
        (X / 4.0, X * 0.25),
        (X**8, ((X * X) * (X * X)) * ((X * X) * (X * X))),
        (X**-2, (X * X).reciprocal()),
        (X**0.5, X.sqrt()),
        (UOp.const(2.0, f) ** X, X.exp2()),
        ((X + 1.0) + 2.0, X + 3.0),
        ((X * 2.0) * 3.0, X * 6.0),
        (X * 2.0 + X * 3.0, X * 5.0),
        (X * 2.0 + X, X * 3.0),
        ((X / Y) / Z, X / (Y * Z)),
        (X * X.reciprocal(), one),
        (reduce(load * X, J), reduce(load, J) * X),
        (X / (X + 1.0), 1.0 + 1.0 / (X + 1.0) * -1.0),
        (X * (1.0 / (X + 1.0)), 1.0 + 1.0 / (X + 1.0) * -1.0),
        (X * ((X + 1.0).reciprocal() * Y), (1.0 + 1.0 / (X + 1.0) * -1.0) * Y),
        (X * ((X + 1.0).reciprocal() + Y), 1.0 + 1.0 / (X + 1.0) * -1.0 + X * Y),
        ((X * 4.0).reciprocal(), X.reciprocal() * 0.25),
        ((X * X).reciprocal(), X.reciprocal() * X.reciprocal()),
    ]


def test_every_fast_rule_fires_only_when_asked() -> None:
    """reading "Values": fast rules are a set of their own"""
    with profile() as p:
        for before, after in fast_examples():
            got = before.simplify(fast=True)
            assert got is after.simplify(fast=True), f"{before!r}\n-> {got!r}"
            assert before.simplify() is not got
    fired = {rule for rule, s in p.stats.items() if s.hits}
    silent = [f"{r.location} {r.pattern}" for r in fast_only.rules if r not in fired]
    assert not silent


def test_fast_rules_are_right_up_to_rounding() -> None:
    rng = np.random.default_rng(0)
    functions: dict[Ops, Any] = {Ops.EXP2: lambda v: 2.0**v, Ops.SQRT: math.sqrt, Ops.EXP: math.exp}
    for before, _ in fast_examples():
        if before.op is Ops.REDUCE:
            continue
        after = before.simplify(fast=True)
        for _ in range(5):
            env = dict(zip("xyz", rng.uniform(0.5, 2.0, 3), strict=True))

            def value(root: UOp, env: dict[str, float] = env) -> float:
                known: dict[UOp, float] = {}
                for n in root.toposort():
                    s = [known[k] for k in n.src if k in known]
                    match n.op:
                        case Ops.PARAM:
                            known[n] = env[n.arg.name]
                        case Ops.CONST:
                            known[n] = float(n.arg)
                        case Ops.POW:
                            known[n] = s[0] ** s[1]
                        case Ops.FDIV:
                            known[n] = s[0] / s[1]
                        case Ops.RECIPROCAL:
                            known[n] = 1 / s[0]
                        case Ops.ADD:
                            known[n] = s[0] + s[1]
                        case Ops.MUL:
                            known[n] = s[0] * s[1]
                        case op if op in functions:
                            known[n] = functions[op](s[0])
                return known[root]

            assert value(after) == pytest.approx(value(before), rel=1e-5)
