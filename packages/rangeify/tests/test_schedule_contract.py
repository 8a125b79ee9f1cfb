"""The Schedule as a contract: purity, cache, inputs, memory, text form, README."""

from __future__ import annotations

import doctest
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rangeify
import uopgraph
from rangeify import Config, InputError, Tensor
from rangeify.lowering import clear_schedule_cache, statistics
from rangeify.schedule_types import ScheduleFormatError


def tensor(*shape: int, seed: int = 0, dtype: str = "float32") -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def test_the_fused_demo_kernel_is_bit_exact() -> None:
    """((a * b + c).relu() * 0.5) in f16: one kernel, equal to NumPy bit for bit."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(s).astype(np.float16) for s in ((96, 640), (640,), (96, 1))]
    a, b, c = map(Tensor, arrays)
    schedule = rangeify.schedule((a * b + c).relu() * 0.5)
    want = np.maximum(arrays[0] * arrays[1] + arrays[2], np.float16(0)) * np.float16(0.5)
    assert [k.name for k in schedule.kernels] == ["E_96_640"]
    for order in (None, 0, 1):
        (got,) = rangeify.run(schedule, order=order)
        assert got.tobytes() == want.tobytes()


def test_schedule_is_pure_and_run_repeats() -> None:
    """Scheduling and running change no Tensor; other inputs give other results of the same schedule."""
    x, y = tensor(3, 4), tensor(3, 4, seed=1)
    z = x * y
    node = z.uop
    schedule = rangeify.schedule(z)
    first = rangeify.run(schedule)[0]
    ones = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(rangeify.run(schedule, [ones, 2 * ones])[0], 2 * ones)
    np.testing.assert_array_equal(rangeify.run(schedule, {"in1": ones})[0], x.numpy())
    np.testing.assert_array_equal(rangeify.run(schedule)[0], first)
    assert z.uop is node


def test_inputs_are_in_the_order_of_the_expression() -> None:
    c, b, a = tensor(1), tensor(2, seed=1), tensor(2, seed=2)
    schedule = rangeify.schedule(a * b + c)
    assert [schedule.buffers[i].shape for i in schedule.inputs] == [(2,), (2,), (1,)]
    assert [schedule.buffers[i].name for i in schedule.inputs] == ["in0", "in1", "in2"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.zeros((3, 4), np.float32)], "1 arrays for 2 inputs"),
        ({"in7": np.zeros(1)}, "no input is called 'in7'"),
        ({"in0": np.zeros((4, 3), np.float32)}, r"in0 must be float32 of shape \(3, 4\)"),
        ({"in0": np.zeros((3, 4), np.float16)}, "got float16"),
    ],
)
def test_wrong_inputs_are_named(inputs: object, message: str) -> None:
    schedule = rangeify.schedule(tensor(3, 4) * tensor(3, 4, seed=1))
    with pytest.raises(InputError, match=message):
        rangeify.run(schedule, inputs)  # type: ignore[arg-type]


def test_a_loaded_schedule_needs_its_inputs() -> None:
    schedule = rangeify.schedule(tensor(3) * 2)
    loaded = rangeify.Schedule.from_json(schedule.to_json())
    with pytest.raises(InputError, match="in0 of shape"):
        rangeify.run(loaded)


def test_equal_graphs_on_other_buffers_hit_the_cache() -> None:
    """checklist 6, 7, 8, 10: the key is structure and configuration, not storage."""
    clear_schedule_cache()

    def make(seed: int, side: int = 4) -> Tensor:
        return (tensor(side, 4, seed=seed) + 1).contiguous().T * tensor(4, side, seed=seed + 1)

    before = (statistics.hits, statistics.misses)
    one = rangeify.schedule(make(0))
    two = rangeify.schedule(make(10))
    assert (statistics.hits - before[0], statistics.misses - before[1]) == (1, 1)
    assert [k.body for k in one.kernels] == [k.body for k in two.kernels]
    assert one.nodes is not None
    assert two.nodes is not None
    assert not set(one.nodes) & {n for n in two.nodes if n.op.name == "BUFFER"}
    rangeify.schedule(make(0, 6))
    rangeify.schedule(make(0), config=Config(partial_stage=1))
    assert statistics.misses - before[1] == 3
    rangeify.schedule(make(0), config=Config(schedule_cache=0))
    assert (statistics.hits - before[0], statistics.misses - before[1]) == (1, 3)


def test_temporaries_share_the_arena() -> None:
    """checklist 70, 71: a chain of stored layers ping-pongs between two slots, with the right values."""
    x = tensor(16, 16)
    value = x
    for _ in range(8):
        value = (value.T + 1).contiguous()
    planned = rangeify.schedule(value)
    assert len(planned.arena.offsets) == 7
    assert planned.arena.nbytes == 2 * 1024
    unplanned = rangeify.schedule(value, config=Config(memory_planner=False))
    assert unplanned.arena.nbytes == 0
    np.testing.assert_array_equal(rangeify.run(planned)[0], rangeify.run(unplanned)[0])
    np.testing.assert_allclose(rangeify.run(planned)[0], x.numpy() + 8, rtol=1e-6)


def test_the_arena_is_really_shared() -> None:
    """A wrong plan gives wrong values: every temporary at offset 0 breaks the chain."""
    import attrs

    schedule = rangeify.schedule(
        (tensor(8, 8).T + 1).contiguous().T + (tensor(8, 8, seed=1).T * 2).contiguous().T
    )
    right = rangeify.run(schedule)[0]
    offsets = dict.fromkeys(schedule.arena.offsets, 0)
    wrong = attrs.evolve(schedule, arena=attrs.evolve(schedule.arena, offsets=offsets))
    assert len(offsets) == 2
    assert not np.array_equal(rangeify.run(wrong)[0], right)


def test_explain_says_why_a_value_is_stored() -> None:
    x = tensor(4, 8)
    e = (x - x.max(1, keepdims=True)).exp()
    text = rangeify.schedule(e / e.sum(1, keepdims=True), config=Config(fusion="reference")).explain()
    assert text.count("it reduces over a buffer") == 2
    assert "kernel 2: E_4_8" in text
    assert "it was asked for" in text
    marked = rangeify.schedule((x + 1).contiguous().T * 2).explain()
    assert "it is marked contiguous" in marked


def test_the_order_of_dicts_and_sets_plays_no_part() -> None:
    """checklist 57: the same text under two hash seeds."""
    program = (
        "import numpy as np, rangeify; from rangeify import Tensor\n"
        "x = Tensor(np.ones((8, 8), np.float32)); e = (x - x.max(1, keepdims=True)).exp()\n"
        "print(rangeify.schedule(e / e.sum(1, keepdims=True), (x + 1).contiguous().T + x).to_json())"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(rangeify=99),
        lambda d: d.pop("buffers"),
        lambda d: d["items"][0].update(buffers=[0]),
        lambda d: d["items"][0].update(buffers=[0, 77]),
        lambda d: d["buffers"][0].update(dtype="float17"),
        lambda d: d["bodies"][0]["rows"].pop(),
    ],
)
def test_malformed_text_is_refused(damage: object) -> None:
    data = json.loads(rangeify.schedule(tensor(3) * 2).to_json())
    damage(data)  # type: ignore[operator]
    with pytest.raises((ScheduleFormatError, rangeify.RangeifyError)):
        rangeify.Schedule.from_json(json.dumps(data))
    with pytest.raises(ScheduleFormatError):
        rangeify.Schedule.from_json("{")


def test_readme_example() -> None:
    result = doctest.testfile(str(Path(__file__).parents[1] / "README.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_nothing_stays_behind() -> None:
    """Scheduling, running, realising and writing leave no node alive once the Tensors and the cache are gone."""

    def work() -> None:
        x = Tensor(np.ones((8, 8), np.float32))
        y = (x - x.max(1, keepdims=True)).exp() @ x
        rangeify.run(rangeify.schedule(y))
        x[0:2] = y[0:2]
        x.realize()

    def nodes() -> int:
        clear_schedule_cache()
        gc.collect()
        return uopgraph.live_nodes()

    work()
    before = nodes()
    for _ in range(3):
        work()
    assert nodes() == before
