"""Nameless modules inside a module, and what is in them.

A file that holds something beside its ``module { ... }``, such as the declaration of a device, reads as a
module around that module.
"""

from __future__ import annotations

from ktir.attribute import Attribute
from ktir.dialects.builtin import Module
from ktir.errors import UnsupportedError
from ktir.ir import Operation, symbol_name


def flatten(module: Module) -> Module:
    """The module with the operations and attributes of nameless modules in it as its own.

    `UnsupportedError`, with the place, if the modules set an attribute to different values or define a symbol
    twice.  A module without nameless modules is returned as it is.
    """
    if not any(_is_nameless(op) for op in module.operations):
        return module
    operations: list[Operation] = []
    attributes: dict[str, Attribute | None] = dict(module.attributes)
    stack = list(reversed(module.operations))
    while stack:
        op = stack.pop()
        if not isinstance(op, Module) or not _is_nameless(op):
            operations.append(op)
            continue
        for name, value in op.attributes.items():
            if attributes.setdefault(name, value) != value:
                raise UnsupportedError(
                    f"a module in a module sets '{name}' to another value than the one around it", op.location
                )
        stack += reversed(op.operations)
    symbols: set[str] = set()
    for op in operations:
        symbol = symbol_name(op)
        if symbol in symbols:
            raise UnsupportedError(f"symbol '{symbol}' is defined in two modules of one file", op.location)
        symbols |= set() if symbol is None else {symbol}
    return module.with_operations(tuple(operations)).replace(attributes=attributes)


def _is_nameless(op: Operation) -> bool:
    return isinstance(op, Module) and symbol_name(op) is None
