"""Variables of an expression and its value for given ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from uopgraph.args import AxisType
from uopgraph.constfold import fold, trunc_div
from uopgraph.dtype import Invalid, dtypes
from uopgraph.errors import BoundError, UnsupportedError
from uopgraph.node import UOp
from uopgraph.ops import GroupOp, Ops


def variables(node: UOp) -> list[UOp]:
    """The distinct Variables below `node`, unbound, sorted by name, with ``_device_num`` in ``[0, n-1]`` for
    each DEVICE range."""
    found: dict[UOp, None] = {}
    for n in node.toposort():
        if n.is_variable:
            found[n.unbound()] = None
        elif n.op is Ops.RANGE and n.arg[-1] is AxisType.DEVICE:
            found[UOp.variable("_device_num", 0, int(n.src[0].vmax) - 1)] = None
    return sorted(found, key=lambda v: v.expr)


def sym_infer(node: UOp | int, values: Mapping[str, int]) -> Any:
    """The value of an expression over Variables. Bound Variables keep their own value unless `values` names
    them.

    Index arithmetic becomes a Python function on first use, which is kept on the node. Raises
    :class:`BoundError` for a Variable without a value.
    """
    if not isinstance(node, UOp):
        return node
    function = node._cache.get("sym_infer")
    if function is None:
        function = node._cache["sym_infer"] = _compiled(node)
    try:
        if function is not _interpreted:
            return function(values)
    except (KeyError, ZeroDivisionError):  # interpreting says what is wrong
        pass
    return evaluate(node, lambda n: _variable(n, values))


def _interpreted(values: Mapping[str, int]) -> Any:
    """Stands for an expression that is interpreted."""
    raise NotImplementedError


_PYTHON: Final[dict[Ops, str]] = {
    Ops.ADD: "{} + {}",
    Ops.SUB: "{} - {}",
    Ops.MUL: "{} * {}",
    Ops.FLOORDIV: "{} // {}",
    Ops.FLOORMOD: "{} % {}",
    Ops.MAX: "max({}, {})",
    Ops.CDIV: "cdiv({}, {})",
    Ops.CMOD: "cmod({}, {})",
    Ops.NEG: "-{}",
    Ops.AND: "{} & {}",
    Ops.OR: "{} | {}",
    Ops.XOR: "{} ^ {}",
    Ops.CMPLT: "{} < {}",
    Ops.CMPNE: "{} != {}",
    Ops.CMPEQ: "{} == {}",
    Ops.WHERE: "{1} if {0} else {2}",
}


def _compiled(root: UOp) -> Callable[[Mapping[str, int]], Any]:
    """``f(values)`` for an expression of weak integers and bools; others are interpreted. One statement a
    node: depth does not matter."""
    names: dict[UOp, str] = {}
    lines = ["def f(v):"]
    for n in root.toposort(gate=lambda n: n.op not in GroupOp.Defines or n.is_variable):
        if n.op is Ops.STACK and not n.src:
            continue  # the shape of a Variable
        text = _python(n, names)
        if text is None:
            return _interpreted
        names[n] = f"t{len(names)}"
        lines.append(f"  {names[n]} = {text}")
    lines.append(f"  return {names[root]}")
    scope: dict[str, Any] = {"cdiv": trunc_div, "cmod": lambda a, b: a - trunc_div(a, b) * b}
    exec("\n".join(lines), scope)
    return cast("Callable[[Mapping[str, int]], Any]", scope["f"])


def _python(node: UOp, names: Mapping[UOp, str]) -> str | None:
    """The Python text of one operation, None for what is no plain index arithmetic."""
    if node.dtype is not dtypes.weakint and node.dtype is not dtypes.bool:
        return None
    if node.op is Ops.CONST:
        return None if node.is_invalid else repr(node.arg)
    if node.is_variable:
        own = "" if node.arg.val is None else f" if {node.expr!r} in v else {node.arg.val!r}"
        return f"v[{node.expr!r}]{own}"
    form = _PYTHON.get(node.op)
    if form is None or any(s.dtype is not node.dtype and node.op not in _MIXED for s in node.src):
        return None
    if node.dtype is dtypes.bool and node.op not in _MIXED | GroupOp.Bitwise:
        return None
    return form.format(*(names[s] for s in node.src))


_MIXED: Final = GroupOp.Comparison | {Ops.WHERE}


def _variable(node: UOp, values: Mapping[str, int]) -> int:
    if node.op is Ops.RANGE and node.arg[-1] is AxisType.DEVICE and "_device_num" in values:
        return values["_device_num"]
    if not node.is_variable:
        raise UnsupportedError(f"value of {node.op.name}")
    if node.expr in values:
        return values[node.expr]
    if node.arg.val is not None:
        return int(node.arg.val)
    raise BoundError(f"no value for the Variable {node.expr}")


def evaluate(root: UOp, leaf: Any) -> Any:
    """The value of a scalar expression in its dtypes' own arithmetic; `leaf` gives the value of what is no
    CONST and no element-wise operation. A poisoned value is Invalid."""
    known: dict[UOp, Any] = {}
    for n in root.toposort(gate=lambda n: n.op not in GroupOp.Defines and n.op is not Ops.RANGE):
        if n.op is Ops.CONST:
            known[n] = n.arg
        elif n.op in GroupOp.Elementwise:
            parts = []
            for s in n.src:
                if s not in known:
                    known[s] = leaf(s)
                parts.append(known[s])
            known[n] = _apply(n, parts)
        else:
            known[n] = leaf(n)
    return known[root] if root in known else leaf(root)


def _apply(node: UOp, parts: list[Any]) -> Any:
    if node.op is Ops.WHERE:
        if parts[0] is Invalid:
            return Invalid
        chosen = 1 if parts[0] else 2
        if parts[chosen] is Invalid:
            return Invalid
        return fold(Ops.CAST, node.dtype, [node.src[chosen].dtype], [parts[chosen]])
    if any(p is Invalid for p in parts):
        return Invalid
    value = fold(node.op, node.dtype, [s.dtype for s in node.src], parts)
    if value is None:
        raise UnsupportedError(f"value of {node.op.name}")
    return value
