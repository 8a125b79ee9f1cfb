"""Items, bytes and operations under the reference rules beside tinygrad's, by one counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from peer.backends import Backend, Ours, Theirs
from peer.counter import Work, count, total
from peer.networks import NETWORKS, bert, llama, resnet50, transformer
from peer.programs import PROGRAMS
from peer.random_programs import random_program

from rangeify.explain import operations

Make = Callable[[Backend], list[Any]]


def ours(make: Make, fusion: str = "reference") -> Work:
    return total(k.body for k in Ours().schedule(make(Ours()), fusion).kernels)


def theirs(make: Make) -> Work:
    pytest.importorskip("tinygrad")
    return total(call.src[0] for call in Theirs().schedule(make(Theirs())).src)


def accounts(make: Make, fusion: str) -> int:
    """The operations by the account of the schedule: a value is computed once for its own row."""
    return sum(operations(k.body) for k in Ours().schedule(make(Ours()), fusion).kernels)


def not_above(mine: Work, peer: Work) -> None:
    """At most 1.02 times the bytes and the operations, in sum."""
    assert mine.nbytes <= 1.02 * peer.nbytes
    assert mine.operations <= 1.02 * peer.operations


def test_committed_programs() -> None:
    """No program has more items than tinygrad's; bytes and operations are not above in sum."""
    assert len(PROGRAMS) >= 60
    mine, peer = Work(), Work()
    for name, make in PROGRAMS.items():
        a, b = ours(make), theirs(make)
        assert a.items <= b.items, (name, a, b)
        mine, peer = mine + a, peer + b
    not_above(mine, peer)


@pytest.mark.sweep(default=30, full=500)
def test_random_programs(cases: int) -> None:
    """The same on random programs; some of them do have several kernels."""
    mine, peer, several = Work(), Work(), 0
    for seed in range(cases):
        a, b = (
            ours(lambda k, seed=seed: random_program(seed, k)),
            theirs(lambda k, seed=seed: random_program(seed, k)),
        )
        assert a.items <= b.items, (seed, a, b)
        several += b.items > 1
        mine, peer = mine + a, peer + b
    assert several > cases / 4
    not_above(mine, peer)


SMALL: dict[str, Make] = {
    "transformer": lambda b: transformer(b, layers=2),
    "resnet50": lambda b: resnet50(b, size=16, blocks=(1, 1)),
    "bert": lambda b: bert(b, layers=1),
    "llama": lambda b: llama(b, layers=1),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.sweep(default=1, full=2)
def test_networks(name: str, cases: int) -> None:
    """Forward graphs of networks; ``rows`` has fewer items and no more bytes or operations than
    ``reference``.
    """
    make = SMALL[name] if cases == 1 else NETWORKS[name]
    reference, peer, rows = ours(make), theirs(make), ours(make, "rows")
    assert reference.items <= peer.items
    not_above(reference, peer)
    assert rows.items <= reference.items
    assert rows.nbytes <= reference.nbytes
    counted = [accounts(make, fusion) for fusion in ("reference", "rows")]
    assert counted[1] <= counted[0]
    if name == "transformer":
        assert rows.items <= 11 * (2 if cases == 1 else 12)


def test_the_counter_sees_what_a_kernel_does() -> None:
    """By hand: the maximum of exp2(a + b) over rows of 8, from a broadcast b."""
    b = Ours()
    x, y = b.t(4, 8), b.t(8)
    (kernel,) = b.schedule([b.max((x + y).exp2(), 1)]).kernels
    assert count(kernel.body) == Work(1, 4 * (32 + 8 + 4), 3 * 32)
