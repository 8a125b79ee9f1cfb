"""A run as a page to look at: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from dfsched import Compiled
from dfsched.image import Unit
from spyresim.engine.report import Report as EngineReport
from spyresim.engine.trace import Trace
from spyresim.page.elements import Markup, number, section, table, tag
from spyresim.page.passes import passes
from spyresim.page.roofline import roofline
from spyresim.page.scratchpad import scratchpad_map
from spyresim.page.style import SCRIPT, STYLE
from spyresim.page.timeline import timeline
from spyresim.page.utilisation import utilisation
from spyresim.report import Report

__all__ = ["page"]


def page(
    report: Report,
    engine: EngineReport | None = None,
    trace: Trace | None = None,
    units: Sequence[Unit] = (),
    compiled: Compiled | None = None,
) -> str:
    """The HTML of a run.

    Args:
        report: what every level has.
        engine: what the timed levels report besides.
        trace: for the timeline and the map of the scratchpad; `units` are what it numbers.
        compiled: for the IR after each pass.
    """
    title = f"{report.function} at level {report.level}"
    parts = [tag("h1", title), _cards(report, engine)]
    if report.warnings:
        parts.append(section("Warnings", tag("ul", *(tag("li", warning) for warning in report.warnings))))
    if engine is not None:
        parts += [_bounds(engine), roofline(engine), utilisation(engine)]
    if engine is not None and trace is not None:
        parts.append(timeline(trace, units, engine.cycles, engine.skipped))
        parts.append(scratchpad_map(trace, units, engine.cycles))
    if report.cost is not None:
        rows = [(name.strip(), value) for name, value in report.cost.rows()]
        note = "An estimate: device memory, computation and ring one after another, for the slowest tile."
        parts.append(section("Cost", table(("", f"profile {report.cost.profile.name}"), rows), note=note))
    parts.append(_counters(report))
    if compiled is not None:
        parts.append(passes(compiled))
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag("body", *parts, tag("script", Markup(SCRIPT)))
    return f'<!doctype html><html lang="en">{head}{body}</html>\n'


def _cards(report: Report, engine: EngineReport | None) -> Markup:
    cards: list[tuple[object, str]] = [(report.tiles, "compute tiles")]
    if engine is not None:
        ideal = engine.ideal_cycles
        cards = [(engine.cycles, "cycles"), (ideal, "cycles at best")]
        cards += [(f"{ideal / max(1, engine.cycles):.0%}", "of what is possible")]
        cards += [(engine.bytes_read, "bytes read"), (engine.bytes_written, "bytes written")]
        cards += [(engine.operations, "lane operations"), (engine.programs, "programs launched")]
        cards += [(report.tiles, "compute tiles")]
    elif report.cycles is not None:
        cards.insert(0, (report.cycles, "cycles"))
    return tag(
        "div",
        *(tag("div", tag("b", number(value)), tag("span", name), class_="card") for value, name in cards),
        class_="cards",
    )


def _bounds(engine: EngineReport) -> Markup:
    """What each resource alone would take, and how much of the run that is."""
    bounds = {
        "device memory": engine.bound_cycles,
        "links of the busiest unit": engine.link_bound_cycles,
        "port of the busiest scratchpad": engine.scratchpad_bound_cycles,
        "compute units of the busiest kind": engine.compute_bound_cycles,
    }
    rows = [
        (name, cycles, f"{cycles / max(1, engine.cycles):.0%}")
        for name, cycles in sorted(bounds.items(), key=lambda item: -(item[1] or 0))
        if cycles is not None
    ]
    note = "What each would take if nothing else took time. A run is never faster than the largest."
    return section("Bounds", table(("", "cycles", "of this run"), rows), note=note)


def _counters(report: Report) -> Markup:
    document = report.to_json()
    kinds = {"operations": "operation", "bytes_read": "memory", "bytes_written": "memory"}
    parts = [
        tag("div", tag("h3", name.replace("_", " ").capitalize()), table((of, "count"), rows.items()))
        for name, of in kinds.items()
        if (rows := document.get(name))
    ]
    return section("Counters", *parts) if parts else Markup("")
