"""Test configuration of spyrert: deterministic Hypothesis profiles and the counts of `SWEEPS=1`."""

import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from spyrert import MicroDevice, Progress, Runtime, RuntimeConfig
from spyrert.spyrecode import (
    Addr,
    ArgSpec,
    Bounds,
    HcmSymbol,
    LaunchSpec,
    LinearLayout,
    PayloadKind,
    Role,
    SpyreCode,
    StickLayout,
    Sym,
    SymbolSpec,
    assemble,
)

# --- shared by all packages; `integration/tests/test_repository.py` keeps the copies equal ---
SWEEPS = os.environ.get("SWEEPS", "") not in ("", "0")
HERE = Path(__file__).parent

# Default runs are deterministic, so that a red run is red again; sweeps look for new examples and print
# what reproduces a failure. Every copy of this file registers the same two profiles.
settings.register_profile(
    "default-suite", derandomize=True, deadline=None, database=None, max_examples=50, print_blob=True
)
settings.register_profile("sweeps", deadline=None, database=None, max_examples=500, print_blob=True)
settings.load_profile("sweeps" if SWEEPS else "default-suite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "sweep(default, full): number of cases: `default` in the default suite (0: skipped), `full` with "
        "SWEEPS=1; sets max_examples of a Hypothesis test, otherwise read it from the fixture `cases`",
    )


def sweep_cases(item: pytest.Item) -> int | None:
    """The number of cases that the item's `sweep` marker asks for now; None without a marker."""
    marker = item.get_closest_marker("sweep")
    if marker is None:
        return None
    if set(marker.kwargs) != {"default", "full"} or marker.args:
        raise pytest.UsageError(f"{item.nodeid}: write @pytest.mark.sweep(default=N, full=M)")
    return int(marker.kwargs["full" if SWEEPS else "default"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    done: set[object] = set()
    for item in items:
        if not item.path.is_relative_to(HERE):  # the conftest of that package sees to it
            continue
        cases = sweep_cases(item)
        if cases == 0:
            item.add_marker(pytest.mark.skip(reason="only with SWEEPS=1"))
        elif cases is not None and isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            test = getattr(item.obj, "__func__", item.obj)
            if test not in done:  # parametrised items share one function
                done.add(test)
                settings(max_examples=cases)(test)


def pytest_collection_finish() -> None:
    gc.freeze()  # what has been collected stays to the end: the garbage collector need not look at it


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> int:
    """Number of cases for a test with its own loop: `for seed in range(cases)`."""
    number = sweep_cases(request.node)
    if number is None:
        raise pytest.UsageError(f"{request.node.nodeid}: the fixture `cases` needs @pytest.mark.sweep")
    return number


# --- end of the shared part ---


@pytest.fixture(scope="module", autouse=True)
def short_collections() -> None:
    """Tests collect garbage often: what exists before those of a module is left out of that."""
    gc.collect(1)
    gc.freeze()


def arg(role: Role, shape: tuple[int, ...], name: str, position: int, linear: bool = False) -> ArgSpec:
    layout = LinearLayout("float16") if linear else StickLayout.default(shape, "float16")
    return ArgSpec(role, shape, "float16", layout, name, position)


def operand(slot: int, shape: tuple[int, ...], linear: bool = False) -> dict[str, Any]:
    record: dict[str, Any] = {"addr": {"slot": slot}, "shape": list(shape), "dtype": "float16"}
    if not linear:
        record["layout"] = StickLayout.default(shape, "float16").to_json()
    return record


def add_kernel(shape: tuple[int, ...] = (4, 70), linear: bool = False, name: str = "add") -> SpyreCode:
    """``c = (a + b) * n`` for a scalar ``n``."""
    spec = LaunchSpec(
        name,
        (
            arg(Role.INPUT, shape, "a", 0, linear),
            arg(Role.INPUT, shape, "b", 1, linear),
            arg(Role.OUTPUT, shape, "c", 2, linear),
        ),
        (SymbolSpec("n", "index", Bounds(0, 1000), 3),),
    )
    program = [
        {
            "op": "add",
            "lhs": operand(0, shape, linear),
            "rhs": operand(1, shape, linear),
            "out": operand(2, shape, linear),
        },
        {
            "op": "scale",
            "src": operand(2, shape, linear),
            "out": operand(2, shape, linear),
            "value": {"slot": 3},
        },
    ]
    symbols = [HcmSymbol(-1 - k, Addr(k)) for k in range(3)] + [HcmSymbol(-4, Sym("n"))]
    return assemble(json.dumps(program).encode(), PayloadKind.OP_LIST, spec, symbols)


@pytest.fixture
def code() -> SpyreCode:
    return add_kernel()


@pytest.fixture
def make_add() -> Callable[..., SpyreCode]:
    """``make_add(shape=(4, 70), linear=False, name="add")``: the artefact of ``c = (a + b) * n``."""
    return add_kernel


@pytest.fixture(params=list(Progress), ids=lambda p: p.value)
def rt(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime on a micro device with small regions, driven by a thread and by hand."""
    config = RuntimeConfig(
        progress=request.param,
        tensor_region_bytes=1 << 20,
        program_region_bytes=1 << 18,
        dynamic_region_bytes=1 << 18,
    )
    with Runtime(MicroDevice, config) as runtime:
        yield runtime
