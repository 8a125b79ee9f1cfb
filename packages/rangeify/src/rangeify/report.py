"""What scheduling tells about itself when it is asked to (``Config.debug``, scheduler spec 4, 15 and 18)."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Final

from rangeify.graph import data_srcs
from rangeify.ranges import Indices, Ranges
from rangeify.schedule_types import Schedule
from uopgraph import UOp, infix, live_nodes

_HERE: Final = str(Path(__file__).parent)


def tell(text: str) -> None:
    """Write to standard error."""
    print(text, file=sys.stderr)


def caller() -> str:
    """File and line of the innermost frame outside this package."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_HERE):
            return f"{frame.filename}:{frame.lineno}"
    return "?"


def schedule_line(schedule: Schedule, seconds: float, found: str, key: bytes) -> str:
    """Items, milliseconds, how the cache answered, the key of the body, live nodes, and who asked."""
    return (
        f"scheduled {len(schedule.items)} items in {seconds * 1e3:.2f} ms | {found} {key.hex()[:8]} | "
        f"{live_nodes()} nodes | {caller()}"
    )


def memory_line(schedule: Schedule) -> str | None:
    """What the arena saves; None where it saves nothing. MB are 10**6 bytes."""
    planned = schedule.arena.offsets
    before, after = sum(schedule.buffers[b].nbytes for b in planned), schedule.arena.nbytes
    if before <= after:
        return None
    return (
        f"memory reduced from {before / 1e6:.2f} MB -> {after / 1e6:.2f} MB, "
        f"{len(planned)} -> {len(schedule.arena.lanes)} bufs"
    )


def _indices(indices: Indices) -> str:
    return "[" + ", ".join(infix(i, 60) for i in indices) + "]"


def ranges_table(sink: UOp, found: Ranges) -> str:
    """One line a node that has ranges, consumers first: ``***`` if it is stored, the number of its consumers,
    its operation and shape, how many ranges end at it, and its output and input indices."""
    order = list(sink.toposort(enter_calls=False))
    consumers = dict.fromkeys(order, 0)
    for x in order:
        for s in dict.fromkeys(data_srcs(x)):
            consumers[s] += 1
    lines = []
    for x in reversed(order):
        if x not in found.inputs:
            continue
        mark = "***" if x in found.realized else "   "
        shape = "x".join(str(d) if isinstance(d, int) else infix(d) for d in x.shape) or "()"
        lines.append(
            f"{mark} {consumers[x]:2d} {x.op.name:12} {shape:16} {found.ending.get(x, 0):2d} "
            f"{_indices(found.outputs[x])} -> {_indices(found.inputs[x])}"
        )
    return "\n".join(lines)
