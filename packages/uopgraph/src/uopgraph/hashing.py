"""The content key: a hash of the structure, equal across processes."""

from __future__ import annotations

import enum
import hashlib
import struct
from typing import Any

import attrs

from uopgraph.dtype import DType, InvalidType
from uopgraph.errors import EncodingError
from uopgraph.node import UOp, derived


def encode_arg(arg: Any) -> bytes:
    """A canonical, prefix-free encoding of an argument. Raises :class:`EncodingError` for a type without one.

    Fields of records that take no part in equality are left out.
    """
    match arg:
        case None:
            return b"N"
        case bool():
            return b"T" if arg else b"F"
        case enum.Enum():
            return _sized(b"E", f"{type(arg).__name__}.{arg.name}".encode())
        case int():
            return _sized(b"I", str(arg).encode())
        case float():
            return b"R" + (b"nan-----" if arg != arg else struct.pack("<d", arg))
        case str():
            return _sized(b"S", arg.encode())
        case bytes():
            return _sized(b"B", arg)
        case tuple():
            return b"(" + b"".join(map(encode_arg, arg)) + b")"
        case InvalidType():
            return b"P"
        case DType():
            return _sized(b"D", arg.name.encode())
    if isinstance(arg, UOp):
        raise EncodingError("a UOp must not stand in arg")
    if attrs.has(type(arg)) and not isinstance(arg, type):
        fields = (f for f in attrs.fields(type(arg)) if f.eq)
        parts = b"".join(encode_arg(f.name) + encode_arg(getattr(arg, f.name)) for f in fields)
        return _sized(b"A", type(arg).__name__.encode()) + b"{" + parts + b"}"
    raise EncodingError(f"no canonical encoding for {type(arg).__name__}: {arg!r}")


def _sized(mark: bytes, data: bytes) -> bytes:
    return mark + str(len(data)).encode() + b":" + data


@derived("key")
def key_of(node: UOp) -> bytes:
    """SHA-256 over (op, dtype, arg) and the sources' keys; the tag is left out."""
    head = _sized(b"O", node.op.name.encode()) + _sized(b"D", node.dtype.name.encode()) + encode_arg(node.arg)
    return hashlib.sha256(head + b"|" + b"".join([s._cache["key"] for s in node.src])).digest()
