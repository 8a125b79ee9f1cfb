"""Host costs of the runtime: one launch, one allocation (``./nox -s bench``)."""

from __future__ import annotations

import json
import random
import statistics
import time
from typing import Any

import numpy as np
import pytest

from spyrert import MicroDevice, Progress, Runtime, RuntimeConfig
from spyrert.device.protocol import MemoryType
from spyrert.memory import FlexAllocator, MemoryRegion
from spyrert.spyrecode import (
    Addr,
    ArgSpec,
    Bounds,
    HcmSymbol,
    LaunchSpec,
    PayloadKind,
    Role,
    StickLayout,
    Sym,
    SymbolSpec,
    assemble,
)

SHAPE = (128, 256)


@pytest.fixture
def launched() -> Any:
    """A prepared kernel that costs nothing, with four tensors and one scalar."""
    layout = StickLayout.default(SHAPE, "float16")
    roles = (Role.INPUT, Role.INPUT, Role.INPUT, Role.OUTPUT)
    args = tuple(
        ArgSpec(role, SHAPE, "float16", layout, name) for role, name in zip(roles, "abcd", strict=True)
    )
    spec = LaunchSpec("free", args, (SymbolSpec("n", "index", Bounds(0, 99)),))
    symbols = [HcmSymbol(-1 - k, Addr(k), 128) for k in range(4)] + [HcmSymbol(-5, Sym("n"))]
    code = assemble(json.dumps([]).encode(), PayloadKind.OP_LIST, spec, symbols)
    with Runtime(MicroDevice, RuntimeConfig(progress=Progress.MANUAL, max_inflight_launches=10**6)) as rt:
        plan = rt.prepare_kernel(code)
        tensors = [rt.to_device(np.zeros(SHAPE, np.float16)) for _ in range(4)]
        yield rt, plan, tensors


def test_launch(benchmark: Any, launched: Any) -> None:
    """Host overhead of one launch of a prepared symbolic kernel with 4 tensors, validation included."""
    rt, plan, tensors = launched
    benchmark.pedantic(rt.launch, (plan, tensors), {"bindings": {"n": 3}}, rounds=300, warmup_rounds=20)
    rt.synchronize()


def test_launch_and_run(benchmark: Any, launched: Any) -> None:
    """The same with its execution: host function, transfer, compute."""
    rt, plan, tensors = launched
    benchmark(lambda: rt.launch(plan, tensors, bindings={"n": 3}).wait())


def steady(blocks: int) -> tuple[FlexAllocator, list[Any], random.Random]:
    """An allocator with so many live blocks of mixed sizes, and holes between them."""
    rng = random.Random(1)
    regions = [MemoryRegion(k, 0, k, 4 << 30, MemoryType.TENSOR) for k in range(1, 6)]
    allocator = FlexAllocator(regions)
    live = [allocator.allocate(rng.randrange(1, 100_000)) for _ in range(2 * blocks)]
    rng.shuffle(live)
    for _ in range(blocks):
        allocator.free(live.pop())
    return allocator, live, rng


@pytest.mark.parametrize("blocks", [100, 10_000])
def test_allocate_and_free(benchmark: Any, blocks: int) -> None:
    allocator, _, rng = steady(blocks)
    benchmark(lambda: allocator.free(allocator.allocate(rng.randrange(1, 100_000))))


def test_allocation_scales(benchmark: Any) -> None:
    """allocate + free at 10,000 live blocks costs at most 2.5 times that at 100."""

    def cost(blocks: int) -> float:
        allocator, _, rng = steady(blocks)
        times = []
        for _ in range(2000):
            size = rng.randrange(1, 100_000)
            start = time.perf_counter()
            allocator.free(allocator.allocate(size))
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    small, large = benchmark.pedantic(lambda: (cost(100), cost(10_000)), rounds=1)
    benchmark.extra_info["ratio"] = large / small
    assert large <= 2.5 * small
