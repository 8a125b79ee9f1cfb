"""Kernel Tile IR: a typed SSA core, MLIR text in and out, verification, layouts."""

from __future__ import annotations

from pathlib import Path

from ktir.context import Context, Dialect
from ktir.dialects.builtin import Module
from ktir.edit import EditError, EditOp, Editor, edit
from ktir.errors import (
    Diagnostic,
    KtirError,
    Note,
    ParseError,
    RewriteLimitError,
    UnsupportedError,
    VerifyError,
)
from ktir.grid import GridError, grid_of
from ktir.interface import (
    Argument,
    ArgumentKind,
    ConstantBuffer,
    Role,
    SignatureError,
    constant_buffers,
    find_argument,
    find_function,
    signature,
)
from ktir.ir import Block, BlockArgument, Label, Operation, OpResult, Region, UnregisteredOp, Value
from ktir.layout import Layout, LayoutError, LinearLayout, StickLayout
from ktir.machine import AddressUnit, F16Format, GridOrder, Machine, MachineError
from ktir.parser import parse
from ktir.printer import print_module
from ktir.verifier import verify

__version__ = "0.1.0"


def load(path: str | Path, context: Context | None = None) -> Module:
    """Read a module from a file.  Raises `ParseError` or, if the file is not UTF-8 text, `KtirError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"not UTF-8 text: {error.reason}", str(path)) from error
    return parse(text, context, str(path))


__all__ = [
    "AddressUnit",
    "Argument",
    "ArgumentKind",
    "Block",
    "BlockArgument",
    "ConstantBuffer",
    "Context",
    "Diagnostic",
    "Dialect",
    "EditError",
    "EditOp",
    "Editor",
    "F16Format",
    "GridError",
    "GridOrder",
    "KtirError",
    "Label",
    "Layout",
    "LayoutError",
    "LinearLayout",
    "Machine",
    "MachineError",
    "Module",
    "Note",
    "OpResult",
    "Operation",
    "ParseError",
    "Region",
    "RewriteLimitError",
    "Role",
    "SignatureError",
    "StickLayout",
    "UnregisteredOp",
    "UnsupportedError",
    "Value",
    "VerifyError",
    "constant_buffers",
    "edit",
    "find_argument",
    "find_function",
    "grid_of",
    "load",
    "parse",
    "print_module",
    "signature",
    "verify",
]
