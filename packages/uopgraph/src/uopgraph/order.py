"""The deterministic total order of nodes that sorts commutative operands.

Nodes compare by (operation, arg, dtype, number of sources, tag) and then by their first differing source.
Equal structures are the same object, so the comparison walks down one path and never recurses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

from uopgraph.args import ParamArg
from uopgraph.dtype import DType, InvalidType
from uopgraph.hashing import encode_arg
from uopgraph.node import UOp


def _arg_key(arg: Any) -> tuple[Any, ...]:
    """Arguments in an order that any two of them have: by kind, then by value."""
    if arg is None:
        return (0,)
    if isinstance(arg, InvalidType):
        return (9,)
    if isinstance(arg, bool | int):
        return (1, int(arg))
    if isinstance(arg, float):
        return (2, math.isnan(arg), 0.0 if math.isnan(arg) else float(arg), math.copysign(1.0, arg))
    if isinstance(arg, str):
        return (3, arg)
    if isinstance(arg, DType):
        return (4, arg.priority, arg.bitsize, arg.name)
    if isinstance(arg, tuple):
        return (5, *(_arg_key(a) for a in arg))
    if isinstance(arg, ParamArg):
        return (6, arg.slot, arg.name or "", encode_arg(arg))
    return (7, encode_arg(arg))


def _key_of_arg(node: UOp) -> tuple[Any, ...]:
    found = node._cache.get("arg_key")
    if found is None:
        found = node._cache["arg_key"] = _arg_key(node.arg)
    return found


def _compare_args(a: UOp, b: UOp) -> int:
    if a.arg is b.arg:
        return 0
    x, y = _key_of_arg(a), _key_of_arg(b)
    return 0 if x == y else -1 if x < y else 1


def compare(a: UOp, b: UOp) -> int:
    """-1, 0 or 1; 0 only for the same object."""
    while a is not b:
        if a.op is not b.op:
            return -1 if a.op < b.op else 1
        c = _compare_args(a, b)
        if c:
            return c
        if a.dtype is not b.dtype:
            return -1 if a.dtype < b.dtype else 1
        if len(a.src) != len(b.src):
            return -1 if len(a.src) < len(b.src) else 1
        if a.tag != b.tag:
            x, y = repr(a.tag), repr(b.tag)
            return -1 if x < y else 1
        a, b = next((x, y) for x, y in zip(a.src, b.src, strict=True) if x is not y)
    return 0


#: The key for :func:`sorted`.
order_key = functools.cmp_to_key(compare)


def in_order(nodes: Iterable[UOp]) -> list[UOp]:
    """The nodes sorted by the order key."""
    return sorted(nodes, key=order_key)
