"""Prints a table of items, bytes and operations of network graphs: tinygrad's, and ours under each fusion
mode.

``python items_table.py``; one counter counts both item lists (``tests/peer/counter.py``).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peer.backends import Ours, Theirs
from peer.counter import Work, total
from peer.networks import NETWORKS


def row(name: str, who: str, work: Work) -> str:
    return f"| {name} | {who} | {work.items} | {work.nbytes / 1e6:.1f} | {work.operations / 1e6:.1f} |"


def main() -> None:
    print("| graph | scheduler | items | MB moved | million operations |\n|---|---|---:|---:|---:|")
    for name, make in NETWORKS.items():
        print(row(name, "tinygrad", total(c.src[0] for c in Theirs().schedule(make(Theirs())).src)))
        for fusion in ("reference", "profit", "rows"):
            print(row(name, fusion, total(k.body for k in Ours().schedule(make(Ours()), fusion).kernels)))


if __name__ == "__main__":
    main()
