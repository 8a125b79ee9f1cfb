"""Text, JSON, tracing and the viewer."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from typing import Any

import pytest

from uopgraph import (
    AxisType,
    BottomUpGate,
    BufferizeOpts,
    EncodingError,
    KernelInfo,
    Ops,
    PatternMatcher,
    UOp,
    UPat,
    dtypes,
    dump,
    from_json,
    graph_rewrite,
    infix,
    pyeval,
    pyrender,
    symbolic,
    to_json,
    viz,
)
from uopgraph.rewrite import observer
from uopgraph.trace import cpu_profile, profile, recording, rewrite_group

A, B = UOp.variable("a", 0, 9), UOp.variable("b", 0, 9)


def sample() -> UOp:
    x = UOp.new_buffer("cpu", 24, dtypes.float16, slot=1).reshape(4, 6)
    i, j = UOp.range(4, 0), UOp.range(6, 1, AxisType.REDUCE)
    p = UOp.param(0, dtypes.float16, (4, 6), ("d0", "d1"), axis=0)
    body = p.index(i, j.valid(j < 5)).load() * float("inf") + 0.1
    red = UOp(Ops.REDUCE, None, (body, j), (Ops.ADD, 0)).stage(i, opts=BufferizeOpts("cpu", removable=False))
    k = red.sink(arg=KernelInfo("r_4_6", (AxisType.LOOP,))).call(x.base, A.bind(3), name="k")
    return UOp.make_sink(
        k, x.after(k).flip(1).rtag((1, "t")), (A + 2**70) * -5, UOp.const(-0.0), UOp.invalid()
    )


def test_json_round_trip() -> None:
    """uopgraph checklist 6."""
    x = sample()
    text = to_json(x)
    assert from_json(text) is x
    assert json.loads(text)["uopgraph"] == 1
    assert text.count("\n") == len(x.toposort()) + 1
    assert pickle.loads(pickle.dumps(x)) is x


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "format"),
        ('{"uopgraph": 2, "rows": []}', "format"),
        ('{"uopgraph": 1, "rows": []}', "root"),
        ('{"uopgraph": 1, "rows": [["CONST", "weakint", [0], 1, null]]}', "row 0"),
        ('{"uopgraph": 1, "rows": [["NOPE", "weakint", [], 1, null]]}', "row 0"),
        ('{"uopgraph": 1, "rows": [["CONST", "int9", [], 1, null]]}', "row 0"),
        ('{"uopgraph": 1, "rows": [["CONST", "weakint", [], {"what": 1}, null]]}', "row 0"),
        ('{"uopgraph": 1, "rows": [["CONST", "weakint", []]]}', "row 0"),
    ],
)
def test_bad_json(text: str, message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        from_json(text)


def test_unknown_argument_has_no_json() -> None:
    with pytest.raises(EncodingError):
        to_json(UOp(Ops.CUSTOM, dtypes.int32, (), frozenset()))


def test_python_form() -> None:
    """uopgraph checklist 73."""
    x = sample()
    assert pyeval(pyrender(x)) is x
    assert pyeval(pyrender(UOp.const(float("nan")) + A)) is UOp.const(float("nan")) + A
    assert pyrender(A + 1).splitlines()[-1] == "c3 = UOp(Ops.ADD, dtypes.weakint, (c1, c2,))"


@pytest.mark.sweep(default=40, full=2_000)
def test_python_form_of_random_graphs(cases: int) -> None:
    """uopgraph checklist 73."""
    for seed in range(cases):
        rng = random.Random(seed)
        x = random_expression(rng, 3).valid(rng.randint(0, 9) > A)
        p = UOp.param(
            0, rng.choice([dtypes.float16, dtypes.int8]), (40, B), rng.choice(["cpu", ("d0", "d1")])
        )
        root = UOp.make_sink(p.index(x).store(p.index(x + 1).load() * 0.5), p.permute(1, 0).rtag(seed))
        assert pyeval(pyrender(root)) is root


def test_repr_writes_shared_nodes_once() -> None:
    """uopgraph checklist 74."""
    s = A + B
    text = repr(s * s)
    assert text.count("ADD") == 1
    assert "x0:=UOp(ADD, weakint, arg=None)" in text
    assert text.splitlines()[-1] == "  x0"


def test_dump_is_linear() -> None:
    x = A
    for _ in range(2000):
        x = x + x
    assert len(dump(x)) < 2004 * 60
    assert dump(A + 1).splitlines()[-1] == "%3 = ADD weakint %1 %2"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ((A + B) * 2 // 3, "(a+b)*2//3"),
        (A - 3, "a-3"),
        (A * (B + 1), "a*(b+1)"),
        ((A < B).where(A, B), "(a if a<b else b)"),
        ((A < B).logical_not(), "(not a<b)"),
        (UOp.range(4, 2) % 3, "r2%3"),
        (A.maximum(B), "max(a, b)"),
        (A.cdiv(2), "cdiv(a, 2)"),
        (A - (B - 1), "a+(b-1)*(-1)"),
        (A.cast(dtypes.int8), "int8(a)"),
    ],
)
def test_infix(x: UOp, text: str) -> None:
    assert infix(x) == text


def test_infix_of_repeated_squaring_is_short() -> None:
    x = A
    for _ in range(200):
        x = x * x
    assert len(infix(x)) < 50_000


# tracing ----------------------------------------------------------------------------------------


def test_profile_counts() -> None:
    """uopgraph checklist 75."""
    x = (A * 4 + 3) // 16 + A * 0
    assert observer.get() is None
    with profile() as p:
        y = x.simplify()
    assert observer.get() is None
    assert y is x.simplify()
    assert sum(s.hits for s in p.stats.values()) > 2
    assert all(s.hits + s.misses == s.tries for s in p.stats.values())
    assert set(p.stats) == set(symbolic.rules)  # also those that no node of this graph could match
    silent = sum(s.hits == 0 for s in p.stats.values())
    assert p.table().endswith(f"{silent} of {len(symbolic.rules)} rules never fired")
    assert {"hits", "misses"}.isdisjoint(vars(PatternMatcher))
    assert "rules never fired" in p.table()
    assert [s.name for s in p.spans] == ["simplify"]
    assert p.groups == []


def test_replay_ends_in_the_result() -> None:
    """uopgraph checklist 76."""
    x = ((A * 4 + 3) // 16 + (B + 0) * 1 + A * 0).maximum(A - A)
    with recording() as t:
        y = x.simplify()
    (record,) = t.groups[0].rewrites
    steps = list(t.replay(record))
    assert len(steps) == len(record.matches) > 3
    assert steps[-1].graph is y
    assert all(s.changed or s.after in s.before.backward_slice for s in steps)
    product = next(s for s in steps if s.before is A * 0)
    assert product.diff.splitlines()[-1] == "+%0 = CONST weakint 0"
    assert t.node(record.root) is x
    assert record.result is not None
    assert t.node(record.result) is y


def random_expression(rng: random.Random, depth: int) -> UOp:
    if depth == 0:
        return rng.choice([A, B, UOp.const(rng.randint(-4, 9))])
    a, b = (random_expression(rng, depth - 1) for _ in range(2))
    k = rng.choice([2, 3, 4, 6, 12])
    return rng.choice([a + b, a * k, a // k, a % k, a.maximum(b), (a < b).where(a, b), a * 0 + b])


def _stop_at_where(x: UOp) -> None:
    raise BottomUpGate


GATES = PatternMatcher([(UPat(Ops.WHERE, name="x"), _stop_at_where)])
MODES: dict[str, dict[str, Any]] = {
    "fixed point": {},
    "walk": {"walk": True},
    "pre-order": {"bottom_up": True},
    "pre-order walk": {"bottom_up": True, "walk": True},
    "both orders": {"bpm": GATES},
    "bodies": {"enter_calls": True},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sweep(default=20, full=1_000)
def test_random_replays_end_in_the_result(mode: str, cases: int) -> None:
    """uopgraph checklist 76."""
    for seed in range(cases):
        rng = random.Random(seed)
        x = random_expression(rng, 4)
        x = x.sink().call(random_expression(rng, 2)).sink(x)
        rules = (GATES + symbolic) if mode.startswith("pre") else symbolic
        with recording() as t:
            y = graph_rewrite(x, rules, name="rules", **MODES[mode])
        record = t.groups[0].rewrites[0]
        *_, last = [x, *(s.graph for s in t.replay(record))]
        assert last is y, (mode, seed)


@pytest.mark.parametrize(("level", "recorded"), [(1, False), (2, True), (3, True)])
def test_the_environment_watches_a_process(level: int, recorded: bool) -> None:
    """TRACK_MATCH_STATS: 1 a table at exit, 2 also a recording, 3 also a line for every rule that fires"""
    code = (
        "from uopgraph import UOp, trace\n"
        "(UOp.variable('a', 0, 9) * 0 + 3).simplify()\n"
        "print(len(trace.process_trace().groups))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"TRACK_MATCH_STATS": str(level)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == ("1\n" if recorded else "0\n")
    assert "rules never fired" in run.stderr
    fired = [line for line in run.stderr.splitlines() if ": MUL -> CONST" in line]
    assert len(fired) == (1 if level == 3 else 0)


NESTED = PatternMatcher(
    [(UPat(Ops.NEG, src=(UPat.var("x"),)), lambda x: graph_rewrite(x, INNER, name="inner"))]
)
INNER = PatternMatcher([(UPat(Ops.SUB, src=(UPat.var("x"), UPat())), lambda x: (x + 0).simplify())])


def test_nesting_depths() -> None:
    """uopgraph checklist 77."""
    with recording() as t:
        graph_rewrite(A.alu(Ops.SUB, B).alu(Ops.NEG), NESTED, name="outer")
    (group,) = t.groups
    assert [(r.name, r.depth) for r in group.rewrites] == [("outer", 0), ("inner", 1), ("simplify", 2)]
    assert group.name == "outer n1"


def _fail(x: UOp) -> UOp:
    raise ValueError(f"no rule for {x.op.name}")


def test_an_exception_is_the_last_match() -> None:
    """uopgraph checklist 78."""
    pm = symbolic + PatternMatcher([(UPat(Ops.NEG, name="x"), _fail)])
    with recording() as t, pytest.raises(ValueError, match="no rule"):
        graph_rewrite((A + 0).alu(Ops.NEG), pm)
    (record,) = t.groups[0].rewrites
    last = t.node(record.matches[-1].after)
    assert last.op is Ops.REWRITE_ERROR
    assert last.arg == "ValueError: no rule for NEG"
    assert list(t.replay(record))[-1].after is last


def test_tracing_does_not_keep_nodes() -> None:
    """uopgraph checklist 11."""
    import weakref

    with recording() as t:
        b = UOp.new_buffer("cpu", 4, dtypes.float32)
        x = (b.index(UOp.range(4, 0)) * 1.0).simplify()
        gone = weakref.ref(b)
        del b, x
        assert gone() is None
    assert t.groups


@rewrite_group("compile")
def compile_two() -> UOp:
    with cpu_profile("inside"):
        return (A + 0).simplify() + (B + 0).simplify()


def test_groups_and_spans() -> None:
    with recording() as t:
        compile_two()
        compile_two()
    assert [g.name for g in t.groups] == ["compile n1", "compile n2"]
    assert [len(g.rewrites) for g in t.groups] == [2, 2]
    events = t.chrome_trace()["traceEvents"]
    assert {e["name"] for e in events} == {"compile", "inside", "simplify"}
    assert all(e["ph"] == "X" and e["dur"] >= 0 for e in events)
    assert compile_two() is A + B


def rows(content: Any) -> dict[str, Any]:
    page = viz.html(content, "a <title>")
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    data = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    loaded: dict[str, Any] = json.loads(data)
    return loaded


def test_viewer_of_a_graph() -> None:
    x = sample()
    data = rows(x)
    assert len(data["nodes"]) == len(x.toposort())
    (step,) = data["groups"][0]["rewrites"][0]["steps"]
    assert data["nodes"][step["root"]]["op"] == "SINK"
    assert all(s < i for i, n in enumerate(data["nodes"]) for s in n["src"])
    call = next(n for n in data["nodes"] if n["op"] == "CALL")
    body = next(n for n in x.toposort() if n.op is Ops.CALL).src[0]
    assert call["arg"].startswith(body.key.hex()[:8])


def test_viewer_of_a_trace(tmp_path: Any) -> None:
    with recording() as t:
        ((A * 4 + 3) // 16 + A * 0).simplify()
    data = rows(t)
    steps = data["groups"][0]["rewrites"][0]["steps"]
    assert steps[0]["title"] == "before"
    assert steps[-1]["title"] == "after"
    assert all("rule" in s for s in steps[1:-1])
    assert steps[1]["label"] == "FLOORDIV \u2192 FLOORDIV"
    assert "MUL \u2192 0" in [s["label"] for s in steps[1:-1]]
    assert steps[-1]["root"] == steps[-2]["root"]
    assert data["profile"][0]["tries"] >= data["profile"][0]["hits"]
    path = viz.write(t, tmp_path / "t.html")
    assert path.read_text().startswith("<!doctype html>")
