"""Exact rules against NumPy: integers on their full domain, floats bit for bit (reading "Values")."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest

from uopgraph import (
    AddrSpace,
    DTypeError,
    Invalid,
    Ops,
    ParamArg,
    ShapeError,
    SpecError,
    UnsupportedError,
    UOp,
    UPat,
    dtypes,
    graph_rewrite,
    least_upper_dtype,
    symbolic,
)
from uopgraph.decompose import EXACT, decompositions
from uopgraph.dtype import DType
from uopgraph.ops import GroupOp
from uopgraph.pattern import Rule
from uopgraph.symbolic.fast import fast_only
from uopgraph.symbolic.poison import poison
from uopgraph.symbolic.structure import branches

NUMPY: dict[DType, Any] = {
    dtypes.bool: np.bool_,
    dtypes.weakint: np.int64,
    **{d: getattr(np, d.name) for d in dtypes.ints},
    dtypes.float16: np.float16,
    dtypes.bfloat16: ml_dtypes.bfloat16,
    dtypes.float32: np.float32,
    dtypes.float64: np.float64,
    dtypes.weakfloat: np.float64,
}


FUNCTIONS = {
    **{k: k.lower() for k in ("EXP", "EXP2", "EXPM1", "LOG", "LOG2", "LOG1P", "SIN", "COS", "TAN")},
    **{k: "arc" + k[1:].lower() for k in ("ASIN", "ACOS", "ATAN", "ASINH", "ACOSH", "ATANH")},
    **{k: k.lower() for k in ("SINH", "COSH", "TANH")},
}


def variable(name: str, dtype: DType) -> UOp:
    """A scalar of which nothing is known."""
    return UOp.storage(Ops.PARAM, ParamArg(-1, dtype, name=name, addrspace=AddrSpace.ALU), ())


def shifted(x: Any, count: Any, left: bool) -> Any:
    """A shift as C would do it with a wide enough type: counts beyond the width give 0 or the sign."""
    bits = x.dtype.itemsize * 8
    big = np.asarray(count).astype(np.int64) >= bits
    small = np.where(big, 0, count).astype(x.dtype)
    if left:
        return np.where(big, np.zeros_like(x), np.left_shift(x, small))
    return np.where(big, np.where(x < 0, -1, 0).astype(x.dtype), np.right_shift(x, small))


def numpy_value(root: UOp, env: dict[str, Any]) -> Any:
    """The meaning of an expression in NumPy, operation by operation (what is poisoned has any value)."""
    return numpy_values(root, env)[0]


def numpy_values(root: UOp, env: dict[str, Any]) -> tuple[Any, Any]:
    """(values, where they are poisoned)."""
    known: dict[UOp, Any] = {}
    bad: dict[UOp, Any] = {}
    with np.errstate(all="ignore"):
        for n in root.toposort():
            if n.op is Ops.PARAM:
                known[n], bad[n] = env[n.arg.name], np.asarray(False)
            elif n.op is Ops.CONST:
                poisoned = n.arg is Invalid
                known[n] = np.asarray(False if poisoned else n.arg, dtype=NUMPY[n.dtype])
                bad[n] = np.asarray(poisoned)
            elif n.op is Ops.RANGE:
                known[n], bad[n] = np.arange(int(n.src[0].arg)), np.asarray(False)
            elif n.op is Ops.STACK and n.src:
                known[n] = np.stack([known[s].astype(NUMPY[n.dtype]) for s in n.src])
                bad[n] = np.stack([bad[s] for s in n.src])
            elif n.op is Ops.WHERE:
                known[n] = numpy_op(n, [known[s] for s in n.src])
                c, t, f = n.src
                bad[n] = bad[c] | np.where(known[c], bad[t], bad[f])
            elif n.op in GroupOp.Elementwise:
                known[n] = numpy_op(n, [known[s] for s in n.src])
                bad[n] = functools.reduce(np.logical_or, [bad[s] for s in n.src])
            elif n.op is Ops.EXPAND:
                known[n], bad[n] = known[n.src[0]], bad[n.src[0]]
    return known[root], bad[root]


def numpy_op(n: UOp, x: list[Any]) -> Any:
    target = NUMPY[n.dtype]
    if n.op is Ops.CAST:
        with np.errstate(all="ignore"):
            return (x[0] != 0) if n.dtype is dtypes.bool else x[0].astype(target)
    if n.op is Ops.BITCAST:
        return x[0].view(target)
    if n.op is Ops.WHERE:
        return np.where(x[0], x[1].astype(target), x[2].astype(target))
    if n.op in GroupOp.Shift:
        return shifted(x[0], x[1], n.op is Ops.SHL)
    common = least_upper_dtype(*(s.dtype for s in n.src))
    if n.op in GroupOp.Transcendental and not common.is_float:
        common = n.dtype
    x = [v.astype(NUMPY[common]) for v in x]
    if common is dtypes.bool and n.op in {Ops.SUB, Ops.NEG}:
        return x[0]  # only of a poisoned operand
    table = {
        Ops.ADD: np.logical_or if common is dtypes.bool else np.add,
        Ops.MUL: np.logical_and if common is dtypes.bool else np.multiply,
        Ops.SUB: np.subtract,
        Ops.MAX: np.logical_or if common is dtypes.bool else np.maximum,
        Ops.AND: np.bitwise_and,
        Ops.OR: np.bitwise_or,
        Ops.XOR: np.bitwise_xor,
        Ops.CMPLT: np.less,
        Ops.CMPNE: np.not_equal,
        Ops.CMPEQ: np.equal,
        Ops.FLOORDIV: np.floor_divide,
        Ops.FLOORMOD: np.remainder,
        Ops.CMOD: np.fmod,
        Ops.FDIV: np.divide,
        Ops.FMOD: np.fmod,
        Ops.NEG: np.negative,
        Ops.SQRT: np.sqrt,
        Ops.TRUNC: np.trunc,
        Ops.FLOOR: np.floor,
        Ops.CEIL: np.ceil,
        Ops.ROUND_EVEN: np.rint,
        Ops.POW: lambda a, b: np.power(a, b if common.is_float else np.maximum(b, 0)),
        Ops.ATAN2: np.arctan2,
        Ops.ERF: np.vectorize(math.erf, otypes=[np.float64]),
        Ops.RSQRT: lambda v: 1 / np.sqrt(v),
        **{getattr(Ops, k): getattr(np, f) for k, f in FUNCTIONS.items()},
    }
    if n.op is Ops.RECIPROCAL:
        return (np.ones_like(x[0]) / x[0]).astype(target)
    if n.op is Ops.CDIV:
        divisor = np.where(x[1] == 0, 1, x[1]).astype(target)
        return np.floor_divide(x[0] - np.fmod(x[0], divisor), divisor).astype(target)
    if n.op in GroupOp.Rounding and not common.is_float:
        return x[0]
    return np.asarray(table[n.op](*x)).astype(target)


def same_bits(a: Any, b: Any) -> Any:
    """Equal bit for bit; nans are equal to each other."""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    if a.dtype.kind in "biu":
        return a == b
    with np.errstate(invalid="ignore"):
        nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    return nan | (np.ascontiguousarray(a).view(kind) == np.ascontiguousarray(b).view(kind))


WHOLE: dict[Ops, Any] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.POW: np.power,
    Ops.SHL: np.left_shift,
    Ops.MAX: np.maximum,
    Ops.NEG: np.negative,
}


def whole_numbers(root: UOp) -> Any:
    """The meaning of constants of weak integers, which are numbers of any size, in Python's integers."""
    known: dict[UOp, Any] = {}
    for n in root.toposort():
        assert n.dtype is dtypes.weakint, n
        match n.op:
            case Ops.CONST:
                known[n] = np.asarray(n.arg, dtype=object)
            case Ops.STACK:
                known[n] = np.stack([known[s] for s in n.src])
            case _:
                known[n] = WHOLE[n.op](*(known[s] for s in n.src))
    return known[root]


def is_beyond_int64(root: UOp) -> bool:
    """Whether a graph has a weak integer that the arrays of `numpy_values` do not hold."""
    weak = (n.arg for n in root.toposort() if n.op is Ops.CONST and n.dtype is dtypes.weakint)
    return any(isinstance(arg, int) and not -(2**63) <= arg < 2**63 for arg in weak)


def check_equal(x: UOp, y: UOp, env: dict[str, Any], why: str = "", strict: bool = False) -> Any:
    """`y` has the dtype and every value of `x`; a poisoned value may become any (not when `strict`)."""
    assert y.dtype is x.dtype or y.is_invalid, f"{why}: dtype {x.dtype} -> {y.dtype}"
    if is_beyond_int64(x) or is_beyond_int64(y):
        want = whole_numbers(x)
        assert np.all(want == whole_numbers(y)), f"{why}: {x!r}\n-> {y!r}"
        return want
    (want, poisoned), (got, poisoned_too) = numpy_values(x, env), numpy_values(y, env)
    allowed = poisoned == poisoned_too if strict else poisoned | ~poisoned_too
    assert np.all(allowed), f"{why}: poison differs\n{x!r}\n-> {y!r}"
    ok = poisoned | (True if y.is_invalid else same_bits(want, got))
    if not np.all(ok):
        raise AssertionError(f"{why}: {x!r}\n-> {y!r}\n{np.sum(~ok)} values differ")
    return want


def check(x: UOp, env: dict[str, Any]) -> None:
    y = x.simplify()
    want = check_equal(x, y, env)
    assert y.simplify() is y
    for node in (x, y):
        if node.dtype.is_exact:
            assert np.all((node.vmin <= want) & (want <= node.vmax)), (node.vmin, node.vmax)


def integer_env(dtype: DType) -> dict[str, Any]:
    every = np.arange(dtype.min, dtype.max + 1).astype(NUMPY[dtype])
    return {
        "x": every.reshape(-1, 1, 1),
        "y": every.reshape(1, -1, 1),
        "p": np.array([False, True]).reshape(1, 1, 2),
    }


def integer_tree(rng: random.Random, dtype: DType, depth: int) -> UOp:
    x, y = variable("x", dtype), variable("y", dtype)
    if depth == 0:
        c = rng.choice(
            [0, 1, 2, 3, 7, 8, 0x0F, 0xF0, 0xF8, -1, -2, dtype.min, dtype.max, rng.randint(-128, 127)]
        )
        return rng.choice([x, x, y, UOp.const(c, dtype)])

    def sub() -> UOp:
        return integer_tree(rng, dtype, depth - 1 if rng.random() < 0.8 else 0)

    def condition() -> UOp:
        return rng.choice([sub() < sub(), sub().ne(sub()), variable("p", dtypes.bool), sub().eq(sub())])

    a = sub()
    match rng.randrange(13):
        case 0 | 1:
            return a + sub()
        case 2 | 3:
            return a * sub()
        case 4:
            return a.maximum(sub()) if rng.random() < 0.6 else a.minimum(sub())
        case 5:
            return rng.choice([a & sub(), a | sub(), a ^ sub()])
        case 6:
            k = UOp.const(rng.randint(0, 9), dtype)
            return a << k if rng.random() < 0.5 else a >> k
        case 7:
            d = UOp.const(rng.choice([1, 2, 3, 4, 8, 16, -1 if not dtype.is_unsigned else 5]), dtype)
            return rng.choice([a // d, a % d, a.cdiv(d), a.cmod(d)])
        case 8 | 9:
            return condition().where(a, sub())
        case 10:
            wide = rng.choice(
                [dtypes.int16, dtypes.int32, dtypes.int64, dtypes.weakint, dtypes.bool, dtypes.uint16]
            )
            return a.cast(wide).cast(dtype)
        case 11:
            other = dtypes.int8 if dtype is dtypes.uint8 else dtypes.uint8
            return a.bitcast(other).bitcast(dtype) if rng.random() < 0.5 else a.cast(other).cast(dtype)
        case _:
            return condition().cast(dtype) + a.trunc()


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8], ids=lambda d: d.name)
@pytest.mark.sweep(default=80, full=5_000)
def test_integers_on_their_full_domain(dtype: DType, cases: int) -> None:
    """strong integers over all values, with overflow (uopgraph checklist 57, 61, 62)"""
    env = integer_env(dtype)
    for seed in range(cases):
        rng = random.Random(seed)
        check(integer_tree(rng, dtype, rng.randint(1, 4)), env)


def float_values(dtype: DType) -> Any:
    kind = NUMPY[dtype]
    one = {dtypes.float16: 2**-24, dtypes.bfloat16: 2**-133, dtypes.float32: 2**-149, dtypes.float64: 5e-324}[
        dtype
    ]
    top = float(ml_dtypes.finfo(kind).max)
    special = [
        0.0,
        1.0,
        2.0,
        0.5,
        3.0,
        0.1,
        math.inf,
        math.nan,
        one,
        3 * one,
        2**-14,
        top,
        top / 2,
        1e-3,
        1234.5,
    ]
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (40, np.dtype(kind).itemsize), dtype=np.uint8).view(kind).reshape(-1)
    return np.concatenate([np.array([*special, *(-v for v in special)]).astype(kind), bits])


def float_tree(rng: random.Random, dtype: DType, depth: int) -> UOp:
    x, y = variable("x", dtype), variable("y", dtype)
    if depth == 0:
        c = rng.choice([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, math.inf, -math.inf, math.nan, 1e-30, 0.1])
        return rng.choice([x, x, y, UOp.const(c, dtype)])

    def sub() -> UOp:
        return float_tree(rng, dtype, depth - 1 if rng.random() < 0.8 else 0)

    a = sub()
    match rng.randrange(12):
        case 0 | 1:
            return a + sub()
        case 2 | 3:
            return a * sub()
        case 4:
            return a / sub()
        case 5:
            return rng.choice([-a, a.trunc(), a.floor(), a.ceil(), a.round_even(), a.sqrt(), a.reciprocal()])
        case 6 | 7:
            c = rng.choice([a < sub(), a.ne(sub()), a.eq(sub()), a <= sub(), variable("p", dtypes.bool)])
            return c.where(sub(), sub())
        case 8:
            return a.cast(dtypes.float64).cast(dtype)
        case 9:
            return a.alu(Ops.SUB, sub())
        case 10:
            return a.alu(Ops.NEG)
        case _:
            return (a < sub()).cast(dtype)


@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64], ids=lambda d: d.name
)
@pytest.mark.sweep(default=70, full=5_000)
def test_floats_bit_for_bit(dtype: DType, cases: int) -> None:
    """nan, infinities, zeros, subnormals, the largest value and random bits"""
    values = float_values(dtype)
    env = {
        "x": values.reshape(-1, 1, 1),
        "y": values.reshape(1, -1, 1),
        "p": np.array([False, True]).reshape(1, 1, 2),
    }
    for seed in range(cases):
        rng = random.Random(seed)
        check(float_tree(rng, dtype, rng.randint(1, 4)), env)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int32], ids=lambda d: d.name)
def test_bools_exhaustively(dtype: DType) -> None:
    """rules S7-S11, S19, A5 on every assignment"""
    names = ["p", "q", "s"]
    env = {
        n: np.array([False, True]).reshape([2 if i == j else 1 for j in range(3)])
        for i, n in enumerate(names)
    }
    for seed in range(200):
        rng = random.Random(seed)

        def tree(depth: int, rng: random.Random = rng) -> UOp:
            if depth == 0:
                return rng.choice(
                    [variable(n, dtypes.bool) for n in names] + [UOp.const(True), UOp.const(False)]
                )
            a, b = tree(depth - 1), tree(depth - 1 if rng.random() < 0.5 else 0)
            kinds = [a & b, a | b, a ^ b, a * b, a + b, a.maximum(b), a.ne(b), a.eq(b), a < b, ~a]
            kinds += [
                a.where(b, tree(0)),
                a.cast(dtype).ne(rng.choice([0, 1, 2])),
                a.cast(dtype).cast(dtypes.bool),
            ]
            return rng.choice(kinds)

        check(tree(rng.randint(1, 4)), env)


# every rule, on graphs made from its own pattern ------------------------------------------------

SAMPLED = (dtypes.int8, dtypes.uint8, dtypes.bool, dtypes.weakint, dtypes.float16, dtypes.float32)
#: Drawn only where a pattern asks for them: their domains are sampled.
WIDE = (dtypes.uint16, dtypes.int64, dtypes.uint64, dtypes.uint32, dtypes.int32)
#: Bounds of the variables m and n of strong integers; products of the widest fit 32 bits.
NARROW = [(1, 5), (0, 3), (-8, 8), (-5, -1), (-120, 120), (-46340, 46340), (0, 46340), (2, 2)]
#: Axes of the oracle's arrays: one for each variable that may stand beside the others.
AXES = "xypqmn"
UNARY = dict.fromkeys(GroupOp.Unary | GroupOp.Cast, 1)
ARITY = {**UNARY, **dict.fromkeys(GroupOp.Binary, 2), **dict.fromkeys(GroupOp.Ternary, 3)}


class NoSampleError(Exception):
    """The pattern cannot be built from the dtypes that were drawn."""


class Sampler:
    """Builds random graphs that a pattern is likely to match."""

    def __init__(self, rng: random.Random, main: DType) -> None:
        self.rng = rng
        self.main = main
        self.bound: dict[str, UOp] = {}
        self.bounds = {name: rng.choice([(-8, 8), (0, 8), (1, 5), (0, 3)]) for name in "ij"}
        self.narrow = {name: rng.choice(NARROW) for name in "mn"}

    def leaf(self, dtype: DType) -> UOp:
        rng = self.rng
        if rng.random() < 0.35:
            return self.constant(dtype)
        if dtype is dtypes.bool:
            return variable(rng.choice("pq"), dtype)
        if dtype is dtypes.weakint:
            name = rng.choice("ij")
            v = UOp.variable(name, *self.bounds[name])
            c = rng.choice([-3, -1, 2, 3, 4, 6])
            return rng.choice([v, v, v, v * c, v * c + rng.randint(-5, 5), v // c, v % c, v * 4 + 2])
        if dtype.is_int and rng.random() < (0.8 if dtype is dtypes.int64 else 0.3):
            name = rng.choice("mn")
            low, high = (min(max(b, dtype.min), dtype.max) for b in self.narrow[name])
            return UOp.variable(f"{name}_{dtype.name}", low, high, dtype)
        return variable(f"{rng.choice('xy')}_{dtype.name}", dtype)

    def constant(self, dtype: DType, arg: Any = None) -> UOp:
        rng = self.rng
        if arg is Invalid:
            return UOp.invalid()
        if arg is None and rng.random() < 0.05:
            return UOp.invalid()
        if arg is None:
            numbers: list[Any] = [0, 1, -1, 2, 3, 4, 8, 5, -2, 0xF0, 0xF8, 0x7F]
            if dtype.is_float:
                numbers = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.nan, math.inf, 3.0]
            arg = bool(rng.randrange(2)) if dtype is dtypes.bool else rng.choice(numbers)
        return UOp.const(arg, dtype)

    def dtype_of(self, pattern: UPat, wanted: DType | None) -> DType:
        if pattern.dtype is None:
            return wanted or self.main
        usable = [d for d in SAMPLED if d in pattern.dtype] or [d for d in WIDE if d in pattern.dtype]
        if not usable:
            raise NoSampleError
        return wanted if wanted in usable else self.main if self.main in usable else self.rng.choice(usable)

    def build(self, pattern: UPat, wanted: DType | None = None) -> UOp:
        rng = self.rng
        if pattern.is_any:
            return self.build(rng.choice(pattern.src), wanted)
        if pattern.name is not None and pattern.name in self.bound:
            return self.bound[pattern.name]
        dtype = self.dtype_of(pattern, wanted)
        node = self.make(pattern, dtype)
        if pattern.name is not None:
            self.bound[pattern.name] = node
        return node

    def make(self, pattern: UPat, dtype: DType) -> UOp:
        rng = self.rng
        if pattern.op is None:
            return self.leaf(dtype)
        op = rng.choice(sorted(pattern.op))
        if op is Ops.CONST:
            return self.constant(dtype, pattern.arg)
        if op is Ops.PARAM:
            return self.leaf(dtype)
        if op is Ops.RANGE:
            return UOp.range(rng.choice([1, 4]), 0)
        if op is Ops.STACK and not isinstance(pattern.src, tuple):
            inner = pattern.src if pattern.src is not None else UPat(Ops.CONST)
            return UOp(Ops.STACK, None, tuple(self.build(inner, dtype) for _ in range(2)))
        if op not in ARITY:
            raise NoSampleError
        want = self.operand_dtypes(op, dtype)
        if pattern.src is None:
            src = [self.leaf(d) for d in want]
        elif isinstance(pattern.src, UPat):
            src = [self.build(pattern.src, d) for d in want]
        else:
            parts = list(pattern.src)
            if isinstance(pattern.src, list):
                rng.shuffle(parts)
            order = sorted(range(len(parts)), key=lambda i: parts[i].dtype is None)
            made = {i: self.build(parts[i], want[i]) for i in order}
            src = [made[i] for i in range(len(parts))]
        return UOp(op, None, tuple(src), dtype if op in GroupOp.Cast else None)

    def operand_dtypes(self, op: Ops, dtype: DType) -> list[DType]:
        rng = self.rng
        if dtype.is_float and op in GroupOp.Bitwise | GroupOp.Shift | GroupOp.IntDivision | {
            Ops.THREEFRY,
            Ops.MULACC,
            Ops.POW,
        }:
            raise NoSampleError
        if dtype is dtypes.bool and op in {Ops.SUB, Ops.NEG} | GroupOp.Shift | GroupOp.IntDivision:
            raise NoSampleError
        if not dtype.is_float and op in {Ops.FDIV, Ops.FMOD, Ops.ATAN2, Ops.THREEFRY, Ops.MULACC}:
            raise NoSampleError
        if dtype is dtypes.weakint and op is Ops.SHL:
            raise NoSampleError  # the oracle has 64 bits
        if op is Ops.WHERE:
            return [dtypes.bool, dtype, dtype]
        if op in GroupOp.Comparison:
            return [self.main if self.main is not dtypes.bool or rng.random() < 0.5 else dtypes.int8] * 2
        if op is Ops.CAST:
            return [rng.choice([self.main, *SAMPLED, dtypes.bool])]
        if op is Ops.BITCAST:
            return [rng.choice([d for d in SAMPLED if d.bitsize == dtype.bitsize] or [dtype])]
        return [dtype] * ARITY[op]


def along(name: str, values: Any) -> Any:
    """`values` on the axis of the variables called like `name`."""
    axis = AXES.index({"i": "x", "j": "y"}.get(name[0], name[0]))
    return np.asarray(values).reshape([-1 if k == axis else 1 for k in range(len(AXES))])


def wide_values(dtype: DType) -> Any:
    """Corners and random bits of an integer dtype whose domain is too large to be listed."""
    corners = [0, 1, 2, 3, dtype.max, dtype.max - 1, dtype.min, dtype.min + 1, dtype.max // 2, 1 << 31]
    bits = np.random.default_rng(3).integers(0, 256, (40, dtype.itemsize), dtype=np.uint8)
    inside = [c for c in corners if dtype.min <= c <= dtype.max]
    return np.concatenate([np.array(inside, dtype=NUMPY[dtype]), bits.view(NUMPY[dtype]).reshape(-1)])


def sample_env() -> dict[str, Any]:
    """Full domains for 8-bit integers, special values for floats, corners and random bits for wide integers."""
    env: dict[str, Any] = {name: along(name, [False, True]) for name in "pq"}
    for name in "xy":
        for d in (dtypes.int8, dtypes.uint8):
            env[f"{name}_{d.name}"] = along(name, np.arange(d.min, d.max + 1).astype(NUMPY[d]))
        for d in (dtypes.float16, dtypes.float32):
            env[f"{name}_{d.name}"] = along(name, float_values(d))
        for d in WIDE:
            env[f"{name}_{d.name}"] = along(name, wide_values(d))
    return env


def matches(rule: Rule, rng: random.Random, tries: int) -> list[tuple[UOp, UOp]]:
    """(node, result) pairs on which the rule fires."""
    found: list[tuple[UOp, UOp]] = []
    for attempt in range(tries):
        main = SAMPLED[attempt % len(SAMPLED)]
        try:
            node = Sampler(rng, main).build(rule.pattern)
            _ = node.shape_or_none
            result = rule.apply(node, None)
        except (NoSampleError, DTypeError, ShapeError, SpecError, ZeroDivisionError):
            continue
        if isinstance(result, UOp):
            found.append((node, result))
    return found


RULES = list(enumerate((*symbolic.rules, *branches.rules)))
#: Rules whose graphs are no scalar expressions or need one more fact; they have tests of their own.
ELSEWHERE: set[str] = set()


def domain(node: UOp, env: dict[str, Any]) -> dict[str, Any]:
    """The environment with the declared domain of every variable that has one: all of it, or its corners."""
    out = dict(env)
    for v in node.variables():
        if v.arg.vmin_vmax is None:
            continue
        low, high = v.arg.vmin_vmax
        span = (
            np.arange(low, high + 1) if high - low < 20 else np.unique(np.linspace(low, high, 15, dtype=int))
        )
        out[v.expr] = along(v.expr, span.astype(NUMPY[v.dtype]))
    return out


@pytest.mark.parametrize(("base", "power"), [(4, 248), (-7, 63), (127, 4), (2, 64)])
def test_weak_powers_of_any_size(base: int, power: int) -> None:
    """Weak integers are not bounded: powers beyond 64 bits fold to the exact number."""
    node = UOp.const(base, dtypes.weakint).alu(Ops.POW, UOp.const(power, dtypes.weakint))
    result = symbolic.rewrite(node)
    assert result is not None
    check_equal(node, result, {})
    assert result.arg == base**power


@pytest.mark.parametrize(
    ("number", "rule"), RULES, ids=lambda v: v.location if isinstance(v, Rule) else str(v)
)
@pytest.mark.sweep(default=80, full=3000)
def test_every_rule_is_sound_and_fires(number: int, rule: Rule, cases: int) -> None:
    """the test fails when a rule was never fired"""
    env = sample_env()
    rng = random.Random(number)
    pairs = matches(rule, rng, cases)
    if not pairs:
        pairs = matches(rule, rng, 20_000)
    assert pairs, f"{rule.location} {rule.pattern} never fired"
    for node, result in pairs[: max(10, cases // 8)]:
        if node.shape_or_none and any(n.op is Ops.PARAM for n in node.toposort()):
            continue
        check_equal(node, result, domain(node, env), rule.location, strict=rule in poison.rules)
        assert node.shape_or_none == result.shape_or_none or result.is_invalid, rule.location


SHAPES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys("xim", (3, 1)),
    **dict.fromkeys("yjn", (4,)),
    "p": (3, 4),
    "q": (1, 4),
}


def shaped(node: UOp) -> UOp:
    """The same graph on tensors: every leaf gets a shape, constants stay scalars."""
    leaves = {}
    for n in node.toposort():
        if n.op is Ops.PARAM:
            arg = attrs.evolve(n.arg, slot=0)
            leaves[n] = UOp.storage(Ops.PARAM, arg, SHAPES[n.arg.name[0]])
    return node.substitute(leaves, walk=True)


@pytest.mark.parametrize(
    ("number", "rule"), RULES, ids=lambda v: v.location if isinstance(v, Rule) else str(v)
)
def test_every_rule_keeps_the_shape(number: int, rule: Rule) -> None:
    """the rules also run on graphs of tensors, where operands broadcast"""
    rng = random.Random(number)
    for node, _ in matches(rule, rng, 200)[:40]:
        x = shaped(node)
        result = rule.apply(x, None)
        if isinstance(result, UOp) and not result.is_invalid:
            assert result.shape_or_none == x.shape_or_none, f"{rule.location}: {x!r}\n-> {result!r}"


# operations that a target lacks -----------------------------------------------------------------------------


@pytest.mark.parametrize("op", sorted(EXACT), ids=lambda op: op.name)
def test_exact_decompositions(op: Ops) -> None:
    """reading "Values": a late target rule set, bit for bit where it says so"""
    pm = decompositions(frozenset({op}))
    floats = op in {Ops.RECIPROCAL, Ops.FLOOR, Ops.CEIL}
    both = op in {Ops.SUB, Ops.NEG, Ops.CMPEQ}
    kinds = [dtypes.float16, dtypes.float32, dtypes.bfloat16] if floats or both else []
    kinds += [dtypes.int8, dtypes.uint8] if not floats else []
    for dtype in kinds:
        x, y = variable("x", dtype), variable("y", dtype)
        node = x.alu(op) if op in GroupOp.Unary else x.alu(op, y)
        if op is Ops.RECIPROCAL and dtype.is_int:
            continue
        out = graph_rewrite(node, pm)
        assert op not in {n.op for n in out.toposort()}
        env = integer_env(dtype) if dtype.is_int else {}
        if dtype.is_int and op in {Ops.FLOORDIV, Ops.FLOORMOD}:
            env["y"] = np.delete(env["y"], int(-dtype.min), axis=1)  # no division by zero
        if not dtype.is_int:
            values = float_values(dtype)
            env = {"x": values.reshape(-1, 1), "y": values.reshape(1, -1)}
        check_equal(node, out, env, op.name)


@pytest.mark.parametrize(
    "op",
    [
        *(Ops.FDIV, Ops.RSQRT, Ops.EXP, Ops.EXP2, Ops.LOG, Ops.LOG2, Ops.EXPM1, Ops.LOG1P, Ops.COS, Ops.TAN),
        *(Ops.SINH, Ops.COSH, Ops.TANH, Ops.MULACC),
    ],
    ids=lambda op: op.name,
)
def test_decompositions_up_to_rounding(op: Ops) -> None:
    x, y, z = (variable(n, dtypes.float64) for n in "xyz")
    node = x.alu(op, y, z) if op is Ops.MULACC else x.alu(op, y) if op is Ops.FDIV else x.alu(op)
    out = graph_rewrite(node, decompositions(frozenset({op})))
    assert op not in {n.op for n in out.toposort()}
    grid = np.concatenate([np.linspace(-3, 3, 101), [1e-9, -1e-9, 1e-3, 20.0, -20.0]])
    if op in {Ops.RSQRT, Ops.LOG, Ops.LOG2}:
        grid = np.abs(grid) + 1e-3
    if op is Ops.LOG1P:
        grid = np.abs(grid) - 0.5
    env = {"x": grid, "y": np.full_like(grid, 1.7), "z": np.full_like(grid, 0.3)}
    want = grid * 1.7 + 0.3 if op is Ops.MULACC else numpy_value(node, env)
    assert np.allclose(numpy_value(out, env), want, rtol=1e-8, atol=1e-14)
    special = np.array([0.0, -0.0, math.inf, -math.inf, math.nan])
    if op in {Ops.TANH, Ops.EXPM1, Ops.EXP, Ops.EXP2, Ops.COSH, Ops.SINH}:
        env = {"x": special}
        assert np.all(same_bits(numpy_value(out, env), numpy_value(node, env))), numpy_value(out, env)


def test_decompositions_that_do_not_exist() -> None:
    with pytest.raises(UnsupportedError, match="ERF"):
        decompositions(frozenset({Ops.ERF}))
    with pytest.raises(UnsupportedError, match="EXP without EXP2"):
        decompositions(frozenset({Ops.EXP, Ops.EXP2}))


@pytest.mark.parametrize("rule", fast_only.rules, ids=lambda r: r.location)
def test_the_oracle_notices_rules_of_real_arithmetic(rule: Rule) -> None:
    """the soundness test above is sharp: it refuses every rule that only holds up to rounding, nan or zeros"""
    if rule.ops() & {Ops.POW, Ops.REDUCE} and len(rule.ops()) == 1:
        pytest.skip("the sampler builds neither powers nor reductions")
    env = sample_env()
    for node, result in matches(rule, random.Random(1), 3000):
        try:
            check_equal(node, result, domain(node, env))
        except AssertionError:
            return
    pytest.fail(f"{rule.location} was not noticed")
