"""The allocator and the placement of buffers by lifetime."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangeify.memory import Lifetime, lifetimes, place, place_by_size, place_in_time
from rangeify.tlsf import TLSF


def test_tlsf_reference_behaviours() -> None:
    """checklist 72: first fit from the left, reuse of the first block, joining of two freed neighbours."""
    a = TLSF(1024, block=16)
    assert a.alloc(32) == 0
    assert a.alloc(64) == 32
    a.free(0)
    assert a.alloc(32) == 0
    b = TLSF(1024, block=16)
    first, second, _third = b.alloc(32), b.alloc(32), b.alloc(32)
    b.free(first)
    b.free(second)
    assert b.alloc(64) == first


def test_tlsf_alignment_and_exhaustion() -> None:
    a = TLSF(1024, base=8, block=16)
    assert a.alloc(100, align=128) % 128 == 0
    a.check()
    with pytest.raises(MemoryError):
        a.alloc(2048)
    with pytest.raises(KeyError):
        a.free(3)


def test_tlsf_random_operations_keep_the_block_list_consistent() -> None:
    """checklist 72: 10,000 random allocations and frees."""
    rng = random.Random(7)
    allocator = TLSF(1 << 20, block=16, lists=32)
    live: dict[int, int] = {}
    for step in range(10_000):
        if live and (len(live) > 200 or rng.random() < 0.45):
            start = rng.choice(sorted(live))
            del live[start]
            allocator.free(start)
            continue
        size, align = rng.randint(1, 3000), 1 << rng.randint(0, 8)
        try:
            start = allocator.alloc(size, align)
        except MemoryError:
            continue
        assert start % align == 0
        assert all(start + size <= s or s + n <= start for s, n in live.items())
        live[start] = size
        if step % 100 == 0:
            allocator.check()
    allocator.check()


LIVES = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 30), st.integers(0, 12)).map(
        lambda t: (t[0], t[1], t[1] + t[2])
    ),
    min_size=1,
    max_size=40,
)


def _no_overlap(lives: list[Lifetime[int]], offsets: dict[int, int]) -> bool:
    """Byte-exact check that shares nothing with the planner: which buffer owns each byte at each item."""
    for t in range(max(live.last for live in lives) + 1):
        spans = sorted((offsets[v.key], offsets[v.key] + v.nbytes) for v in lives if v.first <= t <= v.last)
        if any(a[1] > b[0] for a, b in pairwise(spans)):
            return False
    return True


@given(LIVES)
def test_live_buffers_never_overlap(spec: list[tuple[int, int, int]]) -> None:
    """checklist 66: no two live buffers share a byte, at either strategy; the smaller arena wins."""
    lives = [Lifetime(i, n, first, last) for i, (n, first, last) in enumerate(spec)]
    sizes = []
    for strategy in (place_by_size, place_in_time, place):
        placement = strategy(lives, 256)
        assert _no_overlap(lives, dict(placement.offsets))
        assert all(o % 256 == 0 for o in placement.offsets.values())
        assert all(placement.offsets[v.key] + v.nbytes <= placement.nbytes for v in lives)
        sizes.append(placement.nbytes)
    assert sizes[2] == min(sizes)


def test_sizes_from_one_byte_to_huge() -> None:
    """checklist 66: Python integers have no width."""
    lives = [Lifetime("a", 1, 0, 1), Lifetime("b", 2**128, 0, 0), Lifetime("c", 2**127, 1, 2)]
    placement = place(lives, 256)
    assert placement.nbytes < 2**128 + 2**127


def test_chain_needs_a_constant_arena() -> None:
    """checklist 71: a chain of equal layers ping-pongs between two buffers."""
    uses = [[f"t{i}", f"t{i + 1}"] for i in range(50)]
    lives = lifetimes(uses, {f"t{i}": 1000 for i in range(51)})
    assert place(lives, 256).nbytes == 2 * 1024


def test_a_buffer_dying_at_an_item_is_not_reused_within_it() -> None:
    lives = lifetimes([["a"], ["a", "b"], ["b", "c"]], {"a": 10, "b": 10, "c": 10})
    placement = place(lives, 256)
    assert placement.offsets["a"] != placement.offsets["b"] != placement.offsets["c"]
    assert placement.offsets["a"] == placement.offsets["c"]
