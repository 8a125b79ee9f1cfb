"""A write and a reader of what it overwrites, in every order of making and of realisation (design 9, reading 31)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rangeify
from rangeify import Tensor
from uopgraph import Ops, UOp, dtypes

Reader = tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]]

ROWS = np.array([3, 0, 3, 1])

READERS: dict[str, Reader] = {
    "whole": (lambda x: x + 1, lambda a: a + 1),
    "itself": (lambda x: x[:], lambda a: a[:]),
    "slice": (lambda x: x[1:3] * 2, lambda a: a[1:3] * 2),
    "plain slice": (lambda x: x[1:3], lambda a: a[1:3]),
    "backwards": (lambda x: x[::-1, 1:], lambda a: a[::-1, 1:]),
    "reshape": (lambda x: x.reshape(2, 8), lambda a: a.reshape(2, 8)),
    "transpose": (lambda x: x.T - 3, lambda a: a.T - 3),
    "row sums": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "bit-cast": (lambda x: x.bitcast("int32"), lambda a: a.view(np.int32)),
    "bytes": (lambda x: x.bitcast("uint8"), lambda a: a.view(np.uint8)),
    "wider": (lambda x: x.bitcast("uint64"), lambda a: a.view(np.uint64)),
    "gather": (lambda x: x[ROWS], lambda a: a[ROWS]),
    "stored": (lambda x: (x * 2).contiguous() + 1, lambda a: a * 2 + 1),
    "other device": (lambda x: x.to("cpu:1"), lambda a: a),
    "part elsewhere": (lambda x: x[2:].to("cpu:1") + 1, lambda a: a[2:] + 1),
    "shards": (lambda x: x.shard(("cpu:0", "cpu:1"), 0) * 2, lambda a: a * 2),
}


def whole(x: Any, a: Any) -> None:
    x[...] = x * 3 - 1


def part(x: Any, a: Any) -> None:
    x[1:3] = 7


def shifted(x: Any, a: Any) -> None:
    x[1:4] = x[0:3] if isinstance(x, Tensor) else x[0:3].copy()


def turned(x: Any, a: Any) -> None:
    x[:, 0:2] = x.T[:, 1:3] if isinstance(x, Tensor) else x.T[:, 1:3].copy()


def gathered(x: Any, a: Any) -> None:
    x[np.array([2, 0, 2])] = np.arange(12, dtype=np.float32).reshape(3, 4)


def masked(x: Any, a: Any) -> None:
    x[np.arange(16).reshape(4, 4) % 3 == 0] = 5


def twice(x: Any, a: Any) -> None:
    x += 1
    x[2] = x[0] * 2


WRITES = {f.__name__: f for f in (whole, part, shifted, turned, gathered, masked, twice)}
ORDERS = ("reader first", "write first", "together", "together, write first", "write alone")


def settle(order: str, reader: Tensor, x: Tensor) -> None:
    match order:
        case "reader first":
            reader.realize()
            x.realize()
        case "write first":
            x.realize()
            reader.realize()
        case "together":
            rangeify.realize(reader, x)
        case "together, write first":
            rangeify.realize(x, reader)
        case _:
            x.realize()


CASES = list(itertools.product(WRITES.values(), ORDERS, (False, True)))


@pytest.mark.parametrize("name", READERS)
@pytest.mark.sweep(default=10, full=len(CASES))
def test_a_reader_sees_the_value_at_the_time_when_it_was_made(name: str, cases: int) -> None:
    """checklist 53, 85: before and after each kind of write, in each order, with fresh or computed storage.

    By default each reader meets a part of the cases, and the readers together all of them.
    """
    read, want = READERS[name]
    start = np.arange(16, dtype=np.float32).reshape(4, 4) - 5
    first, step = list(READERS).index(name), len(CASES) // cases
    for write, order, computed in CASES[first % step :: step]:
        a = start.copy() * 2 if computed else start.copy()
        x = Tensor(start, device="cpu:0") * 2 if computed else Tensor(start, device="cpu:0")
        before, before_value = read(x), want(a.copy()).copy()
        write(x, a)
        write(a, a)
        after, after_value = read(x), want(a).copy()
        rangeify.schedule(before, after, x)
        settle(order, before, x)
        label = f"{name}, {write.__name__}, {order}, {computed}"
        np.testing.assert_array_equal(after.numpy(), after_value, label)
        np.testing.assert_array_equal(before.numpy(), before_value, label)
        np.testing.assert_array_equal(x.numpy(), a, label)


def test_simultaneous_updates_in_every_order() -> None:
    """(a, b) <- (a + b, a * b), and an exchange, as whole Tensors and as slices of one."""
    a, b = np.arange(5, dtype=np.float32), np.arange(5, dtype=np.float32) - 2
    for order in itertools.permutations(range(2)):
        x, y = Tensor(a), Tensor(b)
        new = x + y, x * y
        x.assign(new[0])
        y.assign(new[1])
        x[...], y[...] = y[...], x[...]
        pair = (x, y)
        for i in order:
            pair[i].realize()
        np.testing.assert_array_equal(x.numpy(), a * b)
        np.testing.assert_array_equal(y.numpy(), a + b)
        z = Tensor(np.stack([a, b]))
        z[0], z[1] = z[1], z[0]
        z[0], z[1] = z[0] + z[1], z[0] * z[1]
        np.testing.assert_array_equal(z.numpy(), np.stack([a + b, a * b]))


def test_a_write_from_another_device() -> None:
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    x, y = Tensor(a, device="cpu:0"), Tensor(b, device="cpu:1")
    old = x * 1.5
    x[2:4] = y[0:2].to("cpu:0") * 9
    y[...] = x.to("cpu:1")
    want = a.copy()
    want[2:4] = 9
    rangeify.realize(y, old, x)
    for got, expected in ((x, want), (y, want), (old, a * 1.5)):
        np.testing.assert_array_equal(got.numpy(), expected)
    with pytest.raises(rangeify.AssignError, match="assign device mismatch"):
        x[0:1] = y[0:1]


def test_a_write_through_a_bit_cast_of_storage() -> None:
    """checklist 83: storing integers into the bit-cast of a float buffer writes the base."""
    a = np.arange(4, dtype=np.float32)
    x = Tensor(a)
    view = UOp(Ops.BITCAST, dtypes.int32, (x.uop,), dtypes.int32)
    bits = Tensor(np.array([1, 2], np.float32).view(np.int32))
    written = x.uop.after(view.shrink(((1, 3),)).store(bits.uop))
    schedule = rangeify.schedule(Tensor(written))
    assert len(schedule.kernels) == 1
    np.testing.assert_array_equal(rangeify.run(schedule)[0], np.array([0, 1, 2, 3], np.float32))
