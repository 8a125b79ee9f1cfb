"""The def-use graph of a program in the language of Graphviz.

One node for each operation and block argument, one edge from what defines a value to what uses it, one box
for each block of a region; branches are dashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktir.analysis import DefUse
from ktir.ir import Block, Operation, Value, symbol_name
from ktir.naming import Names
from ktir.printer import attribute_text

__all__ = ["dot"]

LABEL_WIDTH = 60
"""Attributes longer than this are cut in labels."""


def dot(root: Operation) -> str:
    """A ``digraph`` of everything below `root` (a module or a function), the same text in every run."""
    return "\n".join(_Drawing(root).lines()) + "\n"


class _Drawing:
    def __init__(self, root: Operation) -> None:
        self._root = root
        self._names = Names(root)
        self._defuse = DefUse(root)
        self._nodes: dict[Operation | Value, str] = {}

    def lines(self) -> Iterator[str]:
        yield "digraph ktir {"
        yield '  graph [compound=true, fontname="monospace"];'
        yield '  node [shape=box, fontname="monospace"];'
        yield '  edge [fontname="monospace"];'
        yield from self._drawn()
        yield from self._flow()
        yield "}"

    def _drawn(self) -> Iterator[str]:
        """Nodes inside boxes; without recursion, so that depth is no limit."""
        clusters = 0
        stack: list[Operation | tuple[Operation, int, Block] | str] = [self._root]
        depth = 1
        while stack:
            match stack.pop():
                case str(closing):
                    depth -= 1
                    yield "  " * depth + closing
                case (owner, number, block):
                    title = f"{owner.name} {number}" if len(owner.regions) > 1 else owner.name
                    if len(owner.regions[number].blocks) > 1:
                        title += f" {self._names.block(block.label)}"
                    yield "  " * depth + f"subgraph cluster_{clusters} {{"
                    clusters += 1
                    depth += 1
                    yield "  " * depth + f"label={_quoted(title)};"
                    for argument in block.arguments:
                        text = f"{self._names.value(argument)}: {argument.type}"
                        yield "  " * depth + f"{self._node(argument)} [shape=ellipse, label={_quoted(text)}];"
                    stack.append("}")
                    stack += reversed(block.operations)
                case op:
                    yield "  " * depth + f"{self._node(op)} [label={_quoted(self._label(op))}];"
                    inner = [(op, n, block) for n, region in enumerate(op.regions) for block in region.blocks]
                    stack += reversed(inner)

    def _node(self, thing: Operation | Value) -> str:
        return self._nodes.setdefault(thing, f"n{len(self._nodes)}")

    def _label(self, op: Operation) -> str:
        """The operation as on one line of text: results, name, symbol, attributes, types of results."""
        lines = [op.name]
        if (symbol := symbol_name(op)) is not None:
            lines = [f"{op.name} @{symbol}"]
        elif op.results:
            lines = [f"{', '.join(self._names.value(result) for result in op.results)} = {op.name}"]
        for name, value in op.attributes.items():
            if name in ("sym_name", "function_type", "operandSegmentSizes"):
                continue
            text = f"{name} = {attribute_text(value)}"
            lines.append(text if len(text) <= LABEL_WIDTH else f"{text[: LABEL_WIDTH - 3]}...")
        if op.results:
            lines.append(f": {', '.join(str(result.type) for result in op.results)}")
        return "\n".join(lines)

    def _flow(self) -> Iterator[str]:
        """Edges of values and, dashed, of branches (to the first node of the block)."""
        entries: Mapping[object, Block] = {
            block.label: block for op in self._root.walk() for r in op.regions for block in r.blocks
        }
        for op in self._root.walk():
            for value in op.operands:
                source = self._source(value)
                if source is not None:
                    yield f"  {source} -> {self._node(op)} [label={_quoted(self._names.value(value))}];"
            for label in op.successors:
                block = entries.get(label)
                if block is not None and (block.arguments or block.operations):
                    target = self._node(block.arguments[0] if block.arguments else block.operations[0])
                    yield f"  {self._node(op)} -> {target} [style=dashed];"

    def _source(self, value: Value) -> str | None:
        return self._nodes.get(self._defuse.definer(value) or value)


def _quoted(text: str) -> str:
    """A label; its lines are flush left."""
    lines = text.replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return f'"{lines[0]}"' if len(lines) == 1 else '"' + "".join(f"{line}\\l" for line in lines) + '"'
