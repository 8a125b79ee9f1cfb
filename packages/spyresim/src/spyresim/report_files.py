"""Reports and traces as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dfsched import Compiled
from dfsched.image import Unit
from spyresim.errors import UnsupportedError
from spyresim.report import Report

__all__ = ["engine_report", "to_html", "units_of", "write_report", "write_trace"]


def engine_report(report: Report) -> Any:
    """What the timed engine reports (cycles, units, bound), None for levels without time."""
    return getattr(report.details, "report", None)


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; with the engine's own report under ``engine`` where there is one."""
    document = report.to_json()
    timed = engine_report(report)
    if timed is not None:
        document["engine"] = json.loads(timed.to_json())
    return document


def write_report(report: Report, path: Path, compiled: Compiled | None = None) -> None:
    """Write a report: JSON for the suffix ``.json``, a page to look at otherwise.

    The page has a timeline if the run was traced, and the IR after each pass if there is a compilation.
    """
    if path.suffix == ".json":
        text = json.dumps(as_json(report), indent=2, sort_keys=True) + "\n"
    else:
        text = to_html(report, compiled)
    path.write_text(text, encoding="utf-8")


def write_trace(report: Report, path: Path) -> None:
    """Write the trace in Chrome's format (Perfetto reads it); `UnsupportedError` for levels without time."""
    details = report.details
    trace = getattr(details, "trace", None)
    if trace is None:
        raise UnsupportedError(f"a trace of level {report.level}; levels dataflow and device have time")
    trace.write(path, units_of(report))


def units_of(report: Report) -> tuple[Unit, ...]:
    """The units that the trace and the engine's report number."""
    known = getattr(report.details, "units", None)
    return known or tuple(Unit(u.unit, u.kind, u.core, u.corelet) for u in engine_report(report).units)


def to_html(report: Report, compiled: Compiled | None = None) -> str:
    """The page of a run; with the IR after each pass if there is a compilation."""
    from spyresim.page import page

    engine = engine_report(report)
    if engine is None:
        return page(report, compiled=compiled)
    return page(report, engine, getattr(report.details, "trace", None), units_of(report), compiled)
