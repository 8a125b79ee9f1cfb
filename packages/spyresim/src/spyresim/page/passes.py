"""The IR after every pass, and what each pass changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import ktir
from dfsched import Compiled
from spyresim.page.elements import Markup, section, tag

__all__ = ["passes"]

CONTEXT_LINES = 4


def passes(compiled: Compiled) -> Markup:
    """A choice of passes; of each, the difference from the one before and the whole text.

    Shown first is the first pass that changes something.
    """
    before = ktir.print_module(compiled.source).splitlines()
    options, panes = [], []
    first_change: int | None = None
    for number, result in enumerate(compiled.passes):
        after = ktir.print_module(result.module).splitlines()
        changed = after != before
        whole = tag(
            "details", tag("summary", f"Whole text ({len(after)} lines)"), tag("pre", "\n".join(after))
        )
        if changed and first_change is None:
            first_change = number
        shown = first_change == number
        name = f"{number + 1}. {result.name}" + ("" if changed else " (no change)")
        options.append(tag("option", name, value=f"pass{number}", selected="selected" if shown else None))
        panes.append(
            tag(
                "div",
                tag("h3", "Difference"),
                _difference(before, after) if changed else tag("p", "Nothing changed.", class_="note"),
                whole,
                id=f"pass{number}",
                class_="pane",
                hidden=None if shown else "hidden",
            )
        )
        before = after
    label = tag("label", "After pass ", tag("select", *options, id="pass"))
    return section("IR after each pass", tag("p", label), *panes)


def _difference(before: Sequence[str], after: Sequence[str]) -> Markup:
    lines = difflib.unified_diff(before, after, lineterm="", n=CONTEXT_LINES)
    return tag("pre", *_coloured(list(lines)[2:]), class_="diff")


def _coloured(lines: Iterable[str]) -> Iterable[Markup]:
    classes = {"+": "added", "-": "removed", "@": "place"}
    for line in lines:
        yield tag("span", line, class_=classes.get(line[:1]))
        yield Markup("\n")
