"""Affine expressions, maps and sets against brute force, NumPy and islpy (KTIR spec 0.3.5, 0.3.7)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import islpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktir.affine import (
    Add,
    AffineError,
    AffineExpr,
    AffineMap,
    AffineSet,
    Const,
    Constraint,
    Dim,
    FloorDiv,
    Mod,
    Mul,
    SetTooLargeError,
    Sym,
    UnboundedSetError,
    affine_map,
    affine_set,
    interval,
    linear,
    parse_subscripts,
    simplify,
)
from ktir.errors import KtirError, ParseError
from ktir.lexer import Cursor

# -- text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(i) -> (i)", "(d0) -> (d0)"),
        ("(r, c) -> (c, r)", "(d0, d1) -> (d1, d0)"),
        ("(i)[g] -> (i + g)", "(d0)[s0] -> (d0 + s0)"),
        ("()[n] -> (n-1)", "()[s0] -> (s0 - 1)"),
        ("() -> ()", "() -> ()"),
        ("() -> (4)", "() -> (4)"),
        ("(i) -> (2 * i + 3 + 4)", "(d0) -> (d0 * 2 + 7)"),
        ("(i) -> (3 + i)", "(d0) -> (d0 + 3)"),
        ("(i)[s] -> (s + i)", "(d0)[s0] -> (d0 + s0)"),
        ("(i, j) -> (i + 2 + j)", "(d0, d1) -> (d0 + d1 + 2)"),
        ("(i) -> (i * 3 + i)", "(d0) -> (d0 * 4)"),
        ("(i) -> (i - i)", "(d0) -> (0)"),
        ("(i, j) -> (i - j)", "(d0, d1) -> (d0 - d1)"),
        ("(i, j) -> (i - j * 3)", "(d0, d1) -> (d0 - d1 * 3)"),
        ("(i, j) -> (-(i + j))", "(d0, d1) -> (-(d0 + d1))"),
        ("(i, j) -> (i - (j + 1))", "(d0, d1) -> (d0 - (d1 + 1))"),
        ("(i) -> (i floordiv 8, i ceildiv 8, i mod 8)", "(d0) -> (d0 floordiv 8, d0 ceildiv 8, d0 mod 8)"),
        ("(i) -> (i - (i floordiv 8) * 8)", "(d0) -> (d0 mod 8)"),
        ("(i) -> ((i * 64) floordiv 32)", "(d0) -> (d0 * 2)"),
        ("(i) -> ((i * 64) mod 32)", "(d0) -> (0)"),
        ("(i, j) -> ((i * 64 + j) floordiv 64)", "(d0, d1) -> (d0 + d1 floordiv 64)"),
        ("(i, j) -> ((i * 64 + j) mod 64)", "(d0, d1) -> (d1 mod 64)"),
        ("(i) -> ((i mod 16) mod 4)", "(d0) -> (d0 mod 4)"),
        ("(i) -> ((i + 1) * 2)", "(d0) -> ((d0 + 1) * 2)"),
        ("(i) -> ((i + 1) mod 4 + 1)", "(d0) -> ((d0 + 1) mod 4 + 1)"),
        ("(i)[s] -> (i * s)", "(d0)[s0] -> (d0 * s0)"),
        ("(i)[s] -> (s * i)", "(d0)[s0] -> (d0 * s0)"),
        ("(i)[s] -> (i floordiv s)", "(d0)[s0] -> (d0 floordiv s0)"),
        ("(i) -> (7 floordiv 2, -7 floordiv 2, 7 ceildiv 2, -7 mod 4)", "(d0) -> (3, -4, 4, 1)"),
        ("(i) -> (- - i)", "(d0) -> (d0)"),
        ("(i) -> (-i + 5)", "(d0) -> (-d0 + 5)"),
    ],
)  # fmt: skip
def test_map_text(text: str, printed: str) -> None:
    """Printing renames, and construction simplifies as MLIR does."""
    parsed = affine_map(text)
    assert str(parsed) == printed
    assert affine_map(printed) == parsed
    assert affine_map(f"affine_map<{text}>") == parsed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(i) : (i >= 0, i <= 95)", "(d0) : (d0 >= 0, -d0 + 95 >= 0)"),
        ("(i) : (i >= 0, -i + 31 >= 0)", "(d0) : (d0 >= 0, -d0 + 31 >= 0)"),
        ("(i) : (-i + 0 >= 0)", "(d0) : (-d0 >= 0)"),
        ("(i) : (i >= 96)", "(d0) : (d0 - 96 >= 0)"),
        ("(d0) : (d0 <= 3)", "(d0) : (-d0 + 3 >= 0)"),
        ("() : ()", "() : (0 == 0)"),
        ("() : (0 == 0)", "() : (0 == 0)"),
        ("(i)[g] : (i - 4 * g >= 0, -i + 4 * g >= 0)", "(d0)[s0] : (d0 - s0 * 4 >= 0, -d0 + s0 * 4 >= 0)"),
        ("(i)[g] : (i == g)", "(d0)[s0] : (d0 - s0 == 0)"),
        ("(r, c) : (c mod 2 == 0)", "(d0, d1) : (d1 mod 2 == 0)"),
        ("(p)[c] : ((p - c - 1) mod 4 == 0)", "(d0)[s0] : ((d0 - s0 - 1) mod 4 == 0)"),
        ("(i)[s0] : (s0-1 - i >= 0)", "(d0)[s0] : (-d0 + s0 - 1 >= 0)"),
    ],
)  # fmt: skip
def test_set_text(text: str, printed: str) -> None:
    """Checklist 101."""
    parsed = affine_set(text)
    assert str(parsed) == printed
    assert affine_set(printed) == parsed
    assert affine_set(f"affine_set<{printed}>") == parsed


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (affine_set, "(d0) : (d0 < 4)", "expected '>=', '<=' or '==' in affine constraint, got '<'"),
        (affine_set, "(d0) : (d0 > 4)", "expected '>=', '<=' or '==' in affine constraint, got '>'"),
        (affine_map, "(i, j) -> (i * j)", "non-affine expression: at least one of the multiply operands has "
                                          "to be either a constant or symbolic"),
        (affine_map, "(i, j) -> (i floordiv j)", "non-affine expression: right operand of floordiv has to "),
        (affine_map, "(i, j) -> (4 mod j)", "non-affine expression: right operand of mod has to "),
        (affine_map, "(i, j) -> (4 ceildiv j)", "non-affine expression: right operand of ceildiv has to "),
        (affine_map, "(i) -> (i floordiv 0)", "the divisor of floordiv must be positive, but is 0"),
        (affine_map, "(i) -> (k)", "use of undeclared identifier 'k'"),
        (affine_map, "(i, i) -> (i)", "redefinition of identifier 'i'"),
        (affine_map, "(i)[i] -> (i)", "redefinition of identifier 'i'"),
        (affine_map, "(i) (i)", "expected '->' in affine map"),
        (affine_map, "(i) -> (i +)", "expected affine expression, got '\\)'"),
        (affine_map, "(i) -> (i", "expected '\\)' or ',' in list, got end of input"),
        (affine_map, "(i) -> " + "(" * 5000 + "i", "nested deeper than"),
        (affine_map, "(i) -> (" + "i + " * 5000 + "i)", "more than 128 operators"),
        (affine_map, "(i) -> (" + "-" * 5000 + "i)", "more than 128 operators"),
        (affine_map, "(mod) -> (mod)", "cannot be a dimension or symbol name"),
    ],
)  # fmt: skip
def test_syntax_errors(read: Callable[[str], object], text: str, message: str) -> None:
    """Checklist 101 (first half) and hostile input."""
    with pytest.raises(ParseError, match=message):
        read(text)


def test_subscripts_collect_distinct_values() -> None:
    """Spec 0.3.5: `%v[%a, %a + 1]` has one dimension; checklist 42."""

    def read(text: str) -> tuple[str, list[str], list[str]]:
        cursor = Cursor(text)
        map_, dims, symbols = parse_subscripts(cursor, lambda: cursor.next().text)
        return str(map_), dims, symbols

    assert read("[%a, %a + 1]") == ("(d0) -> (d0, d0 + 1)", ["%a"], [])
    assert read("[%i * 2, %j + 4]") == ("(d0, d1) -> (d0 * 2, d1 + 4)", ["%i", "%j"], [])
    assert read("[0, %a]") == ("(d0) -> (0, d0)", ["%a"], [])
    assert read("[symbol(%s) + %b * symbol(%s)]") == ("(d0)[s0] -> (d0 * s0 + s0)", ["%b"], ["%s"])
    assert read("[]") == ("() -> ()", [], [])
    with pytest.raises(ParseError, match="expected an SSA name or an integer in affine subscript, got 'x'"):
        read("[x]")


# -- expressions

DIMS, SYMS = 3, 2


def expressions(dims: int = DIMS, syms: int = SYMS, semi: bool = False) -> st.SearchStrategy[AffineExpr]:
    leaves: st.SearchStrategy[AffineExpr] = st.integers(-20, 20).map(Const)
    if dims:
        leaves |= st.integers(0, dims - 1).map(Dim)
    if syms:
        leaves |= st.integers(0, syms - 1).map(Sym)
    factors: st.SearchStrategy[AffineExpr] = st.integers(-6, 6).map(Const)
    if semi and syms:
        factors |= st.integers(0, syms - 1).map(Sym)

    def extend(inner: st.SearchStrategy[AffineExpr]) -> st.SearchStrategy[AffineExpr]:
        divisor = st.integers(1, 9)
        return st.one_of(
            st.builds(operator.add, inner, inner),
            st.builds(operator.sub, inner, inner),
            st.builds(operator.mul, inner, factors),
            st.builds(operator.mul, factors, inner),
            st.builds(operator.floordiv, inner, divisor),
            st.builds(operator.mod, inner, divisor),
            st.builds(AffineExpr.ceildiv, inner, divisor),
        )

    return st.recursive(leaves, extend, max_leaves=8)


values = st.integers(-50, 50)


def reference(text: str, dims: list[int], syms: list[int]) -> int:
    """Evaluates the printed text with Python's own parser."""
    names = {f"d{i}": v for i, v in enumerate(dims)} | {f"s{i}": v for i, v in enumerate(syms)}
    python = text.replace(" floordiv ", "//").replace(" mod ", "%")
    assert "ceildiv" not in python
    return int(eval(python, {"__builtins__": {}}, names))


@given(
    expressions(semi=True),
    st.lists(values, min_size=DIMS, max_size=DIMS),
    st.lists(values, min_size=SYMS, max_size=SYMS),
)
def test_print_parse_is_identity(expr: AffineExpr, dims: list[int], syms: list[int]) -> None:
    parsed = affine_map(f"(d0, d1, d2)[s0, s1] -> ({expr})").results[0]
    assert str(parsed) == str(expr)
    assert parsed == expr
    if "ceildiv" not in str(expr):
        assert expr.evaluate(dims, syms) == reference(str(expr), dims, syms)


@given(st.data())
def test_operators_mean_arithmetic(data: st.DataObject) -> None:
    """The builders' rewriting never changes a value."""
    a, b = data.draw(expressions()), data.draw(expressions())
    c = data.draw(st.integers(1, 9))
    dims = data.draw(st.lists(values, min_size=DIMS, max_size=DIMS))
    syms = data.draw(st.lists(values, min_size=SYMS, max_size=SYMS))
    x, y = a.evaluate(dims, syms), b.evaluate(dims, syms)
    assert (a + b).evaluate(dims, syms) == x + y
    assert (a - b).evaluate(dims, syms) == x - y
    assert (-a).evaluate(dims, syms) == -x
    assert (a * c).evaluate(dims, syms) == x * c
    assert (a // c).evaluate(dims, syms) == x // c
    assert (a % c).evaluate(dims, syms) == x % c
    assert a.ceildiv(c).evaluate(dims, syms) == -(-x // c)


@given(
    expressions(),
    st.lists(values, min_size=DIMS, max_size=DIMS),
    st.lists(values, min_size=SYMS, max_size=SYMS),
)
def test_simplify_keeps_values_and_is_idempotent(expr: AffineExpr, dims: list[int], syms: list[int]) -> None:
    simple = simplify(expr)
    assert simple.evaluate(dims, syms) == expr.evaluate(dims, syms)
    assert simplify(simple) == simple
    flat = linear(expr)
    assert flat is not None
    assert flat.constant + sum(c * t.evaluate(dims, syms) for t, c in flat.terms) == expr.evaluate(dims, syms)


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("(d0 + d1) - d0", "d1"),
        ("d0 mod 4 + (d0 floordiv 4) * 4", "d0"),
        ("(d0 * 6) floordiv 4", "(d0 * 3) floordiv 2"),
        ("(d0 mod 4 + 1) - 1", "d0 mod 4"),
        ("d1 + d0", "d0 + d1"),
        ("d0 * s0 + d1 - d1", "d0 * s0"),
        ("d0 mod s0 + 2 - d0 mod s0 - 2", "0"),
    ],
)
def test_simplify_examples(text: str, simple: str) -> None:
    assert str(simplify(affine_map(f"(d0, d1)[s0] -> ({text})").results[0])) == simple


@given(expressions(syms=0))
def test_evaluate_on_grids(expr: AffineExpr) -> None:
    grid = np.meshgrid(np.arange(-3, 4), np.arange(-2, 3), np.arange(0, 4), indexing="ij")
    whole = np.broadcast_to(expr.evaluate([g.astype(np.int64) for g in grid]), grid[0].shape)
    for i, j, k in itertools.product(range(7), range(5), range(4)):
        assert whole[i, j, k] == expr.evaluate([i - 3, j - 2, k])


@given(expressions(syms=0), st.lists(st.tuples(values, st.integers(0, 5)), min_size=DIMS, max_size=DIMS))
def test_interval_contains_all_values(expr: AffineExpr, ends: list[tuple[int, int]]) -> None:
    box = [(low, low + span) for low, span in ends]
    low, high = interval(expr, box)
    for point in itertools.product(*(range(a, b + 1) for a, b in box)):
        assert low <= expr.evaluate(point) <= high


def test_interval_is_exact_on_single_uses() -> None:
    d0, d1 = Dim(0), Dim(1)
    assert interval(d0 * 3 - d1, [(0, 4), (1, 2)]) == (-2, 11)
    assert interval(d0 % 8, [(3, 5), (0, 0)]) == (3, 5)
    assert interval(d0 % 8, [(3, 9), (0, 0)]) == (0, 7)
    assert interval(d0 // 4, [(-1, 9), (0, 0)]) == (-1, 2)


def test_evaluation_errors() -> None:
    with pytest.raises(AffineError, match="divisor of 'd0 floordiv s0' must be positive, but is 0"):
        (Dim(0) // Sym(0)).evaluate([4], [0])
    with pytest.raises(AffineError, match="no value given for symbol s0"):
        Sym(0).evaluate([1])
    with pytest.raises(AffineError, match="takes 2 dimensions and 0 symbols, but got 1 and 0"):
        AffineMap.identity(2).evaluate([1])
    with pytest.raises(AffineError, match="uses d2, but there are 2 dimensions"):
        AffineMap(2, 0, (Dim(2),))


# -- maps


@given(st.data())
def test_composition_is_function_composition(data: st.DataObject) -> None:
    inner = AffineMap(2, 1, tuple(data.draw(st.lists(expressions(2, 1), min_size=3, max_size=3))))
    outer = AffineMap(3, 1, tuple(data.draw(st.lists(expressions(3, 1), min_size=2, max_size=2))))
    dims = data.draw(st.lists(values, min_size=2, max_size=2))
    s, t = data.draw(values), data.draw(values)
    assert outer.compose(inner).evaluate(dims, [s, t]) == outer.evaluate(inner.evaluate(dims, [t]), [s])


@given(st.permutations(range(5)))
def test_permutations(order: list[int]) -> None:
    map_ = AffineMap.permutation(order)
    assert map_.is_permutation
    assert map_.as_permutation() == tuple(order)
    assert map_.compose(map_.inverse_permutation()).is_identity
    assert map_.evaluate([10, 11, 12, 13, 14]) == tuple(10 + i for i in order)


def test_map_predicates() -> None:
    assert AffineMap.identity(3).is_identity
    assert not affine_map("(i, j) -> (i)").is_permutation
    assert affine_map("(i, j) -> (j)").is_projected_permutation
    assert not affine_map("(i) -> (i, i)").is_projected_permutation
    assert AffineMap.constant(4, -1).evaluate([]) == (4, -1)
    assert affine_map("(i, j)[n] -> (i * n, j)").bind_symbols([8]) == affine_map("(i, j) -> (i * 8, j)")
    assert affine_map("(i, j) -> (j, i, 3)").select([2, 0]) == affine_map("(i, j) -> (3, j)")
    with pytest.raises(AffineError, match="not a permutation"):
        affine_map("(i) -> (i + 1)").inverse_permutation()
    with pytest.raises(AffineError, match="cannot compose"):
        AffineMap.identity(2).compose(AffineMap.identity(3))
    with pytest.raises(AffineError, match="is not a permutation"):
        AffineMap.permutation([0, 2])


# -- sets


def constraints(rank: int) -> st.SearchStrategy[Constraint]:
    """Mostly a coupling of two dimensions, sometimes with mod or floordiv."""
    coefficient = st.integers(-3, 3)
    dim = st.integers(0, rank - 1).map(Dim)
    plain = st.builds(
        lambda a, x, b, y, k: x * a + y * b + k, coefficient, dim, coefficient, dim, st.integers(-6, 6)
    )
    quotient = st.builds(
        lambda e, c, mod, k: (e % c if mod else e // c) + k,
        plain,
        st.integers(2, 5),
        st.booleans(),
        st.integers(-3, 1),
    )
    return st.builds(Constraint, plain | plain | quotient, st.sampled_from([False, False, False, True]))


@st.composite
def bounded_sets(draw: st.DrawFn, rank: int = 3) -> AffineSet:
    box = AffineSet.box(*(draw(st.tuples(st.integers(-4, 2), st.integers(2, 6))) for _ in range(rank)))
    extra = draw(st.lists(constraints(rank), max_size=3))
    return AffineSet(rank, 0, box.constraints + tuple(extra))


def brute(set_: AffineSet, low: int = -5, high: int = 7) -> list[tuple[int, ...]]:
    return [p for p in itertools.product(range(low, high), repeat=set_.num_dims) if set_.contains(p)]


def isl(set_: AffineSet) -> islpy.Set:
    def spell(expr: AffineExpr) -> str:
        match expr:
            case Dim() | Sym() | Const():
                return str(expr)
            case Mod(lhs, rhs):
                return f"({spell(lhs)} mod {rhs})"
        lhs, rhs = expr.children
        name = type(expr).__name__
        if name == "FloorDiv":
            return f"floor({spell(lhs)}/{rhs})"
        if name == "CeilDiv":
            return f"ceil({spell(lhs)}/{rhs})"
        if name == "Mul":
            return f"({rhs} * {spell(lhs)})"  # isl wants the constant first
        return f"({spell(lhs)} + {spell(rhs)})"

    dims = ", ".join(f"d{i}" for i in range(set_.num_dims))
    body = " and ".join(f"{spell(c.expr)} {'=' if c.is_equality else '>='} 0" for c in set_.constraints)
    return islpy.Set(f"{{ [{dims}] : {body} }}")


@given(bounded_sets())
def test_points_are_brute_force(set_: AffineSet) -> None:
    expected = brute(set_)
    points = set_.points()
    assert [tuple(p) for p in points.tolist()] == expected
    assert set_.count() == len(expected)
    assert set_.is_empty() == (not expected)
    box = set_.bounding_box()
    if expected:
        columns = list(zip(*expected, strict=True))
        assert box == tuple((min(c), max(c)) for c in columns)
        product = 1
        for c in columns:
            product *= len(set(c))
        factors = set_.factors()
        assert (factors is not None) == (product == len(expected))
        if factors is not None:
            assert [sorted(set(c)) for c in columns] == [list(f) for f in factors]
        volume = 1
        for c in columns:
            volume *= max(c) - min(c) + 1
        assert set_.is_rectangular() == (volume == len(expected))
    else:
        assert box is None
        assert set_.is_rectangular()
    assert affine_set(str(set_)) == set_
    assert [tuple(p) for p in set_.simplified().points().tolist()] == expected


@given(bounded_sets(2), bounded_sets(2))
def test_relations_against_brute_force_and_islpy(a: AffineSet, b: AffineSet) -> None:
    points_a, points_b = set(brute(a)), set(brute(b))
    assert a.is_subset(b) == (points_a <= points_b) == isl(a).is_subset(isl(b))
    assert a.is_disjoint(b) == points_a.isdisjoint(points_b) == isl(a).is_disjoint(isl(b))
    assert set(map(tuple, a.intersection(b).points().tolist())) == points_a & points_b


@given(bounded_sets())
def test_emptiness_and_count_against_islpy(set_: AffineSet) -> None:
    other = isl(set_)
    assert set_.is_empty() == other.is_empty()
    assert set_.count() == int(other.count_val().to_str())


@given(bounded_sets(2))
def test_mask_is_contains(set_: AffineSet) -> None:
    i, j = np.meshgrid(np.arange(-5, 7), np.arange(-5, 7), indexing="ij")
    mask = set_.mask([i, j])
    assert {(int(a), int(b)) for a, b in zip(i[mask], j[mask], strict=True)} == set(brute(set_))
    assert (set_.mask([np.arange(-5, 7)[:, None], np.arange(-5, 7)[None, :]]) == mask).all()


@given(bounded_sets(2), st.tuples(st.integers(-4, 4), st.integers(-4, 4)))
def test_translate(set_: AffineSet, offsets: tuple[int, int]) -> None:
    moved = {(a + offsets[0], b + offsets[1]) for a, b in brute(set_)}
    assert set(map(tuple, set_.translate(offsets).points().tolist())) == moved


def test_huge_boxes_cost_nothing() -> None:
    big = AffineSet.box(1 << 40, (1 << 20, 1 << 41))
    assert big.bounding_box() == ((0, (1 << 40) - 1), (1 << 20, (1 << 41) - 1))
    assert big.is_rectangular()
    assert big.count() == (1 << 40) * ((1 << 41) - (1 << 20))
    assert AffineSet.box(1 << 39, (1 << 21, 1 << 40)).is_subset(big)
    assert not big.is_subset(AffineSet.box(1 << 39, 1 << 41))
    assert big.is_disjoint(AffineSet.box((-5, 0), 1 << 41))
    with pytest.raises(SetTooLargeError, match="too many points"):
        big.points()
    with pytest.raises(SetTooLargeError, match="too many points"):
        affine_set("(i, j) : (i >= 0, -i + 9999999 >= 0, j >= 0, i - j >= 0)").count()


def test_symbols_bind_left_to_right() -> None:
    group = affine_set("(i)[g] : (i - 4 * g >= 0, -i + 4 * g + 3 >= 0)")
    assert group.points([2]).tolist() == [[8], [9], [10], [11]]
    assert group.is_disjoint(group, [0], [1])
    assert not group.is_disjoint(group, [1], [1])
    assert group.bind_symbols([1]) == affine_set("(i) : (i - 4 >= 0, -i + 7 >= 0)")
    with pytest.raises(AffineError, match="has 1 symbols, but got 0 values"):
        group.points()
    divided = affine_set("(i)[s] : (i >= 0, -i + 9 >= 0, i mod s == 0)")
    assert divided.points([3]).tolist() == [[0], [3], [6], [9]]


def test_strided_and_triangular_sets() -> None:
    """Spec 1.7 and ktir checklist 52, 53, 87: shapes that real programs use."""
    even = affine_set("(r, c) : (r >= 0, -r + 9 >= 0, c >= 0, -c + 39 >= 0, c mod 2 == 0)")
    assert even.factors() == (range(10), range(0, 39, 2))
    assert not even.is_rectangular()
    lower = affine_set("(i, j) : (i >= 0, -i + 2 >= 0, j >= 0, i - j >= 0)")
    assert lower.points().tolist() == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]
    assert lower.factors() is None
    groups = affine_set("(i)[g] : ((i - g) mod 2 == 0, i - g >= 0, -i + g + 6 >= 0)")
    assert groups.points([1]).tolist() == [[1], [3], [5], [7]]


def test_unbounded_sets_are_named() -> None:
    """Spec 0.3.7: a clear error when a dimension stays unbounded; a box makes it finite."""
    half = affine_set("(i, j) : (i >= 0, -i + 3 >= 0, j >= 0)")
    with pytest.raises(
        UnboundedSetError, match=r"unbounded set: no finite bounds for d1 in \(d0, d1\)"
    ) as caught:
        half.points()
    assert caught.value.dimension == 1
    assert half.points(box=[(0, 9), (-5, 1)]).tolist() == [[i, j] for i in range(4) for j in range(2)]
    assert not half.is_empty()
    assert affine_set("(i) : (i - 5 >= 0, -i >= 0)").is_empty()
    with pytest.raises(UnboundedSetError):
        affine_set("(i, j) : (i - j == 0)").count()
    assert AffineSet.universe(0).points().tolist() == [[]]
    assert affine_set("() : (-1 >= 0)").is_empty()


def test_bounds_through_equalities() -> None:
    """Spec 0.3.7: iterate to a fixpoint through constraints with other bounded dimensions."""
    diagonal = affine_set("(i, j) : (i >= 0, -i + 3 >= 0, i - j == 0)")
    assert diagonal.points().tolist() == [[k, k] for k in range(4)]
    blocks = affine_set("(i, j) : (i floordiv 4 - j == 0, j >= 0, -j + 1 >= 0)")
    assert blocks.bounding_box() == ((0, 7), (0, 1))
    assert affine_set("(i) : (i * 2 - 3 == 0)").is_empty()


def test_set_errors() -> None:
    with pytest.raises(AffineError, match="different numbers of dimensions"):
        AffineSet.universe(1).is_subset(AffineSet.universe(2))
    with pytest.raises(AffineError, match="cannot intersect"):
        AffineSet.universe(1).intersection(AffineSet.universe(1, 1))
    with pytest.raises(AffineError, match="has 1 dimensions and 0 symbols, but got 2 and 0"):
        AffineSet.universe(1).contains([1, 2])


HUGE = st.sampled_from([1 << 31, 1 << 32, 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1])


@given(
    st.lists(
        st.tuples(HUGE, st.integers(-3, 3), HUGE, st.integers(-3, 3), st.booleans()), min_size=1, max_size=3
    ),
    st.booleans(),
)
def test_values_beyond_64_bits_do_not_wrap_around(
    rows: list[tuple[int, int, int, int, bool]], divided: bool
) -> None:
    """Coefficients as large as text may hold: enumeration, masks and relations agree with Python's integers."""
    constraints = [Constraint(Dim(0) - low, False) for low in (-4,)]
    constraints += [
        Constraint(-Dim(0) + 5, False),
        Constraint(Dim(1) + 4, False),
        Constraint(-Dim(1) + 5, False),
    ]
    for a, x, b, y, equality in rows:
        if divided:  # the normal form of a quotient multiplies out: its coefficients must fit 64 bits, too
            a, b = a >> 3, b >> 3
        left, right = Mul(Dim(0), Const(x)), Mul(Dim(1), Const(y))
        expr = Add(Mul(left, Const(a)), Mul(right, Const(b)))
        constraints.append(Constraint(FloorDiv(expr, Const(3)) if divided else expr, equality))
    set_ = AffineSet(2, 0, tuple(constraints))
    expected = [(i, j) for i in range(-4, 6) for j in range(-4, 6) if set_.contains((i, j))]
    assert [tuple(p) for p in set_.points().tolist()] == expected
    i, j = np.meshgrid(np.arange(-4, 6), np.arange(-4, 6), indexing="ij")
    mask = set_.mask([i, j])
    assert list(zip(i[mask].tolist(), j[mask].tolist(), strict=True)) == expected
    assert set_.is_empty() == (not expected)
    assert set_.is_subset(AffineSet.box((-4, 6), (-4, 6)))


@pytest.mark.parametrize(
    "text",
    [
        "(i) : (i * 9223372036854775807 * 2 >= 0)",
        "(i) : (i + 9223372036854775807 + 1 >= 0)",
        "(i) : (9223372036854775807 + 2 >= i)",
        "(i) -> (i + 9223372036854775808)",
        "(i)[s] -> (s * (9223372036854775807 + 1))",
    ],
)
def test_constants_beyond_64_bits_are_refused(text: str) -> None:
    """What no reader could take back is never built."""
    with pytest.raises(KtirError, match="64 bits"):
        (affine_set if ">=" in text or "<=" in text else affine_map)(text)
    with pytest.raises(AffineError, match="does not fit 64 bits"):
        Const((1 << 63) - 1) + 1
    assert affine_map("(i) -> (i - 9223372036854775807)").evaluate((0,)) == (-(1 << 63) + 1,)


def test_count_without_dimensions() -> None:
    """A set without dimensions has one point unless a constraint fails (a number of rank 0 is one element)."""
    assert AffineSet(0, 0, ()).count() == 1
    assert AffineSet(0, 0, (Constraint(Const(-1), False),)).count() == 0
    assert len(AffineSet(0, 0, ()).points()) == 1
