"""Time from the first Tensor operation to the Schedule, in fresh processes that alternate with tinygrad's.

Medians of five of the processor time (the wall time depends on what else the machine does), and of the rise
of the peak memory. Run with ``pytest bench_against_tinygrad.py -s``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("schedule_once.py")

#: case -> the most that ours may take of tinygrad's time
RATIOS = {
    "transformer-12": 0.5,
    "transformer-24": 0.5,
    "apart-12": 1.0,  # without reuse
    "widths-12": 1.0,
    "resnet50": 1.0,
    "warm-12": 0.33,
}


def once(who: str, case: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(CHILD), who, case], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def medians(case: str, rounds: int = 5) -> dict[str, dict[str, float]]:
    """The median of each figure of both, from processes that alternate."""
    runs: dict[str, list[dict[str, Any]]] = {"rangeify": [], "tinygrad": []}
    for _ in range(rounds):
        for who, found in runs.items():
            found.append(once(who, case))
    return {who: {k: statistics.median(r[k] for r in found) for k in found[0]} for who, found in runs.items()}


@pytest.mark.parametrize("case", RATIOS)
def test_ratio(case: str) -> None:
    pytest.importorskip("tinygrad")
    found = medians(case)
    ours, theirs = found["rangeify"], found["tinygrad"]
    ratio = ours["cpu"] / theirs["cpu"]
    print(
        f"\n{case}: {ours['cpu']:.3f} s to {theirs['cpu']:.3f} s, "
        f"ratio {ratio:.2f} (at most {RATIOS[case]}); "
        f"peak +{ours['peak_kib'] / 1024:.0f} MiB to +{theirs['peak_kib'] / 1024:.0f} MiB; "
        f"items {ours['items']:.0f} to {theirs['items']:.0f}"
    )
    assert ratio <= RATIOS[case]
    assert ours["peak_kib"] <= theirs["peak_kib"]


def test_growth_with_reuse() -> None:
    """Scheduling 96 equal layers takes at most 1.5 times as long as 12."""
    times = {
        n: statistics.median(once("rangeify", f"transformer-{n}")["schedule"] for _ in range(5))
        for n in (12, 96)
    }
    print(
        f"\nscheduling 12 layers {times[12]:.3f} s, 96 layers {times[96]:.3f} s: "
        f"{times[96] / times[12]:.2f} times"
    )
    assert times[96] <= 1.5 * times[12]


def test_growth() -> None:
    """24 layers take at most 2.1 times as long as 12."""
    times = {
        n: statistics.median(once("rangeify", f"transformer-{n}")["cpu"] for _ in range(5)) for n in (12, 24)
    }
    print(f"\n12 layers {times[12]:.3f} s, 24 layers {times[24]:.3f} s: {times[24] / times[12]:.2f} times")
    assert times[24] <= 2.1 * times[12]
