"""Tiles that shrink towards the end: the estimate of their time, and nests cut in parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from schedule_oracle import elementwise

import dfsched
import ktir
from dfsched.dialects.ktdf import DataTransfer, Pipeline
from dfsched.passes.loop_nests import nest_number
from dfsched.plan import Plan
from dfsched.tapering import CopyTimes, Part, TileTimes, makespan, tapered
from ktir.dialects import scf

Tiles = tuple[int, ...]


def line(latency: int, load: int, compute: int, store: int, operands: int = 1):
    """Times by iterations; the port is as wide as all links together."""

    def times(size: int) -> TileTimes:
        loads = (CopyTimes(latency, load * size, 0),) * operands
        return TileTimes(loads, compute * size, (CopyTimes(latency, store * size, 0),))

    return times


@pytest.mark.parametrize(
    ("tiles", "copies", "wanted"),
    [
        ((4,), 1, 10 + 4 + 12 + 10 + 4),
        ((2, 2), 2, (10 + 2) + (10 + 2) + 6 + 10 + 2),  # loads are the longest
        ((2, 2), 1, (10 + 2) + 6 + (10 + 2) + 6 + 10 + 2),  # the second load waits for the computation
    ],
)
def test_time_of_a_line(tiles: Tiles, copies: int, wanted: int) -> None:
    """Latency 10, a cycle an iteration in and out, three to compute."""
    assert makespan(tiles, line(10, 1, 3, 1), copies) == wanted


def test_copies_share_a_port() -> None:
    """A load that comes behind a store at the port waits for it."""

    def times(size: int) -> TileTimes:
        return TileTimes((CopyTimes(0, 4, 4),), 1, (CopyTimes(0, 10, 10),))

    # loads 0-4 and 4-8, the store of the first tile keeps the port from 8 on: the third load ends at 22
    assert makespan((1, 1, 1), times, 3) == 4 + 4 + 10 + 4 + 10 + 10


@pytest.mark.parametrize("seed", range(12))
def test_tapered_tiles_beat_equal_ones(seed: int) -> None:
    """Parts add up, tiles do not grow, and nothing that was promised is lost by the cut into parts."""
    rng = np.random.default_rng(seed)
    trips, multiple = int(rng.integers(6, 60)), int(rng.integers(1, 3))
    times = line(*(int(n) for n in (rng.integers(1, 40), *rng.integers(1, 6, 3))))
    equal = Part(trips, -(-trips // 4)).tiles
    parts = tapered(equal, times, 2, multiple, lambda _: True)
    tiles = [tile for part in parts for tile in part.tiles]
    if not parts:
        return
    assert sum(tiles) == trips
    assert all(a >= b > 0 for a, b in itertools.pairwise([*tiles, 1]))
    assert all(tile % multiple == 0 for tile in tiles[1:])
    assert all(len(part.tiles) <= 2 for part in parts)
    assert makespan(tiles, times, len(tiles)) <= 0.97 * makespan(equal, times, 2)


def test_there_is_a_case_to_taper_and_one_not_to() -> None:
    assert tapered((26, 26, 26, 26, 24), line(100, 16, 32, 16, 2), 2, 2, lambda _: True)
    assert not tapered((26, 26, 26, 26, 24), line(0, 16, 32, 16, 2), 2, 2, lambda _: True)
    assert not tapered((26, 26, 26, 26, 24), line(100, 16, 32, 16, 2), 2, 2, lambda _: False)


def schedule(**pins: object) -> dfsched.Compiled:
    options = dfsched.Options(emit="schedule", pins=pins)
    return dfsched.compile(ktir.parse(elementwise((9, 256))), "sample", options)


def test_parts_follow_one_another() -> None:
    """Loops of 5, 3 and 1 iterations; the later ones start where those before them end."""
    made = schedule(parts=(5, 3, 1), part_sizes=(3, 3, 1))
    module = next(result.module for result in made.passes if result.name == "select-plan")
    pipelines = [op for op in module.walk() if isinstance(op, Pipeline)]
    assert [nest_number(op) for op in pipelines] == [0, 1, 2]
    rows = []
    for pipeline in pipelines:
        (first, *_) = (op for op in pipeline.walk() if isinstance(op, DataTransfer))
        rows.append(str(first.source_cell.map.results[0]))
    assert rows[0] in {"d0", "d0 + d1"}
    assert [row.removeprefix(rows[0]) for row in rows] == ["", " + 5", " + 8"]
    (plan,) = made.plans
    assert [nest.tile_sizes[0] for nest in plan.nests] == [3, 3, 1]
    assert [set(nest.buffer_depths) for nest in plan.nests] == [{2}, {1}, {1}]
    assert all(nest.parts == () for nest in plan.nests)
    assert Plan.from_json(plan.to_json()) == plan
    assert sum(isinstance(op, scf.For) for op in module.walk()) == 6


def test_other_choices_by_hand_leave_a_nest_whole() -> None:
    """Tile sizes or depths that are pinned are those of the whole nest."""
    for pins in ({"tile_sizes": 2}, {"buffer_depths": 1}, {"instances": 1}):
        assert len(schedule(**pins).plans[0].nests) == 1


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        (
            {"parts": (5, 3), "part_sizes": (3, 3)},
            "must add up to the trips of the outermost loop, 9, not to 8",
        ),
        ({"parts": (5, 4), "part_sizes": (3,)}, "'part_sizes' has 1 entries, but the nest has 2"),
        ({"parts": (9, 0), "part_sizes": (3, 1)}, r"'parts' must hold positive numbers, not \(9, 0\)"),
        ({"parts": 9, "part_sizes": (3,)}, "'parts' must hold positive numbers, not 9"),
    ],
)
def test_parts_that_do_not_fit(pins: dict[str, object], message: str) -> None:
    with pytest.raises(dfsched.ScheduleError, match=message):
        schedule(**pins)
