"""Read-after-write and write-after-read edges, on call bodies written by hand (scheduler spec 12 and 17)."""

from __future__ import annotations

import numpy as np
import pytest

from rangeify import Config, CycleError, ScheduleError
from rangeify.executor.kernel import run_kernel
from rangeify.lowering import lower_sink
from uopgraph import UOp, dtypes


def param(slot: int, *shape: int) -> UOp:
    return UOp.param(slot, dtypes.float32, shape or (4,), "cpu")


def execute(body: UOp, arrays: list[np.ndarray]) -> list[int]:  # type: ignore[type-arg]
    """Lower a body, run it on `arrays` (by PARAM slot), and give the slots written, in order."""
    lowered = lower_sink(body, Config())
    memory = dict(enumerate(arrays))
    written = []
    for call in lowered.linear.src:
        slots = []
        for a in call.src[1:]:
            if a.op.name == "ALLOC":
                memory.setdefault(a.arg.slot, np.full(a.shape, np.nan, np.float32))
            slots.append(a.arg.slot)
        run_kernel(call.src[0], [memory[s] for s in slots], np.random.default_rng(0))
        written.append(slots[0])
    return written


def start(n: int) -> list[np.ndarray]:  # type: ignore[type-arg]
    return [np.arange(4, dtype=np.float32) + 10 * i for i in range(n)]


def names(body: UOp) -> list[str]:
    return [c.src[0].arg.name for c in lower_sink(body, Config()).linear.src]


@pytest.mark.parametrize("reverse", [False, True])
def test_readers_of_a_state_come_before_the_write_that_supersedes_it(reverse: bool) -> None:
    """checklist 52, 53: y = x + 10; x.assign(x * 2), in either order of the sink."""
    x, y = param(0), param(1)
    effects = [y.after(y.store(x + 10.0)), x.after(x.store(x * 2.0))]
    arrays = start(2)
    assert execute(UOp.make_sink(*(effects[::-1] if reverse else effects)), arrays) == [1, 0]
    np.testing.assert_array_equal(arrays[1], np.arange(4) + 10)
    np.testing.assert_array_equal(arrays[0], np.arange(4) * 2)


def test_a_chain_of_writes_keeps_its_order() -> None:
    """checklist 51, 56: n writes to one buffer are n kernels on it, and a reader sees the state that it
    names.
    """
    x, y = param(0), param(1)
    state = x
    for i in range(5):
        state = state.after(state.store(state * 2.0 + float(i)))
    arrays = start(2)
    assert execute(UOp.make_sink(y.after(y.store(state + 1.0))), arrays) == [0] * 5 + [1]
    want = np.arange(4, dtype=np.float32)
    for i in range(5):
        want = want * 2 + i
    np.testing.assert_array_equal(arrays[1], want + 1)


def test_crossing_over_works_and_crossing_under_is_a_cycle() -> None:
    """checklist 54: a += b; b += a is fine; c = a + 9; a += b; b += c has no order; the error names the
    kernels.
    """
    a, b = param(0), param(1)
    a1 = a.after(a.store(a + b))
    b1 = b.after(b.store(b + a1))
    arrays = start(2)
    execute(UOp.make_sink(a1, b1), arrays)
    old = start(2)
    np.testing.assert_array_equal(arrays[0], old[0] + old[1])
    np.testing.assert_array_equal(arrays[1], old[1] + old[0] + old[1])
    crossed = UOp.make_sink(a1, b.after(b.store(b + (a + 9.0))))
    with pytest.raises(CycleError, match=r"cycle detected in assign graph.*E_4") as caught:
        lower_sink(crossed, Config())
    assert len(caught.value.kernels) == 2
    assert all("PARAM" in k for k in caught.value.kernels)


def test_two_states_of_one_buffer_in_one_kernel() -> None:
    """checklist 49, 54: an error without CONTIGUOUS, right with it."""
    x, y = param(0), param(1)
    x1 = x.after(x.store(x + 1.0))
    with pytest.raises(CycleError, match="two states of one buffer"):
        lower_sink(UOp.make_sink(y.after(y.store(x * x1))), Config())
    arrays = start(2)
    old = (x * 3.0).contiguous()
    execute(UOp.make_sink(y.after(y.store(old * x1))), arrays)
    np.testing.assert_array_equal(arrays[1], np.arange(4) * 3.0 * (np.arange(4) + 1.0))


def test_slices_of_one_buffer_updated_in_one_schedule() -> None:
    """checklist 55: all land, whatever the order of the later reader's arguments."""
    x, y = param(0, 10), param(1, 10)
    state = x
    for i in range(5):
        part = ((2 * i, 2 * i + 2),)
        state = state.after(state.shrink(part).store(state.shrink(part) * float(i)))
    arrays = [np.ones(10, np.float32), np.zeros(10, np.float32)]
    execute(UOp.make_sink(y.after(y.store(state))), arrays)
    np.testing.assert_array_equal(arrays[1], np.repeat(np.arange(5.0), 2))


def test_a_join_waits_for_all_its_members() -> None:
    """checklist 58: AFTER on several states orders all of them before a reader and is no write itself."""
    x, y, z = param(0), param(1), param(2)
    x1, y1 = x.after(x.store(z + 1.0)), y.after(y.store(z + 2.0))
    joined = x1.after(y1)
    out = param(3)
    arrays = start(4)
    written = execute(UOp.make_sink(out.after(out.store(joined * 1.0))), arrays)
    assert written[-1] == 3
    assert set(written) == {0, 1, 3}


def delayed(z: UOp) -> UOp:
    """A state of `z` that two kernels make, one after the other: whatever waits for it starts late."""
    z1 = z.after(z.store(z * 2.0))
    return z1.after(z1.store(z1 + 1.0))


def test_a_reader_of_a_join_waits_for_members_that_start_late() -> None:
    """rangeify checklist 58: members are ordered before the reader though it reads the storage of only one of them."""
    x, y, z, out = (param(i) for i in range(4))
    late = delayed(z)
    x1, y1 = x.after(x.store(late + 1.0)), y.after(y.store(late + 2.0))
    for joined in (x1.after(y1), x.after(x1, y1), x1.after(y1).after(late)):
        arrays = start(4)
        written = execute(UOp.make_sink(out.after(out.store(joined * 1.0)), x1), arrays)
        assert sorted(written) == sorted([2, 2, 0, 1, 3])
        assert written[-1] == 3
        np.testing.assert_array_equal(arrays[3], start(4)[2] * 2 + 2)


def test_a_write_on_top_of_a_join_supersedes_what_is_beneath() -> None:
    """rangeify checklist 52, 58: a join is no write, so a late reader of the storage beneath still comes first."""
    x, y, z, w = (param(i) for i in range(4))
    late, other = delayed(z), w.after(w.store(w + 5.0))
    reader = y.after(y.store(x + late))
    joined = x.after(other)
    arrays = start(4)
    execute(UOp.make_sink(joined.after(joined.store(joined * 100.0)), reader), arrays)
    old = start(4)
    np.testing.assert_array_equal(arrays[1], old[0] + old[2] * 2 + 1)
    np.testing.assert_array_equal(arrays[0], old[0] * 100)


def test_a_moved_self_read_is_staged_and_a_plain_one_is_not() -> None:
    """checklist 81: transpose 2 kernels, element-wise 1, shifted slices 2."""
    a, b = param(0, 4, 4), param(1, 4, 4)
    assert names(UOp.make_sink(a.after(a.store(a.permute(1, 0) + b)))) == ["E_4_4", "E_4_4"]
    assert names(UOp.make_sink(a.after(a.store(a + b)))) == ["E_4_4"]
    x = param(0, 10)
    left, right = ((0, 5),), ((5, 10),)
    assert names(UOp.make_sink(x.after(x.shrink(left).store(x.shrink(right))))) == ["E_5", "E_5"]


def test_storing_what_is_there_is_no_kernel() -> None:
    """checklist 42."""
    x = param(0)
    assert names(UOp.make_sink(x.after(x.store(x)))) == []


def test_a_kernel_that_reads_its_target_elsewhere_is_caught() -> None:
    """A hazard that the rewrites miss is an error, not wrong bytes."""
    from rangeify.kernels import split_kernels

    x = param(0)
    r = UOp.range(4, 0)
    effect = x.index(r).store(x.index((r * -1) + 3)).end(r)
    with pytest.raises(ScheduleError, match="another index"):
        split_kernels(UOp.make_sink(x.after(effect)))
