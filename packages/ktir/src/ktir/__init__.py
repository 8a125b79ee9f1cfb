"""Kernel Tile IR: a typed SSA core, MLIR text in and out, verification, layouts.

Names are imported on first use, and NumPy only where arrays or single points of sets are asked for, so that
importing the package and reading text cost little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ktir.context import Context, Dialect
    from ktir.dialects.builtin import Module
    from ktir.editor import EditError, EditOp, Editor, edit
    from ktir.errors import (
        DeclarationError,
        Diagnostic,
        KtirError,
        Note,
        ParseError,
        RewriteLimitError,
        TypeQueryError,
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
    from ktir.levels import Level, check
    from ktir.machine import AddressUnit, F16Format, GridOrder, Machine, MachineError
    from ktir.parser import parse
    from ktir.printer import print_module
    from ktir.verifier import verify

__version__ = "0.1.0"

_HOMES = {
    "AddressUnit": "ktir.machine",
    "Argument": "ktir.interface",
    "ArgumentKind": "ktir.interface",
    "Block": "ktir.ir",
    "BlockArgument": "ktir.ir",
    "ConstantBuffer": "ktir.interface",
    "Context": "ktir.context",
    "DeclarationError": "ktir.errors",
    "Diagnostic": "ktir.errors",
    "Dialect": "ktir.context",
    "EditError": "ktir.editor",
    "EditOp": "ktir.editor",
    "Editor": "ktir.editor",
    "F16Format": "ktir.machine",
    "GridError": "ktir.grid",
    "GridOrder": "ktir.machine",
    "KtirError": "ktir.errors",
    "Label": "ktir.ir",
    "Layout": "ktir.layout",
    "LayoutError": "ktir.layout",
    "Level": "ktir.levels",
    "LinearLayout": "ktir.layout",
    "Machine": "ktir.machine",
    "MachineError": "ktir.machine",
    "Module": "ktir.dialects.builtin",
    "Note": "ktir.errors",
    "OpResult": "ktir.ir",
    "Operation": "ktir.ir",
    "ParseError": "ktir.errors",
    "Region": "ktir.ir",
    "RewriteLimitError": "ktir.errors",
    "Role": "ktir.interface",
    "SignatureError": "ktir.interface",
    "StickLayout": "ktir.layout",
    "TypeQueryError": "ktir.errors",
    "UnregisteredOp": "ktir.ir",
    "UnsupportedError": "ktir.errors",
    "Value": "ktir.ir",
    "VerifyError": "ktir.errors",
    "check": "ktir.levels",
    "constant_buffers": "ktir.interface",
    "edit": "ktir.editor",
    "find_argument": "ktir.interface",
    "find_function": "ktir.interface",
    "grid_of": "ktir.grid",
    "parse": "ktir.parser",
    "print_module": "ktir.printer",
    "signature": "ktir.interface",
    "verify": "ktir.verifier",
}


def load(path: str | Path, context: Context | None = None) -> Module:
    """Read a module from a file.

    Raises `ParseError` (also where the file is not MLIR text: the message says what it is), `OSError`.
    """
    from ktir.parser import parse
    from ktir.recognition import read_text

    return parse(read_text(path), context, str(path))


__all__ = [
    "AddressUnit",
    "Argument",
    "ArgumentKind",
    "Block",
    "BlockArgument",
    "ConstantBuffer",
    "Context",
    "DeclarationError",
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
    "Level",
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
    "TypeQueryError",
    "UnregisteredOp",
    "UnsupportedError",
    "Value",
    "VerifyError",
    "check",
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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
