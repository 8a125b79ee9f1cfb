"""One measurement in a process of its own: ``python schedule_once.py rangeify|tinygrad CASE``.

Prints a JSON object: wall and processor seconds from the first Tensor operation to the Schedule, the
processor seconds of scheduling alone, and how much the peak of resident memory rose above that after import.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peer.backends import Ours, Theirs
from peer.networks import resnet50, transformer

import rangeify

CASES: dict[str, Callable[[Any], list[Any]]] = {
    "transformer-12": lambda b: transformer(b, 12),
    "transformer-24": lambda b: transformer(b, 24),
    "transformer-96": lambda b: transformer(b, 96),
    "apart-12": lambda b: transformer(b, 12),
    "widths-12": lambda b: transformer(b, 12, grow=32),
    "resnet50": lambda b: resnet50(b, 224),
    "warm-12": lambda b: transformer(b, 12),
}


def main(who: str, case: str) -> None:
    if who == "tinygrad":
        import tinygrad  # noqa: F401

        peer: Any = Theirs()
    else:
        peer = Ours()
    make = CASES[case]

    def schedule(outputs: list[Any]) -> Any:
        config = rangeify.Config(reuse=not case.startswith("apart"))
        return rangeify.schedule(*outputs, config=config) if who == "rangeify" else peer.schedule(outputs)

    peer.schedule([peer.t(2) + 1])  # lazy imports of either package
    if case.startswith("warm"):
        schedule(make(peer))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    outputs = make(peer)
    built = time.process_time()
    result = schedule(outputs)
    end = time.process_time()
    wall = time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    items = len(result.items if who == "rangeify" else result.src)
    figures = {"wall": wall, "cpu": end - cpu, "schedule": end - built, "peak_kib": peak, "items": items}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
