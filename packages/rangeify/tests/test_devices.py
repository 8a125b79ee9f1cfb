"""Several devices: shards, copies, all-reduce, and calls; NumPy is the oracle (scheduler spec 5, 13, 14,
16).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangeify
from rangeify import CallError, Config, Copy, DeviceError, Kernel, Schedule, Tensor
from rangeify import functions as f
from rangeify.lowering import clear_schedule_cache, statistics
from rangeify.multi.allreduce import algorithm, chunks
from uopgraph import DeviceError as GraphDeviceError
from uopgraph import UOp

ALGORITHMS = {"naive": Config(ring=0), "ring": Config(ring=2), "all-to-all": Config(all_to_all=2)}


def devices(n: int) -> tuple[str, ...]:
    return tuple(f"cpu:{i}" for i in range(n))


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def sharded(a: np.ndarray[Any, Any], n: int, axis: int | None = 0) -> Tensor:
    """A realised value on n devices."""
    return Tensor(a).shard(devices(n), axis).realize()


def check(schedule: Schedule, *want: np.ndarray[Any, Any]) -> Schedule:
    """Run before and after planning, in block orders, and from the text form."""
    for order in (None, 1):
        for got, expected in zip(rangeify.run(schedule, order=order), want, strict=True):
            np.testing.assert_array_equal(got, expected)
    return schedule


def counts(schedule: Schedule) -> tuple[int, int]:
    return len(schedule.kernels), len(schedule.copies)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_value_goes_to_devices_and_comes_back(n: int, axis: int | None) -> None:
    """checklist 78: a shard gets its part alone; gathering takes fewer than 2n items and memory does not
    grow.
    """
    a = array(24, 48)
    x = Tensor(a).shard(devices(n), axis)
    schedule = check(rangeify.schedule(x), a)
    assert len(schedule.copies) == n
    held = [b for b in schedule.buffers if b.name.startswith("out")]
    assert len(held) == n
    assert sum(b.nbytes for b in held) == a.nbytes * (n if axis is None else 1)
    x.realize()
    assert x.uop.axis == axis
    assert x.device == devices(n)
    np.testing.assert_array_equal(x.numpy(), a)
    back = check(rangeify.schedule(x.to("cpu:9")), a)
    assert len(back.items) <= n + 1 < 2 * n + 1
    assert back.buffers[back.items[-1].touched[0]].device == "cpu:9"


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_elementwise_work_on_shards_is_one_item(n: int) -> None:
    """checklist 73: equal sharding needs no copy; the whole value of another operand is cut where it is."""
    a, b = array(24, 48), array(24, 48, seed=1)
    x, y = sharded(a, n), sharded(b, n)
    schedule = check(rangeify.schedule((x + y).relu() * 2), np.maximum(a + b, 0) * 2)
    assert counts(schedule) == (1, 0)
    (kernel,) = schedule.kernels
    assert [schedule.buffers[launch[0]].device for launch in kernel.launches] == list(devices(n))
    row, column = sharded(a[0], n, None), sharded(b[:, :1], n, None)
    assert counts(check(rangeify.schedule(x * row + column), a * a[0] + b[:, :1])) == (1, 0)
    assert counts(check(rangeify.schedule(x * 2 + np.float32(1)), a * 2 + 1)) == (1, 0)
    other = sharded(b, n, 1)
    check(rangeify.schedule(x + other), a + b)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_reductions_over_the_sharded_axis(n: int, name: str) -> None:
    """checklist 74: sums and maxima over the sharded axis, over the other one, and over both."""
    a = array(24, 10, seed=n)
    x = sharded(a, n)
    config = ALGORITHMS[name]
    for value, want in (
        (x.sum(0), a.sum(0)),
        (x.max(0), a.max(0)),
        (x.sum(), a.sum()),
        ((x.sum(0, keepdims=True) * x).sum(1), (a.sum(0, keepdims=True) * a).sum(1)),
        (x.mean(0), a.mean(0)),
    )[: 5 if n < 8 else 3]:
        check(rangeify.schedule(value, config=config), want)
    assert counts(rangeify.schedule(x.sum(1), config=config)) == (1, 0)


def test_copies_of_each_algorithm() -> None:
    """checklist 74: 4 devices, (4, 400): 12 copies and 2 kernels, or 24 copies; the ring's pairs are one
    ring.
    """
    x = sharded(array(4, 400), 4)
    assert counts(rangeify.schedule(x.sum(0), config=ALGORITHMS["naive"])) == (2, 12)
    for name in ("ring", "all-to-all"):
        schedule = rangeify.schedule(x.sum(0), config=ALGORITHMS[name])
        assert len(schedule.copies) == 24
        place = {b: i for i, b in enumerate(devices(4))}
        pairs = {
            (place[schedule.buffers[c.source].device], place[schedule.buffers[c.destination].device])
            for c in schedule.copies
        }
        assert len(pairs) == (4 if name == "ring" else 12)
        if name == "ring":
            assert pairs == {(i, (i + 1) % 4) for i in range(4)}


def test_the_choice_of_the_algorithm() -> None:
    """checklist 74: by the number of elements and devices."""
    assert algorithm(Config(), 4, 256_000) == "naive"
    assert algorithm(Config(), 4, 256_001) == "ring"
    assert algorithm(Config(), 2, 256_001) == "naive"
    assert algorithm(Config(all_to_all=1), 4, 256_001) == "all-to-all"
    assert algorithm(Config(all_to_all=1), 4, 10) == "naive"
    assert algorithm(Config(ring=0), 4, 256_001) == "naive"
    assert chunks(400, 4) == [(0, 112), (112, 208), (208, 304), (304, 400)]
    assert chunks(1, 4) == [(0, 1)]
    for elements in (1, 7, 30, 96, 1000):
        for n in (2, 3, 8):
            cuts = chunks(elements, n)
            assert [a for a, _ in cuts] == [0, *(b for _, b in cuts[:-1])]
            assert cuts[-1][1] == elements


def test_half_precision_stays_narrow_on_the_wire() -> None:
    """checklist 76: the sum of float16 values is copied as float16, unless the configuration says
    otherwise.
    """
    x = Tensor(array(8, 16).astype(np.float16)).shard(devices(4), 0).realize()
    for cast, dtype in ((True, "float16"), (False, "float32")):
        schedule = rangeify.schedule(x.sum(0), config=Config(allreduce_cast=cast))
        assert {schedule.buffers[c.source].dtype.name for c in schedule.copies} == {dtype}
        np.testing.assert_array_equal(rangeify.run(schedule)[0], array(8, 16).sum(0))


def test_an_all_reduce_is_scheduled_once_for_many_uses() -> None:
    """checklist 10, 77: three reductions of one shape lower one inner body; each use has storage of its
    own.
    """
    a = array(8, 6)
    x = sharded(a, 4)
    clear_schedule_cache()
    before = statistics.misses
    values = [x.sum(0), (x * 2).sum(0), (x + 1).sum(0)]
    schedule = check(rangeify.schedule(*values), a.sum(0), 2 * a.sum(0), a.sum(0) + 8)
    assert statistics.misses == before + 2
    assert len(schedule.copies) == 3 * 12
    destinations = [c.destination for c in schedule.copies]
    assert len(set(destinations)) == len(destinations)


def test_what_would_move_items_between_devices_is_an_error() -> None:
    """checklist 75."""
    x = sharded(array(8, 6), 4)
    for bad, message in (
        (lambda: x.reshape(2, 24), "moved items between shards"),
        (lambda: x.flip(0), "flip of a sharded axis"),
        (lambda: x.pad(((2, 2), (0, 0))), "padding of a sharded axis"),
        (lambda: x[1:5], "not the part of one device"),
    ):
        with pytest.raises((DeviceError, GraphDeviceError), match=message):
            rangeify.schedule(bad() + 1)
    with pytest.raises(DeviceError, match="size 6 is not divisible by 4 devices"):
        Tensor(array(8, 6)).shard(devices(4), 1)


@pytest.mark.parametrize("n", [2, 4])
def test_devices_that_do_not_fit_together(n: int) -> None:
    """No devices, one twice, other devices on either side."""
    a = array(8, 6)
    for names in ((), ("cpu:0", "cpu:0")):
        for call in (lambda names=names: Tensor(a).shard(names, 0), lambda names=names: Tensor(a).to(names)):
            with pytest.raises(DeviceError, match="not the names of different devices"):
                call()
    x = sharded(a, n)
    for other in (
        Tensor(a).shard(("gpu:0", "gpu:1"), 0),
        Tensor(a, device="cpu:0"),
        Tensor(a, device="gpu:0"),
    ):
        with pytest.raises(DeviceError, match="all buffers must be on the same device"):
            rangeify.schedule(x + other)
    with pytest.raises(rangeify.AssignError, match="assign device mismatch"):
        x[...] = Tensor(a)
    np.testing.assert_array_equal((x + a).numpy(), a * 2)
    moved = x.to(("gpu:0", "gpu:1")) + Tensor(a).shard(("gpu:0", "gpu:1"), 0)
    np.testing.assert_array_equal(moved.numpy(), a * 2)


@pytest.mark.parametrize("n", [2, 4])
def test_functions_of_shards(n: int) -> None:
    """What is made of many operations: gathers by arrays, joins, masks, products, the softmax of either axis."""
    a = array(8, 8)
    x, y = sharded(a, n), sharded(a, n, 1)
    rows = np.array([5, 0, 5])
    for value, want in (
        (x[rows], a[rows]),
        (y[rows], a[rows]),
        (f.concatenate([x, x * 2], 1), np.concatenate([a, a * 2], 1)),
        (f.stack([x, x + 1]), np.stack([a, a + 1])),
        (x @ Tensor(a).shard(devices(n)), a @ a),
        (y @ x, a @ a),
        (x + Tensor.arange(8).cast("float32"), a + np.arange(8, dtype=np.float32)),
        (x.bitcast("uint8"), a.view(np.uint8)),
        (x.min(0) + x.prod(1), a.min(0) + a.prod(1)),
    ):
        np.testing.assert_array_equal(value.numpy(), want)
    for axis in (0, 1):
        np.testing.assert_allclose(f.softmax(x, axis).numpy().sum(axis), np.ones(8), rtol=1e-5)
    x[x > 3] = 0
    np.testing.assert_array_equal(x.numpy(), np.where(a > 3, 0, a))


@pytest.mark.parametrize("n", [2, 4])
def test_movement_within_shards(n: int) -> None:
    a = array(8, 6)
    x = sharded(a, n)
    for value, want in (
        (x.T * 2, a.T * 2),
        (x.reshape(8, 2, 3) + 1, a.reshape(8, 2, 3) + 1),
        (x.reshape(n, 8 // n, 6).sum(2), a.reshape(n, 8 // n, 6).sum(2)),
        (x.flip(1) + 0.5, a[:, ::-1] + 0.5),
        (x.pad(((0, 0), (1, 2))), np.pad(a, ((0, 0), (1, 2)))),
        (x.unsqueeze(0).expand(3, 8, 6) * 2, np.broadcast_to(a * 2, (3, 8, 6))),
        (x[:, 1:4] - 1, a[:, 1:4] - 1),
        (f.softmax(x), None),
    ):
        schedule = rangeify.schedule(value)
        assert counts(schedule)[1] == 0
        check(schedule, rangeify.run(schedule)[0] if want is None else want)


def test_a_part_of_one_device_is_copied_alone() -> None:
    """checklist 65: a slice that is the part of one device sends that part only."""
    a = array(8, 6)
    x = sharded(a, 4)
    schedule = check(rangeify.schedule(x[2:4] + 1), a[2:4] + 1)
    assert {schedule.buffers[c.source].device for c in schedule.copies} == {"cpu:1"}
    assert len(schedule.copies) == 3


def test_a_contiguous_slice_of_shards_is_free() -> None:
    """checklist 79: along the axis that is not sharded no kernel runs."""
    a = array(6, 8, 4)
    x = sharded(a, 4, 1)
    part = x[2:5].contiguous()
    assert rangeify.schedule(part).items == ()
    np.testing.assert_array_equal(part.numpy(), a[2:5])
    assert part.uop.axis == 1


def test_writes_to_shards() -> None:
    """checklist 80: the whole value, a piece of it, at a bound position; a reader made before keeps the
    value.
    """
    a = array(8, 8)
    x = sharded(a, 4)
    before = x * 2
    x[:, 1:3] = 7
    want = a.copy()
    want[:, 1:3] = 7
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(before.numpy(), a * 2)
    x += 1
    np.testing.assert_array_equal(x.numpy(), want + 1)
    x.assign(sharded(a, 4) * 3)
    np.testing.assert_array_equal(x.numpy(), a * 3)
    y = sharded(a, 4, 1)
    position = UOp.variable("position", 0, 7)
    del before
    y[position.bind(5) : position.bind(5) + 1] = 9
    schedule = rangeify.schedule(y)
    assert counts(schedule) == (1, 0)
    for row in (0, 3, 7):
        expected = a.copy()
        expected[row] = 9
        got = rangeify.run(schedule, bindings={"position": row})[0]
        np.testing.assert_array_equal(got, expected)


#: Parts of an (8, 6) value: across the borders of shards, of one shard, every second row, backwards, one element.
PARTS: list[Any] = [
    slice(1, 3),
    slice(3, 7),
    slice(0, 4),
    -1,
    slice(None, None, 2),
    slice(None, None, -1),
    (slice(6, 1, -2), slice(1, 5)),
    (5, 2),
    (None, slice(2, 5)),
    np.array([6, 1, 6]),
]


@pytest.mark.parametrize(("n", "axis"), [(2, 0), (2, 1), (4, 1), (8, 0)])
def test_writes_to_parts_of_a_sharded_axis(n: int, axis: int) -> None:
    """rangeify checklist 80: numbers, whole values and parts of other devices; readers made before keep the value."""
    a = array(8, 8)
    for stored in (False, True):
        for key in PARTS[stored::n]:
            x = sharded(a, n, axis) if stored else Tensor(a).shard(devices(n), axis)
            before, want = x + 1, a.copy()
            x[key] = 7
            want[key] = 7
            line = array(*want[key].shape, seed=3)
            x[key] = Tensor(line).to(devices(n))
            want[key] = line
            assert x.uop.axis == axis
            check(rangeify.schedule(x), want)
            np.testing.assert_array_equal(x.numpy(), want)
            np.testing.assert_array_equal(before.numpy(), a + 1)
    size = 8 // n
    x, want = sharded(a, n), a.copy()
    x[:size] = x[-size:]
    want[:size] = a[-size:]
    np.testing.assert_array_equal(x.numpy(), want)
    position = UOp.variable("position", 0, 5)
    y = sharded(a, n)
    y[position.bind(1) : position.bind(1) + 3] = 9
    schedule = rangeify.schedule(y)
    for row in range(6):
        want = a.copy()
        want[row : row + 3] = 9
        np.testing.assert_array_equal(rangeify.run(schedule, bindings={"position": row})[0], want)
    with pytest.raises(DeviceError, match=r"copy the whole to its devices first|flip of a sharded axis"):
        rangeify.schedule(x[1:8] * 2)


def test_copies_between_two_devices() -> None:
    """checklist 63: a copy is one item; of a permuted source a kernel more; compute, copy, compute are
    three.
    """
    a = array(4, 6)
    x = Tensor(a, device="cpu:0")
    assert counts(check(rangeify.schedule(x.to("cpu:1")), a)) == (0, 1)
    assert counts(check(rangeify.schedule(x[1:3].to("cpu:1")), a[1:3])) == (0, 1)
    assert counts(check(rangeify.schedule(x.reshape(24).to("cpu:1")), a.reshape(24))) == (0, 1)
    assert counts(check(rangeify.schedule(x.T.to("cpu:1")), a.T)) == (1, 1)
    schedule = check(rangeify.schedule((x + 1).to("cpu:1") * 2), (a + 1) * 2)
    assert [type(i) for i in schedule.items] == [Kernel, Copy, Kernel]
    assert "copy 1: cpu:0 -> cpu:1\n  96 bytes from" in schedule.explain()


def test_readers_on_every_device() -> None:
    """A kernel over several devices reads the buffers of each of them, and says so."""
    schedule = rangeify.schedule(Tensor(array(4, 6)).shard(("cpu:0", "cpu:1"), axis=0) * 2)
    assert [type(i) for i in schedule.items] == [Copy, Copy, Kernel]
    assert schedule.explain().count("stored because it is a copy from cpu; read by 2") == 2


def test_devices_that_are_no_sequence_of_names() -> None:
    """One name is not taken for the names of its letters."""
    x = Tensor(array(4, 5))
    for wrong in ("cpu:0", 3):
        with pytest.raises(CallError, match=r"shard: 'devices' must be Sequence\[str\]"):
            x.shard(wrong, axis=1)  # type: ignore[arg-type]
    with pytest.raises(CallError, match=r"to: 'device' must be str \| Sequence\[str\], not int"):
        x.to(5)  # type: ignore[arg-type]


def test_the_same_device_and_mixed_devices() -> None:
    """checklist 64."""
    x = Tensor(array(4), device="cpu:0")
    y = Tensor(array(4), device="cpu:1")
    assert rangeify.schedule(x.to("cpu:0")).items == ()
    assert counts(rangeify.schedule(x.to("cpu:0") + 1)) == (1, 0)
    with pytest.raises(
        DeviceError, match=r"all buffers must be on the same device: \['cpu:0', 'cpu:1'\]"
    ) as e:
        rangeify.schedule(x + y)
    assert e.value.devices == ("cpu:0", "cpu:1")
    np.testing.assert_array_equal((x.to("cpu:1") + y).numpy(), array(4) * 2)
    np.testing.assert_array_equal((x + array(4)).numpy(), array(4) * 2)


def test_copies_and_kernels_have_lanes_of_their_own() -> None:
    """checklist 67, 68: temporaries of copies never share bytes with others, and are held after their last
    use.
    """
    a = array(16, 16)
    x = Tensor(a, device="cpu:0")
    for _ in range(3):
        x = ((x.T + 1).contiguous().T * 2).to("cpu:1") + 1
        x = (x.T * 2).contiguous().T.to("cpu:0")
    schedule = rangeify.schedule(x * 1.5)
    lanes = schedule.arena.lanes
    assert {(lane.device, lane.copies) for lane in lanes} >= {("cpu:0", True), ("cpu:1", True)}
    assert [lane.start for lane in lanes] == [sum(v.nbytes for v in lanes[:i]) for i in range(len(lanes))]
    copied = {b for c in schedule.copies for b in c.touched}
    used: dict[int, list[int]] = {}
    for at, item in enumerate(schedule.items):
        for b in item.touched:
            used.setdefault(b, []).append(at)
    for b, offset in schedule.arena.offsets.items():
        (lane,) = [v for v in lanes if v.start <= offset < v.start + v.nbytes]
        assert (lane.device, lane.copies) == (schedule.buffers[b].device, b in copied)
    for b in copied & schedule.arena.offsets.keys():
        first, last = used[b][0], used[b][-1]
        held = last + 1 + (last - first)
        for other in copied & schedule.arena.offsets.keys() - {b}:
            if schedule.arena.offsets[other] == schedule.arena.offsets[b]:
                assert used[other][0] > held or used[other][-1] < first
    loaded = Schedule.from_json(schedule.to_json())
    assert loaded.to_json() == schedule.to_json()
    np.testing.assert_array_equal(
        rangeify.run(loaded, {"in0": a})[0], rangeify.run(attrs_without_arena(schedule))[0]
    )


def attrs_without_arena(schedule: Schedule) -> Schedule:
    import attrs

    return attrs.evolve(schedule, arena=rangeify.Arena())


STEPS = ("scale", "add", "relu", "sum0", "sum1", "mul", "row", "transpose", "softmax")


@given(
    st.sampled_from([2, 3, 4]),
    st.sampled_from([0, 1, None]),
    st.sampled_from(list(ALGORITHMS)),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
)
@pytest.mark.sweep(default=20, full=500)
def test_random_programs_on_several_devices(
    n: int, axis: int | None, name: str, steps: list[tuple[str, int, int]]
) -> None:
    """checklist 73, 74: the same program on sharded Tensors and on arrays of small integers."""
    start = [np.random.default_rng(s).integers(-2, 3, (12, 12)).astype(np.float32) for s in range(2)]
    arrays: list[Any] = list(start)
    tensors = [Tensor(start[0]).shard(devices(n), axis), Tensor(start[1]).shard(devices(n), 0)]
    for step, i, j in steps:
        a, x = arrays[i % len(arrays)], tensors[i % len(tensors)]
        b, y = arrays[j % len(arrays)], tensors[j % len(tensors)]
        match step:
            case "scale":
                new = (a * 0.5 + 1, x * 0.5 + 1)
            case "add":
                new = (a + b, x + y)
            case "mul":
                new = (np.clip(a * b, -8, 8), (x * y).minimum(8).maximum(-8))
            case "relu":
                new = (np.maximum(a, 0), x.relu())
            case "sum0":
                new = (
                    np.broadcast_to(a.sum(0, keepdims=True), a.shape),
                    x.sum(0, keepdims=True).expand(12, 12),
                )
            case "sum1":
                new = (
                    np.broadcast_to(a.sum(1, keepdims=True), a.shape),
                    x.sum(1, keepdims=True).expand(12, 12),
                )
            case "row":
                new = (a - a.max(1, keepdims=True), x - x.max(1, keepdims=True))
            case "transpose":
                new = (a.T, x.T)
            case _:
                new = (np.where(a > b, a, b * 2), (x > y).where(x, y * 2))
        arrays.append(np.asarray(new[0], np.float32))
        tensors.append(new[1])
    schedule = rangeify.schedule(tensors[-1], tensors[len(tensors) // 2], config=ALGORITHMS[name])
    for order in (None, 1):
        got = rangeify.run(schedule, order=order)
        np.testing.assert_array_equal(got[0], arrays[-1])
        np.testing.assert_array_equal(got[1], arrays[len(arrays) // 2])
    rangeify.realize(*tensors, config=ALGORITHMS[name])
    np.testing.assert_array_equal(tensors[-1].numpy(), arrays[-1])
