"""What an unknown name may have been meant to be: notes for syntax errors."""

from __future__ import annotations

from collections.abc import Iterable

from ktir.context import Context

__all__ = ["closest", "for_attribute", "for_operation", "for_type"]


def closest(name: str, known: Iterable[str], sigil: str = "") -> tuple[str, ...]:
    """``did you mean '%x'?`` for the most similar known name, nothing if none is similar."""
    from difflib import get_close_matches

    return tuple(f"did you mean '{sigil}{found}'?" for found in get_close_matches(name, list(known), 1))


def for_operation(name: str, context: Context) -> tuple[str, ...]:
    """Notes for an operation that the context does not know."""
    from ktir.dialects.ktdp import PROPOSED

    if name in (proposal.definition.name for proposal in PROPOSED):
        return ("this operation is a proposal: allow it with Context(proposed=True), --proposed",)
    dialect, dot, _ = name.partition(".")
    if dot and not context.has_dialect(dialect):
        return (
            f"dialect '{dialect}' is not known; its operations are read in generic form: \"{name}\"(...)",
        )
    return closest(name, [op.definition.name for d in context.dialects for op in d.operations])


def for_type(mnemonic: str, dialect: str, context: Context) -> tuple[str, ...]:
    """Notes for a type that a known dialect does not have."""
    return _members(mnemonic, [t.mnemonic for d in context.dialects if d.name == dialect for t in d.types])


def for_attribute(mnemonic: str, dialect: str, context: Context) -> tuple[str, ...]:
    """Notes for an attribute that a known dialect does not have."""
    return _members(
        mnemonic, [a.mnemonic for d in context.dialects if d.name == dialect for a in d.attributes]
    )


def _members(mnemonic: str, full: Iterable[str]) -> tuple[str, ...]:
    known = sorted(name.partition(".")[2] for name in full)
    return closest(mnemonic, known) or ((f"there are: {', '.join(known)}",) if known else ())
