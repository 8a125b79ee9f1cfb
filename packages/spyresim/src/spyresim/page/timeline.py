"""What the units of one core did at the beginning of the run."""

from __future__ import annotations

from collections.abc import Sequence

from dfsched.image import Unit
from spyresim.engine.report import FastForward
from spyresim.engine.trace import Trace
from spyresim.engine.values import TICKS_PER_CYCLE
from spyresim.page.elements import PALETTE, Markup, axis_ticks, legend, number, section, tag

__all__ = ["first_core", "timeline"]

ROW, GAP, LEFT, WIDTH = 20, 6, 130, 960
MAX_SLICES = 2500
"""What a browser still draws at once; the window ends where there would be more."""

COLOURS = {
    "load": PALETTE[0],
    "copy": PALETTE[0],
    "shuffle": PALETTE[3],
    "store": PALETTE[1],
    "receive": PALETTE[5],
    "send": PALETTE[5],
    "signal": PALETTE[6],
    "wait for signal": PALETTE[6],
    "issue copy": PALETTE[7],
    "wait for bandwidth": PALETTE[4],
}
REPEATED = "var(--idle)"
COMPUTE = PALETTE[2]


def first_core(trace: Trace, units: Sequence[Unit]) -> int:
    """The lowest-numbered core that did something."""
    return min((units[unit].core for event in trace.events for unit in event.units), default=0)


def timeline(trace: Trace, units: Sequence[Unit], cycles: int, skipped: Sequence[FastForward] = ()) -> Markup:
    """One row a unit (and its copy engine) of the first core, one rectangle an instruction."""
    core = first_core(trace, units)
    slices = sorted(
        (int(event.start[row]), int(event.end[row]), unit, event.track, event.name, event.bytes)
        for event in trace.events
        for row, unit in enumerate(event.units)
        if units[unit].core == core and int(event.end[row]) > int(event.start[row])
    )
    if not slices:
        return section("Timeline", tag("p", "Nothing took time.", class_="note"))
    shown = slices[:MAX_SLICES]
    last = max(end for _, end, *_ in shown)
    if len(shown) < len(slices):
        last = shown[-1][0]
    window = last / TICKS_PER_CYCLE
    rows = sorted({(unit, track) for _, _, unit, track, _, _ in slices})
    places = {row: index for index, row in enumerate(rows)}
    parts = [_label(units[unit], track, index) for (unit, track), index in places.items()]
    height = len(rows) * (ROW + GAP) + 30
    scale = (WIDTH - LEFT - 10) / max(1, last)
    for value in axis_ticks(window, 8):
        x = round(LEFT + value * TICKS_PER_CYCLE * scale, 1)
        parts.append(tag("line", x1=x, x2=x, y1=0, y2=height - 26, class_="grid"))
        parts.append(tag("text", number(value), x=x, y=height - 10, text_anchor="middle", class_="tick"))
    for start, end, unit, track, name, size in shown:
        y = places[unit, track] * (ROW + GAP)
        when = f"{start / TICKS_PER_CYCLE:,.1f} to {end / TICKS_PER_CYCLE:,.1f}"
        what = f"{units[unit].name}: {name}, cycle {when}"
        if size:
            what += f", {size:,} bytes"
        x = round(LEFT + start * scale, 2)
        width = max(0.4, round((min(end, last) - start) * scale, 2))
        colour = REPEATED if name.endswith("more periods") else COLOURS.get(name, COMPUTE)
        parts.append(tag("rect", tag("title", what), x=x, y=y, width=width, height=ROW, fill=colour))
    drawing = tag(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label="timeline of the units"
    )
    part = (
        ""
        if len(shown) == len(slices)
        else f" (the first {number(round(window))} of {number(cycles)} cycles)"
    )
    keys = [("load, copy", PALETTE[0]), ("store", PALETTE[1]), ("compute", COMPUTE)]
    keys += [("shuffle", PALETTE[3]), ("send, receive", PALETTE[5]), ("signals", PALETTE[6])]
    keys += [("issue of a copy", PALETTE[7]), ("waits for bandwidth", PALETTE[4])]
    if any(name.endswith("more periods") for *_, name, _ in shown):
        keys.append(("repeats", REPEATED))
    note = f"Units of core {core} over cycles{part}; point at a box to see what it is."
    for known in skipped:
        note += (
            f" From cycle {number(known.start)} to {number(known.end)} everything repeats, "
            f"{number(known.periods)} times {number(known.period)} cycles: that is known, not simulated."
        )
    return section("Timeline", legend(*keys), drawing, note=note)


def _label(unit: Unit, track: str, index: int) -> Markup:
    name = f"{unit.name} {track}".rstrip()
    return tag("text", name, x=LEFT - 8, y=index * (ROW + GAP) + 14, text_anchor="end", class_="label")
