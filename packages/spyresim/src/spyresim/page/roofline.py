"""The roofline: what the kernel reaches, beside what memory and compute units would allow."""

from __future__ import annotations

import math

from spyresim.engine.report import Report
from spyresim.page.elements import Markup, number, section, tag

__all__ = ["roofline"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 300, 64, 44, 14, 20


def roofline(report: Report) -> Markup:
    """A log-log plot of operations per cycle over operations per byte of device memory."""
    peak = _peak(report)
    bandwidth = report.bytes_per_cycle
    if not report.operations or not report.bytes_moved or not bandwidth or not peak:
        missing = "no lane-wise operation" if not report.operations else "no limit of device memory"
        return section("Roofline", tag("p", f"Not drawn: {missing} in this run.", class_="note"))
    intensity = report.operations / report.bytes_moved
    reached = report.operations / max(1, report.cycles)
    limit = min(peak, bandwidth * intensity)
    which = "device memory" if bandwidth * intensity < peak else "the compute units"
    plot = _Plot(intensity, reached, peak, bandwidth)
    note = (
        f"{number(reached)} of at most {number(limit)} operations a cycle ({reached / limit:.0%}); "
        f"limited by {which}. {number(intensity)} operations a byte of device memory."
    )
    return section("Roofline", plot.draw(), note=note)


def _peak(report: Report) -> float:
    """Lane operations a cycle of the busiest kind of unit, in the mix of types that it computes."""
    cycles: dict[str, float] = {}
    done: dict[str, int] = {}
    for work in report.work:
        cycles[work.unit] = cycles.get(work.unit, 0.0) + work.operations / max(1, work.per_cycle)
        done[work.unit] = done.get(work.unit, 0) + work.operations
    if not cycles:
        return 0.0
    busiest = max(cycles, key=lambda unit: cycles[unit])
    return done[busiest] / cycles[busiest]


class _Plot:
    def __init__(self, intensity: float, reached: float, peak: float, bandwidth: float) -> None:
        self.point = (intensity, reached)
        self.peak, self.bandwidth = peak, bandwidth
        ridge = peak / bandwidth
        self.x0 = math.floor(math.log10(min(intensity, ridge))) - 0.3
        self.x1 = math.ceil(math.log10(max(intensity, ridge))) + 0.3
        lowest = min(reached, bandwidth * 10**self.x0)
        self.y0 = math.floor(math.log10(lowest)) - 0.2
        self.y1 = math.log10(peak) + 0.4

    def x(self, value: float) -> float:
        return round(LEFT + (math.log10(value) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        part = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return round(HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP), 1)

    def draw(self) -> Markup:
        ridge = self.peak / self.bandwidth
        start, end = 10**self.x0, 10**self.x1
        roof = f"{self.x(start)},{self.y(self.bandwidth * start)} {self.x(ridge)},{self.y(self.peak)} "
        roof += f"{self.x(end)},{self.y(self.peak)}"
        intensity, reached = self.point
        top = min(self.peak, self.bandwidth * intensity)
        px, py = self.x(intensity), self.y(reached)
        side = 1 if px < WIDTH * 0.7 else -1
        tip = tag("title", f"{number(reached)} operations a cycle")
        return tag(
            "svg",
            *self._grid(),
            tag("polyline", points=roof, class_="roof"),
            tag("line", x1=px, x2=px, y1=py, y2=self.y(top), class_="gap"),
            tag("circle", tip, cx=px, cy=py, r=5, class_="point"),
            tag(
                "text",
                f"this run: {number(reached)}",
                x=px + 8 * side,
                y=py + 16,
                text_anchor="start" if side > 0 else "end",
                class_="label",
            ),
            tag(
                "text",
                f"compute units: {number(self.peak)} a cycle",
                x=WIDTH - RIGHT,
                y=self.y(self.peak) - 6,
                text_anchor="end",
                class_="label",
            ),
            tag("text", f"slope: device memory, {number(self.bandwidth)} bytes a cycle", x=WIDTH - RIGHT,
                y=HEIGHT - BOTTOM - 8, text_anchor="end", class_="label"),
            tag("text", "operations per byte of device memory", x=(LEFT + WIDTH) / 2, y=HEIGHT - 6,
                text_anchor="middle", class_="axis"),
            tag("text", "operations per cycle", x=-(HEIGHT - BOTTOM) / 2, y=14, transform="rotate(-90)",
                text_anchor="middle", class_="axis"),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label="roofline plot",
        )  # fmt: skip

    def _grid(self) -> list[Markup]:
        parts = []
        bottom = HEIGHT - BOTTOM
        for exponent in range(math.ceil(self.x0), math.floor(self.x1) + 1):
            x = self.x(10.0**exponent)
            parts.append(tag("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid"))
            label = number(10.0**exponent)
            parts.append(tag("text", label, x=x, y=bottom + 16, text_anchor="middle", class_="tick"))
        for exponent in range(math.ceil(self.y0), math.floor(self.y1) + 1):
            y = self.y(10.0**exponent)
            parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
            label = number(10.0**exponent)
            parts.append(tag("text", label, x=LEFT - 6, y=y + 4, text_anchor="end", class_="tick"))
        return parts
