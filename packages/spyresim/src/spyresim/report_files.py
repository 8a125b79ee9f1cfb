"""Reports and traces as files."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from spyresim.errors import UnsupportedError
from spyresim.report import Report

__all__ = ["engine_report", "to_html", "write_report", "write_trace"]


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


def write_report(report: Report, path: Path) -> None:
    """Write a report: JSON for the suffix ``.json``, a page to look at otherwise."""
    if path.suffix == ".json":
        text = json.dumps(as_json(report), indent=2, sort_keys=True) + "\n"
    else:
        text = to_html(report)
    path.write_text(text, encoding="utf-8")


def write_trace(report: Report, path: Path) -> None:
    """Write the trace in Chrome's format (Perfetto reads it); `UnsupportedError` for levels without time."""
    details = report.details
    trace = getattr(details, "trace", None)
    if trace is None:
        raise UnsupportedError(f"a trace of level {report.level}; levels dataflow and device have time")
    trace.write(str(path), getattr(details, "units", None) or _units(report))


def _units(report: Report) -> list[Any]:
    from dfsched.image import Unit

    return [Unit(u.unit, u.kind, u.core, u.corelet) for u in engine_report(report).units]


def to_html(report: Report) -> str:
    """A page of tables, without scripts or other files."""
    document = as_json(report)
    engine = document.pop("engine", None)
    rows = [(name, value) for name, value in document.items() if not isinstance(value, dict | list)]
    parts = [_table("Run", ("what", "value"), rows)]
    for name in ("bytes_read", "bytes_written", "operations"):
        if document[name]:
            parts.append(_table(name.replace("_", " "), ("of", "count"), list(document[name].items())))
    if document["warnings"]:
        parts.append(_table("warnings", ("text",), [(text,) for text in document["warnings"]]))
    if engine is not None:
        bound = [(n, engine[n]) for n in ("cycles", "bound_cycles", "instructions", "programs")]
        parts.append(_table("Engine", ("what", "value"), bound))
        units = [
            (u["unit"], u["busy"], ", ".join(f"{reason} {cycles}" for reason, cycles in u["stall"]))
            for u in engine["units"]
        ]
        parts.append(_table("Units", ("unit", "busy cycles", "stall cycles"), units))
    title = html.escape(f"{report.function} at level {report.level}")
    style = (
        "body{font-family:sans-serif}table{border-collapse:collapse}td,th{padding:2px 8px;text-align:left}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{style}</style></head><body><h1>{title}</h1>{''.join(parts)}</body></html>\n"
    )


def _table(title: str, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<h2>{html.escape(title)}</h2><table><tr>{cells}</tr>{body}</table>"
