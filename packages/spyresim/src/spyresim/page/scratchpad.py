"""Which bytes of a core's scratchpad were in use when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dfsched.image import Unit
from spyresim.engine.trace import Access, Trace
from spyresim.engine.values import TICKS_PER_CYCLE
from spyresim.page.elements import PALETTE, Markup, axis_ticks, legend, number, section, tag
from spyresim.page.timeline import first_core

__all__ = ["scratchpad_map"]

WIDTH, HEIGHT, LEFT, BOTTOM = 960, 260, 90, 26
COLUMNS, LINES = 240, 64
READ, WRITTEN = 1, 2
COLOURS = {READ: PALETTE[0], WRITTEN: PALETTE[1], READ | WRITTEN: PALETTE[3]}


def scratchpad_map(trace: Trace, units: Sequence[Unit], cycles: int) -> Markup:
    """A map of addresses over time for each scratchpad of the first core."""
    core = first_core(trace, units)
    names = sorted({access.memory for access in trace.accesses})
    maps = [part for name in names if (part := _map(trace.accesses, name, core, cycles)) is not None]
    if not maps:
        why = "No scratchpad was used."
        if trace.time_only:
            why = "Not known: time alone was simulated, and addresses take no part in that."
        return section("Scratchpad", tag("p", why, class_="note"))
    keys = (("read", COLOURS[READ]), ("written", COLOURS[WRITTEN]), ("both", COLOURS[READ | WRITTEN]))
    return section(
        "Scratchpad",
        legend(*keys),
        *maps,
        note=f"Addresses of core {core} that were read and written, over cycles.",
    )


def _map(accesses: Sequence[Access], memory: str, core: int, cycles: int) -> Markup | None:
    rows = [
        (int(a.low[row]), int(a.high[row]), int(a.start[row]), int(a.end[row]), a.writing)
        for a in accesses
        if a.memory == memory
        for row in np.flatnonzero(a.cores == core).tolist()
    ]
    if not rows:
        return None
    top = max(high for _, high, *_ in rows)
    total = max(1, cycles) * TICKS_PER_CYCLE
    cells = np.zeros((LINES, COLUMNS), np.uint8)
    for low, high, start, end, writing in rows:
        lines = slice(low * LINES // top, -(-high * LINES // top))
        columns = slice(
            start * COLUMNS // total, max(start * COLUMNS // total + 1, -(-end * COLUMNS // total))
        )
        cells[lines, columns] |= WRITTEN if writing else READ
    width, height = (WIDTH - LEFT - 10) / COLUMNS, (HEIGHT - BOTTOM) / LINES
    parts = [
        tag(
            "rect",
            x=round(LEFT + column * width, 2),
            y=round(line * height, 2),
            width=round(length * width, 2),
            height=round(height, 2),
            fill=COLOURS[value],
        )
        for line in range(LINES)
        for column, length, value in _runs(cells[line])
    ]
    for value in axis_ticks(cycles, 8):
        x = round(LEFT + value / max(1, cycles) * (WIDTH - LEFT - 10), 1)
        parts.append(tag("text", number(value), x=x, y=HEIGHT - 8, text_anchor="middle", class_="tick"))
    for value in axis_ticks(top / 1024, 4):
        y = round(value * 1024 / top * (HEIGHT - BOTTOM), 1)
        label = f"{number(value)} KiB"
        parts.append(tag("line", x1=LEFT, x2=WIDTH - 10, y1=y, y2=y, class_="grid"))
        parts.append(
            tag("text", label, x=LEFT - 6, y=y + (10 if not y else 4), text_anchor="end", class_="tick")
        )
    drawing = tag("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=f"map of {memory}")
    return tag("figure", drawing, tag("figcaption", f"{memory}: the first {number(top)} bytes"))


def _runs(line: npt.NDArray[np.uint8]) -> list[tuple[int, int, int]]:
    """Columns, lengths and values of what is not zero and the same."""
    edges = [0, *(np.flatnonzero(np.diff(line)) + 1).tolist(), len(line)]
    return [(start, end - start, int(line[start])) for start, end in pairwise(edges) if line[start]]
