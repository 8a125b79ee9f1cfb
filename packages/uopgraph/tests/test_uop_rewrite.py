"""Patterns, matchers and the rewrite engine."""

from __future__ import annotations

import importlib
import pkgutil
import random
from typing import Any

import pytest

import uopgraph
from uopgraph import (
    BottomUpGate,
    Ops,
    PatternError,
    PatternMatcher,
    RewriteError,
    UOp,
    UPat,
    dtypes,
    graph_rewrite,
    index_rules,
    rewrite,
    sym,
    symbolic,
)
from uopgraph.decompose import EXACT, decompositions
from uopgraph.ops import GroupOp
from uopgraph.spec import full_spec, kernel_graph_spec, program_spec, tensor_spec
from uopgraph.symbolic import fast_symbolic


def var(name: str, dtype: Any = dtypes.weakint) -> UOp:
    return UOp.variable(name, 0, 9, dtype)


A, B, C = var("a"), var("b"), var("c")


# patterns ---------------------------------------------------------------------------------------


def test_source_forms() -> None:
    """uopgraph checklist 31."""
    x, c = UPat.var("x"), UPat.cvar("c")
    assert UPat(Ops.ADD, src=[x, c]).match(UOp.const(3) + A)
    assert UPat(Ops.ADD, src=[x, c]).match(A + 3)
    assert UPat(Ops.ADD, src=(x, c)).match(A + 3)
    assert not UPat(Ops.ADD, src=(x, c)).match(UOp.const(3) + A)
    every = UPat(Ops.SINK, src=UPat(Ops.PARAM))
    assert every.match(UOp.make_sink())
    assert every.match(UOp.make_sink(A, B, C))
    assert not every.match(UOp.make_sink(A, B + C))
    lanes = UPat(Ops.PARAM).broadcast(name="s")
    assert lanes.match(UOp(Ops.STACK, None, (A, B)))
    assert not lanes.match(UOp(Ops.STACK, None, (A, B + C)))


def test_repeated_name() -> None:
    """uopgraph checklist 32."""
    x = UPat.var("x")
    assert (x + x).match(A + A)
    assert not (x + x).match(A + B)
    assert (x * 2 + x).match(A * 2 + A)
    assert not (x * 2 + x).match(A * 2 + B)


def test_arguments() -> None:
    """uopgraph checklist 33."""
    zero = UPat(Ops.CONST, arg=0)
    for c in (UOp.const(0), UOp.const(False), UOp.const(0.0)):
        assert zero.match(c)
    assert not zero.match(UOp.const(1))
    assert UPat(Ops.CONST, arg=1).match(UOp.const(True))
    assert UPat(Ops.CONST).match(UOp.const(7))


def test_any_length() -> None:
    """uopgraph checklist 34."""
    two = UPat(Ops.SINK, src=(UPat(), UPat()), allow_any_len=True)
    assert two.match(UOp.make_sink(A, B, C))
    assert two.match(UOp.make_sink(A, B))
    assert not two.match(UOp.make_sink(A))


def test_any_tries_until_a_result() -> None:
    """uopgraph checklist 35."""
    tried: list[UOp] = []
    pattern = UPat(Ops.NEG, src=(UPat.any(UPat(Ops.ADD, src=(UPat.var("x"), UPat())), UPat.var("x")),))
    pm = PatternMatcher([(pattern, _any_rule)])
    node = (A + B).alu(Ops.NEG)
    assert pm.rewrite(node, tried) is B
    assert tried == [A, A + B]


def _any_rule(ctx: list[UOp], x: UOp) -> UOp | None:
    ctx.append(x)
    return None if x is A else B


def test_early_reject_does_not_enter() -> None:
    """uopgraph checklist 36."""
    rule = UPat(Ops.ADD, src=(UPat(Ops.MUL), UPat.var("x")))
    assert rule.early_reject == {Ops.MUL}
    custom = UPat(GroupOp.ALU, name="x", custom_early_reject={Ops.UNSHARD})
    calls: list[UOp] = []
    pm = PatternMatcher([(custom, _record)])
    for _ in range(60):  # interpreted, then compiled
        assert pm.rewrite(A + B, calls) is None
    assert calls == []
    assert PatternMatcher([(UPat(GroupOp.ALU, name="x"), _record)]).rewrite(A + B, calls) is None
    assert calls == [A + B]


def _record(ctx: list[UOp], x: UOp) -> None:
    ctx.append(x)


def test_rules_run_in_order() -> None:
    """uopgraph checklist 37."""
    first = PatternMatcher([(UPat(Ops.ADD, name="x"), lambda x: x), (UPat(Ops.ADD), lambda: B)])
    second = PatternMatcher([(UPat((Ops.ADD, Ops.MUL)), lambda: C)])
    assert first.rewrite(A + B) is B
    assert (first + second).rewrite(A + B) is B
    assert (second + first).rewrite(A + B) is C
    assert (first + second).rewrite(A * B) is C
    assert first + second is first + second
    assert first.rewrite(A * B) is None


def library_matchers() -> dict[str, PatternMatcher]:
    """Every matcher that a module of the library holds, by module and name."""
    found: dict[str, PatternMatcher] = {"decompositions": decompositions(EXACT)}
    for info in pkgutil.walk_packages(uopgraph.__path__, "uopgraph."):
        for name, value in vars(importlib.import_module(info.name)).items():
            if isinstance(value, PatternMatcher) and value not in found.values():
                found[f"{info.name.removeprefix('uopgraph.')}.{name}"] = value
    return found


MATCHERS = library_matchers()


def test_the_library_has_these_matchers() -> None:
    for pm in (
        symbolic,
        index_rules,
        sym,
        fast_symbolic,
        tensor_spec,
        kernel_graph_spec,
        program_spec,
        full_spec,
    ):
        assert pm in MATCHERS.values()
    assert len(MATCHERS) > 20


def random_nodes(rng: random.Random, n: int) -> list[UOp]:
    kinds = [dtypes.weakint, dtypes.int8, dtypes.bool, dtypes.float32]
    pool = {
        d: [var(f"{v}_{d.name}", d) if d is not dtypes.bool else UOp.variable(v, 0, 1, d) for v in "ab"]
        for d in kinds
    }
    for d in kinds:
        pool[d] += [UOp.const(c, d) for c in ((0, 1, 2, -1, 4) if d is not dtypes.bool else (False, True))]
    pool[dtypes.weakint].append(UOp.range(4, 0))
    pool[dtypes.bool].append(UOp.invalid())
    out: list[UOp] = []
    while len(out) < n:
        d = rng.choice(kinds)
        a, b = rng.choice(pool[d]), rng.choice(pool[d])
        match rng.randrange(5):
            case 0:
                x = rng.choice(pool[dtypes.bool]).alu(Ops.WHERE, a, rng.choice([b, UOp.invalid()]))
            case 1:
                x = a.alu(rng.choice([Ops.CMPLT, Ops.CMPNE]), b)
            case 2:
                x = a.cast(rng.choice(kinds))
            case _:
                ops = [Ops.ADD, Ops.MUL, Ops.MAX]
                if not d.is_float:
                    ops += [Ops.AND, Ops.OR, Ops.XOR, Ops.FLOORDIV, Ops.FLOORMOD]
                x = a.alu(rng.choice(ops), b)
        out.append(x)
        pool[x.dtype].append(x)
        if len(pool[x.dtype]) > 60:
            pool[x.dtype].pop(rng.randrange(7, 60))
    return out


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.sweep(default=150, full=10_000)
def test_compiled_and_interpreted_agree(name: str, cases: int) -> None:
    """uopgraph checklist 38."""
    pm = MATCHERS[name]
    functions: dict[Ops, Any] = {}
    for node in random_nodes(random.Random(name), cases):
        if node.op not in functions:
            functions[node.op] = pm.compiled(node.op)
        ctx = {node: A} if name == "rewrite._SUBSTITUTE" else None
        try:
            want = pm.interpret(node, ctx)
        except (ZeroDivisionError, AttributeError) as e:
            with pytest.raises(type(e)):
                functions[node.op](node, ctx)
            continue
        got = functions[node.op](node, ctx)
        assert got is want or (not isinstance(want, UOp) and got == want), node


def test_too_large_a_pattern_still_works() -> None:
    """uopgraph checklist 39."""
    leaf = [UPat(Ops.CONST, arg=i) for i in range(4)]
    pattern = UPat(Ops.SINK, src=list(leaf))
    deep = UPat(Ops.GROUP, src=[pattern, UPat(Ops.NOOP, name="x")])
    pm = PatternMatcher([(deep, lambda x: x)])
    sink = UOp.make_sink(*(UOp.const(i) for i in (3, 1, 0, 2)))
    noop = UOp(Ops.NOOP, dtypes.void)
    for _ in range(60):
        assert pm.rewrite(UOp.group(noop, sink)) is noop
        assert pm.rewrite(UOp.group(noop, sink.replace(src=sink.src[:3]))) is None


def test_rule_functions() -> None:
    """uopgraph checklist 40."""
    captured = A

    def closure(x: UOp) -> UOp:
        return captured + x

    with pytest.raises(PatternError, match="closure"):
        PatternMatcher([(UPat(Ops.ADD, name="x"), closure)])
    with pytest.raises(PatternError, match="accepted"):
        PatternMatcher([(UPat(Ops.ADD, name="y"), lambda x: x)])
    with pytest.raises(PatternError, match="operations"):
        PatternMatcher([(UPat.var("x"), lambda x: x)])
    with pytest.raises(PatternError, match="reserved"):
        UPat.var("ctx")
    pm = PatternMatcher([(UPat(Ops.ADD, name="x"), lambda ctx, x: ctx[x])])
    assert pm.rewrite(A + B, {A + B: C}) is C


# engine -----------------------------------------------------------------------------------------


def test_result_is_a_fixed_point() -> None:
    """uopgraph checklist 41."""
    x = ((A + 1) * 2 + (B + 3) * 4 - A) // 2
    y = graph_rewrite(x, symbolic)
    assert all(symbolic.rewrite(n) is None for n in y.toposort())


def test_shared_nodes_once() -> None:
    """uopgraph checklist 42."""
    calls: list[UOp] = []
    pm = PatternMatcher([(UPat(Ops.ADD, name="x"), _record)])
    s = A + B
    graph_rewrite(UOp.make_sink(s * 2, s * 3, s), pm, calls)
    assert calls == [s]


def _pre(ctx: list[tuple[str, UOp]], x: UOp) -> None:
    ctx.append(("pre", x))


def _post(ctx: list[tuple[str, UOp]], x: UOp) -> None:
    ctx.append(("post", x))


def test_visiting_order() -> None:
    """uopgraph checklist 43."""
    one, two = UOp.const(1), UOp.const(2)
    seen: list[tuple[str, UOp]] = []
    every = UPat((Ops.ADD, Ops.CONST), name="x")
    graph_rewrite(one + two, PatternMatcher([(every, _post)]), seen, bpm=PatternMatcher([(every, _pre)]))
    plus = one + two
    assert seen == [("pre", plus), ("pre", one), ("post", one), ("pre", two), ("post", two), ("post", plus)]


BOUNCE = PatternMatcher(
    [(UPat(Ops.CONST, arg=3), lambda: UOp.const(4)), (UPat(Ops.CONST, arg=4), lambda: UOp.const(3))]
)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_bouncing_rules(bottom_up: bool) -> None:
    """uopgraph checklist 44."""
    x = A + 3
    with pytest.raises(RewriteError, match=r"infinite loop.*test_uop_rewrite\.py") as e:
        graph_rewrite(x, BOUNCE, bottom_up=bottom_up)
    assert e.value.rules
    assert graph_rewrite(x, BOUNCE, bottom_up=bottom_up, walk=True) is A + 4


def test_own_node_does_not_loop() -> None:
    """uopgraph checklist 45."""
    pm = PatternMatcher([(UPat(GroupOp.All, name="x"), lambda x: x)])
    assert graph_rewrite(A + B, pm) is A + B
    assert graph_rewrite(A + B, pm, bottom_up=True) is A + B


def _stop_at_mul(ctx: list[UOp], x: UOp) -> UOp | None:
    ctx.append(x)
    if x.op is Ops.MUL:
        raise BottomUpGate
    return None


def test_gate() -> None:
    """uopgraph checklist 46."""
    seen: list[UOp] = []
    pm = PatternMatcher([(UPat(GroupOp.All, name="x"), _stop_at_mul)])
    inner = (A + B) * C
    assert graph_rewrite(inner + A, pm, seen, bottom_up=True) is inner + A
    assert A + B not in seen
    assert C not in seen
    change = PatternMatcher([(UPat(Ops.SUB, src=(UPat.var("p"), UPat.var("q"))), lambda p, q: p * q)])
    sub = A.alu(Ops.SUB, B)
    assert graph_rewrite(sub + 1, change + pm, seen, bottom_up=True) is A * B + 1


def test_substitute_modes() -> None:
    """uopgraph checklist 47, 48, 49."""
    d = var("d")
    x = A + 4
    assert x.substitute({A: B + C, B: d}) is (d + C) + 4
    assert x.substitute({A: B + C, B: d}, walk=True) is (B + C) + 4
    f = var("f", dtypes.float32)
    rules = {f.sin(): f.sqrt(), f.sin().sin(): f.sin().sqrt()}
    assert f.sin().sin().substitute(rules) is f.sqrt().sqrt()
    assert f.sin().sin().substitute(rules, walk=True) is f.sin().sqrt()
    post = PatternMatcher([(UPat(GroupOp.All, name="x"), lambda ctx, x: ctx.get(x))])
    assert graph_rewrite(f.sin().sin(), post, rules, walk=True) is f.sqrt().sin()
    assert (A + B).substitute({A: A * 2}, walk=True) is A * 2 + B
    assert (A + B).substitute({}) is A + B
    assert (A + B).substitute({A: A}) is A + B


def test_extra_rules_prune_substitute() -> None:
    """graph spec 10.5"""
    prune = PatternMatcher([(UPat(Ops.MUL, name="x"), _prune)])
    assert (A * 2 + A).substitute({A: B}, extra_pm=prune) is A * 2 + B


def _prune(x: UOp) -> UOp:
    raise BottomUpGate


def test_tag_survives() -> None:
    """uopgraph checklist 50."""
    x = (A + B).rtag("t") * 2
    y = x.substitute({A: C})
    assert y.src[0].tag == "t"
    assert y.src[0].src == (C, B)


def test_call_bodies() -> None:
    """uopgraph checklist 51."""
    body = (A + B).sink()
    call = body.call(A + B)
    pm = PatternMatcher([(UPat(Ops.ADD, src=(UPat.var("x"), UPat.var("y"))), lambda x, y: x * y)])
    out = graph_rewrite(call, pm)
    assert out.src[0] is body
    assert out.src[1] is A * B
    assert graph_rewrite(call, pm, enter_calls=True).src[0] is (A * B).sink()
    assert graph_rewrite(call, pm, walk=True).src[0] is body


def test_growing_rewrite_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """uopgraph checklist 52."""
    monkeypatch.setattr(rewrite, "STACK_LIMIT", 2000)
    here = r"infinite loop.*last rules: test_uop_rewrite\.py:\d+"
    grow = PatternMatcher([(UPat(Ops.NEG, src=(UPat.var("x"),)), lambda x: (x + 1).alu(Ops.NEG))])
    with pytest.raises(RewriteError, match=here) as e:
        graph_rewrite(A.alu(Ops.NEG), grow)
    assert e.value.rules == (grow.rules[0].location,)
    wrap = PatternMatcher([(UPat(Ops.NEG, name="x"), lambda x: x + 1)])
    with pytest.raises(RewriteError, match=here):
        graph_rewrite(A.alu(Ops.NEG), wrap)


def test_dtype_is_derived_again() -> None:
    """uopgraph checklist 53."""
    a8, b8 = var("a", dtypes.int8), var("b", dtypes.int8)
    x = (a8 + b8) * a8
    y = x.substitute({a8: var("a", dtypes.int16), b8: var("b", dtypes.int16)})
    assert y.dtype is dtypes.int16
