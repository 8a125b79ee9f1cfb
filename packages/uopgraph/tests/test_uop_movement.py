"""Movement operations: shapes, index arithmetic, views, validity."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from uopgraph import (
    AxisType,
    BroadcastError,
    Invalid,
    Ops,
    ShapeError,
    SpecError,
    UnsupportedError,
    UOp,
    dtypes,
    evaluate,
    infix,
    product,
)
from uopgraph.access import check_access, check_accesses
from uopgraph.movement import flat_index, push_index, reshape_indices, split_index
from uopgraph.symbolic import simplify_index, simplify_valid, uop_given_valid


def buffer(*shape: int, dtype: Any = dtypes.float32) -> UOp:
    return UOp.new_buffer("cpu", int(np.prod(shape)), dtype, slot=0).reshape(shape)


def random_chain(rng: random.Random, x: UOp, a: Any, steps: int) -> tuple[UOp, Any]:
    """The same movement operations on a node and on a NumPy array; padding is -1."""
    for _ in range(steps):
        shape = x.shape
        match rng.randrange(7):
            case 0:
                total = int(np.prod(shape))
                if total == 0:
                    continue
                new, left = [], total
                while left > 1 and len(new) < 3:
                    d = rng.choice([k for k in range(1, left + 1) if left % k == 0])
                    new.append(d)
                    left //= d
                new.insert(rng.randint(0, len(new)), left)
                x, a = x.reshape(tuple(new)), a.reshape(new)
            case 1:
                order = list(range(len(shape)))
                rng.shuffle(order)
                x, a = x.permute(tuple(order)), a.transpose(order)
            case 2:
                axes = [i for i in range(len(shape)) if rng.random() < 0.5]
                x, a = x.flip(tuple(axes)), np.flip(a, axes)
            case 3:
                pads = [(rng.randint(0, 2), rng.randint(0, 2)) for _ in shape]
                x, a = x.pad(pads), np.pad(a, pads, constant_values=-1)
            case 4:
                cut = []
                for s in shape:
                    lo = rng.randint(0, int(s))
                    cut.append((lo, rng.randint(lo, int(s))))
                if any(lo == hi for lo, hi in cut):
                    continue
                x, a = x.shrink(cut), a[tuple(slice(*c) for c in cut)]
            case 5:
                if a.size > 200:
                    continue
                wide = (rng.randint(1, 3), *shape)
                x, a = x.expand(wide), np.broadcast_to(a, wide)
            case _:
                keys: list[Any] = []
                for s in shape:
                    k = rng.choice([slice(None), slice(None, None, 2), slice(None, None, -1), slice(1, None)])
                    keys.append(k if int(s) > 1 else slice(None))
                x, a = x[tuple(keys)], a[tuple(keys)]
        if a.size > 2000:
            break
    return x, a


def read(x: UOp) -> Any:
    """The flat position in storage of every element, -1 where it is padded."""
    ranges = [UOp.range(int(s), i) for i, s in enumerate(x.shape)]
    base, indices, valid = push_index(x, ranges)
    assert base.op is Ops.BUFFER
    (index,) = (simplify_index(i.valid(valid)) for i in indices)
    grid = itertools.product(*(range(int(s)) for s in x.shape))
    flat = []
    for point in grid:
        found = evaluate(index, lambda n, point=point: point[n.arg[0]])
        flat.append(-1 if found is Invalid else found)
    return np.array(flat).reshape([int(s) for s in x.shape])


@pytest.mark.sweep(default=70, full=1500)
def test_random_chains_against_numpy(cases: int) -> None:
    """uopgraph checklist 20."""
    for seed in range(cases):
        rng = random.Random(seed)
        shape = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 3)))
        x, a = random_chain(
            rng, buffer(*shape), np.arange(int(np.prod(shape))).reshape(shape), rng.randint(1, 5)
        )
        assert x.shape == a.shape, seed
        if a.size <= 600:
            assert np.array_equal(read(x), a), seed


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.reshape(5, 5),
        lambda x: x.reshape(-1, -1),
        lambda x: x.reshape(-2, -12),
        lambda x: x.movement(Ops.PERMUTE, (0, 0)),
        lambda x: x.movement(Ops.PERMUTE, (0,)),
        lambda x: x.pad([(-1, 0), (0, 0)]),
        lambda x: x.pad([(1, 0)]),
        lambda x: x.movement(Ops.PAD, ((0, 3), (0, 6))),
        lambda x: x.shrink([(0, 5), (0, 6)]),
        lambda x: x.shrink([(-1, 3), (0, 6)]),
        lambda x: x.movement(Ops.FLIP, (True,)),
        lambda x: x.expand(4, 7),
        lambda x: x.expand(6),
        lambda x: x.movement(Ops.EXPAND, (-1,)),
        lambda x: x[5],
        lambda x: x[0, 0, 0],
        lambda x: x.permute(0, 2),
        lambda x: x + UOp.const(1.0).expand(5),
        lambda x: UOp(Ops.REDUCE, None, (x,), (Ops.ADD, 3)),
        lambda x: x.index(0, 0, 0),
        lambda x: x[:, :3].bitcast(dtypes.float64),
        lambda x: x[0, 0].bitcast(dtypes.float16),
        lambda x: x.movement(Ops.SHRINK, ((0, 4), (0, -1))),
        lambda x: x.squeeze(0),
    ],
)
def test_illegal_arguments(make: Any) -> None:
    """uopgraph checklist 20."""
    with pytest.raises(ShapeError):
        _ = make(buffer(4, 6)).shape


def test_broadcast_error_is_an_index_error() -> None:
    """graph spec 5.2"""
    with pytest.raises(BroadcastError):
        _ = (buffer(4, 6) + buffer(4, 5)).shape
    assert issubclass(BroadcastError, IndexError)
    assert (buffer(4, 6) + buffer(6)).shape == (4, 6)
    assert (buffer(4, 1) * buffer(1, 5)).shape == (4, 5)


def test_symbolic_reshape() -> None:
    """uopgraph checklist 21."""
    n = UOp.variable("n", 1, 16)
    x = UOp.param(0, dtypes.float32, (n, 4), "cpu")
    assert x.reshape(n * 4).shape == ((n * 4).simplify(),)
    assert x.reshape(2, n * 2).shape[0] == 2
    with pytest.raises(ShapeError):
        x.reshape(n * 4 + 1)


def test_contiguous_view() -> None:
    """uopgraph checklist 24."""
    x = buffer(4, 6)
    base = x.base
    assert x.contiguous_view() == (base, 0)
    assert x.reshape(2, 12).contiguous_view() == (base, 0)
    assert x[1:3].contiguous_view() == (base, 6)
    assert x[2, 3:5].contiguous_view() == (base, 15)
    assert x[3, 5].contiguous_view() == (base, 23)
    assert x[1:3].reshape(12)[2:7].contiguous_view() == (base, 8)
    for other in (x.permute(1, 0), x.flip(0), x.expand(2, 4, 6), x.pad([(1, 0), (0, 0)]), x[:, 1:3], x[::2]):
        assert other.contiguous_view() is None
    assert x[1:3].bitcast(dtypes.float16).contiguous_view() == (base, 6)
    assert x.bitcast(dtypes.float16)[1, 2:6].contiguous_view() == (base, 7)
    assert x.bitcast(dtypes.float16)[1, 1:5].contiguous_view() is None
    assert (x + 1).contiguous_view() is None


def test_buffer_identity() -> None:
    """uopgraph checklist 25."""
    x = buffer(4, 6)
    assert x.has_buffer_identity()
    assert not x.permute(1, 0).has_buffer_identity()
    after = x.after(x.store(x + 1))
    assert not after.has_buffer_identity()
    assert after.has_buffer_identity(after_ok=True)
    assert after.buf_uop is x.base
    sharded = UOp.new_buffer(("d0", "d1"), 12, dtypes.float32, slot=1).reshape(2, 6)
    whole = sharded.unshard(0, UOp.range(2, -1, AxisType.DEVICE))
    assert whole.has_buffer_identity()
    assert not whole.permute(1, 0).has_buffer_identity()


def factorizations(n: int, rng: random.Random) -> list[int]:
    out, left = [], n
    while left > 1 and len(out) < 4:
        d = rng.choice([k for k in range(1, left + 1) if left % k == 0])
        out.append(d)
        left //= d
    out.append(left)
    rng.shuffle(out)
    return out


@pytest.mark.sweep(default=90, full=2000)
def test_reshape_round_trips(cases: int) -> None:
    """uopgraph checklist 66: flattening and splitting back simplifies to the ranges, through any other shape"""
    for seed in range(cases):
        rng = random.Random(seed)
        n = rng.choice([12, 24, 36, 60, 96, 128, 240, 360, 1024, 2310, 4096])
        shape, through = factorizations(n, rng), factorizations(n, rng)
        ranges = [UOp.range(s, i) if s > 1 else UOp.const(0) for i, s in enumerate(shape)]
        middle = reshape_indices(through, shape, ranges)
        back = reshape_indices(shape, through, middle)
        assert list(back) == ranges, (shape, through, [infix(b) for b in back])
        flat = flat_index(ranges, shape).simplify()
        assert [s.simplify() for s in split_index(flat, shape)] == ranges


def test_product() -> None:
    n = UOp.variable("n", 1, 4)
    assert product([2, 3]) == 6
    assert product([]) == 1
    assert product([n, 2]) is n * 2


# validity ---------------------------------------------------------------------------------------


def test_valid_is_independent_of_the_order() -> None:
    """uopgraph checklist 63."""
    a, b = UOp.range(10, 0), UOp.range(10, 1)
    clauses = [a < 5, (a + b) < 20, (a < 2).logical_not(), (b * 2 + a) < 9]
    results = set()
    for order in itertools.permutations(clauses):
        whole = order[0] & order[1] & order[2] & order[3]
        results.add(simplify_index(whole))
    assert len(results) == 1


def test_valid_examples() -> None:
    """graph spec 11.7"""
    r = UOp.range(10, 0)
    assert simplify_index((r < 5) & (r < 7)) is (r < 5)
    assert simplify_index((r < 5) & (r < 5).logical_not()) is UOp.const(False)
    assert simplify_valid((r < 5) & (r < 2).logical_not()) is None
    assert uop_given_valid(r < 4, r // 4) is UOp.const(0)
    assert uop_given_valid(r < 4, r % 4) is r
    assert simplify_index((r % 4).valid(r < 4)) is r.valid(r < 4)
    assert simplify_index(r.valid(r < 10)) is r


@pytest.mark.sweep(default=40, full=3000)
def test_gated_indices_keep_their_value(cases: int) -> None:
    """uopgraph checklist 61: V1 and V2, exhaustively"""
    for seed in range(cases):
        rng = random.Random(seed)
        ranges = [UOp.range(rng.choice([2, 3, 5, 8]), i) for i in range(3)]

        def linear(rng: random.Random = rng, ranges: list[UOp] = ranges) -> UOp:
            total = UOp.const(rng.randint(-6, 6))
            for r in ranges:
                total = total + r * rng.choice([0, 1, 1, 2, 4, -1])
            return total

        valid = UOp.const(True)
        for _ in range(rng.randint(1, 4)):
            clause = linear() < rng.randint(-4, 14)
            valid = valid & (clause if rng.random() < 0.6 else clause.logical_not())
        x = linear()
        idx = rng.choice([x // 4, x % 4, x, (x // 2) % 3 + x, (x % 6) // 2]).valid(valid)
        out = simplify_index(idx)
        assert simplify_index(out) is out
        for point in itertools.product(*(range(int(r.vmax) + 1) for r in ranges)):
            leaf = lambda n, point=point: point[n.arg[0]]  # noqa: E731
            assert evaluate(idx, leaf) == evaluate(out, leaf), (infix(idx), infix(out), point)


def test_placeholder_ranges_are_axis_types() -> None:
    assert UOp.range(4, 0, AxisType.PLACEHOLDER).arg == (0, AxisType.PLACEHOLDER)


def test_out_of_bounds_indices() -> None:
    """uopgraph checklist 72."""
    x = UOp.param(0, dtypes.float32, (10, 6), "cpu")
    i, j = UOp.range(12, 0), UOp.range(6, 1)
    n = UOp.variable("n", 1, 10)
    check_accesses(x.index(UOp.range(10, 2), j).sink())
    with pytest.raises(SpecError, match=r"axis 0: r0 leaves \[0, 10\) at r0=10"):
        check_access(x.index(i, j))
    check_access(x.index(i.valid(i < 10), j))
    with pytest.raises(SpecError, match="r0=10"):
        check_access(x.index(i.valid(i < 11), j))
    with pytest.raises(SpecError, match="r0=0"):
        check_access(x.index((i - 1).valid(i < 11), j))
    check_access(x.index(((i * 2) % 10).valid(i < 6), j))
    check_access(x.index(i.valid((i * i) < 100), j))
    check_access(UOp.param(0, dtypes.float32, (n,), "cpu").index(UOp.range(n, 5)))
    with pytest.raises(UnsupportedError, match="data"):
        check_access(x.index(UOp.param(1, dtypes.int32, (4,), "cpu").index(UOp.range(4, 7)).load(), j))
    far = UOp.range(10**6, 8)
    with pytest.raises(UnsupportedError, match="1000000 points"):
        check_access(x.index(far.valid((far * far) < 100), j))


def test_slices_with_symbolic_bounds() -> None:
    """A bound may be an expression also where the dimension has a known size; a step may not."""
    x = UOp.new_buffer("cpu", 64, dtypes.float32).reshape(16, 4)
    at = UOp.variable("at", 0, 15)
    assert x[at : at + 1].shape == (1, 4)
    (length, width) = x[: at + 1].shape
    assert width == 4
    assert length is (at + 1).simplify()
    assert x[at].shape == (4,)
    with pytest.raises(ShapeError, match="a step needs"):
        x[at::2]
