"""Test configuration of the integration tests: the same profiles and counts as in the packages."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

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
