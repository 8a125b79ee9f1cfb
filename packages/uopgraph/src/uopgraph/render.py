"""Text forms: the tree (``repr``), infix expressions and the flat dump."""

from __future__ import annotations

from typing import Any, Final

from uopgraph.args import AddrSpace, AxisType, BufferizeOpts, CallInfo, KernelInfo, ParamArg
from uopgraph.dtype import ConstFloat, Invalid, InvalidType, dtypes
from uopgraph.errors import EncodingError
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops


def tree(root: UOp, limit: int = 2000) -> str:
    """One node per line, indented by depth, a node used more than once is written once and named.

    Indentation stops growing at 40 levels. After `limit` lines the rest is counted, not written.
    """
    order = root.toposort()
    uses: dict[UOp, int] = dict.fromkeys(order, 0)
    for node in order:
        for s in node.src:
            uses[s] += 1
    names: dict[UOp, str] = {}
    lines: list[str] = []
    stack: list[tuple[UOp, int]] = [(root, 0)]
    while stack and len(lines) < limit:
        node, depth = stack.pop()
        pad = " " * (2 * min(depth, 40))
        if node in names:
            lines.append(f"{pad}{names[node]}")
            continue
        label = ""
        if uses[node] > 1:
            names[node] = f"x{len(names)}"
            label = f"{names[node]}:="
        lines.append(f"{pad}{label}{_head(node)}")
        stack += [(s, depth + 1) for s in reversed(node.src)]
    if stack:
        lines.append(f"... {len(order)} nodes in all")
    return "\n".join(lines)


def _head(node: UOp) -> str:
    tag = "" if node.tag is None else f", tag={node.tag!r}"
    return f"UOp({node.op.name}, {node.dtype.name}, arg={node.arg!r}{tag})"


def dump(root: UOp) -> str:
    """A flat dump: one line a node, sources before users, ``%n = OP dtype [shape] %a %b arg``. O(nodes)."""
    number: dict[UOp, int] = {}
    lines = []
    for i, node in enumerate(root.toposort()):
        number[node] = i
        src = "".join(f" %{number[s]}" for s in node.src)
        arg = "" if node.arg is None else f" {node.arg!r}"
        tag = "" if node.tag is None else f" tag={node.tag!r}"
        lines.append(f"%{i} = {node.op.name} {node.dtype.name}{src}{arg}{tag}")
    return "\n".join(lines)


_INFIX: Final[dict[Ops, tuple[str, int]]] = {
    Ops.MUL: ("*", 9),
    Ops.FLOORDIV: ("//", 9),
    Ops.FLOORMOD: ("%", 9),
    Ops.FDIV: ("/", 9),
    Ops.ADD: ("+", 8),
    Ops.SUB: ("-", 8),
    Ops.SHL: ("<<", 7),
    Ops.SHR: (">>", 7),
    Ops.AND: ("&", 6),
    Ops.XOR: ("^", 5),
    Ops.OR: ("|", 4),
    Ops.CMPLT: ("<", 3),
    Ops.CMPNE: ("!=", 3),
    Ops.CMPEQ: ("==", 3),
}
_ATOM: Final = 20


def range_name(node: UOp) -> str:
    """``r<ids>`` of a RANGE, negative ids with an underscore."""
    return "r" + "_".join(str(i).replace("-", "m") for i in node.arg if not isinstance(i, AxisType))


def infix(root: UOp, limit: int = 20_000) -> str:
    """Infix text of an expression: Python's operators and precedence, ``//`` and ``%`` floor,
    ``(t if c else f)``, ranges as ``r<ids>``, Variables by name.

    A shared part is written at each use, which can be exponential: a part of more than `limit` characters is
    written as ``<OP...>``.
    """
    text: dict[UOp, tuple[str, int]] = {}
    for node in root.toposort():
        found = _infix_node(node, [text[s] for s in node.src])
        text[node] = found if len(found[0]) <= limit else (f"<{node.op.name}...>", _ATOM)
    return text[root][0]


def _leaf(node: UOp) -> str:
    if node.op is Ops.CONST:
        if isinstance(node.arg, InvalidType):
            return "Invalid"
        return str(node.arg)
    if node.op is Ops.RANGE:
        return range_name(node)
    arg: ParamArg = node.arg
    if arg.name is not None:
        return arg.name
    return {Ops.PARAM: "p", Ops.BUFFER: "buf", Ops.ALLOC: "alloc"}[node.op] + str(arg.slot).replace("-", "m")


def _infix_node(node: UOp, parts: list[tuple[str, int]]) -> tuple[str, int]:
    op = node.op
    if op in GroupOp.Defines or op in (Ops.CONST, Ops.RANGE):
        text = _leaf(node)
        return (f"({text})" if text.startswith("-") else text, _ATOM)
    if op is Ops.CMPNE and node.src[1].op is Ops.CONST and node.src[1].arg is True:
        return (f"(not {parts[0][0]})", _ATOM)
    if op is Ops.ADD and node.src[1].op is Ops.CONST and _negative(node.src[1].arg):
        return (f"{_wrapped(parts[0], 8)}-{-node.src[1].arg}", 8)
    if op in _INFIX:
        symbol, level = _INFIX[op]
        left = level + 1 if op in GroupOp.Comparison else level  # Python chains comparisons
        return (f"{_wrapped(parts[0], left)}{symbol}{_wrapped(parts[1], level + 1)}", level)
    texts = [t for t, _ in parts]
    if op is Ops.WHERE:
        return (f"({texts[1]} if {texts[0]} else {texts[2]})", _ATOM)
    if op in GroupOp.Cast:
        call = node.dtype.name if op is Ops.CAST else f"bitcast_{node.dtype.name}"
        return (f"{call}({texts[0]})", _ATOM)
    if op is Ops.INDEX:
        return (f"{texts[0]}[{', '.join(texts[1:])}]", _ATOM)
    return (f"{op.name.lower()}({', '.join(texts)}{_infix_arg(node)})", _ATOM)


def _negative(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < 0


def _wrapped(part: tuple[str, int], level: int) -> str:
    text, own = part
    return text if own >= level else f"({text})"


def _infix_arg(node: UOp) -> str:
    return "" if node.arg is None else f", {node.arg!r}"


def pyrender(root: UOp) -> str:
    """A Python program of assignments that builds the exact node again; :func:`pyeval` runs it.

    Arguments are written by their ``repr``; one that cannot be read back makes :func:`pyeval` fail.
    """
    number: dict[UOp, int] = {}
    lines = []
    for i, node in enumerate(root.toposort()):
        number[node] = i
        src = "".join(f"c{number[s]}, " for s in node.src)
        parts = [f"Ops.{node.op.name}", repr(node.dtype), f"({src.rstrip()})"]
        if node.arg is not None or node.tag is not None:
            parts.append(repr(node.arg))
        if node.tag is not None:
            parts.append(repr(node.tag))
        lines.append(f"c{i} = UOp({', '.join(parts)})")
    return "\n".join(lines)


def pyeval(text: str) -> UOp:
    """Run the text of :func:`pyrender`: the node of its last line. Only for text that you trust."""
    names: dict[str, Any] = {c.__name__: c for c in (UOp, Ops, dtypes, AxisType, AddrSpace, ConstFloat)}
    names.update((c.__name__, c) for c in (ParamArg, CallInfo, KernelInfo, BufferizeOpts))
    names.update(Invalid=Invalid, inf=ConstFloat("inf"), nan=ConstFloat("nan"))
    exec(text, names)
    node = names[text.rsplit("\n", 1)[-1].split(" ", 1)[0]]
    if not isinstance(node, UOp):
        raise EncodingError("the program does not end in a node")
    return node
