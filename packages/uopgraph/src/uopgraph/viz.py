"""A self-contained HTML page of graphs and recorded rewrites.

``uopgraph.viz.html(node)`` draws a graph; ``html(trace)`` lists the rewrites of a recording and steps through
them: before and after, the changed nodes, the rule that fired; ``html(gallery)`` lists graphs and diagrams of
boxes under headings. The page needs no network.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, Final

import attrs

from uopgraph.errors import UOpError
from uopgraph.movement_sugar import sint
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops
from uopgraph.origin import origin_of
from uopgraph.render import infix, range_name
from uopgraph.trace import RewriteRecord, Trace

#: Graphs with more nodes are not drawn; their flat dump is shown.
DRAWN: Final = 1500
#: Recorded steps per rewrite that a page keeps.
STEPS: Final = 400

_CLASSES: Final[tuple[tuple[str, frozenset[Ops]], ...]] = (
    ("storage", GroupOp.Defines),
    ("range", frozenset({Ops.RANGE})),
    ("const", frozenset({Ops.CONST})),
    ("movement", GroupOp.Movement),
    ("memory", frozenset({Ops.INDEX, Ops.LOAD, Ops.STORE, Ops.STAGE, Ops.COPY, Ops.CONTIGUOUS})),
    ("reduce", frozenset({Ops.REDUCE, Ops.ALLREDUCE})),
    ("alu", GroupOp.Elementwise),
    ("error", frozenset({Ops.REWRITE_ERROR})),
)


def _class_of(op: Ops) -> str:
    return next((name for name, ops in _CLASSES if op in ops), "structure")


def _dim(d: sint) -> str:
    return str(d) if isinstance(d, int) else infix(d)


def _shape(node: UOp) -> str:
    try:
        shape = node.shape_or_none
    except UOpError:
        return "bad shape"
    return "" if shape is None else f"({', '.join(map(_dim, shape))})"


def _arg(node: UOp) -> str:
    if node.arg is None:
        return ""
    if node.op is Ops.RANGE:
        return range_name(node)
    if node.op is Ops.CALL:
        return f"{node.src[0].key.hex()[:8]} {node.arg!r}"
    if node.op in GroupOp.Defines:
        return _storage(node)
    text = repr(node.arg)
    if attrs.has(type(node.arg)):
        text = text.partition("(")[2][:-1]
    return text if len(text) <= 60 else text[:57] + "..."


def _storage(node: UOp) -> str:
    a = node.arg
    parts = [a.name if a.name is not None else str(a.slot)]
    if a.vmin_vmax is not None:
        parts.append(f"in {list(a.vmin_vmax)}")
    if a.val is not None:
        parts.append(f"= {a.val}")
    if a.device is not None:
        parts.append(a.device if isinstance(a.device, str) else ",".join(a.device))
    return " ".join(parts)


def _hidden(node: UOp) -> bool:
    """Constants and shape arguments: shown as text at their users, not as boxes."""
    return node.op is Ops.CONST or (node.op is Ops.STACK and all(s.op is Ops.CONST for s in node.src))


#: Operations whose hidden sources are their own shape, which a box shows anyway.
_SHAPED: Final = GroupOp.Defines | {Ops.RESHAPE}


def _inline(node: UOp) -> str:
    return _arg(node) if node.op is Ops.CONST else f"({', '.join(_arg(s) for s in node.src)})"


@attrs.frozen
class Picture:
    """A graph of a gallery, with a line of text."""

    title: str
    detail: str
    graph: UOp


@attrs.frozen
class Box:
    """A box of a diagram. ``kind``: one of the classes of nodes, for its colour. ``notes``: further lines.
    ``sources``: numbers of earlier boxes that arrows come from."""

    title: str
    kind: str
    notes: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()


@attrs.frozen
class Diagram:
    """A drawing of boxes that are no nodes."""

    title: str
    detail: str
    boxes: tuple[Box, ...]


@attrs.frozen
class Gallery:
    """Headings, each with graphs and diagrams."""

    groups: tuple[tuple[str, tuple[Picture | Diagram, ...]], ...]


class _Nodes:
    """The table of nodes of a page: each node is described once."""

    def __init__(self) -> None:
        self.number: dict[UOp, int] = {}
        self.rows: list[dict[str, Any]] = []

    def add(self, root: UOp) -> int:
        for node in root.toposort(gate=lambda n: n not in self.number):
            self.number[node] = len(self.rows)
            self.rows.append(self._row(node))
        return self.number[root]

    def add_boxes(self, diagram: Diagram) -> int:
        """The number of a row that stands for the whole diagram: all boxes that nothing comes from."""
        first = len(self.rows)
        used = {s for b in diagram.boxes for s in b.sources}
        ends = [i for i in range(len(diagram.boxes)) if i not in used]
        if len(ends) > 1 or not diagram.boxes:
            diagram = attrs.evolve(diagram, boxes=(*diagram.boxes, Box("end", "structure", (), tuple(ends))))
        for b in diagram.boxes:
            self.rows.append(_box_row(b, first))
        return len(self.rows) - 1 if len(ends) != 1 else first + ends[0]

    def _row(self, node: UOp) -> dict[str, Any]:
        return {
            "op": node.op.name,
            "cls": _class_of(node.op),
            "dtype": node.dtype.name,
            "arg": _arg(node),
            "tag": "" if node.tag is None else repr(node.tag),
            "origin": origin_of(node) or "",
            "shape": _shape(node),
            "ranges": " ".join(range_name(r) for r in node.ranges),
            "src": [self.number[s] for s in node.src],
            "hidden": _hidden(node),
            "inline": node.op not in _SHAPED,
            "text": _inline(node) if _hidden(node) else "",
        }


def _box_row(box: Box, first: int) -> dict[str, Any]:
    plain = dict.fromkeys(("arg", "dtype", "tag", "shape", "ranges", "text"), "")
    return {
        **plain,
        "op": box.title,
        "cls": box.kind,
        "notes": list(box.notes),
        "src": [first + s for s in box.sources],
        "hidden": False,
        "inline": False,
    }


def _diagram(nodes: _Nodes, diagram: Diagram) -> dict[str, Any]:
    size = len(diagram.boxes)
    return {
        "title": diagram.title,
        "detail": diagram.detail,
        "root": nodes.add_boxes(diagram),
        "size": size,
        "drawn": size <= DRAWN,
        "changed": None,
    }


def _gallery(nodes: _Nodes, gallery: Gallery) -> list[dict[str, Any]]:
    groups = []
    for name, pictures in gallery.groups:
        rewrites = []
        for p in pictures:
            step = _diagram(nodes, p) if isinstance(p, Diagram) else _graph(nodes, p.graph, p.title, p.detail)
            rewrites.append({"name": p.title, "depth": 0, "steps": [step]})
        groups.append({"name": name, "rewrites": rewrites})
    return groups


def _graph(
    nodes: _Nodes, root: UOp, title: str, detail: str = "", changed: UOp | None = None
) -> dict[str, Any]:
    number = nodes.add(root)
    size = len(root.toposort())
    return {
        "title": title,
        "detail": detail,
        "root": number,
        "size": size,
        "drawn": size <= DRAWN,
        "changed": None if changed is None else nodes.add(changed),
    }


def _expression(node: UOp) -> str:
    """Infix text of a scalar expression that is small enough to read."""
    plain = GroupOp.Elementwise | GroupOp.Defines | {Ops.RANGE, Ops.CONST, Ops.STACK}
    order = node.toposort()
    if len(order) > 60 or any(n.op not in plain for n in order):
        return node.op.name
    text = infix(node)
    return text if len(text) <= 160 else text[:157] + "..."


def _label(before: UOp, after: UOp) -> str:
    """What a step did, in a few characters: the operations, or the text of a small result."""
    small = after.op in GroupOp.Defines or after.op in (Ops.CONST, Ops.RANGE)
    return f"{before.op.name} \u2192 {infix(after, 24) if small else after.op.name}"


def _record(nodes: _Nodes, trace: Trace, record: RewriteRecord) -> dict[str, Any]:
    first = trace.node(record.root)
    steps = [_graph(nodes, first, "before", f"{len(record.matches)} matches")]
    for i, step in enumerate(trace.replay(record)):
        if i == STEPS:
            steps.append({**steps[-1], "title": "...", "detail": f"{len(record.matches) - i} more steps"})
            break
        detail = f"{_expression(step.before)}  \u2192  {_expression(step.after)}"
        row = _graph(nodes, step.graph, f"{i + 1}: {step.rule}", detail, step.after)
        row["rule"] = step.text
        row["label"] = _label(step.before, step.after)
        row["place"] = step.rule
        row["from"] = nodes.add(step.before)
        steps.append(row)
    if record.result is not None:
        steps.append(_graph(nodes, trace.node(record.result), "after", ""))
    return {"name": record.name, "depth": record.depth, "steps": steps}


def document(content: UOp | Trace | Gallery, title: str = "uopgraph") -> dict[str, Any]:
    """The data of a page: ``{"title", "nodes": [...], "groups": [{"name", "rewrites": [{"name",
    "steps"}]}]}``."""
    nodes = _Nodes()
    profile: list[dict[str, Any]] = []
    if isinstance(content, Gallery):
        groups = _gallery(nodes, content)
    elif isinstance(content, UOp):
        steps = [_graph(nodes, content, "graph")]
        groups = [{"name": title, "rewrites": [{"name": "graph", "depth": 0, "steps": steps}]}]
    else:
        groups = [
            {"name": g.name, "rewrites": [_record(nodes, content, r) for r in g.rewrites]}
            for g in content.groups
        ]
        profile = [
            {
                "rule": s.location,
                "text": s.text,
                "hits": s.hits,
                "tries": s.tries,
                "ms": round(s.seconds * 1e3, 3),
            }
            for s in sorted(content.stats.values(), key=lambda s: -s.seconds)
        ]
    return {"title": title, "nodes": nodes.rows, "groups": groups, "profile": profile}


def html(content: UOp | Trace | Gallery, title: str = "uopgraph") -> str:
    """The page as text."""
    template = resources.files("uopgraph").joinpath("viz.html").read_text(encoding="utf-8")
    data = json.dumps(document(content, title), separators=(",", ":")).replace("</", "<\\/")
    return template.replace("__DATA__", data, 1)


def write(content: UOp | Trace | Gallery, path: str | Path, title: str = "uopgraph") -> Path:
    """Write the page to `path` and return it."""
    target = Path(path)
    target.write_text(html(content, title), encoding="utf-8")
    return target
