"""Symbolic rules of the weak integer: examples and exhaustive soundness."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from typing import Any

import pytest

from uopgraph import BoundError, Invalid, Ops, UnsupportedError, UOp, dtypes, evaluate, infix, sym_infer


def names() -> dict[str, Any]:
    env: dict[str, Any] = {k: UOp.variable(k, 0, 1000) for k in "abcdxyz"}
    env.update(
        g=UOp.variable("g", 0, 7),
        l=UOp.variable("l", 0, 3),
        e=UOp.variable("e", 0, 24, multiple_of=12),
        n=UOp.variable("n", 1, 20),
        s=UOp.variable("s", -50, 50),
        r=UOp.range(10, 0),
        h=UOp.variable("h", 0, 2**60),
        p=UOp.variable("p", 0, 1, dtypes.bool),
        q=UOp.variable("q", 0, 1, dtypes.bool),
        Inv=UOp.invalid(),
    )
    env["rn"] = UOp.range(env["n"], 1)
    return env


def parse(text: str) -> UOp:
    value = eval(text, {"UOp": UOp, **names()})
    return value if isinstance(value, UOp) else UOp.const(value)


EXAMPLES = [
    # graph spec 11.5
    ("(g*4+l)//8*8 + (g*4+l)%8", "g*4+l"),
    ("(x//4)*4+x%4", "x"),
    ("x//3%224*3 + x%3 + x//672*672", "x"),
    ("(a*4+3)//16", "a//4"),
    ("(a%12)%4", "a%4"),
    ("(a%12)%5", "a%12%5"),
    ("(x-50)%3 + ((x-50)//3)*3", "x-50"),
    ("(-a)//2", "a*-1//2"),
    ("(a//-2)//-3", "a//-2//-3"),
    # a sum has one constant, at its end
    ("(4+d)+c+(2+a)+b", "a+b+c+d+6"),
    ("b+a", "a+b"),
    ("a*3-a*2-a", "0"),
    ("(a*15+b)//10*10+(a*15+b)%10", "a*15+b"),
    ("(a//3)//4", "a//12"),
    ("(a//4+1)//3", "(a+4)//12"),
    ("(a+15)//4", "(a+3)//4+3"),
    ("(a+15)%4", "(a+3)%4"),
    ("e%4", "0"),
    ("(a%12)//4", "a//4%3"),
    ("(8*a+b)//4", "a*2+b//4"),
    ("(8*a+b)%4", "b%4"),
    ("(a*6+b*3)//9", "(a*2+b)//3"),
    ("(a*6+b*3)%9", "(a*2+b)%3*3"),
    ("(g*4+l)%4", "l"),
    ("rn//n", "0"),
    ("rn%n", "rn"),
    ("(a*n+rn)//n", "a"),
    ("(a*n+rn)%n", "rn"),
    ("(a*n)//(b*n)", "a//b"),
    ("(a//n)*n + a%n", "a"),
    ("a//-1", "a*-1"),
    # graph spec 11.6
    ("a+3<5", "a<2"),
    ("a*2<5", "a<3"),
    ("a*2<2**54+1", "True"),
    ("h*2<2**54+1", "h<2**53+1"),
    ("h*2<2**54", "h<2**53"),
    ("s*-2<5", "(s<-2).logical_not()"),
    ("a//3<5", "a<15"),
    ("a//-3<-5", "(a<16).logical_not()"),
    ("g*4+l<12", "g<3"),
    ("a*3+b*2<1", "a+b<1"),
    ("(a*-1)<(b*-1)", "b<a"),
    ("rn<n", "True"),
    ("(a*2).ne(3)", "True"),
    ("(a*2+4).ne(8)", "a.ne(2)"),
    # poison
    ("Inv*0", "Inv"),
    ("a.valid(p)*0", "UOp.const(0).valid(p)"),
    ("a.valid(p).valid(q)", "a.valid(p&q)"),
    ("p.where(a.valid(q), b)", "p.where(a,b).valid(q|p.logical_not())"),
    # bools and selection
    ("p.where(q.where(a,b),b)", "(p&q).where(a,b)"),
    ("p.where(a, q.where(a,b))", "(p|q).where(a,b)"),
    ("p.logical_not().where(a,b)", "p.where(b,a)"),
    ("p.where(p.where(a,b), p.where(c,d))", "p.where(a,d)"),
    ("(a<b).where(b,a)", "a.maximum(b)"),
    ("p.where(a, 0) + p.where(0, b)", "p.where(a, b)"),
    ("(a + p.where(b, 0)) + p.where(0, c)", "a + p.where(b, c)"),
    ("(a + p.where(b, 2)) + p.where(0, 3)", "a + p.where(b, 5)"),
    ("p|p.logical_not()", "True"),
    ("p&p.logical_not()", "False"),
    ("p.logical_not().logical_not()", "p"),
    ("a.ne(a)", "False"),
    ("2**40 + (a-a) + 2**40", "2**41"),
    ("UOp.const(2**40) + UOp.const(2**40)", "2**41"),
    ("UOp.const(2**400) * UOp.const(2**390)", "2**790"),
]


@pytest.mark.parametrize(("text", "want"), EXAMPLES)
def test_examples(text: str, want: str) -> None:
    """uopgraph checklist 54, 55, 56, 57, 59, 60."""
    got, expected = parse(text).simplify(), parse(want)
    assert got is expected, f"{text} -> {infix(got)}, not {infix(expected)}"


def test_unequal_to_itself() -> None:
    """uopgraph checklist 57."""
    for d in (dtypes.weakint, dtypes.bool, *dtypes.ints):
        x = UOp.variable("x", 0, 1, d)
        assert x.ne(x).simplify() is UOp.const(False)
    for d in (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.fp8e4m3):
        x = UOp.variable("x", 0, 1, d)
        assert x.ne(x).simplify() is x.ne(x)


def test_division_by_zero_range() -> None:
    """uopgraph checklist 58."""
    zero = UOp.variable("z", 0, 0)
    with pytest.raises(ZeroDivisionError):
        (UOp.variable("a", 0, 9) // zero).simplify()


BOUNDS = [1, 2, 3, 5, 8, 9, 16]


def leaves(rng: random.Random) -> list[UOp]:
    out = []
    for name in "abc":
        hi = rng.choice(BOUNDS)
        lo = rng.choice([0, 0, 0, -hi])
        out.append(UOp.variable(name, lo, hi))
    return out


def expression(rng: random.Random, variables: list[UOp], depth: int) -> UOp:
    """A random tree of + * // % max min where < over `variables`."""
    if depth == 0:
        return rng.choice([*variables, UOp.const(rng.randint(-9, 9))])

    def sub() -> UOp:
        return expression(rng, variables, depth - rng.randint(1, 2) if depth > 1 else 0)

    match rng.randrange(11):
        case 0 | 1 | 2:
            return sub() + sub()
        case 3 | 4:
            return sub() * rng.choice([-4, -3, -1, 2, 3, 4, 5, 8])
        case 5 | 6:
            return sub() // rng.choice([1, 2, 3, 4, 6, 8, 9, 12, -1, -2, -5])
        case 7 | 8:
            return sub() % rng.choice([1, 2, 3, 4, 6, 8, 9, 12, -3])
        case 9:
            return sub().maximum(sub()) if rng.random() < 0.5 else sub().minimum(sub())
        case _:
            c = sub() < sub()
            if rng.random() < 0.3:
                c = c & (sub() < sub())
            return c.where(sub(), sub())


def quotients(rng: random.Random, variables: list[UOp]) -> UOp:
    """A sum of quotients and remainders of linear forms: what views are made of."""

    def linear() -> UOp:
        total: UOp = UOp.const(rng.choice([0, 0, 0, 1, 3, -2, 15, -7]))
        for v in variables:
            total = total + v * rng.choice([0, 1, 2, 3, 4, 6, 8, 12, 16, -1, -4])
        return total

    out: UOp = UOp.const(0)
    base, other = linear(), linear()
    for _ in range(rng.randint(1, 3)):
        x = rng.choice([base, base, other])
        d, e = rng.choice([2, 3, 4, 6, 8, 12]), rng.choice([2, 3, 4, 6])
        term = rng.choice([x // d, x % d, (x // d) % e, (x % (d * e)) // d, (x // d) // e, (x % d) % e])
        out = out + term * rng.choice([1, 1, d, d * e, -d, 2])
    return out if rng.random() < 0.8 else (out < rng.randint(-5, 40))


def points(variables: list[UOp], rng: random.Random, limit: int = 160) -> list[dict[str, int]]:
    spans = [range(v.vmin, v.vmax + 1) for v in variables]
    total = 1
    for s in spans:
        total *= len(s)
    if total <= limit:
        return [dict(zip("abc", p, strict=True)) for p in itertools.product(*spans)]
    corners = itertools.product(*({s[0], s[-1]} for s in spans))
    picked = [tuple(rng.choice(s) for s in spans) for _ in range(limit)]
    return [dict(zip("abc", p, strict=True)) for p in [*corners, *picked]]


def function(x: UOp) -> Any:
    """The expression as Python code, by its text: an oracle that does not use ``evaluate``."""
    return eval(f"lambda a, b, c: {infix(x)}")


def value(x: UOp, point: dict[str, int]) -> Any:
    return evaluate(x, lambda n: point[n.expr])


def check_sound(x: UOp, variables: list[UOp], rng: random.Random) -> None:
    low, high = x.vmin, x.vmax
    y = x.simplify()
    assert y.dtype is x.dtype
    assert y.simplify() is y, f"not idempotent: {infix(x)} -> {infix(y)} -> {infix(y.simplify())}"
    tight = y.vmin, y.vmax
    original, simplified = function(x), function(y)
    for point in points(variables, rng):
        want, got = original(**point), simplified(**point)
        assert got == want, f"{infix(x)} -> {infix(y)} at {point}: {got}, not {want}"
        assert low <= want <= high, f"bounds of {infix(x)}: {want} is not in [{low}, {high}]"
        assert tight[0] <= want <= tight[1], f"bounds of {infix(y)}: {want} is not in {tight}"


@pytest.mark.sweep(default=200, full=20_000)
def test_random_trees(cases: int) -> None:
    """uopgraph checklist 61, 62."""
    for seed in range(cases):
        rng = random.Random(seed)
        variables = leaves(rng)
        check_sound(expression(rng, variables, rng.randint(1, 5)), variables, rng)


@pytest.mark.sweep(default=200, full=20_000)
def test_random_quotients(cases: int) -> None:
    """uopgraph checklist 61, 62."""
    for seed in range(cases):
        rng = random.Random(1_000_000 + seed)
        variables = leaves(rng)
        check_sound(quotients(rng, variables), variables, rng)


def test_evaluate_follows_the_dtype() -> None:
    """graph spec 7; reading: strong integers wrap"""
    a = UOp.variable("a", 0, 255, dtypes.uint8)
    assert value(a + 200, {"a": 100}) == 44
    assert value((a < 3).where(a, Invalid), {"a": 100}) is Invalid
    assert (a + 200).op is Ops.ADD


@pytest.mark.sweep(default=80, full=5_000)
def test_compiled_values_equal_interpreted_ones(cases: int) -> None:
    """``sym_infer`` and ``evaluate`` agree, and depth does not matter."""
    for seed in range(cases):
        rng = random.Random(5_000_000 + seed)
        variables = leaves(rng)
        x = rng.choice([expression(rng, variables, 4), quotients(rng, variables)])
        for point in points(variables, rng, 12):
            assert sym_infer(x, point) == value(x, point), infix(x)
    n = UOp.variable("n", 1, 9)
    deep = n
    for _ in range(3_000):
        deep = (deep * 3 + 1) % 1000
    assert sym_infer(deep, {"n": 5}) == sym_infer(deep, {"n": 5}) == evaluate(deep, lambda _: 5)
    assert sym_infer(n.bind(4) + 1, {}) == 5
    assert sym_infer(n.bind(4) + 1, {"n": 7}) == 8
    assert sym_infer((n < 3).where(n, Invalid), {"n": 5}) is Invalid
    assert sym_infer(UOp.variable("u", 0, 255, dtypes.uint8) + 200, {"u": 100}) == 44
    assert sym_infer(7, {}) == 7
    with pytest.raises(BoundError, match="no value for the Variable n"):
        sym_infer(n + 1, {})
    with pytest.raises(UnsupportedError, match="FLOORDIV"):
        sym_infer(n // UOp.variable("z", 0, 3), {"n": 1, "z": 0})


EXTREMES = [2**31 - 1, 2**31, 2**63, 2**64 + 1, 2**100, 2**798, 2**799 - 1, 2**799, 2**820]


@pytest.mark.sweep(default=100, full=10_000)
def test_weak_integers_at_extreme_bounds(cases: int) -> None:
    """random weak integers up to and beyond the saturation of bounds"""
    for seed in range(cases):
        rng = random.Random(3_000_000 + seed)
        variables = []
        for name in "abc":
            high = rng.choice(EXTREMES) + rng.randint(-2, 2)
            low = rng.choice([0, -1, -high, -rng.choice(EXTREMES)])
            variables.append(UOp.variable(name, min(low, high), high))
        tree = expression(rng, variables, rng.randint(1, 4))
        x = rng.choice([tree, quotients(rng, variables)])
        if x.dtype is dtypes.weakint:
            x = x + rng.choice([0, 0, *EXTREMES, -(2**799)])
        if rng.random() < 0.3 and x.dtype is dtypes.weakint:
            x = x < rng.choice(EXTREMES)
        y = x.simplify()
        original, simplified = function(x), function(y)
        ends = [(v.arg.vmin_vmax[0], v.arg.vmin_vmax[1]) for v in variables]
        corners = list(itertools.product(*ends))
        inside = [tuple(rng.randint(lo, hi) for lo, hi in ends) for _ in range(20)]
        for point in [*corners, *inside]:
            want, got = original(*point), simplified(*point)
            assert got == want, f"{infix(x)} -> {infix(y)} at {point}"
            for node in (x, y):
                assert node.vmin <= want or node.vmin == -(2**799), f"bounds of {infix(node)} at {point}"
                assert want <= node.vmax or node.vmax == 2**799, f"bounds of {infix(node)} at {point}"


def test_results_do_not_depend_on_the_hash_seed() -> None:
    """deterministic output, also for conditions and long sums"""
    code = (
        "import random\n"
        "from uopgraph import UOp, index_rules, graph_rewrite, infix, dump\n"
        "rng = random.Random(5)\n"
        "rs = [UOp.range(rng.choice([2, 3, 8]), i) for i in range(4)]\n"
        "def lin():\n"
        "    t = UOp.const(rng.randint(-9, 9))\n"
        "    for r in rs: t = t + r * rng.choice([0, 1, 2, 6, -4])\n"
        "    return t\n"
        "for _ in range(40):\n"
        "    c = (lin() < rng.randint(-3, 20)) & (lin() < rng.randint(-3, 20)).logical_not()\n"
        "    x = (lin() // 4 * 4 + lin() % 6 + lin() % 12 // 3).valid(c)\n"
        "    y = graph_rewrite(x, index_rules)\n"
        "    print(infix(y), y.key.hex())\n"
        "print(dump(sum((lin() for _ in range(60)), UOp.const(0)).simplify()))\n"
    )
    outputs = set()
    for seed in ("0", "1", "77"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1
    assert outputs.pop().count("\n") > 40
