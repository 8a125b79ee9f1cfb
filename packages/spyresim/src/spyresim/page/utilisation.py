"""How busy the units were, and what they waited for."""

from __future__ import annotations

from collections.abc import Sequence

from spyresim.engine.report import Report, UnitReport
from spyresim.page.elements import PALETTE, Markup, legend, number, section, table, tag

__all__ = ["utilisation"]

BAR, GAP, LEFT, WIDTH = 18, 8, 150, 640
REASONS = ("input empty", "output full", "signal", "bandwidth", "copies")
"""What units wait for, in the order of their colours; others come after them."""


def utilisation(report: Report) -> Markup:
    """A bar for each kind of unit and corelet (the mean over cores), and a table of every unit."""
    groups: dict[tuple[str, int], list[UnitReport]] = {}
    for unit in report.units:
        groups.setdefault((unit.kind, unit.corelet), []).append(unit)
    several = {kind for kind, corelet in groups if corelet > 0}
    bars = [
        (f"{kind} of corelet {corelet}" if kind in several else kind, units)
        for (kind, corelet), units in groups.items()
    ]
    found = dict.fromkeys(reason for unit in report.units for reason, cycles in unit.stall if cycles)
    reasons = [r for r in REASONS if r in found] + sorted(set(found) - set(REASONS))
    rows = [
        (unit.unit, unit.busy, *(dict(unit.stall).get(reason, 0) for reason in reasons), unit.idle)
        for unit in report.units
    ]
    return section(
        "Units",
        legend(*_keys(reasons)),
        _bars(bars, reasons, max(1, report.cycles)),
        tag(
            "details",
            tag("summary", f"All {len(report.units)} units, in cycles"),
            table(("unit", "busy", *reasons, "idle"), rows),
        ),
        note="Share of all cycles in which units were busy, and what they waited for: the mean over the "
        "cores, with the least and most busy core in brackets. A unit that copies is busy while bytes move.",
    )


def _keys(reasons: Sequence[str]) -> list[tuple[str, str]]:
    waits = [(reason, _colour(index)) for index, reason in enumerate(reasons)]
    return [("busy", PALETTE[0]), *waits, ("idle", "var(--idle)")]


def _colour(index: int) -> str:
    return PALETTE[1 + index % (len(PALETTE) - 1)]


def _bars(bars: Sequence[tuple[str, list[UnitReport]]], reasons: Sequence[str], total: int) -> Markup:
    parts: list[Markup] = []
    scale = (WIDTH - LEFT - 110) / total
    for position, (label, units) in enumerate(bars):
        y = position * (BAR + GAP)
        parts.append(tag("text", label, x=LEFT - 8, y=y + 13, text_anchor="end", class_="label"))
        parts.append(tag("rect", x=LEFT, y=y, width=total * scale, height=BAR, class_="idle"))
        busy = sum(unit.busy for unit in units) / len(units)
        pieces = [("busy", busy, PALETTE[0])]
        for index, reason in enumerate(reasons):
            mean = sum(dict(unit.stall).get(reason, 0) for unit in units) / len(units)
            pieces.append((reason, mean, _colour(index)))
        at = 0.0
        for name, cycles, colour in pieces:
            width = min(cycles, total - at)
            if width > 0:
                tip = tag("title", f"{label}: {name} {number(cycles)} cycles ({cycles / total:.0%})")
                x, w = round(LEFT + at * scale, 2), round(width * scale, 2)
                parts.append(tag("rect", tip, x=x, y=y, width=w, height=BAR, fill=colour))
                at += width
        least, most = min(unit.busy for unit in units), max(unit.busy for unit in units)
        share = f"{busy / total:.0%} ({least / total:.0%}-{most / total:.0%})"
        parts.append(tag("text", share, x=WIDTH - 100, y=y + 13, class_="label"))
    height = max(1, len(bars)) * (BAR + GAP)
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label="busy units")
