"""The parameters of opaque operations: attributes as MLIR text."""

from __future__ import annotations

from collections.abc import Sequence

from ktir import Context, KtirError, parse
from ktir.attributes import DictAttr
from spyresim.errors import Site, UnsupportedError


def parse_parameters(parameters: Sequence[tuple[str, str]], site: Site) -> DictAttr:
    """Names and texts as a dictionary attribute; `UnsupportedError` for text that does not parse."""
    if not parameters:
        return DictAttr()
    body = ", ".join(f'"{name}" = {text}' for name, text in parameters)
    try:
        return parse(f"module attributes {{{body}}} {{}}", Context(installed=False)).attributes
    except KtirError as error:
        raise UnsupportedError(f"parameters of an opaque operation: {error}", site) from error
