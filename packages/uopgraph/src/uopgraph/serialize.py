"""The row table: a graph as a flat list that pickle and JSON carry without recursion."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import attrs

from uopgraph.args import AddrSpace, AxisType, BufferizeOpts, CallInfo, KernelInfo, ParamArg
from uopgraph.dtype import ConstFloat, DType, Invalid, InvalidType, dtype_by_name
from uopgraph.errors import EncodingError
from uopgraph.node import UOp, check_level, checking
from uopgraph.ops import Ops

#: (op, dtype, indices of sources, arg, tag); sources stand before users, the root is the last row.
Row: TypeAlias = tuple[Ops, DType, tuple[int, ...], Any, Any]


def to_rows(root: UOp) -> tuple[Row, ...]:
    """The graph under `root` as rows."""
    number: dict[UOp, int] = {}
    rows: list[Row] = []
    for node in root.toposort():
        number[node] = len(rows)
        rows.append((node.op, node.dtype, tuple([number[s] for s in node.src]), node.arg, node.tag))
    return tuple(rows)


def from_rows(rows: tuple[Row, ...]) -> UOp:
    """The node that :func:`to_rows` described; an existing structure gives the live object."""
    nodes: list[UOp] = []
    for op, dtype, src, arg, tag in rows:
        nodes.append(UOp(op, dtype, tuple([nodes[i] for i in src]), arg, tag))
    if not nodes:
        raise EncodingError("an empty row table has no root")
    return nodes[-1]


#: Records and enumerations that may stand in an argument.
RECORDS: Final[dict[str, type]] = {c.__name__: c for c in (ParamArg, CallInfo, KernelInfo, BufferizeOpts)}
_ENUMS: Final[dict[str, Any]] = {c.__name__: c for c in (Ops, AxisType, AddrSpace)}


def register_record(record: type) -> type:
    """Let a frozen attrs class stand in arguments of serialised graphs (a class decorator)."""
    if RECORDS.setdefault(record.__name__, record) is not record:
        raise EncodingError(f"two records are called {record.__name__}")
    return record


def arg_to_json(arg: Any) -> Any:
    """An argument as JSON data: plain values as they are, others as ``{"kind": value}``."""
    if arg is None or isinstance(arg, bool | str):
        return arg
    if isinstance(arg, Ops | AxisType | AddrSpace):
        return {"enum": [type(arg).__name__, arg.name]}
    if isinstance(arg, int):
        return arg if abs(arg) < 2**53 else {"int": str(arg)}
    if isinstance(arg, float):
        return {"float": float(arg).hex() if math.isfinite(arg) else repr(float(arg))}
    if isinstance(arg, InvalidType):
        return {"invalid": True}
    if isinstance(arg, DType):
        return {"dtype": arg.name}
    if isinstance(arg, bytes):
        return {"bytes": arg.hex()}
    if isinstance(arg, tuple):
        return [arg_to_json(a) for a in arg]
    if RECORDS.get(type(arg).__name__) is type(arg):
        shown = {
            f.name: arg_to_json(getattr(arg, f.name))
            for f in attrs.fields(cast(Any, type(arg)))
            if f.eq and getattr(arg, f.name) != f.default
        }
        return {"record": [type(arg).__name__, shown]}
    raise EncodingError(f"no JSON form for an argument of type {type(arg).__name__}: {arg!r}")


def _record(name: str, fields: dict[str, Any]) -> Any:
    return RECORDS[name](**{k: arg_from_json(v) for k, v in fields.items()})


_KINDS: Final[dict[str, Callable[[Any], Any]]] = {
    "enum": lambda v: _ENUMS[v[0]][v[1]],
    "int": int,
    "float": lambda v: ConstFloat(float.fromhex(v)),
    "invalid": lambda _: Invalid,
    "dtype": dtype_by_name,
    "bytes": bytes.fromhex,
    "record": lambda v: _record(*v),
}


def arg_from_json(data: Any) -> Any:
    """The inverse of :func:`arg_to_json`. Raises :class:`EncodingError` for data that is not of that form."""
    if isinstance(data, list):
        return tuple(arg_from_json(d) for d in data)
    if not isinstance(data, dict):
        return data
    try:
        ((kind, value),) = data.items()
        return _KINDS[kind](value)
    except (KeyError, ValueError, TypeError, IndexError) as e:
        raise EncodingError(f"not an argument: {data!r}") from e


FORMAT: Final = 1


def to_json(root: UOp) -> str:
    """The graph as JSON text: ``{"uopgraph": 1, "rows": [[op, dtype, [sources], arg, tag], ...]}``."""
    rows = [
        [op.name, d.name, list(src), arg_to_json(arg), arg_to_json(tag)]
        for op, d, src, arg, tag in to_rows(root)
    ]
    head = json.dumps({"uopgraph": FORMAT})[:-1]
    return f"{head}, " + '"rows": [\n' + ",\n".join(json.dumps(r) for r in rows) + "\n]}"


def from_json(text: str) -> UOp:
    """The inverse of :func:`to_json`; every node is checked as at check level 2 whatever level is in force.

    Raises :class:`EncodingError` naming the row that is wrong.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as e:
        raise EncodingError(f"not JSON: {e}") from e
    if not isinstance(data, dict) or data.get("uopgraph") != FORMAT or not isinstance(data.get("rows"), list):
        raise EncodingError(f"not a uopgraph document of format {FORMAT}")
    with checking(max(2, check_level())):
        nodes = _nodes(data["rows"])
    if not nodes:
        raise EncodingError("a document without rows has no root")
    return nodes[-1]


def _nodes(rows: list[Any]) -> list[UOp]:
    nodes: list[UOp] = []
    for i, row in enumerate(rows):
        try:
            op, dtype, src, arg, tag = row
            if not all(isinstance(s, int) and 0 <= s < i for s in src):
                raise EncodingError(f"sources {src} of row {i}")
            sources = tuple([nodes[s] for s in src])
            nodes.append(UOp(Ops[op], dtype_by_name(dtype), sources, arg_from_json(arg), arg_from_json(tag)))
        except Exception as e:
            raise EncodingError(f"row {i}: {e}") from e
    return nodes
