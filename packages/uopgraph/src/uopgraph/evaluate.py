"""Variables of an expression and its value for given ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uopgraph.args import AxisType
from uopgraph.constfold import fold
from uopgraph.dtype import Invalid
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

    Raises :class:`BoundError` for a Variable without a value.
    """
    if not isinstance(node, UOp):
        return node
    return evaluate(node, lambda n: _variable(n, values))


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
