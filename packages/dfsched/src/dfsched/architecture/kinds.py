"""Kinds: the names of classes of resources.

A kind is a Python string, or (for memories that are named by a memory space of a kernel dialect, by
an integer or by a dictionary) the attribute itself. Attributes compare structurally.
"""

from __future__ import annotations

from typing import TypeAlias

from ktir.attribute import Attribute
from ktir.attributes import StringAttr

__all__ = ["Kind", "kind_of", "kind_text", "sort_key"]

Kind: TypeAlias = str | Attribute


def kind_of(attribute: Attribute) -> Kind:
    """The kind that an attribute spells: a string attribute is its string, others are themselves."""
    return attribute.value if isinstance(attribute, StringAttr) and attribute.type is None else attribute


def kind_text(kind: Kind | None) -> str:
    """How a kind is shown to people: strings bare, attributes as their text, "(none)" for no kind."""
    return "(none)" if kind is None else str(kind)


def sort_key(kind: Kind) -> tuple[bool, str]:
    """Deterministic order of kinds: strings first."""
    return (not isinstance(kind, str), str(kind))
