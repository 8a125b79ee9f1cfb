"""Small helpers for HTML and SVG text; every value is escaped here and nowhere else."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

__all__ = ["PALETTE", "Markup", "axis_ticks", "legend", "number", "section", "table", "tag", "text"]


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


PALETTE = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d")
"""Fills that are told apart in light and dark mode."""


def text(value: object) -> Markup:
    """A value as text of an element or attribute."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element; an underscore at the end of an attribute's name is dropped, others become hyphens."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(text(child) for child in children)}</{name}>")


def section(title: str, *children: object, note: str | None = None) -> Markup:
    """A part of the page: heading, an explanation, contents."""
    explained = [tag("p", note, class_="note")] if note else []
    return tag("section", tag("h2", title), *explained, *children)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table; numbers are aligned to the right."""
    body = [
        tag(
            "tr",
            *(tag("td", number(cell), class_="n" if isinstance(cell, int | float) else None) for cell in r),
        )
        for r in rows
    ]
    return tag("table", tag("thead", tag("tr", *(tag("th", name) for name in head))), tag("tbody", *body))


def legend(*keys: tuple[str, str]) -> Markup:
    """Names and their colours."""
    swatches = (tag("span", tag("i", style=f"background:{c}"), name, class_="key") for name, c in keys)
    return tag("p", *swatches, class_="legend")


def _cell(value: object) -> Markup:
    return tag("td", number(value), class_="n" if isinstance(value, int | float) else None)


def number(value: object) -> str:
    """Integers with separators, floats with three digits that count; other values as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value if isinstance(value, str) else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def axis_ticks(limit: float, count: int = 6) -> list[float]:
    """Round values from 0 to at most `limit`, about `count` of them."""
    if limit <= 0:
        return [0.0]
    raw = limit / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= raw)
    return [step * index for index in range(int(limit / step) + 1)]
