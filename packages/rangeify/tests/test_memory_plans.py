"""The arena of whole schedules, looked at by a checker that knows only their text form."""

from __future__ import annotations

import json
import random
from typing import Any

import attrs
import numpy as np
import pytest
from peer.backends import Ours
from peer.branching import BRANCHING
from peer.networks import NETWORKS
from tensor_programs.on_tensors import tensors
from tensor_programs.strategies import grow

import rangeify
from rangeify import Config, Tensor
from uopgraph import dtypes

BYTES = {"bool": 1, "int8": 1, "uint8": 1, "float16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8}


@attrs.frozen
class Span:
    """Bytes [start, stop) of the arena belong to a buffer during items first ... last."""

    name: str
    start: int
    stop: int
    first: int
    last: int


def spans(text: str) -> list[Span]:
    """What the text form of a schedule says about the arena. A buffer that a copy touches is also held for as long
    again as it lived, and one item more (it may still be on its way)."""
    data = json.loads(text)
    used: dict[int, list[int]] = {}
    copied: set[int] = set()
    for i, item in enumerate(data["items"]):
        lists = [item["buffers"], *item.get("others", [])] if "kernel" in item else [item["copy"][:2]]
        for b in {b for some in lists for b in some}:
            used.setdefault(b, []).append(i)
            if "kernel" not in item:
                copied.add(b)
    out = []
    for b, offset in data["arena"]["offsets"]:
        buffer = data["buffers"][b]
        size = BYTES[buffer["dtype"]] * int(np.prod(buffer["shape"], dtype=object))
        first, last = min(used[b]), max(used[b])
        held = last + 1 + (last - first + 1) - 1 if b in copied else last
        out.append(Span(buffer["name"], offset, offset + size, first, held))
    return out


def overlaps(found: list[Span]) -> list[tuple[str, str]]:
    """The pairs that share a byte while both live."""
    return [
        (a.name, b.name)
        for i, a in enumerate(found)
        for b in found[:i]
        if a.first <= b.last and b.first <= a.last and a.start < b.stop and b.start < a.stop
    ]


def check(schedule: rangeify.Schedule) -> list[Span]:
    found = spans(schedule.to_json())
    assert overlaps(found) == []
    assert all(s.start >= 0 and s.stop <= schedule.arena.nbytes for s in found)
    assert all(s.start % schedule.arena.alignment == 0 for s in found)
    return found


@pytest.mark.sweep(default=60, full=500)
def test_no_two_live_buffers_overlap_in_random_schedules(cases: int) -> None:
    """rangeify checklist 66."""
    shared = 0
    for seed in range(cases):
        rng = random.Random(seed)
        program = grow(rng.randrange)
        made = tensors(program)
        schedule = rangeify.schedule(
            *(made[name] for name in program.outputs), config=Config(schedule_cache=0)
        )
        found = check(schedule)
        shared += any(a.start < b.stop and b.start < a.stop for i, a in enumerate(found) for b in found[:i])
    assert shared >= cases // 5


def devices_program(seed: int) -> list[Tensor]:
    """Values that go from device to device."""
    rng = random.Random(seed)
    names = ["cpu", "cpu:1", "cpu:2"]
    x = [Tensor(np.ones((8, 8 + seed % 3), np.float32))]
    for _ in range(4 + rng.randrange(5)):
        value = (rng.choice(x).T * 2).contiguous()
        x.append(value.to(rng.choice(names)) + 1 if rng.random() < 0.7 else value)
    return [x[-1]]


def test_copies_lie_apart_and_are_held_longer() -> None:
    """rangeify checklist 67, 68: lanes by device and by whether a copy takes part; a copied buffer is not given away at
    once."""
    lanes = 0
    for seed in range(20):
        schedule = rangeify.schedule(*devices_program(seed))
        found = check(schedule)
        lanes = max(lanes, len(schedule.arena.lanes))
        copied = {
            schedule.buffers[b].name
            for item in schedule.items
            if not isinstance(item, rangeify.Kernel)
            for b in item.touched
        }
        for s in found:
            (lane,) = [n for n in schedule.arena.lanes if n.start <= s.start < n.start + n.nbytes]
            assert lane.copies == (s.name in copied)
    assert lanes >= 4


def test_a_buffer_lives_until_the_last_use_of_a_view_of_it() -> None:
    """rangeify checklist 69: reads through slices, reshapes and bit-casts are uses."""
    x = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8))
    kept = (x.T + 1).contiguous()
    value = x
    for _ in range(4):
        value = (value.T * 2).contiguous()
    late = kept[2:4].reshape(16).contiguous()
    bits = Tensor(kept[4:6].uop.bitcast(dtypes.int32)).reshape(16)
    schedule = rangeify.schedule(
        value.reshape(64)[:16] + late, (bits + 1) * 1, config=Config(fusion="reference")
    )
    found = {s.name: s for s in check(schedule)}
    reads = {
        schedule.buffers[b].name: i for i, k in enumerate(schedule.kernels) for b in k.reads
    }  # the last one
    assert len(found) >= 5
    for name, span in found.items():
        assert span.last >= reads[name]
    a = x.numpy()
    got = rangeify.run(schedule)
    np.testing.assert_array_equal(got[0], (a * 16).reshape(64)[:16] + (a.T + 1)[2:4].reshape(16))
    np.testing.assert_array_equal(got[1], np.ascontiguousarray((a.T + 1)[4:6]).view(np.int32).reshape(16) + 1)


def live_bound(schedule: rangeify.Schedule) -> int:
    """The sum over lanes of the largest sum of rounded sizes that live at one item."""
    step = schedule.arena.alignment
    found = spans(schedule.to_json())
    total = 0
    for lane in schedule.arena.lanes:
        own = [s for s in found if lane.start <= s.start < lane.start + lane.nbytes]
        total += max(
            sum(-(-(s.stop - s.start) // step) * step for s in own if s.first <= i <= s.last)
            for i in range(len(schedule.items) * 2)
        )
    return total


@pytest.mark.parametrize("name", [*BRANCHING, *NETWORKS])
@pytest.mark.parametrize("fusion", ["reference", "rows"])
def test_networks_need_little_more_than_what_lives_at_once(name: str, fusion: str) -> None:
    """With inputs, parameters and results held and nothing else, the arena is at most 1.1 times the largest sum of live
    rounded sizes; all other values are in it."""
    network: Any = {**BRANCHING, **NETWORKS}[name]
    schedule = rangeify.schedule(*network(Ours()), config=Config(fusion=fusion))
    check(schedule)
    stored = [item.touched[0] for item in schedule.items]
    results = [b for b in schedule.buffers if b.role is rangeify.Role.OUTPUT]
    assert len(results) <= 2
    assert len(schedule.arena.offsets) == len(set(stored)) - len(results) >= 1
    assert schedule.arena.nbytes <= 1.1 * live_bound(schedule)


def test_a_schedule_in_which_everything_is_held_is_a_failure() -> None:
    """The checks above notice a planner that plans nothing, and one that gives a place away too early."""
    network = Ours()
    schedule = rangeify.schedule(*BRANCHING["u-net"](network), config=Config(memory_planner=False))
    assert len(schedule.arena.offsets) == 0 < len(schedule.items) - 1
    planned = rangeify.schedule(*BRANCHING["u-net"](network))
    for victim in planned.arena.offsets:
        for other in planned.arena.offsets:
            if victim != other:
                moved = {**planned.arena.offsets, victim: planned.arena.offsets[other]}
                wrong = attrs.evolve(planned, arena=attrs.evolve(planned.arena, offsets=moved))
                a, b = (
                    next(s for s in spans(planned.to_json()) if s.name == planned.buffers[i].name)
                    for i in (victim, other)
                )
                if a.first <= b.last and b.first <= a.last:
                    assert overlaps(spans(wrong.to_json()))
                    return
    pytest.fail("no two temporaries live at once")
