"""Commitment of weak dtypes: nothing weak is left, and every value stays the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from uopgraph import BoundError, Invalid, Ops, UOp, commit, dtypes, evaluate, full_spec, type_verify
from uopgraph.ops import GroupOp

I, J = UOp.range(4, 0), UOp.range(100_000, 1)


def values(root: UOp) -> list[UOp]:
    """Every node at or below `root` that is no shape argument."""
    kept: dict[UOp, None] = {}
    stack = [root]
    while stack:
        n = stack.pop()
        if n not in kept:
            kept[n] = None
            stack += () if n.op in GroupOp.Defines else n.src[:1] if n.op in GroupOp.Movement else n.src
    return list(kept)


def is_strong(root: UOp) -> bool:
    return not any(n.dtype.is_weak for n in values(root))


def test_constants_take_the_dtype_of_their_partner() -> None:
    x = UOp.variable("x", 0, 5, dtypes.float16)
    y = UOp.variable("y", 0, 5, dtypes.uint8)
    assert commit(x * 2 + 0.1).src[1] is UOp.const(0.1, dtypes.float16)
    assert commit((y + 3) < 200) is ((y + UOp.const(3, dtypes.uint8)) < UOp.const(200, dtypes.uint8))
    assert commit(y << 2) is y.alu(Ops.SHL, UOp.const(2, dtypes.uint8))
    assert commit((y < 3).where(x, 1)).src[2] is UOp.const(1.0, dtypes.float16)
    assert commit((y < 3).where(x, Invalid)) is ((y < UOp.const(3, dtypes.uint8)).where(x, Invalid))


def test_stored_values_take_the_dtype_of_the_target() -> None:
    p = UOp.param(0, dtypes.float16, (4,), "cpu")
    out = commit(p.index(I).store(I + 1))
    i = UOp.range(4, 0, dtype=dtypes.int32)
    assert out is p.index(i).store((i + UOp.const(1, dtypes.int32)).cast(dtypes.float16))
    assert commit(p.index(I).store(2.5)).src[1] is UOp.const(2.5, dtypes.float16)


def test_index_arithmetic_is_as_narrow_as_its_bounds() -> None:
    assert commit(I * 3 + J).dtype is dtypes.int32
    assert commit(J * J).dtype is dtypes.int64
    small = commit(J * J % 7)  # the product needs 64 bits, the remainder does not
    assert small.dtype is dtypes.int32
    assert small.src[0].dtype is dtypes.int64
    assert commit((J * J) < 5).src[0].dtype is dtypes.int64
    assert commit(I.cast(dtypes.float32)).src[0].dtype is dtypes.int32
    assert commit(UOp.variable("n", 0, 2**40) + 1).dtype is dtypes.int64
    with pytest.raises(BoundError, match="64 bits"):
        commit(I + 2**70)


def test_gated_indices_are_narrowed() -> None:
    p = UOp.param(0, dtypes.float16, (4,), "cpu")
    far = J * J
    index = commit(p.index(far.valid(far < 4))).src[1]
    assert index.op is Ops.WHERE
    assert index.src[1].dtype is dtypes.int32
    assert index.src[0].src[0].dtype is dtypes.int64
    assert commit(p.index(far)).src[1].dtype is dtypes.int64  # nothing says that it is in bounds
    huge = UOp.param(0, dtypes.int8, (2**33,), "cpu")
    assert commit(huge.index(far.valid(far < 4))).src[1].src[1].dtype is dtypes.int64


def test_calls_and_shapes_are_left_alone() -> None:
    n = UOp.variable("n", 1, 8)
    p = UOp.param(0, dtypes.float32, (n, 4), "cpu")
    assert commit(p.reshape(n * 4)) is p.reshape(n * 4)
    call = (n + 1).sink().call(n.bind(3))
    assert commit(call.sink()) is call.sink()


def tree(rng: random.Random, leaves: list[UOp], depth: int) -> UOp:
    if depth == 0:
        return rng.choice([*leaves, UOp.const(rng.choice([0, 1, -3, 7, 1000, 2**20, 2**33]))])
    a, b = tree(rng, leaves, depth - 1), tree(rng, leaves, rng.randrange(depth))
    match rng.randrange(8):
        case 0 | 1:
            return a + b
        case 2:
            return a * b
        case 3:
            return a // rng.choice([2, 7, -3])
        case 4:
            return a % rng.choice([2, 7, 1000])
        case 5:
            return a.maximum(b)
        case 6:
            return (a < b).where(a, b)
        case _:
            return a.valid(b < 50) if rng.random() < 0.3 else a & 0xFF


@pytest.mark.sweep(default=150, full=5_000)
def test_values_do_not_change(cases: int) -> None:
    checked = 0
    for seed in range(cases):
        rng = random.Random(seed)
        leaves = [UOp.variable(n, rng.choice([0, -9, -(2**20)]), rng.choice([5, 300, 2**20])) for n in "ab"]
        x = tree(rng, leaves, rng.randint(1, 4))
        if not -(2**63) <= x.vmin <= x.vmax < 2**63 or any(n.vmax >= 2**63 for n in values(x)):
            continue
        if any(n.vmin < -(2**63) for n in values(x)):
            continue
        out = commit(x)
        assert is_strong(out) or out.op is Ops.CONST
        type_verify(out, full_spec)
        for _ in range(10):
            at = {v.expr: rng.choice([v.vmin, v.vmax, rng.randint(v.vmin, v.vmax)]) for v in leaves}

            def leaf(n: UOp, at: dict[str, int] = at) -> Any:
                return at[n.expr]

            assert evaluate(x, leaf) == evaluate(out, leaf), (seed, x, out)
        checked += 1
    assert checked > cases // 2
