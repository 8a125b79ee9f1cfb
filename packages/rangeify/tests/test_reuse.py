"""Repeated blocks are lowered once (``Config.reuse``): the same kernels and the same bytes with and
without.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from peer.backends import Backend, Ours, Theirs
from peer.counter import total
from peer.networks import bert, llama, transformer
from peer.programs import norm, rms, softmax, swish

import rangeify
from rangeify import Config, Role, Schedule, Tensor, blocks, lowering
from rangeify.blocks import Segment
from uopgraph import UOp

Layer = Callable[[Backend, Any], Any]


def dense(b: Backend, x: Any) -> Any:
    return (x @ b.t(8, 8) + b.t(8)).maximum(0.25)


def residual(b: Backend, x: Any) -> Any:
    return x + swish(norm(b, x) @ b.t(8, 16)) @ b.t(16, 8)


def attention(b: Backend, x: Any) -> Any:
    h = norm(b, x) * b.t(8)
    q, k, v = (h @ b.t(8, 8) for _ in range(3))
    return x + softmax(b, q @ k.transpose(-2, -1)) @ v


def mixing(b: Backend, x: Any) -> Any:
    return (x.permute(1, 0) @ x) @ b.t(8, 8) * 0.125 + x


def centred(b: Backend, x: Any) -> Any:
    return x - b.sum(x, 1, keep=True) * 0.125


def scaled(b: Backend, x: Any) -> Any:
    return x + b.sum(x * b.t(8), 1, keep=True)


def wide(b: Backend, x: Any) -> Any:
    y = x @ b.t(8, 8)
    return y * 2 + y * 3


def scaled_norm(b: Backend, x: Any) -> Any:
    return x + (rms(b, x) @ b.t(8, 8)).maximum(0.0) @ b.t(8, 8)


LAYERS: tuple[Layer, ...] = (dense, residual, attention, mixing, centred, scaled, wide, scaled_norm)


POSITION = UOp.variable("position", 0, 3)


def remember(b: Backend, x: Any, late: bool) -> tuple[Any, Any]:
    """`x` with what a cache holds after `x` was written into it at a bound position; `late` reads what the
    cache held before, too."""
    cache = b.t(4, 8, 8)
    before = cache[1:3]
    cache[POSITION.bind(2)] = x @ b.t(8, 8)
    x = x + b.sum(cache, 0) @ b.t(8, 8)
    return (x + b.sum(before, 0) if late else x), cache


@attrs.frozen
class Traits:
    """What a program of repeated blocks has besides its layers. ``odd``: the block that differs, or -1."""

    count: int
    odd: int
    mask: bool
    shared: bool
    caches: bool
    late: int
    asked: bool
    devices: int | None

    @staticmethod
    def draw(rng: random.Random) -> Traits:
        count = rng.randint(4, 7)
        odd = rng.randrange(count) if rng.random() < 0.6 else -1
        caches = rng.random() < 0.5
        late = rng.randrange(count) if rng.random() < 0.3 else -1
        devices = rng.choice((0, None, None, None, None))
        return Traits(
            count, odd, rng.random() < 0.4, rng.random() < 0.3, caches, late, rng.random() < 0.4, devices
        )


def repeated(seed: int, b: Backend) -> list[Any]:
    """Four to seven equal blocks of one or two layers, one of them with something more; some with a shared
    mask, a shared parameter, a cache of each block that is written at a bound position, an output from the
    middle, or rows over two devices."""
    rng = random.Random(seed)
    layers = [rng.choice(LAYERS) for _ in range(rng.randint(1, 2))]
    traits = Traits.draw(rng)
    if traits.devices is not None:
        layers = [dense, residual]
        b = Everywhere()
    mask = b.t(8, 8) if traits.mask else None
    shared = b.t(8) * 2 if traits.shared else None
    x, outputs = b.t(8, 8), []
    if traits.devices is not None:
        x = Ours().t(8, 8).shard(DEVICES, traits.devices)
    for i in range(traits.count):
        for layer in layers:
            x = layer(b, x)
        if mask is not None:
            x = x + mask
        if shared is not None:
            x = x * shared
        if traits.caches and traits.devices is None:
            x, cache = remember(b, x, i == traits.late)
            outputs += [cache] if traits.asked else []
        if i == traits.odd:
            x = x.permute(1, 0).exp2().permute(1, 0) * 0.5
        if rng.random() < 0.1:
            outputs.append(x + 1)
    return [x, *outputs]


DEVICES = ("d:0", "d:1")


class Everywhere(Ours):
    """Parameters are on every device."""

    def t(self, *shape: int) -> Any:
        return super().t(*shape).shard(DEVICES)


def same(outputs: Callable[[], list[Any]], config: Config, run: bool = True) -> Schedule:
    """Both schedules have the same items in the same order, the same arena, and compute the same bytes."""
    on, off = (
        rangeify.schedule(*outputs(), config=attrs.evolve(config, reuse=reuse)) for reuse in (True, False)
    )
    assert [k.body for k in on.kernels] == [k.body for k in off.kernels]
    assert [k.launches for k in on.kernels] == [k.launches for k in off.kernels]
    assert on.copies == off.copies
    assert on.buffers == off.buffers
    assert (on.arena, on.inputs, on.outputs, on.variables) == (
        off.arena,
        off.inputs,
        off.outputs,
        off.variables,
    )
    if run:
        rng = np.random.default_rng(0)
        inputs = [rng.uniform(-0.5, 0.5, on.buffers[i].shape).astype(np.float32) for i in on.inputs]
        for a, b in zip(rangeify.run(on, inputs), rangeify.run(off, inputs, order=1), strict=True):
            np.testing.assert_array_equal(a, b)
    return on


#: With `rows` no row kernel has room for the weights of :data:`LAYERS`.
SMALL = (
    Config(fusion="reference", schedule_cache=0),
    Config(fusion="rows", row_bytes=128, schedule_cache=0),
)


def without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LEAST", 10**9)


@pytest.mark.sweep(default=2, full=500)
def test_programs_of_repeated_blocks(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kernels with and without; not more of them than without blocks; the values of the plain
    program.
    """
    found = 0
    for seed in range(cases):
        for config in SMALL:
            on = same(lambda seed=seed: repeated(seed, Ours()), config)
            with monkeypatch.context() as patch:
                without_blocks(patch)
                plain = rangeify.schedule(*repeated(seed, Ours()), config=config)
            assert len(on.items) <= len(plain.items), (seed, config)
            rng = np.random.default_rng(0)
            inputs = [rng.uniform(-0.5, 0.5, on.buffers[i].shape).astype(np.float32) for i in on.inputs]
            for a, b in zip(rangeify.run(on, inputs), rangeify.run(plain, inputs), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=str(seed))
            found += any("repeated block" in str(b.reason) for b in on.buffers)
    assert found >= max(1, cases // 10)


@pytest.mark.parametrize("make", [transformer, bert, llama])
def test_networks(make: Callable[..., list[Any]]) -> None:
    """The same items with and without; under the reference rules no more than tinygrad's."""
    pytest.importorskip("tinygrad")
    for fusion in ("reference", "rows") if make is transformer else ("reference",):
        same(lambda: make(Ours(), 4), Config(fusion=fusion, schedule_cache=0), run=False)
    items = len(rangeify.schedule(*make(Ours(), 4), config=Config(fusion="reference")).kernels)
    assert items <= total(c.src[0] for c in Theirs().schedule(make(Theirs(), 4)).src).items


def segments(outputs: list[Any], config: Config) -> list[Segment]:
    sink = UOp.make_sink(*(t.uop for t in outputs))
    return blocks.split(list(sink.toposort())[:-1], sink.src, frozenset(), config)


def test_the_layers_of_a_network_are_found() -> None:
    """Eight layers of two halves: all but the first, whose input is storage, and the last are blocks of two
    kinds.
    """
    halves = [s for s in segments(transformer(Ours(), 8), Config(fusion="reference")) if s.kind is not None]
    assert len({s.kind for s in halves}) == 2
    assert len(halves) >= 13
    whole = [s for s in segments(transformer(Ours(), 8), Config()) if s.kind is not None]
    assert len({s.kind for s in whole}) == 1
    assert len(whole) >= 6
    (one,) = segments(transformer(Ours(), 1), Config())
    assert one.kind is None


def test_segments_are_the_program() -> None:
    """Every value is in one segment, in order; a segment reads of those before it the joint only."""
    outputs = transformer(Ours(), 5)
    found = segments(outputs, Config())
    nodes = [x for s in found for x in s.nodes]
    assert len(found) > 3
    assert len(set(nodes)) == len(nodes)
    owner = {x: i for i, s in enumerate(found) for x in s.nodes}
    for i, s in enumerate(found):
        assert s.start is (found[i - 1].end if i else None)
        for x in s.nodes:
            assert all(n is s.start or owner.get(n, i) == i for n in x.src)
    assert found[-1].asked == (outputs[0].uop,)


@pytest.mark.sweep(default=20, full=500)
def test_joints_between_equal_values_are_decided_once(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions that are taken over from equal joints are those that each joint would get by itself, and there
    are more joints than decisions.
    """
    programs = [transformer(Ours(), 16), bert(Ours(), 5), llama(Ours(), 5), chain("caches"), chain("shards")]
    programs += [repeated(seed, Ours()) for seed in range(cases)]
    decide, asked = blocks._is_cut, 0

    def counted(*args: Any) -> bool:
        nonlocal asked
        asked += 1
        return decide(*args)

    monkeypatch.setattr(blocks, "_is_cut", counted)
    for outputs in programs:
        for config in (*SMALL, Config()):
            asked = 0
            found = [(s.begin, s.stop) for s in segments(outputs, config)]
            few, asked = asked, 0
            with monkeypatch.context() as patch:
                patch.setattr(blocks._Graph, "surroundings", lambda *places: None)
                alone = [(s.begin, s.stop) for s in segments(outputs, config)]
            assert found == alone
            assert few <= asked
            if outputs is programs[0]:
                assert 2 * few < asked  # as many for any number of layers


def chain(kind: str) -> list[Any]:
    """Six equal layers with something that they share, write, or are spread over."""
    b = Everywhere() if kind in ("shards", "replicas") else Ours()
    x = Ours().t(8, 8)
    if kind in ("shards", "replicas"):
        x = x.shard(DEVICES, 0 if kind == "shards" else None)
    given, caches = b.t(8) * 2, []
    for _ in range(6):
        x = residual(b, x)
        if kind == "parameter":
            x = x * given
        elif kind == "positions":
            x = x + Tensor.arange(8) * 0.25
        elif kind in ("caches", "asked caches", "old bytes"):
            x, cache = remember(b, x, kind == "old bytes")
            caches.append(cache)
    return [x, *caches] if kind == "asked caches" else [x]


@pytest.mark.parametrize(
    "kind",
    ["parameter", "positions", "caches", "asked caches", "old bytes", "shards", "replicas"],
)
def test_what_blocks_may_have_in_common(kind: str) -> None:
    """Blocks that share what nobody stores, write caches at a Variable, or run on several devices are found,
    and instantiated with the right storage."""
    on = same(lambda: chain(kind), SMALL[0], run=kind in ("asked caches", "old bytes", "shards"))
    passed = [b for b in on.buffers if b.reason is not None and "repeated block" in str(b.reason)]
    assert len(passed) >= (6 if kind in ("shards", "replicas") else 3)
    assert [v.name for v in on.variables] == (["position"] if "cache" in kind or "old" in kind else [])
    if kind == "asked caches":
        assert sum(b.role is Role.INPUT_OUTPUT for b in on.buffers) == 6
    if kind == "old bytes":
        assert sum("still needs the old contents" in str(b.reason) for b in on.buffers) == 6


def test_each_kind_of_block_is_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With reuse the work grows with the kinds of blocks, without it with their number."""
    calls: dict[tuple[bool, int], int] = {}
    lower = lowering.lower_sink
    for reuse in (True, False):
        for cache in (0, 1):
            count = 0

            def counted(body: UOp, config: Config) -> Any:
                nonlocal count
                count += 1
                return lower(body, config)

            lowering.clear_schedule_cache()
            monkeypatch.setattr(lowering, "lower_sink", counted)
            config = Config(fusion="reference", reuse=reuse, schedule_cache=cache)
            rangeify.schedule(*transformer(Ours(), 8), config=config)
            calls[reuse, cache] = count
    assert calls[True, 0] == calls[True, 1] == 2  # the first and the last half are equal to the others
    assert calls[False, 0] == calls[False, 1] >= 13 + 2


def test_a_chain_of_elementwise_blocks_stays_one_kernel() -> None:
    x, y = Ours().t(16), Ours().t(16)
    for i in range(20):
        x = (x * y).maximum(0.5) + float(i)
    assert len(rangeify.schedule(x).kernels) == 1


def test_the_description_of_a_program_is_small() -> None:
    """Values that mention the same storage again and again, by a chain or by squaring, are described once."""
    for step in (lambda x, y: (x * y).maximum(0.5), lambda x, y: x * x):
        x, y = Ours().t(16), Ours().t(16)
        given = x
        for _ in range(1000):
            x = step(x, y)
        (one,) = segments([x + given], Config())
        assert len(one.nodes) > 990


def test_every_part_has_an_entry_in_the_cache(tmp_path: Path) -> None:
    """A chain of any length needs the same entries; what is found on disk or in memory gives the same items."""
    config = Config(schedule_cache=2, cache_directory=str(tmp_path), fusion="reference")
    counts, names = [], []
    for layers, forget in ((5, True), (5, True), (5, False), (8, False)):
        if forget:
            lowering.clear_schedule_cache()
        s = lowering.statistics
        before = (s.misses, s.disk_hits, s.hits)
        x = Ours().t(8, 8)
        for _ in range(layers):
            x = residual(Ours(), x)
        schedule = rangeify.schedule(x, config=config)
        counts.append((s.misses - before[0], s.disk_hits - before[1], s.hits - before[2]))
        names.append([k.function_name for k in schedule.kernels])
    assert counts == [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)]  # all layers are one program
    assert names[0] == names[1] == names[2]
    assert set(names[3]) == set(names[0])
    lowering.clear_schedule_cache()
